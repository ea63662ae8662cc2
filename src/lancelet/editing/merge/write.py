"""Writing what a merge changes: rows into new fragments, or columns into new files of the fragments that have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.merge.clauses import MergePlan
from lancelet.editing.merge.join import Actions, Matches, rows_at
from lancelet.editing.merge.source import MergeSource, joined_batches
from lancelet.editing.moved import Addresses, Change, RowWriter, lineage_of, reader_of, rows_moved
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array
from lancelet.encoding.rows import Indices, RowRange
from lancelet.errors import NotSupported
from lancelet.execution.blobs import has_blobs
from lancelet.execution.carried_blobs import blob_pieces
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.shown import BlobForm, scan_field, show_column
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column, Expr
from lancelet.format.extensions import storage_of
from lancelet.format.file_versions import V2_0
from lancelet.format.schema import Field, Schema
from lancelet.table.commit import operations as ops
from lancelet.table.commit.deletion_write import bitmap_bytes
from lancelet.table.manifest.fragment import TOMBSTONE, DataFile, Fragment
from lancelet.table.rows.addresses import by_fragment, fragment_of
from lancelet.table.rows.lineage import inline_bytes
from lancelet.writing.blobs import BlobRules, stored_blobs

_UNIT_BYTES = 16 << 20
_UNIT_ROWS = 1 << 16
_WHOLE_STRUCTS = V2_0


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """A merge of which is known what becomes of each row."""

    table: TableReader
    plan: MergePlan
    source: MergeSource
    actions: Actions
    inserted_keys: ops.KeyFilter | None
    """Keys of the rows that are new, where others have to know them."""

    def with_blobs(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of the source with references to blobs as the table may have them."""
        return stored_blobs(rows, Schema(self.plan.given), BlobRules(self.table.snapshot.places))


def rewrite_rows(merge: Decided, writer: RowWriter) -> Change:
    """Write updated and inserted rows into new fragments, and mark the old ones as deleted."""
    table, plan, source, actions = merge.table, merge.plan, merge.source, merge.actions
    updated = actions.updated
    lineage = None
    if table.snapshot.manifest.has_stable_row_ids:
        if not plan.missing:
            updated = _by_source(updated, source.num_rows)
        lineage = lineage_of(table, updated.addresses)
    moved, new = _updated_rows(merge, updated), _inserted_rows(merge)
    if lineage is not None and inline_bytes(table.snapshot.manifest) != float("inf"):
        fragments = writer.trace(writer.write(moved, plan.written), lineage) + writer.write(new, plan.written)
    elif lineage is not None or plan.missing:
        fragments = writer.trace(writer.write(chain(moved, new), plan.written), lineage)
    else:
        # Nobody asks which rows moved: the source is written as it comes.
        rows = _given_rows(source, updated.sources, actions.inserted)
        fragments = writer.write(merge.with_blobs(rows), plan.written)
    gone = np.concatenate([actions.updated.addresses, actions.deleted])
    fields = [node.id for node in table.snapshot.manifest.schema.walk()]
    return rows_moved(table.snapshot, gone, fragments, writer.files, fields=fields, inserted_keys=merge.inserted_keys)


def rewrite_columns(merge: Decided, writer: RowWriter) -> Change:
    """Write new files for the source's columns of every fragment with updated rows."""
    table, plan, source, actions = merge.table, merge.plan, merge.source, merge.actions
    stable = table.snapshot.manifest.has_stable_row_ids
    changed: list[Fragment] = []
    offsets: dict[int, bytes] = {}
    for number, here, rows in by_fragment(actions.updated.addresses):
        reader = reader_of(table, number)
        _check_patchable(reader.fragment, plan)
        batches = _patched(reader, plan.changed, source, rows, actions.updated.sources[here])
        changed.append(_with_file(reader.fragment, writer.write_file(batches, Schema(plan.changed), reader.groups)))
        if stable:
            offsets[number] = bitmap_bytes(rows.astype(np.uint32))
    fragments = writer.write(merge.with_blobs(source.chosen(actions.inserted)), Schema(plan.given))
    operation = ops.Update(
        updated_fragments=tuple(changed),
        new_fragments=fragments,
        fields_modified=tuple(node.id for field in plan.changed for node in field.walk()) if changed else (),
        rewrites_columns=True,
        inserted_keys=merge.inserted_keys,
        updated_offsets=offsets,
    )
    return Change(operation, None)


def _by_source(matches: Matches, rows: int) -> Matches:
    """The pairs in the order in which ``_given_rows`` writes them."""
    place = np.full(rows, -1, np.int64)
    # Of several pairs of one row, the first; the others follow in the same order.
    place[matches.sources[::-1]] = np.arange(len(matches))[::-1]
    order = place[place >= 0]
    if len(order) < len(matches):
        others = np.setdiff1d(np.arange(len(matches)), order)
        order = np.concatenate([order, others[np.argsort(matches.sources[others], kind="stable")]])
    return Matches(matches.addresses[order], matches.sources[order])


