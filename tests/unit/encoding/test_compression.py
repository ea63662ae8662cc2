"""Buffers that zstd and LZ4 compressed, honest ones and those that lie."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from zstandard import ZstdCompressor

from lancelet.encoding.compression import AT_ONCE, SMALL, inflate
from lancelet.encoding.place import Place
from lancelet.errors import CorruptFile

PLACE = Place("reef.lance")
TEXT = b"the tide comes and goes, " * 400


def framed(raw: bytes, claim: int | None = None, says_size: bool = True) -> np.ndarray:
    frame = ZstdCompressor(level=1, write_content_size=says_size).compress(raw)
    return np.frombuffer(struct.pack("<Q", len(raw) if claim is None else claim) + frame, np.uint8)


@pytest.mark.parametrize("says_size", [True, False])
@pytest.mark.parametrize("size", [1, 6, 7, 4096, SMALL - 1, SMALL, SMALL + 1, AT_ONCE + 1])
def test_frames_of_all_sizes(size: int, says_size: bool) -> None:
    raw = (TEXT * (size // len(TEXT) + 1))[:size]
    assert inflate(framed(raw, says_size=says_size), "zstd", PLACE).tobytes() == raw


def test_frames_in_many_threads() -> None:
    texts = [TEXT[: 10 * n] for n in range(1, 900)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: inflate(framed(text), "zstd", PLACE).tobytes(), texts * 4))
    assert found == texts * 4


def test_nothing() -> None:
    assert len(inflate(np.empty(0, np.uint8), "zstd", PLACE)) == 0
    assert len(inflate(framed(b""), "zstd", PLACE)) == 0


@pytest.mark.parametrize("says_size", [True, False])
@pytest.mark.parametrize("claim", [1, len(TEXT) - 1, len(TEXT) + 1, SMALL])
def test_frames_that_hold_more_or_less_than_they_claim(claim: int, says_size: bool) -> None:
    with pytest.raises(CorruptFile, match=r"zstd|claim"):
        inflate(framed(TEXT, claim, says_size), "zstd", PLACE)


def test_a_frame_that_says_that_it_is_huge() -> None:
    """Nothing of that size is allocated, whatever the frame's own head says."""
    data = framed(TEXT).copy()
    head = bytearray(data.tobytes())
    # A frame with the eight bytes of a content size: 2^60.
    head[8:] = b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + struct.pack("<Q", 1 << 60) + head[15:]
    with pytest.raises(CorruptFile, match="does not hold the 10000 bytes"):
        inflate(np.frombuffer(bytes(head), np.uint8), "zstd", PLACE)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_frames(seed: int) -> None:
    """An error of ours, or as many bytes as were claimed: zstd has no checksum here."""
    rng = np.random.default_rng(seed)
    whole = framed(TEXT)
    for _ in range(100):
        data = whole.copy()
        data[rng.integers(8, len(data))] ^= 1 << rng.integers(8)
        if rng.random() < 0.2:
            data = data[: rng.integers(9, len(data))]
        try:
            assert len(inflate(data, "zstd", PLACE)) == len(TEXT)
        except CorruptFile as error:
            assert "reef.lance" in str(error)


def test_bytes_behind_a_frame() -> None:
    with pytest.raises(CorruptFile, match="does not decompress"):
        inflate(np.append(framed(TEXT), np.uint8(1)), "zstd", PLACE)


def test_lz4() -> None:
    packed = struct.pack("<I", len(TEXT)) + pa.Codec("lz4_raw").compress(TEXT, asbytes=True)
    assert inflate(np.frombuffer(packed, np.uint8), "lz4", PLACE).tobytes() == TEXT
