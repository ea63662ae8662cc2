"""What a namespace does with the rows and columns of its tables: it finds the table, and asks it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Generator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAlterColumnsRequest,
    AlterTableDropColumnsRequest,
    CountTableRowsRequest,
    DeleteFromTableRequest,
    GetTableStatsRequest,
    GetTableStatsResponse,
    InsertIntoTableRequest,
    InsertIntoTableResponse,
    InvalidInputError,
    MergeInsertIntoTableRequest,
    MergeInsertIntoTableResponse,
    QueryTableRequest,
    RestoreTableRequest,
    TableBranchNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
    UpdateFieldMetadataRequest,
    UpdateTableRequest,
    UpdateTableResponse,
    UpdateTableSchemaMetadataRequest,
)
from lance_namespace_urllib3_client.models.fragment_stats import FragmentStats
from lance_namespace_urllib3_client.models.fragment_summary import FragmentSummary

from lancelet.dataset import LanceDataset
from lancelet.errors import TableNotFound
from lancelet.namespace.errors import translated
from lancelet.namespace.json_types import arrow_type
from lancelet.namespace.names import Names, shown
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.writing.options import write_options
from lancelet.writing.table import Target, write_table

if TYPE_CHECKING:
    from lancelet._api.scanner import LanceScanner
    from lancelet._api.session import Session
    from lancelet.namespace.root import Root

_SMALL_FRAGMENT = 1 << 20
_PIECE = 1 << 18
"""Bytes of an answer that are worth handing over."""
"""Fragments with fewer rows count as small."""
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}


def open_table(
    root: Root, names: Names, *, version: int | None = None, branch: str | None = None, session: Session | None = None
) -> LanceDataset:
    """A table of the namespace at some version."""
    found = root.find(names)
    with translated(f"table {shown(found.id)}", not_found=TableBranchNotFoundError):
        try:
            snapshot = open_snapshot(root.store.child(found.folder), version if branch is None else (branch, version))
        except TableNotFound as error:
            raise TableNotFoundError(f"table {shown(found.id)} is declared, but has no rows yet: {error}") from error
        return LanceDataset._of(root.location(found), snapshot, session, root.settings.storage or None)


def read_stream(data: bytes | None, what: str) -> pa.RecordBatchReader:
    """The rows of a request's body, an Arrow IPC stream. Damage that shows later is the same error."""
    if not data:
        raise InvalidInputError(f"{what} needs rows: the request has no Arrow IPC stream")
    try:
        reader = pa.ipc.open_stream(data)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the rows for {what} are not an Arrow IPC stream: {error}") from error

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"the Arrow IPC stream for {what} is damaged: {error}") from error

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def count_rows(root: Root, request: CountTableRowsRequest) -> int:
    table = open_table(root, request.id, version=request.version, branch=request.branch)
    with _asking(request):
        return table.count_rows(request.predicate)


def insert(root: Root, request: InsertIntoTableRequest, data: bytes) -> InsertIntoTableResponse:
    mode = (request.mode or "append").lower()
    if mode not in ("append", "overwrite"):
        raise InvalidInputError(f"mode is {request.mode!r}, but has to be Append or Overwrite")
    rows = read_stream(data, "insert_into_table")
    found = root.find(request.id)
    counted = _Counted(rows)
    with _asking(request):
        place = root.store.child(found.folder)
        target = (
            Target.at(place)
            if request.branch is None
            else Target.of(open_table(root, request.id, branch=request.branch))
        )
        snapshot = write_table(counted.reader, None, target, write_options(mode))
    return InsertIntoTableResponse(num_inserted_rows=counted.rows, version=snapshot.version)


