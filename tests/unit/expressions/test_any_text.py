"""Whatever text comes as a filter, a projection, an update or an order: a result, or an error of our own."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lancelet
from drawing import examples, seeds
from lancelet.errors import LanceletError
from lancelet.expressions.evaluate import evaluate, mask
from lancelet.expressions.functions import ALIASES, FUNCTIONS, REWRITTEN
from lancelet.expressions.printing import to_sql
from lancelet.expressions.sql import parse_expression, parse_filter

TABLE = pa.table(
    {
        "a": pa.array([1, None, -5], pa.int64()),
        "u": pa.array([1, None, 255], pa.uint8()),
        "f": pa.array([1.5, None, float("nan")]),
        "s": pa.array(["x", None, "a,b"]),
        "b": pa.array([True, None, False]),
        "t": pa.array([0, None, 10**15], pa.timestamp("us")),
        "d": pa.array([0, None, -1], pa.date32()),
        "x": pa.array([b"x", None, b"\xff"]),
        "l": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "k": pa.array([["x"], None, []], pa.list_(pa.string())),
        "p": pa.array([{"x": 1, "y": [1]}, None, {"x": None, "y": None}]),
        "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "v": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2)),
    }
)
BATCH = TABLE.to_batches()[0]
NAMES = sorted({*FUNCTIONS, *ALIASES, *REWRITTEN})
ATOMS = [*TABLE.schema.names, "1", "0", "-1", "2.5", "1e300", "9223372036854775807", "18446744073709551615", "NULL"]
ATOMS += [
    "'x'",
    "''",
    "'a,b'",
    "'%Y'",
    "'hex'",
    "'('",
    "'1 day'",
    "'Int8'",
    "'List(Int8)'",
    "TRUE",
    "X'ff'",
    "[]",
    "[1]",
]
ATOMS += ["['a', NULL]", "[[1]]", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01'", "p.x", "l[1]", "interval '1 day'", "*"]
OPERATORS = ["+", "-", "*", "/", "%", "=", "<>", "<", ">=", "AND", "OR", "||", "&", "|", "^", "<<", ">>", "LIKE", "~"]
OPERATORS += ["ILIKE", "IN", "IS DISTINCT FROM", "::", ".", "BETWEEN 1 AND", "SIMILAR TO", "->", "AT TIME ZONE", "IS"]
TYPES = [
    "INT",
    "INT ARRAY",
    "INT[]",
    "STRING",
    "DATE",
    "TIMESTAMP(3)",
    "DECIMAL(5, 1)",
    "DECIMAL(99, 99)",
    "MAP<INT, INT>",
]
TYPES += [
    "STRUCT<a INT>",
    "ARRAY<INT>",
    "TIMESTAMP(77)",
    "INTERVAL",
    "BINARY",
    "BOOLEAN",
    "TIME",
    "nothing",
    "VARCHAR(3)",
]
TOKENS = [
    *ATOMS,
    *OPERATORS,
    *NAMES,
    *"()[]{},.;:?@$`'\"\\#!",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "NOT",
    "CAST(",
    "AS",
]
TOKENS += [
    "SELECT",
    "FROM",
    "WHERE",
    "EXTRACT(",
    "TRIM(",
    "--",
    "/*",
    "é",
    "\0",
    "\n",
    "\ud800",
    "OVER",
    "DISTINCT",
    "x'f",
]


def grown(draw: random.Random, depth: int) -> str:
    """An expression that looks like SQL, whatever it means."""
    if depth == 0 or draw.random() < 0.2:
        return draw.choice(ATOMS)
    sort = draw.randrange(10)
    if sort < 6:
        count = draw.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
        return f"{draw.choice(NAMES)}({', '.join(grown(draw, depth - 1) for _ in range(count))})"
    if sort < 7:
        return f"({grown(draw, depth - 1)} {draw.choice(OPERATORS)} {grown(draw, depth - 1)})"
    if sort == 7:
        return f"{draw.choice(('CAST', 'TRY_CAST'))}({grown(draw, depth - 1)} AS {draw.choice(TYPES)})"
    if sort == 8:
        parts = [grown(draw, depth - 1) for _ in range(3)]
        return f"CASE WHEN {parts[0]} THEN {parts[1]} ELSE {parts[2]} END"
    return draw.choice(("NOT {}", "-{}", "{}[1]", "{}['x']", "{} IS NULL", "[{}]", "{} IN (1, 'x')")).format(
        grown(draw, depth - 1)
    )


def mutated(draw: random.Random, text: str) -> str:
    """A text with some of it taken out, doubled or exchanged."""
    for _ in range(draw.randrange(1, 4)):
        at, end = sorted((draw.randrange(len(text) + 1), draw.randrange(len(text) + 1)))
        piece = draw.choice(("", draw.choice(TOKENS), text[at : at + 5] * 2))
        text = text[:at] + piece + text[end if draw.random() < 0.3 else at + draw.randrange(3) :]
    return text


def drawn(seed: int) -> str:
    draw = random.Random(seed)
    sort = draw.randrange(3)
    if sort == 0 and draw.random() < 0.5:
        return " ".join(draw.choice(TOKENS) for _ in range(draw.randrange(1, 12)))
    text = grown(draw, draw.choice((1, 1, 2, 3)))
    return mutated(draw, text) if sort == 2 else text


def attempt(text: str) -> bool:
    """Whether the text means something, as a projection or as a filter."""
    try:
        expr = parse_expression(text, TABLE.schema)
        values = evaluate(expr, BATCH)
        values.validate(full=True)
        assert len(values) == len(BATCH), text
        parse_expression(to_sql(expr), TABLE.schema)
        mask(parse_filter(text, TABLE.schema), BATCH)
    except LanceletError as error:
        assert str(error), text
        return False
    return True


def attempt_all(seeds: range) -> None:
    for seed in seeds:
        text = drawn(seed)
        try:
            attempt(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text!r} raises {type(error).__name__}: {error}") from error


def test_drawn_texts_are_understood_or_refused():
    attempt_all(range(1500))


@pytest.mark.soak
def test_many_drawn_texts_are_understood_or_refused():
    attempt_all(seeds(1500, 1500 + examples(10_000)))


DEEP = ["(" * 5000 + "a" + ")" * 5000, "NOT " * 5000 + "b", "-" * 3000 + "a", "[" * 3000, "a IN (" * 2000 + "1"]
DEEP += ["abs(" * 3000 + "a" + ")" * 3000, "a" + " + 1" * 5000, "b" + " AND b" * 5000, "CASE WHEN b THEN " * 500 + "a"]
DEEP += ["l" + "[1]" * 3000, "p" + ".x" * 3000, "a" + "::INT" * 3000]
DEEP += [
    "arrow_cast(a, '" + "List(" * 3000 + "Int8" + ")" * 3000 + "')",
    "regexp_like(s, '" + "(" * 5000 + ")" * 5000 + "')",
]


@pytest.mark.parametrize("deep", DEEP, ids=lambda text: text[:12])
@pytest.mark.spread(0.5, each=False)
def test_deep_texts_are_understood_or_refused(deep: str):
    attempt(deep)


def test_every_way_into_a_table_takes_a_text_or_refuses_it(tmp_path: Path):
    dataset = lancelet.write_dataset(TABLE.drop_columns(["m"]), tmp_path / "t.lance")
    calls = [
        lambda text: dataset.to_table(filter=text),
        lambda text: dataset.to_table(columns={"r": text}),
        lambda text: dataset.count_rows(text),
        lambda text: dataset.scanner(order_by=[text]).to_table(),
        lambda text: dataset.update({"a": text}, where="a = 77"),
        lambda text: dataset.update({"a": "1"}, where=f"({text}) AND FALSE"),
        lambda text: dataset.delete(f"({text}) AND FALSE"),
    ]
    for seed in range(60):
        text = drawn(seed)
        for number, call in enumerate(calls):
            try:
                call(text)
            except LanceletError:
                pass
            except Exception as error:
                raise AssertionError(f"seed {seed}, way {number}: {text!r} raises {type(error).__name__}") from error
    shutil.rmtree(tmp_path)
