"""Options of reads and writes, by the names that users give them. Spark does not distinguish their case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lancelet._api.opening import open_table, parse_time
from lancelet.errors import InvalidInput, RefNotFound, TableNotFound
from lancelet.spark.bridge import CASE_SENSITIVE, NAMED
from lancelet.spark.named_tables import NamedTable
from lancelet.store.limit import with_environment, with_limit

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot

_READ = (
    "version",
    "tag",
    "branch",
    "asOf",
    "columns",
    "filter",
    "limit",
    "rowId",
    "rowAddress",
    "batchSize",
    "splitBytes",
    "blobHandling",
    "namespace",
    "allowedPrefixes",
    "memWal",
)
_STREAM_READ = ("startingVersion", "maxVersionsPerTrigger", "maxRowsPerTrigger", "skipChanges", "readChanges")
_WRITE = (
    "writePath",
    "saveMode",
    "maxRowsPerFile",
    "maxBytesPerFile",
    "mergeSchema",
    "dataStorageVersion",
    "enableStableRowIds",
    "useLargeVarTypes",
    "checksums",
    "commitMessage",
    "namespace",
    "allowedPrefixes",
)
_PREFIXES = ("storage.", "vector.", "type.", "lance.")
WHOLE_FRAGMENTS = "lance.wholeFragments"
"""For reads of our own: all rows of a fragment come in one task."""
# What Spark itself adds or reads.
_SPARKS = ("path", "paths", "checkpointLocation", "header", "mode", "queryName")
_CATALOGS = ("provider", "owner", "location")
_NO_CATALOG = (
    "Spark's catalog knows where a Lance table is only with the bridge: start the session with "
    "lancelet.spark.configure(builder), or read and write by path, with load(path) and save(path)"
)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_BLOBS = ("all_binary", "blobs_descriptions")
_MAX_BATCH = 1 << 20
RUNS, LOG = _LEVELS = ("runs", "log")
"""What a read sees of a MemWAL: its runs, and what is only in its logs too."""
_EPOCH = datetime.fromtimestamp(0, timezone.utc)


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table and the version of it that options name."""

    uri: str
    storage_options: Mapping[str, str]
    version: int | str | tuple[str | None, int | None] | None = None
    asof: datetime | None = None

    def open(self) -> Snapshot:
        """The table at that version."""
        return open_table(self.uri, self.version, self.asof, self.storage_options or None)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the options of a read mean."""

    place: TableRef
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    limit: int | None = None
    row_id: bool = False
    row_address: bool = False
    batch_size: int | None = None
    split_bytes: int | None = None
    blobs_as_binary: bool = False
    mem_wal: str | None = None
    """``RUNS`` or ``LOG``; None: the table alone."""

    @property
    def gives_all_rows(self) -> bool:
        """Whether the read has as many rows as the table: then Spark counts them without reading."""
        return self.filter is None and self.limit is None and self.mem_wal is None

    @property
    def takes_conditions(self) -> bool:
        """Whether a condition may be tested before what these options choose."""
        return self.limit is None


def check_known(options: Mapping[str, str], *, writes: bool) -> None:
    """Refuse options that nobody reads: most likely they are misspelt."""
    if any(key.lower() in _CATALOGS for key in options):
        raise InvalidInput(_NO_CATALOG)
    own, others = (_WRITE, (*_READ, *_STREAM_READ)) if writes else ((*_READ, *_STREAM_READ), _WRITE)
    known = {name.lower(): name for name in (*own, *_SPARKS, *(others if NAMED in options else ()))}
    for key in options:
        if key.lower() not in known and not key.lower().startswith(_PREFIXES):
            names = ", ".join(sorted(set(known.values()) - set(_SPARKS)))
            raise InvalidInput(
                f"there is no option '{key}' for {'writing' if writes else 'reading'}; there are: {names}"
            )


def table_uri(options: Mapping[str, str]) -> str:
    """Where the table is, or its name in a namespace."""
    if "paths" in options:
        raise InvalidInput(f"one table is read at a time, not the paths {options['paths']}; union the data frames")
    uri = options.get("path")
    if not uri:
        raise InvalidInput(
            'the path of the table is missing; give it to load(...) or save(...), as the option "path", or as LOCATION'
            + ("; CREATE TABLE takes columns instead" if CASE_SENSITIVE in options else f". {_NO_CATALOG}")
        )
    return uri


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options of the object store, which begin with ``storage.``, and what the table may refer to.

    Executors may have another environment than the driver, so its limit goes along with the options.
    """
    storage = {key[len("storage.") :]: value for key, value in options.items() if key.startswith("storage.")}
    return with_environment(with_limit(storage, options.get("allowedprefixes")))


