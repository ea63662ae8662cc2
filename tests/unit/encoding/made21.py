"""Files of version 2.1 and 2.2 made by hand, byte by byte, and ways to read them.

The encoders here follow spec encodings.md and share no code with the decoders
under test; they are as plain as they can be.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lancelet.encoding.fetch import run
from lancelet.encoding.rows import Bytes, Ranges, RowIndices, RowRange
from lancelet.encoding.v2_1.assemble import leaf_types
from lancelet.encoding.v2_1.leaf_batch import is_small
from lancelet.file.reader import StructuralFile, open_file
from lancelet.format.proto import column_pb2, file_pb2
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.schema import Field, schema_from_arrow
from lancelet.testing import difference

CE = pb.CompressiveEncoding
NAME = "/lance.encodings21.PageLayout"
ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
ALL_ITEM, ALL_LIST, NULL_ITEM, NULL_LIST, EMPTY_LIST, BOTH_LIST = range(1, 7)


@dataclass
class Page:
    """A layout, its buffers, and how many rows the column metadata says it has."""

    rows: int
    layout: object
    buffers: list[bytes] = field(default_factory=list)


class Source:
    """The bytes of a file; ``mapped`` as a local file, or fetched range by range like a remote one."""

    def __init__(self, data: bytes, *, mapped: bool = True, path: str = "made.lance") -> None:
        self.path = path
        self.data = np.frombuffer(data, np.uint8)
        self.size = len(data)
        self.mapped = self.data if mapped else None
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


class File:
    """An open file of one top-level field."""

    def __init__(self, data: bytes, *, mapped: bool = True) -> None:
        self.source = Source(data, mapped=mapped)
        self.reader = open_file(self.source)
        self.field: Field = self.reader.schema().fields[0]
        self.source.requests.clear()

    def read(self, rows: RowRange | RowIndices) -> pa.Array:
        found = run(self.reader.read(self.field, rows), self.source)
        array = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
        array.validate(full=True)
        self._check_together(rows, array)
        return array

    def _check_together(self, rows: RowRange | RowIndices, alone: pa.Array) -> None:
        """What is read of many columns in one go is what is read of each."""
        batch = self.reader.batch([self.field]) if is_small(rows) and isinstance(self.reader, StructuralFile) else None
        together = None if batch is None else batch.read(rows)[0]
        assert together is None or difference(together, alone) is None, difference(together, alone)

    def scan(self) -> pa.Array:
        return self.read(RowRange(0, self.reader.num_rows))

    def take(self, rows: Iterable[int]) -> pa.Array:
        return self.read(RowIndices(np.array(sorted(set(rows)), np.int64)))


def every_way(data: bytes, expected: pa.Array, *, equal: Callable[[pa.Array, pa.Array], bool] | None = None) -> None:
    """Scan, every range and every pair of rows (some of them, of a long column), mapped and fetched."""
    same = equal or (lambda a, b: a.type == b.type and a.to_pylist() == b.to_pylist())
    rows = len(expected)
    steps = sorted(
        {0, 1, 2, rows // 3, rows // 2, rows - 2, rows - 1, rows, *range(min(rows, 6))} & set(range(rows + 1))
    )
    for mapped in (True, False):
        file = File(data, mapped=mapped)
        assert same(file.scan(), expected), "scan"
        for start in steps:
            for stop in steps:
                if start < stop:
                    assert same(file.read(RowRange(start, stop)), expected.slice(start, stop - start)), (start, stop)
                if start < rows and stop < rows:
                    picks = sorted({start, stop})
                    assert same(file.take(picks), expected.take(pa.array(picks))), picks
        fresh = File(data, mapped=mapped)
        picks = [*range(0, rows, max(rows // 97, 1)), rows - 1] if rows else []
        if picks:
            picks = sorted(set(picks))
            assert same(fresh.take(picks), expected.take(pa.array(picks)))


def make_file(dtype: pa.DataType, columns: Sequence[Sequence[Page]], *, version: str = "2.2", align: int = 64,
              metadata: dict[str, str] | None = None, rows: int | None = None) -> bytes:  # fmt: skip
    """A whole file; ``align`` 1 with an odd start puts every buffer where no word is aligned."""
    schema = schema_from_arrow(pa.schema([pa.field("c", dtype, metadata=metadata)]))
    out = bytearray(b"\xaa" * (0 if align > 1 else 3))
    messages = []
    for pages in columns:
        message = column_pb2.ColumnMetadata()
        first = 0
        for page in pages:
            entry = message.pages.add(length=page.rows, priority=first)
            described = column_pb2.AnyMessage(type_url=NAME, value=page.layout.SerializeToString())
            entry.encoding.direct.encoding = described.SerializeToString()
            for buffer in page.buffers:
                out += b"\0" * (-len(out) % align if align > 1 else 1 - len(out) % 2)
                entry.buffer_offsets.append(len(out))
                entry.buffer_sizes.append(len(buffer))
                out += buffer
            first += page.rows
        messages.append(message)
    if rows is None:
        multiplier = max(leaf.multiplier for leaf in leaf_types(schema.fields[0]).values())
        rows = sum(page.rows for page in columns[0]) // multiplier
    descriptor = file_pb2.FileDescriptor(length=rows)
    _add_fields(descriptor.schema, schema.fields, -1)
    return finish(out, descriptor, messages, version)


def finish(out: bytearray, descriptor: object, messages: Sequence[object], version: str) -> bytes:
    """Descriptor, column metadata, tables and footer behind the data."""
    places = []
    for message in (descriptor, *messages):
        text = message.SerializeToString()
        places.append((len(out), len(text)))
        out += text
    columns_at = len(out)
    out += b"".join(struct.pack("<QQ", *place) for place in places[1:])
    globals_at = len(out)
    out += struct.pack("<QQ", *places[0])
    major, minor = map(int, version.split("."))
    first = places[1][0] if len(places) > 1 else columns_at
    out += struct.pack("<QQQIIHH4s", first, columns_at, globals_at, 1, len(messages), major, minor, b"LANC")
    return bytes(out)


def _add_fields(schema: object, fields: Sequence[Field], parent: int) -> None:
    for each in fields:
        texts = {key: value.encode() for key, value in each.metadata.items()}
        schema.fields.add(
            name=each.name, id=each.id, parent_id=parent, logical_type=each.logical_type, nullable=each.nullable,
            metadata=texts,
        )  # fmt: skip
        _add_fields(schema, each.children, each.id)


# Codecs in words


def flat(bits: int) -> pb.CompressiveEncoding:
    return CE(flat=pb.Flat(bits_per_value=bits))


def variable(bits: int = 32) -> pb.CompressiveEncoding:
    return CE(variable=pb.Variable(offsets=flat(bits)))


def inline(bits: int) -> pb.CompressiveEncoding:
    return CE(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits))


def out_of_line(bits: int, width: int) -> pb.CompressiveEncoding:
    return CE(out_of_line_bitpacking=pb.OutOfLineBitpacking(uncompressed_bits_per_value=bits, values=flat(width)))


def runs(bits: int) -> pb.CompressiveEncoding:
    return CE(rle=pb.Rle(values=flat(bits), run_lengths=flat(8)))


def split(bits: int) -> pb.CompressiveEncoding:
    return CE(byte_stream_split=pb.ByteStreamSplit(values=flat(bits)))


def general(scheme: str, inner: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    number = {"lz4": pb.COMPRESSION_LZ4, "zstd": pb.COMPRESSION_ZSTD}[scheme]
    return CE(general=pb.General(compression=pb.BufferCompression(scheme=number), values=inner))


def fsst(table: bytes, inner: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    return CE(fsst=pb.Fsst(symbol_table=table, values=inner))


def fixed_list(size: int, inner: pb.CompressiveEncoding, *, validity: bool = False) -> pb.CompressiveEncoding:
    return CE(fixed_size_list=pb.FixedSizeList(items_per_value=size, values=inner, has_validity=validity))


def packed(widths: Sequence[int]) -> pb.CompressiveEncoding:
    return CE(packed_struct=pb.PackedStruct(bits_per_value=widths, values=flat(sum(widths))))


# Bytes of the codecs


def pack_block(values: Sequence[int], bits: int, width: int) -> bytes:
    """One block of 1024 values in FastLanes order, bit by bit as spec 6.4 words it."""
    lanes = 1024 // bits
    words = [0] * (width * lanes)
    full = list(values) + [0] * (1024 - len(values))
    for row in range(bits if width else 0):
        for lane in range(lanes):
            value = int(full[ORDER[row // 8] * 16 + row % 8 * 128 + lane])
            word, shift = divmod(row * width, bits)
            words[word * lanes + lane] |= value << shift & (1 << bits) - 1
            if shift + width > bits:
                words[(word + 1) * lanes + lane] |= value >> (bits - shift)
    return np.array(words, f"<u{bits // 8}").tobytes()


def pack_inline(values: Sequence[int], bits: int) -> bytes:
    width = max((int(value).bit_length() for value in values), default=0)
    return width.to_bytes(bits // 8, "little") + pack_block(values, bits, width)


def pack_tail(values: Sequence[int], bits: int, width: int, *, raw: bool) -> bytes:
    """Out-of-line bit packing: whole blocks, then a tail that is packed or raw."""
    whole = len(values) // 1024 * 1024
    parts = [pack_block(values[at : at + 1024], bits, width) for at in range(0, whole, 1024)]
    if len(values) > whole:
        rest = values[whole:]
        parts.append(np.array(rest, f"<u{bits // 8}").tobytes() if raw else pack_block(rest, bits, width))
    return b"".join(parts)


def find_runs(values: Sequence[int], bits: int) -> tuple[bytes, bytes]:
    """Values and lengths of runs of at most 255."""
    found: list[list[int]] = []
    for value in values:
        if found and found[-1][0] == value and found[-1][1] < 255:
            found[-1][1] += 1
        else:
            found.append([int(value), 1])
    return np.array([v for v, _ in found], f"<u{bits // 8}").tobytes(), bytes(n for _, n in found)


def run_block(values: Sequence[int], bits: int = 16) -> bytes:
    """RLE in block context: u64 size of the values, values, lengths."""
    heads, lengths = find_runs(values, bits)
    return struct.pack("<Q", len(heads)) + heads + lengths


def compress(scheme: str, data: bytes) -> bytes:
    if scheme == "lz4":
        return struct.pack("<I", len(data)) + pa.Codec("lz4_raw").compress(data, asbytes=True)
    return struct.pack("<Q", len(data)) + pa.Codec("zstd").compress(data, asbytes=True)


def chunk_strings(values: Sequence[bytes], word: int = 4) -> bytes:
    """Variable in a chunk: offsets from the buffer's start, then the bytes."""
    base = (len(values) + 1) * word
    offsets = [base + sum(map(len, values[:i])) for i in range(len(values) + 1)]
    return np.array(offsets, f"<u{word}").tobytes() + b"".join(values)


