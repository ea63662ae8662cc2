"""Checks of index segments: their entries in the manifest, their files, and, deep, what they say.

A segment of a kind that we know is opened as a search opens it. A deep check also compares all that it says with the
column, fragment by fragment, in bounded memory::

    BTREE, BITMAP, LABEL_LIST, NGRAM,   every live row that is covered, with its value, and nothing else
    RTREE, INVERTED, MINHASHLSH
    ZONEMAP, BLOOMFILTER                every live row lies in a zone that may have its value; nulls exactly
    vectors                             every live row that is covered, as often as it has vectors, and codes that are
                                        about as near to them as new ones; of lists of vectors not the codes

Of an index over several columns the files are opened, and not compared. Of other kinds the files must be there, with the
sizes that are recorded, and be whole containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.errors import CorruptFile, LanceletError, MissingFile
from lancelet.execution.outdated_texts import outdated_documents
from lancelet.execution.plan import ScanPlan
from lancelet.execution.scan import Scan
from lancelet.execution.shown import texts_type
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column
from lancelet.file import FileCache
from lancelet.file.checksums import check_file
from lancelet.file.container import MAGIC, Container, tail_length, version_of_footer
from lancelet.format.extensions import storage_of
from lancelet.format.file_versions import LEGACY
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.index.folder import IndexFolder
from lancelet.index.kind import ROW, VALUE, Answering, Encoded, Kind, Listing, ScalarKind, Segment, Source, Summarizing
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.questions import Missing
from lancelet.index.row_set import RowSet
from lancelet.index.segments import Whereabouts, indexed_fields, joined_type, joined_values, text_chains, usable_kind
from lancelet.index.text.segment import TextSegment
from lancelet.maintenance.validation.report import MISSING, UNREADABLE, Finding, Level, trouble
from lancelet.maintenance.validation.version import Tally
from lancelet.table.manifest.names import INDICES_DIR
from lancelet.table.manifest.version_files import index_files
from lancelet.table.rows.addresses import OFFSET_BITS, OFFSET_MASK, fragments_of

if TYPE_CHECKING:
    from lancelet.format.proto import table_pb2
    from lancelet.format.schema import Field
    from lancelet.index.row_set import RowNumbers
    from lancelet.table.manifest.paths import FilePlace
    from lancelet.table.manifest.snapshot import Snapshot

REBUILD: Final = "drop the index and build it again; rows can be read without it (use_scalar_index=False)"
WRONG: Final = "wrong index"
OUTDATED: Final = "outdated index"
_CONTAINERS: Final = (".lance", ".idx")
_ROWS_AT_ONCE: Final = 1 << 22
"""Rows that are compared at once: 24 bytes of memory each."""
_BATCH_ROWS: Final = 1 << 16
_NAMED: Final = 3

Mask = npt.NDArray[np.bool_]


def check_indices(snapshot: Snapshot, tally: Tally, *, deep: bool) -> Iterator[Finding]:
    """Check all segments of a version."""
    table = TableReader(snapshot, FileCache())
    where = Whereabouts(snapshot, lambda: table.row_id_index, table.physical_rows)
    seen: set[str] = set()
    for entry, message in zip(read_indices(snapshot.manifest), snapshot.manifest.indices, strict=True):
        place = f"index {entry.name!r}, segment {entry.uuid}"
        if str(entry.uuid) in seen:
            yield Finding(Level.WARNING, "index", place, "is listed twice", "drop the index and build it again")
        seen.add(str(entry.uuid))
        yield from _entry(snapshot, entry, place)
        damaged = list(_files(snapshot, message, place, tally, deep=deep))
        yield from damaged
        kind = usable_kind(snapshot, entry)
        if damaged or kind is None or not kind.is_built(entry):
            continue
        fields = indexed_fields(snapshot, entry)
        main = _main_file(snapshot, entry)
        try:
            chains = dict(text_chains(snapshot.manifest.schema.fields))
            dtype = joined_type([pa.field(field.name, texts_type(chains[field.id])) for field in fields])
            folder = IndexFolder(snapshot, entry)
            segment = kind.open(folder, dtype)
            if deep:
                values = _values(table, fields, dtype, partial(kind.indexed_values, folder=folder))
                yield from _content(table, where, entry, kind, segment, values, main)
        except LanceletError as error:
            yield _named(error, place, main)


def _entry(snapshot: Snapshot, index: IndexMetadata, place: str) -> Iterator[Finding]:
    """What the manifest says of a segment must fit the rest of it."""
    manifest = snapshot.manifest
    lost = sorted(set(index.fields) - {node.id for node in manifest.schema.walk()})
    if lost:
        problem = f"covers field(s) {lost}, which the schema does not have"
        yield Finding(Level.WARNING, "index", place, problem, "drop the index")
    # Fragments that are gone may stay in the bitmap; those that never were may not.
    greatest = manifest.max_fragment_id
    covered = max(index.fragment_ids or (), default=-1)
    if greatest is not None and covered > greatest:
        problem = f"covers fragment {covered}, but the greatest fragment id ever given is {greatest}"
        yield Finding(Level.WARNING, "index", place, problem, "drop the index and build it again")


def _files(
    snapshot: Snapshot, index: table_pb2.IndexMetadata, place: str, tally: Tally, *, deep: bool
) -> Iterator[Finding]:
    """Every file is there, as large as it should be, and a whole container if it is to be one."""
    try:
        files = list(index_files(index, snapshot))
    except LanceletError as error:
        yield trouble(error, place)
        return
    for file in files:
        try:
            where = file.place(snapshot.places)
            size = where.store.size_of(where.path)
        except MissingFile as error:
            yield Finding(Level.ERROR, MISSING, error.path, f"{place} needs it", REBUILD)
            continue
        except LanceletError as error:
            yield trouble(error, place)
            continue
        tally.files.add(where.full_path)
        if file.size is not None and size != file.size:
            problem = f"has {size} bytes, but {file.size} are recorded for {place}"
            yield Finding(Level.ERROR, "wrong size", where.full_path, problem, REBUILD)
        elif file.path.endswith(_CONTAINERS):
            try:
                if deep:
                    check_file(where.open(size))
                _check_container(where, size)
            except LanceletError as error:
                yield _named(error, place, where.full_path)


def _check_container(where: FilePlace, size: int) -> None:
    """Read what locates the rest of a file."""
    source = where.open(size)
    length = tail_length(size)
    if length < len(MAGIC):
        raise CorruptFile(where.full_path, f"{size} bytes are too few for a Lance file", "footer")
    (tail,) = source.read([(size - length, length)])
    if version_of_footer(tail, where.full_path) == LEGACY:
        return
    container = Container.read(source, size, where.full_path, tail)
    container.descriptor(source)
    for number in range(len(container.columns)):
        container.column(source, number)


def _main_file(snapshot: Snapshot, entry: IndexMetadata) -> str:
    """The file that a segment's entries are in: the largest."""
    if not entry.files:
        return snapshot.store.join(f"{INDICES_DIR}/{entry.uuid}")
    largest = max(entry.files, key=lambda file: file.size)
    return snapshot.places.index_file(str(entry.uuid), largest.path, entry.base_id).full_path


