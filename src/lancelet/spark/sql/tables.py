"""Tables of a catalog: listed, loaded, renamed, dropped, emptied."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as st

from lancelet._api.entry import dataset
from lancelet.editing.merge import primary_key_paths
from lancelet.errors import InvalidInput, NotSupported, TableNotFound
from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID, SCORE
from lancelet.spark import bridge
from lancelet.spark.blob_columns import blob_columns
from lancelet.spark.fragment_ids import FRAGMENT_ID
from lancelet.spark.options import ReadOptions, TableRef, at_version, parse_table_ref, storage_options, table_uri
from lancelet.spark.source import table_columns
from lancelet.spark.sql.catalog import Table, open_catalog
from lancelet.spark.sql.definition import (
    COMMENT,
    DEFAULTS,
    FILE_VERSION,
    STABLE_ROW_IDS,
    shown_properties,
)
from lancelet.store import open_store
from lancelet.table.manifest.versions import latest_version

if TYPE_CHECKING:
    from lancelet.dataset import LanceDataset
    from lancelet.format.schema import Field
    from lancelet.table.manifest.snapshot import Snapshot

BRANCH, TAG = "branch_", "tag_"
"""``t.branch_x`` is a branch of the table ``t``, unless there is a table of that name."""
METADATA_COLUMNS = st.StructType(
    [
        st.StructField(ROW_ID, st.LongType(), False, {COMMENT: "id of the row; it stays, if row ids are stable"}),
        st.StructField(ROW_ADDRESS, st.LongType(), False, {COMMENT: "fragment << 32 | place of the row in it"}),
        st.StructField(FRAGMENT_ID, st.IntegerType(), False, {COMMENT: "fragment that the row is in"}),
        st.StructField(CREATED_AT, st.LongType(), True, {COMMENT: "version that the row came with"}),
        st.StructField(LAST_UPDATED_AT, st.LongType(), True, {COMMENT: "version that changed the row last"}),
        st.StructField(SCORE, st.FloatType(), True, {COMMENT: "how well the texts of the row match, with lance_match"}),
    ]
)


def list_tables(details: Mapping[str, Any]) -> list[str]:
    """Names of the tables in a namespace."""
    from lance_namespace import ListTablesRequest

    catalog = open_catalog(details)
    client, ident = catalog.namespace(), catalog.namespace_id(details["namespace"])

    def listed(*, declared: bool) -> list[str]:
        found: list[str] = []
        token = None
        while True:
            request = ListTablesRequest(id=list(ident), page_token=token, include_declared=declared)
            page = client.list_tables(request)
            found.extend(page.tables)
            token = page.page_token
            if not token:
                return found

    written, namespace = set(listed(declared=False)), tuple(details["namespace"])
    return [name for name in listed(declared=True) if name in written or _is_there(Table(catalog, namespace, name))]


def _is_there(table: Table) -> bool:
    """Whether a table that is only declared is elsewhere; others belong to a query that has not ended, or has failed."""
    try:
        place = table.place()
        latest_version(open_store(place.uri, place.storage_options or None))
    except TableNotFound:
        return False
    return True


def load_table(details: Mapping[str, Any]) -> dict[str, Any]:
    """All that Spark wants to know of a table at one version."""
    table = Table.of(details)
    version, micros = details.get("version"), details.get("timestamp")
    choices = {key.lower(): value for key, value in details.get("options", {}).items()}
    as_bytes = bool(details.get("writes")) or _wants_bytes(choices)
    try:
        (place, external), on_branch = table.find(), False
        if choices:
            chosen, on_branch = _chosen(place, choices)
        else:
            chosen = at_version(place, version, micros)
        snapshot = chosen.open()
    except TableNotFound:
        from lancelet.spark.sql.metadata import load_metadata

        listing = load_metadata(table, place_to_read)
        if listing is not None:
            return listing
        found = _on_reference(table, version, micros)
        if found is None:
            raise
        (chosen, on_branch), external = found, True
        snapshot = chosen.open()
    is_old = chosen.version is not None or chosen.asof is not None
    return told(
        snapshot,
        chosen,
        read_only=is_old and not on_branch,
        writes=as_bytes,
        external=external,
        options={**table.catalog.options, **({"blobHandling": "all_binary"} if as_bytes else {})},
    )


def _wants_bytes(choices: Mapping[str, str]) -> bool:
    """Whether blobs are to be read whole."""
    handling = choices.get("blobhandling", choices.get("blob_mode", "descriptors"))
    if handling.lower() not in ("all_binary", "binary", "descriptors", "blobs_descriptions"):
        raise InvalidInput(f"blobHandling is all_binary or blobs_descriptions, not {handling!r}")
    return handling.lower() in ("all_binary", "binary")


def _chosen(place: TableRef, choices: Mapping[str, str]) -> tuple[TableRef, bool]:
    """The version that options choose, and whether it is the end of a branch, to which rows can be added."""
    ref = parse_table_ref({**choices, "path": place.uri})
    chosen = replace(place, version=ref.version, asof=ref.asof)
    if isinstance(ref.version, tuple) and ref.version[1] is None:
        return TableRef(chosen.open().uri, place.storage_options), True
    return chosen, False


def place_to_read(table: Table) -> TableRef:
    """A table, or the branch or tag that a name such as ``t.branch_x`` means."""
    return _place(table)[0]


def place_to_change(table: Table) -> TableRef:
    """As :func:`place_to_read`; a tag is refused."""
    place, is_fixed = _place(table)
    if is_fixed:
        raise NotSupported(f"{table.shown} is a tag, which stays what it is; change the table, or a branch of it")
    return place


def open_dataset(place: TableRef) -> LanceDataset:
    """A table as users hold it, for what is done by its methods."""
    return dataset(place.uri, storage_options=dict(place.storage_options) or None)


def _place(table: Table) -> tuple[TableRef, bool]:
    try:
        place = table.place()
        place.open()
    except TableNotFound:
        found = _on_reference(table, None, None)
        if found is None:
            raise
        return found[0], not found[1]
    return place, False


def _on_reference(table: Table, version: str | None, micros: int | None) -> tuple[TableRef, bool] | None:
    """The branch or tag of a table that a name such as ``t.branch_x`` means; None when it means neither."""
    if not table.namespace or not table.name.startswith((BRANCH, TAG)):
        return None
    *names, last = table.namespace
    place = Table(table.catalog, tuple(names), last).place()
    if version is not None or micros is not None:
        raise InvalidInput(f"{table.shown} names a branch or tag, which does not go together with a version or time")
    if table.name.startswith(TAG):
        return replace(place, version=table.name.removeprefix(TAG)), False
    snapshot = replace(place, version=(table.name.removeprefix(BRANCH), None)).open()
    return TableRef(snapshot.uri, place.storage_options), True


def told(
    snapshot: Snapshot,
    place: TableRef,
    *,
    read_only: bool = False,
    writes: bool = False,
    external: bool = False,
    options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The answer about a table; for ``writes``, blobs are bytes and not their descriptors."""
    columns = with_comments(table_columns(snapshot, ReadOptions(place, blobs_as_binary=writes)), snapshot)
    fragments = snapshot.manifest.fragments
    counts = fragments.row_counts
    storage = {f"storage.{key}": value for key, value in place.storage_options.items()}
    own = set(columns.names)
    blobs = [column.field for column in blob_columns(snapshot.manifest.schema)]
    hidden = st.StructType([field for field in (*METADATA_COLUMNS, *blobs) if field.name not in own])
    return {
        "uri": snapshot.uri,
        "version": snapshot.version,
        "rows": int(counts.sum()) if bool((counts >= 0).all()) else -1,
        "bytes": fragments.file_bytes,
        "indexed": list(TableReader(snapshot).indices.columns()),
        "columns": json.loads(columns.json()),
        "properties": properties_of(snapshot, columns, external=external),
        "options": {
            **(options or {}),
            "path": snapshot.uri,
            bridge.NAMED: "true",
            bridge.KEEPS_COLUMNS: "true",
            **storage,
        },
        "metadata_columns": json.loads(hidden.json()),
        "primary_key": primary_key_paths(snapshot.manifest.schema),
        "read_only": read_only,
    }


