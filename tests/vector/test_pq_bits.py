"""Distances of product codes have the bits of pylance's, at every level and for every way in which it adds."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancelet.index.vector import pq_scan
from lancelet.index.vector.query import ALL_KEPT, VectorQuery
from vector.samples import open_segments, theirs

ROWS = 600
# Lengths of parts: added one by one, as a tree of 8 or of 16, in 16 lanes with and without a rest.
CASES = [
    ("l2", 8, 3),
    ("l2", 8, 8),
    ("l2", 8, 16),
    ("l2", 8, 40),
    ("dot", 8, 5),
    ("dot", 8, 8),
    ("dot", 8, 16),
    ("l2", 4, 4),
    ("dot", 4, 16),
]


@pytest.mark.parametrize(("metric", "bits", "width"), CASES)
def test_every_distance_is_the_one_of_pylance(tmp_path: Path, metric: str, bits: int, width: int) -> None:
    random, uri = np.random.default_rng(width), str(tmp_path)
    values = random.normal(size=(ROWS, 4 * width)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 4 * width)
    lance.write_dataset(pa.table({"v": column}), uri).create_index(
        "v", "IVF_PQ", metric=metric, num_partitions=2, num_sub_vectors=4, num_bits=bits
    )
    (segment,) = open_segments(uri)
    query = random.normal(size=4 * width).astype(np.float32)
    rows, marks = theirs(uri, query, ROWS, nprobes=2)
    for level in (0, 1, 2, 3):
        before = pq_scan.use_level(level)
        found = segment.best(VectorQuery(query, ROWS, min_probes=2, max_probes=2), ROWS, ALL_KEPT)
        pq_scan.use_level(before)
        assert found.marks.tolist() == marks.tolist()
        assert found.rows.tolist() == rows.tolist()
