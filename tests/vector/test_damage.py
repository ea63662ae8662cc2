"""Damaged files of vector indices: an error of lancelet's own, or some rows; never a crash or a foreign error."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancelet
from drawing import SEED, examples
from faults.damage import foreign_errors
from lancelet.index.kind import Source
from lancelet.index.vector.query import ALL_KEPT, VectorQuery
from vector.samples import open_segments, table_of, vectors

KINDS = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_RQ": {"num_bits": 3},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {"ef_construction": 30},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8, "num_bits": 4, "ef_construction": 30},
}
QUERY = vectors("f32", 1, seed=9)[0]


def read(uri: str) -> None:
    """All that is done with a segment."""
    for segment in open_segments(uri):
        for approx in ("normal", "fast"):
            wanted = VectorQuery(QUERY, 20, min_probes=1, max_probes=5, ef=40, approx=approx)
            found = segment.best(wanted, 20, ALL_KEPT)
            assert len(found.rows) == len(found.marks) <= 20
        for _, partition in segment.stream():
            segment.model.quantizer.pick_up(partition.stored)
        assert sum(len(rows) for _, rows in segment.entries(Source(segment))) <= segment.num_rows * 9
        assert segment.statistics()["num_partitions"] == len(segment.sizes)


def findings(tmp_path: Path, kind: str, count: int, seed: int) -> list[str]:
    uri = str(tmp_path / kind)
    dataset = lancelet.write_dataset(table_of(vectors("f32", 300)), uri)
    dataset.create_index("v", kind, num_partitions=2, **KINDS[kind])
    return foreign_errors(sorted((tmp_path / kind / "_indices").rglob("*.idx")), count, seed, lambda: read(uri))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.spread(0.5, each=False)
def test_damaged_files(tmp_path: Path, kind: str) -> None:
    assert not findings(tmp_path, kind, 24, 1)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_damages(tmp_path: Path, kind: str) -> None:
    assert not findings(tmp_path, kind, examples(200), 1000 + SEED)
