"""CHANGES FROM: what some versions of a table did to its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as st

from lancelet.errors import InvalidInput, NotFound, VersionNotFound
from lancelet.spark import bridge
from lancelet.spark.change_feed import ADDED, CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, Changes
from lancelet.spark.options import ReadOptions, TableRef, at_version
from lancelet.spark.source import table_columns
from lancelet.spark.sql.catalog import Table
from lancelet.spark.sql.tables import place_to_read, with_comments
from lancelet.table.manifest.versions import read_version

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot

_ADDED = st.StructType(
    [
        st.StructField(CHANGE_TYPE, st.StringType(), False),
        st.StructField(COMMIT_VERSION, st.LongType(), False),
        st.StructField(COMMIT_TIMESTAMP, st.TimestampType(), False),
    ]
)


def load_changes(details: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of what changed, and how it is read; the range is ``[kind, from, inclusive, to or None, inclusive]``."""
    table = Table.of(details)
    place = place_to_read(table)
    newest = place.open()
    kind, start, with_start, stop, with_stop, net, with_updates = details["changes"]
    if with_updates and not newest.manifest.has_stable_row_ids:
        raise InvalidInput(
            f"{table.shown} has no stable row ids, so that an updated row is one that is deleted and one that is inserted; leave "
            "computeUpdates out, or make the table with 'enable_stable_row_ids' = 'true'"
        )
    if net and not newest.manifest.has_stable_row_ids:
        raise InvalidInput(
            f"{table.shown} has no stable row ids, so that nobody knows what became of a row over several versions; read the "
            "changes of each version, without deduplicationMode = 'netChanges'"
        )
    if kind == "timestamp":
        first = _version_at(place, int(start) - bool(with_start)) + 1
        last = newest.version if stop is None else _version_at(place, int(stop) - (not with_stop))
    else:
        first = _number(place, start) + (not with_start)
        last = newest.version if stop is None else _number(place, stop) - (not with_stop)
    if stop is not None and first > last + 1:
        raise InvalidInput(f"changes are read from an older {kind} to a newer one, not from {start} to {stop}")
    _check_there(newest, first, last)
    end = newest if newest.version == max(1, last) else newest.at(max(1, last))
    columns = with_comments(table_columns(end, ReadOptions(place)), end)
    taken = sorted(set(columns.names) & set(ADDED))
    if taken:
        raise InvalidInput(
            f"{table.shown} has a column '{taken[0]}' of its own; changes are read of tables that have none"
        )
    storage = {f"storage.{key}": value for key, value in place.storage_options.items()}
    return {
        "uri": newest.uri,
        "version": newest.version,
        "columns": json.loads(st.StructType([*columns, *_ADDED]).json()),
        "options": {
            **table.catalog.options,
            "path": newest.uri,
            bridge.NAMED: "true",
            bridge.CHANGES: Changes(first, last, net).written(),
            **storage,
        },
    }


def _number(place: TableRef, version: str) -> int:
    return int(version) if version.isdecimal() else at_version(place, version, None).open().version


def _version_at(place: TableRef, micros: int) -> int:
    """The newest version that was there at a time; 0 before the first one."""
    try:
        return at_version(place, None, micros).open().version
    except NotFound:
        return 0


def _check_there(newest: Snapshot, first: int, last: int) -> None:
    """Refuse a range that begins with a version that the table has not, or has no longer."""
    if first > newest.version + 1 or last > newest.version:
        raise VersionNotFound(
            newest.uri, max(first, last), f"it was never written; the newest version is {newest.version}"
        )
    if first <= last:
        read_version(newest.store, max(1, first - 1))
