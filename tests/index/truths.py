"""Columns of every type, questions about them, and what is true of these by brute force."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from index.segments import Rows
from lancelet.expressions.comparing import compare, is_in
from lancelet.index.kind import Kind
from lancelet.index.questions import Answer, Between, Holds, IsIn, Missing, Question, StartsWith
from lancelet.index.row_set import RowSet

ROWS = 300
EXACT = ("=", "<", "between", "in", "null", "not")
"""What pylance asks an index of a kind that knows rows exactly."""
NAN, INF = math.nan, math.inf
_NANS = np.array([0xFFF8000000000000, 0x7FF8000000000001, 0xFFF8000000000009], np.uint64).view(np.float64).tolist()
_HALVES = [np.float16(x) for x in (-INF, -1.5, -0.0, 0.0, 1.5, INF, NAN)]
_TEXTS = ["", "a", "ab", "abc", "abcdefgh", "abcdefgh\x00", "abcdefghi", "b", "z" * 300, "ß", "日本語", "\U0001f600"]
TYPES: dict[str, tuple[list[Any], pa.DataType]] = {
    "bool": ([False, True], pa.bool_()),
    "int8": ([-128, -1, 0, 5, 127], pa.int8()),
    "int64": ([-(2**63), *range(-60, 60), 2**63 - 1], pa.int64()),
    "uint16": ([0, 1, 65535], pa.uint16()),
    "uint64": ([0, 1, 2**63, 2**64 - 1], pa.uint64()),
    "float16": (_HALVES, pa.float16()),
    "float32": ([-INF, -1.5, -0.0, 0.0, 1.5, INF, NAN], pa.float32()),
    "float64": ([*_NANS, -INF, -1.5, -0.0, 0.0, 5e-324, 1e-300, 7.0, 1e300, INF, NAN], pa.float64()),
    "string": (_TEXTS, pa.string()),
    "large_string": (["", "a", "ab", "\uffff", "\U00010000"], pa.large_string()),
    "binary": ([b"", b"\x00", b"a", b"ab", b"\xff", b"\xff\xff", b"\xff\xff\x00"], pa.binary()),
    "large_binary": ([b"", b"0123456789abc", b"x" * 100, b"\xff"], pa.large_binary()),
    "decimal128": ([Decimal(x) for x in ("-99999.99", "-1.50", "0.00", "99.25")], pa.decimal128(10, 2)),
    "decimal256": ([Decimal(-(10**50)), Decimal("-1.5"), Decimal(0), Decimal(10**50)], pa.decimal256(60, 2)),
    "date32": ([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)], pa.date32()),
    "date64": ([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)], pa.date64()),
    "time32": ([0, 5, 86_399_999], pa.time32("ms")),
    "time64": ([0, 5, 86_399_999_999_999], pa.time64("ns")),
    "timestamp": ([datetime(1900, 1, 1), datetime(1970, 1, 1), datetime(2100, 1, 1)], pa.timestamp("us")),
    "zoned": ([-(2**60), -1, 0, 2**60], pa.timestamp("ns", "UTC")),
    "duration": ([timedelta(-1), timedelta(0), timedelta(0, 1)], pa.duration("ms")),
}
ODD: dict[str, pa.Array] = {
    "one row": pa.array([7], pa.int32()),
    "no rows": pa.array([], pa.string()),
    "all null": pa.nulls(50, pa.string()),
}


def spread(values: list[Any], dtype: pa.DataType, rows: int = ROWS) -> pa.Array:
    """The values in an order without pattern, with nulls between."""
    picks = np.random.default_rng(len(values)).integers(-1, len(values), rows)
    return pa.array([None if pick < 0 else values[pick] for pick in picks], dtype)


def near(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """The values one after the other with some disorder; here and there a null."""
    rng = np.random.default_rng(len(values))
    picks = np.clip(np.arange(ROWS) * len(values) // ROWS + rng.integers(-1, 2, ROWS), 0, len(values) - 1)
    nulls = rng.random(ROWS) < 0.1
    return pa.array([None if null else values[pick] for pick, null in zip(picks, nulls, strict=True)], dtype)


SPREAD: dict[str, pa.Array] = {
    **{name: spread(*how) for name, how in TYPES.items()},
    "fixed": spread([b"abc", b"abd", b"\x00\x00\x00", b"\xff\xff\xff"], pa.binary(3)),
    **ODD,
}
NEAR: dict[str, pa.Array] = {
    **{name: near(*how) for name, how in TYPES.items()},
    "all NaN": pa.array([NAN] * ROWS),
    **ODD,
}

LARGE: dict[str, pa.Array] = {
    "distinct": pa.array(np.random.default_rng(1).permutation(9000)),
    "dense": pa.array([1] * 70_000 + [2] * 5000 + [None, 3] * 4100, pa.int64()),
    "mostly null": pa.array([None] * 8192 + ["x"], pa.string()),
    "mostly distinct": pa.array([None, "", *(f"{n * 7919 % 90_001:x}" for n in range(75_000)), "", None]),
    "wide": spread(["w" * 3000 + str(n) for n in range(40)], pa.string(), 100),
}


def numbered(values: pa.Array | int) -> Rows:
    """Rows of one fragment, as many as there are values."""
    return np.arange(values if isinstance(values, int) else len(values), dtype=np.uint64)


def questions(values: pa.Array, kind: Kind) -> list[Question]:
    """Questions that a kind takes, with values that occur in a column and some that do not."""
    dtype = values.type
    known = values.drop_null()
    # pyarrow 25 does not tell half floats apart.
    known = (known.view(pa.uint16()).unique().view(dtype) if pa.types.is_float16(dtype) else known.unique())[:9]
    text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
    if pa.types.is_floating(dtype):
        known = pa.concat_arrays([known, pa.array(np.array([0.0, -0.0, NAN, 6.0], dtype.to_pandas_dtype()))])
    elif text:
        known = pa.concat_arrays([known, pa.array(["", "aa", "zzz"], dtype)])
    elif dtype == pa.int64():
        known = pa.concat_arrays([known, pa.array([-61, 100_000, 2, 8999], dtype)])
    asked: list[Question] = [Missing(), IsIn(known[:0]), IsIn(known), IsIn(known[:3]), Between(None, None)]
    for at, value in enumerate(known):
        other = known[at - 1]
        asked += [IsIn(known[at : at + 1]), Between(value, None), Between(value, None, False)]
        asked += [Between(None, value), Between(None, value, True, False)]
        asked += [Between(value, other), Between(value, other, False, True), Between(other, value, True, False)]
    if text:
        prefixes = ("", "a", "ab", "abcd", "abcdefgh", "日", "\U0001f600", "z", "\U0010ffff", "w" * 2999)
        asked += [StartsWith(prefix) for prefix in prefixes]
        asked += [Holds(("b",), True), Holds(("a", "c"), False), Holds(("本",), True), Holds((".",), True)]
    elif pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype):
        asked += [StartsWith(prefix) for prefix in (b"", b"a", b"\xff", b"\xff\xff", b"\xff\xff\xff", b"ab\xff")]
    return [question for question in asked if kind.takes(question, dtype)]


def truth(values: pa.Array, question: Question) -> npt.NDArray[np.bool_]:
    """For which values it is true; null ones are false, except where nulls are asked for."""
    match question:
        case Missing():
            found = values.is_null()
        case IsIn(wanted):
            # pyarrow tells NaNs apart by their bits.
            found = is_in(values, wanted)
            if pa.types.is_floating(values.type) and any(math.isnan(one) for one in wanted.to_pylist()):
                found = pc.or_(found, pc.is_nan(values.cast(pa.float64())).fill_null(False))
        case Between(low, high, with_low, with_high):
            found = values.is_valid()
            if low is not None:
                found = pc.and_(found, compare(">=" if with_low else ">", values, low))
            if high is not None:
                found = pc.and_(found, compare("<=" if with_high else "<", values, high))
        case StartsWith(prefix):
            found = pa.array([None if v is None else v.startswith(prefix) for v in values.to_pylist()], pa.bool_())
        case Holds(pieces):
            found = pc.match_like(values, "%" + "%".join(pieces) + "%")
        case _:
            raise TypeError(question)
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def check(answer: Answer, question: Question, values: pa.Array, rows: Rows) -> None:
    """Exactly the true rows are in the answer, and the null ones among its nulls."""
    assert answer.exact or isinstance(question, Holds)
    assert np.array_equal(answer.rows.numbers(), np.sort(rows[truth(values, question)])), question
    _check_nulls(answer, question, values, rows)


def check_most(answer: Answer, question: Question, values: pa.Array, rows: Rows) -> int:
    """At least the true rows are in the answer, and exactly the null ones among its nulls; tells how many are too many."""
    if isinstance(question, Missing):
        check(answer, question, values, rows)
        return 0
    want, found = rows[truth(values, question)], answer.rows.numbers()
    assert not answer.exact
    assert np.isin(want, found).all(), question
    _check_nulls(answer, question, values, rows)
    return len(found) - len(want)


def _check_nulls(answer: Answer, question: Question, values: pa.Array, rows: Rows) -> None:
    nulls = rows[:0] if isinstance(question, Missing) else rows[values.is_null().to_numpy(zero_copy_only=False)]
    assert answer.nulls == RowSet.of(nulls), question


def check_pylance(where: Path, values: pa.Array, operators: Sequence[str] = EXACT) -> None:
    """pylance asks an index on ``v``, and answers as it does without."""
    dataset = lance.dataset(where)
    known = values.drop_null().unique()
    column = pc.field("v")
    asked = {
        "=": [column == one for one in (known[:3:2] if len(known) > 2 else known[:1])],
        "<": [column > known[1], column <= known[1]],
        "between": [(column > known[1]) & (column <= known[0])],
        "in": [column.isin(known[: min(5, len(known) - 1)].to_pylist())],
        "null": [column.is_null()],
        "some": [~column.is_null()],
        "not": [~(column == known[0])],
    }
    for condition in (condition for operator in operators for condition in asked[operator]):
        scans = [dataset.scanner(filter=condition, with_row_id=True, use_scalar_index=use) for use in (True, False)]
        assert "ScalarIndexQuery" in scans[0].explain_plan()
        found = [sorted(scan.to_table()["_rowid"].to_pylist()) for scan in scans]
        assert found[0] == found[1], condition


def scattered(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Every third row is gone, the others are in other fragments and in another order."""
    return (rows * np.uint64(2654435761)) % np.uint64(1 << 33), rows % np.uint64(3) != 0


def moved_up(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Every third row is gone, the others moved up; those behind row 100 went into a fragment of their own."""
    up = rows - rows // np.uint64(3)
    return np.where(rows > 100, up + np.uint64(5 << 32), up), rows % np.uint64(3) != 0
