"""Filters as questions to indices: the shape of a filter with all that no index knows left out.

NOT is pushed down to the conditions on single columns (which is right in three-valued
logic too), so that every condition is either asked for being true or for being
false::

    NOT (i > 5 OR b)       AllOf(Lookup(i <= 5), Lookup(b = false))
    i >= 2 AND i < 9       Lookup(2 <= i < 9), one range
    i = 3 AND f(j) > 1     AllOf(Lookup(i = 3)), incomplete: no index knows f(j)
    i = 3 OR f(j) > 1      None: any row may be wanted

A condition is left to the scan wherever an index might see it otherwise than the evaluator does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lancelet.expressions.coercion import is_list_like, is_text
from lancelet.expressions.comparing import distinct
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
    type_of,
)
from lancelet.expressions.geo_functions import MEETING, constant_box
from lancelet.expressions.json_functions import GETTERS
from lancelet.expressions.literals import place, to_scalar
from lancelet.index.questions import Between, HasItems, Holds, IsIn, Missing, Overlaps, Question, StartsWith
from lancelet.runtime import compute as pc

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_WILDCARDS = "%_"
_WIDENED = (pa.types.is_integer, pa.types.is_floating, is_text)


@dataclass(frozen=True, slots=True)
class Member(Column):
    """A value inside of the JSON of a column, as one of the functions takes it that indices go by."""

    keys: tuple[str, ...] = ()
    """The names that lead to it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and whether more rows may answer to it than are wanted."""

    question: Question
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Lookup:
    """Conditions on one column that an index may know."""

    conditions: tuple[Expr, ...]
    """What is asked to be true, as the filter has it."""
    column: Column
    asked: tuple[Asked, ...]
    """Each is a bound of its own: a row must answer to all."""
    negated: bool
    """Rows are wanted for which the question is false."""


@dataclass(frozen=True, slots=True)
class Constant:
    """True for all rows, or for none."""

    value: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """Rows that are in all parts."""

    parts: tuple[Shape, ...]
    complete: bool
    """Whether the parts are all there is, or some condition is left to the scan."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Rows that are in some part."""

    parts: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Opposite:
    """Rows for which the part is not true: false or null."""

    part: Shape


Shape: TypeAlias = Lookup | Constant | AllOf | AnyOf | Opposite
Usable: TypeAlias = Callable[[Column, Question], bool]
"""Whether somebody answers such a question about a column."""


def shape_of(expr: Expr, usable: Usable, *, wanted: bool = True) -> Shape | None:
    """What can be asked about the rows for which ``expr`` is true, or false when not ``wanted``; None for nothing."""
    match expr:
        case Not(arg):
            return shape_of(arg, usable, wanted=not wanted)
        case And(args) | Or(args):
            shapes = [shape_of(arg, usable, wanted=wanted) for arg in args]
            return _all_of(shapes) if isinstance(expr, And) == wanted else _any_of(shapes)
        case Call("is_true" | "is_false" as name, (arg,)):
            inner = shape_of(arg, usable, wanted=name == "is_true")
            return inner if wanted else _opposite(inner)
        case Literal(value):
            return Constant(value is wanted)
        case _:
            return _lookup(expr, usable, wanted)


