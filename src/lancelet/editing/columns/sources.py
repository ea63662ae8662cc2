"""Where the values of new columns come from: expressions, functions, a stream.

Each source gives the columns that it makes, and for one fragment of a table the
values of its live rows, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from lancelet._naming.texts import check_text
from lancelet.editing.columns.fill import batch_rows
from lancelet.encoding.picking import keep_rows
from lancelet.encoding.plain import arrow_array
from lancelet.encoding.rows import RowRange
from lancelet.errors import InvalidChange, InvalidInput, InvalidType, Lines, NotSupported, UnfitData
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.plan import ScanPlan, needed_fields, plan_outputs, plan_take
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.evaluate import may_fail
from lancelet.expressions.expr import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    columns_of,
    type_of,
)
from lancelet.format.schema import Schema
from lancelet.format.system_columns import SYSTEM_FIELDS
from lancelet.udf import BatchUDF, BatchUDFCheckpoint
from lancelet.writing.fit import side_by_side
from lancelet.writing.source import RowSource, open_source

Outputs: TypeAlias = tuple[tuple[str, Expr], ...]

UDF_BATCH_SIZE = 1024
_STRICT_CALLS = frozenset(
    ("add", "subtract", "multiply", "divide", "modulo", "negate", "||", "round", "starts_with", "regexp_like")
)
"""Functions known to give null for null only."""


class ColumnSource(Protocol):
    """Makes new columns."""

    @property
    def repeatable(self) -> bool:
        """Whether the values of a fragment can be asked for again, and those of a new fragment at all."""

    def schema(self, table: TableReader) -> pa.Schema:
        """The columns that it makes."""

    def covers_deleted(self, table: TableReader) -> bool:
        """Whether deleted rows have values too."""

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        """Values for the rows of a fragment."""


def column_source(
    transforms: object, read_columns: Sequence[str] | None, reader_schema: pa.Schema | None, batch_size: object
) -> ColumnSource:
    """The source that a user's argument stands for."""
    if batch_size is not None and (isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1):
        raise InvalidInput(f"batch_size is a positive number, not {batch_size!r}")
    if isinstance(transforms, Mapping):
        for name, text in transforms.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise InvalidType(f"new columns are names and SQL expressions, both texts, not {name!r}: {text!r}")
            check_text(name, "the name of a column")
        return Expressions(dict(transforms), batch_size)
    if isinstance(transforms, BatchUDF) or callable(transforms):
        columns = None if read_columns is None else tuple(read_columns)
        return Computed(transforms, columns, batch_size or UDF_BATCH_SIZE)
    try:
        return Streamed(open_source(transforms, reader_schema))
    except InvalidType as error:
        raise InvalidType(
            f"new columns come from SQL expressions, a function, fields, or something that holds rows; {error}"
        ) from None


@dataclass(frozen=True, slots=True)
class Expressions:
    """SQL expressions over the columns that are there."""

    texts: Mapping[str, str]
    batch_size: int | None = None
    """As many rows as make a good unit of work unless told."""
    repeatable: bool = True
    _parsed: list[tuple[Schema, Outputs]] = field(default_factory=list, compare=False)
    """The expressions over the schema that they were last wanted for."""

    def covers_deleted(self, table: TableReader) -> bool:
        # What cannot fail may be computed of any row, which is quicker than picking the live ones.
        schema = table.snapshot.manifest.schema
        outputs = self._outputs(schema)
        _, system = needed_fields(schema, (expr for _, expr in outputs))
        return not system and not any(may_fail(expr) for _, expr in outputs)

    def schema(self, table: TableReader) -> pa.Schema:
        schema = table.snapshot.manifest.schema
        return pa.schema(
            [pa.field(name, type_of(expr), may_be_null(expr, schema)) for name, expr in self._outputs(schema)]
        )

    def all_null(self, table: TableReader) -> bool:
        """Whether no row has a value, so that there is nothing to write."""
        outputs = self._outputs(table.snapshot.manifest.schema)
        return bool(outputs) and all(
            isinstance(expr, Literal) and expr.value is None and not pa.types.is_null(expr.type) for _, expr in outputs
        )

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        schema = table.snapshot.manifest.schema
        outputs = self._outputs(schema)
        size = self.batch_size
        if size is None:
            fields, _ = needed_fields(schema, (expr for _, expr in outputs))
            size = batch_rows(reader, fields)
        plan = ScanPlan(
            schema,
            outputs,
            fragment_ids=(reader.fragment.id,),
            batch_size=size,
            include_deleted=self.covers_deleted(table),
        )
        try:
            yield from Scan(table, plan).batches()
        except InvalidInput as error:
            # A value that the expression cannot be computed of.
            raise InvalidChange(str(error)) from error

    def _outputs(self, schema: Schema) -> Outputs:
        if not self._parsed or self._parsed[0][0] is not schema:
            try:
                outputs = plan_outputs(schema, self.texts)
            except (InvalidInput, NotSupported) as error:
                raise InvalidChange(str(error)) from error
            for name, expr in outputs:
                _refuse_blobs(name, expr, schema)
            self._parsed[:] = [(schema, outputs)]
        return self._parsed[0][1]


