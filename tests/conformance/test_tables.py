"""Tables written by pylance: versions, fragments, deletions, row ids, tags, branches and clones agree with it."""

from __future__ import annotations

import ast
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from conftest import Bucket
from lancelet.errors import (
    CorruptFile,
    InvalidInput,
    MissingFile,
    NotFound,
    NotSupported,
    RefNotFound,
    TableNotFound,
    VersionNotFound,
)
from lancelet.index.metadata import read_indices
from lancelet.store import open_store
from lancelet.table.manifest import flags
from lancelet.table.manifest.fragment import Spilled
from lancelet.table.manifest.names import NamingScheme
from lancelet.table.manifest.overlay import overlay_patches
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from lancelet.table.manifest.versions import latest_version, list_versions
from lancelet.table.refs.read import list_branches, list_tags, read_branch, read_tag
from lancelet.table.rows.addresses import row_addresses, split_addresses
from lancelet.table.rows.deletions import read_deletions
from lancelet.table.rows.row_id_index import build_row_id_index
from lancelet.table.rows.row_ids import read_created_at, read_last_updated_at, read_row_ids

FIXTURES = Path(__file__).parents[2] / ".." / "shared" / "fixtures" / "historical"
SYSTEM = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"k": range(start, stop), "v": [f"v{i}" for i in range(start, stop)]})


def write(path: Path, start: int = 0, stop: int = 100, **options: object) -> lance.LanceDataset:
    options.setdefault("max_rows_per_file", 40)
    return lance.write_dataset(rows(start, stop), str(path), **options)


def addresses(snapshot: Snapshot) -> np.ndarray:
    """Addresses of the live rows, from our metadata alone."""
    parts = [np.empty(0, np.uint64)]
    for fragment in snapshot.manifest.fragments:
        live = np.flatnonzero(read_deletions(snapshot.places, fragment).keep(0, fragment.physical_rows))
        parts.append(row_addresses(fragment.id, live))
    return np.concatenate(parts)


def system_columns(snapshot: Snapshot) -> dict[str, list[int]]:
    """Stable row ids, addresses and versions of the live rows, from our metadata alone."""
    result: dict[str, list[int]] = {name: [] for name in SYSTEM}
    path = snapshot.manifest.path
    for fragment in snapshot.manifest.fragments:
        count = fragment.physical_rows
        live = np.flatnonzero(read_deletions(snapshot.places, fragment).keep(0, count))
        readers = (read_row_ids, read_created_at, read_last_updated_at)
        ids, created, updated = (read(fragment, count, path) for read in readers)
        for sequence in (ids, created, updated):
            assert len(sequence) == count
            assert np.array_equal(sequence.slice(0, count)[live], sequence.take(live))
        for name, values in zip(
            SYSTEM,
            (ids.take(live), row_addresses(fragment.id, live), created.take(live), updated.take(live)),
            strict=True,
        ):
            result[name] += values.tolist()
    return result


def assert_same_state(path: Path, version: int | None = None) -> Snapshot:
    theirs = lance.dataset(str(path), version=version)
    ours = open_snapshot(path, version)
    manifest = ours.manifest
    assert ours.version == theirs.version
    assert manifest.schema.to_arrow() == theirs.schema
    assert manifest.data_storage_version == theirs.data_storage_version
    assert [f.id for f in manifest.fragments] == [f.fragment_id for f in theirs.get_fragments()]
    assert manifest.fragments.ids.tolist() == [f.fragment_id for f in theirs.get_fragments()]
    for mine, other in zip(manifest.fragments, theirs.get_fragments(), strict=True):
        assert mine.physical_rows == other.physical_rows
        assert mine.num_deletions == other.num_deletions
        assert [f.path for f in mine.files] == [f.path for f in other.metadata.files]
        assert [list(f.fields) for f in mine.files] == [list(f.fields) for f in other.metadata.files]
    assert int(manifest.fragments.row_counts.sum()) == theirs.count_rows()
    columns = SYSTEM if manifest.has_stable_row_ids else SYSTEM[:2]
    expected = theirs.scanner(columns=columns).to_table().to_pydict()
    if manifest.has_stable_row_ids:
        assert system_columns(ours) == expected
    else:
        assert addresses(ours).tolist() == expected["_rowid"] == expected["_rowaddr"]
    return ours


