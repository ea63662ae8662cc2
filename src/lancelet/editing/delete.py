"""Deleting rows: find them, mark them, commit; again on the newest version when others were there first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.retry import retried
from lancelet.encoding.plain import numpy_array
from lancelet.errors import FilterSyntaxError, InvalidType, RowNotFound
from lancelet.execution.plan import ScanPlan, plan_filter
from lancelet.execution.row_numbers import row_numbers
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column, Expr
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.runtime import compute as pc
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable
from lancelet.table.rows.addresses import by_fragment

if TYPE_CHECKING:
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

Predicate: TypeAlias = Any
"""SQL text or a pyarrow expression."""


class DeleteResult(TypedDict):
    """What a deletion did."""

    num_deleted_rows: int


def delete_where(table: TableReader, predicate: Predicate, *, retries: int, timeout: float) -> tuple[Snapshot, int]:
    """Commit the deletion of all rows for which ``predicate`` is true; returns the new version and their number.

    When another commit touched the same rows, the rows are found again on the newest version, at most ``retries``
    times and for about ``timeout`` seconds.
    """
    return retried(table, lambda newest: _delete(newest, predicate), retries, timeout)


def delete_from_fragment(table: TableReader, fragment: Fragment, predicate: Predicate) -> Fragment | None:
    """The fragment without the rows that match; None when none is left. Nothing is committed."""
    condition, text = _condition(table, predicate)
    with WrittenFiles(table.snapshot.store) as files:
        rows = matching_rows(table, condition, (fragment.id,))
        deletion = delete_rows(table.snapshot, rows, predicate=text, files=files)
    if deletion.operation.deleted_fragment_ids:
        return None
    return next(iter(deletion.operation.updated_fragments), fragment)


def delete_offsets(table: TableReader, fragment: Fragment, offsets: Iterable[int]) -> Fragment | None:
    """The fragment without some physical rows; None when none is left. Nothing is committed."""
    rows = row_numbers(offsets if isinstance(offsets, np.ndarray) else list(offsets))
    count = table.physical_rows(fragment.id)
    if len(rows) and int(rows.max()) >= count:
        raise RowNotFound(f"row {int(rows.max())} is out of range: fragment {fragment.id} has {count} rows")
    with WrittenFiles(table.snapshot.store) as files:
        deletion = delete_rows(table.snapshot, {fragment.id: rows}, files=files)
    if deletion.operation.deleted_fragment_ids:
        return None
    return next(iter(deletion.operation.updated_fragments), fragment)


def _delete(table: TableReader, predicate: Predicate) -> tuple[Snapshot, int]:
    snapshot = table.snapshot
    check_writable(snapshot.manifest.path, snapshot.manifest.head.writer_feature_flags)
    condition, text = _condition(table, predicate)
    with WrittenFiles(snapshot.store) as files:
        rows = matching_rows(table, condition)
        deletion = delete_rows(snapshot, rows, predicate=text, files=files, known=table.deletions)
        done = commit(snapshot, deletion.operation, affected_rows=deletion.affected_rows, files=files)
    return done, deletion.num_rows


def _condition(table: TableReader, predicate: Predicate) -> tuple[Expr, str]:
    """The parsed predicate, and its text for the transaction."""
    if not isinstance(predicate, (str, pc.Expression)):
        raise InvalidType(f"predicate must be a string or a pyarrow expression, not {type(predicate)}")
    condition = plan_filter(table.snapshot.manifest.schema, predicate)
    if condition is None:
        raise FilterSyntaxError(str(predicate), None, "the predicate is empty; 'true' deletes all rows")
    if isinstance(predicate, str):
        return condition, predicate
    from lancelet.expressions.printing import to_sql

    return condition, to_sql(condition)


def matching_rows(
    table: TableReader, condition: Expr, fragments: tuple[int, ...] | None = None
) -> Mapping[int, npt.NDArray[np.int64]]:
    """Physical offsets of the rows that match, by fragment."""
    outputs: tuple[tuple[str, Expr], ...] = ((ROW_ADDRESS, Column((ROW_ADDRESS,), pa.uint64())),)
    plan = ScanPlan(table.snapshot.manifest.schema, outputs, condition, fragment_ids=fragments)
    chunks = Scan(table, plan).to_table().column(0).chunks
    # Rows come in the order of the table.
    found = np.concatenate([np.empty(0, np.uint64), *map(numpy_array, chunks)])
    return {number: offsets for number, _, offsets in by_fragment(found)}
