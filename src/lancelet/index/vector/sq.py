"""Scalar quantization: a byte for each number of a vector (spec indices.md 14.5 and its correction).

One range for all numbers is cut into 255 steps::

    code = clamp(trunc((v - start) * 255 / (end - start)), 0, 255)

Of l2 and cosine the query is encoded too and bytes are compared; of dot it stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile, IndexRefused
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.sq_scan import SqQueries, SqQuery

if TYPE_CHECKING:
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.blocks import Blocks
    from lancelet.index.vector.query import Columns, Keep, Prepared, PreparedMany, Quantizer, VectorQuery, Vectors
    from lancelet.index.vector.top import Top

COLUMN: Final = "__sq_code"
_STEPS: Final = 255
_BITS: Final = 8


@dataclass(frozen=True)
class ScalarQuantizer:
    """The range of all numbers."""

    metric: Metric
    dtype: np.dtype[Any]
    dimension: int
    start: float
    end: float
    name: str = "SQ"
    uses_centroids: bool = False

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(COLUMN, pa.list_(pa.uint8(), self.dimension)),)

    @property
    def step(self) -> float:
        """What 1 in a code stands for."""
        return (self.end - self.start) / _STEPS

    def codes(self, vectors: Vectors) -> npt.NDArray[np.uint8]:
        """The bytes of vectors."""
        span = self.end - self.start
        if span <= 0:
            return np.zeros(vectors.shape, np.uint8)
        exact = vectors.astype(np.float64)
        exact -= self.start
        exact *= _STEPS / span
        np.clip(exact, 0, _STEPS, out=exact)
        return exact.astype(np.uint8)

    def encode(
        self, vectors: Vectors, partitions: npt.NDArray[np.uint32], centroids: Vectors
    ) -> list[npt.NDArray[np.uint8]]:
        return [self.codes(vectors)]

    def lay_out(self, codes: Columns) -> list[npt.NDArray[np.uint8]]:
        return list(codes)

    def pick_up(self, stored: Columns) -> list[npt.NDArray[np.uint8]]:
        return list(stored)

    def as_scanned(self, stored: Columns) -> Columns:
        return stored

    def decode(self, codes: Columns, centroid: Vectors) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = codes[0] * np.float32(self.step) + np.float32(self.start)
        return found

    def describe(self, add_buffer: Callable[[bytes], int]) -> dict[str, Any]:
        bounds = {"start": self.start, "end": self.end}
        return {"dim": self.dimension, "num_bits": _BITS, "bounds": bounds}

    def prepare(self, query: VectorQuery, metric: Metric) -> Prepared:
        return _Prepared(SqQuery(self._asked(query.vector[None], metric)[0], self.start, self.end))

    def prepare_many(self, queries: Sequence[VectorQuery], metric: Metric) -> PreparedMany:
        vectors = np.stack([query.vector for query in queries])
        return SqQueries(self._asked(vectors, metric), self.start, self.end)

    def _asked(self, vectors: Vectors, metric: Metric) -> Vectors:
        """Queries as they are compared with codes."""
        return vectors.astype(np.float32) if metric is Metric.DOT else self.codes(vectors)


@dataclass(frozen=True, slots=True)
class _Prepared:
    query: SqQuery

    def scan(self, stored: Columns, rows: RowNumbers, centroid: Vectors, top: Top, keep: Keep | None, /) -> None:
        self.query.scan(stored[0].reshape(-1), top, rows, keep)

    def scan_blocks(self, blocks: Blocks, centroids: Vectors, top: Top, /) -> None:
        self.query.scan_blocks(blocks, top)

    def distances(self, stored: Columns, count: int, centroid: Vectors, /) -> npt.NDArray[np.float32]:
        return self.query.distances(stored[0].reshape(-1))


class ScalarQuantizerKind:
    """How the range is found and read."""

    name = "SQ"

    def load(
        self,
        about: Mapping[str, Any],
        buffer: Callable[[int], bytes],
        metric: Metric,
        dtype: np.dtype[Any],
        dimension: int,
        path: str,
    ) -> Quantizer:
        place = "storage_metadata"
        if about.get("dim") != dimension or about.get("num_bits") != _BITS:
            problem = f"has {about.get('dim')!r} numbers of {about.get('num_bits')!r} bits, not {dimension} of {_BITS}"
            raise CorruptFile(path, problem, place)
        try:
            start, end = (float(about["bounds"][key]) for key in ("start", "end"))
        except (KeyError, TypeError, ValueError):
            raise CorruptFile(path, "tells no bounds of numbers", place) from None
        if not (math.isfinite(start) and math.isfinite(end) and start <= end):
            raise CorruptFile(path, f"has numbers from {start} to {end}", place)
        return ScalarQuantizer(metric, dtype, dimension, start, end)

    def check(self, options: Mapping[str, Any], metric: Metric, dtype: np.dtype[Any], dimension: int) -> dict[str, Any]:
        if dtype == np.uint8:
            raise IndexRefused("SQ indices are built of floating point vectors, not of bytes; use IVF_FLAT")
        return {"num_bits": _BITS}

    def sample_rows(self, options: Mapping[str, Any]) -> int:
        return int(options["sample_rate"]) << _BITS

    def train(
        self,
        vectors: Vectors,
        partitions: npt.NDArray[np.uint32],
        centroids: Vectors,
        metric: Metric,
        options: Mapping[str, Any],
        seed: int,
    ) -> Quantizer:
        low, high = (float(vectors.min()), float(vectors.max())) if len(vectors) else (0.0, 0.0)
        return ScalarQuantizer(metric, vectors.dtype, vectors.shape[1], low, high)


KIND: Final = ScalarQuantizerKind()
