"""Partitions of a vector index: their centroids, and where their rows are (spec indices.md 14.1, 14.3).

Both files of a segment have a message ``IVF`` about partitions: that of ``index.idx`` tells the centroids, that of
``auxiliary.idx`` which rows each partition has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile
from lancelet.format.proto.vector_index_pb2 import IVF, Tensor
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.nearest import Centroids, nearest
from lancelet.runtime.threads import Pool, core_count
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.index.vector.query import Vectors

_TYPES: Final = {1: "<f2", 2: "<f4", 3: "<f8", 4: "u1", 5: "<u2", 6: "<u4", 7: "<u8"}
_NUMBERS: Final = {np.dtype(name): number for number, name in _TYPES.items()}
_CHUNK_BYTES: Final = 1 << 20
_ROWS_AT_ONCE: Final = 1 << 13
_WORTH_THREADS: Final = 1 << 27
"""Products that are worth more than one thread."""
_POOL: Final = Pool("lancelet-centroids", core_count())


def tensor_of(array: Vectors) -> Tensor:
    """An array as the files keep it."""
    return Tensor(data_type=_NUMBERS[array.dtype], shape=array.shape, data=np.ascontiguousarray(array).tobytes())


def array_of(tensor: Tensor, path: str, place: str) -> Vectors:
    """The array of a tensor, which may claim anything."""
    if tensor.data_type not in _TYPES:
        raise CorruptFile(path, f"has numbers of an unknown type {tensor.data_type}", place)
    dtype = np.dtype(_TYPES[tensor.data_type])
    # Numbers of Python: a product of lies does not wrap around.
    count = 1
    for length in tensor.shape:
        count *= length
    if len(tensor.data) != count * dtype.itemsize:
        raise CorruptFile(path, f"has {len(tensor.data)} bytes for {list(tensor.shape)} numbers of {dtype}", place)
    return np.frombuffer(tensor.data, dtype).reshape(list(tensor.shape))


@dataclass(frozen=True, slots=True)
class Extents:
    """The rows of each partition in a file."""

    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    @classmethod
    def of(cls, lengths: npt.ArrayLike) -> Extents:
        """Partitions one after the other."""
        counts = np.asarray(lengths, np.int64)
        return cls(np.cumsum(counts) - counts, counts)

    def __len__(self) -> int:
        return len(self.lengths)


def read_extents(data: bytes, num_rows: int, path: str) -> tuple[Extents, IVF]:
    """The message of a file with so many rows."""
    message = parse_message(data, IVF, path, "lance:ivf")
    if len(message.offsets) != len(message.lengths):
        raise CorruptFile(
            path, f"has {len(message.offsets)} partitions, but {len(message.lengths)} lengths", "lance:ivf"
        )
    offsets, lengths = np.array(message.offsets, np.uint64), np.array(message.lengths, np.uint64)
    beyond = (offsets > np.uint64(num_rows)) | (
        lengths > np.uint64(num_rows) - np.minimum(offsets, np.uint64(num_rows))
    )
    if beyond.any():
        worst = int(beyond.argmax())
        problem = f"partition {worst} has {lengths[worst]} rows from {offsets[worst]} on, but there are {num_rows}"
        raise CorruptFile(path, problem, "lance:ivf")
    extents = Extents(offsets.astype(np.int64), lengths.astype(np.int64))
    refuse_shared(extents, path, "lance:ivf")
    return extents, message


def refuse_shared(extents: Extents, path: str, place: str) -> None:
    """Raise where partitions overlap: a file of few bytes would be read as many rows."""
    filled = np.flatnonzero(extents.lengths)
    filled = filled[np.argsort(extents.offsets[filled], kind="stable")]
    ends = extents.offsets[filled] + extents.lengths[filled]
    shared = ends[:-1] > extents.offsets[filled][1:]
    if shared.any():
        one, other = filled[shared.argmax()], filled[shared.argmax() + 1]
        raise CorruptFile(path, f"partitions {one} and {other} have rows in common", place)


def read_centroids(message: IVF, partitions: int, path: str) -> Vectors:
    """The centroids of a message, one for each partition."""
    if message.HasField("centroids_tensor"):
        found = array_of(message.centroids_tensor, path, "centroids")
    else:
        # Files of old have one list of numbers.
        numbers = np.array(message.centroids, np.float32)
        if not partitions or len(numbers) % partitions:
            raise CorruptFile(path, f"has {len(numbers)} numbers for {partitions} centroids", "centroids")
        found = numbers.reshape(partitions, -1)
    if found.ndim != 2 or len(found) != partitions:
        raise CorruptFile(path, f"has centroids of shape {found.shape} for {partitions} partitions", "centroids")
    if not np.isfinite(found).all():
        raise CorruptFile(path, "has centroids that are not finite", "centroids")
    return found


def ivf_message(extents: Extents, centroids: Vectors | None = None, loss: float | None = None) -> bytes:
    """The message of a file; that of ``index.idx`` has centroids."""
    message = IVF(offsets=extents.offsets.tolist(), lengths=extents.lengths.tolist(), loss=loss)
    if centroids is not None:
        message.centroids_tensor.CopyFrom(tensor_of(centroids))
    return message.SerializeToString()


def ranking_metric(metric: Metric) -> Metric:
    """By which partitions are told apart: vectors of length 1 by their differences."""
    return Metric.L2 if metric is Metric.COSINE else metric


def assign(vectors: Vectors, centroids: Vectors, metric: Metric) -> tuple[npt.NDArray[np.uint32], float]:
    """The partition of each vector (normalised already), and the sum of the distances to their centroids."""
    nearest, total = nearest_of(vectors, centroids, metric)
    if metric is Metric.L2:
        total += squares_of(vectors)
    return nearest, total


def squares_of(vectors: Vectors) -> float:
    """The sum of the squares of all numbers."""
    exact = vectors.astype(np.float32, copy=False).reshape(-1)
    return sum(float(np.dot(part, part)) for part in np.array_split(exact, 1 + len(exact) // _CHUNK_BYTES))


def nearest_of(vectors: Vectors, centroids: Vectors, metric: Metric) -> tuple[npt.NDArray[np.uint32], float]:
    """The same; of l2, the sum is too small by that of the squares of the vectors."""
    if metric is Metric.HAMMING:
        return _nearest_bits(vectors, centroids)
    values = centroids.astype(np.float32, copy=False)
    is_l2 = metric is Metric.L2
    model = Centroids(values, np.einsum("ij,ij->i", values, values) / np.float32(2) if is_l2 else 1.0)
    found = np.empty(len(vectors), np.uint32)

    def work(start: int, stop: int) -> float:
        total = 0.0
        for at in range(start, stop, _ROWS_AT_ONCE):
            part = slice(at, min(at + _ROWS_AT_ONCE, stop))
            found[part], marks = nearest(np.ascontiguousarray(vectors[part], np.float32), model)
            total += float(marks.sum(dtype=np.float64))
        return total

    pieces = core_count() if len(vectors) * values.size >= _WORTH_THREADS else 1
    ends = np.linspace(0, len(vectors), pieces + 1).astype(int).tolist()
    if pieces == 1:
        total = work(0, len(vectors))
    else:
        total = sum(_POOL.all([partial(work, *ends[place : place + 2]) for place in range(pieces)]))
    return found, 2 * total if is_l2 else total


def _nearest_bits(vectors: Vectors, centroids: Vectors) -> tuple[npt.NDArray[np.uint32], float]:
    found, total = np.empty(len(vectors), np.uint32), 0.0
    step = max(1, _CHUNK_BYTES // max(1, centroids.size))
    for start in range(0, len(vectors), step):
        part = slice(start, start + step)
        marks = bit_counts(vectors[part, None, :] ^ centroids[None])
        found[part] = marks.argmin(axis=1)
        total += float(marks.min(axis=1).sum(dtype=np.float64))
    return found, total


_BIT_COUNTS: Final = np.array([number.bit_count() for number in range(256)], np.uint8)


def bit_counts(values: Vectors) -> npt.NDArray[np.float32]:
    """How many bits are set in the bytes of each row."""
    found: npt.NDArray[np.float32] = _BIT_COUNTS[values].sum(axis=-1, dtype=np.float32)
    return found
