"""Fetch scattered extents of a file and lay them side by side, without a loop over them.

::

    file      ..[ a ]..[ b ]................[ c ]...     extents, sorted
    ranges    ..[ a ....b ]................[ c ]...      near ones asked for together
    joined    [ a ....b ][ c ]                           what came back, end to end
                ^     ^    ^
                positions of the extents in it

"Near" is the reader's ``gap``: how many unwanted bytes are cheaper to fetch than
another request. For a mapped file no byte costs anything until it is touched, so
any gap will do and the joined bytes are one view of the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array
from lancelet.encoding.rows import Bytes, Indices, Ranges

DEFAULT_GAP = 4096


@dataclass(frozen=True, slots=True)
class Extents:
    """Where to read, and where each extent begins in what was read."""

    ranges: Ranges
    positions: Indices


def plan_extents(starts: Indices, lengths: Indices | int, gap: int) -> Extents:
    """Merge sorted extents into ranges; both their starts and their ends must not decrease."""
    count = len(starts)
    if count == 0:
        return Extents([], starts)
    ends = starts + lengths
    breaks = np.flatnonzero(starts[1:] - ends[:-1] > gap) + 1
    if len(breaks) == 0:
        first = int(starts[0])
        return Extents([(first, int(ends[-1]) - first)], starts - first)
    heads = np.concatenate(([0], breaks))
    tails = np.concatenate((breaks, [count]))
    run_starts = starts[heads]
    run_sizes = ends[tails - 1] - run_starts
    joined_at = np.cumsum(run_sizes) - run_sizes
    positions = starts + np.repeat(joined_at - run_starts, tails - heads)
    return Extents(list(zip(run_starts.tolist(), run_sizes.tolist(), strict=True)), positions)


def join(buffers: list[Bytes]) -> Bytes:
    """Buffers end to end; a lone one is passed on as it is."""
    if len(buffers) == 1:
        return buffers[0]
    return np.concatenate(buffers) if buffers else np.empty(0, np.uint8)


def take_fixed(data: Bytes, positions: Indices, width: int) -> Bytes:
    """The ``width`` bytes at each position."""
    if width == 0 or len(positions) == 0:
        return np.empty(0, np.uint8)
    windows: npt.NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    return windows[positions].view(np.uint8)


def take_variable(data: Bytes, positions: Indices, lengths: Indices) -> tuple[Indices, Bytes]:
    """Values of any length at sorted positions that do not overlap; returns their offsets and bytes."""
    count = len(positions)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    if total == 0:
        return offsets, np.empty(0, np.uint8)
    ends = positions + lengths
    if bool((positions[1:] == ends[:-1]).all()):
        return offsets, data[int(positions[0]) : int(ends[-1])]
    # Values and the gaps between them alternate in one Arrow array; the even elements are the values.
    borders = np.empty(2 * count, np.int64)
    borders[0::2] = positions
    borders[1::2] = ends
    mixed = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(borders), pa.py_buffer(data)]
    )
    chosen = mixed.take(arrow_array(np.arange(0, 2 * count, 2, dtype=np.int64)))
    return offsets, np.frombuffer(chosen.buffers()[2], np.uint8, total)


def expand_spans(starts: Indices, lengths: Indices) -> Indices:
    """The numbers of all elements of spans: start, start + 1, ... for each."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - ends + lengths, lengths)
