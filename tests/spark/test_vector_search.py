"""Searches on Spark give what one process gives: as a job, in a join, and in SQL."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession
from pyspark.sql import types as st
from pyspark.sql.udtf import AnalyzeArgument

import lancelet
from lancelet._api.scan_options import SearchOptions
from lancelet.errors import InvalidInput, InvalidType, LanceletError, UnknownColumn
from lancelet.index.vector.kind import VectorKind
from lancelet.spark import LanceTable, register_functions
from lancelet.spark.options import TableRef
from lancelet.spark.plan import split_fragments
from lancelet.spark.search import job as search_job
from lancelet.spark.search.function import VectorSearch
from lancelet.spark.search.request import SearchRequest
from lancelet.spark.table import indices

# Executors do not have the tests.
register_pickle_by_value(sys.modules[__name__])
DIMENSION = 8
ROWS = 900
FRAGMENT = 150
RANDOM = np.random.default_rng(11)
QUERIES = RANDOM.integers(-3, 4, (5, DIMENSION)).astype(np.float32)


def rows(first: int, count: int) -> pa.Table:
    """Small whole numbers: many rows are equally far from a query."""
    values = RANDOM.integers(-3, 4, (count, DIMENSION)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), DIMENSION)
    vectors = pa.array(
        [None if at % 97 == 5 else vector for at, vector in enumerate(vectors.to_pylist())], vectors.type
    )
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "s": [f"row {number}" for number in ids], "vector": vectors})


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("vectors") / "t.lance")
    lance.write_dataset(rows(0, ROWS), place, max_rows_per_file=FRAGMENT)
    lance.dataset(place).delete("id % 10 = 3")
    return place


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks for tables of a few kilobytes."""

    def cut(*args, whole_fragments):
        return split_fragments(*args, split_bytes=10_000, whole_fragments=whole_fragments)

    monkeypatch.setattr(search_job, "split_fragments", cut)


def found(frame) -> pa.Table:
    return frame.toArrow().combine_chunks()


def same(frame, expected: pa.Table) -> None:
    """The same columns and rows, in the same order."""
    got = found(frame)
    assert got.column_names == expected.column_names
    assert got.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"metric": "cosine", "k": 3, "columns": ["s", "_distance"]},
        {"filter": "id > 500", "with_row_id": True},
        {"filter": "id > 500", "prefilter": True, "columns": ["id"]},
        {"distance_range": (10.0, 30.0), "metric": "l2"},
        {"k": 5000, "columns": {"n": "id + 1"}},
    ],
)
def test_a_search(spark: SparkSession, uri: str, arguments: dict) -> None:
    query = QUERIES if len(arguments) % 2 else QUERIES[0]
    inside = {key: value for key, value in arguments.items() if key in ("metric", "k", "distance_range")}
    outside = {key: value for key, value in arguments.items() if key not in inside}
    columns = outside.get("columns")
    if isinstance(columns, dict):
        outside["columns"] = {**columns, "_distance": "_distance"}
    elif columns is not None and "_distance" not in columns:
        outside["columns"] = [*columns, "_distance"]
    expected = lancelet.dataset(uri).to_table(nearest={"column": "vector", "q": query, **inside}, **outside)
    same(LanceTable.forPath(spark, uri).search(query, **arguments), expected)


@pytest.fixture(scope="module")
def indexed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tables with an index that Spark has built, and with the one that a single process builds of the same rows."""
    folder = tmp_path_factory.mktemp("indexed")
    data = rows(0, 2000)
    places = {}
    for name in ("spark", "process"):
        places[name] = str(folder / name)
        lance.write_dataset(data, places[name], max_rows_per_file=300)
    options = {"num_partitions": 5, "num_sub_vectors": 4}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indices, "_PART_BYTES", 600 * 4 * DIMENSION)
        LanceTable.forPath(spark, places["spark"]).createIndex("vector", "IVF_PQ", **options)
    lancelet.dataset(places["process"]).create_index("vector", "IVF_PQ", **options)
    return places


def test_an_index_is_that_of_one_process(spark: SparkSession, indexed: dict[str, str]) -> None:
    """The same model, the same codes: the same answers, to us and to pylance."""
    nearest = {"column": "vector", "q": QUERIES, "nprobes": 2}
    ours, theirs = (lancelet.dataset(indexed[name]) for name in ("spark", "process"))
    assert len(ours.describe_indices()[0].segments) == 1
    assert ours.to_table(nearest=nearest).equals(theirs.to_table(nearest=nearest))
    one = {**nearest, "q": QUERIES[0]}
    assert (
        lance.dataset(indexed["spark"])
        .to_table(nearest=one)
        .equals(lance.dataset(indexed["process"]).to_table(nearest=one))
    )
    assert index_folders(indexed["spark"]) == {segment.uuid for segment in ours.describe_indices()[0].segments}


def index_folders(place: str) -> set[str]:
    """Folders with files of indices, whether a version names them or not."""
    return {path.parent.name for path in Path(place, "_indices").rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def grown(spark: SparkSession, indexed: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two segments, rows that no segment knows, and some that are gone."""
    place = str(tmp_path_factory.mktemp("grown") / "t")
    shutil.copytree(indexed["spark"], place)
    lance.write_dataset(rows(2000, 500), place, mode="append")
    LanceTable.forPath(spark, place).optimizeIndices(numIndicesToMerge=0)
    assert len(lancelet.dataset(place).describe_indices()[0].segments) == 2
    lance.write_dataset(rows(2500, 100), place, mode="append", max_rows_per_file=50)
    lance.dataset(place).delete("id % 10 = 3")
    return place


