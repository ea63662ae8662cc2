"""The catalog of a namespace: ``__manifest``, an ordinary table with a row for each namespace and table.

======================  ====================================================================
``object_id``           names joined with ``$``; the key
``object_type``         ``namespace`` or ``table``; rows of other types belong to other tools
``location``            of a table: its folder, relative to the root
``metadata``            JSON of the properties; null without any
``base_objects``        of no use yet
======================  ====================================================================

Spec namespace.md 3. Columns that are not among these are kept. A change reads all rows, checks what it needs, and
writes all rows anew as the version that follows immediately; when another version came in between, it begins again.
So an entry is added only if it is absent, whatever others do meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lance_namespace import InternalError, ThrottlingError, UnsupportedOperationError

from lancelet.dataset import LanceDataset
from lancelet.errors import CommitConflict, TableExists, TableNotFound
from lancelet.format.file_versions import DEFAULT_VERSION
from lancelet.namespace.catalog_indices import write_indices
from lancelet.namespace.errors import translated
from lancelet.namespace.names import CATALOG, DELIMITER, SUFFIX
from lancelet.runtime import compute as pc
from lancelet.table.commit import operations as ops
from lancelet.table.commit.patience import Pace
from lancelet.table.commit.run import commit, create
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import latest_version, read_version
from lancelet.writing.fit import new_schema
from lancelet.writing.fragments import Limits, write_fragment_files

if TYPE_CHECKING:
    from lancelet.store import Store

NAMESPACE = "namespace"
TABLE = "table"
READER_FLAGS = "lance.namespace.manifest.reader_feature_flags"
WRITER_FLAGS = "lance.namespace.manifest.writer_feature_flags"
_KEY = {b"lance-schema:unenforced-primary-key:position": b"0"}
SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata=_KEY),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A row of the catalog."""

    object_id: str
    kind: str
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class Catalog:
    """One version of the catalog."""

    __slots__ = ("_children", "_claimed", "rows", "snapshot")

    def __init__(self, rows: pa.Table, snapshot: Snapshot | None) -> None:
        self.rows = rows
        self.snapshot = snapshot
        """None as long as there is no such table."""
        self._children: dict[tuple[str, str], pa.Table] = {}
        self._claimed: frozenset[str] | None = None

    def find(self, object_id: str) -> CatalogEntry | None:
        """The entry of this id."""
        found = self.rows.filter(pc.equal(self.rows["object_id"], object_id))
        return _entry(found, 0) if found.num_rows else None

    def of_kind(self, object_id: str, kind: str) -> CatalogEntry | None:
        """The entry of this id, if it is a namespace, or a table."""
        found = self.find(object_id)
        return found if found is not None and found.kind == kind else None

    def names(self, parent: str, kind: str) -> pa.Array:
        """The last names of all namespaces, or tables, directly in a namespace, sorted."""
        return self._direct(parent, kind)["name"].combine_chunks()

    def locations(self, parent: str) -> pa.Array:
        """The folders of all tables directly in a namespace, in the order of their names."""
        return self._direct(parent, TABLE)["location"].combine_chunks()

    def _direct(self, parent: str, kind: str) -> pa.Table:
        known = self._children.get((parent, kind))
        if known is None:
            rows = self.rows.filter(pc.equal(self.rows["object_type"], kind))
            names = rows["object_id"]
            if parent:
                prefix = parent + DELIMITER
                rows = rows.filter(pc.starts_with(names, prefix))
                names = pc.utf8_slice_codeunits(rows["object_id"], len(prefix))
            children = pa.table({"name": names, "location": rows["location"]})
            children = children.filter(pc.invert(pc.match_substring(names, DELIMITER)))
            known = self._children[parent, kind] = children.take(pc.sort_indices(children["name"]))
        return known

    def ids(self, kind: str) -> pa.Array:
        """The ids of all namespaces, or tables, sorted."""
        ids = self.rows.filter(pc.equal(self.rows["object_type"], kind))["object_id"].combine_chunks()
        return ids.take(pc.sort_indices(ids))

    def below(self, object_id: str) -> list[CatalogEntry]:
        """Everything in a namespace, at any depth."""
        found = self.rows.filter(pc.starts_with(self.rows["object_id"], object_id + DELIMITER))
        return [_entry(found, at) for at in range(found.num_rows)]

    def has_location(self, location: str) -> bool:
        """Whether some table is in this folder."""
        return bool(pc.any(pc.equal(self.rows["location"], location)).as_py())

    def elsewhere(self) -> dict[str, str]:
        """The tables of the root that are not in the folders ``{name}.lance``, and where they are."""
        rows = self._tables_by_folder(usual=False)
        rows = rows.filter(pc.invert(pc.match_substring(rows["object_id"], DELIMITER)))
        return dict(zip(rows["object_id"].to_pylist(), rows["location"].to_pylist(), strict=True))

    def claimed(self) -> frozenset[str]:
        """Folders of tables that have other names than their folders."""
        if self._claimed is None:
            taken = frozenset(self._tables_by_folder(usual=False)["location"].to_pylist())
            self._claimed = taken.difference(self._tables_by_folder(usual=True)["location"].to_pylist())
        return self._claimed

    def _tables_by_folder(self, *, usual: bool) -> pa.Table:
        tables = self.rows.filter(pc.equal(self.rows["object_type"], TABLE))
        tables = tables.filter(pc.is_valid(tables["location"]))
        same = pc.equal(tables["location"], pc.binary_join_element_wise(tables["object_id"], SUFFIX, ""))
        return tables.filter(same if usual else pc.invert(same))

    # What the rows are after a change.

    def with_entries(self, entries: list[CatalogEntry]) -> pa.Table:
        """These rows, and new ones after them."""
        return pa.concat_tables([self.rows, _made(self.rows.schema, entries)])

    def without(self, object_ids: list[str]) -> pa.Table:
        """The rows of all other ids."""
        return self.rows.filter(pc.invert(pc.is_in(self.rows["object_id"], pa.array(object_ids, pa.string()))))

    def with_changed(self, object_id: str, entry: CatalogEntry) -> pa.Table:
        """Exchange an entry; what is in its other columns stays."""
        old = self.rows.filter(pc.equal(self.rows["object_id"], object_id))
        made = _made(self.rows.schema, [entry])
        for name in ("object_id", "object_type", "location", "metadata"):
            at = old.schema.get_field_index(name)
            old = old.set_column(at, old.schema.field(at), made[name])
        return pa.concat_tables([self.without([object_id]), old])


