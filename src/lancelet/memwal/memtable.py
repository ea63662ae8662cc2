"""Rows that are in the log and in no run yet, in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


class MemTable:
    """Rows in the order in which they came. What was added stays; a reader takes the batches that there are."""

    __slots__ = ("_batches", "generation", "last_position", "nbytes", "num_rows")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._batches: list[pa.RecordBatch] = []
        self.num_rows = 0
        self.nbytes = 0
        self.last_position = 0
        """Of the last entry of the log whose rows are here."""

    def add(self, batches: Sequence[pa.RecordBatch], position: int) -> None:
        """Take in the rows of an entry of the log."""
        for batch in batches:
            if batch.num_rows:
                self._batches.append(batch)
                self.num_rows += batch.num_rows
                self.nbytes += batch.nbytes
        self.last_position = position

    @property
    def num_batches(self) -> int:
        return len(self._batches)

    def batches(self) -> tuple[pa.RecordBatch, ...]:
        return tuple(self._batches)
