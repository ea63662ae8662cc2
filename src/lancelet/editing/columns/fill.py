"""Giving a fragment a new file with some of its columns.

The file has a row for every physical row of the fragment. Rows that are deleted
have no value to write: they repeat the row before them, or are null where that
is smaller and allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array
from lancelet.errors import InvalidChange
from lancelet.file.checksums import are_wanted
from lancelet.format.schema import Field, Schema
from lancelet.format.system_columns import ROW_ID_FIELD
from lancelet.table.manifest.fragment import TOMBSTONE, DataFile, Fragment
from lancelet.table.rows.addresses import MAX_ROWS
from lancelet.writing.fragments import Limits, write_fragment_files

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.table.commit.written import WrittenFiles

_ONE_FILE = Limits(rows=MAX_ROWS, nbytes=2**63)
_BATCH_BYTES = 8 << 20
_LEAST_ROWS = 1024
_MOST_ROWS = 1 << 15


def write_columns(
    reader: FragmentReader,
    columns: Schema,
    version: str,
    batches: Iterable[pa.RecordBatch],
    files: WrittenFiles,
    stem: bytes = b"",
) -> DataFile:
    """Write columns of a fragment, given for all its physical rows, into a new file; its name begins with ``stem``."""
    written = write_fragment_files(
        reader.snapshot.store,
        columns,
        _counted(reader.fragment.id, reader.physical_rows, batches),
        version=version,
        limits=replace(_ONE_FILE, groups=reader.groups, checksums=are_wanted(reader.snapshot.manifest.config)),
        files=files,
        stem=stem,
    )
    return written[0].files[0]


def batch_rows(reader: FragmentReader, fields: Sequence[Field]) -> int:
    """How many rows of some columns make a good unit of work."""
    each = max(*reader.row_bytes(fields), 1)
    return int(min(max(_BATCH_BYTES / each, _LEAST_ROWS), _MOST_ROWS))


def with_file(fragment: Fragment, physical_rows: int, file: DataFile | None, schema: Schema) -> Fragment:
    """The fragment with a new file. Columns that the file replaces are dead in older ones, and dead files go."""
    replaced = set() if file is None else set(file.fields)
    live = {node.id for node in schema.walk()}
    kept = []
    for old in fragment.files:
        fields = tuple(TOMBSTONE if field in replaced else field for field in old.fields)
        if any(field in live or field <= ROW_ID_FIELD for field in fields):
            kept.append(old if fields == old.fields else replace(old, fields=fields))
    if file is not None:
        kept.append(file)
    return replace(fragment, files=tuple(kept), physical_rows=physical_rows)


def spread_over_deleted(
    reader: FragmentReader, columns: Schema, batches: Iterable[pa.RecordBatch]
) -> Iterable[pa.RecordBatch]:
    """Batches of live rows with the deleted rows between them."""
    live = reader.num_rows
    counted = _counted(reader.fragment.id, live, batches)
    return counted if live == reader.physical_rows else _with_deleted(reader, columns, counted)


def _counted(number: int, rows: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, which must have so many rows together; empty ones are left out."""
    done = 0
    for batch in batches:
        done += batch.num_rows
        if done > rows:
            raise InvalidChange(f"there are more new values than the {rows} rows of fragment {number}")
        if batch.num_rows:
            yield batch
    if done < rows:
        raise InvalidChange(f"there are new values for {done} of the {rows} rows of fragment {number}")


def _with_deleted(
    reader: FragmentReader, columns: Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    live = np.flatnonzero(reader.deletions.keep(0, reader.physical_rows))
    done = at = 0
    for batch in batches:
        rows = live[done : done + batch.num_rows]
        done += batch.num_rows
        end = reader.physical_rows if done == len(live) else int(rows[-1]) + 1
        source = np.full(end - at, -1, np.int64)
        source[rows - at] = np.arange(batch.num_rows)
        yield _spread(batch, source, columns)
        at = end


def _spread(batch: pa.RecordBatch, source: npt.NDArray[np.int64], columns: Schema) -> pa.RecordBatch:
    """The rows that ``source`` names, and something for -1."""
    if len(source) == batch.num_rows:
        return batch
    nullable = {field.name: field.nullable for field in columns.fields}
    as_null = [nullable[f.name] and not _is_fixed(f.type) for f in batch.schema]
    nulls = pa.array(source, mask=source < 0) if any(as_null) else None
    repeats = None if all(as_null) else arrow_array(np.maximum(np.maximum.accumulate(source), 0))
    arrays = [
        pick_rows(column, nulls if null else repeats) for null, column in zip(as_null, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _is_fixed(dtype: pa.DataType) -> bool:
    """Whether a value costs the same as a null."""
    return bool(pa.types.is_primitive(dtype) or pa.types.is_fixed_size_list(dtype) or pa.types.is_boolean(dtype))
