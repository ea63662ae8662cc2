"""Files of trained models: one column of lists of a fixed size, and what else is known in the metadata of the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput, InvalidType
from lancelet.file.lance_file import LanceFileReader
from lancelet.file.lance_file_writer import LanceFileWriter
from lancelet.format.extensions import storage_of


def fixed_lists(rows: Any, name: str) -> pa.FixedSizeListArray:
    """Rows of numbers as one Arrow array."""
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.shape[1]:
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).reshape(-1)), rows.shape[1])
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if isinstance(rows, pa.Array):
        rows = storage_of(rows)
        if pa.types.is_fixed_size_list(rows.type):
            return rows
    told = getattr(rows, "type", None) or type(rows).__name__
    raise InvalidType(f"{name} are lists of a fixed size in Arrow, or a numpy array of two dimensions, not {told}")


def write_model(
    uri: str,
    column: str,
    rows: pa.FixedSizeListArray,
    about: Mapping[str, str],
    storage_options: Mapping[str, str] | None,
) -> None:
    """Write a model; what is there is replaced."""
    schema = pa.schema([pa.field(column, rows.type)], metadata=dict(about))
    with LanceFileWriter(uri, schema, storage_options=storage_options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([rows], schema=schema))


def read_model(
    uri: str, column: str, needed: Sequence[str], storage_options: Mapping[str, str] | None
) -> tuple[pa.FixedSizeListArray, dict[str, str]]:
    """The rows of a model and what its file tells."""
    reader = LanceFileReader(uri, storage_options=storage_options)
    schema = reader.metadata().schema
    told = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    lacking = [repr(key) for key in needed if key not in told]
    if schema.names != [column] or lacking:
        what = f"has columns {schema.names}" if not lacking else f"does not tell {' or '.join(lacking)}"
        raise InvalidInput(f"{uri} is no file of a model with {column}: it {what}; load what the model itself saved")
    return fixed_lists(reader.read_all().to_table()[column], column), told


def whole_number(uri: str, key: str, text: str) -> int:
    """A number in the metadata of a model."""
    if not text.isdecimal() or len(text) > 9:
        raise CorruptFile(uri, f"tells no number, but {text!r}", key)
    return int(text)
