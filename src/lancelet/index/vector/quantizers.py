"""The ways to store vectors and to search partitions, by the name in the type of an index.

``IVF_PQ`` is product quantization, all codes of a partition being looked at; ``IVF_HNSW_PQ`` has a graph for each partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lancelet.errors import NotSupported
from lancelet.index.vector import flat, hnsw, pq, rq, sq

if TYPE_CHECKING:
    from lancelet.index.vector.query import GraphKind, QuantizerKind

QUANTIZERS: Final[dict[str, QuantizerKind]] = {kind.name: kind for kind in (flat.KIND, pq.KIND, rq.KIND, sq.KIND)}
GRAPHS: Final[dict[str, GraphKind]] = {kind.name: kind for kind in (hnsw.KIND,)}

_PREFIX: Final = "IVF_"


def is_known(index_type: str) -> bool:
    """Whether an index of this type is one that is built and searched here."""
    graph, _, quantizer = index_type.upper().removeprefix(_PREFIX).rpartition("_")
    if not index_type.upper().startswith(_PREFIX) or quantizer not in QUANTIZERS:
        return False
    return not graph or (graph in GRAPHS and quantizer in GRAPHS[graph].quantizers)


def parts_of(index_type: str) -> tuple[QuantizerKind, GraphKind | None]:
    """What an index of a type such as ``IVF_HNSW_SQ`` is made of."""
    if not is_known(index_type):
        raise NotSupported(f"this version of lancelet does not know indices of type {index_type!r}")
    graph, _, quantizer = index_type.upper().removeprefix(_PREFIX).rpartition("_")
    return QUANTIZERS[quantizer], GRAPHS[graph] if graph else None


def type_name(quantizer: QuantizerKind, graph: GraphKind | None) -> str:
    """``IVF_HNSW_SQ``."""
    return _PREFIX + (f"{graph.name}_" if graph else "") + quantizer.name
