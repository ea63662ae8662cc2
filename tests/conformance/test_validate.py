"""Checks and repairs: sound tables are found sound, every kind of damage is found and named, repairs change no row."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from conformance.grid import VERSIONS
from conformance.states import FROM_2_0, STATES
from conformance.test_historical import FIXTURES
from conftest import Bucket
from lancelet.errors import InvalidInput, LanceletError
from lancelet.format.proto import table_pb2
from lancelet.maintenance.validation.report import SHOWN, Finding, Level, VerifyReport
from lancelet.store import open_store
from lancelet.testing import assert_identical

Message = table_pb2.Manifest
Damage = Callable[[Path, lance.LanceDataset], None]


def files_below(where: Path) -> dict[str, bytes]:
    return {str(path.relative_to(where)): path.read_bytes() for path in where.rglob("*") if path.is_file()}


CELLS = [
    pytest.param(name, version, stable, id=f"{name}-{version}{'-stable' if stable else ''}")
    for name in STATES
    for version in VERSIONS
    for stable in (False, True)
    if (version > "0.1" or name not in FROM_2_0) and (version == "2.2" or (version == "0.1" and not stable))
]


@pytest.mark.spread(0.3)
@pytest.mark.parametrize(("name", "version", "stable"), CELLS)
def test_sound_tables(tmp_path: Path, name: str, version: str, stable: bool) -> None:
    where = tmp_path / "t"
    STATES[name](where, {"data_storage_version": version, "enable_stable_row_ids": stable})
    dataset = lancelet.dataset(where)
    dataset.validate()
    report = dataset.verify(deep=True)
    assert report.ok, str(report)
    assert report.errors == ()
    # A table that was copied leaves nothing behind, one that was cloned neither; what is elsewhere is listed.
    assert [finding for finding in report.findings if finding.kind not in ("orphan file", "outside")] == []
    physical = sum(fragment.physical_rows for fragment in dataset.get_fragments())
    assert report.rows_checked == physical
    assert report.versions_checked == len(dataset.version_refs())


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="the historical tables are not on this machine")
def test_historical_tables(tmp_path: Path) -> None:
    """Whatever pylance finds sound we find sound, and a repair of it changes no row."""
    checked = 0
    for versions in sorted(FIXTURES.rglob("_versions")):
        where = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(versions.parent, where)
        try:
            lance.dataset(where).validate()
            expected = lance.dataset(where).to_table()
        except OSError:
            continue
        dataset = lancelet.dataset(where)
        dataset.validate()
        assert dataset.verify().errors == (), versions
        checked += 1
        if lance.dataset(where).data_storage_version == "0.1":
            continue
        dataset.repair(dry_run=False)
        assert_identical(lance.dataset(where).to_table(), expected)
        assert not any(f.kind == "statistics" for f in lancelet.dataset(where).verify().findings)
    assert checked > 3


# Damage


def manifest_of(where: Path, version: int) -> Path:
    return where / "_versions" / f"{2**64 - 1 - version:020}.manifest"


def edited(change: Callable[[Message], object]) -> Damage:
    """Change the manifest of the newest version."""

    def damage(where: Path, dataset: lance.LanceDataset) -> None:
        edit(manifest_of(where, dataset.version), change)

    return damage


def edit(path: Path, change: Callable[[Message], object]) -> None:
    data = path.read_bytes()
    (position,) = struct.unpack_from("<q", data, len(data) - 16)
    (length,) = struct.unpack_from("<I", data, position)
    message = Message.FromString(data[position + 4 : position + 4 + length])
    change(message)
    body = message.SerializeToString()
    path.write_bytes(data[:position] + struct.pack("<I", len(body)) + body + data[-16:])


def data_file(where: Path, dataset: lance.LanceDataset, fragment: int = 0) -> Path:
    return where / "data" / dataset.get_fragments()[fragment].data_files()[0].path


def deletion_file(where: Path) -> Path:
    return next(iter((where / "_deletions").iterdir()))


def truncated(where: Path, dataset: lance.LanceDataset) -> None:
    with data_file(where, dataset).open("r+b") as file:
        file.truncate(100)


def zeroed(where: Path, dataset: lance.LanceDataset) -> None:
    path = data_file(where, dataset)
    data = path.read_bytes()
    path.write_bytes(bytes(len(data) - 60) + data[-60:])


def set_rows(count: int) -> Damage:
    return edited(lambda m: setattr(m.fragments[0], "physical_rows", count))


# What is done to the table, and the kind of the first finding.
DAMAGE: dict[str, tuple[Damage, str]] = {
    "missing data file": (lambda where, ds: data_file(where, ds).unlink(), "missing file"),
    "short data file": (truncated, "wrong size"),
    "zeros in a data file": (zeroed, "unreadable file"),
    "fewer rows": (set_rows(7), "unreadable file"),
    "another size": (edited(lambda m: setattr(m.fragments[0].files[0], "file_size_bytes", 7)), "wrong size"),
    "two fragments of one id": (edited(lambda m: setattr(m.fragments[1], "id", 0)), "fragment ids"),
    "fragments out of order": (edited(lambda m: setattr(m.fragments[0], "id", 5)), "fragment ids"),
    "a file of other fields": (
        edited(lambda m: m.fragments[0].files[0].fields.__setitem__(slice(2), [77, 78])),
        "field ids",
    ),
    "a field in two files": (edited(lambda m: m.fragments[0].files.append(m.fragments[0].files[0])), "field ids"),
    "an unknown base": (edited(lambda m: setattr(m.fragments[0].files[0], "base_id", 3)), "unreadable file"),
}
DELETIONS: dict[str, tuple[Damage, str]] = {
    "missing": (lambda where, _: deletion_file(where).unlink(), "missing file"),
    "garbage": (lambda where, _: deletion_file(where).write_bytes(b"xx"), "unreadable file"),
    "another count": (
        edited(lambda m: setattr(m.fragments[0].deletion_file, "num_deleted_rows", 5)),
        "unreadable file",
    ),
}
ROW_IDS: dict[str, tuple[Damage, str]] = {
    "fewer ids than rows": (
        edited(lambda m: setattr(m.fragments[0], "inline_row_ids", bytes.fromhex("0a040a021009"))),
        "unreadable file",
    ),
    "two live rows of one id": (
        edited(lambda m: setattr(m.fragments[1], "inline_row_ids", m.fragments[0].inline_row_ids)),
        "unreadable file",
    ),
    "an id is given out again": (edited(lambda m: setattr(m, "next_row_id", 3)), "row ids"),
}


def table(where: Path, **options: Any) -> lance.LanceDataset:
    lance.write_dataset(pa.table({"a": range(10), "b": [f"row {n}" for n in range(10)]}), where, **options)
    return lance.write_dataset(pa.table({"a": range(10, 20), "b": ["x"] * 10}), where, mode="append")


def check_damage(where: Path, damage: Damage, kind: str) -> None:
    damage(where, lance.dataset(where))
    with pytest.raises(OSError):
        lance.dataset(where).validate()
    with pytest.raises(OSError) as caught:
        lancelet.dataset(where).validate()
    assert isinstance(caught.value, LanceletError)
    report = lancelet.dataset(where).verify(deep=True)
    assert not report.ok
    assert report.errors[0].kind == kind, str(report)
    assert all(finding.advice and finding.place and finding.problem for finding in report.findings)


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_to_fragments(tmp_path: Path, case: str) -> None:
    table(tmp_path / "t")
    check_damage(tmp_path / "t", *DAMAGE[case])


@pytest.mark.parametrize("case", DELETIONS)
def test_damage_to_deletions(tmp_path: Path, case: str) -> None:
    table(tmp_path / "t").delete("a in (1, 2)")
    check_damage(tmp_path / "t", *DELETIONS[case])


@pytest.mark.parametrize("case", ROW_IDS)
def test_damage_to_row_ids(tmp_path: Path, case: str) -> None:
    table(tmp_path / "t", enable_stable_row_ids=True)
    check_damage(tmp_path / "t", *ROW_IDS[case])


def test_lineage_of_another_length(tmp_path: Path) -> None:
    table(tmp_path / "t", enable_stable_row_ids=True)
    damage = edited(
        lambda m: setattr(m.fragments[0], "inline_created_at_versions", bytes.fromhex("0a080a040a0210031001"))
    )
    damage(tmp_path / "t", lance.dataset(tmp_path / "t"))
    report = lancelet.dataset(tmp_path / "t").verify()
    assert "created-at versions of fragment 0" in report.errors[0].problem


def test_only_a_deep_check_decodes(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"a": range(5000), "b": [f"row {n}" * 3 for n in range(5000)]}), where)
    path = data_file(where, lance.dataset(where))
    data = bytearray(path.read_bytes())
    data[: len(data) // 2] = os.urandom(len(data) // 2)
    path.write_bytes(data)
    assert lancelet.dataset(where).verify().ok
    report = lancelet.dataset(where).verify(deep=True)
    assert report.errors
    assert "of fragment 0" in report.errors[0].place


def test_nulls_where_there_are_none(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = lance.write_dataset(pa.table({"a": [1, None, 3]}), where)
    edit(manifest_of(where, dataset.version), lambda m: setattr(m.fields[0], "nullable", False))
    assert lancelet.dataset(where).verify().ok
    (error,) = lancelet.dataset(where).verify(deep=True).errors
    assert "row 1 is null" in error.problem
    # A deleted row may hold anything.
    edit(manifest_of(where, dataset.version), lambda m: setattr(m.fields[0], "nullable", True))
    lance.dataset(where).delete("a is null")
    edit(manifest_of(where, 2), lambda m: setattr(m.fields[0], "nullable", False))
    assert lancelet.dataset(where).verify(deep=True).ok


def test_blobs(tmp_path: Path) -> None:
    where = tmp_path / "t"
    values = lance.blob_array([b"x" * 5_000_000, b"y" * 200_000, None, b"small"])
    schema = pa.schema([("a", pa.int64()), lance.blob_field("b")])
    lance.write_dataset(pa.table([pa.array(range(4)), values], schema=schema), where, data_storage_version="2.2")
    assert lancelet.dataset(where).verify(deep=True).findings == ()
    sidecar = max((where / "data").rglob("*.blob"), key=lambda path: path.stat().st_size)
    with sidecar.open("r+b") as file:
        file.truncate(1000)
    (error,) = lancelet.dataset(where).verify(deep=True).errors
    assert "has 1000 bytes, but a blob is at 0 to 5000000" in error.problem
    sidecar.unlink()
    (error,) = lancelet.dataset(where).verify(deep=True).errors
    assert (error.kind, error.place) == ("missing file", str(sidecar))


# Other places


def test_branches(tmp_path: Path) -> None:
    where = tmp_path / "t"
    branch = table(where).create_branch("dev", 1)
    branch.delete("a = 1")
    dataset = lancelet.dataset(where).checkout_version(("dev", None))
    assert dataset.verify(deep=True).findings == ()
    assert dataset.verify().versions_checked == 2


def test_object_stores(bucket: Bucket) -> None:
    uri = f"{bucket.uri}/t"
    for mode in ("create", "append"):
        lancelet.write_dataset({"a": [1, 2, 3]}, uri, mode=mode, storage_options=bucket.options)
    dataset = lancelet.dataset(uri, storage_options=bucket.options)
    dataset.delete("a = 2")
    assert dataset.verify(deep=True).findings == ()
    store = open_store(uri, bucket.options)
    store.delete(next(iter(store.list_objects("_deletions"))).path)
    with pytest.raises(OSError, match="missing"):
        dataset.validate()
    assert [finding.kind for finding in dataset.verify().errors] == ["missing file", "missing file"]


# What only a check of the whole table finds


def findings(where: Path, kind: str) -> tuple[Finding, ...]:
    return tuple(finding for finding in lancelet.dataset(where).verify().findings if finding.kind == kind)


def test_files_of_older_versions(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table(where)
    old = data_file(where, lance.dataset(where))
    lance.write_dataset(pa.table({"a": [1], "b": ["x"]}), where, mode="overwrite")
    old.unlink()
    lancelet.dataset(where).validate()
    (missing,) = findings(where, "missing file")
    assert missing.place == str(old)
    assert missing.problem == "2 version(s) need it: 1, 2"
    manifest_of(where, 1).write_bytes(b"garbage" * 9)
    (unreadable,) = findings(where, "unreadable version")
    assert unreadable.place == "version 1"


def test_version_numbers(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table(where)
    edit(manifest_of(where, 1), lambda m: setattr(m, "version", 9))
    (wrong,) = findings(where, "version number")
    assert "says that it is version 9" in wrong.problem


def test_transactions(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table(where)
    shutil.rmtree(where / "_transactions")
    assert lancelet.dataset(where).verify().findings == ()
    edit(
        manifest_of(where, 2),
        lambda m: (m.ClearField("transaction_section"), m.ClearField("transaction_section_deprecated")),
    )
    (missing,) = findings(where, "transaction")
    assert missing.level is Level.WARNING
    assert missing.place == "version 2"


def test_indices(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table(where).create_scalar_index("a", "BTREE")
    assert lancelet.dataset(where).verify().findings == ()
    file = next((where / "_indices").rglob("*.lance"))
    file.write_bytes(file.read_bytes() + b"x")
    (size,) = findings(where, "wrong size")
    assert size.place == str(file)
    file.unlink()
    assert str(file) in [finding.place for finding in findings(where, "missing file")]
    edit(manifest_of(where, 3), lambda m: setattr(m, "max_fragment_id", 0))
    assert [finding.problem[:17] for finding in findings(where, "index")] == ["covers fragment 1"]
    edit(manifest_of(where, 3), lambda m: setattr(m.fields[0], "id", 9))
    assert any("covers field(s) [0]" in finding.problem for finding in findings(where, "index"))


def test_refs(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = table(where)
    dataset.tags.create("good", 1)
    dataset.tags.create("bad", 2)
    dataset.create_branch("dev", 1)
    dataset.tags.create("there", ("dev", 1))
    assert lancelet.dataset(where).verify().findings == ()
    tag = where / "_refs" / "tags" / "bad.json"
    entry = json.loads(tag.read_text())
    tag.write_text(json.dumps({**entry, "version": 7}))
    (nowhere,) = findings(where, "tag")
    assert nowhere.place == "tag bad"
    assert "version 7 of main, which is not there" in nowhere.problem
    tag.write_text(json.dumps({**entry, "manifestSize": 7}))
    assert "7 bytes" in findings(where, "tag")[0].problem
    tag.write_text("{")
    assert "bad.json" in findings(where, "unreadable file")[0].problem
    tag.unlink()
    shutil.rmtree(where / "tree")
    assert [finding.place for finding in findings(where, "branch")] == ["branch dev"]
    assert [finding.place for finding in findings(where, "tag")] == ["tag there"]


def test_base_paths(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "c"
    table(source).delete("a = 1")
    lance.dataset(source).shallow_clone(target, 3)
    (note,) = lancelet.dataset(target).verify(deep=True).findings
    assert (note.level.value, note.kind, str(source) in note.place) == ("note", "outside", True)
    shutil.rmtree(source / "_deletions")
    report = lancelet.dataset(target).verify()
    assert [(f.kind, Path(f.place).parent) for f in report.errors] == [("missing file", source / "_deletions")]


def test_reports_are_tables(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = table(where)
    assert str(lancelet.dataset(where).verify()) == f"{where}, version 2: ok (2 version(s), 2 file(s))"
    data_file(where, dataset).unlink()
    lines = str(lancelet.dataset(where).verify()).splitlines()
    assert lines[0] == f"{where}, version 2: 2 problem(s) (2 version(s), 1 file(s))"
    assert lines[1].split("  ")[0] == "level"
    assert max(map(len, lines)) < 180
    many = VerifyReport("t", 1, (Finding(Level.NOTE, "k", "p", "x", "y"),) * (SHOWN + 3), 1, 1, 0)
    assert str(many).endswith("... and 3 more in .findings")
    assert many.ok


# Repairs


def stripped(message: Message) -> None:
    """As a writer that records as little as it may."""
    message.ClearField("max_fragment_id")
    for fragment in message.fragments:
        fragment.ClearField("physical_rows")
        fragment.deletion_file.num_deleted_rows = 0
        if not fragment.deletion_file.read_version:
            fragment.ClearField("deletion_file")
        for file in fragment.files:
            file.ClearField("file_size_bytes")


@pytest.mark.parametrize("stable", [False, True])
def test_missing_statistics(tmp_path: Path, stable: bool) -> None:
    where = tmp_path / "t"
    dataset = table(where, enable_stable_row_ids=stable)
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a in (1, 2)")
    version = lance.dataset(where).version
    complete = Message()
    edit(manifest_of(where, version), complete.CopyFrom)
    columns = ["a", "b", "_row_created_at_version", "_row_last_updated_at_version"] if stable else ["a", "b"]
    expected = lance.dataset(where).to_table(columns, with_row_id=True)
    edit(manifest_of(where, version), stripped)
    before = files_below(where)
    ours = lancelet.dataset(where)
    assert ours.verify().ok
    assert [f.place for f in ours.verify().findings if f.repairable] == ["fragment 0", "fragment 1"]
    planned = ours.repair()
    assert planned.dry_run
    assert [(action.kind, action.place) for action in planned.actions] == [
        ("statistics", "fragment 0"),
        ("statistics", "fragment 1"),
    ]
    assert files_below(where) == before
    done = ours.repair(dry_run=False)
    assert done.actions == planned.actions
    assert ours.version == version + 1
    repaired = Message()
    edit(manifest_of(where, version + 1), repaired.CopyFrom)
    assert list(repaired.fragments) == list(complete.fragments)
    assert repaired.max_fragment_id == complete.max_fragment_id
    assert list(repaired.fields) == list(complete.fields)
    theirs = lance.dataset(where)
    theirs.validate()
    assert_identical(theirs.to_table(columns, with_row_id=True), expected)
    assert theirs.count_rows("a > 4") == 15
    (index,) = theirs.describe_indices()
    assert index.segments[0].fragment_ids == {0, 1}
    assert ours.verify().findings == ()
    assert ours.repair(dry_run=False).actions == ()


def test_the_greatest_fragment_id(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table(where)
    edit(manifest_of(where, 2), lambda m: setattr(m, "max_fragment_id", 0))
    report = lancelet.dataset(where).verify()
    assert [finding.kind for finding in report.findings] == ["fragment ids"]
    lancelet.dataset(where).repair(dry_run=False)
    assert lancelet.dataset(where).verify().findings == ()
    lance.write_dataset(pa.table({"a": [1], "b": ["x"]}), where, mode="append")
    assert lance.dataset(where).count_rows() == 21


@pytest.mark.parametrize("hint", ['{"version":1}', '{"version":77}', "{}", "[]", "garbage", ""])
def test_the_hint(tmp_path: Path, hint: str) -> None:
    where = tmp_path / "t"
    table(where)
    path = where / "_versions" / "latest_version_hint.json"
    path.write_text(hint)
    assert [finding.kind for finding in lancelet.dataset(where).verify().findings] == ["hint"]
    lancelet.dataset(where).repair(dry_run=False)
    assert path.read_text() == '{"version":2}'
    path.unlink()
    assert lancelet.dataset(where).verify().ok


def test_orphans(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table(where)
    before = set(files_below(where))
    old, young = where / "data" / "old.lance", where / "data" / "young.lance"
    for path in (old, young):
        path.write_bytes(b"x")
    then = time.time() - 8 * 86400
    os.utime(old, (then, then))
    report = lancelet.dataset(where).verify()
    assert report.ok
    assert [(f.place, f.repairable) for f in report.findings] == [("data/old.lance", True), ("data/young.lance", False)]
    assert "data/old.lance" in str(lancelet.dataset(where).repair())
    lancelet.dataset(where).repair(dry_run=False)
    assert set(files_below(where)) == before | {"data/young.lance"}


def test_what_cannot_be_repaired_stays_as_it_is(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = table(where)
    edit(manifest_of(where, 2), stripped)
    data_file(where, dataset).unlink()
    before = files_below(where)
    for dry_run in (True, False):
        with pytest.raises(OSError, match="missing"):
            lancelet.dataset(where).repair(dry_run=dry_run)
    assert files_below(where) == before


def test_no_repair_of_a_detached_version(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table(where)
    fragments = lance.fragment.write_fragments(pa.table({"a": [1], "b": ["x"]}), where)
    operation = lance.LanceOperation.Append(fragments)
    version = lance.LanceDataset.commit(str(where), operation, read_version=2, detached=True).version
    report = lancelet.dataset(where, version).verify(deep=True)
    assert report.ok, str(report)
    with pytest.raises(InvalidInput, match="latest version"):
        lancelet.dataset(where, version).repair()
