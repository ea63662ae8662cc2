"""What a manifest says about a fragment, as plain values that users hold and hand back."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.table.manifest.fragment import DataFile as StoredFile
from lancelet.table.manifest.fragment import DeletionFile as StoredDeletions
from lancelet.table.manifest.fragment import Fragment, Spilled

_LINEAGE = ("row_ids", "created_at", "last_updated_at")


class _Path(str):
    """A path that can be called, as it was a method once."""

    __slots__ = ()

    def __call__(self) -> str:
        warnings.warn("DataFile.path() is deprecated, use DataFile.path", DeprecationWarning, stacklevel=2)
        return str(self)

    def __reduce__(self) -> tuple[object, ...]:
        return str, (str(self),)


@dataclass(init=False)
class DataFile:
    """A file with some of a fragment's columns."""

    path: str
    """Relative to ``data/``."""
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def __init__(
        self,
        path: str,
        fields: list[int],
        column_indices: list[int] | None = None,
        file_major_version: int = 0,
        file_minor_version: int = 0,
        file_size_bytes: int | None = None,
        base_id: int | None = None,
    ) -> None:
        self.path = _Path(path)
        self.fields = fields
        self.column_indices = column_indices or []
        self.file_major_version = file_major_version
        self.file_minor_version = file_minor_version
        self.file_size_bytes = file_size_bytes
        self.base_id = base_id

    @classmethod
    def create(cls, dataset: object, path: str, *, base_id: int | None = None) -> DataFile:
        """Describe a data file that no version refers to, for a change that is to be committed.

        Parameters
        ----------
        dataset
            The table, some of whose columns the file has.
        path
            The file, relative to ``data/`` or to the base path.
        base_id
            The base path that it is in, if it is not in the table's own folder.
        """
        from lancelet.writing.adopt import adopted_file

        table = getattr(dataset, "table", None)
        if table is None:
            raise InvalidType(f"the table is a LanceDataset, not {type(dataset)}")
        return data_file(adopted_file(table.snapshot, path, base_id))

    def to_json(self) -> dict[str, Any]:
        """The file as a value that ``json.dumps`` takes."""
        return {
            "fields": self.fields,
            "column_indices": self.column_indices,
            "file_major_version": self.file_major_version,
            "file_minor_version": self.file_minor_version,
            "file_size_bytes": self.file_size_bytes,
            "base_id": self.base_id,
            "path": self.path,
        }

    def field_ids(self) -> list[int]:
        """Deprecated: the same as ``fields``."""
        warnings.warn("DataFile.field_ids is deprecated, use DataFile.fields", DeprecationWarning, stacklevel=2)
        return self.fields


@dataclass
class DeletionFile:
    """The file that says which rows of a fragment are gone."""

    read_version: int
    id: int
    file_type: str
    """``array`` or ``bitmap``."""
    num_deleted_rows: int
    base_id: int | None = None

    def __repr__(self) -> str:
        return f"DeletionFile(type='{self.file_type}', num_deleted_rows={self.num_deleted_rows})"

    def asdict(self) -> dict[str, Any]:
        """The file as a plain value."""
        return {
            "read_version": self.read_version,
            "id": self.id,
            "file_type": self.file_type,
            "num_deleted_rows": self.num_deleted_rows,
            "base_id": self.base_id,
        }

    def json(self) -> str:
        """The file as text."""
        return json.dumps(self.asdict())

    @staticmethod
    def from_json(json: str) -> DeletionFile:
        """The file that :meth:`json` showed."""
        return DeletionFile(**_parsed(json))

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """The file's path, relative to the table or below ``base_uri``."""
        suffix = "arrow" if self.file_type == "array" else "bin"
        inner = f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{suffix}"
        return inner if base_uri is None else f"{base_uri.rstrip('/')}/{inner}"


@dataclass(frozen=True)
class RowIdMeta:
    """The stable row ids of a fragment, as the manifest holds them."""

    inline: bytes

    def asdict(self) -> dict[str, list[int]]:
        """The ids as a plain value."""
        return {"Inline": list(self.inline)}

    def json(self) -> str:
        """The ids as text."""
        return json.dumps(self.asdict())

    @staticmethod
    def from_dict(dict: dict[str, list[int]]) -> RowIdMeta:  # noqa: A002
        """The ids that :meth:`asdict` showed."""
        return RowIdMeta(bytes(dict["Inline"]))

    @staticmethod
    def from_json(json: str) -> RowIdMeta:
        """The ids that :meth:`json` showed."""
        return RowIdMeta.from_dict(_parsed(json))


@dataclass(frozen=True)
class RowDatasetVersionMeta:
    """The versions in which a fragment's rows were created or last updated, as the manifest holds them."""

    inline: bytes

    def asdict(self) -> dict[str, list[int]]:
        """The versions as a plain value."""
        return {"inline": list(self.inline)}

    def json(self) -> str:
        """The versions as text."""
        return json.dumps(self.asdict())

    @staticmethod
    def from_json(json: str) -> RowDatasetVersionMeta:
        """The versions that :meth:`json` showed."""
        return RowDatasetVersionMeta(bytes(_parsed(json)["inline"]))