def _named(error: LanceletError, place: str, file: str) -> Finding:
    if isinstance(error, CorruptFile):
        return Finding(Level.ERROR, UNREADABLE, error.path, f"{place}: {error}", REBUILD)
    found = trouble(error, place)
    return Finding(found.level, found.kind, file if found.place == place else found.place, str(error), REBUILD)


# What segments say


def _content(
    table: TableReader,
    where: Whereabouts,
    entry: IndexMetadata,
    kind: Kind,
    segment: Segment,
    values: _Values,
    main: str,
) -> Iterator[Finding]:
    rename = where.rename_to_addresses(entry)
    source = Source(segment, rename, lambda high: where.most_rows(entry, high))
    if isinstance(segment, TextSegment):
        yield from _outdated(table, where, entry, segment, values, main)
    for fragments in _groups(table, where.coverage(entry)):
        rows = _Rows(table, fragments)
        if isinstance(segment, Listing):
            _compare_entries(rows, segment, source, values)
            if isinstance(segment, Encoded) and segment.mark is not None:
                _compare_codes(rows, segment, segment.mark, source, values)
        elif isinstance(segment, Summarizing):
            _compare_zones(rows, segment, source, values)
        if isinstance(segment, Answering) and not isinstance(segment, Listing) and _knows_nulls(kind, values):
            _compare_nulls(rows, segment, where, entry, values)
        yield from rows.findings(f"index {entry.name!r}, segment {entry.uuid}", main)


