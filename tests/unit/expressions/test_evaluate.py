"""Evaluating: three-valued logic, guards, dictionaries, slices, chunks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.expressions.evaluate import evaluate, mask
from lancelet.expressions.number_functions import remainders
from lancelet.expressions.sql import parse_expression, parse_filter

THREE = [True, False, None]


def values(text: str, batch: pa.RecordBatch) -> list[object]:
    return evaluate(parse_expression(text, batch.schema), batch).to_pylist()


def test_logic_has_three_values():
    pairs = list(itertools.product(THREE, THREE))
    batch = pa.record_batch({"p": pa.array([p for p, _ in pairs]), "q": pa.array([q for _, q in pairs])})
    assert values("p AND q", batch) == [True, False, None, False, False, False, None, False, None]
    assert values("p OR q", batch) == [True, True, True, True, False, None, True, None, None]
    assert values("NOT p", batch)[::3] == [False, True, None]
    assert values("p IS NOT TRUE", batch)[::3] == [False, True, True]
    assert mask(parse_filter("p", batch.schema), batch).to_pylist()[::3] == [True, False, False]
    assert mask(parse_filter("p", batch.schema), batch).null_count == 0


def test_in_with_null():
    batch = pa.record_batch({"a": pa.array([1, 2, None])})
    assert values("a IN (1, NULL)", batch) == [True, None, None]
    assert values("a NOT IN (1, NULL)", batch) == [False, None, None]
    assert values("a IN (1)", batch) == [True, False, None]
    assert values("a IN ()", batch) == [False, False, None]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_floats_have_a_total_order(kind: pa.DataType):
    import numpy as np

    numbers = [-math.inf, -1.0, -0.0, 0.0, math.inf, math.nan]
    left, right = zip(*itertools.product(numbers, numbers), strict=True)
    dtype = np.dtype(f"f{kind.bit_width // 8}")
    batch = pa.record_batch({"x": pa.array(np.array(left, dtype)), "y": pa.array(np.array(right, dtype))})

    def rank(number: float) -> float:
        return 9 if math.isnan(number) else max(min(number, 5), -5)

    for op in ("=", "!=", "<", "<=", ">", ">="):
        python = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[op]
        expected = [getattr(float(rank(a)), python)(float(rank(b))) for a, b in zip(left, right, strict=True)]
        assert values(f"x {op} y", batch) == expected, op
        for number in ("0", "-0.0", "CAST('NaN' AS DOUBLE)", "CAST('inf' AS DOUBLE)"):
            literal = float(number) if "CAST" not in number else math.nan if "NaN" in number else math.inf
            expected = [getattr(float(rank(a)), python)(float(rank(literal))) for a in left]
            assert values(f"x {op} {number}", batch) == expected, (op, number)
    assert values("x IN (0, CAST('NaN' AS DOUBLE))", batch) == [rank(a) in (0, 9) for a in left]


@pytest.mark.parametrize("count", [1, 3, 9])
def test_nan_is_among_few_and_many_values(count: int):
    batch = pa.record_batch({"x": [1.0, math.nan, None, 2.5]})
    values = ", ".join(["cast('NaN' as double)", *(str(100.5 + place) for place in range(count - 1))])
    assert mask(parse_filter(f"x in ({values})", batch.schema), batch).to_pylist() == [False, True, False, False]
    assert mask(parse_filter(f"x not in ({values})", batch.schema), batch).to_pylist() == [True, False, False, True]


def test_guards_keep_failing_parts_away_from_excluded_rows():
    batch = pa.record_batch({"a": pa.array([0, 2, None, 5]), "s": ["1", "x", "3", "4"]})
    assert values("a <> 0 AND 10 / a > 2", batch) == [False, True, None, False]
    assert values("a = 0 OR 10 / a > 2", batch) == [True, True, None, False]
    assert values("CASE WHEN a = 0 THEN -1 ELSE 10 / a END", batch) == [-1, 5, None, 2]
    assert values("s <> 'x' AND CAST(s AS INT) > 2", batch) == [False, False, True, True]
    with pytest.raises(InvalidInput, match="divide by zero"):
        values("10 / a > 2", batch)
    with pytest.raises(InvalidInput, match="cannot cast 'x'"):
        values("CAST(s AS INT) > 2", batch)


def test_a_dictionary_is_tested_once_and_spread():
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 0]), pa.array(["x", "y", None]))
    batch = pa.record_batch({"d": dictionary, "s": ["x", "x", "x", "x", "z"]})
    assert values("d = 'x'", batch) == [True, False, None, None, True]
    assert values("d IN ('y', 'z')", batch) == [False, True, None, None, False]
    assert values("d LIKE '_'", batch) == [True, True, None, None, True]
    assert values("d IS NULL", batch) == [False, False, True, True, False]
    assert values("d = s", batch) == [True, False, None, None, False]
    assert values("coalesce(d, 'none')", batch) == ["x", "y", "none", "none", "x"]
    assert values("upper(d)", batch) == ["X", "Y", None, None, "X"]
    assert evaluate(parse_expression("d", batch.schema), batch).type == dictionary.type


def test_values_of_a_dictionary_that_no_row_has_cannot_fail():
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["1", "x"]))
    assert values("CAST(d AS INT)", pa.record_batch({"d": dictionary})) == [1, 1]


def test_extension_types_are_compared_by_their_storage():
    raw = pa.array([b"0123456789abcdef", b"fedcba9876543210"], pa.binary(16))
    batch = pa.record_batch({"u": pa.ExtensionArray.from_storage(pa.uuid(), raw)})
    assert values("u = X'30313233343536373839616263646566'", batch) == [True, False]


def test_views_of_text_and_bytes():
    batch = pa.record_batch(
        {"v": pa.array(["a", None, "b"], pa.string_view()), "w": pa.array([b"a", None, b"b"], pa.binary_view())}
    )
    assert values("v = 'a'", batch) == [True, None, False]
    assert values("v IN ('a', 'c', 'd', 'e', 'f')", batch) == [True, None, False]
    assert values("v LIKE 'a%'", batch) == [True, None, False]
    assert values("upper(v)", batch) == ["A", None, "B"]
    assert values("w IN (X'61', X'63', X'64', X'65', X'66')", batch) == [True, None, False]


def test_a_field_of_a_null_struct_is_null():
    kind = pa.struct({"x": pa.int32(), "inner": pa.struct({"y": pa.int32()})})
    points = pa.array([{"x": 1, "inner": {"y": 2}}, None, {"x": None, "inner": None}], kind)
    batch = pa.record_batch({"p": points})
    assert values("p.x", batch) == [1, None, None]
    assert values("p.inner.y IS NULL", batch) == [False, True, True]


LISTS = {
    "l": pa.array([[1, 2], [], None, [None], [3], [1, None, 2]], pa.list_(pa.int64())),
    "big": pa.array([[1, 2], [], None, [None], [3], [1, None, 2]], pa.large_list(pa.int64())),
    "fsl": pa.array([[1, 2], [3, 4], None, [5, None], [1, 1], [2, 2]], pa.list_(pa.int64(), 2)),
}
ON_LISTS = [
    "array_has({0}, 1)",
    "array_has({0}, k)",
    "array_has_any({0}, [2, 3])",
    "array_has_all({0}, [1, 2])",
    "array_length({0})",
]
ON_LISTS += ["{0}[1]", "{0}[-1]", "{0}[k]", "{0} = [1, 2]", "array_has_any({0}, {0})", "empty({0})"]


@pytest.mark.parametrize("name", LISTS)
def test_slices_give_the_same_as_the_whole(name: str):
    batch = pa.record_batch(
        {**LISTS, "k": pa.array([1, 2, 1, None, 3, 2]), "p": pa.array([{"x": i} for i in range(6)])}
    )
    for text in [*(text.format(name) for text in ON_LISTS), "p.x + k", "k % 2"]:
        whole = values(text, batch)
        for start, stop in itertools.combinations(range(7), 2):
            assert values(text, batch.slice(start, stop - start)) == whole[start:stop], (text, start, stop)


def test_tables_give_chunks_of_the_right_type():
    table = pa.table(
        {"a": pa.chunked_array([[1, 2], [], [None, 4]], pa.int64()), "b": pa.chunked_array([[5], [6, 7, 8]])}
    )
    total = evaluate(parse_expression("a + b", table.schema), table)
    assert isinstance(total, pa.ChunkedArray)
    assert total.to_pylist() == [6, 8, None, 12]
    kept = mask(parse_filter("a > 1", table.schema), table)
    assert isinstance(kept, pa.BooleanArray)
    assert kept.to_pylist() == [False, True, False, True]
    empty = table.slice(0, 0)
    assert evaluate(parse_expression("a + b", table.schema), empty).type == pa.int64()
    assert len(mask(parse_filter("a > 1 AND b IN (1, 2)", table.schema), empty)) == 0


def test_constants_are_repeated():
    batch = pa.record_batch({"a": [1, 2, 3]})
    assert values("1 + 1", batch) == [2, 2, 2]
    assert mask(parse_filter("1 = 1", batch.schema), batch).to_pylist() == [True] * 3
    assert mask(parse_filter("NULL AND TRUE", batch.schema), batch).to_pylist() == [False] * 3


def test_what_cannot_be_evaluated():
    batch = pa.record_batch({"a": [1, 2, 3]})
    with pytest.raises(UnknownColumn, match="'b'"):
        mask(parse_filter("b > 1", pa.schema({"b": pa.int64()})), batch)
    with pytest.raises(InvalidInput, match="must be true or false"):
        mask(parse_expression("a + 1", batch.schema), batch)
    with pytest.raises(InvalidInput, match="overflow"):
        values("abs(a - 9223372036854775807 - 2)", batch)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_remainders_have_the_sign_of_the_dividend(kind: str) -> None:
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    numbers = [least, least + 1, most, most - 1, 0, 1, 5, 100, *([-1, -7, -100] if least else [])]
    for divisor in (1, 2, 7, 100, most, *([-1, -3, least] if least else [])):
        wanted = [abs(number) % abs(divisor) * (-1 if number < 0 else 1) for number in numbers]
        assert remainders(np.array(numbers, kind), divisor).tolist() == wanted
