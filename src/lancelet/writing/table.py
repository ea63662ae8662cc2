"""Writing rows into a table: where they go, under which schema, and as which operation."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidType, NotSupported, TableExists, TableNotFound
from lancelet.file.writer import DEFAULT_VERSION
from lancelet.format.schema import Schema
from lancelet.store import open_store
from lancelet.table import operations as ops
from lancelet.table.commit import commit, create
from lancelet.table.flags import check_writable
from lancelet.table.snapshot import Snapshot, open_snapshot
from lancelet.table.written import WrittenFiles
from lancelet.writing.fit import fitted_schema, new_schema
from lancelet.writing.fragments import Progress, write_fragments
from lancelet.writing.options import WriteOptions, writable_version
from lancelet.writing.source import Source, open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lancelet.store import Store
    from lancelet.table.fragment import Fragment


LEGACY = "0.1"


@dataclass(frozen=True, slots=True)
class Target:
    """Where to write: a folder, and the version of the table that is there."""

    store: Store
    snapshot: Snapshot | None

    @classmethod
    def of(cls, place: Any, storage_options: Mapping[str, str] | None = None) -> Target:
        """A uri, with the newest version of the table there if there is one; or a dataset, with its version."""
        if isinstance(place, (str, os.PathLike)):
            return cls.at(open_store(place, storage_options))
        snapshot = getattr(getattr(place, "table", None), "snapshot", None)
        if not isinstance(snapshot, Snapshot):
            raise InvalidType(f"a table is named by a text, a path or a dataset, not by {type(place)}")
        return cls(snapshot.store, snapshot)

    @classmethod
    def at(cls, store: Store) -> Target:
        """The newest version of the table in a folder, if there is a table."""
        try:
            return cls(store, open_snapshot(store))
        except TableNotFound:
            return cls(store, None)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A write that has been checked: nothing is on the store yet."""

    schema: Schema
    version: str
    appends: bool


def write_table(
    data: Any, schema: pa.Schema | None, target: Target, options: WriteOptions, progress: Progress | None = None
) -> Snapshot:
    """Write rows and commit them. An error leaves no new version and no files."""
    source = open_source(data, schema)
    draft = _prepare(source.schema, target, options)
    with WrittenFiles(target.store) as files:
        fragments = _write(source, draft, target, options, files, progress)
        if target.snapshot is None:
            try:
                return _create(target, draft, fragments, options, files)
            except TableExists:
                # Somebody else made the table meanwhile.
                target = Target.at(target.store)
                if options.mode != "append" or not _fits(source.schema, target, options, draft):
                    raise
                draft = replace(draft, appends=True)
        assert target.snapshot is not None
        return commit(
            target.snapshot,
            _operation(draft, fragments, options),
            properties=options.properties,
            storage_version=None if draft.appends else options.version,
            files=files,
        )


def write_operation(
    data: Any, schema: pa.Schema | None, target: Target, options: WriteOptions, progress: Progress | None = None
) -> ops.Append | ops.Overwrite:
    """Write rows, and return what is left to commit. An error leaves no files."""
    source = open_source(data, schema)
    draft = _prepare(source.schema, target, options)
    with WrittenFiles(target.store) as files:
        fragments = _write(source, draft, target, options, files, progress)
        return _operation(draft, fragments, options)


def _create(
    target: Target, draft: _Draft, fragments: tuple[Fragment, ...], options: WriteOptions, files: WrittenFiles
) -> Snapshot:
    return create(
        target.store,
        ops.Overwrite(draft.schema, fragments, options.config, options.initial_bases),
        properties=options.properties,
        stable_row_ids=options.stable_row_ids,
        naming=options.naming,
        storage_version=draft.version,
        files=files,
    )


def _fits(arrow: pa.Schema, target: Target, options: WriteOptions, draft: _Draft) -> bool:
    """Whether files that were written for a new table have the field ids and types of one that is there."""
    try:
        wanted = _prepare(arrow, target, options)
    except (InvalidInput, NotSupported):
        return False
    pairs = zip_longest(wanted.schema.walk(), draft.schema.walk())
    return wanted.version == draft.version and all(
        mine is not None
        and theirs is not None
        and (mine.id, mine.logical_type, mine.nullable) == (theirs.id, theirs.logical_type, theirs.nullable)
        for mine, theirs in pairs
    )


def _prepare(arrow: pa.Schema, target: Target, options: WriteOptions) -> _Draft:
    snapshot = target.snapshot
    if snapshot is None:
        version = options.version or DEFAULT_VERSION
        return _Draft(new_schema(arrow, version), version, appends=False)
    if options.mode == "create":
        raise TableExists(target.store.uri)
    manifest = snapshot.manifest
    check_writable(manifest.path, manifest.message.writer_feature_flags)
    stored = manifest.data_storage_version
    if stored == LEGACY and options.mode == "append":
        raise NotSupported(
            f"{snapshot.uri} has files of version {LEGACY}, which cannot be written or mixed with later ones; write the "
            f"table anew with mode='overwrite' and data_storage_version='{DEFAULT_VERSION}'"
        )
    version = options.version or writable_version(stored)
    if options.mode == "overwrite":
        return _Draft(new_schema(arrow, version), version, appends=False)
    return _Draft(fitted_schema(manifest.schema, arrow, version, stored, snapshot.uri), version, appends=True)


def _write(
    source: Source,
    draft: _Draft,
    target: Target,
    options: WriteOptions,
    files: WrittenFiles,
    progress: Progress | None,
) -> tuple[Fragment, ...]:
    batches = source.batches if options.external_blobs else _own_blobs(source.batches, draft.schema)
    return write_fragments(
        target.store,
        draft.schema,
        batches,
        version=draft.version,
        limits=options.limits(len(draft.schema.fields)),
        files=files,
        progress=progress,
    )


def _operation(draft: _Draft, fragments: tuple[Fragment, ...], options: WriteOptions) -> ops.Append | ops.Overwrite:
    if draft.appends:
        return ops.Append(fragments)
    return ops.Overwrite(draft.schema, fragments, options.config, options.initial_bases)


def _own_blobs(batches: Iterator[pa.RecordBatch], schema: Schema) -> Iterator[pa.RecordBatch]:
    """Refuse blobs that are references to other places."""
    names = [field.name for field in schema.fields if field.is_blob_v2]
    for batch in batches:
        for name in names:
            column = batch.column(name)
            storage = column.storage if isinstance(column, pa.ExtensionArray) else column
            if not pa.types.is_struct(storage.type) or storage.type.get_field_index("uri") < 0:
                continue
            if storage.field("uri").null_count < len(storage):
                raise InvalidInput(
                    f"column '{name}' refers to blobs outside the table; give their bytes as 'data', or write with "
                    "allow_external_blob_outside_bases=True"
                )
        yield batch