@pytest.mark.parametrize(
    "arguments",
    [
        {"nprobes": 2, "columns": ["id", "_distance"]},
        {"fast_search": True, "with_row_id": True},
        {"refine_factor": 3, "fast_search": True, "nprobes": 1},
        {"filter": "id >= 2400", "prefilter": True, "k": 20},
        {"filter": "id % 3 = 0", "prefilter": True, "fast_search": True},
        {"use_index": False, "k": 3},
        {"metric": "cosine"},
        {"distance_range": (5.0, 30.0), "nprobes": 5},
    ],
)
@pytest.mark.spread(0.5, each=False)
def test_segments_and_the_rest(spark: SparkSession, grown: str, arguments: dict) -> None:
    query = QUERIES if len(arguments) % 2 else QUERIES[0]
    outside = ("columns", "fast_search", "with_row_id", "filter", "prefilter")
    nearest = {key: value for key, value in arguments.items() if key not in outside}
    options = {key: value for key, value in arguments.items() if key in outside}
    expected = lancelet.dataset(grown).to_table(nearest={"column": "vector", "q": query, **nearest}, **options)
    same(LanceTable.forPath(spark, grown).search(query, **arguments), expected)


def lists_of_vectors(data: pa.Table) -> pa.Table:
    """Three vectors in a row, in place of one."""
    values = data["vector"].combine_chunks().fill_null([0.0] * DIMENSION).flatten()
    offsets = pa.array(np.arange(0, data.num_rows + 1, 3, dtype=np.int32))
    lists = pa.ListArray.from_arrays(offsets, pa.FixedSizeListArray.from_arrays(values, DIMENSION))
    return pa.table({"id": data["id"][: len(lists)], "vector": lists})


@pytest.mark.parametrize("has_lists", [False, True])
def test_parts_of_a_search_go_together(tmp_path: Path, has_lists: bool) -> None:
    """What tasks find and the last one chooses, without Spark in between: stable ids, moved rows, filters, probes."""
    place = str(tmp_path / "t")

    def data(first: int, count: int) -> pa.Table:
        return lists_of_vectors(rows(first, count * 3)) if has_lists else rows(first, count)

    lancelet.write_dataset(data(0, 900), place, max_rows_per_file=300, enable_stable_row_ids=True)
    metric = "cosine" if has_lists else "l2"
    lancelet.dataset(place).create_index("vector", "IVF_PQ", metric=metric, num_partitions=3, num_sub_vectors=4)
    lancelet.write_dataset(data(900, 400), place, mode="append")
    lancelet.dataset(place).optimize.optimize_indices(num_indices_to_merge=0)
    lancelet.write_dataset(data(1300, 60), place, mode="append")
    lancelet.dataset(place).update({"id": "id + 10000"}, where="id % 11 = 5")
    ds = lancelet.dataset(place)
    filters = [(None, False), ("id < 100", True), ("id % 2 = 0", True), ("id % 2 = 0", False)]
    for (text, first), fast, refine, probes in itertools.product(filters, (False, True), (None, 3), (None, 2)):
        options: SearchOptions = {"refine_factor": refine, "nprobes": probes}
        plan = SearchRequest(None, 5, text, ["id"], first, fast, True).plan(ds, QUERIES[:2], options)
        job, pieces = search_job.plan_search(ds.table, TableRef(place, {}, ds.version), plan)
        parts = [part for part in map(job.find, pieces) if part.num_rows]
        found = pa.Table.from_batches(list(job.finish(parts)), plan.output_schema)
        nearest = {"column": "vector", "q": QUERIES[:2], "k": 5, **options}
        expected = ds.to_table(
            ["id", "_distance"], text, nearest=nearest, prefilter=first, fast_search=fast, with_row_id=True
        )
        assert found.to_pylist() == expected.to_pylist(), (text, first, fast, refine, probes)


