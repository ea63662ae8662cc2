"""Vectors as they are (spec indices.md 14.1): of cosine indices with length 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile
from lancelet.index.vector.centroids import bit_counts
from lancelet.index.vector.metric import Metric

if TYPE_CHECKING:
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.query import Columns, Keep, Prepared, Quantizer, VectorQuery, Vectors
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

    def decode(self, codes: Columns, centroid: Vectors) -> npt.NDArray[np.float32]:
        return codes[0].astype(np.float32, copy=False)

    def describe(self, add_buffer: Callable[[bytes], int]) -> dict[str, Any]:
        return {"dim": self.dimension}

    def prepare(self, query: VectorQuery, metric: Metric) -> Prepared:
        return _Prepared(query.vector, metric)


def distances_to(query: Vectors, vectors: Vectors, metric: Metric) -> npt.NDArray[np.float32]:
    """The distance of each vector; of cosine both have length 1 already."""
    if metric is Metric.HAMMING:
        return bit_counts(vectors ^ query)
    one, others = query.astype(np.float32, copy=False), vectors.astype(np.float32, copy=False)
    if metric is Metric.L2:
        differences = others - one
        squares: npt.NDArray[np.float32] = np.einsum("ij,ij->i", differences, differences)
        return squares
    found: npt.NDArray[np.float32] = np.float32(1) - others @ one
    return found


@dataclass(frozen=True, slots=True)
class _Prepared:
    query: Vectors
    metric: Metric

    def scan(self, stored: Columns, rows: RowNumbers, centroid: Vectors, top: Top, keep: Keep | None, /) -> None:
        vectors = stored[0]
        if keep is not None:
            vectors, rows = vectors[keep], rows[keep]
        top.add(distances_to(self.query, vectors, self.metric), rows)

    def distances(self, stored: Columns, count: int, centroid: Vectors, /) -> npt.NDArray[np.float32]:
        return distances_to(self.query, stored[0], self.metric)


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
