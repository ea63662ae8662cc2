"""Expressions as SQL text that parses back to the same expression."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re

import pyarrow as pa

from lancelet.expressions.arrow_type_names import arrow_name
from lancelet.expressions.coercion import DAY, TICKS, is_bytes, is_number, is_text
from lancelet.expressions.expr import And, Call, Cast, Column, Compare, Expr, In, IsNull, Like, Literal, Not, Or
from lancelet.expressions.number_functions import SYMBOLS
from lancelet.expressions.type_names import sql_name

__all__ = ["quoted_path", "to_sql"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that cannot stand for a column without backticks.
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
        all and any as asc between by case cast collate cross cube current_date current_timestamp
        date desc distinct div else end escape except exists false for from full glob
        group having ilike in inner intersect interval into is isnull join left like limit
        natural not notnull null offset on or order outer over qualify regexp right rlike
        rollup rows select set similar some struct table then time timestamp true try_cast union
        unique unnest using values when where window with xor
        """,
    )
)
_OR, _AND, _NOT, _TEST, _JOIN, _BITS, _SUM, _PRODUCT, _ATOM = range(9)
_ARITHMETIC = {"add": _SUM, "subtract": _SUM, "multiply": _PRODUCT, "divide": _PRODUCT, "modulo": _PRODUCT}
_EPOCH = dt.date(1970, 1, 1).toordinal()


def to_sql(expr: Expr) -> str:
    """SQL text that parses back to the same expression.

    >>> to_sql(Compare(">=", Column(("a b", "c"), pa.int64()), Literal(5, pa.int64())))
    '`a b`.c >= 5'
    """
    if isinstance(expr, Literal) and expr.value is None and pa.types.is_boolean(expr.type):
        return "CAST(NULL AS BOOLEAN)"  # a bare NULL has no type
    return _text(expr, _OR)


def quoted_path(path: tuple[str, ...]) -> str:
    """A column path as SQL writes it, with backticks where they are needed."""
    return ".".join(_quoted(name) for name in path)


def _quoted(name: str) -> str:
    if _NAME.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def _text(expr: Expr, outer: int) -> str:
    """``expr`` with parentheses if it binds more loosely than its place allows."""
    text, level = _print(expr)
    return f"({text})" if level < outer else text


def _print(expr: Expr) -> tuple[str, int]:
    match expr:
        case Column(path):
            return quoted_path(path), _ATOM
        case Literal():
            return _literal(expr)
        case Or(args):
            return " OR ".join(_text(arg, _AND) for arg in args), _OR
        case And(args):
            return " AND ".join(_text(arg, _NOT) for arg in args), _AND
        case Not():
            return _negated(expr)
        case Compare(op, left, right):
            return f"{_text(left, _JOIN)} {op} {_text(right, _JOIN)}", _TEST
        case In(arg):
            return f"{_text(arg, _JOIN)} IN {_set(expr)}", _TEST
        case Like(arg, pattern, ignore_case):
            word = "ILIKE" if ignore_case else "LIKE"
            return f"{_text(arg, _JOIN)} {word} {_text(pattern, _JOIN)}", _TEST
        case IsNull(arg):
            return f"{_text(arg, _JOIN)} IS NULL", _TEST
        case Cast(arg, kind, lenient):
            name = sql_name(kind)
            if name is None:
                return f"arrow_{'try_' * lenient}cast({_text(arg, _OR)}, {_string(arrow_name(kind))})", _ATOM
            return f"{'TRY_CAST' if lenient else 'CAST'}({_text(arg, _OR)} AS {name})", _ATOM
        case Call():
            return _call(expr)


def _negated(expr: Not) -> tuple[str, int]:
    arg = expr.arg
    if isinstance(arg, IsNull):
        return f"{_text(arg.arg, _JOIN)} IS NOT NULL", _TEST
    if isinstance(arg, In):
        return f"{_text(arg.arg, _JOIN)} NOT IN {_set(arg)}", _TEST
    return f"NOT {_text(arg, _ATOM)}", _NOT


def _set(expr: In) -> str:
    return "(" + ", ".join(_literal(item)[0] for item in expr.values.literals()) + ")"


