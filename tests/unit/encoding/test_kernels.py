"""The compiled loops: right on every width, and within their arrays whatever they are told."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from lancelet.encoding.kernels import bitpack, dictionary, fsst, fullzip, levels, lz4, miniblock, pick
from unit.encoding.made21 import compress, fsst_encode, pack_block, pack_inline, pack_tail, symbol_table
from unit.encoding.wild_calls import CALLS, call_wildly

VECTORS = [
    (8, 3, "004992db246db6ff004992db246db6ff", 0x5181CB89),
    (16, 1, "0000ffff0000ffff0000ffff0000ffff", 0xEA95EFF2),
    (16, 5, "000031c6420873ce8410b5d6c618f7de", 0xC19D7F18),
    (32, 10, "00000210b1c5186b628b2f86134d36e1", 0x62501D76),
    (32, 17, "000000b1b17963a462f3c497136d268b", 0x0A9BFCDD),
    (64, 33, "0000000000b17937b179379e62a4e873", 0xF92CACF6),
    (64, 64, "0000000000000000b179379e00000000", 0xDD654B9C),
]
WIDTHS = [(bits, width) for bits in (8, 16, 32, 64) for width in range(bits + 1)]


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(("bits", "width", "head", "crc"), VECTORS)
def test_vectors_of_the_spec(bits: int, width: int, head: str, crc: int) -> None:
    values = [i * 2654435761 % 2**width for i in range(1024)]
    block = pack_block(values, bits, width)
    assert (len(block), block[:16].hex(), zlib.crc32(block)) == (128 * width, head, crc)
    out = np.zeros(128 * bits, np.uint8)
    data = np.frombuffer(block, np.uint8)
    assert bitpack.unpack_blocks(data, i64(0), i64(len(block)), i64(1024), bits, width, out) == -1
    assert out.view(f"<u{bits // 8}").tolist() == values


@pytest.mark.parametrize(("bits", "width"), WIDTHS)
def test_every_width_unpacks_and_picks_what_was_packed(bits: int, width: int) -> None:
    rng = np.random.default_rng(bits * 100 + width)
    top = 2**width - 1
    values = [int(v) & top for v in rng.integers(0, 2**64 - 1, 1024, np.uint64, endpoint=True)]
    values[:2] = [top, 0]
    word = bits // 8
    stored = width.to_bytes(word, "little") + pack_block(values, bits, width)
    for count in (1, 2, 127, 128, 129, 1000, 1023, 1024):
        data = np.frombuffer(stored, np.uint8)
        out = np.full(count * word + 8, 0xAB, np.uint8)
        assert bitpack.unpack_inline(data, i64(0), i64(len(data)), i64(count), bits, out) == -1
        assert out[: count * word].view(f"<u{word}").tolist() == values[:count]
        assert (out[count * word :] == 0xAB).all(), "nothing is written behind the last value"
    chunk = np.frombuffer(b"\0\0" + len(stored).to_bytes(4, "little") + b"\0\0" + stored, np.uint8)
    out = np.zeros(1024 * word, np.uint8)
    none, empty = np.empty(0, np.uint16), np.empty(0, np.int64)
    every = np.arange(1024)
    same = np.full(1024, 0), np.full(1024, len(chunk)), np.full(1024, 1024)
    assert pick.pick_items(chunk, *same, every, pick.NONE, 0, True, pick.INLINE, bits, none, out, empty, empty) == -1
    assert out.view(f"<u{word}").tolist() == values


@pytest.mark.parametrize("count", [1, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 5000])
@pytest.mark.parametrize("raw", [False, True])
def test_tails_both_ways(count: int, raw: bool) -> None:
    values = [i * 5 % 8 for i in range(count)]
    data = np.frombuffer(pack_tail(values, 16, 3, raw=raw), np.uint8)
    out = np.zeros(count * 2, np.uint8)
    assert bitpack.unpack_blocks(data, i64(0), i64(len(data)), i64(count), 16, 3, out) == -1
    assert out.view("<u2").tolist() == values


def test_a_tail_whose_sizes_coincide_is_raw() -> None:
    """128 * 4 == 256 * 2 bytes: the spec says raw."""
    values = [i % 16 for i in range(256)]
    out = np.zeros(512, np.uint8)
    data = np.array(values, "<u2").view(np.uint8)
    assert bitpack.unpack_blocks(data, i64(0), i64(512), i64(256), 16, 4, out) == -1
    assert out.view("<u2").tolist() == values


def test_chunks_join_end_to_end() -> None:
    pieces = [pack_inline(range(5), 32), pack_inline([2**32 - 1] * 1024, 32), b"", pack_inline([7], 32)]
    data = np.frombuffer(b"".join(pieces), np.uint8)
    sizes = np.array([len(p) for p in pieces])[[0, 1, 3]]
    positions = np.cumsum([len(p) for p in pieces])[[0, 1, 3]] - sizes
    out = np.zeros(4 * 1030, np.uint8)
    assert bitpack.unpack_inline(data, positions, sizes, i64(5, 1024, 1), 32, out) == -1
    assert out.view("<u4").tolist() == [0, 1, 2, 3, 4, *[2**32 - 1] * 1024, 7]


@pytest.mark.parametrize(
    ("positions", "sizes", "counts", "bad"),
    [
        ((0, -1), (8, 8), (1, 1), 1),
        ((0, 2**62), (8, 8), (1, 1), 1),
        ((0, 0), (8, 2**63 - 1), (1, 1), 1),
        ((0, 0), (8, -(2**63)), (1, 1), 1),
        ((0, 0), (8, 8), (1, 2**62), 1),
        ((0, 0), (8, 8), (-1, 1), 0),
        ((0, 0), (8, 8), (1, 9), 1),
    ],
)
def test_the_chunk_that_lies_is_named(positions, sizes, counts, bad) -> None:
    data, out = np.zeros(16, np.uint8), np.zeros(16, np.uint8)
    assert miniblock.copy_flat(data, i64(*positions), i64(*sizes), i64(*counts), 1, out) == bad


def test_a_width_beyond_the_word_is_refused() -> None:
    for bits, width in ((8, 9), (16, 17), (32, 33), (64, 65), (64, 2**63)):
        data = np.frombuffer(width.to_bytes(bits // 8, "little").ljust(16384, b"\0"), np.uint8)
        out = np.zeros(1024 * 8, np.uint8)
        assert bitpack.unpack_inline(data, i64(0), i64(len(data)), i64(4), bits, out) == 0


def test_a_code_at_the_end_of_a_value_cannot_escape_into_the_next() -> None:
    table = symbol_table([b"ab"])
    symbols = np.zeros(256, np.uint64)
    symbols[0] = np.frombuffer(table[8:16], "<u8")[0]
    lengths = np.ones(256, np.uint8)
    lengths[0] = 2
    codes = np.frombuffer(fsst_encode(b"abab", [b"ab"]) + b"\xff" + b"\0", np.uint8)
    out, ends = np.zeros(64, np.uint8), np.zeros(3, np.int64)
    assert fsst.expand(codes, i64(0, 3, 4), symbols, lengths, ends, out) == 0


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 9, 100])
def test_fsst_escapes_at_every_place(length: int) -> None:
    """The fast path takes four codes at once; an escape may stand at any of them."""
    symbols = [b"abcdefgh", b"x"]
    lengths = np.ones(256, np.uint8)
    lengths[:2] = 8, 1
    table = np.zeros(256, np.uint64)
    table[:2] = np.frombuffer(b"abcdefghx".ljust(16, b"\0"), "<u8")
    for escape in range(length + 1):
        texts = [b"abcdefgh" if i != escape else b"\xfe" for i in range(length)]
        codes = [fsst_encode(t, symbols) for t in texts]
        stored = np.frombuffer(b"".join(codes) * 2, np.uint8)
        size = sum(map(len, codes))
        for spare in (fsst.SPARE, fsst.SPARE + 900):
            out = np.zeros(fsst.expanded_size(stored, lengths) + spare, np.uint8)
            ends = np.zeros(3, np.int64)
            assert fsst.expand(stored, i64(0, size, 2 * size), table, lengths, ends, out) == -1
            assert out[: ends[1]].tobytes() == b"".join(texts) == out[ends[1] : ends[2]].tobytes()


@pytest.mark.parametrize("size", [1, 12, 13, 64, 1000, 70_000])
def test_lz4_blocks_are_measured(size: int) -> None:
    for data in (b"a" * size, np.random.default_rng(size).bytes(size), (b"abc" * size)[:size]):
        block = np.frombuffer(compress("lz4", data)[4:], np.uint8)
        assert lz4.block_size(block) == size
        if len(block) > 1:
            assert lz4.block_size(block[:-1]) != size


def test_dictionary_items_shorter_and_longer_than_a_copy() -> None:
    items = [b"x" * n for n in (0, 1, 15, 16, 17, 40)]
    offsets = np.cumsum([0, *map(len, items)]).astype(np.int32)
    data = np.frombuffer(b"".join(items) + bytes(dictionary.SPARE), np.uint8)
    indices = np.array([5, 0, 4, 3, 2, 1, 0, 5], np.uint16)
    ends = np.zeros(9, np.int32)
    total = dictionary.look_up_offsets(indices, offsets, ends, 2**31 - 1)
    assert total == sum(len(items[i]) for i in indices)
    out = np.zeros(total + dictionary.SPARE, np.uint8)
    assert dictionary.look_up_bytes(indices, offsets, data, ends, out) == -1
    assert out[:total].tobytes() == b"".join(items[i] for i in indices)
    assert dictionary.look_up_offsets(np.array([6], np.uint8), offsets, np.zeros(2, np.int32), 100) == -1


def test_short_slices_are_followed_by_zeros() -> None:
    out = np.full(12, 0xEE, np.uint8)
    assert fullzip.gather_slices(np.arange(9, dtype=np.uint8), i64(1, 5, 0), i64(4, 0, 2), 4, out) == -1
    assert out.tolist() == [1, 2, 3, 4, 0, 0, 0, 0, 0, 1, 0, 0]


def test_list_layers_fold_in_place() -> None:
    """list<list<int>> of the spec, renumbered as if every layer could hold everything."""
    reps = np.array([2, 0, 1, 2, 2, 2, 1, 2, 0], np.uint16)
    defs = np.array([0, 0, 3, 5, 4, 2, 0, 1, 0], np.uint16)
    offsets, valid = np.zeros(10, np.int64), np.zeros(10, np.uint8)
    lists, children, left = levels.list_layer(reps, defs, 1, 2, 3, 3, offsets, valid)
    assert (lists, children, left) == (5, 5, 7)
    assert offsets[:6].tolist() == [0, 2, 2, 2, 3, 5]
    assert valid[:5].tolist() == [1, 1, 0, 1, 1]
    lists, children, left = levels.list_layer(reps[:left], defs[:left], 3, 4, 5, 5, offsets, valid)
    assert (lists, children) == (5, 5)
    assert offsets[:6].tolist() == [0, 2, 2, 2, 4, 5]
    assert valid[:5].tolist() == [1, 1, 0, 1, 1]


@pytest.mark.parametrize("name", CALLS)
def test_wild_arguments_do_no_harm(name: str) -> None:
    """Any sizes, positions and counts: an answer or a ValueError. AddressSanitizer watches the same in ``make soak``."""
    call_wildly(name, seed=1, times=300)