def _outdated(
    table: TableReader, where: Whereabouts, entry: IndexMetadata, segment: TextSegment, values: _Values, main: str
) -> Iterator[Finding]:
    """Old texts of rows, which searches pass over; what else is wrong is found without them."""
    marks = outdated_documents(table, where, entry, values.columns[0].path, segment).marks
    segment.disregard(marks)
    if marks:
        count = sum(int(np.count_nonzero(some)) for some in marks.values())
        problem = (
            f"index {entry.name!r}, segment {entry.uuid} has {count} text(s) that rows had before they were updated; "
            "pylance finds these rows by them, lancelet passes them over"
        )
        yield Finding(Level.WARNING, OUTDATED, main, problem, "call optimize.optimize_indices() of lancelet")


def _knows_nulls(kind: Kind, values: _Values) -> bool:
    return isinstance(kind, ScalarKind) and kind.takes(Missing(), values.type)


@dataclass(frozen=True, slots=True)
class _Values:
    """What a segment is over: a column, or several, whose values go together as those of a struct."""

    columns: tuple[Column, ...]
    type: pa.DataType
    indexed: Callable[[pa.Array], pa.Array]
    """What the segment is to know of them."""


def _values(
    table: TableReader, fields: Sequence[Field], dtype: pa.DataType, indexed: Callable[[pa.Array], pa.Array]
) -> _Values:
    chains = dict(text_chains(table.snapshot.manifest.schema.fields))
    known = [chains[field.id] for field in fields]
    columns = [Column(tuple(node.name for node in chain), texts_type(chain)) for chain in known]
    return _Values(tuple(columns), dtype, indexed)


def _groups(table: TableReader, covered: Iterable[int]) -> Iterator[list[int]]:
    """Fragments whose rows are few enough to be compared at once."""
    group: list[int] = []
    total = 0
    for number in sorted(covered):
        rows = table.physical_rows(number)
        if group and total + rows > _ROWS_AT_ONCE:
            yield group
            group, total = [], 0
        group.append(number)
        total += rows
    if group:
        yield group


class _Rows:
    """The rows of some fragments, and what is wrong with them in a segment."""

    def __init__(self, table: TableReader, fragments: list[int]) -> None:
        self.table = table
        self.fragments = np.array(fragments, np.uint64)
        counts = [table.physical_rows(number) for number in fragments]
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        self.live = np.zeros(int(self.starts[-1]), np.bool_)
        self.faults: list[tuple[str, npt.NDArray[np.int64]]] = []

    def __len__(self) -> int:
        return len(self.live)

    def slots(self, addresses: RowNumbers) -> tuple[npt.NDArray[np.int64], Mask]:
        """Places of addresses among these rows, and which are among them."""
        high = fragments_of(addresses)
        at = np.minimum(np.searchsorted(self.fragments, high), len(self.fragments) - 1)
        slots = self.starts[at] + (addresses & np.uint64(OFFSET_MASK)).astype(np.int64)
        return slots, (self.fragments[at] == high) & (slots < self.starts[at + 1])

    def batches(self, wanted: _Values) -> Iterator[tuple[pa.Array, npt.NDArray[np.int64]]]:
        """Values of the live rows, and their places."""
        manifest = self.table.snapshot.manifest
        named = tuple((f"{VALUE}{number}", column) for number, column in enumerate(wanted.columns))
        outputs = (*named, (ROW, Column((ROW_ADDRESS,), pa.uint64())))
        chosen = tuple(self.fragments.tolist())
        plan = ScanPlan(manifest.schema, outputs, batch_size=_BATCH_ROWS, fragment_ids=chosen)
        for batch in Scan(self.table, plan).batches():
            if not batch.num_rows:
                continue
            *arrays, addresses = batch.columns
            slots, _ = self.slots(numpy_array(addresses))
            self.live[slots] = True
            yield wanted.indexed(joined_values([storage_of(array) for array in arrays], wanted.type)), slots

    def note(self, what: str, wrong: Mask) -> None:
        """Note rows, of which those that are not live do not count."""
        found = np.flatnonzero(wrong & self.live)
        if len(found):
            self.faults.append((what, found))

    def findings(self, place: str, file: str) -> Iterator[Finding]:
        for what, slots in self.faults:
            owners = np.searchsorted(self.starts, slots[:_NAMED], side="right") - 1
            rows = [
                f"row {slot - int(self.starts[owner])} of fragment {int(self.fragments[owner])}"
                for slot, owner in zip(slots[:_NAMED].tolist(), owners.tolist(), strict=True)
            ]
            some = ", ".join(rows) + (", ..." if len(slots) > _NAMED else "")
            yield Finding(Level.ERROR, WRONG, file, f"{place} {what} {len(slots)} row(s): {some}", REBUILD)


