"""What every kind of index can do, and what is known of it.

A kind knows how its segments are written and opened; a segment is an open one and answers questions. Writing has one
form: a new segment is made of the entries of older ones and of new rows, either of which may be missing. So
training is writing from rows alone, merging is writing from segments alone, an update is both, and a remap after
rows moved is a segment whose rows are renamed on the way.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.index.row_set import RowNumbers, RowSet
from lancelet.table.commit.index_upkeep import details_name
from lancelet.table.rows.addresses import row_addresses

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.metadata import IndexMetadata
    from lancelet.index.questions import Answer, Question
    from lancelet.index.zones import Zones
    from lancelet.table.manifest.snapshot import Snapshot

VALUE, ROW = "value", "row"
"""Columns of new rows: the indexed value, and the row's address or id."""

Rename = Callable[[RowNumbers], tuple[RowNumbers, npt.NDArray[np.bool_]]]
"""Rows as they are called now, and which of them still belong into the index."""

Entries = tuple[npt.NDArray[np.uint64], RowNumbers]
"""Hashes of entries (see :mod:`lancelet.index.scalar.digests`), and the row of each."""

_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Built:
    """What the manifest has to know of a new segment, apart from its files."""

    details: bytes = b""
    """The message that the kind's ``type_url`` names."""
    index_version: int = 0
    covers: bool = True
    """False: nothing could be built yet, and no fragment is covered."""


@dataclass(frozen=True, slots=True)
class Source:
    """An older segment, and what became of its rows."""

    segment: Segment
    rename: Rename | None = None
    """None: they are all as they were."""
    most_rows: Callable[[int], int] | None = None
    """How many rows there can be under an upper half of addresses or ids: those that an entry for all of them means."""

    def renamed(self, rows: RowSet) -> RowSet:
        """A set of the segment, with the names that its rows have now."""
        if self.rename is None:
            return rows
        parts = []
        for high in sorted(rows.fragments):
            numbers = self.all_rows(high) if rows.is_whole(high) else [rows.within([high]).numbers()]
            for some in numbers:
                now, kept = self.rename(some)
                parts.append(RowSet.of(now[kept]))
        return RowSet.union(parts)

    def all_rows(self, high: int) -> Iterator[RowNumbers]:
        """All rows under an upper half, in bounded steps."""
        if self.most_rows is None:
            raise InvalidInput(f"the segment stands for all rows of fragment {high}, of which the number is not known")
        count = self.most_rows(high)
        for start in range(0, count, _ROWS_AT_ONCE):
            yield row_addresses(high, np.arange(start, min(start + _ROWS_AT_ONCE, count)))


class Segment(Protocol):
    """An open segment. What it keeps in memory is bounded by ``nbytes``, which a cache looks at."""

    @property
    def nbytes(self) -> int: ...

    def statistics(self) -> Mapping[str, Any]:
        """What ``index_statistics`` tells of a segment, under pylance's names."""


@runtime_checkable
class Answering(Segment, Protocol):
    """A segment that knows for which rows something holds."""

    def ask(self, question: Question) -> Answer:
        """Rows in the segment's own terms: addresses or ids. Only questions that the kind ``takes`` come."""


@runtime_checkable
class Weighing(Protocol):
    """A segment that can tell what an answer will cost."""

    def share(self, question: Question) -> float:
        """About which share of its entries an answer takes, from 0 to 1; without reading any."""


@runtime_checkable
class Listing(Protocol):
    """A segment that can tell all that it knows, row by row, so that a check can compare it with the column."""

    def entries(self, source: Source) -> Iterator[Entries]:
        """Everything in it, in pieces; ``source`` is the segment itself, with the numbers of rows of fragments."""

    def digests(self, values: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_] | None]:
        """For values of the column the sums of the hashes of their entries, and which of these are sure; None: all."""


