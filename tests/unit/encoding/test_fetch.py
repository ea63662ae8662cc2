"""How decoders get at bytes of files that are not mapped."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lancelet.encoding.fetch import FileBytes
from lancelet.encoding.place import Place

_FILE = np.arange(256, dtype=np.uint8)


def _fetched(starts: list[int], sizes: list[int]) -> tuple[list[bytes], list[tuple[int, int]]]:
    """The pieces, and the ranges that were asked for."""
    step = FileBytes("f", len(_FILE), None).fetch(np.array(starts), np.array(sizes), Place("f"))
    ranges = next(step)
    try:
        step.send([_FILE[start : start + size] for start, size in ranges])
    except StopIteration as stop:
        data, positions = stop.value
    pieces = [data[at : at + size].tobytes() for at, size in zip(positions.tolist(), sizes, strict=True)]
    return pieces, ranges


def test_a_piece_that_comes_several_times_is_asked_for_once() -> None:
    pieces, ranges = _fetched([8, 8, 16, 40, 40], [8, 8, 8, 4, 4])
    assert ranges == [(8, 16), (40, 4)]
    assert pieces == [_FILE[8:16].tobytes()] * 2 + [_FILE[16:24].tobytes()] + [_FILE[40:44].tobytes()] * 2


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.data())
def test_pieces_are_those_of_the_file(lengths: list[int], data: st.DataObject) -> None:
    ends = np.cumsum(lengths)
    chosen = sorted(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=30)))
    starts, sizes = (ends - lengths)[chosen].tolist(), np.array(lengths)[chosen].tolist()
    pieces, ranges = _fetched(starts, sizes)
    assert pieces == [_FILE[a : a + n].tobytes() for a, n in zip(starts, sizes, strict=True)]
    assert sum(size for _, size in ranges) == sum(lengths[number] for number in set(chosen))
