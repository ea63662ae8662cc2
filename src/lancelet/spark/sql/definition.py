"""What a table is to be, by the columns and properties of CREATE TABLE.

=============================================  =====================================  ===========================
property (``<col>`` is a top-level column)     values                                 effect
=============================================  =====================================  ===========================
``<col>.arrow.fixed-size-list.size``           a number above 0                       vectors of this length
``<col>.arrow.float16``                        true                                   with items of half precision
``<col>.arrow.large_var_char``                 true                                   texts with 64-bit offsets
``<col>.lance.encoding``                       blob                                   a column of blobs
``<col>.lance.json``                           true                                   a column of JSON
``<col>.lance.type``                           a type of Lance, such as ``uint8``     just that
``<col>.lance.compression`` and others         see ``_ENCODINGS``                     how its values are stored
``file_format_version``                        2.0, 2.1, 2.2, LEGACY, STABLE          version of the data files
``enable_stable_row_ids``                      true, false                            rows keep their ids
``use_large_var_types``                        true, false                            new texts and bytes have 64-bit
                                                                                      offsets
=============================================  =====================================  ===========================

All others are kept in the table's config, in its first version. Those of the table above are kept by what they cause:
they are read back from the schema, so that they are told of any table, whoever made it. ``use_large_var_types`` is kept in the
config, too, for the columns that are added later.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as st

from lancelet.errors import InvalidChange, InvalidInput, NotSupported, UnknownColumn
from lancelet.format.file_versions import writable_version
from lancelet.format.logical_types import format_logical_type
from lancelet.format.schema import BLOB_KEY, Schema, join_path
from lancelet.format.schema_messages import PRIMARY_KEY, PRIMARY_KEY_POSITION
from lancelet.spark.names import find_name
from lancelet.spark.options import flag
from lancelet.spark.types import with_wide_offsets, written_schema

COMMENT = "comment"
"""In the metadata of a field, and for the table in that of the schema."""
DEFAULTS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""In the metadata of a field: the default value as Spark keeps it, for new rows and for rows from before."""
FILE_VERSION, STABLE_ROW_IDS = "file_format_version", "enable_stable_row_ids"
WIDE_OFFSETS = "use_large_var_types"
RESERVED = (COMMENT, "external", "is_managed_location", "location", "owner", "provider", "table_type", "collation")
"""Properties that Spark gives; they are not for the table's config."""

_VECTOR, _HALF, _LARGE = "arrow.fixed-size-list.size", "arrow.float16", "arrow.large_var_char"
_ENCODING, _JSON, _TYPE = "lance.encoding", "lance.json", "lance.type"
_TYPES = (_VECTOR, _HALF, _LARGE, _ENCODING, _JSON, _TYPE)
_ALIASES = {"arrow:large-var-char": _LARGE, "arrow.large-var-char": _LARGE, BLOB_KEY: _ENCODING}
_PROPERTY_ALIASES = {"data_storage_version": FILE_VERSION, "useLargeVarTypes": WIDE_OFFSETS}
_NARROW = ("string", "binary")
_PREFIX = "lance-encoding:"


def _one_of(*names: str) -> Callable[[str], bool]:
    return lambda text: text in names


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


_ENCODINGS: dict[str, tuple[Callable[[str], bool], str]] = {
    "compression": (_one_of("zstd", "lz4", "fsst", "none"), "zstd, lz4, fsst or none"),
    "compression-level": (_is_number, "a whole number"),
    "structural-encoding": (_one_of("miniblock", "fullzip"), "miniblock or fullzip"),
    "rle-threshold": (_is_share, "a number above 0 and at most 1"),
    "bss": (_one_of("off", "on", "auto"), "off, on or auto"),
    "dict-divisor": (_is_number, "a whole number"),
    "dict-size-ratio": (_is_share, "a number above 0 and at most 1"),
    "dict-values-compression": (_one_of("zstd", "lz4", "none"), "zstd, lz4 or none"),
    "dict-values-compression-level": (_is_number, "a whole number"),
    "minichunk-size": (_is_number, "a whole number"),
}
"""Properties ``<col>.lance.<name>``, kept as the field's metadata ``lance-encoding:<name>``."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A table that is to be made."""

    arrow: pa.Schema
    config: Mapping[str, str]
    file_version: str | None
    stable_row_ids: bool

    def written(self) -> str:
        """As the option of a write."""
        schema = base64.b64encode(self.arrow.serialize().to_pybytes()).decode()
        return json.dumps([schema, dict(self.config), self.file_version, self.stable_row_ids])

    @classmethod
    def parse(cls, text: str) -> Definition:
        """From the option of a write."""
        schema, config, version, stable = json.loads(text)
        return cls(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))), config, version, stable)


