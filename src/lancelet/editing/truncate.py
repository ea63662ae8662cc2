"""Deleting all rows, of which none has to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.editing.retry import retried
from lancelet.table.commit.operations import Delete
from lancelet.table.commit.patience import CHANGE_SECONDS
from lancelet.table.commit.run import commit

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.table.manifest.snapshot import Snapshot


def truncate(table: TableReader) -> Snapshot:
    """Commit a version without rows; fragments that others change meanwhile are found again on the newest version."""

    def attempt(table: TableReader) -> Snapshot:
        ids = table.snapshot.manifest.fragments.ids.tolist()
        return commit(table.snapshot, Delete((), tuple(ids), "true"))

    return retried(table, attempt, None, CHANGE_SECONDS)