def test_an_empty_table(tmp_path: Path) -> None:
    lance.write_dataset(rows(0, 0), str(tmp_path / "t"))
    snapshot = open_snapshot(tmp_path / "t")
    assert len(snapshot.manifest.fragments) == 0
    assert snapshot.manifest.max_fragment_id is None


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_appends_and_deletions_of_both_kinds(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t"
    dataset = lance.write_dataset(rows(0, 20_000), str(path), max_rows_per_file=12_000, data_storage_version=version)
    dataset.delete("k % 7 = 3 and k < 300")
    assert not assert_same_state(path).manifest.fragments[0].deletion_file.is_bitmap
    dataset.delete("k % 2 = 1")
    snapshot = assert_same_state(path)
    assert snapshot.manifest.fragments[0].deletion_file.is_bitmap
    lance.write_dataset(rows(20_000, 20_010), str(path), mode="append")
    dataset = lance.dataset(str(path))
    dataset.delete("k >= 12000 and k < 20000")
    for number in range(1, dataset.latest_version + 1):
        assert_same_state(path, number)


def test_schema_evolution_keeps_files_and_fields_apart(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path)
    dataset.add_columns({"w": "k * 2"})
    dataset.drop_columns(["v"])
    dataset.alter_columns({"path": "k", "name": "key"})
    dataset.add_columns(pa.field("empty", pa.int32()))
    snapshot = assert_same_state(path)
    names = {field.name: field.id for field in snapshot.manifest.schema.walk()}
    fragment = snapshot.manifest.fragments[0]
    assert fragment.locate(names["key"]).file == 0
    assert fragment.locate(names["w"]).file == 1
    assert fragment.locate(names["empty"]) is None
    assert all(fragment.columns()[number] == fragment.locate(number) for number in fragment.columns())


def test_tombstones_are_not_columns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path)
    update = pa.table({"k": pa.array([1, 2]), "v": ["one", "two"]})
    fragment = dataset.get_fragment(0)
    changed, fields = fragment.update_columns(update, left_on="k", right_on="k")
    operation = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    lance.LanceDataset.commit(str(path), operation, read_version=dataset.version)
    snapshot = assert_same_state(path)
    mine = snapshot.manifest.fragments[0]
    assert -2 in mine.files[0].fields
    assert -2 not in mine.columns()
    value = next(f.id for f in snapshot.manifest.schema.walk() if f.name == "v")
    assert mine.locate(value).file == 1


def stable(path: Path) -> lance.LanceDataset:
    dataset = write(path, enable_stable_row_ids=True)
    dataset.delete("k % 10 = 3")
    dataset.update({"v": "'new'"}, where="k % 25 = 5")
    source = pa.table({"k": [7, 8, 500, 501], "v": ["a", "b", "c", "d"]})
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(source)
    lance.write_dataset(rows(1000, 1020), str(path), mode="append")
    return lance.dataset(str(path))


