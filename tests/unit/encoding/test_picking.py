"""Rows picked out of slices of every nesting, against Python's lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancelet.encoding.picking import drop_nulls, keep_rows, pick_rows


def _nested(values: pa.Array, *sizes: int) -> pa.Array:
    for size in sizes:
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def _some(count: int, every: int) -> pa.Array:
    return pa.array(np.arange(count) % every == 0)


NUMBERS = pa.array(np.arange(3000), pa.int16())
PAIRS = _nested(NUMBERS, 2, 3)
OFFSETS = pa.array(range(0, 400, 4), pa.int32())
ARRAYS = {
    "numbers": NUMBERS,
    "vectors": _nested(NUMBERS, 3),
    "pairs": PAIRS,
    "three levels": _nested(NUMBERS, 2, 3, 2),
    "numbers with nulls": _nested(pa.array([None if n % 7 == 0 else n for n in range(3000)], pa.int16()), 2, 3),
    "rows with nulls": pa.FixedSizeListArray.from_arrays(_nested(NUMBERS, 2), 3, mask=_some(500, 4)),
    "pairs with nulls": pa.FixedSizeListArray.from_arrays(
        pa.FixedSizeListArray.from_arrays(NUMBERS, 2, mask=_some(1500, 4)), 3
    ),
    "a slice of numbers": _nested(NUMBERS.slice(7, 2400), 2, 3),
    "a slice of pairs": pa.FixedSizeListArray.from_arrays(_nested(NUMBERS, 2).slice(9, 900), 3),
    "booleans": _nested(pa.array([n % 3 == 0 for n in range(3000)]), 2, 3),
    "bytes": _nested(pa.array([b"%04d" % n for n in range(3000)], pa.binary(4)), 2, 3),
    "decimals": _nested(pa.array(range(3000), pa.decimal128(20, 1)), 2, 3),
    "texts": _nested(pa.array(map(str, range(3000)), pa.string()), 2, 3),
    "structs": pa.StructArray.from_arrays([PAIRS.slice(50)], ["x"], mask=_some(450, 5)),
    "structs in structs": pa.StructArray.from_arrays(
        [pa.StructArray.from_arrays([PAIRS.slice(50), NUMBERS.slice(3, 450)], ["x", "n"])], ["y"]
    ).slice(20),
    "lists": pa.ListArray.from_arrays(OFFSETS, PAIRS.slice(50)),
    "large lists": pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), PAIRS.slice(50)).slice(9),
    "maps": pa.MapArray.from_arrays(OFFSETS, NUMBERS.slice(0, 400), PAIRS.slice(50, 400)),
    "extensions": pa.ExtensionArray.from_storage(pa.opaque(PAIRS.type, "pairs", "here"), PAIRS.slice(50)),
}


@pytest.mark.parametrize("start", [0, 31])
@pytest.mark.parametrize("name", ARRAYS)
def test_rows_of_slices(name: str, start: int) -> None:
    array = ARRAYS[name].slice(start, 40)
    values = array.to_pylist()
    places = [5, 1, 1, len(values) - 1, None, 0]
    chosen = [n % 3 != 0 for n in range(len(values))]
    picked, kept = pick_rows(array, pa.array(places)), keep_rows(array, pa.array(chosen))
    for found in (picked, kept):
        found.validate(full=True)
        assert found.type == array.type
    assert picked.to_pylist() == [None if place is None else values[place] for place in places]
    expected = [value for value, wanted in zip(values, chosen, strict=True) if wanted]
    assert kept.to_pylist() == expected
    assert drop_nulls(array).to_pylist() == [value for value in values if value is not None]
    # In chunks, beside columns with others, in batches and in tables.
    chunks = pa.chunked_array([array.slice(0, 7), array.slice(7)])
    assert keep_rows(chunks, pa.array(chosen)).to_pylist() == expected
    batch = pa.record_batch({"v": array, "n": range(len(array))})
    table = pa.table({"n": pa.chunked_array([range(3), range(3, len(array))]), "v": chunks})
    for rows in (batch, table):
        found = keep_rows(rows, pa.array(chosen))
        assert (type(found), found.schema) == (type(rows), rows.schema)
        assert found.column("v").to_pylist() == expected
        assert found.column("n").to_pylist() == [n for n, wanted in enumerate(chosen) if wanted]
        assert pick_rows(rows, pa.array([3, 0])).column("v").to_pylist() == [values[3], values[0]]
    masks = pa.chunked_array([chosen[:20], chosen[20:]])
    assert keep_rows(table, masks).column("v").to_pylist() == expected


def test_no_rows_of_no_chunks() -> None:
    nothing = pa.chunked_array([], PAIRS.type)
    assert pick_rows(nothing, pa.array([], pa.int64())).to_pylist() == []
    assert keep_rows(pa.table({"v": nothing}), pa.array([], pa.bool_())).num_rows == 0


class Unhashable(pa.ExtensionType):
    """A type that defines equality alone, as pylance's bfloat16 does."""

    def __init__(self) -> None:
        super().__init__(PAIRS.type, "unhashable")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, data: bytes) -> Unhashable:
        return cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)

    __hash__ = None  # type: ignore[assignment]


def test_types_without_a_hash() -> None:
    array = pa.ExtensionArray.from_storage(Unhashable(), PAIRS)
    assert pick_rows(array[5:], pa.array([1])).to_pylist() == [PAIRS[6].as_py()]
