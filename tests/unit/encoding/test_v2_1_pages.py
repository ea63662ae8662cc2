"""2.1 and 2.2 pages made by hand: the spec's own bytes, what no current writer makes, and what the spec calls traps."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

from lancelet.encoding.rows import RowRange
from lancelet.errors import CorruptFile, NotSupported
from lancelet.format.proto import encodings21_pb2 as pb
from unit.encoding.made21 import (
    ALL_ITEM,
    ALL_LIST,
    BOTH_LIST,
    CE,
    EMPTY_LIST,
    NULL_ITEM,
    Chunk,
    File,
    Page,
    block_strings,
    chunk_strings,
    compress,
    constant,
    every_way,
    find_runs,
    fixed_list,
    flat,
    fsst,
    fsst_encode,
    general,
    inline,
    make_file,
    mini_block,
    numbers,
    out_of_line,
    pack_inline,
    pack_tail,
    packed,
    page_of,
    run_block,
    runs,
    scalar_buffer,
    split,
    symbol_table,
    u16,
    variable,
)

INTS = list(range(7, 700, 3))


def ints_page(values: list[int] = INTS) -> Page:
    return mini_block(len(values), [Chunk(len(values), [numbers(values)])], flat(32))


# The spec's bytes


def test_the_list_page_of_the_spec() -> None:
    page = page_of(
        4,
        "0a1e 0a040a020810 12040a020810 1a040a020820 32020306 3801 4001 4803 5001",
        "70000000",
        "05000a000a000c000000fefefefefefe 01000000010001000100fefefefefefe"
        "00000100030002000000fefefefefefe 010000000000000003000000fefefefe",
        "04000000000000000000000000000000",
    )
    every_way(make_file(pa.list_(pa.int32()), [[page]]), pa.array([[1, None], [], None, [3]], pa.list_(pa.int32())))


def test_the_same_list_page_in_version_2_1() -> None:
    page = mini_block(
        4,
        [Chunk(3, [numbers([1, 0, 3])], 5, u16(1, 0, 1, 1, 1), u16(0, 1, 3, 2, 0))],
        flat(32),
        layers=(NULL_ITEM, BOTH_LIST),
        rep=flat(16),
        defs=flat(16),
        index=[(4, 0)],
        large=False,
    )
    assert page.buffers[0] == bytes.fromhex("6000")
    assert page.buffers[1][:8] == bytes.fromhex("05000a000a000c00")
    expected = pa.array([[1, None], [], None, [3]], pa.list_(pa.int32()))
    every_way(make_file(pa.list_(pa.int32()), [[page]], version="2.1"), expected)


def test_the_struct_page_of_the_spec() -> None:
    """Column b of struct<a, b>; column a is made to match."""
    b = page_of(
        4,
        "0a1a 12040a020810 1a0812060a040a020820 32020303 3801 4804 5001",
        "40000000",
        "0400080018000000 0000020000000100 1400000015000000150000001600000016000000 7879 4848",
    )
    a = mini_block(
        4, [Chunk(4, [numbers([1, 0, 0, 4])], 4, None, u16(0, 2, 1, 0))], flat(32),
        layers=(NULL_ITEM, NULL_ITEM), defs=flat(16),
    )  # fmt: skip
    dtype = pa.struct([("a", pa.int32()), ("b", pa.string())])
    rows = [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 4, "b": None}]
    every_way(make_file(dtype, [[a], [b]]), pa.array(rows, dtype))


def test_the_constant_page_of_the_spec() -> None:
    every_way(make_file(pa.int32(), [[page_of(5, "1209 2a0101 320407000000")]]), pa.array([7] * 5, pa.int32()))


def test_the_nested_fixed_size_list_page_of_the_spec() -> None:
    page = page_of(
        2,
        "0a1f 1a145a120803120c5a0a080212040a02081018011801 320101 3803 4802 5001",
        "50000000",
        "0000 01000000 02000000 18000000 fefe 2f00000000000000 ff04000000000000"
        "010002000300040005000600 070008000000000009000000",
    )
    page.buffers[1] += b"\xfe" * (-len(page.buffers[1]) % 8)
    page.buffers[0] = struct.pack("<I", (len(page.buffers[1]) // 8 - 1) << 4)
    # The element bitmap ff04 marks 9 of 12 elements; the spec's rows are these.
    dtype = pa.list_(pa.list_(pa.int16(), 2), 3)
    found = File(make_file(dtype, [[page]])).scan().to_pylist()
    assert found == [[[1, 2], [3, 4], [5, 6]], [[7, 8], None, [9, None]]]


# Levels


def leveled(rows: int, reps: list[int], defs: list[int], values: list[int], layers: tuple[int, ...]) -> Page:
    return mini_block(
        rows,
        [Chunk(len(values), [numbers(values)], len(defs), u16(*reps) if reps else None, u16(*defs))],
        flat(32),
        layers=layers,
        rep=flat(16) if reps else None,
        defs=flat(16),
        index=[(rows, 0)] if reps else None,
    )


I32 = pa.int32()
EXAMPLES = {
    "list of lists": (
        pa.list_(pa.list_(I32)),
        [leveled(5, [2, 0, 1, 2, 2, 2, 1, 2, 0], [0, 0, 3, 5, 4, 2, 0, 1, 0], [1, 2, 3, 99, 4],
                 (NULL_ITEM, BOTH_LIST, BOTH_LIST))],
        [[[1, 2], []], [], None, [None, [3]], [[None, 4]]],
    ),
    "struct of list": (
        pa.struct([("l", pa.list_(I32))]),
        [leveled(5, [1, 0, 1, 1, 1, 1, 0], [0, 0, 4, 2, 3, 1, 0], [1, 2, 99, 7], (NULL_ITEM, BOTH_LIST, NULL_ITEM))],
        [{"l": [1, 2]}, None, {"l": None}, {"l": []}, {"l": [None, 7]}],
    ),
    "list of struct": (
        pa.list_(pa.struct([("a", I32)])),
        [leveled(4, [1, 0, 1, 1, 1, 0], [0, 1, 4, 3, 2, 0], [1, 99, 98, 5], (NULL_ITEM, NULL_ITEM, BOTH_LIST))],
        [[{"a": 1}, {"a": None}], [], None, [None, {"a": 5}]],
    ),
    "map": (
        pa.map_(I32, I32),
        [leveled(4, [1, 0, 1, 1, 1], [0, 0, 2, 1, 0], [10, 11, 12], (ALL_ITEM, ALL_ITEM, BOTH_LIST)),
         leveled(4, [1, 0, 1, 1, 1], [0, 1, 3, 2, 0], [1, 99, 3], (NULL_ITEM, ALL_ITEM, BOTH_LIST))],
        [[(10, 1), (11, None)], [], None, [(12, 3)]],
    ),
    "fixed-size list of struct": (
        pa.list_(pa.struct([("a", I32)]), 2),
        [leveled(6, [], [0, 0, 3, 3, 1, 2], [1, 3, 99, 98, 97, 96], (NULL_ITEM, NULL_ITEM, NULL_ITEM))],
        [[{"a": 1}, {"a": 3}], None, [{"a": None}, None]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_level_examples_of_the_spec(name: str) -> None:
    dtype, pages, rows = EXAMPLES[name]
    every_way(make_file(dtype, [[page] for page in pages]), pa.array(rows, dtype))


def test_pages_of_one_column_number_their_levels_differently() -> None:
    """Same column, four flavours: level 1 is a null item, an empty list, a null struct or nothing at all."""
    dtype = pa.list_(pa.struct([("a", I32)]))
    pages = [
        leveled(2, [1, 1], [0, 1], [5], (ALL_ITEM, ALL_ITEM, EMPTY_LIST)),
        leveled(2, [1, 1], [0, 1], [6, 99], (ALL_ITEM, NULL_ITEM, ALL_LIST)),
        leveled(2, [1, 1], [1, 0], [99, 7], (NULL_ITEM, ALL_ITEM, ALL_LIST)),
        mini_block(2, [Chunk(3, [numbers([1, 2, 3])], 3, u16(1, 0, 1))], flat(32),
                   layers=(ALL_ITEM, ALL_ITEM, ALL_LIST), rep=flat(16), index=[(2, 0)]),
        leveled(3, [1, 1, 1], [3, 4, 2], [99], (NULL_ITEM, NULL_ITEM, BOTH_LIST)),
    ]  # fmt: skip
    rows = [[{"a": 5}], [], [{"a": 6}], [None], [{"a": None}], [{"a": 7}], [{"a": 1}, {"a": 2}], [{"a": 3}], None, []]
    every_way(make_file(dtype, [pages]), pa.array([*rows, [None]], dtype))


LEVEL_CODECS = {
    "flat": (flat(16), lambda levels: u16(*levels)),
    "inline": (inline(16), lambda levels: pack_inline(levels, 16)),
    "packed tail": (out_of_line(16, 2), lambda levels: pack_tail(levels, 16, 2, raw=False)),
    "raw tail": (out_of_line(16, 2), lambda levels: pack_tail(levels, 16, 2, raw=True)),
    "runs": (runs(16), run_block),
    "lz4": (general("lz4", flat(16)), lambda levels: compress("lz4", u16(*levels))),
    "zstd runs": (general("zstd", runs(16)), lambda levels: compress("zstd", run_block(levels))),
}


@pytest.mark.parametrize("codec", LEVEL_CODECS)
@pytest.mark.parametrize("count", [1, 700, 1024])
def test_levels_in_every_codec(codec: str, count: int) -> None:
    message, encode = LEVEL_CODECS[codec]
    levels = [1 if i * i % 7 in (1, 2) else 0 for i in range(count)]
    page = mini_block(
        count, [Chunk(count, [numbers(range(count))], count, None, encode(levels))], flat(32),
        layers=(NULL_ITEM,), defs=message,
    )  # fmt: skip
    every_way(make_file(I32, [[page]]), pa.array([None if lv else i for i, lv in enumerate(levels)], I32))


@pytest.mark.parametrize("count", [1025, 2048, 3000])
@pytest.mark.parametrize("raw", [False, True])
def test_out_of_line_levels_of_several_blocks(count: int, raw: bool) -> None:
    levels = [i * 7 % 3 // 2 for i in range(count)]
    page = mini_block(
        count, [Chunk(count, [numbers(range(count))], count, None, pack_tail(levels, 16, 1, raw=raw))], flat(32),
        layers=(NULL_ITEM,), defs=out_of_line(16, 1),
    )  # fmt: skip
    every_way(make_file(I32, [[page]]), pa.array([None if lv else i for i, lv in enumerate(levels)], I32))


def test_out_of_line_levels_of_width_0_have_no_bytes() -> None:
    page = mini_block(
        300, [Chunk(300, [numbers(range(300))], 300, None, b"")], flat(32), layers=(NULL_ITEM,), defs=out_of_line(16, 0)
    )
    every_way(make_file(I32, [[page]]), pa.array(range(300), I32))


@pytest.mark.parametrize("def_codec", ["runs", "packed"])
@pytest.mark.parametrize("rep_codec", ["runs", "packed"])
def test_level_counts_that_wrapped_around(rep_codec: str, def_codec: str) -> None:
    """70,000 levels in one chunk are recorded as 4,464; only runs know better (spec 3.3)."""
    if rep_codec == def_codec == "packed":
        pytest.skip("nothing tells the true count")
    rows = 70_000
    defs = [1] * (rows - 1) + [0]
    reps = [1] * rows

    def coded(levels: list[int], how: str) -> tuple[pb.CompressiveEncoding, bytes]:
        if how == "runs":
            return runs(16), run_block(levels)
        return out_of_line(16, 1), pack_tail(levels, 16, 1, raw=False)

    rep_message, rep_bytes = coded(reps, rep_codec)
    def_message, def_bytes = coded(defs, def_codec)
    page = mini_block(
        rows, [Chunk(1, [numbers([42])], rows, rep_bytes, def_bytes)], flat(32), layers=(ALL_ITEM, EMPTY_LIST),
        rep=rep_message, defs=def_message, index=[(rows, 0)],
    )  # fmt: skip
    file = File(make_file(pa.list_(I32), [[page]]))
    assert file.scan().to_pylist() == [[]] * (rows - 1) + [[42]]
    assert file.take([5, rows - 1]).to_pylist() == [[], [42]]


# Rows over chunks


def list_pages(rows: list[list[int] | None], quota: int) -> Page:
    """A nullable list column in chunks of ``quota`` items, split as spec 3.3 says, with its repetition index."""
    entries = []
    for row in rows:
        if row is None or not row:
            entries.append((1, 1 if row is None else 2, None))
        else:
            entries += [(1 if i == 0 else 0, 0, value) for i, value in enumerate(row)]
    pieces: list[list[tuple[int, int, int | None]]] = [[]]
    left = sum(value is not None for _, _, value in entries)
    for entry in entries:
        seen = sum(value is not None for _, _, value in pieces[-1])
        # The last chunk takes all that is left; before it, invisible entries wait for the next chunk.
        if seen == quota and left > 0:
            pieces.append([])
        pieces[-1].append(entry)
        left -= entry[2] is not None
    index, chunks = [], []
    for number, piece in enumerate(pieces):
        starts = [i for i, entry in enumerate(piece) if entry[0] == 1]
        following = pieces[number + 1] if number + 1 < len(pieces) else None
        ended = following is None or following[0][0] == 1
        begun = len(starts) + (number > 0 and (not piece or piece[0][0] == 0))
        partial = 0 if ended else len(piece) - (starts[-1] if starts else 0)
        index.append((begun - (not ended), partial))
        values = [entry[2] for entry in piece if entry[2] is not None]
        chunks.append(
            Chunk(len(values), [numbers(values)], len(piece), u16(*(e[0] for e in piece)), u16(*(e[1] for e in piece)))
        )
    return mini_block(
        len(rows), chunks, flat(32), layers=(ALL_ITEM, BOTH_LIST), rep=flat(16), defs=flat(16), index=index
    )


def test_the_repetition_index_of_the_spec() -> None:
    rows = [list(range(3000)), [], list(range(2500)), None, list(range(9000)), [1]]
    page = list_pages(rows, 1024)
    index = np.frombuffer(page.buffers[2], "<u8").reshape(-1, 2).tolist()
    assert index[:7] == [[0, 1024], [0, 1024], [2, 72], [0, 1024], [0, 1024], [2, 644], [0, 1024]]
    assert index[-1] == [2, 0]
    every_way(make_file(pa.list_(I32), [[page]]), pa.array(rows, pa.list_(I32)))


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("quota", [2, 4, 64])
@pytest.mark.parametrize("seed", range(6))
def test_rows_of_any_length_over_chunks_of_any_size(quota: int, seed: int) -> None:
    """Rows that spill over many chunks, chunks that start with invisible entries, chunks where no row starts."""
    rng = np.random.default_rng(seed)
    lengths = [0, 1, 2, quota - 1, quota, quota + 1, 5 * quota, 13 * quota + 1]
    rows = [None if rng.random() < 0.2 else rng.integers(0, 1000, rng.choice(lengths)).tolist() for _ in range(60)]
    half = len(rows) // 2
    pages = [list_pages(rows[:half], quota), list_pages(rows[half:], quota)]
    every_way(make_file(pa.list_(I32), [pages]), pa.array(rows, pa.list_(I32)))


def test_chunks_of_different_sizes() -> None:
    counts, values = [256, 2, 512, 230], list(range(1000))
    chunks, at = [], 0
    for count in counts:
        chunks.append(Chunk(count, [numbers(values[at : at + count])]))
        at += count
    every_way(make_file(I32, [[mini_block(1000, chunks, flat(32))]]), pa.array(values, I32))


# Values


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("large", [False, True])
def test_bit_packed_pages(bits: int, large: bool) -> None:
    rng = np.random.default_rng(bits)
    dtype = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[bits]
    values: list[int] = []
    for width in range(bits + 1):
        if not large and 128 * width > 32000:
            continue
        values += (
            [int(v) for v in rng.integers(0, 2**width, 1024, np.uint64, endpoint=width == 64)]
            if width < 64
            else [int(v) for v in rng.integers(0, 2**64 - 1, 1024, np.uint64, endpoint=True)]
        )
    values = [min(v, 2**bits - 1) for v in values] + [1, 2, 3]
    chunks = [
        Chunk(len(values[at : at + 1024]), [pack_inline(values[at : at + 1024], bits)])
        for at in range(0, len(values), 1024)
    ]
    page = mini_block(len(values), chunks, inline(bits), large=large)
    every_way(make_file(dtype, [[page]], version="2.2" if large else "2.1"), pa.array(values, dtype))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_runs(bits: int) -> None:
    dtype = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    values = [3] * 700 + [4] + [5] * 255 + [6] * 68
    tail = [1] * 10
    page = mini_block(
        1034, [Chunk(1024, list(find_runs(values, bits))), Chunk(10, list(find_runs(tail, bits)))], runs(bits)
    )
    every_way(make_file(dtype, [[page]]), pa.array(values + tail, dtype))


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
def test_compressed_runs_keep_their_lengths_plain(scheme: str) -> None:
    values = [9] * 300 + [8] * 4
    heads, lengths = find_runs(values, 32)
    page = mini_block(304, [Chunk(304, [compress(scheme, heads), lengths])], general(scheme, runs(32)))
    every_way(make_file(I32, [[page]]), pa.array(values, I32))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("scheme", ["lz4", "zstd", None])
def test_byte_stream_split(bits: int, scheme: str | None) -> None:
    dtype = pa.float32() if bits == 32 else pa.float64()
    values = np.random.default_rng(1).random(700).astype(f"<f{bits // 8}")
    pieces = [values[:512], values[512:]]
    stored = [np.ascontiguousarray(p.view(np.uint8).reshape(-1, bits // 8).T).tobytes() for p in pieces]
    codec = split(bits)
    if scheme:
        stored, codec = [compress(scheme, s) for s in stored], general(scheme, codec)
    page = mini_block(700, [Chunk(len(p), [s]) for p, s in zip(pieces, stored, strict=True)], codec)
    every_way(make_file(dtype, [[page]]), pa.array(values, dtype))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 100])
def test_bits_start_anew_in_each_chunk(count: int) -> None:
    bits = [i * i % 3 == 1 for i in range(64 + 2 + count)]
    pieces = [bits[:64], bits[64:66], bits[66:]]
    chunks = [Chunk(len(p), [np.packbits(p, bitorder="little").tobytes()]) for p in pieces]
    every_way(make_file(pa.bool_(), [[mini_block(len(bits), chunks, flat(1))]]), pa.array(bits))


WORDS = [b"", b"a", "β".encode(), b"long " * 9, "🦎".encode(), b"zz"] * 7


@pytest.mark.parametrize("word", [4, 8])
@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_strings_with_offsets_of_either_width(word: int, dtype: pa.DataType) -> None:
    chunks = [Chunk(32, [chunk_strings(WORDS[:32], word)]), Chunk(10, [chunk_strings(WORDS[32:], word) + b"HH"])]
    page = mini_block(42, chunks, variable(word * 8))
    every_way(make_file(dtype, [[page]]), pa.array(WORDS, pa.binary()).cast(dtype))


SYMBOLS = [b"long ", b"a", "β".encode(), b"zz", b"12345678"]
TEXTS = [b"long long zz", b"", b"abc 12345678", "ββ🦎".encode(), b"\xc3\xbf"] * 9


def fsst_page(texts: list[bytes], symbols: list[bytes], *, plain: bool = False) -> Page:
    table = symbol_table(symbols, plain=plain)
    stored = list(texts) if plain else [fsst_encode(text, symbols) for text in texts]
    chunks = [Chunk(16, [chunk_strings(stored[:16])]), Chunk(len(texts) - 16, [chunk_strings(stored[16:])])]
    return mini_block(len(texts), chunks, fsst(table, variable()))


@pytest.mark.parametrize("symbols", [[], [b"l"], SYMBOLS, [bytes([65 + i % 26, 97 + i // 26]) for i in range(255)]],
                         ids=["none", "one", "some", "full"])  # fmt: skip
def test_fsst_tables_of_any_size(symbols: list[bytes]) -> None:
    texts = [*TEXTS, b"AaBbCc"]
    every_way(make_file(pa.string(), [[fsst_page(texts, symbols)]]), pa.array(texts, pa.binary()).cast(pa.string()))


def test_fsst_pages_with_tables_of_their_own() -> None:
    """One run of pages, whose codes mean something else in each."""
    pages = [
        fsst_page(TEXTS, SYMBOLS),
        fsst_page(TEXTS, SYMBOLS[::-1]),
        fsst_page(TEXTS, [], plain=True),
        fsst_page(TEXTS, [b"ng", b"z"]),
    ]
    every_way(make_file(pa.string(), [pages]), pa.array(TEXTS * 4, pa.binary()).cast(pa.string()))


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
def test_compressed_chunks(scheme: str) -> None:
    strings = [
        Chunk(32, [compress(scheme, chunk_strings(WORDS[:32]))]),
        Chunk(10, [compress(scheme, chunk_strings(WORDS[32:]))]),
    ]
    page = mini_block(42, strings, general(scheme, variable()))
    every_way(make_file(pa.binary(), [[page]]), pa.array(WORDS, pa.binary()))
    values = list(range(500))
    page = mini_block(500, [Chunk(500, [compress(scheme, pack_inline(values, 32))])], general(scheme, inline(32)))
    every_way(make_file(I32, [[page]]), pa.array(values, I32))


def test_a_bare_zstd_frame() -> None:
    frame = pa.Codec("zstd").compress(numbers(INTS), asbytes=True)
    page = mini_block(len(INTS), [Chunk(len(INTS), [frame])], general("zstd", flat(32)))
    every_way(make_file(I32, [[page]]), pa.array(INTS, I32))


# Dictionaries


def dictionary_page(texts: list[bytes | None], *, index_bits: int = 32, bits: int = 32, obsolete: bool = False) -> Page:
    items = sorted({t for t in texts if t is not None})
    indices = [2**index_bits - 1 if t is None else items.index(t) for t in texts]
    levels = [int(t is None) for t in texts]
    coded = np.array(indices, f"<u{index_bits // 8}").tobytes()
    nulls = any(levels)
    return mini_block(
        len(texts),
        [Chunk(len(texts), [coded], len(texts) if nulls else 0, None, u16(*levels) if nulls else None)],
        flat(index_bits),
        layers=(NULL_ITEM if nulls else ALL_ITEM,),
        defs=flat(16) if nulls else None,
        dictionary=(variable(bits), len(items), block_strings(items, bits, obsolete=obsolete)),
    )


@pytest.mark.parametrize("obsolete", [False, True])
@pytest.mark.parametrize("bits", [32, 64])
def test_dictionary_blocks_with_both_headers(bits: int, obsolete: bool) -> None:
    texts = [b"x", b"", b"yy", b"x", b"long " * 9] * 20
    # The obsolete header is told by its count, which reaches into bytes 1 to 3.
    every_way(
        make_file(pa.binary(), [[dictionary_page(texts, bits=bits, obsolete=obsolete)]]), pa.array(texts, pa.binary())
    )


@pytest.mark.parametrize("index_bits", [8, 16, 32])
def test_indices_under_nulls_mean_nothing(index_bits: int) -> None:
    texts = [b"x", None, b"yy", None, b"x"] * 9
    every_way(make_file(pa.binary(), [[dictionary_page(texts, index_bits=index_bits)]]), pa.array(texts, pa.binary()))


def test_a_dictionary_without_items_under_nulls() -> None:
    every_way(make_file(pa.binary(), [[dictionary_page([None] * 30)]]), pa.nulls(30, pa.binary()))


def test_null_structs_in_lists_around_an_empty_dictionary() -> None:
    """The struct is null, its child never: page level 1 is common level 2."""
    page = mini_block(
        3, [Chunk(4, [numbers([7, 7, 7, 7])], 4, u16(1, 0, 1, 1), u16(1, 1, 1, 1))], flat(32),
        layers=(ALL_ITEM, NULL_ITEM, ALL_LIST), rep=flat(16), defs=flat(16),
        dictionary=(variable(), 0, block_strings([])), index=[(3, 0)],
    )  # fmt: skip
    dtype = pa.list_(pa.struct([("s", pa.string())]))
    every_way(make_file(dtype, [[page]]), pa.array([[None, None], [None], [None]], dtype))


def test_dictionary_pages_with_dictionaries_of_their_own() -> None:
    pieces = [[b"a", b"b", None, b"a"], [b"b", b"c", b"b"], [None, b"zzz", b"a", b"a", b"q"], [b"only"] * 3]
    pages = [dictionary_page(piece) for piece in pieces]
    expected = pa.array([t for piece in pieces for t in piece], pa.binary())
    every_way(make_file(pa.binary(), [pages]), expected)
    dtype = pa.dictionary(pa.int8(), pa.binary())

    def same(found: pa.Array, wanted: pa.Array) -> bool:
        return found.type == dtype and found.dictionary_decode().to_pylist() == wanted.to_pylist()

    every_way(make_file(dtype, [pages]), expected, equal=same)


ITEMS = {
    "flat": (flat(64), lambda v: numbers(v, 64)),
    "lz4": (general("lz4", flat(64)), lambda v: compress("lz4", numbers(v, 64))),
    "zstd": (general("zstd", flat(64)), lambda v: compress("zstd", numbers(v, 64))),
    "inline": (inline(64), lambda v: pack_inline(v, 64)),
    "out of line": (out_of_line(64, 51), lambda v: pack_tail(v, 64, 51, raw=False)),
    "out of line, raw tail": (out_of_line(64, 51), lambda v: pack_tail(v, 64, 51, raw=True)),
    "runs": (runs(64), lambda v: run_block(v, 64)),
    "constant": (CE(constant=pb.Constant(value=numbers([5], 64))), lambda v: b""),
}


@pytest.mark.parametrize("codec", ITEMS)
def test_dictionary_items_in_every_block_codec(codec: str) -> None:
    message, encode = ITEMS[codec]
    items = [5] * 40 if codec == "constant" else [2**50 + i * i for i in range(40)]
    indices = [i * 7 % 40 for i in range(300)]
    page = mini_block(
        300, [Chunk(300, [np.array(indices, "<u1").tobytes()])], flat(8), dictionary=(message, 40, encode(items))
    )
    every_way(make_file(pa.int64(), [[page]]), pa.array([items[i] for i in indices]))


# Fixed-size lists and packed structs


def fixed_list_values() -> tuple[pa.DataType, list[object]]:
    return pa.list_(pa.int16(), 3), [[1, None, 3], [4, 5, 6], [None, None, None], [7, 8, None]] * 5


def test_fixed_size_lists_with_null_items_in_chunks() -> None:
    dtype, rows = fixed_list_values()
    chunks = []
    for piece in (rows[:16], rows[16:]):
        items = [v for row in piece for v in row]
        valid = np.packbits([v is not None for v in items], bitorder="little").tobytes()
        chunks.append(Chunk(len(piece), [valid, numbers([v or 0 for v in items], 16)]))
    page = mini_block(len(rows), chunks, fixed_list(3, flat(16), validity=True))
    every_way(make_file(dtype, [[page]]), pa.array(rows, dtype))


@pytest.mark.parametrize("nulls", [False, True])
def test_zipped_fixed_size_lists_with_null_items(nulls: bool) -> None:
    dtype, rows = fixed_list_values()
    out = b""
    for number, row in enumerate(rows):
        valid = np.packbits([v is not None for v in row], bitorder="little").tobytes()
        control = bytes([number % 4 == 1]) if nulls else b""
        out += control + valid + numbers([v or 0 for v in row], 16)
    layout = pb.FullZipLayout(
        bits_def=int(nulls), bits_per_value=56, num_items=len(rows), num_visible_items=len(rows),
        value_compression=fixed_list(3, flat(16), validity=True), layers=[NULL_ITEM if nulls else ALL_ITEM],
    )  # fmt: skip
    expected = [None if nulls and i % 4 == 1 else row for i, row in enumerate(rows)]
    page = Page(len(rows), pb.PageLayout(full_zip_layout=layout), [out])
    every_way(make_file(dtype, [[page]]), pa.array(expected, dtype))


def test_packed_structs() -> None:
    dtype = pa.struct([("a", pa.int32()), ("b", pa.int64()), ("c", pa.int8())])
    rows = [{"a": i, "b": -i, "c": i % 100} for i in range(150)]
    raw = b"".join(struct.pack("<iqb", *row.values()) for row in rows)
    page = mini_block(150, [Chunk(128, [raw[: 128 * 13]]), Chunk(22, [raw[128 * 13 :]])], packed([32, 64, 8]))
    data = make_file(dtype, [[page]], metadata={"lance-encoding:packed": "true"})
    every_way(data, pa.array(rows, dtype))


def test_variable_packed_structs() -> None:
    """The spec's row (1, "str1") with its control word, null rows that are a control word only, an FSST child."""
    symbols = [b"str"]
    dtype = pa.struct([("a", pa.int32()), ("s", pa.string()), ("t", pa.string())])
    rows = [None if i % 5 == 3 else {"a": i, "s": f"str{i}", "t": f"str-{i}" * (i % 3)} for i in range(40)]
    out, bounds = b"", [0]
    for row in rows:
        if row is None:
            out += b"\1"
        else:
            s, t = row["s"].encode(), fsst_encode(row["t"].encode(), symbols)
            record = struct.pack("<iI", row["a"], len(s)) + s + struct.pack("<Q", len(t)) + t
            out += b"\0" + struct.pack("<I", len(record)) + record
        bounds.append(len(out))
    struct_codec = pb.VariablePackedStruct()
    struct_codec.fields.add(value=flat(32), bits_per_value=32)
    struct_codec.fields.add(value=variable(), bits_per_length=32)
    struct_codec.fields.add(value=fsst(symbol_table(symbols), variable()), bits_per_length=64)
    layout = pb.FullZipLayout(
        bits_def=1, bits_per_offset=32, num_items=40, num_visible_items=40, layers=[NULL_ITEM],
        value_compression=CE(variable_packed_struct=struct_codec),
    )  # fmt: skip
    page = Page(40, pb.PageLayout(full_zip_layout=layout), [out, np.array(bounds, "<u2").tobytes()])
    data = make_file(dtype, [[page]], metadata={"lance-encoding:packed": "true"})
    every_way(data, pa.array(rows, dtype))
    children = File(data).scan()
    assert children.field(0)[3].as_py() == 0, "what lies under a null is zero, not old memory"


