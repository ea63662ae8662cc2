"""Arrow schemas as values that JSON can hold, in the form that pylance gives them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.format.logical_types import format_logical_type, parse_logical_type

_NESTED = ("struct", "list", "large_list", "fixed_size_list")


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """An Arrow schema as a value that JSON can hold.

    Examples
    --------
    >>> schema_to_json(pa.schema([("a", pa.int32())]))
    {'fields': [{'name': 'a', 'type': {'type': 'int32'}, 'nullable': True}]}
    """
    content: dict[str, Any] = {"fields": [_field_to_json(field) for field in schema]}
    if schema.metadata:
        content["metadata"] = _texts(schema.metadata)
    return content


def json_to_schema(schema_json: object) -> pa.Schema:
    """The Arrow schema of what :func:`schema_to_json` made.

    Examples
    --------
    >>> json_to_schema({"fields": [{"name": "a", "type": {"type": "int32"}, "nullable": True}]})
    a: int32
    """
    if not isinstance(schema_json, dict) or not isinstance(schema_json.get("fields"), list):
        raise InvalidInput("a schema in JSON is an object with a list of 'fields'")
    return pa.schema([_field_from_json(entry) for entry in schema_json["fields"]], metadata=schema_json.get("metadata"))


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    content = {"name": field.name, "type": _type_to_json(field.type), "nullable": field.nullable}
    if field.metadata:
        content["metadata"] = _texts(field.metadata)
    return content


def _type_to_json(dtype: pa.DataType) -> dict[str, Any]:
    if isinstance(dtype, pa.BaseExtensionType):
        dtype = dtype.storage_type
    if pa.types.is_struct(dtype):
        return {"type": "struct", "fields": [_field_to_json(child) for child in dtype]}
    if pa.types.is_map(dtype):
        raise InvalidInput(f"{dtype} has no JSON form")
    if pa.types.is_fixed_size_list(dtype):
        return {"type": "fixed_size_list", "fields": [_field_to_json(dtype.value_field)], "length": dtype.list_size}
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        kind = "list" if pa.types.is_list(dtype) else "large_list"
        return {"type": kind, "fields": [_field_to_json(dtype.value_field)]}
    if pa.types.is_fixed_size_binary(dtype):
        return {"type": "fixed_size_binary", "length": dtype.byte_width}
    return {"type": format_logical_type(dtype)}


def _field_from_json(entry: object) -> pa.Field:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not isinstance(entry.get("type"), dict):
        raise InvalidInput(f"a field in JSON has a 'name' and a 'type', not {entry!r}")
    return pa.field(entry["name"], _type_from_json(entry["type"]), entry.get("nullable", True), entry.get("metadata"))


def _type_from_json(entry: dict[str, Any]) -> pa.DataType:
    kind = entry.get("type")
    children = [_field_from_json(child) for child in entry.get("fields") or ()]
    if not isinstance(kind, str) or (kind in _NESTED and kind != "struct" and len(children) != 1):
        raise InvalidInput(f"{entry!r} is not a type")
    match kind:
        case "struct":
            return pa.struct(children)
        case "list":
            return pa.list_(children[0])
        case "large_list":
            return pa.large_list(children[0])
        case "fixed_size_list":
            return pa.list_(children[0], int(entry["length"]))
        case "fixed_size_binary":
            return pa.binary(int(entry["length"]))
    return parse_logical_type(kind)


def _texts(metadata: dict[bytes, bytes]) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in metadata.items()}
