"""A compaction that fails at any operation of the store: the same rows as before, and no files too many."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, Killed, attempt, attempts, files_below, referenced, row_files
from lancelet.errors import CommitOutcomeUnknown
from lancelet.execution.table_reader import TableReader
from lancelet.maintenance.compaction.commit import compact
from lancelet.maintenance.compaction.options import compaction_settings
from lancelet.table.commit import fragment_reuse
from lancelet.table.manifest.snapshot import open_snapshot


def make(where: Path, *, indexed: bool) -> None:
    rows = pa.table({"k": range(40), "t": [f"row {n}" for n in range(40)]})
    lancelet.write_dataset(rows, where, max_rows_per_file=10).delete("k = 1 or k = 33")
    if indexed:
        lance.dataset(where).create_scalar_index("k", "BITMAP")


def content(where: Path) -> pa.Table:
    """What both read, without an index and with."""
    dataset = lance.dataset(where)
    found = dataset.to_table()
    assert lancelet.dataset(where).to_table().equals(found)
    for key in (0, 1, 12, 39):
        assert dataset.to_table(["k"], filter=f"k = {key}")["k"].to_pylist() == ([] if key == 1 else [key])
    return found


def stored(files: list[str]) -> list[str]:
    return [file for file in files if file.startswith(("data/", "_deletions/", "_indices/"))]


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("index", [pytest.param("", id="plain", marks=pytest.mark.soak), "remapped", "deferred"])
def test_a_fault_at_every_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, fault: Fault) -> None:
    monkeypatch.setattr(fragment_reuse, "INLINE_BYTES", 10)
    prepare = partial(make, indexed=bool(index))
    options = {"target_rows_per_fragment": 20, "defer_index_remap": index == "deferred"}

    def act(store: FaultyStore) -> None:
        table = TableReader(open_snapshot(store))
        compact(table, compaction_settings(options, table.snapshot.manifest))

    whole = attempt(tmp_path / "whole", prepare, act)
    assert whole.error is None
    rows = content(whole.where)
    assert len(lance.dataset(whole.where).get_fragments()) == 1
    made = {"remapped": "bitmap_page_lookup.lance", "deferred": "details.binpb"}
    assert {name for name, file in made.items() if any(file in call for call in whole.calls)} == ({index} - {""})
    for tried in attempts(tmp_path, prepare, act, fault, whole.calls):
        where, error, label = tried.where, tried.error, tried.label
        assert content(where).equals(rows), label
        done = len(lance.dataset(where).get_fragments()) == 1
        if error is None:
            assert done, label
            assert row_files(where) == referenced(where), label
        elif not isinstance(error, (Killed, CommitOutcomeUnknown)):
            assert not done, label
            assert stored(files_below(where)) == stored(tried.existing), label
        if isinstance(error, Killed):
            # Whatever was left behind is in nobody's way.
            lancelet.dataset(where).optimize.compact_files()
            assert content(where).equals(rows), label
    assert len(whole.calls) > 10
