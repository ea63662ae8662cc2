"""Levels of mini-block chunks: one codec for all chunks of a page (spec encodings.md 3.3)."""

from __future__ import annotations

import numpy as np

from lancelet.encoding.kernels import bitpack, miniblock
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.codecs import (
    ChunkBuffer,
    check,
    decode_block,
    flat_chunks,
    packed_width,
    plain_runs,
    refuse_buffer_compression,
    rle_bits,
)
from lancelet.encoding.v2_1.levels import Levels
from lancelet.encoding.v2_1.values import Fixed, allocate
from lancelet.encoding.words import decode_words
from lancelet.format.proto import encodings21_pb2 as pb


def decode_levels(
    codec: pb.CompressiveEncoding, data: Bytes, positions: Indices, sizes: Indices, counts: Indices, place: Place
) -> tuple[Levels, Indices]:
    """Levels of all chunks joined, and how many each chunk has."""
    kind = codec.WhichOneof("compression")
    total = int(counts.sum())
    match kind:
        case "flat" if codec.flat.bits_per_value == 16:
            refuse_buffer_compression(codec.flat, "data", place)
            values = flat_chunks(ChunkBuffer(data, positions, sizes), counts, total, 16, place)
            return np.frombuffer(values.data, np.uint16), counts
        case "inline_bitpacking" if codec.inline_bitpacking.uncompressed_bits_per_value == 16:
            refuse_buffer_compression(codec.inline_bitpacking, "values", place)
            buffer, out = allocate(total * 2)
            bad = bitpack.unpack_inline(data, positions, sizes, counts, 16, out)
        case "out_of_line_bitpacking" if codec.out_of_line_bitpacking.uncompressed_bits_per_value == 16:
            width = packed_width(codec.out_of_line_bitpacking, place)
            if width > 16:
                raise place.corrupt(f"levels packed to {width} bits")
            buffer, out = allocate(total * 2)
            bad = bitpack.unpack_blocks(data, positions, sizes, counts, 16, width, out)
        case "rle" if not plain_runs(codec.rle):
            words = decode_words(codec, ChunkBuffer(data, positions, sizes), counts, place)
            if words.dtype != np.uint16:
                raise place.corrupt("levels that are not 16-bit numbers")
            return words.view(np.uint16), counts
        case "rle" if rle_bits(codec.rle, place) == 16:
            parts = _run_parts(data, positions, sizes, place)
            buffer, out = allocate(total * 2)
            bad = miniblock.expand_runs(data, *parts, counts, 2, out)
            if bad >= 0:
                counts = _unwrapped_counts(data, parts[2], parts[3], counts)
                buffer, out = allocate(int(counts.sum()) * 2)
                bad = miniblock.expand_runs(data, *parts, counts, 2, out)
        case "general":
            blocks = [
                decode_block(codec, data[at : at + size], count, place)
                for at, size, count in zip(positions.tolist(), sizes.tolist(), counts.tolist(), strict=True)
            ]
            if any(not isinstance(block, Fixed) or block.bits != 16 for block in blocks):
                raise place.corrupt("levels that are not 16-bit numbers")
            return np.concatenate([np.frombuffer(block.data, np.uint16) for block in blocks]), counts  # type: ignore[union-attr]
        case _:
            raise place.unsupported(f"levels encoded as '{kind}' are not supported")
    check(bad, "levels", place)
    return np.frombuffer(buffer, np.uint16), counts


def _run_parts(
    data: Bytes, positions: Indices, sizes: Indices, place: Place
) -> tuple[Indices, Indices, Indices, Indices]:
    """Positions and sizes of the run values and of the run lengths of each chunk."""
    if len(sizes) and int(sizes.min()) < 8:
        raise place.corrupt("run-length levels without header")
    heads = data[positions[:, None] + np.arange(8)].reshape(-1).view("<u8")
    if (heads > (sizes - 8).astype(np.uint64)).any():
        raise place.corrupt("run-length levels whose parts do not fit")
    value_bytes = heads.astype(np.int64)
    return positions + 8, value_bytes, positions + 8 + value_bytes, sizes - 8 - value_bytes


def _unwrapped_counts(data: Bytes, positions: Indices, sizes: Indices, counts: Indices) -> Indices:
    """Old writers stored counts above 65535 modulo 65536; the runs know the truth (spec 3.3)."""
    result: Indices = counts.copy()
    for i, (at, size) in enumerate(zip(positions.tolist(), sizes.tolist(), strict=True)):
        held = int(data[at : at + size].sum(dtype=np.int64))
        if held > result[i] and (held - result[i]) % 65536 == 0:
            result[i] = held
    return result
