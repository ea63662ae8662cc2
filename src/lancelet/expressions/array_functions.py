"""Functions that make lists of lists' items: append, slice, remove, replace, sort, sets of items."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import common_type, describe, is_list_like, is_text, value_type
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.list_parts import Bools, Ints, Lists, codes_of, places, put_together, rows_of, take_apart
from lancelet.expressions.nested_order import has_order, nested_ranks
from lancelet.expressions.signature import Bound, Function, arity, as_array, coerce, constant, list_arg
from lancelet.expressions.sort import total_order
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS", "list_result", "with_items"]

Run = Callable[[list[Datum], pa.DataType], Datum]


def list_result(item: pa.DataType, *kinds: pa.DataType) -> pa.DataType:
    """A list of ``item``, large if one of the lists that it is made of is."""
    return pa.large_list(item) if any(pa.types.is_large_list(kind) for kind in kinds) else pa.list_(item)


def item_type(name: str, arg: Expr) -> pa.DataType:
    """The type of a list's items; a NULL is a list of nulls."""
    kind = value_type(type_of(arg))
    return pa.null() if pa.types.is_null(kind) else value_type(value_type(type_of(list_arg(name, arg))).value_type)


def with_items(arg: Expr, item: pa.DataType) -> Expr:
    """A list whose items are of this type."""
    kind = value_type(type_of(arg))
    if is_list_like(kind) and value_type(kind.value_type) == item:
        return arg
    return coerce(arg, list_result(item, kind))


def common_item(name: str, kinds: list[pa.DataType]) -> pa.DataType:
    common = kinds[0]
    for kind in kinds[1:]:
        both = common_type(common, kind)
        mixed = is_text(common) != is_text(kind) and not pa.types.is_null(common) and not pa.types.is_null(kind)
        if both is None or mixed:
            raise InvalidInput(f"{name}() cannot put {describe(kind)} together with {describe(common)} in one list")
        common = both
    return common


def _bind(shape: str, least: int | None = None, widen: bool = True) -> Callable[[str, list[Expr]], Bound]:
    """A signature of one letter an argument: l a list, x an item, n a number; the result is a list like the first."""

    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, len(shape) if least is None else least, len(shape))
        pairs = list(zip(shape, args, strict=False))
        kinds = [item_type(name, arg) for letter, arg in pairs if letter == "l"]
        kinds += [value_type(type_of(arg)) for letter, arg in pairs if letter == "x"]
        item = common_item(name, kinds) if widen else kinds[0]
        bound = [
            with_items(arg, item) if letter == "l" else coerce(arg, item if letter == "x" else pa.int64())
            for letter, arg in pairs
        ]
        return bound, list_result(item, *(value_type(type_of(arg)) for arg in bound[:2]))

    return bind


def _on_rows(run: Callable[[list[Datum], int, pa.DataType], pa.Array]) -> Run:
    """``run`` gets the number of rows; constants are one row."""

    def outer(args: list[Datum], kind: pa.DataType) -> Datum:
        rows, constant_row = rows_of(args)
        result = run(args, rows, kind)
        return result[0] if constant_row else result

    return outer


def _gather(values: pa.Array, positions: Ints, lengths: Ints, valid: Bools, kind: pa.DataType) -> pa.Array:
    return put_together(pick_rows(values, pa.array(positions)), lengths, valid, kind)


def _joined(parts: list[Lists], valid: Bools, kind: pa.DataType) -> pa.Array:
    """The items of several lists behind each other, row by row."""
    values = pa.concat_arrays([part.values.cast(kind.value_type) for part in parts])
    before = np.cumsum([0, *(len(part.values) for part in parts[:-1])])
    lengths = np.stack([part.lengths for part in parts], axis=1)
    starts = np.stack([part.starts + shift for part, shift in zip(parts, before, strict=True)], axis=1)
    flat = Lists(values, starts.ravel(), lengths.ravel(), valid)
    return _gather(values, flat.positions(), lengths.sum(axis=1), valid, kind)


def _single(items: Datum, rows: int) -> Lists:
    """Each item as a list of one."""
    array = as_array(items, rows)
    return Lists(array, np.arange(rows, dtype=np.int64), np.ones(rows, np.int64), np.ones(rows, bool))


