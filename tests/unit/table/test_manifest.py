"""Manifest files: what is checked, what is refused, and that nothing else comes out."""

from __future__ import annotations

import itertools
import random
import struct

import pytest

from lancelet.errors import CorruptFile, LanceletError, NotSupported, UnsafePath
from lancelet.format.proto import table_pb2, transaction_pb2
from lancelet.index.metadata import read_indices
from lancelet.store import open_store
from lancelet.table.manifest.flags import Feature
from lancelet.table.manifest.fragment import fragment_from_proto
from lancelet.table.manifest.manifest import Manifest, parse_message, read_manifest
from lancelet.table.manifest.names import NamingScheme, manifest_path, parse_manifest_name
from lancelet.table.manifest.paths import Places, check_inside
from lancelet.table.rows.row_ids import read_row_ids

NUMBERS = itertools.count()


def message() -> table_pb2.Manifest:
    manifest = table_pb2.Manifest(version=3, max_fragment_id=1, reader_feature_flags=3, writer_feature_flags=3)
    manifest.fields.add(name="a", id=0, parent_id=-1, logical_type="int64")
    manifest.writer_version.library = "x"
    manifest.base_paths.add(id=0, path="/elsewhere", is_dataset_root=True)
    for number in range(2):
        fragment = manifest.fragments.add(id=number, physical_rows=10, inline_row_ids=bytes.fromhex("0a060a040800100a"))
        fragment.files.add(path=f"{number}.lance", fields=[0], column_indices=[0], file_major_version=2, base_id=0)
        fragment.deletion_file.num_deleted_rows = 1
    return manifest


def section(part: object) -> bytes:
    data = part.SerializeToString()  # type: ignore[attr-defined]
    return struct.pack("<I", len(data)) + data


def manifest_bytes(manifest: table_pb2.Manifest) -> bytes:
    indices = table_pb2.IndexSection()
    index = indices.indices.add(name="i", fields=[0], fragment_bitmap=bytes.fromhex("3a30000000000000"))
    index.uuid.uuid = bytes(16)
    index.index_details.type_url = "/lance.table.BTreeIndexDetails"
    head = section(indices)
    manifest.index_section = 0
    manifest.transaction_section = len(head)
    head += section(transaction_pb2.Transaction(read_version=2, uuid="u", append={}))
    return head + section(manifest) + struct.pack("<qHH4s", len(head), 0, 2, b"LANC")


def opened(data: bytes) -> Manifest:
    store = open_store(f"memory://manifests-{next(NUMBERS)}")
    store.put("_versions/m.manifest", data)
    return read_manifest(store, "_versions/m.manifest")


def visit(manifest: Manifest) -> None:
    """Look at everything a manifest has."""
    assert manifest.schema is not None
    assert manifest.timestamp is not None
    assert manifest.transaction is not None or manifest.transaction_file is None
    read_indices(manifest)
    places = Places(open_store("memory://places"), manifest.base_paths, manifest.path)
    assert len(manifest.fragments.row_counts) == len(manifest.fragments.ids)
    for fragment in manifest.fragments:
        fragment.columns()
        for file in fragment.files:
            assert file.version
            places.data_file(file)
        if fragment.deletion_file is not None:
            places.deletion_file(fragment.id, fragment.deletion_file)
        if fragment.physical_rows is not None:
            read_row_ids(fragment, fragment.physical_rows, manifest.path).slice(0, 1)


def test_a_whole_manifest() -> None:
    manifest = opened(manifest_bytes(message()))
    visit(manifest)
    assert manifest.transaction.WhichOneof("operation") == "append"
    assert read_indices(manifest)[0].fragment_ids == frozenset()
    assert manifest.fragments.row_counts.tolist() == [9, 9]


