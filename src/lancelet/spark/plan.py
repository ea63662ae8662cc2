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

from lancelet.execution.blobs import has_blobs
from lancelet.execution.candidates import candidate_fragments
from lancelet.execution.costs import DEFAULT_BATCH_SIZE
from lancelet.execution.opening import open_scan
from lancelet.execution.plan import ScanPlan, column_of, needed_fields, plan_filter, plan_outputs
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.build import all_of
from lancelet.expressions.expr import columns_of
from lancelet.format.extensions import storage_of
from lancelet.format.schema import join_path
from lancelet.format.system_columns import ROW_ID
from lancelet.runtime import compute as pc
from lancelet.spark.blob_columns import BYTES
from lancelet.spark.chosen_rows import first_rows, sampled
from lancelet.table.manifest.snapshot import open_snapshot

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.execution.matching_plan import Matching
    from lancelet.expressions.expr import Expr
    from lancelet.format.schema import Schema
    from lancelet.spark.blob_columns import BlobColumn
    from lancelet.spark.chosen_rows import Order, Sample
    from lancelet.spark.search.nearest_rows import NearestRows
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

SPLIT_BYTES = 128 << 20
_LEAST_SPLIT_BYTES = 4 << 20
_LARGE_TASK_BYTES = 32 << 20
"""Less is one task for a core: a task costs Spark about as much as reading some MiB, more of them only even out who is done first."""
_TASKS_A_CORE = 2
"""Of large ones."""
_BATCH_BYTES = 4 << 20
_MOST_BATCH_ROWS = 1 << 17
_MAX_PIECES = 256
"""Fragments in one split: more would make it too large to send to every task."""
_UNKNOWN_ROW_BYTES = 64
_LEAST_ROWS = 1024
_SAMPLED_ROWS = 64
_ROWS_AROUND = 64
"""A row that is read on its own costs about as much as so many neighbours."""
_SCAN_THREADS = 2
"""One that decodes, and one that is ahead of it."""
_FEW_ROWS = 128
"""Where a batch has fewer, decoding is copying: nothing is won by being ahead, and what is held is large."""


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
    text: Matching | None = None
    """Only rows whose texts match; then one task searches and reads."""
    nearest: NearestRows | None = None
    """Only rows that can be among the first by their distance; then one task searches and reads."""
    order: Order | None = None
    """What the rows are sorted by that a split gives, if it has a limit."""
    sample: Sample | None = None
    blobs: tuple[BlobColumn, ...] = ()
    """Where blobs are, how long, or what they are: columns beside those of the table."""

    @property
    def is_search(self) -> bool:
        """Whether one task does all."""
        return self.text is not None or self.nearest is not None

    def open(self) -> TableReader:
        """The table at the version that was planned."""
        return TableReader(open_snapshot(self.uri, self.version, storage_options=self.storage_options or None))

    def scan_plan(self, snapshot: Snapshot) -> ScanPlan:
        """The plan of the whole read."""
        schema = snapshot.manifest.schema
        condition = plan_filter(schema, self.filter)
        parts = [part for part in (condition, *self.conditions) if part is not None]
        if self.leaves:
            schema = self._pruned(schema, parts)
        # What a search finds is counted by what is read of it.
        names = self.columns or (() if self.text is None or self.blobs else (ROW_ID,))
        outputs = plan_outputs(schema, list(names), made=() if self.text is None else self.text.made)
        binary: frozenset[str] = frozenset()
        if self.blobs:
            outputs += tuple((blob.name, column_of(schema, join_path([blob.source]))) for blob in self.blobs)
            binary = frozenset(blob.name for blob in self.blobs if blob.part == BYTES)
        if self.blobs_as_binary:
            stored = {top.name for top in schema.fields if has_blobs(top)}
            binary |= frozenset(name for name in self.columns if name in stored)
        return ScanPlan(
            schema,
            outputs,
            all_of(parts) if parts else None,
            batch_size=self.batch_size or DEFAULT_BATCH_SIZE,
            blobs_as_binary=binary,
            matching=self.text,
        )

    def _pruned(self, schema: Schema, conditions: Iterable[Expr]) -> Schema:
        """The schema without the fields of structs that nobody asks for."""
        used = {path for condition in conditions for path in columns_of(condition)}
        if self.text is not None:
            used.update(column.path for column in self.text.columns)
        inside = {path[0] for path in self.leaves}
        whole = [(name,) for name in (*self.columns, *(blob.source for blob in self.blobs)) if name not in inside]
        names = frozenset(schema.names)
        return schema.project([path for path in (*whole, *self.leaves, *sorted(used)) if path[0] in names])


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of one task."""

    pieces: tuple[tuple[int, int, int], ...]
    """Fragment id, the first physical row, and the row after the last one."""
    limit: int | None = None
    """The most rows that are wanted of it."""
    offset: int = 0
    """Rows at its beginning that are passed over."""
    conditions: tuple[Expr, ...] = ()
    """What is known of wanted rows by now."""


def read_split(job: ReadJob, split: Split) -> Iterator[pa.RecordBatch]:
    """Run one task."""
    table = job.open()
    if split.conditions:
        job = replace(job, conditions=(*job.conditions, *split.conditions))
    if job.nearest is not None:
        return job.nearest.rows(table, _in_batches(job, table, job.scan_plan(table.snapshot)))
    if job.text is not None:
        return open_scan(table, replace(job.scan_plan(table.snapshot), limit=split.limit)).batches()
    plan = replace(
        job.scan_plan(table.snapshot),
        fragment_ids=tuple(number for number, _, _ in split.pieces),
        row_ranges=tuple((first, last) for _, first, last in split.pieces),
        limit=split.limit,
        offset=split.offset,
    )
    if job.sample is not None:
        return sampled(table, replace(plan, limit=None), job.sample, split.limit)
    if job.order is not None and split.limit is not None:
        return first_rows(table, _in_batches(job, table, replace(plan, limit=None)), job.order, split.limit)
    return run_plan(job, table, plan)


def run_plan(job: ReadJob, table: TableReader, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """Scan a table in batches that suit Spark."""
    fitting = _batch_rows(table, plan)
    if job.batch_size is None:
        plan = replace(plan, batch_size=fitting)
    copies = fitting < _FEW_ROWS and table.snapshot.store.is_local
    return Scan(table, plan, 1 if copies else _SCAN_THREADS).batches()


def _in_batches(job: ReadJob, table: TableReader, plan: ScanPlan) -> ScanPlan:
    """A plan whose batches have as many rows as suit Spark, unless the user says how many."""
    return replace(plan, batch_size=_batch_rows(table, plan)) if job.batch_size is None else plan


def _batch_rows(table: TableReader, plan: ScanPlan) -> int:
    """Batches of a few MiB: each costs Spark about as much as thousands of narrow rows."""
    fields, _ = needed_fields(plan.schema, [expr for _, expr in plan.outputs])
    reader = next(iter(table.readers(plan.fragment_ids)), None)
    if reader is None:
        return DEFAULT_BATCH_SIZE
    wide = max(*reader.row_bytes(fields), 8.0)
    if plan.blobs_as_binary:
        wide += _blob_bytes(table, plan, reader)
    return min(max(int(_BATCH_BYTES / wide), 1), _MOST_BATCH_ROWS)


def _blob_bytes(table: TableReader, plan: ScanPlan, reader: FragmentReader) -> float:
    """About how many bytes of blobs a row has: their descriptors tell, and some rows speak for all."""
    outputs = tuple(output for output in plan.outputs if output[0] in plan.blobs_as_binary)
    offsets = np.unique(np.linspace(0, reader.physical_rows - 1, _SAMPLED_ROWS).astype(np.int64))
    position = table.snapshot.manifest.fragments.position(reader.fragment.id)
    described = replace(plan, outputs=outputs, filter=None, blobs_as_binary=frozenset())
    found = Scan(table, described, 1).take(np.full(len(offsets), position, np.int64), offsets)
    total = sum(_described_bytes(chunk) for column in found.columns for chunk in column.chunks)
    return total / max(1, len(offsets))


def _described_bytes(array: pa.Array) -> int:
    """The bytes that blob descriptors speak of, however deep they are nested."""
    array = storage_of(array)
    if pa.types.is_struct(array.type):
        names = [field.name for field in array.type]
        if "position" in names and "size" in names:
            return int(pc.sum(array.field("size")).as_py() or 0)
        return sum(map(_described_bytes, array.flatten()))
    if pa.types.is_nested(array.type) and not pa.types.is_map(array.type):
        return _described_bytes(array.flatten())
    return 0


def plan_splits(
    snapshot: Snapshot,
    job: ReadJob,
    *,
    split_bytes: int | None = None,
    limit: int | None = None,
    offset: int = 0,
    parallelism: int = 1,
    whole_fragments: bool = False,
) -> list[Split]:
    """Cut a read into splits of about ``split_bytes`` in files; by default, so that ``parallelism`` tasks have work.

    With a ``limit``, the splits together give exactly that many rows (less those of an ``offset``), if the table has them: those that are not
    needed are left out, and where a filter decides which rows count, one task reads until there are enough.
    ``whole_fragments`` are not cut, however large.
    """
    if job.is_search:
        return [Split((), limit)]
    table = TableReader(snapshot)
    plan = job.scan_plan(snapshot)
    if limit is not None and plan.filter is None:
        return list(_limited(table, limit, offset))
    shares = _shares(table, plan.filter)
    if limit is not None:
        whole = tuple(
            (f.id, 0, rows) for f in snapshot.manifest.fragments if f.id in shares and (rows := _rows(table, f))
        )
        return [Split(whole, limit)]
    wanted = _touched_ids(plan)
    if split_bytes is None:
        split_bytes = _split_bytes(table, wanted, shares, parallelism)
    piece_bytes = None if whole_fragments else split_bytes
    return list(_packed(_pieces(table, snapshot.manifest.fragments, wanted, piece_bytes, shares), split_bytes))


def split_fragments(
    table: TableReader,
    fragments: Iterable[Fragment],
    wanted: frozenset[int],
    split_bytes: int = SPLIT_BYTES,
    *,
    whole_fragments: bool = False,
) -> list[Split]:
    """Splits over some fragments of a table; ``wanted`` are the fields to read."""
    return list(_packed(_pieces(table, fragments, wanted, None if whole_fragments else split_bytes), split_bytes))


def _shares(table: TableReader, condition: Expr | None) -> dict[int, float]:
    """The fragments in which a filter can be true, and about which share of each is read.

    Indices and row ids tell; a task asks them again, about its own fragments.
    """
    if condition is None:
        return dict.fromkeys(table.snapshot.manifest.fragments.ids.tolist(), 1.0)
    found = candidate_fragments(table, condition)
    return {
        number: 1.0 if rows is None else min(1.0, rows * _ROWS_AROUND / max(1, table.physical_rows(number)))
        for number, rows in found.items()
    }


def wanted_ids(snapshot: Snapshot, job: ReadJob) -> frozenset[int]:
    """Ids of all fields that the read touches."""
    return _touched_ids(job.scan_plan(snapshot))


def _touched_ids(plan: ScanPlan) -> frozenset[int]:
    exprs = [expr for _, expr in plan.outputs]
    fields, _ = needed_fields(plan.schema, [*exprs, plan.filter] if plan.filter is not None else exprs)
    return frozenset(node.id for top in fields for node in top.walk())


def _split_bytes(table: TableReader, wanted: frozenset[int], shares: Mapping[int, float], parallelism: int) -> int:
    """As much as a task may have, but no more than its share: there is work for every core, in few tasks if there is little."""
    fragments = (f for f in table.snapshot.manifest.fragments if f.id in shares)
    total = int(sum(_bytes(f, _rows(table, f), wanted) * shares[f.id] for f in fragments))
    of_a_core = -(-total // max(1, parallelism))
    even = min(of_a_core, max(_LARGE_TASK_BYTES, -(-of_a_core // _TASKS_A_CORE)))
    return min(SPLIT_BYTES, max(_LEAST_SPLIT_BYTES, even))


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
    table: TableReader,
    fragments: Iterable[Fragment],
    wanted: frozenset[int],
    piece_bytes: int | None,
    shares: Mapping[int, float] | None = None,
) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Ranges of rows with their sizes, none of them much larger than asked for; fragments without a share are left out."""
    for fragment in fragments:
        share = 1.0 if shares is None else shares.get(fragment.id, 0.0)
        if not share:
            continue
        rows = _rows(table, fragment)
        size = int(_bytes(fragment, rows, wanted) * share)
        most = max(1, rows // _LEAST_ROWS, min(rows, size // _LEAST_SPLIT_BYTES))
        count = 1 if piece_bytes is None else min(-(-size // piece_bytes) or 1, most)
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


def _limited(table: TableReader, limit: int, offset: int) -> Iterator[Split]:
    """As many fragments from the beginning as have enough live rows, without those that are passed over."""
    for position, fragment in enumerate(table.snapshot.manifest.fragments):
        live = int(table.row_counts[position])
        if limit <= 0:
            return
        wanted = min(live, limit)
        if wanted > offset:
            yield Split(((fragment.id, 0, _rows(table, fragment)),), wanted - max(0, offset), max(0, offset))
        limit -= live
        offset -= live
