"""New tables: empty ones, and those that a query fills.

A table that a query makes is declared in the namespace first, so that it has a place. The write commits its
first version together with its rows; when the query fails, the declaration is taken back. One that is replaced
keeps its place: the write commits its new columns and rows as the next version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from lancelet.errors import InvalidInput, TableExists, TableNotFound
from lancelet.namespace_client.tables import withdraw
from lancelet.spark import bridge
from lancelet.spark.options import TableRef
from lancelet.spark.sql.catalog import Table
from lancelet.spark.sql.definition import Definition, define, refuse_partitions, with_shown_blobs
from lancelet.spark.sql.locations import new_place, register
from lancelet.spark.sql.protocol import CREATE, CREATE_OR_REPLACE, REPLACE
from lancelet.spark.sql.tables import told
from lancelet.spark.writer import definition_options
from lancelet.store import open_store
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.writing.table import Target, write_table


def create_table(details: Mapping[str, Any]) -> dict[str, Any]:
    """Make an empty table, or replace one by an empty one; with a location, one that is there gets the name.

    ``declared``: :func:`stage_table` has given it a place already.
    """
    table, definition = Table.of(details), _defined(details, without_rows=True)
    existing = _existing(table, details["mode"])
    if existing is not None:
        return told(_written(definition, existing, "overwrite"), existing, external=table.path is not None)
    if details.get("declared"):
        place, external = table.find()
        return told(_written(definition, place, "create"), place, external=external)
    location = _location(details)
    if table.path is not None:
        place = TableRef(table.path, table.catalog.storage_options)
        return told(_written(definition, place, "create"), place, external=True)
    found = None if location is None else _at_location(table, definition, location)
    if found is not None:
        return found
    with new_place(table, location) as place:
        snapshot = _written(definition, place, "create")
    return told(snapshot, place, external=location is not None)


def stage_table(details: Mapping[str, Any]) -> dict[str, Any]:
    """Where a query's rows go, and as what: options for the write."""
    table, definition = Table.of(details), _defined(details)
    existing = _existing(table, details["mode"])
    declared = existing is None and table.path is None
    if existing is not None:
        place, mode = existing, "overwrite"
    elif table.path is not None:
        place, mode = TableRef(table.path, table.catalog.storage_options), "create"
    else:
        location = _location(details)
        if location is not None and _snapshot(location, table) is not None:
            raise InvalidInput(
                f"there is a table at {location} already; to give it a name, leave the query out: CREATE TABLE "
                f"{table.shown} LOCATION '{location}'"
            )
        with new_place(table, location) as place:
            mode = "create"
    storage = {f"storage.{key}": value for key, value in place.storage_options.items()}
    options = {
        **table.catalog.options,
        "path": place.uri,
        bridge.NAMED: "true",
        bridge.DEFINITION: definition.written(),
        bridge.DEFINITION_MODE: mode,
        **storage,
    }
    return {"options": options, "declared": declared}


def abandon_table(details: Mapping[str, Any]) -> None:
    """Take the declaration of a table back whose query failed."""
    table = Table.of(details)
    withdraw(table.catalog.namespace(), table.id)


def _defined(details: Mapping[str, Any], *, without_rows: bool = False) -> Definition:
    properties = details["properties"]
    provider = properties.get("provider", "lance")
    if provider.lower() != "lance":
        raise InvalidInput(f"this catalog has Lance tables only; say USING lance, or leave USING {provider} out")
    refuse_partitions(details["partitions"])
    keys = [columns for _, columns in details["constraints"]]
    if len(keys) > 1:
        raise InvalidInput("a table has one primary key")
    columns = StructType.fromJson(details["columns"])
    if without_rows:
        columns = with_shown_blobs(columns, properties)
    defaults = Table.of(details).catalog.defaults
    return define(columns, properties, defaults, keys[0] if keys else ())


def _existing(table: Table, mode: str) -> TableRef | None:
    """The table that is to be replaced; None when one is to be made."""
    try:
        place = table.place()
        place.open()
    except TableNotFound:
        if mode == REPLACE:
            raise
        return None
    if mode == CREATE:
        raise TableExists(table.shown)
    assert mode in (REPLACE, CREATE_OR_REPLACE)
    return place


def _location(details: Mapping[str, Any]) -> str | None:
    location: str | None = details["properties"].get("location")
    if location is not None and location.startswith("file:/") and not location.startswith("file://"):
        return location.removeprefix("file:")
    return location


def _at_location(table: Table, definition: Definition, location: str) -> dict[str, Any] | None:
    """Give the name to a table that is there; None when there is none."""
    snapshot = _snapshot(location, table)
    if snapshot is None:
        return None
    names = list(snapshot.manifest.schema.names)
    if definition.arrow.names and definition.arrow.names != names:
        raise InvalidInput(
            f"there is a table at {location}, whose columns are {', '.join(names)}; leave the columns out, and it gets the name "
            "as it is"
        )
    register(table, location)
    return told(snapshot, TableRef(location, table.catalog.storage_options), external=True)


def _snapshot(location: str, table: Table) -> Snapshot | None:
    try:
        return TableRef(location, table.catalog.storage_options).open()
    except TableNotFound:
        return None


def _written(definition: Definition, place: TableRef, mode: str) -> Snapshot:
    """Commit a version without rows."""
    target = Target.at(open_store(place.uri, place.storage_options or None))
    return write_table(definition.arrow.empty_table(), None, target, definition_options(definition, mode))
