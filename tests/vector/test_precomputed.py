"""What is given to a build: partitions and codes that were worked out before, and how much of a sample is held at once."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import LanceletError
from vector.samples import column, open_segments, table_of, vectors

ROWS = 800
CENTROIDS = vectors("f32", 4, seed=3)
CODEBOOK = np.random.default_rng(2).standard_normal((8, 256, 2)).astype(np.float32) * 2
PQ: dict[str, Any] = {"num_sub_vectors": 8, "pq_codebook": CODEBOOK}


@pytest.fixture
def dataset(tmp_path: Path) -> lancelet.LanceDataset:
    return lancelet.write_dataset(table_of(vectors("f32", ROWS)), str(tmp_path / "t"), max_rows_per_file=500)


def assigned(dataset: lancelet.LanceDataset) -> pa.Table:
    """Partitions by turns, which no training would find."""
    rows = dataset.to_table([], with_row_id=True)["_rowid"]
    return pa.table({"row_id": rows, "partition": (np.arange(ROWS) % 4).astype(np.uint32)})


def contents(uri: str) -> list[tuple[list[int], list[bytes]]]:
    """Rows and codes of each partition."""
    (segment,) = open_segments(uri)
    pick_up = segment.model.quantizer.pick_up
    return [
        (partition.rows.tolist(), [row.tobytes() for row in pick_up(partition.stored)[0]])
        for _, partition in segment.stream()
    ]


@pytest.mark.parametrize(("kind", "options"), [("IVF_FLAT", {}), ("IVF_PQ", PQ)])
def test_partitions_are_taken_as_pylance_takes_them(
    dataset: lancelet.LanceDataset, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    place = str(tmp_path / "partitions")
    lance.write_dataset(assigned(dataset).take(np.random.default_rng(1).permutation(ROWS)), place)
    found = []
    for library in (lance, lancelet):
        library.dataset(dataset.uri).create_index(
            "v", kind, replace=True, ivf_centroids=CENTROIDS, precomputed_partition_dataset=place, **options
        )
        found.append(contents(dataset.uri))
    assert found[0] == found[1]
    assert [len(rows) for rows, _ in found[0]] == [200] * 4


def test_rows_without_a_partition_get_the_nearest(dataset: lancelet.LanceDataset, tmp_path: Path) -> None:
    place = str(tmp_path / "partitions")
    lancelet.write_dataset(assigned(dataset).slice(0, 300), place)
    dataset.create_index("v", "IVF_FLAT", ivf_centroids=CENTROIDS, precomputed_partition_dataset=place)
    assert sorted(row for rows, _ in contents(dataset.uri) for row in rows) == sorted(
        dataset.to_table([], with_row_id=True)["_rowid"].to_pylist()
    )
    assert not dataset.verify(deep=True).findings


@pytest.mark.parametrize("version", ["stable", "2.0"])
def test_shuffle_buffers_are_taken_as_pylance_takes_them(
    dataset: lancelet.LanceDataset, tmp_path: Path, version: str
) -> None:
    codes = np.random.default_rng(4).integers(0, 256, (ROWS, 8)).astype(np.uint8)
    table = assigned(dataset).rename_columns(["row_id", "__ivf_part_id"]).append_column("__pq_code", column(codes))
    written = lance.write_dataset(table, tmp_path / "codes", data_storage_version=version)
    files = [file.path for fragment in written.get_fragments() for file in fragment.data_files()]
    buffers = {
        "precomputed_shuffle_buffers": files,
        "precomputed_shuffle_buffers_path": str(tmp_path / "codes" / "data"),
    }
    found = []
    for library in (lance, lancelet):
        library.dataset(dataset.uri).create_index("v", "IVF_PQ", replace=True, ivf_centroids=CENTROIDS, **PQ, **buffers)
        found.append(contents(dataset.uri))
    assert found[0] == found[1]


def refusals(dataset: lancelet.LanceDataset, tmp_path: Path, library: ModuleType) -> dict[str, dict[str, Any]]:
    """Arguments of create_index that make no sense."""
    table = assigned(dataset)
    tables = {
        "names": table.rename_columns(["row", "part"]),
        "beyond": table.set_column(1, "partition", [np.arange(ROWS).astype(np.uint32) % 7]),
        "type": table.set_column(1, "partition", [np.arange(ROWS) % 4]),
    }
    given = {"ivf_centroids": CENTROIDS}
    for name, one in tables.items():
        library.write_dataset(one, tmp_path / name, mode="overwrite")
    library.write_dataset(table, tmp_path / "good", mode="overwrite")
    library.write_dataset(table, tmp_path / "two", max_rows_per_file=500, mode="overwrite")
    partitions = "precomputed_partition_dataset"
    found: dict[str, dict[str, Any]] = {
        name: {**given, partitions: str(tmp_path / name)} for name in (*tables, "two", "nowhere")
    }
    return found | {
        "no centroids": {partitions: str(tmp_path / "good"), "num_partitions": 4},
        "half of the buffers": {**given, "precomputed_shuffle_buffers": ["a.lance"]},
        "streaming rate": {"streaming_sample_rate": 0, "num_partitions": 4},
        "streaming coreset": {"streaming_sample_rate": 9, "streaming_coreset_rate": 0, "num_partitions": 4},
        "streaming passes": {"streaming_sample_rate": 9, "streaming_refine_passes": -1, "num_partitions": 4},
        "streaming text": {"streaming_sample_rate": "9", "num_partitions": 4},
        "version": {"index_file_version": "V9", "num_partitions": 4},
    }


def test_what_makes_no_sense_is_refused_as_pylance_does(dataset: lancelet.LanceDataset, tmp_path: Path) -> None:
    for name, options in refusals(dataset, tmp_path, lancelet).items():
        with pytest.raises(LanceletError) as ours:
            dataset.create_index("v", "IVF_FLAT", replace=True, **options)
        with pytest.raises(BaseException) as theirs:
            lance.dataset(dataset.uri).create_index("v", "IVF_FLAT", replace=True, **options)
        if theirs.type.__name__ != "PanicException":
            assert isinstance(ours.value, theirs.type), (name, theirs.value)
        assert len(str(ours.value)) > 30, name
    assert not dataset.describe_indices()


def test_old_files_are_not_written(dataset: lancelet.LanceDataset) -> None:
    with pytest.raises(NotImplementedError, match="leave it out"):
        dataset.create_index("v", "IVF_PQ", num_sub_vectors=8, index_file_version="Legacy")
    dataset.create_index("v", "IVF_SQ", index_file_version="Legacy")


def test_centroids_of_a_sample_that_streams_are_as_good(dataset: lancelet.LanceDataset) -> None:
    values = vectors("f32", ROWS).astype(np.float64)
    loss = {}
    for name, options in {
        "whole": {},
        "few": {"sample_rate": 4},
        "streamed": {"streaming_sample_rate": 4, "streaming_refine_passes": 6},
        "of more": {"streaming_sample_rate": 4, "streaming_coreset_rate": 16},
        "not less": {"streaming_sample_rate": 256},
    }.items():
        dataset.create_index("v", "IVF_FLAT", num_partitions=6, replace=True, **options)
        (segment,) = open_segments(dataset.uri)
        apart = values[:, None] - segment.model.centroids.astype(np.float64)
        loss[name] = float(np.square(apart).sum(axis=2).min(axis=1).sum())
    assert loss["not less"] == loss["whole"]
    assert loss["streamed"] < 1.1 * loss["whole"]
    assert loss["streamed"] < loss["few"]
    assert loss["of more"] < loss["few"]
