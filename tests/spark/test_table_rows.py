"""The tasks of a change without Spark around them: whatever the rows and however they are dealt out, the table is right."""

from __future__ import annotations

import itertools

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import InvalidInput, MissingFile
from lancelet.spark.options import TableRef
from lancelet.spark.table.jobs import _answers
from lancelet.spark.table.rows import Changed, RowAction, RowJob, RowStep, change_rows, commit_changed
from lancelet.spark.table.values import stored_columns
from lancelet.table.commit.written import WrittenFiles

STEPS = (
    RowStep(RowAction.UPDATE, ("b",)),
    RowStep(RowAction.UPDATE, ("a", "b")),
    RowStep(RowAction.DELETE),
    RowStep(RowAction.INSERT, ("a", "id")),
)
_numbers = itertools.count()


@st.composite
def changes(draw):
    rows = draw(st.integers(1, 40))
    return {
        "rows": rows,
        "size": draw(st.integers(1, 15)),
        "stable": draw(st.booleans()),
        "spill": draw(st.booleans()),
        "dead": draw(st.sets(st.integers(0, rows - 1))),
        "steps": draw(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=rows, max_size=rows)),
        "new": draw(st.integers(0, 9)),
        "tasks": draw(st.integers(1, 4)),
        "batch": draw(st.integers(1, 12)),
        "seed": draw(st.integers(0, 99)),
    }


def batches_of(rows: list[tuple], size: int) -> list[pa.RecordBatch]:
    """Step, address and the values of a, b and id."""
    kinds = [pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.int64()]
    return [
        pa.RecordBatch.from_arrays(
            [pa.array(column, kind) for column, kind in zip(zip(*part, strict=True), kinds, strict=True)],
            names=["step", "address", "v0", "v1", "v2"],
        )
        for part in (rows[at : at + size] for at in range(0, len(rows), size))
    ]


@settings(max_examples=examples(60), deadline=None)
@given(changes())
def test_any_change(case):
    uri = f"memory://table-rows-{next(_numbers)}"
    ids = range(case["rows"])
    data = pa.table({"id": pa.array(ids), "a": pa.array([i * 10 for i in ids]), "b": pa.array([f"b{i}" for i in ids])})
    ds = lancelet.write_dataset(data, uri, max_rows_per_file=case["size"], enable_stable_row_ids=case["stable"])
    if case["spill"] and case["stable"]:
        ds.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "0"})
    if case["dead"]:
        ds.delete(f"id in ({', '.join(map(str, case['dead']))})")
    before = ds.scanner(columns=["id", "a", "b"], with_row_address=True, with_row_id=True).to_table().to_pylist()
    todo = [
        (step, row["_rowaddr"], 1000 + row["id"], f"new{row['id']}", None)
        for row in before
        if (step := case["steps"][row["id"]]) is not None
    ]
    todo += [(3, None, number, None, 500 + number) for number in range(case["new"])]
    dealt = np.random.default_rng(case["seed"]).integers(0, case["tasks"], len(todo))
    schema = ds.table.snapshot.manifest.schema
    stored = stored_columns(schema)
    job = RowJob(TableRef(uri, {}, ds.version), STEPS, pa.schema([stored.field(name) for name in ("a", "b", "id")]))
    done = Changed()
    for task in range(case["tasks"]):
        own = [row for row, owner in zip(todo, dealt.tolist(), strict=True) if owner == task]
        own.sort(key=lambda row: (row[1] is None, row[1]))
        result = change_rows(job, batches_of(own, case["batch"]))
        assert (result is None) == (not own)
        if result is not None:
            done.add(result)
    with WrittenFiles(ds.table.snapshot.store) as files:
        commit_changed(ds.table.snapshot, done, schema.fields, files)

    wanted = {}
    for row in before:
        step = case["steps"][row["id"]]
        new = {0: {"b": f"new{row['id']}"}, 1: {"a": 1000 + row["id"], "b": f"new{row['id']}"}}.get(step, {})
        if step != 2:
            wanted[row["id"]] = {"id": row["id"], "a": row["a"], "b": row["b"]} | new
    wanted |= {500 + n: {"id": 500 + n, "a": n, "b": None} for n in range(case["new"])}
    after = lancelet.dataset(uri)
    found = after.to_table(with_row_id=True).to_pylist()
    row_ids = {row["id"]: row.pop("_rowid") for row in found}
    assert {row["id"]: row for row in found} == wanted
    assert len(found) == len(wanted)
    assert len(set(row_ids.values())) == len(found)
    if case["stable"]:
        assert all(row_ids[row["id"]] == row["_rowid"] for row in before if row["id"] in row_ids)
    steps = [case["steps"][row["id"]] for row in before]
    assert (done.updated, done.deleted, done.inserted) == (
        steps.count(0) + steps.count(1),
        steps.count(2),
        case["new"],
    )
    assert done.twice is None
    assert after.verify(deep=True).ok


def test_rows_that_are_named_twice(tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1, 2], "a": [1, 2], "b": ["x", "y"]}), uri)
    job = RowJob(TableRef(uri, {}, 1), (RowStep(RowAction.DELETE),))
    once, twice = (batches_of([(0, address, None, None, None) for address in rows], 5) for rows in ([0, 1], [1, 1]))
    assert change_rows(job, twice).twice == 1
    done = Changed()
    for result in (change_rows(job, once), change_rows(job, once)):
        assert result.twice is None
        done.add(result)
    assert (done.twice, done.deleted) == (0, 2)
    assert change_rows(job, []) is None


def test_errors_that_stay_are_answers():
    """What a second try does not mend comes back as it is; the rest fails the task."""

    def fails(error: Exception):
        raise error

    answers = list(
        _answers([lambda: fails(InvalidInput("no")), lambda: 5, lambda: None, lambda: fails(MissingFile("x"))])
    )
    assert len(answers) == 3
    with pytest.raises(OSError, match="network"):
        list(_answers([lambda: fails(OSError("network"))]))
