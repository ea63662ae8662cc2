"""Filters answered with an index are answered as without: every kind, type and operator, after every change of the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import lancelet
from index.questions import COLUMNS, KINDS, ROWS, filters, table

PAIRS = [(kind, column) for kind, columns in KINDS.items() for column in columns]
Dataset = Any
FILE_ROWS = 110


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


def check(where: Path, kind: str, columns: list[str]) -> None:
    """Both engines, with and without the index, find the same rows."""
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    for column in columns:
        for text in filters(column):
            truth = sorted(ours.to_table(["key"], filter=text, use_scalar_index=False)["key"].to_pylist())
            found = sorted(ours.to_table(["key"], filter=text)["key"].to_pylist())
            assert found == truth, (kind, column, text)
            assert ours.count_rows(filter=text) == len(truth), (kind, column, text)
            plain = sorted(theirs.to_table(["key"], filter=text, use_scalar_index=False)["key"].to_pylist())
            asked = sorted(theirs.to_table(["key"], filter=text)["key"].to_pylist())
            if plain == truth:
                assert asked == truth, (kind, column, text, "pylance")


@pytest.mark.parametrize(
    ("engine", "stable"),
    [("ours", False), ("ours", True), ("pylance", False), pytest.param("pylance", True, marks=pytest.mark.soak)],
)
@pytest.mark.parametrize(("kind", "column"), PAIRS)
def test_types(tmp_path: Path, kind: str, column: str, engine: str, stable: bool) -> None:
    where = tmp_path / "t"
    dataset = make(where, kind, [column], engine, stable=stable)
    deleted(dataset, where)
    updated(dataset, where)
    appended(dataset, where)
    check(where, kind, [column])


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize(
    ("engine", "change"),
    [("ours", change) for change in CHANGES]
    + [("pylance", change) for change in ("compacted", "deferred", "optimized", "extended")],
)
@pytest.mark.parametrize("kind", KINDS)
def test_changes(tmp_path: Path, kind: str, engine: str, change: str, stable: bool) -> None:
    where = tmp_path / "t"
    columns = KINDS[kind][:1] if kind != "BTREE" else ["i64", "text"]
    if change == "deferred" and stable:
        with pytest.raises((NotImplementedError, OSError), match="stable row"):
            CHANGES[change](make(where, kind, columns, engine, stable=stable), where)
        return
    dataset = make(where, kind, columns, engine, stable=stable)
    CHANGES[change](dataset, where)
    check(where, kind, columns)


@pytest.mark.parametrize(("kind", "column"), PAIRS)
def test_indices_are_asked(tmp_path: Path, kind: str, column: str) -> None:
    make(tmp_path / "t", kind, [column], "ours", stable=False)
    dataset = lancelet.dataset(tmp_path / "t")
    plans = [dataset.scanner(["key"], filter=text).explain_plan() for text in filters(column)]
    assert any("ScalarIndexQuery" in plan for plan in plans)
    assert dataset.count_rows() == ROWS
