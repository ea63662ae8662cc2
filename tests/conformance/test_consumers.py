"""pyarrow, pandas, polars and duckdb take a dataset as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import lance
import polars
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import lancelet
from conformance.states import create
from lancelet.testing import assert_identical


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("consumers") / "t"
    create(path, {"data_storage_version": "2.2"}).delete("k = 5")
    return path


def test_arrow_stream(where: Path) -> None:
    ours = lancelet.dataset(where)
    assert_identical(pa.table(ours), lance.dataset(where).to_table())
    assert pa.table(ours.scanner(["k"], filter="k < 9")).num_rows == 8
    assert pa.RecordBatchReader.from_stream(ours).read_all().num_rows == 599


def test_reader_streams_once(where: Path) -> None:
    reader = lancelet.dataset(where).scanner(["k"]).to_reader()
    assert reader.schema == pa.schema([("k", pa.int64())])
    assert reader.read_all().num_rows == 599
    assert reader.read_all().num_rows == 0


def test_pandas(where: Path) -> None:
    ours = lancelet.dataset(where).to_table(["k", "s", "f"]).to_pandas()
    theirs = lance.dataset(where).to_table(["k", "s", "f"]).to_pandas()
    assert ours.equals(theirs)
    assert lancelet.dataset(where).to_pandas()["k"].sum() == theirs["k"].sum()


def test_polars(where: Path) -> None:
    frame = polars.DataFrame(lancelet.dataset(where).scanner(["k", "low"]))
    assert frame.equals(polars.from_arrow(lance.dataset(where).to_table(["k", "low"])))


def test_duckdb(where: Path) -> None:
    dataset = lancelet.dataset(where)
    assert dataset is not None
    answer = duckdb.sql("select sum(k), count(*) from dataset where k > 100").fetchall()
    assert answer == [(sum(range(101, 600)), 499)]


def test_engines_hand_columns_and_filters_to_the_scan(where: Path) -> None:
    lancelet.dataset(where).create_scalar_index("k", "BTREE")
    dataset = lancelet.dataset(where)
    everything = sum(file.stat().st_size for file in (where / "data").iterdir())
    expected = lance.dataset(where).to_table(["s"], filter="k = 77")["s"].to_pylist()
    lazy = polars.scan_pyarrow_dataset(dataset)
    assert isinstance(dataset, pads.Dataset)
    dataset.io_stats_incremental()
    assert [row[0] for row in duckdb.sql("select s from dataset where k = 77").fetchall()] == expected
    assert dataset.io_stats_incremental().read_bytes < everything / 2
    assert lazy.filter(polars.col("k") == 77).select("s").collect()["s"].to_list() == expected
    assert dataset.io_stats_incremental().read_bytes < everything / 2
    for query in (
        "f = 'nan'::double",
        "f > 1e300",
        "not f < 2",
        "f is null",
        "s is distinct from 'x'",
        "k in (1, 2, null)",
    ):
        theirs = lance.dataset(where).to_table()
        assert theirs.num_rows
        ours = duckdb.sql(f"select k from dataset where {query} order by k").fetchall()
        assert ours == duckdb.sql(f"select k from theirs where {query} order by k").fetchall(), query


def test_a_table_becomes_a_dataset_of_pyarrow_only_where_that_is_loaded(where: Path) -> None:
    program = """
import pickle, sys, lancelet
plain = lancelet.dataset(sys.argv[1])
assert type(plain) is lancelet.LanceDataset and "pyarrow.dataset" not in sys.modules
import duckdb
dataset = lancelet.dataset(sys.argv[1])
from pyarrow.dataset import Dataset
assert isinstance(dataset, Dataset) and isinstance(dataset, lancelet.LanceDataset) and not isinstance(plain, Dataset)
assert isinstance(dataset.checkout_version(1), Dataset) and isinstance(pickle.loads(pickle.dumps(plain)), Dataset)
assert {name for name in dir(Dataset) if not name.startswith("_")} <= set(dir(lancelet.LanceDataset))
print(duckdb.sql("select count(*) from dataset").fetchall(), duckdb.sql("select count(*) from plain").fetchall())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(where)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[(599,)] [(599,)]\n"), done.stderr


def test_batches_outlive_the_dataset(where: Path) -> None:
    dataset = lancelet.dataset(where)
    batches = list(dataset.to_batches(["v"]))
    expected = lance.dataset(where).to_table(["v"])
    del dataset
    assert_identical(pa.Table.from_batches(batches), expected)
