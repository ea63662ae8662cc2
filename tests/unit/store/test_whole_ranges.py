"""Pages that are wanted piece by piece are fetched once, by whoever comes first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.errors import StorageError
from lancelet.store import ByteSource, Extent, WholeRanges, open_store
from lancelet.store.source import Bytes, Ranges

DATA = np.random.default_rng(0).integers(0, 256, 1000, np.uint8)


def source_of(name: str) -> ByteSource:
    store = open_store(f"memory://whole-ranges/{name}")
    store.put("x", DATA.tobytes())
    return store.open("x", len(DATA))


class Watched:
    """A source that notes what it is asked for, and fails as often as it is told to."""

    def __init__(self, source: ByteSource, failures: int = 0) -> None:
        self._source = source
        self._failures = failures
        self.asked: list[tuple[int, int]] = []
        self.size, self.path, self.mapped = source.size, source.path, None
        self.read_pieces, self.reserve, self.release = source.read_pieces, source.reserve, source.release

    def read(self, ranges: Ranges) -> list[Bytes]:
        self.asked += ranges
        if self._failures:
            self._failures -= 1
            raise StorageError(self.path, "it does not answer")
        return self._source.read(ranges)


PAGES = (Extent(10, 100, 0, 10), Extent(100, 350, 10, 30), Extent(400, 1000, 30, 100))
PIECES = st.integers(0, 1000).flatmap(lambda start: st.tuples(st.just(start), st.integers(0, 1000 - start)))


@given(st.lists(st.lists(PIECES, max_size=6), max_size=6), st.lists(st.integers(0, 100), max_size=3))
@settings(max_examples=examples(60))
def test_every_piece_has_its_bytes(reads: list[list[tuple[int, int]]], cuts: list[int]) -> None:
    watched = Watched(source_of("every"))
    whole = WholeRanges(watched, PAGES)
    bounds = [0, *sorted(cuts)]
    for number, ranges in enumerate(reads):
        for (offset, length), view in zip(ranges, whole.read(ranges), strict=True):
            assert np.array_equal(view, DATA[offset : offset + length])
        if number + 1 < len(bounds):
            whole.release(bounds[number], bounds[number + 1])


def test_a_page_is_fetched_once_until_all_of_its_rows_are_read() -> None:
    watched = Watched(source_of("once"))
    whole = WholeRanges(watched, PAGES)
    whole.read([(110, 5), (20, 5), (360, 10)])
    assert sorted(watched.asked) == [(10, 90), (100, 250), (360, 10)]
    whole.release(0, 20)
    watched.asked.clear()
    whole.read([(340, 10), (100, 250)])
    assert watched.asked == []
    whole.release(20, 30)
    whole.read([(340, 10), (20, 5)])
    assert sorted(watched.asked) == [(20, 5), (340, 10)]


def test_what_could_not_be_fetched_is_asked_for_again() -> None:
    watched = Watched(source_of("again"), failures=1)
    whole = WholeRanges(watched, PAGES)
    with pytest.raises(StorageError):
        whole.read([(20, 5)])
    assert np.array_equal(whole.read([(20, 5)])[0], DATA[20:25])
    assert watched.asked == [(10, 90), (10, 90)]


def test_threads_share_what_one_of_them_fetches() -> None:
    watched = Watched(source_of("threads"))
    whole = WholeRanges(watched, PAGES)
    together = threading.Barrier(4)

    def read(number: int) -> bool:
        together.wait()
        views = whole.read([(offset, 20) for offset in range(10 + number, 900, 50)])
        return all(
            np.array_equal(view, DATA[offset : offset + 20])
            for offset, view in zip(range(10 + number, 900, 50), views, strict=True)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(4)))
    for page in PAGES:
        assert watched.asked.count((page.start, page.stop - page.start)) == 1
