"""Commits against pylance: each of its transactions, committed by us, makes the manifest that it made.

A history is written by pylance. Then every version of it is committed again on a copy of the table that ends one
version earlier, with the operation as pylance recorded it; the two manifests must say the same. Afterwards pylance
goes on with the table that we left.
"""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation

import lancelet
from lancelet.errors import TableExists
from lancelet.format.proto import table_pb2
from lancelet.store import open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.index_upkeep import MEM_WAL_INDEX
from lancelet.table.commit.run import clone, commit, create
from lancelet.table.commit.transactions import transaction_from_proto
from lancelet.table.manifest import flags
from lancelet.table.manifest.manifest import Manifest
from lancelet.table.manifest.names import NamingScheme
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from lancelet.table.manifest.versions import list_versions, read_version

History = Callable[[str, bool], None]


def table(start: int, stop: int) -> pa.Table:
    rows = range(start, stop)
    return pa.table(
        {
            "k": pa.array(rows, pa.int64()),
            "s": pa.array([f"text {row % 7}" for row in rows], pa.string()),
            "v": pa.array([[row, row + 0.5] for row in rows], pa.list_(pa.float32(), 2)),
        }
    )


def start(uri: str, stable: bool) -> lance.LanceDataset:
    lance.write_dataset(table(0, 40), uri, max_rows_per_file=20, enable_stable_row_ids=stable)
    return lance.write_dataset(table(40, 60), uri, mode="append")


def appends(uri: str, stable: bool) -> None:
    dataset = start(uri, stable)
    lance.write_dataset(table(60, 60), uri, mode="append")
    lance.write_dataset(table(60, 65).select(["s", "k"]), uri, mode="append")
    lance.write_dataset(table(0, 5), uri, mode="overwrite")
    lance.write_dataset(table(5, 9).select(["k"]), uri, mode="overwrite")
    assert dataset is not None


def deletes(uri: str, stable: bool) -> None:
    dataset = start(uri, stable)
    dataset.create_scalar_index("k", "BTREE")
    dataset.delete("k < 3")
    dataset.delete("k < 25")
    dataset.delete("k = -1")
    dataset.delete("k >= 40")
    dataset.delete("true")
    lance.write_dataset(table(0, 5), uri, mode="append")


def updates(uri: str, stable: bool) -> None:
    dataset = start(uri, stable)
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    dataset.update({"s": "'new'"}, where="k % 10 = 3")
    dataset.update({"k": "k + 1000"}, where="k < 20")
    dataset.update({"s": "'none'"}, where="k = -5")
    dataset = lance.dataset(uri)
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(table(38, 64))
    dataset.merge_insert("k").when_not_matched_insert_all().execute(table(60, 70))
    dataset.merge_insert("k").when_not_matched_by_source_delete().execute(table(30, 70))
    dataset.update({"s": "'again'"}, where="k < 1010")
    dataset.delete("s = 'again'")


def schemas(uri: str, stable: bool) -> None:
    dataset = start(uri, stable)
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    dataset.add_columns({"twice": "k * 2"})
    dataset.add_columns(pa.field("empty", pa.int32()))
    dataset.alter_columns({"path": "twice", "name": "double"})
    dataset.alter_columns({"path": "double", "data_type": pa.int32()})
    dataset.drop_columns(["s"])
    dataset.alter_columns({"path": "k", "nullable": False})
    dataset.drop_columns(["double"])
    dataset.add_columns({"third": "k * 3"})
    lance.write_dataset(dataset.to_table().slice(0, 3), uri, mode="append")