def properties_of(snapshot: Snapshot, columns: st.StructType, *, external: bool) -> dict[str, str]:
    """What SHOW TBLPROPERTIES, DESCRIBE and SHOW CREATE TABLE tell."""
    manifest = snapshot.manifest
    comment = manifest.schema.metadata.get(COMMENT)
    return {
        **manifest.config,
        **shown_properties(manifest.schema, columns, manifest.config),
        FILE_VERSION: manifest.data_storage_version,
        STABLE_ROW_IDS: str(manifest.has_stable_row_ids).lower(),
        "provider": "lance",
        "location": snapshot.uri,
        **({} if comment is None else {COMMENT: comment}),
        "external" if external else "is_managed_location": "true",
    }


def with_comments(columns: st.StructType, snapshot: Snapshot) -> st.StructType:
    """Columns with the comments and defaults that the table has for them."""
    known = {field.name: field for field in snapshot.manifest.schema.fields}
    return st.StructType([_commented(column, known.get(column.name)) for column in columns])


def _commented(column: st.StructField, stored: Field | None) -> st.StructField:
    if stored is None:
        return column
    kept = {key: stored.metadata[key] for key in (COMMENT, *DEFAULTS) if key in stored.metadata}
    dtype = column.dataType
    if isinstance(dtype, st.StructType) and not (stored.is_blob or stored.is_blob_v2):
        inner = {child.name: child for child in stored.children}
        dtype = st.StructType([_commented(child, inner.get(child.name)) for child in dtype])
    return st.StructField(column.name, dtype, column.nullable, {**column.metadata, **kept})


