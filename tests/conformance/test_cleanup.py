"""Cleanup: the same files go as with pylance, every version that stays reads as before."""

from __future__ import annotations

import logging
import os
import pickle
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from conftest import Bucket
from drawing import examples
from lancelet.errors import InvalidCleanup, LanceletError, NotFound, VersionNotFound
from lancelet.store import open_store
from lancelet.table.cleanup.automatic import parse_age
from lancelet.table.cleanup.plan import CleanupPolicy, plan_cleanup
from lancelet.table.cleanup.run import DeleteRate, run_cleanup
from lancelet.table.manifest.snapshot import open_snapshot

NOW = timedelta(0)


def rows(first: int, count: int = 10) -> pa.Table:
    return pa.table({"a": pa.array(range(first, first + count), pa.int64())})


def history(where: Path, versions: int = 5, module: ModuleType = lance) -> None:
    """Appends and overwrites in turn."""
    module.write_dataset(rows(0), where)
    for number in range(1, versions):
        module.write_dataset(rows(10 * number), where, mode="append" if number % 2 else "overwrite")


def files_below(where: Path) -> set[str]:
    return {str(path.relative_to(where)) for path in where.rglob("*") if path.is_file()}


def made_old(*paths: Path) -> None:
    """Eight days old, so that nobody can be at work on them."""
    then = time.time() - 8 * 86400
    for path in paths:
        os.utime(path, (then, then))


def candidates(dataset: Any, **arguments: Any) -> dict[str, tuple[str, bool, int]]:
    found = dataset.explain_cleanup_old_versions(**arguments, include_files=True)
    assert not found.candidate_files_truncated
    return {file.path: (file.kind, file.unverified, file.size_bytes) for file in found.candidate_files}


def counted(stats: Any) -> dict[str, int]:
    names = ("bytes_removed", "old_versions", "data_files_removed", "transaction_files_removed")
    more = ("index_files_removed", "deletion_files_removed", "failed_deletes")
    return {name: getattr(stats, name) for name in (*names, *more)}


def contents(where: Path) -> dict[int, pa.Table]:
    """Every version that can be listed."""
    dataset = lancelet.dataset(where)
    return {ref["version"]: dataset.checkout_version(ref["version"]).to_table() for ref in dataset.version_refs()}


def check_cleanup(where: Path, version: int | None = None, **arguments: Any) -> None:
    """Both libraries explain the same cleanup; ours does it, and nothing else happens."""
    ours, theirs = lancelet.dataset(where, version), lance.dataset(where, version)
    mine, other = candidates(ours, **arguments), candidates(theirs, **arguments)
    assert mine == other
    before, held = files_below(where), contents(where)
    stats = counted(ours.explain_cleanup_old_versions(**arguments).stats)
    assert stats == counted(theirs.explain_cleanup_old_versions(**arguments).stats)
    assert counted(ours.cleanup_old_versions(**arguments)) == stats
    base = str(where).strip("/")
    assert files_below(where) == before - {path.removeprefix(f"{base}/") for path in mine}
    left = contents(where)
    assert left == {version: held[version] for version in left}
    lance.dataset(where).validate()
    assert counted(lance.dataset(where, version).cleanup_old_versions(**arguments)) == dict.fromkeys(stats, 0)


POLICIES: dict[str, dict[str, Any]] = {
    "default": {},
    "everything": {"older_than": NOW},
    "from the future": {"older_than": timedelta(seconds=-5)},
    "young ones stay": {"older_than": timedelta(hours=1)},
    "keep two": {"retain_versions": 2},
    "keep more than there are": {"retain_versions": 50},
    "keep two, young ones stay": {"retain_versions": 2, "older_than": timedelta(hours=1)},
    "keep two of the old": {"retain_versions": 2, "older_than": NOW},
    "some": {"versions": [1, 3]},
    "one in the middle": {"versions": [2]},
    "the newest": {"versions": [5]},
    "none that is there": {"versions": [77]},
    "some, keep four": {"versions": [1, 3], "retain_versions": 4},
    "some, all young": {"versions": [1, 3], "older_than": timedelta(hours=1)},
    "no age is too large": {"older_than": timedelta(days=100_000)},
}


