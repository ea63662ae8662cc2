"""Which rows a search through an index may find: filters, deletions and fragments, also when they are asked again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancelet
from lancelet.execution.allowed import AllowedRows
from lancelet.index.row_set import RowSet
from vector.brute import distances, vector_array

D = 8


@pytest.fixture(scope="module")
def table() -> lancelet.LanceDataset:
    dataset = lancelet.write_dataset({"id": range(100)}, "memory://allowed/rows", max_rows_per_file=30)
    dataset.delete("id % 4 = 1")
    return lancelet.dataset(dataset.uri)


@given(
    asked=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=40),
    fragments=st.sets(st.integers(0, 3)),
    rows=st.none() | st.sets(st.tuples(st.integers(0, 3), st.integers(0, 9))),
    whole=st.sets(st.integers(0, 3)),
)
def test_rows_are_allowed_that_are_there_and_chosen(
    table: lancelet.LanceDataset,
    asked: list[tuple[int, int]],
    fragments: set[int],
    rows: set[tuple[int, int]] | None,
    whole: set[int],
) -> None:
    some = None
    if rows is not None:
        numbers = np.array([(high << 32) + low for high, low in rows], np.uint64)
        some = RowSet.of(numbers) | RowSet.whole(whole)
    allowed = AllowedRows(table.table, frozenset(fragments), some)
    marks = allowed.marks(np.array([(high << 32) + low for high, low in asked], np.uint64))
    expected = [
        high in fragments and (30 * high + low) % 4 != 1 and (rows is None or high in whole or (high, low) in rows)
        for high, low in asked
    ]
    assert marks.tolist() == expected


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    where = tmp_path_factory.mktemp("allowed") / "t"
    zeros = np.where(np.arange(600) % 2 == 0, 0.0, -0.0)
    data = pa.table({"id": np.arange(600), "x": zeros, "v": vector_array(rng.normal(size=(600, D)), "float32")})
    lance.write_dataset(data, where, max_rows_per_file=250).create_index("v", "IVF_FLAT", num_partitions=2)
    return where


def found(dataset: lancelet.LanceDataset, condition: str, query: Any) -> set[int]:
    nearest = {"column": "v", "q": query, "k": 600, "nprobes": 2}
    ids = dataset.to_table(["id"], nearest=nearest, filter=condition, prefilter=True)["id"].to_pylist()
    return set(ids)


def test_a_filter_that_is_asked_again_has_the_answer_of_its_version(indexed: Path) -> None:
    dataset = lancelet.dataset(str(indexed))
    query = np.ones(D)
    third = set(range(0, 600, 3))
    assert found(dataset, "id % 3 = 0", query) == found(dataset, "id % 3 = 0", -query) == third
    assert found(dataset, "id % 3 = 1", query) == set(range(1, 600, 3))
    before = dataset.version
    dataset.delete("id % 2 = 0")
    assert found(dataset, "id % 3 = 0", query) == {number for number in third if number % 2}
    assert found(dataset.checkout_version(before), "id % 3 = 0", query) == third
    for number in range(20):
        assert found(dataset, f"id % 30 = {2 * number + 1} OR id < 0", query) == {
            i for i in range(600) if i % 30 == 2 * number + 1
        }


def test_zeros_that_are_equal_are_not_one_filter(indexed: Path) -> None:
    dataset = lancelet.dataset(str(indexed))
    query = np.ones(D)
    for condition in ("x >= 0.0", "x >= -0.0", "x < 0.0", "x >= 0.0"):
        expected = set(dataset.to_table(["id"], filter=condition)["id"].to_pylist())
        assert found(dataset, condition, query) == expected


def test_what_is_drawn_by_chance_is_drawn_each_time(indexed: Path) -> None:
    dataset = lancelet.dataset(str(indexed))
    answers = [frozenset(found(dataset, "random() < 0.5", np.ones(D))) for _ in range(4)]
    assert len(set(answers)) > 1


def test_a_search_after_a_filter_is_exact_with_all_partitions(indexed: Path) -> None:
    dataset = lancelet.dataset(str(indexed))
    rows = dataset.to_table(["id", "v"], filter="id % 3 = 2")
    query = np.random.default_rng(3).normal(size=D)
    order = np.argsort(distances(rows["v"], query, "l2"))[:5]
    nearest = {"column": "v", "q": query, "k": 5, "nprobes": 2}
    got = dataset.to_table(["id"], nearest=nearest, filter="id % 3 = 2", prefilter=True)["id"].to_pylist()
    assert got == rows["id"].take(order).to_pylist()
