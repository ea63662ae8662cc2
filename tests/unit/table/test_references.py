"""Manifests taken apart as bytes say the same as manifests parsed in full."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lancelet.errors import LanceletError
from lancelet.format.proto import table_pb2
from lancelet.store import open_store
from lancelet.table.cleanup.references import FileNames, NameReader, Origin, names_in, read_head
from lancelet.table.manifest.manifest import Manifest, ManifestFile, read_manifest
from lancelet.table.manifest.manifest_bytes import manifest_bytes
from lancelet.table.manifest.manifest_wire import split_manifest
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.version_files import Role, named_files

NO_ROWS = bytes(BitMap().serialize())
NAMES = st.text("abc", min_size=1, max_size=3)
FILES = st.builds(
    lambda path, base: table_pb2.DataFile(path=path, fields=[0], base_id=base), NAMES, st.none() | st.integers(0, 2)
)
DELETIONS = st.builds(
    lambda kind, read, number, base: table_pb2.DeletionFile(
        file_type=kind, read_version=read, id=number, num_deleted_rows=1, base_id=base
    ),
    st.sampled_from([table_pb2.DeletionFile.ARROW_ARRAY, table_pb2.DeletionFile.BITMAP]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.none() | st.integers(0, 2),
)
OVERLAYS = st.builds(lambda file: table_pb2.DataOverlayFile(data_file=file, shared_offset_bitmap=NO_ROWS), FILES)
FRAGMENTS = st.builds(
    lambda number, files, deletion, overlays: table_pb2.DataFragment(
        id=number, files=files, deletion_file=deletion, overlays=overlays, physical_rows=9
    ),
    st.integers(0, 5),
    st.lists(FILES, max_size=3),
    st.none() | DELETIONS,
    st.lists(OVERLAYS, max_size=2),
)
MANIFESTS = st.builds(
    lambda fragments, version, transaction, config: table_pb2.Manifest(
        fragments=fragments, version=version, transaction_file=transaction, config=config
    ),
    st.lists(FRAGMENTS, max_size=6),
    st.integers(0, 2**64 - 1),
    NAMES | st.just(""),
    st.dictionaries(NAMES, NAMES, max_size=2),
)


@given(MANIFESTS)
def test_split(message: table_pb2.Manifest) -> None:
    split = split_manifest(message.SerializeToString())
    assert split is not None
    rest, fragments = split
    assert [table_pb2.DataFragment.FromString(raw) for raw in fragments] == list(message.fragments)
    expected = table_pb2.Manifest()
    expected.CopyFrom(message)
    expected.ClearField("fragments")
    assert table_pb2.Manifest.FromString(rest) == expected


@given(st.binary(max_size=60) | MANIFESTS.map(lambda m: m.SerializeToString()[:-1]))
def test_bytes_that_are_no_manifest(data: bytes) -> None:
    split = split_manifest(data)
    if split is not None:
        assert len(split[0]) + sum(map(len, split[1])) <= len(data)


def expected_names(messages: list[table_pb2.Manifest], origin: Origin) -> FileNames:
    names = FileNames()
    for message in messages:
        for fragment in message.fragments:
            files = [*fragment.files, *(overlay.data_file for overlay in fragment.overlays)]
            names.data |= {file.path for file in files if origin.has(file)}
            deletion = fragment.deletion_file
            if fragment.HasField("deletion_file") and origin.has(deletion):
                suffix = "bin" if deletion.file_type == table_pb2.DeletionFile.BITMAP else "arrow"
                names.deletions.add(f"{fragment.id}-{deletion.read_version}-{deletion.id}.{suffix}")
        if message.transaction_file and origin is not Origin.BASE_PATHS:
            names.transactions.add(message.transaction_file)
    return names


@given(st.lists(MANIFESTS, min_size=1, max_size=4), st.sampled_from(Origin))
def test_names_of_many_versions(messages: list[table_pb2.Manifest], origin: Origin) -> None:
    store = open_store("memory://references")
    reader = NameReader(origin)
    # Versions share fragments, so each comes twice.
    for message in [*messages, *messages]:
        store.put("m", manifest_bytes(message, [], b""))
        reader.read(read_head(store, "m"))
    assert reader.names == expected_names(messages, origin)


@given(MANIFESTS)
def test_the_files_of_one_version_are_the_same_by_name(message: table_pb2.Manifest) -> None:
    store, uuid = open_store("memory://references"), UUID(int=3)
    message.version = 1
    message.writer_version.library, message.writer_version.version = "lance", "14.0.0"  # nothing to mend
    index = table_pb2.IndexMetadata(uuid={"uuid": uuid.bytes}, name="i", files=[{"path": "a"}, {"path": "b"}])
    store.put("m", manifest_bytes(message, [index], b""))
    found: dict[Role, set[str]] = {role: set() for role in Role}
    for file in named_files(Snapshot.of(store, read_manifest(store, "m"))):
        found[file.role].add(file.path)
    names = names_in(read_head(store, "m"))
    assert found == {
        Role.DATA: names.data,
        Role.DELETION: names.deletions,
        Role.TRANSACTION: names.transactions,
        Role.INDEX: {f"{folder}/{name}" for folder in names.indices for name in "ab"},
        Role.BLOB: set(),
    }


def test_names_of_indices() -> None:
    store, uuids = open_store("memory://references"), [UUID(int=1), UUID(int=2)]
    indices = [
        table_pb2.IndexMetadata(uuid={"uuid": uuids[0].bytes}, name="own"),
        table_pb2.IndexMetadata(uuid={"uuid": uuids[1].bytes}, name="elsewhere", base_id=0),
    ]
    store.put("m", manifest_bytes(table_pb2.Manifest(version=1), indices, b""))
    head = read_head(store, "m")
    assert isinstance(head.manifest, Manifest)
    assert names_in(head).indices == {str(uuid) for uuid in uuids}
    assert names_in(head, Origin.OWN).indices == {str(uuids[0])}
    assert names_in(head, Origin.BASE_PATHS).indices == {str(uuids[1])}


@given(st.binary(max_size=80))
def test_damaged_manifests_are_refused(data: bytes) -> None:
    store = open_store("memory://references")
    body = manifest_bytes(table_pb2.Manifest(version=1), [], b"")
    store.put("m", data + body[-16:])
    try:
        head = read_head(store, "m")
    except LanceletError:
        return
    assert isinstance(head.manifest._file, ManifestFile)
