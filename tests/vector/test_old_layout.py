"""Vector indices as they were laid out before: searched, extended and moved, with pylance's answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pytest

import lancelet
from faults.damage import foreign_errors
from lancelet.errors import LanceletError
from vector.samples import TYPES, open_segments, table_of, vectors
from vector.test_damage import read

FIXTURE = Path(__file__).parents[3] / "shared" / "fixtures" / "search" / "v0.27.1" / "pq_in_schema"
ROWS = 1200
Change = Callable[[str], object]


def old_table(uri: str, dtype: str = "f32", metric: str = "l2", rows: int = ROWS) -> str:
    """A table whose index is one file, not a Lance file of today."""
    dataset = lance.write_dataset(table_of(vectors(dtype, rows)), uri)
    dataset.create_index(
        "v", "IVF_PQ", metric=metric, num_partitions=3, num_sub_vectors=8, index_file_version="Legacy", sample_rate=32
    )
    return uri


def assert_same_answers(uri: str, name: str, queries: npt.NDArray, metric: str = "l2") -> None:
    for query in queries:
        for options in ({"nprobes": 1}, {"nprobes": 50}, {"nprobes": 50, "refine_factor": 3}):
            nearest = {"column": name, "q": query, "k": 10, "metric": metric, **options}
            ours, theirs = (
                library.dataset(uri).to_table(["id", "_distance"], nearest=nearest) for library in (lancelet, lance)
            )
            np.testing.assert_allclose(ours["_distance"], theirs["_distance"], rtol=1e-4, atol=1e-5)
            # Rows with one code are equally near; which of them are first, or taken at the end, is not promised by pylance.
            marks = np.asarray(theirs["_distance"])
            alone = np.diff(marks, prepend=-np.inf) > 1e-4
            alone &= np.append(alone[1:], False)
            np.testing.assert_array_equal(np.asarray(ours["id"])[alone], np.asarray(theirs["id"])[alone])
            assert np.unique(ours["id"]).size == len(marks) == 10


def append(uri: str) -> lancelet.LanceDataset:
    dataset = lancelet.dataset(uri)
    (name,) = [field.name for field in dataset.schema if field.name != "id"]
    element = np.random.default_rng(8).random((200, dataset.schema.field(name).type.list_size), np.float32)
    rows = table_of(element).rename_columns(["id", name])
    return lancelet.write_dataset(rows.set_column(0, "id", [np.arange(9000, 9200)]), uri, mode="append")


def shrink(uri: str, *, deferred: bool) -> None:
    dataset = append(uri)
    dataset.delete("id % 3 = 0")
    dataset.optimize.compact_files(materialize_deletions_threshold=0.01, defer_index_remap=deferred)


CHANGES: dict[str, Change] = {
    "none": lambda uri: None,
    "append": append,
    "extend": lambda uri: append(uri).optimize.optimize_indices(num_indices_to_merge=0),
    "merge": lambda uri: append(uri).optimize.optimize_indices(num_indices_to_merge=1),
    "retrain": lambda uri: append(uri).optimize.optimize_indices(retrain=True),
    "compact": lambda uri: shrink(uri, deferred=False),
    "compact later": lambda uri: shrink(uri, deferred=True),
}


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if dtype != "u8"])
@pytest.mark.spread(0.5, each=False)
def test_answers_are_pylances(tmp_path: Path, dtype: str, metric: str) -> None:
    uri = old_table(str(tmp_path / "t"), dtype, metric)
    assert not list(tmp_path.rglob("auxiliary.idx"))
    assert_same_answers(uri, "v", vectors(dtype, 3, seed=6), metric)
    (ours,), (theirs,) = (library.dataset(uri).stats.index_stats("v_idx")["indices"] for library in (lancelet, lance))
    assert ours.keys() == theirs.keys()
    for key in ours.keys() - {"centroids", "loss"}:
        assert ours[key] == theirs[key], key


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.spread(0.5, each=False)
def test_an_index_in_one_file_goes_on(tmp_path: Path, change: str) -> None:
    uri = old_table(str(tmp_path / "t"))
    CHANGES[change](uri)
    assert_same_answers(uri, "v", vectors("f32", 3, seed=6))
    assert not lancelet.dataset(uri).verify(deep=True).findings


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.spread(0.5, each=False)
def test_an_index_with_its_codebook_in_the_metadata_goes_on(tmp_path: Path, change: str) -> None:
    if not FIXTURE.exists():
        pytest.skip("the fixtures of old releases are not here")
    uri = str(tmp_path / "t")
    shutil.copytree(FIXTURE, uri)
    CHANGES[change](uri)
    assert_same_answers(uri, "vec", np.random.default_rng(4).random((3, 32), np.float32))
    assert not lancelet.dataset(uri).verify(deep=True).findings


def test_what_is_told_of_rows_that_moved_is_pylances(tmp_path: Path) -> None:
    uri = old_table(str(tmp_path / "t"))
    shrink(uri, deferred=True)
    ours, theirs = (library.dataset(uri) for library in (lancelet, lance))
    for key, value in theirs.stats.index_stats("v_idx").items():
        if key.startswith("num_"):
            assert ours.stats.index_stats("v_idx")[key] == value, key
    for one, other in zip(ours.describe_indices(), theirs.describe_indices(), strict=True):
        assert (one.name, one.num_rows_indexed) == (other.name, other.num_rows_indexed)
        assert [list(part.fragment_ids) for part in one.segments] == [
            list(part.fragment_ids) for part in other.segments
        ]


def test_damage_is_an_error_of_ours(tmp_path: Path) -> None:
    uri = old_table(str(tmp_path / "t"), rows=300)
    (victim,) = tmp_path.rglob("*.idx")
    assert not foreign_errors([victim], 160, 3, lambda: read(uri))


def test_a_file_of_unknown_stages_is_refused_with_advice(tmp_path: Path) -> None:
    uri = old_table(str(tmp_path / "t"), rows=300)
    (victim,) = tmp_path.rglob("*.idx")
    data = victim.read_bytes()
    # The second stage, PQ, becomes a transformation: field 3 of a stage, field 4.
    at = data.index(b"\x08\x08\x10\x08\x18\x10")
    tag = data.rindex(b"\x1a", 0, at)
    victim.write_bytes(data[:tag] + b"\x22" + data[tag + 1 :])
    with pytest.raises(LanceletError, match="create the index anew"):
        open_segments(uri)
