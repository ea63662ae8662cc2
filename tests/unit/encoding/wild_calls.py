"""Every kernel, called with arrays and numbers that nobody would mean.

Run by itself (``python wild_calls.py SEED SECONDS``) it goes on for some time; under
AddressSanitizer that shows any byte read or written outside of the arrays given.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancelet.encoding.kernels import (
    bitpack,
    dictionary,
    fsst,
    fullzip,
    levels,
    lz4,
    miniblock,
    page_plans,
    pick,
    single_rows,
    small_encode,
    small_pages,
)
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings21_pb2 as pb

PLAIN = (
    (pa.int64(), 64),
    (pa.int32(), 32),
    (pa.int8(), 8),
    (pa.bool_(), 1),
    (pa.binary(), -32),
    (pa.large_string(), -65),
    (pa.binary(3), 24),
    (pa.decimal128(20, 2), 128),
)
"""Types, and what kernels call them."""
EXTREMES = (0, 1, -1, 2, 7, 8, 15, 16, 63, 64, 65, 255, 1023, 1024, 1025, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1,
            -(2**63))  # fmt: skip


class Wild:
    """Draws arguments; each array is an allocation of its own, so that its ends can be watched."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def length(self) -> int:
        return self.rng.choice((0, 1, 2, 3, 5, 16, 64, 200, self.rng.randrange(3000)))

    def bytes(self, length: int | None = None) -> np.ndarray:
        size = self.length() if length is None else length
        top = self.rng.choice((1, 2, 20, 256))
        return self.numbers.integers(0, top, size).astype(np.uint8)

    def words(self, dtype: type, length: int | None = None) -> np.ndarray:
        size = self.length() if length is None else length
        top = self.rng.choice((1, 2, 5, 300, 60000))
        return self.numbers.integers(0, top, size).astype(dtype)

    def number(self, near: int = 64) -> int:
        draw = self.rng.random()
        if draw < 0.12:
            return self.rng.choice(EXTREMES)
        return self.rng.randrange(near + 1)

    def int32(self, *usual: int) -> int:
        return self.rng.choice(usual) if self.rng.random() < 0.85 else max(-(2**31), min(2**31 - 1, self.number()))

    def indices(self, length: int, near: int, *, rising: bool = False) -> np.ndarray:
        calm = self.rng.random() < 0.6
        values = [self.rng.randrange(near + 1) if calm else self.number(near) for _ in range(length)]
        return np.array(sorted(values) if rising else values, np.int64)

    def count(self) -> int:
        return self.rng.choice((0, 1, 2, 5))

    def other(self, length: int) -> int:
        """Mostly the length that the others have."""
        return length if self.rng.random() < 0.93 else self.length()


def _chunks(w: Wild) -> tuple[np.ndarray, ...]:
    data, n = w.bytes(), w.count()
    reach = len(data)
    return data, w.indices(n, reach), w.indices(w.other(n), reach), w.indices(w.other(n), min(reach, 1100))


def _unpack_inline(w: Wild) -> object:
    data, positions, sizes, counts = _chunks(w)
    bits = w.int32(8, 16, 32, 64)
    if len(data) and w.rng.random() < 0.8:
        data[::8] = w.rng.randrange(5)
    return bitpack.unpack_inline(data, positions, sizes, counts, bits, w.bytes(w.length() * 8))


def _unpack_blocks(w: Wild) -> object:
    return bitpack.unpack_blocks(*_chunks(w), w.int32(8, 16, 32, 64), w.int32(0, 1, 2, 8, 16), w.bytes(w.length() * 8))


def _parse_chunks(w: Wild) -> object:
    data, n = w.bytes(), w.count()
    rep, level, buffers = w.rng.random() < 0.5, w.rng.random() < 0.5, w.int32(0, 1, 2, 3)
    rows = 1 + 2 * (rep + level + max(min(buffers, 40), 0))
    out = np.zeros((w.other(rows), w.other(n)), np.int64)
    large = w.rng.random() < 0.5
    return miniblock.parse_chunks(
        data, w.indices(n, len(data)), w.indices(w.other(n), len(data)), rep, level, buffers, large, out
    )