def test_lists_of_vectors_over_several_segments(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    lancelet.write_dataset(lists_of_vectors(rows(0, 1800)), place, max_rows_per_file=200)
    options = {"metric": "cosine", "num_partitions": 3, "num_sub_vectors": 4}
    LanceTable.forPath(spark, place).createIndex("vector", "IVF_PQ", **options)
    for first in (600, 900):
        lancelet.write_dataset(lists_of_vectors(rows(first, 900)), place, mode="append")
        LanceTable.forPath(spark, place).optimizeIndices(numIndicesToMerge=0)
    ds = lancelet.dataset(place)
    assert len(ds.describe_indices()[0].segments) == 3
    for query in (QUERIES[:3], QUERIES[:1]):
        expected = ds.to_table(["id", "_distance"], nearest={"column": "vector", "q": query, "k": 7, "nprobes": 2})
        same(LanceTable.forPath(spark, place).search(query, columns=["id"], k=7, nprobes=2), expected)


def test_a_join_asks_the_index(spark: SparkSession, grown: str) -> None:
    frame = spark.createDataFrame(
        [(number, vector.tolist()) for number, vector in enumerate(QUERIES)], "key int, at array<float>"
    )
    joined = LanceTable.forPath(spark, grown).joinNearest(frame, "at", 4, columns=["id"], fast_search=True, nprobes=2)
    nearest = {"column": "vector", "q": QUERIES, "k": 4, "nprobes": 2}
    expected = lancelet.dataset(grown).to_table(["id", "_distance"], nearest=nearest, fast_search=True)
    got = sorted((row.key, row._distance, row.id) for row in joined.collect())
    assert got == sorted(zip(*(expected[name].to_pylist() for name in ("query_index", "_distance", "id")), strict=True))


def test_graphs_stay_where_they_were_built(spark: SparkSession, indexed: dict[str, str], tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    shutil.copytree(indexed["process"], place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indices, "_PART_BYTES", 1200 * 4 * DIMENSION)
        LanceTable.forPath(spark, place).createIndex("vector", "IVF_HNSW_SQ", name="graph", num_partitions=2)
    ds = lancelet.dataset(place)
    ds.drop_index("vector_idx")
    (graph,) = lancelet.dataset(place).describe_indices()
    assert [len(segment.fragment_ids) for segment in graph.segments] == [4, 3]
    ds = lancelet.dataset(place)
    truth = ds.to_table(["id"], nearest={"column": "vector", "q": QUERIES[0], "k": 20, "use_index": False})
    nearest = {"column": "vector", "q": QUERIES[0], "k": 20, "nprobes": 2, "ef": 200, "refine_factor": 2}
    asked = ds.to_table(["id"], nearest=nearest)
    assert len(set(asked["id"].to_pylist()) & set(truth["id"].to_pylist())) >= 18
    # New rows get a graph of their own, or one together with those of the last segment; all of it is written by tasks.
    total, folders = ds.count_rows(), set(index_folders(place))
    for merged, known in ((0, [1, 3, 4]), (1, [2, 3, 4]), (3, [10])):
        lancelet.write_dataset(rows(total, 300), place, mode="append")
        total += 300
        LanceTable.forPath(spark, place).optimizeIndices(numIndicesToMerge=merged)
        ds = lancelet.dataset(place)
        (graph,) = ds.describe_indices()
        assert sorted(len(segment.fragment_ids) for segment in graph.segments) == known
        assert graph.num_rows_indexed == total
        assert not ds.verify(deep=True).findings
        folders |= {segment.uuid for segment in graph.segments}
        assert index_folders(place) == folders


def test_an_index_that_cannot_be_built(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    table = LanceTable.forPath(spark, uri)
    with pytest.raises(InvalidInput, match="metric"):
        table.createIndex("vector", "IVF_PQ", metric="hamming")
    with pytest.raises(InvalidType, match="Vector column s"):
        table.createIndex("s", "IVF_FLAT")
    assert table.indices() == []
    few = str(tmp_path / "few")
    lancelet.write_dataset(rows(0, 20), few)
    with pytest.warns(UserWarning, match="is trained from at least 256 vectors, and there are 19"):
        LanceTable.forPath(spark, few).createIndex("vector", "IVF_PQ", num_partitions=1, num_sub_vectors=4)
    assert LanceTable.forPath(spark, few).search(QUERIES[0], k=3).count() == 3


class Failing(VectorKind):
    """Cannot be built over the second group of fragments."""

    def write(self, sources, rows, out, options):
        from pyspark import TaskContext

        context = TaskContext.get()
        built = VectorKind.write(self, sources, rows, out, options)
        if context is not None and context.partitionId() == 1:
            raise InvalidInput("no more room in the index")
        return built


def test_a_build_that_fails_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    lancelet.write_dataset(rows(0, 900), place, max_rows_per_file=300)
    monkeypatch.setattr(indices, "_PART_BYTES", 300 * 4 * DIMENSION)
    monkeypatch.setattr(indices, "kind_named", lambda name: Failing())
    with pytest.raises(InvalidInput, match="no more room in the index"):
        LanceTable.forPath(spark, str(place)).createIndex("vector", "IVF_PQ", num_partitions=2, num_sub_vectors=4)
    assert lancelet.dataset(place).version == 1
    assert [path for path in (place / "_indices").rglob("*") if path.is_file()] == []


def test_a_data_frame_of_queries(spark: SparkSession, uri: str) -> None:
    table = LanceTable.forPath(spark, uri)
    frame = spark.createDataFrame([(vector.tolist(),) for vector in QUERIES], "q array<double>").coalesce(1)
    expected = lancelet.dataset(uri).to_table(nearest={"column": "vector", "q": QUERIES, "k": 4})
    same(table.search(frame, k=4), expected)
    with pytest.raises(InvalidInput, match="none of them is called 'vector'; select the one"):
        table.search(frame.selectExpr("q", "1 AS n"))
    with pytest.raises(InvalidInput, match="has no rows; give at least one query"):
        table.search(frame.limit(0))


def test_a_search_stays_with_its_version(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    lancelet.write_dataset(rows(0, 300), place)
    table = LanceTable.forPath(spark, place)
    before = lancelet.dataset(place).to_table(nearest={"column": "vector", "q": QUERIES[0]})
    frame = table.search(QUERIES[0])
    lancelet.dataset(place).delete(f"id = {before['id'][0].as_py()}")
    same(frame, before)
    lancelet.dataset(place).delete("true")
    assert table.search(QUERIES).count() == 0


def neighbours(uri: str, vector: list[float], k: int, **options) -> list[tuple[int, float]]:
    answer = lancelet.dataset(uri).to_table(
        ["id", "_distance"], nearest={"column": "vector", "q": vector, "k": k}, **options
    )
    return list(zip(answer["id"].to_pylist(), answer["_distance"].to_pylist(), strict=True))


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_join(spark: SparkSession, uri: str, how: str) -> None:
    asked = [(number, vector.tolist()) for number, vector in enumerate(QUERIES)]
    alone = [(90, None), (91, [float("nan")] * DIMENSION)]
    frame = spark.createDataFrame([*asked, *alone], "key int, at array<float>").repartition(3)
    joined = LanceTable.forPath(spark, uri).joinNearest(
        frame, "at", 3, how, columns=["id"], filter="id >= 100", prefilter=True
    )
    assert joined.columns == ["key", "at", "id", "_distance"]
    got: dict[int, list] = {}
    for row in joined.collect():
        got.setdefault(row.key, []).append((row.id, row._distance))
    expected = {key: neighbours(uri, at, 3, filter="id >= 100", prefilter=True) for key, at in asked}
    assert got == expected | ({key: [(None, None)] for key, _ in alone} if how == "left" else {})


def test_sql(spark: SparkSession, uri: str) -> None:
    register_functions(spark)
    ds = lancelet.dataset(uri)
    numbers = ", ".join(str(float(number)) for number in QUERIES[0])
    by_place = spark.sql(f"SELECT * FROM VECTOR_SEARCH('{uri}', array({numbers}), 4)")
    same(by_place, ds.to_table(nearest={"column": "vector", "q": QUERIES[0], "k": 4}))
    by_name = spark.sql(
        f"SELECT * FROM vector_search(TABLE => '{uri}', query_vector => array({numbers}), columns => array('S', 'ID'), "
        "limit => 3, filter => 'id > 500', prefilter => true, offset => 2, with_row_id => true, distance_type => 'cosine')"
    )
    nearest = {"column": "vector", "q": QUERIES[0], "k": 5, "metric": "cosine"}
    expected = ds.to_table(["s", "id", "_distance"], "id > 500", nearest=nearest, prefilter=True, with_row_id=True)
    same(by_name, expected.slice(2))
    both = f"array(array({numbers}), array({numbers}))"
    batch = spark.sql(f"SELECT * FROM VECTOR_SEARCH(table => '{uri}', query_vector => {both}, k => 2, version => 1)")
    first = lancelet.dataset(uri, version=1)
    same(batch, first.to_table(nearest={"column": "vector", "q": [QUERIES[0]] * 2, "k": 2}))
    assert not batch.schema["query_index"].nullable
    rows = spark.sql(
        f"SELECT q.key, f.id, f._distance FROM VALUES (0, array({numbers})), (1, NULL) AS q(key, at), "
        f"LATERAL VECTOR_SEARCH(table => '{uri}', query_vector => q.at, k => 2) AS f"
    )
    assert [(row.key, row.id, row._distance) for row in rows.collect()] == [
        (0, *pair) for pair in neighbours(uri, QUERIES[0].tolist(), 2)
    ]


def sentence(call) -> str:
    with pytest.raises(Exception) as caught:
        call()
    text = str(caught.value).partition("JVM stacktrace:")[0]
    assert len(text) < 1500, text
    return re.sub(r"\s+", " ", text)


def constant(value: object) -> AnalyzeArgument:
    return AnalyzeArgument(st._infer_type(value), value, False, True)


def test_mistakes_in_sql(spark: SparkSession, uri: str) -> None:
    register_functions(spark)
    wrong = f"SELECT * FROM VECTOR_SEARCH(table => '{uri}', query_vector => array(1, 2), probes => 3)"
    assert "VECTOR_SEARCH has no argument 'probes'; it has: query_vector, table," in sentence(
        lambda: spark.sql(wrong).count()
    )

    vector = [1.0] * DIMENSION
    for places, names, flaw in (
        ((uri, vector), {"k": 3}, "does not support mixing arguments with names and without"),
        ((uri, vector, 3, 4), {}, "takes table, query_vector, k without names"),
        ((), {"table": uri, "query_vector": vector, "k": 3, "limit": 4}, "is given k twice, as 'limit' too"),
        ((uri,), {}, "VECTOR_SEARCH needs query_vector"),
        ((uri, vector, "3"), {}, "k of VECTOR_SEARCH is a whole number, not '3'"),
        ((uri, "near"), {}, "query_vector of VECTOR_SEARCH is an array of numbers"),
        ((uri, [1, 2]), {}, "Query vector size 2 does not match index column size 8 of 'vector'"),
        ((f"{uri}x", vector), {}, "takes the path of a table, its name in a catalog, or with namespace"),
        ((), {"table": uri, "query_vector": vector, "columns": ["nope"]}, "nope"),
        ((), {"table": uri, "query_vector": [vector], "offset": 1}, "offset goes with one query"),
    ):
        given = {name: constant(value) for name, value in names.items()}
        with pytest.raises(LanceletError, match=re.escape(flaw)):
            VectorSearch.analyze(*map(constant, places), **given)


def test_mistakes(spark: SparkSession, uri: str) -> None:
    table = LanceTable.forPath(spark, uri)
    with pytest.raises(InvalidInput, match="Query vector size 2 does not match"):
        table.search([1.0, 2.0])
    with pytest.raises(InvalidInput, match="has a NaN in it"):
        table.search([float("nan")] * DIMENSION)
    with pytest.raises(UnknownColumn, match="nope"):
        table.search(QUERIES[0], "nope")
    with pytest.raises(InvalidType, match="must be a vector"):
        table.search(QUERIES[0], "s")
    with pytest.raises(InvalidInput, match="Nearest-K must be > 0"):
        table.search(QUERIES[0], k=0)
    frame = spark.createDataFrame([(1, [1.0, 2.0])], "id int, at array<float>")
    with pytest.raises(InvalidInput, match="both sides have a column 'id'; choose and rename"):
        table.joinNearest(frame, "at")
    with pytest.raises(InvalidInput, match="the data frame has no column 'nope'; it has: id, at"):
        table.joinNearest(frame, "nope")
    with pytest.raises(InvalidInput, match="column 'id' of the data frame is int; vectors are arrays of numbers"):
        table.joinNearest(frame, "id")
    with pytest.raises(InvalidInput, match="how='inner' or how='left', not 'outer'"):
        table.joinNearest(frame, "at", how="outer")
    short = table.joinNearest(frame, "at", columns=["s"])
    assert "column 'at' has vectors of 2 numbers, where 8 are wanted" in sentence(short.collect)
