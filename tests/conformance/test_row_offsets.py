"""``_rowoffset`` is a row's number in the table, whatever part of the table is read and however."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet

STATES = ("plain", "stable ids", "indexed", "compacted")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("offsets")
    for state in STATES:
        rows = pa.table({"k": range(30), "v": [i * 7 % 31 for i in range(30)]})
        dataset = lance.write_dataset(
            rows, path / state, max_rows_per_file=10, enable_stable_row_ids=state == "stable ids"
        )
        dataset.delete("k in (0, 3, 12, 13, 29)")
        if state == "indexed":
            dataset.create_scalar_index("k", "BTREE")
        if state == "compacted":
            lance.write_dataset(rows.slice(0, 5), path / state, mode="append")
            lance.dataset(path / state).optimize.compact_files(target_rows_per_fragment=15)
    return path


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"limit": 5},
    {"limit": 5, "offset": 8},
    {"offset": 20},
    {"filter": "v < 5"},
    {"filter": "k > 15"},
    {"filter": "k > 15", "limit": 3, "offset": 2},
    {"filter": "_rowoffset > 5 and _rowoffset < 12"},
    {"filter": "_rowoffset = 9"},
    {"filter": "_rowoffset in (1, 2, 20)"},
    {"filter": "_rowoffset % 2 = 0 and k > 4"},
    {"filter": "_rowoffset > 20 or k = 1"},
    {"order_by": ["v"]},
    {"order_by": ["v"], "limit": 3, "offset": 1},
    {"order_by": ["_rowoffset"]},
    {"with_row_id": True, "with_row_address": True},
    {"batch_size": 4},
    {"filter": "v < 5", "late_materialization": False},
]
COLUMNS: list[Any] = [["k", "v", "_rowoffset"], ["_rowoffset", "v", "k"], {"_rowoffset": "_rowoffset", "k": "k"}]


def answer(ask: Any, dataset: Any) -> dict[str, Any] | None:
    """None where pylance has no answer: it loses ``_rowoffset`` in some of its plans."""
    try:
        return ask(dataset).to_pydict()
    except ValueError:
        assert isinstance(dataset, lance.LanceDataset)
        return None


def check(path: Path, ask: Any) -> dict[str, Any]:
    """Every row has its number, and pylance says the same if it says anything."""
    ours = answer(ask, lancelet.dataset(path))
    assert ours is not None
    table = lancelet.dataset(path).to_table(["k", "_rowaddr"])
    assert table.num_rows == lance.dataset(path).count_rows()
    numbers: dict[int, set[int]] = {}
    for number, k in enumerate(table["k"].to_pylist()):
        numbers.setdefault(k, set()).add(number)
    assert all(number in numbers[k] for k, number in zip(ours["k"], ours["_rowoffset"], strict=True))
    theirs = answer(ask, lance.dataset(path))
    assert theirs is None or ours == theirs
    return ours


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("columns", COLUMNS, ids=["last", "first", "expression"])
def test_scans(root: Path, state: str, columns: Any) -> None:
    for question in QUESTIONS:
        if state == "compacted" and "order_by" in question:
            continue  # it has ties
        check(root / state, lambda ds, question=question: ds.to_table(columns, **question))


@pytest.mark.parametrize("state", STATES)
def test_some_fragments(root: Path, state: str) -> None:
    count = len(lance.dataset(root / state).get_fragments())
    for size in range(1, count + 1):
        for some in itertools.permutations(range(count), size):
            for question in ({}, {"filter": "v < 5"}, {"limit": 4, "offset": 3}, {"filter": "k > 15"}):
                check(
                    root / state,
                    lambda ds, some=some, question=question: ds.scanner(
                        ["k", "_rowoffset"], fragments=[ds.get_fragments()[at] for at in some], **question
                    ).to_table(),
                )


def test_one_fragment(root: Path) -> None:
    for at in range(3):
        for condition in (None, "v < 15", "k > 12"):
            check(
                root / "plain",
                lambda ds, at=at, condition=condition: ds.get_fragments()[at].to_table(
                    columns=["k", "_rowoffset"], filter=condition
                ),
            )


@pytest.mark.parametrize("state", STATES)
def test_conditions_on_some_fragments(root: Path, state: str) -> None:
    """The number in a filter is the one in the result."""
    dataset = lancelet.dataset(root / state)
    (*_, last) = dataset.get_fragments()
    whole = dataset.scanner(["_rowoffset"], fragments=[last]).to_table()["_rowoffset"].to_pylist()
    assert whole[-1] == dataset.count_rows() - 1
    middle = whole[len(whole) // 2]
    found = dataset.scanner(["_rowoffset"], f"_rowoffset >= {middle}", fragments=[last]).to_table()
    assert found["_rowoffset"].to_pylist() == [number for number in whole if number >= middle]


@pytest.mark.parametrize("state", STATES)
def test_single_rows(root: Path, state: str) -> None:
    assert check(root / state, lambda ds: ds.take([5, 9, 1], ["k", "_rowoffset"]))["_rowoffset"] == [5, 9, 1]
    check(root / state, lambda ds: ds.head(3, columns=["k", "_rowoffset"]))


def test_counts(root: Path) -> None:
    for state in STATES:
        for condition in ("_rowoffset > 7", "_rowoffset in (3, 4) and k > 4", "_rowoffset < 3 or k > 20"):
            counted = lancelet.dataset(root / state).count_rows(filter=condition)
            assert counted == lancelet.dataset(root / state).to_table(filter=condition).num_rows