@pytest.mark.parametrize("case", POLICIES)
def test_policies(tmp_path: Path, case: str) -> None:
    history(tmp_path / "t")
    check_cleanup(tmp_path / "t", **POLICIES[case])


@pytest.mark.parametrize("version", [1, 2, 3, 5])
@pytest.mark.parametrize("arguments", [{"retain_versions": 1}, {"retain_versions": 2}, {"older_than": NOW}])
def test_cleanup_from_an_older_version(tmp_path: Path, version: int, arguments: dict[str, Any]) -> None:
    history(tmp_path / "t")
    check_cleanup(tmp_path / "t", version, **arguments)
    assert [ref["version"] for ref in lancelet.dataset(tmp_path / "t").version_refs()][-1] == 5


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("names", [False, True])
def test_every_kind_of_file(tmp_path: Path, stable: bool, names: bool) -> None:
    where = tmp_path / "t"
    table = rows(0, 40).append_column("b", pa.array([b"x" * 70_000] * 40, pa.large_binary()))
    schema = table.schema.set(1, pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}))
    options = {"enable_stable_row_ids": stable, "enable_v2_manifest_paths": names}
    dataset = lance.write_dataset(table.cast(schema), where, max_rows_per_file=10, **options)
    dataset.delete("a in (3, 14)")
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a = 15")
    dataset.create_scalar_index("a", "BITMAP", replace=True)
    dataset.optimize.compact_files()
    dataset.update({"a": "a + 100"}, "a = 5")
    dataset.alter_columns({"path": "a", "name": "c"})
    dataset.drop_columns(["b"])
    check_cleanup(where, older_than=NOW)
    assert not list((where / "_deletions").iterdir()) or lance.dataset(where).count_rows() == 37


def test_blobs_go_with_their_data_file(tmp_path: Path) -> None:
    where = tmp_path / "t"
    field = lance.blob_field("b")
    for number in range(3):
        values = lance.blob_array([bytes([number]) * 5_000_000, b"y" * 200_000])
        table = pa.table([pa.array([1, 2]), values], schema=pa.schema([("a", pa.int64()), field]))
        lance.write_dataset(table, where, mode="overwrite", data_storage_version="2.2")
    assert len([path for path in files_below(where) if path.endswith(".blob")]) >= 3
    check_cleanup(where, older_than=NOW)
    left = files_below(where)
    assert len([path for path in left if path.endswith(".lance")]) == 1
    assert any(path.endswith(".blob") for path in left)
    assert lancelet.dataset(where).take_blobs("b", indices=[0])[0].read() == b"\x02" * 5_000_000
    assert lancelet.dataset(where).verify(deep=True).findings == ()
    assert len(list((where / "data").iterdir())) == 2


KNOWN_JUNK = (
    "data/x.lance",
    "data/sub/z.lance",
    "data/sub/1.blob",
    "data/.tmp_x",
    "_deletions/0-1-2.arrow",
    "_deletions/0-1-3.bin",
    "_transactions/1-1b4e28ba-2fa1-11d2-883f-0016d3cca427.txn",
    "_transactions/9-x.txn",
    "_indices/1b4e28ba-2fa1-11d2-883f-0016d3cca427/page.lance",
    "_indices/1b4e28ba-2fa1-11d2-883f-0016d3cca427/sub/page.lance",
    "_blobs/1b4e28ba-2fa1-11d2-883f-0016d3cca427.blob",
    "_versions/.tmp_1234",
)
OTHER = (
    "data/y.txt",
    "data/q.blob",
    "data/x.manifest",
    "_deletions/foo.txt",
    "_deletions/x.lance",
    "_transactions/foo",
    "_versions/junk.tmp",
    "_versions/18446744073709551614.manifest-1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    "_refs/x.txn",
    "_mem_wal/abc/x.lance",
    "other/x.lance",
    "x.lance",
    "tree/foo/data/x.lance",
)


