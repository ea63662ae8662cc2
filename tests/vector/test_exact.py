"""Exact search: the nearest rows of brute force with doubles, in every state of a table, and those of pylance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.arrow import BFloat16Type

import lancelet
from vector.brute import TYPES, check_nearest, distances, odd_vectors, vector_array

D = 12


def rows_of(rng: np.random.Generator, first: int, count: int, element: str) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "word": [f"w{i % 7}" for i in ids], "v": odd_vectors(rng, count, D, element)})


def new_query(rng: np.random.Generator, element: str) -> Any:
    return rng.integers(0, 256, D).astype(np.uint8) if element == "uint8" else rng.normal(size=D).astype(element)


def check(dataset: lancelet.LanceDataset, rng: np.random.Generator, element: str, metric: str) -> None:
    """Searches of a table as it is: all rows, some of them, and fewer than asked for."""
    everything = dataset.to_table(with_row_id=True)
    query = new_query(rng, element)
    exact = distances(everything["v"], query, metric)
    ids = everything["_rowid"].to_numpy()
    for k in (1, 10, 1000):
        nearest = {"column": "v", "q": query, "k": k, "metric": metric}
        found = dataset.to_table(["id", "v", "_distance"], nearest=nearest, with_row_id=True)
        check_nearest(found, ids, exact, k)
        # Other columns are those of the same rows.
        places = [int(np.flatnonzero(ids == row)[0]) for row in found["_rowid"].to_pylist()]
        assert found["id"].to_pylist() == everything["id"].take(places).to_pylist()
    for condition in ("id % 3 = 0", "word = 'w2'", "id BETWEEN 20 AND 40", "id < 0"):
        nearest = {"column": "v", "q": query, "k": 9, "metric": metric}
        columns = ["_distance"]
        passing = np.isin(ids, dataset.to_table([], filter=condition, with_row_id=True)["_rowid"].to_numpy())
        found = dataset.to_table(columns, nearest=nearest, filter=condition, prefilter=True, with_row_id=True)
        check_nearest(found, ids[passing], exact[passing], 9)
        after = dataset.to_table(columns, nearest=nearest, filter=condition, with_row_id=True)["_rowid"].to_pylist()
        plain = dataset.to_table(columns, nearest=nearest, with_row_id=True)["_rowid"].to_pylist()
        assert after == [row for row in plain if row in set(ids[passing].tolist())]


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(("element", "metric", "stable"), [(*pair, at % 2 == 1) for at, pair in enumerate(TYPES)])
def test_a_search_is_brute_force_after_every_change(tmp_path: Path, element: str, metric: str, stable: bool) -> None:
    check_history(tmp_path, element, metric, stable)


@pytest.mark.soak
@pytest.mark.parametrize(("element", "metric", "stable"), [(*pair, at % 2 == 0) for at, pair in enumerate(TYPES)])
def test_the_same_with_the_other_kind_of_row_ids(tmp_path: Path, element: str, metric: str, stable: bool) -> None:
    check_history(tmp_path, element, metric, stable)


def check_history(tmp_path: Path, element: str, metric: str, stable: bool) -> None:
    rng = np.random.default_rng(len(element) * 100 + len(metric) * 10 + stable)
    where = str(tmp_path / "t")
    data = rows_of(rng, 0, 120, element)
    dataset = lancelet.write_dataset(data, where, max_rows_per_file=50, enable_stable_row_ids=stable)
    check(dataset, rng, element, metric)
    dataset.delete("id % 5 = 1")
    check(dataset, rng, element, metric)
    dataset = lancelet.write_dataset(rows_of(rng, 120, 40, element), where, mode="append")
    dataset.create_scalar_index("id", "BTREE")
    dataset.update({"word": "'w2'"}, where="id % 4 = 2")
    check(dataset, rng, element, metric)
    dataset.optimize.compact_files()
    check(dataset, rng, element, metric)
    dataset = lancelet.write_dataset(rows_of(rng, 160, 30, element), where, mode="append")
    check(dataset, rng, element, metric)
    query = new_query(rng, element)
    nearest = {"column": "v", "q": query, "k": 25, "metric": metric}
    theirs = lance.dataset(where).to_table(["_distance"], nearest=nearest, with_row_id=True)
    ours = dataset.to_table(["_distance"], nearest=nearest, with_row_id=True)
    np.testing.assert_allclose(ours["_distance"], theirs["_distance"], rtol=1e-5, atol=1e-5)
    if metric in ("l2", "hamming"):
        assert ours["_rowid"].to_pylist() == theirs["_rowid"].to_pylist()


@pytest.mark.parametrize(("element", "metric"), TYPES)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_batch_gives_each_query_its_own_answer(version: str, element: str, metric: str) -> None:
    rng = np.random.default_rng(11)
    where = f"memory://exact/batch-{version}-{element}-{metric}"
    data = rows_of(rng, 0, 300, element)
    dataset = lancelet.write_dataset(data, where, data_storage_version=version, max_rows_per_file=170)
    dataset.delete("id % 9 = 4")
    queries = np.stack([new_query(rng, element) for _ in range(7)])
    nearest: dict[str, Any] = {"column": "v", "k": 6, "metric": metric}
    found = dataset.to_table(["id", "_distance"], nearest=nearest | {"q": queries}, with_row_id=True)
    assert found.column_names == ["query_index", "id", "_distance", "_rowid"]
    assert found.schema.field("query_index") == pa.field("query_index", pa.int32(), nullable=False)
    for number, query in enumerate(queries):
        part = found.filter(pc.equal(found["query_index"], number)).drop_columns(["query_index"])
        alone = dataset.to_table(["id", "_distance"], nearest=nearest | {"q": query}, with_row_id=True)
        np.testing.assert_allclose(part["_distance"], alone["_distance"], rtol=1e-6, atol=1e-6)
        if metric in ("l2", "hamming"):
            assert part["id"].to_pylist() == alone["id"].to_pylist()


@pytest.mark.parametrize("d", [1, 3, 64, 257])
def test_vectors_of_any_length_and_number(d: int) -> None:
    rng = np.random.default_rng(d)
    values = rng.normal(size=(5000, d)).astype(np.float32)
    dataset = lancelet.write_dataset(pa.table({"v": vector_array(values, "float32")}), f"memory://exact/length-{d}")
    query = rng.normal(size=d)
    found = dataset.to_table(["_distance"], nearest={"column": "v", "q": query, "k": 50}, with_row_id=True)
    check_nearest(found, np.arange(5000, dtype=np.uint64), distances(vector_array(values, "float32"), query, "l2"), 50)


def test_an_empty_table_and_a_table_of_nulls_have_nothing_near() -> None:
    empty = pa.table({"v": pa.array([], pa.list_(pa.float32(), 3))})
    nulls = pa.table({"v": pa.nulls(5, pa.list_(pa.float32(), 3))})
    for number, data in enumerate((empty, nulls)):
        dataset = lancelet.write_dataset(data, f"memory://exact/empty-{number}")
        for query in ([1, 2, 3], [[1, 2, 3], [4, 5, 6]]):
            scanner = dataset.scanner(nearest={"column": "v", "q": query})
            assert scanner.to_table().num_rows == scanner.count_rows() == 0
            assert scanner.to_table().schema == scanner.projected_schema


def test_a_column_without_values_in_some_fragments() -> None:
    """A fragment from before the column was added has nulls, also where no file has them."""
    dataset = lancelet.write_dataset({"id": range(4)}, "memory://exact/added")
    dataset.add_columns(pa.schema([pa.field("v", pa.list_(pa.float32(), 2))]))
    more = pa.table({"id": [9], "v": pa.array([[1, 1]], pa.list_(pa.float32(), 2))})
    dataset = lancelet.write_dataset(more, dataset.uri, mode="append")
    found = dataset.to_table(["id", "_distance"], nearest={"column": "v", "q": [0, 0]})
    assert found.to_pydict() == {"id": [9], "_distance": [2.0]}


def test_distances_in_a_range() -> None:
    values = np.arange(20, dtype=np.float32)[:, None]
    dataset = lancelet.write_dataset(pa.table({"v": vector_array(values, "float32")}), "memory://exact/range")

    def found(lower: float | None, upper: float | None, k: int = 4) -> list[float]:
        nearest = {"column": "v", "q": [0], "k": k, "distance_range": (lower, upper)}
        marks: list[float] = dataset.to_table(["_distance"], nearest=nearest)["_distance"].to_pylist()
        return marks

    assert found(4, 25) == [4, 9, 16]
    assert found(5, None) == [9, 16, 25, 36]
    assert found(None, 9) == [0, 1, 4]
    assert found(9, 9) == found(10, 3) == []
    assert found(None, float("inf"), 50) == [float(i * i) for i in range(20)]
    values[3] = np.inf
    dataset = lancelet.write_dataset(pa.table({"v": vector_array(values, "float32")}), "memory://exact/infinite")
    assert float("inf") not in found(None, float("inf"), 50)
    assert float("inf") in found(0, None, 50)


def multivectors() -> pa.Array:
    return pa.array(
        [
            [[1, 0, 0, 0], [0, 1, 0, 0]],
            [[0, 0, 0, 0]],
            None,
            [],
            [[0, 2, 0, 0], [2, 0, 0, 0], [1, 1, 0, 0]],
            [[1, 0, 1, 0], None],
            [[0.5, 0.25, 0, 0], [np.nan, 0, 0, 0]],
        ],
        pa.list_(pa.list_(pa.float32(), 4)),
    )


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_a_row_of_several_vectors_is_as_near_as_the_nearest_of_them(metric: str, large: bool) -> None:
    vectors = multivectors()
    data = vectors.cast(pa.large_list(vectors.type.value_type)) if large else vectors
    table = pa.table({"id": range(7), "v": data})
    dataset = lancelet.write_dataset(table, f"memory://exact/multi-{metric}-{large}", max_rows_per_file=4)
    queries = np.array([[1, 0.5, 0, 0], [0, 1, 0, 0.25]], np.float32)
    expected = {}
    for row, inner in enumerate(vectors.to_pylist()):
        here = [vector for vector in inner or [] if vector is not None]
        if here:
            array = vector_array(np.array(here), "float32")
            each = [distances(array, query, metric) for query in queries]
            if not any(np.isnan(part).all() for part in each):
                expected[row] = sum(np.nanmin(part) for part in each)
    nearest = {"column": "v", "q": queries, "metric": metric}
    found = dataset.to_table(["id", "_distance"], nearest=nearest)
    assert set(found["id"].to_pylist()) == set(expected)
    assert found["_distance"].to_pylist() == pytest.approx([expected[row] for row in found["id"].to_pylist()], abs=1e-6)
    assert found["_distance"].to_pylist() == sorted(found["_distance"].to_pylist())
    alone = dataset.to_table(["_distance"], nearest=nearest | {"q": queries[:1]})["_distance"].to_pylist()
    assert alone == dataset.to_table(["_distance"], nearest=nearest | {"q": queries[0]})["_distance"].to_pylist()


def test_random_multivectors_are_pylances(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 6, 80)
    flat = vector_array(rng.normal(size=(counts.sum(), 8)), "float32")
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    table = pa.table({"v": pa.ListArray.from_arrays(offsets, flat)})
    ours = lancelet.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=30)
    ours.delete("_rowid % 4 = 1")
    query = rng.normal(size=(3, 8)).astype(np.float32)
    nearest = {"column": "v", "q": query, "k": 20, "metric": "cosine"}
    mine, theirs = (
        dataset.to_table(["_distance"], nearest=nearest, with_row_id=True)
        for dataset in (ours, lance.dataset(str(tmp_path / "t")))
    )
    assert mine["_rowid"].to_pylist() == theirs["_rowid"].to_pylist()
    np.testing.assert_allclose(mine["_distance"], theirs["_distance"], rtol=1e-5, atol=1e-6)


def nested(values: pa.Array) -> pa.Table:
    return pa.table({"a": pa.StructArray.from_arrays([values, pa.array(range(len(values)))], ["b", "c"])})


def tensors(values: pa.Array) -> pa.Table:
    return pa.table({"v": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [3, 4]), values)})


@pytest.mark.parametrize(("make", "column"), [(nested, "a.b"), (tensors, "v")])
@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_vectors_inside_structs_and_tensors(
    tmp_path: Path, make: Callable[[pa.Array], pa.Table], column: str, version: str
) -> None:
    rng = np.random.default_rng(8)
    where = str(tmp_path / "t")
    ours = lancelet.write_dataset(
        make(vector_array(rng.normal(size=(90, D)), "float32")),
        where,
        max_rows_per_file=40,
        data_storage_version=version,
    )
    ours.delete("_rowid % 6 = 2")
    nearest = {"column": column, "q": rng.normal(size=D), "k": 30}
    mine, theirs = (dataset.to_table(nearest=nearest, with_row_id=True) for dataset in (ours, lance.dataset(where)))
    assert mine.drop_columns(["_distance"]).equals(theirs.drop_columns(["_distance"]))
    np.testing.assert_allclose(mine["_distance"], theirs["_distance"], rtol=1e-5)


def test_a_null_struct_has_no_vector() -> None:
    """pylance finds these rows, as if their vectors were zeros."""
    vectors = pa.array([[1, 0], [2, 0], [3, 0]], pa.list_(pa.float32(), 2))
    structs = pa.StructArray.from_arrays([vectors], ["b"], mask=pa.array([False, True, False]))
    dataset = lancelet.write_dataset(pa.table({"a": structs}), "memory://exact/null-struct", data_storage_version="2.1")
    found = dataset.to_table(["_distance"], nearest={"column": "a.b", "q": [0, 0]}, with_row_id=True)
    assert found.to_pydict() == {"_distance": [1.0, 9.0], "_rowid": [0, 2]}


def test_bfloat16_vectors() -> None:
    rng = np.random.default_rng(9)
    bits = (rng.normal(size=(40, 5)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    storage = pa.Array.from_buffers(pa.binary(2), bits.size, [None, pa.py_buffer(bits.tobytes())])
    items = pa.ExtensionArray.from_storage(BFloat16Type(), storage)
    dataset = lancelet.write_dataset(
        pa.table({"v": pa.FixedSizeListArray.from_arrays(items, 5)}), "memory://exact/bfloat16"
    )
    values = (bits.astype(np.uint32) << 16).view(np.float32)
    for metric in ("l2", "cosine", "dot"):
        query = rng.normal(size=5).astype(np.float32)
        nearest = {"column": "v", "q": query, "k": 40, "metric": metric}
        found = dataset.to_table(["_distance"], nearest=nearest, with_row_id=True)
        exact = distances(vector_array(values, "float32"), query, metric)
        check_nearest(found, np.arange(40, dtype=np.uint64), exact, 40)
    found = dataset.to_table(["_distance"], nearest={"column": "v", "q": items[:5], "k": 1}, with_row_id=True)
    assert found.to_pydict() == {"_distance": [0.0], "_rowid": [0]}


def test_a_vector_with_a_null_in_it_is_near_nothing() -> None:
    vectors = pa.array([[1, 0], [None, 0], [3, 0]], pa.list_(pa.float32(), 2))
    dataset = lancelet.write_dataset(pa.table({"v": vectors}), "memory://exact/null-element")
    found = dataset.to_table(["_distance"], nearest={"column": "v", "q": [0, 0]}, with_row_id=True)
    assert found.to_pydict() == {"_distance": [1.0, 9.0], "_rowid": [0, 2]}


def test_masks_and_fragments_choose_the_rows_that_are_searched(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    where = str(tmp_path / "t")
    values = vector_array(rng.normal(size=(60, D)), "float32")
    dataset = lancelet.write_dataset(pa.table({"v": values}), where, max_rows_per_file=20)
    query = rng.normal(size=D)
    exact = distances(values, query, "l2")
    nearest = {"column": "v", "q": query, "k": 8}
    scanner = dataset.scanner(["_distance"], nearest=nearest, with_row_id=True, fragments=dataset.get_fragments()[1:2])
    addresses = (np.uint64(1) << np.uint64(32)) + np.arange(20, dtype=np.uint64)
    check_nearest(scanner.to_table(), addresses, exact[20:40], 8)
    from lancelet.index.row_set import RowSet

    few = np.array([3, 5, 17, (2 << 32) + 4], np.uint64)
    mask = RowSet.of(few).serialize()
    found = dataset.to_table(["_distance"], nearest=nearest, with_row_id=True, row_addr_allowlist=mask)
    check_nearest(found, few, exact[[3, 5, 17, 44]], 8)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_many_tables_of_many_shapes(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    where = str(tmp_path / "t")
    element, metric = TYPES[seed % len(TYPES)]
    dataset = lancelet.write_dataset(
        rows_of(rng, 0, int(rng.integers(1, 4000)), element),
        where,
        max_rows_per_file=int(rng.integers(1, 900)) + 100,
        enable_stable_row_ids=bool(rng.integers(0, 2)),
        data_storage_version=["2.0", "2.1", "2.2"][seed % 3],
    )
    for step in range(8):
        match int(rng.integers(0, 4)):
            case 0:
                dataset.delete(f"id % 13 = {step}")
            case 1:
                dataset.update({"word": "'w2'"}, where=f"id % 11 = {step}")
            case 2:
                dataset.optimize.compact_files()
            case _:
                dataset = lancelet.write_dataset(rows_of(rng, 10_000 * (step + 1), 50, element), where, mode="append")
        check(dataset, rng, element, metric)
