"""Doing a change again on the newest version, when somebody else was there first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lancelet.errors import InvalidInput, RetryableCommitConflict
from lancelet.query.table_reader import TableReader

R = TypeVar("R")


def retried(table: TableReader, attempt: Callable[[TableReader], R], retries: int, timeout: float) -> R:
    """The result of ``attempt`` on a version of a table, or on newer ones while others get in between.

    It is made again at most ``retries`` times, and not when ``timeout`` seconds have passed.
    """
    if retries < 0:
        raise InvalidInput(f"conflict_retries is a number of attempts, not {retries}")
    began = time.monotonic()
    while True:
        try:
            return attempt(table)
        except RetryableCommitConflict:
            if retries == 0 or time.monotonic() - began > timeout:
                raise
        retries -= 1
        table = TableReader(table.snapshot.latest(), table.cache)
