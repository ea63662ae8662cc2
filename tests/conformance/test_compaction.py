"""Compaction: the plan is pylance's, so is the outcome, and pylance goes on from it."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import lance
import lance.optimize
import pyarrow as pa
import pytest

import lancelet
from conformance.agree import agree
from conformance.grid import FAMILIES, SIZES, VERSIONS, columns, write
from conformance.states import FROM_2_0, STATES, create, rows
from conformance.test_blobs import logical, marked
from conformance.test_commits import overlay_file
from drawing import seeds
from lancelet.errors import (
    CommitConflict,
    InvalidInput,
    InvalidOption,
    InvalidType,
    NotSupported,
    RetryableCommitConflict,
    UnfitData,
)
from lancelet.execution import carried_blobs
from lancelet.optimize import Compaction, CompactionPlan, CompactionTask, RewriteResult
from lancelet.table.manifest import flags
from lancelet.testing import assert_identical

LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]
STATE_CELLS = [
    pytest.param(
        name,
        version,
        stable,
        id=f"{name}-{version}{'-stable' if stable else ''}",
        marks=[pytest.mark.soak] if version == "2.1" else [],
    )
    for name in STATES
    for version in VERSIONS[1:]
    for stable in (False, True)
    if version == "2.2" or not stable
]


def twins(where: Path) -> tuple[lancelet.LanceDataset, lance.LanceDataset]:
    """Two copies of a table, one for each."""
    copy = where.parent / "theirs"
    shutil.copytree(where, copy)
    return lancelet.dataset(where), lance.dataset(copy)


def sizes(dataset: Any) -> list[tuple[int, int]]:
    return [(fragment.fragment_id, fragment.count_rows()) for fragment in dataset.get_fragments()]


def files(where: Path) -> set[str]:
    return {str(path.relative_to(where)) for path in where.rglob("*") if path.is_file()}


def planned(plan: Any) -> list[list[int]]:
    return [[fragment.id for fragment in task.fragments] for task in plan.tasks]


# The plan


def drawn_table(where: Path, seed: int) -> None:
    """A short random history that leaves small fragments, deletions and half-covered indices behind."""
    rng = random.Random(seed)
    stable = rng.random() < 0.5
    count = 0
    for number in range(rng.randrange(1, 12)):
        more = rng.randrange(1, 30)
        values = range(count, count + more)
        mode = "append" if number else "create"
        table = pa.table({"a": values, "b": values})
        dataset = lance.write_dataset(table, where, mode=mode, enable_stable_row_ids=stable)
        count += more
        match rng.randrange(12):
            case 0:
                kind = rng.choice(["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
                dataset.create_scalar_index("a", kind, replace=True)
            case 1:
                dataset.create_scalar_index("b", "BTREE", replace=True)
            case 2 if dataset.describe_indices():
                dataset.optimize.optimize_indices(num_indices_to_merge=rng.randrange(2))
            case 3 if number > 3:
                deferred = not stable and rng.random() < 0.5
                dataset.optimize.compact_files(
                    target_rows_per_fragment=rng.randrange(1, 60), defer_index_remap=deferred
                )
    dataset = lance.dataset(where)
    for _ in range(rng.randrange(4)):
        dataset.delete(f"a % {rng.randrange(2, 30)} = 1 and a < {rng.randrange(1, count + 1)}")


def drawn_options(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"target_rows_per_fragment": rng.randrange(1, 80)}
    choices = {
        "max_source_fragments": rng.randrange(1, 12),
        "max_source_rows": rng.randrange(1, 100),
        "max_source_bytes": rng.randrange(1, 10_000),
        "excluded_fragment_ids": [rng.randrange(15), rng.randrange(15)],
        "materialize_deletions": rng.random() < 0.5,
        "materialize_deletions_threshold": rng.choice([0.0, 0.05, 0.1, 0.3, 0.5, 1.0]),
    }
    options.update({name: value for name, value in choices.items() if rng.random() < 0.3})
    return options


def check_plans(where: Path, seed: int, draws: int) -> None:
    drawn_table(where, seed)
    rng = random.Random(seed)
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    for _ in range(draws):
        options = drawn_options(rng)
        expected = planned(lance.optimize.Compaction.plan(theirs, options))
        assert planned(Compaction.plan(ours, options)) == expected, options


@pytest.mark.parametrize("seed", range(12))
def test_plans_are_those_of_pylance(tmp_path: Path, seed: int) -> None:
    check_plans(tmp_path / "t", seed, 8)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(100, 400))
def test_many_plans_are_those_of_pylance(tmp_path: Path, seed: int) -> None:
    check_plans(tmp_path / "t", seed, 20)


def test_options_come_from_the_config(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = lance.write_dataset(pa.table({"a": range(100)}), where, max_rows_per_file=10)
    dataset.update_config({"lance.compaction.target_rows_per_fragment": "25", "lance.compaction.other": "x"})
    for options in ({}, {"target_rows_per_fragment": 40}):
        expected = planned(lance.optimize.Compaction.plan(lance.dataset(where), options))
        assert planned(Compaction.plan(lancelet.dataset(where), options)) == expected
    dataset.update_config({"lance.compaction.target_rows_per_fragment": "many"})
    with pytest.raises(InvalidInput, match=r"lance\.compaction\.target_rows_per_fragment: 'many'"):
        Compaction.plan(lancelet.dataset(where), {})


def test_a_plan_explains_itself(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = lance.write_dataset(pa.table({"a": range(1000)}), where, max_rows_per_file=300)
    dataset.delete("a % 3 = 0 and a < 300")
    ours = lancelet.dataset(where)
    before = files(where)
    plan = Compaction.plan(ours, {"target_rows_per_fragment": 200})
    assert repr(plan) == repr(lance.optimize.Compaction.plan(dataset, {"target_rows_per_fragment": 200}))
    size = sum(file.file_size_bytes or 0 for file in ours.get_fragments()[0].metadata.files)
    assert plan.explain().splitlines() == [
        "1 task for version 2",
        f"  fragment 0 (1 with many deleted rows): 200 rows, 100 deleted, {size:,} bytes -> 1 of 200 rows",
    ]
    assert str(Compaction.plan(ours, {"target_rows_per_fragment": 2, "materialize_deletions": False})) == (
        "nothing to do for version 2"
    )
    assert files(where) == before


# The outcome


@pytest.mark.spread(0.3)
@pytest.mark.parametrize(("name", "version", "stable"), STATE_CELLS)
def test_outcome_is_that_of_pylance(tmp_path: Path, name: str, version: str, stable: bool) -> None:
    where = tmp_path / "t"
    STATES[name](where, {"data_storage_version": version, "enable_stable_row_ids": stable})
    source = tmp_path / "source"
    elsewhere = files(source) if source.exists() else set()
    ours, theirs = twins(where)
    for target in (150, 10_000):
        before = files(where)
        try:
            expected = theirs.optimize.compact_files(target_rows_per_fragment=target)
        except OSError as refusal:
            assert "does not encode struct validity" in str(refusal)
            with pytest.raises(UnfitData, match="does not encode struct validity"):
                ours.optimize.compact_files(target_rows_per_fragment=target)
            assert files(where) == before
            return
        done = ours.optimize.compact_files(target_rows_per_fragment=target)
        assert repr(done) == repr(expected)
        assert ours.version == theirs.version
        assert sizes(ours) == sizes(theirs)
        reread = lance.dataset(where)
        assert_identical(reread.to_table(with_row_id=True), theirs.to_table(with_row_id=True))
        agree(ours, theirs, lambda ds: ds.to_table(with_row_id=True, with_row_address=True))
        if stable:
            agree(reread, theirs, lambda ds: ds.to_table([*theirs.schema.names, *LINEAGE]))
        reread.validate()
    assert (files(source) if source.exists() else set()) == elsewhere


@pytest.mark.parametrize("name", sorted(STATES.keys() - FROM_2_0))
def test_legacy_files_stay_legacy(tmp_path: Path, name: str) -> None:
    where = tmp_path / "t"
    STATES[name](where, {"data_storage_version": "0.1"})
    before = lance.dataset(where).to_table()
    with pytest.raises(InvalidOption, match=r"mode='overwrite', data_storage_version='2\.2'"):
        lancelet.dataset(where).optimize.compact_files(data_storage_version="2.2")
    lancelet.dataset(where).optimize.compact_files()
    theirs = lance.dataset(where)
    assert theirs.data_storage_version == "0.1"
    assert repr(theirs.to_table().to_pylist()) == repr(before.to_pylist())
    assert repr(lancelet.dataset(where).to_table().to_pylist()) == repr(before.to_pylist())
    assert not lancelet.dataset(where).verify(deep=True).errors


TYPE_CELLS = [
    pytest.param(
        family,
        size,
        version,
        id=f"{family}-{size.name}-{version}",
        marks=[] if version == ("2.2" if size.name == "fragments" else VERSIONS[1 + row % 3]) else [pytest.mark.soak],
    )
    for row, (family, kinds) in enumerate(FAMILIES.items())
    for size in SIZES
    for version in VERSIONS[1:]
    if size.name in ("few", "fragments") and any(kind.fits(version, size) for kind in kinds)
]


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(("family", "size", "version"), TYPE_CELLS)
def test_every_type(tmp_path: Path, family: str, size: Any, version: str) -> None:
    where = tmp_path / "t"
    table = columns(FAMILIES[family], version, size)
    # pylance cannot read lists of structs of a fixed size beside other columns.
    alone = family == "struct_vectors"
    if not alone:
        table = table.add_column(0, "k", pa.array(range(table.num_rows)))
    write(table, where, version, size)
    write(table, where, version, size, mode="append")
    if not alone:
        lance.dataset(where).delete(f"k % 7 = 3 and k < {size.rows // 2}")
    expected = lance.dataset(where).to_table()
    ours = lancelet.dataset(where)
    done = ours.optimize.compact_files(target_rows_per_fragment=size.rows + 10)
    assert done.fragments_removed == len(ours.checkout_version(2).get_fragments())
    assert_identical(lance.dataset(where).to_table(), expected)
    assert_identical(ours.to_table(), expected)


BLOB_CELLS = [
    pytest.param(marked, "2.0", {}, id="marked-2.0"),
    pytest.param(marked, "2.1", {}, id="marked-2.1"),
    pytest.param(marked, "2.2", {}, id="marked-2.2"),
    pytest.param(marked, "2.2", {"enable_stable_row_ids": True}, id="marked-2.2-stable"),
    pytest.param(logical, "2.2", {}, id="logical-2.2"),
]


def blobs(dataset: Any) -> list[bytes | None]:
    count = dataset.count_rows()
    found: list[bytes | None] = []
    for row in range(count):
        (blob,) = dataset.take_blobs("b", indices=[row]) or [None]
        found.append(None if blob is None else blob.readall())
    return found


@pytest.mark.parametrize(("make", "version", "options"), BLOB_CELLS)
def test_blobs_are_carried(
    tmp_path: Path, make: Any, version: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_blobs, "BLOB_PIECE_BYTES", 100_000)
    where = tmp_path / "t"
    make(where, version, **options)
    ours = lancelet.dataset(where)
    expected = blobs(ours)
    assert sum(value is not None for value in expected) > 10
    keys = ours.to_table(["k"])
    done = ours.optimize.compact_files()
    assert done.fragments_added == 1
    assert_identical(ours.to_table(["k"]), keys)
    assert blobs(ours) == expected
    assert blobs(lance.dataset(where)) == expected
    # Nothing of the old files is needed any more.
    for file in done_files(ours, 1):
        (where / "data" / file).unlink()
    assert blobs(lancelet.dataset(where)) == expected


def done_files(dataset: lancelet.LanceDataset, version: int) -> list[str]:
    old = dataset.checkout_version(version)
    return [file.path for fragment in old.get_fragments() for file in fragment.metadata.files]


def test_references_of_blobs_stay_references(tmp_path: Path) -> None:
    where = tmp_path / "t"
    logical(where, "2.2")
    ours = lancelet.dataset(where)
    before = ours.to_table()["b"].to_pylist()
    ours.optimize.compact_files()
    after = ours.to_table()["b"].to_pylist()
    outside = [blob for blob in before if blob and blob["kind"] == 3]
    assert [blob for blob in after if blob and blob["kind"] == 3] == outside
    assert len(outside) == 2


@pytest.mark.parametrize("spill", [False, True])
def test_row_ids_and_versions_are_kept(tmp_path: Path, spill: bool) -> None:
    where = tmp_path / "t"
    dataset = create(where, {"enable_stable_row_ids": True}, 600, 60)
    if spill:
        dataset.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "100"})
    dataset.update({"i": "i + 1"}, where="k % 7 = 3")
    dataset.delete("k % 9 = 1")
    dataset.update({"i": "i + 2"}, where="k % 11 = 5")
    wanted = ["k", "i", "_rowid", *LINEAGE]
    ours = lancelet.dataset(where)
    for target in (100, 10_000):
        expected = lance.dataset(where).to_table(wanted).sort_by("k")
        ours.optimize.compact_files(target_rows_per_fragment=target)
        assert lance.dataset(where).to_table(wanted).sort_by("k") == expected
        assert ours.to_table(wanted).sort_by("k") == expected
        ids = expected["_rowid"].to_pylist()[::7]
        assert ours._take_rows(ids, columns=["k"])["k"].to_pylist() == expected["k"].to_pylist()[::7]
    hidden = any(-3 in file.fields for fragment in ours.get_fragments() for file in fragment.metadata.files)
    assert hidden is spill
    # Both go on from here.
    lance.dataset(where).update({"i": "0"}, where="k < 50")
    lancelet.dataset(where).optimize.compact_files(target_rows_per_fragment=10_000)
    lance.dataset(where).optimize.compact_files(target_rows_per_fragment=10_000)
    again = lance.dataset(where).to_table(wanted).sort_by("k")
    assert again["_rowid"] == expected["_rowid"]
    assert again["_row_created_at_version"] == expected["_row_created_at_version"]


def test_files_end_when_they_are_large(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table = pa.table({"a": range(200_000)})
    lance.write_dataset(table, where, max_rows_per_file=20_000)
    ours = lancelet.dataset(where)
    done = ours.optimize.compact_files(max_bytes_per_file=400_000)
    assert done.fragments_added > 2
    assert_identical(lance.dataset(where).to_table(), table)


def test_another_file_version(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table = rows(100)
    lance.write_dataset(table, where, max_rows_per_file=30, data_storage_version="2.0")
    ours, theirs = twins(where)
    for dataset in (ours, theirs):
        dataset.optimize.compact_files(data_storage_version="2.2", target_rows_per_fragment=60)
    assert ours.data_storage_version == theirs.data_storage_version == "2.0"
    versions = [
        [(file.file_major_version, file.file_minor_version) for f in ds.get_fragments() for file in f.metadata.files]
        for ds in (ours, theirs)
    ]
    assert versions[0] == versions[1]
    assert_identical(lance.dataset(where).to_table(), theirs.to_table())


def test_overlays_are_folded_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")
    monkeypatch.setattr(flags, "READABLE", flags.READABLE | flags.Feature.OVERLAY_FILES)
    where = tmp_path / "t"
    values = range(40)
    lance.write_dataset(pa.table({"k": values, "s": ["x"] * 40, "v": values}), where, max_rows_per_file=20)
    options: Any = {"target_rows_per_fragment": 10}
    for number in range(11):
        assert Compaction.plan(lancelet.dataset(where), options).tasks == []
        assert json.loads(lance.optimize.Compaction.plan(lance.dataset(where), options).json())["tasks"] == []
        file = overlay_file(str(where), "k", [number], [1000 + number])
        group = lance.LanceOperation.DataOverlayGroup(0, [file])
        lance.LanceDataset.commit(str(where), lance.LanceOperation.DataOverlay([group]), read_version=number + 1)
    ours, theirs = twins(where)
    assert repr(Compaction.execute(ours, options)) == repr(lance.optimize.Compaction.execute(theirs, options))
    assert sizes(ours) == sizes(theirs) == [(1, 20), (2, 10), (3, 10)]
    assert_identical(lance.dataset(where).to_table(), theirs.to_table())
    assert not any(fragment.metadata.overlays for fragment in ours.get_fragments())


# In pieces


def small(where: Path, fragments: int = 6, each: int = 10) -> lancelet.LanceDataset:
    values = range(fragments * each)
    lance.write_dataset(pa.table({"a": values}), where, max_rows_per_file=each)
    return lancelet.dataset(where)


def test_tasks_travel(tmp_path: Path) -> None:
    ours = small(tmp_path / "t", fragments=1000, each=2)
    (task,) = Compaction.plan(ours, {}).tasks
    packed = pickle.dumps(task)
    assert len(packed) < 4096
    again = pickle.loads(packed)
    assert again == task
    assert [fragment.id for fragment in again.fragments] == list(range(1000))
    result = pickle.loads(pickle.dumps(again.execute(pickle.loads(pickle.dumps(ours)))))
    assert result.metrics.fragments_removed == 1000
    assert Compaction.commit(ours, [result]).fragments_added == 1
    assert ours.to_table()["a"].to_pylist() == list(range(2000))


def test_json_goes_both_ways(tmp_path: Path) -> None:
    where = tmp_path / "t"
    ours = small(where)
    theirs = lance.dataset(where)
    theirs.delete("a = 15")
    ours.checkout_latest()
    options = {"target_rows_per_fragment": 20}
    plan, other = Compaction.plan(ours, options), lance.optimize.Compaction.plan(theirs, options)
    assert planned(lance.optimize.CompactionPlan.from_json(plan.json())) == planned(other)
    assert planned(CompactionPlan.from_json(other.json())) == planned(plan)
    assert str(CompactionPlan.from_json(other.json())) == str(plan)
    assert CompactionPlan.from_json(plan.json()) == plan
    # One task is planned by pylance and executed by us, the other one the other way round; pylance commits both.
    mine = CompactionTask.from_json(other.tasks[0].json()).execute(ours)
    its = lance.optimize.CompactionTask.from_json(plan.tasks[1].json()).execute(theirs)
    assert RewriteResult.from_json(mine.json()) == mine
    results = [lance.optimize.RewriteResult.from_json(mine.json()), its]
    lance.optimize.Compaction.commit(theirs, results)
    assert theirs.to_table()["a"].to_pylist() == [a for a in range(60) if a != 15]


def test_our_commit_takes_their_results(tmp_path: Path) -> None:
    where = tmp_path / "t"
    ours = small(where)
    theirs = lance.dataset(where)
    task = lance.optimize.Compaction.plan(theirs, {}).tasks[0]
    Compaction.commit(ours, [RewriteResult.from_json(task.execute(theirs).json())])
    assert sizes(ours) == [(6, 60)]
    assert lance.dataset(where).to_table()["a"].to_pylist() == list(range(60))


def test_some_of_the_tasks(tmp_path: Path) -> None:
    ours = small(tmp_path / "t")
    tasks = Compaction.plan(ours, {"target_rows_per_fragment": 20}).tasks
    results = [task.execute(ours) for task in tasks]
    assert len(results) == 3
    assert Compaction.commit(ours, []).fragments_removed == 0
    Compaction.commit(ours, results[1:2])
    assert sizes(ours) == [(0, 10), (1, 10), (4, 10), (5, 10), (6, 20)]
    Compaction.commit(ours, [results[0], results[2]])
    assert sizes(ours) == [(6, 20), (7, 20), (8, 20)]
    with pytest.raises(RetryableCommitConflict, match="Rewrite"):
        Compaction.commit(ours, results[:1])
    with pytest.raises(InvalidInput, match="more than once"):
        Compaction.commit(ours, [results[0], results[0]])
    with pytest.raises(InvalidType, match="CompactionTask"):
        Compaction.commit(ours, ["result"])  # type: ignore[list-item]


# Beside others


def test_appends_go_on(tmp_path: Path) -> None:
    where = tmp_path / "t"
    ours = small(where)
    results = [task.execute(ours) for task in Compaction.plan(ours, {}).tasks]
    lance.write_dataset(pa.table({"a": [1000]}), where, mode="append")
    Compaction.commit(ours, results)
    assert sizes(ours) == [(6, 1), (7, 60)]
    assert sorted(lance.dataset(where).to_table()["a"].to_pylist()) == [*range(60), 1000]


def test_deletions_meanwhile_stop_a_commit_and_not_a_compaction(tmp_path: Path) -> None:
    where = tmp_path / "t"
    ours, stale = small(where), lancelet.dataset(where)
    options: Any = {"target_rows_per_fragment": 20}
    results = [task.execute(ours) for task in Compaction.plan(ours, options).tasks]
    lance.dataset(where).delete("a = 33")
    with pytest.raises(RetryableCommitConflict, match="Delete"):
        Compaction.commit(ours, results)
    assert lance.dataset(where).count_rows() == 59
    before = {path for path in files(where) if path.startswith("data")}
    # The others' deletion is met, and what it does not concern is not rewritten twice.
    stale.optimize.compact_files(target_rows_per_fragment=20)
    assert [count for _, count in sizes(stale)] == [20, 39]
    assert sorted(lance.dataset(where).to_table()["a"].to_pylist()) == [a for a in range(60) if a != 33]
    fresh = {path for path in files(where) if path.startswith("data")} - before
    live = {f"data/{file.path}" for fragment in stale.get_fragments() for file in fragment.metadata.files}
    assert fresh == live


def test_two_compactions_at_once(tmp_path: Path) -> None:
    where = tmp_path / "t"
    first, second = small(where), lancelet.dataset(where)
    first.optimize.compact_files(target_rows_per_fragment=30, max_source_fragments=3)
    lance.dataset(where).optimize.compact_files(target_rows_per_fragment=25, excluded_fragment_ids=[6])
    done = second.optimize.compact_files(target_rows_per_fragment=1000)
    assert done.fragments_added == 1
    assert lance.dataset(where).to_table()["a"].to_pylist() == list(range(60))


def test_an_overwrite_meanwhile_is_final(tmp_path: Path) -> None:
    where = tmp_path / "t"
    ours = small(where)
    before = {path for path in files(where) if path.startswith("data")}
    lance.write_dataset(pa.table({"a": [1]}), where, mode="overwrite")
    with pytest.raises(CommitConflict, match="Overwrite"):
        ours.optimize.compact_files()
    assert len({path for path in files(where) if path.startswith("data")} - before) == 1
    assert lance.dataset(where).to_table()["a"].to_pylist() == [1]


# Refusals


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"target_rows": 1}, InvalidInput, "Invalid compaction option: target_rows"),
        ({"target_rows_per_fragment": -1}, InvalidOption, "negative"),
        ({"target_rows_per_fragment": 0}, InvalidOption, "greater than 0"),
        ({"target_rows_per_fragment": "a"}, InvalidType, "a number"),
        ({"target_rows_per_fragment": True}, InvalidType, "a number"),
        ({"max_source_rows": 0}, InvalidOption, "greater than 0"),
        ({"materialize_deletions": None}, InvalidType, "True or False"),
        ({"materialize_deletions_threshold": "x"}, InvalidType, "fraction"),
        ({"compaction_mode": "fast"}, InvalidInput, "Invalid compaction mode"),
        ({"excluded_fragment_ids": [-1]}, InvalidOption, "negative"),
        ({"excluded_fragment_ids": 3}, InvalidType, "list of fragment ids"),
        ({"data_storage_version": "9"}, InvalidInput, "no file version 9"),
        ({"data_storage_version": "legacy"}, InvalidOption, "cannot be in one table"),
        ([], InvalidType, "a dict"),
        (None, InvalidType, "a dict"),
    ],
)
def test_bad_options(tmp_path: Path, options: Any, error: type[Exception], text: str) -> None:
    where = tmp_path / "t"
    ours = small(where)
    before = files(where)
    for call in (Compaction.plan, Compaction.execute):
        with pytest.raises(error, match=text):
            call(ours, options)
    if options != {"target_rows_per_fragment": 0} and options != {"target_rows_per_fragment": True}:
        with pytest.raises(tuple(kind for kind in error.__mro__ if kind.__module__ == "builtins")[:-2]):
            lance.optimize.Compaction.plan(lance.dataset(where), options)
    assert files(where) == before


def test_copying_pages_is_refused(tmp_path: Path) -> None:
    ours = small(tmp_path / "t")
    with pytest.raises(NotSupported, match="force_binary_copy"):
        ours.optimize.compact_files(compaction_mode="force_binary_copy")
    assert ours.optimize.compact_files(compaction_mode="try_binary_copy").fragments_added == 1


def test_a_damaged_file_leaves_nothing_behind(tmp_path: Path) -> None:
    where = tmp_path / "t"
    ours = small(where)
    victim = where / "data" / ours.get_fragments()[4].metadata.files[0].path
    victim.write_bytes(victim.read_bytes()[:-20])
    before = files(where)
    with pytest.raises(OSError, match=victim.name):
        ours.optimize.compact_files(target_rows_per_fragment=20)
    task = Compaction.plan(lancelet.dataset(where), {}).tasks[0]
    with pytest.raises(OSError, match=victim.name):
        task.execute(lancelet.dataset(where))
    assert files(where) == before


def test_json_of_something_else(tmp_path: Path) -> None:
    ours = small(tmp_path / "t")
    task = Compaction.plan(ours, {}).tasks[0]
    for read in (CompactionPlan.from_json, CompactionTask.from_json, RewriteResult.from_json):
        for text in ("", "{", "[]", "{}", '{"task": 1, "read_version": 1, "options": {}}'):
            with pytest.raises(InvalidInput):
                read(text)
    content = json.loads(task.json())
    content["task"]["fragments"][0]["id"] = 77
    with pytest.raises(InvalidInput, match=r"no fragments \[77\]"):
        CompactionTask.from_json(json.dumps(content)).execute(ours)
