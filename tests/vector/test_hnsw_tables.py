"""Indices with graphs in tables: built, searched both ways, extended and moved; pylance goes on with what we leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pytest

import lancelet
from lancelet.errors import InvalidInput, LanceletError
from lancelet.index.vector.query import ALL_KEPT, VectorQuery
from vector.samples import CLOSE, agree, open_segments, table_of, theirs, vectors

KINDS: dict[str, dict[str, Any]] = {
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8, "num_bits": 4},
}
CASES = [
    ("IVF_HNSW_FLAT", "l2", "f16"),
    ("IVF_HNSW_FLAT", "cosine", "f32"),
    ("IVF_HNSW_FLAT", "hamming", "u8"),
    ("IVF_HNSW_SQ", "l2", "f32"),
    ("IVF_HNSW_SQ", "dot", "f64"),
    ("IVF_HNSW_PQ", "cosine", "f32"),
    ("IVF_HNSW_PQ", "dot", "f32"),
]


def indexed(uri: str, kind: str, values: npt.NDArray, module: Any = lancelet, **options: Any) -> None:
    dataset = module.write_dataset(table_of(values), uri)
    dataset.create_index("v", kind, **{"num_partitions": 1, **KINDS[kind], **options})


@pytest.mark.parametrize(("kind", "metric", "dtype"), CASES)
def test_pylance_finds_in_our_graphs_what_we_find(tmp_path: Path, kind: str, metric: str, dtype: str) -> None:
    uri, rows = str(tmp_path), 1200
    indexed(uri, kind, vectors(dtype, rows), metric=metric, num_partitions=2)
    (segment,) = open_segments(uri)
    assert (segment.index_type, segment.num_rows, segment.is_graph) == (kind, rows, True)
    for query in vectors(dtype, 3, seed=77):
        # So many in mind that nothing is missed.
        wanted = VectorQuery(query, 10, min_probes=2, max_probes=2, ef=rows)
        agree(segment.best(wanted, 10, ALL_KEPT), *theirs(uri, query, 10, nprobes=2, ef=rows), CLOSE[dtype])


@pytest.mark.parametrize("kind", KINDS)
def test_our_graphs_lead_pylance_to_as_much_as_its_own(tmp_path: Path, kind: str) -> None:
    # Queries of other clusters than the vectors are: the harder ones.
    values, queries = vectors("f32", 2000), vectors("f32", 100, seed=8)
    near = {}
    for who, module in (("ours", lancelet), ("theirs", lance)):
        uri = str(tmp_path / who)
        indexed(uri, kind, values, module)
        distances = [np.sort(((values[theirs(uri, query, 10, ef=12)[0]] - query) ** 2).sum(1)) for query in queries]
        near[who] = float(np.mean(distances))
    assert near["ours"] <= near["theirs"] * (1.03 if kind == "IVF_HNSW_PQ" else 1.005)


def complete(uri: str) -> None:
    """All rows are indexed, and both find all of them through the graphs."""
    dataset = lance.dataset(uri)
    assert dataset.stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    whole = dataset.to_table(["id", "v"])
    query = whole["v"].combine_chunks().values.to_numpy()[:16]
    nearest = {"column": "v", "q": query, "k": len(whole), "nprobes": 20}
    for module in (lance, lancelet):
        found = module.dataset(uri).to_table(["id", "_distance"], nearest=nearest, fast_search=True)
        assert sorted(found["id"].to_pylist()) == sorted(whole["id"].to_pylist()), module.__name__


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_are_grown_anew_when_rows_come_and_go(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path)
    indexed(uri, kind, vectors("f32", 700))
    complete(uri)
    lancelet.write_dataset(table_of(vectors("f32", 200, 7)), uri, mode="append")
    lancelet.dataset(uri).optimize.optimize_indices(num_indices_to_merge=1)
    assert [segment.num_rows for segment in open_segments(uri)] == [900]
    complete(uri)
    dataset = lancelet.dataset(uri)
    dataset.delete("id % 7 = 3")
    dataset.optimize.compact_files(target_rows_per_fragment=10_000)
    complete(uri)
    lance.write_dataset(table_of(vectors("f32", 100, 8)), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=1)
    complete(uri)


def test_an_empty_partition_is_told_of_as_pylance_tells_of_it(tmp_path: Path) -> None:
    values = vectors("f32", 600)
    centroids = np.stack([values.mean(0), np.full(values.shape[1], 1e3, np.float32)])
    told = {}
    for module in (lance, lancelet):
        uri = str(tmp_path / module.__name__)
        indexed(uri, "IVF_HNSW_SQ", values, module, num_partitions=2, ivf_centroids=centroids)
        (segment,) = open_segments(uri)
        assert segment.sizes.tolist() == [600, 0]
        told[module] = segment.files.index.metadata["lance:hnsw"]
        assert len(theirs(uri, values[0], 5, nprobes=2)[0]) == 5
    assert [text.endswith(',""]') for text in told.values()] == [True, True]


def test_statistics_are_under_the_names_of_pylance(tmp_path: Path) -> None:
    shown = {}
    for module in (lance, lancelet):
        uri = str(tmp_path / module.__name__)
        indexed(uri, "IVF_HNSW_SQ", vectors("f32", 600), module, m=8, ef_construction=40, max_level=3)
        (told,) = lancelet.dataset(uri).stats.index_stats("v_idx")["indices"]
        (again,) = lance.dataset(uri).stats.index_stats("v_idx")["indices"]
        assert told["sub_index"] == again["sub_index"]
        shown[module] = told["sub_index"]
        details = lance.dataset(uri).describe_indices()[0].details
        assert details["hnsw"] == {"max_connections": 8, "construction_ef": 40, "max_level": 3}
    assert shown[lance]["params"] == shown[lancelet]["params"]
    assert shown[lance].keys() == shown[lancelet].keys()
    assert len(shown[lancelet]["level_offsets"]) == len(shown[lance]["level_offsets"])


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path)
    dataset = lancelet.write_dataset(table_of(vectors("f32", 600)), uri)
    for kind, options in (
        ("IVF_HNSW_SQ", {"m": 2}),
        ("IVF_HNSW_SQ", {"m": 20, "ef_construction": 19}),
        ("IVF_HNSW_RQ", {}),
    ):
        with pytest.raises(LanceletError):
            dataset.create_index("v", kind, num_partitions=1, **options)


def test_a_search_keeps_at_least_as_many_in_mind_as_it_gives(tmp_path: Path) -> None:
    indexed(str(tmp_path), "IVF_HNSW_SQ", vectors("f32", 600))
    dataset = lancelet.dataset(tmp_path)
    nearest = {"column": "v", "q": [0.0] * 16, "k": 10}
    assert dataset.to_table(nearest={**nearest, "ef": 10}).num_rows == 10
    for options in ({"ef": 9}, {"ef": 10, "refine_factor": 2}):
        with pytest.raises(InvalidInput, match="ef must be greater than or equal to k"):
            dataset.to_table(nearest={**nearest, **options})
