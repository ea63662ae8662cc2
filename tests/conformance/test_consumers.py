"""pyarrow, pandas, polars and duckdb take a dataset as it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import lance
import polars
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import lancelet
from conformance.states import create
from conftest import Bucket
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


def test_data_sets_of_hugging_face(tmp_path: Path) -> None:
    """Also rows that are selected: what lies under them is more, and in another order."""
    datasets = pytest.importorskip("datasets", reason="the library of Hugging Face is not installed")
    plain = datasets.Dataset.from_dict({"a": list(range(2_500)), "label": [number % 2 for number in range(2_500)]})
    plain = plain.cast_column("label", datasets.ClassLabel(names=["no", "yes"]))
    selected = plain.select([5, 3, 5])
    for number, data in enumerate((plain, selected, selected.with_format("numpy"), plain.to_iterable_dataset())):
        written = lancelet.write_dataset(data, tmp_path / str(number))
        assert written.to_table().to_pylist() == list(data.with_format(None))
        assert written.schema.metadata == plain.features.arrow_schema.metadata
    nameless = datasets.IterableDataset.from_generator(lambda: iter([{"a": 1}]))
    schema = pa.schema([("a", pa.int64())])
    assert lancelet.write_dataset(nameless, tmp_path / "nameless", schema=schema).count_rows() == 1
    with pytest.raises(ValueError, match="pass schema="):
        lancelet.write_dataset(nameless, tmp_path / "unknown")
    with pytest.raises(TypeError, match="write one of them"):
        lancelet.write_dataset(datasets.DatasetDict(train=plain, test=plain), tmp_path / "several")


def test_engines_hand_columns_and_filters_to_the_scan(where: Path) -> None:
    lancelet.dataset(where).create_scalar_index("k", "BTREE")
    dataset = lancelet.dataset(where)
    expected = lance.dataset(where).to_table(["s"], filter="k = 77")["s"].to_pylist()
    lazy = polars.scan_pyarrow_dataset(dataset)
    assert isinstance(dataset, pads.Dataset)
    assert [row[0] for row in duckdb.sql("select s from dataset where k = 77").fetchall()] == expected
    assert lazy.filter(polars.col("k") == 77).select("s").collect()["s"].to_list() == expected
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


def test_engines_fetch_only_what_they_ask_for(bucket: Bucket) -> None:
    """Counted over a store: of local files, which are mapped, not every byte is."""
    place, options = f"{bucket.uri}/pushed.lance", bucket.options
    texts = [f"{number * 2_654_435_761 % 2**32:08x}" * 8 for number in range(20_000)]
    written = lancelet.write_dataset({"k": range(20_000), "s": texts}, place, storage_options=options)
    written.create_scalar_index("k", "BTREE")

    def fetched(ask: Callable[[lancelet.LanceDataset], object]) -> tuple[object, int]:
        dataset = lancelet.dataset(place, storage_options=options, session=lancelet.Session())
        dataset.io_stats_incremental()
        return ask(dataset), dataset.io_stats_incremental().read_bytes

    _, everything = fetched(lambda dataset: dataset.to_table())
    assert everything > 20_000 * 32
    for found, some in (
        fetched(lambda d: polars.scan_pyarrow_dataset(d).filter(polars.col("k") == 77).select("s").collect()["s"][0]),
        fetched(lambda d: duckdb.sql("select s from d where k = 77").fetchall()[0][0]),
    ):
        assert found == texts[77]
        assert some < everything / 2
    for found, some in (
        fetched(lambda d: polars.scan_pyarrow_dataset(d).select("k").collect()["k"].sum()),
        fetched(lambda d: duckdb.sql("select sum(k) from d").fetchall()[0][0]),
    ):
        assert found == sum(range(20_000))
        assert some < everything / 2


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
