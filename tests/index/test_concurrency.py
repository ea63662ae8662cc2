"""Two at work on one table, of whom one builds, extends or drops an index without knowing what the other did.

What cannot follow the other's commit is done again on the newest version; filters are answered right whatever
came first.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import CommitConflict, IndexRefused, InvalidInput, RetryableCommitConflict, UnknownColumn

ENGINES = {"ours": lancelet, "pylance": lance}
FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "k = 7": lambda row: row["k"] == 7,
    "k between 5 and 25": lambda row: 5 <= row["k"] <= 25,
    "c = 'c3'": lambda row: row["c"] == "c3",
    "c <> 'c1' and k > 8": lambda row: row["c"] not in (None, "c1") and row["k"] > 8,
    "v = 3": lambda row: row["v"] == 3,
    "c is null": lambda row: row["c"] is None,
}
Dataset = Any
Act = Callable[[Dataset, Any, Path], object]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "c": [None if n % 11 == 5 else f"c{n % 5}" for n in numbers],
            "v": pa.array([n % 7 for n in numbers], pa.int64()),
        }
    )


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four fragments that an index knows, and one that it does not."""
    where = tmp_path_factory.mktemp("concurrency") / ("stable" if request.param else "addresses")
    lance.write_dataset(rows(0, 40), where, max_rows_per_file=10, enable_stable_row_ids=request.param)
    lance.dataset(where).create_scalar_index("c", "BITMAP")
    lance.write_dataset(rows(40, 10), where, mode="append")
    return where


def in_place(dataset: Dataset, engine: Any, where: Path) -> None:
    """Other values of an indexed column, in the same fragments."""
    fragment = dataset.get_fragment(1)
    updates = pa.table({"k": pa.array(range(10, 20), pa.int64()), "c": ["c3"] * 10})
    changed, fields = fragment.update_columns(updates, left_on="k", right_on="k")
    operation = engine.LanceOperation.Update(
        updated_fragments=[changed], fields_modified=fields, update_mode="rewrite_columns"
    )
    engine.LanceDataset.commit(str(where), operation, read_version=dataset.version)


FIRST: dict[str, Act] = {
    "append": lambda d, engine, where: engine.write_dataset(rows(50, 10), where, mode="append"),
    "delete": lambda d, engine, where: d.delete("k % 10 = 3"),
    "remove": lambda d, engine, where: d.delete("k < 10"),
    "update": lambda d, engine, where: d.update({"c": "'c3'", "k": "k + 1000"}, where="k % 10 = 4"),
    "in place": in_place,
    "compact": lambda d, engine, where: d.optimize.compact_files(target_rows_per_fragment=30),
    "create": lambda d, engine, where: d.create_scalar_index("k", "BTREE"),
    "replace": lambda d, engine, where: d.create_scalar_index("c", "BITMAP"),
    "drop": lambda d, engine, where: d.drop_index("c_idx"),
    "optimize": lambda d, engine, where: d.optimize.optimize_indices(),
    "rename": lambda d, engine, where: d.alter_columns({"path": "v", "name": "w"}),
    "overwrite": lambda d, engine, where: engine.write_dataset(rows(0, 20), where, mode="overwrite"),
    "drop column": lambda d, engine, where: d.drop_columns(["c"]),
}
LATE: dict[str, Callable[[lancelet.LanceDataset], object]] = {
    "create": lambda d: d.create_scalar_index("k", "BTREE"),
    "create once": lambda d: d.create_scalar_index("k", "BTREE", replace=False),
    "replace": lambda d: d.create_scalar_index("c", "BITMAP"),
    "zones": lambda d: d.create_scalar_index("c", "ZONEMAP", "zones"),
    "drop": lambda d: d.drop_index("c_idx"),
    "optimize": lambda d: d.optimize.optimize_indices(),
    "compact": lambda d: d.optimize.compact_files(target_rows_per_fragment=30),
}
REFUSED: dict[tuple[str, str], type[Exception]] = {
    ("create once", "create"): IndexRefused,
    ("replace", "drop column"): UnknownColumn,
    ("zones", "drop column"): UnknownColumn,
    **{(late, "overwrite"): CommitConflict for late in LATE},
}
"""All others end well."""
EXPECTED = {
    "create": {"k_idx"},
    "create once": {"k_idx"},
    "replace": {"c_idx"},
    "zones": {"zones"},
}


