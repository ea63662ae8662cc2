"""Checks of one version: everything that a scan of it relies on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lancelet.encoding.rows import RowRange
from lancelet.errors import CorruptFile, LanceletError
from lancelet.execution.blobs import find_blobs, has_blobs
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.table_reader import TableReader
from lancelet.execution.threads import ordered_map
from lancelet.file import FileCache
from lancelet.file.checksums import check_file, check_side_file, side_checksums
from lancelet.format.blob_types import side_file
from lancelet.format.file_versions import LEGACY
from lancelet.format.schema import Field
from lancelet.format.system_columns import CREATED_AT, LAST_UPDATED_AT, ROW_ID_FIELD
from lancelet.maintenance.validation.report import UNREADABLE, Finding, Level, checksum_finding, trouble
from lancelet.table.manifest.fragment import Fragment
from lancelet.table.manifest.mending import file_versions
from lancelet.table.manifest.snapshot import Snapshot

_BATCH = 65_536
_BATCH_BYTES = 32 << 20
_REMOTE_AHEAD = 16
_COMPACT = "restore an older version, or write the table anew"


@dataclass(slots=True)
class Tally:
    """What has been looked at."""

    versions: int = 0
    files: set[str] = field(default_factory=set)
    rows: int = 0


def check_version(snapshot: Snapshot, tally: Tally, *, deep: bool = False) -> Iterator[Finding]:
    """Check the schema, the fragments with all their files, and the row ids of a version."""
    try:
        schema_fields = snapshot.manifest.schema.fields
        ids = snapshot.manifest.fragments.ids
    except LanceletError as error:
        yield trouble(error, f"version {snapshot.version}")
        return
    found = [*_mended(snapshot), *_field_ids(snapshot), *_fragment_ids(snapshot, ids)]
    yield from found
    sound = not found

    def check(position: int) -> tuple[list[Finding], int]:
        return _fragment(snapshot, position, schema_fields, tally, deep=deep)

    ahead = 2 if snapshot.store.is_local else _REMOTE_AHEAD
    for findings, rows in ordered_map(check, range(len(ids)), ahead):
        tally.rows += rows
        sound = sound and not findings
        yield from findings
    if snapshot.manifest.has_stable_row_ids and sound:
        yield from _row_ids(snapshot)


def _mended(snapshot: Snapshot) -> Iterator[Finding]:
    """What reads right here, and may not elsewhere."""
    place = f"version {snapshot.version}"
    for fault in snapshot.manifest.mended:
        advice = "repair() or any other commit records it as it is read"
        level = Level.ERROR if "id" in fault.split() else Level.WARNING
        yield Finding(level, "old release", place, fault, advice, repairable=True)
    versions = file_versions(snapshot.manifest.message)
    if LEGACY in versions and len(versions) > 1:
        problem = f"files of the versions {', '.join(sorted(versions))} are side by side"
        yield Finding(Level.ERROR, "file versions", place, problem, "write the table anew with mode='overwrite'")


def _field_ids(snapshot: Snapshot) -> Iterator[Finding]:
    place = f"schema of version {snapshot.version}"
    counts = Counter(node.id for node in snapshot.manifest.schema.walk())
    for number, count in counts.items():
        if count > 1:
            yield Finding(Level.ERROR, "field ids", place, f"{count} fields share the id {number}", _COMPACT)
    mark = snapshot.manifest.max_allocated_field_id
    if mark is not None and counts and max(counts) > mark:
        problem = f"field id {max(counts)} is in use, but the greatest one ever given is said to be {mark}"
        yield Finding(Level.WARNING, "field ids", place, problem, "add no columns before this is repaired")


def _fragment_ids(snapshot: Snapshot, ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[Finding]:
    place = f"version {snapshot.version}"
    for after in np.flatnonzero(np.diff(ids) <= 0).tolist():
        first, second = int(ids[after]), int(ids[after + 1])
        problem = f"two fragments have the id {first}" if first == second else f"fragment {second} comes after {first}"
        yield Finding(Level.ERROR, "fragment ids", place, problem, _COMPACT)
    if len(set(ids.tolist())) < len(ids) and not np.any(np.diff(ids) == 0):
        yield Finding(Level.ERROR, "fragment ids", place, "two fragments have the same id", _COMPACT)
    mark = snapshot.manifest.max_fragment_id
    if len(ids) and mark is not None and mark < int(ids.max()):
        problem = f"fragment {int(ids.max())} is there, but the greatest id ever given is said to be {mark}"
        advice = "repair() sets it; appends of other writers fail until then"
        yield Finding(Level.WARNING, "fragment ids", place, problem, advice, repairable=True)


def _fragment(
    snapshot: Snapshot, position: int, fields: Sequence[Field], tally: Tally, *, deep: bool
) -> tuple[list[Finding], int]:
    """Check one fragment; returns what was found and how many rows were decoded."""
    try:
        fragment = snapshot.manifest.fragments[position]
    except LanceletError as error:
        return [trouble(error, f"fragment at position {position}")], 0
    place = f"fragment {fragment.id}"
    findings = [*_files(snapshot, fragment, tally)]
    reader = FragmentReader(snapshot, fragment, FileCache())
    rows = 0
    try:
        if not fragment.files:
            raise CorruptFile(snapshot.manifest.path, "has no files", place)
        for file in reader.files:
            if file.reader.num_rows != reader.physical_rows:
                raise CorruptFile(
                    file.source.path, f"has {file.reader.num_rows} rows, others of its fragment {reader.physical_rows}"
                )
        for top in fields:
            reader.check(top)
        reader.row_bytes(fields)
        if fragment.deletion_file is not None:
            tally.files.add(snapshot.places.deletion_file(fragment.id, fragment.deletion_file).full_path)
            _ = reader.deletions
        if snapshot.manifest.has_stable_row_ids:
            _ = reader.row_ids
            for name in (CREATED_AT, LAST_UPDATED_AT):
                reader.system_column(name, RowRange(0, min(reader.physical_rows, 1)))
        if deep and not findings:
            findings.extend(_checksums(snapshot, fragment))
        if deep and not findings:
            rows = _decode(reader, fields, findings)
    except LanceletError as error:
        if not findings:
            findings.append(trouble(error, place))
    return findings, rows


def _files(snapshot: Snapshot, fragment: Fragment, tally: Tally) -> Iterator[Finding]:
    """Check what can be said about a fragment's files without opening them."""
    place = f"fragment {fragment.id}"
    known = {node.id: node for node in snapshot.manifest.schema.walk()}
    owners: dict[int, str] = {}
    for file in fragment.files:
        try:
            where = snapshot.places.data_file(file)
            size = where.store.size_of(where.path)
        except LanceletError as error:
            yield trouble(error, place)
            continue
        tally.files.add(where.full_path)
        if file.size is not None and file.size != size:
            problem = f"has {size} bytes, but {file.size} are recorded in {place}"
            yield Finding(Level.ERROR, "wrong size", where.full_path, problem, _COMPACT)
        wanted = [number for number in file.fields if number in known or number <= ROW_ID_FIELD]
        if not wanted:
            problem = f"{place} has it, but none of its fields {list(file.fields)} is in the schema"
            yield Finding(Level.ERROR, "field ids", where.full_path, problem, "drop it from the fragment: compact")
        shared = [column for column, count in Counter(file.column_indices).items() if count > 1 and column >= 0]
        if any(number >= 0 for number, at in zip(file.fields, file.column_indices, strict=False) if at in shared):
            problem = f"two fields of {place} are said to be its column {shared[0]}"
            yield Finding(Level.ERROR, "field ids", where.full_path, problem, _COMPACT)
        for number in wanted:
            # Files of a nested column may all list the struct that their leaves are in.
            if number in known and known[number].children:
                continue
            if number in owners:
                problem = f"field {number} of {place} is also in {owners[number]}"
                yield Finding(Level.ERROR, "field ids", where.full_path, problem, _COMPACT)
            owners[number] = file.path
    for overlay in fragment.overlays:
        try:
            where = snapshot.places.data_file(overlay.file)
            where.store.size_of(where.path)
            tally.files.add(where.full_path)
        except LanceletError as error:
            yield trouble(error, place)


