"""Whatever holds rows, as one schema and a stream of batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidType, Lines, UnfitData
from lancelet.writing.fit import side_by_side

_ROWS_OF_A_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows that are still to come."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def open_source(data: object, schema: pa.Schema | None = None) -> RowSource:
    """Rows out of tables, batches, readers, data frames, dicts, models, other datasets, or an iterable of batches.

    ``schema`` is for an iterable of batches and for Python values, which do not tell their types; data that has a
    schema keeps its own.

    Examples
    --------
    >>> open_source([{"x": 1}, {"x": 2}]).schema
    x: int64
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidType(f"schema is a pyarrow.Schema, not {type(schema)}")
    try:
        if type(data).__module__.partition(".")[0] == "datasets":
            return _hugging_face(data, schema)
        made = _made(data, schema)
        if made is not None:
            return RowSource(made.schema, iter(made.to_batches()))
        return _open(data, schema)
    except UnicodeEncodeError as error:
        raise UnfitData(
            f"the data has the text {error.object[:40]!r}, which UTF-8 cannot hold: {error.reason}"
        ) from error
    except pa.ArrowException as error:
        raise InvalidInput(f"the data cannot become a table: {error}") from error


def _made(data: object, schema: pa.Schema | None) -> pa.Table | None:
    """A table out of Python values, which the schema says how to read; None for what holds Arrow data."""
    if _is_frame(data, "pandas"):
        return pa.Table.from_pandas(data, schema=schema)
    if isinstance(data, dict):
        return pa.Table.from_pydict(data, schema=schema)
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return pa.Table.from_pylist(data, schema=schema)
    if isinstance(data, list) and data and _is_model(type(data[0])):
        from lancelet.pydantic import model_rows

        return model_rows(type(data[0]), data, schema)
    return None


def _open(data: Any, schema: pa.Schema | None) -> RowSource:
    if isinstance(data, pa.Table):
        return RowSource(data.schema, iter(data.to_batches()))
    if isinstance(data, pa.RecordBatch):
        return RowSource(data.schema, iter([data]))
    if _is_frame(data, "polars"):
        return _open(data.to_arrow(), None)
    # It imports pandas; whoever has an object of its classes has imported it.
    datasets = sys.modules.get("pyarrow.dataset")
    if datasets is not None and isinstance(data, datasets.Dataset):
        return _open(data.scanner(), None)
    if datasets is not None and isinstance(data, datasets.Scanner):
        return _open(data.to_reader(), None)
    if isinstance(data, pa.RecordBatchReader):
        return RowSource(data.schema, iter(data))
    if hasattr(data, "__arrow_c_stream__"):
        return _open(pa.RecordBatchReader.from_stream(data), None)
    if hasattr(data, "__arrow_c_array__"):
        return _open(pa.record_batch(data), None)
    if isinstance(data, (str, bytes, os.PathLike)):
        raise InvalidType(
            f"{str(data)[:80]!r} is the name of a place, not rows: the rows come first, then where they go. To copy a file, "
            'open it first: write_dataset(pyarrow.dataset.dataset("x.parquet"), "x.lance")'
        )
    if isinstance(data, Iterable):
        if schema is None:
            raise InvalidInput("an iterable of batches does not tell its columns in advance; pass schema=")
        return RowSource(schema, _conform(_batches(data), schema))
    raise InvalidType(
        f"rows cannot be taken from {type(data)}; they come from pyarrow, pandas, polars, a list of dicts, a dataset, "
        "an iterable of batches with a schema, or anything with __arrow_c_stream__"
    )


def _hugging_face(data: Any, schema: pa.Schema | None) -> RowSource:
    """Rows of a data set of Hugging Face's library, those that are selected, in their order."""
    if isinstance(data, dict):
        raise InvalidType(f"these are several data sets, {', '.join(map(repr, data))}: write one of them")
    if data.features is None and schema is None:
        raise InvalidInput(
            "a stream of Hugging Face's library does not always tell its columns in advance; pass schema="
        )
    announced = schema if data.features is None else data.features.arrow_schema
    batches = data.with_format("arrow").iter(batch_size=_ROWS_OF_A_BATCH)
    return RowSource(announced, _conform(_batches(batches), announced))


def _is_model(kind: type) -> bool:
    """Whether instances are pydantic's, told by name for the same reason as below."""
    return any(base.__name__ == "BaseModel" and base.__module__.startswith("pydantic.") for base in kind.__mro__)


def _is_frame(data: object, library: str) -> bool:
    """Told by name, so that nobody waits for a library that is not used."""
    return type(data).__name__ == "DataFrame" and type(data).__module__.partition(".")[0] == library


def _batches(data: Iterable[object]) -> Iterator[pa.RecordBatch]:
    for batch in data:
        if isinstance(batch, pa.Table):
            yield from batch.to_batches()
        elif isinstance(batch, pa.RecordBatch):
            yield batch
        else:
            raise InvalidType(f"an iterable of batches holds {type(batch)}, which is no batch")


def _conform(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches under the schema that they were announced with."""
    for batch in batches:
        if batch.schema.equals(schema, check_metadata=True):
            yield batch
            continue
        try:
            cast = batch.select(schema.names).cast(schema)
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise UnfitData(
                Lines.of(
                    f"a batch does not fit the schema that was given: {error}",
                    *side_by_side("schema", schema, "batch", batch.schema),
                )
            ) from error
        yield cast
