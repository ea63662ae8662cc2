"""Maps: made of keys and values, looked into and taken apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import describe, value_type
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.list_parts import Lists, codes_of, put_together, rows_of, take_apart
from lancelet.expressions.signature import Bound, Function, arity, as_array, coerce, list_arg, unify

__all__ = ["FUNCTIONS"]


def _map_arg(name: str, arg: Expr) -> pa.DataType:
    kind = value_type(type_of(arg))
    if not pa.types.is_map(kind):
        raise InvalidInput(f"{name}() takes a map, not {describe(kind)} ({arg})")
    return kind


def _bind_map(name: str, args: list[Expr]) -> Bound:
    """map([keys], [values])."""
    arity(name, args, 2)
    keys, values = (value_type(type_of(list_arg(name, arg))).value_type for arg in args)
    return args, _map_type(keys, values)


def _map_type(key: pa.DataType, item: pa.DataType) -> pa.DataType:
    if pa.types.is_null(key):
        raise InvalidInput("a key of a map cannot be null")
    return pa.map_(value_type(key), value_type(item))


def _run_map(args: list[Datum], kind: pa.DataType) -> Datum:
    rows, constant_row = rows_of(args)
    keys, values = (take_apart(arg, rows) for arg in args)
    made = _joined(keys, values, kind)
    return made[0] if constant_row else made


def _joined(keys: Lists, values: Lists, kind: pa.DataType) -> pa.Array:
    if np.any(keys.valid & (keys.lengths != values.lengths)):
        raise InvalidInput("map() takes as many keys as values")
    names = keys.items()
    if names.null_count:
        raise InvalidInput("a key of a map cannot be null")
    codes = codes_of(names)[0]
    pairs = keys.rows() * (int(codes.max(initial=0)) + 1) + codes
    if len(np.unique(pairs)) < len(pairs):
        raise InvalidInput("map() got one key twice")
    offsets = pa.array(np.concatenate(([0], np.cumsum(keys.lengths))), pa.int32())
    mask = None if keys.valid.all() else pa.array(~keys.valid)
    items = pick_rows(values.values, pa.array(values.positions(keys.lengths)))
    return pa.MapArray.from_arrays(offsets, names.cast(kind.key_type), items.cast(kind.item_type), kind, mask=mask)


def _bind_make(name: str, args: list[Expr]) -> Bound:
    """make_map(key, value, key, value, ...)."""
    arity(name, args, 2, 10_000)
    if len(args) % 2:
        raise InvalidInput("make_map() takes keys and values in turn, and so an even number of arguments")
    (keys, key), (values, value) = unify("make_map()", args[::2]), unify("make_map()", args[1::2])
    return [part for pair in zip(keys, values, strict=True) for part in pair], _map_type(key, value)


def _run_make(args: list[Datum], kind: pa.DataType) -> Datum:
    rows, constant_row = rows_of(args)
    made = _joined(_rows_of_items(args[::2], rows), _rows_of_items(args[1::2], rows), kind)
    return made[0] if constant_row else made


def _rows_of_items(columns: list[Datum], rows: int) -> Lists:
    """The values of several columns, row by row."""
    width = len(columns)
    order = np.arange(rows * width).reshape(width, rows).T.ravel()
    values = pick_rows(pa.concat_arrays([as_array(column, rows) for column in columns]), pa.array(order))
    return Lists(values, np.arange(rows, dtype=np.int64) * width, np.full(rows, width, np.int64), np.ones(rows, bool))


def _entries(maps: Datum, rows: int) -> tuple[Lists, pa.Array, pa.Array]:
    """A map is a list of entries: where each row's are, the keys and the items."""
    array = as_array(maps, rows)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    offsets = array.offsets.to_numpy().astype(np.int64)
    # The offsets count from the first entry of the whole array, which a slice may not have.
    lengths = np.where(valid, np.diff(offsets), 0)
    return Lists(array.keys, offsets[:-1], lengths, valid), array.keys, array.items


def _bind_part(result: Callable[[pa.DataType], pa.DataType]) -> Callable[[str, list[Expr]], Bound]:
    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, 1)
        item = result(_map_arg(name, args[0]))
        return args, pa.list_(pa.field("item", item, nullable=not pa.types.is_struct(item)))

    return bind


def _run_part(part: str) -> Callable[[list[Datum], pa.DataType], Datum]:
    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        rows, constant_row = rows_of(args)
        lists, keys, items = _entries(args[0], rows)
        if part == "entries":
            values = pa.StructArray.from_arrays([keys, items], fields=list(kind.value_type))
        else:
            values = keys if part == "keys" else items
        made = put_together(pick_rows(values, pa.array(lists.positions())), lists.lengths, lists.valid, kind)
        return made[0] if constant_row else made

    return run


def _entry_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])


def _bind_extract(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    kind = _map_arg(name, args[0])
    return [args[0], coerce(args[1], kind.key_type)], pa.list_(kind.item_type)


def _run_extract(args: list[Datum], kind: pa.DataType) -> Datum:
    """The value of a key, as a list of one; a list of null where there is none."""
    rows, constant_row = rows_of(args)
    lists, keys, items = _entries(args[0], rows)
    mine, wanted = codes_of(pick_rows(keys, pa.array(lists.positions())), as_array(args[1], rows))
    hit = mine == wanted[lists.rows()]
    positions = np.zeros(rows, np.int64)
    missing = np.ones(rows, bool)
    positions[lists.rows()[hit]] = lists.positions()[hit]
    missing[lists.rows()[hit]] = False
    values = pick_rows(items, pa.array(positions, mask=missing)) if len(items) else pa.nulls(rows, items.type)
    made = put_together(values, np.ones(rows, np.int64), np.ones(rows, bool), kind)
    return made[0] if constant_row else made


FUNCTIONS: dict[str, Function] = {
    "map": Function(_bind_map, _run_map, may_fail=True),
    "make_map": Function(_bind_make, _run_make, may_fail=True),
    "map_keys": Function(_bind_part(lambda kind: kind.key_type), _run_part("keys")),
    "map_values": Function(_bind_part(lambda kind: kind.item_type), _run_part("values")),
    "map_entries": Function(_bind_part(_entry_type), _run_part("entries")),
    "map_extract": Function(_bind_extract, _run_extract),
}
