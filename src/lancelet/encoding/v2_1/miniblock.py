"""Mini-block pages (spec encodings.md 3).

::

    buffer 0   one word a chunk: (bytes / 8 - 1) << 4 | log2(values); the last chunk holds the rest
    buffer 1   chunks, each a multiple of 8 bytes
                 u16 levels | u16 rep bytes | u16 def bytes | u16 or u32 bytes of each value buffer | pad to 8
                 rep, def, value buffers, each padded to 8
    buffer 2   dictionary, when the layout has one
    last       repetition index, when there are lists: for each chunk, u64 rows that end in it and
               u64 entries of the row that goes on in the next

Writers cut list columns into hundreds of small pages, so the unit here is a *run*:
neighbouring pages with one recipe, whose chunks form one long table. A read picks
the chunks that hold its rows, decodes them with one kernel call each for headers,
levels and values, cuts out the rows, and only then looks up dictionary items and
expands FSST codes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import concat
from lancelet.encoding.fetch import gather
from lancelet.encoding.kernels import levels as levels_kernel
from lancelet.encoding.kernels import miniblock, pick
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.place import Place
from lancelet.encoding.plain import arrow_array, numpy_array, numpy_type
from lancelet.encoding.rows import Bytes, Indices, Ranges, RowRange, Rows
from lancelet.encoding.v2_1.chunk_levels import decode_levels
from lancelet.encoding.v2_1.codecs import (
    ChunkBuffer,
    SymbolTable,
    check,
    decode_block,
    decode_chunks,
    expand_fsst,
    fits,
    gather_slices,
)
from lancelet.encoding.v2_1.dictionary import PageDictionary
from lancelet.encoding.v2_1.levels import Entries, Levels, PageLevels, entry_ranges, expand_ranges
from lancelet.encoding.v2_1.pages import PageContext, PageRows, select_levels
from lancelet.encoding.v2_1.values import Fixed, Values, Variable, allocate, to_arrow
from lancelet.format.proto import encodings21_pb2 as pb

_MAX_BUFFERS = 64
_MAX_ITEMS = 2**40
_FEW = 16
"""So few neighbouring items are picked like scattered ones, rather than decoding their chunk."""
_PACKED_LEVELS = pb.InlineBitpacking(uncompressed_bits_per_value=16)
_RUN_LEVELS = pb.Rle(
    values=pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=16)),
    run_lengths=pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=8)),
)
_INDEX_TYPES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the chunks of a run are made."""

    shape: PageLevels
    has_rep: bool
    has_def: bool
    num_buffers: int
    large: bool
    rep_codec: pb.CompressiveEncoding
    def_codec: pb.CompressiveEncoding
    value_codec: pb.CompressiveEncoding
    """Without FSST, which is undone after rows are chosen."""
    fsst: bool
    dictionary: bool

    @classmethod
    def of(cls, layout: pb.MiniBlockLayout, kinds: tuple[int, ...], place: Place) -> Recipe:
        shape = PageLevels.of(layout.layers, kinds, place)
        if not 1 <= layout.num_buffers <= _MAX_BUFFERS:
            raise place.corrupt(f"{layout.num_buffers} value buffers a chunk")
        if shape.lists and layout.repetition_index_depth == 0:
            raise place.corrupt("lists without a repetition index")
        if (shape.lists > 0) != layout.HasField("rep_compression"):
            raise place.corrupt("repetition levels do not agree with the layers of nesting")
        fsst = layout.value_compression.WhichOneof("compression") == "fsst"
        return cls(
            shape,
            layout.HasField("rep_compression"),
            layout.HasField("def_compression"),
            int(layout.num_buffers),
            layout.has_large_chunk,
            layout.rep_compression,
            layout.def_compression,
            layout.value_compression.fsst.values if fsst else layout.value_compression,
            fsst,
            layout.HasField("dictionary"),
        )

    @property
    def late(self) -> bool:
        """Whether values are only made after rows are chosen."""
        return self.fsst or self.dictionary

    @property
    def picks(self) -> tuple[int, int, int, int] | None:
        """Codec and width of the levels, codec and bits of the values, for the kernel that picks single items."""
        if self.has_rep or self.num_buffers != 1:
            return None
        levels = (pick.NONE, 0)
        if self.has_def:
            match self.def_codec.WhichOneof("compression"):
                case "flat" if self.def_codec.flat == pb.Flat(bits_per_value=16):
                    levels = (pick.FLAT, 0)
                case "inline_bitpacking" if self.def_codec.inline_bitpacking == _PACKED_LEVELS:
                    levels = (pick.INLINE, 0)
                case "out_of_line_bitpacking":
                    packed = self.def_codec.out_of_line_bitpacking
                    if packed.uncompressed_bits_per_value != 16 or packed.values.flat.bits_per_value > 16:
                        return None
                    if packed.values.WhichOneof("compression") != "flat":
                        return None
                    levels = (pick.OUT_OF_LINE, int(packed.values.flat.bits_per_value))
                case "rle" if self.def_codec.rle == _RUN_LEVELS:
                    levels = (pick.RUNS, 0)
                case _:
                    return None
        codec = self.value_codec
        match codec.WhichOneof("compression"):
            case "flat" if codec.flat.bits_per_value == 1 and not codec.flat.HasField("data"):
                return (*levels, pick.BITS, 8)
            case "flat" if codec.flat.bits_per_value in range(8, 2**31, 8) and not codec.flat.HasField("data"):
                return (*levels, pick.FLAT, int(codec.flat.bits_per_value))
            case "inline_bitpacking" if codec.inline_bitpacking.uncompressed_bits_per_value in _INDEX_TYPES:
                if not codec.inline_bitpacking.HasField("values"):
                    return (*levels, pick.INLINE, int(codec.inline_bitpacking.uncompressed_bits_per_value))
            case "variable" if codec.variable.offsets.flat.bits_per_value in (32, 64):
                if not codec.variable.HasField("values"):
                    return (*levels, pick.STRINGS, int(codec.variable.offsets.flat.bits_per_value))
        return None


