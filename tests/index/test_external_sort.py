"""Sorting in bounded memory: the same order as Python's, whatever the limits, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancelet.index.scalar import external_sort
from lancelet.index.scalar.external_sort import merge_sorted, sorted_rows
from lancelet.index.scalar.sort_keys import compared, distinct, is_ascending, key_at, order_of, places_of
from lancelet.index.sorting import sort_spans, sort_words

SOME_BYTES = st.binary(max_size=20) | st.integers(0, 12).map(lambda n: b"shared prefix" + b"\x00" * n)
COLUMNS = st.sampled_from([pa.int64(), pa.string(), pa.float64(), pa.bool_()])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text("ab\x00é", max_size=12),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
}


def _key(value: Any) -> tuple[Any, ...]:
    """Nulls first, texts by their bytes, zeros apart."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, float):
        return (1, value, not np.signbit(value))
    return (1, value)


def _batches(values: pa.Array, step: int) -> list[pa.RecordBatch]:
    rows = pa.array(range(len(values)), pa.uint64())
    whole = pa.record_batch({"value": values, "row": rows})
    return [whole.slice(start, step) for start in range(0, len(values), step)]


def _pairs(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, int]]:
    return [pair for batch in batches for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=200))
def test_words(words: list[int]) -> None:
    array = np.array(words, np.uint64)
    order = sort_words(array)
    assert order.tolist() == sorted(range(len(words)), key=words.__getitem__)
    assert array.tolist() == sorted(words)


@pytest.mark.parametrize("bits", [1, 7, 12, 30, 64])
def test_many_words(bits: int) -> None:
    """So many that buckets are scattered again."""
    rng = np.random.default_rng(bits)
    words = rng.integers(0, 2**bits - 1, 300_000, np.uint64, endpoint=True)
    words[rng.random(len(words)) < 0.6] >>= np.uint64(bits // 2)
    kept = words.copy()
    order = sort_words(words)
    assert np.array_equal(order, np.argsort(kept, kind="stable"))
    assert np.array_equal(words, kept[order])


@given(st.lists(SOME_BYTES, max_size=120))
def test_spans(spans: list[bytes]) -> None:
    values = pa.array(spans, pa.binary())
    assert order_of(values).tolist() == sorted(range(len(spans)), key=spans.__getitem__)
    ordered = pa.array(sorted(spans), pa.binary())
    assert is_ascending(ordered)
    assert is_ascending(values) == (spans == sorted(spans))
    assert distinct(values).to_pylist() == sorted(set(spans))
    for after in (False, True):
        found = places_of(ordered, values, after).tolist()
        assert found == [sum(one < span or (after and one == span) for one in spans) for span in spans]
    signs = [(one > other) - (one < other) for one, other in zip(spans, sorted(spans), strict=True)]
    assert compared(values, ordered).tolist() == signs
    assert [key_at(values, place) for place in range(len(spans))] == spans


def test_many_spans() -> None:
    """Long shared beginnings, ends inside of 8 bytes, and a value that occurs very often."""
    rng = np.random.default_rng(3)
    spans = [
        b"https://example.com/" * int(n % 4) + bytes(rng.integers(0, 2, n % 19).astype(np.uint8)) for n in range(40_000)
    ]
    spans += [b"again"] * 40_000
    values = pa.array(spans, pa.large_binary())
    assert order_of(values).tolist() == sorted(range(len(spans)), key=spans.__getitem__)


def test_nothing_to_sort() -> None:
    assert sort_spans(np.empty(0, np.uint8), np.zeros(1, np.int64)).tolist() == []
    assert sort_words(np.empty(0, np.uint64)).tolist() == []
    assert list(sorted_rows([], 1, 1)) == []


@settings(deadline=None)
@given(
    COLUMNS.flatmap(lambda dtype: st.tuples(st.just(dtype), st.lists(st.none() | VALUES[dtype], max_size=80))),
    st.data(),
)
def test_limits_make_no_difference(column: tuple[pa.DataType, list[Any]], data: st.DataObject) -> None:
    dtype, values = column
    step, run, kept = (data.draw(st.integers(*ends)) for ends in ((1, 30), (1, 600), (0, 900)))
    found = _pairs(sorted_rows(_batches(pa.array(values, dtype), step), run, kept))
    want = sorted(zip(values, range(len(values)), strict=True), key=lambda pair: _key(pair[0]))
    assert [_key(value) for value, _ in found] == [_key(value) for value, _ in want]
    assert sorted(row for _, row in found) == list(range(len(values)))
    assert all(_key(values[row]) == _key(value) for value, row in found)


def test_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs beyond those that are merged at once, in batches smaller than a run."""
    monkeypatch.setattr(external_sort, "_BATCH_BYTES", 100)
    monkeypatch.setattr(external_sort, "_LEAST_BYTES", 100)
    values = pa.array(np.random.default_rng(0).integers(0, 500, 9000), mask=np.arange(9000) % 10 == 0)
    found = _pairs(sorted_rows(_batches(values, 10), 400, 1000))
    want = sorted(zip(values.to_pylist(), range(9000), strict=True), key=lambda pair: (_key(pair[0]), pair[1]))
    assert [value for value, _ in found] == [value for value, _ in want]
    assert sorted(found, key=lambda pair: (_key(pair[0]), pair[1])) == want


def test_streams_that_are_merged() -> None:
    def stream(*values: list[int | None]) -> Iterator[pa.RecordBatch]:
        for piece in values:
            yield pa.record_batch(
                {"value": pa.array(piece, pa.int64()), "row": pa.array([0] * len(piece), pa.uint64())}
            )

    merged = merge_sorted([stream([None], [], [None, 1, 4], [4, 9]), stream(), stream([2, 4]), stream([None, None])])
    assert [value for value, _ in _pairs(merged)] == [None] * 4 + [1, 2, 4, 4, 4, 9]


@pytest.mark.parametrize("end", ["all", "some", "error"])
def test_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from _batches(pa.array(range(500, 0, -1)), 10)
        if end == "error":
            raise ConnectionError

    rows = sorted_rows(batches(), 300, 0)
    if end == "error":
        with pytest.raises(ConnectionError):
            next(rows)
    else:
        assert next(rows).column("value")[0].as_py() == 1
        assert list(tmp_path.iterdir())
        if end == "all":
            assert sum(batch.num_rows for batch in rows) < 500
        else:
            rows.close()
    assert not list(tmp_path.iterdir())
