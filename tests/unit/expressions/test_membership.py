"""Whether numbers are among others, beside Python's sets."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lancelet.expressions.comparing import is_in

WIDTHS = {
    pa.int8(): (-128, 127),
    pa.uint8(): (0, 255),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.uint16(): (0, 2**16 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.uint32(): (0, 2**32 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint64(): (0, 2**64 - 1),
}
OTHERS = (pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("ms", "UTC"), pa.duration("ns"))


def check(values: list[int | None], wanted: list[int | None], kind: pa.DataType) -> None:
    among = set(wanted) - {None}
    array, sought = pa.array(values, kind), pa.array(wanted, kind)
    assert is_in(array, sought).to_pylist() == [value in among for value in values]
    assert is_in(array, sought, match_null=True).to_pylist() == [value in set(wanted) for value in values]
    assert is_in(array[3:], sought[1:]).to_pylist() == [value in set(wanted[1:]) - {None} for value in values[3:]]


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
@pytest.mark.parametrize("size", [5, 8, 100, 1000])
def test_numbers_are_found_as_by_a_set(kind: pa.DataType, size: int) -> None:
    low, high = WIDTHS[kind]
    drawn = random.Random(size)
    for spread in (10, 300, high - low):
        at = [max(low, min(high, drawn.randint(-spread, spread))) for _ in range(2 * size)]
        edges = [low, high, 0, 1, low + 1, high - 1]
        check([None, *edges, *at, None, *at[::-1]], [*at[:size], drawn.choice(edges), None], kind)
        check([*edges, *at], [*at[:size]], kind)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8()], ids=str)
def test_every_number_may_be_wanted(kind: pa.DataType) -> None:
    low, high = WIDTHS[kind]
    everything: list[int | None] = list(range(low, high + 1))
    check([None, *everything], everything, kind)
    check(everything, everything[1:], kind)


@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_times_are_numbers(kind: pa.DataType) -> None:
    day = 86_400_000 if kind == pa.date64() else 1
    array, wanted = (pa.array(numbers, pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind) for numbers in (
        [day * number for number in range(40)], [day * number for number in range(5, 50, 3)]
    ))  # fmt: skip
    assert is_in(array, wanted).to_pylist() == [number in range(5, 50, 3) for number in range(40)]


def test_multiples_of_large_powers_do_not_get_in_each_others_way() -> None:
    wanted = [number << 40 for number in range(5000)]
    assert is_in(pa.array([*wanted, 1, 2**39]), pa.array(wanted)).to_pylist() == [True] * 5000 + [False] * 2


def test_no_values_and_nothing_but_nulls() -> None:
    assert is_in(pa.array([], pa.int64()), pa.array([1, 2, 3, 4, 5])).to_pylist() == []
    assert is_in(pa.nulls(3, pa.int64()), pa.array([0, 1, 2, 3, 4, 5])).to_pylist() == [False] * 3
    assert is_in(pa.array([0, None]), pa.array([None] * 6, pa.int64()), match_null=True).to_pylist() == [False, True]
