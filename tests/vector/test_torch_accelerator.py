"""A build on a device of PyTorch gives what the processor gives, but for rounding; without a GPU the device is the processor too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput
from lancelet.index.vector.accelerator import Accelerator
from lancelet.index.vector.centroids import assign
from lancelet.index.vector.kmeans import train_centroids, train_words
from lancelet.index.vector.metric import Metric, normalized
from lancelet.index.vector.pq import ProductQuantizer
from lancelet.indices import IndicesBuilder


def vectors(rows: int, width: int, dtype: Any = np.float32) -> np.ndarray:
    chance = np.random.default_rng(rows)
    middles = chance.standard_normal((10, width)) * 3
    return (middles[chance.integers(0, 10, rows)] + chance.standard_normal((rows, width))).astype(dtype)


class TestWithTorch:
    """What needs torch."""

    @pytest.fixture(params=["cpu", "cuda"])
    def device(self, request: pytest.FixtureRequest) -> str:
        torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lancelet[torch]'")
        if request.param == "cuda" and not torch.cuda.is_available():
            pytest.skip("there is no GPU here that CUDA knows")
        return str(request.param)

    @pytest.mark.parametrize("metric", [Metric.L2, Metric.COSINE, Metric.DOT])
    def test_training_is_the_same(self, metric: Metric, device: str) -> None:
        values = vectors(4000, 16)
        if metric is Metric.COSINE:
            values, metric = normalized(values).astype(np.float32), Metric.L2
        expected, first = train_centroids(values, 20, metric, 30, 5)
        found, second = train_centroids(values, 20, metric, 30, 5, Accelerator(device).step)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
        assert second == pytest.approx(first, rel=1e-4)

    @pytest.mark.parametrize("count", [16, 256])
    def test_words_are_the_same(self, count: int, device: str) -> None:
        values = vectors(3000, 16)
        expected = train_words(values, 4, count, 3, 5)
        found = train_words(values, 4, count, 3, 5, Accelerator(device).step)
        assert (np.abs(found - expected) < 1e-3).mean() > 0.99

    @pytest.mark.parametrize("metric", [Metric.L2, Metric.DOT, Metric.HAMMING])
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_partitions_are_the_same(
        self, metric: Metric, dtype: Any, device: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("lancelet.index.vector.accelerator._PIECE_BYTES", 10_000)
        values = vectors(1000, 16, dtype)
        if metric is Metric.HAMMING:
            values = values.astype(np.int8).view(np.uint8)
        expected, first = assign(values, values[:7], metric)
        found, second = Accelerator(device).assign(values, values[:7], metric)
        assert (found == expected).all()
        assert second == pytest.approx(first, rel=1e-3)

    @pytest.mark.parametrize("metric", [Metric.L2, Metric.DOT])
    @pytest.mark.parametrize("bits", [4, 8])
    def test_codes_are_the_same(self, metric: Metric, bits: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lancelet.index.vector.accelerator._PIECE_BYTES", 100_000)
        values = vectors(1000, 16)
        centroids = values[:5]
        partitions, _ = assign(values, centroids, metric)
        words = train_words(values - centroids[partitions], 4, 1 << bits, 5, 1)
        quantizer = ProductQuantizer(metric, words, bits)
        (expected,) = quantizer.encode(values, partitions, centroids)
        (found,) = Accelerator(device).encode(quantizer, values, partitions, centroids)
        assert found.shape == expected.shape
        assert (found == expected).mean() > 0.999

    def test_an_index_built_on_a_device_finds_the_same_rows(self, tmp_path: Path, device: str) -> None:
        values = vectors(3000, 16)
        column = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 16)
        table = lancelet.write_dataset({"id": range(3000), "vector": column}, tmp_path / "t")
        options = {"num_partitions": 8, "num_sub_vectors": 4}
        shown = []
        for accelerator in (None, device):
            table.create_index("vector", "IVF_PQ", replace=True, accelerator=accelerator, **options)
            shown.append(table.stats.index_stats("vector_idx")["indices"][0])
        np.testing.assert_allclose(shown[0]["centroids"], shown[1]["centroids"], rtol=1e-3, atol=1e-3)
        sizes = [np.array([part["size"] for part in one["partitions"]]) for one in shown]
        assert np.abs(sizes[0] - sizes[1]).max() <= 3

    def test_steps_on_a_device(self, tmp_path: Path, device: str) -> None:
        values = vectors(1000, 16)
        column = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 16)
        builder = IndicesBuilder(lancelet.write_dataset({"vector": column}, tmp_path / "t"), "vector")
        plain, fast = (builder.train_ivf(6, sample_rate=50, accelerator=one) for one in (None, device))
        np.testing.assert_allclose(
            plain.centroids.flatten().to_numpy(), fast.centroids.flatten().to_numpy(), rtol=1e-3, atol=1e-3
        )
        places = [
            builder.assign_ivf_partitions(plain, one, output_uri=str(tmp_path / str(one))) for one in (None, device)
        ]
        first, second = (lancelet.dataset(place).to_table() for place in places)
        assert first.equals(second)

    @pytest.mark.usefixtures("device")
    def test_devices_that_are_not_there(self) -> None:
        import torch

        with pytest.raises(InvalidInput, match="'cuda' or 'mps'"):
            Accelerator("tpu")

        if not torch.backends.mps.is_available():
            with pytest.raises(InvalidInput, match="the accelerator 'mps' cannot be used here"):
                Accelerator("mps")


def test_without_torch_the_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, pyarrow as pa, lancelet\n"
        "column = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(3200, np.float32)), 4)\n"
        "table = lancelet.write_dataset({'v': column}, 'memory://t')\n"
        "try:\n    table.create_index('v', 'IVF_PQ', num_partitions=1, num_sub_vectors=2, accelerator='cuda')\n"
        "except lancelet.errors.MissingPackage as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "accelerator='cuda' needs the package torch: pip install 'lancelet[torch]'\n"
