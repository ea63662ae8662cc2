"""pyarrow, pandas, polars and duckdb take a dataset as it is."""

from __future__ import annotations

from pathlib import Path

import duckdb
import lance
import polars
import pyarrow as pa
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


def test_batches_outlive_the_dataset(where: Path) -> None:
    dataset = lancelet.dataset(where)
    batches = list(dataset.to_batches(["v"]))
    expected = lance.dataset(where).to_table(["v"])
    del dataset
    assert_identical(pa.Table.from_batches(batches), expected)