def test_flipped_bits_and_cut_ends_give_our_errors_only() -> None:
    draw = random.Random(7)
    good = manifest_bytes(message())
    for _ in range(1500):
        data = bytearray(good)
        for _ in range(draw.choice([1, 1, 1, 4])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        cut = draw.randrange(len(data)) if draw.random() < 0.1 else len(data)
        try:
            visit(opened(bytes(data[:cut])))
        except LanceletError:
            continue


@pytest.mark.parametrize(
    "footer, reason",
    [
        (struct.pack("<qHH4s", 0, 0, 2, b"LANX"), "ends with b'LANX'"),
        (struct.pack("<qHH4s", -5, 0, 2, b"LANC"), "at byte -5"),
        (struct.pack("<qHH4s", 1 << 60, 0, 2, b"LANC"), "at byte 1152921504606846976"),
        (struct.pack("<qHH4s", 1, 0, 2, b"LANC"), "does not end at the footer"),
    ],
)
def test_footers(footer: bytes, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        opened(manifest_bytes(message())[:-16] + footer)


def test_other_manifest_versions_are_refused() -> None:
    with pytest.raises(NotSupported, match=r"manifest version 9\.2"):
        opened(manifest_bytes(message())[:-16] + struct.pack("<qHH4s", 0, 9, 2, b"LANC"))


@pytest.mark.parametrize("size", [0, 3, 15, 19])
def test_files_too_small_for_a_manifest(size: int) -> None:
    with pytest.raises(CorruptFile, match="too few"):
        opened(bytes(size))


def test_sections_outside_the_file() -> None:
    manifest = message()
    data = manifest_bytes(manifest)
    manifest.index_section = 1 << 60
    position = struct.unpack("<q", data[-16:-8])[0]
    broken = opened(data[:position] + section(manifest) + data[-16:])
    with pytest.raises(CorruptFile, match="index section"):
        broken.indices  # noqa: B018


@pytest.mark.parametrize(
    "reader, writer, error, reason",
    [
        (1 << 40, 0, NotSupported, "unknown feature flag 1099511627776"),
        (64, 64, NotSupported, "OVERLAY_FILES"),
        (512, 512, NotSupported, "REUSE_INDEX_WITH_STABLE_ROW_IDS"),
        (4096, 0, NotSupported, "CLUSTERING"),
        (8192, 8192, NotSupported, "FRAGMENT_TREE"),
        (65536, 65536, NotSupported, "ZONE_WRITE_SEEDS"),
        (65536, 0, CorruptFile, "reader only"),
        (256, 0, CorruptFile, "reader only"),
        (0, 1024, CorruptFile, "writer only"),
        (16384, 0, CorruptFile, "reader only"),
        (32768, 32768, CorruptFile, "set for the reader"),
        (0, 32768, CorruptFile, "must come together"),
    ],
)
def test_refused_flags(reader: int, writer: int, error: type[LanceletError], reason: str) -> None:
    manifest = message()
    manifest.reader_feature_flags, manifest.writer_feature_flags = reader, writer
    with pytest.raises(error, match=reason):
        opened(manifest_bytes(manifest))


@pytest.mark.parametrize("reader, writer", [(4, 4), (256, 256), (0, 4096), (0, 1 << 40), (2048, 2048), (16384, 16384)])
def test_accepted_flags(reader: int, writer: int) -> None:
    manifest = message()
    manifest.reader_feature_flags, manifest.writer_feature_flags = reader, writer
    assert opened(manifest_bytes(manifest)).reader_flags == Feature(reader)


def test_a_tree_of_fragments_is_refused() -> None:
    manifest = message()
    manifest.fragment_tree.layout = 1
    with pytest.raises(NotSupported, match="tree"):
        opened(manifest_bytes(manifest))


def test_row_counts_of_nameless_writers_are_not_believed() -> None:
    manifest = message()
    manifest.ClearField("writer_version")
    read = opened(manifest_bytes(manifest))
    assert read.fragments.row_counts.tolist() == [-1, -1]
    assert read.fragments[0].physical_rows is None
    assert read.fragments[0].num_rows is None


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"id": 2**32}, "32 bits"),
        ({"physical_rows": 2**60}, r"more than 2\^32"),
        ({"physical_rows": 3, "deletion_file": {"num_deleted_rows": 4}}, "4 of 3 rows"),
        ({"files": [{"path": "x", "fields": [0, 1], "column_indices": [0]}]}, "2 fields, but 1 column indices"),
        ({"files": [{"path": "x", "fields": [0], "column_indices": [-2]}]}, "column index -2"),
        ({"files": [{"path": "x", "fields": [-9]}]}, "field id -9"),
    ],
)
def test_fragments_that_cannot_be(change: dict[str, object], reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        fragment_from_proto(table_pb2.DataFragment(**change), "file")  # type: ignore[arg-type]


def test_row_counts_that_cannot_be() -> None:
    manifest = message()
    manifest.fragments[0].physical_rows = 2**60
    read = opened(manifest_bytes(manifest))
    with pytest.raises(CorruptFile, match="rows"):
        read.fragments.row_counts  # noqa: B018


def test_external_sequences_are_refused() -> None:
    fragment = table_pb2.DataFragment(external_row_ids={"path": "x"})
    with pytest.raises(NotSupported, match="external_row_ids"):
        fragment_from_proto(fragment, "file")


def test_base_paths() -> None:
    manifest = opened(manifest_bytes(message()))
    places = Places(open_store("memory://table/t"), manifest.base_paths, manifest.path)
    file = manifest.fragments[0].files[0]
    assert places.data_file(file).full_path == "/elsewhere/data/0.lance"
    data = message()
    data.base_paths[0].is_dataset_root = False
    manifest = opened(manifest_bytes(data))
    places = Places(open_store("memory://table/t"), manifest.base_paths, manifest.path)
    assert places.data_file(file).full_path == "/elsewhere/0.lance"
    places = Places(open_store("memory://table/t"), {}, manifest.path)
    with pytest.raises(CorruptFile, match="base path 0, which is not listed"):
        places.data_file(file)
    data.base_paths.add(id=0, path="/again")
    with pytest.raises(CorruptFile, match="two base paths"):
        opened(manifest_bytes(data)).base_paths  # noqa: B018


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../x",
        "/etc/passwd",
        "a//b",
        "./a",
        "",
        "a\0b",
        "C:\\x",
        "c:/x",
        "s3://b/x",
        "file:///x",
        "..",
        "a\\..\\b",
        "\\x",
    ],
)
def test_paths_that_leave_the_table(path: str) -> None:
    with pytest.raises(UnsafePath, match="inside the table"):
        check_inside(path, "manifest")


