"""Fragments that go from one version into the next as bytes: the outcome is that of looking into each of them."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.errors import CorruptFile, InvalidInput, LanceletError
from lancelet.format.proto import table_pb2
from lancelet.format.schema import schema_from_arrow
from lancelet.format.schema_messages import schema_messages
from lancelet.store import open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.draft import Draft
from lancelet.table.commit.next_manifest import next_manifest
from lancelet.table.manifest.fragment import DataFile, Fragment, Fragments
from lancelet.table.manifest.kept_fragments import kept_fragments
from lancelet.table.manifest.manifest import Manifest, ManifestFile, parse_manifest
from lancelet.table.manifest.manifest_bytes import manifest_bytes
from lancelet.table.manifest.manifest_wire import survey_fragments

SCHEMA = schema_from_arrow(pa.schema([("x", pa.int64())]))
FILE = DataFile("new.lance", (0,), (0,), 2, 2, 99)
UNKNOWN = b"\xfa\x07\x01x"
"""Field 127, which nobody knows yet."""
SPELLINGS = (
    b"\x20\x07",
    b"\x08\x05",
    b"\x1a\x02\x20\x01",
    b"\x1a\x00",
    b"\x2a\x00",
    b"\x62\x00",
    b"\x12\x04\x10\x01\x18\x02",
)
"""Rows, an id, a deletion file, row ids or a file once more, as parsers take them: the last number counts, messages are joined."""


@st.composite
def fragments(draw: st.DrawFn, number: int, rows_have_ids: bool) -> bytes:
    """A record, as some release wrote it."""
    record = table_pb2.DataFragment(id=number, physical_rows=draw(st.integers(1, 300)))
    for name in draw(st.lists(st.sampled_from(["a.lance", "b.lance"]), min_size=1, max_size=2)):
        record.files.add(path=name, fields=[0, -2], column_indices=[0, 1], file_major_version=2, file_minor_version=2)
    record.files[0].file_size_bytes = draw(st.sampled_from([0, 77]))
    if draw(st.booleans()):
        record.files[0].base_id = 0
    if draw(st.booleans()):
        record.deletion_file.id, record.deletion_file.num_deleted_rows = draw(st.integers(0, 2**64 - 1)), 1
    if rows_have_ids:
        if draw(st.booleans()):
            record.inline_row_ids = b"\n\x02"
        else:
            record.column_row_ids.SetInParent()
    if draw(st.booleans()):
        record.inline_created_at_versions = b"\n\x00"
        record.column_last_updated_at_versions.SetInParent()
    record.metadata.update(draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)))
    kind = draw(st.integers(0, 20))
    if kind == 0:
        record.overlays.add(committed_version=1).data_file.path = "o.lance"
    data = record.SerializeToString()
    if kind == 2:
        data += draw(st.sampled_from(SPELLINGS))
    return data + UNKNOWN if kind == 1 else data


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    # An old release gave some ids twice.
    apart = draw(st.integers(0, 4)) > 0
    ids = draw(st.lists(st.integers(0, 9) | st.integers(0, 2**32 - 1), max_size=6, unique=apart))
    ids = sorted(ids) if draw(st.integers(0, 4)) else ids
    stable = draw(st.booleans())
    message = table_pb2.Manifest(version=4, next_row_id=900, fields=schema_messages(SCHEMA))
    message.data_format.file_format, message.data_format.version = "lance", "2.2"
    message.writer_version.library = "lance"
    message.writer_version.version = draw(st.sampled_from(["14.0.2", "14.0.2", "14.0.2", "0.9.0"]))
    message.reader_feature_flags = message.writer_feature_flags = 2 if stable else 0
    if draw(st.booleans()):
        message.max_fragment_id = max(ids, default=0)
    for number in ids:
        has_ids = stable if draw(st.integers(0, 9)) else not stable
        message.fragments.add().MergeFromString(draw(fragments(number, has_ids)))
    return version_of(message)


def version_of(message: table_pb2.Manifest) -> Manifest:
    data = manifest_bytes(message, (), b"")
    return parse_manifest(ManifestFile(open_store("memory://kept"), "_versions/4.manifest", len(data), data))


OPERATIONS = [
    ops.Append(()),
    ops.Append((Fragment(0, (FILE,), None, 7), Fragment(0, (FILE,), None, 8))),
    ops.Append((Fragment(5, (FILE,), None, 7),)),
    ops.UpdateConfig(config=ops.MapEdits({"a": "b"})),
    ops.CreateIndex((), ()),
    ops.Delete((), (3, 7), ""),
    ops.Delete((Fragment(2, (FILE,), None, 7),), (5,), ""),
    ops.ReserveFragments(3),
    ops.Rewrite((ops.RewriteGroup((Fragment(2, (FILE,), None, 7),), (Fragment(0, (FILE,), None, 7),)),)),
    ops.Rewrite(
        (
            ops.RewriteGroup((Fragment(1, (FILE,)), Fragment(3, (FILE,))), (Fragment(90, (FILE,), None, 7),)),
            ops.RewriteGroup((Fragment(5, (FILE,)),), (Fragment(9, (FILE,), None, 7), Fragment(0, (FILE,), None, 8))),
        )
    ),
    ops.Update((1,), (Fragment(4, (FILE,), None, 9),), (Fragment(0, (FILE,), None, 7),)),
]
"""Fragments of the smallest ids are there or not."""


def outcome(manifest: Manifest, operation: ops.Operation) -> table_pb2.Manifest | type[LanceletError]:
    try:
        draft: Draft = next_manifest(manifest, ops.Transaction(4, operation, "u", {}), 5)
    except LanceletError as error:
        return type(error)
    data = draft.to_bytes(b"")
    read = parse_manifest(ManifestFile(open_store("memory://kept"), "5.manifest", len(data), data)).message
    read.ClearField("timestamp")
    return read


@given(manifests(), st.sampled_from(OPERATIONS))
@settings(max_examples=examples(150), deadline=None)
def test_versions_are_the_same_whether_fragments_were_looked_into_or_not(
    manifest: Manifest, operation: ops.Operation
) -> None:
    parsed = manifest.with_message(manifest.message)
    assert parsed.body is None
    assert outcome(manifest, operation) == outcome(parsed, operation)


@pytest.mark.parametrize("looked_into", [False, True])
def test_ids_beyond_the_last_are_not_reserved(looked_into: bool) -> None:
    message = table_pb2.Manifest(version=4, fields=schema_messages(SCHEMA))
    message.data_format.file_format, message.data_format.version = "lance", "2.2"
    message.writer_version.library, message.writer_version.version = "lance", "14.0.2"
    message.fragments.add(id=2**32 - 2, physical_rows=1)
    manifest = version_of(message)
    if looked_into:
        manifest = manifest.with_message(manifest.message)
    reserved = outcome(manifest, ops.ReserveFragments(1))
    assert isinstance(reserved, table_pb2.Manifest)
    assert reserved.max_fragment_id == 2**32 - 1
    assert outcome(manifest, ops.ReserveFragments(2)) is InvalidInput


@pytest.mark.parametrize("operation", [ops.Append(()), ops.Delete((), (3,), ""), ops.Restore(4)])
def test_a_version_with_an_id_that_is_too_large_is_told_of(operation: ops.Operation) -> None:
    message = table_pb2.Manifest(version=4, fields=schema_messages(SCHEMA))
    message.data_format.file_format, message.data_format.version = "lance", "2.2"
    message.fragments.add(id=2**32, physical_rows=1)
    with pytest.raises(CorruptFile, match="beyond 32 bits"):
        next_manifest(version_of(message), ops.Transaction(4, operation, "u", {}), 5, restored=version_of(message))


@given(manifests())
@settings(max_examples=examples(60), deadline=None)
def test_a_survey_tells_what_the_messages_tell(manifest: Manifest) -> None:
    assert manifest.body is None or table_pb2.Manifest.FromString(manifest.body) == manifest.message
    found = kept_fragments(manifest)
    if found is None:
        return
    head, kept = found
    records = table_pb2.Manifest.FromString(kept.data).fragments
    assert list(records) == list(manifest.message.fragments)
    assert not head.fragments
    ids = [record.id for record in records]
    assert (kept.ids.tolist(), kept.greatest, kept.is_ascending) == (ids, max(ids, default=-1), ids == sorted(ids))
    assert kept.have_deletions == any(record.HasField("deletion_file") for record in records)
    assert kept.all_have_row_ids == all(record.WhichOneof("row_id_sequence") is not None for record in records)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 7, 2**32, 2**32 + 1]), st.sampled_from([None, 0, 1, 7, 8]))))
@settings(max_examples=examples(80), deadline=None)
def test_rows_are_counted_in_bytes_as_in_messages(counts: list[tuple[int, int | None]]) -> None:
    message = table_pb2.Manifest()
    for number, (rows, deleted) in enumerate(counts):
        record = message.fragments.add(id=number, physical_rows=rows)
        if deleted is not None:
            record.deletion_file.num_deleted_rows = deleted

    def told(body: bytes | None, trust: bool) -> list[Any]:
        fragments = Fragments(message.fragments, "here", trust_counts=trust, body=body)
        found: list[Any] = [fragments.with_overlays]
        for ask in (lambda: fragments.row_counts.tolist(), lambda: fragments.physical_rows.tolist()):
            try:
                found.append(ask())
            except CorruptFile as error:
                found.append(str(error))
        return found

    for trust in (True, False):
        assert told(message.SerializeToString(), trust) == told(None, trust)


@pytest.mark.parametrize("part", ["fragment", "file", "deletion"])
def test_what_nobody_knows_is_not_carried_on(part: str) -> None:
    record = table_pb2.DataFragment(id=1, physical_rows=3)
    record.files.add(path="a")
    record.deletion_file.id = 3
    plain = table_pb2.Manifest(fragments=[record]).SerializeToString()
    assert survey_fragments(plain) is not None
    {"fragment": record, "file": record.files[0], "deletion": record.deletion_file}[part].MergeFromString(UNKNOWN)
    assert survey_fragments(table_pb2.Manifest(fragments=[record]).SerializeToString()) is None


@given(st.binary(max_size=60))
@settings(max_examples=examples(200), deadline=None)
def test_bytes_of_any_kind_are_surveyed_or_refused(data: bytes) -> None:
    for body in (data, b"\x12" + bytes([len(data)]) + data):
        found = survey_fragments(body)
        assert found is None or len(found[0]) + len(found[1]) == len(body)


def test_a_version_that_was_just_committed_reads_and_pickles_like_any() -> None:
    message = table_pb2.Manifest(version=9, config={"a": "b"})
    message.fragments.add(id=3, physical_rows=5)
    head = table_pb2.Manifest(version=9, config={"a": "b"})
    file = ManifestFile(open_store("memory://kept"), "9.manifest", 0, b"")
    made = Manifest(file, head, (), message.SerializeToString(), is_whole=False)
    assert (made.version, made.config, made.head) == (9, {"a": "b"}, head)
    copy = pickle.loads(pickle.dumps(made))
    assert made.fragments.ids.tolist() == copy.fragments.ids.tolist() == [3]
    assert made.message == copy.message == message
