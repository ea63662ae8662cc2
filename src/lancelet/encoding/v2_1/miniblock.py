"""Mini-block pages (spec encodings.md 3).

::

    buffer 0   one word a chunk: (bytes / 8 - 1) << 4 | log2(values); the last chunk holds the rest
    buffer 1   chunks, each a multiple of 8 bytes
                 u16 levels | u16 rep bytes | u16 def bytes | u16 or u32 bytes of each value buffer | pad to 8
                 rep, def, value buffers, each padded to 8
    buffer 2   dictionary, when the layout has one
    last       repetition index, when there are lists: for each chunk, u64 rows that end in it and
               u64 entries of the row that goes on in the next

A read picks the chunks that hold its rows and decodes them with one kernel call
each for headers, levels and values.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.fetch import Place
from lancelet.encoding.kernels import bitpack, miniblock
from lancelet.encoding.kernels import levels as levels_kernel
from lancelet.encoding.rows import Bytes, Indices, Ranges, RowRange, Rows
from lancelet.encoding.v2_1.codecs import (
    ChunkBuffer,
    check,
    decode_block,
    decode_chunks,
    flat_chunks,
    rle_bits,
)
from lancelet.encoding.v2_1.levels import Entries, Levels, PageLevels, entry_ranges
from lancelet.encoding.v2_1.pages import PageContext, PageRows, select, select_levels
from lancelet.encoding.v2_1.values import Fixed, Values, allocate, to_arrow
from lancelet.errors import NotSupported
from lancelet.format.proto import encodings21_pb2 as pb

_MAX_BUFFERS = 64
_INDEX_TYPES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


@dataclass(frozen=True, slots=True)
class Chunks:
    """Where the chunks are, and what they hold; kept between reads."""

    positions: Indices
    """In the file."""
    sizes: Indices
    counts: Indices
    """Visible items a chunk."""
    item_starts: Indices
    """Number of each chunk's first item."""
    first_rows: Indices
    """Number of the first row that starts in each chunk."""
    row_starts: Indices
    """How many rows start in each chunk."""
    row_ends: Indices
    """Rows that end in this chunk or before it."""
    dictionary: pa.Array | None

    @property
    def nbytes(self) -> int:
        return 7 * self.positions.nbytes + (self.dictionary.nbytes if self.dictionary is not None else 0)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Levels, as the page numbers them, and values of some chunks, joined."""

    reps: Levels | None
    defs: Levels | None
    level_counts: Indices
    values: pa.Array


class MiniBlockPage:
    """Decoder of one mini-block page."""

    __slots__ = ("_chunks", "_context", "_layout", "_shape")

    def __init__(self, layout: pb.MiniBlockLayout, context: PageContext) -> None:
        self._layout = layout
        self._context = context
        self._shape = PageLevels.of(layout.layers, context.kinds, context.place)
        self._chunks: Chunks | None = None
        place = context.place
        if not 1 <= layout.num_buffers <= _MAX_BUFFERS:
            raise place.corrupt(f"{layout.num_buffers} value buffers a chunk")
        if self._shape.lists and layout.repetition_index_depth == 0:
            raise place.corrupt("lists without a repetition index")
        if (self._shape.lists > 0) != layout.HasField("rep_compression"):
            raise place.corrupt("repetition levels do not agree with the layers of nesting")

    @property
    def nbytes(self) -> int:
        return self._chunks.nbytes if self._chunks else 0

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        chunks = self._chunks
        if chunks is None:
            chunks = self._chunks = yield from self._locate_chunks()
        if self._shape.lists:
            return (yield from self._read_lists(chunks, rows))
        return (yield from self._read_items(chunks, rows))

    def _read_items(self, chunks: Chunks, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        """Rows are items."""
        if isinstance(rows, RowRange):
            first = int(np.searchsorted(chunks.item_starts, rows.start, "right")) - 1
            last = int(np.searchsorted(chunks.item_starts, rows.stop, "left"))
            part = yield from self._decode(chunks, np.arange(first, last))
            start = rows.start - int(chunks.item_starts[first])
            starts, stops = np.array([start]), np.array([start + len(rows)])
        else:
            owner = np.searchsorted(chunks.item_starts, rows.values, "right") - 1
            chosen, rank = np.unique(owner, return_inverse=True)
            part = yield from self._decode(chunks, chosen)
            counts = chunks.counts[chosen]
            at = rows.values - chunks.item_starts[owner] + (np.cumsum(counts) - counts)[rank]
            defs = None if part.defs is None else self._shape.common(part.defs[at], self._context.place)
            return PageRows(Entries(len(at), None, defs), part.values.take(pa.array(at)))
        defs = self._shape.common(select_levels(part.defs, starts, stops), self._context.place)
        return PageRows(Entries(len(rows), None, defs), select(part.values, starts, stops))

    def _read_lists(self, chunks: Chunks, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        """Rows are runs of level entries, and may go on over several chunks."""
        place = self._context.place
        if isinstance(rows, RowRange):
            wanted_first = np.array([rows.start], np.int64)
            wanted_last = np.array([rows.stop - 1], np.int64)
        else:
            wanted_first = wanted_last = rows.values
        begin = np.searchsorted(chunks.first_rows, wanted_first, "right") - 1
        end = np.minimum(np.searchsorted(chunks.row_ends, wanted_last, "right"), len(chunks.positions) - 1)
        marks = np.zeros(len(chunks.positions) + 1, np.int64)
        np.add.at(marks, begin, 1)
        np.add.at(marks, end + 1, -1)
        chosen = np.flatnonzero(np.cumsum(marks[:-1]) > 0)
        part = yield from self._decode(chunks, chosen)
        reps, defs = part.reps, part.defs
        assert reps is not None
        starts = np.flatnonzero(reps == self._shape.lists).astype(np.int64)
        if len(starts) != int(chunks.row_starts[chosen].sum()):
            raise place.corrupt("repetition levels do not agree with the repetition index")
        # Rows in a run of neighbouring chunks are numbered on from the run's first.
        run_heads = np.flatnonzero(np.concatenate(([True], np.diff(chosen) > 1)))
        run_of = np.searchsorted(chosen[run_heads], begin, "right") - 1
        starts_before = np.cumsum(chunks.row_starts[chosen]) - chunks.row_starts[chosen]
        shift = starts_before[run_heads] - chunks.first_rows[chosen[run_heads]]
        entry_ends = np.cumsum(part.level_counts)
        run_tails = np.append(run_heads[1:], len(chosen)) - 1
        run_ends = entry_ends[run_tails]
        first = wanted_first + shift[run_of]
        last = wanted_last + shift[run_of]
        if last[-1] >= len(starts):
            raise place.corrupt("the repetition index names rows that the levels do not have")
        bounds = np.append(starts, len(reps))
        entry_first = bounds[first]
        entry_last = np.minimum(bounds[last + 1], run_ends[run_of])
        ranges = entry_ranges(entry_first, entry_last, defs, self._shape.max_visible)
        count = int((ranges.stops - ranges.starts).sum())
        return PageRows(
            Entries(
                count,
                select_levels(reps, ranges.starts, ranges.stops),
                self._shape.common(select_levels(defs, ranges.starts, ranges.stops), place),
            ),
            select(part.values, ranges.value_starts, ranges.value_stops),
        )

    def _decode(self, chunks: Chunks, chosen: Indices) -> Generator[Ranges, list[Bytes], Decoded]:
        """Decode whole chunks."""
        layout, place = self._layout, self._context.place
        sizes, counts = chunks.sizes[chosen], chunks.counts[chosen]
        data, positions = yield from self._context.file.fetch(chunks.positions[chosen], sizes, place)
        has_rep, has_def = layout.HasField("rep_compression"), layout.HasField("def_compression")
        table = np.empty((1 + 2 * (has_rep + has_def + layout.num_buffers), len(chosen)), np.int64)
        bad = miniblock.parse_chunks(
            data, positions, sizes, has_rep, has_def, layout.num_buffers, layout.has_large_chunk, table
        )
        check(bad, "buffers", place)
        level_counts, row = table[0], 1
        reps = defs = None
        if has_rep:
            reps, level_counts = _levels(layout.rep_compression, data, table[1], table[2], level_counts, place)
            row = 3
        if has_def:
            defs, level_counts = _levels(layout.def_compression, data, table[row], table[row + 1], level_counts, place)
            row += 2
        self._check_levels(reps, defs, level_counts, counts)
        buffers = [ChunkBuffer(data, table[i], table[i + 1]) for i in range(row, len(table), 2)]
        values = decode_chunks(layout.value_compression, buffers, counts, place)
        if chunks.dictionary is None:
            return Decoded(reps, defs, level_counts, to_arrow(values, self._context.dtype, place))
        return Decoded(reps, defs, level_counts, self._look_up(values, chunks.dictionary, defs))

    def _check_levels(
        self, reps: Levels | None, defs: Levels | None, level_counts: Indices, counts: Indices
    ) -> None:
        """Each chunk must have as many visible entries as items, else values would move to other rows."""
        place = self._context.place
        if reps is not None and defs is not None and len(reps) != len(defs):
            raise place.corrupt("repetition and definition levels differ in number")
        if reps is None and defs is None:
            return
        if not self._shape.lists or defs is None:
            if (level_counts != counts).any():
                raise place.corrupt("levels and values differ in number")
            return
        bounds = np.cumsum(level_counts)
        visible = np.empty(len(bounds), np.int64)
        levels_kernel.visible_before(defs, self._shape.max_visible, bounds, visible)
        if (np.diff(visible, prepend=0) != counts).any():
            raise place.corrupt("visible levels and values differ in number")

    def _look_up(self, values: Values, dictionary: pa.Array, defs: Levels | None) -> pa.Array:
        """Replace indices by the dictionary's items, or keep both when the column is a dictionary itself."""
        place, dtype = self._context.place, self._context.dtype
        if not isinstance(values, Fixed) or values.bits not in _INDEX_TYPES:
            raise place.corrupt("dictionary indices that are not plain integers")
        indices = np.frombuffer(values.data, f"<u{values.bits // 8}")[: values.count]
        if len(indices) and int(indices.max()) >= len(dictionary):
            # Slots under nulls may hold any index.
            visible = np.empty(0) if defs is None else defs[defs <= self._shape.max_visible]
            indices = np.where(visible > 0, 0, indices) if len(visible) == len(indices) else indices
            if len(dictionary) == 0 and len(visible) == len(indices) and visible.all():
                return pa.nulls(len(indices), dtype)
            if int(indices.max()) >= len(dictionary):
                raise place.corrupt(f"dictionary index {indices.max()} of {len(dictionary)} items")
        if pa.types.is_dictionary(dtype):
            keys = pa.array(indices.astype(dtype.index_type.to_pandas_dtype()))
            return pa.DictionaryArray.from_arrays(keys, dictionary, safe=False)
        return dictionary.take(pa.array(indices))

    def _locate_chunks(self) -> Generator[Ranges, list[Bytes], Chunks]:
        """Read the chunk words, the repetition index and the dictionary."""
        layout, context, place = self._layout, self._context, self._context.place
        words = yield from context.buffer(0)
        word = 4 if layout.has_large_chunk else 2
        if len(words) % word:
            raise place.corrupt(f"{len(words)} bytes of chunk words of {word} bytes each")
        table = np.frombuffer(words, f"<u{word}").astype(np.int64)
        sizes = ((table >> 4) + 1) * 8
        counts = np.left_shift(1, table & 15)
        if len(table) == 0:
            raise place.corrupt("a page without chunks")
        if (table[:-1] & 15 == 0).any():
            raise place.corrupt("a chunk in the middle of the page says that it is the last")
        items = int(layout.num_items)
        counts[-1] = items - int(counts[:-1].sum())
        if counts[-1] < 0 or (self._shape.lists == 0 and items != context.rows):
            raise place.corrupt(f"{items} items in the page do not agree with its chunks or its {context.rows} rows")
        if len(context.sizes) < 2 or int(sizes.sum()) > context.sizes[1]:
            raise place.corrupt("chunks are longer than their buffer")
        dictionary = None
        if layout.HasField("dictionary"):
            dictionary = yield from self._read_dictionary()
        nothing = np.empty(0, np.int64)
        first_rows = row_starts = row_ends = nothing
        if self._shape.lists:
            first_rows, row_starts, row_ends = yield from self._read_repetition_index(len(table))
        return Chunks(
            context.offsets[1] + np.cumsum(sizes) - sizes,
            sizes,
            counts,
            np.cumsum(counts) - counts,
            first_rows,
            row_starts,
            row_ends,
            dictionary,
        )

    def _read_dictionary(self) -> Generator[Ranges, list[Bytes], pa.Array]:
        context, place = self._context, self._context.place
        data = yield from context.buffer(2)
        dtype = context.dtype.value_type if pa.types.is_dictionary(context.dtype) else context.dtype
        count = self._layout.num_dictionary_items
        if count > 2**31 or count > 64 * (len(data) + 1) * 256:
            raise place.corrupt(f"{count} dictionary items in {len(data)} bytes")
        return to_arrow(decode_block(self._layout.dictionary, data, int(count), place), dtype, place)

    def _read_repetition_index(self, chunks: int) -> Generator[Ranges, list[Bytes], tuple[Indices, Indices, Indices]]:
        """Number of the first row that starts in each chunk, rows that start in it, rows ended so far."""
        layout, context, place = self._layout, self._context, self._context.place
        depth = layout.repetition_index_depth + 1
        data = yield from context.buffer(3 if layout.HasField("dictionary") else 2)
        if len(data) != chunks * depth * 8:
            raise place.corrupt(f"a repetition index of {len(data)} bytes for {chunks} chunks")
        table = np.frombuffer(data, "<u8").reshape(chunks, depth)[:, :2]
        if (table > 2**40).any():
            raise place.corrupt("a repetition index with impossible counts")
        ends, partial = table[:, 0].astype(np.int64), table[:, 1] > 0
        preamble = np.concatenate(([False], partial[:-1]))
        starts = ends + partial - preamble
        if int(ends.sum()) != context.rows or partial[-1] or (starts < 0).any():
            raise place.corrupt(f"a repetition index of {int(ends.sum())} rows in a page of {context.rows}")
        return np.cumsum(starts) - starts, starts, np.cumsum(ends)