@pytest.mark.parametrize("path", ["a.lance", "a/b.lance", "a..b", "...x", "ü"])
def test_paths_that_stay(path: str) -> None:
    check_inside(path, "manifest")


@pytest.mark.parametrize("version", [0, 1, 12, 2**63 - 1])
@pytest.mark.parametrize("scheme", list(NamingScheme))
def test_manifest_names_there_and_back(version: int, scheme: NamingScheme) -> None:
    name = parse_manifest_name(manifest_path(version, scheme).removeprefix("_versions/"))
    assert name is not None
    assert name.version == version
    assert name.scheme is scheme or version == 2**64 - 1


def test_detached_names_there_and_back() -> None:
    version = 2**63 + 5
    assert manifest_path(version, NamingScheme.V1) == f"_versions/d{version}.manifest"
    name = parse_manifest_name(f"d{version}.manifest")
    assert name is not None
    assert name.is_detached


@pytest.mark.parametrize(
    "name",
    [
        "latest_version_hint.json",
        "x.manifest",
        "1.manifest-0a",
        ".manifest",
        "-1.manifest",
        "1.tmp",
        "²²²²²²²²²²²²²²²²²²²².manifest",
        "d5.manifest",
        "99999999999999999999.manifest",
        "123456789012345678901.manifest",
    ],
)
def test_names_of_other_files(name: str) -> None:
    assert parse_manifest_name(name) is None


def test_messages_that_do_not_parse() -> None:
    with pytest.raises(CorruptFile, match="not a Manifest message"):
        parse_message(b"\xff\xff", table_pb2.Manifest, "file", "manifest")
