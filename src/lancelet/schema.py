"""Schemas with field ids, and schemas as JSON."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.format.extensions import storage_type
from lancelet.format.logical_types import format_logical_type, parse_logical_type
from lancelet.format.schema import Field, Schema, schema_from_arrow

_PRIMARY_KEY = "lance-schema:unenforced-primary-key"
_CLUSTERING_KEY = "lance-schema:unenforced-clustering-key:position"
_LAST = 2**31
_NESTED = ("struct", "list", "large_list", "fixed_size_list")


class LanceField:
    """One field of a Lance schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = LanceSchema.from_pyarrow(pa.schema({"id": pa.int64(), "point": pa.struct({"x": pa.float32()})}))
    >>> [(field.name(), field.id()) for field in schema.fields()]
    [('id', 0), ('point', 1)]
    """

    __slots__ = ("_field", "_parent")

    def __init__(self, field: Field, parent: int = -1) -> None:
        self._field = field
        self._parent = parent

    def __repr__(self) -> str:
        field = self._field
        return (
            f"Field(name={field.name!r}, id={field.id}, parent_id={self._parent}, "
            f"logical_type={field.logical_type!r}, nullable={field.nullable}, children={self.children()!r})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LanceField) and self._field == other._field and self._parent == other._parent

    def __hash__(self) -> int:
        return hash(self._field)

    def name(self) -> str:
        """The field's own name, without those around it."""
        return self._field.name

    def id(self) -> int:
        """The number by which files and manifests know it."""
        return self._field.id

    @property
    def metadata(self) -> dict[str, str]:
        """Its metadata."""
        return dict(self._field.metadata)

    def children(self) -> list[LanceField]:
        """The fields inside it."""
        return [LanceField(child, self._field.id) for child in self._field.children]

    def to_arrow(self) -> pa.Field:
        """The Arrow field."""
        return Schema((self._field,)).to_arrow().field(0)

    def is_unenforced_primary_key(self) -> bool:
        """Whether it is part of the primary key, which nothing enforces."""
        flag = self._field.metadata.get(_PRIMARY_KEY, "").lower()
        return flag in ("true", "1", "yes") or self.unenforced_primary_key_position() is not None

    def unenforced_primary_key_position(self) -> int | None:
        """Position in the primary key, from 1; None when it has none."""
        position = self._field.metadata.get(f"{_PRIMARY_KEY}:position")
        return int(position) if position is not None and position.isdecimal() else None

    def is_unenforced_clustering_key(self) -> bool:
        """Whether it is part of the clustering key, which nothing enforces."""
        return self.unenforced_clustering_key_position() is not None

    def unenforced_clustering_key_position(self) -> int | None:
        """Its place in the clustering key, if it is part of it."""
        position = self._field.metadata.get(_CLUSTERING_KEY)
        return int(position) if position is not None and position.isdecimal() else None


class LanceSchema:
    """A table's schema with its field ids.

    Examples
    --------
    >>> schema = LanceSchema.from_pyarrow(pa.schema([("a", pa.int32()), ("b", pa.string())]))
    >>> [(field.name(), field.id()) for field in schema.fields()]
    [('a', 0), ('b', 1)]
    """

    __slots__ = ("_schema",)

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @classmethod
    def from_pyarrow(cls, schema: pa.Schema) -> LanceSchema:
        """Number the fields of an Arrow schema as a new table does."""
        return cls(schema_from_arrow(schema))

    def __repr__(self) -> str:
        return f"LanceSchema(fields={self.fields()!r}, metadata={dict(self._schema.metadata)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LanceSchema) and self._schema == other._schema

    def __hash__(self) -> int:
        return hash(self._schema.fields)

    def to_pyarrow(self) -> pa.Schema:
        """The schema of the Arrow data that a scan gives."""
        return self._schema.to_arrow()

    def fields(self) -> list[LanceField]:
        """The top-level fields."""
        return [LanceField(field) for field in self._schema.fields]

    def field(self, name: str) -> LanceField | None:
        """The field at a dotted path; None when there is none."""
        return self._found(name)

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """The field at a dotted path, an exact match before one that differs in case."""
        return self._found(name) or self._found(name, any_case=True)

    def _found(self, name: str, *, any_case: bool = False) -> LanceField | None:
        try:
            chain = self._schema.resolve(name, any_case=any_case)
        except UnknownColumn:
            return None
        return LanceField(chain[-1], chain[-2].id if len(chain) > 1 else -1)

    def unenforced_primary_key(self) -> list[LanceField]:
        """Fields of the primary key: those with a position in its order, then the others by id."""
        key = [f for f in self._walk() if f.is_unenforced_primary_key()]
        return sorted(key, key=lambda f: (f.unenforced_primary_key_position() or _LAST, f.id()))

    def unenforced_clustering_key(self) -> list[LanceField]:
        """The fields of the clustering key, in order."""
        key = [f for f in self._walk() if f.is_unenforced_clustering_key()]
        return sorted(key, key=lambda f: (f.unenforced_clustering_key_position() or 0, f.id()))

    def _walk(self) -> list[LanceField]:
        return [LanceField(field) for field in self._schema.walk()]


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


def json_to_schema(schema_json: Any) -> pa.Schema:
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
    dtype = storage_type(dtype)
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


def _field_from_json(entry: Any) -> pa.Field:
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