# Full-zip


@pytest.mark.parametrize("word", [1, 2, 4, 8])
@pytest.mark.parametrize("prefix", [4, 8])
@pytest.mark.parametrize("codec", ["plain", "fsst", "zstd", "lz4"])
def test_zipped_strings(word: int, prefix: int, codec: str) -> None:
    texts = [None, b"", b"abc", None, b"long zz", b"q"]
    out, bounds = b"", [0]
    for text in texts:
        out += bytes([text is None])
        if text is not None:
            if codec == "fsst":
                text = fsst_encode(text, SYMBOLS)
            elif codec != "plain":
                text = compress(codec, text)
            out += len(text).to_bytes(prefix, "little") + text
        bounds.append(len(out))
    message = variable()
    if codec == "fsst":
        message = fsst(symbol_table(SYMBOLS), message)
    elif codec != "plain":
        message = general(codec, message)
    layout = pb.FullZipLayout(
        bits_def=1, bits_per_offset=prefix * 8, num_items=6, num_visible_items=6, layers=[NULL_ITEM],
        value_compression=message,
    )  # fmt: skip
    page = Page(6, pb.PageLayout(full_zip_layout=layout), [out, np.array(bounds, f"<u{word}").tobytes()])
    every_way(make_file(pa.binary(), [[page]]), pa.array(texts, pa.binary()))


