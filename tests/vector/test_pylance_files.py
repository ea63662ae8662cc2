"""Indices that pylance wrote: asked by us they give its rows and its distances."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lancelet
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import read_indices
from lancelet.index.segments import indexed_type
from lancelet.index.vector.query import ALL_KEPT, KeyedRename, VectorQuery
from lancelet.index.vector.segment import VectorSegment

ROWS, DIMENSION, PARTITIONS = 1500, 16, 5
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "u8": np.uint8}
KINDS = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_PQ of 4 bits": {"num_sub_vectors": 8, "num_bits": 4},
}
FLOATS = [
    (kind, metric, dtype) for kind in KINDS for metric in ("l2", "cosine", "dot") for dtype in TYPES if dtype != "u8"
]
# Distances agree to this share of the largest; those of half floats are rounded on the way.
CLOSE = {"f16": 2e-3, "f32": 2e-6, "f64": 2e-6, "u8": 0}


def vectors(dtype: str, rows: int = ROWS, seed: int = 5) -> npt.NDArray:
    random = np.random.default_rng(seed)
    if dtype == "u8":
        return random.integers(0, 256, (rows, DIMENSION)).astype(np.uint8)
    centres = random.standard_normal((12, DIMENSION)) * 2
    drawn = centres[random.integers(0, 12, rows)] + random.standard_normal((rows, DIMENSION))
    return drawn.astype(TYPES[dtype])


def column(values: npt.NDArray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def open_segments(uri: str) -> list[VectorSegment]:
    snapshot = lancelet.dataset(uri)._snapshot
    return [
        VectorSegment(IndexFolder(snapshot, entry), indexed_type(snapshot, entry))
        for entry in read_indices(snapshot.manifest)
    ]


def theirs(uri: str, query: npt.NDArray, count: int, **options: object) -> tuple[npt.NDArray, npt.NDArray]:
    found = lance.dataset(uri).to_table(
        columns=["_distance"], with_row_id=True, nearest={"column": "v", "q": query, "k": count, **options}
    )
    return found["_rowid"].to_numpy(), found["_distance"].to_numpy()


def agree(ours: object, rows: npt.NDArray, marks: npt.NDArray, close: float) -> None:
    """The same rows, but for those whose distances are within rounding of each other."""
    scale = np.abs(marks).max(initial=1)
    np.testing.assert_allclose(ours.marks, marks, rtol=0, atol=close * scale)
    # Which of the rows at the last distance are taken is not promised by pylance.
    apart = (ours.rows != rows) & (marks < marks.max(initial=-np.inf))
    for place in np.flatnonzero(apart):
        near = np.flatnonzero(np.abs(marks - ours.marks[place]) <= 2 * close * scale)
        assert ours.rows[place] in rows[near] or place >= near.min(), (place, ours.rows[place])
    assert apart.mean() <= (0.4 if close > 1e-4 else 0.05)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("theirs")


def build(folder: Path, kind: str, metric: str, dtype: str) -> str:
    uri = str(folder / f"{kind}_{metric}_{dtype}".replace(" ", "_"))
    table = lance.write_dataset(pa.table({"v": column(vectors(dtype))}), uri, max_rows_per_file=700)
    options = {"num_partitions": PARTITIONS, "metric": metric, **KINDS[kind]}
    table.create_index("v", kind.partition(" ")[0], **options)
    return uri


@pytest.mark.parametrize(("kind", "metric", "dtype"), [*FLOATS, ("IVF_FLAT", "hamming", "u8")])
def test_what_pylance_indexed_is_found_as_pylance_finds_it(tables: Path, kind: str, metric: str, dtype: str) -> None:
    uri = build(tables, kind, metric, dtype)
    (segment,) = open_segments(uri)
    assert segment.index_type == kind.partition(" ")[0]
    assert (segment.metric.value, segment.dimension, segment.num_rows) == (metric, DIMENSION, ROWS)
    for query in vectors(dtype, 4, seed=77):
        for count, probes in ((1, 1), (10, 2), (40, PARTITIONS)):
            wanted = VectorQuery(query, count, min_probes=probes, max_probes=probes)
            ours = segment.best(wanted, count, ALL_KEPT)
            agree(ours, *theirs(uri, query, count, nprobes=probes), CLOSE[dtype])
            assert (wanted.use.segments, wanted.use.partitions) == (1, probes)


def test_product_codes_give_the_very_same_numbers(tables: Path) -> None:
    uri = build(tables / "bits", "IVF_PQ", "l2", "f32")
    (segment,) = open_segments(uri)
    for query in vectors("f32", 5, seed=3):
        ours = segment.best(VectorQuery(query, 50, min_probes=5, max_probes=5), 50, ALL_KEPT)
        rows, marks = theirs(uri, query, 50, nprobes=5)
        assert ours.marks.tolist() == marks.tolist()
        assert ours.rows.tolist() == rows.tolist()


def test_rows_that_do_not_count_take_no_place_and_more_partitions_are_looked_at(tables: Path) -> None:
    uri = build(tables / "kept", "IVF_FLAT", "l2", "f32")
    (segment,) = open_segments(uri)
    query = vectors("f32", 1, seed=9)[0]
    everything = segment.best(VectorQuery(query, ROWS, min_probes=5, max_probes=5), ROWS, ALL_KEPT)
    wanted = set(everything.rows[::100].tolist())

    def some(rows: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
        return rows + np.uint64(1), np.isin(rows, list(wanted))

    for rename in (some, KeyedRename(some, "key"), KeyedRename(some, "key")):
        found = segment.best(VectorQuery(query, 12), 12, rename)
        assert found.rows.tolist() == (everything.rows[::100][:12] + 1).tolist()
        assert found.marks.tolist() == everything.marks[::100][:12].tolist()


def test_distances_in_a_range(tables: Path) -> None:
    uri = build(tables / "range", "IVF_PQ", "l2", "f32")
    (segment,) = open_segments(uri)
    query = vectors("f32", 1, seed=9)[0]
    _, every = theirs(uri, query, ROWS, nprobes=5)
    low, high = float(every[300]), float(every[900])
    ours = segment.best(VectorQuery(query, 5, low, high, 5, 5), 5, ALL_KEPT)
    rows, marks = theirs(uri, query, 5, nprobes=5, distance_range=(low, high))
    assert ours.rows.tolist() == rows.tolist()
    assert ours.marks.tolist() == marks.tolist()
    assert ours.marks[0] == every[300]
