"""Tables as data sets of PyTorch: the tensors that pylance gives, every row once over all workers, the same at every run."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lancelet[torch]'")
pytest.importorskip("tqdm", reason="pylance's own modules for torch need tqdm")

import lance  # noqa: E402
import lance.torch.bench_utils  # noqa: E402
import lance.torch.data  # noqa: E402
import lance.torch.dist  # noqa: E402
import lance.torch.distance  # noqa: E402
import lance.torch.kmeans  # noqa: E402

from lancelet.sampler import ShardedBatchSampler  # noqa: E402
from lancelet.torch import bench_utils, data, dist, distance, kmeans, preferred_device  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:with_row_id is not supported for ShardedBatchSampler"),
    pytest.mark.filterwarnings("ignore:lance is not fork-safe"),
]
ROWS = 100
COLUMNS: dict[str, Any] = {
    "int": pa.array(range(ROWS), pa.int32()),
    "float": pa.array(np.arange(ROWS) / 7, pa.float32()),
    "half": pa.array(np.arange(ROWS).astype(np.float16)),
    "bool": pa.array([number % 3 == 0 for number in range(ROWS)]),
    "uint64": pa.array(range(ROWS), pa.uint64()),
    "uint16": pa.array(range(ROWS), pa.uint16()),
    "nulls": pa.array([None if number % 3 == 0 else number for number in range(ROWS)], pa.int32()),
    "vector": pa.array([[number, 1.5] for number in range(ROWS)], pa.list_(pa.float32(), 2)),
    "nullable": pa.array([None if number == 1 else [1.0, 2.0] for number in range(ROWS)], pa.list_(pa.float32(), 2)),
    "bytes": pa.array([[number, 7] for number in range(ROWS)], pa.list_(pa.uint8(), 2)),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(ROWS * 6, dtype=np.float32).reshape(ROWS, 2, 3)),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("torch") / "table"
    table = pa.table({**COLUMNS, "text": [f"t{number}" for number in range(ROWS)]})
    lancelet.write_dataset(table, path, max_rows_per_file=30)
    return str(path)


def numbers(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("column", sorted(COLUMNS.keys() - {"nullable"}))
def test_tensors_are_those_of_pylance(place: str, column: str) -> None:
    ours = list(data.LanceDataset(place, 16, columns=[column]))
    theirs = list(lance.torch.data.LanceDataset(place, 16, columns=[column]))
    assert [one.dtype for one in ours] == [one.dtype for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_a_vector_that_is_null_is_not_a_number(place: str) -> None:
    batch = next(iter(data.LanceDataset(place, 3, columns=["nullable"])))
    assert batch.isnan().tolist() == [[False, False], [True, True], [False, False]]


def test_a_tensor_can_be_written_to(place: str) -> None:
    for column in COLUMNS:
        batch = next(iter(data.LanceDataset(place, 16, columns=[column])))
        batch[0] = batch[1]
    assert lancelet.dataset(place).to_table(columns=["int"])["int"].to_pylist() == list(range(ROWS))


def test_numbers_of_sixteen_bits_with_the_range_of_32(tmp_path: Path) -> None:
    values = torch.tensor([1.5, -2.25, 3e38, 0.0], dtype=torch.bfloat16)
    storage = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(2), 4, [None, pa.py_buffer(values.view(torch.int16).numpy().tobytes())]
    )
    item = pa.field("item", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})
    vectors = pa.FixedSizeListArray.from_arrays(storage, type=pa.list_(item, 2))
    plain = pa.field("plain", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})
    table = pa.table([storage.slice(0, 2), vectors], schema=pa.schema([plain, pa.field("vectors", vectors.type)]))
    (found,) = data.LanceDataset(lancelet.write_dataset(table, tmp_path / "bf16"), 10)
    assert found["plain"].dtype == found["vectors"].dtype == torch.bfloat16
    assert torch.equal(found["plain"], values[:2])
    assert torch.equal(found["vectors"], values.reshape(2, 2))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"with_row_id": True},
        {"rank": 1, "world_size": 2},
        {"rank": 1, "world_size": 2, "shard_granularity": "batch"},
        {"rank": 0, "world_size": 3, "shard_granularity": "fragment"},
        {"cache": True},
        {"samples": 500},
    ],
)
def test_batches_are_those_of_pylance(place: str, options: dict[str, Any]) -> None:
    def batches(kind: Any) -> list[dict[str, list[Any]]]:
        whole = kind(place, 16, columns=["int", "vector"], **options)
        first = [{name: one.tolist() for name, one in batch.items()} for batch in whole]
        second = [{name: one.tolist() for name, one in batch.items()} for batch in whole]
        assert first == second
        return first

    assert batches(data.LanceDataset) == batches(lance.torch.data.LanceDataset)


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.soak)])
@pytest.mark.parametrize("granularity", ["fragment", "batch"])
@pytest.mark.filterwarnings("ignore:This process")
def test_workers_share_the_table(place: str, context: str, granularity: Any) -> None:
    whole = data.LanceDataset(place, 7, columns=["int"], shard_granularity=granularity, cache=True)
    loader = torch.utils.data.DataLoader(whole, batch_size=None, num_workers=2, multiprocessing_context=context)
    rows = [number for batch in numbers(loader) for number in batch]
    assert sorted(rows) == list(range(ROWS))


def test_an_order_by_chance_is_repeated_by_its_seed(place: str) -> None:
    def order(seed: int) -> list[list[int]]:
        return numbers(data.LanceDataset(place, 7, columns=["int"], sampler=ShardedBatchSampler(0, 1, True, seed)))

    assert order(1) == order(1) != order(2)


def test_batches_with_a_filter_are_full(place: str) -> None:
    batches = numbers(data.LanceDataset(place, 16, columns=["int"], filter="int % 3 = 0"))
    assert [len(batch) for batch in batches] == [16, 16, 2]
    assert [number for batch in batches for number in batch] == list(range(0, ROWS, 3))


def test_samples_are_rows_by_chance(place: str) -> None:
    for options in ({}, {"filter": "int % 2 = 0"}):
        rows = numbers(data.LanceDataset(place, 8, columns=["int"], samples=20, **options))
        assert [len(batch) for batch in rows] == [8, 8, 4]
        assert len({number for batch in rows for number in batch}) == 20


def test_expressions_stay_expressions_in_a_sample(place: str) -> None:
    for options in ({}, {"samples": 20}, {"shard_granularity": "batch"}):
        for batch in data.LanceDataset(place, 8, columns={"int": "int * 1000"}, with_row_id=True, **options):
            assert list(batch) == ["int", "_rowid"]
            assert (batch["int"] % 1000 == 0).all()


def test_a_cache_that_was_not_filled_is_filled_the_next_time(place: str, tmp_path: Path) -> None:
    whole = data.LanceDataset(place, 30, columns=["int"], cache=str(tmp_path / "here"))
    next(iter(whole))
    assert sum(map(len, numbers(whole))) == ROWS
    assert len(list((tmp_path / "here").rglob("batches.arrow"))) == 1
    assert sum(map(len, numbers(whole))) == ROWS
    del whole
    assert not list((tmp_path / "here").iterdir())


def test_batches_as_they_are_and_as_one_likes(place: str) -> None:
    (first, *_) = data.LanceDataset(place, 5, to_tensor_fn=None)
    assert isinstance(first, pa.RecordBatch)
    (first, *_) = data.LanceDataset(
        place, 5, columns=["text"], to_tensor_fn=lambda batch, **_: batch["text"].to_pylist()
    )
    assert first == [f"t{number}" for number in range(5)]


def test_blobs_are_files(tmp_path: Path) -> None:
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table(
        [pa.array(range(4)), pa.array([b"a" * number for number in range(4)], pa.large_binary())],
        schema=pa.schema([pa.field("id", pa.int64()), field]),
    )
    place = lancelet.write_dataset(table, tmp_path / "blobs")
    batches = list(data.LanceDataset(place, 3))
    assert [list(batch) for batch in batches] == [["id", "blob"]] * 2
    assert [one.readall() for batch in batches for one in batch["blob"]] == [b"a" * number for number in range(4)]


def test_what_cannot_be_a_tensor_is_told(place: str) -> None:
    with pytest.raises(InvalidInput, match=r"column 'text' is string: .*columns="):
        next(iter(data.LanceDataset(place, 5)))
    with pytest.raises(InvalidInput, match="shard_granularity is one of fragment, batch"):
        data.LanceDataset(place, 5, shard_granularity="row")
    with pytest.raises(InvalidInput, match="batch_size is 1 or more"):
        data.LanceDataset(place, 0)
    with pytest.raises(InvalidInput, match="give both or none"):
        data.LanceDataset(place, 5, rank=1)
    with pytest.raises(InvalidInput, match="give one of them"):
        data.LanceDataset(place, 5, samples=3, sampler=ShardedBatchSampler(0, 1))


def test_rows_by_number(place: str) -> None:
    ours, theirs = data.SafeLanceDataset(place), lance.torch.data.SafeLanceDataset(place)
    assert len(ours) == len(theirs) == ROWS
    assert ours[3]["vector"] == [3.0, 1.5]
    assert ours.__getitems__([5, 2])[1]["text"] == "t2"
    assert ours[50] == theirs[50]
    with pytest.raises(IndexError):
        ours[ROWS]


@pytest.mark.soak
def test_rows_by_number_from_workers(tmp_path: Path) -> None:
    place = str(tmp_path / "rows")
    lancelet.write_dataset({"x": range(20)}, place)
    loader = data.get_safe_loader(data.SafeLanceDataset(place), batch_size=6, num_workers=1, shuffle=True)
    assert sorted(number for batch in loader for number in batch["x"].tolist()) == list(range(20))
    assert data.get_safe_loader(data.SafeLanceDataset(place), num_workers=0).persistent_workers is False


def test_arrays_in_batches() -> None:
    values = np.arange(10).reshape(5, 2)
    ours, theirs = data.TensorDataset(values, 2), lance.torch.data.TensorDataset(values, 2)
    assert len(ours) == len(theirs) == 3
    assert numbers(ours) == numbers(theirs)
    with pytest.raises(IndexError):
        ours[3]


@pytest.mark.soak
def test_another_process_reads_ahead(place: str, tmp_path: Path) -> None:
    script = tmp_path / "ahead.py"
    script.write_text(
        "import functools, sys\n"
        "from lancelet.torch.async_dataset import async_dataset\n"
        "from lancelet.torch.data import LanceDataset\n"
        "if __name__ == '__main__':\n"
        f"    make = functools.partial(LanceDataset, {place!r}, 30, columns=['int'])\n"
        "    with async_dataset(make, queue_size=1) as ahead:\n"
        "        print([number for batch in ahead for number in batch.tolist()])\n"
        "        print(next(iter(ahead)).tolist())\n"
        "    with async_dataset(functools.partial(LanceDataset, '/no/such/table', 3)) as ahead:\n"
        "        try:\n"
        "            list(ahead)\n"
        "        except FileNotFoundError as error:\n"
        "            print('not found')\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == [str(list(range(ROWS))), str(list(range(30))), "not found"]


POINTS = np.random.default_rng(1).standard_normal((300, 8)).astype(np.float32)
CENTERS = POINTS[:5].copy()


@pytest.mark.parametrize("name", ["l2_distance", "dot_distance", "cosine_distance"])
def test_nearest_rows_are_those_of_pylance(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "_PIECE_BYTES", 1000)
    x, y = torch.from_numpy(POINTS + 0.1), torch.from_numpy(CENTERS)
    places, distances = getattr(distance, name)(x, y)
    expected = {
        "l2_distance": ((x[:, None] - y[None]) ** 2).sum(-1),
        "dot_distance": 1 - x @ y.T,
        "cosine_distance": 1 - torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=-1),
    }[name]
    assert torch.equal(places, expected.argmin(dim=1))
    torch.testing.assert_close(distances, expected.min(dim=1).values, rtol=1e-4, atol=1e-5)
    x[3] = float("nan")
    places, distances = getattr(distance, name)(x, y)
    assert places[3] == -1
    assert distances[3].isnan()
    assert len(getattr(distance, name)(x[:0], y)[0]) == 0
    with pytest.raises(ValueError, match="both are tensors of two dimensions"):
        getattr(distance, name)(x[0], y)


def test_all_distances() -> None:
    x, y = torch.from_numpy(POINTS), torch.from_numpy(CENTERS)
    squares = ((x[:, None] - y[None]) ** 2).sum(-1)
    torch.testing.assert_close(distance.pairwise_l2(x, y), squares, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(distance.pairwise_l2(x, y, (y * y).sum(1)), squares, rtol=1e-4, atol=1e-4)
    cosine = 1 - torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=-1)
    torch.testing.assert_close(distance.pairwise_cosine(x, y), cosine, rtol=1e-4, atol=1e-5)
    assert distance.argmin_l2(x, y)[1].shape == (300, 1)


def blobs(count: int = 4, rows: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Clusters far from each other, and which vector is in which."""
    chance = np.random.default_rng(2)
    middles = chance.standard_normal((count, 8)) * 50
    labels = np.repeat(np.arange(count), rows)
    return (middles[labels] + chance.standard_normal((count * rows, 8))).astype(np.float32), labels