class ManifestTable:
    """The catalog in a root folder."""

    def __init__(self, root: Store, retries: int, indices: bool = False) -> None:
        self._store = root.child(CATALOG)
        self._retries = retries
        self._indices = indices
        self._newest = Catalog(SCHEMA.empty_table(), None)

    def read(self) -> Catalog:
        """The newest version. Rows are read again only when there is a newer one."""
        with translated(f"the catalog {self._store.uri}"):
            try:
                name = latest_version(self._store)
            except TableNotFound:
                return Catalog(SCHEMA.empty_table(), None)
            known = self._newest.snapshot
            if known is None or known.version != name.version:
                snapshot = Snapshot.of(self._store, read_version(self._store, name.version, name.scheme))
                self._newest = _open(snapshot)
        return self._newest

    def change(self, edit: Callable[[Catalog], pa.Table | None]) -> None:
        """Commit what ``edit`` makes of the newest version's rows; None when there is nothing to change.

        It is called again when another change was faster, and raises when its own one is ruled out.
        """
        pace = Pace()
        for attempt in range(self._retries + 1):
            catalog = self._writable()
            rows = edit(catalog)
            if rows is None:
                return
            assert catalog.snapshot is not None
            try:
                with translated(f"the catalog {self._store.uri}"):
                    snapshot = self._commit(catalog.snapshot, rows)
            except _Raced:
                pace.back_off(attempt, _PAUSE)
                continue
            self._newest = Catalog(rows, snapshot)
            return
        raise ThrottlingError(
            f"the catalog {self._store.uri} was changed by others {self._retries + 1} times while it was to be changed; "
            "try again, or allow more commit_retries"
        )

    def _writable(self) -> Catalog:
        """The newest version, made if there is none, with all columns that a row needs."""
        with translated(f"the catalog {self._store.uri}"):
            catalog = self.read()
            if catalog.snapshot is None:
                empty = ops.Overwrite(new_schema(SCHEMA, DEFAULT_VERSION), ())
                # Somebody else may be faster; theirs is as good.
                with suppress(TableExists):
                    create(self._store, empty, storage_version=DEFAULT_VERSION)
                catalog = self.read()
        assert catalog.snapshot is not None
        _check_flags(catalog.snapshot, WRITER_FLAGS, "changed")
        return Catalog(_completed(catalog.rows), catalog.snapshot)

    def _commit(self, base: Snapshot, rows: pa.Table) -> Snapshot:
        version = base.manifest.data_storage_version
        schema = new_schema(rows.schema, version)
        with WrittenFiles(self._store) as files:
            fragments = write_fragment_files(
                self._store, schema, rows.combine_chunks().to_batches(), version=version, limits=Limits(), files=files
            )
            indices = write_indices(base, schema, rows, fragments, files) if self._indices else []
            operation = ops.Overwrite(schema, fragments)
            try:
                # As pylance has it: whoever reads a catalog knows transactions in manifests.
                return commit(base, operation, strict=True, retries=0, files=files, indices=indices, with_file=False)
            except CommitConflict as conflict:
                raise _Raced from conflict


