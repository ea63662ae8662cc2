"""A damaged newest manifest: the error says how to go on, checks and repairs work by path, nothing is lost by a repair."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import pytest

import lancelet
from conftest import Bucket
from lancelet.errors import CommitConflict, CorruptFile
from lancelet.maintenance.validation.report import Level
from lancelet.store import open_store

DAMAGES = {
    "random": lambda data: os.urandom(len(data)),
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "wrong magic": lambda data: data[:-4] + b"LANK",
}


def manifest(where: Path, version: int) -> Path:
    return where / "_versions" / f"{2**64 - 1 - version}.manifest"


def files(where: Path) -> dict[str, bytes]:
    return {str(path.relative_to(where)): path.read_bytes() for path in where.rglob("*") if path.is_file()}


@pytest.fixture
def where(tmp_path: Path) -> Path:
    for number in range(3):
        lancelet.write_dataset({"a": [number]}, tmp_path / "t", mode="append")
    return tmp_path / "t"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_goes_on_from_the_newest_version_that_can_be_read(where: Path, damage: str) -> None:
    path = manifest(where, 3)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(CorruptFile, match=r"newest; version 2 can be opened: version=2; lancelet.verify\(\)"):
        lancelet.dataset(where)
    assert lancelet.dataset(where, version=2).count_rows() == 2
    report = lancelet.verify(where)
    assert report.version == 2
    assert [(finding.kind, finding.place) for finding in report.errors] == [("unreadable version", "version 3")]
    assert "version 2 can be opened" in report.errors[0].advice
    before = files(where)
    planned = lancelet.repair(where)
    assert [action.place for action in planned.actions] == ["version 2", f"_versions/{path.name}"]
    with pytest.raises(CorruptFile, match="set_aside_damaged=True"):
        lancelet.repair(where, dry_run=False)
    assert files(where) == before
    assert lancelet.repair(where, dry_run=False, set_aside_damaged=True).actions == planned.actions
    after = files(where)
    # Every byte is still there, and the number of the lost version stays unused.
    assert set(before.values()) - set(after.values()) <= {before["_versions/latest_version_hint.json"]}
    for engine in (lancelet, lance):
        dataset = engine.dataset(where)
        assert (dataset.version, dataset.count_rows()) == (4, 2)
        assert [entry["version"] for entry in dataset.versions()] == [1, 2, 4]
    assert lancelet.verify(where, deep=True).ok
    lance.write_dataset(lance.dataset(where).to_table(), where, mode="append")
    assert lancelet.dataset(where).count_rows() == 4


def test_several_damaged_manifests(where: Path) -> None:
    for version in (2, 3):
        manifest(where, version).write_bytes(b"")
    with pytest.raises(CorruptFile, match="version 1 can be opened"):
        lancelet.dataset(where)
    lancelet.repair(where, dry_run=False, set_aside_damaged=True)
    assert lancelet.dataset(where).version == 4
    assert lancelet.dataset(where).count_rows() == 1


def test_an_older_damaged_manifest_leaves_the_newest_version(where: Path) -> None:
    manifest(where, 2).write_bytes(b"garbage")
    assert [finding.place for finding in lancelet.verify(where).errors] == ["version 2"]
    assert lancelet.dataset(where).repair(dry_run=False, set_aside_damaged=True).actions
    assert lancelet.dataset(where).version == 3
    assert lancelet.verify(where).ok


def test_a_table_without_a_readable_version(where: Path) -> None:
    for version in (1, 2, 3):
        manifest(where, version).write_bytes(b"garbage")
    with pytest.raises(CorruptFile, match="no other version can be opened either"):
        lancelet.dataset(where)
    assert [finding.place for finding in lancelet.verify(where)] == ["version 3", "version 2", "version 1"]
    before = files(where)
    with pytest.raises(CorruptFile):
        lancelet.repair(where, dry_run=False, set_aside_damaged=True)
    assert files(where) == before


def test_a_tagged_version_is_not_set_aside(where: Path) -> None:
    lancelet.dataset(where).tags.create("kept", 3)
    manifest(where, 3).write_bytes(b"garbage")
    with pytest.raises(CommitConflict, match="tag kept points at version 3"):
        lancelet.repair(where, dry_run=False, set_aside_damaged=True)
    assert manifest(where, 3).read_bytes() == b"garbage"


def test_a_stale_hint_is_no_problem(where: Path) -> None:
    (where / "_versions" / "latest_version_hint.json").write_text('{"version":1}')
    report = lancelet.verify(where)
    assert report.ok
    assert [finding.level for finding in report] == [Level.NOTE]


def test_object_stores(bucket: Bucket) -> None:
    uri = f"{bucket.uri}/t"
    for number in range(2):
        lancelet.write_dataset({"a": [number]}, uri, mode="append", checksums=True, storage_options=bucket.options)
    store = open_store(uri, bucket.options)
    newest = next(iter(store.list_names("_versions")))
    store.put(f"_versions/{newest}", b"garbage")
    with pytest.raises(CorruptFile, match="version 1 can be opened"):
        lancelet.dataset(uri, storage_options=bucket.options)
    assert lancelet.verify(uri, storage_options=bucket.options).version == 1
    lancelet.repair(uri, dry_run=False, set_aside_damaged=True, storage_options=bucket.options)
    assert lancelet.verify(uri, deep=True, storage_options=bucket.options).ok
    dataset = lancelet.dataset(uri, storage_options=bucket.options, verify_checksums=True)
    assert (dataset.version, dataset.to_table().num_rows) == (3, 1)