def litter(where: Path, *names: str) -> list[Path]:
    for name in names:
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"junk")
    return [where / name for name in names]


def test_files_that_no_version_names_stay_for_a_week(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where, 2)
    litter(where, *KNOWN_JUNK, *OTHER)
    check_cleanup(where, older_than=NOW)
    assert {*KNOWN_JUNK, *OTHER} <= files_below(where)


def test_old_files_that_no_version_names_go(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where, 2)
    made_old(*litter(where, *KNOWN_JUNK, *OTHER))
    check_cleanup(where)
    assert files_below(where).isdisjoint(KNOWN_JUNK)
    assert set(OTHER) <= files_below(where)


def test_young_files_that_no_version_names_go_when_asked(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where, 2)
    litter(where, *KNOWN_JUNK, *OTHER)
    lancelet.dataset(where).cleanup_old_versions(delete_unverified=True)
    assert files_below(where).isdisjoint(KNOWN_JUNK)
    assert set(OTHER) <= files_below(where)
    assert len(contents(where)) == 2


def test_our_own_debris_goes_too(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where, 2)
    names = (
        "_versions/.18446744073709551610.manifest.0123456789abcdef0123456789abcdef.tmp",
        "_transactions/.2-x.txn.0123456789abcdef0123456789abcdef.tmp",
        "_deletions/.0-1-2.arrow.0123456789abcdef0123456789abcdef.tmp",
    )
    debris = litter(where, *names)
    lancelet.dataset(where).cleanup_old_versions()
    assert set(names) <= files_below(where)
    made_old(*debris)
    lancelet.dataset(where).cleanup_old_versions()
    assert files_below(where).isdisjoint(names)


# Tags and branches


def test_tags_hold_their_versions(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where)
    dataset = lance.dataset(where)
    dataset.tags.create("two", 2)
    dataset.tags.create("last", 5)
    before = files_below(where)
    for act in (lancelet.dataset(where).cleanup_old_versions, lancelet.dataset(where).explain_cleanup_old_versions):
        with pytest.raises(OSError, match=r"two \(version 2\).*error_if_tagged_old_versions") as caught:
            act(NOW)
        assert isinstance(caught.value, InvalidCleanup)
    assert files_below(where) == before
    check_cleanup(where, older_than=NOW, error_if_tagged_old_versions=False)
    assert list(contents(where)) == [2, 5]


def test_a_tag_that_points_nowhere_is_no_obstacle(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where)
    lance.dataset(where).tags.create("two", 2)
    (where / "_versions" / f"{2**64 - 3}.manifest").unlink()
    check_cleanup(where, older_than=NOW)


@pytest.mark.parametrize("kind", ["tags", "branches"])
def test_a_broken_ref_stops_a_cleanup(tmp_path: Path, kind: str) -> None:
    where = tmp_path / "t"
    history(where)
    dataset = lance.dataset(where)
    dataset.tags.create("x", 2) if kind == "tags" else dataset.create_branch("x", 2)
    (where / "_refs" / kind / "x.json").write_text("{")
    before = files_below(where)
    with pytest.raises(OSError, match="x.json"):
        lancelet.dataset(where).cleanup_old_versions(NOW)
    assert files_below(where) == before


def without_transactions(found: dict[str, tuple[str, bool, int]]) -> dict[str, tuple[str, bool, int]]:
    """pylance removes the transaction's file of a version that only a branch holds."""
    return {path: file for path, file in found.items() if file[0] != "transaction"}


def check_branches(where: Path, dataset: Any, reference: Any) -> None:
    mine, other = (candidates(d, older_than=NOW) for d in (dataset, reference))
    assert without_transactions(mine) == without_transactions(other)
    assert mine.items() <= other.items()
    branches = [
        sorted((b.name, b.referenced_version, b.cleanup_candidate) for b in found.referenced_branches)
        for found in (d.explain_cleanup_old_versions(NOW) for d in (dataset, reference))
    ]
    assert branches[0] == branches[1]


