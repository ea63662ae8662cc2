"""Which files belong to a table: those that lie there, and those that its versions name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancelet.index.metadata import read_indices
from lancelet.table.manifest.manifest import read_manifest
from lancelet.table.manifest.names import DATA_DIR, DELETIONS_DIR, INDICES_DIR, TRANSACTIONS_DIR
from lancelet.table.manifest.versions import list_versions

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.snapshot import Snapshot

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
            manifest = read_manifest(snapshot.store, name.path)
            yield from _files_of(snapshot, manifest, name.path)
            if progress is not None:
                progress(done, len(names))

    return pa.RecordBatchReader.from_batches(TRACKED_FILES, _batches(TRACKED_FILES, rows()))


def _files_of(snapshot: Snapshot, manifest: Manifest, path: str) -> Iterator[tuple[Any, ...]]:
    version, home = manifest.version, snapshot.uri

    def at(folder: str, path: str, base_id: int | None) -> tuple[str, str]:
        """Base and path; a base that is no table has its files directly in it."""
        base = None if base_id is None else manifest.base_paths.get(base_id)
        if base is None:
            return home, f"{folder}/{path}"
        return base.path, f"{folder}/{path}" if base.is_dataset_root else path

    yield version, home, path, "manifest"
    if manifest.transaction_file:
        yield version, home, f"{TRANSACTIONS_DIR}/{manifest.transaction_file}", "transaction file"
    for fragment in manifest.fragments:
        for file in fragment.files:
            yield version, *at(DATA_DIR, file.path, file.base_id), "data file"
    for fragment in manifest.fragments:
        if fragment.deletion_file is not None:
            place = fragment.deletion_file
            yield version, *at(DELETIONS_DIR, place.name(fragment.id), place.base_id), "deletion file"
    for index in read_indices(manifest):
        names = [part.path for part in index.files]
        if not names:
            # Older writers did not record them.
            folder = snapshot.places.index_file(str(index.uuid), "x", index.base_id)
            inside = folder.path.removesuffix("x")
            names = [entry.path.removeprefix(inside) for entry in folder.store.list_objects(inside.rstrip("/"))]
        for name in names:
            yield version, *at(INDICES_DIR, f"{index.uuid}/{name}", index.base_id), "index file"


def _batches(schema: pa.Schema, rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
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
