"""Cleanups that are interrupted, or run into a store that fails: every version that can be listed can be read."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, Killed, files_below
from lancelet.errors import LanceletError
from lancelet.store import open_store
from lancelet.table.cleanup.plan import CleanupPolicy, plan_cleanup
from lancelet.table.cleanup.run import run_cleanup
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.table.manifest.versions import list_versions

POLICY = CleanupPolicy(retain_versions=2, error_if_tagged=False)
DEBRIS = CleanupPolicy(retain_versions=2, error_if_tagged=False, delete_unverified=True)


def rows(first: int) -> pa.Table:
    return pa.table({"a": pa.array(range(first, first + 10), pa.int64())})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions with data, deletion, index and transaction files of their own, a tag and a branch."""
    where = tmp_path_factory.mktemp("cleanup") / "t"
    dataset = lance.write_dataset(rows(0), where, max_rows_per_file=5)
    dataset.delete("a in (1, 7)")
    dataset.create_scalar_index("a", "BTREE")
    dataset.tags.create("indexed", 3)
    dataset.delete("a = 2")
    dataset.create_scalar_index("a", "BITMAP", replace=True)
    dataset = lance.write_dataset(rows(100), where, mode="overwrite")
    dataset.create_branch("dev", 6)
    dataset.delete("a = 101")
    dataset = lance.write_dataset(rows(200), where, mode="overwrite")
    lance.write_dataset(rows(300), where, mode="append")
    return where


def contents(where: Path) -> dict[int, pa.Table]:
    found = [name.version for name in list_versions(open_store(str(where)))]
    return {version: lancelet.dataset(where, version).to_table() for version in found}


def clean(store: FaultyStore) -> None:
    snapshot = open_snapshot(store)
    run_cleanup(snapshot, plan_cleanup(snapshot, POLICY))


def copy_of(table: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(table, target)
    return target


@pytest.mark.parametrize("fault", [Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.REFUSED, Fault.ANSWER_LOST])
def test_every_operation_fails_once(tmp_path: Path, table: Path, fault: Fault) -> None:
    where = copy_of(table, tmp_path / "t")
    expected, before = contents(where), set(files_below(where))
    quiet = FaultyStore(open_store(str(where)))
    clean(quiet)
    left, survivors = set(files_below(where)), list(contents(where))
    assert survivors == [3, 6, 8, 9]
    assert sum(call.startswith("delete") for call in quiet.calls) == len(before - left) > 10
    for at in range(len(quiet.calls)):
        copy_of(table, where)
        store = FaultyStore(open_store(str(where)), at, fault)
        with suppress(Killed, LanceletError):
            clean(store)
        # Nothing that is needed is gone, and every version that is listed reads as before.
        assert left <= set(files_below(where)), store.calls[at]
        found = contents(where)
        assert set(survivors) <= set(found)
        assert found == {version: expected[version] for version in found}
        again = open_snapshot(where)
        run_cleanup(again, plan_cleanup(again, DEBRIS))
        assert set(files_below(where)) == left, store.calls[at]
    assert lance.dataset(where).checkout_version(("dev", None)).count_rows() == 10


def test_what_could_not_be_removed_is_counted(tmp_path: Path, table: Path) -> None:
    where = copy_of(table, tmp_path / "t")
    quiet = FaultyStore(open_store(str(where)))
    snapshot = open_snapshot(quiet)
    plan = plan_cleanup(snapshot, POLICY)
    first = len(quiet.calls)
    # The first manifest stays, so its files have to.
    quiet.at, quiet.fault = first, Fault.REFUSED
    stats = run_cleanup(snapshot, plan)
    assert quiet.calls[first].startswith("delete _versions/")
    assert stats.failed_deletes == 1
    assert stats.old_versions == len(plan.versions) - 1
    assert plan.versions[0] in contents(where)


def test_a_killed_process_leaves_versions_whole(tmp_path: Path, table: Path) -> None:
    """After a kill, what is left over goes once it is a week old, without any flag."""
    where = copy_of(table, tmp_path / "t")
    quiet = FaultyStore(open_store(str(where)))
    clean(quiet)
    left = set(files_below(where))
    copy_of(table, where)
    deletes = [number for number, call in enumerate(quiet.calls) if call.startswith("delete")]
    store = FaultyStore(open_store(str(where)), deletes[len(deletes) // 2], Fault.KILLED_BEFORE)
    with pytest.raises(Killed):
        clean(store)
    snapshot = open_snapshot(where)
    run_cleanup(snapshot, plan_cleanup(snapshot, POLICY))
    assert left < set(files_below(where))
    later = datetime.now(timezone.utc) + timedelta(days=8)
    run_cleanup(snapshot, plan_cleanup(snapshot, POLICY, now=later))
    assert set(files_below(where)) == left