def test_branches_hold_what_they_refer_to(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where)
    main = lance.dataset(where)
    dev = main.create_branch("dev", 2)
    dev.insert(rows(500))
    dev.delete("a = 501")
    second = dev.checkout_version(("dev", 3)).create_branch("team/more")
    second.insert(rows(600))
    dev.insert(rows(700), mode="overwrite")

    def at(module: ModuleType, branch: str | None) -> Any:
        return module.dataset(where) if branch is None else module.dataset(where).checkout_version((branch, None))

    expected = {branch: at(lancelet, branch).to_table() for branch in (None, "dev", "team/more")}
    for branch in ("dev", None, "team/more", "dev", None):
        check_branches(where, at(lancelet, branch), at(lance, branch))
        at(lancelet, branch).cleanup_old_versions(NOW)
        for name, table in expected.items():
            assert at(lancelet, name).to_table() == table
            assert at(lance, name).to_table() == table
    assert list(contents(where)) == [2, 5]
    assert list(contents(where / "tree" / "dev")) == [3, 5]


def test_a_branch_that_moved_away_holds_nothing(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where)
    lance.dataset(where).create_branch("dev", 2).insert(rows(500), mode="overwrite")
    assert 2 not in candidates_versions(where)
    lancelet.dataset(where).checkout_version(("dev", None)).cleanup_old_versions(NOW)
    check_branches(where, lancelet.dataset(where), lance.dataset(where))
    lancelet.dataset(where).cleanup_old_versions(NOW)
    assert list(contents(where)) == [5]
    assert lance.dataset(where).checkout_version(("dev", None)).to_table() == rows(500)


def candidates_versions(where: Path) -> tuple[int, ...]:
    return plan_cleanup(open_snapshot(where), CleanupPolicy(NOW)).versions


def test_a_branch_opened_by_its_folder(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where)
    lance.dataset(where).create_branch("dev", 2).insert(rows(500))
    lance.dataset(where).tags.create("x", ("dev", 2))
    with pytest.raises(InvalidCleanup, match="x"):
        lancelet.dataset(where / "tree" / "dev").cleanup_old_versions(NOW)
    # Tags of a branch are none of the main line's business.
    lancelet.dataset(where).cleanup_old_versions(NOW)
    assert list(contents(where)) == [2, 5]


