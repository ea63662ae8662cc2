"""Opening a table: by version, tag, branch and time; what a dataset says of itself."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancelet
from conformance.agree import agree
from conformance.states import append, create, rows

OPTIONS: dict[str, Any] = {"data_storage_version": "2.2"}


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Three versions on main, a tag, a branch with a version of its own."""
    where = tmp_path / "t"
    dataset = create(where, OPTIONS)
    dataset.delete("k < 10")
    append(where, rows(5, 600), OPTIONS)
    dataset = lance.dataset(where)
    dataset.tags.create("first", 1)
    dataset.tags.create("with-dots_1.0", 2)
    branch = dataset.create_branch("dev/one", 2)
    branch.delete("k > 500")
    dataset.create_branch("plain", ("dev/one", None))
    return where


def test_newest_by_default(history: Path) -> None:
    ours, theirs = lancelet.dataset(history), lance.dataset(history)
    assert (ours.version, ours.latest_version) == (theirs.version, theirs.latest_version) == (3, 3)
    agree(ours, theirs, lambda ds: ds.to_table())


@pytest.mark.parametrize("where", [str, Path, lambda path: f"file://{path}", lambda path: f"{path}/", os.path.relpath])
def test_every_way_to_write_the_path(history: Path, where: Any) -> None:
    assert lancelet.dataset(where(history)).count_rows() == 595


def test_home_folder(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(history.parent))
    assert lancelet.dataset("~/t").count_rows() == lance.dataset("~/t").count_rows()


@pytest.mark.parametrize("version", [1, 2, 3, "first", "with-dots_1.0"])
def test_by_version_and_tag(history: Path, version: int | str) -> None:
    ours, theirs = lancelet.dataset(history, version=version), lance.dataset(history, version=version)
    assert ours.version == theirs.version
    agree(ours, theirs, lambda ds: ds.to_table(with_row_id=True))


@pytest.mark.parametrize("ref", [1, "first", (None, 2), ("dev/one", None), ("dev/one", 2), ("plain", None)])
def test_checkout(history: Path, ref: Any) -> None:
    ours = lancelet.dataset(history).checkout_version(ref)
    theirs = lance.dataset(history).checkout_version(ref)
    assert ours.version == theirs.version
    agree(ours, theirs, lambda ds: ds.to_table(with_row_id=True))


def test_a_branch_opened_by_its_folder(history: Path) -> None:
    where = history / "tree" / "dev" / "one"
    agree(lancelet.dataset(where), lance.dataset(where), lambda ds: ds.to_table())


def test_checkout_leaves_the_dataset_alone(history: Path) -> None:
    ours = lancelet.dataset(history)
    assert ours.checkout_version(1).version == 1
    assert ours.version == 3


def test_checkout_latest_moves_on(history: Path) -> None:
    ours = lancelet.dataset(history)
    append(history, rows(3, 605), OPTIONS)
    assert ours.count_rows() == 595
    assert ours.latest_version == 4
    ours.checkout_latest()
    assert (ours.version, ours.count_rows()) == (4, 598)


def test_as_of_a_time(history: Path) -> None:
    for entry in lance.dataset(history).versions():
        opened = lancelet.dataset(history, asof=entry["timestamp"] + timedelta(microseconds=1))
        assert opened.version == entry["version"]
    assert lancelet.dataset(history, asof=datetime.now()).version == 3


def test_as_of_before_the_first_version(history: Path) -> None:
    with pytest.raises(ValueError, match="earlier") as caught:
        lancelet.dataset(history, asof=datetime(2000, 1, 1))
    assert isinstance(caught.value, lancelet.errors.LanceletError)


def test_versions_tags_branches_are_listed_alike(history: Path) -> None:
    ours, theirs = lancelet.dataset(history), lance.dataset(history)
    assert ours.versions() == theirs.versions()
    assert ours.tags.list() == theirs.tags.list()
    assert ours.tags.get_version("first") == 1
    assert ours.branches.list() == theirs.branches.list()


def test_what_a_dataset_says_of_itself(history: Path) -> None:
    ours, theirs = lancelet.dataset(history), lance.dataset(history)
    assert ours.uri == theirs.uri
    assert ours.data_storage_version == theirs.data_storage_version
    assert ours.has_stable_row_ids == theirs.has_stable_row_ids
    assert ours.max_field_id == theirs.max_field_id
    assert ours.stats.dataset_stats() == theirs.stats.dataset_stats()
    mine, other = ours.stats.data_stats(), theirs.stats.data_stats()
    assert [(f.id, f.bytes_on_disk) for f in mine.fields] == [(f.id, f.bytes_on_disk) for f in other.fields]
    assert ours.get_fragment(99) is None
    assert len(ours) == len(theirs)
    assert ours.config() == theirs.config()


@pytest.mark.filterwarnings("ignore:The 'list_indices' method:DeprecationWarning")
def test_indices_are_described(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t", OPTIONS)
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("low", "BITMAP", name="lows")
    ours, theirs = lancelet.dataset(tmp_path / "t"), lance.dataset(tmp_path / "t")
    assert [index["name"] for index in ours.list_indices()] == [index["name"] for index in theirs.list_indices()]
    assert ours.list_indices() == theirs.list_indices()
    mine, other = ours.describe_indices(), theirs.describe_indices()
    assert [(d.name, d.index_type, d.num_rows_indexed) for d in mine] == [
        (d.name, d.index_type, d.num_rows_indexed) for d in other
    ]


def test_a_hint_is_only_a_hint(history: Path) -> None:
    hint = history / "_versions" / "latest_version_hint.json"
    for text in ('{"version":1}', '{"version":77}', "", "junk"):
        hint.write_text(text)
        assert lancelet.dataset(history).version == 3
    hint.unlink()
    assert lancelet.dataset(history).version == 3


def test_strange_files_among_the_versions_are_ignored(history: Path) -> None:
    (history / "_versions" / "18446744073709551600.manifest-1234").write_bytes(b"half written")
    (history / "_versions" / ".tmp").write_bytes(b"")
    (history / "_versions" / "d9223372036854775900.manifest").write_bytes(b"detached")
    assert lancelet.dataset(history).version == 3
