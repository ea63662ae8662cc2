"""Functions on lists: membership, length, element access.

A list array is taken apart into its flat values and, for each value, the row
it belongs to; the work is done on the flat values and scattered back to rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import common_type, describe, is_list_like, is_text, value_type
from lancelet.expressions.comparing import compare, is_in
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.signature import Bound, Function, arity, as_array, coerce, constant, list_arg, rowwise, unify
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]


def _item_type(name: str, arg: Expr) -> pa.DataType:
    return value_type(value_type(type_of(list_arg(name, arg))).value_type)


def _bind_has(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    item = _item_type(name, args[0])
    wanted = value_type(type_of(args[1]))
    common = common_type(item, wanted)
    if common is None or (is_text(wanted) != is_text(item) and not pa.types.is_null(wanted)):
        raise InvalidInput(f"{name}() looks for {describe(wanted)} ({args[1]}) in a list of {describe(item)}")
    return [_with_items(args[0], common), coerce(args[1], common)], pa.bool_()


def _with_items(arg: Expr, item: pa.DataType) -> Expr:
    kind = value_type(type_of(arg))
    return arg if value_type(kind.value_type) == item else coerce(arg, pa.list_(item))


def _bind_has_lists(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    left, right = (_item_type(name, arg) for arg in args)
    common = common_type(left, right)
    if common is None:
        raise InvalidInput(f"{name}() compares a list of {describe(left)} with a list of {describe(right)}")
    return [_with_items(arg, common) for arg in args], pa.bool_()


def _flat(lists: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The values of all lists, and the row of each."""
    values = lists.flatten()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values, pc.list_parent_indices(lists)


def _any_per_row(lists: pa.Array, rows: pa.Array, hits: pa.Array) -> pa.Array:
    """True for each row with a hit, null for each null list."""
    found = np.zeros(len(lists), dtype=bool)
    found[rows.filter(hits).to_numpy()] = True
    mask = lists.is_null().to_numpy(zero_copy_only=False) if lists.null_count else None
    return pa.array(found, mask=mask)


def _on_arrays(run: Callable[[pa.Array, Datum], pa.Array]) -> Callable[[list[Datum], pa.DataType], Datum]:
    """Give ``run`` an array of lists, also when the lists are constant."""

    def outer(args: list[Datum], kind: pa.DataType) -> Datum:
        lists, other = args
        if isinstance(lists, pa.Array):
            return run(lists, other)
        length = len(other) if isinstance(other, pa.Array) else 1
        result = run(as_array(lists, length), other)
        return result if isinstance(other, pa.Array) else result[0]

    return outer


def _has(lists: pa.Array, wanted: Datum) -> pa.Array:
    values, rows = _flat(lists)
    if isinstance(wanted, pa.Scalar):
        if not wanted.is_valid:
            return pa.nulls(len(lists), pa.bool_())
        return _any_per_row(lists, rows, compare("=", values, wanted).fill_null(False))
    hits = compare("=", values, pick_rows(wanted, rows)).fill_null(False)
    return pc.if_else(wanted.is_valid(), _any_per_row(lists, rows, hits), pa.scalar(None, pa.bool_()))


def _has_any(lists: pa.Array, wanted: Datum) -> pa.Array:
    if isinstance(wanted, pa.Array):
        return rowwise(lambda left, right: not set(left).isdisjoint(right), [lists, wanted], pa.bool_())
    if not wanted.is_valid:
        return pa.nulls(len(lists), pa.bool_())
    values, rows = _flat(lists)
    return _any_per_row(lists, rows, is_in(values, wanted.values, match_null=True))


def _has_all(lists: pa.Array, wanted: Datum) -> pa.Array:
    if isinstance(wanted, pa.Array):
        return rowwise(lambda left, right: set(left).issuperset(right), [lists, wanted], pa.bool_())
    if not wanted.is_valid:
        return pa.nulls(len(lists), pa.bool_())
    values, rows = _flat(lists)
    result = pc.if_else(lists.is_valid(), True, pa.scalar(None, pa.bool_()))
    # Not all releases of pyarrow find the distinct ones of half floats.
    for value in dict.fromkeys(wanted.values):
        hits = compare("=", values, value).fill_null(False) if value.is_valid else values.is_null()
        result = pc.and_(result, _any_per_row(lists, rows, hits))
    return result