def _append(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    return _joined([take_apart(args[0], rows), _single(args[1], rows)], np.ones(rows, bool), kind)


def _prepend(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    return _joined([_single(args[0], rows), take_apart(args[1], rows)], np.ones(rows, bool), kind)


def _bind_concat(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, 1000)
    for arg in args:
        list_arg(name, arg)
    return _bind("l" * len(args))(name, args)


def _concat(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    """Null only where all lists are."""
    parts = [take_apart(arg, rows) for arg in args]
    return _joined(parts, np.any([part.valid for part in parts], axis=0), kind)


def _keep(lists: Lists, keep: Bools, kind: pa.DataType) -> pa.Array:
    """The marked items only."""
    lengths = np.bincount(lists.rows()[keep], minlength=len(lists)).astype(np.int64)
    return _gather(lists.values, lists.positions()[keep], lengths, lists.valid, kind)


def _cut(front: int, back: int) -> Callable[[list[Datum], int, pa.DataType], pa.Array]:
    def run(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
        lists = take_apart(args[0], rows)
        lengths = np.maximum(lists.lengths - front - back, 0)
        shorter = Lists(lists.values, lists.starts + front, lengths, lists.valid)
        return _gather(lists.values, shorter.positions(), lengths, lists.valid, kind)

    return run


def _reverse(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    lists = take_apart(args[0], rows)
    last = np.repeat(lists.starts + lists.lengths - 1, lists.lengths)
    return _gather(lists.values, last - places(lists.lengths), lists.lengths, lists.valid, kind)


def _compact(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    lists = take_apart(args[0], rows)
    return _keep(lists, lists.items().is_valid().to_numpy(zero_copy_only=False), kind)


def numbers(arg: Datum, rows: int) -> tuple[Ints, Bools]:
    """Integers of each row, and where they are not null."""
    array = as_array(arg, rows).cast(pa.int64())
    return array.fill_null(0).to_numpy(zero_copy_only=False), array.is_valid().to_numpy(zero_copy_only=False)


def _slice(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    """From and to a place, both counted from 1 or from the end; backwards with a negative step."""
    lists = take_apart(args[0], rows)
    (first, given), (last, also) = numbers(args[1], rows), numbers(args[2], rows)
    step, stepped = numbers(args[3], rows) if len(args) > 3 else (np.ones(rows, np.int64), np.ones(rows, bool))
    valid = lists.valid & given & also & stepped
    if np.any(valid & (step == 0)):
        raise InvalidInput("array_slice() takes a step other than 0")
    count = lists.lengths
    begin = np.where(first > 0, first - 1, np.where(first < 0, np.maximum(first + count, 0), 0))
    end = np.where(last < 0, last + count, np.minimum(last, count) - 1)
    end = np.where(last == 0, -1, end)
    forward = np.where((begin <= end) & (begin < count) & (end >= 0), (end - begin) // np.maximum(step, 1) + 1, 0)
    begin_back = np.minimum(begin, count - 1)
    back = np.where(
        (begin >= end) & (end >= 0) & (end < count) & (begin < count), (begin_back - end) // np.maximum(-step, 1) + 1, 0
    )
    lengths = np.where(valid & (count > 0), np.where(step > 0, forward, back), 0)
    positions = np.repeat(lists.starts + begin, lengths) + places(lengths) * np.repeat(step, lengths)
    return _gather(lists.values, positions, lengths, valid, kind)


_LONGEST = 2**24


def _resize(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    lists = take_apart(args[0], rows)
    wanted, given = numbers(args[1], rows)
    _refuse_long(wanted[given], "array_resize")
    valid = lists.valid  # a length that is null counts as 0
    kept = np.where(valid, np.minimum(lists.lengths, wanted), 0)
    filler = as_array(args[2] if len(args) > 2 else pa.scalar(None, kind.value_type), rows)
    return _joined([_shortened(lists, kept), _repeated(filler, np.where(valid, wanted - kept, 0))], valid, kind)


def _shortened(lists: Lists, lengths: Ints) -> Lists:
    return Lists(lists.values, lists.starts, lengths, lists.valid)


def _repeated(items: pa.Array, counts: Ints) -> Lists:
    """Each item as often as its count says."""
    flat = pick_rows(items, pa.array(np.repeat(np.arange(len(items)), counts)))
    return Lists(flat, np.cumsum(counts) - counts, counts, np.ones(len(items), bool))


def _refuse_long(counts: Ints, name: str) -> None:
    if len(counts) and (counts.max() > _LONGEST or counts.sum() > 2**31 - 1):
        raise InvalidInput(f"{name}() makes lists of up to {_LONGEST} items, not {counts.max()}")
    if len(counts) and name == "array_resize" and counts.min() < 0:
        raise InvalidInput(f"array_resize() takes a length of zero or more, not {counts.min()}")


def _bind_repeat(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    return [args[0], coerce(args[1], pa.int64())], pa.list_(value_type(type_of(args[0])))


def _repeat(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    counts, given = numbers(args[1], rows)
    _refuse_long(counts[given], "array_repeat")
    items = _repeated(as_array(args[0], rows), np.maximum(np.where(given, counts, 0), 0))
    return put_together(items.values, items.lengths, given, kind)


def _bind_flatten(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    kind = value_type(type_of(list_arg(name, args[0])))
    inner = value_type(kind.value_type)
    return args, list_result(value_type(inner.value_type), inner, kind) if is_list_like(inner) else list_result(
        inner, kind
    )


def _flatten(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    outer = take_apart(args[0], rows)
    if not is_list_like(outer.values.type):
        return _gather(outer.values, outer.positions(), outer.lengths, outer.valid, kind)
    items = outer.items()
    inner = take_apart(items, len(items))
    bounds = np.concatenate(([0], np.cumsum(inner.lengths)))
    ends = np.cumsum(outer.lengths)
    lengths = bounds[ends] - bounds[ends - outer.lengths]
    return _gather(inner.values, inner.positions(), lengths, outer.valid, kind)


def _hits(lists: Lists, wanted: Datum, rows: int) -> tuple[Bools, Ints]:
    """Which items equal their row's value, and the how manieth hit of its row each is, from 1."""
    items, values = codes_of(lists.items(), as_array(wanted, rows))
    rows_of_items = lists.rows()
    hit = items == values[rows_of_items]
    total = np.cumsum(hit)
    first = np.cumsum(lists.lengths) - lists.lengths
    before = np.concatenate(([0], total))[first]
    return hit, total - np.repeat(before, lists.lengths)


def _limit(how_many: str, args: list[Datum], at: int, rows: int) -> Ints:
    """How many hits count in each row; none where the number is null."""
    if how_many == "n":
        return numbers(args[at], rows)[0]
    return np.full(rows, 1 if how_many == "one" else 2**31, np.int64)


def _remove(how_many: str) -> Callable[[list[Datum], int, pa.DataType], pa.Array]:
    def run(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
        lists = take_apart(args[0], rows)
        limit = _limit(how_many, args, 2, rows)
        valid = lists.valid & as_array(args[1], rows).is_valid().to_numpy(zero_copy_only=False)
        lists = Lists(lists.values, lists.starts, np.where(valid, lists.lengths, 0), valid)
        hit, number = _hits(lists, args[1], rows)
        return _keep(lists, ~(hit & (number <= limit[lists.rows()])), kind)

    return run


def _replace(how_many: str) -> Callable[[list[Datum], int, pa.DataType], pa.Array]:
    def run(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
        lists = take_apart(args[0], rows)
        limit = _limit(how_many, args, 3, rows)
        hit, number = _hits(lists, args[1], rows)
        new = as_array(args[2], rows)
        values = pa.concat_arrays([lists.values.cast(kind.value_type), new.cast(kind.value_type)])
        taken = hit & (number <= limit[lists.rows()])
        positions = np.where(taken, len(lists.values) + lists.rows(), lists.positions())
        return _gather(values, positions, lists.lengths, lists.valid, kind)

    return run


def _first_of_each(rows: Ints, codes: Ints) -> Bools:
    """Which items are the first of their value in their row."""
    if not len(codes):
        return np.zeros(0, bool)
    keys = rows * (int(codes.max()) + 1) + codes
    first = np.zeros(len(keys), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return first


def _distinct(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    lists = take_apart(args[0], rows)
    return _keep(lists, _first_of_each(lists.rows(), codes_of(lists.items())[0]), kind)


def _union(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    left, right = (take_apart(arg, rows) for arg in args)
    both = _joined([left, right], left.valid & right.valid, kind)
    return _distinct([both], rows, kind)


def _overlap(keep_common: bool) -> Callable[[list[Datum], int, pa.DataType], pa.Array]:
    """The distinct items of the first list that are, or are not, in the second."""

    def run(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
        left, right = (take_apart(arg, rows) for arg in args)
        mine, others = codes_of(left.items(), right.items())
        width = int(max(mine.max(initial=0), others.max(initial=0))) + 1
        shared = np.isin(left.rows() * width + mine, right.rows() * width + others)
        keep = (shared if keep_common else ~shared) & _first_of_each(left.rows(), mine)
        lists = Lists(left.values, left.starts, left.lengths, left.valid & right.valid)
        return _keep(lists, keep & lists.valid[left.rows()], kind)

    return run


def _bind_sort(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, 3)
    kind = value_type(type_of(list_arg(name, args[0])))
    if pa.types.is_nested(kind.value_type):
        raise InvalidInput(f"{name}() sorts plain values, not {describe(kind.value_type)}")
    words = [("ASC", "DESC"), ("NULLS FIRST", "NULLS LAST")]
    for arg, known in zip(args[1:], words, strict=False):
        word = constant(name, arg)
        if word is not None and str(word).upper() not in known:
            raise InvalidInput(f"{name}() takes '{known[0]}' or '{known[1]}' here, not {word!r}")
    return args, list_result(kind.value_type, kind)


def _sort(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    lists = take_apart(args[0], rows)
    words = [arg.as_py() for arg in args[1:]]
    if None in words:
        return pa.nulls(rows, kind)
    descending = bool(words) and words[0].upper() == "DESC"
    nulls_first = len(words) < 2 or words[1].upper() == "NULLS FIRST"
    items = lists.items()
    rank = _ranks(items)
    rank = np.where(
        items.is_null().to_numpy(zero_copy_only=False),
        -1 if nulls_first else len(rank),
        -rank + len(rank) if descending else rank,
    )
    order = np.lexsort((rank, lists.rows()))
    return put_together(pick_rows(items, pa.array(order)), lists.lengths, lists.valid, kind)


def _ranks(items: pa.Array) -> Ints:
    """A number for each value in the order of the values; NaN is above all, -0.0 below 0.0."""
    if pa.types.is_floating(items.type):
        items = total_order(pa.chunked_array([items])).combine_chunks()
    if pa.types.is_null(items.type):
        return np.zeros(len(items), np.int64)
    if pa.types.is_nested(items.type):
        return nested_ranks(items)
    ranks: Ints = pc.rank(items, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def _extreme(greatest: bool) -> Run:
    def run(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
        lists = take_apart(args[0], rows)
        items = lists.items()
        rank = _ranks(items)
        some = items.is_valid().to_numpy(zero_copy_only=False)
        order = np.lexsort((rank if not greatest else -rank, ~some, lists.rows()))
        first = np.cumsum(lists.lengths) - lists.lengths
        found = lists.lengths > 0
        best = np.zeros(rows, np.int64)
        best[found] = order[first[found]]
        return pick_rows(items, pa.array(best, mask=~found))

    return _on_rows(run)


def _bind_extreme(name: str, args: list[Expr]) -> Bound:
    bound, kind = _bind_item(name, args)
    if not has_order(kind):
        raise InvalidInput(f"{name}() compares values that have an order, not {describe(kind)} ({args[0]})")
    return bound, kind


def _bind_item(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    return args, value_type(type_of(list_arg(name, args[0]))).value_type


def _any_value(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    """The first item that is not null."""
    lists = take_apart(args[0], rows)
    some = lists.items().is_valid().to_numpy(zero_copy_only=False)
    owners, first = np.unique(lists.rows()[some], return_index=True)
    positions = np.zeros(rows, np.int64)
    positions[owners] = lists.positions()[some][first]
    missing = np.ones(rows, bool)
    missing[owners] = False
    return pick_rows(lists.values, pa.array(positions, mask=missing))


def _bind_position(name: str, args: list[Expr]) -> Bound:
    return _bind("lxn", 2)(name, args)[0], pa.uint64()


def _position(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    lists = take_apart(args[0], rows)
    start, given = numbers(args[2], rows) if len(args) > 2 else (np.ones(rows, np.int64), np.ones(rows, bool))
    if np.any(given & lists.valid & ((start < 1) | (start > np.maximum(lists.lengths, 1)))):
        raise InvalidInput("array_position() starts at a place of the list, counted from 1")
    hit, _ = _hits(lists, args[1], rows)
    place = places(lists.lengths) + 1
    hit &= place >= start[lists.rows()]
    owners, first = np.unique(lists.rows()[hit], return_index=True)
    result = np.zeros(rows, np.uint64)
    result[owners] = place[hit][first]
    return pa.array(result, kind, mask=(result == 0) | ~given)


def _bind_positions(name: str, args: list[Expr]) -> Bound:
    return _bind("lx")(name, args)[0], pa.list_(pa.uint64())


def _positions(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    lists = take_apart(args[0], rows)
    hit, _ = _hits(lists, args[1], rows)
    lengths = np.bincount(lists.rows()[hit], minlength=rows).astype(np.int64)
    return put_together(pa.array(places(lists.lengths)[hit] + 1, pa.uint64()), lengths, lists.valid, kind)


def _bind_zip(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, 1000)
    fields = [pa.field(str(at + 1), item_type(name, arg)) for at, arg in enumerate(args)]
    return args, pa.list_(pa.struct(fields))


def _zip(args: list[Datum], rows: int, kind: pa.DataType) -> pa.Array:
    """Shorter lists are filled with nulls; null only where all are."""
    parts = [take_apart(arg, rows) for arg in args]
    lengths = np.max([part.lengths for part in parts], axis=0)
    place = places(lengths)
    columns = []
    for part, field in zip(parts, kind.value_type, strict=True):
        inside = place < np.repeat(part.lengths, lengths)
        positions = np.where(inside, np.repeat(part.starts, lengths) + place, 0)
        columns.append(pick_rows(part.values, pa.array(positions, mask=~inside)).cast(field.type))
    structs = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    return put_together(structs, lengths, np.any([part.valid for part in parts], axis=0), kind)


FUNCTIONS: dict[str, Function] = {
    "array_append": Function(_bind("lx"), _on_rows(_append)),
    "array_prepend": Function(_bind("xl"), _on_rows(_prepend)),
    "array_concat": Function(_bind_concat, _on_rows(_concat)),
    "array_pop_front": Function(_bind("l"), _on_rows(_cut(1, 0))),
    "array_pop_back": Function(_bind("l"), _on_rows(_cut(0, 1))),
    "array_reverse": Function(_bind("l"), _on_rows(_reverse)),
    "array_compact": Function(_bind("l"), _on_rows(_compact)),
    "array_slice": Function(_bind("lnnn", 3), _on_rows(_slice), may_fail=True),
    "array_resize": Function(_bind("lnx", 2), _on_rows(_resize), may_fail=True),
    "array_repeat": Function(_bind_repeat, _on_rows(_repeat), may_fail=True),
    "flatten": Function(_bind_flatten, _on_rows(_flatten)),
    "array_remove": Function(_bind("lx"), _on_rows(_remove("one"))),
    "array_remove_n": Function(_bind("lxn"), _on_rows(_remove("n"))),
    "array_remove_all": Function(_bind("lx"), _on_rows(_remove("all"))),
    "array_replace": Function(_bind("lxx"), _on_rows(_replace("one"))),
    "array_replace_n": Function(_bind("lxxn"), _on_rows(_replace("n"))),
    "array_replace_all": Function(_bind("lxx"), _on_rows(_replace("all"))),
    "array_distinct": Function(_bind("l"), _on_rows(_distinct)),
    "array_union": Function(_bind("ll"), _on_rows(_union)),
    "array_intersect": Function(_bind("ll"), _on_rows(_overlap(keep_common=True))),
    "array_except": Function(_bind("ll"), _on_rows(_overlap(keep_common=False))),
    "array_sort": Function(_bind_sort, _on_rows(_sort)),
    "array_max": Function(_bind_extreme, _extreme(greatest=True)),
    "array_min": Function(_bind_extreme, _extreme(greatest=False)),
    "array_any_value": Function(_bind_item, _on_rows(_any_value)),
    "array_position": Function(_bind_position, _on_rows(_position), may_fail=True),
    "array_positions": Function(_bind_positions, _on_rows(_positions)),
    "arrays_zip": Function(_bind_zip, _on_rows(_zip)),
}
