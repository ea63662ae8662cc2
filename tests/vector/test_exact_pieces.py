"""Exact search over vectors that lie in mapped files as they are: there, or copied piece by piece where they have no room in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
from lancelet.encoding.rows import RowRange
from lancelet.encoding.v2_1.column import Records
from lancelet.execution import fragment_reader
from lancelet.store import source
from vector.brute import TYPES, check_nearest, distances, vector_array

D = 8
ROWS = 700


@pytest.fixture(autouse=True, params=["held", "copied"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Room for all of the files, or for none; pieces are of 16 rows or less."""
    if request.param == "copied":
        monkeypatch.setattr(source, "HELD_LIMIT", -1)
    monkeypatch.setattr(fragment_reader, "COPIED_AT_ONCE", 512)
    return str(request.param)


def vectors(rows: int, seed: int, element: str) -> np.ndarray:
    draws = np.random.default_rng(seed)
    if element == "uint8":
        return draws.integers(0, 256, (rows, D)).astype(np.uint8)
    return draws.normal(size=(rows, D)).astype(element)


def table_of(values: np.ndarray, element: str, first: int = 0) -> pa.Table:
    """Vectors that are written as they are, however short."""
    array = vector_array(values, element)
    stored = pa.field("v", array.type, metadata={"lance-encoding:structural-encoding": "fullzip"})
    return pa.table([np.arange(first, first + len(values)), array], schema=pa.schema([("id", pa.int64()), stored]))


@pytest.mark.parametrize(("element", "metric"), TYPES)
@pytest.mark.parametrize("stable", [False, True])
def test_a_search_is_brute_force(tmp_path: Path, element: str, metric: str, stable: bool) -> None:
    table = table_of(vectors(ROWS, 0, element), element)
    dataset = lancelet.write_dataset(table, tmp_path, max_rows_per_file=300, enable_stable_row_ids=stable)
    dataset = lancelet.write_dataset(table_of(vectors(9, 1, element), element, ROWS), tmp_path, mode="append")
    (field,) = dataset.table.snapshot.manifest.schema.project(["v"]).fields
    assert dataset.table.reader(0).pieces(field, RowRange(0, 5)) is not None
    queries = vectors(3, 2, element)
    for condition in (None, "id % 11 = 3", "id > 40 AND id < 650"):
        if condition is not None:
            dataset.delete(condition if condition.startswith("id %") else "id = 77")
        everything = dataset.to_table(with_row_id=True)
        ids = everything["_rowid"].to_numpy()
        keep = np.ones(len(ids), np.bool_)
        if condition is not None:
            passing = dataset.to_table([], filter=condition, with_row_id=True)["_rowid"].to_numpy()
            keep = np.isin(ids, passing)
        filtered = {} if condition is None else {"filter": condition, "prefilter": True}
        for q in queries:
            exact = distances(everything["v"], q, metric)
            nearest = {"column": "v", "q": q, "k": 12, "metric": metric}
            found = dataset.to_table(["_distance"], nearest=nearest, with_row_id=True, **filtered)
            check_nearest(found, ids[keep], exact[keep], 12)
        nearest = {"column": "v", "q": queries, "k": 12, "metric": metric}
        together = dataset.to_table(["_distance"], nearest=nearest, with_row_id=True, **filtered)
        for number, q in enumerate(queries):
            own = together.filter(pc.equal(together["query_index"], number))
            check_nearest(own, ids[keep], distances(everything["v"], q, metric)[keep], 12)


def test_pieces_are_the_rows_in_their_order(tmp_path: Path, room: str) -> None:
    values = vectors(ROWS, 0, "float32")
    dataset = lancelet.write_dataset(table_of(values, "float32"), tmp_path)
    schema = dataset.table.snapshot.manifest.schema
    (field,) = schema.project(["v"]).fields
    reader = dataset.table.reader(0)
    for start, stop in ((0, ROWS), (3, 4), (15, 17), (0, 16), (699, 700), (5, 5)):
        found = reader.pieces(field, RowRange(start, stop))
        assert found is not None
        at = 0
        for place, data in found:
            assert place == at
            assert data.tobytes() == values[start + at : start + at + len(data)].tobytes()
            assert room == "held" or data.nbytes <= 512
            at += len(data)
        assert at == stop - start
    (number,) = schema.project(["id"]).fields
    assert reader.pieces(number, RowRange(0, 5)) is None


def test_a_file_that_was_removed_is_still_searched(tmp_path: Path) -> None:
    values = vectors(ROWS, 0, "float32")
    dataset = lancelet.write_dataset(table_of(values, "float32"), tmp_path)
    nearest = {"column": "v", "q": values[5], "k": 3}
    before = dataset.to_table(["_distance"], nearest=nearest, with_row_id=True)
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    assert dataset.to_table(["_distance"], nearest=nearest, with_row_id=True).equals(before)


def test_rows_of_several_pages_lie_in_several_runs() -> None:
    starts, places = np.array([0, 10, 11, 40]), np.array([1000, 5000, 300, 0])
    records = Records(np.empty(0, np.uint8), 4, starts, places)
    for start, stop in ((0, 50), (9, 12), (10, 11), (3, 8), (39, 41), (7, 7), (11, 40)):
        runs = list(records.runs(RowRange(start, stop)))
        rows = [row for rows, _ in runs for row in range(rows.start, rows.stop)]
        assert rows == list(range(start, stop))
        found = [begin + 4 * at for rows, begin in runs for at in range(len(rows))]
        assert found == records.at(np.array(rows, np.int64)).tolist()
