"""CREATE, DROP, OPTIMIZE and REFRESH INDEX, SHOW INDEXES."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lancelet._api.entry import dataset
from lancelet.errors import IndexNotFound, InvalidInput, NotSupported
from lancelet.spark.sql.statement_options import check_names, read_options, switch, whole_number
from lancelet.spark.sql.tables import open_dataset, place_to_change, place_to_read
from lancelet.table.commit.index_upkeep import SYSTEM_INDICES

if TYPE_CHECKING:
    from lancelet.dataset import LanceDataset
    from lancelet.spark.sql.catalog import Table

_SPELLINGS = {"distance_type": "metric", "fts_version": "format_version"}
_LAYOUT = ("num_segments", "build_mode", "rows_per_range", "zone_size", "prefetch_distance")
"""How other connectors share the work out; here rows and bytes say."""
_OPTIMIZE = ("num_indices_to_merge", "retrain")
_REFRESH = ("num_segments",)
Arguments = Mapping[str, Any]


def create_index(table: Table, arguments: Arguments, spark: Any) -> list[tuple[int, str]]:
    """Build an index, by tasks."""
    from lancelet.spark.table.indices import create_index as build

    place, columns, name = place_to_change(table), arguments["columns"], arguments.get("name")
    if len(columns) != 1:
        raise NotSupported(f"an index is over one column; {', '.join(columns)} are {len(columns)}")
    opened = open_dataset(place)
    if arguments["if_not_exists"] and name is not None and _found(opened, name) is not None:
        return [(0, name)]
    name = name if name is None else _found(opened, name) or name
    options = _build_options(arguments)
    train = options.pop("train", True)
    if not isinstance(train, bool):
        raise InvalidInput(f"train is true or false, not {train!r}")
    if train:
        build(spark, place, columns[0], arguments["method"].upper(), name, True, options, can_sort=False)
    else:
        opened.create_index(columns[0], arguments["method"].upper(), name, replace=True, train=False, **options)
    made = open_dataset(place)
    chosen = name or _newest(opened, made)
    return [(_statistics(made, chosen)["num_indexed_fragments"], chosen)]


def drop_index(table: Table, arguments: Arguments, _: Any) -> list[tuple[str, str]]:
    """Remove an index; its files go with the next VACUUM."""
    opened = open_dataset(place_to_change(table))
    found = _found(opened, arguments["name"])
    if found is None and arguments["if_exists"]:
        return [(arguments["name"], "not found")]
    name = _known(opened, arguments["name"])
    opened.drop_index(name)
    return [(name, "dropped")]


def optimize_index(table: Table, arguments: Arguments, spark: Any) -> list[tuple[str, int, int, int]]:
    """Extend an index, or all, by new rows; segments are merged."""
    from lancelet.spark.table.indices import extend_indices

    place, options = place_to_change(table), read_options(arguments.get("options"))
    check_names(options, _OPTIMIZE, "OPTIMIZE INDEX")
    opened = open_dataset(place)
    names = _names(opened) if arguments.get("name") is None else [_known(opened, arguments["name"])]
    before = {name: _segments(opened, name) for name in names}
    merged = whole_number(options, "num_indices_to_merge")
    extend_indices(spark, place, merged, names, switch(options, "retrain"))
    after = open_dataset(place)
    return [
        (name, _statistics(after, name)["num_indexed_fragments"], before[name], _segments(after, name))
        for name in names
    ]


def refresh_index(table: Table, arguments: Arguments, spark: Any) -> list[tuple[int, int, str]]:
    """Add a segment for what an index does not know."""
    from lancelet.spark.table.indices import extend_indices

    place, options = place_to_change(table), read_options(arguments.get("options"))
    check_names(options, _REFRESH, "REFRESH INDEX")
    whole_number(options, "num_segments", 1)
    opened = open_dataset(place)
    name = _known(opened, arguments["name"])
    before, segments = _statistics(opened, name), _segments(opened, name)
    extend_indices(spark, place, 0, [name], False)
    made = open_dataset(place)
    indexed = _statistics(made, name)["num_indexed_fragments"] - before["num_indexed_fragments"]
    return [(indexed, _segments(made, name) - segments, name)]


def show_indexes(table: Table, _: Arguments, __: Any) -> list[tuple[Any, ...]]:
    """All indices, with the rows that they know."""
    place = place_to_read(table)
    snapshot = place.open()
    opened = dataset(snapshot.uri, snapshot.version, storage_options=dict(place.storage_options) or None)
    rows = []
    for index in opened.describe_indices():
        if index.name in SYSTEM_INDICES:
            continue
        known = _statistics(opened, index.name)
        counts = [
            known[f"num_{sort}_{things}"] for sort in ("indexed", "unindexed") for things in ("fragments", "rows")
        ]
        kind = index.index_type.lower()
        rows.append((index.name, index.field_names, kind, *counts, len(index.segments), index.total_size_bytes))
    return rows


def _build_options(arguments: Arguments) -> dict[str, Any]:
    """Options of a build under our names."""
    options = read_options(arguments.get("options"))
    whole_number(options, "num_segments", 1)
    renamed = {_SPELLINGS.get(name, name): value for name, value in options.items() if name not in _LAYOUT}
    if len(renamed) < len([name for name in options if name not in _LAYOUT]):
        raise InvalidInput("an option is given by two names: " + ", ".join(options))
    return renamed


def _names(opened: LanceDataset) -> list[str]:
    return [index.name for index in opened.describe_indices() if index.name not in SYSTEM_INDICES]


def _found(opened: LanceDataset, name: str) -> str | None:
    """The index that a name means; case decides only between several."""
    names = _names(opened)
    alike = [known for known in names if known.lower() == name.lower()]
    return name if name in names else alike[0] if len(alike) == 1 else None


def _known(opened: LanceDataset, name: str) -> str:
    found = _found(opened, name)
    if found is None:
        there = ", ".join(_names(opened)) or "none"
        raise IndexNotFound(f"there is no index {name} on {opened.uri}; there is: {there}")
    return found


def _newest(before: LanceDataset, after: LanceDataset) -> str:
    """The index that a build made or replaced, when it chose the name itself."""
    old = {(index.name, segment.uuid) for index in before.describe_indices() for segment in index.segments}
    return next(
        index.name
        for index in after.describe_indices()
        for segment in index.segments
        if (index.name, segment.uuid) not in old and index.name not in SYSTEM_INDICES
    )


def _segments(opened: LanceDataset, name: str) -> int:
    return sum(len(index.segments) for index in opened.describe_indices() if index.name == name)


def _statistics(opened: LanceDataset, name: str) -> dict[str, Any]:
    return opened.index_statistics(name)
