"""SQL text into expressions: names, errors with places, limits."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from lancelet.errors import FilterSyntaxError, InvalidInput, UnknownColumn
from lancelet.expressions.evaluate import mask
from lancelet.expressions.expr import And, Call, Column, Compare, In, IsNull, Like, Literal, Not, Or, columns_of
from lancelet.expressions.sql import parse_expression, parse_filter

POINT = pa.struct({"x": pa.int32(), "Y": pa.string()})
SCHEMA = pa.schema(
    {
        "a": pa.int64(),
        "i8": pa.int8(),
        "f32": pa.float32(),
        "s": pa.string(),
        "ls": pa.large_string(),
        "d": pa.date32(),
        "Name": pa.string(),
        "a b": pa.int32(),
        "tick`ed": pa.int32(),
        "p": POINT,
        "l": pa.list_(pa.int64()),
        "comment": pa.string(),
        "dic": pa.dictionary(pa.int32(), pa.string()),
    }
)
A = Column(("a",), pa.int64())


def number(value: int) -> Literal:
    return Literal(value, pa.int64())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 1", Compare(">", A, number(1))),
        ("1 < a", Compare(">", A, number(1))),
        ("a == 1", Compare("=", A, number(1))),
        ("a BETWEEN 1 AND 2", And((Compare(">=", A, number(1)), Compare("<=", A, number(2))))),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("NOT (NOT a IS NULL)", IsNull(A)),
        ("a = 1 + 1 * 2", Compare("=", A, number(3))),
        ("a = 1 AND (a = 2 AND a = 3)", And(tuple(Compare("=", A, number(value)) for value in (1, 2, 3)))),
        (
            "a < 1 OR (a > 2 OR a = 3)",
            Or((Compare("<", A, number(1)), Compare(">", A, number(2)), Compare("=", A, number(3)))),
        ),
        ("i8 = 1", Compare("=", Column(("i8",), pa.int8()), Literal(1, pa.int8()))),
        ("ls = 'x'", Compare("=", Column(("ls",), pa.large_string()), Literal("x", pa.large_string()))),
        ("d = DATE '1970-01-03'", Compare("=", Column(("d",), pa.date32()), Literal(2, pa.date32()))),
        ("s LIKE 'x%'", Like(Column(("s",), pa.string()), Literal("x%", pa.string()))),
        ("s LIKE '1!%' ESCAPE '!'", Like(Column(("s",), pa.string()), Literal("1\\%", pa.string()))),
        ("p.x = 1", Compare("=", Column(("p", "x"), pa.int32()), Literal(1, pa.int32()))),
        ("dic = 'x'", Compare("=", Column(("dic",), SCHEMA.field("dic").type), Literal("x", pa.string()))),
        ("CAST(i8 AS BIGINT) = 5", Compare("=", Column(("i8",), pa.int8()), Literal(5, pa.int8()))),
    ],
)
def test_the_tree_is_small_and_typed(text: str, expected: object):
    assert parse_filter(text, SCHEMA) == expected


def test_equalities_on_one_column_become_one_in():
    merged = parse_filter("a = 1 OR s = 'x' OR a IN (2, 3) OR a = 4", SCHEMA)
    assert isinstance(merged, Or)
    first, second = merged.args
    assert isinstance(first, In)
    assert first.values.array.to_pylist() == [1, 2, 3, 4]
    assert str(second) == "s = 'x'"


def test_a_literal_that_the_column_cannot_hold_decides_the_comparison():
    batch = pa.record_batch({"i8": pa.array([1, 127, -128, None], pa.int8())})
    for text, kept in {
        "i8 < 128": [True, True, True, False],
        "i8 > 128": [False] * 4,
        "i8 <> 1.5": [True, True, True, False],
        "i8 >= -128.5": [True, True, True, False],
        "NOT (i8 < 128)": [False] * 4,
        "NOT (i8 > 128)": [True, True, True, False],
        "i8 > 0.5 AND i8 < 126.5": [True, False, False, False],
        "i8 < CAST('NaN' AS DOUBLE)": [True, True, True, False],
        "i8 > CAST('-inf' AS DOUBLE)": [True, True, True, False],
    }.items():
        assert mask(parse_filter(text, batch.schema), batch).to_pylist() == kept, text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("NAME = 'x'", ("Name",)),
        ("`Name` = 'x'", ("Name",)),
        ("`a b` = 1", ("a b",)),
        ("`tick``ed` = 1", ("tick`ed",)),
        ("P.x = 1", ("p", "x")),
        ("p.`Y` = 'x'", ("p", "Y")),
        ("p['Y'] = 'x'", ("p", "Y")),
        ("comment = 'x'", ("comment",)),
        ("_rowid = 1", ("_rowid",)),
    ],
)
def test_names(text: str, path: tuple[str, ...]):
    assert columns_of(parse_filter(text, SCHEMA)) == {path}


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("nmae = 'x'", "nmae", "'Name'"),
        ("`NAME` = 'x'", "NAME", "Name"),
        ("p.z = 1", "p.z", "p."),
        ("p.y = 'x'", "p.y", "p."),
        ("abs(b) = 1", "b", ""),
    ],
)
def test_an_unknown_column_is_named_with_the_nearest(text: str, name: str, hint: str):
    with pytest.raises(UnknownColumn) as caught:
        parse_filter(text, SCHEMA)
    assert caught.value.name == name
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a = 1 AND AND s = 'x'", 10),
        ("a = 1)", 5),
        ("a = 1 ORDER BY a", 6),
        ("a 1", 2),
        ("s = 'x", 4),
        ("`a b = 1", 0),
        ("a = 1\nAND b c", 12),
        ("", 0),
        ("a = 1; a = 2", 5),
    ],
)
def test_a_malformed_filter_says_where(text: str, position: int):
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text, SCHEMA)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lenght(s) = 1", "did you mean length"),
        ("s = 1", "cannot compare s (string) = 1 (int64)"),
        ("a = 'x'", "'x' is not a value of type int64"),
        ("a", "must be true or false"),
        ("a AND s = 'x'", "must be true or false"),
        ("NULL", "must be true or false"),
        ("length(a) = 1", "takes text, not int64"),
        ("length(s, s) = 1", "takes 1 argument, not 2"),
        ("s + 1 = 2", "cannot compute string + int64"),
        ("a.x = 1", "has no field 'x'"),
        ("a IN (SELECT 1)", "list of values"),
        ("s LIKE 'x' ESCAPE 'ab'", "one character"),
        ("CAST(a AS POINT) = 1", "unknown type"),
        ("array_has(l, 'x')", "in a list of int64"),
        ("CASE WHEN a THEN 1 END = 1", "must be true or false"),
        ("date_part('era', d) = 1", "knows no part 'era'"),
        ("arrow_cast(a, 'Int7') = 1", "knows no type"),
        ("X'0g' = s", "malformed"),
        ("X'0_1' = s", "hexadecimal"),
        ("10 / 0 = a", "divide by zero"),
    ],
)
def test_wrong_input_is_refused_in_words(text: str, words: str):
    with pytest.raises(InvalidInput) as caught:
        parse_filter(text, SCHEMA)
    assert words in str(caught.value)


def test_a_projection_may_be_any_column_name_or_any_expression():
    assert parse_expression("a b", SCHEMA) == Column(("a b",), pa.int32())
    assert parse_expression("tick`ed", SCHEMA) == Column(("tick`ed",), pa.int32())
    assert parse_expression("NAME", SCHEMA) == Column(("Name",), pa.string())
    # A number beside a column takes the column's type at the top of a projection, as in pylance.
    assert parse_expression("i8 + 1", SCHEMA).type == pa.int8()
    assert parse_expression("i8 + 1 + 1", SCHEMA).type == pa.int64()
    assert isinstance(parse_expression("lower(s)", SCHEMA), Call)


@pytest.mark.slow
def test_a_hundred_thousand_values_in_one_list():
    numbers = ",".join(str(value) for value in range(100_000))
    texts = ", ".join(f"'it''s {value}'" for value in range(100_000))
    expr = parse_filter(f"a IN ({numbers}) AND s NOT IN ({texts}) AND 'IN (1)' <> s", SCHEMA)
    assert isinstance(expr, And)
    first, second, _ = expr.args
    assert isinstance(first, In)
    assert first.values.array.equals(pa.array(range(100_000)))
    assert isinstance(second, Not)
    assert isinstance(second.arg, In)
    assert second.arg.values.array[7].as_py() == "it's 7"


def test_the_place_of_an_error_behind_a_long_list():
    numbers = ",".join(str(value) for value in range(1000))
    text = f"a IN ({numbers}) AND AND s = 'x'"
    with pytest.raises(FilterSyntaxError, match=rf"at character {text.index('AND AND') + 5}\)"):
        parse_filter(text, SCHEMA)


def test_ten_thousand_alternatives():
    batch = pa.record_batch({"a": pa.array([5, 20_000, None]), "s": ["x", "y", "z"]})
    same = parse_filter(" OR ".join(f"a = {value}" for value in range(10_000)), batch.schema)
    assert mask(same, batch).to_pylist() == [True, False, False]
    mixed = parse_filter(" OR ".join(f"a > {value + 10_000}" for value in range(10_000)), batch.schema)
    assert mask(mixed, batch).to_pylist() == [False, True, False]


@pytest.mark.parametrize(
    "text", ["(" * 500 + "a = 1" + ")" * 500, "NOT " * 500 + "(a = 1)", "a" + " + 1" * 500 + " = 1"]
)
def test_deep_nesting_is_refused_in_words(text: str):
    with pytest.raises(FilterSyntaxError, match="nested too deeply"):
        parse_filter(text, SCHEMA)


def test_moderate_nesting_works():
    depth = 25
    assert parse_filter("(" * depth + "a = 1" + ")" * depth, SCHEMA) == Compare("=", A, number(1))
    chained = "a < 0"
    for value in range(depth):
        chained = f"({chained} OR a = {value}) AND a <> {value + 1}"
    batch = pa.record_batch({"a": [-1, depth - 2, depth - 1, depth]})
    assert mask(parse_filter(chained, SCHEMA), batch).to_pylist() == [True, True, True, False]


def test_sqlglot_is_imported_only_when_text_is_parsed():
    code = "import sys, lancelet.expressions.sql, lancelet.expressions.evaluate; assert 'sqlglot' not in sys.modules"
    import subprocess

    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("text", ["a = 1e", "1eILIKE TRUE", "a < 2E"])
def test_numbers_whose_exponent_is_missing(text: str):
    with pytest.raises(FilterSyntaxError, match=r"\d[eE] is no number"):
        parse_filter(text, SCHEMA)
