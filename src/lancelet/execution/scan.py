"""Running a scan: units of rows, read side by side, handed out in order.

First the indices are asked which rows the filter can be true for
(:mod:`lancelet.execution.candidates`); what they do not know is cut into units as a
whole. For each unit: decode the filter's columns, find the rows that pass and
are not deleted, then decode the other columns, whole when most rows are wanted
and only the needed chunks when few are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.encoding.rows import Indices, RowIndices, RowRange, Rows
from lancelet.errors import CorruptFile
from lancelet.execution.blobs import as_binary
from lancelet.execution.costs import (
    LITTLE_BYTES,
    LITTLE_ROWS,
    MIN_UNIT_ROWS,
    MOST_SPARSE_ROWS,
    MOST_TESTED_SHARE,
    MOST_UNIT_BYTES,
    SMALL_PAGE,
    SPARSE_SHARE,
    SPARSE_WIDE_SHARE,
    TOGETHER_ROWS,
    WIDE_BYTES,
)
from lancelet.execution.fragment_reader import Column as Values
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.plan import ScanPlan, column_of, needed_fields
from lancelet.execution.shown import resolve_batch, show_column
from lancelet.execution.single_rows import pick_rows_together
from lancelet.execution.table_reader import TableReader
from lancelet.execution.threads import checkpoint, core_count, ordered_map
from lancelet.execution.units import LOCAL_UNIT, REMOTE_UNIT, Chosen, Unit, choose, cut, group, row_width
from lancelet.expressions.expr import Column, Expr
from lancelet.expressions.sort import sort_table
from lancelet.format.schema import Field
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID, ROW_OFFSET
from lancelet.log import debug
from lancelet.runtime import compute as pc
from lancelet.runtime.attributes import cached_property
from lancelet.table.rows.addresses import OFFSET_BITS, OFFSET_MASK

if TYPE_CHECKING:
    from lancelet.execution.candidates import Candidates
    from lancelet.execution.filtering import Stage
    from lancelet.index.row_set import RowSet


R = TypeVar("R")
Piece: TypeAlias = tuple[int, FragmentReader, tuple[int, int]]
"""A fragment's place in the table, its reader, and the physical rows that are wanted of it."""


