"""Rows as wide as images: tasks read them a few at a time, whatever they are stored as. No Spark session needed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.execution.scan import Scan
from lancelet.spark.plan import ReadJob, plan_splits, read_split
from lancelet.testing import assert_identical

ROWS, WIDTH = 60, 1 << 20
MOST_BYTES = 8 << 20


def wide(kind: str) -> tuple[pa.Table, dict[str, str]]:
    drawn = np.random.default_rng(4)
    ids = pa.array(np.arange(ROWS))
    if kind == "vectors":
        values = drawn.random(ROWS * WIDTH // 4, dtype=np.float32)
        return pa.table({"id": ids, "v": pa.FixedSizeListArray.from_arrays(pa.array(values), WIDTH // 4)}), {}
    raw = [drawn.bytes(WIDTH) for _ in range(ROWS)]
    if kind == "binary":
        return pa.table({"id": ids, "v": pa.array(raw, pa.large_binary())}), {}
    schema = pa.schema([pa.field("id", pa.int64()), lancelet.blob_field("v")])
    return pa.table([ids, lancelet.blob_array(raw)], schema=schema), {"data_storage_version": "2.2"}


@pytest.mark.parametrize("kind", ["binary", "vectors", "blobs"])
def test_batches_are_a_few_mebibytes(uri, kind):
    data, options = wide(kind)
    ds = lancelet.write_dataset(data, uri, **options)
    job = ReadJob(uri, ds.version, columns=("id", "v"), blobs_as_binary=kind == "blobs")
    splits = plan_splits(ds.table.snapshot, job, parallelism=2)
    if kind != "blobs":
        # Blobs may be in files of their own, of which the manifest tells nothing.
        assert len(splits) > 1
    batches = [batch for split in splits for batch in read_split(job, split)]
    assert sum(batch.num_rows for batch in batches) == ROWS
    assert max(batch.nbytes for batch in batches) <= MOST_BYTES
    assert [n for batch in batches for n in batch.column("id").to_pylist()] == list(range(ROWS))
    if kind == "blobs":
        assert sum(batch.nbytes for batch in batches) >= ROWS * WIDTH
    else:
        assert_identical(pa.Table.from_batches(batches).combine_chunks(), data)


def test_a_scan_holds_few_wide_rows(uri):
    data, _ = wide("binary")
    table = lancelet.write_dataset(data, uri).table
    job = ReadJob(uri, 1, columns=("id", "v"), batch_size=3)
    (reader,) = table.readers()
    assert Scan(table, job.scan_plan(table.snapshot))._unit_rows(reader) * WIDTH <= 64 << 20
