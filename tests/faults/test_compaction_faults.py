"""A compaction that fails at any operation of the store: the same rows as before, and no files too many."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, Killed
from faults.test_writing import FaultySink, files_below, referenced
from lancelet.errors import CommitOutcomeUnknown, LanceletError
from lancelet.maintenance.compaction.commit import compact
from lancelet.maintenance.compaction.options import compaction_settings
from lancelet.query.table_reader import TableReader
from lancelet.store import open_store
from lancelet.store.writing import open_sink
from lancelet.table import fragment_reuse
from lancelet.table.snapshot import open_snapshot
from lancelet.writing import fragments


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


def stored(where: Path) -> set[str]:
    return {file for file in files_below(where) if file.startswith(("data/", "_deletions/", "_indices/"))}


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize(
    "indexed", [pytest.param(False, id="plain", marks=pytest.mark.soak), pytest.param(True, id="indexed")]
)
def test_a_fault_at_every_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: bool, fault: Fault
) -> None:
    monkeypatch.setattr(fragment_reuse, "INLINE_BYTES", 10)
    monkeypatch.setattr(
        fragments,
        "open_sink",
        lambda store, path: FaultySink(store, path) if isinstance(store, FaultyStore) else open_sink(store, path),
    )

    def attempt(at: int) -> tuple[Path, set[str], FaultyStore, BaseException | None]:
        where = tmp_path / str(at)
        make(where, indexed=indexed)
        existing = stored(where)
        store = FaultyStore(open_store(where), at, fault)
        try:
            table = TableReader(open_snapshot(store))
            compact(table, compaction_settings({"target_rows_per_fragment": 20}, table.snapshot.manifest))
        except (Killed, LanceletError) as error:
            return where, existing, store, error
        return where, existing, store, None

    where, _, counting, error = attempt(-1)
    assert error is None
    rows = content(where)
    assert len(lance.dataset(where).get_fragments()) == 1
    assert any("details.binpb" in call for call in map(str, counting.calls)) is indexed
    for at, call in enumerate(counting.calls):
        where, existing, _, error = attempt(at)
        label = f"{fault.name} at {at}: {call}: {error!r}"
        assert content(where).equals(rows), label
        done = len(lance.dataset(where).get_fragments()) == 1
        if error is None:
            assert done, label
            assert {file for file in stored(where) if not file.startswith("_indices/")} == referenced(where), label
        elif not isinstance(error, (Killed, CommitOutcomeUnknown)):
            assert not done, label
            assert stored(where) == existing, label
        if isinstance(error, Killed):
            # Whatever was left behind is in nobody's way.
            lancelet.dataset(where).optimize.compact_files()
            assert content(where).equals(rows), label
    assert len(counting.calls) > 10
