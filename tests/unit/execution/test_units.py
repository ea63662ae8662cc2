"""Units of little work are read in groups, and give the rows that each would give alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.encoding.rows import RowRange
from lancelet.execution.costs import FEWEST_TOGETHER, MOST_TOGETHER, TOGETHER_ROWS
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.plan import plan_take
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.execution.units import LOCAL_UNIT, Unit, group
from lancelet.file import FileCache
from lancelet.table.manifest.fragment import DataFile, Fragment
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.testing import assert_identical


def reader_of(size: int | None) -> FragmentReader:
    """Of a fragment of ten rows whose file has so many bytes."""
    file = DataFile("a.lance", (0,), (0,), 2, 2, size)
    return FragmentReader(cast(Any, None), Fragment(0, (file,), None, 10), FileCache())


def sizes(rows: list[int], most: int, bytes_of_files: Sequence[int | None] = ()) -> list[list[int]]:
    readers = map(reader_of, bytes_of_files or [100] * len(rows))
    units = [Unit(reader, RowRange(0, count), 0) for count, reader in zip(rows, readers, strict=True)]
    return [[len(unit.rows) for unit in some] for some in group(units, most)]


def test_groups_grow_to_a_limit() -> None:
    counts = [len(some) for some in sizes([10] * 400, TOGETHER_ROWS)]
    assert counts[0] == FEWEST_TOGETHER
    assert max(counts) == MOST_TOGETHER
    assert sum(counts) == 400


@pytest.mark.parametrize(
    ("rows", "most", "expected"),
    [
        ([], 100, []),
        ([70, 70, 20, 5], 100, [[70], [70, 20, 5]]),
        ([1000, 1, 1000], 100, [[1000], [1], [1000]]),
        ([1, 1, 1], 0, [[1], [1], [1]]),
    ],
)
def test_no_group_has_more_rows_than_a_unit_may(rows: list[int], most: int, expected: list[list[int]]) -> None:
    assert sizes(rows, most) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([100, 400, 100, 100], [[10, 10], [10, 10]]),
        ([100, 10**9, 10**9, 50], [[10], [10], [10], [10]]),
        ([1000, 10, 10, 10, 10, 10], [[10] * 5, [10]]),
        ([None, 100, None, 100, 100], [[10], [10], [10], [10, 10]]),
    ],
)
def test_rows_that_are_wider_than_the_first_ones_count_as_more(
    files: list[int | None], expected: list[list[int]]
) -> None:
    assert sizes([10] * len(files), 50, files) == expected


def test_what_is_read_together_is_no_more_than_a_unit_may_have(tmp_path: Path) -> None:
    """The first fragment is no measure of the others: of these a few have as much in them as a unit."""
    lancelet.write_dataset(pa.table({"b": [b"short"] * 100}), tmp_path)
    drawn = np.random.default_rng(0)
    wide = pa.table({"b": [drawn.bytes(200_000) for _ in range(160)]})
    lancelet.write_dataset(wide, tmp_path, mode="append", max_rows_per_file=8)
    readers = TableReader(open_snapshot(tmp_path)).readers()
    units = [Unit(reader, RowRange(0, reader.physical_rows), 0) for reader in readers]
    for some in group(units, TOGETHER_ROWS):
        assert len(some) == 1 or sum(unit.reader.fragment.files[0].size or 0 for unit in some) < LOCAL_UNIT.decoded


def test_the_first_fragment_is_no_measure_of_how_much_a_unit_has(tmp_path: Path) -> None:
    lancelet.write_dataset(pa.table({"l": [[1.0]] * 100}), tmp_path)
    ends, items = np.arange(0, 3_000_001, 10_000, dtype=np.int32), np.random.default_rng(0).random(3_000_000)
    lancelet.write_dataset(pa.table({"l": pa.ListArray.from_arrays(ends, items)}), tmp_path, mode="append")
    reader = TableReader(open_snapshot(tmp_path))
    plan = replace(plan_take(reader.snapshot.manifest.schema, ["l"]), batch_size=50)
    rows = list(Scan(reader, plan).selections(lambda unit, _: len(unit.rows)))
    assert sum(rows) == 400
    assert max(rows) < 300


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ninety fragments of thirty rows; some with deletions, one without most of its rows."""
    path = tmp_path_factory.mktemp("groups") / "t"
    rng = np.random.default_rng(1)
    rows = pa.table(
        {
            "k": np.arange(2700),
            "a": pa.array(rng.integers(0, 100, 2700), mask=rng.random(2700) < 0.1),
            "s": pa.array([f"text {i % 7}" for i in range(2700)]),
            "d": pa.array([f"word {i % 5}" for i in range(2700)]).dictionary_encode(),
            "n": pa.array([{"x": i % 11} for i in range(2700)]),
            "l": pa.array([[i] * (i % 3) for i in range(2700)]),
        }
    )
    dataset = lance.write_dataset(rows, path, max_rows_per_file=30)
    dataset.delete("k % 13 = 0 or (k >= 300 and k < 329)")
    return path


@pytest.mark.parametrize(
    "condition",
    ["a < 10", "a < 10 and s = 'text 3'", "a is null", "d = 'word 2'", "n.x = 3 and a > 50", "k >= 0", "k < 0",
     "_rowaddr > 5000 and a < 50", "1000 / (k + 1) > 2", "s = 'text 1' or a = 7"],
)  # fmt: skip
@pytest.mark.spread(0.6, each=False)
def test_filters_over_many_fragments(table: Path, condition: str) -> None:
    ours, theirs = lancelet.dataset(table), lance.dataset(table)
    assert_identical(ours.to_table(filter=condition), theirs.to_table(filter=condition))
    assert ours.count_rows(condition) == theirs.count_rows(condition)
    assert_identical(
        ours.to_table(columns=["s", "l"], filter=condition, with_row_id=True, limit=20, offset=3),
        theirs.to_table(columns=["s", "l"], filter=condition, with_row_id=True, limit=20, offset=3),
    )


def test_deleted_rows_are_tested_no_more_than_they_were(table: Path) -> None:
    """Of a fragment that has lost nearly all of its rows only the others are looked at: its lost ones may not be divided by."""
    ours = lancelet.dataset(table)
    number = ours.to_table(columns=["k"], filter="1 / (k - 305) >= 0 and k > 290 and k < 340").num_rows
    assert number == lance.dataset(table).to_table(columns=["k"], filter="k > 290 and k < 340").num_rows


def test_batches_keep_to_their_fragments(table: Path) -> None:
    ours = lancelet.dataset(table)
    assert max(batch.num_rows for batch in ours.to_batches()) <= 30
    assert sum(batch.num_rows for batch in ours.to_batches(filter="a < 50")) == ours.count_rows("a < 50")


def test_only_fixed_lists_of_a_mapped_file_take_no_memory_of_their_own(tmp_path: Path) -> None:
    letters = np.random.default_rng(1).integers(97, 123, (300, 2000)).astype(np.uint8)
    texts = [row.tobytes().decode() for row in letters]
    vectors = pa.array([[number / 7] * 200 for number in range(300)], pa.list_(pa.float32(), 200))
    lancelet.write_dataset(pa.table({"text": texts, "vector": vectors}), tmp_path)
    table = TableReader(open_snapshot(tmp_path))
    schema = table.snapshot.manifest.schema
    text, vector = (table.reader(0).row_bytes([schema.field_by_path((name,))]) for name in ("text", "vector"))
    assert text[1] >= text[0] > 0
    assert vector[1] == 0
