"""Conditions and new values of columns, as Spark's expressions over the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as st

from lancelet.errors import InvalidInput, InvalidType, NotSupported, UnfitData
from lancelet.format.schema import BLOB_KEY, Schema
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.spark.names import column_named
from lancelet.spark.types import spark_type, stored_columns, written_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.spark.options import TableRef

STEP = "__lance_step"


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Say which expression it was that Spark does not understand."""
    try:
        yield
    except AnalysisException as error:
        _check_found(error)
        text = re.sub(r"^\[[^\]]*\]\s*|\s*SQLSTATE: .*", "", str(error).strip().partition("\n")[0])
        raise InvalidInput(f"{what}: {text}") from None


def _check_found(error: Exception) -> None:
    """Spark says that the source is missing, but not why."""
    if "[DATA_SOURCE_NOT_" in str(error):
        raise NotSupported(
            "Spark does not find the data source 'lance': the Python with which it looks for it has no lancelet. "
            "lancelet.spark.doctor(spark) tells which one that is, and what to do"
        ) from None


def table_frame(spark: SparkSession, place: TableRef, schema: Schema | None = None, **options: str) -> DataFrame:
    """The rows of one version. With a ``schema``, that of the table, they come with their addresses and ids."""
    reader = spark.read.format("lance").options(**options)
    if isinstance(place.version, int):
        reader = reader.option("version", place.version)
    for key, value in place.storage_options.items():
        reader = reader.option(f"storage.{key}", value)
    if schema is not None:
        if ROW_ADDRESS in schema.names:
            raise NotSupported(
                f"the table has a column '{ROW_ADDRESS}', which hides the addresses of its rows; rename it"
            )
        reader = reader.option("rowAddress", "true").option("rowId", "true")
    try:
        return reader.load(place.uri)
    except (AnalysisException, Py4JError) as error:
        _check_found(error)
        raise


def analysed(frame: DataFrame) -> DataFrame:
    """The data frame, whose expressions have been looked up; over Spark Connect that would wait until it is run."""
    _ = frame.schema
    return frame


def condition_of(given: Any, what: str = "the condition") -> Column:
    """A condition that is given as text or as a column."""
    if isinstance(given, Column):
        return given
    if not isinstance(given, str):
        raise InvalidType(f"{what} is a text or a column, not {type(given)}")
    if not given.strip():
        raise InvalidInput(f"{what} is empty; leave it out to mean all rows")
    with in_words(f"{what} {given!r} cannot be understood"):
        return F.expr(given)


def assigned(schema: Schema, values: Any, *, case_sensitive: bool) -> dict[str, Column]:
    """New values by column, given as SQL texts or as columns; names may be in backticks, and in any case."""
    if not isinstance(values, Mapping):
        raise InvalidType(f"new values are a dict of columns and expressions, not {type(values)}")
    if not values:
        raise InvalidInput("there are no new values; name at least one column and its value")
    found: dict[str, Column] = {}
    for name, value in values.items():
        column = column_named(name, schema, case_sensitive=case_sensitive)
        if column in found:
            raise InvalidInput(f"the column '{column}' gets several new values; give it one")
        found[column] = condition_of(value, f"the new value of '{name}'")
    return found


def fitted(frame: DataFrame, schema: Schema, values: Mapping[str, Column]) -> dict[str, Column]:
    """New values in the types of their columns, or refused. Numbers are converted, and a value that is too large fails."""
    stored = stored_columns(schema)
    names = list(values)
    with in_words("the new values"):
        given = frame.select(*(values[name].alias(f"v{at}") for at, name in enumerate(names))).schema
    return {
        name: _fitted(values[name], st.StructField(name, part.dataType), stored.field(name))
        for name, part in zip(names, given, strict=True)
    }


def _fitted(value: Column, given: st.StructField, stored: pa.Field) -> Column:
    is_blob = BLOB_KEY.encode() in (stored.metadata or {})
    target = st.BinaryType() if is_blob else spark_type(stored.type)
    if written_schema(st.StructType([given]), {}, pa.schema([stored])).field(0).equals(stored):
        same = given.dataType == target or isinstance(given.dataType, (st.UserDefinedType, st.TimeType))
        return value if same else value.cast(target)
    if isinstance(given.dataType, st.NumericType) and isinstance(target, st.NumericType):
        cast = value.try_cast(target)
        message = F.concat(
            F.lit(f"column '{stored.name}' is {target.simpleString()} and cannot hold the value "), value.cast("string")
        )
        return F.when(value.isNotNull() & cast.isNull(), F.raise_error(message).cast(target)).otherwise(cast)
    raise UnfitData(
        f"column '{stored.name}' is {target.simpleString()}, but its new value is {given.dataType.simpleString()}; cast "
        "the expression"
    )
