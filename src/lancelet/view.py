"""A table at one version, to read: what it is made of, scans, single rows."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancelet._api.bitmap import Bitmap
from lancelet._api.opening import Reference, open_table, parse_time
from lancelet._api.scan_options import FRAME_OPTIONS, ResultOptions, ScanOptions, chosen
from lancelet._api.scanner import Columns, LanceScanner, ScannerBuilder
from lancelet._api.session import BYTES_AN_ENTRY, Session, warn_of_entries
from lancelet._api.stats import IOStats, IOWatch, LanceStats
from lancelet._naming.keywords import takes
from lancelet.blob import (
    DEFAULT_BLOB_BUFFER_SIZE,
    BlobFile,
    choose_rows,
    read_blob_ranges,
    read_whole_blobs,
    take_blobs,
)
from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.execution.plan import plan_take, table_schema
from lancelet.execution.row_numbers import row_numbers
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.fragment import LanceFragment
from lancelet.namespace_client.tables import is_named, located, manager_of
from lancelet.schema import LanceSchema
from lancelet.store.limit import with_limit
from lancelet.store.options import with_base_params
from lancelet.table.manifest.manifest import BasePath as DatasetBasePath
from lancelet.table.manifest.versions import latest_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from typing_extensions import Self, Unpack

    from lancelet._api.storage_accessor import StorageOptionsAccessor
    from lancelet.indices import IndexDescription
    from lancelet.table.manifest.snapshot import Snapshot

_MAX_TAKES = 64
V = TypeVar("V", bound="TableView")


class TableView:
    """A table at one version, to read; :class:`lancelet.LanceDataset` adds what changes it."""

    def __init__(
        self,
        uri: str | os.PathLike[str] | None,
        version: Reference = None,
        block_size: int | None = None,
        index_cache_size: int | None = None,
        metadata_cache_size: int | None = None,
        commit_lock: Any = None,
        storage_options: Mapping[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: Mapping[str, Any] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: Mapping[str, Any] | None = None,
        session: Session | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        *,
        asof: datetime | str | None = None,
        allowed_prefixes: Sequence[str] | None = None,
    ) -> None:
        if index_cache_size is not None:
            warn_of_entries()
            index_cache_size_bytes = index_cache_size_bytes or index_cache_size * BYTES_AN_ENTRY
        # With a uri, the namespace has been asked already.
        manager = None
        if is_named(None if table_id is not None else uri, namespace_client, table_id):
            manager = manager_of(namespace_client, table_id, managed=namespace_client_managed_versioning)
            if uri is None:
                place = located(namespace_client, table_id or (), storage_options)
                uri, storage_options, manager = place.uri, place.storage_options, place.manager
        assert uri is not None
        if serialized_manifest is not None:
            raise NotSupported(
                "a manifest that was serialized is not taken; pickle the dataset, or open it by its version"
            )
        moment = parse_time(asof) if version is None and asof is not None else None
        options = with_limit(with_base_params(storage_options, base_store_params), allowed_prefixes)
        snapshot = open_table(uri, version, moment, options, manager)
        caches = session or Session(index_cache_size_bytes, metadata_cache_size_bytes)
        self._set(os.fspath(uri), snapshot, caches, default_scan_options, storage_options)

    def _set(
        self,
        uri: str,
        snapshot: Snapshot,
        session: Session,
        default_scan_options: Mapping[str, Any] | None,
        storage_options: Mapping[str, str] | None,
    ) -> Self:
        self._uri = uri
        self._session = session
        self._default_scan_options = dict(default_scan_options) if default_scan_options else None
        self._storage_options = storage_options
        self._io = IOWatch(snapshot.store.counters)
        self._move(snapshot)
        return self

    def _move(self, snapshot: Snapshot) -> None:
        """Look at another version."""
        self._table = TableReader(snapshot, self._session.files)
        self._takes: dict[tuple[str, ...] | None, Scan] = {}
        self._schema: pa.Schema | None = None

    def _at(self, snapshot: Snapshot, session: Session | None = None) -> Self:
        caches = session or self._session
        return restored(type(self), self._uri, snapshot, caches, self._default_scan_options, self._storage_options)

    @classmethod
    def _of(
        cls, uri: str, snapshot: Snapshot, session: Session | None, storage_options: Mapping[str, str] | None
    ) -> Self:
        return restored(cls, uri, snapshot, session or Session(), None, storage_options)

    def __reduce__(self) -> tuple[object, ...]:
        place = self._uri, self._table.snapshot
        return restored, (type(self), *place, self._session, self._default_scan_options, self._storage_options)

    def __copy__(self) -> Self:
        return self._at(self._table.snapshot)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._uri!r}, version={self.version})"

    def __len__(self) -> int:
        return self.count_rows()

    @property
    def table(self) -> TableReader:
        """The engine's view of this version."""
        return self._table

    @property
    def _snapshot(self) -> Snapshot:
        return self._table.snapshot

    # What the table is

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def version(self) -> int:
        return self._snapshot.version

    @property
    def latest_version(self) -> int:
        """The newest version, which may be newer than this one."""
        return latest_version(self._snapshot.store).version

    @property
    def schema(self) -> pa.Schema:
        """The columns, with those that the default scan options add."""
        if self._schema is None:
            if self._default_scan_options:
                self._schema = self.scanner().projected_schema
            else:
                self._schema = table_schema(self._snapshot.manifest.schema)
        return self._schema

    @property
    def lance_schema(self) -> LanceSchema:
        """The columns with their field ids."""
        return LanceSchema(self._snapshot.manifest.schema)

    @property
    def schema_metadata(self) -> dict[str, str]:
        return dict(self._snapshot.manifest.schema.metadata)

    @property
    def metadata(self) -> dict[str, str]:
        """The table's own metadata, apart from the schema's."""
        return dict(self._snapshot.manifest.table_metadata)

    def config(self) -> dict[str, str]:
        return dict(self._snapshot.manifest.config)

    @property
    def data_storage_version(self) -> str:
        """The file version that the table is written in, for example ``2.1``."""
        return self._snapshot.manifest.data_storage_version

    @property
    def has_stable_row_ids(self) -> bool:
        return self._snapshot.manifest.has_stable_row_ids

    @property
    def max_field_id(self) -> int:
        """The greatest field id in the schema or in a data file; -1 without any."""
        manifest = self._snapshot.manifest
        in_schema = max((field.id for field in manifest.schema.walk()), default=-1)
        in_files = (max(file.fields, default=-1) for fragment in manifest.fragments for file in fragment.files)
        return max(in_schema, max(in_files, default=-1))

    def base_paths(self) -> dict[int, DatasetBasePath]:
        return dict(self._snapshot.manifest.base_paths)

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        return None if self._storage_options is None else dict(self._storage_options)

    @property
    def storage_options_accessor(self) -> StorageOptionsAccessor | None:
        """The storage options that were given, if any."""
        from lancelet._api.storage_accessor import StorageOptionsAccessor

        return None if self._storage_options is None else StorageOptionsAccessor(dict(self._storage_options))

    def latest_storage_options(self) -> dict[str, str] | None:
        return self.initial_storage_options

    @property
    def partition_expression(self) -> NoReturn:
        raise NotSupported("Lance tables are not partitioned")

    def session(self) -> Session:
        """The caches, to share with other datasets."""
        return self._session

    @property
    def stats(self) -> LanceStats:
        return LanceStats(self._table)

    def io_stats_snapshot(self) -> IOStats:
        """Reads since the dataset was opened, or since the last :meth:`io_stats_incremental`."""
        return self._io.since(reset=False)

    def io_stats_incremental(self) -> IOStats:
        """Reads since the last call."""
        return self._io.since(reset=True)

    def validate(self) -> None:
        """Check that the files of all fragments are there and fit together; raises what is wrong.

        :meth:`LanceDataset.verify` checks more, and tells everything that it finds.
        """
        from lancelet.maintenance.validation.table import validate

        validate(self._snapshot)

    # Fragments, indices, files

    def get_fragments(self, filter: pc.Expression | None = None) -> list[LanceFragment]:  # noqa: A002
        if filter is not None:
            raise InvalidInput("get_fragments() does not support a filter; filter the scan instead")
        return [LanceFragment(self, None, position=at) for at in range(len(self._snapshot.manifest.fragments))]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        position = self._snapshot.manifest.fragments.position(fragment_id)
        return None if position is None else LanceFragment(self, fragment_id, position=position)

    def fragment_ids(self) -> Bitmap:
        return Bitmap(self._snapshot.manifest.fragments.ids.tolist())

    @property
    def has_index(self) -> bool:
        return len(self._snapshot.manifest.indices) > 0

    def describe_indices(self) -> list[IndexDescription]:
        """All indices, as the manifest describes them."""
        from lancelet.indices import describe_indices

        return describe_indices(self._table)

    def list_indices(self) -> list[dict[str, Any]]:
        """All index segments; deprecated in favour of :meth:`describe_indices`."""
        warnings.warn(
            "The 'list_indices' method is deprecated, use describe_indices()", DeprecationWarning, stacklevel=2
        )
        return [
            {
                "name": index.name,
                "type": index.index_type,
                "uuid": segment.uuid,
                "fields": index.field_names,
                "version": segment.dataset_version_at_last_update,
                "fragment_ids": segment.fragment_ids,
                "base_id": segment.base_id,
            }
            for index in self.describe_indices()
            for segment in index.segments
        ]

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """What the manifest tells about an index; deprecated in favour of ``stats.index_stats``."""
        warnings.warn(
            "The 'index_statistics' method is deprecated, use stats.index_stats()", DeprecationWarning, stacklevel=2
        )
        return self.stats.index_stats(index_name)

    def all_files(self) -> pa.RecordBatchReader:
        """Every object below the table's folder."""
        from lancelet.inspect.files import all_files

        return all_files(self._snapshot)

    def tracked_files(
        self, *, min_version: int | None = None, progress: Callable[[int, int], Any] | None = None
    ) -> pa.RecordBatchReader:
        """Files that versions of the table refer to."""
        from lancelet.inspect.files import tracked_files

        return tracked_files(self._snapshot, min_version, progress)

    # Scans

    @takes(ScanOptions)
    def scanner(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | Mapping[str, Any] | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        index_segments: Iterable[Any] | None = None,
        full_text_query: Any = None,
        **options: Unpack[ScanOptions],
    ) -> LanceScanner:
        """A scan, ready to run.

        Parameters
        ----------
        columns
            Names and nested paths (``"a.b"``), or a dict of names and SQL expressions; all columns by default.
            ``_rowid``, ``_rowaddr``, ``_rowoffset``, ``_row_created_at_version`` and
            ``_row_last_updated_at_version`` are there for every table.
        filter
            Rows for which an SQL text or a pyarrow expression is true.
        limit, offset
            How many rows at most, after how many.
        batch_size, batch_size_bytes, strict_batch_size
            The greatest number of rows, and of bytes, in a batch; or every batch but the last exactly that long.
        fragments
            Only these fragments, in this order.
        with_row_id, with_row_address
            Add the columns ``_rowid`` and ``_rowaddr``.
        late_materialization
            Read the columns outside the filter only for rows that pass; the default.
        blob_handling
            ``"all_binary"`` reads blobs whole; otherwise they are descriptions.
        include_deleted_rows
            Also rows that are deleted, but still in the files; needs ``with_row_id``.
        scan_stats_callback
            Called with the costs when the scan has ended.
        order_by
            Names or :class:`ColumnOrdering` values to sort by.
        use_scalar_index
            Ask scalar indices which rows the filter can be true for; the default.
        fast_search
            Leave out fragments that the indices do not cover which the filter asks.
        row_addr_allowlist, row_addr_blocklist
            Only rows whose row id is in the one set and not in the other; each as bytes, in the form that indices
            store sets of rows in.
        nearest, full_text_query
            Not supported yet.
        index_segments
            Segments of a vector index; refused without a vector search.
        batch_readahead, fragment_readahead, scan_in_order, io_buffer_size, use_stats, prefilter
            Accepted for pylance's sake, without effect.
        """
        given = {
            "columns": columns,
            "filter": filter,
            "limit": limit,
            "offset": offset,
            "nearest": nearest,
            "batch_size": batch_size,
            "batch_size_bytes": batch_size_bytes,
            "batch_readahead": batch_readahead,
            "fragment_readahead": fragment_readahead,
            "scan_in_order": scan_in_order,
            "with_fragments": fragments,
            "with_index_segments": index_segments,
            "full_text_search": full_text_query,
        }
        keywords = chosen(options, ScanOptions)
        builder = ScannerBuilder(self).row_addr_prefilter(
            keywords.pop("row_addr_allowlist", None), keywords.pop("row_addr_blocklist", None)
        )
        if self._default_scan_options:
            builder.apply_defaults(self._default_scan_options)
        builder.apply_defaults({name: value for name, value in given.items() if value is not None})
        return builder.apply_defaults(keywords).to_scanner()

    @takes(ResultOptions, others=True)
    def to_table(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        **options: Unpack[ResultOptions],
    ) -> pa.Table:
        """Rows as a table; the options are those of :meth:`scanner`."""
        scanner = self.scanner(
            columns,
            filter,
            limit,
            offset,
            nearest,
            batch_size,
            batch_size_bytes,
            batch_readahead,
            fragment_readahead,
            scan_in_order,
            **options,
        )
        return scanner.to_table()

    @takes(ResultOptions, others=True)
    def to_batches(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        **kwargs: Unpack[ResultOptions],
    ) -> Iterator[pa.RecordBatch]:
        """Rows as they come; the options are those of :meth:`scanner`."""
        scanner = self.scanner(
            columns,
            filter,
            limit,
            offset,
            nearest,
            batch_size,
            batch_size_bytes,
            batch_readahead,
            fragment_readahead,
            scan_in_order,
            **kwargs,
        )
        return scanner.to_batches()

    def to_reader(self, columns: Columns = None, **options: Any) -> pa.RecordBatchReader:
        """Rows as a stream; the options are those of :meth:`scanner`."""
        return self.scanner(columns, **options).to_reader()

    @takes(ResultOptions, FRAME_OPTIONS, others=True)
    def to_pandas(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        blob_mode: str = "lazy",
        **kwargs: Any,
    ) -> pd.DataFrame:
        """Rows as a data frame: options of :meth:`scanner`, and others for :meth:`pyarrow.Table.to_pandas`."""
        options = {name: kwargs.pop(name) for name in FRAME_OPTIONS if name in kwargs}
        scanner = self.scanner(
            columns,
            filter,
            limit,
            offset,
            nearest,
            batch_size,
            batch_readahead=batch_readahead,
            fragment_readahead=fragment_readahead,
            scan_in_order=scan_in_order,
            **options,
        )
        return scanner.to_pandas(blob_mode=blob_mode, **kwargs)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.scanner().__arrow_c_schema__()

    def head(self, num_rows: int, **kwargs: Any) -> pa.Table:
        """The first rows; the options are those of :meth:`scanner`."""
        kwargs["limit"] = num_rows
        return self.scanner(**kwargs).to_table()

    def slice(self, start: int, end: int, columns: Columns = None) -> pa.Table:
        """Rows ``start`` up to, not including, ``end``."""
        if start < 0:
            raise InvalidInput(f"start must be non-negative, got {start}")
        if end < start:
            raise InvalidInput(f"end ({end}) must be >= start ({start})")
        return self.scanner(columns, offset=start, limit=end - start).to_table()

    def count_rows(self, filter: str | pc.Expression | None = None, **kwargs: Any) -> int:  # noqa: A002
        """How many rows there are, or pass a filter."""
        if filter is None:
            return self._table.num_rows
        return ScannerBuilder(self).columns([]).filter(filter).to_scanner().count_rows()

    def filter(self, expression: pc.Expression) -> NoReturn:
        raise NotSupported("a filtered dataset is not supported; pass filter= to the scan")

    def sort_by(self, sorting: Any, **kwargs: Any) -> NoReturn:
        raise NotSupported("a sorted dataset is not supported; pass order_by= to the scan")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        raise NotSupported("a dataset with another schema is not supported; cast the result of the scan")

    def join(
        self,
        right_dataset: Any,
        keys: Any,
        right_keys: Any = None,
        join_type: str = "left outer",
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        coalesce_keys: bool = True,
        use_threads: bool = True,
    ) -> NoReturn:
        raise NotSupported("joins of datasets are not supported; join tables, or use an engine such as duckdb")

    def join_asof(
        self, right_dataset: Any, on: str, by: Any, tolerance: int, right_on: Any = None, right_by: Any = None
    ) -> NoReturn:
        raise NotSupported("joins of datasets are not supported; join tables, or use an engine such as duckdb")

    def sql(self, sql: str) -> NoReturn:
        raise NotSupported("SQL queries are not supported; use an engine such as duckdb on the dataset")

    # Single rows

    def take(self, indices: Any, columns: Sequence[str] | Mapping[str, str] | None = None) -> pa.Table:
        """Rows by number, in the order given, repetitions included.

        Parameters
        ----------
        indices
            Row numbers as a list, range, numpy or Arrow array.
        columns
            Names; nested paths prune their column. Or a dict of names and SQL expressions.
        """
        scan = self._take_plan(columns)
        rows = row_numbers(indices)
        if len(rows) == 0:
            return scan.schema.empty_table()
        return scan.take(*self._table.locate(rows))

    def _take_plan(self, columns: Sequence[str] | Mapping[str, str] | None) -> Scan:
        """The scan for some columns; remembered, since takes are often repeated."""
        key = None if columns is None else tuple(columns) if isinstance(columns, list) else ()
        if key != () and (known := self._takes.get(key)) is not None:
            return known
        if columns is not None and (isinstance(columns, str) or not isinstance(columns, (Sequence, Mapping))):
            raise InvalidType(f"columns is a list of names or a dict of names and expressions, not {columns!r}")
        scan = Scan(self._table, plan_take(self._snapshot.manifest.schema, columns))
        if key != ():
            if len(self._takes) >= _MAX_TAKES:
                self._takes.clear()
            self._takes[key] = scan
        return scan

    def _take_rows(self, row_ids: Any, columns: Sequence[str] | Mapping[str, str] | None = None) -> pa.Table:
        """Rows by row id, in the order given; those that are gone are left out."""
        scan = self._take_plan(columns)
        owners, offsets, found = self._table.locate_ids(row_numbers(row_ids).astype(np.uint64))
        if not found.any():
            return scan.schema.empty_table()
        return scan.take(owners[found], offsets[found])

    def sample(
        self,
        num_rows: int,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        randomize_order: bool = True,
        **kwargs: Any,
    ) -> pa.Table:
        """Some rows by chance, each at most once; in table order unless ``randomize_order``."""
        total = self.count_rows()
        if not 0 <= num_rows <= total:
            raise InvalidInput(f"cannot sample {num_rows} of {total} rows")
        chosen = random.sample(range(total), num_rows)
        return self.take(chosen if randomize_order else sorted(chosen), columns, **kwargs)

    def take_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """Blobs as files that are read when asked for; rows by id, address or number."""
        return take_blobs(self._table, blob_column, choose_rows(ids, addresses, indices), buffer_size)

    def read_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Row addresses and whole blobs; rows by id, address or number."""
        selection = choose_rows(ids, addresses, indices)
        return read_whole_blobs(self._table, blob_column, selection, preserve_order is not False)

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: str,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Parts of blobs for (row, offset, length) requests: the request's number, the row's address, the bytes."""
        return read_blob_ranges(self._table, blob_column, requests, selector, preserve_order is not False)


def restored(
    kind: type[V],
    uri: str,
    snapshot: Snapshot,
    session: Session,
    default_scan_options: Mapping[str, Any] | None,
    storage_options: Mapping[str, str] | None,
) -> V:
    """A view of a version that is open already."""
    return kind.__new__(kind)._set(uri, snapshot, session, default_scan_options, storage_options)
