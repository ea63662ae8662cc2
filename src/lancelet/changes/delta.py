"""What changed between two versions of a table, told by the lineage of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet._api.conversion import read_transaction
from lancelet._api.transaction import Transaction
from lancelet.errors import InvalidInput, InvalidType, RowNotFound
from lancelet.execution.plan import ScanPlan, plan_filter, plan_outputs
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import CREATED_AT, LAST_UPDATED_AT, ROW_ID
from lancelet.table.manifest.versions import read_version

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot

Ids: TypeAlias = npt.NDArray[np.uint64]
_BATCH_ROWS = 8192


class DatasetDelta:
    """The changes after version ``begin`` up to and including ``end``.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": [1, 2]}, "memory://docs/delta", enable_stable_row_ids=True)
    >>> dataset.insert({"id": [3]})
    >>> dataset.delta(compared_against=1).get_inserted_rows().read_all()["id"].to_pylist()
    [3]
    """

    def __init__(self, table: TableReader, begin: int, end: int) -> None:
        version: Any
        for version in (begin, end):
            if not isinstance(version, int) or isinstance(version, bool):
                raise InvalidType(f"a version is a number here, not {version!r}")
            if version < 0:
                raise RowNotFound(f"versions are not negative, got {version}")
        self._table = table
        self._begin = begin
        self._end = end

    @classmethod
    def between(cls, table: TableReader, one: int, other: int) -> DatasetDelta:
        """The changes between two versions, whichever is the older."""
        delta = cls(table, one, other)
        return delta if one <= other else cls(table, other, one)

    def list_transactions(self) -> list[Transaction]:
        """The commits, oldest first."""
        store = self._table.snapshot.store
        found = (read_transaction(read_version(store, n)) for n in range(self._begin + 1, self._end + 1))
        return [transaction for transaction in found if transaction is not None]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Rows that were created, with their ids and versions."""
        return self._rows(f"{CREATED_AT} > {self._begin} and {CREATED_AT} <= {self._end}")

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Rows that were there before and got new values, with their ids and versions."""
        return self._rows(
            f"{CREATED_AT} <= {self._begin} and {LAST_UPDATED_AT} > {self._begin} and {LAST_UPDATED_AT} <= {self._end}"
        )

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Ids of rows that ``begin`` had and ``end`` has not, ascending; for tables with stable row ids only."""
        if self._begin > self._end:
            raise InvalidInput(f"begin version {self._begin} is newer than end version {self._end}")
        schema = pa.schema([pa.field(ROW_ID, pa.uint64())])
        gone = self._gone() if self._begin else np.empty(0, np.uint64)
        batches = [
            pa.RecordBatch.from_arrays([pa.array(gone[at : at + _BATCH_ROWS])], schema=schema)
            for at in range(0, len(gone), _BATCH_ROWS)
        ]
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _gone(self) -> Ids:
        """Rows of fragments that are the same in both versions cancel out, and are not looked at."""
        before, after = self._at(self._begin), self._at(self._end)
        for snapshot in (before, after):
            if not snapshot.manifest.has_stable_row_ids:
                raise InvalidInput(f"deleted row ids require stable row ids, version {snapshot.version} has none")
        rows = [
            {(f.id, f.row_ids, f.deletion_file, f.physical_rows) for f in s.manifest.fragments} for s in (before, after)
        ]
        old, new = rows[0] - rows[1], rows[1] - rows[0]
        gone: Ids = np.setdiff1d(self._ids(before, {f[0] for f in old}), self._ids(after, {f[0] for f in new}))
        return gone

    def _rows(self, condition: str) -> pa.RecordBatchReader:
        schema = self._table.snapshot.manifest.schema
        outputs = plan_outputs(schema, [*schema.names, ROW_ID, CREATED_AT, LAST_UPDATED_AT])
        scan = Scan(self._table, ScanPlan(schema, outputs, plan_filter(schema, condition)))
        return pa.RecordBatchReader.from_batches(scan.schema, scan.batches())

    def _ids(self, snapshot: Snapshot, fragments: set[int]) -> Ids:
        schema = snapshot.manifest.schema
        plan = ScanPlan(schema, plan_outputs(schema, [ROW_ID]), fragment_ids=tuple(sorted(fragments)))
        batches = Scan(TableReader(snapshot, self._table.cache), plan).batches()
        return np.concatenate([np.empty(0, np.uint64), *(batch.column(0).to_numpy() for batch in batches)])

    def _at(self, version: int) -> Snapshot:
        snapshot = self._table.snapshot
        return snapshot if snapshot.version == version else snapshot.at(version)


def choose_delta(
    table: TableReader, compared_against: int | None, begin_version: int | None, end_version: int | None
) -> DatasetDelta:
    """The changes between a version and that of the table, or between two versions."""
    if compared_against is not None:
        return DatasetDelta.between(table, compared_against, table.snapshot.version)
    if begin_version is None and end_version is None:
        raise InvalidInput("delta needs compared_against, or begin_version and end_version")
    if begin_version is None or end_version is None:
        raise InvalidInput("delta needs begin_version and end_version together")
    return DatasetDelta(table, begin_version, end_version)