@runtime_checkable
class Summarizing(Protocol):
    """A segment that knows stretches of rows, not single ones."""

    @property
    def zones(self) -> Zones: ...

    def admits(self, zone: int, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Which of some values a zone says that it may have; nulls are not asked for."""


@runtime_checkable
class Encoded(Protocol):
    """A segment whose entries are codes: there may be several that are as good, and values can only be compared with them."""

    @property
    def mark(self) -> np.dtype[Any] | None:
        """The type of what is remembered of a code; None where codes are not compared. A mark of zeros is none."""

    @property
    def checked_at_once(self) -> int:
        """How many values are compared with their codes at once."""

    def marks(self) -> Iterator[tuple[RowNumbers, npt.NDArray[Any]]]:
        """Rows and what is remembered of their codes, in pieces."""

    def suspects(self, values: pa.Array, marks: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """For which values the codes, by their marks, may not be those that the values should have."""

    def misfits(self, place: Callable[[RowNumbers], npt.NDArray[np.int64]], values: pa.Array) -> npt.NDArray[np.bool_]:
        """Which values have codes that are not theirs; ``place`` tells where values of rows are, -1 for those that are not here."""


class Moves(enum.Enum):
    """What becomes of a segment that names rows by address when a rewrite of fragments moves these."""

    REWRITTEN = "a new segment takes its place, with the new addresses"
    FOLLOWED = "the fragment-reuse index finds its rows, whether anybody asked for it or not"
    LEFT = "the new fragments are not covered until it is extended"


class KnownKind:
    """A kind of index that is recognised: its segments are described, and kept as they are.

    All facts about a kind are here or in a subclass; what can be built too is a :class:`Kind`. One object for each is
    in :mod:`lancelet.index.registry`. Modules of kinds are light, and import what opens and writes segments inside
    of methods: when it was measured, importing the facts took 6 ms and all the rest 21 ms.
    """

    name: str
    """As users write it: ``BTREE``."""
    aliases: tuple[str, ...] = ()
    """Other names that users write."""
    type_url: str
    """Of the message with its details; the last part of it is what segments are known by, in any case of letters."""
    marks: tuple[str, ...] = ()
    """Files by which the oldest segments are known, whose entries have no details."""
    last_version_with_ids: int | None = None
    """Segments up to this ``index_version`` name rows by their stable ids where a table has these; None: none does."""
    moves: Moves = Moves.LEFT
    has_metric: bool = False
    """Whether its index has a measure of distance among its options."""

    @property
    def details_name(self) -> str:
        """``BTreeIndexDetails``."""
        return details_name(self.type_url)

    def names_addresses(self, entry: IndexMetadata) -> bool:
        """Whether a segment names rows by address where the table has stable row ids."""
        return self.last_version_with_ids is None or (entry.index_version or 0) > self.last_version_with_ids

    with_stable_ids: bool = True
    """Whether its segments can be relied on in tables with stable row ids."""

    def specific(self, entry: IndexMetadata) -> KnownKind:
        """The kind of a segment, where one name of details is that of several."""
        return self

    def title(self, snapshot: Snapshot, entry: IndexMetadata) -> str:
        """What descriptions call the kind of a segment: ``BTree``."""
        return title_of(self.type_url)

    def parameters(self, entry: IndexMetadata, path: str) -> dict[str, Any]:
        """The options that a segment was built with, as descriptions show them; ``path`` is that of the manifest."""
        return {}

    def statistics(self, snapshot: Snapshot, entry: IndexMetadata) -> Mapping[str, Any]:
        """What is told of a segment that cannot be opened."""
        return {"uuid": str(entry.uuid)}


class Kind(KnownKind, ABC):
    """A kind whose segments we write and open."""

    learns: bool = False
    """Whether segments hold what was learned from rows: those that learned apart cannot always be put together."""
    most_columns: int = 1
    """Over how many columns an index may be. The values of several go together as those of a struct."""
    reads_stored_json: bool = False
    """Whether it is on JSON alone, and reads that as it is stored."""
    is_heavy: bool = False
    """Whether what a build costs goes by the bytes of the column, and not by its rows; ``num_workers`` bounds its threads."""
    takes_items: bool = False
    """Whether it is on fields of structs too that are items of lists."""
    takes_json: bool = False
    """Whether it looks into JSON documents too; other kinds see bytes of which nothing is known."""
    named_options: frozenset[str] = frozenset()
    """Options that users give as arguments of their own."""
    newest_version: int = 0
    """Segments of a higher ``index_version`` are left alone."""

    @property
    def by_address(self) -> bool:
        """New segments name rows by their address, even where a table has stable row ids."""
        return self.last_version_with_ids is None or self.newest_version > self.last_version_with_ids

    def opens(self, entry: IndexMetadata) -> bool:
        """Whether a segment is of a form that this version knows."""
        return True

    def options_of(self, name: str, options: Mapping[str, object]) -> Mapping[str, Any]:
        """Options of users who called the kind by one of its names."""
        return options

    def chosen(self, options: Mapping[str, object]) -> Kind:
        """The kind that is built with some options, where one name is that of several."""
        return self

    def value_type(self, folder: IndexFolder, dtype: pa.DataType) -> pa.DataType:
        """The type of the values of a segment over a column of some type."""
        return dtype

    def indexed_values(self, values: pa.Array, folder: IndexFolder) -> pa.Array:
        """What a segment knows of values of its column."""
        return values

    @abstractmethod
    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        """Raise when a column cannot have such an index, or an option is not known."""

    def options_on(self, column: pa.Field, options: Mapping[str, object]) -> Mapping[str, Any]:
        """Options that were checked, with what the column says of them."""
        return options

    def name_suffix(self, options: Mapping[str, object]) -> str:
        """What follows the name of the column in that of an index, when nobody names it."""
        return "_idx"

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        """The options with which another segment like this one is written, also when this one is damaged."""
        return {}

    def options_beside(self, folder: IndexFolder) -> Mapping[str, Any]:
        """The same for a segment of the same index, which shares what this one has learned."""
        return self.options(folder)

    def learned(self, rows: NewRows, options: Mapping[str, object]) -> Mapping[str, Any] | None:
        """Options with what is learned from rows, so that segments over some of them go together; None: these are too few."""
        return options

    def is_worth_merging(self, rows: int, options: Mapping[str, object]) -> bool:
        """Whether segments that were built side by side, over so many rows in all, are best made one."""
        return True

    def is_built(self, entry: IndexMetadata) -> bool:
        """Whether a segment has files; one that waits for rows to learn from has none."""
        return True

    def can_merge(self, segments: Sequence[Segment]) -> bool:
        """Whether entries of segments go together without a look at the rows."""
        return True

    def rebalanced(
        self, segments: Sequence[Segment], options: Mapping[str, object], new: NewRows
    ) -> Mapping[str, Any] | None:
        """Options for one segment in place of all, where what they learned does not fit the rows any more; None: it does."""
        return None

    @abstractmethod
    def open(self, folder: IndexFolder, dtype: pa.DataType) -> Segment:
        """Open a segment over values of a type."""

    @abstractmethod
    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        """Write a segment of the entries of older ones and of new rows, of which ``out.memory_limit`` may be in memory."""


class ScalarKind(Kind):
    """A kind that filters ask: its answer is a set of rows."""

    is_exact: bool = False
    """Whether it knows the rows for which something holds, not only where they may be."""
    rank: int
    """Of several indices on a column, that of the lowest rank is asked first."""

    def keys(self, entry: IndexMetadata) -> tuple[str, ...] | None:
        """The members of JSON documents that a segment is about; (): the column itself, None: nothing that filters name."""
        return ()

    @abstractmethod
    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        """Whether segments over a column of this type answer such questions."""

    @abstractmethod
    def open(self, folder: IndexFolder, dtype: pa.DataType) -> Answering:
        """Open a segment over values of a type."""


RangePart = TypeVar("RangePart")


@runtime_checkable
class BuiltByRange(Protocol[RangePart]):
    """A kind of which several processes can write ranges of the values, and one of them puts these together."""

    def write_range(
        self, batches: Iterable[pa.RecordBatch], dtype: pa.DataType, out: SegmentWriter, part: int, attempt: int
    ) -> RangePart:
        """Write one range; attempts that may run side by side have numbers. What it returns can be pickled."""

    def files_of_range(self, part: RangePart) -> Sequence[str]:
        """The names of the files of a range."""

    def finish_ranges(self, parts: Iterable[RangePart], dtype: pa.DataType, out: SegmentWriter) -> Built:
        """Make a segment of ranges, in whatever order they come."""


@runtime_checkable
class BuiltInStages(Protocol):
    """A kind of which several processes write parts into the folder of one segment, where they wait to be merged."""

    def stage_options(self, fragments: Sequence[int]) -> Mapping[str, Any]:
        """Options that make a part over some fragments of what would be a segment."""

    def staged(self, folder: IndexFolder, names: Sequence[str], dtype: pa.DataType) -> Sequence[Segment]:
        """The parts that wait, by the names of their files."""

    def options_of_staged(self, segments: Sequence[Segment]) -> Mapping[str, Any]:
        """The options with which such parts become a segment."""


def title_of(type_url: str) -> str:
    """The name of a kind in its type URL."""
    return details_name(type_url).removesuffix("IndexDetails") or "Unknown"


class Stages:
    """Steps of a build that somebody may want to hear of; this one is for nobody."""

    def begin(self, name: str, total: int | None, unit: str) -> None:
        """A step begins, which goes to ``total`` if that is known."""

    def advance(self, done: int) -> None:
        """How far it is."""

    def complete(self) -> None:
        """It is done."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows that are not in an index yet."""

    dtype: pa.DataType
    batches: Iterable[pa.RecordBatch] = field(default=())
    """Columns ``value`` and ``row``; by ascending address, whatever ``row`` holds. Read once."""
    count: int | None = None
    """How many they are, where that is known."""
    sample: Callable[[int, int], Iterable[pa.Array]] | None = None
    """Values of about so many of them, drawn by a seed, for kinds that learn from rows before they take them in."""
    stages: Stages = field(default_factory=Stages)
    extension: str = ""
    """The name of the column's extension type."""