def test_stable_row_ids_through_every_operation(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = stable(path)
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    dataset.delete("k % 13 = 1")
    dataset.update({"v": "'newer'"}, where="k < 20")
    for number in range(1, dataset.latest_version + 1):
        snapshot = assert_same_state(path, number)
    manifest = snapshot.manifest
    index = build_row_id_index(
        (
            (
                fragment.id,
                read_row_ids(fragment, fragment.physical_rows, manifest.path),
                read_deletions(snapshot.places, fragment),
            )
            for fragment in manifest.fragments
        ),
        manifest.path,
    )
    expected = dataset.scanner(columns=["_rowid", "_rowaddr"]).to_table()
    found, known = index.lookup(expected["_rowid"].to_numpy())
    assert known.all()
    assert np.array_equal(found, expected["_rowaddr"].to_numpy())
    assert len(index) == dataset.count_rows()
    every = np.arange(manifest.next_row_id + 10, dtype=np.uint64)
    _, known = index.lookup(every)
    assert np.array_equal(every[known], np.sort(expected["_rowid"].to_numpy()))


def test_an_untouched_table_needs_one_run_a_fragment(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, stop=10_000, max_rows_per_file=2_500, enable_stable_row_ids=True)
    snapshot = open_snapshot(path)
    manifest = snapshot.manifest
    index = build_row_id_index(
        (
            (
                fragment.id,
                read_row_ids(fragment, fragment.physical_rows, manifest.path),
                read_deletions(snapshot.places, fragment),
            )
            for fragment in manifest.fragments
        ),
        manifest.path,
    )
    assert len(index.starts) == 4
    assert index.nbytes == 4 * 24


def test_spilled_row_lineage_is_a_hidden_column(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path, stop=3000, max_rows_per_file=1000, enable_stable_row_ids=True)
    dataset.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"})
    dataset.delete("k % 3 = 1 or k % 7 = 2")
    dataset.update({"v": "'x'"}, where="k % 5 = 0")
    dataset.optimize.compact_files(target_rows_per_fragment=10_000)
    fragments = open_snapshot(path).manifest.fragments
    spilled = [fragment for fragment in fragments if fragment.row_ids is Spilled.COLUMN]
    assert spilled
    for fragment in spilled:
        assert fragment.locate(-3) is not None
        with pytest.raises(CorruptFile, match="in a column"):
            read_row_ids(fragment, fragment.physical_rows, "m")


def test_old_names_of_manifests(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, enable_v2_manifest_paths=False)
    for start in range(100, 1200, 100):
        lance.write_dataset(rows(start, start + 10), str(path), mode="append")
    store = open_store(path)
    assert latest_version(store).scheme is NamingScheme.V1
    assert [name.version for name in list_versions(store)] == list(range(1, 13))
    assert_same_state(path)
    assert_same_state(path, 3)
    lance.dataset(str(path)).migrate_manifest_paths_v2()
    assert latest_version(store).scheme is NamingScheme.V2
    assert_same_state(path)


def test_both_names_of_manifests_at_once_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path)
    manifest = next((path / "_versions").glob("*.manifest"))
    shutil.copy(manifest, path / "_versions" / "2.manifest")
    with pytest.raises(CorruptFile, match="both naming schemes"):
        open_snapshot(path)


@pytest.mark.parametrize("hint", ['{"version":1}', '{"version":77}', "nonsense"])
def test_the_version_hint_is_not_believed(tmp_path: Path, hint: str) -> None:
    path = tmp_path / "t"
    write(path)
    write(path, mode="append")
    (path / "_versions" / "latest_version_hint.json").write_text(hint)
    assert open_snapshot(path).version == 2


def test_opening_lists_once_and_reads_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for _ in range(5):
        write(path, mode="append")
    store = open_store(path)
    open_snapshot(store)
    assert (store.counters.lists, store.counters.requests) == (1, 1)
    store.counters.reset()
    open_snapshot(store, 3)
    assert (store.counters.lists, store.counters.requests) == (0, 1)


def test_opening_on_an_object_store_lists_once_and_reads_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for _ in range(5):
        write(path, mode="append")
    store = open_store(f"memory://{tmp_path.name}/t")
    for entry in open_store(path).list_objects():
        store.put(entry.path, (path / entry.path).read_bytes())
    store.counters.reset()
    snapshot = open_snapshot(store)
    assert snapshot.version == 5
    assert (store.counters.lists, store.counters.requests) == (1, 1)
    assert [name.version for name in list_versions(store)] == [1, 2, 3, 4, 5]


def test_detached_versions_open_but_are_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path)
    fragment = lance.fragment.LanceFragment.create(str(path), rows(0, 10))
    operation = lance.LanceOperation.Append([fragment])
    detached = lance.LanceDataset.commit(str(path), operation, read_version=dataset.version, detached=True)
    assert detached.version >= 2**63
    assert [name.version for name in list_versions(open_store(path))] == [1]
    assert open_snapshot(path).version == 1
    opened = open_snapshot(path, detached.version)
    assert opened.version == detached.version
    assert int(opened.manifest.fragments.row_counts.sum()) == 110