def compactions(uri: str, stable: bool) -> None:
    dataset = start(uri, stable)
    dataset.create_scalar_index("k", "BTREE")
    dataset.delete("k % 4 = 1")
    dataset.update({"s": "'new'"}, where="k = 8")
    lance.write_dataset(table(60, 80), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.optimize.compact_files()
    lance.write_dataset(table(80, 90), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).delete("k < 10")
    lance.dataset(uri).optimize.compact_files()


def metadata(uri: str, stable: bool) -> None:
    dataset = start(uri, stable)
    dataset.update_config({"a": "1", "b": "2"})
    dataset.update_config({"a": "3"})
    dataset.delete_config_keys(["b"])
    dataset.update_metadata({"owner": "me"})
    dataset.update_schema_metadata({"x": "y"})
    dataset.update_schema_metadata({"z": "w"}, replace=True)
    dataset.update_field_metadata({"k": {"unit": "m"}})
    dataset.delete_config_keys(["a"])
    dataset.restore()
    dataset.checkout_version(2).restore()
    lance.dataset(uri).drop_columns(["v"])
    lance.dataset(uri).checkout_version(3).restore()


def indices(uri: str, stable: bool) -> None:
    dataset = start(uri, stable)
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("s", "INVERTED")
    dataset.create_scalar_index("k", "BTREE", replace=True)
    lance.write_dataset(table(60, 80), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    dataset.drop_index("s_idx")
    dataset.delete("k >= 60")
    dataset.drop_index("k_idx")


def by_hand(uri: str, stable: bool) -> None:
    """Operations that only ``LanceDataset.commit`` makes."""
    dataset = start(uri, stable)
    fragment = dataset.get_fragments()[0]
    file = lance.fragment.LanceFragment.create(uri, table(100, 120)).files[0]
    group = LanceOperation.DataReplacementGroup(fragment.fragment_id, file)
    lance.LanceDataset.commit(uri, LanceOperation.DataReplacement([group]), read_version=2)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("k", "BTREE")
    aside = str(Path(uri).with_name("aside"))
    new = lance.fragment.LanceFragment.create(aside, table(0, 20).select(["s"])).files[0]
    shutil.copy(f"{aside}/data/{new.path}", f"{uri}/data/{new.path}")
    new = lance.fragment.DataFile(new.path, [1], [0], 2, 2, new.file_size_bytes)
    group = LanceOperation.DataReplacementGroup(fragment.fragment_id, new)
    lance.LanceDataset.commit(uri, LanceOperation.DataReplacement([group]), read_version=4)
    dataset = lance.dataset(uri)
    metadata, fields = dataset.get_fragments()[1].update_columns(
        pa.table({"k": pa.array([20, 21], pa.int64()), "s": ["x", "y"]}), left_on="k", right_on="k"
    )
    lance.LanceDataset.commit(
        uri,
        LanceOperation.Update(updated_fragments=[metadata], fields_modified=fields, update_mode="rewrite_columns"),
        read_version=dataset.version,
    )
    dataset = lance.dataset(uri)
    metadata, fields, offsets = dataset.get_fragments()[2].update_columns(
        pa.table({"k": pa.array([41, 45], pa.int64()), "s": ["x", "y"]}), left_on="k", right_on="k", with_offsets=True
    )
    lance.LanceDataset.commit(
        uri,
        LanceOperation.Update(
            updated_fragments=[metadata],
            fields_modified=fields,
            update_mode="rewrite_columns",
            updated_fragment_offsets={2: offsets},
        ),
        read_version=dataset.version,
    )
    dataset = lance.dataset(uri)
    other = Path(uri).with_name("other")
    dataset.add_bases([lance.DatasetBasePath(str(other), "other", False, 0)])
    lance.write_dataset(table(0, 3), lance.dataset(uri), mode="append", target_bases=["other"])


def mixed_files(uri: str, stable: bool) -> None:
    start(uri, stable)
    fragment = lance.fragment.LanceFragment.create(uri, table(0, 3), data_storage_version="2.1")
    lance.LanceDataset.commit(uri, LanceOperation.Append([fragment]), read_version=2)
    lance.dataset(uri).delete("k = 1")
    lance.write_dataset(table(0, 3), uri, mode="overwrite", data_storage_version="2.1")


def overlays(uri: str, stable: bool) -> None:
    start(uri, stable)
    overlay = overlay_file(uri, "k", [1, 3], [100, 300])
    for version in (2, 3):
        group = LanceOperation.DataOverlayGroup(version - 2, [overlay, overlay])
        lance.LanceDataset.commit(uri, LanceOperation.DataOverlay([group]), read_version=version)
    lance.dataset(uri).delete("k = 300")
    lance.dataset(uri).optimize.compact_files()


def overlay_file(uri: str, column: str, rows: list[int], values: list[int]) -> LanceOperation.DataOverlayFile:
    aside = f"{uri}-overlay-{column}-{rows[0]}"
    file = lance.fragment.LanceFragment.create(aside, pa.table({column: pa.array(values, pa.int64())})).files[0]
    shutil.copy(f"{aside}/data/{file.path}", f"{uri}/data/{file.path}")
    field = {"k": 0, "s": 1, "v": 2}[column]
    stored = lance.fragment.DataFile(file.path, [field], [0], 2, 2, file.file_size_bytes)
    return LanceOperation.DataOverlayFile(stored, rows)


def mem_wal(uri: str, stable: bool) -> None:
    schema = pa.schema(
        [pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}), ("s", pa.string())]
    )
    data = pa.table({"k": range(10), "s": ["x"] * 10}, schema=schema)
    dataset = lance.write_dataset(data, uri, enable_stable_row_ids=stable)
    dataset.initialize_mem_wal(unsharded=True)
    shards = [str(UUID(int=number)) for number in (7, 9)]
    for generation, shard in [(1, shards[0]), (2, shards[0]), (1, shards[1]), (5, shards[0])]:
        builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        builder.mark_sstables_as_compacted([lance.CompactedSsTable(shard, generation)])
        builder.execute(data.slice(generation, 2))


