"""A vector index step by step: models and files that pylance takes, and takes from us, and the index that comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.file
import lance.indices
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput, InvalidType, UnknownColumn
from lancelet.file import LanceFileReader
from lancelet.indices import IndicesBuilder, IvfModel, PqModel

ROWS, WIDTH = 1200, 16


def vectors(dtype: Any = np.float32, rows: int = ROWS, width: int = WIDTH) -> np.ndarray:
    """Some clusters."""
    chance = np.random.default_rng(7)
    middles = chance.standard_normal((12, width)) * 4
    return (middles[chance.integers(0, 12, rows)] + chance.standard_normal((rows, width))).astype(dtype)


def column(values: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


@pytest.fixture
def table(tmp_path: Path) -> lancelet.LanceDataset:
    """Three fragments, with a null, a vector that is not finite, and a row that is deleted."""
    values = vectors()
    values[5, 3] = np.nan
    lists = column(values).to_pylist()
    lists[9] = None
    data = pa.table({"id": range(ROWS), "vector": pa.array(lists, pa.list_(pa.float32(), WIDTH))})
    found = lancelet.write_dataset(data, tmp_path / "table", max_rows_per_file=500)
    found.delete("id = 7")
    return found


def loss(values: np.ndarray, centroids: pa.FixedSizeListArray) -> float:
    middles = np.stack(centroids.to_numpy(zero_copy_only=False)).astype(np.float64)
    return float(((values[:, None].astype(np.float64) - middles[None]) ** 2).sum(-1).min(1).sum())


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_centroids_are_as_good_as_those_of_pylance(tmp_path: Path, metric: str) -> None:
    # Without clusters: where there are, a lucky start decides.
    values = np.random.default_rng(3).standard_normal((ROWS, WIDTH)).astype(np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    ours = lancelet.write_dataset({"vector": column(values)}, tmp_path / "t")
    model = IndicesBuilder(ours, "vector").train_ivf(12, distance_type=metric, sample_rate=100)
    theirs = lance.indices.IndicesBuilder(lance.dataset(ours.uri), "vector")
    best = min(loss(values, theirs.train_ivf(12, distance_type=metric, sample_rate=100).centroids) for _ in range(3))
    assert model.distance_type == metric
    assert model.centroids.type == pa.list_(pa.float32(), WIDTH)
    assert loss(values, model.centroids) <= best * 1.05
    again = IndicesBuilder(ours, "vector").train_ivf(12, distance_type=metric, sample_rate=100)
    assert again.centroids.equals(model.centroids)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_models_have_the_type_of_the_column(tmp_path: Path, dtype: Any) -> None:
    table = lancelet.write_dataset({"vector": column(vectors(dtype))}, tmp_path / "t")
    builder = IndicesBuilder(table, "vector")
    found = builder.prepare_global_ivf_pq(4, 4, sample_rate=3)
    assert {one.type.value_type for one in found.values()} == {pa.from_numpy_dtype(dtype)}
    assert [len(one) for one in found.values()] == [4, 256]
    lance.dataset(table.uri).create_index("vector", "IVF_PQ", num_partitions=4, num_sub_vectors=4, **found)


def test_bytes_have_centroids_of_bits(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 256, (400, 8), np.uint8)
    builder = IndicesBuilder(lancelet.write_dataset({"hash": column(values)}, tmp_path / "t"), "hash")
    assert builder.train_ivf(4, distance_type="hamming", sample_rate=50).centroids.type == pa.list_(pa.uint8(), 8)
    with pytest.raises(InvalidInput, match="distance_type=hamming fits them"):
        builder.train_ivf(4, sample_rate=50)


@pytest.mark.parametrize("bits", [8, 4])
def test_entries_are_those_of_pylance(table: lancelet.LanceDataset, tmp_path: Path, bits: int) -> None:
    """With the same models, every vector has the same partition, and (but for ties in rounding) the same code.

    By l2: of cosine pylance makes none, and its codes for dot are not those that its searches look for.
    """
    ours = IndicesBuilder(table, "vector")
    ivf = ours.train_ivf(4, sample_rate=100)
    pq = ours.train_pq(ivf, 4, sample_rate=3, num_bits=bits)
    theirs = lance.indices.IndicesBuilder(lance.dataset(table.uri), "vector")
    ours.transform_vectors(ivf, pq, str(tmp_path / "ours.lance"))
    theirs.transform_vectors(
        lance.indices.IvfModel(ivf.centroids, "l2"),
        lance.indices.PqModel(4, pq.codebook, num_bits=bits),
        str(tmp_path / "theirs.lance"),
    )
    mine = LanceFileReader(str(tmp_path / "ours.lance")).read_all().to_table().sort_by("_rowid")
    readers = [lance.file.LanceFileReader(str(tmp_path / f"{who}.lance")) for who in ("ours", "theirs")]
    first, second = (reader.read_all().to_table().sort_by("_rowid") for reader in readers)
    assert mine.schema.equals(first.schema)
    assert first.schema.equals(second.schema, check_metadata=False)
    assert first["_rowid"].to_pylist() == second["_rowid"].to_pylist()
    assert len(first) == ROWS - 3
    assert first["__ivf_part_id"].to_pylist() == second["__ivf_part_id"].to_pylist()
    codes = [np.stack(one["__pq_code"].to_numpy()) for one in (first, second)]
    assert (codes[0] == codes[1]).mean() > 0.999


@pytest.mark.parametrize(
    "by, stable, metric",
    [
        ("whole", False, "l2"),
        ("whole", False, "cosine"),
        ("whole", False, "dot"),
        ("fragments", True, "l2"),
        ("fragments", False, "cosine"),
        ("partitions", False, "dot"),
        ("partitions", True, "l2"),
    ],
)
def test_an_index_of_all_steps_answers_as_one_of_create_index(
    tmp_path: Path, by: str, stable: bool, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = vectors()
    table = lancelet.write_dataset(
        {"id": range(ROWS), "vector": column(values)},
        tmp_path / "table",
        max_rows_per_file=500,
        enable_stable_row_ids=stable,
    )
    builder = IndicesBuilder(table, "vector")
    ivf = builder.train_ivf(4, sample_rate=100, distance_type=metric)
    pq = builder.train_pq(ivf, 8, sample_rate=3)
    # Models are kept between steps, and may come back from files.
    ivf.save(str(tmp_path / "ivf.lance"))
    pq.save(str(tmp_path / "pq.lance"))
    ivf, pq = IvfModel.load(str(tmp_path / "ivf.lance")), PqModel.load(str(tmp_path / "pq.lance"))
    names = ["part.lance"]
    if by == "fragments":
        names = [f"part{fragment.fragment_id}.lance" for fragment in table.get_fragments()]
        for name, fragment in zip(names, table.get_fragments(), strict=True):
            builder.transform_vectors(ivf, pq, str(tmp_path / name), [fragment])
        monkeypatch.setattr("lancelet.indexing.vector_steps._SORT_BYTES", 4000)
    else:
        place = builder.assign_ivf_partitions(ivf, None, output_uri=str(tmp_path / "assigned"))
        assert lance.dataset(place).schema.names == ["row_id", "partition"]
        builder.transform_vectors(
            ivf, pq, str(tmp_path / names[0]), partition_ds_uri=place if by == "partitions" else None
        )
    sorted_names = builder.shuffle_transformed_vectors(names, str(tmp_path), ivf)
    assert sorted_names[0] == "sorted_0.lance"
    assert (len(sorted_names) > 1) == (by == "fragments")
    builder.load_shuffled_vectors(sorted_names, str(tmp_path), ivf, pq, "stepwise")
    (index,) = table.describe_indices()
    assert (index.name, index.index_type, index.num_rows_indexed) == ("stepwise", "IVF_PQ", ROWS)
    stepwise = table.stats.index_stats("stepwise")["indices"][0]
    nearest = {"column": "vector", "q": values[3] + 0.1, "k": 20, "nprobes": 4}
    answers = lance.dataset(table.uri).to_table(nearest=nearest, columns=["id", "_distance"])
    table.drop_index("stepwise")
    models = {"ivf_centroids": ivf.centroids, "pq_codebook": pq.codebook}
    table.create_index("vector", "IVF_PQ", "at_once", metric=metric, num_sub_vectors=8, **models)
    at_once = table.stats.index_stats("at_once")["indices"][0]
    assert stepwise["partitions"] == at_once["partitions"]
    assert sum(part["size"] for part in at_once["partitions"]) == ROWS
    assert lance.dataset(table.uri).to_table(nearest=nearest, columns=["id", "_distance"]).equals(answers)


def test_sorted_files_of_pylance_become_an_index(tmp_path: Path) -> None:
    """Of 1024 rows: pylance loses what is left over of a multiple of them."""
    rows = 1024
    table = lancelet.write_dataset({"vector": column(vectors(rows=rows))}, tmp_path / "t")
    builder = IndicesBuilder(table, "vector")
    ivf = builder.train_ivf(2, sample_rate=100)
    pq = builder.train_pq(ivf, 4, sample_rate=3)
    theirs = lance.indices.IndicesBuilder(lance.dataset(table.uri), "vector")
    builder.transform_vectors(ivf, pq, str(tmp_path / "part.lance"), table.get_fragments())
    models = lance.indices.IvfModel(ivf.centroids, "l2"), lance.indices.PqModel(4, pq.codebook)
    names = theirs.shuffle_transformed_vectors(["part.lance"], str(tmp_path), models[0], "theirs")
    mine = builder.shuffle_transformed_vectors(["part.lance"], str(tmp_path), ivf, "ours")
    first, second = (
        [
            sorted(part, key=lambda entry: entry["_rowid"])
            for part in reader.read_all().to_table()["partitions"].to_pylist()
        ]
        for reader in (LanceFileReader(f"{tmp_path}/{name}") for name in (names[0], mine[0]))
    )
    assert first == second
    builder.load_shuffled_vectors(names, str(tmp_path), ivf, pq)
    (index,) = table.describe_indices()
    assert index.name == "vector_idx"
    assert set(index.segments[0].fragment_ids) == {0}
    assert sum(part["size"] for part in table.stats.index_stats("vector_idx")["indices"][0]["partitions"]) == rows
    theirs.load_shuffled_vectors(mine, str(tmp_path), *models, index_name="theirs")
    stats = lance.dataset(table.uri).stats.index_stats("theirs")["indices"][0]
    assert sum(part["size"] for part in stats["partitions"]) == rows


def test_columns_that_are_no_vectors_are_refused(tmp_path: Path) -> None:
    data = pa.table({"id": [1], "list": [[1.0]], "int": pa.array([[1, 2]], pa.list_(pa.int32(), 2))})
    table = lancelet.write_dataset(data, tmp_path / "t")
    theirs = lance.dataset(table.uri)
    for name, error in (("nope", UnknownColumn), ("id", InvalidType), ("list", InvalidType), ("int", InvalidType)):
        with pytest.raises(error, match=name):
            IndicesBuilder(table, name)
        with pytest.raises(error.__mro__[-3] if error is UnknownColumn else TypeError):
            lance.indices.IndicesBuilder(theirs, name)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(vectors(rows=100))
    table = lancelet.write_dataset({"tensor": tensors}, tmp_path / "tensors")
    assert IndicesBuilder(table, "tensor").train_ivf(2, sample_rate=10).centroids.type.list_size == WIDTH


@pytest.mark.parametrize(
    "call",
    [
        lambda builder: builder.train_ivf(0),
        lambda builder: builder.train_ivf(5000, sample_rate=2),
        lambda builder: builder.train_ivf(100, sample_rate=256),
        lambda builder: builder.train_ivf(4, sample_rate=1),
        lambda builder: builder.train_ivf(4, sample_rate=2.5),
        lambda builder: builder.train_ivf(4, distance_type="nope"),
        lambda builder: builder.train_ivf(4, distance_type=3),
        lambda builder: builder.train_ivf(4, distance_type="hamming"),
        lambda builder: builder.train_ivf(4, max_iters=0),
        lambda builder: builder.train_ivf(4, fragment_ids=[7]),
        lambda builder: builder.train_ivf(4, fragment_ids=[]),
        lambda builder: builder.train_pq(builder.ivf, 5, sample_rate=4),
        lambda builder: builder.train_pq(builder.ivf, 0, sample_rate=4),
        lambda builder: builder.train_pq(builder.ivf, "8", sample_rate=4),
        lambda builder: builder.train_pq(builder.ivf, 64, sample_rate=4),
        lambda builder: builder.train_pq(builder.ivf, 8),
        lambda builder: builder.train_pq(builder.ivf, 8, sample_rate=1),
        lambda builder: builder.train_pq(builder.ivf, 8, sample_rate=2, fragment_ids=[9]),
        lambda builder: builder.transform_vectors(builder.ivf, builder.pq, "memory://x", fragments=[]),
    ],
)
def test_arguments_that_pylance_refuses_are_refused(table: lancelet.LanceDataset, call: Any) -> None:
    ours, theirs = IndicesBuilder(table, "vector"), lance.indices.IndicesBuilder(lance.dataset(table.uri), "vector")
    middles = column(vectors(rows=4))
    ours.ivf, theirs.ivf = IvfModel(middles, "l2"), lance.indices.IvfModel(middles, "l2")
    words = column(vectors(rows=256))
    ours.pq, theirs.pq = PqModel(4, words), lance.indices.PqModel(4, words)
    with pytest.raises(ValueError):
        call(theirs)
    with pytest.raises(InvalidInput):
        call(ours)


def test_files_and_models_that_do_not_fit_are_refused(table: lancelet.LanceDataset, tmp_path: Path) -> None:
    builder = IndicesBuilder(table, "vector")
    ivf = builder.train_ivf(4, sample_rate=100)
    pq = builder.train_pq(ivf, 4, sample_rate=3)
    other = IvfModel(column(vectors(rows=3, width=8)), "l2")
    with pytest.raises(InvalidInput, match="8 numbers each, but the vectors have 16"):
        builder.train_pq(other, 4, sample_rate=3)
    with pytest.raises(InvalidInput, match="does not fit vectors of 16 numbers"):
        builder.transform_vectors(ivf, PqModel(2, column(vectors(rows=256, width=8))), str(tmp_path / "x.lance"))
    ivf.save(str(tmp_path / "ivf.lance"))
    with pytest.raises(InvalidInput, match="give what transform_vectors wrote"):
        builder.shuffle_transformed_vectors(["ivf.lance"], str(tmp_path), ivf)
    with pytest.raises(InvalidInput, match="give what shuffle_transformed_vectors wrote"):
        builder.load_shuffled_vectors(["ivf.lance"], str(tmp_path), ivf, pq)
    with pytest.raises(InvalidInput, match="there are no files"):
        builder.load_shuffled_vectors([], str(tmp_path), ivf, pq)
    builder.transform_vectors(ivf, pq, str(tmp_path / "part.lance"))
    with pytest.raises(InvalidInput, match="but the model has 1"):
        builder.shuffle_transformed_vectors(["part.lance"], str(tmp_path), IvfModel(column(vectors(rows=1)), "l2"))
    names = builder.shuffle_transformed_vectors(["part.lance"], str(tmp_path), ivf)
    table.optimize.compact_files()
    with pytest.raises(InvalidInput, match="transform the vectors again"):
        builder.load_shuffled_vectors(names, str(tmp_path), ivf, pq)


def test_numbers_that_are_chosen_when_none_are_given(table: lancelet.LanceDataset) -> None:
    builder = IndicesBuilder(table, "vector")
    assert builder.train_ivf(sample_rate=2).num_partitions == round((ROWS - 1) ** 0.5)
    ivf = builder.train_ivf(2, sample_rate=100)
    assert builder.train_pq(ivf, sample_rate=3).num_subvectors == 1
    with pytest.warns(UserWarning, match="num_partitions is float"):
        assert builder.train_ivf(3.0, sample_rate=100).num_partitions == 3
