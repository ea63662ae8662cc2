"""Runs of a writer that is open while the indices of its table change."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.index.metadata import read_indices
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import KEY, SHARD, manifests

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("text", pa.string()),
    ]
)


def rows(count: int, first: int = 0) -> pa.Table:
    values = np.random.default_rng(first).random(count * 4, np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), 4)
    texts = [f"word{number % 7} here" for number in range(count)]
    return pa.table({"id": list(range(first, first + count)), "v": vectors, "text": texts}, SCHEMA)


@pytest.fixture
def dataset(tmp_path: Path) -> lancelet.LanceDataset:
    made = lancelet.write_dataset(rows(600), tmp_path / "t")
    made.create_index("v", "IVF_FLAT", name="by_v", num_partitions=2)
    made.create_scalar_index("text", "INVERTED", name="by_text")
    made.initialize_mem_wal(unsharded=True)
    return made


def of_run(dataset: lancelet.LanceDataset) -> set[str]:
    """The indices of the newest run."""
    where = Path(dataset.uri)
    run = list(manifests(where).values())[-1].sstables[-1]
    folder = where / "_mem_wal" / str(SHARD) / run.path
    return {entry.name for entry in read_indices(open_snapshot(folder).manifest)}


def test_runs_follow_an_index_that_was_built_anew_and_of_which_older_files_are_gone(
    dataset: lancelet.LanceDataset,
) -> None:
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows(2, 1000))
        dataset.create_index("v", "IVF_FLAT", name="by_v", num_partitions=3, replace=True)
        dataset.cleanup_old_versions(timedelta(0))
    assert of_run(dataset) == {"by_v", "by_text"}
    query = rows(1, 1000)["v"][0].as_py()
    found = dataset.lsm_scanner().nearest("v", query, k=1).to_table()
    assert found["id"].to_pylist() == [1000]


def test_runs_have_the_indices_that_the_table_has_by_then_on_columns_that_they_know(
    dataset: lancelet.LanceDataset,
) -> None:
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows(2, 1000))
        dataset.drop_index("by_v")
        dataset.create_scalar_index("id", "BTREE", name="by_id")
        dataset.add_columns(pa.field("late", pa.int64()))
        dataset.create_scalar_index("late", "BTREE", name="by_late")
        dataset.alter_columns({"path": "text", "name": "words"})
    assert of_run(dataset) == {"by_id"}
    assert dataset.lsm_scanner().filter("id = 1001").count_rows() == 1
    assert dataset.lsm_scanner().full_text_search("word1", ["words"]).limit(1000).to_table().num_rows == 87
