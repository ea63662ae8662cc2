"""lancelet.vector and what belongs to it: tables of vectors, readers of partitions, duplicates, clusters, k-means."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import lance
import lance.util
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
import lancelet.util
from lancelet import vector
from lancelet.dataset import VectorIndexReader
from lancelet.errors import IndexNotFound, InvalidInput, LanceletError
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.pairs import clusters, near_pairs

ROWS, WIDTH = 600, 8


def theirs() -> Any:
    """pylance's own module, which needs a package that nothing else does."""
    pytest.importorskip("tqdm", reason="pylance's own module for vectors needs tqdm")
    return importlib.import_module("lance.vector")


def column(values: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def vectors(dtype: Any = np.float32) -> np.ndarray:
    """Some of which are alike."""
    values = np.random.default_rng(3).standard_normal((ROWS, WIDTH)).astype(dtype)
    values[5] = values[1]
    values[7] = values[1] + 1e-3
    values[400] = values[1]
    return values


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("vectors"))


def built(place: str, kind: str, metric: str) -> lancelet.LanceDataset:
    """A table with an index of pylance's."""
    uri = f"{place}/{kind}-{metric}"
    if not Path(uri).exists():
        lancelet.write_dataset({"id": range(ROWS), "v": column(vectors())}, uri, max_rows_per_file=300)
        options = {"num_sub_vectors": 4} if kind.endswith("PQ") else {}
        lance.dataset(uri).create_index("v", kind, metric=metric, num_partitions=2, **options)
    return lancelet.dataset(uri)


# Tables of vectors


@pytest.mark.parametrize(
    "how",
    [
        ({"a": [1, 2], "b": [3, 4]},),
        ({1: np.zeros(3), 2: np.ones(3)},),
        ({"a": [1, 2]}, ["x", "y"]),
        ([[1, 2], [3, 4]],),
        ([[1, 2], [3, 4]], "x"),
        ([[1, 2], [3, 4]], ["x"]),
        ([np.array([1.5, 2.5])],),
        (np.arange(6).reshape(3, 2),),
        (np.zeros((2, 3), np.float16),),
        ([[1, 2], [3, 4]], None, 4, False),
    ],
)
def test_tables_of_vectors_are_those_of_pylance(how: tuple) -> None:
    found = vector.vec_to_table(*how)
    assert found.equals(theirs().vec_to_table(*how))


@pytest.mark.parametrize(
    "how",
    [([[1, 2], [3]],), ([[1, 2]], None, 3), ([],), ({},), ([1, 2],), (np.arange(3),), ("abc",), ({"a": [1]}, ["x"])],
)
def test_what_is_no_vectors_is_refused(how: tuple) -> None:
    with pytest.raises(LanceletError):
        vector.vec_to_table(*how)


# Readers and checks of an index


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ"])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_partitions_are_read_as_pylance_reads_them(place: str, kind: str, metric: str) -> None:
    table = built(place, kind, metric)
    ours = VectorIndexReader(table, "v_idx")
    other = importlib.import_module("lance.dataset").VectorIndexReader(lance.dataset(table.uri), "v_idx")
    assert ours.num_partitions() == other.num_partitions() == 2
    for number in range(2):
        for with_vector in (False, True):
            found = ours.read_partition(number, with_vector=with_vector)
            expected = other.read_partition(number, with_vector=with_vector)
            if kind == "IVF_PQ" and with_vector:
                # pylance shows the bytes as they lie in the file, column by column; ours belong to their rows.
                stored = expected["__pq_code"].combine_chunks().flatten().to_numpy()
                turned = stored.reshape(4, len(expected)).T
                expected = expected.set_column(1, expected.schema.field(1), column(np.ascontiguousarray(turned)))
            assert found.equals(expected.cast(found.schema))
            assert found.schema.equals(expected.schema, check_metadata=False)
    with pytest.raises(IndexError, match="Partition id 2 is out of range"):
        ours.read_partition(2)
    with pytest.raises(KeyError, match="nope"):
        VectorIndexReader(table, "nope")
    assert table.centroids(column="v").equals(lance.dataset(table.uri).centroids(column="v"))
    assert table.get_ivf_model("v_idx").distance_type == metric


def test_an_index_that_is_none_of_vectors(tmp_path: Path) -> None:
    table = lancelet.write_dataset({"id": range(10)}, tmp_path / "t").create_scalar_index("id", "BTREE")
    table = table or lancelet.dataset(tmp_path / "t")
    with pytest.raises(InvalidInput, match="is no index on vectors"):
        VectorIndexReader(table, "id_idx")
    with pytest.raises(KeyError):
        table.centroids(column="id")
    with pytest.raises(ValueError, match="Must provide"):
        table.centroids()


