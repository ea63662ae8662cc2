"""What changed between two versions of a table, told by the lineage of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.query.fragment_reader import CREATED_AT, LAST_UPDATED_AT, ROW_ID
from lancelet.query.plan import ScanPlan, plan_filter, plan_outputs
from lancelet.query.scan import Scan
from lancelet.query.table_reader import TableReader
from lancelet.table.versions import read_version
from lancelet.transaction import Transaction, read_transaction

if TYPE_CHECKING:
    from lancelet.table.snapshot import Snapshot


class DatasetDelta:
    """The changes after version ``begin`` up to and including ``end``."""

    def __init__(self, table: TableReader, begin: int, end: int) -> None:
        if begin < 0 or end < 0:
            raise InvalidInput(f"versions are not negative, got {begin} and {end}")
        self._table = table
        self._begin = begin
        self._end = end

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
        """Ids of rows that ``begin`` had and ``end`` has not."""
        if not self._table.snapshot.manifest.has_stable_row_ids:
            raise InvalidInput("deleted rows are only known for tables with stable row ids")
        before, after = self._ids(self._begin), self._ids(self._end)
        gone = np.setdiff1d(before, after)
        schema = pa.schema([pa.field(ROW_ID, pa.uint64())])
        batch = pa.RecordBatch.from_arrays([pa.array(gone, pa.uint64())], schema=schema)
        return pa.RecordBatchReader.from_batches(schema, [batch])

    def _rows(self, condition: str) -> pa.RecordBatchReader:
        schema = self._table.snapshot.manifest.schema
        outputs = plan_outputs(schema, [*schema.names, ROW_ID, CREATED_AT, LAST_UPDATED_AT])
        scan = Scan(self._table, ScanPlan(schema, outputs, plan_filter(schema, condition)))
        return pa.RecordBatchReader.from_batches(scan.schema, scan.batches())

    def _ids(self, version: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        table = TableReader(self._at(version), self._table.cache)
        schema = table.snapshot.manifest.schema
        scan = Scan(table, ScanPlan(schema, plan_outputs(schema, [ROW_ID])))
        parts = list(_values(scan.batches()))
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)

    def _at(self, version: int) -> Snapshot:
        snapshot = self._table.snapshot
        return snapshot if snapshot.version == version else snapshot.at(version)


def _values(batches: Iterator[pa.RecordBatch]) -> Iterator[np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    for batch in batches:
        yield batch.column(0).to_numpy()
