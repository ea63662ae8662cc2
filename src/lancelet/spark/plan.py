"""How a read is cut into tasks: small values, made from a version's manifest alone.

A :class:`ReadJob` is what all tasks of a read have in common, a :class:`Split` the
rows of one of them. Fragments larger than a split are cut by rows, smaller ones
are packed together, in the order of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.query.build import all_of
from lancelet.query.expr import Column, Compare, In, Literal, columns_of, conjuncts
from lancelet.query.fragment_reader import ROW_ID
from lancelet.query.plan import DEFAULT_BATCH_SIZE, ScanPlan, needed_fields, plan_filter, plan_outputs
from lancelet.query.scan import Scan
from lancelet.query.table_reader import TableReader
from lancelet.table.snapshot import open_snapshot

if TYPE_CHECKING:
    from lancelet.format.schema import Schema
    from lancelet.query.expr import Expr
    from lancelet.table.fragment import Fragment
    from lancelet.table.snapshot import Snapshot

SPLIT_BYTES = 128 << 20
_LEAST_SPLIT_BYTES = 4 << 20
_TASKS_A_CORE = 2
_BATCH_BYTES = 4 << 20
_MOST_BATCH_ROWS = 1 << 17
_MAX_PIECES = 256
"""Fragments in one split: more would make it too large to send to every task."""
_UNKNOWN_ROW_BYTES = 64
_LEAST_ROWS = 1024
_MOST_NAMED = 10_000
_SCAN_THREADS = 2
"""One that decodes, and one that is ahead of it."""


@dataclass(frozen=True, slots=True)
class ReadJob:
    """What all tasks of a read share."""

    uri: str
    """The folder of the table, or of its branch."""
    version: int
    storage_options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    """Top-level columns, system columns among them."""
    leaves: tuple[tuple[str, ...], ...] = ()
    """What is wanted inside of struct columns; of a column that is not named here, everything."""
    filter: str | None = None
    """SQL text."""
    conditions: tuple[Expr, ...] = ()
    """What Spark asks for besides."""
    batch_size: int | None = None
    """Rows in a batch; None goes by their width."""
    blobs_as_binary: bool = False

    def open(self) -> TableReader:
        """The table at the version that was planned."""
        return TableReader(open_snapshot(self.uri, self.version, storage_options=self.storage_options or None))

    def scan_plan(self, snapshot: Snapshot) -> ScanPlan:
        """The plan of the whole read."""
        from lancelet.query.blobs import has_blobs

        schema = snapshot.manifest.schema
        condition = plan_filter(schema, self.filter)
        parts = [part for part in (condition, *self.conditions) if part is not None]
        if self.leaves:
            schema = self._pruned(schema, parts)
        outputs = plan_outputs(schema, list(self.columns))
        binary: frozenset[str] = frozenset()
        if self.blobs_as_binary:
            stored = {top.name for top in schema.fields if has_blobs(top)}
            binary = frozenset(name for name in self.columns if name in stored)
        return ScanPlan(
            schema,
            outputs,
            all_of(parts) if parts else None,
            batch_size=self.batch_size or DEFAULT_BATCH_SIZE,
            blobs_as_binary=binary,
        )

    def _pruned(self, schema: Schema, conditions: Iterable[Expr]) -> Schema:
        """The schema without the fields of structs that nobody asks for."""
        used = {path for condition in conditions for path in columns_of(condition)}
        inside = {path[0] for path in self.leaves}
        whole = [(name,) for name in self.columns if name not in inside]
        names = frozenset(schema.names)
        return schema.project([path for path in (*whole, *self.leaves, *sorted(used)) if path[0] in names])


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of one task."""

    pieces: tuple[tuple[int, int, int], ...]
    """Fragment id, the first physical row, and the row after the last one."""
    limit: int | None = None
    """The most rows that are wanted of it."""


def read_split(job: ReadJob, split: Split) -> Iterator[pa.RecordBatch]:
    """Run one task."""
    table = job.open()
    plan = replace(
        job.scan_plan(table.snapshot),
        fragment_ids=tuple(number for number, _, _ in split.pieces),
        row_ranges=tuple((first, last) for _, first, last in split.pieces),
        limit=split.limit,
    )
    if job.batch_size is None:
        plan = replace(plan, batch_size=_batch_rows(table, plan))
    return Scan(table, plan, _SCAN_THREADS).batches()


def _batch_rows(table: TableReader, plan: ScanPlan) -> int:
    """Batches of a few MiB: each costs Spark about as much as thousands of narrow rows."""
    if plan.blobs_as_binary:
        return DEFAULT_BATCH_SIZE
    fields, _ = needed_fields(plan.schema, [expr for _, expr in plan.outputs])
    reader = next(iter(table.readers(plan.fragment_ids)), None)
    wide = 0.0 if reader is None else reader.row_bytes(fields)[1]
    rows = int(_BATCH_BYTES / max(wide, 8.0))
    return min(max(rows, _LEAST_ROWS), _MOST_BATCH_ROWS)