def test_an_index_that_finds_its_vectors_is_valid(place: str) -> None:
    table = built(place, "IVF_FLAT", "l2")
    lancelet.util.validate_vector_index(table, "v", sample_size=20)
    with pytest.raises(ValueError, match="Vector index failed sanity check, only 10/10 passed"):
        lancelet.util.validate_vector_index(table, "v", sample_size=10, pass_threshold=1.5)
    with pytest.raises(KeyError, match="nope"):
        lancelet.util.validate_vector_index(table, "nope")
    with pytest.raises(ValueError):
        lancelet.util.validate_vector_index(table, "v", sample_size=ROWS + 1)


# Duplicates


def brute_pairs(values: np.ndarray, metric: Metric, threshold: float) -> set[tuple[int, int]]:
    exact = values.astype(np.float64)
    match metric:
        case Metric.L2:
            marks = ((exact[:, None] - exact[None]) ** 2).sum(-1)
        case Metric.COSINE:
            normal = exact / np.linalg.norm(exact, axis=1, keepdims=True)
            marks = 1 - normal @ normal.T
        case Metric.DOT:
            marks = 1 - exact @ exact.T
        case _:
            marks = np.unpackbits(values[:, None] ^ values[None], axis=-1).sum(-1)
    ones, twos = np.nonzero(np.triu(marks <= threshold, 1))
    return set(zip(ones.tolist(), twos.tolist(), strict=True))


@pytest.mark.parametrize("metric", list(Metric))
def test_pairs_are_those_of_all_distances(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancelet.index.vector.pairs._OTHERS", 130)
    monkeypatch.setattr("lancelet.index.vector.pairs._ANCHORS", 50)
    values = vectors()
    threshold = {Metric.L2: 2.5, Metric.COSINE: 0.2, Metric.DOT: -5.0, Metric.HAMMING: 14.5}[metric]
    if metric is Metric.HAMMING:
        values = np.random.default_rng(1).integers(0, 256, (300, 8), np.uint8)
    found = [pair for ones, twos, _ in near_pairs(values, metric, threshold) for pair in zip(ones, twos, strict=True)]
    assert len(found) == len(set(found))
    assert set(found) == brute_pairs(values, metric, threshold)


@settings(max_examples=60)
@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=40), st.integers(1, 7))
def test_what_hangs_together_has_one_head(count: int, links: list[tuple[int, int]], step: int) -> None:
    pairs = [(one, two) for one, two in links if one < two < count]
    pieces = [np.array(pairs[at : at + step]).reshape(-1, 2) for at in range(0, len(pairs), step)]
    found = clusters(count, iter([(piece[:, 0], piece[:, 1], None) for piece in pieces]))
    expected = list(range(count))
    for _ in range(count):
        for one, two in pairs:
            expected[one] = expected[two] = min(expected[one], expected[two])
    assert found.tolist() == expected


@pytest.mark.parametrize(
    "kind, metric, threshold",
    [
        *(
            (kind, *how)
            for kind in ("IVF_FLAT", "IVF_PQ", "IVF_SQ")
            for how in (("l2", 0.5), ("cosine", 0.02), ("dot", -6.0))
        ),
        *((kind, "l2", 0.5) for kind in ("IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")),
    ],
)
@pytest.mark.spread(0.5, each=False)
def test_duplicates_are_those_of_pylance(place: str, kind: str, metric: str, threshold: float) -> None:
    table = built(place, kind, metric)
    found = vector.find_duplicate_pairs(table, "v", threshold).read_all()
    expected = theirs().find_duplicate_pairs(lance.dataset(table.uri), "v", threshold).read_all()
    assert found.schema.equals(expected.schema)
    # Those at the very threshold may fall to either side.
    limit = threshold - 1e-4
    ours, others = (
        {(one["row_id_a"], one["row_id_b"]): one["distance"] for one in pairs.to_pylist()}
        for pairs in (found, expected)
    )
    assert {pair for pair, distance in ours.items() if distance < limit} <= others.keys()
    assert {pair for pair, distance in others.items() if distance < limit} <= ours.keys()
    for pair in ours.keys() & others.keys():
        assert ours[pair] == pytest.approx(others[pair], rel=1e-3, abs=1e-5)
    if kind == "IVF_FLAT":
        assert found.num_rows
    for limit_bytes in (0, 10_000):
        assert vector.find_duplicate_pairs(table, "v", threshold, memory_limit=limit_bytes).read_all().equals(found)