@pytest.mark.parametrize("metric", ["l2", "euclidean", "cosine", "dot"])
def test_clusters_are_found(metric: Any) -> None:
    vectors, labels = blobs()
    for seed in range(5):
        model = kmeans.KMeans(4, metric=metric, seed=seed, device="cpu")
        model.fit(vectors)
        found = model.transform(vectors).numpy()
        assert found.min() >= 0
        again = kmeans.KMeans(4, metric=metric, seed=seed, device="cpu")
        again.fit(torch.from_numpy(vectors))
        assert torch.equal(model.centroids, again.centroids)
        if metric != "dot":
            purity = sum(np.bincount(labels[found == one]).max() for one in np.unique(found)) / len(labels)
            assert purity >= 0.5


def test_clusters_of_what_does_not_fit_into_memory(tmp_path: Path) -> None:
    vectors, labels = blobs()
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 8)
    table = lancelet.write_dataset(pa.table({"label": labels, "vector": column}), tmp_path / "vectors")
    models = [kmeans.KMeans(4, seed=3, device="cpu") for _ in range(2)]
    models[0].fit(column)
    models[1].fit(data.LanceDataset(table, 400, columns=["label", "vector"]), column="vector")
    torch.testing.assert_close(models[0].centroids, models[1].centroids, rtol=1e-4, atol=1e-3)
    with pytest.raises(InvalidInput, match="say which by column="):
        kmeans.KMeans(4).fit(data.LanceDataset(table, 64, columns=["label", "vector"]))


