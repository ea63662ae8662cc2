"""An open vector segment: searched, described, listed.

A search ranks the centroids, and offers the codes of the nearest partitions to a heap of the best rows. Partitions that
were read stay in memory up to a bound, the least recently used go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput
from lancelet.format.extensions import storage_of
from lancelet.format.system_columns import ROW_ID
from lancelet.index.ranked import Ranked
from lancelet.index.vector.centroids import ranking_metric
from lancelet.index.vector.checking import CodeMarks, digests_of, wrong_codes
from lancelet.index.vector.files import VectorFiles, element_of
from lancelet.index.vector.flat import FlatQuantizer, distances_to
from lancelet.index.vector.metric import normalized
from lancelet.index.vector.old_file import OldFile, is_old
from lancelet.index.vector.probes import probes_of
from lancelet.index.vector.query import KeyedRename
from lancelet.index.vector.rows import indexable
from lancelet.index.vector.statistics import segment_statistics
from lancelet.index.vector.top import Top

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.index.folder import IndexFolder
    from lancelet.index.kind import Entries, Rename, Source
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.files import Partition, SegmentFiles, VectorModel
    from lancelet.index.vector.metric import Metric
    from lancelet.index.vector.query import VectorQuery, Vectors

_KEPT_BYTES: Final = 1 << 30
"""Of partitions that were read."""
_KEPT_MASKS: Final = 4
"""For each partition."""
READ_AT_ONCE: Final = 64 << 20
_ONE: Final = np.uint64(1)


class VectorSegment:
    """The files of a segment, and what was read of them."""

    def __init__(self, folder: IndexFolder, dtype: pa.DataType) -> None:
        self._folder = folder
        self.files: SegmentFiles = OldFile.open(folder, dtype) if is_old(folder) else VectorFiles.open(folder, dtype)
        self.dtype = dtype
        self._has_several = element_of(dtype)[2]
        self._held: OrderedDict[int, Partition] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.Lock()

    @property
    def model(self) -> VectorModel:
        return self.files.model

    @property
    def metric(self) -> Metric:
        return self.model.metric

    @property
    def dimension(self) -> int:
        return self.model.quantizer.dimension

    @property
    def index_type(self) -> str:
        return self.files.heads.index_type

    @property
    def is_graph(self) -> bool:
        return self.files.graph is not None

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each partition."""
        return self.files.extents.lengths

    @property
    def num_rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def nbytes(self) -> int:
        return self.files.nbytes + self._held_bytes

    # Searching

    def best(self, wanted: VectorQuery, count: int, rename: Rename) -> Ranked:
        """The nearest rows, by their addresses. Rows that ``rename`` does not keep take no other row's place."""
        model, use = self.model, wanted.use
        query = replace(wanted, vector=self._normal(wanted.vector), count=count)
        renaming = rename if isinstance(rename, KeyedRename) else KeyedRename(rename, None)
        order, marks = self._rank(query.vector)
        # How many partitions are probed follows from the rows that are wanted in the end, not from those to be refined.
        first, most = probes_of(wanted, self.metric, marks)
        top = Top(count, query.lower, query.upper)
        prepared = model.quantizer.prepare(query, model.metric)
        compared = kept = at = 0
        while at < first or (at < most and kept < count):
            # What is known to be needed is read together; beyond that, partition by partition.
            numbers = order[at : max(first, at + 1)].tolist()
            for number, partition in zip(numbers, self.partitions(numbers), strict=True):
                at += 1
                keep = None
                if len(partition.rows) and not _keeps(renaming, partition):
                    keep = _mask(partition, renaming)
                    alive = int(np.count_nonzero(keep))
                    if not alive:
                        continue
                    kept += alive
                    keep = None if alive == len(partition.rows) else keep
                else:
                    kept += len(partition.rows)
                if not len(partition.rows):
                    continue
                parts = partition.stored, partition.rows, model.centroids[number]
                if partition.graph is None:
                    prepared.scan(*parts, top, keep)
                    compared += len(partition.rows)
                else:
                    compared += partition.graph.search(model.quantizer, query, prepared, *parts, top, keep)
        use.note(segments=1, partitions=at, codes=compared)
        marks, rows = top.sorted()
        if not self._has_several and len(np.unique(rows)) < len(rows):
            raise CorruptFile(self.files.storage_path, "has a row twice", ROW_ID)
        addresses, alive_now = renaming(rows)
        return Ranked(addresses[alive_now], marks[alive_now])

    def _normal(self, vector: Vectors) -> Vectors:
        """A query in the type of the column, and of length 1 where the metric wants it."""
        found = np.asarray(vector)
        if found.ndim != 1 or len(found) != self.dimension:
            raise InvalidInput(f"the query has shape {found.shape}, but the vectors have {self.dimension} numbers")
        found = found.astype(self.model.centroids.dtype, copy=False)
        return normalized(found[None])[0] if self.metric.normalizes else found

    def _rank(self, query: Vectors) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Partitions, the nearest first, and their distances."""
        marks = distances_to(query, self.model.centroids, ranking_metric(self.metric))
        order = np.argsort(marks, kind="stable")
        return order, marks[order]

    def partitions(self, numbers: Sequence[int]) -> list[Partition]:
        """Partitions by their numbers, from memory or from the files."""
        with self._lock:
            found = {number: self._held[number] for number in numbers if number in self._held}
            for number in found:
                self._held.move_to_end(number)
        missing = [number for number in numbers if number not in found]
        if missing:
            read = dict(zip(missing, self.files.read(missing), strict=True))
            with self._lock:
                for number, partition in read.items():
                    if number not in self._held:
                        self._held[number] = partition
                        self._held_bytes += partition.nbytes
                while self._held_bytes > _KEPT_BYTES and len(self._held) > 1:
                    _, gone = self._held.popitem(last=False)
                    self._held_bytes -= gone.nbytes
            found |= read
        return [found[number] for number in numbers]

    def stream(self, graphs: bool = False, at_once: int = READ_AT_ONCE) -> Iterator[tuple[int, Partition]]:
        """All partitions in order, maybe with their graphs; none stays in memory, and about so many bytes are read at once."""
        sizes = self.sizes
        each = self.model.entry_bytes
        group: list[int] = []
        rows = 0
        for number in range(len(sizes)):
            group.append(number)
            rows += int(sizes[number])
            if rows * each >= at_once or number + 1 == len(sizes):
                yield from zip(group, self.files.read(group, graphs), strict=True)
                group, rows = [], 0

    def hold(self) -> None:
        """Read what fits into memory."""
        self.partitions(list(range(len(self.sizes))))

    # What is in it, for descriptions and checks

    def statistics(self) -> Mapping[str, Any]:
        return segment_statistics(self._folder, self.files.heads)

    def entries(self, source: Source) -> Iterator[Entries]:
        """What is stored of each vector, where that is the vector itself; of other codes each counts as one."""
        for _, partition in self.stream(graphs=True):
            if self._stores_vectors:
                yield digests_of(self.model.quantizer.pick_up(partition.stored)[0]), partition.rows
            else:
                yield np.full(len(partition.rows), _ONE), partition.rows

    def digests(self, values: pa.Array) -> tuple[npt.NDArray[np.uint64], None]:
        """The vectors of each row that belong into the index, or how many these are."""
        vectors, places = indexable(storage_of(values), self.metric)
        if not self._stores_vectors:
            return np.bincount(places, minlength=len(values)).astype(np.uint64), None
        found = np.zeros(len(values), np.uint64)
        np.add.at(found, places, digests_of(vectors))
        return found, None

    @property
    def _stores_vectors(self) -> bool:
        """Whether codes are the vectors of the column, bit by bit: those of length 1 may have been rounded otherwise."""
        return isinstance(self.model.quantizer, FlatQuantizer) and not self.metric.normalizes

    @property
    def mark(self) -> np.dtype[Any] | None:
        """Of rows with several vectors nothing tells which code is which vector's."""
        if self._stores_vectors or self._has_several:
            return None
        return CodeMarks.dtype(self.model)

    @property
    def checked_at_once(self) -> int:
        return max(1, READ_AT_ONCE // (8 * self.dimension))

    def marks(self) -> Iterator[tuple[RowNumbers, npt.NDArray[Any]]]:
        """Rows and what is remembered of their codes."""
        for number, partition in self.stream():
            if len(partition.rows):
                codes = self.model.quantizer.pick_up(partition.stored)
                groups = np.full(len(partition.rows), number, np.uint32)
                yield partition.rows, CodeMarks.of(self.model, codes).packed(groups)

    def suspects(self, values: pa.Array, marks: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Rows whose codes are not what a new encoding gives."""
        vectors, places = indexable(storage_of(values), self.metric)
        groups, known = CodeMarks.unpacked(marks[places])
        here = groups >= 0
        found = np.zeros(len(values), np.bool_)
        codes = self.model.quantizer.encode(vectors[here], groups[here].astype(np.uint32), self.model.centroids)
        found[places[here]] = CodeMarks.of(self.model, codes).differ(known.take(here))
        return found

    def misfits(self, place: Callable[[RowNumbers], npt.NDArray[np.int64]], values: pa.Array) -> npt.NDArray[np.bool_]:
        """Rows whose codes are clearly not theirs."""
        vectors, places = indexable(storage_of(values), self.metric)
        at = np.full(len(values), -1, np.int64)
        at[places] = np.arange(len(places))
        found = np.zeros(len(values), np.bool_)
        for number, partition in self.stream():
            where = place(partition.rows)
            mine = np.flatnonzero((where >= 0) & (at[where] >= 0))
            if len(mine):
                codes = [column[mine] for column in self.model.quantizer.pick_up(partition.stored)]
                found[where[mine]] |= wrong_codes(self.model, codes, vectors[at[where[mine]]], number)
        return found


def _keeps(rename: KeyedRename, partition: Partition) -> bool:
    """Whether it is known that all rows of a partition count."""
    return rename.keeps_all or bool(rename.whole and partition.fragments <= rename.whole)


def _mask(partition: Partition, rename: KeyedRename) -> npt.NDArray[np.bool_]:
    """Which rows of a partition count."""
    if rename.key is None:
        return rename(partition.rows)[1]
    found = partition.masks.get(rename.key)
    if found is None:
        found = rename(partition.rows)[1]
        if len(partition.masks) >= _KEPT_MASKS:
            partition.masks.pop(next(iter(partition.masks)), None)
        partition.masks[rename.key] = found
    return found
