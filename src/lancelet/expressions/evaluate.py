"""Evaluating expressions on Arrow data.

``evaluate`` gives the values of an expression, ``mask`` the rows that a filter
keeps. Logic is three-valued throughout; only ``mask`` turns null into "not
kept". Parts of an AND, OR or CASE that can fail on a value (a division, a strict
CAST) see only the rows that the parts before them have not decided, so
``x <> 0 AND 10 / x > 1`` is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.jsonb_values import in_form
from lancelet.encoding.picking import keep_rows, pick_rows
from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.expressions.casting import Datum, cast_datum, cast_may_fail
from lancelet.expressions.coercion import is_list_like, value_type
from lancelet.expressions.comparing import compare, is_in
from lancelet.expressions.expr import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    children_of,
    columns_of,
    storage_value,
    type_of,
    walk,
)
from lancelet.expressions.functions import FUNCTIONS
from lancelet.expressions.literals import to_scalar
from lancelet.expressions.signature import as_array, per_parameters
from lancelet.format.extensions import storage_of
from lancelet.runtime import compute as pc

__all__ = ["evaluate", "fold", "mask", "may_fail"]

_NO_COLUMNS = pa.RecordBatch.from_arrays([], schema=pa.schema([]))


def evaluate(expr: Expr, data: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """The values of ``expr``, one for each row of ``data``.

    A RecordBatch gives an Array, a Table a ChunkedArray.

    >>> from lancelet.expressions.sql import parse_expression
    >>> batch = pa.record_batch({"a": [1, 2, None]})
    >>> evaluate(parse_expression("a * 10", batch.schema), batch).to_pylist()
    [10, 20, None]
    """
    if isinstance(data, pa.Table):
        return pa.chunked_array([evaluate(expr, batch) for batch in data.to_batches()], type_of(expr))
    return as_array(_guarded(expr, data), data.num_rows)


def mask(expr: Expr, data: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """The rows of ``data`` for which the filter ``expr`` is true.

    >>> from lancelet.expressions.sql import parse_filter
    >>> batch = pa.record_batch({"a": [1, 2, None]})
    >>> mask(parse_filter("a > 1", batch.schema), batch).to_pylist()
    [False, True, False]
    """
    if not pa.types.is_boolean(type_of(expr)):
        raise InvalidInput(f"the filter {_shortened(str(expr))} gives {type_of(expr)}, but it must be true or false")
    values = evaluate(expr, data)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.fill_null(False) if values.null_count else values


def fold(expr: Expr) -> Expr:
    """A call on literals alone becomes the literal it evaluates to."""
    if isinstance(expr, Literal):
        return expr
    scalar = _guarded(expr, _NO_COLUMNS)
    assert isinstance(scalar, pa.Scalar)
    return Literal(storage_value(scalar), type_of(expr))


def _guarded(expr: Expr, batch: pa.RecordBatch) -> Datum:
    try:
        return _Rows(batch).value(expr)
    except pa.ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInput(f"cannot evaluate {_shortened(str(expr))}: {reason}") from error


def _shortened(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


def field_inside(values: pa.Array, names: Sequence[str]) -> pa.Array:
    """A field inside of structs; where these are items of lists, lists of what is in their items."""
    for number, name in enumerate(names):
        if is_list_like(values.type):
            inner = field_inside(values.flatten(), names[number + 1 :])
            sizes = pc.list_value_length(values).fill_null(0)
            offsets = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
            return pa.ListArray.from_arrays(offsets, inner, mask=values.is_null() if values.null_count else None)
        values = pc.struct_field(values, name)
    return values


@dataclass(slots=True)
class _Rows:
    """The rows under evaluation; ``stand_in`` replaces one column by its dictionary."""

    batch: pa.RecordBatch
    stand_in: tuple[Column, pa.Array] | None = None

    def value(self, expr: Expr) -> Datum:
        match expr:
            case Column():
                return self._column(expr)
            case Literal():
                return to_scalar(expr)
            case Compare() | In() | Like():
                spread = self._by_dictionary(expr)
                return self._test(expr) if spread is None else spread
            case And(args):
                return self._decide(args, pc.and_kleene, False)
            case Or(args):
                return self._decide(args, pc.or_kleene, True)
            case Not(arg):
                return pc.invert(self.value(arg))
            case IsNull(arg):
                return pc.is_null(self._plain(arg))
            case Cast(arg, kind, lenient):
                return cast_datum(self.value(arg), kind, lenient)
            case Call("case", args, kind):
                return self._case(args, kind)
            case Call(name, args, kind):
                function = FUNCTIONS[name]
                values = [self._plain(arg) for arg in args]
                return function.run([pa.nulls(self.batch.num_rows), *values] if function.volatile else values, kind)

    def _column(self, column: Column) -> pa.Array:
        if self.stand_in is not None and self.stand_in[0] == column:
            return self.stand_in[1]
        index = self.batch.schema.get_field_index(column.path[0])
        if index < 0:
            raise UnknownColumn(column.path[0], self.batch.schema.names, "the data to evaluate on")
        values = self.batch.column(index)
        if len(column.path) > 1:
            values = field_inside(_storage(values), column.path[1:])
        if values.type == column.type or isinstance(column.type, pa.BaseExtensionType):
            return values
        # JSON comes as it is stored, and is text for all but the functions of JSON.
        return in_form(storage_of(values), column.type)

    def _plain(self, expr: Expr) -> Datum:
        """The value in its ``value_type``, without a dictionary or an extension type around it."""
        value = self.value(expr)
        return _storage(value) if isinstance(value, pa.Array) else value

    def _by_dictionary(self, expr: Compare | In | Like) -> Datum | None:
        """Test a dictionary column's dictionary once and spread the answer over the rows.

        Right for these nodes only, as they give null for null.
        """
        arg, *others = children_of(expr)
        if not isinstance(arg, Column) or not pa.types.is_dictionary(arg.type):
            return None
        if not all(isinstance(other, Literal) for other in others):
            return None
        column = self._column(arg)
        if not pa.types.is_dictionary(column.type) or len(column.dictionary) > len(column):
            return None
        tested = _Rows(self.batch, (arg, column.dictionary)).value(expr)
        return tested.take(column.indices) if isinstance(tested, pa.Array) else tested

    def _test(self, expr: Compare | In | Like) -> Datum:
        if isinstance(expr, Compare):
            return compare(expr.op, self._plain(expr.left), self._plain(expr.right))
        if isinstance(expr, Like):
            return self._like(expr)
        values = self._plain(expr.arg)
        return self._in(values, expr) if isinstance(values, pa.Array) else self._in(pa.repeat(values, 1), expr)[0]

    def _in(self, values: pa.Array, expr: In) -> pa.Array:
        found = is_in(values, expr.values.array)
        if expr.values.has_null:
            found = pc.or_kleene(found, pa.scalar(None, pa.bool_()))
        if values.null_count:
            found = pc.if_else(values.is_valid(), found, pa.scalar(None, pa.bool_()))
        return found

    def _like(self, expr: Like) -> Datum:
        texts, pattern = self._plain(expr.arg), self._plain(expr.pattern)
        return per_parameters(_like_kernel(expr.ignore_case), [texts, pattern], pa.bool_())

    def _decide(self, args: tuple[Expr, ...], combine: pc.Function, decisive: bool) -> Datum:
        """AND and OR: one ``decisive`` operand settles a row, whatever the others are."""
        result = self.value(args[0])
        for arg in args[1:]:
            if isinstance(result, pa.Scalar):
                if result.is_valid and result.as_py() is decisive:
                    return result
                result = combine(result, self.value(arg))
                continue
            settled = result if decisive else pc.invert(result)
            if settled.null_count == 0 and settled.true_count == len(settled):
                return result
            value = self._where(arg, pc.invert(settled.fill_null(False))) if may_fail(arg) else self.value(arg)
            result = combine(result, value)
        return result

    def _where(self, expr: Expr, rows: pa.BooleanArray) -> Datum:
        """``expr`` on the chosen rows only; null elsewhere."""
        if rows.true_count == len(rows):
            return self.value(expr)
        names = sorted({path[0] for path in columns_of(expr)})
        value = _Rows(keep_rows(self.batch.select(names), rows)).value(expr)
        if isinstance(value, pa.Scalar):
            return pc.if_else(rows, value, pa.scalar(None, value.type))
        chosen = rows.to_numpy(zero_copy_only=False)
        return pick_rows(value, pa.array(np.cumsum(chosen) - 1, mask=~chosen))

    def _case(self, args: tuple[Expr, ...], kind: pa.DataType) -> Datum:
        values: list[Datum] = []
        open_rows: Datum = pa.scalar(True)  # rows that no earlier condition has taken
        for condition, value in zip(args[:-1:2], args[1:-1:2], strict=True):
            test = pc.fill_null(self._under(condition, open_rows), False)
            values += [test, self._under(value, pc.and_(open_rows, test))]
            open_rows = pc.and_(open_rows, pc.invert(test))
        return FUNCTIONS["case"].run([*values, self._under(args[-1], open_rows)], kind)

    def _under(self, expr: Expr, rows: Datum) -> Datum:
        if not may_fail(expr):
            return self._plain(expr)
        if isinstance(rows, pa.Scalar):
            return self._plain(expr) if rows.as_py() else pa.scalar(None, type_of(expr))
        return self._where(expr, rows)


def _like_kernel(ignore_case: bool) -> Callable[..., pa.Array]:
    def like(texts: pa.Array, kind: pa.DataType, pattern: str | None) -> pa.Array:
        if pattern is None:
            return pa.nulls(len(texts), kind)
        return pc.match_like(texts, pattern=pattern, ignore_case=ignore_case)

    return like


def _storage(values: pa.Array) -> pa.Array:
    values = storage_of(values)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    plain = value_type(values.type)
    return values if values.type == plain else values.cast(plain)


def may_fail(expr: Expr) -> bool:
    """Whether some value could make ``expr`` an error, so that it matters for which rows it is evaluated."""
    for node in walk(expr):
        if isinstance(node, Cast) and not node.lenient and cast_may_fail(type_of(node.arg), node.type):
            return True
        if isinstance(node, Call) and FUNCTIONS[node.name].can_fail(node.args):
            return True
    return False
