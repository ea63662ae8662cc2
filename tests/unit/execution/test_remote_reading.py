"""Files that are fetched give what mapped ones give, however they are cut, and what is near is fetched together."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.encoding.rows import RowRange
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.file import FileCache
from lancelet.store import Store, open_store
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from lancelet.testing import assert_identical

ROWS = 6000
EACH = 4000
URI = "memory://remote-reading/table"


def rows_of_all_kinds() -> pa.Table:
    drawn = np.random.default_rng(5)
    numbers = pa.array(drawn.integers(0, 1000, ROWS), pa.int32(), mask=drawn.random(ROWS) < 0.1)
    offsets = np.concatenate(([0], np.cumsum(drawn.integers(0, 4, ROWS)))).astype(np.int32)
    items = pa.array(drawn.integers(0, 10**9, int(offsets[-1])))
    return pa.table(
        {
            "id": np.arange(ROWS),
            "a": numbers,
            "text": pa.array([f"row number {number}" * (number % 5) for number in range(ROWS)]),
            "list": pa.ListArray.from_arrays(pa.array(offsets), items),
            "struct": pa.StructArray.from_arrays([numbers, pa.array(drawn.random(ROWS))], ["x", "y"]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(drawn.random(ROWS * 80, np.float32)), 80),
        }
    )


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("reading") / "table"
    table = lancelet.write_dataset(rows_of_all_kinds(), path, max_rows_per_file=EACH)
    table.delete("id % 7 = 3 OR id BETWEEN 4100 AND 5900")
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def store(local: Path) -> Store:
    """The same table where nothing is mapped."""
    store = open_store(URI)
    for path in local.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(local).as_posix(), path.read_bytes())
    return store


@pytest.fixture(scope="module")
def snapshot(store: Store) -> Snapshot:
    return open_snapshot(URI)


@given(cuts=st.lists(st.integers(1, EACH - 1), max_size=5, unique=True), turns=st.randoms())
@settings(max_examples=examples(15))
def test_units_of_a_scan_share_the_pages(snapshot: Snapshot, cuts: list[int], turns: random.Random) -> None:
    fields = snapshot.manifest.schema.fields
    plain = FragmentReader(snapshot, snapshot.manifest.fragments[0], FileCache())
    scanning = plain.scanning(fields, RowRange(0, EACH))
    units = [RowRange(start, stop) for start, stop in pairwise([0, *sorted(cuts), EACH])]
    turns.shuffle(units)
    counters = snapshot.store.counters
    expected = [plain.read(fields, rows) for rows in units]
    counters.reset()
    for rows, columns in zip(units, expected, strict=True):
        for column, right in zip(scanning.read(fields, rows), columns, strict=True):
            assert column.equals(right)
        scanning.release(rows)
    assert counters.requests <= 2
    assert counters.bytes <= snapshot.manifest.fragments[0].files[0].size


FILTERS = (
    "a < 10",
    "a < 500 AND text LIKE '%row number 1%'",
    "a >= 0",
    "id >= 0",
    "a > 5000",
    "id = 18",
    "struct.x < 40 AND struct.y < 0.5",
    "_rowid < 2000 AND a < 100",
)
COLUMNS = (
    None,
    ["vector", "id"],
    ["a"],
    ["list", "text"],
    ["struct", "a"],
    ["id", "_rowoffset"],
    ["_rowaddr", "vector"],
)


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"with_row_id": True, "batch_size": 100},
    {"with_row_id": True, "include_deleted_rows": True},
    {"limit": 50, "offset": 3},
    {"late_materialization": False},
)


@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.usefixtures("store")
def test_filters_give_what_they_give_on_mapped_files(local: Path, condition: str) -> None:
    here, there = lancelet.dataset(local), lancelet.dataset(URI)
    for number, columns in enumerate(COLUMNS):
        for options in OPTIONS[number % 2 :: 2]:
            expected = here.scanner(columns, condition, **options).to_table()
            assert_identical(there.scanner(columns, condition, **options).to_table(), expected)
    assert there.count_rows(condition) == here.count_rows(condition)
    assert there.to_table(filter=condition, offset=5).num_rows == max(here.count_rows(condition) - 5, 0)
