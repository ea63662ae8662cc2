"""How reads are cut into tasks; no Spark needed."""

from __future__ import annotations

import pickle
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import InvalidInput
from lancelet.spark.chosen_rows import Order
from lancelet.spark.options import chosen_types, read_options, size
from lancelet.spark.plan import ReadJob, Split, plan_splits, read_split


def make(uri: str, rows: list[int], text: int = 20) -> lancelet.LanceDataset:
    start = 0
    for count in rows:
        ids = np.arange(start, start + count)
        data = pa.table({"id": ids, "s": [f"{i:0{text}d}" for i in ids], "st": [{"a": int(i), "b": "x"} for i in ids]})
        lancelet.write_dataset(data, uri, mode="append")
        start += count
    return lancelet.dataset(uri)


def job_of(ds: lancelet.LanceDataset, **more: object) -> ReadJob:
    return ReadJob(ds.uri, ds.version, **{"columns": ("id",), **more})


def ids_of(job: ReadJob, splits: list) -> list[int]:
    return [i for split in splits for batch in read_split(job, split) for i in batch.column("id").to_pylist()]


@settings(max_examples=examples(20))
@given(
    rows=st.lists(st.integers(1, 6000), min_size=1, max_size=4),
    split_bytes=st.sampled_from([1, 5_000, 40_000, 10**9]),
    deleted=st.sampled_from([None, "id % 3 = 0", "id < 2500"]),
    condition=st.sampled_from([None, "id % 7 = 1"]),
    limit=st.sampled_from([None, 0, 1, 700, 10**6]),
)
def test_splits_give_every_row_once(rows, split_bytes, deleted, condition, limit):
    ds = make(f"memory://splits/{uuid.uuid4()}", rows)
    if deleted is not None:
        ds.delete(deleted)
    job = job_of(ds, filter=condition)
    splits = plan_splits(ds.table.snapshot, job, split_bytes=split_bytes, limit=limit)
    expected = ds.to_table(columns=["id"], filter=condition, limit=limit)["id"].to_pylist()
    assert ids_of(job, splits) == expected