def test_config_metadata_and_transaction(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path)
    dataset.update_config({"a": "1", "lance.auto_cleanup.interval": "20"})
    dataset.update_metadata({"owner": "me"})
    dataset.update_schema_metadata({"note": "grün"}, replace=True)
    manifest = open_snapshot(path).manifest
    assert dict(manifest.config) == lance.dataset(str(path)).config()
    assert dict(manifest.table_metadata) == {"owner": "me"}
    assert manifest.schema.metadata == {"note": "grün"}
    assert manifest.transaction.WhichOneof("operation") == "update_config"
    assert manifest.transaction.read_version == 3
    assert manifest.writer_version.library == "lance"
    versions = lance.dataset(str(path)).versions()
    mine = [open_snapshot(path, entry["version"]).manifest for entry in versions]
    assert [m.timestamp.astimezone().replace(tzinfo=None) for m in mine] == [entry["timestamp"] for entry in versions]


def test_the_transaction_is_found_in_its_file_too(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path)
    manifest = open_snapshot(path).manifest
    inline = manifest.transaction
    manifest = open_snapshot(path).manifest
    manifest.message.ClearField("transaction_section")
    manifest.message.ClearField("transaction_section_deprecated")
    assert manifest.transaction == inline
    assert inline.WhichOneof("operation") == "overwrite"


def test_index_metadata(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path)
    dataset.create_scalar_index("k", "BTREE")
    write(path, mode="append")
    (index,) = read_indices(open_snapshot(path).manifest)
    (theirs,) = lance.dataset(str(path)).describe_indices()
    (segment,) = theirs.segments
    assert str(index.uuid) == segment.uuid
    assert index.name == theirs.name
    assert index.fragment_ids == set(segment.fragment_ids)
    assert index.type_name == "BTreeIndexDetails"
    assert index.created_at is not None
    assert {file.path for file in index.files} == {p.name for p in (path / "_indices" / segment.uuid).iterdir()}
    snapshot = open_snapshot(path)
    for file in index.files:
        place = snapshot.places.index_file(str(index.uuid), file.path, index.base_id)
        assert place.store.size_of(place.path) == file.size