def define(
    columns: st.StructType,
    properties: Mapping[str, str],
    defaults: Mapping[str, str] | None = None,
    primary_key: Sequence[Sequence[str]] = (),
) -> Definition:
    """Check columns and properties; ``defaults`` are those that the catalog has for new tables."""
    plain = {**(defaults or {}), **{key: value for key, value in properties.items() if key not in RESERVED}}
    for alias, name in _PROPERTY_ALIASES.items():
        if alias in plain:
            plain[name] = plain.pop(alias)
    version = plain.pop(FILE_VERSION, None)
    stable = flag({STABLE_ROW_IDS: plain.pop(STABLE_ROW_IDS, "false")}, STABLE_ROW_IDS)
    of_columns, config = split_properties(plain, columns.names)
    fields = new_fields(columns, of_columns)
    if primary_key:
        fields = _with_key(fields, primary_key)
    comment = properties.get(COMMENT)
    arrow = pa.schema(fields, None if comment is None else {COMMENT: comment})
    return Definition(
        with_wide_offsets(arrow, _typed(of_columns)) if has_wide_offsets(config) else arrow,
        config,
        None if version is None else writable_version(version.lower()),
        stable,
    )


def has_wide_offsets(config: Mapping[str, str]) -> bool:
    """Whether new texts and bytes of a table are to have 64-bit offsets."""
    return flag(config, WIDE_OFFSETS)


