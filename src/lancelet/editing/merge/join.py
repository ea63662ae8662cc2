"""Which rows of a table have the keys of a source, and what becomes of each.

The table is read once, its key columns only, and looked up in an index of the
source's keys: memory goes by the source's keys and the rows that match. When there
are few of them, and the table has an index on the key, only the rows with these keys
are read. Columns that a condition looks at are read for matching rows only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.merge.clauses import SOURCE, TARGET, Matched, MergePlan
from lancelet.editing.merge.keys import KeyIndex, plain
from lancelet.editing.merge.source import MergeSource, joined_batches
from lancelet.editing.moved import Addresses
from lancelet.encoding.plain import numpy_array
from lancelet.encoding.rows import Indices
from lancelet.errors import MergeRefused
from lancelet.execution.plan import ScanPlan, column_of
from lancelet.execution.scan import Scan
from lancelet.execution.shown import scan_field
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column, Expr, In, ValueSet, columns_of
from lancelet.format.extensions import storage_of
from lancelet.format.schema import Field
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.table.rows.addresses import by_fragment, row_addresses

_SCAN_ROWS = 1 << 16
_FEW_KEYS = 4096
_FEW_OF = 100
"""So many times more rows than keys make it worth to ask an index."""
_BLOCK_ROWS = 1 << 15
_BLOCK_BYTES = 16 << 20
_LEAST_BLOCK = 64
Pieces = Sequence[tuple[int, int, int]]
"""Parts of fragments: the fragment's id, its first physical row, and the one after the last."""
_ADDRESS: tuple[str, Expr] = (ROW_ADDRESS, Column((ROW_ADDRESS,), pa.uint64()))


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Pairs of a row of the table and a row of the source."""

    addresses: Addresses
    """Of rows of the table, in its order; a row that matches several rows of the source is there as often."""
    sources: Indices
    """Numbers of rows of the source."""

    def __len__(self) -> int:
        return len(self.addresses)

    def where(self, mask: npt.NDArray[np.bool_]) -> Matches:
        return Matches(self.addresses[mask], self.sources[mask])


@dataclass(frozen=True, slots=True, eq=False)
class Actions:
    """What a merge does, row by row."""

    updated: Matches
    """Rows of the table, and where their new values are."""
    deleted: Addresses
    inserted: npt.NDArray[np.bool_]
    """Which rows of the source are new."""

    @property
    def num_inserted(self) -> int:
        return int(np.count_nonzero(self.inserted))


def match_keys(table: TableReader, keys: Sequence[Field], index: KeyIndex, within: Pieces | None = None) -> Matches:
    """The rows of a table, or of pieces of it, whose keys are in an index."""
    outputs: list[tuple[str, Expr]] = [(key.name, Column((key.name,), scan_field(key).type)) for key in keys]
    schema = table.snapshot.manifest.schema
    plan = ScanPlan(schema, (*outputs, _ADDRESS), _among(table, keys, index), batch_size=_SCAN_ROWS)
    if within is not None:
        plan = replace(
            plan,
            fragment_ids=tuple(number for number, _, _ in within),
            row_ranges=tuple((first, last) for _, first, last in within),
        )
    addresses, sources = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for batch in Scan(table, plan).batches():
        here, there = index.match([plain(column) for column in batch.columns[:-1]])
        if len(here):
            addresses.append(numpy_array(batch.column(batch.num_columns - 1))[here])
            sources.append(there)
    return Matches(np.concatenate(addresses), np.concatenate(sources))


def _among(table: TableReader, keys: Sequence[Field], index: KeyIndex) -> Expr | None:
    """A filter that leaves out rows without a match, where the table has an index for it; None for none.

    A float may equal another float whose bytes differ, so that keys of floats are not asked for.
    """
    wanted = index.columns[0]
    if len(keys) > 1 or len(wanted) > _FEW_KEYS or len(wanted) * _FEW_OF > table.num_rows:
        return None
    column = Column((keys[0].name,), scan_field(keys[0]).type)
    if wanted.type != column.type or pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        return None
    from lancelet.execution.candidates import Search

    condition = In(column, ValueSet(wanted.drop_null().unique()))
    return None if Search.of(table, condition, None) is None else condition


def decide(table: TableReader, plan: MergePlan, source: MergeSource, index: KeyIndex) -> Actions:
    """Match the rows, and say what becomes of them."""
    clauses = plan.clauses
    matches = match_keys(table, plan.keys, index)
    if clauses.matched is Matched.FAIL and len(matches):
        key = _shown_key(plan, index, int(matches.sources[0]))
        raise MergeRefused(f"Merge insert failed: found matching row with key values: {key}")
    inserted = np.full(source.num_rows, clauses.insert)
    if clauses.insert:
        inserted[matches.sources] = False
    deleted = np.empty(0, np.uint64)
    if clauses.delete_others:
        deleted = _others(table, plan, matches.addresses)
    nothing = Matches(matches.addresses[:0], matches.sources[:0])
    if clauses.matched not in (Matched.UPDATE, Matched.DELETE):
        return Actions(nothing, deleted, inserted)
    if plan.condition is not None:
        matches = _meeting(table, plan, plan.condition, source, matches)
    twice = np.flatnonzero(matches.addresses[1:] == matches.addresses[:-1])
    if len(twice):
        key = _shown_key(plan, index, int(matches.sources[twice[0]]))
        raise MergeRefused(
            f"Ambiguous merge inserts are prohibited: multiple source rows match the same target row on ({key}). "
            "Please ensure each target row is matched by at most one source row"
        )
    if clauses.matched is Matched.DELETE:
        return Actions(nothing, np.concatenate([deleted, matches.addresses]), inserted)
    return Actions(matches, deleted, inserted)


def rows_at(table: TableReader, outputs: Sequence[tuple[str, Expr]], addresses: Addresses) -> Iterator[pa.RecordBatch]:
    """Columns of single rows, in blocks of one fragment each; the addresses are in the order of the table.

    Blobs are descriptors.
    """
    scan = Scan(table, ScanPlan(table.snapshot.manifest.schema, tuple(outputs)))
    step = _BLOCK_ROWS
    for number, _, offsets in by_fragment(addresses):
        owner = table.snapshot.manifest.fragments.position(number)
        at = 0
        while at < len(offsets):
            block = offsets[at : at + step]
            found = scan.take(np.full(len(block), owner), block)
            yield joined_batches(found.to_batches())
            at += len(block)
            each = max(1, found.nbytes // found.num_rows)
            step = max(_LEAST_BLOCK, min(_BLOCK_ROWS, _BLOCK_BYTES // each))


def _others(table: TableReader, plan: MergePlan, matched: Addresses) -> Addresses:
    """Rows that only the table has, as far as the condition asks for them."""
    known = np.sort(matched)
    if plan.others is None:
        every = (
            row_addresses(reader.fragment.id, np.flatnonzero(reader.deletions.keep(0, reader.physical_rows)))
            for reader in table.readers()
        )
        parts = [_without(addresses, known) for addresses in every]
    else:
        plan_of = ScanPlan(table.snapshot.manifest.schema, (_ADDRESS,), plan.others)
        parts = [_without(numpy_array(batch.column(0)), known) for batch in Scan(table, plan_of).batches()]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _without(addresses: Addresses, known: Addresses) -> Addresses:
    """Those that are not among the known ones, which are sorted."""
    kept: npt.NDArray[np.bool_] = np.ones(len(addresses), np.bool_)
    if len(known):
        kept = known[np.minimum(np.searchsorted(known, addresses), len(known) - 1)] != addresses
    left: Addresses = addresses[kept]
    return left


def _meeting(table: TableReader, plan: MergePlan, condition: Expr, source: MergeSource, matches: Matches) -> Matches:
    """The pairs that meet a condition."""
    from lancelet.expressions.evaluate import mask

    schema = table.snapshot.manifest.schema
    paths = columns_of(condition)
    mine = sorted({path[1] for path in paths if path[0] == SOURCE and len(path) > 1})
    theirs = sorted({path[1] for path in paths if path[0] == TARGET and len(path) > 1})
    outputs = [(name, column_of(schema, name)) for name in theirs or [ROW_ADDRESS]]
    kept: list[npt.NDArray[np.bool_]] = [np.empty(0, np.bool_)]
    at = 0
    for target in rows_at(table, outputs, matches.addresses):
        rows = matches.sources[at : at + target.num_rows]
        at += target.num_rows
        sides = {TARGET: _struct(target), SOURCE: _struct(source.take(rows, mine))}
        kept.append(numpy_array(mask(condition, pa.RecordBatch.from_pydict(sides))))
    return matches.where(np.concatenate(kept))


def _struct(batch: pa.RecordBatch) -> pa.StructArray:
    """The columns as one; without columns still as many rows."""
    columns = [storage_of(column) for column in batch.columns]
    if not columns:
        return pa.StructArray.from_arrays([pa.nulls(batch.num_rows)], names=[""])
    return pa.StructArray.from_arrays(columns, names=batch.schema.names)


def _shown_key(plan: MergePlan, index: KeyIndex, row: int) -> str:
    pairs = zip(plan.keys, index.columns, strict=True)
    return ", ".join(f"{key.name} = {column[row].as_py()!r}" for key, column in pairs)