@pytest.mark.parametrize("bits_rep", [1, 4, 9])
@pytest.mark.parametrize("bits_def", [2, 6, 9])
def test_control_words_of_every_size(bits_rep: int, bits_def: int) -> None:
    """list<int32> with nulls and empties, fixed width: invisible entries have no value, null items have one."""
    entries = [(1, 0, 5), (0, 1, 99), (1, 3, None), (1, 2, None), (1, 0, 7), (0, 0, 8)]
    total = bits_rep + bits_def
    size = 1 if total <= 8 else 2 if total <= 16 else 4
    out, bounds = b"", []
    for rep, level, value in entries:
        if rep:
            bounds.append(len(out))
        out += (rep << bits_def | level).to_bytes(size, "little") + (b"" if value is None else numbers([value]))
    layout = pb.FullZipLayout(
        bits_rep=bits_rep, bits_def=bits_def, bits_per_value=32, num_items=6, num_visible_items=4,
        layers=[NULL_ITEM, BOTH_LIST], value_compression=flat(32),
    )  # fmt: skip
    page = Page(4, pb.PageLayout(full_zip_layout=layout), [out, np.array([*bounds, len(out)], "<u2").tobytes()])
    every_way(make_file(pa.list_(I32), [[page]]), pa.array([[5, None], [], None, [7, 8]], pa.list_(I32)))


