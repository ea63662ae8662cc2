"""Somebody who writes to the table itself beside its MemWAL, and what must be there of that at the end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa

from lancelet.editing.delete import delete_where
from lancelet.editing.update import update_rows
from lancelet.errors import CommitConflict, CommitOutcomeUnknown, MissingFile, StorageError
from lancelet.execution.plan import table_schema
from lancelet.execution.table_reader import TableReader
from lancelet.file import FileCache
from lancelet.maintenance.compaction.commit import compact
from lancelet.maintenance.compaction.options import compaction_settings
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.writing.options import write_options
from lancelet.writing.table import Target, write_table
from memwal.world import Killed, World, WorldStore

TROUBLE = (Killed, StorageError, MissingFile, CommitConflict, CommitOutcomeUnknown)


@dataclass
class Neighbour:
    """Appends, changes and deletes rows with keys below zero, and puts the files of all rows together."""

    world: World
    store: WorldStore
    chance: random.Random
    number: int
    possible: dict[int, set[int | None]] = field(default_factory=dict)
    """What the rows may be; several things after an answer that was not heard."""

    def act(self) -> None:
        for _ in range(3):
            self.world.lives.pop(self.number, None)
            if self.chance.random() < 0.3:
                self.world.lives[self.number] = self.chance.randrange(60)
            try:
                for _ in range(self.chance.randrange(1, 4)):
                    self._change()
            except TROUBLE:
                continue

    def _change(self) -> None:
        table = TableReader(open_snapshot(self.store), FileCache())
        sure = [key for key, values in self.possible.items() if len(values) == 1 and None not in values]
        kind = self.chance.choice(["append", "update", "delete", "compact"] if sure else ["append", "compact"])
        if kind == "compact":
            compact(table, compaction_settings({}, table.snapshot.manifest))
            return
        key = self.chance.choice(sure) if kind != "append" else -1 - self.number - 10 * len(self.possible)
        value = None if kind == "delete" else self.chance.randrange(1 << 20)
        self.possible.setdefault(key, {None}).add(value)
        if kind == "append":
            rows = pa.table({"id": [key], "n": [value]}).cast(table_schema(table.snapshot.manifest.schema))
            write_table(rows, None, Target(self.store, table.snapshot), write_options("append"))  # type: ignore[arg-type]
        elif kind == "update":
            update_rows(table, {"n": str(value)}, f"id = {key}", retries=3, timeout=60)
        else:
            delete_where(table, f"id = {key}", retries=3, timeout=60)
        self.possible[key] = {value}

    def check(self, found: dict[int, int]) -> None:
        for key, values in self.possible.items():
            assert found.get(key) in values, f"the neighbour's row {key} is {found.get(key)}, and not one of {values}"
