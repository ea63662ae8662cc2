"""2.0 pages made by hand: what no current writer makes, and what no honest one would."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lancelet.encoding.fetch import run
from lancelet.encoding.rows import RowIndices, RowRange
from lancelet.encoding.v2_0 import ColumnReader20
from lancelet.errors import CorruptFile, LanceletError, NotSupported
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings20_pb2 as pb
from lancelet.format.schema import Field
from unit.encoding.samples import File20, Source

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures" / "historical"
VALUES = pb.ColumnEncoding(values=pb.Empty())


def direct(message) -> column_pb2.Encoding:
    wrapped = column_pb2.AnyMessage(type_url=f"/{message.DESCRIPTOR.full_name}", value=message.SerializeToString())
    return column_pb2.Encoding(direct=column_pb2.DirectEncoding(encoding=wrapped.SerializeToString()))


class Made:
    """A file of hand-made columns; column n belongs to field n."""

    def __init__(self) -> None:
        self.data = b""
        self.columns: list[column_pb2.ColumnMetadata] = []

    def column(self, *pages, encoding=VALUES) -> Made:
        """Pages are (length, encoding, buffers)."""
        message = column_pb2.ColumnMetadata(encoding=direct(encoding))
        for length, tree, buffers in pages:
            page = message.pages.add(length=length, encoding=direct(tree))
            for buffer in buffers:
                page.buffer_offsets.append(len(self.data))
                page.buffer_sizes.append(len(buffer))
                self.data += bytes(buffer)
        self.columns.append(message)
        return self

    def read(self, field: Field, rows) -> pa.Array:
        source = Source("made.lance", self.data)
        reader = ColumnReader20("made.lance", self.columns, dict(enumerate(range(len(self.columns)))), source.size)
        array = run(reader.read(field, rows), source)
        array.validate(full=True)
        return array


def flat(bits: int, buffer: int = 0, scheme: str | None = None) -> pb.ArrayEncoding:
    message = pb.Flat(bits_per_value=bits, buffer=pb.Buffer(buffer_index=buffer))
    if scheme is not None:
        message.compression.scheme = scheme
    return pb.ArrayEncoding(flat=message)


def valid(values: pb.ArrayEncoding, mask: pb.ArrayEncoding | None = None) -> pb.ArrayEncoding:
    if mask is None:
        return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=pb.Nullable.SomeNull(values=values, validity=mask)))


ALL_NULLS = pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))


def binary(adjustment: int, scheme: str | None = None) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(
        binary=pb.Binary(indices=valid(flat(64)), bytes=flat(8, 1, scheme), null_adjustment=adjustment)
    )


def lists(items: int) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(list=pb.List(offsets=valid(flat(64)), null_offset_adjustment=items + 1, num_items=items))


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def bits_of(values, width: int) -> bytes:
    bits = [int(v) >> i & 1 for v in values for i in range(width)]
    return np.packbits(bits, bitorder="little").tobytes()


def fastlanes(values: np.ndarray, bits: int, width: int) -> bytes:
    """Blocks of 1024 values as spec encodings.md 6.4 says, value by value."""
    order = [0, 4, 2, 6, 1, 5, 3, 7]
    lanes = 1024 // bits
    padded = np.zeros(-(-len(values) // 1024) * 1024, object)
    padded[: len(values)] = [int(v) for v in values]
    out = b""
    for block in padded.reshape(-1, 1024):
        packed = [0] * (width * lanes)
        for row in range(bits):
            word, shift = divmod(row * width, bits)
            for lane in range(lanes):
                value = block[order[row // 8] * 16 + (row % 8) * 128 + lane] << shift
                if width:
                    packed[word * lanes + lane] |= value & (2**bits - 1)
                    if shift + width > bits:
                        packed[(word + 1) * lanes + lane] |= value >> bits
        out += b"".join(value.to_bytes(bits // 8, "little") for value in packed)
    return out


def field(dtype: str, *children: Field, number: int = 0) -> Field:
    return Field(number, "c", dtype, True, children)


@pytest.mark.parametrize("width", [1, 3, 8, 13, 31, 32])
@pytest.mark.parametrize("signed", [False, True])
def test_bitpacked(width, signed):
    rng = np.random.default_rng(width)
    low = -(2 ** (width - 1)) if signed else 0
    values = rng.integers(low, low + 2**width, 300)
    tree = pb.Bitpacked(compressed_bits_per_value=width, uncompressed_bits_per_value=64, signed=signed)
    made = Made().column((300, valid(pb.ArrayEncoding(bitpacked=tree)), [bits_of(values % 2**width, width)]))
    for rows in (RowRange(0, 300), RowRange(7, 31), RowIndices(np.array([0, 3, 4, 299]))):
        assert made.read(field("int64"), rows).to_pylist() == values[rows.to_indices()].tolist()


@pytest.mark.parametrize(("bits", "width"), [(8, 3), (16, 5), (32, 10), (32, 32), (64, 33), (64, 0)])
def test_bitpacked_for_non_neg(bits, width):
    values = (np.arange(2500, dtype=object) * 2654435761) % 2**width
    tree = pb.BitpackedForNonNeg(compressed_bits_per_value=width, uncompressed_bits_per_value=bits)
    made = Made().column((2500, valid(pb.ArrayEncoding(bitpacked_for_non_neg=tree)), [fastlanes(values, bits, width)]))
    for rows in (RowRange(0, 2500), RowRange(1030, 1040), RowIndices(np.array([5, 1023, 1024, 2499]))):
        assert made.read(field(f"uint{bits}"), rows).to_pylist() == values[rows.to_indices()].tolist()


def test_strings_of_equal_length():
    tree = pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=flat(8, 1), byte_width=3))
    made = Made().column(
        (4, valid(tree, flat(1)), [b"\x0d", b"abc\xff\xff\xffghijkl"]), (1, valid(tree), [b"", b"xyz"])
    )
    assert made.read(field("string"), RowRange(0, 5)).to_pylist() == ["abc", None, "ghi", "jkl", "xyz"]
    assert made.read(field("large_binary"), RowIndices(np.array([1, 3, 4]))).to_pylist() == [None, b"jkl", b"xyz"]


def test_strings_as_lists_of_bytes():
    """What the first 2.0 writers made: the bytes are a column of their own after the offsets."""
    made = Made().column((2, lists(4), [words(3, 4)]), (2, lists(2), [words(3, 2)]))
    made.column((5, valid(flat(8)), [b"fooba"]), (1, valid(flat(8)), [b"r"]))
    assert made.read(field("string"), RowRange(0, 4)).to_pylist() == ["foo", "b", None, "ar"]
    assert made.read(field("binary"), RowIndices(np.array([0, 3]))).to_pylist() == [b"foo", b"ar"]


def test_the_historical_table_with_strings_as_lists():
    if not FIXTURES.exists():
        pytest.skip("the historical tables are not beside the project")
    (path,) = FIXTURES.glob("v0.13.0/string_encoding.lance/data/*.lance")
    file = File20(path)
    file.column_of = {0: 0, 1: 1, 2: 3, 3: 5}
    reader = file.make_reader()
    found = [run(reader.read(f, RowRange(0, 3)), file.source).to_pylist() for f in file.schema.fields]
    assert found == [[1, 2, 3], ["foo", "bar", "baz"], [b"foo", b"bar", b"baz"], [4, 5, 6]]


def test_null_rows_may_span_bytes_and_items():
    made = Made().column((4, binary(8), [words(1, 8 + 4, 6, 7), b"x\xff\xff\xffyzw"]))
    assert made.read(field("string"), RowRange(0, 4)).to_pylist() == ["x", None, "yz", "w"]
    assert made.read(field("string"), RowRange(1, 3)).to_pylist() == [None, "yz"]
    made = (
        Made()
        .column((3, lists(5), [words(2, 10, 5)]))
        .column((5, valid(flat(32)), [struct.pack("<5i", 1, 2, 3, 4, 5)]))
    )
    nested = field("list", Field(1, "item", "int32"))
    assert made.read(nested, RowRange(0, 3)).to_pylist() == [[1, 2], None, [5]]
    assert made.read(nested, RowIndices(np.array([1, 2]))).to_pylist() == [None, [5]]


def test_column_encodings_are_unwrapped():
    wrapped = pb.ColumnEncoding(zone_index=pb.ZoneIndex(rows_per_zone=4, inner=VALUES))
    made = Made().column((2, valid(flat(16)), [struct.pack("<2h", 7, -7)]), encoding=wrapped)
    assert made.read(field("int16"), RowRange(0, 2)).to_pylist() == [7, -7]


def test_compressed_buffers():
    zstd, lz4 = pa.Codec("zstd"), pa.Codec("lz4_raw")
    text = b"abc" * 1000
    ends = words(*range(3, 3001, 3))
    for scheme, packed in [
        ("zstd", words(3000) + zstd.compress(text, asbytes=True)),
        ("zstd", zstd.compress(text, asbytes=True)),
        ("lz4", struct.pack("<I", 3000) + lz4.compress(text, asbytes=True)),
        ("none", text),
    ]:
        made = Made().column((1000, binary(3001, scheme), [ends, packed]))
        assert made.read(field("string"), RowRange(3, 1000)).to_pylist() == ["abc"] * 997
        assert made.read(field("string"), RowIndices(np.array([9, 99]))).to_pylist() == ["abc"] * 2
    numbers = np.arange(500, dtype="<i4")
    made = Made().column(
        (500, valid(flat(32, 0, "zstd")), [words(2000) + zstd.compress(numbers.tobytes(), asbytes=True)])
    )
    assert made.read(field("int32"), RowRange(10, 500)).to_pylist() == list(range(10, 500))
    assert made.read(field("int32"), RowIndices(np.array([3, 400]))).to_pylist() == [3, 400]


def test_unaligned_buffers():
    made = Made().column((1, valid(flat(8)), [b"x"])).column((3, valid(flat(64)), [words(1, 2, 3)]))
    assert made.read(field("int64", number=1), RowRange(0, 3)).to_pylist() == [1, 2, 3]


PACKED = pa.Codec("lz4_raw").compress(b"abc" * 100, asbytes=True)
FRAME = pa.Codec("zstd").compress(b"abc" * 100, asbytes=True)
STRINGS = field("string")
LIST_OF_NULLS = field("list", Field(1, "item", "int64"))


@pytest.mark.parametrize(
    ("made", "asked", "reason"),
    [
        (Made().column((2**60, ALL_NULLS, [])), field("int64"), "claims"),
        (Made().column((3, valid(flat(64)), [words(1, 2)])), field("int64"), "need 24 bytes"),
        (Made().column((3, valid(flat(32)), [words(1, 2)])), field("int64"), "32 bits where 64"),
        (Made().column((3, valid(flat(64, 5)), [words(1, 2, 3)])), field("int64"), "buffer 5"),
        (Made().column((3, valid(flat(64), flat(1, 1)), [words(1, 2, 3), b""])), field("int64"), "3 values of 1 bits"),
        (Made().column((3, binary(4), [words(1, 3, 2), b"abc"])), STRINGS, "decrease"),
        (Made().column((3, binary(4), [words(1, 2, 2**63), b"abc"])), STRINGS, "an offset of"),
        (Made().column((3, binary(4), [words(1, 2, 3), b"a\xffc"])), STRINGS, "UTF-8"),
        (Made().column((3, binary(5), [words(1, 2, 4), "aé!".encode()])), STRINGS, "inside a UTF-8"),
        (Made().column((3, binary(4), [words(1, 2), b"abc"])), STRINGS, "16"),
        (Made().column((3, binary(4, "lz4"), [words(1, 2, 3), struct.pack("<I", 2**32 - 1) + PACKED])), STRINGS, "claim to hold"),
        (Made().column((3, binary(4, "lz4"), [words(1, 2, 3), struct.pack("<I", 301) + PACKED])), STRINGS, "lz4 block"),
        (Made().column((3, binary(4, "lz4"), [words(1, 2, 3), b"\1"])), STRINGS, "no length"),
        (Made().column((3, binary(4, "zstd"), [words(1, 2, 3), words(2**60) + FRAME])), STRINGS, "claim to hold"),
        (Made().column((3, binary(4, "zstd"), [words(1, 2, 3), words(301) + FRAME])), STRINGS, "does not hold the 301"),
        (Made().column((3, binary(4, "zstd"), [words(1, 2, 3), words(2) + FRAME])), STRINGS, "does not hold the 2 bytes"),
        (Made().column((3, binary(2000, "zstd"), [words(1, 2, 999), words(300) + FRAME])), STRINGS, "beyond the 300"),
        (Made().column((3, lists(2**39), [words(1, 2, 2**39)])).column((2**39, ALL_NULLS, [])), LIST_OF_NULLS, "items in a file"),
        (Made().column((3, lists(2), [words(1, 2, 2)])).column((1, ALL_NULLS, [])), LIST_OF_NULLS, "has 1 values"),
        (Made().column((3, lists(2), [words(1, 2, 9)])).column((2, ALL_NULLS, [])), LIST_OF_NULLS, "an offset of"),
        (Made().column((3, flat(8), [b"abc"])).column(), LIST_OF_NULLS, "'flat' for a column of lists"),
        (Made().column((3, valid(flat(1)), [b"\7"])), field("null"), "null type"),
    ],
)  # fmt: skip
def test_lies_are_told(made, asked, reason):
    for rows in (RowRange(0, 3), RowIndices(np.arange(3))):
        with pytest.raises(CorruptFile, match=r"corrupt file made\.lance, (column|field)") as error:
            made.read(asked, rows)
        assert reason in str(error.value)


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        (Made().column((3, pb.ArrayEncoding(constant=pb.Constant(value=b"1")), [])), field("int32")),
        (Made().column((3, pb.ArrayEncoding(), [])), field("int32")),
        (Made().column((3, binary(4, "brotli"), [words(1, 2, 3), b"abc"])), STRINGS),
        (Made().column((3, valid(flat(8)), [b"abc"]), encoding=pb.ColumnEncoding()), field("int8")),
    ],
)
def test_the_unknown_is_refused(made, asked):
    with pytest.raises(NotSupported, match=r"made\.lance, column 0"):
        made.read(asked, RowRange(0, 3))


def test_metadata_that_lies():
    made = Made().column((3, valid(flat(8)), [b"abc"]))
    page = made.columns[0].pages[0]
    for change in (
        lambda: page.buffer_offsets.__setitem__(0, 2**63),
        lambda: page.buffer_sizes.append(1),
        lambda: page.encoding.CopyFrom(column_pb2.Encoding(indirect=column_pb2.DeferredEncoding())),
        lambda: page.encoding.CopyFrom(column_pb2.Encoding(direct=column_pb2.DirectEncoding(encoding=b"\xff\xff"))),
    ):
        saved = column_pb2.ColumnMetadata.Page.FromString(page.SerializeToString())
        change()
        with pytest.raises(LanceletError, match=r"made\.lance"):
            made.read(field("int8"), RowRange(0, 3))
        page.CopyFrom(saved)
    assert made.read(field("int8"), RowRange(0, 3)).to_pylist() == [97, 98, 99]
