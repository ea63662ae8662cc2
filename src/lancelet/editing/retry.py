"""Doing a change again on the newest version, when somebody else was there first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lancelet.errors import InvalidInput, MissingFile, RetryableCommitConflict, VersionNotFound
from lancelet.execution.table_reader import TableReader
from lancelet.table.commit.patience import CHANGE_RETRIES, Patience
from lancelet.table.manifest.snapshot import Snapshot

R = TypeVar("R")


def retried(table: TableReader, attempt: Callable[[TableReader], R], retries: int | None, timeout: float) -> R:
    """The result of ``attempt`` on a version of a table, or on newer ones while others get in between.

    It is made again until ``timeout`` seconds have passed, and at most ``retries`` times where that is not the default.
    """
    if retries is not None and retries < 0:
        raise InvalidInput(f"conflict_retries is a number of attempts, not {retries}")
    left = None if retries == CHANGE_RETRIES else retries
    patience = Patience(timeout)
    while True:
        try:
            return attempt(table)
        except MissingFile:
            # Its files may have gone with a version that was cleaned up; the newest one has all that it needs.
            newest = table.snapshot.latest()
            if newest.version == table.snapshot.version or _is_there(table.snapshot):
                raise
            table = TableReader(newest, table.cache)
            continue
        except RetryableCommitConflict:
            if left == 0 or patience.is_over:
                raise
        left = None if left is None else left - 1
        table = TableReader(table.snapshot.latest(), table.cache)


def _is_there(snapshot: Snapshot) -> bool:
    """Whether a version can still be opened."""
    try:
        snapshot.at(snapshot.version)
    except VersionNotFound:
        return False
    return True
