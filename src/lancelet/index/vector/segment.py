"""An open vector segment: searched, described, listed.

A search ranks the centroids, and offers the codes of the nearest partitions to a heap of the best rows. Partitions that
were read stay in memory up to a bound, the least recently used go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput
from lancelet.format.extensions import storage_of
from lancelet.format.system_columns import ROW_ID
from lancelet.index.ranked import Ranked
from lancelet.index.vector.blocks import Block, Blocks
from lancelet.index.vector.centroids import ranking_metric
from lancelet.index.vector.checking import CodeMarks, digests_of, wrong_codes
from lancelet.index.vector.distances import Ranker
from lancelet.index.vector.files import VectorFiles, element_of
from lancelet.index.vector.flat import FlatQuantizer
from lancelet.index.vector.metric import normalized
from lancelet.index.vector.old_file import OldFile, is_old
from lancelet.index.vector.probes import probes_of
from lancelet.index.vector.query import KeyedRename, SharedQuantizer
from lancelet.index.vector.rows import indexable
from lancelet.index.vector.statistics import segment_statistics
from lancelet.index.vector.top import Top
from lancelet.runtime.threads import Pool, core_count

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.index.folder import IndexFolder
    from lancelet.index.kind import Entries, Rename, Source
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.files import Marked, Partition, SegmentFiles, VectorModel
    from lancelet.index.vector.metric import Metric
    from lancelet.index.vector.query import Keep, Prepared, PreparedMany, VectorQuery, Vectors

_KEPT_BYTES: Final = 1 << 30
"""Of partitions that were read."""
_KEPT_MASKS: Final = 4
"""For each partition."""
READ_AT_ONCE: Final = 64 << 20
LEAST_READ: Final = 1 << 20
"""Less than that is not worth another thread."""
_POOL: Final = Pool("lancelet-vectors", core_count())
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
        renaming = rename if isinstance(rename, KeyedRename) else KeyedRename(rename, None)
        return self._finish(self._begin(wanted, count), renaming)

    @cached_property
    def _shared(self) -> SharedQuantizer | None:
        """Compares codes with several queries at once, where that is less work than one after the other."""
        quantizer = self.model.quantizer
        return quantizer if isinstance(quantizer, SharedQuantizer) and not self.is_graph else None

    @property
    def reads_together(self) -> bool:
        """Whether several queries are better asked at once: each code is read once for all of them."""
        return self._shared is not None

    def best_many(self, wanted: Sequence[VectorQuery], count: int, rename: Rename) -> list[Ranked]:
        """The nearest rows for each query."""
        renaming = rename if isinstance(rename, KeyedRename) else KeyedRename(rename, None)
        searches = [self._begin(query, count) for query in wanted]
        if len(wanted) > 1 and self._shared is not None:
            self._look_together(searches, self._shared, renaming)
        return [self._finish(search, renaming) for search in searches]

    def _begin(self, wanted: VectorQuery, count: int) -> _Search:
        """A search of which nothing is done but to rank the partitions."""
        query = wanted.asking(self._normal(wanted.vector), count)
        order, marks = self._ranker.rank(query.vector)
        # How many partitions are probed follows from the rows that are wanted in the end, not from those to be refined.
        first, most = probes_of(wanted, self.metric, marks)
        return _Search(query, order, first, most)

    def _look_together(self, searches: Sequence[_Search], quantizer: SharedQuantizer, rename: KeyedRename) -> None:
        """Go with all searches through the partitions that they begin with, partition by partition.

        The nearest one of each comes first: once it is known, most other rows are found to be too far away at once.
        """
        queries = quantizer.prepare_many([search.query for search in searches], self.metric)
        for begin, end in ((0, 1), (1, None)):
            wanted = [search.order[begin : search.first if end is None else end] for search in searches]
            self._look_at(searches, queries, wanted, rename)

    def _look_at(
        self,
        searches: Sequence[_Search],
        queries: PreparedMany,
        wanted: Sequence[npt.NDArray[np.int64]],
        rename: KeyedRename,
    ) -> None:
        """Look at some partitions for each search."""
        numbers = np.concatenate(wanted)
        if not len(numbers):
            return
        owners = np.repeat(np.arange(len(searches)), [len(own) for own in wanted])
        by_partition = np.argsort(numbers, kind="stable")
        owners = owners[by_partition]
        probed, starts = np.unique(numbers[by_partition], return_index=True)
        ends = np.append(starts, len(numbers))

        def look(pieces: Sequence[slice], tops: list[Top]) -> list[int]:
            counted: list[int] = []
            for piece in pieces:
                read = self.partitions(probed[piece].tolist())
                marked = _marked(read, rename)
                counted.extend(alive for _, alive in marked)
                blocks = Blocks([self._block(partition) for partition in read], [mask for mask, _ in marked])
                own = ends[piece.start : piece.stop + 1]
                queries.scan_grouped(blocks, own - own[0], owners[own[0] : own[-1]], tops)
            return counted

        pieces = self._pieces(probed)
        share = -(-len(pieces) // core_count())
        works = [pieces[at : at + share] for at in range(0, len(pieces), share)]
        # The first of them goes on with what is known already, the others begin with its limits.
        tops = [[search.top for search in searches]]
        tops += [[search.new_top(search.top.limit) for search in searches] for _ in works[1:]]
        asked = [partial(look, work, own) for work, own in zip(works, tops, strict=True)]
        found = [asked[0]()] if len(works) == 1 else _POOL.all(asked)
        for more in tops[1:]:
            for search, top in zip(searches, more, strict=True):
                search.top.join(top)
        alive = np.array([count for counted in found for count in counted])
        times = np.diff(ends)
        kept = np.bincount(owners, np.repeat(alive, times), len(searches))
        compared = np.bincount(owners, np.repeat(np.where(alive > 0, self.sizes[probed], 0), times), len(searches))
        for search, own, rows, codes in zip(searches, wanted, kept.tolist(), compared.tolist(), strict=True):
            search.at += len(own)
            search.kept += int(rows)
            search.compared += int(codes)

    def _pieces(self, numbers: npt.NDArray[np.int64]) -> list[slice]:
        """Partitions in pieces, as many as there are cores or more, so that not too much is in memory at once."""
        ends = np.cumsum(self.sizes[numbers]) * self.model.entry_bytes
        size = min(READ_AT_ONCE, max(int(ends[-1]) // core_count(), LEAST_READ)) if len(ends) else 1
        cuts = [0, *(np.flatnonzero(np.diff(ends // size)) + 1).tolist(), len(numbers)]
        return [slice(begin, end) for begin, end in pairwise(cuts) if begin < end]

    def _finish(self, search: _Search, rename: KeyedRename) -> Ranked:
        """Look at the partitions that are left."""
        query, top = search.query, search.top
        prepared: Prepared | None = None
        while search.at < search.first or (search.at < search.most and search.kept < query.count):
            # What is known to be needed is read together; beyond that, partition by partition.
            prepared = prepared or self.model.quantizer.prepare(query, self.metric)
            self._probe(search, prepared, rename)
        query.use.note(segments=1, partitions=search.at, codes=search.compared)
        marks, rows = top.sorted()
        if not self._has_several and len(set(rows.tolist())) < len(rows):
            raise CorruptFile(self.files.storage_path, "has a row twice", ROW_ID)
        if rename.keeps_names:
            return Ranked(rows, marks)
        addresses, alive = rename(rows)
        return Ranked(addresses[alive], marks[alive])

    def _probe(self, search: _Search, prepared: Prepared, rename: KeyedRename) -> None:
        """Look at the partitions that a search begins with, or at the next one."""
        numbers = search.order[search.at : max(search.first, search.at + 1)].tolist()
        read = self.partitions(numbers)
        search.at += len(numbers)
        probed = _Probed([], [], [])
        for number, partition, (mask, alive) in zip(numbers, read, _marked(read, rename), strict=True):
            if alive:
                search.kept += alive
                probed.numbers.append(number)
                probed.partitions.append(partition)
                probed.masks.append(mask)
        workers = min(search.query.workers, len(probed.numbers))
        if workers < 2:
            search.compared += self._look(probed, search.query, prepared, search.top)
            return

        def look(part: _Probed) -> tuple[int, Top]:
            top = search.new_top()
            own = self.model.quantizer.prepare(search.query, self.metric)
            return self._look(part, search.query, own, top), top

        for compared, top in _POOL.all([partial(look, probed.share(at, workers)) for at in range(workers)]):
            search.compared += compared
            search.top.add(*top.sorted())

    def _look(self, probed: _Probed, query: VectorQuery, prepared: Prepared, top: Top) -> int:
        """Offer the rows of partitions that count; tells how many codes were compared."""
        model = self.model
        if not self.is_graph:
            blocks = Blocks(
                [partition.block or self._block(partition) for partition in probed.partitions], probed.masks
            )
            if blocks.count:
                prepared.scan_blocks(blocks, model.centroids[probed.numbers], top)
            return blocks.total
        compared = 0
        for number, partition, mask in zip(*probed, strict=True):
            parts = partition.stored, partition.rows, model.centroids[number]
            assert partition.graph is not None, "partitions of a graph index have one"
            compared += partition.graph.search(model.quantizer, query, prepared, *parts, top, mask)
        return compared

    def _block(self, partition: Partition) -> Block:
        if partition.block is None:
            partition.block = Block(partition.rows, self.model.quantizer.as_scanned(partition.stored))
        return partition.block

    def _normal(self, vector: Vectors) -> Vectors:
        """A query in the type of the column, and of length 1 where the metric wants it."""
        found = np.asarray(vector)
        if found.ndim != 1 or len(found) != self.dimension:
            raise InvalidInput(f"the query has shape {found.shape}, but the vectors have {self.dimension} numbers")
        found = found.astype(self.model.centroids.dtype, copy=False)
        return normalized(found[None])[0] if self.metric.normalizes else found

    @cached_property
    def _ranker(self) -> Ranker:
        """Tells the nearest partitions."""
        centroids = self.model.centroids
        return Ranker(centroids, centroids.dtype.name, ranking_metric(self.metric).value)

    def partitions(self, numbers: Sequence[int]) -> list[Partition]:
        """Partitions by their numbers, from memory or from the files."""
        held = self._held
        with self._lock:
            found = {number: held[number] for number in numbers if number in held}
            for number in found:
                held.move_to_end(number)
        if len(found) < len(numbers):
            missing = [number for number in numbers if number not in found]
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


class _Probed(NamedTuple):
    """Partitions that a search looks at, with the rows that count of each."""

    numbers: list[int]
    partitions: list[Partition]
    masks: list[Keep | None]

    def share(self, at: int, workers: int) -> _Probed:
        """What one of some workers looks at."""
        return _Probed(self.numbers[at::workers], self.partitions[at::workers], self.masks[at::workers])


@dataclass(slots=True)
class _Search:
    """How far a search has come."""

    query: VectorQuery
    """Normalised, and for as many rows as are looked for here."""
    order: npt.NDArray[np.int64]
    """All partitions, the nearest first."""
    first: int
    """So many are looked at in any case."""
    most: int
    """And so many while there are too few rows."""
    at: int = 0
    """How many were looked at."""
    kept: int = 0
    """How many rows that count these have."""
    compared: int = 0
    top: Top = field(init=False)

    def __post_init__(self) -> None:
        self.top = self.new_top()

    def new_top(self, limit: float = np.inf) -> Top:
        """Where near rows are collected; those farther than a limit need not be among them."""
        upper = self.query.upper
        if limit < np.inf and (upper is None or limit < upper):
            upper = float(np.nextafter(np.float32(limit), np.float32(np.inf)))
        return Top(self.query.count, self.query.lower, upper)


def _marked(partitions: Sequence[Partition], rename: KeyedRename) -> list[Marked]:
    """Which rows of some partitions count; what is not known yet is asked at once."""
    if rename.keeps_all:
        return [(None, len(partition.rows)) for partition in partitions]
    key = rename.key
    known = [None if key is None else partition.masks.get(key) for partition in partitions]
    asked = [partition for partition, marked in zip(partitions, known, strict=True) if marked is None]
    if not asked:
        return [marked for marked in known if marked is not None]
    new = iter(_find_marked(asked, rename))
    found = []
    for partition, marked in zip(partitions, known, strict=True):
        found.append(next(new) if marked is None else marked)
        if marked is None and key is not None:
            if len(partition.masks) >= _KEPT_MASKS:
                partition.masks.pop(next(iter(partition.masks)), None)
            partition.masks[key] = found[-1]
    return found


def _find_marked(partitions: Sequence[Partition], rename: KeyedRename) -> list[Marked]:
    whole = rename.whole
    found: list[Marked | None] = [
        (None, len(partition.rows))
        if whole and all(end <= whole.get(number, 0) for number, end in partition.ends.items())
        else None
        for partition in partitions
    ]
    rest = [partition.rows for partition, marked in zip(partitions, found, strict=True) if marked is None]
    if rest:
        _, counted = rename(np.concatenate(rest))
        masks = iter(np.split(counted, np.cumsum([len(rows) for rows in rest])[:-1]))
        found = [_counted(next(masks)) if marked is None else marked for marked in found]
    return [marked for marked in found if marked is not None]


def _counted(mask: Keep) -> Marked:
    alive = int(np.count_nonzero(mask))
    return (None if alive == len(mask) else mask.copy()), alive
