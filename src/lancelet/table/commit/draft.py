"""A manifest in the making, and the edits of its fragment list that operations share (spec table-format.md 6.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lancelet.errors import InvalidInput
from lancelet.format.file_versions import LEGACY
from lancelet.format.proto import table_pb2
from lancelet.format.schema import Schema
from lancelet.format.schema_messages import metadata_bytes, schema_messages
from lancelet.format.system_columns import ROW_ID_FIELD
from lancelet.table.commit.index_upkeep import Indices, retain_relevant
from lancelet.table.manifest.flags import Feature
from lancelet.table.manifest.fragment import TOMBSTONE, DataFile, Fragment
from lancelet.table.manifest.kept_fragments import KeptFragments
from lancelet.table.manifest.manifest import FOOTER, Manifest
from lancelet.table.manifest.manifest_bytes import manifest_bytes
from lancelet.table.manifest.messages import fragment_message
from lancelet.table.rows.addresses import MAX_FRAGMENT_ID
from lancelet.table.rows.lineage import Origins, moved_rows, new_rows


@dataclass(slots=True)
class Draft:
    """A manifest in the making: complete but for its transaction and the offsets of its sections."""

    message: table_pb2.Manifest
    indices: Indices
    pages: bytes = b""
    """Dictionary values of a legacy table, which precede all sections."""
    path: str = "new table"
    """The manifest that it was made from, for error texts."""
    stable_row_ids: bool = False
    kept: KeptFragments | None = None
    """Fragments that stay as they are; the message has those that change and those that are new."""

    @property
    def version(self) -> int:
        return self.message.version

    @property
    def fragment_ids(self) -> set[int]:
        ids = {record.id for record in self.message.fragments}
        return ids if self.kept is None else ids.union(self.kept.ids.tolist())

    def unfold(self) -> None:
        """Put the fragments that were kept as bytes into the message, all in the order of their ids."""
        if self.kept is not None:
            self.message.MergeFromString(self.kept.data)
            self.message.fragments.sort(key=lambda record: record.id)
            self.kept = None

    def to_bytes(self, transaction: bytes) -> bytes:
        """The file of the manifest. The message has no fragments any more if some were kept as bytes."""
        fragments = b""
        if self.kept is not None:
            fragments = self.kept.with_others(self.message.fragments)
            self.message.ClearField("fragments")
        return manifest_bytes(self.message, self.indices, transaction, self.pages, fragments)


def set_schema(draft: Draft, schema: Schema, *, with_metadata: bool) -> None:
    """Replace the fields, and the schema's metadata if it came along."""
    message = draft.message
    del message.fields[:]
    message.fields.extend(schema_messages(schema))
    if message.HasField("max_allocated_field_id"):
        greatest = max((field.id for field in message.fields), default=-1)
        message.max_allocated_field_id = max(message.max_allocated_field_id, greatest)
    if with_metadata:
        message.schema_metadata.clear()
        message.schema_metadata.update(metadata_bytes(schema.metadata))


def add_fragments(
    draft: Draft, fragments: Iterable[Fragment], *, origins: Origins | None = None, keep_lineage: bool = False
) -> set[int]:
    """Append fragments; those without an id get the next ones. Returns the ids.

    ``origins`` are the rows that may have moved here; ``keep_lineage`` says that the fragments know theirs.
    """
    message = draft.message
    used, kept = {record.id for record in message.fragments}, draft.kept
    following = message.max_fragment_id + 1 if message.HasField("max_fragment_id") else 0
    following = max(following, max(used, default=-1) + 1, 0 if kept is None else kept.greatest + 1)
    added = set()
    for fragment in fragments:
        number = fragment.id or following
        if number in used or number > MAX_FRAGMENT_ID or (kept is not None and kept.has(number)):
            raise InvalidInput(f"a new fragment cannot have the id {number}: it is taken, or has more than 32 bits")
        if fragment.physical_rows is None:
            raise InvalidInput(f"new fragment {number} does not say how many rows it has")
        admit(draft, fragment.files)
        record = message.fragments.add()
        record.CopyFrom(fragment_message(fragment))
        record.id = number
        if not draft.stable_row_ids:
            for group in ("row_id_sequence", "created_at_version_sequence", "last_updated_at_version_sequence"):
                kind = record.WhichOneof(group)
                if kind is not None:
                    record.ClearField(kind)
        elif origins is not None:
            message.next_row_id = moved_rows(record, fragment, origins, message.next_row_id, draft.version, draft.path)
        elif not keep_lineage:
            message.next_row_id = new_rows(record, message.next_row_id, draft.version)
        used.add(number)
        added.add(number)
        following = max(following, number + 1)
    return added