class _Raced(Exception):
    """Another version came first."""


def _open(snapshot: Snapshot) -> Catalog:
    _check_flags(snapshot, READER_FLAGS, "read")
    rows = LanceDataset._of(snapshot.uri, snapshot, None, snapshot.store.options).to_table()
    missing = [name for name in ("object_id", "object_type", "location", "metadata") if name not in rows.column_names]
    if missing:
        raise InternalError(f"{snapshot.uri} is not the catalog of a namespace: it has no column {missing[0]}")
    return Catalog(rows, snapshot)


def _check_flags(snapshot: Snapshot, key: str, done: str) -> None:
    flags = snapshot.manifest.table_metadata.get(key, "0")
    if flags != "0":
        raise UnsupportedOperationError(
            f"the catalog {snapshot.uri} has the feature flags {flags}, so that it can only be {done} by later releases"
        )


def _completed(rows: pa.Table) -> pa.Table:
    """Rows with the columns and the key of a catalog that is made today."""
    at = rows.schema.get_field_index("object_id")
    key = rows.schema.field(at)
    if not set(_KEY) <= set(key.metadata or ()):
        rows = rows.set_column(at, key.with_metadata({**(key.metadata or {}), **_KEY}), rows.column(at))
    if "base_objects" not in rows.column_names:
        kind = SCHEMA.field("base_objects")
        rows = rows.append_column(kind, pa.nulls(rows.num_rows, kind.type))
    return rows


def _made(schema: pa.Schema, entries: list[CatalogEntry]) -> pa.Table:
    """Entries as rows of a catalog, whichever columns it has."""
    values: dict[str, list[Any]] = {
        "object_id": [entry.object_id for entry in entries],
        "object_type": [entry.kind for entry in entries],
        "location": [entry.location for entry in entries],
        "metadata": [_json(entry.properties) for entry in entries],
    }
    for column in schema:
        if column.name not in values and not column.nullable:
            raise UnsupportedOperationError(
                f"the catalog has the column {column.name}, which new entries must have, but which only later releases know"
            )
    nothing = [None] * len(entries)
    return pa.table([pa.array(values.get(f.name, nothing), f.type) for f in schema], schema=schema)


def _json(properties: Mapping[str, str]) -> str | None:
    return json.dumps(dict(properties), separators=(",", ":"), ensure_ascii=False) if properties else None


def _entry(rows: pa.Table, at: int) -> CatalogEntry:
    metadata = rows["metadata"][at].as_py()
    name = rows["object_id"][at].as_py()
    try:
        properties = {} if metadata is None else json.loads(metadata)
    except ValueError:
        properties = None
    if not isinstance(properties, dict):
        raise InternalError(f"the metadata of {name} in the catalog is not a JSON object of properties: {metadata!r}")
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in properties.items()}
    return CatalogEntry(name, rows["object_type"][at].as_py(), rows["location"][at].as_py(), texts)
