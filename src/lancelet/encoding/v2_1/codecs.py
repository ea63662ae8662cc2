"""Compressive encodings in mini-block and block context (spec encodings.md 6 and 7).

A codec tree is a protobuf message. In a mini-block page it decodes the value
buffers of many chunks at once, each given as (bytes, positions, sizes); in block
context one buffer of a known number of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lancelet.encoding.compression import inflate
from lancelet.encoding.kernels import bitpack, fsst, fullzip, miniblock
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.values import Fixed, FixedList, Record, Values, Variable, allocate
from lancelet.encoding.words import Words, decode_words, expand_runs, no_pieces, rising_offsets, takes_bytes
from lancelet.errors import NotSupported
from lancelet.format.proto import encodings21_pb2 as pb

FSST_TABLE_BYTES = 2312
_FSST_MAGIC = 0x46535354
BLOCK = 1024
"""Values in a block of bit packing."""
_MAX_IMPLICIT = 2**20
"""The most values that a block without bytes for them may hold."""
_SCHEMES = {pb.COMPRESSION_LZ4: "lz4", pb.COMPRESSION_ZSTD: "zstd"}


@dataclass(frozen=True, slots=True)
class ChunkBuffer:
    """One value buffer of each of many chunks."""

    data: Bytes
    positions: Indices
    sizes: Indices


def decode_chunks(
    codec: pb.CompressiveEncoding, buffers: Sequence[ChunkBuffer], counts: Indices, place: Place
) -> Values:
    """Values of all chunks joined; ``counts`` are values a chunk."""
    kind = codec.WhichOneof("compression")
    first = buffers[0] if buffers else None
    total = int(counts.sum())
    match kind:
        case "flat" if first:
            refuse_buffer_compression(codec.flat, "data", place)
            return flat_chunks(first, counts, total, codec.flat.bits_per_value, place)
        case "inline_bitpacking" if first:
            refuse_buffer_compression(codec.inline_bitpacking, "values", place)
            bits = codec.inline_bitpacking.uncompressed_bits_per_value
            check_word(bits, place)
            fits(counts, BLOCK, "bit-packed values", place)
            buffer, out = allocate(total * bits // 8)
            bad = bitpack.unpack_inline(first.data, first.positions, first.sizes, counts, bits, out)
            check(bad, "bit-packed values", place)
            return Fixed(buffer, bits, total)
        case "variable" if first and codec.variable.offsets.WhichOneof("compression") != "flat":
            return _coded_strings(codec.variable, buffers, counts, place)
        case "variable" if first:
            return _variable_chunks(codec.variable, first, counts, total, place)
        case "fsst" if first:
            inner = decode_chunks(codec.fsst.values, buffers, counts, place)
            return expand_fsst(SymbolTable.parse(codec.fsst.symbol_table, place), inner, place)
        case "rle" if len(buffers) == 2 and not plain_runs(codec.rle):
            return _fixed(expand_runs(codec.rle, buffers[0], buffers[1], counts, place))
        case "rle" if len(buffers) == 2:
            bits = rle_bits(codec.rle, place)
            values, lengths = buffers
            fits(counts, lengths.sizes * 255, "runs", place)
            buffer, out = allocate(total * bits // 8)
            if values.data is not lengths.data:
                lengths = _moved(lengths, values)
                values = replace(values, data=lengths.data)
            bad = miniblock.expand_runs(
                values.data, values.positions, values.sizes, lengths.positions, lengths.sizes, counts, bits // 8, out
            )
            check(bad, "runs", place)
            return Fixed(buffer, bits, total)
        case "byte_stream_split" if first:
            bits = codec.byte_stream_split.values.flat.bits_per_value
            if bits not in (32, 64):
                raise place.corrupt(f"byte stream split of {bits}-bit values")
            fits(counts, first.sizes // (bits // 8), "byte streams", place)
            buffer, out = allocate(total * bits // 8)
            bad = miniblock.join_streams(first.data, first.positions, first.sizes, counts, bits // 8, out)
            check(bad, "byte streams", place)
            return Fixed(buffer, bits, total)
        case "general" if first:
            _refuse_nested(codec.general, place)
            inflated = _inflate_chunks(scheme_of(codec.general, place), first, place)
            return decode_chunks(codec.general.values, [inflated, *buffers[1:]], counts, place)
        case "fixed_size_list" if first:
            return _list_chunks(codec.fixed_size_list, buffers, counts, total, place)
        case "packed_struct" if first:
            records = decode_chunks(codec.packed_struct.values, buffers, counts, place)
            return split_records(records, list(codec.packed_struct.bits_per_value), place)
    raise refusal(kind, "a mini-block page", place)


def flat_chunks(first: ChunkBuffer, counts: Indices, total: int, bits: int, place: Place) -> Fixed:
    """Plain values, whole bytes or single bits."""
    stored = int(first.sizes.sum())
    if bits == 1:
        fits(counts, first.sizes * 8, "bits", place)
        out = np.zeros((total + 7) // 8 + 1, np.uint8)
        bad = miniblock.copy_bits(first.data, first.positions, first.sizes, counts, out)
        check(bad, "bits", place)
        return Fixed(out, 1, total)
    if bits == 0 or bits % 8 or total * bits // 8 > stored:
        raise place.corrupt(f"{total} values of {bits} bits in {stored} bytes")
    buffer, out = allocate(total * bits // 8)
    check(miniblock.copy_flat(first.data, first.positions, first.sizes, counts, bits // 8, out), "values", place)
    return Fixed(buffer, bits, total)


def decode_block(codec: pb.CompressiveEncoding, data: Bytes, count: int, place: Place) -> Values:
    """``count`` values in one buffer: levels, dictionaries, run values."""
    kind = codec.WhichOneof("compression")
    whole = ChunkBuffer(data, np.zeros(1, np.int64), np.array([len(data)], np.int64))
    counts = np.array([count], np.int64)
    match kind:
        case "flat":
            refuse_buffer_compression(codec.flat, "data", place)
            return flat_chunks(whole, counts, count, codec.flat.bits_per_value, place)
        case "inline_bitpacking":
            return decode_chunks(codec, [whole], counts, place)
        case "out_of_line_bitpacking":
            bits = codec.out_of_line_bitpacking.uncompressed_bits_per_value
            width = packed_width(codec.out_of_line_bitpacking, place)
            check_word(bits, place)
            # Width 0 stores nothing at all: no byte vouches for the count.
            if width > bits or count > (len(data) * 8 // width + 1024 if width else _MAX_IMPLICIT):
                raise place.corrupt(f"{count} values of {width} bits in {len(data)} bytes")
            buffer, out = allocate(count * bits // 8)
            bad = bitpack.unpack_blocks(data, whole.positions, whole.sizes, counts, bits, width, out)
            check(bad, "bit-packed values", place)
            return Fixed(buffer, bits, count)
        case "range" | "delta" | "dictionary":
            return _fixed(decode_words(codec, whole, counts, place))
        case "rle" if not plain_runs(codec.rle):
            return _fixed(decode_words(codec, whole, counts, place))
        case "rle":
            bits = rle_bits(codec.rle, place)
            values, lengths = split_run_block(data, place)
            if count > len(lengths) * 255:
                raise place.corrupt(f"{len(lengths)} runs cannot hold {count} values")
            buffer, out = allocate(count * bits // 8)
            at = np.array([[0], [len(values)]], np.int64)
            size = np.array([[len(values)], [len(lengths)]], np.int64)
            bad = miniblock.expand_runs(data[8:], at[0], size[0], at[1], size[1], counts, bits // 8, out)
            check(bad, "runs", place)
            return Fixed(buffer, bits, count)
        case "variable":
            return _variable_block(codec.variable, data, count, place)
        case "fixed_size_list":
            return _list_block(codec.fixed_size_list, data, count, place)
        case "general":
            _refuse_nested(codec.general, place)
            inflated = inflate(data, scheme_of(codec.general, place), place)
            return decode_block(codec.general.values, inflated, count, place)
        case "fsst":
            inner = decode_block(codec.fsst.values, data, count, place)
            return expand_fsst(SymbolTable.parse(codec.fsst.symbol_table, place), inner, place)
        case "constant":
            value = codec.constant.value
            if len(value) not in (1, 2, 4, 8, 16, 32) or count > _MAX_IMPLICIT:
                raise place.corrupt(f"{count} times a constant of {len(value)} bytes")
            return Fixed(np.tile(np.frombuffer(value, np.uint8), count), len(value) * 8, count)
    raise refusal(kind, "a block", place)


def split_run_block(data: Bytes, place: Place) -> tuple[Bytes, Bytes]:
    """Run values and run lengths of an RLE block: u64 size of the values, values, lengths."""
    size = int.from_bytes(data[:8].tobytes(), "little") if len(data) >= 8 else -1
    if not 0 <= size <= len(data) - 8:
        raise place.corrupt("a run-length block whose parts do not fit")
    return data[8 : 8 + size], data[8 + size :]


def plain_runs(codec: pb.Rle) -> bool:
    """Whether runs are as in 2.1 and 2.2: plain values, one byte a length."""
    if codec.values.WhichOneof("compression") != "flat" or codec.run_lengths.WhichOneof("compression") != "flat":
        return False
    return bool(codec.run_lengths.flat.bits_per_value == 8)


def _fixed(words: Words) -> Fixed:
    return Fixed(words.view(np.uint8), words.dtype.itemsize * 8, len(words))


def rle_bits(codec: pb.Rle, place: Place) -> int:
    bits = int(codec.values.flat.bits_per_value)
    if codec.values.WhichOneof("compression") != "flat" or bits not in (8, 16, 32, 64):
        raise place.corrupt("run values are not plain words")
    if codec.run_lengths.WhichOneof("compression") != "flat" or codec.run_lengths.flat.bits_per_value != 8:
        raise place.unsupported("run lengths wider than 8 bits are not supported")
    return bits


def _variable_chunks(codec: pb.Variable, first: ChunkBuffer, counts: Indices, total: int, place: Place) -> Variable:
    wide = variable_width(codec, place) == 64
    fits(counts, first.sizes // (8 if wide else 4), "value offsets", place)
    offsets = np.empty(total + 1, np.int64)
    bad = miniblock.variable_offsets(first.data, first.positions, first.sizes, counts, wide, offsets)
    check(bad, "value offsets", place)
    buffer, out = allocate(int(offsets[-1]))
    check(miniblock.variable_bytes(first.data, first.positions, counts, wide, offsets, out), "values", place)
    return Variable(offsets, buffer)


def _coded_strings(codec: pb.Variable, buffers: Sequence[ChunkBuffer], counts: Indices, place: Place) -> Variable:
    """Offsets from 0 in a buffer of their own, unless they take no bytes; then the bytes (2.3)."""
    refuse_buffer_compression(codec, "values", place)
    stored = takes_bytes(codec.offsets)
    if len(buffers) != 1 + stored:
        raise place.corrupt(f"strings in {len(buffers)} buffers a chunk")
    offsets = rising_offsets(codec.offsets, buffers[0] if stored else no_pieces(len(counts)), counts, place)
    lasts = np.cumsum(counts + 1) - 1
    ends = offsets[lasts]
    fits(ends, buffers[-1].sizes, "values", place)
    joined = gather_slices(buffers[-1].data, buffers[-1].positions, ends, place)
    offsets += np.repeat(joined.offsets[:-1], counts + 1)
    kept = np.ones(len(offsets), bool)
    kept[lasts[:-1]] = False
    return Variable(offsets[kept], joined.data)


def _variable_block(codec: pb.Variable, data: Bytes, count: int, place: Place) -> Variable:
    """Header (offset width, start of the bytes), count + 1 offsets from 0, bytes (spec 6.2)."""
    bits = variable_width(codec, place)
    word = bits // 8
    dtype = np.dtype(f"<u{word}")
    start, table = _variable_header(data, bits, place)
    size = (count + 1) * word
    if start < table + size or start > len(data):
        raise place.corrupt(f"offsets of {count} values do not fit into {len(data)} bytes")
    offsets = np.frombuffer(data[table : table + size], dtype).astype(np.int64)
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] > len(data) - start:
        raise place.corrupt("value offsets do not rise from 0 to the end of the bytes")
    return Variable(offsets, data[start:])


def _variable_header(data: Bytes, bits: int, place: Place) -> tuple[int, int]:
    """Start of the bytes and of the offsets; an obsolete header had a single byte for the width."""
    word = bits // 8
    if len(data) < 2 * word:
        raise place.corrupt("a block of strings without header")
    if data[1:4].any():
        start = int.from_bytes(data[1 + word : 1 + 2 * word].tobytes(), "little")
        return start, 1 + 2 * word
    if int(data[0]) != bits:
        raise place.corrupt(f"a block of strings with {data[0]}-bit offsets where {bits} are declared")
    return int.from_bytes(data[word : 2 * word].tobytes(), "little"), 2 * word


def variable_width(codec: pb.Variable, place: Place) -> int:
    refuse_buffer_compression(codec, "values", place)
    if codec.offsets.WhichOneof("compression") != "flat":
        raise place.unsupported("value offsets that are not plain belong to file version 2.3")
    bits = int(codec.offsets.flat.bits_per_value)
    if bits not in (32, 64):
        raise place.corrupt(f"value offsets of {bits} bits")
    return bits


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """An FSST table, ready for the kernel: 256 symbols of 8 bytes and their lengths."""

    symbols: np.ndarray[tuple[int], np.dtype[np.uint64]]
    lengths: Bytes
    plain: bool

    @classmethod
    def parse(cls, table: bytes, place: Place) -> SymbolTable:
        if len(table) != FSST_TABLE_BYTES:
            raise place.corrupt(f"an FSST symbol table of {len(table)} bytes, not {FSST_TABLE_BYTES}")
        count, plain = table[0], table[3] == 0
        if int.from_bytes(table[4:8], "little") != _FSST_MAGIC:
            raise place.corrupt("an FSST symbol table without its mark")
        symbols = np.zeros(256, np.uint64)
        lengths = np.ones(256, np.uint8)
        symbols[:count] = np.frombuffer(table, "<u8", count, 8)
        lengths[:count] = np.frombuffer(table, np.uint8, count, 8 + 8 * count)
        if count and (lengths[:count].min() < 1 or lengths[:count].max() > 8):
            raise place.corrupt("an FSST symbol of impossible length")
        return cls(symbols, lengths, plain)


def expand_fsst(table: SymbolTable, values: Values, place: Place) -> Variable:
    if not isinstance(values, Variable):
        raise place.corrupt("FSST codes that are not strings")
    if table.plain:
        return values
    codes = np.frombuffer(values.data, np.uint8)
    size = fsst.expanded_size(codes, table.lengths)
    buffer, out = allocate(size + fsst.SPARE)
    offsets = np.empty(len(values.offsets), np.int64)
    bad = fsst.expand(codes, values.offsets, table.symbols, table.lengths, offsets, out)
    check(bad, "FSST codes of value", place)
    return Variable(offsets, buffer.slice(0, int(offsets[-1])))


def _list_chunks(
    codec: pb.FixedSizeList, buffers: Sequence[ChunkBuffer], counts: Indices, total: int, place: Place
) -> FixedList:
    size = int(codec.items_per_value)
    if size < 1 or size > 2**31 - 1 or int(counts.max(initial=0)) > 2**40 // size:
        raise place.corrupt(f"lists of {size} items")
    validity = None
    if codec.has_validity:
        if not buffers:
            raise place.corrupt("lists without a buffer for the validity of their items")
        bitmap = flat_chunks(buffers[0], counts * size, total * size, 1, place)
        validity, buffers = np.frombuffer(bitmap.data, np.uint8), buffers[1:]
    inner = codec.values
    if inner.WhichOneof("compression") == "fixed_size_list":
        items: Values = _list_chunks(inner.fixed_size_list, buffers, counts * size, total * size, place)
    else:
        items = decode_chunks(inner, buffers, counts * size, place)
    return FixedList(items, size, validity, total)


def _list_block(codec: pb.FixedSizeList, data: Bytes, count: int, place: Place) -> FixedList:
    """Lists as in the records of a full-zip page: validity of each level, then the items (2.3)."""
    sizes, items, innermost = [], 1, codec
    while True:
        items *= int(innermost.items_per_value)
        if not 1 <= items <= 2**31 - 1:
            raise place.corrupt(f"lists of {items} items")
        if innermost.has_validity:
            sizes.append((items + 7) // 8)
        if innermost.values.WhichOneof("compression") != "fixed_size_list":
            break
        innermost = innermost.values.fixed_size_list
    if innermost.values.WhichOneof("compression") != "flat":
        raise refusal(innermost.values.WhichOneof("compression"), "a block of lists", place)
    sizes.append((items * int(innermost.values.flat.bits_per_value) + 7) // 8)
    if count * sum(sizes) > len(data):
        raise place.corrupt(f"{count} lists of {sum(sizes)} bytes in {len(data)}")
    starts, buffers = np.arange(count, dtype=np.int64) * sum(sizes), []
    for size in sizes:
        buffers.append(ChunkBuffer(data, starts, np.full(count, size, np.int64)))
        starts = starts + size
    return _list_chunks(codec, buffers, np.ones(count, np.int64), count, place)


def split_records(records: Values, widths: list[int], place: Place) -> Record:
    """Columns of row-major records of fixed width."""
    if not isinstance(records, Fixed) or sum(widths) != records.bits or any(w % 8 or w == 0 for w in widths):
        raise place.corrupt("packed struct fields that do not add up to their record")
    matrix = np.frombuffer(records.data, np.uint8).reshape(records.count, records.bits // 8)
    children: list[Values] = []
    at = 0
    for width in widths:
        piece = np.ascontiguousarray(matrix[:, at : at + width // 8]).reshape(-1)
        children.append(Fixed(piece, width, records.count))
        at += width // 8
    return Record(tuple(children), records.count)


def _refuse_nested(codec: pb.General, place: Place) -> None:
    """Compressed twice, a few bytes could claim any amount of memory; no writer does it."""
    if codec.values.WhichOneof("compression") == "general":
        raise place.unsupported("buffers that are compressed twice are not supported")


def _inflate_chunks(scheme: str, buffer: ChunkBuffer, place: Place) -> ChunkBuffer:
    parts = [
        inflate(buffer.data[at : at + size], scheme, place)
        for at, size in zip(buffer.positions.tolist(), buffer.sizes.tolist(), strict=True)
    ]
    return join_parts(parts)


def join_parts(parts: Sequence[Bytes]) -> ChunkBuffer:
    sizes = np.array([len(part) for part in parts], np.int64)
    positions = np.cumsum(sizes) - sizes
    data = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    return ChunkBuffer(data, positions, sizes)


def _moved(lengths: ChunkBuffer, values: ChunkBuffer) -> ChunkBuffer:
    """Put the run lengths behind the run values, so that one kernel call sees both."""
    data = np.concatenate(
        [values.data, *(lengths.data[a : a + s] for a, s in zip(lengths.positions, lengths.sizes, strict=True))]
    )
    positions = len(values.data) + np.cumsum(lengths.sizes) - lengths.sizes
    return ChunkBuffer(data, positions, lengths.sizes)


def scheme_of(codec: pb.General, place: Place) -> str:
    scheme = _SCHEMES.get(codec.compression.scheme)
    if scheme is None:
        raise place.unsupported(f"compression scheme {codec.compression.scheme} is not known")
    return scheme


def refuse_buffer_compression(message: pb.Flat | pb.Variable | pb.InlineBitpacking, name: str, place: Place) -> None:
    if message.HasField(name):
        raise place.unsupported(f"compressed buffers inside {type(message).__name__} are not supported")


def packed_width(codec: pb.OutOfLineBitpacking, place: Place) -> int:
    if codec.values.WhichOneof("compression") != "flat":
        raise place.corrupt("bit-packed values that are not plain")
    return int(codec.values.flat.bits_per_value)


def fits(counts: Indices, most: Indices | int, what: str, place: Place) -> None:
    """Check before memory is asked for that each chunk has the bytes for its values."""
    if (counts > most).any():
        check(int(np.argmax(counts > most)), what, place)


def check_word(bits: int, place: Place) -> None:
    if bits not in (8, 16, 32, 64):
        raise place.corrupt(f"bit packing of {bits}-bit values")


def check(bad: int, what: str, place: Place) -> None:
    """Kernels answer -1, or the number of the chunk that does not hold what its header says."""
    if bad >= 0:
        raise place.corrupt(f"chunk {bad}: {what} do not fit their recorded sizes")


def refusal(kind: str | None, where: str, place: Place) -> NotSupported:
    """The error for a codec that is not known, or not known there."""
    return place.unsupported(f"encoding '{kind}' in {where}" if kind else f"{where} has an encoding that is not known")


def gather_slices(data: Bytes, starts: Indices, sizes: Indices, place: Place) -> Variable:
    """Slices of ``data`` joined as byte strings."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    buffer, out = allocate(int(offsets[-1]))
    check(fullzip.gather_slices(data, starts, sizes, 0, out), "values", place)
    return Variable(offsets, buffer)
