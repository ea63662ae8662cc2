"""FSST symbol tables of pages: what to train them on, and their bytes (spec encodings.md 6.7)::

0      number of symbols, n
1, 2   terminator, suffix limit (read by no decoder)
3      1
4..7   mark
8      n symbols of 8 bytes, then n lengths, then zeros up to 2312 bytes
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lancelet.encoding.kernels import fsst_encode
from lancelet.encoding.kernels.fullzip import gather_slices
from lancelet.encoding.v2_1.encode.values import Strings

TABLE_BYTES = 2312
_MARK = (0x46535354).to_bytes(4, "little")
_SAMPLE_BYTES = 16 << 10
_TRIAL = 2048
_PIECE = 512
"""At most this much of one string goes into the sample."""


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """A trained table and the bytes that describe it."""

    table: fsst_encode.Table
    message: bytes

    def encode(self, strings: Strings) -> Strings:
        """The same strings in codes."""
        out = np.empty(2 * strings.nbytes + fsst_encode.SPARE, np.uint8)
        offsets = np.empty(strings.count + 1, np.int64)
        used = self.table.encode(strings.offsets, strings.data, offsets, out)
        return replace(strings, offsets=offsets, data=out[:used])


def train(strings: Strings) -> SymbolTable:
    """A table for these strings, learned from pieces taken all over them."""
    data, offsets = _sample(strings)
    table = fsst_encode.Table()
    table.train(data, offsets)
    symbols = table.symbols()
    head = bytes([len(symbols), 0, 0, 1]) + _MARK
    body = b"".join(symbol.ljust(8, b"\0") for symbol in symbols) + bytes(len(symbol) for symbol in symbols)
    return SymbolTable(table, (head + body).ljust(TABLE_BYTES, b"\0"))


def expected_ratio(strings: Strings) -> float:
    """What FSST would make of these strings, by some of them."""
    middle = max((strings.count - _TRIAL) // 2, 0)
    some = replace(strings, offsets=strings.offsets[middle : middle + _TRIAL + 1])
    return train(strings).encode(some).nbytes / max(some.nbytes, 1)


def _sample(
    strings: Strings,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    offsets = strings.offsets
    lengths = np.minimum(np.diff(offsets), _PIECE)
    total = int(lengths.sum())
    if total <= _SAMPLE_BYTES:
        chosen = np.arange(strings.count)
    else:
        # A fixed seed: the same data always makes the same file.
        random = np.random.default_rng(strings.count)
        wanted = max(int(strings.count * _SAMPLE_BYTES / total), 1)
        chosen = np.sort(random.choice(strings.count, min(wanted, strings.count), replace=False))
    starts, sizes = offsets[chosen].astype(np.int64), lengths[chosen].astype(np.int64)
    bounds = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    sample = np.empty(int(bounds[-1]), np.uint8)
    gather_slices(strings.data, starts, sizes, 0, sample)
    return sample, bounds
