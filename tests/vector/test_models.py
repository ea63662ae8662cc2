"""Models of vector indices: pylance reads the files that we write, and we read its."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.file
import lance.indices
import numpy as np
import pyarrow as pa
import pytest

from lancelet.errors import CorruptFile, InvalidInput, InvalidType
from lancelet.file import LanceFileReader, LanceFileWriter
from lancelet.indices import IvfModel, PqModel

TYPES = [np.float16, np.float32, np.float64, np.uint8]


def lists(rows: int, dimension: int, dtype: Any = np.float32) -> pa.FixedSizeListArray:
    values = np.random.default_rng(rows).standard_normal(rows * dimension) * 20
    return pa.FixedSizeListArray.from_arrays(pa.array(np.abs(values).astype(dtype)), dimension)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("metric", ["l2", "cosine", "euclidean"])
@pytest.mark.parametrize("writer, reader", [(IvfModel, lance.indices.IvfModel), (lance.indices.IvfModel, IvfModel)])
def test_centroids_go_both_ways(tmp_path: Path, dtype: Any, metric: str, writer: Any, reader: Any) -> None:
    place = str(tmp_path / "ivf.lance")
    centroids = lists(7, 12, dtype)
    writer(centroids, metric).save(place)
    found = reader.load(place)
    assert found.centroids.equals(centroids)
    assert (found.distance_type, found.num_partitions) == (metric, 7)


@pytest.mark.parametrize("dtype", TYPES[:3])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("writer, reader", [(PqModel, lance.indices.PqModel), (lance.indices.PqModel, PqModel)])
def test_codebooks_go_both_ways(tmp_path: Path, dtype: Any, bits: int, writer: Any, reader: Any) -> None:
    place = str(tmp_path / "pq.lance")
    codebook = lists(1 << bits, 12, dtype)
    writer(3, codebook, num_bits=bits).save(place)
    found = reader.load(place)
    assert found.codebook.equals(codebook)
    assert (found.num_subvectors, found.num_bits, found.dimension) == (3, bits, 12)


def test_the_files_are_those_of_pylance(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance")
    for ours_kind, theirs_kind, how in (
        (IvfModel, lance.indices.IvfModel, (lists(5, 4), "dot")),
        (PqModel, lance.indices.PqModel, (2, lists(256, 4))),
    ):
        ours_kind(*how).save(ours)
        theirs_kind(*how).save(theirs)
        first, second = (lance.file.LanceFileReader(place).metadata() for place in (ours, theirs))
        assert first.schema.equals(second.schema, check_metadata=True)
        assert (first.major_version, first.minor_version) == (second.major_version, second.minor_version)


def test_a_model_replaces_what_was_saved_before(tmp_path: Path) -> None:
    place = str(tmp_path / "ivf.lance")
    IvfModel(lists(5, 4), "l2").save(place)
    IvfModel(lists(3, 4), "l2").save(place)
    assert IvfModel.load(place).num_partitions == 3


def test_arrays_of_numpy_are_models_too() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert IvfModel(values, "l2").centroids.to_pylist() == values.tolist()
    assert PqModel(2, values).dimension == 4
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    assert IvfModel(tensor, "l2").centroids.to_pylist() == values.tolist()
    assert repr(IvfModel(values, "l2")) == "IvfModel(3 partitions, fixed_size_list<item: float>[4], 'l2')"


def test_files_of_old_do_not_tell_bits(tmp_path: Path) -> None:
    place = str(tmp_path / "old.lance")
    schema = pa.schema([pa.field("codebook", lists(1, 4).type)], metadata={"num_subvectors": "2"})
    with LanceFileWriter(place, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([lists(256, 4)], schema=schema))
    assert PqModel.load(place).num_bits == 8


def test_other_files_are_refused(tmp_path: Path) -> None:
    ivf, pq, odd = (str(tmp_path / name) for name in ("ivf", "pq", "odd"))
    IvfModel(lists(5, 4), "l2").save(ivf)
    PqModel(2, lists(256, 4)).save(pq)
    with pytest.raises(InvalidInput, match="'num_subvectors'; load what the model itself saved"):
        PqModel.load(ivf)
    with pytest.raises(InvalidInput, match="is no file of a model with centroids"):
        IvfModel.load(pq)
    with pytest.raises(ValueError, match="missing"):
        IvfModel.load(str(tmp_path / "missing"))
    schema = pa.schema([pa.field("codebook", lists(1, 4).type)], metadata={"num_subvectors": "many"})
    with LanceFileWriter(odd, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([lists(256, 4)], schema=schema))
    with pytest.raises(CorruptFile, match="tells no number, but 'many'"):
        PqModel.load(odd)
    assert LanceFileReader(odd).num_rows() == 256


@pytest.mark.parametrize("rows", [[[1.0]], pa.array([1.0]), np.zeros(3), np.zeros((3, 0)), None])
def test_rows_of_other_shapes_are_refused(rows: Any) -> None:
    with pytest.raises(InvalidType, match="lists of a fixed size"):
        IvfModel(rows, "l2")
