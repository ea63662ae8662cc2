"""Arrow schemas in the JSON of a namespace: names of types, with a length where they have one, and their children.

Units and time zones of times are not told, as elsewhere; a decimal's length is its precision times 1000, plus its scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from lance_namespace import InvalidInputError
from lance_namespace_urllib3_client.models.json_arrow_data_type import JsonArrowDataType
from lance_namespace_urllib3_client.models.json_arrow_field import JsonArrowField
from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema

_NAMES: tuple[tuple[Any, str], ...] = (
    (pa.types.is_string, "utf8"),
    (pa.types.is_large_string, "large_utf8"),
    (pa.types.is_boolean, "bool"),
    (pa.types.is_time32, "time32"),
    (pa.types.is_time64, "time64"),
    (pa.types.is_date32, "date32"),
    (pa.types.is_date64, "date64"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_duration, "duration"),
    (pa.types.is_float16, "float16"),
    (pa.types.is_float32, "float32"),
    (pa.types.is_float64, "float64"),
)
_SIMPLE = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    **{str(kind): kind for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): kind for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
}
_SCALE = 1000


def json_schema(schema: pa.Schema) -> JsonArrowSchema:
    """A schema as responses tell it."""
    return JsonArrowSchema(fields=[_field(field) for field in schema], metadata=_texts(schema.metadata))


def arrow_type(given: Mapping[str, Any]) -> pa.DataType:
    """A type as requests name it.

    Examples
    --------
    >>> arrow_type({"type": "fixed_size_list", "length": 4, "fields": [{"name": "item", "type": {"type": "float32"}}]})
    FixedSizeListType(fixed_size_list<item: float>[4])
    """
    name = str(given.get("type", "")).lower()
    if name in _SIMPLE:
        return _SIMPLE[name]
    length = given.get("length")
    children = [
        pa.field(child["name"], arrow_type(child["type"]), child.get("nullable", True))
        for child in given.get("fields") or ()
    ]
    if name == "struct" and children:
        return pa.struct(children)
    if name == "list" and len(children) == 1:
        return pa.list_(children[0])
    if name == "large_list" and len(children) == 1:
        return pa.large_list(children[0])
    if name == "fixed_size_list" and len(children) == 1 and length:
        return pa.list_(children[0], length)
    if name == "fixed_size_binary" and length:
        return pa.binary(length)
    if name in ("decimal128", "decimal256") and length:
        return (pa.decimal128 if name == "decimal128" else pa.decimal256)(*divmod(length, _SCALE))
    raise InvalidInputError(f"{dict(given)} does not say which type it is")


def _field(field: pa.Field) -> JsonArrowField:
    return JsonArrowField(
        name=field.name, nullable=field.nullable, type=_type(field.type), metadata=_texts(field.metadata)
    )


def _type(kind: pa.DataType) -> JsonArrowDataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_map(kind):
        entries = pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
        return JsonArrowDataType(type="map", fields=[_field(entries)])
    if pa.types.is_struct(kind):
        return JsonArrowDataType(type="struct", fields=[_field(kind.field(at)) for at in range(kind.num_fields)])
    if pa.types.is_fixed_size_list(kind):
        return JsonArrowDataType(type="fixed_size_list", length=kind.list_size, fields=[_field(kind.value_field)])
    if pa.types.is_large_list(kind):
        return JsonArrowDataType(type="large_list", fields=[_field(kind.value_field)])
    if pa.types.is_list(kind):
        return JsonArrowDataType(type="list", fields=[_field(kind.value_field)])
    if pa.types.is_fixed_size_binary(kind):
        return JsonArrowDataType(type="fixed_size_binary", length=kind.byte_width)
    if pa.types.is_decimal(kind):
        name = "decimal128" if pa.types.is_decimal128(kind) else "decimal256"
        return JsonArrowDataType(type=name, length=kind.precision * _SCALE + kind.scale)
    return JsonArrowDataType(type=next((name for is_one, name in _NAMES if is_one(kind)), str(kind)))


def _texts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str] | None:
    if not metadata:
        return None
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
