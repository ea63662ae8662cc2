"""Types and arrays between Lance and Spark; no Spark session needed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as st

from conformance.grid import FAMILIES
from lancelet.errors import InvalidInput, UnfitData
from lancelet.format.extensions import storage_field
from lancelet.spark.arrays import conform, conformed_batches
from lancelet.spark.types import arrow_schema, spark_schema, spark_type, written_schema
from lancelet.testing import difference, random_array

_CUT = {pa.time64("ns"): 1000, pa.timestamp("ns", "Europe/Paris"): 1000, pa.duration("ns"): 1000}
KINDS = {
    f"{family}-{kind.name}": kind
    for family, kinds in FAMILIES.items()
    if family not in ("extensions", "blobs")
    for kind in kinds
    if kind.type not in (pa.string_view(), pa.binary_view())
}


@pytest.mark.parametrize("name", KINDS)
def test_every_type_to_spark_and_back(name):
    kind = KINDS[name].type
    for nulls in ("none", "some", "all"):
        values = random_array(kind, 60, 7, nulls=nulls)
        if kind in _CUT:
            # What Spark cannot hold is cut off; the rest has to survive.
            counts = values.view(pa.int64())
            cut = pa.array(
                np.floor_divide(counts.fill_null(0).to_numpy(), 1000) * 1000, mask=counts.is_null().to_numpy(False)
            )
            values = cut.view(kind)
        if pa.types.is_date64(kind) or "date64" in str(kind):
            days = values.cast(pa.date32())
            values = days.cast(kind)
        if getattr(kind, "unit", "") in ("s", "ms") and not pa.types.is_time(kind):
            # Within the years that Spark knows.
            values = pa.array(values.view(pa.int64()).to_pandas() % 10**10, pa.int64(), from_pandas=True).view(kind)
        field = pa.field("x", kind)
        spark = spark_schema(pa.schema([field]))
        given = conform(values, arrow_schema(spark).field(0).type)
        given.validate(full=True)
        assert given.type == arrow_schema(spark).field(0).type
        back = conform(given, kind)
        back.validate(full=True)
        assert difference(back, values) is None
        sliced = conform(values.slice(11, 30), arrow_schema(spark).field(0).type)
        assert difference(conform(sliced, kind), values.slice(11, 30)) is None


@pytest.mark.parametrize("name", KINDS)
def test_a_new_table_gets_the_type_back(name):
    kind = KINDS[name].type
    spark = spark_schema(pa.schema([pa.field("x", kind)]))
    (again,) = written_schema(st.StructType.fromJson(spark.jsonValue()), {}, None)
    nested = pa.types.is_nested(kind) and not pa.types.is_fixed_size_list(kind)
    if not nested and not (pa.types.is_fixed_size_list(kind) and pa.types.is_nested(kind.value_type)):
        assert again.type == kind
    (kept,) = written_schema(spark, {}, pa.schema([pa.field("x", kind)]))
    assert kept.type == kind, "an append keeps the type of the table"


def test_times_round_down_before_the_epoch():
    before = pa.array([-1, -1000, -1001, 1999], pa.timestamp("ns"))
    assert conform(before, pa.timestamp("us")).view(pa.int64()).to_pylist() == [-1, -1, -2, 1]


def test_times_of_day():
    clock = pa.array([dt.time(1, 2, 3, 4), None], pa.time64("us"))
    spans = conform(clock, pa.duration("us"))
    assert spans.to_pylist() == [dt.timedelta(hours=1, minutes=2, seconds=3, microseconds=4), None]
    assert conform(spans, pa.time64("us")).equals(clock)
    for wrong in (dt.timedelta(days=1), dt.timedelta(seconds=-1)):
        with pytest.raises(UnfitData, match="no time of day"):
            conform(pa.array([wrong], pa.duration("us")), pa.time32("s"))


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        (pa.array([300], pa.int16()), pa.uint8(), "does not fit into uint8"),
        (pa.array([[1.0, 2.0], [1.0]]), pa.list_(pa.float32(), 2), "a vector has 1 values where the table has 2"),
        (pa.array([b"abc"]), pa.binary(2), "does not fit into fixed_size_binary"),
        (pa.array([Decimal(-1)], pa.decimal128(20, 0)), pa.uint64(), "does not fit into uint64"),
        (pa.array([2**40], pa.int64()), pa.int32(), "does not fit into int32"),
    ],
)
def test_values_that_do_not_fit(values, kind, words):
    batch = pa.record_batch({"x": values})
    with pytest.raises(UnfitData, match=f"column 'x'.*{words}"):
        list(conformed_batches([batch], pa.schema([pa.field("x", kind)])))


def test_vectors_with_nulls():
    lists = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float64()))
    vectors = conform(lists.slice(1), pa.list_(pa.float32(), 2))
    vectors.validate(full=True)
    assert vectors.to_pylist() == [None, [3.0, 4.0]]


def test_chosen_types_win_and_have_to_fit():
    frame = (
        st.StructType()
        .add("V", st.ArrayType(st.FloatType()))
        .add("s", st.StructType().add("w", st.ArrayType(st.DoubleType())))
    )
    made = written_schema(frame, {"v": "fixed_size_list:float:4", "s.w": "fixed_size_list:double:2"}, None)
    assert made.field("V").type == pa.list_(pa.float32(), 4)
    assert made.field("s").type.field("w").type == pa.list_(pa.float64(), 2)
    with pytest.raises(UnfitData, match="is to be uint8, but the data frame has array<float>"):
        written_schema(frame, {"v": "uint8"}, None)
    with pytest.raises(InvalidInput, match="options name the columns u, which the data frame has not"):
        written_schema(frame, {"u": "uint8"}, None)


@pytest.mark.parametrize("dtype", [st.YearMonthIntervalType(), st.VariantType(), st.CalendarIntervalType()])
def test_types_that_lance_has_not(dtype):
    with pytest.raises(UnfitData, match="for which Lance has no type"):
        written_schema(st.StructType().add("x", dtype), {}, None)


def test_a_type_remembered_by_a_column_that_became_another_is_forgotten():
    frame = st.StructType([st.StructField("x", st.StringType(), True, {"lance.type": "uint8"})])
    assert written_schema(frame, {}, None).field("x").type == pa.string()


def test_wider_columns_take_narrower_values():
    frame = st.StructType().add("a", st.IntegerType()).add("b", st.FloatType()).add("c", st.DecimalType(5, 2))
    stored = pa.schema({"a": pa.int64(), "b": pa.float64(), "c": pa.decimal128(10, 3)})
    assert written_schema(frame, {}, stored).equals(stored)
    narrow = pa.schema({"a": pa.int16(), "b": pa.float16(), "c": pa.decimal128(4, 2)})
    assert written_schema(frame, {}, narrow).types == [pa.int32(), pa.float16(), pa.decimal128(5, 2)]


def test_extensions_are_read_as_their_storage():
    arrow = pa.schema([pa.field("u", pa.uuid()), pa.field("j", pa.json_())])
    spark = spark_schema(pa.schema([storage_field(field) for field in arrow]))
    assert [field.dataType for field in spark] == [st.BinaryType(), st.StringType()]
    assert spark["j"].metadata == {"lance.type": "json"}
    assert spark_type(pa.decimal256(60, 5)) == st.StringType()
