"""Which files belong to a table: those that lie there, and those that its versions name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from lancelet.table.manifest.manifest import read_manifest
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.version_files import named_files
from lancelet.table.manifest.versions import list_versions

_REPEATED = pa.dictionary(pa.int32(), pa.string())
ALL_FILES = pa.schema(
    [
        pa.field("base_uri", _REPEATED, nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
TRACKED_FILES = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("base_uri", _REPEATED, nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("type", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ]
)
_BATCH = 8192


def all_files(snapshot: Snapshot) -> pa.RecordBatchReader:
    """Every object below the table's folder: path, size and time."""
    rows = ((snapshot.uri, entry.path, entry.size, entry.modified) for entry in snapshot.store.list_objects())
    return pa.RecordBatchReader.from_batches(ALL_FILES, _batches(ALL_FILES, rows))


def tracked_files(
    snapshot: Snapshot, min_version: int | None = None, progress: Callable[[int, int], Any] | None = None
) -> pa.RecordBatchReader:
    """Files that versions of the table refer to, version by version."""
    names = [name for name in list_versions(snapshot.store) if min_version is None or name.version >= min_version]

    def rows() -> Iterator[tuple[Any, ...]]:
        for done, name in enumerate(names, 1):
            yield name.version, snapshot.uri, name.path, "manifest"
            yield from _rows_of(Snapshot.of(snapshot.store, read_manifest(snapshot.store, name.path)))
            if progress is not None:
                progress(done, len(names))

    return pa.RecordBatchReader.from_batches(TRACKED_FILES, _batches(TRACKED_FILES, rows()))


def _rows_of(snapshot: Snapshot) -> Iterator[tuple[int, str, str, str]]:
    version, home, bases = snapshot.version, snapshot.uri, snapshot.manifest.base_paths
    for file in named_files(snapshot):
        base = None if file.base_id is None else bases.get(file.base_id)
        if base is None:
            yield version, home, file.name, file.role.value
        else:
            # A base that is no table has its files directly in it.
            yield version, base.path, file.name if base.is_dataset_root else file.path, file.role.value


def _batches(schema: pa.Schema, rows: Iterator[tuple[object, ...]]) -> Iterator[pa.RecordBatch]:
    held: list[tuple[Any, ...]] = []

    def batch() -> pa.RecordBatch:
        columns = list(zip(*held, strict=True))
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )

    for row in rows:
        held.append(row)
        if len(held) == _BATCH:
            yield batch()
            held = []
    if held:
        yield batch()
