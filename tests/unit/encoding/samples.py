"""Columns of every type that old file versions can hold, and files of many small pages."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa

from lancelet.encoding.rows import Bytes, Ranges
from lancelet.encoding.v2_0 import ColumnReader20
from lancelet.format.proto import column_pb2, file_pb2
from lancelet.format.schema import Schema

WORDS = ["", "a", "β", "long " * 9, "naïve 🦎", "zz", "lance"]
Draw = Callable[[random.Random], object]


def _integers(bits: int, signed: bool) -> Draw:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda r: r.choice([low, high, 0, 1, r.randint(low, high), r.randint(0, 100)])


def _float(r: random.Random) -> float:
    return r.choice([0.0, -0.0, float("nan"), float("inf"), 1.5, r.uniform(-1e3, 1e3)])


def _word(r: random.Random) -> str:
    return r.choice(WORDS) + str(r.randint(0, 10_000))


def _blob(r: random.Random) -> bytes:
    return r.randbytes(r.choice([0, 1, 7, 40]))


def _decimal(r: random.Random) -> decimal.Decimal:
    return decimal.Decimal(r.randint(-(10**9), 10**9)).scaleb(-2)


def _maybe(draw: Draw, r: random.Random, nulls: float) -> object:
    return None if r.random() < nulls else draw(r)


def draw_for(dtype: pa.DataType, nulls: float) -> Draw:
    """How to draw one value of a type; ``nulls`` is the share of nulls below it."""
    t = pa.types
    if t.is_null(dtype):
        return lambda r: None
    if t.is_boolean(dtype):
        return lambda r: r.random() < 0.5
    if t.is_integer(dtype):
        return _integers(dtype.bit_width, t.is_signed_integer(dtype))
    if t.is_float16(dtype):
        return lambda r: np.float16(_float(r))
    if t.is_floating(dtype):
        return _float
    if t.is_decimal(dtype):
        return _decimal
    if t.is_date(dtype):
        return lambda r: dt.date(1970, 1, 1) + dt.timedelta(days=r.randint(-9999, 9999))
    if t.is_time(dtype) or t.is_timestamp(dtype) or t.is_duration(dtype):
        return lambda r: r.randint(0, 86_000)
    if t.is_string(dtype) or t.is_large_string(dtype):
        return _word
    if t.is_binary(dtype) or t.is_large_binary(dtype):
        return _blob
    if t.is_fixed_size_binary(dtype):
        return lambda r: r.randbytes(dtype.byte_width)
    if t.is_fixed_size_list(dtype):
        item = draw_for(dtype.value_type, nulls)
        return lambda r: [_maybe(item, r, nulls) for _ in range(dtype.list_size)]
    if t.is_list(dtype) or t.is_large_list(dtype):
        item = draw_for(dtype.value_type, nulls)
        below = 0 if t.is_struct(dtype.value_type) else nulls
        return lambda r: [_maybe(item, r, below) for _ in range(r.choice([0, 0, 1, 2, 9]))]
    if t.is_struct(dtype):
        # Null structs are refused by 2.0 and lost by 0.1.
        parts = {f.name: (draw_for(f.type, nulls), 0 if t.is_struct(f.type) else nulls) for f in dtype}
        return lambda r: {name: _maybe(draw, r, share) for name, (draw, share) in parts.items()}
    if t.is_dictionary(dtype):
        if t.is_integer(dtype.value_type):
            return lambda r: r.randint(0, 40)
        return lambda r: _encode(r.choice(WORDS), dtype.value_type)
    raise AssertionError(dtype)


def _encode(word: str, dtype: pa.DataType) -> object:
    return word if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) else word.encode()


def make(dtype: pa.DataType, count: int, nulls: float, seed: int = 0) -> pa.Array:
    """Random values of a type."""
    r = random.Random(f"{seed} {dtype} {count} {nulls}")
    draw = draw_for(dtype, nulls)
    top = 0 if pa.types.is_struct(dtype) else nulls
    made = pa.array([_maybe(draw, r, top) for _ in range(count)], dtype)
    # pyarrow 25 gives signed indices to a dictionary that is to have unsigned ones.
    return made if made.type == dtype else made.cast(dtype)


def low_cardinality(count: int, nulls: float, seed: int = 0) -> pa.Array:
    """Strings that the 2.0 writer stores with a dictionary."""
    r = random.Random(seed)
    return pa.array([None if r.random() < nulls else r.choice(WORDS) for _ in range(count)], pa.string())


FIXED = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.decimal128(12, 2), pa.decimal256(40, 2), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"),
    pa.timestamp("us", "UTC"), pa.timestamp("ns", "+05:30"), pa.duration("s"), pa.duration("ns"), pa.binary(3),
    pa.binary(16), pa.list_(pa.float32(), 8), pa.list_(pa.bool_(), 3), pa.list_(pa.bool_(), 8), pa.list_(pa.int16(), 1),
    pa.list_(pa.list_(pa.int8(), 2), 3), pa.list_(pa.binary(2), 2), pa.list_(pa.decimal128(12, 2), 2),
]  # fmt: skip
VARIABLE = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
DICTIONARIES = [
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint16(), pa.large_string()),
    pa.dictionary(pa.int64(), pa.binary()), pa.dictionary(pa.int32(), pa.int64()),
]  # fmt: skip
NESTED = [
    pa.list_(pa.int32()), pa.large_list(pa.float64()), pa.list_(pa.string()), pa.list_(pa.bool_()),
    pa.list_(pa.list_(pa.int16())), pa.list_(pa.list_(pa.list_(pa.string()))), pa.list_(pa.list_(pa.float32(), 4)),
    pa.struct([("x", pa.int32()), ("y", pa.string())]),
    pa.struct([("p", pa.struct([("q", pa.bool_()), ("r", pa.list_(pa.int64()))])), ("s", pa.float32())]),
    pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
    pa.large_list(pa.struct([("a", pa.struct([("b", pa.binary())])), ("c", pa.list_(pa.uint8(), 3))])),
    pa.list_(pa.dictionary(pa.int16(), pa.string())),
]  # fmt: skip
TYPES = [pa.null(), *FIXED, *VARIABLE, *DICTIONARIES, *NESTED]


def write_pages(
    path: Path, array: pa.Array, cuts: list[int], cache: int = 1, metadata: dict[str, str] | None = None
) -> None:
    """A 2.0 file with one column ``c``, written in the given pieces; a small cache gives a page for each."""
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    with lance.file.LanceFileWriter(str(path), schema, data_cache_bytes=cache, version="2.0") as writer:
        for start, stop in zip([0, *cuts], [*cuts, len(array)], strict=True):
            # Copied, because the reference writer trips over slices of nested structs.
            piece = array.take(pa.array(range(start, stop), pa.int64()))
            writer.write_batch(pa.record_batch([piece], schema=schema))


class Source:
    """The bytes of a file, and what was read of them."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = np.frombuffer(data, np.uint8)
        self.size = len(data)
        self.mapped = None
        self.requests: list[Ranges] = []

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Bytes]:
        self.requests.append(list(ranges))
        for offset, length in ranges:
            assert offset >= 0
            assert length >= 0
            assert offset + length <= self.size, f"{offset} + {length} beyond {self.size}"
        return [self.data[offset : offset + length] for offset, length in ranges]

    def read_pieces(self, starts: object, sizes: object, out: object) -> bool:
        return False

    def reserve(self, ranges: int, nbytes: int) -> None:
        pass

    def release(self, start: int, stop: int) -> None:
        pass

    @property
    def bytes_read(self) -> int:
        return sum(length for ranges in self.requests for _, length in ranges)


