"""The encode kernels beside plain Python, and against their own decoders."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.encoding.kernels import bitpack, fsst_encode, pack, shred, strings
from lancelet.encoding.place import Place
from lancelet.encoding.v2_1.codecs import SymbolTable as Decoder
from lancelet.encoding.v2_1.codecs import expand_fsst
from lancelet.encoding.v2_1.encode.symbols import train
from lancelet.encoding.v2_1.encode.values import Strings, leaf_values
from lancelet.encoding.v2_1.values import Variable
from unit.encoding.made21 import find_runs, pack_inline, pack_tail, run_block

PLACE = Place("made.lance")


def bounds(*counts: int) -> np.ndarray:
    return np.cumsum([0, *counts]).astype(np.int64)


def packed(values: np.ndarray, bits: int, width: int) -> bytes:
    out = np.empty(bits // 8 + 128 * width, np.uint8)
    pack.pack_inline(
        values.view(np.uint8), bits, bounds(len(values)), np.array([width], np.uint8), out, np.empty(1, np.int64)
    )
    return out.tobytes()


@pytest.mark.parametrize(
    ("bits", "width", "first", "crc"),
    [
        (8, 3, "004992db246db6ff004992db246db6ff", 0x5181CB89),
        (16, 1, "0000ffff0000ffff0000ffff0000ffff", 0xEA95EFF2),
        (16, 5, "000031c6420873ce8410b5d6c618f7de", 0xC19D7F18),
        (32, 10, "00000210b1c5186b628b2f86134d36e1", 0x62501D76),
        (32, 17, "000000b1b17963a462f3c497136d268b", 0x0A9BFCDD),
        (64, 33, "0000000000b17937b179379e62a4e873", 0xF92CACF6),
        (64, 64, "0000000000000000b179379e00000000", 0xDD654B9C),
    ],
)
def test_packed_blocks_of_the_spec(bits: int, width: int, first: str, crc: int) -> None:
    values = np.array([i * 2654435761 % 2**width for i in range(1024)], f"<u{bits // 8}")
    body = packed(values, bits, width)[bits // 8 :]
    assert body[:16].hex() == first
    assert zlib.crc32(body) == crc


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_every_width_unpacks(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for width in range(bits + 1):
        values = (rng.integers(0, 2**63, 1024, np.uint64) >> np.uint64(64 - max(width, 1))).astype(f"<u{bits // 8}")
        values = values if width else np.zeros_like(values)
        data = np.frombuffer(packed(values, bits, width), np.uint8)
        out = np.empty(1024 * bits // 8, np.uint8)
        at = np.zeros(1, np.int64)
        assert bitpack.unpack_inline(data, at, at + len(data), at + 1024, bits, out) == -1
        assert np.array_equal(out.view(values.dtype), values)


def test_bits_above_the_width_are_cut_off() -> None:
    values = np.full(1024, 0xFFFF, np.uint16)
    assert packed(values, 16, 3) == packed(np.full(1024, 7, np.uint16), 16, 3)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=2500), st.sampled_from([16, 32]))
def test_blocks_and_runs_agree_with_plain_python(values: list[int], bits: int) -> None:
    words = np.array(values, f"<u{bits // 8}")
    raw = words.view(np.uint8)
    whole = bounds(len(values))
    widths = np.empty(len(values) // 1024 + 1, np.uint8)
    found = pack.survey(raw, bits, len(values), widths)
    assert found == 1 + sum(a != b for a, b in zip(values, values[1:], strict=False))
    width = max(values).bit_length()
    assert int(widths[: -(-len(values) // 1024)].max()) == width
    if width:
        out = np.empty(len(raw) + 128 * width, np.uint8)
        tail = len(values) % 1024
        used = pack.pack_blocks(raw, bits, whole, width, out)
        plain = not width * (1024 - tail) < (bits - width) * tail
        assert out[:used].tobytes() == pack_tail(values, bits, width, raw=plain)
    if len(values) <= 1024:
        assert packed(words, bits, width) == pack_inline(values, bits)
    runs = np.empty(1, np.int64)
    pack.count_runs(words, whole, runs)
    heads, lengths = find_runs(values, bits)
    assert runs[0] == len(lengths)
    if bits == 16:
        out = np.empty(8 + 3 * int(runs[0]), np.uint8)
        pack.run_blocks(words, whole, runs, out)
        assert out.tobytes() == run_block(values)
    chunk_values, chunk_lengths = np.empty_like(words), np.empty(len(words), np.uint8)
    counts, found_runs = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    chunks = pack.encode_runs(words, 4096, 8186, chunk_values, chunk_lengths, counts, found_runs)
    assert counts[:chunks].sum() == len(words)
    assert all(count & (count - 1) == 0 and count > 1 for count in counts[: chunks - 1].tolist())
    total = int(found_runs[:chunks].sum())
    assert np.array_equal(np.repeat(chunk_values[:total], chunk_lengths[:total]), words)
    assert heads


def test_runs_that_do_not_fit_a_chunk() -> None:
    words = np.arange(10_000, dtype=np.uint64)
    values, lengths = np.empty_like(words), np.empty(len(words), np.uint8)
    counts, runs = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    chunks = pack.encode_runs(words, 4096, 8186, values, lengths, counts, runs)
    assert counts[: chunks - 1].tolist() == [512] * (chunks - 1)


@settings(max_examples=examples(40), deadline=None)
@given(st.binary(min_size=1, max_size=40), st.integers(0, 7), st.lists(st.integers(0, 40), max_size=8))
def test_bitmaps_cut_anywhere(data: bytes, first: int, counts: list[int]) -> None:
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    while counts and first + sum(counts) > len(bits):
        counts.pop()
    out = np.empty(sum((count + 7) // 8 for count in counts), np.uint8)
    pack.slice_bits(np.frombuffer(data, np.uint8), first, np.array(counts, np.int64), out)
    expected, at = b"", first
    for count in counts:
        expected += np.packbits(bits[at : at + count], bitorder="little").tobytes()
        at += count
    assert out.tobytes() == expected


def expanded(table: bytes, coded: Strings) -> Variable:
    return expand_fsst(Decoder.parse(table, PLACE), Variable(coded.offsets.astype(np.int64), coded.data), PLACE)


def test_fsst_gives_back_every_byte() -> None:
    rng = np.random.default_rng(0)
    texts = [f"https://example.com/{n % 97}/{n}?q={'ab' * (n % 5)}" for n in range(4000)]
    for values in (
        texts,
        [""] * 10 + texts[:300] + [""],
        [bytes(rng.integers(0, 256, 30, np.uint8)).decode("latin-1") for _ in range(2000)],
        ["\0" * 9, "\0", "\xff", "é" * 40] * 200,
        ["x"],
    ):
        strings = leaf_values(pa.array(values), None)
        assert isinstance(strings, Strings)
        table = train(strings)
        assert len(table.message) == 2312
        coded = table.encode(strings)
        found = expanded(table.message, coded)
        data = bytes(memoryview(found.data))[: found.offsets[-1]]
        ends = found.offsets.tolist()
        assert [data[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)] == values
    ratio = train(leaf_values(pa.array(texts), None)).encode(leaf_values(pa.array(texts), None)).nbytes / len(
        "".join(texts)
    )
    assert ratio < 0.4


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=60))
def test_fsst_of_anything(values: list[bytes]) -> None:
    strings = leaf_values(pa.array(values, pa.binary()), None)
    assert isinstance(strings, Strings)
    table = fsst_encode.Table()
    table.train(
        np.frombuffer(b"".join(values) or b"\0", np.uint8),
        np.append(0, np.cumsum([len(v) for v in values])).astype(np.int64),
    )
    coded = train(strings).encode(strings)
    found = expanded(train(strings).message, coded)
    assert bytes(memoryview(found.data))[: found.offsets[-1]] == b"".join(values)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.sampled_from([b"", b"a", b"b", b"a long value", b"another long value", b"12345678", b"1234567890"]),
        min_size=1,
        max_size=300,
    )
)
def test_distinct_values_are_numbered_in_order(values: list[bytes]) -> None:
    held = leaf_values(pa.array(values, pa.binary()), None)
    assert isinstance(held, Strings)
    indices, firsts = np.empty(len(values), np.uint32), np.empty(10, np.int64)
    table = np.empty(32, np.int64)
    found = strings.distinct(held.offsets, held.data, np.zeros(1, np.int64), len(values), 10, table, indices, firsts)
    order = list(dict.fromkeys(values))
    assert found == len(order)
    assert [values[first] for first in firsts[:found].tolist()] == order
    assert [order[index] for index in indices.tolist()] == values
    few = strings.distinct(held.offsets, held.data, np.zeros(1, np.int64), len(values), 1, table, indices, firsts)
    assert few == (1 if len(order) == 1 else -1)


def test_distinct_words() -> None:
    rng = np.random.default_rng(1)
    for item in (8, 16):
        rows = rng.integers(0, 256, (50, item), np.uint8)[rng.integers(0, 50, 3000)]
        indices, firsts = np.empty(3000, np.uint32), np.empty(60, np.int64)
        found = strings.distinct_words(rows.reshape(-1), item, 60, np.empty(128, np.int64), indices, firsts)
        assert found == len(np.unique(rows, axis=0))
        assert np.array_equal(rows[firsts[:found]][indices], rows)


def test_chunks_of_strings() -> None:
    """Powers of two that fit the target, at least two; the last chunk takes all that is left."""
    lengths = np.array([10] * 1000 + [3000, 3000, 3000, 1, 1])
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    counts = np.empty(len(lengths), np.int64)
    chunks = strings.plan_chunks(offsets, 4, 4096, 4096, counts)
    assert counts[:chunks].sum() == len(lengths)
    assert counts[:chunks].tolist()[:3] == [256, 256, 256]
    assert all(count >= 2 and count & (count - 1) == 0 for count in counts[: chunks - 1].tolist())


def test_kernels_refuse_what_does_not_fit() -> None:
    zeros = np.zeros(10, np.int64)
    with pytest.raises(ValueError):
        pack.survey(np.zeros(7, np.uint8), 32, 2, np.zeros(1, np.uint8))
    with pytest.raises(ValueError):
        pack.pack_blocks(np.zeros(4096, np.uint8), 16, bounds(2048), 3, np.zeros(3, np.uint8))
    with pytest.raises(ValueError):
        shred.entry_bounds(np.zeros(5, np.uint16), 0, np.array([2, 2], np.int64), zeros)
    with pytest.raises(ValueError):
        shred.mark_levels(np.array([9], np.uint16), np.zeros(3, np.uint8))
    with pytest.raises(ValueError):
        strings.survey(np.array([0, 9], np.int32), np.zeros(3, np.uint8))
    with pytest.raises(ValueError):
        fsst_encode.Table().encode(np.array([0, 3], np.int32), np.zeros(3, np.uint8), zeros, np.zeros(3, np.uint8))


def test_row_cuts() -> None:
    reps = np.array([1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1], np.uint16)
    defs = np.array([0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 0], np.uint16)
    cuts = np.zeros((10, 3), np.int64)
    count = shred.row_cuts(reps, defs, 1, 0, 4, cuts)
    assert cuts[:count].tolist() == [[0, 0, 0], [4, 2, 3], [10, 3, 9]]
