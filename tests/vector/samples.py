"""Tables with vectors, and how answers are compared with those of pylance."""

from __future__ import annotations

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lancelet
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import read_indices
from lancelet.index.ranked import Ranked
from lancelet.index.segments import indexed_type
from lancelet.index.vector.segment import VectorSegment

ROWS, DIMENSION, PARTITIONS = 1500, 16, 5
BUILDS = 4
"""Training is chance, and pylance has no seed: what indices find is compared by the means of so many."""
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "u8": np.uint8}
KINDS = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_PQ of 4 bits": {"num_sub_vectors": 8, "num_bits": 4},
    "IVF_RQ": {},
}
# Distances of RQ are rounded by pylance unless they are to be accurate: test_rq and test_rq_tables compare them.
FLOATS = [
    (kind, metric, dtype)
    for kind in KINDS
    for metric in ("l2", "cosine", "dot")
    for dtype in TYPES
    if dtype != "u8" and kind != "IVF_RQ"
]
# Distances agree to this share of the largest; those of half floats are rounded on the way.
CLOSE = {"f16": 2e-5, "f32": 2e-6, "f64": 2e-6, "u8": 0}


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


def agree(ours: Ranked, rows: npt.NDArray, marks: npt.NDArray, close: float) -> None:
    """The same rows, but for those whose distances are within rounding of each other."""
    scale = np.abs(marks).max(initial=1)
    np.testing.assert_allclose(ours.marks, marks, rtol=0, atol=close * scale)
    # Which of the rows at the last distance are taken is not promised by pylance.
    apart = (ours.rows != rows) & (marks < marks.max(initial=-np.inf))
    for place in np.flatnonzero(apart):
        near = np.flatnonzero(np.abs(marks - ours.marks[place]) <= 2 * close * scale)
        assert ours.rows[place] in rows[near] or place >= near.min(), (place, ours.rows[place])
    # A pair that rounding turned round is no matter in a short answer either.
    assert apart.sum() <= max(2, (0.4 if close > 1e-4 else 0.05) * len(rows))


def table_of(values: npt.NDArray) -> pa.Table:
    """Vectors with numbers beside them."""
    return pa.table({"id": np.arange(len(values)), "v": column(values)})
