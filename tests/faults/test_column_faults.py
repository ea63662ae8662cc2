"""Changes of columns that fail at any operation of the store: the old table or the new one, and no files too many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, attempt, attempts
from lancelet.editing.columns.add import add_columns
from lancelet.editing.columns.alter import alter_columns
from lancelet.editing.columns.drop import drop_columns
from lancelet.editing.columns.join import merge_columns
from lancelet.execution.table_reader import TableReader
from lancelet.table.manifest.snapshot import open_snapshot

Act = Callable[[TableReader], Any]
OTHERS = pa.table({"k": [2, 5], "w": ["two", "five"]})

ACTS: dict[str, Act] = {
    "expression": lambda table: add_columns(table, {"b": "k * 2"}),
    "stream": lambda table: add_columns(table, pa.table({"b": range(7)})),
    "null": lambda table: add_columns(table, pa.field("b", pa.int32())),
    "join": lambda table: merge_columns(table, OTHERS, "k", None, None),
    "cast": lambda table: alter_columns(table, [{"path": "k", "data_type": pa.int32()}]),
    "rename": lambda table: alter_columns(table, [{"path": "k", "name": "key"}]),
    "drop": lambda table: drop_columns(table.snapshot, ["t"]),
}

QUICK = ("expression", "null", "cast")


def make(where: Path) -> None:
    rows = pa.table({"k": range(8), "t": [f"row {n}" for n in range(8)]})
    lancelet.write_dataset(rows, where, max_rows_per_file=5).delete("k = 1")


def content(where: Path) -> pa.Table:
    """What both read."""
    found = lance.dataset(where).to_table()
    assert lancelet.dataset(where).to_table().equals(found)
    return found


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.soak) for name in ACTS]
)
def test_a_fault_at_every_operation(tmp_path: Path, name: str, fault: Fault) -> None:
    def act(store: FaultyStore) -> None:
        ACTS[name](TableReader(open_snapshot(store)))

    whole = attempt(tmp_path / "whole", make, act)
    assert whole.error is None
    new, old = content(whole.where), lance.dataset(whole.where, version=2).to_table()
    assert not new.equals(old)
    for tried in attempts(tmp_path, make, act, fault, whole.calls):
        tried.check(content(tried.where), old, new)
    assert len(whole.calls) > 4
