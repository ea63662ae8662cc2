"""Logical type strings <-> Arrow types (spec file-format.md 2.3 and 2.4).

A leaf's type is one string; the parts are separated by colons::

    int32                         timestamp:us:+05:30      (the zone may hold colons)
    decimal:128:10:2              fixed_size_list:float:128
    dict:string:int16:false       fixed_size_list:timestamp:us:UTC:2

``struct``, ``list``, ``large_list``, ``map`` and ``fixed_size_list:struct:n`` take
their shape from child fields, which :mod:`lancelet.format.schema` adds.
"""

from __future__ import annotations

import pyarrow as pa

from lancelet.errors import NotSupported

EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "json": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
}
_NAMES = {dtype: name for name, dtype in _SIMPLE.items() if name != "json"}
_BFLOAT16_ITEM = pa.field("item", pa.binary(2), metadata={EXTENSION_NAME: "lance.bfloat16", EXTENSION_METADATA: ""})
_UNITS = ("s", "ms", "us", "ns")
_MAX_LIST_SIZE = 2**31 - 1


def parse_logical_type(text: str) -> pa.DataType:
    """The Arrow storage type that a leaf's logical type names."""
    simple = _SIMPLE.get(text)
    if simple is not None:
        return simple
    head, _, rest = text.partition(":")
    try:
        match head:
            case "timestamp":
                unit, _, zone = rest.partition(":")
                if unit in _UNITS:
                    return pa.timestamp(unit, tz=None if zone in ("-", "") else zone)
            case "fixed_size_list":
                inner, _, size = rest.rpartition(":")
                return pa.list_(_list_item(inner), _checked_size(size))
            case "fixed_size_binary":
                return pa.binary(_checked_size(rest))
            case "decimal":
                bits, precision, scale = rest.split(":")
                make = {"128": pa.decimal128, "256": pa.decimal256}[bits]
                return make(int(precision), int(scale))
            case "dict":
                value, key, _ordered = rest.rsplit(":", 2)
                return pa.dictionary(_SIMPLE[key], parse_logical_type(value))
    except (KeyError, ValueError, TypeError, pa.ArrowException):
        pass
    raise NotSupported(f"logical type '{text}' is not known; a newer version of lancelet may read it")


def format_logical_type(dtype: pa.DataType) -> str:
    """The logical type string of an Arrow type, as the reference writes it."""
    name = _NAMES.get(dtype)
    if name is not None:
        return name
    if pa.types.is_timestamp(dtype):
        return f"timestamp:{dtype.unit}:{dtype.tz or '-'}"
    if pa.types.is_decimal128(dtype):
        return f"decimal:128:{dtype.precision}:{dtype.scale}"
    if pa.types.is_decimal256(dtype):
        return f"decimal:256:{dtype.precision}:{dtype.scale}"
    if pa.types.is_fixed_size_binary(dtype):
        return f"fixed_size_binary:{dtype.byte_width}"
    if pa.types.is_fixed_size_list(dtype):
        return f"fixed_size_list:{_format_list_item(dtype.value_field)}:{dtype.list_size}"
    if pa.types.is_dictionary(dtype):
        return f"dict:{format_logical_type(dtype.value_type)}:{format_logical_type(dtype.index_type)}:false"
    if pa.types.is_struct(dtype):
        return "struct"
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        base = "list" if pa.types.is_list(dtype) else "large_list"
        return f"{base}.struct" if pa.types.is_struct(dtype.value_type) else base
    if pa.types.is_map(dtype):
        return "map"
    if dtype == pa.string_view():
        return "string"
    if dtype == pa.binary_view():
        return "binary"
    raise NotSupported(f"Unsupported data type: {dtype}; Lance has no logical type for it")


def list_size(text: str) -> int:
    """Items of a fixed-size list, the last part of its logical type."""
    try:
        return _checked_size(text.rpartition(":")[2])
    except ValueError:
        raise NotSupported(f"logical type '{text}' has no size that a list could have") from None


def _list_item(inner: str) -> pa.Field:
    if inner == "lance.bfloat16":
        return _BFLOAT16_ITEM
    return pa.field("item", parse_logical_type(inner))


def _format_list_item(item: pa.Field) -> str:
    if (item.metadata or {}).get(EXTENSION_NAME.encode()) == b"lance.bfloat16":
        return "lance.bfloat16"
    return format_logical_type(item.type)


def _checked_size(text: str) -> int:
    size = int(text)
    if not 0 <= size <= _MAX_LIST_SIZE:
        raise ValueError(text)
    return size
