"""Filters answered with an index are answered as without: every kind, type and operator, after every change of the table."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import lancelet
from index.questions import COLUMNS, KINDS, ROWS, filters, table

Dataset = Any
FILE_ROWS = 160


def deleted(dataset: Dataset, where: Path) -> None:
    dataset.delete("key % 5 = 2 or key between 120 and 150")


def updated(dataset: Dataset, where: Path) -> None:
    dataset.update({"plain": "plain + 1000"}, where="key % 6 = 1")


def appended(dataset: Dataset, where: Path) -> None:
    lance.write_dataset(table(_columns(dataset), 90), where, mode="append")


def rewritten(dataset: Dataset, where: Path) -> None:
    """A column's values exchanged in place, by keys."""
    dataset.merge_insert("key").when_matched_update_all().execute(table(_columns(dataset)).slice(30, 60))


def compacted(dataset: Dataset, where: Path) -> None:
    dataset.delete("key % 7 = 3")
    dataset.optimize.compact_files(target_rows_per_fragment=250)


def deferred(dataset: Dataset, where: Path) -> None:
    dataset.delete("key % 7 = 3")
    dataset.optimize.compact_files(target_rows_per_fragment=250, defer_index_remap=True)


def optimized(dataset: Dataset, where: Path) -> None:
    appended(dataset, where)
    dataset = type(dataset)(str(where)) if isinstance(dataset, lancelet.LanceDataset) else lance.dataset(where)
    dataset.optimize.optimize_indices()


def extended(dataset: Dataset, where: Path) -> None:
    appended(dataset, where)
    dataset = type(dataset)(str(where)) if isinstance(dataset, lancelet.LanceDataset) else lance.dataset(where)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)


CHANGES: dict[str, Callable[[Dataset, Path], None]] = {
    change.__name__: change
    for change in (deleted, updated, appended, rewritten, compacted, deferred, optimized, extended)
}


def _columns(dataset: Dataset) -> list[str]:
    return [name for name in dataset.schema.names if name in COLUMNS]


def make(where: Path, kind: str, columns: list[str], engine: str, *, stable: bool) -> Dataset:
    dataset = lance.write_dataset(table(columns), where, max_rows_per_file=FILE_ROWS, enable_stable_row_ids=stable)
    if engine == "ours":
        dataset = lancelet.dataset(where)
    for column in columns:
        dataset.create_scalar_index(column, kind)
    return dataset


def keys(dataset: Dataset, text: str, **options: Any) -> list[int]:
    return sorted(dataset.to_table(["key"], filter=text, **options)["key"].to_pylist())


class BruteForce:
    """What a table without indices answers after some changes, by both engines; each is asked once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[tuple[str, ...], tuple[Dataset, Dataset]] = {}
        self._known: dict[tuple[tuple[str, ...], str], tuple[list[int], list[int]]] = {}

    def find(self, changes: tuple[str, ...], text: str) -> tuple[list[int], list[int]]:
        if (changes, text) not in self._known:
            if changes not in self._tables:
                where = self._folder / str(len(self._tables))
                lance.write_dataset(table(list(COLUMNS)), where, max_rows_per_file=FILE_ROWS)
                for change in changes:
                    CHANGES[change](lancelet.dataset(where), where)
                self._tables[changes] = lancelet.dataset(where), lance.dataset(where)
            ours, theirs = self._tables[changes]
            self._known[changes, text] = keys(ours, text), keys(theirs, text)
        return self._known[changes, text]


@pytest.fixture(scope="module")
def brute_force(tmp_path_factory: pytest.TempPathFactory) -> BruteForce:
    return BruteForce(tmp_path_factory.mktemp("brute"))


def check(
    where: Path, engine: str, columns: list[str], changes: tuple[str, ...], brute_force: BruteForce, *, stable: bool
) -> None:
    """We find the same rows with the index as without; so does pylance, when the index is ours.

    Rows are counted by half of the filters, and pylance is asked the other half; the halves change with ``stable``.
    """
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    for number, text in enumerate(text for column in columns for text in filters(column)):
        truth, plain = brute_force.find(changes, text)
        assert keys(ours, text) == truth, text
        if number % 2 == stable:
            assert ours.count_rows(filter=text) == len(truth), text
        elif engine == "ours" and plain == truth:
            assert keys(theirs, text) == truth, (text, "pylance")


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(
    ("kind", "engine", "stable"),
    [
        pytest.param(kind, engine, stable, marks=() if (row + column) % 2 == stable else pytest.mark.soak)
        for (row, kind), (column, engine) in itertools.product(enumerate(KINDS), enumerate(("ours", "pylance")))
        for stable in (False, True)
    ],
)
def test_types(tmp_path: Path, brute_force: BruteForce, kind: str, engine: str, stable: bool) -> None:
    where = tmp_path / "t"
    columns = KINDS[kind]
    dataset = make(where, kind, columns, engine, stable=stable)
    changes = ("deleted", "updated", "appended")
    for change in changes:
        CHANGES[change](dataset, where)
    check(where, engine, columns, changes, brute_force, stable=stable)


BY_ENGINES = [("ours", change) for change in CHANGES]
BY_ENGINES += [("pylance", change) for change in ("compacted", "deferred", "optimized", "extended")]


@pytest.mark.spread(0.3)
@pytest.mark.parametrize(
    ("kind", "engine", "change", "stable"),
    [
        pytest.param(kind, *act, stable, marks=() if (row + column) % 2 == stable else pytest.mark.soak)
        for (row, kind), (column, act) in itertools.product(enumerate(KINDS), enumerate(BY_ENGINES))
        for stable in (False, True)
    ],
)
def test_changes(tmp_path: Path, brute_force: BruteForce, kind: str, engine: str, change: str, stable: bool) -> None:
    where = tmp_path / "t"
    columns = KINDS[kind][:1] if kind != "BTREE" else ["i64", "text"]
    dataset = make(where, kind, columns, engine, stable=stable)
    if change == "deferred" and stable:
        with pytest.raises((NotImplementedError, OSError), match="stable row"):
            CHANGES[change](dataset, where)
        return
    CHANGES[change](dataset, where)
    check(where, engine, columns, (change,), brute_force, stable=stable)


@pytest.mark.parametrize("kind", KINDS)
def test_indices_are_asked(tmp_path: Path, kind: str) -> None:
    make(tmp_path / "t", kind, KINDS[kind], "ours", stable=False)
    dataset = lancelet.dataset(tmp_path / "t")
    for column in KINDS[kind]:
        plans = [dataset.scanner(["key"], filter=text).explain_plan() for text in filters(column)]
        assert any("ScalarIndexQuery" in plan for plan in plans), column
    assert dataset.count_rows() == ROWS