def _expand_runs(w: Wild) -> object:
    data, n = w.bytes(), w.count()
    arrays = [w.indices(w.other(n), len(data)) for _ in range(4)]
    return miniblock.expand_runs(
        data, *arrays, w.indices(w.other(n), 300), w.int32(1, 2, 4, 8), w.bytes(w.length() * 8)
    )


def _variable_offsets(w: Wild) -> object:
    data, positions, sizes, counts = _chunks(w)
    return miniblock.variable_offsets(data, positions, sizes, counts, w.rng.random() < 0.5, w.indices(w.length(), 9))


def _variable_bytes(w: Wild) -> object:
    data, positions, _, counts = _chunks(w)
    offsets = w.indices(w.length(), len(data), rising=w.rng.random() < 0.7)
    return miniblock.variable_bytes(data, positions, counts, w.rng.random() < 0.5, offsets, w.bytes())


def _fsst(w: Wild) -> object:
    codes = w.bytes()
    offsets = w.indices(w.length(), len(codes), rising=w.rng.random() < 0.8)
    lengths = w.bytes(w.other(256))
    if w.rng.random() < 0.9:
        lengths %= 9
        if len(lengths) == 256:
            fsst.expanded_size(codes, lengths)
    ends = np.zeros(w.other(len(offsets)), np.int64)
    return fsst.expand(codes, offsets, w.words(np.uint64, w.other(256)), lengths, ends, w.bytes())


def _zip(w: Wild) -> tuple[object, ...]:
    data, n = w.bytes(), w.count()
    starts, stops = w.indices(n, len(data)), w.indices(w.other(n), len(data))
    shape = (
        w.int32(0, 1, 2, 4),
        w.int32(0, 1, 2, 8, 16),
        w.number(3),
        w.rng.choice((-1, 0, 1, 4, w.number())),
        w.int32(4, 8),
    )
    return data, starts, stops, *shape


def _unzip(w: Wild) -> object:
    offsets = np.zeros(w.length(), np.int64)
    size = w.length()
    reps, defs = w.words(np.uint16, w.other(size)), w.words(np.uint16, w.rng.choice((0, w.other(size))))
    return fullzip.unzip(*_zip(w), reps, defs, offsets, w.bytes())


def _split_fields(w: Wild) -> object:
    data, fields = w.bytes(), w.count()
    offsets = w.indices(w.length(), len(data), rising=w.rng.random() < 0.8)
    rows = max(len(offsets) - 1, 0)
    widths = np.array([w.rng.choice((-1, 0, 1, 8, w.number())) for _ in range(fields)], np.int64)
    prefixes = np.array([w.rng.choice((4, 8, 4, 8, w.number())) for _ in range(w.other(fields))], np.int64)
    outs = [np.zeros((w.other(fields), w.other(rows)), np.int64) for _ in range(2)]
    return fullzip.split_record_fields(data, offsets, widths, prefixes, *outs)


def _gather_slices(w: Wild) -> object:
    data, n = w.bytes(), w.count()
    return fullzip.gather_slices(
        data, w.indices(n, len(data)), w.indices(w.other(n), len(data)), w.number(9), w.bytes()
    )


def _list_layer(w: Wild) -> object:
    reps = w.words(np.uint16)
    defs = w.words(np.uint16, w.other(len(reps)))
    up_to = [w.rng.randrange(6) for _ in range(4)]
    size = w.rng.choice((len(reps) + 1, int(np.count_nonzero(reps)) + 1, w.length()))
    return levels.list_layer(reps, defs, *up_to, np.zeros(size, np.int64), np.zeros(w.other(size), np.uint8))


def _visible_before(w: Wild) -> object:
    at = w.indices(w.length(), 100, rising=w.rng.random() < 0.8)
    return levels.visible_before(w.words(np.uint16), w.rng.randrange(4), at, np.zeros(w.other(len(at)), np.int64))


