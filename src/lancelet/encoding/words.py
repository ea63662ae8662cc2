"""Sequences of integers in file version 2.3 (docs/format-notes.md, "File version 2.3").

Run lengths, string offsets and the sets of a sparse structure are sequences of
unsigned words. Their codecs nest, and some take no bytes at all::

    Constant                 the same word over and over                         no bytes
    Range                    start, start + step, ...                            no bytes
    Delta                    base, then sums of count - 1 differences            those of the differences
    Flat, bit packing        as in 2.2
    General                  the inner codec's bytes, compressed
    Rle                      u64 size of the run values | run values | run lengths
                             (no bytes where neither part has any)
    Dictionary               u64 size of the indices | u64 size of the items | indices | items

How many runs there are is not stored: a plain part tells by its size, and where
neither part is plain the run lengths must add up to the count.

As in a mini-block page, many chunks are decoded at once: one piece of bytes and
one count for each. Arithmetic wraps around; who needs rising numbers checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from lancelet.encoding.compression import inflate
from lancelet.encoding.kernels import bitpack, miniblock
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices
from lancelet.format.proto import encodings21_pb2 as pb

Words: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

_TYPES: dict[int, type[np.unsignedinteger[Any]]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_BLOCK = 1024
_SCHEMES = {pb.COMPRESSION_LZ4: ("lz4", 4), pb.COMPRESSION_ZSTD: ("zstd", 8)}
"""Name of each scheme, and the bytes that its recorded size takes."""
MAX_COMPACT = 2**24
"""The most words that a chunk or a sequence may hold without bytes that bound their number."""
LARGEST = 2**48
"""Positions, sizes and offsets are smaller than this."""


class Pieces(Protocol):
    """One buffer of each of many chunks, all inside ``data``."""

    @property
    def data(self) -> Bytes: ...
    @property
    def positions(self) -> Indices: ...
    @property
    def sizes(self) -> Indices: ...


@dataclass(frozen=True, slots=True)
class _Parts:
    data: Bytes
    positions: Indices
    sizes: Indices


def takes_bytes(codec: pb.CompressiveEncoding) -> bool:
    """Whether a sequence has a buffer at all."""
    match codec.WhichOneof("compression"):
        case "constant" | "range":
            return False
        case "delta":
            return takes_bytes(codec.delta.deltas)
        case "rle":
            return takes_bytes(codec.rle.values) or takes_bytes(codec.rle.run_lengths)
    return True


def no_pieces(chunks: int) -> Pieces:
    """For sequences that take no bytes."""
    nothing = np.zeros(chunks, np.int64)
    return _Parts(np.empty(0, np.uint8), nothing, nothing)


def one_piece(data: Bytes) -> Pieces:
    """A buffer as the only piece."""
    return _Parts(data, np.zeros(1, np.int64), np.array([len(data)], np.int64))


def decode_words(codec: pb.CompressiveEncoding, pieces: Pieces, counts: Indices, place: Place) -> Words:
    """``counts`` words of each piece, joined."""
    match codec.WhichOneof("compression"):
        case "flat":
            return _flat(codec.flat, pieces, counts, place)
        case "out_of_line_bitpacking":
            return _blocks(codec.out_of_line_bitpacking, pieces, counts, place)
        case "inline_bitpacking":
            return _inline(codec.inline_bitpacking, pieces, counts, place)
        case "general":
            inner, inflated = _inflated(codec, pieces, counts, place)
            return decode_words(inner, inflated, counts, place)
        case "constant":
            return _constant(codec.constant, counts, place)
        case "range":
            return _range(codec.range, counts, place)
        case "delta":
            return _delta(codec.delta, pieces, counts, place)
        case "rle":
            parts = _run_parts(pieces, place) if takes_bytes(codec) else (pieces, pieces)
            return expand_runs(codec.rle, *parts, counts, place)
        case "dictionary":
            return _look_up(codec.dictionary, pieces, counts, place)
        case kind:
            raise place.unsupported(f"a sequence encoded as '{kind}' is not known")


def rising_offsets(codec: pb.CompressiveEncoding, pieces: Pieces, counts: Indices, place: Place) -> Indices:
    """``counts`` + 1 offsets of each chunk, joined; those of a chunk rise from 0."""
    words = decode_words(codec, pieces, counts + 1, place)
    if len(words) and int(words.max()) >= LARGEST:
        raise place.corrupt("value offsets that are too large")
    offsets = words.astype(np.int64)
    firsts = np.cumsum(counts + 1) - (counts + 1)
    falls = np.diff(offsets) < 0
    falls[firsts[1:] - 1] = False
    if falls.any() or offsets[firsts].any():
        raise place.corrupt("value offsets of a chunk do not rise from 0")
    return offsets


def expand_runs(codec: pb.Rle, values: Pieces, lengths: Pieces, counts: Indices, place: Place) -> Words:
    """Run values, each as often as its run is long."""
    value_codec, values = _inflated(codec.values, values, counts, place)
    length_codec, lengths = _inflated(codec.run_lengths, lengths, counts, place)
    runs = _plain_count(value_codec, values)
    other = _plain_count(length_codec, lengths)
    if runs is not None and other is not None and (runs != other).any():
        raise place.corrupt("run values and run lengths differ in number")
    if runs is None:
        runs = _implied_runs(length_codec, counts, place) if other is None else other
    _limit(runs, np.maximum(counts, 1), "runs", place)
    times = decode_words(length_codec, lengths, runs, place)
    if len(times) and int(times.max()) > MAX_COMPACT:
        raise place.corrupt("a run of impossible length")
    _limit(counts, MAX_COMPACT, "run-length values", place)
    ends = np.concatenate((np.zeros(1, np.int64), times.astype(np.int64).cumsum()))
    bounds = np.cumsum(runs)
    if (ends[bounds] - ends[bounds - runs] != counts).any():
        raise place.corrupt("runs do not add up to the values of their chunk")
    words = decode_words(value_codec, values, runs, place)
    expanded: Words = np.repeat(words, times.astype(np.int64))
    return expanded


def _flat(codec: pb.Flat, pieces: Pieces, counts: Indices, place: Place) -> Words:
    bits = int(codec.bits_per_value)
    if bits not in _TYPES or codec.HasField("data"):
        raise place.unsupported(f"words of {bits} bits, or words in a compressed buffer")
    _limit(counts, pieces.sizes // (bits // 8), "words", place)
    return _filled(
        bits,
        counts,
        lambda out: miniblock.copy_flat(pieces.data, pieces.positions, pieces.sizes, counts, bits // 8, out),
        place,
    )


def _blocks(codec: pb.OutOfLineBitpacking, pieces: Pieces, counts: Indices, place: Place) -> Words:
    bits, width = int(codec.uncompressed_bits_per_value), int(codec.values.flat.bits_per_value)
    if bits not in _TYPES or codec.values.WhichOneof("compression") != "flat" or width > bits:
        raise place.corrupt(f"words of {bits} bits packed to {width}")
    _limit(counts, pieces.sizes * 8 // width + _BLOCK if width else MAX_COMPACT, "packed words", place)
    return _filled(
        bits,
        counts,
        lambda out: bitpack.unpack_blocks(pieces.data, pieces.positions, pieces.sizes, counts, bits, width, out),
        place,
    )


def _inline(codec: pb.InlineBitpacking, pieces: Pieces, counts: Indices, place: Place) -> Words:
    bits = int(codec.uncompressed_bits_per_value)
    if bits not in _TYPES or codec.HasField("values"):
        raise place.unsupported(f"packed words of {bits} bits, or packed words in a compressed buffer")
    _limit(counts, _BLOCK, "packed words", place)
    return _filled(
        bits,
        counts,
        lambda out: bitpack.unpack_inline(pieces.data, pieces.positions, pieces.sizes, counts, bits, out),
        place,
    )


def _filled(bits: int, counts: Indices, fill: Callable[[Bytes], int], place: Place) -> Words:
    out = np.empty(int(counts.sum()), _TYPES[bits])
    bad = fill(out.view(np.uint8))
    if bad >= 0:
        raise place.corrupt(f"chunk {bad}: words do not fit their recorded size")
    return out


def _constant(codec: pb.Constant, counts: Indices, place: Place) -> Words:
    _limit(counts, MAX_COMPACT, "equal words", place)
    total = int(counts.sum())
    bits = len(codec.value) * 8
    if total and bits not in _TYPES:
        raise place.corrupt(f"a constant word of {len(codec.value)} bytes")
    return np.full(total, int.from_bytes(codec.value, "little"), _TYPES.get(bits, np.uint64))


def _range(codec: pb.Range, counts: Indices, place: Place) -> Words:
    bits = int(codec.uncompressed_bits_per_value)
    if bits not in _TYPES:
        raise place.corrupt(f"a range of {bits}-bit words")
    _limit(counts, MAX_COMPACT, "evenly spaced words", place)
    inside = np.arange(int(counts.sum()), dtype=np.uint64) - np.repeat(_before(counts), counts).astype(np.uint64)
    words = inside * np.array([codec.step], np.uint64) + np.array([codec.start], np.uint64)
    return words.astype(_TYPES[bits])


def _delta(codec: pb.Delta, pieces: Pieces, counts: Indices, place: Place) -> Words:
    bits = int(codec.uncompressed_bits_per_value)
    if bits not in _TYPES:
        raise place.corrupt(f"differences of {bits}-bit words")
    # What the count of words allows, the differences are about to show; nothing is asked for before.
    steps = decode_words(codec.deltas, pieces, np.maximum(counts - 1, 0), place)
    firsts = _before(counts)[counts > 0]
    later = np.ones(int(counts.sum()), bool)
    later[firsts] = False
    sums = np.zeros(len(later), np.uint64)
    sums[later] = steps
    np.cumsum(sums, out=sums)
    sums -= np.repeat(sums[firsts], counts[counts > 0])
    sums += np.array([codec.base], np.uint64)
    return sums.astype(_TYPES[bits])


def _run_parts(pieces: Pieces, place: Place) -> tuple[Pieces, Pieces]:
    """Run values and run lengths of each piece."""
    (sizes,) = _heads(pieces, 1, place)
    rest = pieces.sizes - 8 - sizes
    if (rest < 0).any():
        raise place.corrupt("run values and run lengths do not fit")
    at = pieces.positions + 8
    return _Parts(pieces.data, at, sizes), _Parts(pieces.data, at + sizes, rest)


def _look_up(codec: pb.Dictionary, pieces: Pieces, counts: Indices, place: Place) -> Words:
    size = int(codec.num_dictionary_items)
    if len(counts) != 1 or size > MAX_COMPACT:
        raise place.unsupported("dictionaries of words in chunks, or large ones, are not known")
    index_sizes, item_sizes = _heads(pieces, 2, place)
    if (index_sizes + item_sizes != pieces.sizes - 16).any():
        raise place.corrupt("indices and items of a dictionary of words do not fit")
    at = pieces.positions + 16
    indices = decode_words(codec.indices, _Parts(pieces.data, at, index_sizes), counts, place)
    item_pieces = _Parts(pieces.data, at + index_sizes, item_sizes)
    items = decode_words(codec.items, item_pieces, np.array([size], np.int64), place)
    if len(indices) and int(indices.max()) >= size:
        raise place.corrupt(f"dictionary index {indices.max()} of {size} words")
    words: Words = items[indices.astype(np.int64)]
    return words


def _heads(pieces: Pieces, count: int, place: Place) -> Iterator[Indices]:
    """The u64 sizes that pieces begin with."""
    if (pieces.sizes < 8 * count).any():
        raise place.corrupt("runs or a dictionary without the sizes of their parts")
    heads = pieces.data[pieces.positions[:, None] + np.arange(8 * count)].view("<u8")
    if (heads > pieces.sizes[:, None].astype(np.uint64)).any():
        raise place.corrupt("runs or a dictionary whose parts do not fit")
    for column in range(count):
        yield heads[:, column].astype(np.int64)


def _inflated(
    codec: pb.CompressiveEncoding, pieces: Pieces, counts: Indices, place: Place
) -> tuple[pb.CompressiveEncoding, Pieces]:
    """The codec and the bytes inside of a compressed buffer; others as they are."""
    if codec.WhichOneof("compression") != "general":
        return codec, pieces
    inner = codec.general.values
    scheme, head = _SCHEMES.get(codec.general.compression.scheme, ("", 0))
    if not head or inner.WhichOneof("compression") == "general":
        raise place.unsupported("words compressed twice, or in a way that is not known")
    parts = []
    for at, size, count in zip(pieces.positions.tolist(), pieces.sizes.tolist(), counts.tolist(), strict=True):
        piece = pieces.data[at : at + size]
        # A sequence of words is never much longer than its words.
        if int.from_bytes(piece[:head].tobytes(), "little") > 16 * count + _BLOCK * 8 + 16:
            raise place.corrupt(f"a compressed buffer claims more than {count} words need")
        parts.append(inflate(piece, scheme, place))
    sizes = np.array([len(part) for part in parts], np.int64)
    data = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    return inner, _Parts(data, _before(sizes), sizes)


def _plain_count(codec: pb.CompressiveEncoding, pieces: Pieces) -> Indices | None:
    """How many words plain pieces hold; packed ones do not tell."""
    bits = int(codec.flat.bits_per_value)
    if codec.WhichOneof("compression") != "flat" or bits not in _TYPES:
        return None
    return pieces.sizes // (bits // 8)


def _implied_runs(codec: pb.CompressiveEncoding, counts: Indices, place: Place) -> Indices:
    """How many runs of known lengths make up the counts."""
    match codec.WhichOneof("compression"):
        case "constant":
            start, step = int.from_bytes(codec.constant.value, "little"), 0
        case "range":
            start, step = int(codec.range.start), int(codec.range.step)
        case _:
            raise place.unsupported("runs whose number is not known")
    _limit(counts, MAX_COMPACT, "run-length values", place)
    if step == 0:
        return counts // max(start, 1)
    if step >= LARGEST:
        raise place.unsupported("runs that become shorter and shorter")
    # n runs hold n * start + step * n * (n - 1) / 2 values.
    root = np.sqrt((2.0 * start - step) ** 2 + 8.0 * step * counts)
    runs: Indices = np.rint((root - (2.0 * start - step)) / (2.0 * step)).astype(np.int64)
    return runs


def _before(counts: Indices) -> Indices:
    """How much comes before each of the pieces."""
    before: Indices = np.cumsum(counts) - counts
    return before


def _limit(counts: Indices, most: Indices | int, what: str, place: Place) -> None:
    """Check a claim before memory is asked for."""
    if (counts < 0).any() or (counts > most).any():
        raise place.corrupt(f"more {what} than there can be: {int(counts.max(initial=0))}")
