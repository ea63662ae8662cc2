"""Changes of columns that fail at any operation of the store: the old table or the new one, and no files too many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, Killed
from faults.test_writing import FaultySink, files_below, referenced, without_hint
from lancelet.editing.columns.add import add_columns
from lancelet.editing.columns.alter import alter_columns
from lancelet.editing.columns.drop import drop_columns
from lancelet.editing.columns.join import merge_columns
from lancelet.errors import CommitOutcomeUnknown, LanceletError
from lancelet.query.table_reader import TableReader
from lancelet.store import open_store
from lancelet.store.writing import open_sink
from lancelet.table.snapshot import open_snapshot
from lancelet.writing import fragments

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


def make(where: Path) -> list[str]:
    rows = pa.table({"k": range(8), "t": [f"row {n}" for n in range(8)]})
    lancelet.write_dataset(rows, where, max_rows_per_file=5).delete("k = 1")
    return files_below(where)


def content(where: Path) -> pa.Table:
    """What both read."""
    found = lance.dataset(where).to_table()
    assert lancelet.dataset(where).to_table().equals(found)
    return found


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.soak) for name in ACTS]
)
def test_a_fault_at_every_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: Fault) -> None:
    monkeypatch.setattr(
        fragments,
        "open_sink",
        lambda store, path: FaultySink(store, path) if isinstance(store, FaultyStore) else open_sink(store, path),
    )

    def attempt(at: int) -> tuple[Path, list[str], FaultyStore, BaseException | None]:
        where = tmp_path / str(at)
        existing = make(where)
        store = FaultyStore(open_store(where), at, fault)
        try:
            ACTS[name](TableReader(open_snapshot(store)))
        except (Killed, LanceletError) as error:
            return where, existing, store, error
        return where, existing, store, None

    where, _, counting, error = attempt(-1)
    assert error is None
    new, old = content(where), lance.dataset(where, version=2).to_table()
    assert not new.equals(old)
    for at, call in enumerate(counting.calls):
        where, existing, _, error = attempt(at)
        label = f"{fault.name} at {at}: {call}: {error!r}"
        found = content(where)
        if error is None:
            assert found.equals(new), label
            kept = {file for file in files_below(where) if file.startswith(("data/", "_deletions/"))}
            assert kept == referenced(where), label
        elif isinstance(error, (Killed, CommitOutcomeUnknown)):
            assert found.equals(old) or found.equals(new), label
        else:
            assert found.equals(old), label
            assert without_hint(files_below(where)) == without_hint(existing), label
    assert len(counting.calls) > 4
