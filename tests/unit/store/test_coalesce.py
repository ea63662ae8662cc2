"""Ranges become few requests, and every byte finds its way back."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lancelet.store.coalesce import merge, split

RANGES = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 300)), max_size=30)


@given(RANGES, st.integers(0, 100), st.integers(1, 1000))
def test_every_range_is_inside_one_span(ranges: list[tuple[int, int]], gap: int, limit: int) -> None:
    spans = merge(ranges, gap, limit)
    served = sorted(index for span in spans for index in span.members)
    assert served == [index for index, (_, length) in enumerate(ranges) if length]
    for span in spans:
        for index in span.members:
            offset, length = ranges[index]
            assert span.start <= offset
            assert offset + length <= span.stop
        asked = {byte for index in span.members for byte in range(ranges[index][0], sum(ranges[index]))}
        # A gap is fetched with its neighbours within the limit only; what touches may go on beyond.
        assert asked.issuperset(range(span.start + limit, span.stop))
        parts = split(span, limit)
        assert parts[0][0] == span.start
        assert parts[-1][1] == span.stop
        sizes = [stop - start for start, stop in parts]
        assert all(0 < size <= limit for size in sizes)
        assert set(sizes[:-1]) <= {sizes[0]}
        assert len(sizes) == -(-(span.stop - span.start) // limit)
        assert all(left[1] == right[0] for left, right in pairwise(parts))


def test_neighbours_are_merged_and_strangers_are_not() -> None:
    assert [(span.start, span.stop) for span in merge([(500, 10), (0, 10), (15, 5)], gap=5)] == [(0, 20), (500, 510)]
    assert [(span.start, span.stop) for span in merge([(0, 10), (16, 5)], gap=5)] == [(0, 10), (16, 21)]