def test_as_of(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for _ in range(3):
        write(path, mode="append")
    second = open_snapshot(path, 2).manifest.timestamp
    third = open_snapshot(path, 3).manifest.timestamp
    assert open_snapshot(path, asof=third).version == 2
    assert open_snapshot(path, asof=third + timedelta(microseconds=1)).version == 3
    assert open_snapshot(path, asof=second.astimezone().replace(tzinfo=None)).version == 1
    assert open_snapshot(path, asof=datetime.now(timezone.utc) + timedelta(days=1)).version == 3
    with pytest.raises(NotFound, match="earlier than the first version"):
        open_snapshot(path, asof=datetime(2000, 1, 1))


def test_tags(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path)
    write(path, mode="append")
    dataset = lance.dataset(str(path))
    dataset.tags.create("first", 1)
    dataset.tags.create("v1.0-rc_1", 2)
    root = open_store(path)
    theirs = dataset.tags.list()
    assert {tag.name: (tag.version, tag.branch, tag.manifest_size, tag.created_at) for tag in list_tags(root)} == {
        name: (entry["version"], entry["branch"], entry["manifest_size"], entry["created_at"])
        for name, entry in theirs.items()
    }
    assert open_snapshot(path, "first").version == 1
    assert open_snapshot(path).at("v1.0-rc_1").version == 2
    with pytest.raises(RefNotFound, match="tag nope does not exist"):
        open_snapshot(path, "nope")
    for name in ("", "../x", "a/b", ".a", "a..b", "x.lock"):
        with pytest.raises(InvalidInput):
            read_tag(root, name)


def test_branches_and_their_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path)
    dataset.delete("k < 5")
    branch = dataset.create_branch("dev/x")
    lance.write_dataset(rows(200, 220), branch, mode="append")
    branch = dataset.checkout_version(("dev/x", None))
    branch.delete("k = 50 or k = 210")
    branch.tags.create("on-branch", ("dev/x", 3))
    branch.create_branch("other")
    root = open_store(path)
    theirs = dataset.branches.list()
    assert {
        b.name: (b.parent_branch, b.parent_version, b.created_at, b.manifest_size) for b in list_branches(root)
    } == {
        name: (entry["parent_branch"], entry["parent_version"], entry["create_at"], entry["manifest_size"])
        for name, entry in theirs.items()
    }
    assert [list(pair) for pair in read_branch(root, "other").identifier] == [
        list(pair) for pair in theirs["other"]["branch_identifier"]
    ]
    opened = open_snapshot(path, ("dev/x", None))
    expected = dataset.checkout_version(("dev/x", None))
    assert opened.version == expected.version == 4
    assert opened.manifest.branch == "dev/x"
    assert addresses(opened).tolist() == expected.scanner(columns=["_rowaddr"]).to_table()["_rowaddr"].to_pylist()
    for fragment in opened.manifest.fragments:
        for file in fragment.files:
            place = opened.places.data_file(file)
            assert place.open(file.size).size == file.size
    assert open_snapshot(path, "on-branch").version == 3
    by_folder = open_snapshot(path / "tree" / "dev" / "x")
    assert by_folder.root.uri == root.uri
    assert by_folder.at("on-branch").manifest.branch == "dev/x"
    assert by_folder.at((None, 1)).manifest.branch is None
    assert open_snapshot(path / "tree" / "dev" / "x", "on-branch").version == 3
    assert opened.at((None, None)).version == 2
    with pytest.raises(RefNotFound, match="branch nope does not exist"):
        open_snapshot(path, ("nope", None))
    with pytest.raises(VersionNotFound):
        open_snapshot(path, ("dev/x", 99))
    shutil.rmtree(path / "tree" / "other")
    with pytest.raises(CorruptFile, match="its versions are gone"):
        open_snapshot(path, ("other", None))
    for name in ("main", "a//b", "/a", "a/", "a/../b", "a\\b", "a.lock"):
        with pytest.raises(InvalidInput):
            read_branch(root, name)


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone"])
def test_clones(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "t"
    dataset = write(source)
    dataset.delete("k % 9 = 0")
    target = tmp_path / "clone"
    getattr(dataset, kind)(str(target), dataset.version)
    clone = lance.dataset(str(target))
    clone.delete("k % 11 = 0")
    lance.write_dataset(rows(300, 310), str(target), mode="append")
    snapshot = open_snapshot(target)
    expected = lance.dataset(str(target)).scanner(columns=["_rowaddr"]).to_table()["_rowaddr"].to_pylist()
    assert addresses(snapshot).tolist() == expected
    folders = {
        str(Path(snapshot.places.data_file(file).full_path).parent)
        for fragment in snapshot.manifest.fragments
        for file in fragment.files
    }
    assert folders == (
        {str(source / "data"), str(target / "data")} if kind == "shallow_clone" else {str(target / "data")}
    )


def test_a_snapshot_can_be_pickled(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path)
    dataset.delete("k < 3")
    dataset.create_scalar_index("k", "BTREE")
    snapshot = open_snapshot(path)
    again = pickle.loads(pickle.dumps(snapshot))
    assert again.version == snapshot.version
    assert list(again.manifest.fragments) == list(snapshot.manifest.fragments)
    assert read_indices(again.manifest) == read_indices(snapshot.manifest)
    assert addresses(again).tolist() == addresses(snapshot).tolist()
    fragment = snapshot.manifest.fragments[0]
    assert pickle.loads(pickle.dumps(fragment)) == fragment


def test_what_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(TableNotFound, match="was not found"):
        open_snapshot(path)
    dataset = write(path)
    with pytest.raises(VersionNotFound, match="from 1 to 1"):
        open_snapshot(path, 99)
    with pytest.raises(VersionNotFound):
        open_snapshot(path, -1)
    with pytest.raises(InvalidInput):
        open_snapshot(path, True)
    dataset.delete("k < 3")
    shutil.rmtree(path / "_deletions")
    snapshot = open_snapshot(path)
    with pytest.raises(MissingFile):
        read_deletions(snapshot.places, snapshot.manifest.fragments[0])


def test_many_fragments_open_without_building_them(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = write(path, stop=10)
    (one,) = (fragment.metadata for fragment in dataset.get_fragments())
    copies = [one for _ in range(3000)]
    lance.LanceDataset.commit(str(path), lance.LanceOperation.Append(copies), read_version=1)
    snapshot = open_snapshot(path)
    assert snapshot.manifest.size > 64 << 10
    assert not snapshot.manifest.fragments._built
    assert len(snapshot.manifest.fragments) == 3001
    assert int(snapshot.manifest.fragments.row_counts.sum()) == 30_010
    assert not snapshot.manifest.fragments._built
    assert snapshot.manifest.fragments.by_id(3000).id == 3000
    assert snapshot.manifest.transaction.append.fragments[0].physical_rows == 10


historical = pytest.mark.skipif(not FIXTURES.is_dir(), reason="the historical tables are not part of the project")


@historical
@pytest.mark.parametrize(
    "table, version, files, live",
    [
        ("v0.7.5/with_deletions", 2, "0.1", [-1]),
        ("v0.8.0/migrated_from_v0.7.5", 3, "0.1", [-1, -1]),
        ("v0.10.5/corrupt_schema", 6, "0.1", [2, 2]),
        ("v0.13.0/string_encoding.lance", 1, "2.0", [3]),
        ("v0.15.0/v1_with_files.lance", 1, "0.1", [3]),
        ("v0.15.0/v2_with_files.lance", 1, "2.0", [3]),
        ("v0.16.0/wrong_data_version_can_fix.lance", 2, "2.0", [1, 1, 1]),
        ("v0.16.0/wrong_data_version_no_fix.lance", 2, "0.1", [1, 1, 1, 1]),
        ("v0.20.0/old_btree_bitmap_indices.lance", 3, "2.0", [4]),
    ],
)
def test_historical_tables(table: str, version: int, files: str, live: list[int]) -> None:
    snapshot = open_snapshot(FIXTURES / table)
    theirs = lance.dataset(str(FIXTURES / table))
    manifest = snapshot.manifest
    assert snapshot.version == version == theirs.version
    assert manifest.data_storage_version == files
    # pylance notices with the next commit only that the files are of another version than the table.
    assert theirs.data_storage_version == files or manifest.mended
    assert manifest.fragments.row_counts.tolist() == live
    assert manifest.fragments.ids.tolist() == [f.fragment_id for f in theirs.get_fragments()]
    for mine, other in zip(manifest.fragments, theirs.get_fragments(), strict=True):
        deleted = read_deletions(snapshot.places, mine, other.physical_rows)
        assert len(deleted) == other.num_deletions
        assert mine.physical_rows in (None, other.physical_rows)
    assert [index.name for index in read_indices(manifest)] == [entry.name for entry in theirs.describe_indices()]


@historical
def test_the_last_file_has_a_field_whose_id_was_given_twice() -> None:
    """Fields 2 and 3 were columns that are gone, then those of today: these get the ids that pylance gives them."""
    manifest = open_snapshot(FIXTURES / "v0.10.5" / "corrupt_schema").manifest
    assert [field.id for field in manifest.schema.fields] == [0, 1, 4, 5]
    assert [manifest.fragments[0].locate(number).file for number in (0, 1, 4, 5)] == [0, 1, 2, 2]
    assert [manifest.fragments[1].locate(number).file for number in (0, 1, 4, 5)] == [0, 0, 1, 1]


def test_addresses_split_and_join() -> None:
    offsets = np.array([0, 5, 2**32 - 1])
    fragments, again = split_addresses(row_addresses(2**32 - 1, offsets))
    assert fragments.tolist() == [2**32 - 1] * 3
    assert np.array_equal(again, offsets)


def test_a_table_with_branches_on_s3(bucket: Bucket) -> None:
    uri = f"{bucket.uri}/some/table"
    dataset = lance.write_dataset(rows(0, 100), uri, max_rows_per_file=40, storage_options=bucket.options)
    dataset.delete("k % 9 = 4")
    dataset.tags.create("t", 2)
    branch = dataset.create_branch("dev/x")
    branch.delete("k = 50")
    store = open_store(uri, bucket.options)
    store.counters.reset()
    snapshot = open_snapshot(store)
    assert (store.counters.lists, store.counters.requests) == (1, 1)
    assert addresses(snapshot).tolist() == dataset.scanner(columns=["_rowaddr"]).to_table()["_rowaddr"].to_pylist()
    assert [tag.name for tag in list_tags(store)] == ["t"]
    assert [branch.name for branch in list_branches(store)] == ["dev/x"]
    opened = open_snapshot(uri, ("dev/x", None), storage_options=bucket.options)
    assert opened.version == 3
    assert addresses(opened).tolist() == branch.scanner(columns=["_rowaddr"]).to_table()["_rowaddr"].to_pylist()
    file = opened.manifest.fragments[0].files[0]
    place = opened.places.data_file(file)
    assert place.full_path == f"{uri}/data/{file.path}"
    assert place.open(file.size).read([(file.size - 4, 4)])[0].tobytes() == b"LANC"
    with pytest.raises(TableNotFound):
        open_snapshot(f"{bucket.uri}/nowhere", storage_options=bucket.options)


OVERLAYS = """
    import sys
    import lance, pyarrow as pa
    from lance.file import LanceFileWriter
    path = sys.argv[1]
    dataset = lance.write_dataset(pa.table({"a": range(8), "b": range(8)}), path)

    def overlay(name, column, offsets, values):
        schema = pa.schema([pa.field(column, pa.int64())])
        with LanceFileWriter(f"{path}/data/{name}", schema, version="2.2") as writer:
            writer.write_batch(pa.table({column: values}, schema=schema))
        field = {"a": 0, "b": 1}[column]
        file = lance.fragment.DataFile(name, [field], [0], 2, 2)
        return lance.LanceOperation.DataOverlayFile(file, offsets)

    def commit(*overlays):
        global dataset
        group = lance.LanceOperation.DataOverlayGroup(0, list(overlays))
        operation = lance.LanceOperation.DataOverlay([group])
        dataset = lance.LanceDataset.commit(path, operation, read_version=dataset.version)

    commit(overlay("o1.lance", "b", [1, 3], [100, 300]), overlay("o2.lance", "b", [3, 5], [301, 500]))
    commit(overlay("o3.lance", "a", [0], [-1]), overlay("o4.lance", "b", [1, 2, 5], [101, 200, 501]))
    print(dataset.to_table().to_pydict())
"""


def test_the_newest_overlay_of_a_cell_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OVERLAYS), str(path)],
        env={**os.environ, "LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    expected = ast.literal_eval(result.stdout)
    with pytest.raises(NotSupported, match="OVERLAY_FILES"):
        open_snapshot(path)
    monkeypatch.setattr(flags, "READABLE", flags.READABLE | flags.Feature.OVERLAY_FILES)
    (fragment,) = open_snapshot(path).manifest.fragments
    values = {"o1.lance": [100, 300], "o2.lance": [301, 500], "o3.lance": [-1], "o4.lance": [101, 200, 501]}
    for field_id, name in enumerate("ab"):
        column = list(range(8))
        for patch in overlay_patches(fragment, field_id, 8, "manifest"):
            for row, position in zip(patch.rows.tolist(), patch.positions.tolist(), strict=True):
                column[row] = values[patch.file.path][position]
        assert column == expected[name]
    with pytest.raises(CorruptFile, match="covers row 5 of 4"):
        overlay_patches(fragment, 1, 4, "manifest")
