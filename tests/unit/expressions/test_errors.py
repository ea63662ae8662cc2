"""Whatever is asked of whatever type: an answer or an error of our own, never one of Arrow or sqlglot."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.errors import InvalidInput, LanceletError
from lancelet.expressions.casting import can_cast, cast_datum
from lancelet.expressions.evaluate import evaluate, mask
from lancelet.expressions.functions import FUNCTIONS, REWRITTEN
from lancelet.expressions.sql import parse_expression, parse_filter

NOON = dt.datetime(2020, 1, 1, 12)
COLUMNS = {
    "n": pa.nulls(3),
    "b": pa.array([True, None, False]),
    "i8": pa.array([1, None, -128], pa.int8()),
    "u64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "i64": pa.array([1, None, -(2**63)], pa.int64()),
    "f16": pa.array([1.5, None, float("nan")], pa.float16()),
    "f32": pa.array([1.5, None, float("inf")], pa.float32()),
    "f64": pa.array([1.5, None, 1e300], pa.float64()),
    "dec": pa.array([Decimal("1.5"), None, Decimal("-9999.99")], pa.decimal128(6, 2)),
    "dec256": pa.array([Decimal("1.5"), None, Decimal(10) ** 40], pa.decimal256(50, 2)),
    "s": pa.array(["1", None, "x"]),
    "ls": pa.array(["2020-01-01", None, ""], pa.large_string()),
    "sv": pa.array(["1", None, "x"], pa.string_view()),
    "bin": pa.array([b"1", None, b"\xff"]),
    "lbin": pa.array([b"1", None, b"\xff"], pa.large_binary()),
    "bv": pa.array([b"1", None, b"\xff"], pa.binary_view()),
    "fsb": pa.array([b"12", None, b"\xff\xff"], pa.binary(2)),
    "d32": pa.array([NOON.date(), None, dt.date(1, 1, 1)]),
    "d64": pa.array([NOON.date(), None, dt.date(1, 1, 1)], pa.date64()),
    "ts": pa.array([NOON, None, dt.datetime(1, 1, 1)], pa.timestamp("us")),
    "tns": pa.array([NOON, None, dt.datetime(1969, 1, 1)], pa.timestamp("ns")),
    "tz": pa.array([NOON, None, dt.datetime(1, 1, 2)], pa.timestamp("s", "Europe/Paris")),
    "t32": pa.array([dt.time(1), None, dt.time(0)], pa.time32("s")),
    "t64": pa.array([dt.time(1), None, dt.time(0)], pa.time64("ns")),
    "dur": pa.array([1, None, -1], pa.duration("ms")),
    "dic": pa.array(["1", None, "x"]).dictionary_encode(),
    "l": pa.array([[1], None, []], pa.list_(pa.int64())),
    "ll": pa.array([["1"], None, []], pa.large_list(pa.string())),
    "fsl": pa.array([[1.5], None, [2.5]], pa.list_(pa.float32(), 1)),
    "p": pa.array([{"x": 1}, None, {"x": None}]),
    "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None, b"1" * 16], pa.binary(16))),
}
BATCH = pa.record_batch(COLUMNS)
LITERALS = [
    "NULL",
    "TRUE",
    "1",
    "-1.5",
    "1e300",
    "'x'",
    "'2020-01-01'",
    "X'00'",
    "DATE '2020-01-01'",
    "TIMESTAMP '2020-01-01'",
    "[1]",
    "[]",
]


def attempt(text: str) -> bool:
    try:
        result = evaluate(parse_expression(text, BATCH.schema), BATCH)
    except LanceletError as error:
        assert str(error)
        return False
    result.validate(full=True)
    assert len(result) == len(BATCH)
    return True


@pytest.mark.spread(0.4)
@pytest.mark.slow
@pytest.mark.parametrize("op", ["=", "<", ">=", "+", "-", "/", "%", "||", "<<", "LIKE", "IS DISTINCT FROM", "AND"])
def test_every_operator_on_every_pair_of_types(op: str):
    pairs = itertools.product(COLUMNS, [*COLUMNS, *LITERALS])
    assert sum(attempt(f"{left} {op} {right}") for left, right in pairs) >= 5


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *REWRITTEN}))
@pytest.mark.spread(0.4, each=False)
def test_every_function_on_some_types(name: str):
    attempt(f"{name}()")
    attempt_on(name, [*COLUMNS, *LITERALS][len(name) % 6 :: 6])


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *REWRITTEN}))
def test_every_function_on_every_type(name: str):
    attempt_on(name, [*COLUMNS, *LITERALS])


def attempt_on(name: str, arguments: list[str]) -> None:
    for first in arguments:
        attempt(f"{name}({first})")
        for second in ("1", "'x'", "NULL", "s", "i8", first):
            attempt(f"{name}({first}, {second})")
        attempt(f"{name}('year', {first})")
        attempt(f"{name}({first}, 'x', s)")
        attempt(f"{name}({first}, i8, 2)")


@pytest.mark.parametrize(
    "form",
    [
        "{0} IN ({1}, NULL)",
        "{0} BETWEEN {1} AND {1}",
        "{0}[{1}]",
        "CASE WHEN b THEN {0} ELSE {1} END",
        "NOT {0} IS TRUE",
    ],
)
def test_every_form_on_every_type(form: str):
    for first, second in itertools.product(COLUMNS, [*COLUMNS, *LITERALS]):
        attempt(form.format(first, second))


def test_a_cast_gives_the_wanted_type_or_our_error():
    for origin, kind in itertools.product(COLUMNS.values(), [column.type for column in COLUMNS.values()]):
        if isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind) or pa.types.is_null(kind):
            continue
        if not can_cast(origin.type, kind):
            continue
        for lenient in (False, True):
            try:
                result = cast_datum(origin, kind, lenient)
            except InvalidInput:
                continue
            assert result.type == kind
            assert len(result) == len(origin)
            result.validate(full=True)


WORDS = [
    *"()[],.+-*/%=<>!&|^~:;?@$`'\"\\ ",
    "a",
    "s",
    "b",
    "1",
    "2.5",
    "'x'",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS",
    "NULL",
    "LIKE",
    "BETWEEN",
]
WORDS += [
    "CASE",
    "WHEN",
    "THEN",
    "END",
    "CAST(",
    "AS",
    "INT",
    "SELECT",
    "FROM",
    "length(",
    "::",
    "--",
    "/*",
    "é",
    "\n",
    "\0",
    "TRUE",
    "X'",
]


@settings(max_examples=examples(500), deadline=None)
@example("ELSE")
@given(st.one_of(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), st.text(max_size=30)))
def test_any_text_is_parsed_or_refused(text: str):
    schema = pa.schema({"a": pa.int64(), "s": pa.string(), "b": pa.bool_()})
    try:
        expr = parse_filter(text, schema)
    except LanceletError:
        return
    batch = pa.record_batch({"a": [1, None], "s": ["x", None], "b": [True, None]}, schema=schema)
    try:
        mask(expr, batch)
    except InvalidInput:
        return
    assert parse_filter(str(expr), schema) == expr