def _compare_entries(rows: _Rows, segment: Listing, source: Source, indexed: _Values) -> None:
    """Sums of hashes of the entries of each row, by the segment and by the column."""
    wanted, known = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)
    sure = np.ones(len(rows), np.bool_)
    for values, slots in rows.batches(indexed):
        digests, certain = segment.digests(values)
        wanted[slots] = digests
        if certain is not None:
            sure[slots] = certain
    assert source.rename is not None
    for digests, numbers in segment.entries(source):
        addresses, kept = source.rename(np.ascontiguousarray(numbers))
        slots, here = rows.slots(addresses)
        here &= kept
        np.add.at(known, slots[here], digests[here])
    rows.note("does not have", (known == 0) & (wanted != 0) & sure)
    rows.note("has other values for", (known != 0) & (known != wanted) & sure)


def _compare_codes(rows: _Rows, segment: Encoded, mark: np.dtype[Any], source: Source, indexed: _Values) -> None:
    """Codes are those of the values; where they are many that do not seem so, the first of these are looked at."""
    assert source.rename is not None
    rename = source.rename

    def slots_of(numbers: RowNumbers) -> npt.NDArray[np.int64]:
        addresses, kept = rename(np.ascontiguousarray(numbers))
        slots, here = rows.slots(addresses)
        return np.where(here & kept, slots, -1)

    marks = np.zeros(len(rows), mark)
    for numbers, some in segment.marks():
        slots = slots_of(numbers)
        marks[slots[slots >= 0]] = some[slots >= 0]
    parts = [slots[segment.suspects(values, marks[slots])] for values, slots in rows.batches(indexed)]
    suspects = np.sort(np.concatenate(parts))[: segment.checked_at_once] if parts else np.empty(0, np.int64)
    if not len(suspects):
        return
    places = np.full(len(rows) + 1, -1, np.int64)
    places[suspects] = np.arange(len(suspects))
    found = []
    for values, slots in rows.batches(indexed):
        chosen = places[slots] >= 0
        found.append((slots[chosen], values.filter(pa.array(chosen))))
    order = np.concatenate([slots for slots, _ in found])
    places[order] = np.arange(len(order))
    vectors = pa.concat_arrays([values for _, values in found])
    wrong = np.zeros(len(rows), np.bool_)
    wrong[order] = segment.misfits(lambda numbers: places[slots_of(numbers)], vectors)
    rows.note("has codes of other vectors for", wrong)


def _compare_zones(rows: _Rows, segment: Summarizing, source: Source, indexed: _Values) -> None:
    """Every value is one that a zone of its row may have."""
    assert source.rename is not None
    which, zones = segment.zones.followed(source.rename)
    order = np.lexsort((zones.starts, zones.fragments))
    addresses = zones.fragments.astype(np.uint64) << np.uint64(OFFSET_BITS)
    first, here = rows.slots(addresses | zones.starts.astype(np.uint64))
    order = order[here[order]]
    begins, lengths = first[order], (zones.stops - zones.starts)[order]
    ends = np.maximum.accumulate(begins + lengths) if len(order) else begins
    admitted = np.zeros(len(rows), np.bool_)
    for values, slots in rows.batches(indexed):
        # Zones that may reach into the batch: all others end before it, or begin after it.
        low = int(np.searchsorted(ends, slots[0], side="right"))
        high = int(np.searchsorted(begins, slots[-1], side="right"))
        for zone in range(low, high):
            start, stop = np.searchsorted(slots, [begins[zone], begins[zone] + lengths[zone]]).tolist()
            if start < stop:
                part = values.slice(start, stop - start)
                allowed = segment.admits(int(which[order[zone]]), part) | np.asarray(part.is_null())
                admitted[slots[start:stop]] |= allowed
    rows.note("would not find", ~admitted)


def _compare_nulls(rows: _Rows, segment: Answering, where: Whereabouts, entry: IndexMetadata, indexed: _Values) -> None:
    answer = segment.ask(Missing())
    found = where.present(entry, answer.rows, RowSet.whole(rows.fragments.tolist()))
    known, nulls = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    for at, number in enumerate(rows.fragments.tolist()):
        start, stop = int(rows.starts[at]), int(rows.starts[at + 1])
        known[start + found.offsets(number) if not found.is_whole(number) else slice(start, stop)] = True
    for values, slots in rows.batches(indexed):
        nulls[slots] = np.asarray(values.is_null())
    rows.note("does not know the null in", nulls & ~known)
    if answer.exact:
        rows.note("takes a value for null in", known & ~nulls)