def rename_table(details: Mapping[str, Any]) -> None:
    """Give a table another name, in the same namespace or another one."""
    from lance_namespace import RenameTableRequest

    table = Table.of(details)
    if table.path is not None:
        raise InvalidInput(f"{table.path} is a path, which is not a name; move the folder, or use a table by its name")
    target = table.catalog.table_id(_target_namespace(table, details["target_namespace"]), details["target_name"])
    table.catalog.namespace().rename_table(
        RenameTableRequest(id=list(table.id), new_table_name=target[-1], new_namespace_id=list(target[:-1]))
    )


def _target_namespace(table: Table, names: Sequence[str]) -> Sequence[str]:
    """Spark hands over what follows RENAME TO: a name alone stays in its namespace, and the catalog may come first."""
    if not names:
        return table.namespace
    return names[1:] if names[0] == table.catalog.name else names


def drop_table(details: Mapping[str, Any]) -> bool:
    """Forget a table; with ``purge``, and for paths, remove its files. False when there is none."""
    from lance_namespace import DeregisterTableRequest, DropTableRequest, NamespaceNotFoundError, TableNotFoundError

    from lancelet.dataset import LanceDataset

    table = Table.of(details)
    if table.path is not None:
        try:
            place = table.place()
            place.open()
        except TableNotFound:
            return False
        LanceDataset.drop(place.uri, dict(place.storage_options) or None)
        return True
    client = table.catalog.namespace()
    try:
        place, external = table.find()
        if external and details["purge"]:
            LanceDataset.drop(place.uri, dict(place.storage_options) or None)
        if external or details["purge"]:
            client.drop_table(DropTableRequest(id=list(table.id)))
        else:
            client.deregister_table(DeregisterTableRequest(id=list(table.id)))
    except (TableNotFound, TableNotFoundError, NamespaceNotFoundError):
        return False
    return True


def truncate_table(details: Mapping[str, Any]) -> None:
    """Remove all rows; columns, config and old versions stay."""
    from lancelet.editing.truncate import truncate

    truncate(TableReader(place_of(details).open()))


def place_of(details: Mapping[str, Any]) -> TableRef:
    """Where a loaded table is, which may be a branch, by the options that were told."""
    options = {key.lower(): value for key, value in details["options"].items()}
    return TableRef(table_uri(options), storage_options(options))
