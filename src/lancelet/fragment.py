"""Fragments as users see them: their metadata as plain values, and reading the rows of one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancelet.errors import InvalidInput, InvalidType, NotSupported, RowNotFound
from lancelet.query.plan import ScanPlan, plan_take
from lancelet.query.scan import Scan
from lancelet.rows import row_numbers
from lancelet.scanner import Columns, LanceScanner, Scanned, ScannerBuilder
from lancelet.table.fragment import DataFile as StoredFile
from lancelet.table.fragment import Fragment, Spilled

if TYPE_CHECKING:
    import pandas as pd

    from lancelet.query.fragment_reader import FragmentReader


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
        self.path = path
        self.fields = fields
        self.column_indices = column_indices or []
        self.file_major_version = file_major_version
        self.file_minor_version = file_minor_version
        self.file_size_bytes = file_size_bytes
        self.base_id = base_id

    def to_json(self) -> dict[str, Any]:
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
        return {
            "read_version": self.read_version,
            "id": self.id,
            "file_type": self.file_type,
            "num_deleted_rows": self.num_deleted_rows,
            "base_id": self.base_id,
        }

    def json(self) -> str:
        return json.dumps(self.asdict())

    @staticmethod
    def from_json(text: str) -> DeletionFile:
        return DeletionFile(**_parsed(text))

    def path(self, fragment_id: int, base_path: str | None = None) -> str:
        """The file's path, relative to the table or below ``base_path``."""
        suffix = "arrow" if self.file_type == "array" else "bin"
        inner = f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{suffix}"
        return inner if base_path is None else f"{base_path.rstrip('/')}/{inner}"


@dataclass(frozen=True)
class RowIdMeta:
    """The stable row ids of a fragment, as the manifest holds them."""

    inline: bytes

    def asdict(self) -> dict[str, list[int]]:
        return {"Inline": list(self.inline)}

    def json(self) -> str:
        return json.dumps(self.asdict())

    @staticmethod
    def from_dict(content: dict[str, list[int]]) -> RowIdMeta:
        return RowIdMeta(bytes(content["Inline"]))

    @staticmethod
    def from_json(text: str) -> RowIdMeta:
        return RowIdMeta.from_dict(_parsed(text))


@dataclass(frozen=True)
class RowDatasetVersionMeta:
    """The versions in which a fragment's rows were created or last updated, as the manifest holds them."""

    inline: bytes

    def asdict(self) -> dict[str, list[int]]:
        return {"inline": list(self.inline)}

    def json(self) -> str:
        return json.dumps(self.asdict())

    @staticmethod
    def from_json(text: str) -> RowDatasetVersionMeta:
        return RowDatasetVersionMeta(bytes(_parsed(text)["inline"]))


