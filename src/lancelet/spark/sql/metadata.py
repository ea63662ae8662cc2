"""Tables about a table: ``t.history``, ``t.files`` and their like, unless there is a table of that name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lancelet.errors import TableNotFound
from lancelet.execution.table_reader import TableReader
from lancelet.spark.options import at_version
from lancelet.spark.sql.catalog import Table
from lancelet.spark.table.history import HISTORY, history
from lancelet.table.manifest.manifest import read_manifest
from lancelet.table.manifest.versions import list_versions, read_latest
from lancelet.table.refs.read import branch_store, list_branches, list_tags

if TYPE_CHECKING:
    from lancelet.spark.options import TableRef
    from lancelet.table.manifest.snapshot import Snapshot

_EPOCH = datetime.fromtimestamp(0, timezone.utc)
Rows = list[tuple[Any, ...]]


def plain(value: Any) -> Any:
    """A value as JSON has it; times are microseconds."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.astimezone()
        past = moment - _EPOCH
        return (past.days * 86400 + past.seconds) * 10**6 + past.microseconds
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    return value


def load_metadata(table: Table, resolve: Callable[[Table], TableRef]) -> dict[str, Any] | None:
    """The columns of a table about a table; None when the name means none."""
    about = _about(table)
    if about is None:
        return None
    resolve(about).open()
    return {"result": LISTINGS[table.name.lower()][0]}


def read_metadata(details: Mapping[str, Any]) -> list[list[Any]]:
    """The rows of a table about a table."""
    from lancelet.spark.sql.tables import place_to_read

    table = Table.of(details)
    about = _about(table)
    if about is None:
        raise TableNotFound(table.shown)
    version, micros = details.get("version"), details.get("timestamp")
    place = place_to_read(about)
    if version is not None or micros is not None:
        place = at_version(place, version, micros)
    return [[plain(value) for value in row] for row in LISTINGS[table.name.lower()][1](place.open())]


def _about(table: Table) -> Table | None:
    if not table.namespace or table.name.lower() not in LISTINGS:
        return None
    return Table(table.catalog, table.namespace[:-1], table.namespace[-1])


def _history(snapshot: Snapshot) -> Rows:
    return history(snapshot, None)


def _versions(snapshot: Snapshot) -> Rows:
    branch = snapshot.manifest.branch
    tags: dict[int, list[str]] = {}
    for tag in list_tags(snapshot.root):
        if tag.branch == branch:
            tags.setdefault(tag.version, []).append(tag.name)
    rows = []
    for name in list_versions(snapshot.store):
        manifest = read_manifest(snapshot.store, name.path)
        files = [file for fragment in manifest.fragments for file in fragment.files]
        size = sum(file.size or 0 for file in files)
        named = tags.get(manifest.version, [])
        rows.append((manifest.version, manifest.timestamp, name.path, len(manifest.fragments), len(files), size, named))
    return rows


def _transactions(snapshot: Snapshot) -> Rows:
    rows = []
    for name in list_versions(snapshot.store):
        manifest = read_manifest(snapshot.store, name.path)
        made = manifest.transaction
        if made is not None:
            kind = made.WhichOneof("operation")
            properties = dict(made.transaction_properties)
            rows.append((manifest.version, made.uuid, made.read_version, kind, properties))
    return rows


def _fragments(snapshot: Snapshot) -> Rows:
    table = TableReader(snapshot)
    rows = []
    for reader in table.readers():
        fragment = reader.fragment
        size = sum(file.size or 0 for file in fragment.files)
        live, physical = reader.num_rows, reader.physical_rows
        rows.append((fragment.id, live, physical, physical - live, len(fragment.files), size))
    return rows


def _files(snapshot: Snapshot) -> Rows:
    names = {field.id: field.name for field in snapshot.manifest.schema.walk()}
    return [
        (
            fragment.id,
            file.path,
            f"{file.major}.{file.minor}",
            file.size,
            [number for number in file.fields if number in names],
            [names[number] for number in file.fields if number in names],
            file.base_id,
        )
        for fragment in snapshot.manifest.fragments
        for file in fragment.files
    ]


def _indices(snapshot: Snapshot) -> Rows:
    from lancelet._api.index_descriptions import describe_indices

    return [
        (
            index.name,
            segment.uuid,
            index.index_type.lower(),
            index.field_names,
            [int(number) for number in segment.fragment_ids],
            segment.dataset_version_at_last_update,
            segment.index_version,
            segment.created_at,
            segment.size_bytes,
        )
        for index in describe_indices(TableReader(snapshot))
        for segment in index.segments
    ]


def _refs(snapshot: Snapshot) -> Rows:
    root = snapshot.root
    rows: Rows = [("main", "BRANCH", None, read_latest(root).version)]
    for branch in list_branches(root):
        newest = read_latest(branch_store(root, branch.name))
        rows.append((branch.name, "BRANCH", branch.parent_branch or "main", newest.version))
    rows += [(tag.name, "TAG", tag.branch or "main", tag.version) for tag in list_tags(root)]
    return rows


def _config(snapshot: Snapshot) -> Rows:
    return sorted(snapshot.manifest.config.items())


def _schema_fields(snapshot: Snapshot) -> Rows:
    rows: Rows = []

    def walk(fields: Any, parent: int | None, path: tuple[str, ...]) -> None:
        for field in fields:
            own = (*path, field.name)
            rows.append((field.id, ".".join(own), parent, field.logical_type, field.nullable, dict(field.metadata)))
            walk(field.children, field.id, own)

    walk(snapshot.manifest.schema.fields, None, ())
    return rows


_VERSIONS = (
    "version bigint, timestamp timestamp, manifest string, num_fragments int, num_files int, size_bytes bigint, "
    "tags array<string>"
)
_TRANSACTIONS = "version bigint, uuid string, read_version bigint, operation string, properties map<string,string>"
_FRAGMENTS = "fragment_id bigint, num_rows bigint, physical_rows bigint, num_deleted_rows bigint, num_files int, size_bytes bigint"
_FILES = (
    "fragment_id bigint, path string, file_version string, size_bytes bigint, field_ids array<int>, fields array<string>, "
    "base_id int"
)
_INDICES = (
    "name string, uuid string, index_type string, fields array<string>, fragment_ids array<bigint>, version bigint, "
    "index_version int, created_at timestamp, size_bytes bigint"
)
_FIELDS = "id int, path string, parent_id int, type string, nullable boolean, metadata map<string,string>"
LISTINGS: dict[str, tuple[str, Callable[[Snapshot], Rows]]] = {
    "history": (HISTORY, _history),
    "versions": (_VERSIONS, _versions),
    "snapshots": (_VERSIONS, _versions),
    "transactions": (_TRANSACTIONS, _transactions),
    "fragments": (_FRAGMENTS, _fragments),
    "files": (_FILES, _files),
    "indices": (_INDICES, _indices),
    "refs": ("name string, type string, branch string, version bigint", _refs),
    "config": ("key string, value string", _config),
    "schema_fields": (_FIELDS, _schema_fields),
}
"""Names with their columns and rows."""