def test_large_fragments_are_cut_and_small_ones_packed(uri):
    ds = make(uri, [50_000, 100, 100, 100])
    whole = sum(file.file_size_bytes for file in ds.get_fragments()[0].metadata.files)
    splits = plan_splits(ds.table.snapshot, job_of(ds, columns=("id", "s", "st")), split_bytes=whole // 4 + 1)
    sizes = [sum(last - first for _, first, last in split.pieces) for split in splits]
    assert sizes == [12_500, 12_500, 12_500, 12_800]
    assert [len(split.pieces) for split in splits] == [1, 1, 1, 4]
    packed = plan_splits(ds.table.snapshot, job_of(ds, columns=("id", "s", "st")), split_bytes=2 * whole)
    assert [len(split.pieces) for split in packed] == [4]


def test_splits_are_small_values(uri):
    ds = make("memory://splits/many", [3] * 300)
    job = job_of(ds)
    splits = plan_splits(ds.table.snapshot, job)
    assert len(splits) == 2
    assert all(len(pickle.dumps(split)) < 4096 for split in splits)
    assert len(pickle.dumps(job)) < 4096
    assert ids_of(pickle.loads(pickle.dumps(job)), pickle.loads(pickle.dumps(splits))) == list(range(900))


def test_wide_tables_are_cut_by_what_is_read(uri):
    rows = 20_000
    data = pa.table(
        {"id": np.arange(rows), "v": pa.array(list(np.random.default_rng(1).random((rows, 256), np.float32)))}
    )
    ds = lancelet.write_dataset(data, uri)
    narrow = plan_splits(ds.table.snapshot, job_of(ds), split_bytes=4 << 20)
    wide = plan_splits(ds.table.snapshot, job_of(ds, columns=("id", "v")), split_bytes=4 << 20)
    assert len(narrow) < len(wide)


@pytest.mark.parametrize("parallelism", [1, 3, 50])
def test_splits_are_as_many_as_tasks_can_run(parallelism):
    rows = 300_000
    data = pa.table(
        {
            "id": np.random.default_rng(2).integers(0, 2**62, rows),
            "v": np.random.default_rng(3).random(rows * 4).reshape(rows, 4).tolist(),
        }
    )
    ds = lancelet.write_dataset(data, "memory://splits/tasks", mode="overwrite", max_rows_per_file=70_000)
    splits = plan_splits(ds.table.snapshot, job_of(ds, columns=("id", "v")), parallelism=parallelism)
    sizes = [sum(last - first for _, first, last in split.pieces) for split in splits]
    assert sum(sizes) == rows
    assert len(splits) <= parallelism
    assert max(sizes) <= 2 * min(sizes)


@pytest.mark.parametrize("stable", [False, True])
def test_rows_named_by_their_ids(stable):
    uri = f"memory://named/{stable}"
    data = pa.table({"id": range(9000)})
    ds = lancelet.write_dataset(data, uri, max_rows_per_file=4000, enable_stable_row_ids=stable)
    ds.delete("id in (5, 4500)")
    ids = ds.to_table(columns=["id"], with_row_id=True).to_pydict()
    chosen = [ids["_rowid"][n] for n in (3, 4, 700, 8100)]
    gone = 5
    job = job_of(ds, filter=f"_rowid in ({', '.join(map(str, [*chosen, gone, 10**12]))}) and id != {ids['id'][4]}")
    splits = plan_splits(ds.table.snapshot, job)
    assert [[number for number, _, _ in split.pieces] for split in splits] == [[0, 2]]
    assert ids_of(job, splits) == [ids["id"][n] for n in (3, 700, 8100)]
    one = job_of(ds, filter=f"_rowid = {chosen[0]}")
    assert ids_of(one, plan_splits(ds.table.snapshot, one)) == [ids["id"][3]]
    none = job_of(ds, filter=f"_rowid = {gone}")
    assert ids_of(none, plan_splits(ds.table.snapshot, none)) == []
    nowhere = job_of(ds, filter=f"_rowid = {10**12}")
    assert plan_splits(ds.table.snapshot, nowhere) == []


@pytest.mark.parametrize("stable", [False, True])
def test_two_pieces_of_one_fragment_in_a_task(stable):
    data = pa.table({"id": range(6000)})
    ds = lancelet.write_dataset(data, f"memory://pieces/{stable}", max_rows_per_file=4000, enable_stable_row_ids=stable)
    ds.delete("id in (5, 4500)")
    split = Split(((0, 0, 600), (0, 600, 900), (0, 1000, 4000), (1, 0, 2000)))
    for condition in ("_rowid in (3, 4, 5, 700, 950)", "_rowid > 3 and _rowid < 1200", "_rowid = 3 or id = 9"):
        expected = ds.to_table(filter=f"({condition}) and (id < 900 or id >= 1000)")["id"].to_pylist()
        assert ids_of(job_of(ds, filter=condition), [split]) == expected, condition


def test_parts_of_structs(uri):
    ds = make(uri, [100])
    job = job_of(ds, columns=("st",), leaves=(("st", "a"),), filter="st.b = 'x' and id < 3")
    (split,) = plan_splits(ds.table.snapshot, job)
    (batch,) = read_split(job, split)
    assert [row["a"] for row in batch.column("st").to_pylist()] == [0, 1, 2]
    plain = job_of(ds, columns=("st",), leaves=(("st", "a"),))
    (batch,) = read_split(plain, split)
    assert batch.schema.field("st").type == pa.struct([("a", pa.int64())])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "path of the table is missing"),
        ({"path": "x", "version": "one"}, "version is a whole number above 0"),
        ({"path": "x", "version": "0"}, "version is a whole number above 0"),
        ({"path": "x", "version": "1", "tag": "t"}, "version and tag all choose a version"),
        ({"path": "x", "branch": "b", "tag": "t"}, "a branch goes with a version"),
        ({"path": "x", "colunms": "a"}, "there is no option 'colunms' for reading"),
        ({"path": "x", "splitbytes": "lots"}, "number of bytes"),
        ({"path": "x", "rowid": "maybe"}, "rowId is true or false"),
        ({"path": "x", "batchsize": str(1 << 30)}, "batchSize is at most"),
        ({"path": "x", "blobhandling": "eager"}, "blobHandling is one of"),
        ({"path": "x", "asof": "tomorrow"}, "is not a time"),
        ({"paths": "[a, b]"}, "one table is read at a time"),
    ],
)
def test_options_that_make_no_sense(options, words):
    with pytest.raises(InvalidInput, match=words):
        read_options(options)


def test_sizes_and_types():
    assert [size({"x": text}, "x") for text in ("7", "2k", "3 MB", "1g")] == [7, 2048, 3 << 20, 1 << 30]
    assert chosen_types({"vector.a": "8", "vector.b.c": "halffloat:4", "type.d": "uint8"}) == {
        "a": "fixed_size_list:float:8",
        "b.c": "fixed_size_list:halffloat:4",
        "d": "uint8",
    }
    with pytest.raises(InvalidInput, match="length of the vectors"):
        chosen_types({"vector.a": "many"})


def test_wide_rows_that_come_first_in_an_order_are_read_some_at_a_time(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    numbers = chance.permutation(400)
    rows = pa.table({"n": numbers, "wide": [bytes([n % 251]) + chance.bytes(1 << 17) for n in numbers.tolist()]})
    ds = lancelet.write_dataset(rows, tmp_path / "wide.lance")
    job = ReadJob(ds.uri, ds.version, columns=("n", "wide"), order=Order(((("n",), False, False),)))
    (split,) = plan_splits(ds.table.snapshot, job, split_bytes=1 << 30)
    batches = list(read_split(job, replace(split, limit=150)))
    assert max(batch.nbytes for batch in batches) < 16 << 20
    found = pa.Table.from_batches(batches)
    assert found["n"].to_pylist() == list(range(399, 249, -1))
    assert [value[0] for value in found["wide"].to_pylist()] == [n % 251 for n in found["n"].to_pylist()]
