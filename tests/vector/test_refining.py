"""Rows that an index found, compared again by their vectors: where these lie in a mapped file, or as they are read."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.execution import fragment_reader
from vector.samples import TYPES, column

ROWS = 900
WIDTH = 64
"""Shorter vectors are packed."""


def vectors(dtype: str, rows: int = ROWS, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, WIDTH)).astype(TYPES[dtype])


def refined(dataset: lancelet.LanceDataset, query: np.ndarray, name: str = "v") -> pa.Table:
    nearest = {"column": name, "q": query, "k": 12, "nprobes": 3, "refine_factor": 100}
    return dataset.to_table(columns=["id", "_distance"], with_row_id=True, nearest=nearest)


def check(dataset: lancelet.LanceDataset, values: np.ndarray, left_out: set[int], name: str = "v") -> None:
    """The nearest rows by brute force, all of which have their own distances."""
    for query in vectors("f32", 3, seed=11).astype(values.dtype):
        exact = ((values.astype(np.float64) - query) ** 2).sum(axis=1)
        exact[list(left_out)] = np.inf
        found = refined(dataset, query, name)
        assert found["id"].to_pylist() == np.argsort(exact, kind="stable")[:12].tolist()
        np.testing.assert_allclose(found["_distance"].to_numpy(), exact[found["id"].to_numpy()], rtol=1e-5)
        again = dataset._take_rows(found["_rowid"].to_pylist(), columns=["id"])
        assert again["id"].to_pylist() == found["id"].to_pylist()


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_refined_rows_are_the_nearest_whatever_the_files_are(tmp_path: Path, version: str, stable: bool) -> None:
    values = vectors("f32")
    table = pa.table({"id": np.arange(ROWS), "v": column(values)})
    options = {"data_storage_version": version, "enable_stable_row_ids": stable and version != "0.1"}
    # pylance cuts columns into pages of its own sizes.
    lance.write_dataset(table, tmp_path, max_rows_per_file=400, **options)
    dataset = lancelet.dataset(tmp_path)
    dataset.create_index("v", "IVF_PQ", num_partitions=3, num_sub_vectors=2)
    check(dataset, values, set())
    dataset.delete("id % 5 = 2")
    check(dataset, values, set(range(2, ROWS, 5)))


@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_refined_rows_of_other_numbers(tmp_path: Path, dtype: str) -> None:
    values = vectors(dtype)
    dataset = lancelet.write_dataset(pa.table({"id": np.arange(ROWS), "v": column(values)}), tmp_path)
    dataset.create_index("v", "IVF_SQ", num_partitions=3)
    check(dataset, values, set())


def test_nulls_and_fields_of_structs_are_read(tmp_path: Path) -> None:
    values = vectors("f32")
    kind = pa.list_(pa.float32(), WIDTH)
    gone = set(range(1, ROWS, 7))
    nullable = pa.array([None if at in gone else row for at, row in enumerate(values.tolist())], kind)
    inner = pa.StructArray.from_arrays([column(values)], ["v"])
    dataset = lancelet.write_dataset(pa.table({"id": np.arange(ROWS), "v": nullable, "s": inner}), tmp_path)
    for name in ("v", "s.v"):
        dataset.create_index(name, "IVF_PQ", num_partitions=3, num_sub_vectors=2)
    check(dataset, values, gone)
    check(dataset, values, set(), "s.v")


@pytest.mark.parametrize("large", [False, True])
def test_vectors_of_mapped_files_are_found_as_they_lie_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Pages as they are in the file are known to be so; those with nulls among the vectors are not. Of large files, rows are copied."""
    monkeypatch.setattr(fragment_reader, "NOT_RESIDENT", 1 if large else 1 << 40)
    values = vectors("f32")
    table = pa.table({"id": np.arange(ROWS), "v": column(values)})
    dataset = lancelet.write_dataset(table, tmp_path, max_rows_per_file=500)
    (field,) = dataset.table.snapshot.manifest.schema.project(["v"]).fields
    for owner, first in ((0, 0), (1, 500)):
        rows = np.array([3, 0, 399, 7])
        found = dataset.table.reader(owner).records(field, rows)
        assert found is not None
        assert (len(found.data) == 4 * found.size) is large
        for row, place in zip(rows.tolist(), found.places.tolist(), strict=True):
            assert found.data[place : place + found.size].tobytes() == values[first + row].tobytes()
    # No more of them than may be in memory at once.
    with monkeypatch.context() as few:
        few.setattr(fragment_reader, "MOST_COPIED", 3 * values.itemsize * WIDTH)
        mapped = dataset.table.reader(0).records(field, np.arange(4))
        assert mapped is not None
        assert len(mapped.data) > 4 * mapped.size
    (number,) = dataset.table.snapshot.manifest.schema.project(["id"]).fields
    assert dataset.table.reader(0).records(number, np.array([1])) is None
    dataset.create_index("v", "IVF_PQ", num_partitions=3, num_sub_vectors=2)
    check(dataset, values, set())
