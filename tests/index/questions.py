"""Columns that are hard on an index, and filters to ask of them."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 400
_INF, _NAN = float("inf"), float("nan")


def _spread(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """The values again and again, in an order without pattern; every seventh row or so is null."""
    rng = np.random.default_rng(len(values))
    picks = rng.integers(0, len(values), ROWS)
    nulls = rng.random(ROWS) < 0.14
    return pa.array([None if null else values[pick] for pick, null in zip(picks, nulls, strict=True)], dtype)


_TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "Abc",
    "zebra",
    "étude",
    "日本語",
    "a%b",
    "x_y",
    "quick brown fox",
    "the QUICK fox",
]
_TIMES = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59), datetime(2024, 2, 29, 12), datetime(2100, 1, 1)]
COLUMNS: dict[str, pa.Array] = {
    "i64": _spread([*range(-20, 20), 2**62, -(2**62)], pa.int64()),
    "i8": _spread([-128, -1, 0, 1, 127], pa.int8()),
    "u64": _spread([0, 1, 2, 2**63, 2**64 - 1], pa.uint64()),
    "f64": _spread([-_INF, -1.5, -0.0, 0.0, 1e-300, 1.5, 2.0, _INF, _NAN], pa.float64()),
    "f32": _spread([-1.5, -0.0, 0.0, 0.1, 3.0, _NAN], pa.float32()),
    "bool": _spread([True, False], pa.bool_()),
    "text": _spread(_TEXTS, pa.string()),
    "large": _spread(_TEXTS, pa.large_string()),
    "bytes": _spread([b"", b"a", b"ab", b"\x00", b"\xff\xfe"], pa.binary()),
    "day": _spread([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)], pa.date32()),
    "time": _spread(_TIMES, pa.timestamp("us")),
    "zoned": _spread([t.replace(tzinfo=timezone.utc) for t in _TIMES], pa.timestamp("us", "UTC")),
    "money": _spread([Decimal("-1.50"), Decimal("0.00"), Decimal("7.25"), Decimal("99999.99")], pa.decimal128(9, 2)),
    "labels": _spread([[], ["a"], ["a", "b"], ["b", None], ["c", "c"], [None], ["a", "b", "c"]], pa.list_(pa.string())),
    "numbers": _spread([[], [1], [1, 2], [2, 3, 3], [9]], pa.list_(pa.int32())),
}
_NUMBERS = ["{c} between 0 and 2", "{c} in (0, 1, 2, 100)", "{c} <= 1"]
_EVERY = ["{c} is null", "{c} is not null"]
_NESTS = [
    "{c} = {a} or {c} = {b}",
    "not ({c} = {a})",
    "not ({c} in ({a}, {b}))",
    "{c} > {a} and {c} < {b}",
    "{c} >= {a} and plain % 3 = 0",
    "{c} = {a} or plain < 40",
    "not ({c} = {a} or plain % 2 = 0)",
    "({c} < {a} or {c} is null) and not {c} = {b}",
    "{c} not in ({a}) and plain between 10 and 300",
]
_LITERALS = {
    "i64": ("-3", "7"),
    "i8": ("-1", "127"),
    "u64": ("2", "18446744073709551615"),
    "f64": ("0.0", "1.5"),
    "f32": ("0.0", "3.0"),
    "text": ("'ab'", "'abcd'"),
    "large": ("'ab'", "'zebra'"),
    "bytes": ("X'61'", "X'6162'"),
    "day": ("date '1970-01-01'", "date '2024-02-29'"),
    "time": ("timestamp '1970-01-01 00:00:00'", "timestamp '2024-02-29 12:00:00'"),
    "zoned": ("timestamp '1970-01-01 00:00:00'", "timestamp '2024-02-29 12:00:00'"),
    "money": ("cast(0.00 as decimal(9, 2))", "cast(7.25 as decimal(9, 2))"),
}
_COMPARED = ["{c} = {a}", "{c} <> {a}", "{c} < {a}", "{c} <= {b}", "{c} > {a}", "{c} >= {b}", "{c} between {a} and {b}"]
_COMPARED += ["{c} in ({a}, {b})", "{b} = {c}", *_NESTS]
_TEXT = [
    "{c} = ''",
    "{c} like 'ab%'",
    "{c} like 'a\\%b'",
    "{c} like '%quick%'",
    "{c} like '%quick%fox'",
    "{c} not like 'ab%'",
    "{c} like '_b%'",
    "starts_with({c}, 'ab')",
    "starts_with({c}, '')",
    "contains({c}, 'quick')",
    "contains({c}, 'étu')",
    "contains({c}, 'qu')",
    "contains({c}, 'QUICK')",
    "not contains({c}, 'quick')",
    "contains({c}, 'fox') and {c} > 'r'",
]
_LISTS = {
    "labels": ("'a'", "'b'", "'zz'"),
    "numbers": ("1", "3", "77"),
}
_LABELS = [
    "array_has({c}, {a})",
    "array_has_any({c}, [{a}, {b}])",
    "array_has_all({c}, [{a}, {b}])",
    "not array_has({c}, {a})",
    "not array_has_any({c}, [{a}, {b}])",
    "array_has_any({c}, [{z}])",
    "array_has_all({c}, [{a}, {a}])",
    "array_has({c}, {a}) or array_has({c}, {b})",
    "array_has({c}, {a}) and plain < 100",
    "not (array_has_all({c}, [{a}, {b}]) or {c} is null)",
]


def filters(column: str, at: str | None = None) -> list[str]:
    """Filters over a column of :data:`COLUMNS`, which the table may call otherwise."""
    name = at or column
    if column == "bool":
        texts = ["{c}", "not {c}", "{c} = true", "{c} = false", "{c} is true", "{c} is not true", "{c} <> true"]
        return [text.format(c=name) for text in (*texts, *_EVERY)]
    if column in _LISTS:
        a, b, z = _LISTS[column]
        return [text.format(c=name, a=a, b=b, z=z) for text in (*_LABELS, *_EVERY)]
    a, b = _LITERALS[column]
    texts = [*_COMPARED, *_EVERY]
    if column in ("text", "large"):
        texts += _TEXT
    elif column not in ("bytes", "day", "time", "zoned", "money"):
        texts += _NUMBERS
    return [text.format(c=name, a=a, b=b) for text in texts]


def table(columns: list[str], rows: int = ROWS) -> pa.Table:
    """Some of the columns, and two that count: ``key`` is never indexed, neither is ``plain``."""
    count = pa.array(range(rows), pa.int64())
    return pa.table({"key": count, "plain": count, **{name: COLUMNS[name].slice(0, rows) for name in columns}})


KINDS: dict[str, list[str]] = {
    "BTREE": [name for name in COLUMNS if name not in _LISTS],
    "BITMAP": [name for name in COLUMNS if name not in _LISTS],
    "LABEL_LIST": list(_LISTS),
    "ZONEMAP": [name for name in COLUMNS if name not in _LISTS],
    "BLOOMFILTER": [name for name in COLUMNS if name not in (*_LISTS, "bool", "money")],
    "NGRAM": ["text", "large"],
}
"""The columns that can have an index of each kind."""
