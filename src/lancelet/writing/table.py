"""Writing rows into a table: where they go, under which schema, and as which operation."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.errors import InvalidBase, InvalidInput, InvalidType, NotSupported, TableExists, TableNotFound
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, writable_version
from lancelet.format.schema import Schema
from lancelet.namespace_client.versions import managed_store
from lancelet.store import open_store
from lancelet.store.limit import noted, with_limit
from lancelet.store.location import parse_location
from lancelet.store.memory import MemoryStore
from lancelet.store.options import with_base_params
from lancelet.store.uri import open_like
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit, create
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable
from lancelet.table.manifest.mending import refuse_mixed
from lancelet.table.manifest.names import FOLDERS
from lancelet.table.manifest.paths import Places
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from lancelet.table.registers.registered import registered_like
from lancelet.writing.bases import DataFolder, target_folders
from lancelet.writing.blobs import BlobRules, stored_blobs
from lancelet.writing.fit import fitted_schema, new_schema
from lancelet.writing.fragments import Progress, write_fragment_files
from lancelet.writing.options import WriteOptions
from lancelet.writing.source import RowSource, open_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancelet.namespace_client.tables import Manager
    from lancelet.store import Store
    from lancelet.table.manifest.fragment import Fragment


@dataclass(frozen=True, slots=True)
class Target:
    """Where to write: a folder, and the version of the table that is there."""

    store: Store
    snapshot: Snapshot | None
    anew: bool = False
    """A table in memory that is created takes the name from one that is there, which stays with those who have it."""

    @classmethod
    def of(
        cls,
        place: object,
        storage_options: Mapping[str, str] | None = None,
        base_params: Mapping[str, Mapping[str, str]] | None = None,
        manager: Manager | None = None,
        allowed_prefixes: Sequence[str] | None = None,
    ) -> Target:
        """A uri, with the newest version of the table there if there is one; or a dataset, with its version.

        ``base_params`` are storage options of base paths, by their URIs; ``manager`` is the namespace that makes the
        table's versions; ``allowed_prefixes`` limit what the table may refer to.
        """
        if isinstance(place, (str, os.PathLike)):
            store = open_store(place, with_limit(with_base_params(storage_options, base_params), allowed_prefixes))
            return cls.at(managed_store(store, manager))
        snapshot = getattr(getattr(place, "table", None), "snapshot", None)
        if not isinstance(snapshot, Snapshot):
            raise InvalidType(f"a table is named by a text, a path or a dataset, not by {type(place)}")
        if base_params or allowed_prefixes is not None:
            options = with_limit(with_base_params(snapshot.store.options, base_params), allowed_prefixes)
            store = open_like(snapshot.store, noted(options, parse_location(snapshot.root.uri)))
            snapshot = Snapshot.of(registered_like(snapshot.store, store), snapshot.manifest)
        return cls(snapshot.store, snapshot)

    @classmethod
    def at(cls, store: Store) -> Target:
        """The newest version of the table in a folder, if there is a table."""
        try:
            return cls(store, open_snapshot(store))
        except TableNotFound:
            return cls(store, None)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A write that has been checked: nothing is on the store yet."""

    schema: Schema
    version: str
    appends: bool


def write_table(
    data: object, schema: pa.Schema | None, target: Target, options: WriteOptions, progress: Progress | None = None
) -> Snapshot:
    """Write rows and commit them. An error leaves no new version and no files."""
    store = target.store
    if target.anew and options.mode == "create" and target.snapshot is not None and isinstance(store, MemoryStore):
        private = store.private()
        snapshot = write_table(data, schema, Target(private, None), options, progress)
        private.publish(FOLDERS)
        return snapshot
    source = open_source(data, schema)
    plan = prepare(source.schema, target, options)
    with WrittenFiles(target.store) as files:
        fragments = _write(source, plan, target, options, files, progress)
        return commit_rows(source.schema, plan, fragments, target, options, files)


def commit_rows(
    arrow: pa.Schema,
    plan: WritePlan,
    fragments: tuple[Fragment, ...],
    target: Target,
    options: WriteOptions,
    files: WrittenFiles,
) -> Snapshot:
    """Make fragments that were written for a plan, wherever that was, visible as one version."""
    if target.snapshot is None:
        try:
            return _create(target, plan, fragments, options, files)
        except TableExists:
            # Somebody else made the table meanwhile.
            target = Target.at(target.store)
            if options.mode != "append" or options.initial_bases or not _fits(arrow, target, options, plan):
                raise
            plan = replace(plan, appends=True)
    assert target.snapshot is not None
    return commit(
        target.snapshot,
        _operation(plan, fragments, options),
        properties=options.properties,
        storage_version=None if plan.appends else options.data_storage_version,
        files=files,
    )