class File20:
    """A bare 2.0 file: footer, offset tables, descriptor (spec file-format.md 1.2)."""

    def __init__(self, path: Path | str, data: bytes | None = None, gap: int = 4096) -> None:
        raw = Path(path).read_bytes() if data is None else data
        self.source = Source(str(path), raw)
        _, columns_at, globals_at, _, count, *_ = struct.unpack("<QQQIIHH4s", raw[-40:])
        position, size = struct.unpack_from("<QQ", raw, globals_at)
        descriptor = file_pb2.FileDescriptor.FromString(raw[position : position + size])
        self.columns = []
        for number in range(count):
            position, size = struct.unpack_from("<QQ", raw, columns_at + 16 * number)
            self.columns.append(column_pb2.ColumnMetadata.FromString(raw[position : position + size]))
        self.schema = Schema.from_proto(descriptor.schema.fields, descriptor.schema.metadata)
        self.num_rows = descriptor.length
        self.column_of = {field_id: number for number, field_id in enumerate(_owners(self.schema))}
        self.reader = self.make_reader(gap)

    def make_reader(self, gap: int = 4096) -> ColumnReader20:
        return ColumnReader20(
            self.source.path, self.columns, self.column_of, self.source.size, schema=self.schema, gap=gap
        )


def _owners(schema: Schema) -> Iterator[int]:
    stack = list(reversed(schema.fields))
    while stack:
        field = stack.pop()
        yield field.id
        if not field.is_packed:
            stack.extend(reversed(field.children))


def plain(array: pa.Array | pa.ChunkedArray) -> str:
    """Values as text: tells NaN from null and -0.0 from 0.0."""
    return repr(array.to_pylist())
