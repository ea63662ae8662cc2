"""Columns change beside a MemWAL: what rows in logs and runs could not follow is refused at the change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidChange
from memwal.samples import KEY

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("n", pa.int32()),
        pa.field("s", pa.struct([("a", pa.int64())])),
    ]
)
CHANGES: dict[str, Callable[[lancelet.LanceDataset], Any]] = {
    r"'n' .*another type .*have the old one": lambda it: it.alter_columns({"path": "n", "data_type": pa.int64()}),
    r"'s\.a' .*another type": lambda it: it.alter_columns(
        {"path": "n", "name": "m"}, {"path": "s.a", "name": "b", "data_type": pa.int32()}
    ),
    r"'n' .*take no nulls": lambda it: it.alter_columns({"path": "n", "nullable": False}),
    r"'s\.a' .*renamed .*by their names": lambda it: it.alter_columns({"path": "s.a", "name": "b"}),
    r"'id' .*renamed .*primary key": lambda it: it.alter_columns({"path": "id", "name": "number"}),
    r"'id' .*dropped .*primary key": lambda it: it.drop_columns(["id"]),
    "computed column": lambda it: it.merge(pa.table({"id": [1], "more": [1]}), "id"),
}


def table(where: Path, **options: Any) -> lancelet.LanceDataset:
    dataset = lancelet.write_dataset(rows([1, 2]), where)
    dataset.initialize_mem_wal(**options)
    return dataset


def rows(ids: list[int]) -> pa.Table:
    return pa.table({"id": ids, "n": [1] * len(ids), "s": [{"a": 1}] * len(ids)}, SCHEMA)


@pytest.mark.parametrize("refusal", CHANGES)
def test_changes_that_rows_could_not_follow_are_refused(tmp_path: Path, refusal: str) -> None:
    dataset = table(tmp_path, unsharded=True)
    with pytest.raises(InvalidChange, match=refusal):
        CHANGES[refusal](dataset)
    assert dataset.latest_version == dataset.version


def test_a_column_that_tells_shards_is_not_dropped(tmp_path: Path) -> None:
    dataset = table(tmp_path, bucket_column="n", num_buckets=2)
    with pytest.raises(InvalidChange, match="'n' .*cannot be dropped .*which shard"):
        dataset.drop_columns(["n"])
    dataset.drop_columns(["s"])


def test_what_is_refused_can_be_done_without_the_mem_wal_and_it_goes_on_afterwards(tmp_path: Path) -> None:
    dataset = table(tmp_path, unsharded=True)
    with dataset.writer() as writer:
        writer.put(rows([2, 3]))
    dataset.compact_mem_wal()
    dataset.cleanup_mem_wal(timedelta(0))
    dataset.drop_index("__lance_mem_wal")
    dataset.alter_columns({"path": "n", "data_type": pa.int64()})
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put({"id": [3, 4], "n": [1 << 40, 5]})
    found = dataset.lsm_scanner().project(["id", "n"]).to_table().to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == [(1, 1), (2, 1), (3, 1 << 40), (4, 5)]


def test_a_dropped_column_is_made_anew_when_no_rows_have_it_any_more(tmp_path: Path) -> None:
    dataset = table(tmp_path, unsharded=True)
    writer = dataset.writer()
    writer.put(rows([2, 3]))
    dataset.drop_columns(["n"])
    for _ in ("in the log", "in a run"):
        with pytest.raises(InvalidChange, match=r"column 'n' cannot be added .*call compact_mem_wal\(\)"):
            dataset.add_columns(pa.field("n", pa.string()))
        writer.close()
    dataset.add_columns(pa.field("m", pa.string()))
    dataset.compact_mem_wal()
    dataset.add_columns({"n": "cast(null as string)"})
    assert dataset.lsm_scanner().to_table().num_rows == 3