def _typed(of_columns: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The columns whose types are said."""
    return [name for name, said in of_columns.items() if not said.keys().isdisjoint(_TYPES)]


def with_shown_blobs(columns: st.StructType, properties: Mapping[str, str]) -> st.StructType:
    """Columns of blobs may be declared as SHOW CREATE TABLE shows them: as the descriptors that reads give."""

    def declared(field: st.StructField) -> st.StructField:
        blob = properties.get(f"{field.name}.{_ENCODING}", "").lower() == "blob"
        shown = isinstance(field.dataType, st.StructType) and {"position", "size"} <= set(field.dataType.names)
        return st.StructField(field.name, st.BinaryType(), field.nullable, field.metadata) if blob and shown else field

    return st.StructType([declared(field) for field in columns])


def split_properties(
    properties: Mapping[str, str], names: Sequence[str]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """What properties say of columns, by column; and the others."""
    columns: dict[str, dict[str, str]] = {}
    others = {}
    for key, value in properties.items():
        column, name = _column_property(key)
        if name is None:
            others[key] = value
            continue
        known = find_name(column, names)
        if known is None:
            raise InvalidInput(
                f"the property '{key}' is about the column '{column}', but there are: {', '.join(names)}"
            )
        _check(key, name, value)
        columns.setdefault(known, {})[name] = value
    return columns, others


def _column_property(key: str) -> tuple[str, str | None]:
    for name in (*_TYPES, *(f"lance.{name}" for name in _ENCODINGS)):
        if key.lower().endswith(f".{name}"):
            return key[: -len(name) - 1], name
    return key, None


def encoding_of(key: str, value: str | None, names: Sequence[str]) -> tuple[str, str] | None:
    """The column, and the key of its metadata, that a property of a table that is there means; None for other properties.

    What it says goes for files that are written from now on. What is said of a column that is not there yet is kept in the
    config until it is added.
    """
    text, name = _column_property(key)
    column = None if name is None else find_name(text, names)
    if name is None or column is None:
        return None
    if name in _TYPES:
        raise NotSupported(
            f"'{key}' is about the type of a column that is there; ALTER TABLE ... ALTER COLUMN changes types"
        )
    if value is not None:
        _check(key, name, value)
    return column, f"{_PREFIX}{name.removeprefix('lance.')}"


def pending(config: Mapping[str, str], column: str) -> dict[str, str]:
    """What the config says of a column that is to be added."""
    found = {}
    for key, value in config.items():
        text, name = _column_property(key)
        if name is not None and text.lower() == column.lower():
            _check(key, name, value)
            found[name] = value
    return found


def constant(text: str | None, field: pa.Field) -> pa.Scalar:
    """A default value for rows that are there, from how Spark holds it inside."""
    if text is None:
        return pa.scalar(None, field.type)
    if pa.types.is_date32(field.type):
        return pa.scalar(int(text), pa.int32()).cast(field.type)
    if pa.types.is_timestamp(field.type):
        return pa.scalar(int(text), pa.int64()).cast(pa.timestamp("us", field.type.tz)).cast(field.type)
    if (
        not pa.types.is_primitive(field.type)
        and not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type))
        and not pa.types.is_decimal(field.type)
    ):
        raise NotSupported(
            f"rows that are there cannot get a default of type {field.type}; add '{field.name}' without one, and UPDATE it"
        )
    return pa.scalar(text, pa.string()).cast(field.type)


def _check(key: str, name: str, value: str) -> None:
    if name == _VECTOR and not (value.isdecimal() and int(value) > 0):
        raise InvalidInput(f"'{key}' is the length of the vectors, a number above 0, not {value!r}")
    if name in (_HALF, _LARGE, _JSON) and value.lower() not in ("true", "false"):
        raise InvalidInput(f"'{key}' is true or false, not {value!r}")
    if name == _ENCODING and value.lower() != "blob":
        raise InvalidInput(f"'{key}' is 'blob' or left out, not {value!r}")
    plain = name.removeprefix("lance.")
    if plain in _ENCODINGS:
        fits, wanted = _ENCODINGS[plain]
        if not fits(value.lower()):
            what = f"invalid {plain} scheme" if plain == "compression" else f"invalid {plain}"
            raise InvalidInput(f"{what} {value!r} in '{key}': it is {wanted}")


def new_fields(columns: st.StructType, of_columns: Mapping[str, Mapping[str, str]]) -> list[pa.Field]:
    """Columns of Spark's as the fields of a table."""
    said = {field.name: _said(field, of_columns.get(field.name, {})) for field in columns}
    chosen = {
        name.lower(): kind for name, one in said.items() if (kind := _chosen_type(columns[name], one)) is not None
    }
    fields = []
    for field, spark in zip(written_schema(columns, chosen, None), columns, strict=True):
        encodings = {
            f"{_PREFIX}{name}": value.lower()
            for key, value in said[spark.name].items()
            if (name := key.removeprefix("lance.")) in _ENCODINGS
        }
        fields.append(_with_metadata(_commented(field, spark), encodings))
    return fields


def new_field(column: st.StructField, said: Mapping[str, str], *, wide: bool) -> pa.Field:
    """A column that a table gets; its texts and bytes are ``wide`` where nothing is said of its type."""
    arrow = pa.schema(new_fields(st.StructType([column]), {column.name: said}))
    if wide:
        arrow = with_wide_offsets(arrow, _typed({column.name: said}))
    return arrow.field(0)


def _said(field: st.StructField, properties: Mapping[str, str]) -> dict[str, str]:
    """What the metadata of a data frame's column says, and what properties say, which win."""
    said = {}
    for key, value in field.metadata.items():
        name = _ALIASES.get(key, key)
        if name in _TYPES:
            said[name] = "blob" if key == BLOB_KEY else str(value).lower()
        elif key.startswith(_PREFIX) and key.removeprefix(_PREFIX) in _ENCODINGS:
            said[f"lance.{key.removeprefix(_PREFIX)}"] = str(value)
    return {**said, **properties}


def _chosen_type(field: st.StructField, said: Mapping[str, str]) -> str | None:
    """The logical type that is asked for."""
    if said.get(_ENCODING, "").lower() == "blob":
        if not field.nullable:
            raise InvalidInput(f"column '{field.name}' has blobs, which may be null; leave NOT NULL out")
        return "blob"
    if said.get(_JSON, "").lower() == "true":
        return "json"
    if _VECTOR in said:
        item = "halffloat" if said.get(_HALF, "").lower() == "true" else _item(field)
        return f"fixed_size_list:{item}:{said[_VECTOR]}"
    if said.get(_LARGE, "").lower() == "true":
        return "large_string"
    return said.get(_TYPE)


def _item(field: st.StructField) -> str:
    if not isinstance(field.dataType, st.ArrayType):
        raise InvalidInput(
            f"column '{field.name}' is to be vectors, but is {field.dataType.simpleString()}; make it ARRAY<FLOAT>"
        )
    item = field.dataType.elementType
    if isinstance(item, (st.FloatType, st.DoubleType)):
        return "float" if isinstance(item, st.FloatType) else "double"
    (arrow,) = written_schema(st.StructType([st.StructField("item", item)]), {}, None)
    return format_logical_type(arrow.type)


def _commented(field: pa.Field, spark: st.StructField) -> pa.Field:
    """A field with the comment and defaults of Spark's, and so its fields, if it is a struct."""
    kept = {key: str(spark.metadata[key]) for key in (COMMENT, *DEFAULTS) if spark.metadata.get(key) is not None}
    if isinstance(spark.dataType, st.StructType) and pa.types.is_struct(field.type):
        inner = [_commented(one, own) for one, own in zip(field.type, spark.dataType, strict=True)]
        field = field.with_type(pa.struct(inner))
    return _with_metadata(field, kept)


def _with_metadata(field: pa.Field, more: Mapping[str, str]) -> pa.Field:
    if not more:
        return field
    return field.with_metadata(
        {**(field.metadata or {}), **{key.encode(): value.encode() for key, value in more.items()}}
    )


def _with_key(fields: list[pa.Field], key: Sequence[Sequence[str]]) -> list[pa.Field]:
    for place, path in enumerate(key, 1):
        fields = _with_part_of_key(fields, path, 0, place)
    return fields


def _with_part_of_key(fields: list[pa.Field], path: Sequence[str], depth: int, place: int) -> list[pa.Field]:
    names, text = [field.name for field in fields], join_path(path)
    name = find_name(path[depth], names)
    if name is None:
        raise UnknownColumn(text, names, "the table, but in its primary key")
    at = names.index(name)
    field = fields[at]
    if depth + 1 < len(path):
        inner = list(field.type) if pa.types.is_struct(field.type) else []
        field = field.with_type(pa.struct(_with_part_of_key(inner, path, depth + 1, place)))
    elif PRIMARY_KEY.encode() in (field.metadata or {}):
        raise InvalidChange(f"the primary key names the column '{text}' twice")
    elif field.nullable:
        raise InvalidChange(f"column '{text}' of the primary key is nullable; declare it NOT NULL")
    else:
        field = _with_metadata(field, key_metadata(place))
    return [*fields[:at], field, *fields[at + 1 :]]


def key_metadata(place: int) -> dict[str, str]:
    """The metadata of a field that is part of the primary key."""
    return {PRIMARY_KEY: "true", PRIMARY_KEY_POSITION: str(place)}


def shown_properties(schema: Schema, spark: st.StructType, config: Mapping[str, str]) -> dict[str, str]:
    """The properties of columns that would make them as they are; ``spark`` are the columns without any."""
    wide = config.get(WIDE_OFFSETS, "").lower() == "true"
    found = {}
    for field in schema.fields:
        for key, value in field.metadata.items():
            if key.startswith(_PREFIX) and key.removeprefix(_PREFIX) in _ENCODINGS:
                found[f"{field.name}.lance.{key.removeprefix(_PREFIX)}"] = value
    for column in spark:
        field = schema.field_by_path((column.name,))
        if field.is_blob or field.is_blob_v2:
            found[f"{column.name}.{_ENCODING}"] = "blob"
            continue
        kept = column.metadata.get("lance.type")
        if kept is None:
            if wide and field.logical_type in _NARROW:
                found[f"{column.name}.{_TYPE}"] = field.logical_type
            continue
        if kept == "json":
            found[f"{column.name}.{_JSON}"] = "true"
        elif kept == "large_string":
            found[f"{column.name}.{_LARGE}"] = "true"
        elif kept.startswith("fixed_size_list:"):
            item, length = kept.removeprefix("fixed_size_list:").rsplit(":", 1)
            found[f"{column.name}.{_VECTOR}"] = length
            if item == "halffloat":
                found[f"{column.name}.{_HALF}"] = "true"
            elif item not in ("float", "double"):
                found[f"{column.name}.{_TYPE}"] = kept
        else:
            found[f"{column.name}.{_TYPE}"] = kept
    return found


def refuse_partitions(partitions: Sequence[str]) -> None:
    """Refuse PARTITIONED BY, CLUSTERED BY and CLUSTER BY."""
    if partitions:
        raise NotSupported(
            f"a Lance table has no partitions, clusters or buckets, but {', '.join(partitions)} was asked for; leave it "
            "out, and index the columns instead: ALTER TABLE t CREATE INDEX name USING btree (column)"
        )