def test_duplicates_of_one_partition_and_of_rows_that_are_left(tmp_path: Path) -> None:
    table = lancelet.write_dataset({"id": range(ROWS), "v": column(vectors())}, tmp_path / "t", max_rows_per_file=300)
    with pytest.raises(InvalidInput, match="requires exactly one vector index, found 0"):
        vector.find_duplicate_pairs(table, "v", 0.1)
    table = table.create_index("v", "IVF_FLAT", num_partitions=2)
    whole = vector.find_duplicate_pairs(table, "v", 0.1).read_all()
    segment = table.describe_indices()[0].segments[0].uuid
    parts = [vector.find_duplicate_pairs_in_partition(table, "v", segment, number, 0.1).read_all() for number in (0, 1)]
    assert pa.concat_tables(parts).equals(whole)
    first = lancelet.dataset(tmp_path / "t").to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    assert {tuple(pair[name] for name in ("row_id_a", "row_id_b")) for pair in whole.to_pylist()} == {
        (first[one], first[two]) for one, two in ((1, 5), (1, 7), (1, 400), (5, 7), (5, 400), (7, 400))
    }
    table.delete("id = 5")
    assert vector.find_duplicate_pairs(table, "v", 0.1).read_all().num_rows == 3
    for mistake in (
        lambda: vector.find_duplicate_pairs(table, "v", float("nan")),
        lambda: vector.find_duplicate_pairs(table, "v", 0.1, max_concurrency=0),
        lambda: vector.find_duplicate_pairs_in_partition(table, "v", "zz", 0, 0.1),
        lambda: vector.find_duplicate_pairs_in_partition(table, "v", segment, 2, 0.1),
        lambda: vector.find_duplicate_pairs(table, "id", 0.1),
    ):
        with pytest.raises(InvalidInput):
            mistake()
    table.insert({"id": [1], "v": column(vectors()[:1])})
    with pytest.raises(InvalidInput, match="optimize the index first"):
        vector.find_duplicate_pairs(table, "v", 0.1)


@pytest.fixture(scope="module")
def hashes(place: str) -> lancelet.LanceDataset:
    values = np.random.default_rng(5).integers(0, 256, (300, 8), np.uint8)
    values[10] = values[3]
    values[11] = values[3]
    values[11, 0] ^= 1
    values[20] = values[11]
    values[20, 1] ^= 1
    values[200] = values[3]
    table = lancelet.write_dataset({"h": column(values)}, f"{place}/hashes", max_rows_per_file=150)
    return table.create_index("h", "IVF_FLAT", metric="hamming", num_partitions=2)


@pytest.mark.parametrize("bits", [0, 1, 2, 20, 64])
def test_clusters_of_hashes_are_those_of_pylance(hashes: lancelet.LanceDataset, bits: int) -> None:
    other, module = lance.dataset(hashes.uri), theirs()
    for call, how in (
        ("hamming_clustering_for_sample", ("h", None, bits)),
        ("hamming_clustering_for_range", ("h", 0, 0, 150, bits)),
        ("hamming_clustering_for_range", ("h", 1, 40, 500, bits)),
        ("hamming_clustering_for_range", ("h", 1, 5, 0, bits)),
        ("hamming_clustering_for_ivf_partition", ("h_idx", 0, bits)),
        ("hamming_clustering_for_ivf_partition", ("h_idx", 1, bits)),
    ):
        found = getattr(vector, call)(hashes, *how).read_all()
        expected = getattr(module, call)(other, *how).read_all()
        assert found.schema.equals(expected.schema)
        shown = [
            sorted((one["representative"], sorted(one["duplicates"])) for one in rows.to_pylist())
            for rows in (found, expected)
        ]
        assert shown[0] == shown[1]
    assert vector.get_ivf_partition_info(hashes, "h_idx") == module.get_ivf_partition_info(other, "h_idx")


def test_clusters_of_a_sample(hashes: lancelet.LanceDataset) -> None:
    (found,) = vector.hamming_clustering_for_sample(hashes, "h", 5, 64).read_all().to_pylist()
    assert len(found["duplicates"]) == 4


def test_hashes_that_are_none_are_refused(hashes: lancelet.LanceDataset, place: str) -> None:
    floats = built(place, "IVF_FLAT", "l2")
    for mistake in (
        lambda: vector.hamming_clustering_for_range(hashes, "h", 7, 0, 50),
        lambda: vector.hamming_clustering_for_range(hashes, "x", 0, 0, 50),
        lambda: vector.hamming_clustering_for_range(hashes, "h", 0, 0, 50, -1),
        lambda: vector.hamming_clustering_for_range(floats, "v", 0, 0, 50),
        lambda: vector.hamming_clustering_for_sample(hashes, "h", -5),
        lambda: vector.hamming_clustering_for_ivf_partition(hashes, "h_idx", 2, 3),
        lambda: vector.hamming_clustering_for_ivf_partition(hashes, "h_idx", 0, 3, index_segments=["x"]),
        lambda: vector.get_ivf_partition_info(floats, "v_idx"),
        lambda: vector.get_ivf_partition_info(floats, "nope"),
    ):
        with pytest.raises(InvalidInput):
            mistake()
    with pytest.raises(IndexNotFound):
        vector.get_ivf_partition_info(hashes, "h_idx", index_segments=["00000000-0000-0000-0000-000000000000"])