def test_zipped_booleans_are_bytes() -> None:
    layout = pb.FullZipLayout(bits_per_value=8, num_items=5, num_visible_items=5, layers=[ALL_ITEM],
                              value_compression=flat(8))  # fmt: skip
    page = Page(5, pb.PageLayout(full_zip_layout=layout), [b"\1\0\1\1\0"])
    every_way(make_file(pa.bool_(), [[page]]), pa.array([True, False, True, True, False]))


# Constant pages

SCALAR = scalar_buffer(struct.pack("<II", 0, 3), b"xyz")
CONSTANTS = {
    "all null": (I32, constant(6, [NULL_ITEM]), [None] * 6),
    "null type": (pa.null(), constant(6, [NULL_ITEM]), [None] * 6),
    "empty struct": (pa.struct([]), constant(6, [NULL_ITEM]), [{}] * 6),
    "no values, raw levels": (
        pa.list_(I32), constant(3, [ALL_ITEM, BOTH_LIST], [u16(1, 1, 1), u16(1, 2, 1)]), [None, [], None],
    ),
    "no values, coded levels": (
        pa.list_(I32),
        constant(3, [ALL_ITEM, BOTH_LIST], [run_block([1, 1, 1]), pack_inline([1, 2, 1], 16)],
                 rep_compression=runs(16), def_compression=inline(16), num_rep_values=3, num_def_values=3),
        [None, [], None],
    ),
    "null items in lists": (
        pa.list_(I32), constant(2, [NULL_ITEM, ALL_LIST], [u16(1, 0, 1), u16(1, 1, 1)]), [[None, None], [None]],
    ),
    "null structs": (
        pa.struct([("a", I32)]), constant(3, [NULL_ITEM, NULL_ITEM], [b"", u16(2, 1, 2)]), [None, {"a": None}, None],
    ),
    "inline": (pa.int64(), constant(4, [ALL_ITEM], inline_value=numbers([-9], 64)), [-9] * 4),
    "inline bool": (pa.bool_(), constant(20, [ALL_ITEM], inline_value=b"\1"), [True] * 20),
    "inline with nulls": (
        pa.int64(), constant(4, [NULL_ITEM], [b"", u16(0, 1, 0, 1)], inline_value=numbers([3], 64)), [3, None, 3, None],
    ),
    "inline in lists": (
        pa.list_(I32), constant(3, [NULL_ITEM, BOTH_LIST], [u16(1, 0, 1, 1), u16(0, 1, 3, 2)],
                                inline_value=numbers([3])), [[3, None], [], None],
    ),
    "scalar": (pa.string(), constant(4, [ALL_ITEM], [SCALAR]), ["xyz"] * 4),
    "scalar with nulls": (
        pa.string(), constant(3, [NULL_ITEM], [SCALAR, b"", u16(1, 0, 0)]), [None, "xyz", "xyz"],
    ),
    "large scalar": (
        pa.large_string(), constant(2, [ALL_ITEM], [scalar_buffer(struct.pack("<QQ", 0, 3), b"xyz")]), ["xyz"] * 2,
    ),
    "wide scalar": (pa.binary(40), constant(2, [ALL_ITEM], [scalar_buffer(b"q" * 40)]), [b"q" * 40] * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_pages(name: str) -> None:
    dtype, page, rows = CONSTANTS[name]
    every_way(make_file(dtype, [[page]]), pa.array(rows, dtype))


def test_a_constant_page_between_mini_block_pages() -> None:
    pages = [ints_page(), constant(50, [ALL_ITEM], inline_value=numbers([1])), ints_page(), constant(9, [NULL_ITEM]),
             ints_page(), ints_page()]  # fmt: skip
    every_way(make_file(I32, [pages]), pa.array(INTS + [1] * 50 + INTS + [None] * 9 + INTS * 2, I32))


@pytest.mark.slow
def test_a_thousand_tiny_pages() -> None:
    pages = [ints_page([i, i + 1]) if i % 3 else constant(1, [NULL_ITEM]) for i in range(1000)]
    rows = [v for i in range(1000) for v in ([i, i + 1] if i % 3 else [None])]
    every_way(make_file(I32, [pages]), pa.array(rows, I32))


def test_pages_without_rows_are_passed_over() -> None:
    pages = [Page(0, pb.PageLayout()), ints_page(), Page(0, pb.PageLayout()), ints_page(), Page(0, pb.PageLayout())]
    every_way(make_file(I32, [pages]), pa.array(INTS * 2, I32))


@pytest.mark.slow
def test_one_huge_page() -> None:
    values = np.arange(1_000_000, dtype=np.int32)
    chunks = [
        Chunk(len(values[at : at + 16384]), [values[at : at + 16384].tobytes()]) for at in range(0, len(values), 16384)
    ]
    every_way(
        make_file(I32, [[mini_block(len(values), chunks, flat(32))]]), pa.array(values), equal=lambda a, b: a.equals(b)
    )


@pytest.mark.parametrize("name", ["ints", "strings", "levels", "constant", "zipped", "index", "list constant"])
def test_buffers_at_odd_places(name: str) -> None:
    """Nothing in the file promises that words are aligned."""
    zipped = pb.FullZipLayout(bits_per_value=64, num_items=9, num_visible_items=9, layers=[ALL_ITEM],
                              value_compression=flat(64))  # fmt: skip
    dtype, pages, rows = {
        "ints": (I32, [ints_page(), ints_page()], INTS * 2),
        "strings": (pa.binary(), [mini_block(42, [Chunk(42, [chunk_strings(WORDS)])], variable())], WORDS),
        "levels": EXAMPLES["list of lists"],
        "constant": CONSTANTS["scalar with nulls"],
        "list constant": CONSTANTS["inline in lists"],
        "zipped": (pa.int64(), Page(9, pb.PageLayout(full_zip_layout=zipped), [numbers(range(9), 64)]), list(range(9))),
        "index": (pa.list_(I32), list_pages([[1, 2], None, [], [3] * 9], 4), [[1, 2], None, [], [3] * 9]),
    }[name]
    pages = pages if isinstance(pages, list) else [pages]
    data = make_file(dtype, [pages], align=1)
    every_way(data, pa.array(rows, dtype))
    values = File(data).scan()
    if name == "zipped":
        assert values.buffers()[1].address % 8 == 0, "Arrow consumers in other languages insist on it"


# Blobs of version 2.1


def test_blob_descriptors() -> None:
    """The spec's four: value, null, empty, value."""
    records = [(0, 50), (65536, 0), (0, 0), (64, 1000)]
    raw = b"".join(struct.pack("<QQ", *record) for record in records)
    inner = mini_block(4, [Chunk(4, [raw])], packed([64, 64]), large=False)
    layout = pb.PageLayout(blob_layout=pb.BlobLayout(inner_layout=inner.layout, layers=[NULL_ITEM]))
    data = make_file(
        pa.large_binary(), [[Page(4, layout, inner.buffers)]], version="2.1", metadata={"lance-encoding:blob": "true"}
    )
    found = File(data).scan().to_pylist()
    assert found == [{"position": 0, "size": 50}, None, {"position": 0, "size": 0}, {"position": 64, "size": 1000}]
    assert File(data, mapped=False).take([1, 3]).to_pylist() == [None, {"position": 64, "size": 1000}]


# Requests of a remote read


def rounds(data: bytes, rows: RowRange | None = None) -> list[int]:
    file = File(data, mapped=False)
    file.read(rows or RowRange(0, file.reader.num_rows))
    return [len(request) for request in file.source.requests]


def test_a_constant_page_is_one_round_trip() -> None:
    dtype, page, _ = CONSTANTS["scalar with nulls"]
    assert rounds(make_file(dtype, [[page]])) == [3]


def test_mini_block_pages_are_two_round_trips_however_many_they_are() -> None:
    """Chunk words of all pages together, then the chunks of all pages together."""
    assert rounds(make_file(I32, [[ints_page()]])) == [1, 1]
    assert len(rounds(make_file(I32, [[ints_page()] * 20]))) == 2


def test_a_whole_zipped_page_is_one_round_trip_and_a_part_of_it_two() -> None:
    out = b"".join(struct.pack("<I", 2) + b"xy" for _ in range(10))
    layout = pb.FullZipLayout(bits_per_offset=32, num_items=10, num_visible_items=10, layers=[ALL_ITEM],
                              value_compression=variable())  # fmt: skip
    page = Page(10, pb.PageLayout(full_zip_layout=layout), [out, np.arange(0, 61, 6).astype("<u1").tobytes()])
    data = make_file(pa.string(), [[page]])
    assert rounds(data) == [1]
    assert len(rounds(data, RowRange(2, 5))) == 2


def test_rows_of_one_chunk_fetch_it_once() -> None:
    chunks = [Chunk(1024, [numbers(range(1024))]), Chunk(1024, [numbers(range(1024))]), Chunk(5, [numbers(range(5))])]
    file = File(make_file(I32, [[mini_block(2053, chunks, flat(32))]]), mapped=False)
    file.take(range(0, 1024, 3))
    assert [length for _, length in file.source.requests[-1]] == [4104]


# Lies


def lying(change) -> bytes:
    """A page of 234 numbers whose layout or buffers were changed."""
    page = ints_page()
    change(page)
    return make_file(I32, [[page]])


def _set(**fields: object):
    def change(page: Page) -> None:
        for name, value in fields.items():
            setattr(page.layout.mini_block_layout, name, value)

    return change


def _codec(message: pb.CompressiveEncoding):
    return lambda page: page.layout.mini_block_layout.value_compression.CopyFrom(message)


LIES = {
    "2^64 - 1 items": _set(num_items=2**64 - 1),
    "2^50 items": _set(num_items=2**50),
    "no buffers": _set(num_buffers=0),
    "2^60 buffers": _set(num_buffers=2**60),
    "values of 2^60 bits": _codec(flat(2**60)),
    "values of 2^34 bits": _codec(flat(2**34)),
    "values of 2^64 - 8 bits": _codec(flat(2**64 - 8)),
    "values of no bits": _codec(flat(0)),
    "values of the wrong width": _codec(flat(64)),
    "packed words of 2^60 bits": _codec(inline(2**60)),
    "streams of 2^60 bits": _codec(split(2**60)),
    "lists of 2^60 items": _codec(fixed_list(2**60, flat(32))),
    "lists without enough buffers": _codec(fixed_list(2, fixed_list(2, flat(32), validity=True), validity=True)),
    "runs without lengths": _codec(runs(32)),
    "compressed twice": _codec(general("zstd", general("zstd", flat(32)))),
    "an empty codec": _codec(CE()),
    "levels that the layers do not have": _set(repetition_index_depth=3),
    "chunk words of 3 bytes": lambda page: page.buffers.__setitem__(0, b"abc"),
    "no chunk words": lambda page: page.buffers.__setitem__(0, b""),
    "chunks beyond the buffer": lambda page: page.buffers.__setitem__(0, b"\xf0\xff\xff\xff"),
    "no chunks": lambda page: page.buffers.__delitem__(1),
    "no buffers at all": lambda page: page.buffers.clear(),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("mapped", [True, False])
def test_lies_are_refused_before_memory_is_asked_for(lie: str, mapped: bool) -> None:
    data = lying(LIES[lie])
    if lie == "levels that the layers do not have":
        assert File(data, mapped=mapped).scan().to_pylist() == INTS
        return
    with pytest.raises((CorruptFile, NotSupported)):
        File(data, mapped=mapped).scan()
    with pytest.raises((CorruptFile, NotSupported)):
        File(data, mapped=mapped).take([0, 5])


def refused(dtype: pa.DataType, page: Page, *, version: str = "2.2", **settings: object) -> None:
    data = make_file(dtype, [[page]], version=version, **settings)
    for mapped in (True, False):
        with pytest.raises((CorruptFile, NotSupported)):
            File(data, mapped=mapped).scan()
        with pytest.raises((CorruptFile, NotSupported)):
            File(data, mapped=mapped).take([0, page.rows - 1])


def test_plain_values_in_a_dictionary_column() -> None:
    """Arrow aborts the process when it is handed keys without a dictionary."""
    refused(pa.dictionary(pa.int32(), pa.string()), ints_page())
    refused(pa.dictionary(pa.int32(), pa.string()), constant(3, [ALL_ITEM], inline_value=numbers([1])))


def test_single_bits_in_a_column_of_numbers() -> None:
    page = mini_block(40, [Chunk(40, [b"\x5a" * 5])], flat(1))
    every_way(make_file(pa.bool_(), [[page]]), pa.array([bool(0x5A >> i % 8 & 1) for i in range(40)]))
    refused(pa.uint8(), page)
    refused(pa.list_(pa.bool_(), 8), page)


def test_more_dictionary_items_than_keys_can_name() -> None:
    items = [b"%d" % i for i in range(200)]
    page = mini_block(
        200, [Chunk(200, [bytes(range(200))])], flat(8), dictionary=(variable(), 200, block_strings(items))
    )
    refused(pa.dictionary(pa.int8(), pa.binary()), page)


@pytest.mark.parametrize(
    "codec", [out_of_line(64, 0), CE(constant=pb.Constant(value=b"\0" * 8))], ids=["packed", "constant"]
)
def test_dictionaries_of_nothing(codec: pb.CompressiveEncoding) -> None:
    """Items that take no bytes: the count alone must not decide how much memory is used."""
    refused(pa.int64(), mini_block(5, [Chunk(5, [bytes(5)])], flat(8), dictionary=(codec, 2**33, b"x" * 2**20)))


def test_packed_levels_that_are_not_plain() -> None:
    codec = CE(out_of_line_bitpacking=pb.OutOfLineBitpacking(uncompressed_bits_per_value=16, values=runs(16)))
    refused(
        I32, mini_block(3, [Chunk(3, [numbers([1, 2, 3])], 3, None, b"")], flat(32), layers=(NULL_ITEM,), defs=codec)
    )


@pytest.mark.parametrize("rows", [2**39, 2**40])
def test_rows_without_bytes(rows: int) -> None:
    """A file may say that it has a trillion nulls; asking for all of them at once is refused, a part of them is not."""
    for dtype, page in (
        (pa.int64(), constant(rows, [NULL_ITEM])),
        (pa.int64(), constant(rows, [ALL_ITEM], inline_value=numbers([1], 64))),
        (pa.large_string(), constant(rows, [ALL_ITEM], [SCALAR])),
    ):
        file = File(make_file(dtype, [[page]]))
        with pytest.raises(NotSupported, match="read fewer rows"):
            file.scan()
        assert len(file.read(RowRange(rows - 9, rows))) == 9


def test_fixed_size_lists_of_a_billion_structs() -> None:
    page = constant(2**40, [NULL_ITEM, NULL_ITEM, NULL_ITEM])
    file = File(make_file(pa.list_(pa.struct([("a", pa.int8())]), 2**30), [[page]]))
    assert file.reader.num_rows == 1024
    with pytest.raises(NotSupported, match="read fewer rows"):
        file.take([3])


def test_a_row_index_that_multiplies_the_page() -> None:
    """Every row says that it is the whole page."""
    value = b"z" * 4096
    out = (struct.pack("<I", len(value)) + value) * 50
    layout = pb.FullZipLayout(bits_per_offset=32, num_items=50, num_visible_items=50, layers=[ALL_ITEM],
                              value_compression=variable())  # fmt: skip
    index = np.array([0, len(out)] * 25 + [0], "<u4").tobytes()
    page = Page(50, pb.PageLayout(full_zip_layout=layout), [out, index])
    file = File(make_file(pa.binary(), [[page]]))
    with pytest.raises(CorruptFile):
        file.take(range(0, 50, 2))


def test_packed_structs_of_too_many_fields() -> None:
    struct_codec = pb.VariablePackedStruct()
    for _ in range(5000):
        struct_codec.fields.add(value=flat(8), bits_per_value=8)
    layout = pb.FullZipLayout(bits_per_offset=32, num_items=3, num_visible_items=3, layers=[ALL_ITEM],
                              value_compression=CE(variable_packed_struct=struct_codec))  # fmt: skip
    page = Page(3, pb.PageLayout(full_zip_layout=layout), [bytes(12), bytes([0, 4, 8, 12])])
    refused(pa.struct([("a", pa.int8())]), page, metadata={"lance-encoding:packed": "true"})


def test_a_repetition_index_that_disagrees_with_the_levels() -> None:
    """The sums agree, the chunks do not: rows would be mistaken for others."""
    page = list_pages([[1, 2], [3, 4], [5], [6], [7, 8, 9]], 2)
    index = np.frombuffer(page.buffers[2], "<u8").reshape(-1, 2).copy()
    assert index.tolist()[:2] == [[1, 0], [1, 0]]
    index[0, 0], index[1, 0] = 0, 2
    page.buffers[2] = index.tobytes()
    for rows in ([0], [0, 4], [0, 1, 2, 4]):
        with pytest.raises(CorruptFile):
            File(make_file(pa.list_(I32), [[page]])).take(rows)


def test_constants_that_do_not_fit_their_column() -> None:
    refused(pa.int64(), constant(2**20, [ALL_ITEM], inline_value=b"x" * 2**16))
    refused(pa.int64(), constant(2**20, [ALL_ITEM], [scalar_buffer(b"x" * 2**16)]))
    refused(I32, constant(4, [ALL_ITEM], [SCALAR]))
    refused(pa.string(), constant(4, [ALL_ITEM], [b"\xff\xff\xff\xff"]))
    refused(pa.string(), constant(4, [NULL_ITEM], [b"", u16(9, 0, 0, 0)]))
    refused(pa.list_(I32), constant(4, [ALL_ITEM, ALL_LIST]))
