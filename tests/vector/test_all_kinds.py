"""Every type of vector index, built by us and by pylance, in tables that change: each asks and extends what the other made."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pytest

import lancelet
from lancelet.index.vector.query import ALL_KEPT, VectorQuery
from vector.samples import open_segments, table_of, vectors

ROWS = 900
KINDS = {
    "IVF_RQ": {"num_bits": 3},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {"m": 8, "ef_construction": 40},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8, "ef_construction": 40},
}


def nearest(uri: str, query: npt.NDArray, count: int) -> npt.NDArray:
    wanted = {"column": "v", "q": query, "k": count, "nprobes": 9, "ef": 80, "approx_mode": "accurate"}
    return lance.dataset(uri).to_table(["id", "_distance"], nearest=wanted, fast_search=True)["id"].to_numpy()


def ours(uri: str, query: npt.NDArray, count: int) -> npt.NDArray:
    wanted = VectorQuery(query, count, min_probes=9, max_probes=9, ef=80, approx="accurate")
    found = [segment.best(wanted, count, ALL_KEPT) for segment in open_segments(uri)]
    rows = np.concatenate([one.rows for one in found])[np.argsort(np.concatenate([one.marks for one in found]))]
    return rows[:count]


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_both_find_the_same_in_indices_of_either(tmp_path: Path, kind: str, metric: str) -> None:
    values = vectors("f32", ROWS)
    for module in (lancelet, lance):
        uri = str(tmp_path / module.__name__)
        dataset = module.write_dataset(table_of(values), uri)
        dataset.create_index("v", kind, num_partitions=3, metric=metric, **KINDS[kind])
        (segment,) = open_segments(uri)
        assert (segment.index_type, segment.num_rows, segment.metric.value) == (kind, ROWS, metric)
        shared = [np.isin(ours(uri, query, 10), nearest(uri, query, 10)).mean() for query in vectors("f32", 12, seed=4)]
        assert np.mean(shared) >= 0.9, module


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_a_table_that_changes_keeps_its_index(tmp_path: Path, kind: str, stable: bool) -> None:
    for first, second in ((lancelet, lance), (lance, lancelet)):
        uri = str(tmp_path / first.__name__)
        table = table_of(vectors("f32", ROWS))
        dataset = first.write_dataset(table, uri, max_rows_per_file=400, enable_stable_row_ids=stable)
        dataset.create_index("v", kind, num_partitions=1, **KINDS[kind])
        lancelet.write_dataset(table_of(vectors("f32", 100, 5)), uri, mode="append")
        second.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
        assert sorted(segment.num_rows for segment in open_segments(uri)) == [100, ROWS]
        lancelet.dataset(uri).delete("id % 9 = 4")
        lancelet.dataset(uri).optimize.compact_files(target_rows_per_fragment=10_000)
        first.dataset(uri).optimize.optimize_indices(num_indices_to_merge=3)
        left = lancelet.dataset(uri).count_rows()
        (segment,) = open_segments(uri)
        assert segment.num_rows == left
        assert lance.dataset(uri).stats.index_stats("v_idx")["num_unindexed_rows"] == 0
        query = vectors("f32", 1, seed=6)[0]
        found = nearest(uri, query, 30)
        alive = lance.dataset(uri).to_table(["id", "v"])
        exact = ((np.stack(alive["v"].to_numpy(zero_copy_only=False)) - query) ** 2).sum(axis=1)
        # Signs and three bits, after a rotation that pylance draws, take some for nearer than they are.
        near = alive["id"].to_numpy()[np.argsort(exact)[:90]]
        assert np.isin(found, near).mean() > 0.8


def test_statistics_and_details_are_those_of_pylance(tmp_path: Path) -> None:
    for kind, options in KINDS.items():
        uri = str(tmp_path / kind)
        lancelet.write_dataset(table_of(vectors("f32", ROWS)), uri).create_index("v", kind, num_partitions=2, **options)
        theirs, own = lance.dataset(uri), lancelet.dataset(uri)
        assert own.stats.index_stats("v_idx") == theirs.stats.index_stats("v_idx")
        (one,), (other,) = own.describe_indices(), theirs.describe_indices()
        assert (one.index_type, one.details) == (other.index_type, other.details)
        assert one.segments[0].index_version == (2 if kind == "IVF_RQ" else 1)
        told = lance.write_dataset(table_of(vectors("f32", ROWS)), uri, mode="overwrite")
        told.create_index("v", kind, num_partitions=2, **options)
        assert told.describe_indices()[0].details == one.details
