"""Kernels that work on several values at once give the answers of plain Python, at the ends of their buffers too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.encoding.kernels import pack, shred, strings
from lancelet.encoding.place import Place
from lancelet.encoding.v2_1.codecs import SymbolTable as Decoder
from lancelet.encoding.v2_1.codecs import expand_fsst
from lancelet.encoding.v2_1.encode.general import compress_values, compressor
from lancelet.encoding.v2_1.encode.symbols import train
from lancelet.encoding.v2_1.encode.values import Strings, leaf_values
from lancelet.encoding.v2_1.values import Variable

PLACE = Place("made.lance")
SAMPLE = b"ab abab \0\0ab abba abab  \0ba"
TABLE = train(Strings(np.array([0, len(SAMPLE)], np.int32), np.frombuffer(SAMPLE, np.uint8), wide=False, text=False))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.text("ab \0é", max_size=24).map(str.encode), min_size=1, max_size=40), st.booleans(), st.integers(0, 9)
)
def test_codes_of_each_string(values: list[bytes], wide: bool, spare: int) -> None:
    """Strings are encoded four at a time; the codes of each are its own, whatever follows it in memory."""
    joined = b"".join(values)
    offsets = np.append(0, np.cumsum([len(value) for value in values])).astype(np.int64 if wide else np.int32)
    data = np.frombuffer(joined + b"ab"[: spare % 3] * spare, np.uint8)
    coded = TABLE.encode(Strings(offsets, data, wide, text=False))
    alone = []
    for value in values:
        single = leaf_values(pa.array([value], pa.binary()), None)
        assert isinstance(single, Strings)
        alone.append(TABLE.encode(single).data.tobytes())
    ends = coded.offsets.tolist()
    assert [coded.data[a:b].tobytes() for a, b in zip(ends, ends[1:], strict=False)] == alone
    found = expand_fsst(Decoder.parse(TABLE.message, PLACE), Variable(coded.offsets, coded.data), PLACE)
    assert bytes(memoryview(found.data))[: found.offsets[-1]] == joined
    assert found.offsets.tolist() == offsets.tolist()


@pytest.mark.parametrize("length", [1, 3, 4, 7, 8, 9, 15, 16, 17, 40])
def test_many_distinct_strings(length: int) -> None:
    """More than the nearest caches hold, so that what a value is compared with is fetched ahead."""
    rng = np.random.default_rng(length)
    items = np.unique(rng.integers(0, 256, (20_000, length), np.uint8), axis=0)
    drawn = rng.integers(0, len(items), 50_000)
    offsets = (np.arange(len(drawn) + 1) * length).astype(np.int32)
    data = items[drawn].reshape(-1)
    cap = len(items)
    indices, firsts = np.empty(len(drawn), np.uint32), np.empty(cap, np.int64)
    table = np.empty(1 << (2 * cap + 1).bit_length(), np.int64)
    whole = np.zeros(1, np.int64)
    found = strings.distinct(offsets, data, whole, len(drawn), cap, table, indices, firsts)
    first = np.unique(drawn, return_index=True)[1]
    assert found == len(first)
    assert sorted(firsts[:found].tolist()) == sorted(first.tolist())
    assert (np.diff(firsts[:found]) > 0).all()
    assert np.array_equal(drawn[firsts[:found]][indices], drawn)
    assert strings.distinct(offsets, data, whole, len(drawn), found - 1, table, indices, firsts) == -1


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=5))), st.integers(0, 20), st.booleans())
def test_end_offsets(values: list[bytes | None], above: int, wide: bool) -> None:
    array = pa.array([b"before", *values], pa.large_binary() if wide else pa.binary()).slice(1)
    offsets = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)[1 : len(values) + 2]
    valid = np.array([value is not None for value in values], bool)
    bits = np.packbits(valid, bitorder="little")
    ends = np.empty(len(values), np.uint64)
    shred.end_offsets(offsets, bits if None in values else np.empty(0, np.uint8), above, ends)
    total, expected = 0, []
    for value in values:
        total += len(value or b"")
        expected.append(total + (above if value is None else 0))
    assert ends.tolist() == expected


def test_parts_that_do_not_fit_are_refused() -> None:
    one, two = np.array([8], np.int64), np.array([8, 8], np.int64)
    counts, bounds = np.array([4], np.int64), np.array([0, 4], np.int64)
    words, data = np.empty(4, np.uint8), np.zeros(8, np.uint8)
    total = pack.chunk_bytes([one, one], 1, 1, True, 1 << 31)
    assert total == 8 + 8 + 8
    out = np.empty(total, np.uint8)
    pack.assemble([data, data], [one, one], counts, bounds, 1, True, words, out)
    assert out.tobytes() == b"\4\0\x08\0\x08\0\0\0" + bytes(16)
    assert words.view("<u4").tolist() == [(total // 8 - 1) << 4]
    assert pack.chunk_bytes([np.array([70_000], np.int64)], 1, 0, True, 1 << 31) == 8 + 70_000
    assert pack.chunk_bytes([np.array([70_000], np.int64)], 1, 0, False, 1 << 31) == -1
    assert pack.chunk_bytes([np.array([70_000], np.int64)], 1, 1, True, 1 << 31) == -1
    assert pack.chunk_bytes([one], 1, 0, True, 15) == -1
    for parts, sizes, place in (
        ([data], [one, one], out),
        ([data, data], [one, two], out),
        ([data, data[:4]], [one, one], out),
        ([data, data], [one, -one], out),
        ([data, data], [one, one], out[:-1]),
    ):
        with pytest.raises(ValueError):
            pack.assemble(parts, sizes, counts, bounds, 1, True, words, place)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.one_of(st.text("ab", max_size=9), st.text("a", max_size=300)).map(str.encode), max_size=40))
def test_frames_of_small_values_are_those_of_zstd(values: list[bytes]) -> None:
    """Those that zstd would leave as they are are written together, and no byte is another one."""
    offsets = np.append(0, np.cumsum([len(value) for value in values])).astype(np.int64)
    data = np.frombuffer(b"".join(values), np.uint8)
    found = compress_values(Strings(offsets, data, wide=True, text=False), None)
    zstd = compressor("zstd", None)
    alone = [zstd(np.frombuffer(value, np.uint8)) for value in values]
    assert found.data.tobytes() == b"".join(alone)
    assert np.diff(found.offsets).tolist() == [len(frame) for frame in alone]