class _Counted:
    """Counts rows as they pass."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.rows = 0
        self._source = reader
        self.reader = pa.RecordBatchReader.from_batches(reader.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._source:
            self.rows += batch.num_rows
            yield batch


def merge_insert(root: Root, request: MergeInsertIntoTableRequest, data: bytes) -> MergeInsertIntoTableResponse:
    if not request.on:
        raise InvalidInputError("merge_insert_into_table needs 'on', the columns that rows are matched by")
    rows = read_stream(data, "merge_insert_into_table")
    table = open_table(root, request.id, branch=request.branch)
    with _asking(request):
        builder = table.merge_insert(request.on)
        if request.when_matched_update_all:
            builder.when_matched_update_all(request.when_matched_update_all_filt)
        if request.when_not_matched_insert_all:
            builder.when_not_matched_insert_all()
        if request.when_not_matched_by_source_delete:
            builder.when_not_matched_by_source_delete(request.when_not_matched_by_source_delete_filt)
        if request.timeout is not None:
            builder.retry_timeout(_span(request.timeout))
        if request.use_index is not None:
            builder.use_index(request.use_index)
        done = builder.execute(rows)
    return MergeInsertIntoTableResponse(
        num_updated_rows=done["num_updated_rows"],
        num_inserted_rows=done["num_inserted_rows"],
        num_deleted_rows=done["num_deleted_rows"],
        version=table.version,
    )


def update(root: Root, request: UpdateTableRequest) -> UpdateTableResponse:
    if not request.updates:
        raise InvalidInputError("update_table needs at least one pair of a column and an expression")
    table = open_table(root, request.id, branch=request.branch)
    with _asking(request):
        done = table.update(dict(request.updates), request.predicate)
    return UpdateTableResponse(updated_rows=done["num_rows_updated"], version=table.version)


def delete(root: Root, request: DeleteFromTableRequest) -> int:
    """Returns the new version."""
    if not request.predicate.strip():
        raise InvalidInputError("delete_from_table needs a predicate; 'true' deletes all rows")
    table = open_table(root, request.id, branch=request.branch)
    with _asking(request):
        table.delete(request.predicate)
    return table.version


def query(root: Root, request: QueryTableRequest, session: Session | None = None) -> Generator[bytes, None, None]:
    """The rows as a file of Arrow IPC, in pieces that come as the rows are read."""
    written = _Written()
    with _asking(request):
        reader = scan(root, request, session).to_reader()
        try:
            with pa.ipc.new_file(pa.PythonFile(written, "w"), reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
                    yield from written.taken(_PIECE)
            yield from written.taken(0)
        finally:
            reader.close()


class _Written(io.RawIOBase):
    """Takes what is written to it, until somebody takes it away."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def taken(self, least: int) -> Iterator[bytes]:
        """All that is there as one piece, if it is so much."""
        if self._size > least:
            piece, self._pieces, self._size = b"".join(self._pieces), [], 0
            yield piece


def scan(root: Root, request: Any, session: Session | None = None) -> LanceScanner:
    """What a query asks of its table. ``k`` is the number of rows; 0 is all of them."""
    table = open_table(root, request.id, version=request.version, branch=request.branch, session=session)
    columns: Any = None
    if request.columns is not None:
        columns = request.columns.column_aliases or request.columns.column_names
    vector = request.vector and (request.vector.single_vector or request.vector.multi_vector)
    options: dict[str, Any] = {
        "columns": columns,
        "filter": request.filter,
        "offset": request.offset,
        "with_row_id": request.with_row_id,
        "prefilter": request.prefilter,
        "fast_search": request.fast_search,
        "limit": request.k or None,
    }
    if request.full_text_query is not None:
        options["full_text_query"] = _text_query(request.full_text_query)
    if vector:
        options["nearest"] = {
            "column": request.vector_column or "vector",
            "q": np.asarray(vector, np.float32),
            "k": request.k,
            "metric": request.distance_type,
            "nprobes": request.nprobes,
            "refine_factor": request.refine_factor,
            "use_index": not request.bypass_vector_index,
            "ef": request.ef,
        }
        options["limit"] = None
    given = {name: value for name, value in options.items() if value is not None}
    with _asking(request):
        return table.scanner(**given)


def _text_query(given: Any) -> Any:
    if given.string_query is None:
        raise UnsupportedOperationError("structured full-text queries are not supported; ask with a string_query")
    return {"query": given.string_query.query, "columns": given.string_query.columns}


def stats(root: Root, request: GetTableStatsRequest) -> GetTableStatsResponse:
    table = open_table(root, request.id, branch=request.branch)
    with _asking(request):
        sizes = table.stats.data_stats()
        lengths = np.sort([fragment.physical_rows for fragment in table.get_fragments()])
        indices = len(table.describe_indices())
        rows = table.count_rows()
    return GetTableStatsResponse(
        total_bytes=sum(field.bytes_on_disk for field in sizes.fields),
        num_rows=rows,
        num_indices=indices,
        fragment_stats=FragmentStats(
            num_fragments=len(lengths),
            num_small_fragments=int((lengths < _SMALL_FRAGMENT).sum()),
            lengths=_summary(lengths),
        ),
    )