@dataclass(frozen=True, slots=True)
class Computed:
    """A function over batches of the rows that are there."""

    function: BatchUDF | Callable[[pa.RecordBatch], Any]
    columns: tuple[str, ...] | None
    batch_size: int
    repeatable: bool = True

    def covers_deleted(self, table: TableReader) -> bool:
        return False

    @property
    def checkpoint(self) -> BatchUDFCheckpoint | None:
        return self.function.cache if isinstance(self.function, BatchUDF) else None

    def schema(self, table: TableReader) -> pa.Schema:
        udf = self.function
        if isinstance(udf, BatchUDF) and udf.output_schema is not None:
            return udf.output_schema
        plan = self._plan(table, None)
        scan = Scan(table, ScanPlan(plan.schema, plan.outputs, limit=1))
        sample = next(scan.batches(), None)
        if sample is None:
            sample = scan.schema.empty_table().combine_chunks().to_batches() or [_no_rows(scan.schema)]
            sample = sample[0]
        try:
            found = _batch(udf(sample)).schema
        except Exception as error:
            if isinstance(udf, BatchUDF):
                raise InvalidChange(f"the function failed on the first row: {type(error).__name__}: {error}") from error
            raise InvalidType(f"the function failed on the first row: {type(error).__name__}: {error}") from error
        if isinstance(udf, BatchUDF):
            udf.output_schema = found
        return found

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        expected = self.schema(table) if isinstance(self.function, BatchUDF) else None
        at, rows = 0, reader.physical_rows
        live = reader.live(RowRange(0, rows))
        for batch in Scan(table, self._plan(table, reader)).batches():
            start, at = at, at + batch.num_rows
            if live is not None:
                batch = keep_rows(batch, arrow_array(live[start:at]))
            whole = start % self.batch_size == 0 and (at - start == self.batch_size or at == rows)
            place = BatchUDFCheckpoint.BatchInfo(reader.fragment.id, start // self.batch_size) if whole else None
            if batch.num_rows:
                yield self._result(batch, expected, place)

    def _result(
        self, batch: pa.RecordBatch, expected: pa.Schema | None, place: BatchUDFCheckpoint.BatchInfo | None
    ) -> pa.RecordBatch:
        cache = None if place is None else self.checkpoint
        known = None if cache is None or place is None else cache.get_batch(place)
        if known is not None and known.num_rows == batch.num_rows and (expected is None or known.schema == expected):
            return known
        try:
            result = _batch(self.function(batch))
        except Exception as error:
            raise InvalidChange(f"the function failed: {type(error).__name__}: {error}") from error
        if expected is not None and result.schema != expected:
            raise InvalidChange(
                Lines.of(
                    "Output schema of function does not match the expected schema.",
                    *side_by_side("expected", expected, "returned", result.schema),
                )
            )
        if result.num_rows != batch.num_rows:
            raise InvalidChange(f"the function returned {result.num_rows} rows for a batch of {batch.num_rows}")
        if cache is not None and place is not None:
            cache.insert_batch(place, result)
        return result

    def _plan(self, table: TableReader, reader: FragmentReader | None) -> ScanPlan:
        schema = table.snapshot.manifest.schema
        names = self.columns
        if names is not None:
            # System columns come last, whatever their place.
            names = tuple(sorted(names, key=lambda name: name in SYSTEM_FIELDS and name not in schema.names))
        try:
            # Unlike in scans, a nested path prunes its column.
            plan = plan_take(schema, names) if names else ScanPlan(schema, plan_outputs(schema, names))
        except InvalidInput as error:
            raise InvalidType(f"read_columns: {error}") from error
        return replace(
            plan,
            fragment_ids=None if reader is None else (reader.fragment.id,),
            batch_size=self.batch_size,
            include_deleted=reader is not None,
        )


class Streamed:
    """Rows in the order of the table's live rows."""

    repeatable = False

    def __init__(self, source: RowSource) -> None:
        self._schema = source.schema
        self._batches = source.batches

    def covers_deleted(self, table: TableReader) -> bool:
        return False

    def schema(self, table: TableReader) -> pa.Schema:
        return self._schema

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        left = reader.num_rows
        while left:
            batch = next(self._batches, None)
            if batch is None:
                raise InvalidChange(
                    f"Stream ended before producing values for all rows in dataset: {left} rows of fragment "
                    f"{reader.fragment.id} are missing"
                )
            if batch.schema != self._schema:
                raise UnfitData(
                    Lines.of(
                        "a batch has other columns than its stream",
                        *side_by_side("stream", self._schema, "batch", batch.schema),
                    )
                )
            piece = batch.slice(0, left)
            if piece.num_rows < batch.num_rows:
                self._batches = chain([batch.slice(piece.num_rows)], self._batches)
            left -= piece.num_rows
            yield piece

    def check_end(self) -> None:
        """Refuse rows that no row of the table is left for."""
        more = next((batch for batch in self._batches if batch.num_rows), None)
        if more is not None:
            raise InvalidChange("Stream produced more values than expected for dataset: all its rows have one")


def _refuse_blobs(name: str, expr: Expr, schema: Schema) -> None:
    """Expressions see where blobs are, which means nothing in another column."""
    for path in columns_of(expr):
        if path[0] in schema.names and any(n.is_blob or n.is_blob_v2 for n in schema.field_by_path(path).walk()):
            raise InvalidChange(
                f"column '{name}' cannot be computed of the blobs of '{'.'.join(path)}'; use a function"
            )


def may_be_null(expr: Expr, schema: Schema) -> bool:
    """Whether an expression can give null, as far as that is told by the columns it reads."""
    match expr:
        case Literal(value):
            return value is None
        case Column(path):
            return path[0] in schema.names and any(node.nullable for node in schema.resolve(path))
        case IsNull():
            return False
        case Cast(arg, _, lenient):
            return lenient or may_be_null(arg, schema)
        case Call("coalesce", args):
            return all(may_be_null(arg, schema) for arg in args)
        case Call("is_true" | "is_false"):
            return False
        case Call(name, args):
            return name not in _STRICT_CALLS or any(may_be_null(arg, schema) for arg in args)
        case Compare(_, left, right) | Like(left, right):
            return may_be_null(left, schema) or may_be_null(right, schema)
        case In(arg, values):
            return values.has_null or may_be_null(arg, schema)
        case Not(arg):
            return may_be_null(arg, schema)
        case And(args) | Or(args):
            return any(may_be_null(arg, schema) for arg in args)


def _batch(result: object) -> pa.RecordBatch:
    """What a function returned, as a batch."""
    if type(result).__name__ == "DataFrame" and type(result).__module__.partition(".")[0] == "pandas":
        return pa.RecordBatch.from_pandas(result)
    if isinstance(result, pa.Table):
        combined = result.combine_chunks().to_batches()
        return combined[0] if len(combined) == 1 else _no_rows(result.schema)
    if not isinstance(result, pa.RecordBatch):
        raise TypeError(f"a pyarrow.RecordBatch or a pandas.DataFrame is expected, not {type(result)}")
    return result


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
