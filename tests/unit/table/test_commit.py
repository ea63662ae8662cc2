"""Commits on their own: naming, hints, detached versions, flags, ids, and what is refused."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import (
    CommitConflict,
    CorruptFile,
    InvalidInput,
    NotSupported,
    RetryableCommitConflict,
    TableExists,
    TableNotFound,
    VersionNotFound,
)
from lancelet.format.proto import table_pb2
from lancelet.format.schema import Schema, schema_from_arrow
from lancelet.store import LocalStore, Store, open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.next_manifest import next_field_id
from lancelet.table.commit.patience import Pace
from lancelet.table.commit.properties import COMMIT_MESSAGE
from lancelet.table.commit.run import commit, create
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import Feature
from lancelet.table.manifest.fragment import DataFile, Fragment
from lancelet.table.manifest.manifest import BasePath, Manifest, read_manifest
from lancelet.table.manifest.manifest_bytes import manifest_bytes
from lancelet.table.manifest.names import ManifestName, NamingScheme
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from lancelet.table.manifest.versions import list_versions, migrate_to_v2
from lancelet.table.rows.row_id_write import encode_row_ids
from lancelet.table.rows.row_ids import read_created_at, read_last_updated_at, read_row_ids
from unit.table.test_operations import segment

NUMBERS = itertools.count()
SCHEMA = schema_from_arrow(pa.schema([("k", pa.int64()), ("s", pa.string())]))


def memory() -> Store:
    return open_store(f"memory://commit-{next(NUMBERS)}/t")


def new(rows: int = 4, version: tuple[int, int] = (2, 2), fields: tuple[int, ...] = (0, 1)) -> Fragment:
    """A fragment without an id; nobody reads its file."""
    columns = tuple(range(len(fields))) if version != (0, 2) else ()
    return Fragment(0, (DataFile(f"{next(NUMBERS)}.lance", fields, columns, *version, 10),), None, rows)


def table(fragments: int = 2, *, stable: bool = False, store: Store | None = None) -> Snapshot:
    operation = ops.Overwrite(SCHEMA, tuple(new() for _ in range(fragments)))
    return create(store or memory(), operation, stable_row_ids=stable)


def edited(message: table_pb2.Manifest, snapshot: Snapshot) -> Snapshot:
    """The same version with another manifest, as some other writer may have left it."""
    path = ManifestName(snapshot.version, NamingScheme.V2).path
    transaction = snapshot.manifest.transaction
    assert transaction is not None
    data = manifest_bytes(message, list(snapshot.manifest.indices), transaction.SerializeToString())
    snapshot.store.put(path, data)
    return Snapshot.of(snapshot.store, read_manifest(snapshot.store, path))


def copied(manifest: Manifest) -> table_pb2.Manifest:
    message = table_pb2.Manifest()
    message.CopyFrom(manifest.message)
    return message


def test_a_table_is_made_once() -> None:
    store = memory()
    first = table(store=store)
    with pytest.raises(TableExists, match="already exists"):
        table(store=store)
    assert first.manifest.writer_version is not None
    assert first.manifest.writer_version.library == "lancelet"
    assert open_snapshot(store).version == 1
    again = create(store, ops.Overwrite(SCHEMA, ()), uuid=str(getattr(first.manifest.transaction, "uuid", "")))
    assert again.version == 1


def test_only_an_overwrite_makes_a_table() -> None:
    with pytest.raises(TableNotFound, match="only an Overwrite"):
        commit(memory(), ops.Append((new(),)), read_version=1)
    with pytest.raises(InvalidInput, match="needs read_version"):
        commit(memory(), ops.Append((new(),)))
    made = commit(memory(), ops.Overwrite(SCHEMA, ()), stable_row_ids=True, storage_version="2.1")
    assert (made.version, made.manifest.has_stable_row_ids, made.manifest.data_storage_version) == (1, True, "2.1")
    assert made.manifest.max_fragment_id is None
    with pytest.raises(VersionNotFound):
        commit(made.store, ops.Append(()), read_version=7)


def test_the_newest_version_is_the_default_for_overwrites() -> None:
    first = table()
    second = commit(first, ops.Append((new(),)))
    third = commit(first.store, ops.Overwrite(SCHEMA, (new(),)))
    assert [fragment.id for fragment in third.manifest.fragments] == [3]
    fourth = commit(first.store, ops.Restore(second.version))
    assert [fragment.id for fragment in fourth.manifest.fragments] == [0, 1, 2]
    assert fourth.manifest.max_fragment_id == 3
    assert (third.version, fourth.version) == (3, 4)


def test_properties_and_uuid() -> None:
    made = commit(table(), ops.Append(()), properties={COMMIT_MESSAGE: "hi"}, uuid="mine")
    transaction = made.manifest.transaction
    assert transaction is not None
    assert (transaction.uuid, dict(transaction.transaction_properties)) == ("mine", {COMMIT_MESSAGE: "hi"})
    assert made.manifest.transaction_file == "1-mine.txn"
    assert made.store.read_all("_transactions/1-mine.txn") == transaction.SerializeToString()


def test_the_same_uuid_commits_once() -> None:
    first = table()
    second = commit(first, ops.Append((new(),)), uuid="mine")
    commit(second, ops.Append((new(),)))
    again = commit(first, ops.Append((new(),)), uuid="mine")
    assert again.version == 2
    assert open_snapshot(first.store).version == 3


def test_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(store=LocalStore(tmp_path))
    hint = tmp_path / "_versions/latest_version_hint.json"
    assert hint.read_bytes() == b'{"version":1}'
    commit(made, ops.Append(()))
    assert hint.read_bytes() == b'{"version":2}'
    monkeypatch.setenv("LANCE_USE_VERSION_HINT", "off")
    commit(made, ops.Append(()))
    assert hint.read_bytes() == b'{"version":2}'
    assert open_snapshot(tmp_path).version == 3
    assert [path.name for path in (tmp_path / "_versions").iterdir() if path.name.startswith(".")] == []


def test_detached_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"k": [1, 2, 3]}), uri)
    snapshot = open_snapshot(uri)
    deletion = delete_rows(snapshot, {0: [1]})
    detached = commit(snapshot, deletion.operation, affected_rows=deletion.affected_rows, detached=True)
    assert detached.version >= 2**63
    assert open_snapshot(uri).version == 1
    assert [name.version for name in list_versions(snapshot.store)] == [1]
    assert lance.dataset(uri, version=detached.version).to_table()["k"].to_pylist() == [1, 3]
    assert lancelet.dataset(uri, version=detached.version).to_table()["k"].to_pylist() == [1, 3]
    assert (tmp_path / f"t/_versions/d{detached.version}.manifest").is_file()
    assert (tmp_path / "t/_versions/latest_version_hint.json").read_bytes() == b'{"version":1}'
    with pytest.raises(InvalidInput, match="detached"):
        commit(detached, ops.Append(()))
    second = commit(detached, ops.UpdateConfig(ops.MapEdits({"a": "b"})), detached=True)
    assert second.version != detached.version
    assert lance.dataset(uri, version=second.version).to_table()["k"].to_pylist() == [1, 3]
    with pytest.raises(TableNotFound):
        commit(memory(), ops.Overwrite(SCHEMA, ()), detached=True)


def test_migration_to_v2(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for rows in range(3):
        lance.write_dataset(
            pa.table({"k": [rows]}), uri, mode="append" if rows else "create", enable_v2_manifest_paths=False
        )
    store = open_store(uri)
    before = {name.version: store.read_all(name.path) for name in list_versions(store)}
    # An earlier migration was interrupted between writing the new name and removing the old one.
    store.put(ManifestName(1, NamingScheme.V2).path, before[1])
    with pytest.raises(CorruptFile, match="both naming schemes"):
        commit(store, ops.Append(()), read_version=3)
    assert migrate_to_v2(store) == 3
    assert {name.version: store.read_all(name.path) for name in list_versions(store)} == before
    assert all(name.scheme is NamingScheme.V2 for name in list_versions(store))
    assert migrate_to_v2(store) == 0
    assert lance.dataset(uri).to_table()["k"].to_pylist() == [0, 1, 2]
    store.put("_versions/2.manifest", b"another")
    with pytest.raises(CorruptFile, match="another manifest"):
        migrate_to_v2(store)


def test_feature_flags_follow_the_content() -> None:
    made = table()
    assert (made.manifest.reader_flags, made.manifest.writer_flags) == (0, 0)
    made = commit(made, ops.UpdateConfig(ops.MapEdits({"a": "b"})))
    assert (made.manifest.reader_flags, made.manifest.writer_flags) == (0, Feature.TABLE_CONFIG)
    made = commit(made, ops.UpdateConfig(ops.MapEdits({}, replace=True)))
    deletion = delete_rows(made, {0: [1]})
    made = commit(made, deletion.operation)
    assert made.manifest.reader_flags == made.manifest.writer_flags == Feature.DELETION_FILES
    made = commit(made, ops.UpdateBases((BasePath("/b", "b", True), BasePath("/c", id=7))))
    assert made.manifest.reader_flags == Feature.DELETION_FILES | Feature.BASE_PATHS
    assert sorted(made.manifest.base_paths) == [1, 7]
    with pytest.raises(InvalidInput, match="already"):
        commit(made, ops.UpdateBases((BasePath("/other", "b", True),)))
    made = commit(made, ops.Append((new(version=(2, 1)),)))
    assert made.manifest.reader_flags & Feature.MIXED_FILE_VERSIONS
    made = commit(made.store, ops.Overwrite(SCHEMA, ()))
    both = Feature.MIXED_FILE_VERSIONS | Feature.BASE_PATHS
    assert made.manifest.reader_flags == made.manifest.writer_flags == both


def test_flags_that_we_do_not_know_are_not_written() -> None:
    made = table()
    message = copied(made.manifest)
    message.writer_feature_flags = 1 << 20
    made = edited(message, made)
    with pytest.raises(NotSupported, match="to be written"):
        commit(made, ops.Append(()))


def test_old_flags_and_unknown_fields_are_dropped() -> None:
    made = table()
    message = copied(made.manifest)
    message.writer_feature_flags = message.reader_feature_flags = int(Feature.V2_FORMAT | Feature.NO_TRANSACTION_FILE)
    message.MergeFromString(bytes.fromhex("9a0600"))  # field 99
    made = commit(edited(message, made), ops.Append(()))
    assert (made.manifest.reader_flags, made.manifest.writer_flags) == (0, 0)
    assert bytes.fromhex("9a0600") not in made.manifest.message.SerializeToString()


def test_field_ids() -> None:
    made = table()
    assert next_field_id(made.manifest) == 2
    wide = replace(SCHEMA, fields=(*SCHEMA.fields, replace(SCHEMA.fields[0], id=2, name="c")))
    more = tuple(replace(f, files=(*f.files, new(fields=(2,)).files[0])) for f in made.manifest.fragments)
    made = commit(made, ops.Merge(more, wide, True))
    assert next_field_id(made.manifest) == 3
    made = commit(made, ops.Project(SCHEMA, True))
    assert [len(fragment.files) for fragment in made.manifest.fragments] == [1, 1]
    assert next_field_id(made.manifest) == 2, "an id that nothing mentions is free again"
    message = copied(made.manifest)
    message.max_allocated_field_id = 9
    message.writer_feature_flags |= Feature.NON_REUSABLE_FIELD_IDS
    made = edited(message, made)
    assert next_field_id(made.manifest) == 10
    made = commit(made, ops.Append(()))
    assert made.manifest.max_allocated_field_id == 9
    assert made.manifest.writer_flags & Feature.NON_REUSABLE_FIELD_IDS
    wide = replace(wide, fields=(*SCHEMA.fields, replace(SCHEMA.fields[0], id=10, name="d")))
    made = commit(made, ops.Merge(tuple(made.manifest.fragments), wide, True))
    assert made.manifest.max_allocated_field_id == 10


def test_ids_are_given_again_on_a_retry() -> None:
    first = table(stable=True)
    second = commit(first, ops.Append((new(3),)))
    third = commit(first, ops.Append((new(2), new(5))))
    assert [fragment.id for fragment in third.manifest.fragments] == [0, 1, 2, 3, 4]
    ids = [read_row_ids(f, f.physical_rows or 0, "").slice(0, f.physical_rows or 0) for f in third.manifest.fragments]
    assert np.concatenate(ids).tolist() == list(range(18))
    assert third.manifest.next_row_id == 18
    versions = [read_created_at(f, f.physical_rows or 0, "").slice(0, 1).tolist() for f in third.manifest.fragments]
    assert versions == [[1], [1], [2], [3], [3]]
    assert second.version == 2


def test_moved_rows_keep_their_ids() -> None:
    made = table(stable=True)
    deletion = delete_rows(made, {0: [1, 2], 1: [3]})
    moved = replace(new(5), row_ids=encode_row_ids(np.array([7, 1, 2], np.uint64)))
    operation = ops.Update((), deletion.operation.updated_fragments, (moved,), (), (1,))
    after = commit(made, operation, affected_rows=deletion.affected_rows)
    fragment = after.manifest.fragments[2]
    assert read_row_ids(fragment, 5, "").slice(0, 5).tolist() == [7, 1, 2, 8, 9]
    assert read_created_at(fragment, 5, "").slice(0, 5).tolist() == [1, 1, 1, 2, 2]
    assert read_last_updated_at(fragment, 5, "").slice(0, 5).tolist() == [2] * 5
    assert after.manifest.next_row_id == 10


def test_stable_row_ids_need_ids_everywhere() -> None:
    made = table(stable=True)
    old = made.manifest.fragments[0]
    with pytest.raises(InvalidInput, match="no row ids"):
        commit(made, ops.Rewrite((ops.RewriteGroup((old,), (new(),)),)))
    plain = table()
    moved = replace(new(), row_ids=b"\n\x04\n\x02\x10\x04", created_at=b"", last_updated_at=b"")
    after = commit(plain, ops.Append((moved,)))
    assert after.manifest.fragments[2].row_ids is None


@pytest.mark.parametrize(
    "operation, reason",
    [
        (ops.Append((replace(new(), physical_rows=None),)), "how many rows"),
        (ops.Append((replace(new(), id=1),)), "cannot have the id 1"),
        (ops.Append((replace(new(), id=2**32),)), "cannot have the id"),
        (ops.Append((new(version=(0, 2)),)), "legacy"),
        (ops.Delete((replace(new(), id=9),), ()), "no fragment 9"),
        (ops.Rewrite((ops.RewriteGroup((replace(new(), id=9),), ()),)), "no fragment 9"),
        (ops.DataReplacement(((9, new().files[0]),)), "no fragment 9"),
        (ops.DataReplacement(((0, new().files[0]), (1, new(fields=(1,)).files[0]))), "same fields"),
        (ops.UpdateConfig(field_metadata={9: ops.MapEdits({"a": "b"})}), "no field with the id 9"),
        (ops.Overwrite(SCHEMA, (), {}, (BasePath("/x", None, True, 1),)), "base paths"),
        (ops.Clone(True, None, 1, "/x"), "first commit"),
    ],
)
def test_operations_that_make_no_sense(operation: ops.Operation, reason: str) -> None:
    made = table()
    before = sorted(made.store.list_names("_transactions"))
    with pytest.raises(InvalidInput, match=reason):
        commit(made, operation)
    assert open_snapshot(made.store).version == 1
    assert sorted(made.store.list_names("_transactions")) == before


def test_a_restored_version_must_have_row_ids() -> None:
    made = commit(table(), ops.Append(()))
    message = copied(made.manifest)
    message.reader_feature_flags |= Feature.STABLE_ROW_IDS
    message.writer_feature_flags |= Feature.STABLE_ROW_IDS
    for fragment in message.fragments:
        fragment.inline_row_ids = b"\n\x04\n\x02\x10\x04"
    with pytest.raises(InvalidInput, match="no stable row ids"):
        commit(edited(message, made), ops.Restore(1))


def test_indices_come_along_untouched() -> None:
    made = commit(table(), ops.CreateIndex((segment("x", 0, 1), segment("y", 0, fields=(1,), number=2))))
    before = [index.SerializeToString() for index in made.manifest.indices]
    made = commit(made, ops.Append((new(),)))
    made = commit(made, ops.UpdateConfig(ops.MapEdits({"a": "b"})))
    assert [index.SerializeToString() for index in made.manifest.indices] == before
    made = commit(made, ops.Project(replace(SCHEMA, fields=SCHEMA.fields[:1]), True))
    assert [index.name for index in made.manifest.indices] == ["x"]
    made = commit(made, ops.CreateIndex((), (segment("x"),)))
    assert not made.manifest.has_indices
    assert list(made.manifest.indices) == []


def test_segments_that_cover_nothing_go() -> None:
    segments = (segment("x", 0, number=1), segment("x", 1, number=2), segment("x", number=3), segment("y", number=4))
    made = commit(table(), ops.CreateIndex(segments))
    made = commit(made, ops.Delete((), (0,)))
    assert [(index.name, index.uuid.uuid[-1]) for index in made.manifest.indices] == [("x", 2), ("y", 4)]
    made = commit(made, ops.Delete((), (1,)))
    assert [(index.name, index.uuid.uuid[-1]) for index in made.manifest.indices] == [("x", 2), ("y", 4)]


def test_a_version_without_a_transaction_is_a_conflict() -> None:
    first = table()
    second = commit(first, ops.Append(()))
    message = copied(second.manifest)
    data = manifest_bytes(message, [], b"")
    path = ManifestName(2, NamingScheme.V2).path
    for what, unknown in (("missing", False), ("unknown", True)):
        if unknown:
            data = manifest_bytes(message, [], bytes.fromhex("a20700"))
            first.store.put(path, data)
        else:
            message.ClearField("transaction_section")
            message.ClearField("transaction_section_deprecated")
            message.transaction_file = "gone"
            body = message.SerializeToString()
            first.store.put(path, len(body).to_bytes(4, "little") + body + data[-16:].replace(data[-16:-8], bytes(8)))
        with pytest.raises(CommitConflict, match="transaction file" if what == "missing" else "does not know"):
            commit(first, ops.Append((new(),)))
        assert open_snapshot(first.store).version == 2


def cleaned(after: Callable[[Snapshot], Snapshot], *, base_too: bool = False) -> Snapshot:
    """The first version of a table; since then ``after`` came, then another one, and a cleanup removed the former."""
    first = table()
    second = after(first)
    commit(second, ops.ReserveFragments(1))
    for version in (1, 2) if base_too else (2,):
        first.store.delete(ManifestName(version, NamingScheme.V2).path)
    return first


APPENDED: Callable[[Snapshot], Snapshot] = lambda s: commit(s, ops.Append((new(),)))  # noqa: E731
RENAMED = Schema(tuple(replace(field, name=f"{field.name}2") for field in SCHEMA.fields))
INDEPENDENT = {
    "append": ops.Append((new(),)),
    "overwrite": ops.Overwrite(SCHEMA, (new(),)),
    "config": ops.UpdateConfig(ops.MapEdits({"a": "1"})),
    "metadata": ops.UpdateConfig(table_metadata=ops.MapEdits({"a": "1"}, replace=True)),
    "schema metadata": ops.UpdateConfig(schema_metadata=ops.MapEdits({"a": "1"})),
    "field metadata": ops.UpdateConfig(field_metadata={0: ops.MapEdits({"a": "1"})}),
    "rename": ops.Project(RENAMED, preserves_nullability=True),
    "bases": ops.UpdateBases((BasePath("/elsewhere", "b", False),)),
    "reserve": ops.ReserveFragments(3),
}


@pytest.mark.parametrize("base_too", [False, True])
@pytest.mark.parametrize("name", INDEPENDENT)
def test_versions_that_were_cleaned_up_do_not_matter(name: str, base_too: bool) -> None:
    first = cleaned(APPENDED, base_too=base_too)
    assert commit(first, INDEPENDENT[name]).version == 4
    fragments = open_snapshot(first.store).manifest.fragments.ids.tolist()
    assert fragments == {"append": [0, 1, 2, 4], "overwrite": [4]}.get(name, [0, 1, 2])


@pytest.mark.parametrize(
    ("operation", "between"),
    [
        (ops.Append((new(),)), ops.Project(RENAMED, preserves_nullability=True)),
        (ops.Overwrite(SCHEMA, ()), ops.Overwrite(SCHEMA, (new(),))),
        (ops.Overwrite(SCHEMA, (), {"a": "1"}), ops.UpdateConfig(ops.MapEdits({"a": "2"}))),
        (INDEPENDENT["config"], ops.UpdateConfig(ops.MapEdits({"a": "2"}))),
        (INDEPENDENT["metadata"], ops.UpdateConfig(table_metadata=ops.MapEdits({"b": "2"}))),
        (INDEPENDENT["schema metadata"], ops.UpdateConfig(schema_metadata=ops.MapEdits({"a": "2"}))),
        (INDEPENDENT["field metadata"], ops.UpdateConfig(field_metadata={0: ops.MapEdits({"b": "2"})})),
        (INDEPENDENT["rename"], ops.Project(Schema(SCHEMA.fields[:1]), preserves_nullability=True)),
        (ops.Project(RENAMED), ops.Append((new(),))),
        (INDEPENDENT["bases"], ops.UpdateBases((BasePath("/other", "c", False),))),
        (ops.Delete((), (0,)), ops.Append(())),
        (ops.Merge((), SCHEMA), ops.Append(())),
        (ops.Rewrite(()), ops.Append(())),
    ],
)
def test_what_may_matter_is_made_again(operation: ops.Operation, between: ops.Operation) -> None:
    first = cleaned(lambda snapshot: commit(snapshot, between))
    with pytest.raises(RetryableCommitConflict, match="version 2 was committed and removed"):
        commit(first, operation)
    assert open_snapshot(first.store).version == 3


def test_a_version_that_was_cleaned_up_may_have_been_ours() -> None:
    first = table()
    commit(commit(first, ops.Append((new(),)), uuid="ours"), ops.Append(()))
    first.store.delete(ManifestName(2, NamingScheme.V2).path)
    with pytest.raises(RetryableCommitConflict):
        commit(first, ops.Append((new(),)), uuid="ours")


class Busy(LocalStore):
    """Somebody else is faster, so many times."""

    __slots__ = ("losses",)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if path.endswith(".manifest") and next(self.losses, None) is not None:
            other = LocalStore(self.uri)
            commit(other, ops.Append(()), read_version=open_snapshot(other).version)
        return super().put_if_absent(path, data)


def busy(folder: Path, losses: int) -> Busy:
    table(store=LocalStore(folder))
    store = Busy(folder)
    store.losses = iter(range(losses))
    return store


def test_a_commit_gives_up(tmp_path: Path) -> None:
    with pytest.raises(CommitConflict, match="other writers were faster 4 times"):
        commit(busy(tmp_path, 1000), ops.Append((new(),)), read_version=1, retries=3)
    assert open_snapshot(tmp_path).version == 5
    names = list(LocalStore(tmp_path).list_names("_transactions"))
    assert len(names) == 5, "the transaction file of the one that gave up is gone"


def test_a_commit_does_not_give_up_before_its_time(tmp_path: Path) -> None:
    """However often others are faster; and the more often they are, the less it waits."""
    clock, waits = itertools.count(), []
    pace = Pace(lambda: next(clock) / 1000, waits.append, random.Random(0))
    assert commit(busy(tmp_path, 60), ops.Append((new(),)), read_version=1, pace=pace).version == 62
    assert len(waits) == 60
    assert max(waits[:10]) > max(waits[10:20]) > max(waits[40:])
    assert len(list(LocalStore(tmp_path).list_names("_transactions"))) == 62


def test_a_commit_gives_up_when_its_time_is_over(tmp_path: Path) -> None:
    clock = itertools.count()
    pace = Pace(lambda: float(next(clock)), lambda seconds: None)
    with pytest.raises(CommitConflict, match="other writers were faster"):
        commit(busy(tmp_path, 1000), ops.Append((new(),)), read_version=1, timeout=100, pace=pace)
    assert 10 < open_snapshot(tmp_path).version < 100


def test_dictionaries_of_legacy_tables(tmp_path: Path) -> None:
    """Their values are in the manifest file, so the next one must have them too."""
    uri = str(tmp_path / "t")
    values = pa.array(["a", "b", "a", None]).dictionary_encode()
    lance.write_dataset(pa.table({"d": values, "k": range(4)}), uri, data_storage_version="legacy")
    expected = lancelet.dataset(uri).to_table()
    made = commit(open_snapshot(uri), ops.UpdateConfig(ops.MapEdits({"a": "b"})))
    made = commit(made, ops.UpdateConfig(ops.MapEdits({"a": "c"})))
    assert lancelet.dataset(uri).to_table() == expected
    assert lance.dataset(uri).to_table().to_pydict() == expected.to_pydict()
    assert made.manifest.message.index_section == 0


def test_written_files() -> None:
    store = memory()
    store.put("a", b"1")
    files = WrittenFiles(store)

    def interrupted() -> None:
        with files:
            files.add("a")
            files.add("never written")
            files.hold()
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert store.exists("a"), "a commit may refer to it"
    files.release()
    files.remove()
    assert not store.exists("a")


def test_commits_on_a_branch(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(pa.table({"k": [1, 2, 3]}), uri)
    dataset.create_branch("dev")
    branch = open_snapshot(uri, ("dev", None))
    deletion = delete_rows(branch, {0: [0]})
    after = commit(branch, deletion.operation, affected_rows=deletion.affected_rows)
    assert (after.version, after.manifest.branch) == (2, "dev")
    assert lance.dataset(uri).checkout_version(("dev", 2)).to_table()["k"].to_pylist() == [2, 3]
    assert open_snapshot(uri).version == 1
    assert (tmp_path / "t/tree/dev/_versions/latest_version_hint.json").read_bytes() == b'{"version":2}'