def _all_of(shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape of an AND; ranges of one column become one."""
    known = [shape for shape in shapes if shape is not None and shape != Constant(True)]
    if Constant(False) in known:
        return Constant(False)
    complete = None not in shapes
    if not known:
        return Constant(True) if complete else None
    parts = tuple(fused(known))
    return parts[0] if len(parts) == 1 and complete else AllOf(parts, complete)


def _any_of(shapes: Sequence[Shape | None]) -> Shape | None:
    if Constant(True) in shapes:
        return Constant(True)
    if None in shapes:
        return None
    parts = tuple(shape for shape in shapes if shape is not None and shape != Constant(False))
    return Constant(False) if not parts else parts[0] if len(parts) == 1 else AnyOf(parts)


def _opposite(shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    return Constant(not shape.value) if isinstance(shape, Constant) else Opposite(shape)


def fused(shapes: Iterable[Shape]) -> list[Shape]:
    """Two comparisons of one column that bound it from both sides are one range."""
    kept: list[Shape] = []
    for shape in shapes:
        for at, other in enumerate(kept):
            both = _range(other, shape)
            if both is not None:
                kept[at] = both
                break
        else:
            kept.append(shape)
    return kept


def _range(left: Shape, right: Shape) -> Shape | None:
    low, high = _bound(left), _bound(right)
    if low is None or high is None or not isinstance(left, Lookup) or not isinstance(right, Lookup):
        return None
    if left.column != right.column or (low.low is None) == (high.low is None):
        return None
    if low.low is None:
        low, high = high, low
    assert low.low is not None
    assert high.high is not None
    first, last = _comparable(low.low), _comparable(high.high)
    if first > last or (first == last and not (low.with_low and high.with_high)):
        return Constant(False)
    question = Between(low.low, high.high, low.with_low, high.with_high)
    return Lookup(left.conditions + right.conditions, left.column, (Asked(question),), negated=False)


def _bound(shape: Shape) -> Between | None:
    """The half-open range that is asked for, if that is all."""
    if not isinstance(shape, Lookup) or shape.negated or len(shape.asked) != 1:
        return None
    question = shape.asked[0].question
    if isinstance(question, Between) and (question.low is None) != (question.high is None):
        return question
    return None


def _comparable(scalar: pa.Scalar) -> Any:
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()


def _lookup(expr: Expr, usable: Usable, wanted: bool) -> Shape | None:
    found = _questions(_with_member(expr), wanted)
    if found is None or isinstance(found, Constant):
        return found
    column, asked, negated = found
    asked = tuple(one for one in asked if usable(column, one.question))
    return Lookup((expr if wanted else Not(expr),), column, asked, negated) if asked else None


def _with_member(expr: Expr) -> Expr:
    """A condition on something inside of JSON, as one on a column."""
    match expr:
        case Call(name) if name in GETTERS:
            return _member(expr) or expr
        case Compare(op, arg, other) if (member := _member(arg)) is not None:
            return Compare(op, member, other)
        case In(arg, values) if (member := _member(arg)) is not None:
            return In(member, values)
        case Like(arg, pattern, ignore_case) if (member := _member(arg)) is not None:
            return Like(member, pattern, ignore_case)
        case IsNull(arg) if (member := _member(arg)) is not None:
            return IsNull(member)
        case Call(name, (first, *rest), kind) if name in _CALLS and (member := _member(first)) is not None:
            return Call(name, (member, *rest), kind)
    return expr


def _member(expr: Expr) -> Member | None:
    """``json_get_int(json_get(j, 'a'), 'b')`` as the member a.b of j."""
    if not isinstance(expr, Call) or expr.name not in GETTERS:
        return None
    keys: list[str] = []
    inner: Expr = expr
    while isinstance(inner, Call) and (inner is expr or inner.name == "json_get"):
        key = inner.args[1]
        if not isinstance(key, Literal) or not isinstance(key.value, str):
            return None
        keys.insert(0, key.value)
        inner = inner.args[0]
    return Member(inner.path, expr.type, keys=tuple(keys)) if isinstance(inner, Column) else None


_Found: TypeAlias = tuple[Column, tuple[Asked, ...], bool]


def _questions(expr: Expr, wanted: bool) -> _Found | Constant | None:
    """The column, what to ask, and whether the answer is to be turned round."""
    match expr:
        case Column() if pa.types.is_boolean(expr.type):
            return expr, (Asked(IsIn(pa.array([wanted]))),), False
        case IsNull(Column() as column):
            return column, (Asked(Missing()),), not wanted
        case Compare(op, Column() as column, Literal() as literal):
            if literal.value is None:
                return Constant(False)
            return _comparison(op if wanted else _OPPOSITE[op], column, literal)
        case In(Column() as column, values):
            return _membership(column, values.array, wanted)
        case Like(Column() as column, Literal(pattern), ignore_case):
            if pattern is None:
                return Constant(False)
            if ignore_case or not is_text(column.type):
                return None
            asked = _pattern_questions(str(pattern), column.type)
            return (column, asked, not wanted) if asked else None
        case Call(name, (Column() as column, Literal() as literal)) if name in _CALLS:
            if literal.value is None:
                return Constant(False)
            question = _CALLS[name](column, literal)
            return None if question is None else (column, (question,), not wanted)
        case Call(name, (Column() as column, _, other, _)) | Call(name, (other, _, Column() as column, _)) if (
            name in MEETING
        ):
            box = constant_box(other)
            return None if box is None else (column, (Asked(Overlaps(*box), loose=True),), not wanted)
        case Call(name, (Cast(Column() as column), Literal() as literal), kind) if name.startswith("array_has"):
            narrowed = _narrowed(literal, column.type)
            return None if narrowed is None else _questions(Call(name, (column, narrowed), kind), wanted)
    return None


def _narrowed(literal: Literal, lists: pa.DataType) -> Literal | None:
    """An item, or a list of items, in the type of the lists that are looked at; None when it has no such value.

    The filter widens the lists instead, which keeps all values where both are integers, floats or texts.
    """
    many = is_list_like(literal.type)
    origin = literal.type.value_type if many else literal.type
    if not is_list_like(lists) or not any(test(origin) and test(lists.value_type) for test in _WIDENED):
        return None
    kind = lists.value_type
    items = literal.value if many else (literal.value,)
    if not isinstance(items, tuple) or None in items:
        return None
    placed = [place(Literal(item, origin), kind) for item in items]
    values = tuple(one.value for one in placed if one is not None and one.exact)
    if len(values) < len(items):
        return None
    return Literal(values, pa.list_(kind)) if many else Literal(values[0], kind)


def _comparison(op: str, column: Column, literal: Literal) -> _Found | None:
    dtype = compared_type(column.type)
    if literal.type != dtype or is_list_like(column.type) or _is_nan(literal.value):
        return None
    value = to_scalar(literal)
    question: Question
    if op in ("=", "!="):
        question = IsIn(_array([value], dtype))
    elif op in (">", ">="):
        question = Between(value, None, with_low=op == ">=")
    else:
        question = Between(None, value, with_high=op == "<=")
    return column, (Asked(question),), op == "!="


def _membership(column: Column, values: pa.Array, wanted: bool) -> _Found | Constant | None:
    if values.type != compared_type(column.type) or is_list_like(column.type):
        return None
    if values.null_count and not wanted:
        # A value is among them, or nobody knows: NOT IN is never true.
        return Constant(False)
    some = distinct(values.drop_null())
    if not len(some):
        return Constant(False) if wanted else (column, (Asked(Missing()),), True)
    if pa.types.is_floating(some.type) and pc.any(pc.is_nan(some.cast(pa.float64()))).as_py():
        return None
    return column, (Asked(IsIn(some)),), not wanted


def _pattern_questions(pattern: str, dtype: pa.DataType) -> tuple[Asked, ...]:
    """What a LIKE asks for at least."""
    runs = _literal_runs(pattern)
    if runs is None:
        return ()
    if len(runs) == 1:
        return (Asked(IsIn(pa.array([runs[0]], dtype))),)
    if len(runs) == 2 and not runs[1] and pattern.endswith("%"):
        return (Asked(StartsWith(runs[0])),) if runs[0] else ()
    asked = [Asked(StartsWith(runs[0]), loose=True)] if runs[0] else []
    pieces = tuple(run for run in runs if run)
    if pieces:
        asked.append(Asked(Holds(pieces, exact=False), loose=True))
    return tuple(asked)


def _literal_runs(pattern: str) -> list[str] | None:
    """The texts between the wildcards of a LIKE; None when it has escapes that mean nothing."""
    runs, current, at = [], "", 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
            if at == len(pattern) or pattern[at] not in (*_WILDCARDS, "\\"):
                return None
            current += pattern[at]
        elif char in _WILDCARDS:
            runs.append(current)
            current = ""
        else:
            current += char
        at += 1
    return [*runs, current]


def _starts_with(column: Column, literal: Literal) -> Asked | None:
    return Asked(StartsWith(str(literal.value))) if is_text(column.type) and literal.value else None


def _contains(column: Column, literal: Literal) -> Asked | None:
    return Asked(Holds((str(literal.value),), exact=True)) if is_text(column.type) and literal.value else None


def _ends_with(column: Column, literal: Literal) -> Asked | None:
    if not is_text(column.type) or not literal.value:
        return None
    return Asked(Holds((str(literal.value),), exact=False), loose=True)


def _has_item(column: Column, literal: Literal) -> Asked | None:
    if not is_list_like(column.type) or column.type.value_type != literal.type or _is_nan(literal.value):
        return None
    return Asked(HasItems(_array([to_scalar(literal)], literal.type), every=False))


def _has_items(every: bool) -> Callable[[Column, Literal], Asked | None]:
    def asked(column: Column, literal: Literal) -> Asked | None:
        items = literal.value
        if not isinstance(items, tuple) or not items or None in items or any(map(_is_nan, items)):
            return None
        if not is_list_like(column.type) or column.type.value_type != literal.type.value_type:
            return None
        dtype = literal.type.value_type
        return Asked(HasItems(distinct(_array([to_scalar(Literal(item, dtype)) for item in items], dtype)), every))

    return asked


_CALLS: dict[str, Callable[[Column, Literal], Asked | None]] = {
    "starts_with": _starts_with,
    "ends_with": _ends_with,
    "contains": _contains,
    "array_has": _has_item,
    "array_has_any": _has_items(every=False),
    "array_has_all": _has_items(every=True),
}


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _array(scalars: list[pa.Scalar], dtype: pa.DataType) -> pa.Array:
    if len(scalars) == 1 and scalars[0].type == dtype:
        # Without a look for pandas, which a process may have to import first.
        return pa.repeat(scalars[0], 1)
    return pa.array(scalars, dtype)


def compared_type(dtype: pa.DataType) -> pa.DataType:
    """The type of the values that a column is compared with: those of a dictionary, not their numbers."""
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def asked_type(question: Question) -> pa.DataType | None:
    """The type of the values in a question; None when it has none."""
    match question:
        case IsIn(values):
            return values.type
        case Between(low, high):
            bound = high if low is None else low
            return None if bound is None else bound.type
        case HasItems(items):
            return items.type
    return None


def lookups(shape: Shape) -> Iterable[Lookup]:
    """All lookups of a shape."""
    match shape:
        case Lookup():
            yield shape
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from lookups(part)
        case Opposite(part):
            yield from lookups(part)


def weight(shape: Shape) -> int:
    """How many rows are likely to be in it: those with few are worth asking for first."""
    if isinstance(shape, (AllOf, Constant)):
        return 3 if isinstance(shape, AllOf) else 0
    if not isinstance(shape, Lookup):
        return 4
    if shape.negated:
        return 6
    question = shape.asked[0].question
    if isinstance(question, Between):
        return 5 if question.low is None or question.high is None else 2
    return 0 if isinstance(question, IsIn) and not pa.types.is_boolean(type_of(shape.column)) else 1