def test_given_centroids_are_used_at_once() -> None:
    vectors, labels = blobs()
    ours = kmeans.KMeans(4, centroids=torch.from_numpy(vectors[::100]), device="cpu")
    assert ours.transform(vectors).tolist() == labels.tolist()
    vectors[3] = np.nan
    assert ours.transform(vectors)[3] == -1
    ours.fit(vectors)
    assert ours.centroids.isfinite().all()


def test_k_means_of_what_makes_no_sense() -> None:
    with pytest.raises(InvalidInput, match="k is 1 or more"):
        kmeans.KMeans(0)
    with pytest.raises(InvalidInput, match="not 'hamming'"):
        kmeans.KMeans(4, metric="hamming")
    with pytest.raises(InvalidInput, match="2 vectors are too few for 4 clusters"):
        kmeans.KMeans(4, device="cpu").fit(POINTS[:2])
    with pytest.raises(InvalidInput, match="call fit first"):
        kmeans.KMeans(4, device="cpu").transform(POINTS)


@pytest.mark.parametrize("metric", ["L2", "cosine", "dot", pytest.param("euclidean", marks=pytest.mark.soak)])
def test_ground_truth(tmp_path: Path, metric: str) -> None:
    column = pa.FixedSizeListArray.from_arrays(pa.array(POINTS.reshape(-1)), 8)
    table = lancelet.write_dataset({"id": range(300), "vector": column}, tmp_path / "vectors", max_rows_per_file=90)
    query = POINTS[:6] + 0.01
    products = query @ POINTS.T
    lengths = np.linalg.norm(query, axis=1)[:, None] * np.linalg.norm(POINTS, axis=1)
    marks = {"cosine": -products / lengths, "dot": -products}.get(metric)
    if marks is None:
        marks = ((query[:, None] - POINTS[None]) ** 2).sum(-1)
    expected = lancelet.dataset(table.uri).to_table(columns=[], with_row_id=True)["_rowid"].to_numpy()
    found = bench_utils.ground_truth(table, "vector", query, metric, k=7, batch_size=50, device="cpu")
    assert found.tolist() == expected[np.argsort(marks, axis=1)[:, :7]].tolist()
    assert bench_utils.recall(found.numpy(), found.numpy()).tolist() == [1.0] * 6
    assert bench_utils.infer_vector_column(table) == "vector"
    if metric == "euclidean":
        theirs = lance.dataset(table.uri)
        assert lance.torch.bench_utils.infer_vector_column(theirs) == "vector"
        truth = lance.torch.bench_utils.ground_truth(theirs, "vector", query, "L2", k=7, device="cpu")
        assert found.tolist() == truth.tolist()


def test_one_process_alone() -> None:
    for name in dist.__all__:
        assert getattr(dist, name)() == getattr(lance.torch.dist, name)()
    assert preferred_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (data, lance.torch.data),
        (kmeans, lance.torch.kmeans),
        (distance, lance.torch.distance),
        (bench_utils, lance.torch.bench_utils),
        (dist, lance.torch.dist),
    ],
)
def test_all_of_pylance_is_there(ours: Any, theirs: Any) -> None:
    for name, value in vars(theirs).items():
        if name.startswith("_") or getattr(value, "__module__", None) != theirs.__name__:
            continue
        calls = [(value, getattr(ours, name))]
        if inspect.isclass(value):
            calls = [(value.__init__, getattr(ours, name).__init__)]
        for call, mine in calls:
            wanted = inspect.signature(call).parameters
            assert set(wanted) <= set(inspect.signature(mine).parameters), name


def test_torch_is_imported_only_when_asked_for() -> None:
    script = "import sys, lancelet, lancelet.sampler; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