def _summary(lengths: Any) -> FragmentSummary:
    if not len(lengths):
        return FragmentSummary(min=0, max=0, mean=0, p25=0, p50=0, p75=0, p99=0)
    p25, p50, p75, p99 = (int(lengths[int(part * (len(lengths) - 1))]) for part in (0.25, 0.5, 0.75, 0.99))
    first, last, mean = int(lengths[0]), int(lengths[-1]), int(lengths.sum()) // len(lengths)
    return FragmentSummary(min=first, max=last, mean=mean, p25=p25, p50=p50, p75=p75, p99=p99)


def add_columns(root: Root, request: AlterTableAddColumnsRequest) -> int:
    """Returns the new version."""
    expressions = {}
    for column in request.new_columns:
        if column.expression is None:
            raise UnsupportedOperationError(
                f"column '{column.name}': only columns with an expression are supported, not computed or virtual ones"
            )
        expressions[column.name] = column.expression
    return _changed(root, request, lambda table: table.add_columns(expressions))


def alter_columns(root: Root, request: AlterTableAlterColumnsRequest) -> int:
    """Returns the new version."""
    alterations = []
    for entry in request.alterations:
        if entry.virtual_column is not None:
            raise UnsupportedOperationError(f"column '{entry.path}': virtual columns are not supported")
        alteration: dict[str, Any] = {"path": entry.path}
        if entry.rename is not None:
            alteration["name"] = entry.rename
        if entry.nullable is not None:
            alteration["nullable"] = entry.nullable
        if entry.data_type is not None:
            alteration["data_type"] = arrow_type(entry.data_type)
        alterations.append(alteration)
    return _changed(root, request, lambda table: table.alter_columns(*alterations))


def drop_columns(root: Root, request: AlterTableDropColumnsRequest) -> int:
    """Returns the new version."""
    return _changed(root, request, lambda table: table.drop_columns(request.columns))


def update_schema_metadata(root: Root, request: UpdateTableSchemaMetadataRequest) -> tuple[dict[str, str], str | None]:
    """Returns all metadata, and the transaction."""
    table = open_table(root, request.id, branch=request.branch)
    with _asking(request):
        table.update_schema_metadata(request.metadata or {})
        return table.schema_metadata, transaction_id(table)


def update_field_metadata(root: Root, request: UpdateFieldMetadataRequest) -> tuple[int, dict[str, dict[str, str]]]:
    """Returns the new version, and all metadata of the fields that were changed."""
    replaced = {entry.path: entry.metadata for entry in request.updates if entry.replace}
    merged = {entry.path: entry.metadata for entry in request.updates if not entry.replace}
    table = open_table(root, request.id, branch=request.branch)
    with _asking(request):
        if replaced:
            table.update_field_metadata(replaced, replace=True)
        if merged:
            table.update_field_metadata(merged)
        schema = table._snapshot.manifest.schema
        fields = {entry.path: dict(schema.field_by_path(entry.path).metadata) for entry in request.updates}
    return table.version, fields


def restore(root: Root, request: RestoreTableRequest) -> str | None:
    """Returns the transaction."""
    table = open_table(root, request.id, version=request.version, branch=request.branch)
    with _asking(request):
        table.restore()
        return transaction_id(table)


def transaction_id(table: LanceDataset) -> str | None:
    """Of the commit that made a version."""
    done = table.read_transaction(table.version)
    return None if done is None else done.uuid


def _changed(root: Root, request: Any, change: Callable[[LanceDataset], object]) -> int:
    table = open_table(root, request.id, branch=request.branch)
    with _asking(request):
        change(table)
    return table.version


def _asking(request: Any) -> Any:
    return translated(f"table {shown(tuple(request.id or ()))}", not_found=TableBranchNotFoundError)


def _span(text: str) -> timedelta:
    """A length of time, such as ``30s``."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"timeout is a length of time such as '30s', not {text!r}")
    return timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
