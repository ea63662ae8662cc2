"""From one version to the next: what each operation does to the manifest (spec table-format.md 6.3).

Everything works on wire messages, so that fragments which do not change are
copied and never looked into. Common to all operations: new fragments get ids
after the greatest ever used, the list is sorted by id, feature flags are
computed from the content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from lancelet.errors import InvalidBase, InvalidChange, InvalidInput
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, version_numbered
from lancelet.format.proto import table_pb2
from lancelet.format.proto.fragment_reuse_pb2 import FragmentReuseIndexDetails
from lancelet.format.schema_messages import TOP_LEVEL, metadata_bytes, refresh_keys
from lancelet.table.commit import operations as ops
from lancelet.table.commit.draft import (
    Draft,
    add_fragments,
    admit,
    dictionary_pages,
    drop_dead_files,
    drop_fragments,
    drop_tombstones,
    file_of_field,
    require,
    retain,
    set_schema,
    update_fragments,
)
from lancelet.table.commit.fragment_reuse import advance_coverage
from lancelet.table.commit.index_upkeep import (
    REUSE_INDEX,
    create_indices,
    follow_rows,
    follows,
    leave_fragments,
    rewrite_indices,
    uncover,
)
from lancelet.table.commit.mem_wal_state import record_catchup, record_compacted
from lancelet.table.commit.merge_check import check_fragments, check_ids
from lancelet.table.commit.stamp import carry, stamp
from lancelet.table.manifest.flags import check_writable
from lancelet.table.manifest.fragment import TOMBSTONE
from lancelet.table.manifest.kept_fragments import KeptFragments, kept_fragments
from lancelet.table.manifest.manifest import BasePath, Manifest
from lancelet.table.manifest.mending import COUNTS_SINCE, forget_counts, refuse_mixed, written_before
from lancelet.table.manifest.messages import base_path_message, data_file_message, fragment_message, overlay_message
from lancelet.table.rows.addresses import MAX_FRAGMENT_ID, MAX_ROWS
from lancelet.table.rows.lineage import Origins, changed_rows
from lancelet.table.rows.roaring import decode_roaring


def first_manifest(
    operation: ops.Overwrite, *, stable_row_ids: bool = False, storage_version: str | None = None
) -> Draft:
    """Version 1 of a new table."""
    found = {version_numbered(file.major, file.minor) for fragment in operation.fragments for file in fragment.files}
    if len(found) > 1:
        names = ", ".join(sorted(str(name) for name in found))
        raise InvalidInput(f"the files of a new table must have one file version, not {names}")
    chosen = storage_version or next(iter(found), None) or DEFAULT_VERSION
    draft = Draft(table_pb2.Manifest(version=1), [], stable_row_ids=stable_row_ids)
    draft.message.data_format.file_format = "lance"
    draft.message.data_format.version = chosen
    for base in operation.initial_bases:
        draft.message.base_paths.add().CopyFrom(base_path_message(base))
    _overwrite(draft, operation, storage_version)
    stamp(draft)
    return draft


def next_manifest(
    previous: Manifest,
    transaction: ops.Transaction,
    version: int,
    *,
    based_on: int | None = None,
    storage_version: str | None = None,
    restored: Manifest | None = None,
    rewrites: Sequence[FragmentReuseIndexDetails.Version] = (),
    config: Mapping[str, str] | None = None,
) -> Draft:
    """The manifest that ``transaction`` makes of ``previous``.

    Parameters
    ----------
    previous
        The newest version, over which the transaction has been rebased.
    version
        Number of the new version.
    based_on
        The version in which the operation's writer saw the fragments that it changes, before any rebase.
    storage_version
        File version of the table from now on; only an overwrite may change it.
    restored
        The version that a Restore names.
    rewrites
        What the fragment-reuse index of ``previous`` remembers.
    config
        Entries for the config besides.
    """
    check_writable(previous.path, previous.head.writer_feature_flags)
    operation = transaction.operation
    source = previous
    if isinstance(operation, ops.Restore):
        assert restored is not None
        if previous.has_stable_row_ids and not restored.has_stable_row_ids:
            raise InvalidInput(
                f"version {restored.version} of {previous.path} has no stable row ids, but later versions have; "
                "it cannot be restored"
            )
        source = restored
    if not isinstance(operation, ops.Overwrite):
        refuse_mixed(source)
    message, kept = _begun(source, operation)
    if not message.HasField("max_fragment_id"):
        greatest = max((record.id for record in message.fragments), default=-1 if kept is None else kept.greatest)
        if greatest >= 0:
            message.max_fragment_id = greatest
    pages = dictionary_pages(source)
    draft = Draft(message, list(source.indices), pages, source.path, source.has_stable_row_ids, kept)
    if source is previous:
        draft.indices = advance_coverage(draft.indices, rewrites)
    storage = source.data_storage_version
    message.version = version
    message.data_format.file_format = "lance"
    message.data_format.version = storage
    seen = transaction.read_version if based_on is None else based_on
    _apply(draft, previous, operation, seen, storage_version)
    if source is previous:
        draft.indices = record_catchup(draft.indices, previous, version, draft.path)
    carry(message, previous.head)
    message.config.update(config or {})
    stamp(draft)
    return draft


def _begun(source: Manifest, operation: ops.Operation) -> tuple[table_pb2.Manifest, KeptFragments | None]:
    """What the next manifest begins with: the message of ``source``, and apart from it the fragments that stay as they are."""
    touched = _touched(operation)
    if touched is not None and not written_before(source.head, COUNTS_SINCE):
        found = kept_fragments(source)
        if found is not None:
            message, kept = found
            message.DiscardUnknownFields()
            kept, records = kept.take_out(touched)
            message.fragments.extend(records)
            return message, kept
    if not isinstance(operation, ops.Overwrite):
        # Raises where an id has more than 32 bits: there is no number after it.
        source.fragments.ids.max(initial=0)
    message = table_pb2.Manifest()
    message.CopyFrom(source.message)
    message.DiscardUnknownFields()
    forget_counts(message)
    return message, None


def _touched(operation: ops.Operation) -> set[int] | None:
    """Ids of the fragments that an operation changes or removes; None when it may be any."""
    match operation:
        case ops.Append() | ops.UpdateConfig() | ops.CreateIndex() | ops.ReserveFragments():
            return set()
        case ops.Rewrite():
            return {fragment.id for group in operation.groups for fragment in group.old_fragments}
        case ops.Delete():
            return {*operation.deleted_fragment_ids, *(fragment.id for fragment in operation.updated_fragments)}
        case ops.Update():
            changed = (fragment.id for fragment in operation.updated_fragments)
            return {*operation.removed_fragment_ids, *changed, *operation.updated_offsets}
    return None


def cloned_manifest(source: Manifest, operation: ops.Clone) -> Draft:
    """The first version of a clone: the manifest of ``source``, whose files are found in its folder (spec 8.4)."""
    message = table_pb2.Manifest()
    message.CopyFrom(source.message)
    message.DiscardUnknownFields()
    message.ClearField("branch")
    if operation.branch_name is not None:
        message.branch = operation.branch_name
    indices = []
    for index in source.indices:
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(index)
        indices.append(copy)
    base = None
    if operation.is_shallow:
        used = {known.id for known in message.base_paths}
        base = next(number for number in range(len(used) + 1) if number not in used)
        entry = BasePath(operation.ref_path, operation.ref_name, True, base)
        message.base_paths.add().CopyFrom(base_path_message(entry))
    else:
        # Blobs name the base paths that they are in by id, inside of data files.
        kept = [known for known in message.base_paths if not known.is_dataset_root]
        holds_blobs = any(field.is_blob_v2 for field in source.schema.walk())
        bases = table_pb2.Manifest(base_paths=kept if holds_blobs else [])
        message.ClearField("base_paths")
        message.base_paths.extend(bases.base_paths)
    placed: list[table_pb2.DataFile | table_pb2.DeletionFile | table_pb2.IndexMetadata] = [*indices]
    for record in message.fragments:
        placed += record.files
        placed += [overlay.data_file for overlay in record.overlays]
        if record.HasField("deletion_file"):
            placed.append(record.deletion_file)
    for file in placed:
        if base is None:
            file.ClearField("base_id")
        elif not file.HasField("base_id"):
            file.base_id = base
    draft = Draft(message, indices, dictionary_pages(source), source.path, source.has_stable_row_ids)
    stamp(draft)
    return draft


def next_field_id(manifest: Manifest) -> int:
    """The id of the next new column (spec table-format.md 3.4)."""
    mark = manifest.max_allocated_field_id
    if mark is not None:
        return mark + 1
    ids = [field.id for field in manifest.message.fields]
    for fragment in manifest.message.fragments:
        for file in fragment.files:
            ids.extend(file.fields)
    return max(ids, default=-1) + 1


def _apply(draft: Draft, previous: Manifest, operation: ops.Operation, seen: int, storage_version: str | None) -> None:
    message = draft.message
    match operation:
        case ops.Append():
            add_fragments(draft, operation.fragments)
        case ops.Delete():
            drop_fragments(draft, operation.deleted_fragment_ids)
            update_fragments(draft, operation.updated_fragments, seen)
            retain(draft)
        case ops.Overwrite():
            if operation.initial_bases:
                raise InvalidInput(
                    f"{draft.path} is there already: base paths are given to a new table, or added by UpdateBases"
                )
            draft.indices = []
            del message.fragments[:]
            _overwrite(draft, operation, storage_version)
        case ops.CreateIndex():
            draft.indices = create_indices(draft.indices, operation)
        case ops.Rewrite():
            _rewrite(draft, operation)
        case ops.Merge():
            _merge(draft, operation)
        case ops.Project():
            check_ids(message, operation.schema, "Project")
            set_schema(draft, operation.schema, with_metadata=False)
            drop_dead_files(draft)
            retain(draft)
        case ops.Update():
            _update(draft, operation, previous, seen)
        case ops.UpdateConfig():
            _update_config(draft, operation)
        case ops.DataReplacement():
            _replace_files(draft, operation)
        case ops.ReserveFragments():
            _reserve(draft, operation)
        case ops.UpdateBases():
            _update_bases(draft, operation)
        case ops.DataOverlay():
            _add_overlays(draft, operation)
        case ops.Restore():
            # Ids of the versions in between must not come again.
            message.next_row_id = max(message.next_row_id, previous.next_row_id)
        case ops.UpdateMemWalState():
            draft.indices = record_compacted(draft.indices, operation.compacted_sstables, message.version, draft.path)
        case ops.Clone():
            raise InvalidInput(f"{draft.path} is there already: a clone is the first commit of a new table")
        case _:
            raise _unknown(operation)


def _unknown(operation: NoReturn) -> InvalidInput:
    """Whatever is no case above: the type checker finds an operation that was forgotten there."""
    return InvalidInput(f"nobody knows what a commit of {operation!r} does")


def _overwrite(draft: Draft, operation: ops.Overwrite, storage_version: str | None) -> None:
    message = draft.message
    set_schema(draft, operation.schema, with_metadata=True)
    for key, value in operation.config_upserts.items():
        message.config[key] = value
    files = [file for fragment in operation.fragments for file in fragment.files]
    if storage_version is not None:
        message.data_format.version = storage_version
    elif files and (message.data_format.version == LEGACY) != files[0].is_legacy:
        message.data_format.version = files[0].version
    add_fragments(draft, operation.fragments)


def _rewrite(draft: Draft, operation: ops.Rewrite) -> None:
    groups = []
    for group in operation.groups:
        old = {fragment.id for fragment in group.old_fragments}
        require(draft, old)
        drop_fragments(draft, old)
        groups.append((old, add_fragments(draft, group.new_fragments, keep_lineage=True)))
    draft.indices = rewrite_indices(draft.indices, operation, groups)
    if operation.reuse_index is not None:
        draft.indices = [
            index if follows(index, operation.followers) else leave_fragments(index, groups)
            for index in draft.indices
            if index.name != REUSE_INDEX
        ]
        draft.indices.append(operation.reuse_index.message)
    if draft.stable_row_ids:
        rebuilt = {index.new_uuid.bytes for index in operation.rewritten_indices}
        draft.indices = [index if index.uuid.uuid in rebuilt else follow_rows(index, groups) for index in draft.indices]


def _merge(draft: Draft, operation: ops.Merge) -> None:
    message = draft.message
    check_fragments(message, operation.fragments)
    check_ids(message, operation.schema, "Merge")
    before = {fragment.id: file_of_field(fragment) for fragment in message.fragments}
    live = {field.id for field in message.fields}
    set_schema(draft, operation.schema, with_metadata=True)
    del message.fragments[:]
    for fragment in operation.fragments:
        admit(draft, fragment.files)
        record = message.fragments.add()
        record.CopyFrom(fragment_message(fragment))
        old, new = before.get(fragment.id, {}), file_of_field(record)
        changed = {field for field in live if field in old and field in new and new[field] != old[field]}
        draft.indices = uncover(draft.indices, {fragment.id}, changed)
        if draft.stable_row_ids and set(new.values()) - set(old.values()):
            changed_rows(record, None, draft.version, draft.path)
    retain(draft)


def _update(draft: Draft, operation: ops.Update, previous: Manifest, seen: int) -> None:
    touched = {*operation.removed_fragment_ids, *(fragment.id for fragment in operation.updated_fragments)}
    origins = None
    if draft.stable_row_ids and operation.new_fragments:
        # Fragments that say when their rows were created need not be asked where those came from.
        untold = any(new.row_ids is not None and new.created_at is None for new in operation.new_fragments)
        known = (previous.fragments.by_id(number) for number in sorted(touched) if untold)
        origins = Origins.of((fragment for fragment in known if fragment is not None), draft.path)
    drop_fragments(draft, operation.removed_fragment_ids)
    update_fragments(draft, operation.updated_fragments, seen)
    if draft.stable_row_ids and operation.rewrites_columns:
        records = {record.id: record for record in draft.message.fragments if record.id in operation.updated_offsets}
        for number, bitmap in operation.updated_offsets.items():
            if number in records:
                rows = decode_roaring(bitmap, draft.path, f"updated rows of fragment {number}")
                changed_rows(records[number], rows, draft.version, draft.path)
    add_fragments(draft, operation.new_fragments, origins=origins)
    updated = {fragment.id for fragment in operation.updated_fragments}
    draft.indices = uncover(draft.indices, updated, operation.fields_modified)
    retain(draft)
    if operation.compacted_sstables:
        draft.indices = record_compacted(draft.indices, operation.compacted_sstables, draft.version, draft.path)


def _update_config(draft: Draft, operation: ops.UpdateConfig) -> None:
    message = draft.message

    def edited(current: Iterable[tuple[str, str]], edits: ops.MapEdits) -> dict[str, str]:
        merged: dict[str, str | None] = {} if edits.replace else dict(current)
        merged.update(edits.updates)
        return {key: value for key, value in merged.items() if value is not None}

    def texts(current: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, str]]:
        return ((key, value.decode()) for key, value in current)

    if operation.config is not None:
        config = edited(message.config.items(), operation.config)
        message.config.clear()
        message.config.update(config)
    if operation.table_metadata is not None:
        metadata = edited(message.table_metadata.items(), operation.table_metadata)
        message.table_metadata.clear()
        message.table_metadata.update(metadata)
    if operation.schema_metadata is not None:
        schema = metadata_bytes(edited(texts(message.schema_metadata.items()), operation.schema_metadata))
        message.schema_metadata.clear()
        message.schema_metadata.update(schema)
    key = _primary_key(message)
    fields = {field.id: field for field in message.fields}
    for number, edits in operation.field_metadata.items():
        field = fields.get(number)
        if field is None:
            raise InvalidInput(f"{draft.path} has no field with the id {number}, whose metadata is to be changed")
        entries = metadata_bytes(edited(texts(field.metadata.items()), edits))
        field.metadata.clear()
        field.metadata.update(entries)
        refresh_keys(field)
    _check_primary_key(draft, key)


def _primary_key(message: table_pb2.Manifest) -> dict[int, int]:
    """Positions of the fields of the primary key, by field id."""
    return {f.id: f.unenforced_primary_key_position for f in message.fields if f.unenforced_primary_key}


def _check_primary_key(draft: Draft, before: dict[int, int]) -> None:
    """A primary key is chosen once, among fields that are always there."""
    after = _primary_key(draft.message)
    if after == before:
        return
    if before:
        raise InvalidChange("the unenforced primary key is a reserved key and cannot be changed once set")
    fields = {field.id: field for field in draft.message.fields}
    for number in after:
        while number != TOP_LEVEL:
            field = fields[number]
            if field.nullable or field.logical_type.startswith(("list", "large_list", "map", "fixed_size_list")):
                raise InvalidChange(
                    f"field '{field.name}' cannot be in a primary key: the column and all its ancestors must not be "
                    "nullable, nor lists or maps"
                )
            number = field.parent_id


def _reserve(draft: Draft, operation: ops.ReserveFragments) -> None:
    message = draft.message
    taken = max((record.id for record in message.fragments), default=0)
    taken = taken if draft.kept is None else max(taken, draft.kept.greatest)
    last = max(message.max_fragment_id, taken) + operation.num_fragments
    if last > MAX_FRAGMENT_ID:
        raise InvalidInput(
            f"{operation.num_fragments} fragments cannot be reserved: the last would have the id {last}, of more than 32 bits"
        )
    message.max_fragment_id = last


def _replace_files(draft: Draft, operation: ops.DataReplacement) -> None:
    sets = {file.fields for _, file in operation.replacements}
    if len(sets) > 1:
        raise InvalidInput(f"the new files of a data replacement must all have the same fields, not {sorted(sets)}")
    records = require(draft, {number for number, _ in operation.replacements})
    for number, file in operation.replacements:
        record, new = records[number], data_file_message(file)
        admit(draft, [file])
        same = next(
            (
                old
                for old in record.files
                if list(old.fields) == list(file.fields)
                and (old.file_major_version, old.file_minor_version) == (file.major, file.minor)
            ),
            None,
        )
        if same is not None:
            # Only where the file is changes.
            new.column_indices[:] = same.column_indices
            same.CopyFrom(new)
        else:
            for old in record.files:
                old.fields[:] = [TOMBSTONE if field in file.fields else field for field in old.fields]
            record.files.add().CopyFrom(new)
            drop_tombstones(record)
        if draft.stable_row_ids:
            changed_rows(record, None, draft.version, draft.path)
    replaced = {number for number, _ in operation.replacements}
    draft.indices = uncover(draft.indices, replaced, next(iter(sets), ()))


def _update_bases(draft: Draft, operation: ops.UpdateBases) -> None:
    bases = list(draft.message.base_paths)
    if operation.moves:
        by_id = {known.id: known for known in bases}
        for base in operation.new_bases:
            if base.id not in by_id:
                raise InvalidBase(f"{draft.path} has no base path {base.id} any more, which is to be moved")
            by_id[base.id].path = base.path
        return
    for base in operation.new_bases:
        number = base.id or next(n for n in range(1, 2**32) if all(known.id != n for known in bases))
        for known in bases:
            same_name = base.name is not None and known.HasField("name") and known.name == base.name
            if known.id == number or same_name or known.path == base.path:
                raise InvalidBase(f"{draft.path} has a base path {known.id} '{known.name}' at {known.path} already")
        entry = base_path_message(replace(base, id=number))
        bases.append(entry)
        draft.message.base_paths.add().CopyFrom(entry)


def _add_overlays(draft: Draft, operation: ops.DataOverlay) -> None:
    records = require(draft, {number for number, _ in operation.groups})
    for number, overlays in operation.groups:
        for overlay in overlays:
            entry = overlay_message(overlay)
            entry.committed_version = draft.version
            records[number].overlays.add().CopyFrom(entry)
            if draft.stable_row_ids:
                for bitmap in overlay.coverage:
                    rows = decode_roaring(bitmap, draft.path, f"overlay of fragment {number}", limit=MAX_ROWS)
                    changed_rows(records[number], rows, draft.version, draft.path)
