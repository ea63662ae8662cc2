"""Drawn tables: nested types of any shape, written by pylance, read whole, in ranges and row by row."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import lancelet
from conformance.grid import Size, write
from drawing import examples
from lancelet.testing import assert_identical
from lancelet.testing.strategies import tables

QUICK = settings(max_examples=examples(70), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=examples(200), derandomize=False)

SIZES = st.builds(
    Size,
    name=st.just("drawn"),
    rows=st.just(0),
    batch=st.sampled_from([100_000, 700, 33]),
    file_rows=st.sampled_from([1_000_000, 1_000_000, 500]),
    cache_bytes=st.sampled_from([None, 1]),
)


def _check(version: str, table: pa.Table, size: Size, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "t"
        expected = _written(table, where, version, size)
        ours = lancelet.dataset(where)
        assert_identical(ours.to_table(), expected)
        rows = len(table)
        start, length = seed % rows, 1 + seed // 7 % rows
        assert_identical(ours.to_table(offset=start, limit=length), expected.slice(start, length))
        picks = [(seed * (number + 1) * 7919) % rows for number in range(min(rows, 9))] + [0, rows - 1]
        assert_identical(ours.take(picks), expected.take(picks))


def _written(table: pa.Table, where: Path, version: str, size: Size) -> pa.Table:
    """The table to expect: what went in, or before 2.1, which loses some nulls, what pylance reads back."""
    try:
        dataset = write(table, where, version, size)
        return dataset.to_table() if version < "2.1" else table
    except (OSError, ValueError):
        reject()
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":
            raise
        reject()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_drawn_tables(version: str) -> None:
    @QUICK
    @given(tables(maps=version >= "2.2", null_structs=version >= "2.1"), SIZES, st.integers(0, 10**6))
    def check(table: pa.Table, size: Size, seed: int) -> None:
        _check(version, table, size, seed)

    check()


@pytest.mark.soak
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_thousands_of_drawn_tables(version: str) -> None:
    @LONG
    @given(tables(maps=version >= "2.2", null_structs=version >= "2.1"), SIZES, st.integers(0, 10**6))
    def check(table: pa.Table, size: Size, seed: int) -> None:
        _check(version, table, size, seed)

    check()


def test_drawn_tables_are_varied() -> None:
    """The strategies reach what they are for: depth, maps, empty and null lists, several pages."""
    seen: set[str] = set()

    @settings(QUICK, max_examples=examples(150))
    @given(tables())
    def collect(table: pa.Table) -> None:
        for field in table.schema:
            text = str(field.type)
            seen.update(
                word for word in ("list<", "large_list<", "struct<", "map<", "list<item: list<") if word in text
            )

    collect()
    assert seen == {"list<", "large_list<", "struct<", "map<", "list<item: list<"}