def test_files_of_a_clone_are_another_tables(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "c"
    history(source, 3)
    lance.dataset(source).delete("a = 21")
    lance.dataset(source).shallow_clone(target, 4)
    lance.dataset(target).insert(rows(100), mode="overwrite")
    before = files_below(source)
    check_cleanup(target, older_than=NOW)
    assert files_below(source) == before
    assert len(contents(target)) == 1


def test_a_branch_under_another_path_of_the_table(tmp_path: Path) -> None:
    """The branch names its parent by the path that it was made with; a link to the table has another one."""
    where, link = tmp_path / "t", tmp_path / "link"
    history(where)
    link.symlink_to(where)
    lance.dataset(link).create_branch("dev", 2)
    lancelet.dataset(where).cleanup_old_versions(NOW)
    assert list(contents(where)) == [2, 5]
    assert lancelet.dataset(where).checkout_version(("dev", None)).count_rows() == 20


# Versions outside the history


def detached(where: Path) -> int:
    fragments = lance.fragment.write_fragments(rows(900), where)
    append = lance.LanceOperation.Append(fragments)
    version = lance.dataset(where).version
    return lance.LanceDataset.commit(str(where), append, read_version=version, detached=True).version


def test_detached_versions_keep_their_files(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where, 2)
    version = detached(where)
    expected = lance.dataset(where, version=version).to_table()
    history_end = lance.write_dataset(rows(50), where, mode="overwrite").version
    made_old(*(where / name for name in files_below(where)))
    lancelet.dataset(where).cleanup_old_versions(NOW, delete_unverified=True)
    assert list(contents(where)) == [history_end]
    assert lancelet.dataset(where, version).to_table() == expected
    assert lance.dataset(where, version=version).to_table() == expected
    lancelet.dataset(where).cleanup_old_versions(versions=[version])
    assert len(files_below(where)) == 4
    with pytest.raises(NotFound):
        lancelet.dataset(where, version)


def test_no_cleanup_from_a_detached_version(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where, 3)
    version = detached(where)
    before = files_below(where)
    with pytest.raises(InvalidCleanup, match="check out the latest version"):
        lancelet.dataset(where, version).cleanup_old_versions(NOW)
    assert files_below(where) == before


# Arguments


REFUSED: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "keep none": ({"retain_versions": 0}, OSError),
    "keep fewer than none": ({"retain_versions": -1}, OverflowError),
    "keep a text": ({"retain_versions": "x"}, TypeError),
    "an age without a unit": ({"older_than": 3}, TypeError),
    "no versions": ({"versions": []}, OSError),
    "negative versions": ({"versions": [-1]}, OverflowError),
    "a version": ({"versions": 1}, TypeError),
    "no speed": ({"delete_rate_limit": 0, "retain_versions": 1}, OSError),
    "no requests": ({"delete_concurrency": 0, "retain_versions": 1}, OSError),
    "too many requests": ({"delete_concurrency": 2**62, "retain_versions": 1}, OSError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_make_no_sense(tmp_path: Path, case: str) -> None:
    where = tmp_path / "t"
    history(where, 3)
    before = files_below(where)
    arguments, kind = REFUSED[case]
    with pytest.raises(kind):
        lance.dataset(where).cleanup_old_versions(**arguments)
    with pytest.raises(kind) as caught:
        lancelet.dataset(where).cleanup_old_versions(**arguments)
    assert isinstance(caught.value, LanceletError)
    assert files_below(where) == before


def test_explanations_are_cut_short(tmp_path: Path) -> None:
    history(tmp_path / "t", 3)
    for module in (lancelet, lance):
        dataset = module.dataset(tmp_path / "t")
        found = dataset.explain_cleanup_old_versions(NOW, include_files=True, max_files=2)
        assert len(found.candidate_files) == found.candidate_file_limit == 2
        assert found.candidate_files_truncated
        assert found.warnings == ["candidate_files truncated to 2 entries"]
        assert dataset.explain_cleanup_old_versions(NOW).candidate_files == []
        with pytest.raises(ValueError, match="max_files"):
            dataset.explain_cleanup_old_versions(NOW, max_files=0)


def test_results_go_under_the_names_of_pylance(tmp_path: Path) -> None:
    history(tmp_path / "t", 2)
    found = lancelet.dataset(tmp_path / "t").explain_cleanup_old_versions(NOW, include_files=True)
    assert isinstance(found, lancelet.CleanupExplanation)
    assert isinstance(found.stats, lancelet.CleanupStats)
    assert all(isinstance(file, lancelet.CleanupCandidateFile) for file in found.candidate_files)
    assert {name for name in dir(lance) if name.startswith("Cleanup")} <= set(lancelet.__all__)


def test_a_limit_on_the_speed() -> None:
    class Clock:
        now = 0.0

        def sleep(self, seconds: float) -> None:
            self.now += seconds

    clock = Clock()
    rate = DeleteRate(10, None, lambda: clock.now, clock.sleep)
    times = [(clock.now, len(chunk)) for chunk in rate.chunks([None] * 35)]  # type: ignore[list-item]
    assert times == [(0.0, 10), (1.0, 10), (2.0, 10), (3.0, 5)]
    assert [len(chunk) for chunk in DeleteRate(None, 2).chunks([None] * 5000)] == [2000, 2000, 1000]  # type: ignore[list-item]


# What happens meanwhile


def test_a_version_restored_meanwhile_keeps_its_files(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where)
    expected = lancelet.dataset(where, 2).to_table()
    snapshot = open_snapshot(where)
    plan = plan_cleanup(snapshot, CleanupPolicy(NOW, delete_unverified=True))
    lancelet.dataset(where, 2).restore()
    lancelet.write_dataset(rows(77), where, mode="append")
    run_cleanup(snapshot, plan)
    assert list(contents(where)) == [5, 6, 7]
    assert contents(where)[6] == expected
    assert lance.dataset(where).count_rows() == 30


def test_a_branch_made_meanwhile_keeps_its_files(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where)
    snapshot = open_snapshot(where)
    plan = plan_cleanup(snapshot, CleanupPolicy(NOW))
    expected = lance.dataset(where).create_branch("dev", 2).to_table()
    run_cleanup(snapshot, plan)
    assert list(contents(where)) == [5]
    assert lancelet.dataset(where).checkout_version(("dev", None)).to_table() == expected


def test_writers_at_work(tmp_path: Path) -> None:
    """Appends and deletes go on while somebody cleans up all the time; every version that is left reads."""
    where = tmp_path / "t"
    history(where, 2)
    failures: list[BaseException] = []
    done = threading.Event()

    def write(number: int) -> None:
        try:
            for turn in range(8):
                dataset = lancelet.write_dataset(rows(1000 * number + 10 * turn), where, mode="append")
                dataset.delete(f"a = {1000 * number + 10 * turn}")
        except BaseException as error:
            failures.append(error)

    def clean() -> None:
        try:
            while not done.is_set():
                lancelet.dataset(where).cleanup_old_versions(retain_versions=16)
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
    cleaner = threading.Thread(target=clean)
    for thread in (*writers, cleaner):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    cleaner.join()
    assert failures == []
    assert contents(where)
    assert lancelet.dataset(where).verify(deep=True).ok
    assert lance.dataset(where).count_rows() == 20 + 2 * 8 * 9
    # A commit that had to be rebased leaves its first transaction's file behind.
    lancelet.dataset(where).cleanup_old_versions(NOW, delete_unverified=True)
    assert lancelet.dataset(where).verify(deep=True).findings == ()


def test_a_plan_is_a_small_value(tmp_path: Path) -> None:
    history(tmp_path / "t")
    plan = plan_cleanup(open_snapshot(tmp_path / "t"), CleanupPolicy(NOW))
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_a_damaged_version_stops_a_cleanup(tmp_path: Path) -> None:
    where = tmp_path / "t"
    history(where)
    (where / "_versions" / f"{2**64 - 3}.manifest").write_bytes(b"garbage" * 10)
    before = files_below(where)
    with pytest.raises(OSError, match="corrupt"):
        lancelet.dataset(where).cleanup_old_versions(NOW)
    assert files_below(where) == before


@pytest.mark.parametrize("act", ["checkout", "restore", "open"])
def test_a_version_that_was_cleaned_up(tmp_path: Path, act: str) -> None:
    where = tmp_path / "t"
    history(where)
    old = lancelet.dataset(where, 2)
    lancelet.dataset(where).cleanup_old_versions(retain_versions=2)
    acts: dict[str, Callable[[], Any]] = {
        "checkout": lambda: lancelet.dataset(where).checkout_version(2),
        "restore": old.restore,
        "open": lambda: lancelet.dataset(where, 2),
    }
    before = files_below(where)
    with pytest.raises(VersionNotFound, match="version 2 .* has been cleaned up.* from 4 to 5"):
        acts[act]()
    assert files_below(where) == before
    with pytest.raises(VersionNotFound, match="never written"):
        lancelet.dataset(where, 9)


# Other stores


def test_object_stores(bucket: Bucket) -> None:
    uri = f"{bucket.uri}/folder/t"
    for number in range(4):
        mode = "create" if number == 0 else "append" if number % 2 else "overwrite"
        lancelet.write_dataset(rows(number), uri, mode=mode, storage_options=bucket.options)
    ours = lancelet.dataset(uri, storage_options=bucket.options)
    theirs = lance.dataset(uri, storage_options=bucket.options)
    assert candidates(ours, older_than=NOW) == candidates(theirs, older_than=NOW)
    stats = counted(ours.explain_cleanup_old_versions(NOW).stats)
    assert counted(ours.cleanup_old_versions(NOW)) == stats
    assert theirs.count_rows() == 20
    assert counted(theirs.cleanup_old_versions(NOW)) == dict.fromkeys(stats, 0)
    store = open_store(uri, bucket.options)
    assert len(list(store.list_objects())) == 4


def test_memory() -> None:
    for number in range(4):
        lancelet.write_dataset(rows(number), "memory://cleanup/t", mode="overwrite" if number else "create")
    assert lancelet.dataset("memory://cleanup/t").cleanup_old_versions(NOW).old_versions == 3
    assert lancelet.dataset("memory://cleanup/t").to_table() == rows(3)


def test_external_manifest_stores(tmp_path: Path) -> None:
    where, options = tmp_path / "t", {"manifest_store": f"sqlite://{tmp_path}/manifests.db"}
    for number in range(4):
        lancelet.write_dataset(rows(number), where, mode="overwrite" if number else "create", storage_options=options)
    lost = where / "_versions" / f"{2**64 - 1 - 3}.manifest-1b4e28ba-2fa1-11d2-883f-0016d3cca427"
    lost.write_bytes(b"lost the race")
    dataset = lancelet.dataset(where, storage_options=options)
    assert dataset.cleanup_old_versions(NOW).old_versions == 3
    assert lost.exists()
    made_old(lost)
    dataset.cleanup_old_versions(NOW)
    assert not lost.exists()
    with pytest.raises(VersionNotFound):
        lancelet.dataset(where, 2, storage_options=options)
    lancelet.write_dataset(rows(9), where, mode="append", storage_options=options)
    assert lancelet.dataset(where, storage_options=options).version == 5
    from lancelet.table.registers.external import base_of, external_for

    store = open_store(str(where), options)
    external = external_for(store)
    assert external is not None
    assert [external.get(base_of(store), version) is not None for version in (1, 2, 3, 4, 5)] == [False] * 3 + [
        True
    ] * 2


# After a commit


def grown(where: Path, module: ModuleType, config: dict[str, str], commits: int) -> list[list[int]]:
    """The versions after each of some appends."""
    lance.write_dataset(rows(0), where)
    lance.dataset(where).update_config(config)
    found = []
    for number in range(commits):
        module.write_dataset(rows(number, 3), where, mode="append")
        found.append([ref["version"] for ref in lancelet.dataset(where).version_refs()])
    return found


AUTO: dict[str, dict[str, str]] = {
    "every third": {"interval": "3", "older_than": "0s"},
    "no age": {"interval": "3"},
    "keep two": {"interval": "3", "retain_versions": "2"},
    "keep three": {"interval": "2", "retain_versions": "3"},
    "every one": {"interval": "0", "older_than": "0"},
    "a plus": {"interval": "+2", "older_than": "0s"},
    "old ones": {"interval": "2", "older_than": "1 week 2 days"},
    "no interval": {"older_than": "0s"},
    "with limits": {"interval": "2", "delete_rate_limit": "1000", "delete_concurrency": "3"},
    "interval is no number": {"interval": "x", "older_than": "0s"},
    "interval with a space": {"interval": " 2", "older_than": "0s"},
    "negative interval": {"interval": "-2", "older_than": "0s"},
    "no such age": {"interval": "2", "older_than": "bad"},
    "keep none": {"interval": "2", "retain_versions": "0"},
    "no speed": {"interval": "2", "older_than": "0s", "delete_rate_limit": "0"},
    "neither true nor false": {"interval": "2", "older_than": "0s", "referenced_branch": "maybe"},
}


@pytest.mark.parametrize("case", AUTO)
def test_cleanup_after_commits(tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture) -> None:
    config = {f"lance.auto_cleanup.{key}": value for key, value in AUTO[case].items()}
    with caplog.at_level(logging.WARNING, "lancelet"):
        ours = grown(tmp_path / "a", lancelet, config, 6)
    assert ours == grown(tmp_path / "b", lance, config, 6)
    failing = list(AUTO).index(case) >= list(AUTO).index("interval is no number")
    assert bool(caplog.records) == failing
    assert all("is committed, but the cleanup after it failed" in record.message for record in caplog.records)


def test_a_cleanup_after_a_commit_that_fails_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset(rows(0), where, auto_cleanup_options={"interval": 2, "older_than_seconds": 0})
    lance.dataset(where).tags.create("first", 1)
    for number in range(3):
        lancelet.write_dataset(rows(number), where, mode="append")
    assert "first" in caplog.text
    assert list(contents(where)) == [1, 2, 3, 4]
    lance.dataset(where).tags.delete("first")
    lancelet.dataset(where).delete("a = 1")
    lancelet.dataset(where).delete("a = 2")
    assert list(contents(where)) == [5, 6]


def test_branches_are_cleaned_up_first_when_asked(tmp_path: Path) -> None:
    found = []
    for module in (lancelet, lance):
        where = tmp_path / module.__name__
        history(where)
        branch = lance.dataset(where).create_branch("dev")
        branch.update_config({"lance.auto_cleanup.interval": "1"})
        for number in range(3):
            branch.insert(rows(number))
        keys = {"interval": "1", "referenced_branch": "true"}
        lance.dataset(where).update_config({f"lance.auto_cleanup.{key}": value for key, value in keys.items()})
        branch.insert(rows(7))
        for number in range(2):
            module.write_dataset(rows(number), where, mode="append")
        found.append((list(contents(where)), list(contents(where / "tree" / "dev"))))
    assert found[0] == found[1]
    assert len(found[0][1]) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("14d", 14 * 86400),
        ("1h 30m", 5400),
        ("2weeks", 14 * 86400),
        ("1month", 2630016),
        ("5ms", 0.005),
    ],
)
def test_ages(text: str, seconds: float) -> None:
    assert parse_age(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "x", "5", "1h30", "1 parsec", "-3s", "1.5h"])
