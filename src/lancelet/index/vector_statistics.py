"""What the files of a vector index tell of it without a search (spec indices.md 14.1).

``index.idx`` has the centroids and the kind, ``auxiliary.idx`` the sizes of the partitions and how vectors are stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lancelet.errors import LanceletError
from lancelet.file.container import Container
from lancelet.format.proto import vector_index_pb2
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.index.metadata import IndexMetadata
    from lancelet.table.manifest.snapshot import Snapshot

FILE = "index.idx"
STORAGE = "auxiliary.idx"
_TYPES = {1: "<f2", 2: "<f4", 3: "<f8", 4: "<u1", 5: "<u2", 6: "<u4", 7: "<u8"}
_GRAPH = "lance:hnsw"
_INNER = ("codebook_position", "codebook_tensor")
"""Entries about places in the file."""


def vector_statistics(snapshot: Snapshot, entry: IndexMetadata, kind: str) -> dict[str, Any]:
    """Statistics under pylance's names; of indices of old, which have other files, only what the manifest tells."""
    place = snapshot.places.index_file(str(entry.uuid), FILE, entry.base_id)
    shown: dict[str, Any] = {"index_type": kind, "uuid": str(entry.uuid), "uri": place.full_path}
    try:
        head, model = _open(snapshot, entry, FILE)
        storage, partitions = _open(snapshot, entry, STORAGE)
        about = json.loads(head["lance:index"])
        stored = json.loads(json.loads(storage["storage_metadata"])[0])
        graph = json.loads(json.loads(head[_GRAPH])[0]) if _GRAPH in head else {}
        sizes = list(partitions.lengths)
        centroids = _values(model.centroids_tensor)
        loss = model.loss if model.HasField("loss") else None
    except (LanceletError, ValueError, KeyError, IndexError, TypeError):
        return shown
    metric = about.get("distance_type")
    inner = {key: value for key, value in stored.items() if key not in _INNER}
    return {
        **shown,
        "metric_type": metric,
        "num_partitions": len(sizes),
        "sub_index": {
            **graph,
            **inner,
            "index_type": "HNSW" if graph else kind.rpartition("_")[2],
            # Product quantization compares vectors of length 1, for which both metrics give one order.
            "metric_type": "l2" if metric == "cosine" and "num_sub_vectors" in inner else metric,
        },
        "partitions": [{"size": size} for size in sizes],
        "centroids": centroids,
        "loss": loss,
        "index_file_version": "V3",
    }


def _open(snapshot: Snapshot, entry: IndexMetadata, name: str) -> tuple[Mapping[str, str], vector_index_pb2.IVF]:
    """The metadata of a file, and its message about partitions, which is global buffer ``lance:ivf``."""
    source = snapshot.places.index_file(str(entry.uuid), name, entry.base_id).open()
    container = Container.read(source, source.size, source.path)
    metadata = container.schema(source).metadata
    at, size = container.global_buffers[int(metadata["lance:ivf"])].tolist()
    message = parse_message(container.piece(source, at, size), vector_index_pb2.IVF, source.path, "lance:ivf")
    return metadata, message


def _values(tensor: vector_index_pb2.Tensor) -> list[Any]:
    numbers = np.frombuffer(tensor.data, _TYPES[tensor.data_type])
    rows: list[Any] = numbers.reshape(list(tensor.shape)).tolist()
    return rows
