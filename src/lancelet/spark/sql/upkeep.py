"""OPTIMIZE and VACUUM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from lancelet.errors import InvalidInput
from lancelet.spark.fragment_ids import FRAGMENT_ID
from lancelet.spark.sql.statement_options import check_names, read_options, switch, whole_number
from lancelet.spark.sql.tables import open_dataset, place_to_change

if TYPE_CHECKING:
    from lancelet.spark.sql.catalog import Table
    from lancelet.table.cleanup.run import CleanupStats

_VACUUM = (
    "before_version",
    "before_timestamp_millis",
    "older_than",
    "retain_versions",
    "delete_unverified",
    "error_if_tagged_old_versions",
)
_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_NAMES = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}


def optimize(table: Table, arguments: Mapping[str, Any], spark: Any) -> list[tuple[int, ...]]:
    """Put fragments together, by tasks."""
    from lancelet.spark.table.compaction import compact_table

    options = read_options(arguments.get("options"))
    if isinstance(options.get("materialize_deletions_threshold"), int):
        options["materialize_deletions_threshold"] = float(options["materialize_deletions_threshold"])
    place, where = place_to_change(table), arguments.get("where")
    among = None if where is None else _fragments_with(table, where, spark)
    done = compact_table(spark, place, options, among=among)
    return [(done.fragments_removed, done.fragments_added, done.files_removed, done.files_added)]


def _fragments_with(table: Table, where: str, spark: Any) -> set[int]:
    """Numbers of the fragments that have a row for which a condition of Spark's is true."""
    names = (table.catalog.name, *table.namespace, table.name)
    source = ".".join("`" + name.replace("`", "``") + "`" for name in names)
    # A comment that the condition ends with goes as far as its line.
    query = f"SELECT DISTINCT CAST({FRAGMENT_ID} AS STRING) FROM {source} WHERE ({where}\n)"  # noqa: S608 - the user's own words
    return set(map(int, spark.texts(query)))


def vacuum(table: Table, arguments: Mapping[str, Any], _: Any) -> list[tuple[int, int]]:
    """Remove old versions, or only tell what would go."""
    options = read_options(arguments.get("options"))
    check_names(options, _VACUUM, "VACUUM")
    opened = open_dataset(place_to_change(table))
    age = _age(arguments.get("retain_hours"), options)
    before = whole_number(options, "before_version")
    chosen: dict[str, Any] = {
        "retain_versions": whole_number(options, "retain_versions", 1),
        "delete_unverified": switch(options, "delete_unverified"),
        "error_if_tagged_old_versions": switch(options, "error_if_tagged_old_versions"),
    }
    if before is not None:
        numbers = [entry["version"] for entry in opened.version_refs()]
        chosen["versions"] = [number for number in numbers if number < min(before, opened.version)]
        if not chosen["versions"]:
            return [(0, 0)]
    if arguments.get("dry_run"):
        stats = opened.explain_cleanup_old_versions(age, **chosen).stats
    else:
        stats = opened.cleanup_old_versions(age, **chosen)
    return _removed(stats)


def expire_snapshots(table: Table, arguments: Mapping[str, Any], _: Any) -> list[tuple[int, int]]:
    """Remove versions as users of Iceberg say it."""
    micros, kept = arguments.get("older_than"), arguments.get("retain_last")
    age = None if micros is None else _since(micros / 1e6)
    stats = open_dataset(place_to_change(table)).cleanup_old_versions(age, kept, error_if_tagged_old_versions=False)
    return _removed(stats)


def _removed(stats: CleanupStats) -> list[tuple[int, int]]:
    return [(stats.bytes_removed, stats.old_versions)]


def _age(hours: float | None, options: Mapping[str, Any]) -> timedelta | None:
    said = [name for name in ("before_timestamp_millis", "older_than") if name in options]
    if len(said) + (hours is not None) > 1:
        raise InvalidInput("RETAIN, older_than and before_timestamp_millis say the same; give one of them")
    if hours is not None:
        if hours < 0:
            raise InvalidInput(f"versions are kept for a number of hours, not {hours!r}")
        return timedelta(hours=hours)
    millis = whole_number(options, "before_timestamp_millis")
    if millis is not None:
        return _since(millis / 1e3)
    text = options.get("older_than")
    return None if text is None else _duration(str(text))


def _since(seconds: float) -> timedelta:
    now = datetime.now(timezone.utc)
    return max(now - datetime.fromtimestamp(seconds, timezone.utc), timedelta(0))


def _duration(text: str) -> timedelta:
    found = _AGE.fullmatch(text)
    unit = "" if found is None else found[2].lower()
    unit = _NAMES.get(unit.removesuffix("s"), unit)
    if found is None or unit not in _UNITS:
        raise InvalidInput(f"older_than is a time such as '7d' or '12 hours', not {text!r}")
    return timedelta(seconds=float(found[1]) * _UNITS[unit])