def test_texts_that_are_no_ages(text: str) -> None:
    with pytest.raises(InvalidCleanup, match="older_than"):
        parse_age(text)


# Any history

STEPS = st.lists(
    st.sampled_from(["append", "overwrite", "delete", "update", "compact", "index", "tag", "add", "drop", "restore"]),
    min_size=2,
    max_size=9,
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "older_than": st.sampled_from([NOW, timedelta(hours=1)]),
        "retain_versions": st.integers(1, 6),
        "versions": st.lists(st.integers(1, 8), min_size=1, max_size=4),
    },
)


@settings(max_examples=examples(25))
@given(steps=STEPS, rules=RULES, stable=st.booleans(), handle=st.integers(0, 3))
def test_any_history(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[str],
    rules: dict[str, Any],
    stable: bool,
    handle: int,
) -> None:
    where = tmp_path_factory.mktemp("history") / "t"
    dataset = lance.write_dataset(rows(0, 20), where, max_rows_per_file=7, enable_stable_row_ids=stable)
    for number, step in enumerate(steps):
        first = 100 * (number + 1)
        if step in ("append", "overwrite"):
            table = rows(first)
            if step == "append":
                for name in dataset.schema.names[1:]:
                    table = table.append_column(name, pa.array([1] * 10, pa.int64()))
            dataset = lance.write_dataset(table, where, mode=step)
        elif step == "delete":
            dataset.delete(f"a % 7 = {number % 7}")
        elif step == "update":
            dataset.update({"a": "a + 1"}, f"a % 5 = {number % 5}")
        elif step == "compact":
            dataset.optimize.compact_files()
        elif step == "index":
            dataset.create_scalar_index("a", "BTREE", replace=True)
        elif step == "tag":
            dataset.tags.create(f"t{number}", dataset.version)
        elif step == "add":
            dataset.add_columns({f"c{number}": "a + 1"})
        elif step == "drop":
            if len(dataset.schema.names) > 1:
                dataset.drop_columns([dataset.schema.names[-1]])
        else:
            lance.dataset(where, version=1 + number % dataset.version).restore()
        dataset = lance.dataset(where)
    version = max(1, dataset.version - handle)
    check_cleanup(where, version, **rules, error_if_tagged_old_versions=False)
