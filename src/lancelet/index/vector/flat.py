"""Vectors as they are (spec indices.md 14.1): of cosine indices with length 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile
from lancelet.index.vector.distances import Queries
from lancelet.index.vector.metric import Metric

if TYPE_CHECKING:
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.blocks import Blocks
    from lancelet.index.vector.query import Columns, Keep, Prepared, PreparedMany, Quantizer, VectorQuery, Vectors
    from lancelet.index.vector.top import Top

COLUMN: Final = "flat"
"""Of ``auxiliary.idx``."""


@dataclass(frozen=True)
class FlatQuantizer:
    """No quantizer at all."""

    metric: Metric
    dtype: np.dtype[Any]
    dimension: int
    name: str = "FLAT"
    uses_centroids: bool = False

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        kind = pa.list_(pa.field("item", pa.from_numpy_dtype(self.dtype)), self.dimension)
        return (pa.field(COLUMN, kind, nullable=self.dtype == np.uint8),)

    def encode(self, vectors: Vectors, partitions: npt.NDArray[np.uint32], centroids: Vectors) -> list[Vectors]:
        return [vectors]

    def lay_out(self, codes: Columns) -> list[Vectors]:
        return list(codes)

    def pick_up(self, stored: Columns) -> list[Vectors]:
        return list(stored)

    def as_scanned(self, stored: Columns) -> Columns:
        return stored

    def decode(self, codes: Columns, centroid: Vectors) -> npt.NDArray[np.float32]:
        return codes[0].astype(np.float32, copy=False)

    def describe(self, add_buffer: Callable[[bytes], int]) -> dict[str, Any]:
        return {"dim": self.dimension}

    def prepare(self, query: VectorQuery, metric: Metric) -> Prepared:
        return _Prepared(query.vector, metric)

    def prepare_many(self, queries: Sequence[VectorQuery], metric: Metric) -> PreparedMany:
        vectors = np.stack([query.vector for query in queries])
        return Queries(vectors, vectors.dtype.name, metric.value)


def _queries(query: Vectors, metric: Metric) -> Queries:
    return Queries(query[None], query.dtype.name, metric.value)


def _bytes(vectors: Vectors) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(vectors).view(np.uint8)


class _Prepared:
    __slots__ = ("_queries",)

    def __init__(self, query: Vectors, metric: Metric) -> None:
        self._queries = _queries(query, metric)

    def scan(self, stored: Columns, rows: RowNumbers, centroid: Vectors, top: Top, keep: Keep | None, /) -> None:
        self._queries.scan(_bytes(stored[0]), [top], 0, rows, keep)

    def scan_blocks(self, blocks: Blocks, centroids: Vectors, top: Top, /) -> None:
        self._queries.scan_blocks(blocks, top)

    def distances(self, stored: Columns, count: int, centroid: Vectors, /) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = self._queries.distances(_bytes(stored[0]))[0]
        return found


class FlatKind:
    """Vectors as they are."""

    name = "FLAT"

    def load(
        self,
        about: Mapping[str, Any],
        buffer: Callable[[int], bytes],
        metric: Metric,
        dtype: np.dtype[Any],
        dimension: int,
        path: str,
    ) -> Quantizer:
        if about.get("dim") != dimension:
            raise CorruptFile(path, f"has vectors of {about.get('dim')!r} numbers, not {dimension}", "storage_metadata")
        return FlatQuantizer(metric, dtype, dimension)

    def check(self, options: Mapping[str, Any], metric: Metric, dtype: np.dtype[Any], dimension: int) -> dict[str, Any]:
        return {}

    def sample_rows(self, options: Mapping[str, Any]) -> int:
        return 0

    def train(
        self,
        vectors: Vectors,
        partitions: npt.NDArray[np.uint32],
        centroids: Vectors,
        metric: Metric,
        options: Mapping[str, Any],
        seed: int,
    ) -> Quantizer:
        return FlatQuantizer(metric, vectors.dtype, vectors.shape[1])


KIND: Final = FlatKind()