def block_strings(values: Sequence[bytes], bits: int = 32, *, obsolete: bool = False) -> bytes:
    """Variable as a block, with today's header or the obsolete one of a single byte."""
    word = bits // 8
    offsets = np.cumsum([0, *map(len, values)]).astype(f"<u{word}").tobytes()
    if obsolete:
        start = 1 + 2 * word + len(offsets)
        head = bytes([bits]) + len(values).to_bytes(word, "little") + start.to_bytes(word, "little")
    else:
        head = bits.to_bytes(word, "little") + (2 * word + len(offsets)).to_bytes(word, "little")
    return head + offsets + b"".join(values)


def symbol_table(symbols: Sequence[bytes], *, plain: bool = False) -> bytes:
    """An FSST table of 2312 bytes; the lengths follow the symbols that are used."""
    head = bytes([len(symbols), 0, 0, 0 if plain else 1]) + b"TSSF"
    body = b"".join(s.ljust(8, b"\0") for s in symbols) + bytes(map(len, symbols))
    return (head + body).ljust(2312, b"\0")


def fsst_encode(text: bytes, symbols: Sequence[bytes]) -> bytes:
    out, at = bytearray(), 0
    while at < len(text):
        best = max((s for s in symbols if text.startswith(s, at)), key=len, default=None)
        if best is None:
            out += bytes([255, text[at]])
            at += 1
        else:
            out.append(list(symbols).index(best))
            at += len(best)
    return bytes(out)


