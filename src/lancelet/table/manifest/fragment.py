"""Fragments: rows that share files, and where each column of them is.

Spec table-format.md 2.3 and 3.6. A field belongs to the first file that lists
its id. Ids below zero are no columns of the schema::

    -2   a dead column
    -3   _rowid, -4 _row_created_at_version, -5 _row_last_updated_at_version (spilled row lineage)
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile, NotSupported
from lancelet.format.file_versions import LEGACY, version_numbered
from lancelet.format.proto import table_pb2
from lancelet.format.system_columns import LAST_UPDATED_AT_FIELD, ROW_ID_FIELD
from lancelet.table.manifest.manifest_wire import survey_fragments
from lancelet.table.manifest.names import DELETIONS_DIR
from lancelet.table.rows.addresses import MAX_FRAGMENT_ID, MAX_ROWS
from lancelet.table.rows.roaring import decode_roaring

TOMBSTONE = -2


class Spilled(enum.Enum):
    """Marks a sequence that is a hidden column of a data file."""

    COLUMN = "column"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file with some of a fragment's columns."""

    path: str
    """Relative to ``data/`` of its base."""
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    """Column of each field; empty for legacy files."""
    major: int = 0
    minor: int = 0
    size: int | None = None
    base_id: int | None = None

    @property
    def version(self) -> str:
        """File version by name, for example ``2.1``."""
        version = version_numbered(self.major, self.minor)
        if version is None:
            raise NotSupported(
                f"data file {self.path} has the file version {self.major}.{self.minor}, which is not known"
            )
        return version

    @property
    def is_legacy(self) -> bool:
        return self.version == LEGACY

    def columns(self) -> dict[int, int]:
        """Column of each field, hidden ones included; of a legacy file the field's place in the list.

        -1 stands for a field that has no column.
        """
        columns: Sequence[int] = range(len(self.fields)) if self.is_legacy else self.column_indices
        if len(columns) != len(self.fields):
            raise CorruptFile(self.path, f"the manifest gives no columns to the fields {list(self.fields)} of the file")
        pairs = zip(self.fields, columns, strict=True)
        return {field: column for field, column in pairs if field >= 0 or field <= ROW_ID_FIELD}


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Names the file with a fragment's deleted rows."""

    is_bitmap: bool
    read_version: int
    id: int
    num_deleted_rows: int | None
    """None when the writer did not record it, or is known to have recorded it wrongly."""
    base_id: int | None = None

    def name(self, fragment_id: int) -> str:
        return f"{fragment_id}-{self.read_version}-{self.id}.{'bin' if self.is_bitmap else 'arrow'}"

    def path(self, fragment_id: int) -> str:
        """Path relative to a table's folder."""
        return f"{DELETIONS_DIR}/{self.name(fragment_id)}"


@dataclass(frozen=True, slots=True)
class OverlayFile:
    """New values for some cells: the value of row ``r`` is at position ``rank(r)`` of the file's column."""

    file: DataFile
    coverage: tuple[bytes, ...]
    """Roaring bitmaps of row offsets: one for all fields, or one a field."""
    committed_version: int

    def rows(self, field_id: int, path: str) -> npt.NDArray[np.uint32] | None:
        """The rows whose ``field_id`` is here, ascending; None when the file does not have the field."""
        if field_id not in self.file.fields:
            return None
        at = 0 if len(self.coverage) == 1 else self.file.fields.index(field_id)
        return decode_roaring(self.coverage[at], path, "overlay coverage", limit=MAX_ROWS)


