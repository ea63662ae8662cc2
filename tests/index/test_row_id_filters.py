"""Rows that a filter names by id or address are found without reading others."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.execution.candidates import find_candidates
from lancelet.execution.plan import plan_filter
from lancelet.expressions.evaluate import mask

FILTERS = (
    "_rowid = 5",
    "_rowid = 999999999999",
    "_rowid IN (5, 6, 4294967297, 120, 8589934600)",
    "_rowid NOT IN (5, 6)",
    "_rowid != 5",
    "_rowid < 10",
    "_rowid <= 4294967296",
    "_rowid > 4294967290 AND _rowid < 8589934600",
    "_rowid >= 100 AND _rowid < 100",
    "_rowid < 10 OR _rowid > 150",
    "NOT (_rowid < 10 OR _rowid > 150)",
    "_rowid < 10 OR k = 55",
    "_rowid < 40 AND k % 2 = 1",
    "_rowaddr = 4294967300",
    "_rowaddr IN (1, 4294967300, 17179869184)",
    "_rowaddr >= 4294967300 AND _rowaddr < 8589934593",
    "_rowaddr > 18446744073709551614",
    "_rowaddr <= 18446744073709551615",
    "_rowid IS NULL",
    "_rowid IS NOT NULL",
    "_rowid = k",
    "_rowid = NULL",
    "(_rowid = 7) IS NOT TRUE AND k < 20",
    "_rowid IN (5, NULL)",
)


def check(where: Path) -> None:
    dataset = lancelet.dataset(where)
    everything = dataset.to_table(with_row_id=True, with_row_address=True)
    for text in FILTERS:
        condition = plan_filter(dataset._snapshot.manifest.schema, text)
        assert condition is not None
        wanted = everything.filter(mask(condition, everything))
        got = dataset.to_table(filter=text, with_row_id=True, with_row_address=True)
        assert got.equals(wanted), text
        assert dataset.count_rows(text) == wanted.num_rows, text
        parts = [fragment.to_table(filter=text, columns=["k"])["k"].to_pylist() for fragment in dataset.get_fragments()]
        assert [k for part in parts for k in part] == wanted["k"].to_pylist(), text


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_rows_by_id_and_address(tmp_path: Path, stable: bool) -> None:
    where = tmp_path / "t"
    data = pa.table({"k": np.arange(160), "v": np.arange(160) % 7})
    lance.write_dataset(data, str(where), max_rows_per_file=50, enable_stable_row_ids=stable)
    check(where)
    dataset = lancelet.dataset(where)
    dataset.delete("k IN (5, 60, 61, 159)")
    check(where)
    dataset.update({"v": "100"}, where="k % 10 = 6")
    check(where)
    dataset.optimize.compact_files(target_rows_per_fragment=120)
    check(where)
    lancelet.write_dataset(data, where, mode="append")
    check(where)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_only_the_named_rows_are_candidates(tmp_path: Path, stable: bool) -> None:
    where = tmp_path / "t"
    data = pa.table({"k": np.arange(300)})
    dataset = lancelet.write_dataset(data, where, max_rows_per_file=100, enable_stable_row_ids=stable)
    named = dataset.to_table(filter="k = 250", with_row_id=True)["_rowid"][0].as_py()
    condition = plan_filter(dataset._snapshot.manifest.schema, f"_rowid IN ({named}, 3) AND k > 1")
    assert condition is not None
    found = find_candidates(dataset.table, condition, use_index=False)
    assert found is not None
    assert found.bounds.maybe.numbers().tolist() == [3, (2 << 32) + 50]
    some = find_candidates(dataset.table, condition, [2])
    assert some is not None
    assert some.bounds.maybe.numbers().tolist() == [(2 << 32) + 50]
    assert dataset.delete(f"_rowid = {named}")["num_deleted_rows"] == 1
    assert dataset.count_rows(f"_rowid = {named}") == 0


def test_a_stored_column_of_that_name_is_a_column(tmp_path: Path) -> None:
    """pylance lets a column be renamed to what a system column is called."""
    where = tmp_path / "t"
    data = pa.table({"a": pa.array([7, 8, 9], pa.uint64()), "k": [1, 2, 3]})
    lance.write_dataset(data, str(where)).alter_columns({"path": "a", "name": "_rowaddr"})
    dataset = lancelet.dataset(where)
    assert dataset.to_table(filter="_rowaddr = 8", columns=["k"])["k"].to_pylist() == [2]
    assert dataset.count_rows("_rowaddr = 1") == 0
    assert dataset.to_table(filter="_rowid = 1", columns=["k"])["k"].to_pylist() == [2]