def plan_splits(
    snapshot: Snapshot,
    job: ReadJob,
    *,
    split_bytes: int | None = None,
    limit: int | None = None,
    parallelism: int = 1,
) -> list[Split]:
    """Cut a read into splits of about ``split_bytes`` in files; by default, so that ``parallelism`` tasks have work.

    With a ``limit``, the splits together give exactly that many rows, if the table has them: those that are not
    needed are left out, and where a filter decides which rows count, one task reads until there are enough.
    """
    table = TableReader(snapshot)
    wanted = wanted_ids(snapshot, job)
    if split_bytes is None:
        split_bytes = _split_bytes(table, wanted, parallelism)
    if limit is None:
        named = _named_rows(table, job)
        if named is not None:
            return list(_packed(((piece, 0) for piece in named), split_bytes))
        return list(_packed(_pieces(table, snapshot.manifest.fragments, wanted, split_bytes), split_bytes))
    if job.filter is not None or job.conditions:
        whole = tuple((f.id, 0, rows) for f in snapshot.manifest.fragments if (rows := _rows(table, f)))
        return [Split(whole, limit)]
    return list(_limited(table, limit))


def split_fragments(
    table: TableReader, fragments: Iterable[Fragment], wanted: frozenset[int], split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """Splits over some fragments of a table; ``wanted`` are the fields to read."""
    return list(_packed(_pieces(table, fragments, wanted, split_bytes), split_bytes))


def _named_rows(table: TableReader, job: ReadJob) -> list[tuple[int, int, int]] | None:
    """The rows that conditions name by their ids, each on its own; None when they do not, or name too many."""
    schema = table.snapshot.manifest.schema
    if ROW_ID in schema.names:
        return None
    whole = [plan_filter(schema, job.filter), *job.conditions]
    for part in (part for condition in whole if condition is not None for part in conjuncts(condition)):
        match part:
            case In(Column(path), values) if path == (ROW_ID,):
                wanted = values.array.drop_null()
            case Compare("=", Column(path), Literal(int() as value)) if path == (ROW_ID,):
                wanted = pa.array([value], pa.uint64())
            case _:
                continue
        if len(wanted) <= _MOST_NAMED:
            owners, offsets, found = table.locate_ids(np.unique(wanted.to_numpy()))
            ids = table.snapshot.manifest.fragments.ids[owners[found]].tolist()
            return [(number, row, row + 1) for number, row in zip(ids, offsets[found].tolist(), strict=True)]
    return None


def wanted_ids(snapshot: Snapshot, job: ReadJob) -> frozenset[int]:
    """Ids of all fields that the read touches."""
    plan = job.scan_plan(snapshot)
    exprs = [expr for _, expr in plan.outputs]
    fields, _ = needed_fields(plan.schema, [*exprs, plan.filter] if plan.filter is not None else exprs)
    return frozenset(node.id for top in fields for node in top.walk())


def _split_bytes(table: TableReader, wanted: frozenset[int], parallelism: int) -> int:
    """As much as a task may have, but no more than its share."""
    total = sum(_bytes(f, _rows(table, f), wanted) for f in table.snapshot.manifest.fragments)
    return min(SPLIT_BYTES, max(_LEAST_SPLIT_BYTES, -(-total // (_TASKS_A_CORE * max(1, parallelism)))))


def _rows(table: TableReader, fragment: Fragment) -> int:
    """Physical rows; old manifests do not tell them, their files do."""
    if fragment.physical_rows is not None:
        return fragment.physical_rows
    position = table.snapshot.manifest.fragments.position(fragment.id)
    assert position is not None
    return table.reader(position).physical_rows


def _bytes(fragment: Fragment, rows: int, wanted: frozenset[int]) -> int:
    """About how much of a fragment's files is read: each file's share of wanted fields."""
    total = 0
    for file in fragment.files:
        size = rows * _UNKNOWN_ROW_BYTES if file.size is None else file.size
        held = sum(number in wanted for number in file.fields)
        total += size * held // max(1, len(file.fields))
    return total


def _pieces(
    table: TableReader, fragments: Iterable[Fragment], wanted: frozenset[int], split_bytes: int
) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Ranges of rows with their sizes, none of them much larger than a split."""
    for fragment in fragments:
        rows = _rows(table, fragment)
        size = _bytes(fragment, rows, wanted)
        count = max(1, min(-(-size // split_bytes), rows // _LEAST_ROWS))
        for number in range(count):
            first, last = rows * number // count, rows * (number + 1) // count
            if first < last:
                yield (fragment.id, first, last), size // count


def _packed(pieces: Iterable[tuple[tuple[int, int, int], int]], split_bytes: int) -> Iterator[Split]:
    """Neighbours together, in splits of about the same size."""
    found = list(pieces)
    total = sum(size for _, size in found)
    count = max(1, -(-total // split_bytes))
    held: list[tuple[int, int, int]] = []
    done = current = 0
    for piece, size in found:
        # A piece belongs to the split in which its middle lies.
        number = min(count - 1, (2 * done + size) * count // max(1, 2 * total))
        if held and (number != current or len(held) == _MAX_PIECES):
            yield Split(tuple(held))
            held = []
        current = number
        held.append(piece)
        done += size
    if held:
        yield Split(tuple(held))


def _limited(table: TableReader, limit: int) -> Iterator[Split]:
    """As many fragments from the beginning as have enough live rows."""
    for position, fragment in enumerate(table.snapshot.manifest.fragments):
        live = int(table.row_counts[position])
        if limit <= 0:
            return
        if live:
            yield Split(((fragment.id, 0, _rows(table, fragment)),), min(live, limit))
            limit -= live
