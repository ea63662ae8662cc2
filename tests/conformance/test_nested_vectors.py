"""Fixed-size lists of fixed-size lists through every way in which rows are picked, against Python's own lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
from lancelet.encoding.picking import pick_rows

MATRIX = pa.list_(pa.list_(pa.int16(), 2), 3)
SCHEMA = pa.schema(
    {"k": pa.int64(), "m": MATRIX, "s": pa.struct({"m": MATRIX}), "l": pa.list_(MATRIX), "group": pa.int64()}
)


def rows(keys: range, shift: int = 0) -> pa.Table:
    first = np.array(keys, np.int16)[:, None] * 6 + np.arange(6, dtype=np.int16) + shift
    values = pa.array(first.reshape(-1))
    matrices = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(values, 2), 3)
    count = len(keys)
    lists = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), matrices)
    structs = pa.StructArray.from_arrays([matrices], ["m"])
    columns = [pa.array(keys, pa.int64()), matrices, structs, lists, pa.array([key % 5 for key in keys], pa.int64())]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def by_key(table: pa.Table) -> pa.Table:
    return pick_rows(table, pc.sort_indices(table["k"]))


def matrix(key: int, shift: int = 0) -> list[list[int]]:
    return [[6 * key + at + shift, 6 * key + at + 1 + shift] for at in (0, 2, 4)]


def check(table: pa.Table, keys: list[int], shifted: set[int] = frozenset()) -> None:
    assert table["k"].to_pylist() == keys
    expected = [matrix(key, 1000 if key in shifted else 0) for key in keys]
    assert table["m"].to_pylist() == expected
    if "s" in table.column_names:
        assert table["s"].to_pylist() == [{"m": value} for value in expected]
        assert table["l"].to_pylist() == [[value] for value in expected]


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    where = str(tmp_path / "t")
    table = rows(range(900))
    if request.param == "2.0":
        table = table.select(["k", "m", "group"])
    lancelet.write_dataset(table, where, data_storage_version=request.param, max_rows_per_file=300)
    return where


def live(keys: range) -> list[int]:
    return [key for key in keys if key % 7 != 3]


def test_rows_that_are_read(uri: str) -> None:
    lancelet.dataset(uri).delete("k % 7 = 3")
    ours, keys = lancelet.dataset(uri), live(range(900))
    check(ours.to_table(), keys)
    for start, count in [(0, 900), (50, 30), (290, 20), (700, 900)]:
        check(ours.to_table(offset=start, limit=count), keys[start : start + count])
    for size in (7, 100):
        check(pa.Table.from_batches(ours.to_batches(batch_size=size)), keys)
    picks = [5, 700, 5, 0, 320]
    check(ours.take(picks), [keys[pick] for pick in picks])
    check(ours.to_table(filter="group = 2"), [key for key in keys if key % 5 == 2])
    check(ours.to_table(filter="k > 400 and group = 2"), [key for key in keys if key > 400 and key % 5 == 2])
    check(ours.to_table(filter="k > 400", offset=3, limit=40), [key for key in keys if key > 400][3:43])
    ordered = ours.scanner(order_by=[lancelet.ColumnOrdering("k", ascending=False)], offset=3, limit=50)
    check(ordered.to_table(), keys[::-1][3:53])
    check(lance.dataset(uri).to_table(), keys)


def test_rows_that_are_changed(uri: str) -> None:
    dataset = lancelet.dataset(uri)
    dataset.delete("k % 7 = 3")
    keys = live(range(900))
    names = dataset.schema.names
    # Of slices, and in another order than the table's.
    fresh = rows(range(940), 1000).select(names).take(pa.array(np.random.default_rng(0).permutation(940)))
    source = fresh.slice(11, 600)
    updated = set(source["k"].to_pylist())
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(source)
    known = set(keys) | updated
    check(by_key(dataset.to_table()), sorted(known), updated)
    assert dataset.count_rows() == len(known)
    dataset.update({"group": "group + 100"}, where="k % 3 = 0")
    check(by_key(dataset.to_table()), sorted(known), updated)
    # Columns found by key, and columns computed of batches.
    given = rows(range(950)).slice(3).select(["k", "m"]).rename_columns(["k", "again"])
    dataset.merge(given, "k")
    found = by_key(dataset.to_table(["k", "again"]))
    assert found["again"].to_pylist() == [matrix(key) if key >= 3 else None for key in sorted(known)]
    dataset.optimize.compact_files()
    found = dataset.to_table()
    assert sorted(found["k"].to_pylist()) == sorted(known)
    for table in (found, lance.dataset(uri).to_table()):
        shown: dict[int, Any] = dict(zip(table["k"].to_pylist(), table["m"].to_pylist(), strict=True))
        assert shown == {key: matrix(key, 1000 if key in updated else 0) for key in known}


def test_columns_are_replaced_by_key(uri: str) -> None:
    dataset = lancelet.dataset(uri)
    source = rows(range(900), 1000).select(["k", "m"]).slice(123, 301)
    dataset.merge_insert("k").when_matched_update_all().execute(source)
    found = by_key(dataset.to_table(["k", "m"]))
    check(found, list(range(900)), set(range(123, 424)))


def test_rows_of_a_mem_wal(tmp_path: Path) -> None:
    keyed = SCHEMA.set(0, pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}))
    table = rows(range(300)).cast(keyed)
    dataset = lancelet.write_dataset(table, tmp_path / "t")
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put(rows(range(400), 1000).cast(keyed).slice(200, 100))
        writer.put(rows(range(400), 1000).cast(keyed).take(pa.array([310, 250, 305])).slice(1))
        writer.flush()
    updated = set(range(200, 300)) | {250, 305}
    expected = sorted(set(range(300)) | {305})
    dataset = lancelet.dataset(tmp_path / "t")
    dataset.compact_mem_wal()
    check(by_key(lancelet.dataset(tmp_path / "t").to_table()), expected, updated)


def test_lists_of_sql(uri: str) -> None:
    dataset = lancelet.dataset(uri)
    found = dataset.to_table({"k": "k", "m": "make_array(m, m)[2]"}, filter="k >= 310", offset=20, limit=60)
    check(found, list(range(330, 390)))


def _filled(dtype: pa.DataType, depth: int) -> Any:
    """A value of nested lists whose items so deep are null."""
    if depth == 0:
        return None
    return [_filled(dtype.value_type, depth - 1) for _ in range(dtype.list_size)]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("rows", [3, 300])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("item", [pa.bool_(), pa.int16(), pa.float64()], ids=str)
def test_lists_of_nothing_but_nulls(tmp_path: Path, item: pa.DataType, depth: int, rows: int, version: str) -> None:
    """pylance writes lists without items for lists that are all null, and says nothing of what they would hold."""
    dtype = pa.list_(pa.list_(pa.list_(item, 3), 2), 3)
    values = [None if row % 3 == 0 else _filled(dtype, depth) for row in range(rows)]
    table = pa.table({"x": pa.array(values, dtype)})
    for number, (writer, reader) in enumerate([(lance, lancelet), (lancelet, lance), (lancelet, lancelet)]):
        where = str(tmp_path / str(number))
        writer.write_dataset(table, where, data_storage_version=version)
        assert reader.dataset(where).to_table()["x"].to_pylist() == values
