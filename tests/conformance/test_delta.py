"""What changed between two versions: the same answers as pylance, whoever made the changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.testing import assert_identical

LIBRARIES = {"lance": lance, "lancelet": lancelet}
ASKS = ("get_inserted_rows", "get_updated_rows", "get_deleted_row_ids")


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table({"k": pa.array(numbers, pa.int64()), "t": [f"text {n}" for n in numbers]})


def append(module: Any, uri: str) -> None:
    module.write_dataset(rows(40, 55), uri, mode="append")


def update(module: Any, uri: str) -> None:
    lance.dataset(uri).update({"t": "'new'"}, where="k % 10 = 3")


def upsert(module: Any, uri: str) -> None:
    source = rows(50, 60).set_column(1, "t", pa.array(["merged"] * 10))
    lance.dataset(uri).merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(source)


def delete(module: Any, uri: str) -> None:
    module.dataset(uri).delete("k % 7 = 0")


def delete_fragment(module: Any, uri: str) -> None:
    module.dataset(uri).delete("k < 10")


def compact(module: Any, uri: str) -> None:
    lance.dataset(uri).optimize.compact_files()


def add_column(module: Any, uri: str) -> None:
    module.dataset(uri).add_columns({"u": "k * 2"})


def drop_column(module: Any, uri: str) -> None:
    module.dataset(uri).drop_columns(["u"])


STEPS: list[Callable[[Any, str], None]] = [
    append, update, delete, upsert, delete_fragment, compact, add_column, delete, drop_column, append
]  # fmt: skip


def history(path: Path, module: Any) -> str:
    uri = str(path / "table.lance")
    module.write_dataset(rows(0, 40), uri, max_rows_per_file=10, enable_stable_row_ids=True)
    for step in STEPS:
        step(module, uri)
    return uri


@pytest.mark.parametrize("writer", LIBRARIES)
def test_all_ranges_of_versions(tmp_path, writer):
    uri = history(tmp_path, LIBRARIES[writer])
    theirs, ours = lance.dataset(uri), lancelet.dataset(uri)
    last = theirs.version
    assert ours.version == last
    for begin in range(last + 1):
        for end in range(begin, last + 1):
            if end - begin > 1 and end != last and begin != 1:
                continue
            expected = theirs.delta(begin_version=begin, end_version=end)
            found = ours.delta(begin_version=begin, end_version=end)
            for ask in ASKS:
                mine, other = getattr(found, ask)(), getattr(expected, ask)()
                assert mine.schema.names == other.schema.names
                mine, other = mine.read_all(), other.read_all()
                assert_identical(mine.sort_by("_rowid"), other.sort_by("_rowid"))
            kinds = [[type(t.operation).__name__ for t in delta.list_transactions()] for delta in (found, expected)]
            uuids = [[t.uuid for t in delta.list_transactions()] for delta in (found, expected)]
            assert kinds[0] == kinds[1]
            assert uuids[0] == uuids[1]


def test_rows_are_told_apart_by_what_happened_to_them(tmp_path):
    uri = str(tmp_path / "table.lance")
    lancelet.write_dataset(rows(0, 20), uri, max_rows_per_file=7, enable_stable_row_ids=True)
    lancelet.write_dataset(rows(20, 25), uri, mode="append")
    lance.dataset(uri).update({"t": "'new'"}, where="k in (3, 21)")
    lancelet.dataset(uri).delete("k in (4, 22)")
    delta = lancelet.dataset(uri).delta(compared_against=1)
    assert sorted(delta.get_inserted_rows().read_all()["k"].to_pylist()) == [20, 21, 23, 24]
    assert delta.get_updated_rows().read_all()["k"].to_pylist() == [3]
    assert delta.get_deleted_row_ids().read_all()["_rowid"].to_pylist() == [4]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, ValueError),
        ({"begin_version": 1}, ValueError),
        ({"end_version": 1}, ValueError),
        ({"compared_against": -1}, OverflowError),
        ({"begin_version": -1, "end_version": 2}, OverflowError),
        ({"compared_against": "x"}, TypeError),
        ({"begin_version": "x", "end_version": 2}, TypeError),
    ],
    ids=str,
)
def test_ranges_that_make_no_sense(tmp_path, arguments, kind):
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(rows(0, 5), uri, enable_stable_row_ids=True)
    for module in (lance, lancelet):
        with pytest.raises(kind):
            module.dataset(uri).delta(**arguments).list_transactions()


def test_versions_that_are_not_there(tmp_path):
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(rows(0, 5), uri, enable_stable_row_ids=True)
    lance.write_dataset(rows(5, 9), uri, mode="append")
    for module in (lance, lancelet):
        dataset = module.dataset(uri)
        with pytest.raises(ValueError):
            dataset.delta(compared_against=9).list_transactions()
        assert dataset.delta(compared_against=9).get_inserted_rows().read_all().num_rows == 0
        with pytest.raises(ValueError, match="newer than"):
            dataset.delta(begin_version=2, end_version=1).get_deleted_row_ids()
        assert module.dataset(uri, version=1).delta(compared_against=2).list_transactions() != []


def test_tables_without_stable_row_ids(tmp_path):
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(rows(0, 5), uri)
    lance.write_dataset(rows(5, 9), uri, mode="append")
    for module in (lance, lancelet):
        delta = module.dataset(uri).delta(compared_against=1)
        assert delta.get_inserted_rows().read_all().num_rows == 0
        assert delta.get_updated_rows().read_all().num_rows == 0
        with pytest.raises(ValueError, match="stable row ids"):
            delta.get_deleted_row_ids()
        assert len(delta.list_transactions()) == 1
