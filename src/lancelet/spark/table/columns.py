"""What new columns of a table are made of, as users say it: expressions, a function, another data frame."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

from lancelet.editing.columns import Computed, column_source, grown, refuse_computed
from lancelet.errors import InvalidInput, InvalidType, UnknownColumn
from lancelet.execution.table_reader import TableReader
from lancelet.format.schema import split_path
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID
from lancelet.spark.names import find_name, is_case_sensitive
from lancelet.spark.options import WHOLE_FRAGMENTS
from lancelet.spark.table.backfill import Filler, Notes, TaskFunction, Values, backfill
from lancelet.spark.table.edit import pin_version
from lancelet.spark.table.values import analysed, condition_of, in_words, table_frame
from lancelet.spark.types import written_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.spark.options import TableRef

_NOTES = ".backfill"


def add_columns(
    spark: SparkSession,
    place: TableRef,
    columns: Any,
    *,
    on: str | Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    checkpoint: str | bool = False,
) -> None:
    """Commit new columns; see :meth:`lancelet.spark.LanceTable.addColumns`."""
    table = TableReader(place.open())
    if isinstance(columns, Mapping) or (callable(columns) and not hasattr(columns, "mapInArrow")):
        refuse_computed(table.snapshot)
    if isinstance(columns, Mapping):
        filler: Filler = _of_expressions(spark, place, table, columns, types or {})
    elif hasattr(columns, "mapInArrow"):
        filler = _of_frame(spark, place, table, columns, on, types or {})
    elif callable(columns):
        filler = _of_function(spark, columns, read_columns, batch_size)
    else:
        raise InvalidType(
            f"new columns come from a dict of expressions, a data frame or a function, not from {type(columns)}"
        )
    backfill(table, place, filler, _notes(table, place, filler, checkpoint))


def _of_expressions(
    spark: SparkSession, place: TableRef, table: TableReader, given: Mapping[str, Any], types: Mapping[str, str]
) -> Values:
    if not given:
        raise InvalidInput("there are no columns to add; name at least one and its expression")
    values = [condition_of(value, f"the expression of '{name}'").alias(name) for name, value in given.items()]

    def frame(table: TableReader) -> DataFrame:
        whole = _whole(spark, place, table, **{WHOLE_FRAGMENTS: "true"})
        with in_words("the expressions of the new columns"):
            return analysed(whole.select(ROW_ADDRESS, *values))

    return Values(frame, _new_columns(table, frame(table), types), in_order=True)


def _of_frame(
    spark: SparkSession,
    place: TableRef,
    table: TableReader,
    other: DataFrame,
    on: str | Sequence[str] | None,
    types: Mapping[str, str],
) -> Values:
    keys = [on] if isinstance(on, str) else list(on or ())
    if not keys:
        raise InvalidInput("rows of another data frame are found by a key: name its columns with on=")
    known = [*table.snapshot.manifest.schema.names, ROW_ID]
    mine, theirs = (
        [_key(key, names, where, is_case_sensitive(spark)) for key in keys]
        for names, where in ((known, "the table"), (other.columns, "the data frame"))
    )
    new = [name for name in other.columns if name not in theirs]
    if not new:
        raise InvalidInput("the data frame has no column but the key; there is nothing to add")

    def frame(table: TableReader) -> DataFrame:
        rows = _whole(spark, place, table).select(ROW_ADDRESS, *(_quoted(key) for key in mine))
        given = other
        for own, key in zip(mine, theirs, strict=True):
            given = given if own == key else given.withColumnRenamed(key, own)
        return rows.join(given, mine, "left_outer").select(ROW_ADDRESS, *(_quoted(name) for name in new))

    return Values(frame, _new_columns(table, frame(table), types))


def _key(text: str, names: Sequence[str], where: str, case_sensitive: bool) -> str:
    found = find_name(text, names, case_sensitive=case_sensitive)
    found = found or find_name(split_path(text)[0], names, case_sensitive=case_sensitive)
    if found is None:
        raise UnknownColumn(text, names, where)
    return found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _of_function(
    spark: SparkSession, function: Any, read_columns: Sequence[str] | None, batch_size: int | None
) -> TaskFunction:
    source = column_source(function, read_columns, None, batch_size)
    assert isinstance(source, Computed)
    if source.checkpoint is not None:
        raise InvalidInput("the checkpoint file of a function is for one process; give addColumns a checkpoint instead")
    return TaskFunction(spark, source)


def _whole(spark: SparkSession, place: TableRef, table: TableReader, **options: str) -> DataFrame:
    """All rows of a version, with their addresses and ids."""
    snapshot = table.snapshot
    return table_frame(spark, pin_version(snapshot, place), snapshot.manifest.schema, **options)


def _new_columns(table: TableReader, frame: DataFrame, types: Mapping[str, str]) -> pa.Schema:
    """The new columns as they are stored; all of them take nulls. Refused if the table cannot have them."""
    new = st.StructType([field for field in frame.schema.fields if field.name != ROW_ADDRESS])
    chosen = {name.lower(): text for name, text in types.items()}
    arrow = pa.schema([field.with_nullable(True) for field in written_schema(new, chosen, None)])
    grown(table.snapshot.manifest, arrow)
    return arrow


def _notes(table: TableReader, place: TableRef, filler: Filler, checkpoint: str | bool) -> Notes | None:
    """Where finished fragments are noted."""
    if checkpoint is False:
        return None
    if isinstance(checkpoint, str):
        return Notes(checkpoint, place.storage_options)
    columns = [(field.name, field.logical_type) for field in filler.growth(table).added.fields]
    digest = hashlib.sha256(repr(columns).encode()).hexdigest()[:16]
    return Notes(f"{table.snapshot.uri.rstrip('/')}{_NOTES}/{digest}", place.storage_options, beside_table=True)