def _levels(
    codec: pb.CompressiveEncoding, data: Bytes, positions: Indices, sizes: Indices, counts: Indices, place: Place
) -> tuple[Levels, Indices]:
    """Levels of all chunks joined, and how many each chunk has."""
    kind = codec.WhichOneof("compression")
    total = int(counts.sum())
    match kind:
        case "flat" if codec.flat.bits_per_value == 16:
            values = flat_chunks(ChunkBuffer(data, positions, sizes), counts, total, 16, place)
            return np.frombuffer(values.data, np.uint16), counts
        case "inline_bitpacking" if codec.inline_bitpacking.uncompressed_bits_per_value == 16:
            buffer, out = allocate(total * 2)
            bad = bitpack.unpack_inline(data, positions, sizes, counts, 16, out)
        case "out_of_line_bitpacking" if codec.out_of_line_bitpacking.uncompressed_bits_per_value == 16:
            width = codec.out_of_line_bitpacking.values.flat.bits_per_value
            if width > 16:
                raise place.corrupt(f"levels packed to {width} bits")
            buffer, out = allocate(total * 2)
            bad = bitpack.unpack_blocks(data, positions, sizes, counts, 16, width, out)
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
            raise NotSupported(f"{place.path}: levels encoded as '{kind}' are not supported")
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
    result = counts.copy()
    for i, (at, size) in enumerate(zip(positions.tolist(), sizes.tolist(), strict=True)):
        held = int(data[at : at + size].sum(dtype=np.int64))
        if held > result[i] and (held - result[i]) % 65536 == 0:
            result[i] = held
    return result