def check_answers(where: Path) -> None:
    datasets = [engine.dataset(where) for engine in ENGINES.values()]
    everything = datasets[0].to_table().to_pylist()
    for text, holds in FILTERS.items():
        if not any(f"{name} " in text and name not in datasets[0].schema.names for name in "cv"):
            truth = sorted(row["k"] for row in everything if holds(row))
            for dataset in datasets:
                assert sorted(dataset.to_table(["k"], filter=text)["k"].to_pylist()) == truth, (dataset, text)


def coverage(where: Path, name: str) -> set[int]:
    dataset = lance.dataset(where)
    found = [index for index in dataset.describe_indices() if index.name == name]
    return {number for index in found for segment in index.segments for number in segment.fragment_ids}


def unreferenced(where: Path) -> set[str]:
    """Index files of no version."""
    used = {
        segment.uuid
        for version in lance.dataset(where).versions()
        for index in lancelet.dataset(where, version["version"]).describe_indices()
        for segment in index.segments
    }
    return {path.name for path in (where / "_indices").iterdir() if any(path.iterdir())} - used


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first", FIRST)
def test_what_comes_second(tmp_path: Path, template: Path, first: str, engine: str) -> None:
    for number, (late, act) in enumerate(LATE.items()):
        where = shutil.copytree(template, tmp_path / str(number))
        behind = lancelet.dataset(where)
        FIRST[first](ENGINES[engine].dataset(where), ENGINES[engine], where)
        error = REFUSED.get((late, first))
        if error is not None:
            before = lance.dataset(where).version
            with pytest.raises(error):
                act(behind)
            assert lance.dataset(where).version == before
        else:
            act(behind)
        check_answers(where)
        names = {index.name for index in lance.dataset(where).describe_indices()}
        if error is None:
            assert EXPECTED.get(late, set()) <= names, late
            if late == "drop":
                assert "c_idx" not in names
            assert behind.version == lance.dataset(where).version
        if engine == "ours":
            assert unreferenced(where) == set(), late


@pytest.mark.parametrize("engine", ENGINES)
def test_a_deferred_compaction_comes_first(tmp_path: Path, template: Path, engine: str) -> None:
    if template.name == "stable":
        pytest.skip("a table with stable row ids has nothing to defer")
    for number, act in enumerate(LATE.values()):
        where = shutil.copytree(template, tmp_path / str(number))
        behind = lancelet.dataset(where)
        ENGINES[engine].dataset(where).optimize.compact_files(target_rows_per_fragment=30, defer_index_remap=True)
        act(behind)
        check_answers(where)
        lancelet.dataset(where).optimize.optimize_indices()
        check_answers(where)


def test_a_dropped_index_stays_dropped(tmp_path: Path, template: Path) -> None:
    """A compaction gives segments new names, which is no conflict with their removal."""
    where = shutil.copytree(template, tmp_path / "t")
    behind = lancelet.dataset(where)
    lance.dataset(where).optimize.compact_files(target_rows_per_fragment=30)
    behind.drop_index("c_idx")
    assert behind.describe_indices() == []
    assert lance.dataset(where).describe_indices() == []


@pytest.mark.parametrize("engine", ENGINES)
def test_values_that_changed_meanwhile_are_not_covered(tmp_path: Path, template: Path, engine: str) -> None:
    where = shutil.copytree(template, tmp_path / "t")
    behind = lancelet.dataset(where)
    in_place(ENGINES[engine].dataset(where), ENGINES[engine], where)
    behind.create_scalar_index("c", "BTREE", "again")
    assert coverage(where, "again") == {0, 2, 3, 4}
    check_answers(where)
    behind.optimize.optimize_indices()
    assert coverage(where, "again") == {0, 1, 2, 3, 4}
    check_answers(where)