def _updated_rows(merge: Decided, updated: Matches) -> Iterator[pa.RecordBatch]:
    """The updated rows, in the order of the pairs; columns that the source lacks come from the table."""
    missing, source = merge.plan.missing, merge.source
    if not missing:
        yield from merge.with_blobs(_given_rows(source, updated.sources, np.zeros(source.num_rows, np.bool_)))
        return
    at = 0
    for kept in kept_columns(merge.table, missing, updated.addresses):
        taken = source.take(updated.sources[at : at + kept.num_rows])
        (given,) = merge.with_blobs(iter([taken]))
        at += kept.num_rows
        columns = [*given.columns, *(_stored(column) for column in kept.columns)]
        yield pa.RecordBatch.from_arrays(columns, names=[*given.schema.names, *kept.schema.names])


def kept_columns(table: TableReader, fields: Sequence[Field], addresses: Addresses) -> Iterator[pa.RecordBatch]:
    """Columns of rows that move, with their blobs; the addresses are in the order of the table."""
    outputs: list[tuple[str, Expr]] = [(field.name, Column((field.name,), scan_field(field).type)) for field in fields]
    blobs = any(has_blobs(field) for field in fields)
    at = 0
    for batch in rows_at(table, outputs, addresses):
        if not blobs:
            yield batch
            continue
        reader = reader_of(table, fragment_of(int(addresses[at])))
        at += batch.num_rows
        for piece in blob_pieces(reader, Schema(tuple(fields)), pa.Table.from_batches([batch])):
            yield from piece.to_batches()


def _given_rows(source: MergeSource, rows: Indices, inserted: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
    """Updated and inserted rows in the order of the source; updates of several rows by one come last."""
    chosen = inserted.copy()
    chosen[rows] = True
    yield from source.chosen(chosen)
    if np.count_nonzero(chosen) == len(rows) + np.count_nonzero(inserted):
        return
    counts = np.bincount(rows, minlength=source.num_rows)
    again = np.repeat(np.arange(source.num_rows), np.maximum(counts - 1, 0))
    for start in range(0, len(again), _UNIT_ROWS):
        yield source.take(again[start : start + _UNIT_ROWS])


def _inserted_rows(merge: Decided) -> Iterator[pa.RecordBatch]:
    """Rows that only the source has; columns that it lacks are null."""
    for batch in merge.with_blobs(merge.source.chosen(merge.actions.inserted)):
        columns, names = batch.columns, batch.schema.names
        for field in merge.plan.missing:
            columns.append(pa.nulls(batch.num_rows, scan_field(field, BlobForm.BINARY).type))
            names.append(field.name)
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _patched(
    reader: FragmentReader, fields: Sequence[Field], source: MergeSource, rows: Indices, sources: Indices
) -> Iterator[pa.RecordBatch]:
    """All physical rows of some columns, with the source's values in the rows that match."""
    names = [field.name for field in fields]
    stored, decoded = reader.row_bytes(fields)
    step = max(1024, min(_UNIT_ROWS, int(_UNIT_BYTES / max(stored, decoded, 1))))
    for start in range(0, reader.physical_rows, step):
        unit = RowRange(start, min(start + step, reader.physical_rows))
        columns = [_stored(show_column(f, c)) for f, c in zip(fields, reader.read(fields, unit), strict=True)]
        first, last = np.searchsorted(rows, (unit.start, unit.stop))
        if first < last:
            given = source.take(sources[first:last], names)
            places = rows[first:last] - unit.start
            columns = [_replaced(old, places, given.column(at)) for at, old in enumerate(columns)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _replaced(old: pa.Array, places: Indices, new: pa.Array) -> pa.Array:
    """The column with new values in some places."""
    if len(places) == len(old):
        return new
    if new.type != old.type:
        new = new.cast(old.type)
    parts = [pa.RecordBatch.from_arrays([array], names=["x"]) for array in (old, new)]
    order = np.arange(len(old))
    order[places] = len(old) + np.arange(len(new))
    return pick_rows(joined_batches(parts).column(0), arrow_array(order))


def _with_file(fragment: Fragment, file: DataFile) -> Fragment:
    """The fragment with another file for the fields of this one."""
    dead = set(file.fields)
    files = [
        replace(old, fields=tuple(TOMBSTONE if field in dead else field for field in old.fields))
        for old in fragment.files
    ]
    return replace(fragment, files=(*files, file))


def _check_patchable(fragment: Fragment, plan: MergePlan) -> None:
    """Refuse fragments of which single columns cannot be exchanged."""
    changed = {node.id for field in plan.changed for node in field.walk()}
    if any(changed.intersection(overlay.file.fields) for overlay in fragment.overlays):
        raise NotSupported(
            f"fragment {fragment.id} has overlays of the columns that are to be rewritten; compact the table first, or "
            "use write_mode('rewrite_rows')"
        )
    if plan.splits_structs and any(file.version == _WHOLE_STRUCTS for file in fragment.files):
        # pylance writes such files, but cannot read them.
        raise NotSupported(
            f"the source has only some fields of a struct, but the files of fragment {fragment.id} have version "
            f"{_WHOLE_STRUCTS}, in which a struct is in one file; give the structs whole"
        )


def _stored(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, without an extension type around it."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        whole = column.combine_chunks()
        column = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    return storage_of(column)
