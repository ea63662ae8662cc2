"""Builders that turn loosely typed parts into well-typed expressions.

SQL text, pyarrow expressions and any other front end go through these. They
put literals into their column's type, insert casts, fold constants, flatten
AND and OR, and refuse what cannot be computed, in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import sequence_array
from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.expressions.casting import can_cast
from lancelet.expressions.coercion import common_type, describe, is_list_like, is_number, is_text, value_type
from lancelet.expressions.comparing import FLIPPED
from lancelet.expressions.evaluate import fold
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
    ValueSet,
    children_of,
    is_plain,
    type_of,
)
from lancelet.expressions.functions import FUNCTIONS
from lancelet.expressions.literals import Placed, integer_range, place
from lancelet.expressions.nested_order import has_order
from lancelet.expressions.signature import coerce
from lancelet.format.logical_types import EXTENSION_NAME
from lancelet.format.schema import join_path
from lancelet.format.system_columns import SYSTEM_FIELDS

__all__ = [
    "all_of",
    "any_of",
    "between",
    "call",
    "cast",
    "column",
    "compare",
    "condition",
    "field_of",
    "in_list",
    "is_null",
    "like",
    "narrowed",
    "negation",
    "same",
    "value_set",
]

TRUE, FALSE, UNKNOWN = (Literal(value, pa.bool_()) for value in (True, False, None))


def column(schema: pa.Schema, path: Sequence[str], exact: bool = False, qualified: bool = False) -> Column:
    """The column at ``path``.

    The first name is matched exactly, else without regard to case unless
    ``exact``; the names of struct fields are always matched exactly.
    Where the first name is that of a table, ``qualified``, the second one is matched like it.
    """
    name = path[0]
    index = schema.get_field_index(name)
    if index < 0 and not exact and name not in SYSTEM_FIELDS:
        index = _in_any_case(schema.names, name)
    if index >= 0:
        root = _column_of((), schema.field(index))
    elif name in SYSTEM_FIELDS:
        root = Column((name,), SYSTEM_FIELDS[name].type)
    else:
        raise UnknownColumn(name, [*schema.names, *SYSTEM_FIELDS])
    for depth, part in enumerate(path[1:]):
        root = field_of(root, part, any_case=qualified and depth == 0)
    return root


def _in_any_case(names: Iterable[str], name: str) -> int:
    """The place of the first of some names that is this one but for its case, or -1."""
    return next((at for at, known in enumerate(names) if known.lower() == name.lower()), -1)


def field_of(parent: Column, name: str, any_case: bool = False) -> Column:
    """A field of a struct column."""
    kind = value_type(parent.type)
    path = join_path(parent.path)
    if not pa.types.is_struct(kind):
        raise InvalidInput(f"'{path}' is {describe(kind)} and has no field '{name}'")
    index = kind.get_field_index(name)
    if index < 0 and any_case:
        index = _in_any_case((kind.field(i).name for i in range(kind.num_fields)), name)
    if index < 0:
        known = [join_path([*parent.path, kind.field(i).name]) for i in range(kind.num_fields)]
        raise UnknownColumn(join_path([*parent.path, name]), known, f"the struct '{path}'")
    return _column_of(parent.path, kind.field(index))


def _column_of(path: tuple[str, ...], field: pa.Field) -> Column:
    if isinstance(field.type, pa.BaseExtensionType):
        return Column((*path, field.name), field.type, field.type.extension_name)
    name = (field.metadata or {}).get(EXTENSION_NAME.encode(), b"")
    return Column((*path, field.name), field.type, name.decode(errors="replace"))


def _folded(expr: Expr) -> Expr:
    """A literal in place of an expression on literals, if literals can be of its type."""
    if is_plain(type_of(expr)) and all(isinstance(part, Literal) for part in children_of(expr)):
        return expr if isinstance(expr, Call) and FUNCTIONS[expr.name].volatile else fold(expr)
    return expr


def call(name: str, args: Sequence[Expr], narrow: bool = False) -> Expr:
    """A function call. ``narrow`` puts a number next to a column into the column's type, as pylance does
    for arithmetic at the top of a projection."""
    arguments = list(args)
    if name == "get_field" and len(args) == 2 and isinstance(args[0], Column) and isinstance(args[1], Literal):
        return field_of(args[0], str(args[1].value))
    if narrow and len(arguments) == 2:
        left, right = args
        arguments = [narrowed(left, right), narrowed(right, left)]
    bound, kind = FUNCTIONS[name].bind(name, arguments)
    return _folded(Call(name, tuple(bound), kind))


def narrowed(expr: Expr, beside: Expr) -> Expr:
    """A number in the type of the column beside it, if the column has such a value."""
    if not isinstance(expr, Literal) or not isinstance(beside, Column) or expr.value is None:
        return expr
    kind = value_type(beside.type)
    if is_number(kind) and (pa.types.is_integer(expr.type) or pa.types.is_floating(kind)):
        placed = place(expr, kind, narrow=True)
        if placed is not None and placed.exact:
            return Literal(placed.value, kind)
    return expr


def cast(arg: Expr, kind: pa.DataType, lenient: bool = False) -> Expr:
    """CAST or, when lenient, TRY_CAST."""
    origin = type_of(arg)
    if origin == kind:
        return arg
    if not can_cast(origin, kind):
        raise InvalidInput(f"cannot cast {describe(value_type(origin))} ({arg}) to {describe(kind)}")
    return _folded(Cast(arg, kind, lenient))


def condition(expr: Expr) -> Expr:
    """``expr`` where something true or false is needed."""
    kind = type_of(expr)
    if pa.types.is_null(kind):
        return UNKNOWN
    if isinstance(expr, Call) and expr.name == "regexp_match":
        return negation(is_null(expr))
    if not pa.types.is_boolean(value_type(kind)):
        raise InvalidInput(f"{expr} gives {describe(value_type(kind))}, but a condition must be true or false")
    return expr


def negation(expr: Expr) -> Expr:
    """NOT."""
    expr = condition(expr)
    if isinstance(expr, Not):
        return expr.arg
    return _folded(Not(expr))


def is_null(expr: Expr) -> Expr:
    """IS NULL."""
    if isinstance(expr, Call) and expr.name == "regexp_match":
        # No match is null; testing for a match is much cheaper than taking its groups.
        return negation(call("is_true", [call("regexp_like", expr.args)]))
    return _folded(IsNull(expr))


def all_of(parts: Iterable[Expr]) -> Expr:
    """AND of any number of parts."""
    kept = [part for part in _flattened(parts, And) if part != TRUE]
    if FALSE in kept:
        return FALSE
    return And(tuple(kept)) if len(kept) > 1 else kept[0] if kept else TRUE


def any_of(parts: Iterable[Expr]) -> Expr:
    """OR of any number of parts; equalities on the same operand become one IN."""
    kept = _merged([part for part in _flattened(parts, Or) if part != FALSE])
    if TRUE in kept:
        return TRUE
    return Or(tuple(kept)) if len(kept) > 1 else kept[0] if kept else FALSE


def _flattened(parts: Iterable[Expr], kind: type[And] | type[Or]) -> list[Expr]:
    flat: list[Expr] = []
    for part in parts:
        checked = condition(part)
        if isinstance(checked, kind):
            flat.extend(checked.args)
        else:
            flat.append(checked)
    return flat


def _merged(parts: list[Expr]) -> list[Expr]:
    """``x = 1 OR x IN (2, 3)`` is ``x IN (1, 2, 3)``: the same for null too, and one lookup instead of many."""
    groups: dict[Expr, list[Compare | In]] = {}
    for part in parts:
        if _is_equality(part):
            groups.setdefault(children_of(part)[0], []).append(part)
    kept: list[Expr] = []
    for part in parts:
        group = groups.get(children_of(part)[0], []) if _is_equality(part) else []
        if len(group) < 2:
            kept.append(part)
        elif group[0] is part:
            operand = children_of(part)[0]
            values = [literal.value for member in group for literal in _values_of(member)]
            kept.append(In(operand, value_set(values, value_type(type_of(operand)))))
    return kept


def _is_equality(part: Expr) -> TypeGuard[Compare | In]:
    """Whether all that ``part`` asks is that its operand equals one of some literals."""
    if isinstance(part, Compare) and part.op == "=" and isinstance(part.right, Literal):
        return part.right.value is not None and not is_list_like(part.right.type)
    return isinstance(part, In)


def _values_of(part: Compare | In) -> Iterable[Literal]:
    if isinstance(part, In):
        return part.values.literals()
    assert isinstance(part.right, Literal)
    return (part.right,)


def value_set(values: Sequence[object], kind: pa.DataType) -> ValueSet:
    """The values of an IN list, as storage values of ``kind``."""
    if pa.types.is_float16(kind):
        values = [None if value is None else np.float16(value) for value in values]  # type: ignore[arg-type]
    return ValueSet(sequence_array(values, kind))


def compare(op: str, left: Expr, right: Expr, narrow: bool = False) -> Expr:
    """``left op right``. ``narrow`` rounds a double literal to the precision of the float column beside it."""
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return compare(FLIPPED[op], right, left, narrow)
    _refuse_mixed(op, left, right)
    if isinstance(right, Literal) and not isinstance(left, Literal):
        return _compare_literal(op, left, right, narrow)
    kind = common_type(type_of(left), type_of(right))
    if kind is not None and pa.types.is_null(kind):
        return UNKNOWN
    if kind is None or not has_order(kind):
        raise _cannot_compare(op, left, right)
    return _folded(Compare(op, _meet(left, kind), _meet(right, kind)))


def _meet(expr: Expr, kind: pa.DataType) -> Expr:
    return expr if value_type(type_of(expr)) == kind else coerce(expr, kind)


def _cannot_compare(op: str, left: Expr, right: Expr) -> InvalidInput:
    kinds = (describe(value_type(type_of(side))) for side in (left, right))
    first, second = kinds
    return InvalidInput(f"cannot compare {left} ({first}) {op} {right} ({second}); CAST one side to the other's type")


def _refuse_mixed(op: str, left: Expr, right: Expr) -> None:
    """A text beside a number, or a truth value beside anything else, is a mistake more often than a wish."""
    kinds = [value_type(type_of(side)) for side in (left, right)]
    if pa.types.is_null(kinds[0]) or pa.types.is_null(kinds[1]):
        return
    if pa.types.is_boolean(kinds[0]) != pa.types.is_boolean(kinds[1]):
        raise _cannot_compare(op, left, right)
    if is_text(kinds[0]) and is_number(kinds[1]) and isinstance(right, Literal) and not isinstance(left, Literal):
        raise _cannot_compare(op, left, right)


def _compare_literal(op: str, left: Expr, literal: Literal, narrow: bool) -> Expr:
    left = _without_cast(left, literal)
    kind = value_type(type_of(left))
    if literal.value is None:
        return Compare(op, left, Literal(None, kind))
    placed = place(literal, kind, narrow)
    if placed is not None:
        return _compare_placed(op, left, placed, kind)
    common = common_type(kind, literal.type)
    if common is None or common == kind:
        raise _cannot_compare(op, left, literal)
    return Compare(op, _meet(left, common), coerce(literal, common))


def _without_cast(left: Expr, literal: Literal) -> Expr:
    """Comparing a cast integer is comparing the integer itself, which an index may know."""
    if not isinstance(left, Cast) or left.lenient:
        return left
    kinds = (literal.type, left.type, value_type(type_of(left.arg)))
    return left.arg if all(pa.types.is_integer(kind) for kind in kinds) else left


def _compare_placed(op: str, left: Expr, placed: Placed, kind: pa.DataType) -> Expr:
    if placed.exact:
        return Compare(op, left, Literal(placed.value, kind))
    if placed.side == 0 and op in ("<", "<=", ">", ">="):
        return Compare("<=" if op in ("<", "<=") else ">", left, Literal(placed.value, kind))
    always = op == "!=" or (op in ("<", "<=") and placed.side > 0) or (op in (">", ">=") and placed.side < 0)
    if always:
        return any_of([negation(is_null(left)), UNKNOWN])  # true, but null for null
    return all_of([is_null(left), UNKNOWN])  # false, but null for null


def same(left: Expr, right: Expr, narrow: bool = False) -> Expr:
    """IS NOT DISTINCT FROM: equal, or both null."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and one.value is None:
            return is_null(other)
    equal = call("is_true", [compare("=", left, right, narrow)])
    if isinstance(left, Literal) or isinstance(right, Literal):
        return equal
    return any_of([equal, all_of([is_null(left), is_null(right)])])