def recipe_key(layout: pb.MiniBlockLayout) -> bytes:
    """Equal for pages that one run may hold."""
    key = pb.MiniBlockLayout()
    key.CopyFrom(layout)
    key.num_items = key.num_dictionary_items = 0
    if key.HasField("dictionary"):
        key.dictionary.Clear()
    if key.value_compression.WhichOneof("compression") == "fsst":
        key.value_compression.fsst.symbol_table = b""
    return key.SerializeToString(deterministic=True)


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Where chunks are and what they hold. Rows and items count from the column's first."""

    positions: Indices
    """In the file."""
    sizes: Indices
    counts: Indices
    """Visible items a chunk."""
    item_starts: Indices
    """Number of each chunk's first item; without lists, of its first row."""
    first_rows: Indices
    """With lists: number of the first row that starts in each chunk."""
    row_starts: Indices
    """With lists: how many rows start in each chunk."""
    row_ends: Indices
    """With lists: rows that end in this chunk or before it."""
    page_starts: Indices
    """First chunk of each page."""
    dictionaries: tuple[PageDictionary, ...] = ()
    symbols: tuple[SymbolTable, ...] = ()

    @property
    def nbytes(self) -> int:
        return 7 * self.positions.nbytes + sum(d.nbytes for d in self.dictionaries) + 2400 * len(self.symbols)

    @classmethod
    def join(cls, tables: Sequence[ChunkTable]) -> ChunkTable:
        if len(tables) == 1:
            return tables[0]
        lengths = np.array([len(table.positions) for table in tables])
        return cls(
            np.concatenate([table.positions for table in tables]),
            np.concatenate([table.sizes for table in tables]),
            np.concatenate([table.counts for table in tables]),
            np.concatenate([table.item_starts for table in tables]),
            np.concatenate([table.first_rows for table in tables]),
            np.concatenate([table.row_starts for table in tables]),
            np.concatenate([table.row_ends for table in tables]),
            np.cumsum(lengths) - lengths,
            tuple(d for table in tables for d in table.dictionaries),
            tuple(s for table in tables for s in table.symbols),
        )


@dataclass(frozen=True, slots=True)
class Decoded:
    """Levels, as the pages number them, and values of some chunks, joined."""

    reps: Levels | None
    defs: Levels | None
    level_counts: Indices
    values: pa.Array
    """Final values, or dictionary indices, or FSST codes."""


