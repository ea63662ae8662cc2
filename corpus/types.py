"""Columns of every type, with the values that go wrong first: nulls, ends of ranges, empty things."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

NAN, INF = float("nan"), float("inf")


def _numbers(kind: pa.DataType) -> pa.Array:
    limits = np.iinfo(kind.to_pandas_dtype())
    return pa.array([int(limits.min), None, 0, 1, int(limits.max), 7], kind)


def _texts(kind: pa.DataType) -> pa.Array:
    texts = ["", "kelp", None, "ünïcödé 🌿", "a" * 300, "line\nbreak"]
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return pa.array([text.encode() if binary and text is not None else text for text in texts], kind)


def columns() -> dict[str, pa.Array]:
    """Name and values of a column of each type; all have six rows."""
    found = {str(kind): _numbers(kind) for kind in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    )}  # fmt: skip
    floats = [0.0, -0.0, None, NAN, INF, 1.1]
    found |= {
        str(kind): pa.array(
            np.array([0 if x is None else x for x in floats], kind.to_pandas_dtype()),
            kind,
            mask=np.array([x is None for x in floats]),
        )
        for kind in (pa.float16(), pa.float32(), pa.float64())
    }
    found |= {str(kind): _texts(kind) for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())}
    found |= {
        "bool": pa.array([True, False, None, True, True, False]),
        "null": pa.nulls(6),
        "fixed_size_binary": pa.array([b"abcd", None, b"\x00" * 4, b"\xff" * 4, b"kelp", b"1234"], pa.binary(4)),
        "decimal128": pa.array([Decimal("-1.25"), None, Decimal(0), Decimal("99999999.99"), Decimal("0.01"), Decimal(1)], pa.decimal128(10, 2)),
        "decimal256": pa.array([Decimal(10) ** 60, None, Decimal(0), Decimal(-1), Decimal(7), Decimal(1)], pa.decimal256(70, 0)),
        "date32": pa.array([0, None, -1, 20000, 1, 2], pa.date32()),
        "date64": pa.array([0, None, -86400000, 86400000, 0, 0], pa.date64()),
        "dictionary": pa.array(["a", None, "b", "a", "c", "a"]).dictionary_encode(),
        "list": pa.array([[1, 2], None, [], [None], [3], [4, 5, 6]], pa.list_(pa.int32())),
        "large_list": pa.array([["a"], None, [], ["b", None], ["c"], ["d"]], pa.large_list(pa.string())),
        "vector": pa.array([[1.0, 2.0], None, [0.0, 0.0], [NAN, 1.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
        "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": ""}, {"x": 2, "y": None}, {"x": 3, "y": "b"}, {"x": 4, "y": "c"}]),
        "list_of_structs": pa.array([[{"x": 1}], None, [], [{"x": None}, None], [{"x": 2}], [{"x": 3}, {"x": 4}]], pa.list_(pa.struct([("x", pa.int64())]))),
        "struct_of_lists": pa.array([{"l": [1]}, {"l": None}, None, {"l": []}, {"l": [None]}, {"l": [2, 3]}], pa.struct([("l", pa.list_(pa.int64()))])),
    }  # fmt: skip
    for unit in ("s", "ms", "us", "ns"):
        found[f"timestamp_{unit}"] = pa.array([0, None, -1, 1_700_000_000, 1, 2], pa.timestamp(unit))
        found[f"duration_{unit}"] = pa.array([0, None, -1, 1_700_000_000, 1, 2], pa.duration(unit))
    found["timestamp_zone"] = pa.array([0, None, -1, 10**15, 1, 2], pa.timestamp("us", "Europe/Berlin"))
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        found[str(kind)] = pa.array([0, None, 1, 3600, 7, 8], kind)
    return found


def maps() -> dict[str, pa.Array]:
    """What only later file versions have."""
    pairs = [[("a", 1)], None, [], [("b", None)], [("c", 2), ("d", 3)], [("e", 4)]]
    return {"map": pa.array(pairs, pa.map_(pa.string(), pa.int64()))}
