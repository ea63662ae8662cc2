"""Few rows by number, id or search, of tables in every state: what pylance gives, in the order that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
from lancelet.execution import fragment_reader
from lancelet.execution.single_rows import pick_rows_together
from lancelet.testing import assert_identical

ROWS = 900


def table(seed: int, rows: int = ROWS) -> pa.Table:
    draws = np.random.default_rng(seed)
    mask = draws.random(rows) < 0.2
    return pa.table(
        {
            "n": draws.integers(0, 10**9, rows),
            "small": pa.array(draws.integers(-5, 5, rows), pa.int8(), mask=mask),
            "flag": pa.array(draws.random(rows) < 0.5, mask=mask),
            "text": pa.array(np.char.add("text ", draws.integers(0, 10**6, rows).astype(str)), mask=mask),
            "category": pa.array(np.array(["ä", "bb", "c" * 20])[draws.integers(0, 3, rows)]),
            "vector": pa.FixedSizeListArray.from_arrays(draws.random(rows * 4, np.float32), 4),
            "wide": pa.FixedSizeListArray.from_arrays(draws.random(rows * 64, np.float32), 64),
            "bytes": pa.FixedSizeListArray.from_arrays(draws.integers(0, 256, rows * 300, np.uint8), 300),
            "some": pa.FixedSizeListArray.from_arrays(draws.random(rows * 64), 64, mask=pa.array(mask)),
        }
    )


def _plain(where: Path, **options: Any) -> None:
    lance.write_dataset(table(0), where, max_rows_per_file=100, **options)


def _deleted(where: Path, **options: Any) -> None:
    _plain(where, **options)
    lance.dataset(where).delete("n % 7 = 0")


def _updated(where: Path, **options: Any) -> None:
    _deleted(where, **options)
    lance.dataset(where).update({"small": "small + 1"}, where="n % 5 = 0")
    lance.write_dataset(table(1, 77), where, mode="append")


def _more_columns(where: Path, **options: Any) -> None:
    _deleted(where, **options)
    lance.dataset(where).add_columns({"more": "n + 1"})


def _half_a_column(where: Path, **options: Any) -> None:
    _plain(where, **options)
    dataset = lance.dataset(where)
    dataset.add_columns(pa.field("later", pa.int32()))
    more = table(2, 50).append_column("later", pa.array(range(50), pa.int32()))
    lance.write_dataset(more, where, mode="append")


STATES: dict[str, Callable[..., None]] = {
    "plain": _plain,
    "deleted": _deleted,
    "updated": _updated,
    "more columns": _more_columns,
    "half a column": _half_a_column,
}


@pytest.fixture(autouse=True, params=["mapped", "copied"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether vectors are copied out of files, as of large ones."""
    monkeypatch.setattr(fragment_reader, "NOT_RESIDENT", 1 if request.param == "copied" else 1 << 40)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_takes_of_tables_in_every_state(tmp_path: Path, version: str, state: str, stable: bool) -> None:
    STATES[state](tmp_path, data_storage_version=version, enable_stable_row_ids=stable)
    ours, theirs = lancelet.dataset(tmp_path), lance.dataset(tmp_path)
    names = [name for name in theirs.schema.names if name != "vector"]
    draws = np.random.default_rng(len(state))
    expressions = {"twice": "n * 2", "text": "text", "w": "wide"}
    wide = ["wide", "n", "bytes"]
    for columns in (names, names[:1], ["text"], None, ["vector", "n"], wide, ["some", "wide"], ["wide"], expressions):
        for rows in (draws.integers(0, ours.count_rows(), 25).tolist(), [3, 3, 0, 500, 3]):
            assert_identical(ours.take(rows, columns=columns), theirs.take(rows, columns=columns))
    ids = theirs.to_table(columns=[], with_row_id=True)["_rowid"].to_numpy()
    wanted = draws.choice(ids, 30).tolist()
    assert_identical(ours._take_rows(wanted, columns=names), theirs._take_rows(wanted, columns=names))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_columns_of_found_rows(tmp_path: Path, state: str, stable: bool) -> None:
    STATES[state](tmp_path, enable_stable_row_ids=stable)
    ours, theirs = lancelet.dataset(tmp_path), lance.dataset(tmp_path)
    whole = theirs.to_table(with_row_id=True, with_row_address=True)
    nearest = {"column": "vector", "q": np.full(4, 0.3, np.float32), "k": 12}
    expressions = {"m": "n + 1", "_distance": "_distance", "w": "wide"}
    for columns in (
        ["n", "text", "_distance"],
        ["category", "_distance"],
        ["n", "wide", "_distance"],
        None,
        expressions,
    ):
        for extra in ({}, {"with_row_id": True}, {"with_row_id": True, "with_row_address": True}):
            found = ours.to_table(columns=columns, nearest=nearest, **extra)
            assert_identical(found, theirs.to_table(columns=columns, nearest=nearest, **extra))
            if extra:
                places = pc.index_in(found["_rowid"], whole["_rowid"])
                assert_identical(
                    found.drop_columns(["_distance"]).select(["_rowid"]), whole.take(places).select(["_rowid"])
                )


def test_rows_of_several_fragments_are_picked_together(tmp_path: Path) -> None:
    """If these went the long way, nobody would see it but by its time."""
    _deleted(tmp_path)
    dataset = lancelet.dataset(tmp_path)
    names = ["n", "wide", "small", "flag", "bytes", "text", "category"]
    reader = dataset._table
    fields = [reader.snapshot.manifest.schema.field_by_path((name,)) for name in names]
    owners, offsets = np.array([7, 0, 3, 0]), np.array([1, 5, 99, 5])
    found = pick_rows_together(reader, fields, owners, offsets)
    assert found is not None
    assert pa.table(found, names).equals(table(0).select(names).take(pa.array(owners * 100 + offsets)).combine_chunks())
    assert (
        pick_rows_together(reader, [reader.snapshot.manifest.schema.field_by_path(("vector",))], owners, offsets)
        is None
    )
