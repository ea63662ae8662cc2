"""What is told of a vector segment without a search, under pylance's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lancelet.index.vector.metric import Metric

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder
    from lancelet.index.vector.files import VectorHeads

_FILE: Final = "index.idx"
_PLACES: Final = ("codebook_position", "codebook_tensor")
"""What files say about places in themselves."""


def segment_statistics(folder: IndexFolder, heads: VectorHeads) -> Mapping[str, Any]:
    """What the heads of its files tell."""
    inner = {key: value for key, value in heads.about.items() if key not in _PLACES}
    graph = heads.graphs[0] if heads.graphs and isinstance(heads.graphs[0], dict) else {}
    entry = folder.entry
    place = folder.snapshot.places.index_file(str(entry.uuid), _FILE, entry.base_id)
    metric = heads.metric.value
    # Product quantization compares vectors of length 1, for which both metrics give one order.
    compares_unit = heads.metric is Metric.COSINE and "num_sub_vectors" in inner and heads.version == "V3"
    told = "l2" if compares_unit else metric
    kind = "HNSW" if heads.graphs else heads.index_type.rpartition("_")[2]
    return {
        "index_type": heads.index_type,
        "uuid": str(entry.uuid),
        "uri": place.full_path,
        "metric_type": metric,
        "num_partitions": len(heads.extents),
        "sub_index": {**graph, **inner, "index_type": kind, "metric_type": told},
        "partitions": [{"size": size} for size in heads.extents.lengths.tolist()],
        "centroids": heads.centroids.tolist(),
        "loss": heads.loss,
        "index_file_version": heads.version,
    }