def drop_fragments(draft: Draft, ids: Iterable[int]) -> None:
    """Take fragments out of the list."""
    gone = set(ids)
    if gone:
        kept = [fragment for fragment in draft.message.fragments if fragment.id not in gone]
        rest = table_pb2.Manifest(fragments=kept)
        draft.message.ClearField("fragments")
        draft.message.fragments.extend(rest.fragments)


def update_fragments(draft: Draft, fragments: Iterable[Fragment], seen: int) -> None:
    """Replace fragments by those with the same ids, but keep overlays that came since the version ``seen``."""
    fragments = list(fragments)
    records = require(draft, {fragment.id for fragment in fragments})
    for fragment in fragments:
        record = records[fragment.id]
        admit(draft, fragment.files)
        known = {overlay.file.path for overlay in fragment.overlays}
        late = (overlay for overlay in record.overlays if overlay.committed_version > seen)
        kept = table_pb2.DataFragment(overlays=[overlay for overlay in late if overlay.data_file.path not in known])
        record.CopyFrom(fragment_message(fragment))
        record.overlays.extend(kept.overlays)
        drop_tombstones(record)


def require(draft: Draft, ids: set[int]) -> dict[int, table_pb2.DataFragment]:
    """The records of fragments that must be there."""
    found = {fragment.id: fragment for fragment in draft.message.fragments if fragment.id in ids}
    missing = ids - set(found)
    if missing:
        raise InvalidInput(f"{draft.path} has no fragment {', '.join(map(str, sorted(missing)))}")
    return found


def admit(draft: Draft, files: Iterable[DataFile]) -> None:
    """Check the versions of files that come in, and note when the table has more than one."""
    message = draft.message
    for file in files:
        if file.version == message.data_format.version:
            continue
        if file.is_legacy or message.data_format.version == LEGACY:
            raise InvalidInput(
                f"file {file.path} has the file version {file.version}, but the table is written in "
                f"{message.data_format.version}; legacy files and newer ones cannot be in one table"
            )
        message.reader_feature_flags |= Feature.MIXED_FILE_VERSIONS
        message.writer_feature_flags |= Feature.MIXED_FILE_VERSIONS


def drop_tombstones(record: table_pb2.DataFragment) -> None:
    """Drop the files of which all columns are dead."""
    for index in reversed(range(len(record.files))):
        fields = record.files[index].fields
        if fields and all(field == TOMBSTONE for field in fields):
            del record.files[index]


def drop_dead_files(draft: Draft) -> None:
    """Drop the files of which the schema has no field left; hidden columns count as fields."""
    live = {field.id for field in draft.message.fields}

    def is_dead(file: table_pb2.DataFile) -> bool:
        return not any(field in live or field <= ROW_ID_FIELD for field in file.fields)

    for record in draft.message.fragments:
        for index in reversed(range(len(record.files))):
            if is_dead(record.files[index]):
                del record.files[index]
        for index in reversed(range(len(record.overlays))):
            if is_dead(record.overlays[index].data_file):
                del record.overlays[index]


def file_of_field(record: table_pb2.DataFragment) -> dict[int, str]:
    """Path of the file that each field is read from."""
    return {field: file.path for file in reversed(record.files) for field in file.fields if field >= 0}


def retain(draft: Draft) -> None:
    """Drop the index entries that the new schema and fragments leave without a purpose."""
    if draft.indices:
        fields = {field.id for field in draft.message.fields}
        draft.indices = retain_relevant(draft.indices, fields, draft.fragment_ids)


def dictionary_pages(manifest: Manifest) -> bytes:
    """Dictionary values at the head of a legacy manifest file; their offsets stay true when they stay first."""
    message = manifest.head
    if not any(field.HasField("dictionary") and field.dictionary.length for field in message.fields):
        return b""
    source = manifest.open()
    (footer,) = source.read([(source.size - FOOTER.size, FOOTER.size)])
    stop: int = FOOTER.unpack(footer.tobytes())[0]
    for section in ("index_section", "transaction_section", "transaction_section_deprecated"):
        if message.HasField(section):
            stop = min(stop, getattr(message, section))
    return source.read([(0, stop)])[0].tobytes()