def _checksums(snapshot: Snapshot, fragment: Fragment) -> Iterator[Finding]:
    """Compare files with their checksums, those that have some, and files of blobs with those of their data files."""
    for file in fragment.all_files:
        place = snapshot.places.data_file(file)
        try:
            source = place.open(file.size)
            if check_file(source):
                for number, digest in side_checksums(source).items():
                    check_side_file(place.store.open(side_file(place.path, number)), digest)
        except LanceletError as error:
            yield checksum_finding(error, f"fragment {fragment.id}")


def _decode(reader: FragmentReader, fields: Sequence[Field], findings: list[Finding]) -> int:
    """Decode every page; returns how many rows there are."""
    total = reader.physical_rows
    for top in fields:
        stored, decoded = reader.row_bytes([top])
        step = int(min(_BATCH, max(1, _BATCH_BYTES // max(stored + decoded, 1))))
        try:
            for start in range(0, total, step):
                rows = RowRange(start, min(start + step, total))
                _check_values(reader, top, rows)
        except LanceletError as error:
            findings.append(trouble(error, f"column {top.name} of fragment {reader.fragment.id}"))
        except pa.ArrowInvalid as error:
            place = f"column {top.name} of fragment {reader.fragment.id}"
            findings.append(Finding(Level.ERROR, UNREADABLE, place, str(error), _COMPACT))
    return total


def _check_values(reader: FragmentReader, top: Field, rows: RowRange) -> None:
    (column,) = reader.read([top], rows)
    column.validate(full=True)
    if has_blobs(top):
        _check_blobs(reader, top, pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column)
    if not top.nullable and column.null_count:
        nulls = column.is_null().to_numpy() if isinstance(column, pa.ChunkedArray) else np.asarray(column.is_null())
        live = reader.live(rows)
        bad = np.flatnonzero(nulls if live is None else nulls & live)
        if len(bad):
            raise CorruptFile(
                reader.snapshot.manifest.path,
                f"row {rows.start + int(bad[0])} is null, though the column has no nulls",
                f"column {top.name} of fragment {reader.fragment.id}",
            )


def _check_blobs(reader: FragmentReader, node: Field, array: pa.Array) -> None:
    """Check that the bytes of blobs are there; they are not read."""
    if not (node.is_blob or node.is_blob_v2):
        for at, child in enumerate(node.children):
            if has_blobs(child):
                _check_blobs(reader, child, array.field(at))
        return
    for blob in find_blobs(reader, node, array):
        if blob is not None and blob.size and blob.position + blob.size > blob.source.size:
            raise CorruptFile(
                blob.source.path,
                f"has {blob.source.size} bytes, but a blob is at {blob.position} to {blob.position + blob.size}",
                f"column {node.name} of fragment {reader.fragment.id}",
            )


def _row_ids(snapshot: Snapshot) -> Iterator[Finding]:
    """Check that no id has two live rows, and that the next one given is new."""
    place = f"row ids of version {snapshot.version}"
    table = TableReader(snapshot, FileCache())
    greatest = -1
    try:
        index = table.row_id_index
        for reader in table.readers():
            ids = reader.row_ids
            if ids is not None and len(ids.starts):
                greatest = max(greatest, int((ids.starts + np.diff(ids.bounds).astype(np.uint64)).max()) - 1)
    except LanceletError as error:
        yield trouble(error, place)
        return
    if len(index.stops):
        greatest = max(greatest, int(index.stops[-1]) - 1)
    if greatest >= snapshot.manifest.next_row_id:
        problem = f"row id {greatest} is in use, but {snapshot.manifest.next_row_id} is given out next"
        yield Finding(Level.ERROR, "row ids", place, problem, _COMPACT)