# Layouts


@dataclass
class Chunk:
    """What one chunk of a mini-block page holds, encoded."""

    items: int
    values: list[bytes]
    levels: int = 0
    reps: bytes | None = None
    defs: bytes | None = None

    def encode(self, large: bool) -> bytes:
        head = struct.pack("<H", self.levels % 65536)
        buffers = [b for b in (self.reps, self.defs) if b is not None]
        head += b"".join(struct.pack("<H", len(b)) for b in buffers)
        head += b"".join(struct.pack("<I" if large else "<H", len(b)) for b in self.values)
        return b"".join(part + b"\xfe" * (-len(part) % 8) for part in (head, *buffers, *self.values))


def mini_block(rows: int, chunks: Sequence[Chunk], values: pb.CompressiveEncoding, *, layers: Sequence[int] = (ALL_ITEM,),
               rep: pb.CompressiveEncoding | None = None, defs: pb.CompressiveEncoding | None = None,
               dictionary: tuple[pb.CompressiveEncoding, int, bytes] | None = None,
               index: Sequence[tuple[int, int]] | None = None, large: bool = True) -> Page:  # fmt: skip
    layout = pb.MiniBlockLayout(
        value_compression=values, layers=layers, num_buffers=len(chunks[0].values),
        num_items=sum(chunk.items for chunk in chunks), has_large_chunk=large,
        repetition_index_depth=0 if index is None else 1,
    )  # fmt: skip
    if rep is not None:
        layout.rep_compression.CopyFrom(rep)
    if defs is not None:
        layout.def_compression.CopyFrom(defs)
    bodies = [chunk.encode(large) for chunk in chunks]
    words = [
        (len(body) // 8 - 1) << 4 | (0 if number == len(chunks) - 1 else int(math.log2(chunk.items)))
        for number, (chunk, body) in enumerate(zip(chunks, bodies, strict=True))
    ]
    buffers = [np.array(words, "<u4" if large else "<u2").tobytes(), b"".join(bodies)]
    if dictionary is not None:
        layout.dictionary.CopyFrom(dictionary[0])
        layout.num_dictionary_items = dictionary[1]
        buffers.append(dictionary[2])
    if index is not None:
        buffers.append(np.array(index, "<u8").tobytes())
    return Page(rows, pb.PageLayout(mini_block_layout=layout), buffers)


def constant(rows: int, layers: Sequence[int], buffers: Sequence[bytes] = (), **fields: object) -> Page:
    layout = pb.ConstantLayout(layers=layers, **fields)
    return Page(rows, pb.PageLayout(constant_layout=layout), list(buffers))


def scalar_buffer(*parts: bytes) -> bytes:
    return struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts)) + b"".join(parts)


def u16(*levels: int) -> bytes:
    return np.array(levels, "<u2").tobytes()


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


def numbers(values: Sequence[int], bits: int = 32) -> bytes:
    return np.array(values, f"<i{bits // 8}").tobytes()


def page_of(rows: int, message: str, *buffers: str) -> Page:
    """A page from the hexadecimal of its layout and buffers, as the spec prints them."""
    return Page(rows, pb.PageLayout.FromString(hexed(message)), [hexed(buffer) for buffer in buffers])