@dataclass(frozen=True, slots=True)
class MiniBlockPage:
    """One page of a run."""

    layout: pb.MiniBlockLayout
    context: PageContext
    first_row: int


class MiniBlockRun:
    """Decoder of neighbouring mini-block pages with one recipe. Rows count from the column's first."""

    __slots__ = ("_bounds", "_context", "_joined", "_pages", "_picks", "_recipe", "_tables")

    def __init__(self, pages: Sequence[MiniBlockPage], recipe: Recipe) -> None:
        self._pages = pages
        self._recipe = recipe
        self._context = pages[0].context
        self._bounds = np.array([page.first_row for page in pages], np.int64)
        self._tables: list[ChunkTable | None] = [None] * len(pages)
        self._joined: ChunkTable | None = None
        self._picks = recipe.picks
        if self._picks is not None and self._picks[2] == pick.BITS and not pa.types.is_boolean(self._context.dtype):
            self._picks = None

    @property
    def nbytes(self) -> int:
        if self._joined is not None:
            return 2 * self._joined.nbytes
        return sum(table.nbytes for table in self._tables if table is not None)

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        table = self._joined
        if table is None:
            table = yield from self._locate(rows)
        if self._recipe.shape.lists:
            if isinstance(rows, RowRange):
                return (yield from self._read_list_range(table, rows.start, rows.stop - 1))
            if len(rows) == 1:
                only = int(rows.values[0])
                return (yield from self._read_list_range(table, only, only))
            return (yield from self._read_scattered_lists(table, rows.values))
        if self._picks is not None and (len(rows) <= _FEW or not isinstance(rows, RowRange)):
            return (yield from self._pick(table, rows.to_indices(), self._picks))
        if isinstance(rows, RowRange):
            return (yield from self._read_range(table, rows))
        return (yield from self._read_scattered(table, rows.values))

    def _read_range(self, table: ChunkTable, rows: RowRange) -> Generator[Ranges, list[Bytes], PageRows]:
        """Neighbouring items."""
        first = int(table.item_starts.searchsorted(rows.start, "right")) - 1
        last = int(table.item_starts.searchsorted(rows.stop, "left"))
        part = yield from self._decode(table, slice(first, last))
        start = rows.start - int(table.item_starts[first])
        stop = start + len(rows)
        defs = None if part.defs is None else self._recipe.shape.common(part.defs[start:stop], self._context.place)
        values = part.values if len(part.values) == len(rows) else part.values.slice(start, len(rows))
        cuts = np.clip(self._marks(table, slice(first, last)) - start, 0, len(rows))
        finished = self._finish(values, table, cuts, None if part.defs is None else part.defs[start:stop])
        return PageRows(Entries(len(rows), None, defs), finished)

    def _read_scattered(self, table: ChunkTable, rows: Indices) -> Generator[Ranges, list[Bytes], PageRows]:
        """Scattered items, by decoding the chunks that hold them."""
        place = self._context.place
        owner = table.item_starts.searchsorted(rows, "right") - 1
        fresh = np.empty(len(owner), bool)
        fresh[0] = True
        np.not_equal(owner[1:], owner[:-1], out=fresh[1:])
        chosen = owner[fresh]
        counts = table.counts[chosen]
        at = rows - table.item_starts[owner] + (counts.cumsum() - counts)[fresh.cumsum() - 1]
        part = yield from self._decode(table, chosen)
        defs = None if part.defs is None else self._recipe.shape.common(part.defs[at], place)
        marks = self._marks(table, chosen)
        values = self._finish(
            pick_rows(part.values, arrow_array(at)), table, at.searchsorted(marks), _at(part.defs, at)
        )
        return PageRows(Entries(len(at), None, defs), values)

    def _pick(
        self, table: ChunkTable, rows: Indices, picks: tuple[int, int, int, int]
    ) -> Generator[Ranges, list[Bytes], PageRows]:
        """Scattered items, each straight from its chunk."""
        place = self._context.place
        def_codec, def_width, codec, bits = picks
        owner = table.item_starts.searchsorted(rows, "right") - 1
        count = len(rows)
        sizes, counts = table.sizes[owner], table.counts[owner]
        data, positions = yield from self._context.file.fetch(table.positions[owner], sizes, place)
        levels = np.empty(count if def_codec else 0, np.uint16)
        strings = codec == pick.STRINGS
        if codec == pick.FLAT:
            fits(counts, sizes // (bits // 8), "values", place)
        starts, lengths = np.empty((2, count if strings else 0), np.int64)
        buffer, out = allocate(0 if strings else count * bits // 8)
        inside = rows - table.item_starts[owner]
        bad = pick.pick_items(
            data, positions, sizes, counts, inside,
            def_codec, def_width, self._recipe.large, codec, bits, levels, out, starts, lengths,
        )  # fmt: skip
        check(bad, "items", place)
        picked: Values = gather_slices(data, starts, lengths, place) if strings else Fixed(buffer, bits, count)
        raw = to_arrow(picked, self._raw_type(picked), place)
        defs = levels if def_codec else None
        cuts = owner.searchsorted(table.page_starts) if len(table.page_starts) > 1 else table.page_starts
        values = self._finish(raw, table, cuts, defs)
        return PageRows(Entries(count, None, None if defs is None else self._recipe.shape.common(defs, place)), values)

    def _read_list_range(self, table: ChunkTable, first: int, last: int) -> Generator[Ranges, list[Bytes], PageRows]:
        """Rows ``first`` to ``last``; a row is a run of level entries, and may go on over several chunks."""
        place, shape = self._context.place, self._recipe.shape
        begin = int(table.first_rows.searchsorted(first, "right")) - 1
        end = min(int(table.row_ends.searchsorted(last, "right")), len(table.positions) - 1) + 1
        part = yield from self._decode(table, slice(begin, end))
        reps, defs = part.reps, part.defs
        assert reps is not None
        at = first - int(table.first_rows[begin])
        stop = at + last - first + 1
        starts, entry, entry_stop = levels_kernel.find_starts(reps, shape.lists, at, stop)
        if starts != int(table.row_starts[begin:end].sum()):
            raise place.corrupt("repetition levels do not agree with the repetition index")
        if stop > starts:
            raise place.corrupt("the repetition index names rows that the levels do not have")
        slot, slot_stop = entry, entry_stop
        if defs is not None:
            slot = levels_kernel.count_visible(defs[:entry], shape.max_visible)
            slot_stop = slot + levels_kernel.count_visible(defs[entry:entry_stop], shape.max_visible)
        values = part.values.slice(slot, slot_stop - slot)
        if self._recipe.late:
            visible = None if defs is None else defs[defs <= shape.max_visible][slot:slot_stop]
            cuts = np.clip(self._marks(table, slice(begin, end)) - slot, 0, slot_stop - slot)
            values = self._finish(values, table, cuts, visible)
        own_defs = None if defs is None else shape.common(defs[entry:entry_stop], place)
        return PageRows(Entries(entry_stop - entry, reps[entry:entry_stop], own_defs), values)

    def _read_scattered_lists(self, table: ChunkTable, rows: Indices) -> Generator[Ranges, list[Bytes], PageRows]:
        """Rows here and there."""
        place, shape = self._context.place, self._recipe.shape
        begin = table.first_rows.searchsorted(rows, "right") - 1
        end = np.minimum(table.row_ends.searchsorted(rows, "right"), len(table.positions) - 1)
        marks = np.zeros(len(table.positions) + 1, np.int64)
        np.add.at(marks, begin, 1)
        np.add.at(marks, end + 1, -1)
        chosen: Indices = np.flatnonzero(marks[:-1].cumsum() > 0)
        part = yield from self._decode(table, chosen)
        reps, defs = part.reps, part.defs
        assert reps is not None
        bounds = np.append(np.flatnonzero(reps == shape.lists), len(reps))
        starts_here = table.row_starts[chosen]
        if (np.diff(bounds[:-1].searchsorted(part.level_counts.cumsum()), prepend=0) != starts_here).any():
            raise place.corrupt("repetition levels do not agree with the repetition index")
        starts_before = starts_here.cumsum() - starts_here
        at = starts_before[chosen.searchsorted(begin)] + rows - table.first_rows[begin]
        if int(at[-1]) >= len(bounds) - 1:
            raise place.corrupt("the repetition index names rows that the levels do not have")
        # A row ends where the next one starts, or with the last chunk that holds a part of it.
        entry_stops = np.minimum(bounds[at + 1], part.level_counts.cumsum()[chosen.searchsorted(end)])
        ranges = entry_ranges(bounds[at], entry_stops, defs, shape.max_visible)
        slots = expand_ranges(ranges.value_starts, ranges.value_stops)
        values = pick_rows(part.values, arrow_array(slots))
        if self._recipe.late:
            # Before the levels are renumbered, which may happen in place.
            visible = None if defs is None else defs[defs <= shape.max_visible][slots]
            values = self._finish(values, table, slots.searchsorted(self._marks(table, chosen)), visible)
        entries = Entries(
            int((ranges.stops - ranges.starts).sum()),
            select_levels(reps, ranges.starts, ranges.stops),
            shape.common(select_levels(defs, ranges.starts, ranges.stops), place),
        )
        return PageRows(entries, values)

    def _marks(self, table: ChunkTable, chosen: Indices | slice) -> Indices:
        """Number of the first item of each page, counted over the chosen chunks."""
        page_starts = table.page_starts
        if len(page_starts) == 1 or not self._recipe.late:
            return page_starts[:1]
        if isinstance(chosen, slice):
            chosen = np.arange(chosen.start, chosen.stop)
        return np.concatenate(([0], table.counts[chosen].cumsum()))[chosen.searchsorted(page_starts)]

    def _parse(
        self, table: ChunkTable, chosen: Indices | slice
    ) -> Generator[Ranges, list[Bytes], tuple[Decoded, list[ChunkBuffer]]]:
        """Headers and levels of whole chunks."""
        recipe, place = self._recipe, self._context.place
        sizes, counts = table.sizes[chosen], table.counts[chosen]
        data, positions = yield from self._context.file.fetch(table.positions[chosen], sizes, place)
        header = np.empty((1 + 2 * (recipe.has_rep + recipe.has_def + recipe.num_buffers), len(sizes)), np.int64)
        bad = miniblock.parse_chunks(
            data, positions, sizes, recipe.has_rep, recipe.has_def, recipe.num_buffers, recipe.large, header
        )
        check(bad, "buffers", place)
        level_counts, row = header[0], 1
        reps = defs = None
        if recipe.has_rep:
            reps, level_counts = decode_levels(recipe.rep_codec, data, header[1], header[2], level_counts, place)
            row = 3
        if recipe.has_def:
            levels = header[0] if reps is None else level_counts
            defs, level_counts = decode_levels(recipe.def_codec, data, header[row], header[row + 1], levels, place)
            if recipe.has_rep and level_counts is not levels:
                # The definition levels knew that the count had wrapped around.
                reps, _ = decode_levels(recipe.rep_codec, data, header[1], header[2], level_counts, place)
            row += 2
        self._check_levels(reps, defs, level_counts, counts)
        buffers = [ChunkBuffer(data, header[i], header[i + 1]) for i in range(row, len(header), 2)]
        return Decoded(reps, defs, level_counts, None), buffers

    def _decode(self, table: ChunkTable, chosen: Indices | slice) -> Generator[Ranges, list[Bytes], Decoded]:
        """Levels and values of whole chunks."""
        part, buffers = yield from self._parse(table, chosen)
        values = decode_chunks(self._recipe.value_codec, buffers, table.counts[chosen], self._context.place)
        raw = to_arrow(values, self._raw_type(values), self._context.place)
        return Decoded(part.reps, part.defs, part.level_counts, raw)

    def _raw_type(self, values: Values) -> pa.DataType:
        """Type of the values before the dictionary and FSST."""
        if self._recipe.dictionary:
            if not isinstance(values, Fixed) or values.bits not in _INDEX_TYPES:
                raise self._context.place.corrupt("dictionary indices that are not plain integers")
            return _INDEX_TYPES[values.bits]
        return pa.large_binary() if self._recipe.fsst else self._context.dtype

    def _finish(self, values: pa.Array, table: ChunkTable, cuts: Indices, defs: Levels | None) -> pa.Array:
        """Dictionary lookup and FSST, page by page; ``cuts`` says where the values of each page begin."""
        if not self._recipe.late:
            return values
        if len(cuts) == 1:
            return self._finish_page(values, table, 0, defs)
        stops = np.append(cuts[1:], len(values))
        parts = []
        for page in np.flatnonzero(stops > cuts).tolist():
            start, stop = int(cuts[page]), int(stops[page])
            own = None if defs is None else defs[start:stop]
            parts.append(self._finish_page(values.slice(start, stop - start), table, page, own))
        if len(parts) > 1:
            return join_values(parts, self._context.place)
        return parts[0] if parts else self._finish_page(values, table, 0, defs)

    def _finish_page(self, values: pa.Array, table: ChunkTable, page: int, defs: Levels | None) -> pa.Array:
        place, dtype = self._context.place, self._context.dtype
        if self._recipe.fsst:
            offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
            codes = np.frombuffer(values.buffers()[2] or b"", np.uint8)[: offsets[-1]]
            if offsets[0]:
                codes, offsets = codes[offsets[0] :], offsets - offsets[0]
            return to_arrow(expand_fsst(table.symbols[page], Variable(offsets, codes), place), dtype, place)
        indices = numpy_array(values)
        return table.dictionaries[page].look_up(indices, defs, dtype, place)

    def _check_levels(self, reps: Levels | None, defs: Levels | None, level_counts: Indices, counts: Indices) -> None:
        """Each chunk must have as many visible entries as items, else values would move to other rows."""
        place, shape = self._context.place, self._recipe.shape
        if reps is None and defs is None:
            return
        if reps is not None and defs is not None and len(reps) != len(defs):
            raise place.corrupt("repetition and definition levels differ in number")
        if not shape.lists or defs is None:
            if (level_counts != counts).any():
                raise place.corrupt("levels and values differ in number")
            return
        if len(level_counts) == 1:
            if levels_kernel.count_visible(defs, shape.max_visible) != int(counts[0]):
                raise place.corrupt("visible levels and values differ in number")
            return
        visible = np.empty(len(level_counts), np.int64)
        levels_kernel.visible_before(defs, shape.max_visible, level_counts.cumsum(), visible)
        visible[1:] -= visible[:-1].copy()
        if (visible != counts).any():
            raise place.corrupt("visible levels and values differ in number")

    def _locate(self, rows: Rows) -> Generator[Ranges, list[Bytes], ChunkTable]:
        """The chunk tables of the pages that hold the rows."""
        if isinstance(rows, RowRange):
            first, last = self._bounds.searchsorted((rows.start, rows.stop - 1), "right") - 1
            needed = list(range(int(first), int(last) + 1))
        elif len(rows) == 1:
            needed = [int(self._bounds.searchsorted(rows.values[0], "right")) - 1]
            only = self._tables[needed[0]]
            if only is not None:
                return only
        else:
            needed = np.unique(self._bounds.searchsorted(rows.values, "right") - 1).tolist()
        missing = [page for page in needed if self._tables[page] is None]
        loaded = yield from gather([_read_table(self._pages[page], self._recipe) for page in missing])
        for page, table in zip(missing, loaded, strict=True):
            self._tables[page] = table
        # Threads may do this side by side: every value stored here is the same whoever stores it.
        present = [table for table in self._tables if table is not None]
        if len(present) == len(self._tables):
            self._joined = table = ChunkTable.join(present)
            return table
        return ChunkTable.join([table for page in needed if (table := self._tables[page]) is not None])


def _at(levels: Levels | None, at: Indices) -> Levels | None:
    return None if levels is None else levels[at]


def _read_table(page: MiniBlockPage, recipe: Recipe) -> Generator[Ranges, list[Bytes], ChunkTable]:
    """Read a page's chunk words, repetition index and dictionary."""
    layout, context, place = page.layout, page.context, page.context.place
    small = [context.buffer(0)]
    if recipe.dictionary:
        small.append(context.buffer(2))
    if recipe.shape.lists:
        small.append(context.buffer(3 if recipe.dictionary else 2))
    parts = yield from gather(small)
    word = 4 if recipe.large else 2
    if len(parts[0]) % word or len(parts[0]) == 0:
        raise place.corrupt(f"{len(parts[0])} bytes of chunk words of {word} bytes each")
    table = parts[0].view(f"<u{word}").astype(np.int64)
    sizes = ((table >> 4) + 1) * 8
    counts = np.left_shift(1, table & 15)
    if (table[:-1] & 15 == 0).any():
        raise place.corrupt("a chunk in the middle of the page says that it is the last")
    items = int(layout.num_items)
    if items > _MAX_ITEMS:
        raise place.corrupt(f"a page of {items} items")
    counts[-1] = items - int(counts[:-1].sum())
    if counts[-1] < 0 or (recipe.shape.lists == 0 and items != context.rows):
        raise place.corrupt(f"{items} items in the page do not agree with its chunks or its {context.rows} rows")
    if len(context.sizes) < 2 or int(sizes.sum()) > context.sizes[1]:
        raise place.corrupt("chunks are longer than their buffer")
    first_rows = row_starts = row_ends = np.empty(0, np.int64)
    if recipe.shape.lists:
        first_rows, row_starts, row_ends = _repetition_index(
            parts[-1], layout.repetition_index_depth, len(table), context
        )
    symbols = layout.value_compression.fsst.symbol_table
    return ChunkTable(
        context.offsets[1] + sizes.cumsum() - sizes,
        sizes,
        counts,
        page.first_row + counts.cumsum() - counts,
        page.first_row + first_rows,
        row_starts,
        page.first_row + row_ends,
        np.zeros(1, np.int64),
        (_dictionary(parts[1], layout, context),) if recipe.dictionary else (),
        (SymbolTable.parse(symbols, place),) if recipe.fsst else (),
    )


def _dictionary(data: Bytes, layout: pb.MiniBlockLayout, context: PageContext) -> PageDictionary:
    dtype = context.dtype.value_type if pa.types.is_dictionary(context.dtype) else context.dtype
    count = int(layout.num_dictionary_items)
    if count > (len(data) + 1) * 2**14:
        raise context.place.corrupt(f"{count} dictionary items in {len(data)} bytes")
    return PageDictionary.of(
        to_arrow(decode_block(layout.dictionary, data, count, context.place), dtype, context.place)
    )


def _repetition_index(data: Bytes, depth: int, chunks: int, context: PageContext) -> tuple[Indices, Indices, Indices]:
    """Number of the first row that starts in each chunk, rows that start in it, rows ended so far."""
    place = context.place
    if len(data) != chunks * (depth + 1) * 8:
        raise place.corrupt(f"a repetition index of {len(data)} bytes for {chunks} chunks")
    table = np.frombuffer(data, "<u8").reshape(chunks, depth + 1)[:, :2]
    if (table > 2**40).any():
        raise place.corrupt("a repetition index with impossible counts")
    ends, partial = table[:, 0].astype(np.int64), table[:, 1] > 0
    preamble = np.concatenate(([False], partial[:-1]))
    starts = ends + partial - preamble
    if int(ends.sum()) != context.rows or partial[-1] or (starts < 0).any():
        raise place.corrupt(f"a repetition index of {int(ends.sum())} rows in a page of {context.rows}")
    return starts.cumsum() - starts, starts, ends.cumsum()


def join_values(parts: list[pa.Array], place: Place) -> pa.Array:
    """Values of several pages; dictionaries are unified."""
    dtype = parts[0].type
    if not pa.types.is_dictionary(dtype):
        return concat(parts, dtype, place)
    wide = [pa.DictionaryArray.from_arrays(p.indices.cast(pa.int64()), p.dictionary, safe=False) for p in parts]
    joined = concat(wide, wide[0].type, place)
    if len(joined.dictionary) - 1 > np.iinfo(numpy_type(dtype.index_type)).max:
        raise place.too_large(f"{len(joined.dictionary)} dictionary items with {dtype.index_type} keys")
    return pa.DictionaryArray.from_arrays(joined.indices.cast(dtype.index_type), joined.dictionary, safe=False)