def between(arg: Expr, low: Expr, high: Expr, narrow: bool = False) -> Expr:
    """BETWEEN, both ends included."""
    return all_of([compare(">=", arg, low, narrow), compare("<=", arg, high, narrow)])


def like(arg: Expr, pattern: Expr, ignore_case: bool = False, escape: str | None = None) -> Expr:
    """LIKE and ILIKE; another escape character than the backslash is rewritten to it."""
    kind = value_type(type_of(arg))
    for side in (arg, pattern):
        side_kind = value_type(type_of(side))
        if not is_text(side_kind) and not pa.types.is_null(side_kind):
            raise InvalidInput(f"LIKE compares texts, not {describe(side_kind)} ({side})")
    if escape is not None and escape != "\\":
        if not isinstance(pattern, Literal):
            raise InvalidInput("LIKE ... ESCAPE needs a literal pattern")
        pattern = Literal(None if pattern.value is None else _escaped(str(pattern.value), escape), pa.string())
    if pa.types.is_null(kind):
        return UNKNOWN
    if isinstance(pattern, Literal):
        pattern = Literal(pattern.value, pa.string())
    return _folded(Like(arg, pattern, ignore_case))


def _escaped(pattern: str, escape: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape and at + 1 < len(pattern):
            at += 1
            parts.append("\\" + pattern[at])
        else:
            parts.append("\\\\" if char == "\\" else char)
        at += 1
    return "".join(parts)


def in_list(arg: Expr, items: Sequence[Expr], narrow: bool = False) -> Expr:
    """IN: literals become one set, other items an equality each."""
    literals = [item for item in items if isinstance(item, Literal)]
    if isinstance(arg, Literal) or is_list_like(value_type(type_of(arg))):
        return any_of([compare("=", arg, item, narrow) for item in items])
    others = [compare("=", arg, item) for item in items if not isinstance(item, Literal)]
    if others and not literals:
        return any_of(others)
    members = _in_literals(arg, literals, narrow)
    return any_of([members, *others]) if others else members


def _in_literals(arg: Expr, literals: list[Literal], narrow: bool) -> Expr:
    kind = value_type(type_of(arg))
    if pa.types.is_null(kind):
        return UNKNOWN
    values: list[object] = []
    if pa.types.is_integer(kind) and all(type(literal.value) is int for literal in literals):
        low, high = integer_range(kind)
        numbers = [literal.value for literal in literals]
        return In(arg, value_set([n for n in numbers if low <= n <= high], kind))  # type: ignore[operator]
    for literal in literals:
        if literal.type == kind or literal.value is None:
            values.append(literal.value)
            continue
        _refuse_mixed("IN", arg, literal)
        placed = place(literal, kind, narrow)
        if placed is None:
            raise _cannot_compare("IN", arg, literal)
        if placed.exact:
            values.append(placed.value)
    return In(arg, value_set(values, kind))
