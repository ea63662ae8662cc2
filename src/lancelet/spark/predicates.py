"""Conditions that Spark pushes down, as expressions of ours.

They come from the bridge as JSON::

    ["and", p, p, ...]   ["or", p, p, ...]   ["not", p]   ["true"]   ["false"]
    [op, ["col", name, ...], ["lit", Spark type, text or null]]      op: = != < <= > >= <=>
    ["in", ["col", ...], [literal, ...]]
    ["is_null", ["col", ...]]   ["is_not_null", ["col", ...]]
    ["starts_with" | "ends_with" | "contains", ["col", ...], literal]
    ["match", function, [["col", ...] or literal, ...]]      in scans only: see lancelet.spark.search.match

The bridge hands over what means exactly the same here and in Spark, which does not
check it again. Columns whose values change on their way to Spark (cut nanoseconds,
JSON, numbers as text) are not among it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.execution.plan import visible_schema
from lancelet.expressions import build
from lancelet.expressions.expr import Expr, Literal, type_of

if TYPE_CHECKING:
    from lancelet.format.schema import Schema

_TEXTS = ("starts_with", "ends_with", "contains")
_MICROS = {"s": 10**6, "ms": 10**3}
"""In units of timestamps that have fewer digits than Spark's."""


def _compared(operator: str, column: Expr, literal: Literal) -> Expr:
    below = _tick_below(column, literal)
    if below is not None:
        return _compared_between(operator, column, below)
    if operator == "<=>":
        return build.same(column, literal)
    if operator in _TEXTS:
        return build.call(operator, [column, literal])
    return build.compare(operator, column, literal)


def _tick_below(column: Expr, literal: Literal) -> Literal | None:
    """The last time that a column can have before one that has more digits; None where it can have the same."""
    kind = type_of(column)
    if literal.value is None or not (pa.types.is_timestamp(kind) and pa.types.is_timestamp(literal.type)):
        return None
    assert isinstance(literal.value, int)
    ticks, rest = divmod(literal.value, _MICROS.get(kind.unit, 1))
    return Literal(ticks, kind) if rest else None


def _compared_between(operator: str, column: Expr, below: Literal) -> Expr:
    """A comparison with a time between two ticks of a column: filters cut the time to a tick, and Spark does not."""
    before, after = build.compare("<=", column, below), build.compare(">", column, below)
    match operator:
        case "<" | "<=":
            return before
        case ">" | ">=":
            return after
        case "=":
            return build.all_of([before, after])
        case "!=":
            return build.any_of([before, after])
    return build.FALSE


def _among(column: Expr, literals: list[Literal]) -> Expr:
    """IN: one of the values, of which a column may not be able to have some."""
    between = [below for below in (_tick_below(column, literal) for literal in literals) if below is not None]
    if not between:
        return build.in_list(column, literals)
    kept = [literal for literal in literals if _tick_below(column, literal) is None]
    never = _compared_between("=", column, between[0])
    return build.any_of([build.in_list(column, kept), never]) if kept else never


Match = Callable[[Any], Expr]
"""What says for which rows a condition on texts is true."""


def from_json(text: str, schema: Schema) -> Expr:
    """What the bridge pushed down.

    Examples
    --------
    >>> from lancelet.format.schema import schema_from_arrow
    >>> columns = schema_from_arrow(pa.schema({"a": pa.int32()}))
    >>> str(from_json('["not", [">", ["col", "a"], ["lit", "integer", "10"]]]', columns))
    'NOT (a > 10)'
    """
    return parsed(json.loads(text), schema)


def parsed(node: Any, schema: Schema, match: Match | None = None) -> Expr:
    """A condition that was read; in a scan it may have texts in it that have to match."""
    return _parsed(node, visible_schema(schema), match)


def _parsed(node: Any, visible: pa.Schema, find: Match | None) -> Expr:
    match node:
        case ["and", *parts]:
            return build.all_of([_parsed(part, visible, find) for part in parts])
        case ["or", *parts]:
            return build.any_of([_parsed(part, visible, find) for part in parts])
        case ["not", part]:
            return build.negation(_parsed(part, visible, find))
        case ["true"]:
            return build.TRUE
        case ["false"]:
            return build.FALSE
        case ["is_null", ["col", *path]]:
            return build.is_null(build.column(visible, path))
        case ["is_not_null", ["col", *path]]:
            return build.negation(build.is_null(build.column(visible, path)))
        case ["in", ["col", *path], [*literals]]:
            return _among(build.column(visible, path), [_parsed_literal(x) for x in literals])
        case ["match", str(), [*_]] if find is not None:
            return find(node)
        case [str() as operator, ["col", *path], literal]:
            return _compared(operator, build.column(visible, path), _parsed_literal(literal))
    raise InvalidInput(f"a condition {node!r} came from the bridge; its jar is of another version of lancelet")


_VALUES: Mapping[str, tuple[pa.DataType, Callable[[str], Any]]] = {
    "boolean": (pa.bool_(), lambda text: text == "true"),
    "byte": (pa.int8(), int),
    "short": (pa.int16(), int),
    "integer": (pa.int32(), int),
    "long": (pa.int64(), int),
    "float": (pa.float32(), lambda text: float(np.float32(text))),
    "double": (pa.float64(), float),
    "string": (pa.string(), str),
    "binary": (pa.binary(), base64.b64decode),
    "date": (pa.date32(), int),
    "timestamp": (pa.timestamp("us", "UTC"), int),
    "timestamp_ntz": (pa.timestamp("us"), int),
}


def _parsed_literal(node: Any) -> Literal:
    match node:
        case ["lit", str() as name, str() | None as text]:
            if name.startswith("decimal("):
                precision, scale = (int(part) for part in name[len("decimal(") : -1].split(","))
                return Literal(None if text is None else Decimal(text), pa.decimal128(precision, scale))
            if name in _VALUES:
                kind, read = _VALUES[name]
                return Literal(None if text is None else read(text), kind)
    raise InvalidInput(f"a literal {node!r} came from the bridge; its jar is of another version of lancelet")