def _bind_length(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, 2 if name == "array_length" else 1)
    lists = list_arg(name, args[0])
    if len(args) == 1:
        return [lists], pa.uint64()
    if is_list_like(value_type(value_type(type_of(lists)).value_type)):
        if constant(name, args[1]) != 1:
            raise InvalidInput(f"{name}() of lists of lists gives the length of the first dimension only, 1")
        return [lists], pa.uint64()
    return [lists, coerce(args[1], pa.int64())], pa.uint64()


def _bind_empty(name: str, args: list[Expr]) -> Bound:
    return _bind_length(name, args)[0], pa.bool_()


def _bind_element(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    kind = value_type(type_of(list_arg(name, args[0])))
    return [args[0], coerce(args[1], pa.int64())], kind.value_type


def _element(lists: pa.Array, index: Datum) -> pa.Array:
    """Counted from 1, or from -1 at the end; null where there is no such element."""
    rows = len(lists)
    if pa.types.is_fixed_size_list(lists.type):
        size = lists.type.list_size
        starts = (np.arange(rows, dtype=np.int64) + lists.offset) * size
        lengths = np.full(rows, size, dtype=np.int64)
        values = lists.values
    else:
        offsets = lists.offsets.to_numpy().astype(np.int64)
        starts, lengths, values = offsets[:-1], np.diff(offsets), lists.values
    wanted = as_array(index, rows)
    valid = pc.and_(lists.is_valid(), wanted.is_valid()).to_numpy(zero_copy_only=False)
    position = wanted.fill_null(0).to_numpy(zero_copy_only=False)
    place = np.where(position > 0, position - 1, lengths + position)
    inside = valid & (position != 0) & (place >= 0) & (place < lengths)
    return pick_rows(values, pa.array(np.where(inside, starts + place, 0), mask=~inside))


def _run_length(args: list[Datum], kind: pa.DataType) -> Datum:
    """The length of a dimension, of which plain lists have one."""
    lengths = pc.list_value_length(args[0]).cast(kind)
    if len(args) == 1:
        return lengths
    return pc.if_else(pc.fill_null(pc.equal(args[1], 1), False), lengths, pa.scalar(None, kind))


def _bind_make(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 0, 10_000)
    if not args:
        return [], pa.list_(pa.null())
    bound, kind = unify(f"{name}()", args)
    return bound, pa.list_(kind)


def _run_make(args: list[Datum], kind: pa.DataType) -> Datum:
    lengths = [len(arg) for arg in args if isinstance(arg, pa.Array)]
    rows = lengths[0] if lengths else 1
    if not args:
        return pa.scalar([], kind)
    columns = [as_array(arg, rows) for arg in args]
    # Row-major order: value j of row i sits at i * width + j.
    order = np.arange(rows * len(args)).reshape(len(args), rows).T.ravel()
    values = pick_rows(pa.concat_arrays(columns), pa.array(order))
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * len(args))
    lists = pa.ListArray.from_arrays(offsets, values, type=kind)
    return lists if lengths else lists[0]


FUNCTIONS: dict[str, Function] = {
    "array_has": Function(_bind_has, _on_arrays(_has)),
    "array_has_any": Function(_bind_has_lists, _on_arrays(_has_any)),
    "array_has_all": Function(_bind_has_lists, _on_arrays(_has_all)),
    "array_length": Function(_bind_length, _run_length),
    "empty": Function(_bind_empty, lambda args, _: pc.equal(pc.list_value_length(args[0]), 0)),
    "array_element": Function(_bind_element, _on_arrays(_element)),
    "make_array": Function(_bind_make, _run_make),
}