class Scan:
    """One execution of a plan."""

    use = None
    """What a search looked at; this is none."""

    def __init__(
        self, table: TableReader, plan: ScanPlan, threads: int | None = None, *, outer: Scan | None = None
    ) -> None:
        """``outer`` is a scan with the same filter, which shares what it finds."""
        self.table = table
        self.plan = plan
        self._outer = outer
        # One unit for each core, and one that is ready when a core is.
        self._threads = threads or core_count()
        self._projection = plan.projection
        self._fields, self._system = self._projection.fields, self._projection.system
        self._ordered_stages: dict[int, list[Stage]] = {}
        self._filter_fields, self._filter_system = needed_fields(plan.schema, [plan.filter] if plan.filter else [])

    @cached_property
    def schema(self) -> pa.Schema:
        return self.plan.output_schema

    @cached_property
    def candidates(self) -> Candidates | None:
        """The rows that the filter can be true for; None when nothing is known about them."""
        plan = self.plan
        if plan.mask is None and (plan.filter is None or plan.include_deleted):
            return None
        if self._outer is not None:
            return self._outer.candidates
        if plan.mask is None:
            return self._filtered
        from lancelet.execution.row_mask import masked

        return masked(self.table, plan.mask, plan.filter, plan.fragment_ids, self._filtered)

    @property
    def _filtered(self) -> Candidates | None:
        """What indices and row ids tell about the filter."""
        plan = self.plan
        if plan.filter is None or plan.include_deleted:
            return None
        from lancelet.execution.candidates import find_candidates

        found = find_candidates(
            self.table, plan.filter, plan.fragment_ids, use_index=plan.use_index, indexed_only=plan.indexed_only
        )
        what = "asks no index" if found is None else "is told by indices where rows can be"
        debug("the filter %s on %s %s", str(plan.filter), self.table.snapshot.uri, what)
        return found

    def readers(self) -> Iterator[FragmentReader]:
        """Readers of the plan's fragments, in scan order."""
        return self.table.readers(self.plan.fragment_ids)

    def to_table(self) -> pa.Table:
        """The whole result."""
        return self._resolved(list(self._parts()))

    def take(self, owners: Indices, offsets: Indices) -> pa.Table:
        """Single rows in the order given, by the place of their fragment and their physical offset in it."""
        if len(owners) == 1:
            return self._resolved([self._take_from(int(owners[0]), offsets)])
        parts, places = self._taken(owners, offsets)
        table = self._resolved(parts)
        return table if places is None else pick_rows(table, arrow_array(places))

    def take_stored(self, owners: Indices, offsets: Indices) -> pa.Table:
        """Like :meth:`take`, with extension types as they are stored: as expressions want them."""
        parts, places = self._taken(owners, offsets)
        if not parts:
            return self.plan.storage_schema.empty_table()
        table = pa.concat_tables(parts)
        return table if places is None else pick_rows(table, arrow_array(places))

    def _taken(self, owners: Indices, offsets: Indices) -> tuple[list[pa.Table], Indices | None]:
        """Rows, each once, fragment by fragment; and where among them those are that were asked for (None: as they are)."""
        if not len(owners):
            return [], None
        picked = self._picked(owners, offsets)
        if picked is not None:
            return [picked], None
        numbers, places = _each_once(owners << OFFSET_BITS | offsets)
        first, last = int(numbers[0]) >> OFFSET_BITS, int(numbers[-1]) >> OFFSET_BITS
        if first == last:
            parts = [self._take_from(first, numbers & OFFSET_MASK)]
        else:
            ends = np.flatnonzero(np.diff(numbers >> OFFSET_BITS)) + 1
            groups = np.split(numbers, ends)
            parts = [self._take_from(int(group[0]) >> OFFSET_BITS, group & OFFSET_MASK) for group in groups]
        return parts, places

    def _picked(self, owners: Indices, offsets: Indices) -> pa.Table | None:
        """Rows in the order given, whichever fragments have them; None where they are to be read fragment by fragment."""
        if self.plan.blobs_as_binary or self.plan.include_deleted or not self.plan.outputs:
            return None
        if not all(map(self.table.is_address, self._system)):
            return None
        columns = pick_rows_together(self.table, self._fields, owners, offsets)
        if columns is None:
            return None
        results = self._evaluated(columns, len(owners), lambda _: self.table.addresses(owners, offsets))
        return pa.Table.from_arrays(results, schema=self._projection.schema)

    def _take_from(self, owner: int, offsets: Indices) -> pa.Table:
        reader = self.table.reader(owner)
        unit = Unit(reader, RowRange(0, 0), self._rows_before(owner))
        rows = RowIndices(offsets)
        return self._table(unit, reader.read(self._fields, rows), rows)

    def _rows_before(self, owner: int) -> int:
        """Live rows of the fragments before one of the table, if that matters."""
        return self.table.rows_before(owner) if self._counts_offsets else 0

    def _resolved(self, parts: list[pa.Table]) -> pa.Table:
        """Parts joined, with their extension types."""
        if not parts:
            return self.schema.empty_table()
        if not self.plan.outputs:
            return _rows_only(sum(part.num_rows for part in parts))
        if self._projection.has_extensions:
            batches = [resolve_batch(batch) for part in parts for batch in part.to_batches()]
            return pa.Table.from_batches(batches, schema=self.schema)
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def batches(self, *, joined: bool = True) -> Iterator[pa.RecordBatch]:
        """The result as it comes, in batches of at most the plan's size; in more of them if nothing is to be ``joined``."""
        size = self.plan.batch_size
        if not self.plan.outputs:
            yield from self._empty_batches(size)
            return
        for part in self._parts():
            for start in range(0, part.num_rows, size):
                piece = part.slice(start, size)
                if joined:
                    piece = piece.combine_chunks()
                for batch in piece.to_batches():
                    yield resolve_batch(batch) if self._projection.has_extensions else batch

    def _empty_batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Batches without columns; slices of such tables forget how many rows they have."""
        for part in self._parts():
            for start in range(0, part.num_rows, size):
                yield pa.record_batch({"": pa.nulls(min(size, part.num_rows - start))}).select([])

    def count(self) -> int:
        """How many rows the result has, without making it."""
        plan = replace(self.plan, outputs=(), order_by=())
        if plan.filter is None and plan.mask is None and not plan.include_deleted and plan.row_ranges is None:
            everything = plan.fragment_ids is None
            total = self.table.num_rows if everything else sum(reader.num_rows for reader in self.readers())
            total = max(total - plan.offset, 0)
            return total if plan.limit is None else min(total, plan.limit)
        counted = Scan(self.table, plan, self._threads, outer=self)
        part = plan.limit is not None or plan.offset or plan.row_ranges is not None or plan.include_deleted
        if counted.candidates is not None and not part and not _repeats(plan.fragment_ids):
            return counted._count_candidates(counted.candidates)
        return sum(part.num_rows for part in counted._parts())

    def _count_candidates(self, candidates: Candidates) -> int:
        """Rows that pass: those that are sure are counted without reading."""
        decided = [number for number in candidates.fragments if candidates.bounds.decides(number)]
        total = sum(self._live(candidates.bounds.sure, number) for number in decided)
        units = self._chosen_units(candidates.within(candidates.fragments.difference(decided)))
        tested: int = sum(part.num_rows for part in self._tables(units))
        return total + tested

    def _live(self, rows: RowSet, number: int) -> int:
        (reader,) = self.table.readers((number,))
        if rows.is_whole(number):
            return reader.num_rows
        found = rows.bitmap(number)
        if reader.fragment.deletion_file is None:
            return len(found)
        gone: int = found.intersection_cardinality(reader.deletions.bitmap())
        return len(found) - gone

    def _parts(self) -> Iterator[pa.Table]:
        """Tables in storage types, limit and order applied."""
        if self.plan.order_by:
            yield from self._sorted()
            return
        plan = self.plan
        skip, left = plan.offset, plan.limit
        if plan.filter is None and plan.mask is None and plan.row_ranges is None:
            units: Iterable[Unit] = self._limited_units(skip, left)
            skip, left = 0, None
        elif self.candidates is None:
            units = self._passing_units() if self._filters_first and left is None else self._units()
        elif self.candidates.is_counted:
            units = self._chosen_units(self.candidates, skip, left)
            skip, left = 0, None
        else:
            units = self._chosen_units(self.candidates)
        if left == 0:
            return
        for part in self._tables(units, alone=left is not None):
            if skip:
                dropped = min(skip, part.num_rows)
                skip -= dropped
                part = _part_of(part, dropped)
                if part.num_rows == 0:
                    continue
            if left is not None:
                part = _part_of(part, 0, left)
                left -= part.num_rows
            yield part
            if left == 0:
                return

    def _tables(self, units: Iterable[Unit], *, alone: bool = False) -> Iterator[pa.Table]:
        """What is read of each unit; of each ``alone`` where the consumer may soon have enough."""
        alone = alone or len(self.table.snapshot.manifest.fragments) == 1
        ahead = 1 if self._threads == 1 or self._is_little else self._threads + 1
        for parts in ordered_map(self._read, ([unit] for unit in units) if alone else self._groups(units), ahead):
            for part in parts:
                if part.num_rows:
                    yield part

    def _groups(self, units: Iterable[Unit]) -> Iterator[list[Unit]]:
        """Units that are read together, as long as that is no more than a unit may be."""
        queue = iter(units)
        first = next(queue, None)
        if first is None:
            return
        # Remote files are read side by side, and of blobs nobody knows how large they are.
        is_apart = self.plan.blobs_as_binary or not self.table.snapshot.store.is_local
        most = 0 if is_apart or len(first.rows) >= TOGETHER_ROWS else min(self._unit_rows(first.reader), TOGETHER_ROWS)
        yield from group(itertools.chain((first,), queue), most)

    @property
    def _is_little(self) -> bool:
        """Whether reading takes less time than handing the units to threads."""
        if self.candidates is None or self.plan.blobs_as_binary or not self.table.snapshot.store.is_local:
            return False
        maybe = self.candidates.bounds.maybe
        if maybe.has_whole or len(maybe) <= LITTLE_ROWS:
            return not maybe.has_whole
        _, reader, _ = next(self._candidate_pieces(maybe.fragments))
        return len(maybe) * max(self._row_bytes(reader)) <= LITTLE_BYTES

    def _sorted(self) -> Iterator[pa.Table]:
        plan = self.plan
        names = {name for name, _ in plan.outputs}
        extra = [key.column for key in plan.order_by if key.column not in names]
        more = tuple((name, column_of(plan.schema, name)) for name in extra)
        inner = replace(plan, outputs=plan.outputs + more, order_by=(), limit=None, offset=0)
        parts = list(Scan(self.table, inner, self._threads, outer=self)._parts())
        if not parts:
            return
        table = sort_table(pa.concat_tables(parts), plan.order_by).slice(plan.offset, plan.limit)
        yield table.select([name for name, _ in plan.outputs])

    def _units(self, fields: Sequence[Field] | None = None) -> Iterator[Unit]:
        """All rows, cut into units; of some fields alone, or of all that the scan reads."""
        rows_of = self._unit_sizes(fields)
        for owner, reader, (first, last) in self._pieces():
            rows_a_unit = rows_of(reader)
            stages = self._stages(self.plan.filter, reader)
            before = self._rows_before(owner)
            if not self.table.snapshot.store.is_local and self.plan.limit is None:
                reader = reader.scanning(stages[0].fields if stages else self._fields, RowRange(first, last))
            for start in range(first, last, rows_a_unit):
                yield Unit(reader, RowRange(start, min(start + rows_a_unit, last)), before, stages)

    @property
    def _filters_first(self) -> bool:
        """Whether all rows of a fragment are tested before the other columns of those that pass are asked for."""
        plan = self.plan
        if plan.filter is None or not plan.late or plan.blobs_as_binary or self.table.snapshot.store.is_local:
            return False
        return any(field not in self._filter_fields for field in self._fields)

    def _passing_units(self) -> Iterator[Unit]:
        """Units of the rows that pass the filter.

        In a remote file, every column of a unit is at least a request: the filter is tested for as many rows at once as
        its own columns allow, and units go around what passes.
        """

        def test(unit: Unit) -> tuple[Unit, Indices | None, dict[Field, Values]]:
            found: dict[Field, Values] = {}
            passing = self._selected(unit, found)
            unit.reader.release(unit.rows)
            return unit, passing, found

        tested = ordered_map(test, self._units(self._filter_fields), 1 if self._threads == 1 else self._threads + 1)
        for unit, passing, found in tested:
            chosen = Chosen(np.arange(len(unit.rows)) if passing is None else passing, None)
            columns = {field: found[field] for field in self._fields if field in found}
            # What describes a small page and the page itself come with one request.
            plain = [f for f in self._fields if f not in columns and pa.types.is_primitive(f.arrow_type)]
            reader = unit.reader.scanning(plain, unit.rows, SMALL_PAGE)
            for rows, places in self._cut(reader, chosen, columns) if len(chosen) else ():
                yield replace(
                    unit,
                    reader=reader,
                    rows=rows.shift(unit.rows.start),
                    stages=(),
                    chosen=None if len(places) == len(rows) else places.offsets,
                    columns={field: column.slice(rows.start, len(rows)) for field, column in columns.items()},
                )

    def _cut(
        self, reader: FragmentReader, chosen: Chosen, columns: Mapping[Field, Values]
    ) -> Iterator[tuple[RowRange, Chosen]]:
        """Rows of a remote file in pieces; of narrow columns that are still to be read, all that lies between them is, too."""
        stored = decoded = widest = 1.0
        for field in self._fields:
            if field not in columns:
                sizes = reader.row_bytes([field])
                part = chosen.share if sizes[0] >= WIDE_BYTES and chosen.share < SPARSE_WIDE_SHARE else 1.0
                stored, decoded, widest = stored + sizes[0] * part, decoded + sizes[1] * part, widest + max(sizes)
        reach = min(REMOTE_UNIT.decoded / decoded, REMOTE_UNIT.stored / stored, REMOTE_UNIT.rows)
        step = self.plan.batch_size
        few = max(int(min(MIN_UNIT_ROWS, MOST_UNIT_BYTES / widest)), 1)
        return cut(chosen, max(int(reach) // step, 1) * step, few)

    @property
    def _counts_offsets(self) -> bool:
        return ROW_OFFSET in self._system or ROW_OFFSET in self._filter_system

    def _chosen_units(self, candidates: Candidates, skip: int = 0, limit: int | None = None) -> Iterator[Unit]:
        """Units around the candidates; ``skip`` and ``limit`` are for candidates that are all sure and none a whole fragment."""
        rows_of = self._unit_sizes()
        for owner, reader, (first, last) in self._candidate_pieces(candidates.fragments):
            number, before = reader.fragment.id, self._rows_before(owner)
            if limit == 0:
                return
            whole = candidates.bounds.maybe.is_whole(number)
            if not whole and self._are_most(candidates, reader):
                whole, stages = True, self._stages(self.plan.filter, reader)
            else:
                stages = self._stages(candidates.recheck(number), reader)
            if whole:
                rows_a_unit = rows_of(reader)
                for start in range(first, last, rows_a_unit):
                    yield Unit(reader, RowRange(start, min(start + rows_a_unit, last)), before, stages)
            else:
                chosen = choose(reader, candidates, first, last, with_deleted=self.plan.include_deleted)
                found = len(chosen)
                if skip or limit is not None:
                    chosen = chosen.part(skip, found if limit is None else skip + limit)
                    skip = max(skip - found, 0)
                    limit = None if limit is None else limit - len(chosen)
                few = self.plan.batch_size if self.plan.blobs_as_binary else MIN_UNIT_ROWS
                step = few if len(chosen) <= few else self._unit_rows(reader, sparse=chosen.share < SPARSE_SHARE)
                for rows, places in cut(chosen, step, few) if len(chosen) else ():
                    chosen_here = None if len(places) == len(rows) else places.offsets
                    yield Unit(reader, rows, before, stages, chosen_here, places.sure)

    def _are_most(self, candidates: Candidates, reader: FragmentReader) -> bool:
        """Whether so many rows have to be tested that all may as well be."""
        number = reader.fragment.id
        if self.plan.mask is not None or candidates.bounds.decides(number):
            return False
        return len(candidates.bounds.maybe.bitmap(number)) > MOST_TESTED_SHARE * reader.physical_rows

    def _candidate_pieces(self, wanted: frozenset[int]) -> Iterator[Piece]:
        """The pieces with candidates."""
        if self.plan.fragment_ids is not None:
            return (piece for piece in self._pieces() if piece[1].fragment.id in wanted)
        fragments = self.table.snapshot.manifest.fragments
        owners = sorted(owner for n in wanted if (owner := fragments.position(n)) is not None)
        readers = ((owner, self.table.reader(owner)) for owner in owners)
        return ((owner, reader, (0, reader.physical_rows)) for owner, reader in readers)

    def _pieces(self) -> Iterator[Piece]:
        """What is wanted of each fragment."""
        ranges = self.plan.row_ranges
        if ranges is None:
            return ((owner, reader, (0, reader.physical_rows)) for owner, reader in self._owners())
        bounded = zip(self._owners(), ranges, strict=True)
        return ((owner, reader, (first, min(last, reader.physical_rows))) for (owner, reader), (first, last) in bounded)

    def _owners(self) -> Iterator[tuple[int, FragmentReader]]:
        """Readers of the plan's fragments, in scan order, each with the fragment's place in the table."""
        if self.plan.fragment_ids is None:
            return enumerate(self.readers())
        positions = map(self.table.snapshot.manifest.fragments.position, self.plan.fragment_ids)
        return ((owner, reader) for owner, reader in zip(positions, self.readers(), strict=True) if owner is not None)

    def _limited_units(self, skip: int, limit: int | None) -> Iterator[Unit]:
        """Units of the rows after ``skip`` and up to ``limit``; without a filter they can be counted beforehand."""
        if skip == 0 and limit is None:
            yield from self._units()
            return
        done = 0
        stop = None if limit is None else skip + limit
        for owner, reader in self._owners():
            if stop is not None and done >= stop:
                return
            rows = reader.physical_rows if self.plan.include_deleted else reader.num_rows
            first, last = max(skip - done, 0), rows if stop is None else min(stop - done, rows)
            if first < last:
                ends = np.array([first, last - 1], np.int64)
                start, end = (ends if self.plan.include_deleted else reader.physical(ends)).tolist()
                step, before = self._unit_rows(reader), self._rows_before(owner)
                for at in range(start, end + 1, step):
                    yield Unit(reader, RowRange(at, min(at + step, end + 1)), before)
            done += rows

    def _row_bytes(self, reader: FragmentReader) -> tuple[float, float]:
        """About how many bytes a row has, stored and decoded."""
        fields = {field.id: field for field in (*self._filter_fields, *self._fields)}
        return reader.row_bytes(list(fields.values()))

    def _unit_rows(self, reader: FragmentReader, fields: Sequence[Field] | None = None, *, sparse: bool = False) -> int:
        """How many rows a unit has, or reaches over when only a few of them are read, ``sparse``."""
        if self.plan.blobs_as_binary:
            # Descriptors do not tell how large the blobs are; the caller's batch is what fits into memory.
            return self.plan.batch_size
        stored, decoded = self._row_bytes(reader) if fields is None else reader.row_bytes(fields)
        most = LOCAL_UNIT if self.table.snapshot.store.is_local else REMOTE_UNIT
        rows = min(most.decoded / max(decoded, 1), most.stored / max(stored, 1))
        # Of rows as wide as images, even that few would be too much.
        least = min(MIN_UNIT_ROWS, MOST_UNIT_BYTES / max(stored, decoded, 1))
        most_rows = max(most.rows, MOST_SPARSE_ROWS) if sparse else most.rows
        rows = int(min(max(rows, least, 1), most_rows))
        step = self.plan.batch_size
        return max(rows // step, 1) * step if step <= most_rows else step

    def _unit_sizes(self, fields: Sequence[Field] | None = None) -> Callable[[FragmentReader], int]:
        """How many rows a unit of a fragment has: as many as of the first one, unless this has more in its rows.

        To ask a fragment is to open its files, which is the work of the threads: those that are no larger than a unit may
        be are not asked.
        """
        most = LOCAL_UNIT if self.table.snapshot.store.is_local else REMOTE_UNIT
        usual: tuple[int, float | None] | None = None

        def rows_of(reader: FragmentReader) -> int:
            nonlocal usual
            width = row_width(reader)
            if usual is None:
                usual = self._unit_rows(reader, fields), width
            rows, known = usual
            if width is not None and (width * reader.physical_rows <= most.decoded or (known and width <= 2 * known)):
                return rows
            return self._unit_rows(reader, fields)

        return rows_of

    def selections(self, work: Callable[[Unit, Indices | None], R]) -> Iterator[R]:
        """What ``work`` makes of each unit and of the places in it of the rows that pass (None: all), where there are any.

        The threads that find the rows do the work. Limit, offset and order of the plan are not looked at.
        """

        def one(unit: Unit) -> R | None:
            chosen = self._selected(unit, {})
            result = None if chosen is not None and len(chosen) == 0 else work(unit, chosen)
            unit.reader.release(unit.rows)
            return result

        units = self._units() if self.candidates is None else self._chosen_units(self.candidates)
        for result in ordered_map(one, units, 1 if self._threads == 1 or self._is_little else self._threads + 1):
            if result is not None:
                yield result

    def _read(self, units: Sequence[Unit]) -> Sequence[pa.Table]:
        """The rows of some units that belong to the result."""
        if len(units) == 1:
            alone = dict(units[0].columns)
            parts = self._rows(units[0], self._selected(units[0], alone), alone)
            units[0].reader.release(units[0].rows)
            return parts
        found: list[dict[Field, Values]] = [{} for _ in units]
        chosen = zip(units, self._selected_together(units, found), found, strict=True)
        return [part for unit, rows, columns in chosen for part in self._rows(unit, rows, columns)]

    def _rows(self, unit: Unit, chosen: Indices | None, found: dict[Field, Values]) -> Sequence[pa.Table]:
        """The chosen rows of a unit (None: all), if there are any."""
        if chosen is None:
            return (self._whole(unit, found),)
        return (self._chosen(unit, chosen, found),) if len(chosen) else ()

    def _selected_together(
        self, units: Sequence[Unit], found: Sequence[dict[Field, Values]]
    ) -> Iterator[Indices | None]:
        """:meth:`_selected` of each unit; the first condition is tested for all of them at once where they are alike."""
        stages = units[0].stages
        lives = self._lives(units) if all(unit.stages is stages and unit.is_whole for unit in units) else None
        if not stages or lives is None or any(_is_intricate(field) for field in stages[0].fields):
            for unit, columns in zip(units, found, strict=True):
                checkpoint()
                yield self._selected(unit, columns)
            return
        batches = []
        for unit, columns in zip(units, found, strict=True):
            checkpoint()
            read = unit.reader.read(stages[0].fields, unit.rows)
            columns.update(zip(stages[0].fields, read, strict=True))
            batches.append(self._batch(unit, stages[0].fields, read, stages[0].system, unit.rows))
        from lancelet.expressions.evaluate import mask

        marks: npt.NDArray[np.bool_] = numpy_array(mask(stages[0].condition, pa.concat_batches(batches)))
        stop = 0
        for unit, columns, live in zip(units, found, lives, strict=True):
            checkpoint()
            start, stop = stop, stop + len(unit.rows)
            passing: Indices = np.flatnonzero(marks[start:stop] if live is None else marks[start:stop] & live)
            yield self._tested(unit, None if len(passing) == len(unit.rows) else passing, columns, stages[1:])

    def _lives(self, units: Sequence[Unit]) -> list[npt.NDArray[np.bool_] | None] | None:
        """Which rows of each unit are not deleted; None when those of a unit are so few that only they are tested."""
        if self.plan.include_deleted:
            return [None] * len(units)
        lives = [unit.reader.live(unit.rows) for unit in units]
        few = any(live is not None and np.count_nonzero(live) < SPARSE_SHARE * len(live) for live in lives)
        return None if few else lives

    def _selected(self, unit: Unit, found: dict[Field, Values]) -> Indices | None:
        """Places of the rows of a unit that belong to the result; None: all. Columns read whole go into ``found``."""
        chosen = unit.chosen
        if chosen is None:
            live = None if self.plan.include_deleted else unit.reader.live(unit.rows)
            chosen = None if live is None else np.flatnonzero(live)
        if unit.sure is None or not unit.stages:
            return self._tested(unit, chosen, found, unit.stages)
        every = np.arange(len(unit.rows)) if chosen is None else chosen
        passed = self._tested(unit, every[~unit.sure], found, unit.stages)
        return every if passed is None else np.union1d(every[unit.sure], passed)

    def _tested(
        self, unit: Unit, chosen: Indices | None, found: dict[Field, Values], stages: Sequence[Stage]
    ) -> Indices | None:
        """Of the chosen rows (None: all), those that pass some conditions."""
        for stage in stages:
            if chosen is not None and len(chosen) == 0:
                break
            chosen = self._passing(unit, stage, chosen, found)
        return chosen

    def _stages(self, condition: Expr | None, reader: FragmentReader) -> list[Stage]:
        """The conditions of the filter, or of what is left of it, in the order to test them."""
        if condition is None:
            return []
        if id(condition) not in self._ordered_stages:
            # Scans without a filter have no need of the evaluator, which takes a while to load.
            from lancelet.execution.filtering import filter_stages

            self._ordered_stages[id(condition)] = filter_stages(
                condition, self.plan.schema, lambda fields: reader.row_bytes(fields)[0]
            )
        return self._ordered_stages[id(condition)]

    def _passing(self, unit: Unit, stage: Stage, chosen: Indices | None, found: dict[Field, Values]) -> Indices | None:
        """Of the chosen rows (None: all), those that pass a condition. Columns read whole go into ``found``."""
        late = self.plan.late or unit.chosen is not None
        sparse = chosen is not None and late and len(chosen) < SPARSE_SHARE * len(unit.rows)
        rows: Rows = RowIndices(chosen + unit.rows.start) if sparse and chosen is not None else unit.rows
        known = {} if sparse else found
        missing = [field for field in stage.fields if field not in known]
        read = dict(zip(missing, unit.reader.read(missing, rows), strict=True))
        columns = [known[field] if field in known else read[field] for field in stage.fields]
        from lancelet.expressions.evaluate import mask

        passed = mask(stage.condition, self._batch(unit, stage.fields, columns, stage.system, rows))
        marks: npt.NDArray[np.bool_] = numpy_array(passed)
        if sparse and chosen is not None:
            return chosen[marks]
        found.update(read)
        if chosen is not None:
            return chosen[marks[chosen]]
        passing: Indices = np.flatnonzero(marks)
        return None if len(passing) == len(unit.rows) else passing

    def _whole(self, unit: Unit, found: dict[Field, Values]) -> pa.Table:
        """All rows of a unit; ``found`` are columns that the filter has read already."""
        missing = [field for field in self._fields if field not in found]
        read = dict(zip(missing, unit.reader.read(missing, unit.rows), strict=True))
        columns = [found[field] if field in found else read[field] for field in self._fields]
        return self._table(unit, columns, unit.rows)

    def _chosen(self, unit: Unit, chosen: Indices, found: dict[Field, Values]) -> pa.Table:
        """Some rows of a unit."""
        reader = unit.reader
        late = self.plan.late or unit.chosen is not None
        share = len(chosen) / len(unit.rows)
        sparse: list[Field] = []
        dense: list[Field] = []
        for field in self._fields:
            if field in found:
                continue
            few = share < SPARSE_SHARE or (share < SPARSE_WIDE_SHARE and reader.row_bytes([field])[0] >= WIDE_BYTES)
            (sparse if late and few else dense).append(field)
        rows = RowIndices(chosen + unit.rows.start)
        picked = dict(zip(sparse, reader.read(sparse, rows), strict=True))
        picks = arrow_array(chosen)
        for field, column in zip(dense, reader.read(dense, unit.rows), strict=True):
            picked[field] = pick_rows(column, picks)
        for field in self._fields:
            if field in found:
                picked[field] = pick_rows(found[field], picks)
        return self._table(unit, [picked[field] for field in self._fields], rows)

    def _table(self, unit: Unit, columns: Sequence[Values | None], rows: Rows) -> pa.Table:
        """Evaluate the outputs."""
        if not self.plan.outputs:
            return _rows_only(len(rows))
        results = self._evaluated(columns, len(rows), lambda name: self._system_column(unit, name, rows))
        if self.plan.blobs_as_binary:
            results = self._with_bytes(unit, results)
        return pa.Table.from_arrays(results, schema=self._projection.schema)

    def _evaluated(
        self, columns: Sequence[Values | None], count: int, system: Callable[[str], pa.Array]
    ) -> list[Values]:
        """The outputs of so many rows; ``system`` makes a system column of them."""
        batch: pa.RecordBatch | None = None
        results = []
        for source, target in self._projection.sources:
            if isinstance(source, int):
                column = columns[source]
                assert column is not None
                results.append(_typed(show_column(self._fields[source], column), target))
            elif isinstance(source, str):
                results.append(system(source))
            else:
                if batch is None:
                    batch = _batch(self._fields, columns, {name: system(name) for name in self._system}, count)
                from lancelet.expressions.evaluate import evaluate

                results.append(_typed(evaluate(source, batch), target))
        return results

    def _with_bytes(self, unit: Unit, results: list[Values]) -> list[Values]:
        """Blobs in place of their descriptors."""
        plan = self.plan
        return [
            as_binary(unit.reader, plan.schema.field_by_path(expr.path), column)
            if name in plan.blobs_as_binary and isinstance(expr, Column)
            else column
            for (name, expr), column in zip(plan.outputs, results, strict=True)
        ]

    def _batch(
        self, unit: Unit, fields: Sequence[Field], columns: Sequence[Values | None], system: Sequence[str], rows: Rows
    ) -> pa.RecordBatch:
        """Columns of a unit that expressions look at, as they are stored."""
        made = {name: self._system_column(unit, name, rows) for name in system}
        return _batch(fields, columns, made, len(rows))

    def _system_column(self, unit: Unit, name: str, rows: Rows) -> pa.Array:
        if name != ROW_OFFSET:
            column = unit.reader.system_column(name, rows)
            if self.plan.include_deleted and name in (ROW_ID, ROW_ADDRESS):
                live = unit.reader.live(rows)
                return column if live is None else _null_where_not(live, column)
            return column
        offsets = rows.to_indices()
        gone = np.searchsorted(unit.reader.deletions.offsets, offsets) if unit.reader.fragment.deletion_file else 0
        return arrow_array((unit.rows_before + offsets - gone).astype(np.uint64))


def _each_once(numbers: Indices) -> tuple[Indices, Indices | None]:
    """Numbers in ascending order, each once; and where among them those are that were asked for (None: as they are)."""
    if (numbers[1:] > numbers[:-1]).all():
        return numbers, None
    order = numbers.argsort()
    ascending = numbers[order]
    if not (ascending[1:] > ascending[:-1]).all():
        return np.unique(numbers, return_inverse=True)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return ascending, places


def _is_intricate(field: Field) -> bool:
    """Whether arrays of several fragments cannot just be laid end to end."""
    return bool(field.children) or pa.types.is_dictionary(field.arrow_type)


def _repeats(numbers: Sequence[int] | None) -> bool:
    return numbers is not None and len(set(numbers)) < len(numbers)


def _rows_only(count: int) -> pa.Table:
    """A table without columns that still has rows."""
    return pa.table({"": pa.nulls(count)}).select([])


def _part_of(table: pa.Table, start: int, count: int | None = None) -> pa.Table:
    """Some rows of a table; Arrow's slices of one without columns do not end where it does."""
    if table.num_columns:
        return table.slice(start, count)
    left = table.num_rows - start
    return _rows_only(left if count is None else min(left, count))


def _null_where_not(live: npt.NDArray[np.bool_], column: pa.Array) -> pa.Array:
    return pc.if_else(arrow_array(live), column, None)


def _batch(
    fields: Sequence[Field], columns: Sequence[Values | None], system: Mapping[str, pa.Array], count: int
) -> pa.RecordBatch:
    """Columns of so many rows that expressions look at, as they are stored."""
    arrays = [*(_one(column) for column in columns if column is not None), *system.values()]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names=[*(field.name for field in fields), *system])


def _one(column: Values) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _typed(column: Values, dtype: pa.DataType) -> Values:
    """Same buffers under the result's type, which may differ in the names and metadata of nested fields."""
    if column.type == dtype:
        return column
    try:
        return column.cast(dtype)
    except pa.ArrowException:
        raise CorruptFile("table", f"a column holds {column.type} where the schema says {dtype}", "schema") from None