class TestParts:
    """Segments that were built before something else happened."""

    def parts(self, dataset: lancelet.LanceDataset) -> list[Any]:
        halves = ([0, 1], [2, 3, 4])
        return [dataset.create_index_uncommitted("c", "BTREE", "parts", fragment_ids=half) for half in halves]

    @pytest.mark.parametrize("first", ["append", "delete", "remove", "update", "replace", "drop", "optimize", "create"])
    def test_they_can_follow(self, tmp_path: Path, template: Path, first: str) -> None:
        where = shutil.copytree(template, tmp_path / "t")
        behind = lancelet.dataset(where)
        parts = self.parts(behind)
        FIRST[first](lance.dataset(where), lance, where)
        behind.commit_existing_index_segments("parts", "c", parts)
        assert coverage(where, "parts") == {0, 1, 2, 3, 4}
        check_answers(where)

    def test_not_a_rewrite_of_their_fragments(self, tmp_path: Path, template: Path) -> None:
        where = shutil.copytree(template, tmp_path / "t")
        behind = lancelet.dataset(where)
        parts = self.parts(behind)
        FIRST["compact"](lance.dataset(where), lance, where)
        with pytest.raises(RetryableCommitConflict):
            behind.commit_existing_index_segments("parts", "c", parts)
        check_answers(where)

    def test_one_after_the_other(self, tmp_path: Path, template: Path) -> None:
        where = shutil.copytree(template, tmp_path / "t")
        dataset = lancelet.dataset(where)
        for part in self.parts(dataset):
            dataset.commit_existing_index_segments("parts", "c", [part])
        assert coverage(where, "parts") == {0, 1, 2, 3, 4}
        check_answers(where)

    def test_fragments_that_are_gone_are_not_missed(self, tmp_path: Path, template: Path) -> None:
        """New segments take the place of older ones, whatever these knew of fragments that went since."""
        where = shutil.copytree(template, tmp_path / "t")
        dataset = lancelet.dataset(where)
        dataset.commit_existing_index_segments("parts", "c", self.parts(dataset))
        dataset.delete("k < 10")
        again = dataset.create_index_uncommitted("c", "BTREE", "parts", replace=True, fragment_ids=[1, 2, 3, 4])
        dataset.commit_existing_index_segments("parts", "c", [again])
        assert coverage(where, "parts") == {1, 2, 3, 4}
        check_answers(where)

    @pytest.mark.parametrize("merged", [False, True], ids=["apart", "merged"])
    def test_values_that_changed_since(self, tmp_path: Path, template: Path, merged: bool) -> None:
        """The newest version is known to who commits, but not to the segments."""
        where = shutil.copytree(template, tmp_path / "t")
        parts = self.parts(lancelet.dataset(where))
        in_place(lance.dataset(where), lance, where)
        dataset = lancelet.dataset(where)
        if merged:
            parts = [dataset.merge_existing_index_segments(parts)]
        with pytest.raises(InvalidInput, match=r"fragments \[1\] have got other values since version 3"):
            dataset.commit_existing_index_segments("parts", "c", parts)
        check_answers(where)
        assert dataset.version == 4

    def test_of_another_column(self, tmp_path: Path, template: Path) -> None:
        where = shutil.copytree(template, tmp_path / "t")
        dataset = lancelet.dataset(where)
        with pytest.raises(InvalidInput, match="another column"):
            dataset.commit_existing_index_segments("parts", "v", self.parts(dataset))
        assert dataset.version == 3


def test_many_at_once(tmp_path: Path, template: Path) -> None:
    """Builders of the same index, of others, an optimizer, a compaction and writers, all at the same time."""
    where = shutil.copytree(template, tmp_path / "t")
    acts: list[Callable[[], object]] = [
        *(lambda: LATE["create"](lancelet.dataset(where)) for _ in range(2)),
        lambda: LATE["zones"](lancelet.dataset(where)),
        lambda: LATE["optimize"](lancelet.dataset(where)),
        lambda: LATE["compact"](lancelet.dataset(where)),
        *(lambda at=at: lancelet.write_dataset(rows(100 + at, 5), where, mode="append") for at in (0, 5, 10)),
        lambda: lancelet.dataset(where).delete("k = 22"),
    ]
    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(act) for act in acts]:
            done.result()
    check_answers(where)
    assert lance.dataset(where).count_rows() == 64
    assert {index.name for index in lancelet.dataset(where).describe_indices()} == {"c_idx", "k_idx", "zones"}
    assert unreferenced(where) == set()
    lancelet.dataset(where).optimize.optimize_indices()
    check_answers(where)
