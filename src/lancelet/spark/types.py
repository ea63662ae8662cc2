"""Types of Lance and of Spark, both ways.

============================  ==========================  =====================================
Arrow type of a column        Spark type                  remark
============================  ==========================  =====================================
bool, int8 to int64, floats   the same                    float16 becomes float
uint8, uint16, uint32         short, int, bigint          the next wider one
uint64                        decimal(20, 0)              row ids and blob positions: bigint
decimal128, decimal256        decimal                     string where Spark has no such decimal
string, large_string          string                      JSON too
binary, fixed_size_binary     binary                      bfloat16 is two bytes
date32, date64                date
time32, time64                interval day to second      since midnight; nanoseconds are cut off
timestamp with a zone         timestamp                   nanoseconds are cut off
timestamp without a zone      timestamp_ntz               nanoseconds are cut off
duration                      interval day to second      nanoseconds are cut off
list, large_list              array
fixed_size_list (vectors)     array
struct, map                   struct, map
dictionary                    the type of its values
null                          void
blob                          struct of position and size when read, binary when written
============================  ==========================  =====================================

A column whose Lance type is not the one that its Spark type would get says so in
the metadata of the Spark field, under ``lance.type``; a new table made from it
gets that type again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from lancelet.errors import InvalidInput, NotSupported, UnfitData
from lancelet.execution.shown import BlobForm, scan_field
from lancelet.format.extensions import storage_field
from lancelet.format.logical_types import EXTENSION_NAME, format_logical_type, parse_logical_type
from lancelet.format.schema import BLOB_KEY, Schema
from lancelet.spark.bridge import LANCE_TYPE
from lancelet.spark.names import find_name

_JSON = "json"
_BLOB = "blob"
_ARROW_JSON = {EXTENSION_NAME: "arrow.json", "ARROW:extension:metadata": ""}
_BLOB_METADATA = {BLOB_KEY: "true"}
_MAX_PRECISION = 38
_SIMPLE: dict[pa.DataType, st.DataType] = {
    pa.null(): st.NullType(),
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(20, 0),
    pa.float16(): st.FloatType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.large_string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.large_binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
    pa.date64(): st.DateType(),
}
_WITHOUT_LANCE_TYPE = tuple(
    getattr(st, name)
    for name in ("CalendarIntervalType", "GeographyType", "GeometryType", "VariantType", "YearMonthIntervalType")
    if hasattr(st, name)
)
_WIDENINGS: dict[type[st.DataType], tuple[type[st.DataType], ...]] = {
    st.ByteType: (st.ShortType, st.IntegerType, st.LongType),
    st.ShortType: (st.IntegerType, st.LongType),
    st.IntegerType: (st.LongType,),
    st.FloatType: (st.DoubleType,),
}


# From Lance to Spark


def spark_schema(arrow: pa.Schema, system: Mapping[str, Any] | None = None) -> st.StructType:
    """The Spark schema of scanned columns; ``system`` are those that are counted in bigint."""
    return st.StructType([_spark_field(storage_field(field), plain=field.name in (system or {})) for field in arrow])


def _spark_field(field: pa.Field, *, plain: bool = False) -> st.StructField:
    if plain:
        return st.StructField(field.name, st.LongType(), field.nullable)
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    if metadata.get(BLOB_KEY) == "true" and pa.types.is_struct(field.type):
        parts = [_spark_field(part, plain=part.type == pa.uint64()) for part in field.type]
        return st.StructField(field.name, st.StructType(parts), field.nullable, {LANCE_TYPE: _BLOB})
    dtype = spark_type(field.type)
    kept = _JSON if metadata.get(EXTENSION_NAME) == "arrow.json" else _kept_type(field.type, dtype)
    return st.StructField(field.name, dtype, field.nullable, {} if kept is None else {LANCE_TYPE: kept})


def spark_type(dtype: pa.DataType) -> st.DataType:
    """The Spark type that values of an Arrow type are read as.

    Examples
    --------
    >>> spark_type(pa.list_(pa.float32(), 8)).simpleString()
    'array<float>'
    """
    simple = _SIMPLE.get(dtype)
    if simple is not None:
        return simple
    if pa.types.is_decimal(dtype):
        if 0 <= dtype.scale <= dtype.precision <= _MAX_PRECISION:
            return st.DecimalType(dtype.precision, dtype.scale)
        return st.StringType()
    if pa.types.is_timestamp(dtype):
        return st.TimestampNTZType() if dtype.tz is None else st.TimestampType()
    if pa.types.is_duration(dtype) or pa.types.is_time(dtype):
        # Spark has a type for times of day, but refuses it by default.
        return st.DayTimeIntervalType()
    if pa.types.is_fixed_size_binary(dtype):
        return st.BinaryType()
    if pa.types.is_dictionary(dtype):
        return spark_type(dtype.value_type)
    if pa.types.is_struct(dtype):
        return st.StructType([_spark_field(child) for child in dtype])
    if pa.types.is_map(dtype):
        item = dtype.item_field
        return st.MapType(spark_type(dtype.key_type), spark_type(item.type), item.nullable)
    if _is_list(dtype):
        item = dtype.value_field
        return st.ArrayType(spark_type(item.type), item.nullable)
    raise NotSupported(f"Spark has no type for {dtype}; leave the column out with the option 'columns'")


def _kept_type(dtype: pa.DataType, spark: st.DataType) -> str | None:
    """The logical type to remember, if Spark's type would become another one."""
    if pa.types.is_nested(dtype) and not pa.types.is_fixed_size_list(dtype):
        return None
    if pa.types.is_fixed_size_list(dtype) and pa.types.is_nested(dtype.value_type):
        return None
    if dtype == to_arrow_type(spark, timezone="UTC"):
        return None
    try:
        return format_logical_type(dtype)
    except NotSupported:
        return None


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema that Spark wants for a Spark schema."""
    return to_arrow_schema(schema, timezone="UTC")


# From Spark to Lance


def written_schema(
    schema: st.StructType, chosen: Mapping[str, str], stored: pa.Schema | None, *, case_sensitive: bool = False
) -> pa.Schema:
    """The Arrow schema under which a data frame is written.

    Parameters
    ----------
    schema
        The columns of the data frame.
    chosen
        Logical types that options give to columns, by their lower-case path; see :func:`declared_field`.
    stored
        The columns of the table that is appended to. They keep their types where Spark's values fit into them; what
        does not fit keeps its own type, so that comparing the schemas tells the difference.
    case_sensitive
        Whether names that differ by case are different columns. If not, columns get the table's names.
    """
    _check_names(schema)
    unknown = set(chosen) - set(_paths(schema, ""))
    if unknown:
        raise InvalidInput(
            f"options name the columns {', '.join(sorted(unknown))}, which the data frame has not; "
            f"it has: {', '.join(schema.names)}"
        )
    known = () if stored is None else tuple(stored)
    return pa.schema(_written_fields(schema, "", chosen, known, case_sensitive))


def _check_names(schema: st.StructType) -> None:
    for name in schema.names:
        if "." in name:
            raise UnfitData(
                f"the column '{name}' has a dot in its name, which only fields of structs may have in a Lance table; rename "
                f'it: df.withColumnRenamed("{name}", "{name.replace(".", "_")}"), or put it into a struct'
            )
        if schema.names.count(name) > 1:
            raise UnfitData(f"the data frame has several columns '{name}'; rename them, or select one of them")


def _written_fields(
    given: st.StructType, prefix: str, chosen: Mapping[str, str], stored: Sequence[pa.Field], case_sensitive: bool
) -> list[pa.Field]:
    known = {field.name: field for field in stored}
    names = {field.name: find_name(field.name, known, case_sensitive=case_sensitive) for field in given}
    taken = [name for name in names.values() if name is not None]
    for name in taken:
        if taken.count(name) > 1:
            both = " and ".join(f"'{prefix}{mine}'" for mine, theirs in names.items() if theirs == name)
            raise UnfitData(
                f"the columns {both} of the data frame are one in the table, '{prefix}{name}', for Spark does not "
                "distinguish them by case; drop one of them, or set spark.sql.caseSensitive to true"
            )
    return [
        _written_field(field, prefix, chosen, known.get(names[field.name] or field.name), case_sensitive)
        for field in given
    ]


def _paths(schema: st.StructType, prefix: str) -> Iterator[str]:
    for field in schema:
        path = f"{prefix}{field.name}".lower()
        yield path
        if isinstance(field.dataType, st.StructType):
            yield from _paths(field.dataType, f"{path}.")


def _written_field(
    field: st.StructField, prefix: str, chosen: Mapping[str, str], stored: pa.Field | None, case_sensitive: bool
) -> pa.Field:
    path = f"{prefix}{field.name}".lower()
    if path in chosen:
        declared = declared_field(field.name if stored is None else stored.name, chosen[path], field.nullable)
        if not _fits(field.dataType, declared):
            raise UnfitData(
                f"column '{field.name}' is to be {chosen[path]}, but the data frame has {field.dataType.simpleString()} "
                "there; cast it, or give it another type"
            )
        return declared
    if stored is not None:
        if isinstance(field.dataType, st.StructType) and pa.types.is_struct(stored.type) and not _is_blob(stored):
            return _written_struct(field, path, chosen, stored, case_sensitive)
        if _fits(field.dataType, stored):
            return stored
    kept = field.metadata.get(LANCE_TYPE)
    if kept is not None and stored is None:
        declared = declared_field(field.name, kept, field.nullable)
        if _fits(field.dataType, declared):
            return declared
    if isinstance(field.dataType, st.StructType):
        return _written_struct(field, path, chosen, None, case_sensitive)
    name = field.name if stored is None else stored.name
    return pa.field(name, _natural(field.dataType, field.name), field.nullable)


def _written_struct(
    field: st.StructField, path: str, chosen: Mapping[str, str], stored: pa.Field | None, case_sensitive: bool
) -> pa.Field:
    if stored is None and field.metadata.get(LANCE_TYPE) == _BLOB:
        raise UnfitData(
            f"column '{field.name}' holds descriptors of blobs, which mean nothing in another table; read it with the "
            "option blobHandling=all_binary to copy the blobs"
        )
    assert isinstance(field.dataType, st.StructType)
    known = () if stored is None else tuple(stored.type)
    children = _written_fields(field.dataType, f"{path}.", chosen, known, case_sensitive)
    if stored is None:
        return pa.field(field.name, pa.struct(children), field.nullable)
    return pa.field(stored.name, pa.struct(children), stored.nullable, stored.metadata)


def declared_field(name: str, text: str, nullable: bool = True) -> pa.Field:
    """The field that a logical type names: one of Lance's own names, or ``blob``.

    Examples
    --------
    >>> declared_field("embedding", "fixed_size_list:float:4").type
    FixedSizeListType(fixed_size_list<item: float>[4])
    """
    if text == _BLOB:
        return pa.field(name, pa.large_binary(), nullable, _BLOB_METADATA)
    if text == _JSON:
        return pa.field(name, pa.string(), nullable, _ARROW_JSON)
    return pa.field(name, parse_logical_type(text), nullable)


def _is_blob(field: pa.Field) -> bool:
    return (field.metadata or {}).get(BLOB_KEY.encode()) == b"true"


def _fits(spark: st.DataType, stored: pa.Field) -> bool:
    """Whether values of a Spark type go into a column without loss, or are refused one by one where they do not."""
    if _is_blob(stored):
        return isinstance(spark, st.BinaryType)
    if isinstance(spark, st.TimeType):
        return bool(pa.types.is_time(stored.type))
    try:
        own = spark_type(stored.type)
    except NotSupported:
        return False
    return _same(spark, own)


def _same(given: st.DataType, own: st.DataType) -> bool:
    if isinstance(given, st.UserDefinedType):
        return _same(given.sqlType(), own)
    if isinstance(given, st.NullType):
        return True
    if isinstance(given, st.ArrayType) and isinstance(own, st.ArrayType):
        return _same(given.elementType, own.elementType)
    if isinstance(given, st.MapType) and isinstance(own, st.MapType):
        return _same(given.keyType, own.keyType) and _same(given.valueType, own.valueType)
    if isinstance(given, st.StructType) and isinstance(own, st.StructType):
        return _alike(given.names, own.names) and all(
            _same(mine.dataType, theirs.dataType) for mine, theirs in zip(given, own, strict=True)
        )
    if isinstance(given, st.DecimalType) and isinstance(own, st.DecimalType):
        return given.scale <= own.scale and given.precision - given.scale <= own.precision - own.scale
    if isinstance(given, st.DayTimeIntervalType):
        return isinstance(own, st.DayTimeIntervalType)
    if isinstance(given, (st.CharType, st.VarcharType)):
        return isinstance(own, st.StringType)
    return type(given) is type(own) or type(own) in _WIDENINGS.get(type(given), ())


def _alike(given: Sequence[str], own: Sequence[str]) -> bool:
    """Whether names are the same but for their case, and every one is told from the others without it."""
    lower = [name.lower() for name in given]
    return given == own or (lower == [name.lower() for name in own] and len(set(lower)) == len(lower))


def is_wider(own: st.DataType, wider: st.DataType) -> bool:
    """Whether values of a type can be read as another one."""
    return _same(own, wider)


def _natural(dtype: st.DataType, name: str) -> pa.DataType:
    """The Arrow type of a new column."""
    if isinstance(dtype, (st.CharType, st.VarcharType)):
        return pa.string()
    if isinstance(dtype, st.StringType) and dtype != st.StringType():
        raise UnfitData(
            f"column '{name}' has the collation {dtype.collation}, which a Lance table does not keep; take it off: "
            f"CAST(`{name}` AS STRING COLLATE UTF8_BINARY), and give it again after reading"
        )
    if isinstance(dtype, _WITHOUT_LANCE_TYPE):
        raise UnfitData(
            f"column '{name}' is {dtype.simpleString()}, for which Lance has no type; cast it, for example to a string"
        )
    if isinstance(dtype, st.ArrayType):
        return pa.list_(pa.field("item", _natural(dtype.elementType, name), dtype.containsNull))
    if isinstance(dtype, st.MapType):
        key = pa.field("key", _natural(dtype.keyType, name), False)
        return pa.map_(key, pa.field("value", _natural(dtype.valueType, name), dtype.valueContainsNull))
    if isinstance(dtype, st.StructType):
        return pa.struct([pa.field(f.name, _natural(f.dataType, name), f.nullable) for f in dtype])
    return to_arrow_type(dtype, timezone="UTC")


def with_wide_offsets(schema: pa.Schema, kept: Collection[str] = ()) -> pa.Schema:
    """Texts and bytes with 64-bit offsets, inside of nested types too; columns that are ``kept`` stay as they are.

    Examples
    --------
    >>> with_wide_offsets(pa.schema({"s": pa.string(), "l": pa.list_(pa.binary()), "n": pa.int8()})).types
    [DataType(large_string), ListType(list<item: large_binary>), DataType(int8)]
    """
    return pa.schema(
        [field if field.name in kept else _with_wide_offsets(field) for field in schema], metadata=schema.metadata
    )


def _with_wide_offsets(field: pa.Field) -> pa.Field:
    dtype = field.type
    if (field.metadata or {}).get(EXTENSION_NAME.encode()) is not None:
        return field
    if dtype == pa.string():
        return field.with_type(pa.large_string())
    if dtype == pa.binary():
        return field.with_type(pa.large_binary())
    if pa.types.is_struct(dtype):
        return field.with_type(pa.struct([_with_wide_offsets(child) for child in dtype]))
    if pa.types.is_map(dtype):
        return field.with_type(pa.map_(_with_wide_offsets(dtype.key_field), _with_wide_offsets(dtype.item_field)))
    if pa.types.is_list(dtype):
        return field.with_type(pa.list_(_with_wide_offsets(dtype.value_field)))
    return field


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype))


def stored_columns(schema: Schema) -> pa.Schema:
    """The columns as they are written to: blobs as their bytes, JSON as text."""
    fields = []
    for field in schema.fields:
        shown = scan_field(field, BlobForm.BINARY)
        fields.append(shown.with_metadata(_BLOB_METADATA) if field.is_blob or field.is_blob_v2 else shown)
    return pa.schema(fields)
