"""Which indices have the rows of which runs: noted by every commit as pylance notes it, and asked before runs are removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.memwal.details import require_details
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import SHARD, rows, runs


def caught_up(where: Path) -> dict[str, list[int]]:
    return {name: list(known.values()) for name, known in require_details(open_snapshot(where)).caught_up.items()}


def merge(module: ModuleType, where: Path, ids: list[int]) -> None:
    """Rows through the MemWAL into the table."""
    with lance.dataset(where).mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows(ids, "run "))
    run = runs(where)[-1]
    generation = int(run.name.rpartition("_")[2])
    source = lance.dataset(run).to_table(columns=["id", "val", "text"])
    made = module.dataset(where).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    marked = module.CompactedSsTable if module is lance else lancelet.mem_wal.CompactedSsTable
    made.mark_sstables_as_compacted([marked(str(SHARD), generation)]).execute(source)


STEPS: list[tuple[str, Any]] = [
    ("merge", lambda module, where: merge(module, where, [2, 5])),
    ("optimize", lambda module, where: module.dataset(where).optimize.optimize_indices()),
    ("merge", lambda module, where: merge(module, where, [7])),
    ("optimize one", lambda module, where: module.dataset(where).optimize.optimize_indices(index_names=["id_idx"])),
    ("append", lambda module, where: module.write_dataset(rows([50], "x"), where, mode="append")),
    ("merge", lambda module, where: merge(module, where, [8])),
    ("replace", lambda module, where: module.dataset(where).create_scalar_index("id", "BTREE", replace=True)),
    ("compact", lambda module, where: module.dataset(where).optimize.compact_files()),
    ("delete", lambda module, where: module.dataset(where).delete("id = 1")),
    ("drop", lambda module, where: module.dataset(where).drop_index("val_idx")),
    ("create", lambda module, where: module.dataset(where).create_scalar_index("text", "BTREE")),
    ("update", lambda module, where: module.dataset(where).update({"val": "1.0"}, where="id = 2")),
    ("config", lambda module, where: module.dataset(where).update_config({"a": "b"})),
    ("restore", lambda module, where: module.dataset(where, version=5).restore()),
]


def test_every_commit_notes_what_pylance_would_note(tmp_path: Path) -> None:
    tables = {module: tmp_path / module.__name__ for module in (lance, lancelet)}
    for where in tables.values():
        dataset = lance.write_dataset(rows([1, 2, 3], "base "), where)
        dataset.create_scalar_index("id", "BTREE")
        dataset.create_scalar_index("val", "BTREE")
        dataset.initialize_mem_wal(unsharded=True)
    met = []
    for name, step in STEPS:
        for module, where in tables.items():
            step(module, where)
        noted = [caught_up(where) for where in tables.values()]
        assert noted[1] == noted[0], name
        met.append(noted[0])
    assert {} in met
    assert {"id_idx": [2], "val_idx": [1]} in met


@pytest.fixture
def indexed(tmp_path: Path) -> lancelet.LanceDataset:
    dataset = lancelet.write_dataset(rows([1, 2, 3], "base "), tmp_path / "t")
    dataset.create_scalar_index("id", "BTREE")
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put(rows([2, 5], "run "))
    dataset.compact_mem_wal()
    return dataset


def test_runs_stay_until_the_indices_have_their_rows(indexed: lancelet.LanceDataset) -> None:
    assert indexed.cleanup_mem_wal(timedelta(0))["num_runs"] == 0
    indexed.optimize.optimize_indices()
    assert caught_up(Path(indexed.uri)) == {"id_idx": [1]}
    assert indexed.cleanup_mem_wal(timedelta(0))["num_runs"] == 1
    assert sorted(indexed.to_table()["id"].to_pylist()) == [1, 2, 3, 5]


def test_an_index_without_rows_of_its_own_holds_nothing_up(indexed: lancelet.LanceDataset) -> None:
    indexed.drop_index("id_idx")
    assert indexed.cleanup_mem_wal(timedelta(0))["num_runs"] == 1


def test_an_empty_table_proves_nothing(tmp_path: Path) -> None:
    schema = rows([1]).schema
    dataset = lancelet.write_dataset(pa.Table.from_batches([], schema), tmp_path / "t")
    dataset.create_scalar_index("id", "BTREE")
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put(rows([2], "run "))
    dataset.compact_mem_wal()
    assert caught_up(tmp_path / "t") == {}
