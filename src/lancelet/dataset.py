"""What users hold: a table at one version.

Each method says what it does and has a room do it. Rooms that a program may never need are imported by the methods
that need them, so that programs that only read do not wait for them.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypedDict, TypeVar

import pyarrow as pa

from lancelet._api.opening import find_table
from lancelet._api.scan_options import (
    FRAME_OPTIONS,
    FRAME_POSITIONS,
    RESULT_POSITIONS,
    SCANNER_POSITIONS,
    ScanOptions,
    SearchOptions,
    build_scanner,
    frame_options,
    slice_limit,
)
from lancelet._api.scanner import ColumnOrdering, Columns, LanceScanner, ScannerBuilder, ScanStatistics
from lancelet._api.session import Session, choose_session, index_cache_bytes
from lancelet._api.stats import DataStatistics, FieldStatistics, IOStats, IOWatch, LanceStats
from lancelet._naming.keywords import refuse_former, takes
from lancelet._naming.lazy import lazy_names
from lancelet.bitmap import Bitmap
from lancelet.errors import InvalidInput, NotSupported
from lancelet.execution.costs import BLOB_BUFFER_BYTES
from lancelet.execution.plan import table_schema
from lancelet.execution.table_reader import TableReader
from lancelet.execution.takes import TakenColumns, Takes, draw_rows
from lancelet.fragment import LanceFragment
from lancelet.index.text.query import DocumentGranularity
from lancelet.memwal.keywords import WriterOptions
from lancelet.namespace_client.tables import manager_of
from lancelet.progress import ShownProgress, shown
from lancelet.runtime import compute as pc
from lancelet.schema import LanceSchema
from lancelet.store import open_store
from lancelet.table.commit.index_upkeep import has_mem_wal
from lancelet.table.commit.patience import CHANGE_RETRIES, CHANGE_SECONDS, COMMIT_RETRIES, COMMIT_SECONDS
from lancelet.table.commit.properties import COMMIT_MESSAGE as LANCE_COMMIT_MESSAGE_KEY
from lancelet.table.manifest.manifest import BasePath as DatasetBasePath
from lancelet.table.manifest.versions import latest_version, list_versions, migrate_to_v2
from lancelet.table.refs.read import check_reference

if TYPE_CHECKING:
    from uuid import UUID

    import pandas as pd
    from typing_extensions import Self, Unpack

    from lancelet._api.blob_files import BlobFile
    from lancelet._api.index_descriptions import IndexDescription
    from lancelet._api.ivf_model import IvfModel
    from lancelet._api.merge_insert import MergeInsertBuilder
    from lancelet._api.sql_query import SqlQueryBuilder
    from lancelet._api.storage_accessor import StorageOptionsAccessor
    from lancelet._api.tags import Branches, Tags
    from lancelet._api.transaction import Index, LanceOperation, Transaction
    from lancelet.changes.delta import DatasetDelta
    from lancelet.editing.delete import DeleteResult
    from lancelet.editing.update import UpdateResult
    from lancelet.file import LanceFileSession
    from lancelet.maintenance.cleanup_report import (
        CleanupCandidateFile,
        CleanupExplanation,
        CleanupReferencedBranch,
        CleanupStats,
    )
    from lancelet.maintenance.repair import RepairReport
    from lancelet.maintenance.validation.report import VerifyReport
    from lancelet.mem_wal import LsmScanner, ShardWriter, TableWriter
    from lancelet.optimize import DatasetOptimizer
    from lancelet.progress import IndexProgress
    from lancelet.query import FullTextQuery, VectorSearchQuery
    from lancelet.table.manifest.snapshot import Snapshot
    from lancelet.table.refs.read import Reference
    from lancelet.writing.keywords import TableKeywords

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "BlobFile",
    "Branches",
    "BulkCommitResult",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "ColumnOrdering",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetOptimizer",
    "DeleteResult",
    "FieldStatistics",
    "IOStats",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "MergeInsertBuilder",
    "ScanStatistics",
    "ScannerBuilder",
    "Session",
    "Tags",
    "Transaction",
    "UpdateResult",
]

COMMIT_TIMEOUT = timedelta(seconds=COMMIT_SECONDS)
V = TypeVar("V", bound="LanceDataset")


__getattr__ = lazy_names(
    __name__,
    {
        "lancelet.maintenance.cleanup_report": (
            "CleanupCandidateFile",
            "CleanupExplanation",
            "CleanupReferencedBranch",
            "CleanupStats",
        ),
        "lancelet._api.blob_files": ("BlobFile",),
        "lancelet._api.records": ("AlterColumn", "Branch", "DatasetStats", "Tag", "Version", "VersionRef"),
        "lancelet.query": ("FullTextQuery", "MinHashQuery", "VectorSearchQuery"),
        "lancelet.optimize": ("AutoCleanupConfig", "Compaction", "CompactionMetrics", "DatasetOptimizer"),
        "lancelet.udf": ("BatchUDF", "BatchUDFCheckpoint", "batch_udf"),
        "lancelet._api.fragment_metadata": ("DataFile", "FragmentMetadata"),
        "lancelet._api.tags": ("Branches", "Tags"),
        "lancelet._api.transaction": ("Index", "IndexFile", "LanceOperation", "Transaction"),
        "lancelet._api.sql_query": ("SqlQuery", "SqlQueryBuilder"),
        "lancelet._api.vector_reader": ("VectorIndexReader",),
        "lancelet._api.index_descriptions": ("IndexConfig", "IndexInformation", "SupportedDistributedIndices"),
        "lancelet.bitmap": ("Bitmap",),
        "lancelet.changes.delta": ("DatasetDelta",),
        "lancelet.editing.delete": ("DeleteResult",),
        "lancelet.editing.update": ("UpdateResult",),
        "lancelet._api.merge_insert": ("ExecuteResult", "MergeInsertBuilder"),
        "lancelet._api.write": ("write_dataset",),
    },
)


class BulkCommitResult(TypedDict):
    """What a batch of transactions became."""

    dataset: LanceDataset
    merged: Transaction


class LanceDataset:
    """A table at one version."""

    def __init__(
        self,
        uri: str | os.PathLike[str] | None,
        version: Reference | None = None,
        block_size: int | None = None,
        index_cache_size: int | None = None,
        metadata_cache_size: int | None = None,
        commit_lock: object = None,
        storage_options: Mapping[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: Mapping[str, object] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: Mapping[str, object] | None = None,
        session: Session | None = None,
        namespace_client: object = None,
        table_id: Sequence[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        *,
        asof: datetime | str | None = None,
        allowed_prefixes: Sequence[str] | None = None,
        verify_checksums: bool | None = None,
        storage_options_provider: None = None,
    ) -> None:
        # pylance had it once, and Ray still hands it over.
        refuse_former("storage_options_provider", storage_options_provider, "namespace_client and table_id")
        caches = index_cache_bytes(index_cache_size, index_cache_size_bytes), metadata_cache_size_bytes
        table = find_table(
            uri,
            version,
            asof,
            storage_options=storage_options,
            base_store_params=base_store_params,
            allowed_prefixes=allowed_prefixes,
            serialized_manifest=serialized_manifest,
            namespace_client=namespace_client,
            table_id=table_id,
            is_managed=namespace_client_managed_versioning,
        )
        session = choose_session(session, *caches, verify_checksums)
        self._set(table.uri, table.snapshot, session, default_scan_options, table.storage_options)

    def _set(
        self,
        uri: str,
        snapshot: Snapshot,
        session: Session,
        default_scan_options: Mapping[str, object] | None,
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
        self._takes = Takes(self._table)
        self._schema: pa.Schema | None = None

    def _at(self, snapshot: Snapshot, session: Session | None = None) -> Self:
        caches = session or self._session
        return restored(type(self), self._uri, snapshot, caches, self._default_scan_options, self._storage_options)

    @classmethod
    def _of(
        cls, uri: str, snapshot: Snapshot, session: Session | None, storage_options: Mapping[str, str] | None
    ) -> Self:
        return restored(cls, uri, snapshot, session or Session(), None, storage_options)

    @classmethod
    def _written(
        cls, place: Any, snapshot: Snapshot, session: Session | None, storage_options: Mapping[str, str] | None
    ) -> LanceDataset:
        """A new version of what was given to write to: a dataset, or the uri of a table."""
        if isinstance(place, LanceDataset):
            return place._at(snapshot, session)
        return cls._of(os.fspath(place), snapshot, session, storage_options)

    def __reduce__(self) -> tuple[object, ...]:
        # What another process makes of it depends on what is loaded there.
        kind = getattr(type(self), "_saved_as", type(self))
        place = self._uri, self._table.snapshot
        return restored, (kind, *place, self._session, self._default_scan_options, self._storage_options)

    def __copy__(self) -> Self:
        return self._at(self._table.snapshot)

    def __repr__(self) -> str:
        manifest = self._snapshot.manifest
        counts = manifest.fragments.row_counts
        # What old writers did not count is not read for a line of text.
        rows = f"{int(counts.sum()):,} rows" if (counts >= 0).all() else f"{len(manifest.fragments):,} fragments"
        size = manifest.fragments.file_bytes
        shown = f"{rows}, {len(manifest.schema.fields):,} columns, {size:,} bytes"
        return f"<{type(self).__name__} {self._uri!r}, version {self.version}: {shown}>"

    def _repr_html_(self) -> str:
        from lancelet.inspect.overview import overview

        return overview(self._snapshot)._repr_html_() + self.lance_schema._repr_html_()

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
        """Where the table is, as it was opened."""
        return self._uri

    @property
    def version(self) -> int:
        """The number of the version that this dataset shows."""
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
        """Keys and values that the schema carries; :meth:`update_schema_metadata` changes them."""
        return dict(self._snapshot.manifest.schema.metadata)

    @property
    def metadata(self) -> dict[str, str]:
        """The table's own metadata, apart from the schema's."""
        return dict(self._snapshot.manifest.table_metadata)

    def config(self) -> dict[str, str]:
        """Settings of the table, for all who write to it; :meth:`update_config` changes them."""
        return dict(self._snapshot.manifest.config)

    @property
    def data_storage_version(self) -> str:
        """The file version that the table is written in, for example ``2.1``."""
        return self._snapshot.manifest.data_storage_version

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move; see ``enable_stable_row_ids`` of :func:`lancelet.write_dataset`."""
        return self._snapshot.manifest.has_stable_row_ids

    @property
    def max_field_id(self) -> int:
        """The greatest field id in the schema or in a data file; -1 without any."""
        from lancelet.inspect.versions import max_field_id

        return max_field_id(self._snapshot.manifest)

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Further folders in which files of the table may be, by their ids; :meth:`add_bases` adds some."""
        return dict(self._snapshot.manifest.base_paths)

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """The storage options that the dataset was opened with; None without any."""
        return None if self._storage_options is None else dict(self._storage_options)

    @property
    def storage_options_accessor(self) -> StorageOptionsAccessor | None:
        """The storage options that were given, if any."""
        from lancelet._api.storage_accessor import StorageOptionsAccessor

        return None if self._storage_options is None else StorageOptionsAccessor(dict(self._storage_options))

    def latest_storage_options(self) -> dict[str, str] | None:
        """The same: storage options do not change while a dataset is open."""
        return self.initial_storage_options

    @property
    def partition_expression(self) -> NoReturn:
        """Not supported: tables have no partitions."""
        raise NotSupported("Lance tables are not partitioned")

    def session(self) -> Session:
        """The caches, to share with other datasets."""
        return self._session

    @property
    def stats(self) -> LanceStats:
        """Counts and sizes: of the table, of its columns, of its indices."""
        return LanceStats(self._table)

    def io_stats_snapshot(self) -> IOStats:
        """Reads since the dataset was opened, or since the last :meth:`io_stats_incremental`.

        Local files are mapped: what decoders take from the mapping without asking is not counted.
        """
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
        """All fragments, in the order of their rows.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": range(5)}, "memory://docs/get_fragments", max_rows_per_file=2)
        >>> [fragment.count_rows() for fragment in dataset.get_fragments()]
        [2, 2, 1]
        """
        if filter is not None:
            raise InvalidInput("get_fragments() does not support a filter; filter the scan instead")
        return LanceFragment._all(self)

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment with this id; None when this version has none."""
        position = self._snapshot.manifest.fragments.position(fragment_id)
        return None if position is None else LanceFragment(self, fragment_id, position=position)

    def fragment_ids(self) -> Bitmap:
        """The ids of all fragments."""
        return Bitmap(self._snapshot.manifest.fragments.ids.tolist())

    @property
    def has_index(self) -> bool:
        """Whether there is any index on the table."""
        return len(self._snapshot.manifest.indices) > 0

    def get_ivf_model(self, index_name: str) -> IvfModel:
        """The centroids of a vector index, and its metric."""
        from lancelet._api.vector_reader import ivf_model

        return ivf_model(self._table, index_name)

    def centroids(self, *, index_name: str | None = None, column: str | None = None) -> pa.FixedSizeListArray:
        """The centroids of a vector index, or of the first one on a column."""
        from lancelet._api.vector_reader import centroids_of

        return centroids_of(self._table, index_name, column)

    def describe_indices(self) -> list[IndexDescription]:
        """All indices, as the manifest describes them."""
        from lancelet._api.index_descriptions import describe_indices

        return describe_indices(self._table)

    def list_indices(self) -> list[dict[str, Any]]:
        """All index segments; deprecated in favour of :meth:`describe_indices`."""
        from lancelet._api.indexing import list_segments

        warnings.warn(
            "The 'list_indices' method is deprecated, use describe_indices()", DeprecationWarning, stacklevel=2
        )
        return list_segments(self._table)

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

    @takes(ScanOptions, positions=SCANNER_POSITIONS)
    def scanner(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | FullTextQuery | VectorSearchQuery | Mapping[str, Any] | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        *more: object,
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
            Rows for which an SQL text or a pyarrow expression is true. With ``nearest`` also a query of :mod:`lancelet.query`, which
            their texts have to match, with ``full_text_query`` a ``VectorSearchQuery``, which their vectors have to be near to; or a
            dict of both, as ``expr_filter`` and ``search_filter``.
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
        nearest
            The rows whose vectors are nearest to a query: see :meth:`ScannerBuilder.nearest`.
        full_text_query
            The rows whose texts match: a text, a dict of ``query`` and ``columns``, or a query of :mod:`lancelet.query`;
            the best first, with their scores as ``_score``.
        index_segments
            Segments of a vector index; refused without a vector search.
        prefilter
            Whether a search looks among the rows that pass the filter; by default the rows that it found are filtered.
        batch_readahead, fragment_readahead, scan_in_order, io_buffer_size, use_stats
            Accepted for pylance's sake, without effect.
        """
        return build_scanner(self, self._default_scan_options, columns, filter, limit, offset, more, options)

    @takes(ScanOptions, positions=RESULT_POSITIONS, others=True)
    def to_table(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | FullTextQuery | VectorSearchQuery | Mapping[str, Any] | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        *more: object,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Rows as a table; the options are those of :meth:`scanner`."""
        return self.scanner(columns, filter, limit, offset, *more, **options).to_table()

    @takes(ScanOptions, positions=RESULT_POSITIONS, others=True)
    def to_batches(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | FullTextQuery | VectorSearchQuery | Mapping[str, Any] | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        *more: object,
        **kwargs: Unpack[ScanOptions],
    ) -> Iterator[pa.RecordBatch]:
        """Rows as they come; the options are those of :meth:`scanner`."""
        return self.scanner(columns, filter, limit, offset, *more, **kwargs).to_batches()

    def to_reader(self, columns: Columns = None, **options: Any) -> pa.RecordBatchReader:
        """Rows as a stream; the options are those of :meth:`scanner`."""
        return self.scanner(columns, **options).to_reader()

    @takes(ScanOptions, FRAME_OPTIONS, positions=FRAME_POSITIONS, others=True)
    def to_pandas(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | FullTextQuery | VectorSearchQuery | Mapping[str, Any] | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        *more: Any,
        blob_mode: str = "lazy",
        **kwargs: Any,
    ) -> pd.DataFrame:
        """Rows as a data frame: options of :meth:`scanner`, and others for :meth:`pyarrow.Table.to_pandas`."""
        options, others = frame_options(more, kwargs)
        return self.scanner(columns, filter, limit, offset, **options).to_pandas(blob_mode=blob_mode, **others)

    @takes(SearchOptions)
    def search(
        self,
        text: str | FullTextQuery | None = None,
        vector: object = None,
        *,
        filter: str | pc.Expression | None = None,  # noqa: A002
        columns: Columns = None,
        k: int = 10,
        offset: int = 0,
        text_columns: Sequence[str] | None = None,
        vector_column: str | None = None,
        fusion: str = "rrf",
        rrf_k: float = 60.0,
        weight: float = 0.7,
        candidates: int | None = None,
        fast_search: bool = False,
        with_row_id: bool = False,
        **options: Unpack[SearchOptions],
    ) -> pa.Table:
        """The rows that fit a text and a vector best, with what they are ordered by as ``_relevance_score``.

        Each side finds its best rows, and both answers become one. ``_score`` is that of the text and ``_distance`` that of the
        vector, null where a row was found by the other side only. Of rows that are equally good those with the lower row ids
        come first. Not in pylance.

        Parameters
        ----------
        text
            A text, whose words are looked for, or a query of :mod:`lancelet.query`; None: vectors alone decide.
        vector
            A query vector; None: texts alone decide.
        filter
            Rows for which an SQL text or a pyarrow expression is true; only these are searched.
        columns
            As in :meth:`scanner`.
        k, offset
            How many rows at most, after how many.
        text_columns
            Where ``text`` is looked for; by default in all columns with an INVERTED index.
        vector_column
            By default ``vector``, or the only column of vectors.
        fusion
            ``"rrf"`` adds ``1 / (rank + rrf_k)`` of both answers, ranks from 0. ``"linear"`` brings scores and distances between
            0 and 1 (the worst and the best of an answer) and adds them, that of the vector times ``weight`` and that of
            the text times ``1 - weight``.
        candidates
            How many rows each side finds before they become one; by default five times those of the result.
        fast_search
            Leave out rows that the indices do not know.
        with_row_id
            Add ``_rowid``.
        options
            As in ``nearest`` of :meth:`scanner`.

        Examples
        --------
        >>> import lancelet
        >>> import pyarrow as pa
        >>> vectors = pa.array([[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]], pa.list_(pa.float32(), 2))
        >>> texts = ["a red fox", "a grey wolf", "a red wolf"]
        >>> animals = pa.table({"id": [1, 2, 3], "text": texts, "vector": vectors})
        >>> dataset = lancelet.write_dataset(animals, "memory://docs/search")
        >>> dataset.create_scalar_index("text", "INVERTED")
        >>> dataset.search("red wolf", [1.0, 0.0], k=2, columns=["text"])["text"].to_pylist()
        ['a red wolf', 'a grey wolf']
        """
        from lancelet._api.hybrid_search import hybrid_plan

        plan = hybrid_plan(
            self,
            text,
            vector,
            text_columns=text_columns,
            vector_column=vector_column,
            filter=filter,
            columns=columns,
            k=k,
            offset=offset,
            fusion=fusion,
            rrf_k=rrf_k,
            weight=weight,
            candidates=candidates,
            fast_search=fast_search,
            with_row_id=with_row_id,
            options=options,
        )
        return plan.run(self.table)

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
        return self.scanner(columns, limit=slice_limit(start, end), offset=start).to_table()

    def count_rows(self, filter: str | pc.Expression | None = None, **kwargs: object) -> int:  # noqa: A002
        """How many rows there are, or pass a filter."""
        if filter is None:
            return self._table.num_rows
        return ScannerBuilder(self).columns([]).filter(filter).to_scanner().count_rows()

    def filter(self, expression: pc.Expression) -> NoReturn:
        """Not supported: give the filter to :meth:`scanner`, :meth:`to_table` or :meth:`to_batches`."""
        raise NotSupported("a filtered dataset is not supported; pass filter= to the scan")

    def sort_by(self, sorting: object, **kwargs: object) -> NoReturn:
        """Not supported: give ``order_by`` to :meth:`scanner`."""
        raise NotSupported("a sorted dataset is not supported; pass order_by= to the scan")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not supported: cast what a scan gives, or change the table with :meth:`alter_columns`."""
        raise NotSupported("a dataset with another schema is not supported; cast the result of the scan")

    def join(
        self,
        right_dataset: object,
        keys: object,
        right_keys: object = None,
        join_type: str = "left outer",
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        coalesce_keys: bool = True,
        use_threads: bool = True,
    ) -> NoReturn:
        """Not supported: join the tables that scans give, or use an engine."""
        raise NotSupported("joins of datasets are not supported; join tables, or use an engine such as duckdb")

    def join_asof(
        self,
        right_dataset: object,
        on: str,
        by: object,
        tolerance: int,
        right_on: object = None,
        right_by: object = None,
    ) -> NoReturn:
        """Not supported: join the tables that scans give, or use an engine."""
        raise NotSupported("joins of datasets are not supported; join tables, or use an engine such as duckdb")

    def sql(self, sql: str) -> SqlQueryBuilder:
        """A query in SQL on this table, which it calls ``dataset``; ``build()`` makes it ready to run.

        DataFusion runs it: ``pip install 'lancelet[sql]'``. What it selects and filters is read by a scan, with indices.

        Examples
        --------
        >>> import lancelet
        >>> kelp = lancelet.write_dataset({"id": [1, 2, 3]}, "memory://docs/select")
        >>> query = kelp.sql("SELECT max(id) AS last FROM dataset WHERE id < 3").build()
        >>> query.to_batch_records()[0].to_pydict()
        {'last': [2]}
        """
        from lancelet._api.sql_query import SqlQueryBuilder

        return SqlQueryBuilder(self, sql)

    # Single rows

    def take(self, indices: object, columns: TakenColumns = None) -> pa.Table:
        """Rows by number, in the order given, repetitions included.

        Parameters
        ----------
        indices
            Row numbers as a list, range, numpy or Arrow array.
        columns
            Names; nested paths prune their column. Or a dict of names and SQL expressions.
        """
        return self._takes.by_number(indices, columns)

    def _take_rows(self, row_ids: object, columns: TakenColumns = None) -> pa.Table:
        """Rows by row id, in the order given; those that are gone are left out."""
        return self._takes.by_id(row_ids, columns)

    def sample(
        self,
        num_rows: int,
        columns: TakenColumns = None,
        randomize_order: bool = True,
        **kwargs: object,
    ) -> pa.Table:
        """Some rows by chance, each at most once; in table order unless ``randomize_order``."""
        return self.take(draw_rows(self.count_rows(), num_rows, in_order=not randomize_order), columns, **kwargs)

    def take_blobs(
        self,
        blob_column: str,
        ids: object = None,
        addresses: object = None,
        indices: object = None,
        *,
        buffer_size: int = BLOB_BUFFER_BYTES,
    ) -> list[BlobFile | None]:
        """Blobs as files that are read when asked for; rows by id, address or number."""
        from lancelet._api.blob_files import choose_rows, take_blobs

        return take_blobs(self._table, blob_column, choose_rows(ids, addresses, indices), buffer_size)

    def read_blobs(
        self,
        blob_column: str,
        ids: object = None,
        addresses: object = None,
        indices: object = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Row addresses and whole blobs; rows by id, address or number."""
        from lancelet._api.blob_files import choose_rows, read_whole_blobs

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
        from lancelet._api.blob_files import read_blob_ranges

        return read_blob_ranges(self._table, blob_column, requests, selector, preserve_order is not False)

    # Rows

    def insert(
        self,
        data: object,
        *,
        mode: str = "append",
        schema: pa.Schema | None = None,
        progress: object = None,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        **kwargs: Unpack[TableKeywords],
    ) -> None:
        """Write rows and move to the new version.

        The options are those of :func:`lancelet.write_dataset`, but for ``storage_options`` and ``session``: the
        dataset has its own.
        """
        from lancelet._api.row_writes import write_rows
        from lancelet.writing.options import write_options

        how = write_options(mode, **kwargs)
        self._move(write_rows(data, self, schema, how, progress=progress, base_store_params=base_store_params))

    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        conflict_retries: int = CHANGE_RETRIES,
        retry_timeout: timedelta = timedelta(seconds=CHANGE_SECONDS),
    ) -> DeleteResult:
        """Delete the rows for which a predicate is true, and move to the new version.

        Parameters
        ----------
        predicate
            SQL text or a pyarrow expression.
        conflict_retries, retry_timeout
            How often and how long to find the rows again when somebody else changed them in between. Ten times, the
            default of pylance, are not counted: the time decides.
        """
        from lancelet.editing.delete import delete_where

        seconds = retry_timeout.total_seconds()
        snapshot, count = delete_where(self._table, predicate, retries=conflict_retries, timeout=seconds)
        self._move(snapshot)
        return {"num_deleted_rows": count}

    def update(
        self,
        updates: Mapping[str, str],
        where: str | pc.Expression | None = None,
        conflict_retries: int = CHANGE_RETRIES,
        retry_timeout: timedelta = timedelta(seconds=CHANGE_SECONDS),
        data_storage_version: str | None = None,
    ) -> UpdateResult:
        """Give columns new values in the rows for which a condition is true, and move to the new version.

        The rows come out at the end of the table; in a table with stable row ids they keep their ids.

        Parameters
        ----------
        updates
            Columns and the SQL expressions of their new values. All expressions see the row as it was.
        where
            SQL text or a pyarrow expression; all rows by default.
        conflict_retries, retry_timeout
            How often and how long to find the rows again when somebody else changed them in between. Ten times, the
            default of pylance, are not counted: the time decides.
        data_storage_version
            File version of the new rows; that of the table by default.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"a": [1, 2, 3]}, "memory://updated")
        >>> dataset.update({"a": "a * 10"}, where="a > 1")
        {'num_rows_updated': 2}
        >>> dataset.to_table()["a"].to_pylist()
        [1, 20, 30]
        """
        from lancelet.editing.update import update_rows

        seconds, version = retry_timeout.total_seconds(), data_storage_version
        snapshot, count = update_rows(
            self._table, updates, where, retries=conflict_retries, timeout=seconds, version=version
        )
        self._move(snapshot)
        return {"num_rows_updated": count}

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Update, insert and delete rows in one commit, matching them with those of a source.

        Rows that are updated come out at the end of the table.

        Parameters
        ----------
        on
            The columns to match rows by; the table's primary key by default. A null matches nothing.

        Returns
        -------
        A builder, to be told what to do with each kind of rows, and then executed.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": [1, 2], "x": ["a", "b"]}, "memory://merged")
        >>> upsert = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        >>> upsert.execute({"id": [2, 3], "x": ["B", "C"]})
        {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        >>> dataset.to_table().to_pydict()
        {'id': [1, 2, 3], 'x': ['a', 'B', 'C']}
        """
        from lancelet._api.merge_insert import MergeInsertBuilder

        return MergeInsertBuilder(self, on)

    # MemWAL

    @takes(WriterOptions)
    def initialize_mem_wal(
        self,
        *,
        maintained_indexes: Sequence[str] | None = None,
        bucket_column: str | None = None,
        num_buckets: int | None = None,
        identity_column: str | None = None,
        unsharded: bool = False,
        **options: Unpack[WriterOptions],
    ) -> None:
        """Let rows be written through a log in front of the table, for many small and quick writes.

        Rows go to shards. At most one way to tell them apart can be chosen; without one, whoever writes names the shard.

        Parameters
        ----------
        maintained_indexes
            Indices that rows get before they are in the table; by default all that it has and will have.
        bucket_column, num_buckets
            Shards by the hash of a column, and how many (1 to 1024).
        identity_column
            A shard for each value of a column.
        unsharded
            One shard for all rows.
        options
            What writers do where they are not told otherwise, see :meth:`mem_wal_writer`.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": [1, 2]}, "memory://docs/initialize_mem_wal")
        >>> dataset.initialize_mem_wal(bucket_column="id", num_buckets=4)
        >>> dataset.mem_wal_index_details()["num_shards"]
        4
        """
        from lancelet.memwal.details import initialize
        from lancelet.memwal.shard import fence_earlier

        snapshot = initialize(
            self._table.snapshot,
            maintained_indexes=maintained_indexes,
            bucket_column=bucket_column,
            num_buckets=num_buckets,
            identity_column=identity_column,
            unsharded=unsharded,
            options=options,
        )
        fence_earlier(snapshot)
        self._move(snapshot)

    def mem_wal_index_details(self) -> dict[str, Any] | None:
        """How rows are written through the log; None when the table has no MemWAL."""
        from lancelet.memwal.details import read_details

        details = read_details(self._table.snapshot.manifest)
        return None if details is None else details.shown()

    @takes(WriterOptions)
    def mem_wal_writer(self, shard_id: str, **options: Unpack[WriterOptions]) -> ShardWriter:
        """The writer of a shard. Another writer that has the shard is fenced: it cannot write any more.

        What earlier writers left in the log of the shard is taken over.

        Parameters
        ----------
        shard_id
            The text of a UUID; a shard that is not there is made.
        durable_write
            Whether a put waits until its rows are in the log; it does by default.
        max_wal_buffer_size, max_wal_flush_interval_ms
            How many bytes, and for how long, puts that do not wait are gathered.
        max_memtable_size, max_memtable_rows, max_memtable_batches
            When what is in memory becomes a run.
        max_unflushed_memtable_bytes
            How many bytes may be in memory; with more, puts wait for runs to be written.
        manifest_scan_batch_size
            Taken and not needed.
        backpressure_log_interval_ms, stats_log_interval_ms
            How often it is told that puts wait, and what was written so far, at most.
        hnsw_params
            Kept with the table where it is initialized; runs get the settings that the table's own indices have.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": [1]}, "memory://docs/mem_wal_writer")
        >>> dataset.initialize_mem_wal()
        >>> with dataset.mem_wal_writer("5eed0000-0000-4000-8000-000000000001") as writer:
        ...     writer.put({"id": [2]})
        ...     writer.lsm_scanner().count_rows()
        2
        """
        from lancelet.mem_wal import ShardWriter, open_shard

        return ShardWriter(open_shard(self._table, shard_id, options), self._table)

    @takes(WriterOptions)
    def writer(self, *, shard_id: str | None = None, **options: Unpack[WriterOptions]) -> TableWriter:
        """A writer for many small puts and deletes, which are durable one by one and become part of the table later.

        Rows go to the shards that :meth:`initialize_mem_wal` tells, or all to one that is named. Readers see them with
        :meth:`lsm_scanner`, and :meth:`compact_mem_wal` takes them into the table.

        Parameters
        ----------
        shard_id
            The shard of all rows, for a table whose rows are not told apart otherwise.
        options
            See :meth:`mem_wal_writer`.

        Examples
        --------
        See :class:`lancelet.mem_wal.TableWriter`.
        """
        from lancelet._api.lsm_scanner import current_scanner
        from lancelet.mem_wal import TableWriter
        from lancelet.memwal.routing import Router

        return TableWriter(Router(self._table.snapshot, options, shard_id), partial(current_scanner, self._table))

    def lsm_scanner(self, *, strong: bool = False) -> LsmScanner:
        """A scanner of the newest version together with the rows that are not in it yet.

        Parameters
        ----------
        strong
            Whether rows count too that are in no run yet: the logs of all shards are read for them.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": [1]}, "memory://docs/lsm")
        >>> dataset.initialize_mem_wal(unsharded=True)
        >>> writer = dataset.writer()
        >>> _ = writer.put({"id": [2]})
        >>> dataset.lsm_scanner().count_rows(), dataset.lsm_scanner(strong=True).count_rows()
        (1, 2)
        """
        from lancelet._api.lsm_scanner import current_scanner

        return current_scanner(self._table, strong=strong)

    def compact_mem_wal(self, shard_ids: Iterable[str] | None = None) -> dict[str, int]:
        """Take the runs of all shards, or of some, into the table, and move to the new version.

        Others may write to the table and to the shards meanwhile, and compact too.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": [1]}, "memory://docs/compact_mem_wal")
        >>> dataset.initialize_mem_wal(unsharded=True)
        >>> with dataset.writer() as writer:
        ...     _ = writer.put({"id": [2]})
        >>> dataset.compact_mem_wal()["num_runs"], dataset.count_rows()
        (1, 2)
        """
        from lancelet.memwal.compaction import compact_runs
        from lancelet.memwal.names import shard_of

        done = compact_runs(self._table, None if shard_ids is None else {shard_of(shard) for shard in shard_ids})
        self._move(done.snapshot)
        return {
            "num_runs": done.num_runs,
            "num_inserted_rows": done.num_inserted_rows,
            "num_updated_rows": done.num_updated_rows,
            "num_deleted_rows": done.num_deleted_rows,
        }

    def cleanup_mem_wal(self, older_than: timedelta = timedelta(hours=1)) -> dict[str, int]:
        """Remove runs that are in a version of some age, and what is not needed of logs and of runs that failed.

        Examples
        --------
        >>> import lancelet
        >>> from datetime import timedelta
        >>> dataset = lancelet.write_dataset({"id": [1]}, "memory://docs/cleanup_mem_wal")
        >>> dataset.initialize_mem_wal(unsharded=True)
        >>> with dataset.writer() as writer:
        ...     _ = writer.put({"id": [2]})
        >>> _ = dataset.compact_mem_wal()
        >>> dataset.cleanup_mem_wal(timedelta(0))
        {'num_runs': 1, 'num_entries': 0, 'num_leftovers': 0}
        """
        from lancelet.memwal.collection import collect_garbage

        done = collect_garbage(self._table.snapshot, older_than=older_than)
        return {"num_runs": done.num_runs, "num_entries": done.num_entries, "num_leftovers": done.num_leftovers}

    def seal_mem_wal_shard(self, shard_id: str) -> None:
        """Let a shard take no more rows. Its writer is fenced; its rows become runs, to be read and compacted.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": [1]}, "memory://docs/seal")
        >>> dataset.initialize_mem_wal()
        >>> dataset.seal_mem_wal_shard("5eed0000-0000-4000-8000-000000000001")
        >>> dataset.mem_wal_writer("5eed0000-0000-4000-8000-000000000001")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        lancelet.errors.ShardSealed: the shard ... is sealed and takes no more rows; write to another shard...
        """
        from lancelet.memwal.names import shard_of
        from lancelet.memwal.shard import seal

        seal(self._table.snapshot, shard_of(shard_id))

    def give_up_mem_wal_entry(self, shard_id: str, position: int) -> str:
        """Give up an entry of a shard's log that is gone or cannot be read, so that those after it can be.

        Returns where its file is kept, or an empty text where there is none. Its rows are lost, unless they are in a run already.
        An entry that can be read is not given up.

        Parameters
        ----------
        shard_id, position
            What the error says that names the entry.
        """
        from lancelet.memwal.log import give_up_entry
        from lancelet.memwal.names import shard_of
        from lancelet.memwal.shard_manifest import ShardStates

        return give_up_entry(ShardStates.of(self._snapshot.store, shard_of(shard_id)), position)

    # Columns

    def add_columns(
        self,
        transforms: object,
        read_columns: Sequence[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
        *,
        progress: ShownProgress = None,
    ) -> None:
        """Add columns, and move to the new version. The files that are there stay as they are.

        Appends and deletions by others do not stand in the way: rows that came meanwhile get their values too.

        Parameters
        ----------
        transforms
            What the columns hold: a dict of names and SQL expressions over the other columns; a function from batches
            of rows to batches of new columns, see :func:`lancelet.batch_udf`; a table or a stream of batches with a row
            for each live row; or fields, for columns that are null everywhere. A struct that is there already adds
            its new fields to the one that the table has.
        read_columns
            The columns that a function gets; all of them by default.
        reader_schema
            The columns of a stream that does not tell them.
        batch_size
            How many rows to read at once.
        progress
            True shows bars; a function is called with each :class:`lancelet.progress.WorkProgress`.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"a": [1, 2]}, "memory://docs/add_columns")
        >>> dataset.add_columns({"b": "a * 10"})
        >>> dataset.to_table().to_pydict()
        {'a': [1, 2], 'b': [10, 20]}
        """
        from lancelet.editing.columns.add import add_columns, new_names

        if has_mem_wal(self._snapshot.manifest):
            from lancelet.memwal.changes import check_new_columns

            check_new_columns(self._snapshot, new_names(transforms))
        with shown(progress):
            self._move(add_columns(self._table, transforms, read_columns, reader_schema, batch_size))

    def merge(
        self,
        data_obj: object,
        left_on: str,
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        progress: ShownProgress = None,
    ) -> None:
        """Add the columns of other rows, found by a key, and move to the new version; rows without a match get null.

        Parameters
        ----------
        data_obj
            The other rows, as for :func:`lancelet.write_dataset`; they are held in memory. Of rows with the same key,
            the last counts.
        left_on, right_on
            The key here and there; ``right_on`` is the same name by default.
        schema
            The columns of a stream that does not tell them.
        progress
            True shows bars; a function is called with each :class:`lancelet.progress.WorkProgress`.
        """
        from lancelet.editing.columns.join import merge_columns

        with shown(progress):
            self._move(merge_columns(self._table, data_obj, left_on, right_on, schema))

    def alter_columns(self, *alterations: Mapping[str, object], progress: ShownProgress = None) -> None:
        """Rename columns, change their types or whether they take nulls, and move to the new version.

        Parameters
        ----------
        alterations
            Dicts with the ``path`` of a column and one or more of ``name``, ``nullable`` and ``data_type``. A column
            with nulls cannot be made to refuse them. A type can be another of the same sort (numbers of another size,
            texts, lists); only this writes new files, and a value that does not fit is an error. Paths are those
            from before the change.
        progress
            True shows bars; a function is called with each :class:`lancelet.progress.WorkProgress`.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"a": [1, 2]}, "memory://docs/alter_columns")
        >>> dataset.alter_columns({"path": "a", "name": "b", "data_type": pa.int8()})
        >>> dataset.schema
        b: int8
        """
        from lancelet.editing.columns.alter import alter_columns

        with shown(progress):
            self._move(alter_columns(self._table, alterations))

    def drop_columns(self, columns: list[str]) -> None:
        """Drop columns or fields of structs, and move to the new version. Files stay as they are until compaction.

        Parameters
        ----------
        columns
            Names and paths (``"a.b"``).
        """
        from lancelet.editing.columns.drop import drop_columns

        self._move(drop_columns(self._snapshot, columns))

    # Metadata

    def update_config(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Edit the table's config, move to the new version and return the new config.

        Parameters
        ----------
        values
            Entries to set; None removes one.
        replace
            The values are all that is to be there.
        """
        from lancelet.editing.metadata import update_config

        self._move(update_config(self._snapshot, values, replace=replace))
        return self.config()

    def delete_config_keys(self, keys: list[str]) -> None:
        """Remove entries of the table's config, and move to the new version."""
        from lancelet.editing.metadata import delete_config_keys

        self._move(delete_config_keys(self._snapshot, keys))

    def update_metadata(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Edit the table's metadata as :meth:`update_config` does the config."""
        from lancelet.editing.metadata import update_table_metadata

        self._move(update_table_metadata(self._snapshot, values, replace=replace))
        return self.metadata

    def update_schema_metadata(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Edit the metadata of the schema as :meth:`update_config` does the config."""
        from lancelet.editing.metadata import update_schema_metadata

        self._move(update_schema_metadata(self._snapshot, values, replace=replace))
        return self.schema_metadata

    def update_field_metadata(
        self, field_updates: Mapping[str, Mapping[str, str | None]], *, replace: bool = False
    ) -> None:
        """Edit the metadata of fields, given by their paths, as :meth:`update_config` does the config."""
        from lancelet.editing.metadata import update_field_metadata

        self._move(update_field_metadata(self._snapshot, field_updates, replace=replace))

    def replace_schema_metadata(self, new_metadata: Mapping[str, str]) -> None:
        """Deprecated in favour of :meth:`update_schema_metadata`."""
        warnings.warn(
            "replace_schema_metadata is deprecated, use update_schema_metadata(metadata, replace=True)",
            DeprecationWarning,
            stacklevel=2,
        )
        self.update_schema_metadata(new_metadata, replace=True)

    def replace_field_metadata(self, field_name: str, new_metadata: Mapping[str, str]) -> None:
        """Deprecated in favour of :meth:`update_field_metadata`."""
        warnings.warn(
            "replace_field_metadata is deprecated, use update_field_metadata({path: metadata}, replace=True)",
            DeprecationWarning,
            stacklevel=2,
        )
        self.update_field_metadata({field_name: new_metadata}, replace=True)

    # Indices

    def create_scalar_index(
        self,
        column: str | list[str],
        index_type: object,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        format_version: int | str | None = None,
        document_granularity: object = DocumentGranularity.ROW,
        progress: ShownProgress = None,
        **kwargs: object,
    ) -> None:
        """Build an index over a column, and move to the version that has it. Filters use it from then on.

        Parameters
        ----------
        column
            A name, or the path of a field inside structs.
        index_type
            ``BTREE`` (values of all kinds), ``BITMAP`` (few different values), ``LABEL_LIST`` (lists of labels),
            ``ZONEMAP`` (values that come nearly in order), ``BLOOMFILTER`` (equality only, small), ``NGRAM`` (parts of
            texts), ``INVERTED``, also called ``FTS`` (words of texts, of lists of texts and of JSON), ``RTREE``
            (geometries), ``JSON`` (values at a path of JSON) or ``MINHASHLSH`` (near duplicates of texts); or an
            :class:`lancelet.indices.IndexConfig`.
        name
            By default the column's, with ``_idx`` behind it.
        replace
            Whether an index of this name may be there already.
        train
            False makes an index that covers no rows yet; ``optimize.optimize_indices`` fills it.
        fragment_ids
            Of ``INVERTED``: build a part over these fragments, under ``index_uuid``, for :meth:`merge_index_metadata`;
            nothing is committed. Of other kinds it is refused: :meth:`create_index_uncommitted` builds over some fragments.
        index_uuid
            The name of the folder of its files; drawn by default.
        progress_callback
            Hears how many rows have been read.
        format_version
            Of ``INVERTED``: 1, 2 or 3; by default 2, and 3 where that is needed.
        document_granularity
            Of ``INVERTED`` on lists: whether a row is a document, or each item of its list.
        progress
            True shows bars; a function is called with each :class:`lancelet.progress.WorkProgress`.
        kwargs
            Options of the kind: ``rows_per_zone``, ``number_of_items``, ``probability``. Of ``INVERTED``:
            ``with_position`` (for phrases), ``base_tokenizer``, ``language``, ``max_token_length``, ``lower_case``,
            ``stem``, ``remove_stop_words``, ``custom_stop_words``, ``ascii_folding``, ``min_ngram_length``,
            ``max_ngram_length``, ``prefix_only``, ``block_size``; for the build alone ``memory_limit`` (in MiB) and
            ``num_workers``.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": range(1000)}, "memory://docs/indexed")
        >>> dataset.create_scalar_index("id", "BTREE")
        >>> dataset.to_table(filter="id = 7").num_rows, dataset.describe_indices()[0].name
        (1, 'id_idx')
        """
        from lancelet._api.indexing import build_index
        from lancelet._api.vector_indexing import refuse_vector_type

        refuse_vector_type(index_type)
        granularity = None if document_granularity == DocumentGranularity.ROW else document_granularity
        with shown(progress):
            snapshot = build_index(
                self._table,
                column,
                index_type,
                name,
                kwargs,
                replace=replace,
                train=train,
                fragment_ids=fragment_ids,
                uuid=index_uuid,
                progress=progress_callback,
                named={"format_version": format_version, "document_granularity": granularity},
            )
        self._move(snapshot)

    def create_index(
        self,
        column: str | list[str],
        index_type: str,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: object = None,
        pq_codebook: object = None,
        num_sub_vectors: int | None = None,
        accelerator: object = None,
        index_cache_size: int | None = None,
        shuffle_partition_batches: int | None = None,
        shuffle_partition_concurrency: int | None = None,
        ivf_centroids_file: str | None = None,
        precomputed_partition_dataset: str | None = None,
        storage_options: dict[str, str] | None = None,
        filter_nan: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        *,
        target_partition_size: int | None = None,
        streaming_sample_rate: int | None = None,
        streaming_coreset_rate: int | None = None,
        streaming_refine_passes: int | None = None,
        skip_transpose: bool = False,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        progress: ShownProgress = None,
        **kwargs: object,
    ) -> Self:
        """Build an index over a column of vectors, and move to the version that has it; ``nearest`` uses it from then on.

        Null vectors, vectors with numbers that are not finite and, for cosine, those of length 0 are not in it. Other kinds
        of indices are built too, as :meth:`create_scalar_index` does it.

        Parameters
        ----------
        column
            A name, or the path of a field inside structs: lists of a fixed size of floating point numbers or, with
            ``metric="hamming"``, of bytes; or lists of such vectors, with ``metric="cosine"``.
        index_type
            ``IVF_FLAT`` (vectors as they are), ``IVF_SQ`` (a byte for each number), ``IVF_PQ`` (a byte for several),
            ``IVF_RQ`` (few bits for each number), and, with a graph for each partition, ``IVF_HNSW_FLAT``,
            ``IVF_HNSW_SQ``, ``IVF_HNSW_PQ``.
        name
            By default the column's, with ``_idx`` behind it.
        metric
            ``l2`` (also ``euclidean``), ``cosine``, ``dot`` or ``hamming``.
        replace
            Whether an index of this name may be there already.
        num_partitions
            By default one for ``target_partition_size`` rows, which is 4,096 (FLAT, RQ), 8,192 (PQ, SQ) or 1,048,576 (HNSW).
        ivf_centroids, ivf_centroids_file
            Centroids of the partitions, or a file of numpy's with them, in place of training.
        pq_codebook
            The codebook ``[num_sub_vectors, 2 ** num_bits, dimension / num_sub_vectors]``, in place of training.
        num_sub_vectors
            Of PQ: into how many parts vectors are cut.
        accelerator
            A device of torch's to train on, for ``IVF_PQ``.
        storage_options
            Of the store of ``precomputed_partition_dataset``.
        index_cache_size, filter_nan
            Accepted for pylance's sake, without effect: vectors that are null or not finite are always left out.
        shuffle_partition_batches, shuffle_partition_concurrency
            Noted in the index; memory is bounded whatever they are.
        precomputed_partition_dataset
            A table with ``row_id`` and ``partition`` of rows, in one fragment, as ``IndicesBuilder.assign_ivf_partitions`` writes it;
            needs ``ivf_centroids``. Rows that it does not have get their partitions here.
        train
            False makes an index that covers no rows yet; ``optimize.optimize_indices`` trains and fills it.
        fragment_ids
            Builds a segment over these fragments, which is not committed, under ``index_uuid``.
        index_uuid
            The name of the folder of its files; drawn by default.
        target_partition_size
            About how many rows a partition gets.
        streaming_sample_rate
            Less than ``sample_rate``: only so many vectors for each partition are held at once. Centroids are trained from
            these first, then moved by a step over the whole sample, which comes in pieces.
        streaming_coreset_rate
            From how many vectors for each partition the first centroids are trained, where that is not the number above.
        streaming_refine_passes
            How many steps more over the whole sample.
        skip_transpose
            Of PQ: store codes row by row.
        progress_callback
            Hears of the stages ``train_ivf``, ``train_quantizer``, ``shuffle`` and ``merge_partitions``.
        progress
            True shows bars; a function is called with each :class:`lancelet.progress.WorkProgress`.
        kwargs
            ``num_bits`` (PQ 4 or 8, RQ 1 to 9), ``sample_rate`` and ``max_iters`` of training, ``m``, ``ef_construction``
            and ``max_level`` of graphs, ``seed``; ``precomputed_shuffle_buffers`` with ``precomputed_shuffle_buffers_path``,
            what :func:`lancelet.vector.one_pass_assign_ivf_pq_on_accelerator` wrote.

        Examples
        --------
        >>> import lancelet, numpy as np, pyarrow as pa
        >>> values = np.random.default_rng(0).standard_normal(1000 * 8, np.float32)
        >>> vectors = pa.FixedSizeListArray.from_arrays(values, 8)
        >>> dataset = lancelet.write_dataset(pa.table({"v": vectors}), "memory://docs/vectors")
        >>> dataset.create_index("v", "IVF_SQ", num_partitions=4).describe_indices()[0].index_type
        'IVF_SQ'
        """
        from lancelet._api.vector_indexing import build_any_index

        options = {
            "metric": metric,
            "num_partitions": num_partitions,
            "ivf_centroids": ivf_centroids,
            "pq_codebook": pq_codebook,
            "num_sub_vectors": num_sub_vectors,
            "accelerator": accelerator,
            "index_cache_size": index_cache_size,
            "shuffle_partition_batches": shuffle_partition_batches,
            "shuffle_partition_concurrency": shuffle_partition_concurrency,
            "ivf_centroids_file": ivf_centroids_file,
            "precomputed_partition_dataset": precomputed_partition_dataset,
            "storage_options": storage_options,
            "streaming_sample_rate": streaming_sample_rate,
            "streaming_coreset_rate": streaming_coreset_rate,
            "streaming_refine_passes": streaming_refine_passes,
            "target_partition_size": target_partition_size,
            "skip_transpose": skip_transpose,
        }
        with shown(progress):
            snapshot = build_any_index(
                self._table,
                column,
                index_type,
                name,
                options,
                kwargs,
                replace=replace,
                train=train,
                fragment_ids=fragment_ids,
                uuid=index_uuid,
                progress=progress_callback,
            )
        self._move(snapshot)
        return self

    def create_index_uncommitted(
        self,
        column: str | list[str],
        index_type: Any,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: object = None,
        pq_codebook: object = None,
        num_sub_vectors: int | None = None,
        accelerator: object = None,
        index_cache_size: int | None = None,
        shuffle_partition_batches: int | None = None,
        shuffle_partition_concurrency: int | None = None,
        ivf_centroids_file: str | None = None,
        precomputed_partition_dataset: str | None = None,
        storage_options: dict[str, str] | None = None,
        filter_nan: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        *,
        target_partition_size: int | None = None,
        streaming_sample_rate: int | None = None,
        streaming_coreset_rate: int | None = None,
        streaming_refine_passes: int | None = None,
        skip_transpose: bool = False,
        rabitq_model: str | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        **kwargs: Any,
    ) -> Index:
        """Build an index over some fragments without committing it: a part for :meth:`commit_existing_index_segments`.

        Parameters
        ----------
        fragment_ids
            The fragments that the part covers; needed.
        replace
            Whether an index of this name may be there already.
        rabitq_model
            Of ``IVF_RQ``: what ``build_rq_model`` gave, the same for parts that are to be merged.
        kwargs
            Options of the kind. The other arguments are those of :meth:`create_index`; kinds that are not of vectors
            take no notice of what only vectors have.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": range(100)}, "memory://docs/parts", max_rows_per_file=50)
        >>> parts = [dataset.create_index_uncommitted("id", "BTREE", fragment_ids=[number]) for number in (0, 1)]
        >>> dataset.commit_existing_index_segments("id_idx", "id", parts).describe_indices()[0].num_rows_indexed
        100
        """
        from lancelet._api.vector_indexing import build_any_part

        vector = {
            "metric": metric,
            "num_partitions": num_partitions,
            "ivf_centroids": ivf_centroids,
            "pq_codebook": pq_codebook,
            "num_sub_vectors": num_sub_vectors,
            "accelerator": accelerator,
            "index_cache_size": index_cache_size,
            "shuffle_partition_batches": shuffle_partition_batches,
            "shuffle_partition_concurrency": shuffle_partition_concurrency,
            "ivf_centroids_file": ivf_centroids_file,
            "precomputed_partition_dataset": precomputed_partition_dataset,
            "storage_options": storage_options,
            "streaming_sample_rate": streaming_sample_rate,
            "streaming_coreset_rate": streaming_coreset_rate,
            "streaming_refine_passes": streaming_refine_passes,
            "target_partition_size": target_partition_size,
            "skip_transpose": skip_transpose,
            "rabitq_model": rabitq_model,
        }
        return build_any_part(
            self._table,
            column,
            index_type,
            name,
            vector,
            kwargs,
            replace=replace,
            train=train,
            fragment_ids=fragment_ids,
            uuid=index_uuid,
            progress=progress_callback,
        )

    def merge_existing_index_segments(self, segments: Sequence[Index]) -> Index:
        """One part out of several, over the fragments of all of them."""
        from lancelet._api.indexing import merge_index_parts

        return merge_index_parts(self._table, segments)

    def commit_existing_index_segments(self, index_name: str, column: str, segments: Sequence[Index]) -> Self:
        """Make parts an index, and move to the version that has it."""
        from lancelet._api.indexing import commit_index_parts

        self._move(commit_index_parts(self._table, index_name, column, segments))
        return self

    def merge_index_metadata(
        self,
        index_uuid: str,
        index_type: str,
        batch_readhead: int | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
    ) -> None:
        """Merge the parts of an ``INVERTED`` index that were built under one UUID, each over some fragments.

        Nothing is committed: that is done with ``LanceOperation.CreateIndex``. See :meth:`create_index_uncommitted` for
        parts of any kind of index, which are easier to use.

        Parameters
        ----------
        index_uuid
            That which all calls of :meth:`create_scalar_index` with ``fragment_ids`` were given.
        index_type
            ``INVERTED``.
        batch_readhead, progress_callback
            Accepted and not needed.
        """
        from lancelet._api.indexing import merge_index_stages

        merge_index_stages(self._table, index_uuid, index_type)

    def drop_index(self, name: str) -> None:
        """Remove an index by its name, and move to the version without it. Its files stay until a cleanup."""
        from lancelet.indexing.create import drop_index

        self._move(drop_index(self._table, name))

    def prewarm_index(
        self, name: str, *, with_position: bool = False, index_segments: Iterable[str | UUID] | None = None
    ) -> None:
        """Read an index into memory now, so that filters do not wait for it; as much of it as the index cache may hold.

        Parameters
        ----------
        name
            The index.
        with_position
            Only for kinds that are not supported yet.
        index_segments
            Some of its segments; all by default.
        """
        from lancelet._api.indexing import warm_index

        warm_index(self._table, name, index_segments)

    # Versions

    @property
    def tags(self) -> Tags:
        """Names for versions.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": range(5)}, "memory://docs/tags")
        >>> dataset.tags.create("first", 1)
        >>> dataset.tags.list()["first"]["version"]
        1
        """
        from lancelet._api.tags import Tags

        return Tags(self._snapshot)

    @property
    def branches(self) -> Branches:
        """Lines of versions beside the main one: made, listed and deleted."""
        from lancelet._api.tags import Branches

        return Branches(self._snapshot)

    def versions(self) -> list[dict[str, Any]]:
        """All versions, oldest first. Reads every manifest; :meth:`version_refs` reads none."""
        from lancelet.inspect.versions import list_version_entries

        return list_version_entries(self._snapshot.store)

    def get_version(self) -> dict[str, Any]:
        """This version as :meth:`versions` shows it."""
        from lancelet.inspect.versions import version_entry

        return version_entry(self._snapshot.manifest)

    def version_refs(self) -> list[dict[str, int]]:
        """The numbers of all versions, oldest first."""
        return [{"version": name.version} for name in list_versions(self._snapshot.store)]

    def checkout_version(self, version: int | str | tuple[str | None, int | None]) -> LanceDataset:
        """Another version: a number on the same branch, a tag, or a pair of branch and version.

        Of a pair, None is the main branch (as ``"main"`` is), or the newest version.
        """
        return self._at(self._snapshot.at(check_reference(version)))

    def checkout_latest(self) -> None:
        """Move this dataset to the newest version."""
        newest = self._snapshot.latest()
        if newest.version != self.version:
            self._move(newest)

    def read_transaction(self, version: int) -> Transaction | None:
        """How a version came about."""
        from lancelet._api.conversion import read_transaction

        return read_transaction(self._snapshot.at(version).manifest)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """How this version and those before it came about, the newest first."""
        from lancelet._api.conversion import read_transaction
        from lancelet.inspect.versions import newest_manifests

        return [read_transaction(manifest) for manifest in newest_manifests(self._snapshot, recent_transactions)]

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """What changed between two versions, the first one excluded."""
        from lancelet.changes.delta import choose_delta

        return choose_delta(self._table, compared_against, begin_version, end_version)

    # Files: compaction, cleanup, checks

    @property
    def optimize(self) -> DatasetOptimizer:
        """Compaction: ``dataset.optimize.compact_files()``."""
        from lancelet.optimize import DatasetOptimizer

        return DatasetOptimizer(self)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Sequence[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupStats:
        """Remove old versions, and the files that only they needed.

        This version and later ones stay, and so do tagged and detached ones, and those that branches depend on. A
        version goes only when all arguments that are given let it go. Shallow clones in other places are not known to
        the table: do not remove versions that they depend on.

        Parameters
        ----------
        older_than
            Only versions older than this go; two weeks when neither ``retain_versions`` nor ``versions`` is given.
        retain_versions
            This many of the newest versions stay.
        delete_unverified
            Also remove young files that no version names. They may belong to a write in progress, so they otherwise
            stay for seven days.
        error_if_tagged_old_versions
            Whether tagged versions that would go are an error, or just stay.
        delete_rate_limit
            At most so many files in a second.
        versions
            Only these go. A detached version goes only when it is named here.
        delete_concurrency
            At most so many requests at the same time.
        """
        from lancelet.maintenance.cleanup_report import clean, cleanup_policy

        policy = cleanup_policy(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            versions=versions,
        )
        return clean(self._snapshot, policy, delete_rate_limit, delete_concurrency)

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Sequence[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """What :meth:`cleanup_old_versions` would remove; nothing is removed.

        Parameters
        ----------
        older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions
            See :meth:`cleanup_old_versions`.
        delete_rate_limit
            Means nothing here.
        include_files, max_files
            Whether to name the files, and how many of them at most.
        """
        from lancelet.maintenance.cleanup_report import cleanup_policy, explain

        policy = cleanup_policy(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            versions=versions,
        )
        return explain(self._snapshot, policy, include_files=include_files, max_files=max_files)

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Check this version in full, and what the whole table relies on: other versions, tags, branches, the hint.

        The report has its findings in ``.findings``, the worst first, and prints as a table; ``.ok`` is whether nothing
        is wrong. :func:`lancelet.verify` does the same for a table that cannot be opened.

        Parameters
        ----------
        deep
            Also decode every page of this version, look for nulls in columns that have none, compare what indices say
            with their columns, and check checksums where files have some.
        """
        from lancelet.maintenance.validation.table import verify

        return verify(self._snapshot, deep=deep)

    def repair(self, *, dry_run: bool = True, set_aside_damaged: bool = False) -> RepairReport:
        """Repair what can be repaired without guessing, on the newest version.

        That is the hint file, files that no version has named for a week, and sizes and counts that the manifest lacks.
        By default nothing is done: the report says what would be. ``set_aside_damaged`` goes on without versions whose
        manifests are damaged; see :func:`lancelet.repair`, which also works where the table cannot be opened.
        """
        from lancelet.maintenance.repair import repair

        report, snapshot = repair(self._snapshot, dry_run=dry_run, set_aside_damaged=set_aside_damaged)
        if not dry_run and snapshot.version != self.version:
            self._move(snapshot)
        return report

    # Branches, clones, base paths

    def create_branch(
        self,
        branch: str,
        reference: Reference | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> LanceDataset:
        """Begin a branch: a line of versions of its own, which shares the files of the version that it begins at.

        Parameters
        ----------
        branch
            Letters, digits, ``.``, ``-`` and ``_``, in parts with ``/`` between them; not ``main``.
        reference
            A version number on this branch, a tag, or a pair of branch and version; this version by default.
        storage_options
            Options of the dataset that is returned; those of this dataset by default.

        Returns
        -------
        LanceDataset
            The branch at its first version, whose number is that of the version it begins at.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"x": [1]}, "memory://docs/branched")
        >>> branch = dataset.create_branch("try")
        >>> lancelet.write_dataset({"x": [2]}, branch, mode="append").count_rows(), dataset.count_rows()
        (2, 1)
        """
        from lancelet.cloning.targets import branch_off

        first = branch_off(self._snapshot, branch, reference, storage_options)
        return LanceDataset._of(first.uri, first, self._session, storage_options or self._storage_options)

    def shallow_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Reference | None,
        storage_options: Mapping[str, str] | None = None,
    ) -> LanceDataset:
        """Make a table that shares the files of a version, and goes its own way from there.

        The clone reads the files where they are: it needs them as long as it refers to them, and a cleanup of this
        table does not know of it. A tag keeps the version.

        Parameters
        ----------
        target_path
            Where the clone is to be; no table may be there.
        reference
            A version number on this branch, a tag, or a pair of branch and version; None is this version.
        storage_options
            Options of the clone; those of this dataset by default.
        """
        from lancelet.cloning.targets import clone_shallow

        first = clone_shallow(self._snapshot, target_path, reference, storage_options)
        return LanceDataset._of(os.fspath(target_path), first, None, storage_options or self._storage_options)

    def deep_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Reference | None,
        storage_options: Mapping[str, str] | None = None,
    ) -> LanceDataset:
        """Make a table with copies of all files of a version: data, deletions, indices, blobs.

        Blobs that are references stay references. The parameters are those of :meth:`shallow_clone`.
        """
        from lancelet.cloning.targets import clone_deep

        first = clone_deep(self._snapshot, target_path, reference, storage_options)
        return LanceDataset._of(os.fspath(target_path), first, None, storage_options or self._storage_options)

    def add_bases(
        self, new_bases: Sequence[DatasetBasePath], transaction_properties: Mapping[str, str] | None = None
    ) -> LanceDataset:
        """Add places that files of the table may be in, and move to the new version.

        Parameters
        ----------
        new_bases
            Their names and paths are no other base path's. Local paths become absolute.
        transaction_properties
            Texts kept with the transaction.

        Returns
        -------
        LanceDataset
            This dataset.
        """
        from lancelet.cloning.bases import add_bases

        self._move(add_bases(self._snapshot, new_bases, transaction_properties))
        return self

    def move_base(
        self,
        base: str | int,
        path: str,
        *,
        check: bool = True,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> LanceDataset:
        """Tell the table that the files of a base path are at another place now, and move to the new version.

        Copy the files first, and remove the old ones when no version before this one is needed any more. No file of
        the table is written but a manifest. Nobody may write to the base path meanwhile.

        Parameters
        ----------
        base
            Name, path or id of the base path.
        path
            Its new place.
        check
            Look whether all files of this version are there.
        transaction_properties
            Texts kept with the transaction.

        Returns
        -------
        LanceDataset
            This dataset.
        """
        from lancelet.cloning.bases import move_base

        self._move(move_base(self._snapshot, base, path, check=check, properties=transaction_properties))
        return self

    def truncate_table(self) -> None:
        """Delete all rows, and move to the new version; the columns stay."""
        from lancelet.editing.truncate import truncate

        self._move(truncate(self._table))

    @staticmethod
    def drop(
        base_uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Remove a table with everything in its folder; what is in other base paths stays.

        Parameters
        ----------
        base_uri
            The table. A folder without a manifest that can be read is refused.
        storage_options
            Options of the object store.
        ignore_not_found
            No error when there is nothing at all.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"x": [1]}, "memory://docs/dropped")
        >>> lancelet.LanceDataset.drop("memory://docs/dropped")
        """
        from lancelet.cloning.drop import drop_table

        drop_table(open_store(base_uri, storage_options), ignore_not_found=bool(ignore_not_found))

    # Commits

    def new_file_session(self) -> LanceFileSession:
        """Read and write single files of the table's folder, with the storage options of this dataset."""
        from lancelet.file.session import LanceFileSession

        return LanceFileSession._of(self._snapshot.store)

    def remap_row_addrs(self, addrs: pa.Array) -> pa.Array | None:
        """Where rows are now that had these addresses before compactions that the table remembers.

        A row that a compaction dropped is null. None when the table remembers no compaction.

        Parameters
        ----------
        addrs
            Addresses as 64-bit numbers without a sign.
        """
        from lancelet._api.index_descriptions import remap_row_addresses

        return remap_row_addresses(self._snapshot, addrs)

    @classmethod
    def from_pydantic_model(
        cls,
        model_class: Any,
        data: Any,
        uri: str | os.PathLike[str] | None = None,
        mode: str = "create",
        *,
        progress: Any = None,
        storage_options: Mapping[str, str] | None = None,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        allowed_prefixes: Sequence[str] | None = None,
        session: Session | None = None,
        **kwargs: Unpack[TableKeywords],
    ) -> LanceDataset:
        """Write instances of a pydantic model to a table.

        Parameters
        ----------
        model_class
            The model, whose fields are the columns; see :func:`lancelet.pydantic.pydantic_to_schema`.
        data
            A list of its instances.
        uri
            Where the table is or will be; by default the model's name in small letters with ``_`` between its words.
        mode, kwargs
            See :func:`lancelet.write_dataset`.
        """
        from lancelet._api.row_writes import write_rows
        from lancelet.pydantic import model_rows, table_name
        from lancelet.writing.options import write_options

        rows = model_rows(model_class, data)
        place = table_name(model_class) if uri is None else uri
        how = write_options(mode, **kwargs)
        snapshot = write_rows(
            rows,
            place,
            None,
            how,
            progress=progress,
            storage_options=storage_options,
            base_store_params=base_store_params,
            allowed_prefixes=allowed_prefixes,
            is_shared=session is not None,
        )
        return cls._written(place, snapshot, session, storage_options)

    def restore(self) -> None:
        """Make this version the newest again, as a new version."""
        from lancelet.table.commit import operations
        from lancelet.table.commit.run import commit

        self._move(commit(self._snapshot.latest(), operations.Restore(self.version)))

    def migrate_manifest_paths_v2(self) -> None:
        """Give all manifests the names of scheme V2; no other writer may be at work meanwhile."""
        migrate_to_v2(self._snapshot.store)
        self._move(self._snapshot.at(self.version))

    @staticmethod
    def commit(
        base_uri: str | os.PathLike[str] | LanceDataset,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: object = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = COMMIT_RETRIES,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        namespace_client: object = None,
        table_id: Sequence[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        commit_timeout: timedelta | None = COMMIT_TIMEOUT,
        storage_options_provider: None = None,
    ) -> LanceDataset:
        """Commit a change whose files are written already.

        Parameters
        ----------
        base_uri
            The table; an ``Overwrite`` also creates one.
        operation
            What to do, or a transaction, which also says what it is based on.
        read_version
            The version that the work was based on; needed for all operations but ``Overwrite`` and ``Restore``.
        enable_v2_manifest_paths, enable_stable_row_ids
            Properties of a new table.
        detached
            Make a version outside the history, known by its number only.
        max_retries, commit_timeout
            How often and how long to try when others are faster. 20 times, the default of pylance, are not counted: the
            commit goes on until its time is over.
        commit_message
            Kept with the transaction; not together with a transaction, which has properties of its own.
        base_store_params
            Storage options of base paths, by their URIs.
        namespace_client, table_id, namespace_client_managed_versioning
            The namespace that has the table, beside ``base_uri``, and whether it makes the table's versions: then the
            new one is made by its ``create_table_version``.
        commit_lock
            Not supported.
        storage_options_provider
            None: pylance had it once, and Ray still hands it over.
        """
        from lancelet._api.committing import commit_change

        refuse_former("storage_options_provider", storage_options_provider, "namespace_client and table_id")
        snapshot = commit_change(
            base_uri,
            operation,
            read_version,
            commit_lock=commit_lock,
            storage_options=storage_options,
            base_store_params=base_store_params,
            commit_message=commit_message,
            max_retries=max_retries,
            commit_timeout=commit_timeout,
            detached=detached,
            enable_stable_row_ids=enable_stable_row_ids,
            enable_v2_manifest_paths=enable_v2_manifest_paths,
            manager=manager_of(namespace_client, table_id, managed=namespace_client_managed_versioning),
        )
        return LanceDataset._written(base_uri, snapshot, None, storage_options)

    @staticmethod
    def commit_batch(
        dest: str | os.PathLike[str] | LanceDataset,
        transactions: Sequence[Transaction],
        commit_lock: object = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = COMMIT_RETRIES,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        commit_timeout: timedelta | None = COMMIT_TIMEOUT,
    ) -> BulkCommitResult:
        """Commit several appends as one version; the options are those of :meth:`commit`."""
        from lancelet._api.committing import merged_appends

        merged = merged_appends(transactions)
        dataset = LanceDataset.commit(
            dest,
            merged,
            commit_lock=commit_lock,
            storage_options=storage_options,
            enable_v2_manifest_paths=enable_v2_manifest_paths,
            detached=detached,
            max_retries=max_retries,
            base_store_params=base_store_params,
            commit_timeout=commit_timeout,
        )
        return {"dataset": dataset, "merged": merged}


def restored(
    kind: type[V],
    uri: str,
    snapshot: Snapshot,
    session: Session,
    default_scan_options: Mapping[str, object] | None,
    storage_options: Mapping[str, str] | None,
) -> V:
    """A view of a version that is open already."""
    kind = dataset_kind(kind)
    return kind.__new__(kind)._set(uri, snapshot, session, default_scan_options, storage_options)


_ASKS_ARROW: Final = ("pyarrow.dataset", "duckdb")
"""Modules whose users may hand a table to something that looks for datasets of pyarrow."""


def dataset_kind(kind: type[V]) -> type[V]:
    """The class that an open table gets.

    Engines hand columns and filters only to what is a ``pyarrow.dataset.Dataset``, and loading that takes longer than
    everything here together: a table is one in programs that have loaded it, or an engine that asks for it.
    """
    if kind is LanceDataset and any(name in sys.modules for name in _ASKS_ARROW):
        return _kind_for_arrow()  # type: ignore[return-value]
    return kind


@cache
def _kind_for_arrow() -> type[LanceDataset]:
    """Every public method of pyarrow's class is one of :class:`LanceDataset`, which comes first."""
    from pyarrow.dataset import Dataset

    own = {"__doc__": LanceDataset.__doc__, "__module__": __name__, "_saved_as": LanceDataset}
    return type("LanceDataset", (LanceDataset, Dataset), own)