def _pick(w: Wild) -> object:
    data, n = w.bytes(), w.count()
    codec, bits = w.int32(1, 2, 5, 6), w.int32(8, 16, 32, 64, 24, 256)
    size = n * max(min(bits, 4096), 0) // 8
    arrays = [w.indices(w.other(n), len(data)) for _ in range(3)]
    inside, large = w.indices(w.other(n), 20), w.rng.random() < 0.5
    return pick.pick_items(
        data, *arrays, inside, w.int32(0, 1, 2, 3, 4), w.int32(0, 1, 2, 16), large, codec, bits,
        w.words(np.uint16, w.other(n)), w.bytes(w.other(size)), *(np.zeros(w.other(n), np.int64) for _ in range(2)),
    )  # fmt: skip


def _pick_like_a_chunk(w: Wild) -> object:
    """A header that could be true, so that the levels and values behind it are reached."""
    large, codec, bits = w.rng.random() < 0.5, w.rng.choice((1, 2, 5, 6)), w.rng.choice((32, 64))
    bits = 8 if codec == 6 else bits
    level_bytes, value_bytes, count = w.rng.randrange(300), w.rng.randrange(3000), w.rng.randrange(1, 1100)
    head = count.to_bytes(2, "little") + level_bytes.to_bytes(2, "little")
    head += value_bytes.to_bytes(4 if large else 2, "little")
    head += bytes(-len(head) % 8)
    body = w.bytes(-level_bytes % 8 + level_bytes + value_bytes)
    data = np.concatenate((np.frombuffer(head, np.uint8), body))
    n = 3
    one = [np.full(n, value) for value in (0, len(data), count)]
    inside = np.array([w.rng.randrange(count) for _ in range(n)])
    out = np.zeros(0 if codec == 5 else n * bits // 8, np.uint8)
    ends = [np.zeros(n if codec == 5 else 0, np.int64) for _ in range(2)]
    level_codec, width = w.rng.choice((1, 2, 3, 4)), w.rng.randrange(17)
    return pick.pick_items(
        data, *one, inside, level_codec, width, large, codec, bits, np.zeros(n, np.uint16), out, *ends
    )


def _look_up(w: Wild) -> object:
    kind, width = w.rng.choice((np.uint8, np.uint16, np.uint32, np.uint64)), w.rng.choice((np.int32, np.int64))
    indices = w.words(kind)
    data = w.bytes()
    offsets = np.clip(w.indices(w.length(), len(data), rising=w.rng.random() < 0.8), -(2**31), 2**31 - 1).astype(width)
    ends = np.zeros(w.other(len(indices) + 1), width)
    total = dictionary.look_up_offsets(indices, offsets, ends, w.number(3000))
    if w.rng.random() < 0.3:
        ends[:] = w.words(width, len(ends))
    return total, dictionary.look_up_bytes(indices, offsets, data, ends, w.bytes())


def _gather_records(w: Wild) -> object:
    data = w.bytes()
    return fullzip.gather_records(data, w.indices(w.count(), len(data)), w.number(20), w.bytes())


def _codec(w: Wild, width: int) -> pb.CompressiveEncoding:
    """Of values of so many bits, or of strings, mostly."""
    made = pb.CompressiveEncoding()
    bits = width if w.rng.random() < 0.95 else w.rng.choice((1, 8, 64, 24, 256))
    match w.rng.choice((4, 4, 5)) if width < 0 else w.rng.choice((0, 0, 1, 2, 3)):
        case 0:
            made.flat.bits_per_value = max(bits, 0)
        case 1:
            made.inline_bitpacking.uncompressed_bits_per_value = max(bits, 0)
        case 2:
            made.rle.values.flat.bits_per_value = max(bits, 0)
            made.rle.run_lengths.flat.bits_per_value = 8
        case 3:
            made.byte_stream_split.values.flat.bits_per_value = w.rng.choice((32, 64))
        case 4:
            made.variable.offsets.flat.bits_per_value = w.rng.choice((32, 64))
        case 5:
            table = w.bytes(2312)
            table[0], table[4:8] = w.rng.randrange(256), np.frombuffer(b"TSSF", np.uint8)
            table[8 + 8 * int(table[0]) :] = table[8 + 8 * int(table[0]) :] % 8 + 1
            made.fsst.symbol_table = table.tobytes()
            made.fsst.values.variable.offsets.flat.bits_per_value = w.rng.choice((32, 64))
    return made


def _values(w: Wild, codec: pb.CompressiveEncoding, rows: int, width: int) -> list[bytes]:
    """Buffers of a chunk, mostly as large as so many values need."""
    if codec.HasField("rle"):
        runs = -(-rows // 255)
        lengths = [255] * (runs - 1) + [rows - 255 * (runs - 1)]
        return [w.bytes(runs * max(width, 8) // 8).tobytes(), bytes(lengths)]
    if width < 0:
        variable = codec.fsst.values.variable if codec.HasField("fsst") else codec.variable
        item = max(variable.offsets.flat.bits_per_value // 8, 4)
        text = w.bytes().tobytes()
        starts = np.sort(w.numbers.integers(0, len(text) + 1, rows + 1)) + (rows + 1) * item
        return [starts.astype(np.uint32 if item == 4 else np.uint64).tobytes() + text]
    return [w.bytes(w.rng.choice((-(-rows * width // 8), 128 * width + 8, w.length()))).tobytes()]


def _level_codec(w: Wild) -> pb.CompressiveEncoding:
    made = pb.CompressiveEncoding()
    match w.rng.randrange(4):
        case 0:
            made.flat.bits_per_value = 16
        case 1:
            made.inline_bitpacking.uncompressed_bits_per_value = 16
        case 2:
            made.out_of_line_bitpacking.uncompressed_bits_per_value = 16
            made.out_of_line_bitpacking.values.flat.bits_per_value = w.rng.randrange(17)
        case 3:
            made.rle.values.flat.bits_per_value = 16
            made.rle.run_lengths.flat.bits_per_value = 8
    return made


def _page(w: Wild, data: bytearray, width: int, around: str) -> column_pb2.ColumnMetadata.Page:
    """A page whose numbers could be true, over a chunk whose header could be; ``around`` its values are lists, structs or nothing."""
    nested = around == "list"
    rows = w.rng.choice((1, 2, 5, 200, 1000))
    items, dictionary = w.rng.randrange(1, 40), w.rng.random() < 0.3
    stored = w.rng.choice((8, 16, 32)) if dictionary else width
    layout = pb.MiniBlockLayout(
        value_compression=_codec(w, stored), num_items=rows, has_large_chunk=w.rng.random() < 0.5
    )
    layout.layers.append(w.rng.choice((1, 3)))
    levels = []
    if around == "struct":
        layout.layers.append(w.rng.choice((1, 3)))
    if nested:
        layout.layers.append(w.rng.choice((2, 4, 5, 6)))
        layout.rep_compression.CopyFrom(_level_codec(w))
        layout.repetition_index_depth = 1
        levels.append(w.rng.choice((np.ones(rows, np.uint16), w.bytes(130), w.bytes())).tobytes())
    if any(layer > 2 for layer in layout.layers):
        layout.def_compression.CopyFrom(_level_codec(w))
        levels.append(w.rng.choice((np.zeros(rows, np.uint16), w.bytes(130), w.bytes())).tobytes())
    values = _values(w, layout.value_compression, rows, stored)
    layout.num_buffers = len(values)
    wide = 4 if layout.has_large_chunk else 2
    chunk = bytearray(rows.to_bytes(2, "little"))
    for at, piece in enumerate((*levels, *values)):
        chunk += min(len(piece), 65535).to_bytes(2 if at < len(levels) else wide, "little")
    for piece in (*levels, *values):
        chunk += bytes(-len(chunk) % 8) + piece
    chunk += bytes(-len(chunk) % 8)
    buffers = [(((len(chunk) // 8 - 1) << 4) % (1 << 8 * wide)).to_bytes(wide, "little"), bytes(chunk)]
    if dictionary:
        layout.num_dictionary_items = items
        layout.dictionary.CopyFrom(_codec(w, width))
        ends = np.sort(w.numbers.integers(0, 50, items + 1)) + (0 if w.rng.random() < 0.2 else -1)
        strings = np.array([32, (items + 3) * 4, *np.maximum(ends - ends[0], 0)], np.uint32).tobytes() + bytes(60)
        buffers.append(strings if width < 0 else w.bytes(w.rng.choice((items * 8, 128 * 3 + 8, w.length()))).tobytes())
    if nested:
        buffers.append(np.array([rows if w.rng.random() < 0.8 else w.rng.randrange(9), 0], np.uint64).tobytes())
    page = column_pb2.ColumnMetadata.Page(length=rows)
    for buffer in buffers:
        page.buffer_offsets.append(len(data) if w.rng.random() < 0.98 else abs(w.number(3000)))
        page.buffer_sizes.append(len(buffer) if w.rng.random() < 0.98 else abs(w.number(3000)))
        data += buffer
    described = column_pb2.AnyMessage(
        type_url="/lance.encodings21.PageLayout", value=pb.PageLayout(mini_block_layout=layout).SerializeToString()
    )
    page.encoding.direct.encoding = described.SerializeToString()
    return page


def _planned(w: Wild, around: str, width: int) -> tuple[int, page_plans.PagePlans]:
    """A file of one column, and how many rows it says it has."""
    data = bytearray()
    message = column_pb2.ColumnMetadata(pages=[_page(w, data, width, around) for _ in range(w.rng.choice((1, 1, 2)))])
    text = message.SerializeToString()
    places = np.array([[len(data), len(text)]], np.int64)
    rows = sum(page.length for page in message.pages)
    return rows, page_plans.PagePlans(np.frombuffer(bytes(data) + text, np.uint8), places, rows)


def _read_columns(w: Wild) -> object:
    dtype, width = w.rng.choice(PLAIN)
    around = w.rng.choice(("", "", "", "list", "struct"))
    rows, plans = _planned(w, around, width)
    is_list = around == "list"
    start, picks = (0, None) if is_list else (w.rng.randrange(rows), None)
    if not around and w.rng.random() < 0.4:
        picks = np.array([w.rng.randrange(rows) for _ in range(w.rng.choice((1, 3, 50)))], np.int64)
        if w.rng.random() < 0.7:
            picks.sort()
        elif len(picks) > 2:
            picks[1] = w.number(rows)
        start = int(picks[0])
    stop = int(picks[-1]) + 1 if picks is not None else rows if is_list else w.rng.randrange(start, rows) + 1
    kinds = np.array([{"": 1, "struct": 2, "list": 2 + (1 << 9)}[around]], np.int64)
    if w.rng.random() < 0.02:
        kinds[0] = w.rng.choice((0, -1, 3, 1 + (1 << 8), 1 + (1 << 13), 2 + (3 << 8), 255, 2**62))
    (found,) = small_pages.read_columns(
        plans, np.zeros(1, np.int64), np.array([width], np.int64), kinds, start, stop, picks, [dtype, pa.uint16()],
        pa.Array._import_from_c,
    )  # fmt: skip
    for array in found if isinstance(found, tuple) else (found,):
        if array is not None:
            array.validate(full=True)
    return found


def _pick_columns(w: Wild) -> object:
    dtype, width = w.rng.choice(PLAIN)
    files = [_planned(w, w.rng.choice(("", "", "", "", "list", "struct")), width) for _ in range(w.rng.choice((1, 2)))]
    count = w.rng.choice((0, 1, 3, 50))
    owners = np.array([w.rng.randrange(len(files)) for _ in range(count)], np.int64)
    rows = np.array([w.rng.randrange(files[owner][0]) for owner in owners], np.int64)
    if count and w.rng.random() < 0.05:
        w.rng.choice((owners, rows))[w.rng.randrange(count)] = w.number(1000)
    wanted = width if w.rng.random() < 0.95 else w.number(80)
    made = dtype if wanted == width else pa.binary(wanted // 8) if 8 <= wanted <= 1 << 20 else pa.bool_()
    columns = [np.array([0 if w.rng.random() < 0.98 else w.number(3)], np.int64) for _ in files]
    found = single_rows.pick_columns(
        [plans for _, plans in files], columns, np.array([wanted], np.int64), owners, rows,
        [made], pa.Array._import_from_c,
    )  # fmt: skip
    for array in found or ():
        if wanted == width:
            array.validate(full=True)
    return found


def _encode_words(w: Wild) -> object:
    bits, count = w.int32(8, 16, 32, 64), w.rng.choice((1, 5, 1023, w.rng.randrange(1, 1024)))
    data = w.bytes(w.rng.choice((count * 8 + 64, w.length())))
    validity = w.bytes() if w.rng.random() < 0.5 else None
    return small_encode.encode_words(data, bits, w.rng.randrange(8), count, validity, w.rng.random() < 0.5)


def _encode_strings(w: Wild) -> object:
    text, word = w.bytes(), w.rng.choice((4, 8))
    places = w.indices(w.length(), len(text), rising=w.rng.random() < 0.8)
    offsets = np.clip(places, -(2**31), 2**31 - 1).astype(np.int32) if word == 4 else places
    validity = w.bytes() if w.rng.random() < 0.5 else None
    count = max(len(offsets) - 1, 1) if w.rng.random() < 0.8 else w.rng.randrange(1, 1024)
    return small_encode.encode_strings(offsets, text, word, 0, count, validity, w.rng.random() < 0.5)


CALLS: dict[str, Callable[[Wild], object]] = {
    "unpack_inline": _unpack_inline,
    "unpack_blocks": _unpack_blocks,
    "parse_chunks": _parse_chunks,
    "copy_flat": lambda w: miniblock.copy_flat(*_chunks(w), w.number(9), w.bytes()),
    "copy_bits": lambda w: miniblock.copy_bits(*_chunks(w), np.zeros(w.length(), np.uint8)),
    "expand_runs": _expand_runs,
    "join_streams": lambda w: miniblock.join_streams(*_chunks(w), w.int32(4, 8), w.bytes()),
    "variable_offsets": _variable_offsets,
    "variable_bytes": _variable_bytes,
    "narrow": lambda w: miniblock.narrow(w.indices(w.length(), 99), np.zeros(w.length(), np.int32)),
    "fsst": _fsst,
    "gather_records": _gather_records,
    "count_entries": lambda w: fullzip.count_entries(*_zip(w), np.zeros(w.rng.choice((3, 3, 3, 0, 2)), np.int64)),
    "unzip": _unzip,
    "split_record_fields": _split_fields,
    "gather_slices": _gather_slices,
    "count_slots": lambda w: levels.count_slots(w.words(np.uint16), w.rng.randrange(4), w.rng.randrange(4)),
    "validity": lambda w: levels.validity(w.words(np.uint16), w.rng.randrange(4), w.rng.randrange(4), w.bytes()),
    "renumber": lambda w: levels.renumber(w.words(np.uint16), w.words(np.uint16)),
    "list_layer": _list_layer,
    "count_visible": lambda w: levels.count_visible(w.words(np.uint16), w.rng.randrange(4)),
    "visible_before": _visible_before,
    "block_size": lambda w: lz4.block_size(w.bytes()),
    "pick_items": _pick,
    "pick_items in a chunk": _pick_like_a_chunk,
    "look_up": _look_up,
    "read_columns": _read_columns,
    "pick_columns": _pick_columns,
    "encode_words": _encode_words,
    "encode_strings": _encode_strings,
}


def call_wildly(name: str, seed: int, times: int) -> int:
    """How many calls were answered; the others were refused with a ValueError, as wrong sizes are."""
    answered = 0
    for number in range(times):
        try:
            CALLS[name](Wild(seed * 1_000_003 + number))
            answered += 1
        except ValueError:
            continue
    return answered


def main() -> None:
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    end = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < end:
        for name in CALLS:
            call_wildly(name, seed + rounds, 200)
        rounds += 1
    print(f"{rounds} rounds of {len(CALLS)} kernels")


if __name__ == "__main__":
    main()
