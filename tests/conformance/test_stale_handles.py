"""A handle whose next versions were cleaned up: what can go on goes on, with pylance's result, and nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import CommitConflict, LanceletError, RetryableCommitConflict

NEW = pa.table({"k": [100], "t": ["new"]})


def upsert(dataset: Any) -> None:
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(NEW)


ACTS: dict[str, Callable[[Any], object]] = {
    "insert": lambda d: d.insert(NEW),
    "overwrite": lambda d: d.insert(NEW, mode="overwrite"),
    "config": lambda d: d.update_config({"a": "1"}),
    "config removed": lambda d: d.delete_config_keys(["a"]),
    "metadata": lambda d: d.update_metadata({"a": "1"}),
    "schema metadata": lambda d: d.update_schema_metadata({"a": "1"}),
    "field metadata": lambda d: d.update_field_metadata({"k": {"a": "1"}}),
    "delete": lambda d: d.delete("k = 1"),
    "update": lambda d: d.update({"t": "'y'"}, where="k = 1"),
    "merge": upsert,
    "drop": lambda d: d.drop_columns(["t"]),
    "rename": lambda d: d.alter_columns({"path": "t", "name": "u"}),
    "index": lambda d: d.create_scalar_index("k", "BTREE"),
    "compact": lambda d: d.optimize.compact_files(),
}


def delete_some(where: Path) -> None:
    for key in (2, 3):
        lance.dataset(where).delete(f"k = {key}")


def append_some(where: Path) -> None:
    for key in (50, 51):
        lance.write_dataset(pa.table({"k": [key], "t": ["late"]}), where, mode="append")


def replace_all(where: Path) -> None:
    lance.write_dataset(pa.table({"k": [7], "t": ["other"]}), where, mode="overwrite")
    lance.dataset(where).update_config({"z": "1"})


def drop_column(where: Path) -> None:
    lance.dataset(where).drop_columns(["t"])
    lance.dataset(where).update_config({"a": "theirs"})


def stale(where: Path, between: Callable[[Path], None], engine: Any) -> Any:
    """A dataset at version 1; versions 1 and 2 are gone, version 3 is the newest."""
    lance.write_dataset(pa.table({"k": range(10), "t": ["a"] * 10}), where, max_rows_per_file=5)
    dataset = engine.dataset(where)
    between(where)
    lance.dataset(where).cleanup_old_versions(timedelta(0))
    assert [entry["version"] for entry in lance.dataset(where).versions()] == [3]
    return dataset


def content(where: Path) -> list[Any]:
    dataset = lance.dataset(where)
    table = dataset.to_table()
    assert lancelet.dataset(where).to_table().equals(table)
    return [sorted(map(str, table.to_pylist())), table.schema.metadata, dataset.config(), dataset.metadata]


@pytest.mark.parametrize("between", [append_some, delete_some])
@pytest.mark.parametrize("name", ACTS)
def test_rows_that_came_or_went_do_not_matter(tmp_path: Path, name: str, between: Callable[[Path], None]) -> None:
    ACTS[name](stale(tmp_path / "ours", between, lancelet))
    theirs = stale(tmp_path / "theirs", between, lance)
    if (name, between) == ("compact", delete_some):
        # It refuses to compact fragments that lost rows; a dataset that is opened now may.
        theirs = lance.dataset(tmp_path / "theirs")
    ACTS[name](theirs)
    assert content(tmp_path / "ours") == content(tmp_path / "theirs")


@pytest.mark.parametrize("between", [replace_all, drop_column])
@pytest.mark.parametrize("name", ACTS)
def test_what_might_be_lost_is_refused_or_made_again(
    tmp_path: Path, name: str, between: Callable[[Path], None]
) -> None:
    """The same as on a handle at the newest version, or an error and nothing changed: pylance goes on blindly here."""
    stale(tmp_path / "new", between, lancelet)
    before = content(tmp_path / "new")
    shutil.copytree(tmp_path / "new", tmp_path / "again")
    try:
        ACTS[name](lancelet.dataset(tmp_path / "again"))
        expected = content(tmp_path / "again")
    except LanceletError:
        expected = before
    dataset = stale(tmp_path / "stale", between, lancelet)
    try:
        ACTS[name](dataset)
    except CommitConflict:
        expected = before
    except LanceletError:
        assert expected == before
    assert content(tmp_path / "stale") == expected


def compact_all(where: Path) -> None:
    """Fragments are reserved, and then replaced."""
    lance.dataset(where).optimize.compact_files()


@pytest.mark.parametrize("between", [replace_all, compact_all])
def test_an_append_is_refused_where_the_table_may_have_been_overwritten(
    tmp_path: Path, between: Callable[[Path], None]
) -> None:
    """Columns are the same and no file is: an overwrite and a compaction of everything look alike. pylance appends to both."""
    dataset = stale(tmp_path / "t", between, lancelet)
    before, files = content(tmp_path / "t"), set((tmp_path / "t").rglob("*"))
    with pytest.raises(RetryableCommitConflict, match="on version 3, the newest one"):
        dataset.insert(NEW)
    assert content(tmp_path / "t") == before
    assert set((tmp_path / "t").rglob("*")) == files
    dataset.checkout_latest()
    dataset.insert(NEW)
    assert content(tmp_path / "t")[0] == sorted([*before[0], *map(str, NEW.to_pylist())])


def test_an_append_to_a_table_that_was_empty_goes_on(tmp_path: Path) -> None:
    lance.write_dataset(NEW.slice(0, 0), tmp_path / "t")
    dataset = lancelet.dataset(tmp_path / "t")
    append_some(tmp_path / "t")
    lance.dataset(tmp_path / "t").cleanup_old_versions(timedelta(0))
    dataset.insert(NEW)
    assert dataset.count_rows() == 3