def write_operation(
    data: object, schema: pa.Schema | None, target: Target, options: WriteOptions, progress: Progress | None = None
) -> ops.Append | ops.Overwrite:
    """Write rows, and return what is left to commit. An error leaves no files."""
    source = open_source(data, schema)
    plan = prepare(source.schema, target, options)
    with WrittenFiles(target.store) as files:
        fragments = _write(source, plan, target, options, files, progress)
        return _operation(plan, fragments, options)


def _create(
    target: Target, plan: WritePlan, fragments: tuple[Fragment, ...], options: WriteOptions, files: WrittenFiles
) -> Snapshot:
    return create(
        target.store,
        ops.Overwrite(plan.schema, fragments, options.config, options.initial_bases),
        properties=options.properties,
        stable_row_ids=options.enable_stable_row_ids,
        naming=options.naming,
        storage_version=plan.version,
        files=files,
    )


def _fits(arrow: pa.Schema, target: Target, options: WriteOptions, plan: WritePlan) -> bool:
    """Whether files that were written for a new table have the field ids and types of one that is there."""
    try:
        wanted = prepare(arrow, target, options)
    except (InvalidInput, NotSupported):
        return False
    pairs = zip_longest(wanted.schema.walk(), plan.schema.walk())
    return wanted.version == plan.version and all(
        mine is not None
        and theirs is not None
        and (mine.id, mine.logical_type, mine.nullable) == (theirs.id, theirs.logical_type, theirs.nullable)
        for mine, theirs in pairs
    )


def prepare(arrow: pa.Schema, target: Target, options: WriteOptions) -> WritePlan:
    """Check columns against a table, and give them their field ids. Nothing is written."""
    snapshot = target.snapshot
    if snapshot is None:
        _folders(_places(target, options), options)
        version = options.data_storage_version or DEFAULT_VERSION
        return WritePlan(new_schema(arrow, version), version, appends=False)
    if options.mode == "create":
        raise TableExists(target.store.uri)
    if options.initial_bases:
        raise InvalidBase(
            f"{snapshot.uri} is there: initial_bases are for a new table; add_bases adds more to this one"
        )
    _folders(snapshot.places, options)
    manifest = snapshot.manifest
    check_writable(manifest.path, manifest.head.writer_feature_flags)
    if options.mode == "append":
        refuse_mixed(manifest)
    stored = manifest.data_storage_version
    version = options.data_storage_version or writable_version(stored)
    if options.mode == "append" and (version == LEGACY) != (stored == LEGACY):
        raise NotSupported(
            f"{snapshot.uri} is written in version {stored}, so that files of version {version} cannot be appended: those "
            f"of version {LEGACY} and later ones do not mix. Leave data_storage_version out, or write the table anew with "
            f"mode='overwrite' and data_storage_version='{version}'"
        )
    if options.mode == "overwrite":
        return WritePlan(new_schema(arrow, version), version, appends=False)
    return WritePlan(fitted_schema(manifest.schema, arrow, version, stored, snapshot.uri), version, appends=True)


def config_of(target: Target) -> Mapping[str, str]:
    """The config that tells how files are written; none for a new table."""
    return {} if target.snapshot is None else target.snapshot.manifest.config


def _places(target: Target, options: WriteOptions) -> Places:
    """Where base paths are: those of the table, or those that a new one will have."""
    if target.snapshot is not None:
        return target.snapshot.places
    bases = {base.id: base for base in options.initial_bases}
    places = Places(target.store, bases, target.store.uri, named=frozenset(bases))
    for base in options.initial_bases:
        places.check_external(base.path, f"the base path '{base.name or base.path}'")
    return places


def _folders(places: Places, options: WriteOptions) -> tuple[DataFolder, ...]:
    """Where new files go, in turn."""
    return target_folders(places, options.target_bases, options.target_all_bases)


def _write(
    source: RowSource,
    plan: WritePlan,
    target: Target,
    options: WriteOptions,
    files: WrittenFiles,
    progress: Progress | None,
) -> tuple[Fragment, ...]:
    places = _places(target, options)
    rules = BlobRules(places, options.ingest_blobs, options.allow_external_blob_outside_bases)
    return write_fragment_files(
        target.store,
        plan.schema,
        stored_blobs(source.batches, plan.schema, rules),
        version=plan.version,
        limits=options.limits(len(plan.schema.fields), config_of(target)),
        files=files,
        progress=progress,
        folders=_folders(places, options),
    )


def _operation(plan: WritePlan, fragments: tuple[Fragment, ...], options: WriteOptions) -> ops.Append | ops.Overwrite:
    if plan.appends:
        return ops.Append(fragments)
    return ops.Overwrite(plan.schema, fragments, options.config, options.initial_bases)
