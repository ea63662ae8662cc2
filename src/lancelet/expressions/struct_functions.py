"""Structs: made of values, and taken apart again."""

from __future__ import annotations

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import describe, value_type
from lancelet.expressions.expr import Expr, Literal, type_of
from lancelet.expressions.signature import Bound, Function, arity, as_array, constant
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

_MOST = 10_000


def _bind_named(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2, _MOST)
    if len(args) % 2:
        raise InvalidInput(f"{name}() takes names and values in turn, and so an even number of arguments")
    names = [_name(name, arg) for arg in args[::2]]
    if len(set(names)) < len(names):
        raise InvalidInput(f"{name}() has two fields of one name; give each its own")
    fields = [pa.field(title, value_type(type_of(arg))) for title, arg in zip(names, args[1::2], strict=True)]
    return args, pa.struct(fields)


def _name(function: str, arg: Expr) -> str:
    if not isinstance(arg, Literal) or not isinstance(arg.value, str) or not arg.value:
        raise InvalidInput(f"{function}() takes the name of a field as a text that is not empty, not {arg}")
    return arg.value


def _bind_struct(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, _MOST)
    return args, pa.struct([pa.field(f"c{at}", value_type(type_of(arg))) for at, arg in enumerate(args)])


def _run_struct(args: list[Datum], kind: pa.DataType) -> Datum:
    lengths = [len(arg) for arg in args if isinstance(arg, pa.Array)]
    rows = lengths[0] if lengths else 1
    columns = [as_array(arg, rows).cast(field.type) for arg, field in zip(args, kind, strict=True)]
    made = pa.StructArray.from_arrays(columns, fields=list(kind))
    return made if lengths else made[0]


def _run_named(args: list[Datum], kind: pa.DataType) -> Datum:
    return _run_struct(args[1::2], kind)


def _bind_field(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    kind = value_type(type_of(args[0]))
    field = str(constant(name, args[1]))
    index = kind.get_field_index(field) if pa.types.is_struct(kind) else -1
    if index < 0:
        raise InvalidInput(f"{args[0]} ({describe(kind)}) has no field {field!r}")
    return args, kind.field(index).type


def _run_field(args: list[Datum], kind: pa.DataType) -> Datum:
    return pc.struct_field(args[0], [args[1].as_py()])


FUNCTIONS: dict[str, Function] = {
    "get_field": Function(_bind_field, _run_field),
    "named_struct": Function(_bind_named, _run_named),
    "struct": Function(_bind_struct, _run_struct),
}