@dataclass
class FragmentMetadata:
    """What the manifest says about a fragment."""

    id: int
    files: list[DataFile]
    physical_rows: int
    """Rows in the files, deleted ones included."""
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None
    overlays: list[Any] = field(default_factory=list)

    @property
    def num_deletions(self) -> int:
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Live rows."""
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
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
    return FragmentMetadata(
        fragment.id,
        [data_file(file) for file in fragment.files],
        rows or 0,
        deletions,
        RowIdMeta(fragment.row_ids) if isinstance(fragment.row_ids, bytes) else None,
        _versions(fragment.created_at),
        _versions(fragment.last_updated_at),
        list(fragment.overlays),
    )


def data_file(file: StoredFile) -> DataFile:
    """The plain value of a stored file."""
    return DataFile(
        file.path, list(file.fields), list(file.column_indices), file.major, file.minor, file.size, file.base_id
    )


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


class LanceFragment:
    """One fragment of a dataset."""

    def __init__(self, dataset: Scanned, fragment_id: int | None, *, position: int | None = None) -> None:
        fragments = dataset.table.snapshot.manifest.fragments
        if position is None:
            if fragment_id is None:
                raise InvalidInput("the id of the fragment is missing")
            position = fragments.position(fragment_id)
            if position is None:
                raise InvalidInput(f"Fragment id does not exist: {fragment_id}")
        self._ds = dataset
        self._position = position
        self._fragment: Fragment = fragments[position]

    def __repr__(self) -> str:
        files = [file.path for file in self._fragment.files]
        deletions = self.deletion_file()
        tail = "" if deletions is None else f", deletion_file={deletions!r}"
        return f"LanceFileFragment(id={self.fragment_id}, data_files={files}{tail})"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._ds, self._position)

    @property
    def _reader(self) -> FragmentReader:
        return self._ds.table.reader(self._position)

    @property
    def fragment_id(self) -> int:
        return self._fragment.id

    @property
    def metadata(self) -> FragmentMetadata:
        return fragment_metadata(
            self._fragment,
            self.physical_rows if self._fragment.physical_rows is None else None,
            self.num_deletions if self._fragment.num_deletions is None else None,
        )

    @property
    def schema(self) -> pa.Schema:
        return self._ds.schema

    @property
    def physical_rows(self) -> int:
        """Rows in the files, deleted ones included."""
        return self._reader.physical_rows

    @property
    def num_deletions(self) -> int:
        known = self._fragment.num_deletions
        return len(self._reader.deletions) if known is None else known

    @property
    def num_rows(self) -> int:
        """Live rows."""
        return self._reader.num_rows

    def data_files(self) -> list[DataFile]:
        return [data_file(file) for file in self._fragment.files]

    def deletion_file(self) -> str | None:
        """Path of the deletion file, relative to the table."""
        stored = self._fragment.deletion_file
        return None if stored is None else stored.path(self.fragment_id)

    @property
    def physical_schema(self) -> NoReturn:
        raise NotSupported("a fragment has no physical schema; each of its data files has one")

    @property
    def partition_expression(self) -> NoReturn:
        raise NotSupported("Lance tables are not partitioned, so a fragment has no partition expression")

    def count_rows(self, filter: str | pc.Expression | None = None) -> int:  # noqa: A002
        """Live rows, or those that pass a filter."""
        return self._builder().filter(filter).to_scanner().count_rows() if filter is not None else self.num_rows

    def scanner(
        self,
        *,
        columns: Columns = None,
        batch_size: int | None = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: str | None = None,
        order_by: Sequence[Any] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> LanceScanner:
        """A scan of this fragment; see :meth:`lancelet.LanceDataset.scanner` for the options."""
        builder = self._builder().columns(columns).filter(filter).limit(limit).offset(offset)
        builder.with_row_id(with_row_id).with_row_address(with_row_address).batch_readahead(batch_readahead)
        builder.order_by(order_by).blob_handling(blob_handling)
        if batch_size is not None:
            builder.batch_size(batch_size)
        if batch_size_bytes is not None:
            builder.batch_size_bytes(batch_size_bytes)
        if late_materialization is not None:
            builder.late_materialization(late_materialization)
        if io_buffer_size is not None:
            builder.io_buffer_size(io_buffer_size)
        builder.include_deleted_rows(bool(include_deleted_rows)).strict_batch_size(bool(strict_batch_size))
        return builder.to_scanner()

    def _builder(self) -> ScannerBuilder:
        return ScannerBuilder(self._ds).with_fragments([self])

    def to_table(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        **options: Any,
    ) -> pa.Table:
        """The fragment's live rows; more options as in :meth:`scanner`."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            **options,
        ).to_table()

    def to_batches(self, **options: Any) -> Iterator[pa.RecordBatch]:
        """The fragment's live rows as they come; options as in :meth:`scanner`."""
        return self.scanner(**options).to_batches()

    def to_pandas(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_mode: str = "lazy",
        order_by: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> pd.DataFrame:
        """The fragment's live rows as a data frame; ``kwargs`` go to :meth:`pyarrow.Table.to_pandas`."""
        scanner = self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            order_by=order_by,
        )
        return scanner.to_pandas(blob_mode=blob_mode, **kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """The first live rows."""
        return self.scanner(limit=num_rows).to_table()

    def take(self, indices: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their position among the fragment's live rows, in the order given."""
        return self.open_session(columns).take(indices)

    def open_session(
        self, columns: Sequence[str] | None = None, with_row_address: bool | None = None
    ) -> FragmentSession:
        """Prepare many takes of the same columns."""
        schema = self._ds.table.snapshot.manifest.schema
        if columns is not None and (isinstance(columns, (str, dict)) or not isinstance(columns, Sequence)):
            raise InvalidType(f"columns is a list of names, not {columns!r}")
        if with_row_address:
            columns = [*(schema.names if columns is None else columns), "_rowaddr"]
        return FragmentSession(self, plan_take(schema, columns))

    def validate(self) -> None:
        """Check that files, row counts and deleted rows fit together; raises what is wrong."""
        reader = self._reader
        for file in reader.files:
            if file.reader.num_rows != reader.physical_rows:
                raise InvalidInput(f"{file.source.path} has {file.reader.num_rows} rows, not {reader.physical_rows}")
        _ = reader.deletions, reader.row_ids


def _restored(dataset: Scanned, position: int) -> LanceFragment:
    return LanceFragment(dataset, None, position=position)


class FragmentSession:
    """Takes of the same columns from one fragment."""

    def __init__(self, fragment: LanceFragment, plan: ScanPlan) -> None:
        self._fragment = fragment
        self._scan = Scan(fragment._ds.table, plan)

    def take(self, indices: Any) -> pa.Table:
        """Rows by their position among the fragment's live rows, in the order given."""
        rows = row_numbers(indices)
        number, position = self._fragment.fragment_id, self._fragment._position
        reader = self._scan.table.reader(position)
        if len(rows) and int(rows.max()) >= reader.num_rows:
            raise RowNotFound(f"row {int(rows.max())} is out of range: fragment {number} has {reader.num_rows} rows")
        return self._scan.take(np.full(len(rows), position, np.int64), reader.physical(rows))