# k-means


@pytest.mark.parametrize("metric", ["l2", "Euclidean", "cosine", "dot"])
def test_clusters_of_vectors(metric: Any) -> None:
    values = vectors()
    ours = lancelet.util.KMeans(4, metric)
    assert ours.centroids is None
    ours.fit(values)
    assert len(ours.centroids) == 4
    assert ours.predict(column(values)).type == pa.uint32()
    if metric != "cosine":
        # pylance does not do it.
        same = lance.util.KMeans(4, metric, centroids=ours.centroids)
        assert ours.predict(values).to_pylist() == same.predict(values).to_pylist()
    assert lancelet.util.KMeans(4, metric, centroids=ours.centroids).predict(values).equals(ours.predict(values))


def test_clusters_of_what_makes_no_sense() -> None:
    values = vectors()
    for mistake in (
        lambda: lancelet.util.KMeans(0),
        lambda: lancelet.util.KMeans(3, "foo"),
        lambda: lancelet.util.KMeans(3, "hamming"),
        lambda: lancelet.util.KMeans(3).predict(values),
        lambda: lancelet.util.KMeans(3).fit(values.astype(np.float64)),
        lambda: lancelet.util.KMeans(3).fit(values[0]),
        lambda: lancelet.util.KMeans(3).fit([1]),
        lambda: lancelet.util.KMeans(3).fit(values[:2]),
    ):
        with pytest.raises(ValueError):
            mistake()


def test_all_of_pylance_is_there() -> None:
    module = theirs()
    for name, value in vars(module).items():
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == "lance.vector":
            wanted, found = (inspect.signature(one).parameters for one in (value, getattr(vector, name)))
            assert list(wanted) == list(found), name
            assert [one.default for one in wanted.values()] == [one.default for one in found.values()], name


# On a device


def test_steps_on_a_device(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lancelet[torch]'")
    values = vectors()
    values[9] = np.nan
    table = lancelet.write_dataset({"v": column(values)}, tmp_path / "t")
    centroids, kmeans = vector.train_ivf_centroids_on_accelerator(table, "v", 4, "l2", "cpu", sample_rate=100)
    assert torch.equal(kmeans.centroids, torch.from_numpy(centroids))
    place = vector.compute_partitions(table, "v", kmeans, num_sub_vectors=2, dst_dataset_uri=tmp_path / "parts")
    left = lancelet.dataset(place)
    assert left.schema.names == ["row_id", "partition", "__residual_subvec_1", "__residual_subvec_2"]
    assert left.count_rows() == ROWS - 1
    first = left.to_table(limit=1).to_pylist()[0]
    assert first["__residual_subvec_1"] == pytest.approx((values[0] - centroids[first["partition"]])[:4])
    codebook, models = vector.train_pq_codebook_on_accelerator(left, "l2", "cpu", 2)
    assert codebook.shape == (2, 256, 4)
    uri, files = vector.compute_pq_codes(left, models, dst_dataset_uri=tmp_path / "codes")
    assert len(files) == 1
    codes = lancelet.dataset(uri).to_table()
    assert codes.schema.names == ["row_id", "__ivf_part_id", "__pq_code"]
    at_once, _ = vector.one_pass_assign_ivf_pq_on_accelerator(
        table, "v", "l2", "cpu", kmeans, models, tmp_path / "once"
    )
    assert lancelet.dataset(at_once).to_table().equals(codes)
    index = table.create_index(
        "v", "IVF_PQ", ivf_centroids=centroids, pq_codebook=codebook, num_sub_vectors=2, num_partitions=4
    )
    reader = VectorIndexReader(index, "v_idx")
    stored = {
        row: (number, code)
        for number in range(4)
        for part in [reader.read_partition(number, with_vector=True)]
        for row, code in zip(part["_rowid"].to_pylist(), part["__pq_code"].to_pylist(), strict=True)
    }
    found = {one["row_id"]: (one["__ivf_part_id"], one["__pq_code"]) for one in codes.to_pylist()}
    assert sum(found[row] == stored[row] for row in stored) >= 0.99 * len(stored)
    assert found.keys() == stored.keys()
    trained = vector.one_pass_train_ivf_pq_on_accelerator(table, "v", 4, "cosine", "cpu", 2, sample_rate=100)
    assert [one.shape for one in (trained[0], trained[2])] == [(4, WIDTH), (2, 256, 4)]