def parse_table_ref(options: Mapping[str, str]) -> TableRef:
    """The table and version that options name."""
    given = [name for name in ("version", "tag", "asOf") if options.get(name.lower()) is not None]
    if len(given) > 1:
        raise InvalidInput(f"the options {' and '.join(given)} all choose a version; give one of them")
    uri, storage = table_uri(options), storage_options(options)
    named = NamedTable.of(options, uri, storage)
    if named is not None:
        uri = named.uri()
    branch, tag = options.get("branch"), options.get("tag")
    number = count(options, "version", least=1)
    if branch is not None:
        if tag is not None or options.get("asof") is not None:
            raise InvalidInput("a branch goes with a version, not with a tag or a time")
        return TableRef(uri, storage, (branch, number))
    moment = options.get("asof")
    return TableRef(uri, storage, tag if tag is not None else number, None if moment is None else parse_time(moment))


def at_version(place: TableRef, version: str | None, micros: int | None) -> TableRef:
    """A table at a version (its number, a tag or a branch), or as it was at a time."""
    if micros is not None:
        # A version counts at the microsecond of its commit; those before a moment are what a table opens.
        return replace(place, asof=_EPOCH + timedelta(microseconds=micros + 1))
    if version is None:
        return place
    if version.isdecimal():
        return replace(place, version=int(version))
    try:
        replace(place, version=version).open()
    except RefNotFound:
        # As users of Iceberg write it, a branch.
        branch = replace(place, version=(version, None))
        try:
            branch.open()
        except (RefNotFound, TableNotFound):
            raise RefNotFound(f"{place.uri} has no tag and no branch '{version}'") from None
        return branch
    return replace(place, version=version)


def check_new(options: Mapping[str, str]) -> None:
    """Refuse to make a name with columns or rows of its own for a table that is there: Spark would add the rows to it."""
    place = parse_table_ref(options)
    try:
        place.open()
    except TableNotFound:
        return
    raise InvalidInput(
        f"there is a table at {place.uri} already; to give it a name, leave columns and query out: CREATE TABLE name USING "
        "lance LOCATION 'path'; to write to it, use INSERT INTO name, or save(path) with the mode append or overwrite. "
        "Where a name was to be replaced, Spark has removed the name by now; the table stays as it is"
    )


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a read."""
    check_known(options, writes=False)
    columns = options.get("columns")
    handling = options.get("blobhandling")
    if handling is not None and handling not in _BLOBS:
        raise InvalidInput(f"blobHandling is one of {', '.join(_BLOBS)}, not {handling!r}")
    batch_size = count(options, "batchSize", least=1)
    if batch_size is not None and batch_size > _MAX_BATCH:
        raise InvalidInput(f"batchSize is at most {_MAX_BATCH}, not {batch_size}")
    return ReadOptions(
        parse_table_ref(options),
        columns=None if columns is None else tuple(name.strip() for name in columns.split(",") if name.strip()),
        filter=options.get("filter") or None,
        limit=count(options, "limit"),
        row_id=flag(options, "rowId"),
        row_address=flag(options, "rowAddress"),
        batch_size=batch_size,
        split_bytes=size(options, "splitBytes"),
        blobs_as_binary=handling == "all_binary",
        mem_wal=_mem_wal(options),
    )


def _mem_wal(options: Mapping[str, str]) -> str | None:
    text = options.get("memwal")
    if text is None:
        return None
    if text.lower() not in _LEVELS:
        raise InvalidInput(f"memWal is one of {', '.join(_LEVELS)}, not {text!r}")
    for name in ("version", "tag", "branch", "asOf", "rowId", "rowAddress"):
        if name.lower() in options:
            raise InvalidInput(
                f"{name} and memWal exclude each other: runs belong to the newest version, and their rows have no ids"
            )
    return text.lower()


def chosen_types(options: Mapping[str, str]) -> dict[str, str]:
    """Logical types by column: ``vector.<column>=<size>``, ``vector.<column>=<item>:<size>`` or ``type.<column>``."""
    chosen = {key[len("type.") :].lower(): value for key, value in options.items() if key.startswith("type.")}
    for key, value in options.items():
        if not key.startswith("vector."):
            continue
        item, _, length = value.rpartition(":")
        if not length.isdecimal() or int(length) < 1:
            raise InvalidInput(
                f"option {key} is the length of the vectors, such as 128 or halffloat:128, not {value!r}"
            )
        chosen[key[len("vector.") :].lower()] = f"fixed_size_list:{item or 'float'}:{length}"
    return chosen


def count(options: Mapping[str, str], name: str, least: int = 0) -> int | None:
    """A whole number."""
    text = options.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\d+", text.strip()) or int(text) < least:
        raise InvalidInput(f"option {name} is a whole number{' above 0' if least else ''}, not {text!r}")
    return int(text)


def size(options: Mapping[str, str], name: str) -> int | None:
    """A number of bytes, which may have a unit: ``64m``, ``1 GB``."""
    text = options.get(name.lower())
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS or int(found[1]) < 1:
        raise InvalidInput(f"option {name} is a number of bytes such as 67108864 or 64m, not {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def flag(options: Mapping[str, str], name: str) -> bool:
    """``true`` or ``false``."""
    text = options.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"option {name} is true or false, not {text!r}")
    return text == "true"
