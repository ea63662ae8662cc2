"""The one file of a vector segment of old: before 2.0 files, and still written where pylance is told to (``IVF_PQ`` only).

Codes are not transposed. Partitions are told by where they begin in the file::

    codes of partition 0, row by row | its row ids, u64 | codes of partition 1 | ...
    u32 length, message Index
    u64 position of that length | u16 0 | u16 minor | "LANC"

Such segments are searched, extended and carried over; what is written anew has the two files of today.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lancelet.encoding.legacy.reader import FOOTER, MAGIC, Tail
from lancelet.errors import CorruptFile, LanceletError, NotSupported
from lancelet.format.proto.vector_index_pb2 import Index, VectorIndex
from lancelet.index.vector.centroids import Extents, array_of, read_centroids, refuse_shared
from lancelet.index.vector.files import (
    INDEX_FILE,
    STORAGE_FILE,
    Partition,
    VectorHeads,
    VectorModel,
    element_of,
    fitting_centroids,
)
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.pq import ProductQuantizer

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.format.proto.vector_index_pb2 import IVF, PQ
    from lancelet.index.folder import IndexFolder
    from lancelet.index.vector.query import Vectors
    from lancelet.store import ByteSource

VERSION: Final = "Legacy"
INDEX_TYPE: Final = "IVF_PQ"
_ROW: Final = np.dtype("<u8")
_BITS: Final = (4, 8)
_PLACE: Final = "index"
_VERSION_AT: Final = struct.Struct("<HH4s")


def is_old(folder: IndexFolder) -> bool:
    """Whether a segment has this layout: entries mostly list their files, otherwise the end of the file tells."""
    return all(file.path != STORAGE_FILE for file in folder.entry.files) and _ends_old(folder)


def _ends_old(folder: IndexFolder) -> bool:
    source = folder.source(INDEX_FILE)
    if source.size < FOOTER.size:
        return False
    (tail,) = source.read([(source.size - _VERSION_AT.size, _VERSION_AT.size)])
    major, minor, magic = _VERSION_AT.unpack(tail.tobytes())
    # Later files begin their count at 0.3.
    return bool(magic == MAGIC and major == 0 and minor <= 2)


@dataclass(frozen=True)
class OldFile:
    """The open file of a segment."""

    heads: VectorHeads
    model: VectorModel
    source: ByteSource
    places: Extents
    """Where the bytes of each partition are."""
    graph: None = None

    @classmethod
    def open(cls, folder: IndexFolder, dtype: pa.DataType) -> OldFile:
        element, dimension, _ = element_of(dtype)
        source = folder.source(INDEX_FILE)
        path = source.path
        tail = Tail(source)
        index = tail.message(tail.metadata_position, Index, _PLACE).vector_index
        ivf, pq = _stages(index, path)
        try:
            metric = list(Metric)[index.metric_type]
        except IndexError:
            raise CorruptFile(path, f"compares vectors by an unknown metric {index.metric_type}", _PLACE) from None
        quantizer = ProductQuantizer(metric, _codebook(pq, dimension, element, path), pq.num_bits, transposed=False)
        extents, places = _extents(ivf, quantizer.code_bytes + _ROW.itemsize, tail.metadata_position, path)
        centroids = read_centroids(ivf, len(extents), path)
        about = {"nbits": pq.num_bits, "num_sub_vectors": pq.num_sub_vectors, "dimension": pq.dimension}
        loss = ivf.loss if ivf.HasField("loss") else None
        none = Extents.of([0] * len(extents))
        heads = VectorHeads(INDEX_TYPE, metric, centroids, loss, extents, about, none, (), VERSION)
        fitting = fitting_centroids(heads, element, dimension, path)
        return cls(heads, VectorModel(metric, fitting, quantizer, loss), source, places)

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def storage_path(self) -> str:
        return self.source.path

    @property
    def extents(self) -> Extents:
        return self.heads.extents

    @property
    def nbytes(self) -> int:
        quantizer = self.model.quantizer
        codebook = quantizer.codebook.nbytes if isinstance(quantizer, ProductQuantizer) else 0
        return int(self.model.centroids.nbytes) + codebook

    def read(self, numbers: Sequence[int], graphs: bool = True) -> list[Partition]:
        """Partitions by their numbers; all are asked for at once."""
        places = [(int(self.places.offsets[number]), int(self.places.lengths[number])) for number in numbers]
        found = []
        for number, data in zip(numbers, self.source.read(places), strict=True):
            count = int(self.extents.lengths[number])
            split = len(data) - count * _ROW.itemsize
            rows = np.frombuffer(data[split:].tobytes(), _ROW)
            found.append(Partition(rows, [np.array(data[:split]).reshape(count, split // max(count, 1))]))
        return found


def title_in(folder: IndexFolder) -> str | None:
    """``IVF_PQ``, where a segment has this layout."""
    try:
        return INDEX_TYPE if _ends_old(folder) else None
    except LanceletError:
        return None


def _stages(index: VectorIndex, path: str) -> tuple[IVF, PQ]:
    kinds = [stage.WhichOneof("stage") for stage in index.stages]
    if kinds != ["ivf", "pq"]:
        raise NotSupported(
            f"{path}: this version of lancelet does not know old indices of {' and '.join(map(str, kinds)) or 'nothing'}, "
            "only those of ivf and pq; create the index anew with replace=True"
        )
    return index.stages[0].ivf, index.stages[1].pq


def _codebook(pq: PQ, dimension: int, element: np.dtype[Any], path: str) -> Vectors:
    bits, parts = pq.num_bits, pq.num_sub_vectors
    fits = bits in _BITS and parts and not dimension % parts and not (bits == _BITS[0] and parts % 2)
    if not fits or pq.dimension != dimension:
        problem = f"has {parts} sub-vectors of {bits} bits and {pq.dimension} numbers for vectors of {dimension}"
        raise CorruptFile(path, problem, "codebook")
    if pq.HasField("codebook_tensor"):
        found = array_of(pq.codebook_tensor, path, "codebook")
    else:
        found = np.array(pq.codebook, np.float32)
    if found.size != dimension << bits or found.dtype.kind != "f" or not np.isfinite(found).all():
        problem = f"has a codebook of shape {found.shape} for vectors of {dimension} numbers and {bits} bits"
        raise CorruptFile(path, problem, "codebook")
    return found.reshape(parts, 1 << bits, dimension // parts).astype(element)


def _extents(ivf: IVF, width: int, end: int, path: str) -> tuple[Extents, Extents]:
    """The rows of the partitions, as if they were one after the other, and the places of their bytes."""
    if len(ivf.offsets) != len(ivf.lengths):
        raise CorruptFile(path, f"has {len(ivf.offsets)} partitions, but {len(ivf.lengths)} lengths", _PLACE)
    for number, (offset, length) in enumerate(zip(ivf.offsets, ivf.lengths, strict=True)):
        # Numbers of Python: a lie does not wrap around.
        if offset + length * width > end:
            problem = f"partition {number} has {length} rows at {offset}, but codes end at {end}"
            raise CorruptFile(path, problem, _PLACE)
    lengths = np.array(ivf.lengths, np.int64)
    places = Extents(np.array(ivf.offsets, np.int64), lengths * width)
    refuse_shared(places, path, _PLACE)
    return Extents.of(lengths), places