def _operand(expr: Expr, outer: int) -> str:
    """An operand of a function: nothing there gives a number its type, so the text must."""
    if isinstance(expr, Literal) and expr.value is not None and not isinstance(expr.value, decimal.Decimal):
        kind = expr.type
        if is_number(kind) and kind not in (pa.int64(), pa.float64()) and not _is_big(expr):
            return _text(Cast(expr, kind), outer)
    return _text(expr, outer)


def _is_big(expr: Literal) -> bool:
    return isinstance(expr.value, int) and expr.value >= 2**63


def _call(expr: Call) -> tuple[str, int]:
    name, args = expr.name, expr.args
    if name in _ARITHMETIC:
        level = _ARITHMETIC[name]
        return f"{_operand(args[0], level)} {SYMBOLS[name]} {_operand(args[1], level + 1)}", level
    if name in SYMBOLS:
        # Dialects disagree on how tightly these bind, so they take no part in precedence.
        return f"{_operand(args[0], _SUM)} {SYMBOLS[name]} {_operand(args[1], _SUM)}", _BITS
    if name == "||":
        return f"{_operand(args[0], _SUM)} || {_operand(args[1], _SUM)}", _JOIN
    if name == "negate":
        return f"-{_operand(args[0], _ATOM)}", _ATOM
    if name in ("is_true", "is_false"):
        return f"{_operand(args[0], _JOIN)} IS {name[3:].upper()}", _TEST
    if name == "case":
        return _case(args), _ATOM
    if name == "array_element" and isinstance(args[0], Column):
        return f"{_operand(args[0], _ATOM)}[{_operand(args[1], _OR)}]", _ATOM
    return f"{name}({', '.join(_operand(arg, _OR) for arg in args)})", _ATOM


def _case(args: tuple[Expr, ...]) -> str:
    pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
    branches = " ".join(f"WHEN {_operand(test, _OR)} THEN {_operand(value, _OR)}" for test, value in pairs)
    return f"CASE {branches} ELSE {_operand(args[-1], _OR)} END"


def _literal(expr: Literal) -> tuple[str, int]:
    value, kind = expr.value, expr.type
    if value is None:
        return "NULL", _ATOM
    if isinstance(value, bool):
        return str(value).upper(), _ATOM
    if pa.types.is_temporal(kind):
        assert isinstance(value, int)
        return _time_literal(value, kind), _ATOM
    if isinstance(value, tuple):
        return "[" + ", ".join(_literal(Literal(item, kind.value_type))[0] for item in value) + "]", _ATOM
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value), _ATOM if math.copysign(1, value) > 0 else _PRODUCT
        return f"CAST('{value}' AS {sql_name(kind) or 'DOUBLE'})", _ATOM
    if isinstance(value, str) and is_text(kind):
        return _string(value), _ATOM
    if isinstance(value, bytes) and is_bytes(kind):
        return f"X'{value.hex()}'", _ATOM
    if isinstance(value, decimal.Decimal):
        return f"arrow_cast('{value:f}', {_string(arrow_name(kind))})", _ATOM
    return str(value), _ATOM if isinstance(value, int) and value >= 0 else _PRODUCT


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _time_literal(value: int, kind: pa.DataType) -> str:
    if pa.types.is_date32(kind) and _is_writable(value):
        return f"DATE '{_date(value)}'"
    if pa.types.is_timestamp(kind) and kind.tz is None:
        seconds, fraction = divmod(value, TICKS[kind.unit])
        days, clock = divmod(seconds, DAY)
        if _is_writable(days):
            time = f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
            tail = f".{fraction:0{len(str(TICKS[kind.unit])) - 1}}" if fraction else ""
            return f"{sql_name(kind)} '{_date(days)} {time}{tail}'"
    return f"arrow_cast({value}, {_string(arrow_name(kind))})"


def _is_writable(days: int) -> bool:
    """Whether the date has a year of four digits."""
    return dt.date(1, 1, 1).toordinal() <= days + _EPOCH <= dt.date.max.toordinal()


def _date(days: int) -> dt.date:
    return dt.date.fromordinal(days + _EPOCH)
