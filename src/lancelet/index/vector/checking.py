"""Codes compared with the vectors that they were made of, for deep checks.

A vector is encoded anew, by the stored quantizer and for the partition where the file has it. Mostly that gives the very code
of the file, which a hash and a few numbers tell. Otherwise another computation may have been rounded otherwise, so that
of two codes nearly as good the other one was taken. So a code is wrong only if it is clearly worse than a new one::

    FLAT   farther from the vector than rounding explains
    PQ     farther from the vector by a twentieth, and a fiftieth of what is encoded
    RQ     farther by a twentieth, and a fourth of what is encoded; or factors do not fit
    SQ     more than a quarter of its bytes are off by more than 3: ranges may have been united, values beyond them cut off
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.index.vector.flat import FlatQuantizer
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.pq import ProductQuantizer
from lancelet.index.vector.rq import RabitQuantizer
from lancelet.index.vector.sq import ScalarQuantizer

if TYPE_CHECKING:
    from lancelet.index.vector.files import VectorModel
    from lancelet.index.vector.query import Columns, Vectors

_ONE: Final = np.uint64(1)
_DIRECTIONS: Final = 2
"""In which a vector is measured."""
_CLOSE: Final = 1e-5
"""Numbers that differ by less are taken to be equal without a closer look."""
_WORSE: Final = 1.05
_SHARE: Final = 0.02
_SEARCHED_SHARE: Final = 0.25
"""Codes of several bits are searched for, not worked out: those of pylance are up to 0.11 farther than ours."""
_FAR_BYTES: Final = 3
_ROUNDINGS: Final = 8


@dataclass(frozen=True, slots=True)
class CodeMarks:
    """What is remembered of a code: a hash of its integers, and numbers that may be rounded otherwise."""

    hashes: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.float32]

    @classmethod
    def of(cls, model: VectorModel, codes: Columns) -> CodeMarks:
        """Of codes row by row."""
        count = len(codes[0])
        if isinstance(model.quantizer, FlatQuantizer):
            (vectors,) = codes
            chance = np.random.default_rng(vectors.shape[1]).standard_normal((vectors.shape[1], _DIRECTIONS))
            directions = (chance / np.linalg.norm(chance, axis=0)).astype(np.float32)
            return cls(np.zeros(count, np.uint64), vectors.astype(np.float32) @ directions)
        exact = [column for column in codes if column.ndim == 2]
        soft = [column for column in codes if column.ndim == 1]
        hashes = np.zeros(count, np.uint64)
        for column in exact:
            hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + digests_of(column)
        numbers = np.stack(soft, axis=1) if soft else np.empty((count, 0))
        return cls(hashes, numbers.astype(np.float32))

    @staticmethod
    def dtype(model: VectorModel) -> np.dtype[Any]:
        """Of marks with the partition of each code, counted from 1 on."""
        soft = sum(not pa.types.is_fixed_size_list(column.type) for column in model.quantizer.fields)
        numbers = _DIRECTIONS if isinstance(model.quantizer, FlatQuantizer) else soft
        return np.dtype([("group", np.uint32), ("hash", np.uint64), ("numbers", np.float32, (numbers,))])

    def packed(self, groups: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
        """Marks of codes in these partitions."""
        kind = [("group", np.uint32), ("hash", np.uint64), ("numbers", np.float32, (self.numbers.shape[1],))]
        found = np.zeros(len(groups), kind)
        found["group"], found["hash"], found["numbers"] = groups + 1, self.hashes, self.numbers
        return found

    @classmethod
    def unpacked(cls, marks: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], CodeMarks]:
        """Partitions, -1 for no mark, and marks."""
        return marks["group"].astype(np.int64) - 1, cls(marks["hash"], marks["numbers"])

    def take(self, chosen: npt.NDArray[np.bool_]) -> CodeMarks:
        """Those of some codes."""
        return CodeMarks(self.hashes[chosen], self.numbers[chosen])

    def differ(self, other: CodeMarks) -> npt.NDArray[np.bool_]:
        """For which codes a closer look is needed."""
        found: npt.NDArray[np.bool_] = self.hashes != other.hashes
        if self.numbers.shape[1]:
            size = np.abs(self.numbers).max(axis=0, initial=0) * _CLOSE
            found |= (np.abs(self.numbers - other.numbers) > _CLOSE * np.abs(self.numbers) + size).any(axis=1)
        return found


def digests_of(rows: Vectors) -> npt.NDArray[np.uint64]:
    """A number for each row, by all of its bytes; never 0."""
    data = np.ascontiguousarray(rows).view(np.uint8)
    words = np.zeros((len(data), -(-data.shape[1] // 8) * 8), np.uint8)
    words[:, : data.shape[1]] = data
    factors = np.random.default_rng(words.shape[1]).integers(0, 1 << 63, words.shape[1] // 8, np.uint64) * 2 + 1
    found: npt.NDArray[np.uint64] = (words.view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
    found |= _ONE
    return found


def wrong_codes(model: VectorModel, codes: Columns, vectors: Vectors, partition: int) -> npt.NDArray[np.bool_]:
    """Which codes of a partition are no codes of these vectors, normalised where the metric says so."""
    quantizer, centroids = model.quantizer, model.centroids
    fresh = quantizer.encode(vectors, np.full(len(vectors), partition, np.uint32), centroids)
    if isinstance(quantizer, ScalarQuantizer):
        apart = np.abs(codes[0].astype(np.int16) - fresh[0]) > _FAR_BYTES
        return np.asarray(apart.sum(axis=1) > vectors.shape[1] // 4)
    exact, middle = vectors.astype(np.float64), centroids[partition].astype(np.float64)
    length, own = (np.linalg.norm(part, axis=-1) for part in (exact, middle))
    epsilon = np.finfo(np.float16 if vectors.dtype == np.float16 else np.float32).eps
    slack = _ROUNDINGS * epsilon * (length + own)
    stored = _error(model, codes, exact, partition)
    if isinstance(quantizer, FlatQuantizer):
        return np.asarray(stored > slack * np.sqrt(vectors.shape[1]))
    size = np.linalg.norm(exact - middle, axis=1) if quantizer.uses_centroids else length
    share = _SEARCHED_SHARE if isinstance(quantizer, RabitQuantizer) else _SHARE
    found = np.asarray(stored > _WORSE * _error(model, fresh, exact, partition) + share * size + slack)
    if isinstance(quantizer, ProductQuantizer) and model.metric is Metric.DOT:
        found &= ~_has_greatest_products(quantizer, codes, exact, slack)
    if isinstance(quantizer, RabitQuantizer):
        fitting = quantizer.refit(codes, vectors, centroids[partition])
        for one, other in zip(codes, fitting, strict=True):
            if one.ndim == 1:
                allowed = _SHARE * (size * size + np.abs(other) + slack * (length + own))
                found |= np.abs(one.astype(np.float64) - other) > allowed
    return found


def _error(
    model: VectorModel, codes: Columns, vectors: npt.NDArray[np.float64], partition: int
) -> npt.NDArray[np.float64]:
    """How far what the codes stand for is from the vectors."""
    about = model.quantizer.decode(codes, model.centroids[partition])
    found: npt.NDArray[np.float64] = np.linalg.norm(vectors - about, axis=1)
    return found


def _has_greatest_products(
    quantizer: ProductQuantizer,
    codes: Columns,
    vectors: npt.NDArray[np.float64],
    slack: npt.NDArray[np.float64],
) -> npt.NDArray[np.bool_]:
    """Codes of the words with the greatest products: pylance gives such codes to rows that extend a dot index."""
    parts = vectors.reshape(len(vectors), quantizer.parts, -1)
    numbers = quantizer.numbers(codes[0])
    missing, best = np.zeros(len(vectors)), np.zeros(len(vectors))
    for number, words in enumerate(quantizer.codebook.astype(np.float64)):
        products = parts[:, number] @ words.T
        greatest = products.max(axis=1)
        best += np.abs(greatest)
        missing += greatest - products[np.arange(len(vectors)), numbers[:, number]]
    return np.asarray(missing <= _CLOSE * best + slack * np.linalg.norm(vectors, axis=1))
