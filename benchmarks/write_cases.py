"""What is written: columns of every kind, random, sorted, repeating, with nulls, under each file version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROWS = 1_000_000
STRINGS = 300_000
_WORDS = [
    head + tail for head in ("lan", "ce", "ta", "ble", "ar", "row", "ever") for tail in ("let", "ment", "ing", "")
]
_VERSIONED = (
    "int64 random", "int64 random nulls", "bool", "bool nulls", "text", "text nulls", "text of 50", "bytes of 1 kB",
    "vector float32 x 128", "list of int64", "list of int64 nulls", "list of structs", "struct",
)  # fmt: skip
_COMPRESSED = ("int64 random", "text", "bytes of 1 kB", "list of int64")


@dataclass(frozen=True, slots=True)
class Case:
    """A table and the file version it is written with."""

    name: str
    table: pa.Table
    version: str = "2.2"


def cases() -> Iterator[Case]:
    """All cases, one after the other."""
    columns = dict(_columns())
    for name, column in columns.items():
        yield Case(name, pa.table({"x": column}))
    for version in ("2.1", "2.0"):
        for name in _VERSIONED:
            yield Case(f"{version} {name}", pa.table({"x": columns[name]}), version)
    for scheme in ("lz4", "zstd"):
        for name in _COMPRESSED:
            field = pa.field("x", columns[name].type, metadata={"lance-encoding:compression": scheme})
            yield Case(f"{scheme} {name}", pa.table([columns[name]], schema=pa.schema([field])))
    rng = np.random.default_rng(2)
    blob = pa.field("x", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    for version in ("2.2", "2.1"):
        noise = _noise(rng, 64, 1 << 20).cast(pa.large_binary())
        yield Case(f"{version} blobs of 1 MiB", pa.table([noise], schema=pa.schema([blob])), version)
    yield Case("one row", pa.table({"a": [1], "b": ["x"]}))
    yield Case("20 columns of 1,000 rows", pa.table({f"c{i}": rng.integers(0, 1000, 1000) for i in range(20)}))
    yield Case("100 columns of 100 rows", pa.table({f"c{i}": rng.integers(0, 1000, 100) for i in range(100)}))


def _columns() -> Iterator[tuple[str, pa.Array]]:
    yield from _scalars()
    yield from _strings()
    yield from _vectors()
    yield from _nested()


def _scalars() -> Iterator[tuple[str, pa.Array]]:
    rng = np.random.default_rng(7)
    for kind in ("int8", "int16", "int32", "int64", "uint64", "float32", "float64"):
        dtype = np.dtype(kind)
        if dtype.kind == "f":
            drawn = rng.standard_normal(ROWS).astype(dtype)
        else:
            drawn = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, ROWS, dtype, endpoint=True)
        few = rng.integers(0, 100, ROWS).astype(dtype)
        yield f"{kind} random", pa.array(drawn)
        yield f"{kind} sorted", pa.array(np.sort(drawn))
        yield f"{kind} of 100", pa.array(few)
        yield f"{kind} random nulls", _holes(pa.array(drawn))
        yield f"{kind} of 100 nulls", _holes(pa.array(few))
    yield "int64 range", pa.array(np.arange(ROWS))
    yield "int32 runs", pa.array(np.repeat(np.arange(ROWS // 100, dtype=np.int32), 100))
    yield "timestamp", pa.array(1_700_000_000_000_000 + np.arange(ROWS) * 1000, pa.timestamp("us"))
    yield "decimal128", pa.array(rng.integers(0, 10**9, ROWS)).cast(pa.decimal128(30, 2))
    yield "bool", pa.array(rng.random(4 * ROWS) < 0.3)
    yield "bool nulls", _holes(pa.array(rng.random(4 * ROWS) < 0.3))
    yield "one value", pa.array(np.full(ROWS, 5))
    yield "nulls", pa.nulls(ROWS, pa.int64())


def _strings() -> Iterator[tuple[str, pa.Array]]:
    rng = np.random.default_rng(8)
    yield "hexadecimal", pa.array([f"{a:016x}{b:016x}" for a, b in rng.integers(0, 1 << 62, (STRINGS, 2)).tolist()])
    for distinct in (50, 10_000, 75_000, STRINGS):
        items = pa.array([f"user-{number:08d}" for number in range(distinct)])
        yield f"text of {distinct}", items.take(pa.array(rng.integers(0, distinct, STRINGS)))
    text = _sentences(rng, STRINGS, 6)
    yield "text", text
    yield "text nulls", _holes(text)
    yield "large text", text.cast(pa.large_string())
    yield "words", _sentences(rng, STRINGS, 1)
    yield "text of 300 bytes", _sentences(rng, 30_000, 50)
    yield "text of 3 kB", _sentences(rng, 3_000, 500)
    for size, rows in ((16, STRINGS), (1000, 30_000), (100_000, 300)):
        name = f"bytes of {size}" if size < 1000 else f"bytes of {size // 1000} kB"
        yield name, _noise(rng, rows, size)
        yield f"{name} nulls", _holes(_noise(rng, rows, size))
    yield "fixed bytes of 16", _noise(rng, STRINGS, 16).cast(pa.binary(16))
    yield "dictionary", pa.array(_WORDS).take(pa.array(rng.integers(0, len(_WORDS), STRINGS))).dictionary_encode()


def _vectors() -> Iterator[tuple[str, pa.Array]]:
    rng = np.random.default_rng(9)
    shapes = (
        ("float32", 3, 500_000), ("float32", 8, 200_000), ("float32", 128, 50_000), ("float32", 768, 10_000),
        ("float32", 1536, 5_000), ("float16", 768, 15_000), ("float64", 256, 15_000), ("int8", 768, 30_000),
        ("uint8", 128, 100_000),
    )  # fmt: skip
    for kind, size, rows in shapes:
        values = pa.array((rng.standard_normal(rows * size) * 20 % 100).astype(kind))
        yield f"vector {kind} x {size}", pa.FixedSizeListArray.from_arrays(values, size)
        mask = pa.array(rng.random(rows) < 0.1)
        yield f"vector {kind} x {size} nulls", pa.FixedSizeListArray.from_arrays(values, size, mask=mask)


def _nested() -> Iterator[tuple[str, pa.Array]]:
    rng = np.random.default_rng(10)
    ends = _offsets(rng, STRINGS, 7)
    total = int(ends[-1])
    numbers = pa.array(rng.integers(0, 1000, total))
    holes = pa.array(ends, mask=np.append(rng.random(STRINGS) < 0.1, False))
    points = pa.StructArray.from_arrays([numbers.cast(pa.int32()), pa.array(rng.random(total))], ["x", "y"])
    words = pa.array(_WORDS).take(pa.array(rng.integers(0, len(_WORDS), total)))
    yield "list of int64", pa.ListArray.from_arrays(pa.array(ends), numbers)
    yield "list of int64 nulls", pa.ListArray.from_arrays(holes, _holes(numbers))
    yield "list of float32", pa.ListArray.from_arrays(pa.array(ends), pa.array(rng.random(total).astype(np.float32)))
    yield "list of text", pa.ListArray.from_arrays(pa.array(ends), words)
    yield "list of structs", pa.ListArray.from_arrays(pa.array(ends), points)
    yield "map", pa.MapArray.from_arrays(pa.array(ends), words, numbers)
    outer = _offsets(rng, STRINGS // 3, 5)
    inner = _offsets(rng, int(outer[-1]), 4)
    innermost = pa.ListArray.from_arrays(pa.array(inner), pa.array(rng.integers(0, 1000, int(inner[-1]))))
    yield "list of lists", pa.ListArray.from_arrays(pa.array(outer), innermost)
    children = [pa.array(rng.integers(0, 1000, STRINGS)), pa.array(rng.random(STRINGS)), _sentences(rng, STRINGS, 6)]
    yield "struct", pa.StructArray.from_arrays(children, ["a", "b", "c"])
    mask = pa.array(rng.random(STRINGS) < 0.1)
    yield "struct nulls", pa.StructArray.from_arrays([_holes(child) for child in children], ["a", "b", "c"], mask=mask)


def _holes(array: pa.Array) -> pa.Array:
    """The same with a null in every tenth place or so."""
    hidden = pa.array(np.random.default_rng(1).random(len(array)) < 0.1)
    return pc.if_else(hidden, pa.scalar(None, array.type), array)


def _sentences(rng: np.random.Generator, rows: int, words: int) -> pa.Array:
    drawn = rng.integers(0, len(_WORDS), (rows, words))
    columns = [pa.array(_WORDS).take(pa.array(drawn[:, i])) for i in range(words)]
    return pc.binary_join_element_wise(*columns, " ")


def _noise(rng: np.random.Generator, rows: int, size: int) -> pa.Array:
    offsets = (np.arange(rows + 1) * size).astype(np.int32)
    data = rng.integers(0, 256, rows * size, np.uint8)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _offsets(rng: np.random.Generator, rows: int, longest: int) -> np.ndarray:
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(rng.integers(0, longest, rows), out=offsets[1:])
    return offsets