@dataclass
class FragmentMetadata:
    """What the manifest says about a fragment.

    Examples
    --------
    >>> from lancelet.fragment import write_fragments
    >>> (fragment,) = write_fragments({"id": [1, 2, 3]}, "memory://docs/fragment_metadata")
    >>> fragment.num_rows, [file.fields for file in fragment.files]
    (3, [[0]])
    """

    id: int
    files: list[DataFile]
    physical_rows: int
    """Rows in the files, deleted ones included."""
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None
    overlays: list[Any] = field(default_factory=list)
    spilled = cast("frozenset[str]", frozenset())
    """Which of ``row_ids``, ``created_at`` and ``last_updated_at`` are columns of a file instead."""
    metadata = cast("Mapping[str, str]", MappingProxyType({}))
    """What writers keep with the fragment."""

    @property
    def num_deletions(self) -> int:
        """How many rows are deleted."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Live rows."""
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
        """Deprecated: the same as ``files``."""
        warnings.warn(
            "FragmentMetadata.data_files is deprecated, use FragmentMetadata.files", DeprecationWarning, stacklevel=2
        )
        return self.files

    def to_json(self) -> dict[str, Any]:
        """A value that JSON can hold."""

        def shown(value: Any) -> Any:
            return None if value is None else value.asdict()

        if self.overlays:
            raise NotSupported("overlays of a fragment have no JSON form yet")
        if self.spilled:
            raise NotSupported("row ids and versions that are columns of a file have no JSON form")
        return {
            "id": self.id,
            "files": [file.to_json() for file in self.files],
            "overlays": [],
            "physical_rows": self.physical_rows,
            "deletion_file": shown(self.deletion_file),
            "row_id_meta": shown(self.row_id_meta),
            "created_at_version_meta": shown(self.created_at_version_meta),
            "last_updated_at_version_meta": shown(self.last_updated_at_version_meta),
        }

    @staticmethod
    def from_json(json_data: str) -> FragmentMetadata:
        """The value that :meth:`to_json` showed, from its text."""
        content = _parsed(json_data)
        try:
            deletions, row_ids = content.get("deletion_file"), content.get("row_id_meta")
            created, updated = content.get("created_at_version_meta"), content.get("last_updated_at_version_meta")
            return FragmentMetadata(
                content["id"],
                [DataFile(**file) for file in content["files"]],
                content["physical_rows"],
                None if deletions is None else DeletionFile(**deletions),
                None if row_ids is None else RowIdMeta.from_dict(row_ids),
                None if created is None else RowDatasetVersionMeta(bytes(created["inline"])),
                None if updated is None else RowDatasetVersionMeta(bytes(updated["inline"])),
            )
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"not the JSON of a fragment: {error}") from None


def fragment_metadata(
    fragment: Fragment, physical_rows: int | None = None, num_deletions: int | None = None
) -> FragmentMetadata:
    """The plain value of a stored fragment; the numbers stand in for what old writers did not record."""
    deletions = None
    if fragment.deletion_file is not None:
        stored = fragment.deletion_file
        count = stored.num_deleted_rows if stored.num_deleted_rows is not None else num_deletions
        kind = "bitmap" if stored.is_bitmap else "array"
        deletions = DeletionFile(stored.read_version, stored.id, kind, count or 0, stored.base_id)
    rows = fragment.physical_rows if fragment.physical_rows is not None else physical_rows
    metadata = FragmentMetadata(
        fragment.id,
        [data_file(file) for file in fragment.files],
        rows or 0,
        deletions,
        RowIdMeta(fragment.row_ids) if isinstance(fragment.row_ids, bytes) else None,
        _versions(fragment.created_at),
        _versions(fragment.last_updated_at),
        list(fragment.overlays),
    )
    metadata.metadata = dict(fragment.metadata)
    metadata.spilled = frozenset(name for name in _LINEAGE if isinstance(getattr(fragment, name), Spilled))
    return metadata


def data_file(file: StoredFile) -> DataFile:
    """The plain value of a stored file."""
    return DataFile(
        file.path, list(file.fields), list(file.column_indices), file.major, file.minor, file.size, file.base_id
    )


def stored_fragment(metadata: FragmentMetadata) -> Fragment:
    """The value that a manifest is made from."""
    if not isinstance(metadata, FragmentMetadata):
        raise InvalidType(f"a fragment is described by FragmentMetadata, not {type(metadata)}")
    deletions = metadata.deletion_file
    sequences = (metadata.row_id_meta, metadata.created_at_version_meta, metadata.last_updated_at_version_meta)
    row_ids, created, updated = (
        Spilled.COLUMN if name in metadata.spilled else None if sequence is None else sequence.inline
        for name, sequence in zip(_LINEAGE, sequences, strict=True)
    )
    return Fragment(
        metadata.id,
        tuple(stored_file(file) for file in metadata.files),
        None if deletions is None else _stored_deletions(deletions),
        metadata.physical_rows or None,
        row_ids,
        created,
        updated,
        tuple(metadata.overlays),
        tuple(sorted(metadata.metadata.items())),
    )


def stored_file(file: DataFile) -> StoredFile:
    """The value that a manifest is made from."""
    if not isinstance(file, DataFile):
        raise InvalidType(f"a data file is described by DataFile, not {type(file)}")
    return StoredFile(
        file.path,
        tuple(file.fields),
        tuple(file.column_indices),
        file.file_major_version,
        file.file_minor_version,
        file.file_size_bytes,
        file.base_id,
    )


def _stored_deletions(file: DeletionFile) -> StoredDeletions:
    if file.file_type not in ("array", "bitmap"):
        raise InvalidInput(f"a deletion file is of the type 'array' or 'bitmap', not {file.file_type!r}")
    is_bitmap = file.file_type == "bitmap"
    return StoredDeletions(is_bitmap, file.read_version, file.id, file.num_deleted_rows or None, file.base_id)


def _versions(sequence: bytes | Spilled | None) -> RowDatasetVersionMeta | None:
    return RowDatasetVersionMeta(sequence) if isinstance(sequence, bytes) else None


def _parsed(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InvalidInput("not a JSON object")
    return content
