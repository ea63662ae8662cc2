"""Batches of another size hold the same rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancelet.execution.rebatch import by_bytes, by_rows


def _batches(sizes: list[int]) -> list[pa.RecordBatch]:
    start, made = 0, []
    for size in sizes:
        made.append(pa.record_batch({"x": pa.array(range(start, start + size), pa.int32())}))
        start += size
    return made


def _values(batches: list[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch["x"].to_pylist()]


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 25))
def test_by_rows(sizes: list[int], rows: int) -> None:
    batches = list(by_rows(_batches(sizes), rows))
    assert _values(batches) == list(range(sum(sizes)))
    assert all(batch.num_rows == rows for batch in batches[:-1])
    assert all(0 < batch.num_rows <= rows for batch in batches[-1:])


@given(st.lists(st.integers(0, 300), max_size=4), st.integers(1, 500))
def test_by_bytes(sizes: list[int], nbytes: int) -> None:
    batches = list(by_bytes(_batches(sizes), nbytes))
    assert _values(batches) == list(range(sum(sizes)))
    assert all(batch.nbytes <= max(nbytes, 4) * 1.5 + 4 for batch in batches)


@pytest.mark.parametrize("make", [by_rows, by_bytes])
def test_nothing(make: object) -> None:
    assert list(make([], 5)) == []  # type: ignore[operator]
