"""Indices that lancelet does not search yet: described as pylance does, and never passed over in silence."""

from __future__ import annotations

import warnings
from pathlib import Path
from uuid import UUID, uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet._api.index_descriptions import describe_indices
from lancelet.errors import CorruptFile, NotSupported
from lancelet.format.proto import table_pb2
from lancelet.format.proto.index_details_pb2 import InvertedIndexDetails
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit

VECTORS = pa.table(
    {
        "id": range(256),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(0).random(256 * 8, np.float32)), 8),
    }
)
KINDS = {
    "IVF_FLAT": {"num_partitions": 2},
    "IVF_PQ": {"num_partitions": 2, "num_sub_vectors": 2},
    "IVF_SQ": {"num_partitions": 2},
    "IVF_RQ": {"num_partitions": 2},
    "IVF_HNSW_SQ": {"num_partitions": 1},
    "IVF_HNSW_PQ": {"num_partitions": 1, "num_sub_vectors": 2},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_statistics_of_vector_indices(tmp_path: Path, kind: str, metric: str) -> None:
    uri = str(tmp_path / "t")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lance.write_dataset(VECTORS, uri).create_index("v", kind, metric=metric, **KINDS[kind])
    assert lancelet.dataset(uri).stats.index_stats("v_idx") == lance.dataset(uri).stats.index_stats("v_idx")


def test_what_is_not_extended_is_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = VECTORS.append_column("v_text", pa.array(["words"] * len(VECTORS)))
        lance.write_dataset(made, uri).create_scalar_index("v_text", "INVERTED", name="v_idx")
    dataset = lancelet.dataset(uri)
    (message,) = dataset.table.snapshot.manifest.indices
    newer = table_pb2.IndexMetadata.FromString(message.SerializeToString())
    newer.index_version = 99
    newer.uuid.uuid = uuid4().bytes
    commit(dataset.table.snapshot, ops.CreateIndex((ops.IndexSegment.of(newer),), (ops.IndexSegment.of(message),)))
    dataset = lancelet.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.optimize_indices()
    dataset.insert(made)
    with pytest.warns(UserWarning, match="'v_idx' of .* lancelet does not extend") as told:
        dataset.optimize.optimize_indices()
    assert Path(told[0].filename).name == Path(__file__).name
    assert dataset.stats.index_stats("id_idx")["num_unindexed_rows"] == 0
    before = dataset.version
    with pytest.raises(NotSupported, match="v_idx"):
        dataset.optimize.optimize_indices(index_names=["id_idx", "v_idx"])
    dataset.optimize.optimize_indices(index_names=["id_idx"])
    assert dataset.version == before


@pytest.mark.parametrize(
    ("kind", "shown"), [("BTREE", "BTree"), ("BITMAP", "Bitmap"), ("NGRAM", "NGram"), ("INVERTED", "Inverted")]
)
@pytest.mark.parametrize("listed", [True, False])
def test_kinds_of_entries_that_do_not_tell(tmp_path: Path, kind: str, shown: str, listed: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"x": ["a", "b"]}), uri).create_scalar_index("x", kind)
    dataset = lancelet.dataset(uri)
    (message,) = dataset.table.snapshot.manifest.indices
    message.ClearField("index_details")
    if not listed:
        message.ClearField("files")
    assert isinstance(message, table_pb2.IndexMetadata)
    (described,) = describe_indices(dataset.table)
    assert described.index_type == shown


@pytest.mark.parametrize("stable", [True, False])
def test_rows_that_were_updated_are_found_under_their_new_values_alone(tmp_path: Path, stable: bool) -> None:
    """In pylance, a row with a stable id is still found under its old value after this (docs/format-notes.md)."""
    dataset = lancelet.write_dataset({"k": range(8), "c": [0, 1] * 4}, tmp_path / "t", enable_stable_row_ids=stable)
    dataset.create_scalar_index("c", "BITMAP")
    dataset.update({"c": "1"}, where="k = 0")
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    table = dataset.to_table()
    for value in (0, 1):
        truth = [row["k"] for row in table.to_pylist() if row["c"] == value]
        assert dataset.to_table(filter=f"c = {value}")["k"].to_pylist() == truth


def _inverted(where: Path, details: bytes) -> lancelet.LanceDataset:
    """A table with an index on words whose details are these bytes."""
    lance.write_dataset(pa.table({"x": ["a", "b"]}), where).create_scalar_index("x", "INVERTED")
    dataset = lancelet.dataset(where)
    manifest = dataset.table.snapshot.manifest
    message = table_pb2.IndexMetadata()
    message.CopyFrom(manifest.indices[0])
    old = ops.IndexSegment.of(manifest.indices[0])
    message.uuid.uuid, message.index_details.value = uuid4().bytes, details
    files = where / "_indices"
    next(files.iterdir()).rename(files / str(UUID(bytes=message.uuid.uuid)))
    commit(dataset.table.snapshot, ops.CreateIndex((ops.IndexSegment.of(message),), (old,)))
    return lancelet.dataset(where)


def test_details_of_a_newer_release_are_described_as_far_as_known_and_kept(tmp_path: Path) -> None:
    known = InvertedIndexDetails(base_tokenizer="simple", language='"English"', stem=True, block_size=256)
    newer = known.SerializeToString() + b"\xfa\x06\x03new"
    dataset = _inverted(tmp_path / "t", newer)
    (described,) = dataset.describe_indices()
    assert {key: described.details[key] for key in ("base_tokenizer", "language", "stem", "block_size")} == {
        "base_tokenizer": "simple",
        "language": "English",
        "stem": True,
        "block_size": 256,
    }
    dataset.delete("x = 'a'")
    dataset.optimize.compact_files()
    assert [message.index_details.value for message in dataset.table.snapshot.manifest.indices] == [newer]


def test_damaged_details_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match="InvertedIndexDetails"):
        _inverted(tmp_path / "t", b"\x0a\xff").describe_indices()
