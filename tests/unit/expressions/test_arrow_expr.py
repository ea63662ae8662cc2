"""pyarrow expressions into our own."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.expressions.arrow_expr import from_arrow
from lancelet.expressions.evaluate import evaluate, mask
from lancelet.expressions.expr import In

A, S = pc.field("a"), pc.field("s")
SCHEMA = pa.schema(
    {
        "a": pa.int32(),
        "u": pa.uint8(),
        "f": pa.float32(),
        "b": pa.bool_(),
        "s": pa.string(),
        "dur": pa.duration("s"),
        "t": pa.time64("us"),
        "dec": pa.decimal128(10, 2),
        "ts": pa.timestamp("ms", "UTC"),
        "fsb": pa.binary(2),
        "l": pa.list_(pa.int64()),
        "p": pa.struct({"x": pa.int32(), "q": pa.struct({"y": pa.string()})}),
    }
)


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (A > 1, "a > 1"),
        (A > 1.5, "a > 1"),
        (pc.scalar(1) < A, "a > 1"),
        ((A > 1) & (S == "x") & ~pc.field("b"), "a > 1 AND s = 'x' AND NOT b"),
        ((A == 1) | (A == 2) | (A == 3), "a IN (1, 2, 3)"),
        (~(A > 1), "NOT (a > 1)"),
        (A.isin([1, None, 3]), "a IN (1, NULL, 3)"),
        (S.isin(["x", "it's"]), "s IN ('x', 'it''s')"),
        (A.is_null(), "a IS NULL"),
        (A.is_valid(), "a IS NOT NULL"),
        (pc.field("f").is_null(nan_is_null=True), "f IS NULL OR isnan(f) IS TRUE"),
        (A + 1 > 2, "a + CAST(1 AS INT) > 2"),
        (A.cast(pa.float64()) > 0.5, "CAST(a AS DOUBLE) > 0.5"),
        (pc.field("u") > 300, "u IS NULL AND NULL"),
        (pc.field("dur") == dt.timedelta(seconds=90), "dur = arrow_cast(90, 'Duration(s)')"),
        (pc.field("t") == dt.time(0, 0, 1), "t = arrow_cast(1000000, 'Time64(µs)')"),
        (pc.field("dec") >= Decimal("1.5"), "dec >= arrow_cast('1.50', 'Decimal128(10, 2)')"),
        (pc.field("fsb") == b"ab", "fsb = X'6162'"),
        (pc.field("p", "q", "y") == "x", "p.q.y = 'x'"),
        (pc.struct_field(pc.field("p"), [1, 0]) == "x", "p.q.y = 'x'"),
        (pc.struct_field(pc.field("p"), "x") == 1, "p.x = 1"),
        (pc.starts_with(S, "x"), "starts_with(s, 'x')"),
        (pc.match_substring(S, "X", ignore_case=True), "contains(lower(s), 'x')"),
        (pc.match_substring_regex(S, "^x"), "regexp_like(s, '^x')"),
        (pc.match_like(S, "x%"), "s LIKE 'x%'"),
        (pc.utf8_upper(S) == "X", "upper(s) = 'X'"),
        (pc.list_element(pc.field("l"), 0) == 1, "l[1] = 1"),
        (pc.list_value_length(pc.field("l")) == 2, "array_length(l) = 2"),
        (pc.year(pc.field("ts")) == 2020, "date_part('year', ts) = 2020"),
        (pc.coalesce(A, 5) == 5, "coalesce(CAST(a AS BIGINT), 5) = 5"),
        (pc.scalar(True), "TRUE"),
    ],
    ids=str,
)
def test_conversion(expression: pc.Expression, sql: str):
    assert str(from_arrow(expression, SCHEMA)) == sql


def test_timestamps_keep_their_instant():
    noon = dt.datetime(2020, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    table = pa.table({"ts": pa.array([noon, noon + dt.timedelta(hours=2)], pa.timestamp("ms", "UTC"))})
    assert mask(from_arrow(pc.field("ts") == pa.scalar(noon), table.schema), table).to_pylist() == [True, False]


def test_if_else_is_null_for_an_unknown_condition():
    table = pa.table({"b": [True, False, None]})
    expr = from_arrow(pc.if_else(pc.field("b"), 1, 2), table.schema)
    assert evaluate(expr, table).to_pylist() == [1, 2, None]


def test_long_chains_are_one_node():
    expression = A == 0
    for value in range(1, 5000):
        expression = expression | (pc.field("a") == value)
    expr = from_arrow(expression, SCHEMA)
    assert isinstance(expr, In)
    assert len(expr.values) == 5000


def test_deep_trees_are_refused_in_words():
    expression = A > 0
    for value in range(500):
        expression = (expression & (S == "x")) | (pc.field("a") > value)
    with pytest.raises(InvalidInput, match="nested too deeply"):
        from_arrow(expression, SCHEMA)


@pytest.mark.parametrize(
    ("expression", "error", "words"),
    [
        (pc.field("nope") == 1, UnknownColumn, "'nope'"),
        (pc.field("A") == 1, UnknownColumn, "'A'"),
        (pc.field("p", "z") == 1, UnknownColumn, "'p.z'"),
        (pc.field(0) == 1, InvalidInput, "by name"),
        (S == 1, InvalidInput, "cannot compare"),
        (A == "x", InvalidInput, "not a value of type int32"),
        (pc.strptime(S, format="%Y", unit="s") == 1, InvalidInput, "strptime() is not supported"),
        ("a > 1", InvalidInput, "not str"),
    ],
    ids=str,
)
def test_what_is_refused(expression: pc.Expression, error: type[Exception], words: str):
    with pytest.raises(error) as caught:
        from_arrow(expression, SCHEMA)
    assert words in str(caught.value)