@dataclass(frozen=True, slots=True)
class ColumnLocation:
    """Where a field's column is."""

    file: int
    """Index into ``Fragment.files``."""
    column: int | None
    """Column index in the file; None for fields without one, and in legacy files (their columns go by field id)."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Metadata of one fragment."""

    id: int
    files: tuple[DataFile, ...]
    deletion_file: DeletionFile | None = None
    physical_rows: int | None = None
    """Rows in the files, deleted ones included; None when only the files know."""
    row_ids: bytes | Spilled | None = None
    """Serialized RowIdSequence."""
    created_at: bytes | Spilled | None = None
    """Serialized RowDatasetVersionSequence."""
    last_updated_at: bytes | Spilled | None = None
    overlays: tuple[OverlayFile, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    """Keys and values that writers keep with the fragment, in the order of the keys."""

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """Its data files, then those of new values for single cells."""
        return (*self.files, *(overlay.file for overlay in self.overlays))

    @property
    def num_deletions(self) -> int | None:
        """How many rows are deleted; None when only the deletion file knows."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int | None:
        """Live rows; None when only the files know."""
        deleted = self.num_deletions
        return None if self.physical_rows is None or deleted is None else self.physical_rows - deleted

    def columns(self) -> dict[int, ColumnLocation]:
        """Location of every field that some file holds, hidden lineage columns included."""
        found: dict[int, ColumnLocation] = {}
        for index, file in enumerate(self.files):
            columns: Sequence[int | None] = file.column_indices or [None] * len(file.fields)
            for field, column in zip(file.fields, columns, strict=True):
                if field >= 0 or field <= ROW_ID_FIELD:
                    found.setdefault(field, ColumnLocation(index, None if column == -1 else column))
        return found

    def locate(self, field_id: int) -> ColumnLocation | None:
        """Where a field is; None when no file has it, so that it reads as null."""
        for index, file in enumerate(self.files):
            if field_id in file.fields:
                if not file.column_indices:
                    return ColumnLocation(index, None)
                column = file.column_indices[file.fields.index(field_id)]
                return ColumnLocation(index, None if column == -1 else column)
        return None


class Fragments(Sequence[Fragment]):
    """The fragments of a manifest, in scan order; a fragment is only built when it is asked for.

    Ids may repeat: an old release wrote such tables.
    """

    __slots__ = ("__dict__", "_body", "_built", "_messages", "_path", "_trust_counts")

    def __init__(
        self,
        messages: Sequence[table_pb2.DataFragment],
        path: str,
        *,
        trust_counts: bool,
        body: bytes | None = None,
    ) -> None:
        self._messages = messages
        self._body = body
        self._path = path
        self._trust_counts = trust_counts
        self._built: dict[int, Fragment] = {}

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fragment]: ...
    def __getitem__(self, index: int | slice) -> Fragment | list[Fragment]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"fragment {index} of {len(self)}")
        fragment = self._built.get(position)
        if fragment is None:
            fragment = fragment_from_proto(self._messages[position], self._path, trust_counts=self._trust_counts)
            self._built[position] = fragment
        return fragment

    def __iter__(self) -> Iterator[Fragment]:
        return (self[index] for index in range(len(self)))

    @cached_property
    def _surveyed(self) -> tuple[npt.NDArray[np.int64], ...] | None:
        """Ids, rows and live rows as one pass over the bytes tells them; None when messages have to be looked at.

        No rows are told where some fragment cannot have as many as it says. What was surveyed has no overlays.
        """
        found = None if self._body is None else survey_fragments(self._body)
        return None if found is None else tuple(np.frombuffer(part, np.int64) for part in (found[2], *found[9:]))

    @cached_property
    def ids(self) -> npt.NDArray[np.int64]:
        """The ids in scan order."""
        if self._surveyed is not None:
            return self._surveyed[0]
        try:
            ids = np.fromiter((m.id for m in self._messages), np.uint64, len(self))
        except OverflowError:
            raise CorruptFile(self._path, "has a fragment id beyond 64 bits", "fragments") from None
        if len(ids) and int(ids.max()) > MAX_FRAGMENT_ID:
            raise CorruptFile(self._path, f"has the fragment id {int(ids.max())}, beyond 32 bits", "fragments")
        return ids.astype(np.int64)

    @cached_property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Live rows of each fragment, -1 where only the files know."""
        if self._trust_counts and self._surveyed is not None and len(self._surveyed[2]) == len(self):
            return self._surveyed[2]

        def rows(message: table_pb2.DataFragment) -> int:
            physical = message.physical_rows
            if not physical or not self._trust_counts:
                return -1
            if not message.HasField("deletion_file"):
                return physical
            deleted = message.deletion_file.num_deleted_rows
            if not deleted:
                return -1
            if deleted > physical:
                raise CorruptFile(
                    self._path, f"says that {deleted} of {physical} rows are deleted", f"fragment {message.id}"
                )
            return physical - deleted

        counts = [rows(message) for message in self._messages]
        if any(count > MAX_ROWS for count in counts):
            raise CorruptFile(self._path, f"has a fragment of {max(counts)} rows, more than 2^32", "fragments")
        return np.array(counts, np.int64)

    @cached_property
    def physical_rows(self) -> npt.NDArray[np.int64]:
        """Rows of each fragment, deleted ones included, -1 where only its files know."""
        if not self._trust_counts:
            return np.full(len(self), -1, np.int64)
        if self._surveyed is not None and len(self._surveyed[1]) == len(self):
            return self._surveyed[1]
        return np.array([fragment.physical_rows or -1 for fragment in self], np.int64)

    @cached_property
    def file_bytes(self) -> int:
        """Size of all data files together, as far as the manifest tells it."""
        return sum(file.file_size_bytes for message in self._messages for file in message.files)

    @cached_property
    def with_overlays(self) -> list[int]:
        """Places of the fragments that have overlays."""
        if self._surveyed is not None:
            return []
        return [place for place, message in enumerate(self._messages) if message.overlays]

    @cached_property
    def _positions(self) -> Mapping[int, int]:
        # Of an id that repeats, the first place is the last to be noted.
        return dict(zip(self.ids[::-1].tolist(), range(len(self) - 1, -1, -1), strict=True))

    def by_id(self, fragment_id: int) -> Fragment | None:
        """The (first) fragment with this id."""
        position = self._positions.get(fragment_id)
        return None if position is None else self[position]

    def position(self, fragment_id: int) -> int | None:
        """Place of the (first) fragment with this id in the scan order."""
        return self._positions.get(fragment_id)


def fragment_from_proto(message: table_pb2.DataFragment, path: str, *, trust_counts: bool = True) -> Fragment:
    """Read a fragment's message; ``path`` is the file that it came from."""
    place = f"fragment {message.id}"
    if message.id > MAX_FRAGMENT_ID:
        raise CorruptFile(path, "fragment ids have 32 bits", place)
    physical = message.physical_rows if trust_counts else 0
    if physical > MAX_ROWS:
        raise CorruptFile(path, f"claims {physical} rows, more than 2^32", place)
    deletion = None
    if message.HasField("deletion_file"):
        deletion = _deletion_file(message.deletion_file, path, place, trust_counts=trust_counts)
        if physical and (deletion.num_deleted_rows or 0) > physical:
            raise CorruptFile(path, f"says that {deletion.num_deleted_rows} of {physical} rows are deleted", place)
    return Fragment(
        message.id,
        tuple(data_file_from_proto(file, path, place) for file in message.files),
        deletion,
        physical or None,
        _sequence(message, "row_id_sequence", path, place),
        _sequence(message, "created_at_version_sequence", path, place),
        _sequence(message, "last_updated_at_version_sequence", path, place),
        tuple(overlay_from_proto(overlay, path, place) for overlay in message.overlays),
        tuple(sorted(message.metadata.items())) if message.metadata else (),
    )


def data_file_from_proto(message: table_pb2.DataFile, path: str, place: str) -> DataFile:
    fields, columns = tuple(message.fields), tuple(message.column_indices)
    if columns and len(columns) != len(fields):
        raise CorruptFile(path, f"{message.path} has {len(fields)} fields, but {len(columns)} column indices", place)
    if columns and min(columns) < -1:
        raise CorruptFile(path, f"{message.path} has the column index {min(columns)}", place)
    if fields and min(fields) < LAST_UPDATED_AT_FIELD:
        raise CorruptFile(path, f"{message.path} has the field id {min(fields)}", place)
    return DataFile(
        message.path,
        fields,
        columns,
        message.file_major_version,
        message.file_minor_version,
        message.file_size_bytes or None,
        message.base_id if message.HasField("base_id") else None,
    )


def _deletion_file(message: table_pb2.DeletionFile, path: str, place: str, *, trust_counts: bool) -> DeletionFile:
    if message.file_type not in (table_pb2.DeletionFile.ARROW_ARRAY, table_pb2.DeletionFile.BITMAP):
        raise NotSupported(f"{path}, {place}: deletion files of type {message.file_type} are not known")
    return DeletionFile(
        message.file_type == table_pb2.DeletionFile.BITMAP,
        message.read_version,
        message.id,
        (message.num_deleted_rows or None) if trust_counts else None,
        message.base_id if message.HasField("base_id") else None,
    )


def _sequence(message: table_pb2.DataFragment, group: object, path: str, place: str) -> bytes | Spilled | None:
    kind = message.WhichOneof(group)
    if kind is None:
        return None
    if kind.startswith("column_"):
        return Spilled.COLUMN
    if kind.startswith("external_"):
        raise NotSupported(f"{path}, {place}: {kind} in a file of their own are not known; no release writes them")
    value: bytes = getattr(message, kind)
    return value


def overlay_from_proto(message: table_pb2.DataOverlayFile, path: str, place: str) -> OverlayFile:
    file = data_file_from_proto(message.data_file, path, place)
    if message.WhichOneof("coverage") == "field_coverage":
        coverage = tuple(message.field_coverage.offset_bitmaps)
        if len(coverage) != len(file.fields):
            raise CorruptFile(path, f"overlay has {len(coverage)} bitmaps for {len(file.fields)} fields", place)
    else:
        coverage = (message.shared_offset_bitmap,)
    return OverlayFile(file, coverage, message.committed_version)