HISTORIES = [
    appends,
    deletes,
    updates,
    schemas,
    compactions,
    metadata,
    indices,
    by_hand,
    mixed_files,
    overlays,
    mem_wal,
]


def compared(manifest: Manifest) -> table_pb2.Manifest:
    """A manifest without what has to differ: time, writer, offsets of sections."""
    message = table_pb2.Manifest()
    message.CopyFrom(manifest.message)
    for field in ("timestamp", "writer_version", "index_section"):
        message.ClearField(field)
    message.ClearField("transaction_section")
    message.ClearField("transaction_section_deprecated")
    for base in message.base_paths:
        assert base.path
    # pylance writes base paths in any order.
    message.base_paths.sort(key=lambda base: base.id)
    return message


def shown(index: table_pb2.IndexMetadata) -> str:
    copy = table_pb2.IndexMetadata()
    copy.CopyFrom(index)
    if index.name == MEM_WAL_INDEX and index.dataset_version > 1:
        # Each commit gives it a new one.
        copy.ClearField("uuid")
        copy.ClearField("created_at")
    return str(copy)


def differences(ours: Manifest, theirs: Manifest) -> list[str]:
    left = [str(compared(ours)), *map(shown, ours.indices)]
    right = [str(compared(theirs)), *map(shown, theirs.indices)]
    return [
        line
        for line in difflib.unified_diff("".join(right).splitlines(), "".join(left).splitlines(), n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]


def rewound(uri: str, folder: Path, version: int) -> str:
    """A copy of a table that ends with ``version``; files are shared, since nobody writes into one."""
    shutil.copytree(uri, folder, copy_function=os.link)
    store = open_store(str(folder))
    for name in list_versions(store):
        if name.version > version:
            (folder / name.path).unlink()
    (folder / "_versions/latest_version_hint.json").unlink(missing_ok=True)
    return str(folder)


def replayed(uri: str, folder: Path, version: int) -> tuple[Snapshot, Manifest]:
    """Commit the transaction of ``version`` on a copy of the table before it."""
    store = open_store(uri)
    theirs = read_version(store, version)
    assert theirs.transaction is not None
    transaction = transaction_from_proto(theirs.transaction, theirs.path)
    assert transaction is not None
    copy = open_store(rewound(uri, folder, version - 1))
    same = {"uuid": transaction.uuid, "properties": transaction.properties}
    before = read_version(store, version - 1).data_storage_version if version > 1 else None
    storage = theirs.data_storage_version if theirs.data_storage_version != before else None
    if version == 1:
        assert isinstance(transaction.operation, ops.Overwrite)
        ours = create(copy, transaction.operation, stable_row_ids=theirs.has_stable_row_ids, **same)
    else:
        read = transaction.read_version
        ours = commit(copy, transaction.operation, read_version=read, storage_version=storage, **same)
    assert ours.manifest.transaction == theirs.transaction
    assert (folder / "_transactions" / transaction.file_name).is_file()
    return ours, theirs


@pytest.fixture
def overlays_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlays are unstable: pylance asks for a variable, we refuse them."""
    monkeypatch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")
    monkeypatch.setattr(flags, "READABLE", flags.READABLE | flags.Feature.OVERLAY_FILES)


@pytest.mark.usefixtures("overlays_allowed")
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-ids"])
@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
@pytest.mark.spread(0.5, each=False)
def test_replay(tmp_path: Path, history: History, stable: bool) -> None:
    uri = str(tmp_path / "theirs")
    history(uri, stable)
    latest = lance.dataset(uri).version
    for version in range(1, latest + 1):
        ours, theirs = replayed(uri, tmp_path / f"v{version}", version)
        kind = theirs.transaction.WhichOneof("operation") if theirs.transaction else None
        label = f"version {version}, {kind}"
        assert (label, differences(ours.manifest, theirs)) == (label, [])
        reread = open_snapshot(ours.uri)
        assert reread.version == version
        assert (label, differences(reread.manifest, theirs)) == (label, [])
        answer = lance.dataset(ours.uri)
        assert answer.version == version
        assert answer.to_table(with_row_id=True).equals(
            lance.dataset(uri, version=version).to_table(with_row_id=True)
        ), label
        answer.validate()
        assert lancelet.dataset(ours.uri).count_rows() == answer.count_rows()
        lance.write_dataset(answer.to_table(limit=1), ours.uri, mode="append")
        assert lance.dataset(ours.uri).count_rows() == answer.count_rows() + min(answer.count_rows(), 1)
        shutil.rmtree(tmp_path / f"v{version}")


def test_naming_schemes_are_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "old")
    lance.write_dataset(table(0, 10), uri, enable_v2_manifest_paths=False)
    snapshot = open_snapshot(uri)
    after = commit(snapshot, ops.UpdateConfig(ops.MapEdits({"a": "b"})))
    assert sorted(path.name for path in (tmp_path / "old/_versions").glob("*.manifest")) == ["1.manifest", "2.manifest"]
    assert lance.dataset(uri).version == after.version == 2
    made = str(tmp_path / "made")
    create(open_store(made), ops.Overwrite(snapshot.manifest.schema, ()), naming=NamingScheme.V1)
    assert (tmp_path / "made/_versions/1.manifest").is_file()
    assert lance.dataset(made).count_rows() == 0


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-ids"])
def test_clones_and_branches(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "source")
    dataset = start(uri, stable)
    dataset.create_scalar_index("k", "BTREE")
    dataset.delete("k = 1")
    dataset.update_config({"a": "b"})
    dataset.shallow_clone(str(tmp_path / "clone"), 4)
    lance.dataset(str(tmp_path / "clone")).delete("k = 2")
    lance.dataset(str(tmp_path / "clone")).shallow_clone(str(tmp_path / "second"), 5)
    dataset.create_branch("dev", 3)
    dataset.deep_clone(str(tmp_path / "deep"), 4)
    for name, source, version in [("clone", uri, 4), ("second", str(tmp_path / "clone"), 5), ("deep", uri, 4)]:
        check_clone(tmp_path, open_snapshot(tmp_path / name, version), open_snapshot(source, version), stable)
    check_clone(tmp_path, open_snapshot(uri, ("dev", 3)), open_snapshot(uri, 3), stable)


def check_clone(folder: Path, theirs: Snapshot, source: Snapshot, stable: bool) -> None:
    message = theirs.manifest.transaction
    assert message is not None
    transaction = transaction_from_proto(message, "clone")
    assert transaction is not None
    assert isinstance(transaction.operation, ops.Clone)
    name = f"ours-{Path(theirs.uri).name}"
    target = open_store(str(folder / name))
    if not transaction.operation.is_shallow:
        for part in ("data", "_deletions", "_indices"):
            shutil.copytree(f"{theirs.uri}/{part}", folder / name / part)
    ours = clone(source, target, transaction.operation, uuid=transaction.uuid)
    assert differences(ours.manifest, theirs.manifest) == []
    assert ours.manifest.transaction == message
    assert lance.dataset(ours.uri).to_table().equals(lance.dataset(theirs.uri, version=theirs.version).to_table())
    assert lancelet.dataset(ours.uri).to_table(filter="k = 7").num_rows == 1
    commit(ours, ops.UpdateConfig(ops.MapEdits({"x": "y"})))
    assert lance.dataset(ours.uri).version == theirs.version + 1
    with pytest.raises(TableExists):
        clone(source, target, transaction.operation)
