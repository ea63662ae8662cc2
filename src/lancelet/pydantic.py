"""Pydantic models as schemas of tables.

========================  =====================================================================
annotation                Arrow type
========================  =====================================================================
int, float, str, bool     int64, float64, string, bool
bytes, date               binary, date32
datetime                  timestamp in microseconds; ``Field(json_schema_extra={"tz": ...})``
list[T], tuple[T, ...]    list of T
a model                   struct
an enum                   type of its values; texts as a dictionary, mixed values as string
Vector, MultiVector       fixed-size list, list of fixed-size lists
========================  =====================================================================

A field is nullable when None is one of its types, or when its vector type is.
"""

from __future__ import annotations

import re
import types
from abc import ABC, abstractmethod
from datetime import date, datetime
from enum import Enum
from typing import Any, TypeGuard, Union, get_args, get_origin

import pyarrow as pa
import pydantic
from pydantic_core import CoreSchema, core_schema

from lancelet.errors import InvalidInput, InvalidType

__all__ = [
    "FixedSizeListMixin",
    "MultiVector",
    "Vector",
    "get_extras",
    "is_nullable",
    "model_rows",
    "pydantic_to_schema",
    "table_name",
]

_SCALARS = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    date: pa.date32(),
}
_FLOAT32 = pa.float32()


class FixedSizeListMixin(ABC):
    """What the types of vectors have in common."""

    @staticmethod
    @abstractmethod
    def dim() -> int:
        """Numbers in a vector."""

    @staticmethod
    @abstractmethod
    def value_arrow_type() -> pa.DataType:
        """The type of a number."""

    @staticmethod
    @abstractmethod
    def nullable() -> bool:
        """Whether a column of it has nulls."""

    @staticmethod
    @abstractmethod
    def is_multi_vector() -> bool:
        """Whether a value is a list of vectors."""


def Vector(dim: int, value_type: pa.DataType = _FLOAT32, nullable: bool = True) -> type[FixedSizeListMixin]:  # noqa: N802
    """The type of a field that is a vector.

    Examples
    --------
    >>> class Image(pydantic.BaseModel):
    ...     embedding: Vector(2)
    >>> pydantic_to_schema(Image).field("embedding").type
    FixedSizeListType(fixed_size_list<item: float>[2])
    """
    return _vector_type(f"Vector(dim={dim})", dim, value_type, nullable, many=False)


def MultiVector(dim: int, value_type: pa.DataType = _FLOAT32, nullable: bool = True) -> type[FixedSizeListMixin]:  # noqa: N802
    """The type of a field that is a list of vectors."""
    return _vector_type(f"MultiVector(dim={dim})", dim, value_type, nullable, many=True)


def _vector_type(
    title: str, dimension: int, value_type: pa.DataType, may_be_null: bool, *, many: bool
) -> type[FixedSizeListMixin]:
    class VectorValue(list[Any], FixedSizeListMixin):
        def __repr__(self) -> str:
            return title

        @staticmethod
        def dim() -> int:
            return dimension

        @staticmethod
        def value_arrow_type() -> pa.DataType:
            return value_type

        @staticmethod
        def nullable() -> bool:
            return may_be_null

        @staticmethod
        def is_multi_vector() -> bool:
            return many

        @classmethod
        def __get_pydantic_core_schema__(cls, source: object, handler: pydantic.GetCoreSchemaHandler) -> CoreSchema:
            vector = core_schema.list_schema(core_schema.float_schema(), min_length=dimension, max_length=dimension)
            return core_schema.no_info_after_validator_function(
                cls, core_schema.list_schema(vector) if many else vector
            )

    return VectorValue


def pydantic_to_schema(model: type[pydantic.BaseModel]) -> pa.Schema:
    """The columns of a table whose rows are instances of a model.

    Examples
    --------
    >>> class Person(pydantic.BaseModel):
    ...     name: str
    ...     age: int | None
    >>> pydantic_to_schema(Person)
    name: string not null
    age: int64
    """
    return pa.schema(_fields(model))


def model_rows(model: object, data: object, schema: pa.Schema | None = None) -> pa.Table:
    """Instances of a model as a table, with other columns than the model's if a schema says so."""
    if not (isinstance(model, type) and issubclass(model, pydantic.BaseModel)):
        raise InvalidType(f"a class of pydantic's BaseModel is wanted, not {model!r}")
    if not isinstance(data, list):
        raise InvalidType(f"instances of a model come in a list, not as {type(data)}")
    for at, row in enumerate(data):
        if type(row) is not model:
            raise InvalidType(f"data[{at}] is of {type(row)}, not of {model}; its fields may be others")
    if not data:
        raise InvalidInput("there are no instances of the model; give one at least")
    return pa.Table.from_pylist([row.model_dump() for row in data], schema=schema or pydantic_to_schema(model))


def table_name(model: type[pydantic.BaseModel]) -> str:
    """The name of a table for a model.

    Examples
    --------
    >>> table_name(type("UserEvent", (pydantic.BaseModel,), {}))
    'user_event'
    """
    return re.sub("(?<!^)(?=[A-Z])", "_", model.__name__).lower()


def get_extras(field: Any, key: str) -> Any:
    """An entry of a field's ``json_schema_extra``."""
    return (field.json_schema_extra or {}).get(key)


def is_nullable(field: Any) -> bool:
    """Whether the column of a field may have nulls; a default value alone does not say so."""
    annotation = field.annotation
    if _is_union(annotation):
        return type(None) in get_args(annotation)
    return _is_class(annotation) and issubclass(annotation, FixedSizeListMixin) and annotation.nullable()


def _fields(model: type[pydantic.BaseModel]) -> list[pa.Field]:
    return [
        pa.field(name, _arrow_type(field.annotation, field), is_nullable(field))
        for name, field in model.model_fields.items()
    ]


def _is_class(annotation: object) -> TypeGuard[type]:
    """Whether an annotation is a class; on Python 3.10 those like ``list[int]`` say that they are."""
    return isinstance(annotation, type) and get_origin(annotation) is None


def _is_union(annotation: object) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _arrow_type(annotation: object, field: object) -> pa.DataType:
    if _is_union(annotation):
        others = [part for part in get_args(annotation) if part is not type(None)]
        if len(others) == 1:
            return _arrow_type(others[0], field)
    elif get_origin(annotation) in (list, tuple) and get_args(annotation):
        return pa.list_(_arrow_type(get_args(annotation)[0], field))
    elif _is_class(annotation):
        found = _class_type(annotation, field)
        if found is not None:
            return found
    raise InvalidType(
        f"a field of {annotation} has no Arrow type; give lists the type of their items, and unions one type"
    )


def _class_type(kind: type, field: object) -> pa.DataType | None:
    if issubclass(kind, pydantic.BaseModel):
        return pa.struct(_fields(kind))
    if issubclass(kind, FixedSizeListMixin):
        vector = pa.list_(kind.value_arrow_type(), kind.dim())
        return pa.list_(vector) if kind.is_multi_vector() else vector
    if issubclass(kind, Enum):
        kinds = {type(member.value) for member in kind}
        if kinds == {str}:
            return pa.dictionary(pa.int32(), pa.string())
        return _class_type(kinds.pop(), field) if len(kinds) == 1 else pa.string()
    if kind is datetime:
        return pa.timestamp("us", get_extras(field, "tz"))
    return _SCALARS.get(kind)
