"""Branches, tags and clones; other names for tables and versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lancelet._api.entry import dataset
from lancelet.errors import InvalidInput, NotSupported, RefNotFound, TableExists, TableNotFound
from lancelet.format.schema import join_path, split_path
from lancelet.spark.options import TableRef, at_version
from lancelet.spark.sql.altering import alter
from lancelet.spark.sql.catalog import Table
from lancelet.spark.sql.locations import new_place, register
from lancelet.spark.sql.protocol import OtherTableNotFound
from lancelet.spark.sql.tables import place_to_change, place_to_read
from lancelet.store import open_store
from lancelet.store.limit import elsewhere
from lancelet.table.refs.read import list_branches, list_tags, read_branch, read_tag
from lancelet.table.refs.write import create_branch as begin_branch
from lancelet.table.refs.write import create_tag as write_tag
from lancelet.table.refs.write import delete_branch, delete_tag, update_tag

if TYPE_CHECKING:
    from datetime import datetime

    from lancelet.table.manifest.snapshot import Snapshot
    from lancelet.table.refs.read import Reference

_MAIN = "main"
Arguments = Mapping[str, Any]


def create_branch(table: Table, arguments: Arguments, _: Any) -> list[tuple[str]]:
    """Begin a branch."""
    snapshot, name = place_to_change(table).open(), arguments["name"]
    exists = _has_branch(snapshot, name)
    if exists and arguments["if_not_exists"]:
        return [(name,)]
    reference = _reference(arguments)
    if exists and arguments["or_replace"]:
        source = snapshot if reference is None else snapshot.at(reference)
        if source.manifest.branch == name:
            raise InvalidInput(f"the branch {name} cannot be replaced by one that begins at a version of its own")
        delete_branch(snapshot.root, name)
    begin_branch(snapshot, name, reference)
    return [(name,)]


def create_tag(table: Table, arguments: Arguments, _: Any) -> list[tuple[str]]:
    """Give a version a name."""
    snapshot, name = place_to_change(table).open(), arguments["name"]
    exists = _has_tag(snapshot, name)
    if exists and arguments["if_not_exists"]:
        return [(name,)]
    if exists and arguments["or_replace"]:
        update_tag(snapshot, name, _reference(arguments))
    else:
        write_tag(snapshot, name, _reference(arguments))
    return [(name,)]


def drop_branch(table: Table, arguments: Arguments, _: Any) -> list[tuple[str]]:
    """Remove a branch with the versions of its own."""
    snapshot, name = place_to_change(table).open(), arguments["name"]
    if not arguments["if_exists"] or _has_branch(snapshot, name):
        delete_branch(snapshot.root, name)
    return [(name,)]


def drop_tag(table: Table, arguments: Arguments, _: Any) -> list[tuple[str]]:
    """Remove a tag."""
    snapshot, name = place_to_change(table).open(), arguments["name"]
    if not arguments["if_exists"] or _has_tag(snapshot, name):
        delete_tag(snapshot.root, name)
    return [(name,)]


def show_branches(table: Table, _: Arguments, __: Any) -> list[tuple[Any, ...]]:
    """All branches but the main one."""
    found = list_branches(place_to_read(table).open().root)
    return [(one.name, one.parent_branch, one.parent_version, one.created_at, one.manifest_size) for one in found]


def show_tags(table: Table, _: Arguments, __: Any) -> list[tuple[Any, ...]]:
    """All tags."""
    found = list_tags(place_to_read(table).open().root)
    return [
        (tag.name, tag.branch, tag.version, _seconds(tag.created_at), _seconds(tag.updated_at), tag.manifest_size)
        for tag in found
    ]


def clone(table: Table, arguments: Arguments, spark: Any) -> list[tuple[int, ...]]:
    """Make a table of a version of another one."""
    from lancelet.spark.table.clone import clone_deep

    *namespace, name = arguments["source"]
    source = Table(table.catalog, tuple(namespace), name)
    try:
        place = place_to_read(source)
        place.open()
    except TableNotFound:
        raise OtherTableNotFound(source.catalog.name, *source.namespace, source.name) from None
    version, micros = arguments.get("version"), arguments.get("timestamp")
    wanted = (place if version is None and micros is None else at_version(place, version, micros)).open()
    try:
        table.place().open()
    except TableNotFound:
        pass
    else:
        if arguments["if_not_exists"]:
            return [(0, 0, 0, 0)]
        if arguments["or_replace"]:
            raise NotSupported(
                f"{table.shown} is there, and a clone has no versions before its first; DROP TABLE {table.shown} PURGE, then "
                "CREATE TABLE ... CLONE, or RESTORE it to a version of its own"
            )
        raise TableExists(table.shown)

    def made(target: TableRef) -> None:
        store = open_store(target.uri, elsewhere(dict(target.storage_options)) or None)
        if not arguments["shallow"]:
            clone_deep(spark, wanted, store)
            return
        opened = dataset(wanted.uri, wanted.version, storage_options=dict(place.storage_options) or None)
        opened.shallow_clone(target.uri, None, dict(target.storage_options) or None)

    if table.path is not None:
        made(TableRef(table.path, table.catalog.storage_options))
    else:
        with new_place(table, arguments.get("location")) as target:
            made(target)
    sizes = [file.size or 0 for fragment in wanted.manifest.fragments for file in fragment.files]
    copied = [] if arguments["shallow"] else sizes
    return [(sum(sizes), len(sizes), len(copied), sum(copied))]


def register_table(table: Table, arguments: Arguments, _: Any) -> list[tuple[int]]:
    """Give a table that is there a name."""
    place = TableRef(arguments["location"], table.catalog.storage_options)
    version = place.open().version
    register(table, place.uri)
    return [(version,)]


def set_primary_key(table: Table, arguments: Arguments, _: Any) -> list[tuple[list[str]]]:
    """Declare the primary key, once."""
    columns = [split_path(column) for column in arguments["columns"]]
    alter(replace(place_to_change(table), version=None), [["add_constraint", ["primary_key", columns]]])
    return [([join_path(column) for column in columns],)]


def _reference(arguments: Arguments) -> Reference | None:
    branch, version, tag = (arguments.get(name) for name in ("from_branch", "version", "from_tag"))
    if tag is not None:
        if branch is not None or version is not None:
            raise InvalidInput("a tag names a version already; give no branch or version beside it")
        return str(tag)
    if branch is not None:
        return None if branch == _MAIN else str(branch), version
    return version


def _has_branch(snapshot: Snapshot, name: str) -> bool:
    try:
        read_branch(snapshot.root, name)
    except RefNotFound:
        return False
    return True


def _has_tag(snapshot: Snapshot, name: str) -> bool:
    try:
        read_tag(snapshot.root, name)
    except RefNotFound:
        return False
    return True


def _seconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp())
