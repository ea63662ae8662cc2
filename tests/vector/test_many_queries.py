"""Several queries at once, and several threads for one: the answers are those of each query alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lancelet
from lancelet.index.vector.query import ALL_KEPT, VectorQuery
from vector.brute import vector_array

D = 16
KINDS = ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ"]


def drawn(count: int, seed: int) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((20, D))
    return (centres[rng.integers(0, 20, count)] + 0.5 * rng.standard_normal((count, D))).astype(np.float32)


QUERIES = drawn(12, 5)


@pytest.fixture(scope="module", params=KINDS)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lancelet.LanceDataset:
    """Deleted rows, two segments, and rows that no segment knows."""
    where = tmp_path_factory.mktemp("many") / "t"
    rows = {"id": np.arange(3000), "v": vector_array(drawn(3000, 1), "float32")}
    options = {"num_sub_vectors": 4} if request.param == "IVF_PQ" else {}
    made = lancelet.write_dataset(rows, where, max_rows_per_file=1000)
    made.create_index("v", request.param, num_partitions=10, **options)
    made.delete("id % 7 = 0")
    lancelet.write_dataset(
        {"id": np.arange(3000, 3600), "v": vector_array(drawn(600, 2), "float32")}, where, mode="append"
    )
    lancelet.dataset(where).optimize.optimize_indices(num_indices_to_merge=0)
    lancelet.write_dataset(
        {"id": np.arange(3600, 3700), "v": vector_array(drawn(100, 3), "float32")}, where, mode="append"
    )
    return lancelet.dataset(where)


@pytest.mark.spread(0.25)
@pytest.mark.parametrize(
    "asked",
    [
        {"k": 5, "nprobes": 3},
        {"k": 5, "nprobes": 10},
        {"k": 3},
        {"k": 20, "nprobes": 4, "distance_range": (1.0, 6.0)},
        {"k": 5, "nprobes": 3, "refine_factor": 3},
        {"k": 400, "minimum_nprobes": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("filtered", [{}, {"filter": "id % 3 = 1", "prefilter": True}], ids=["all", "filtered"])
@pytest.mark.parametrize("fast", [False, True], ids=["", "indexed"])
def test_queries_together_have_the_answers_of_each_alone(
    dataset: lancelet.LanceDataset, asked: dict[str, Any], filtered: dict[str, Any], fast: bool
) -> None:
    def found(q: npt.NDArray[np.float32]) -> dict[str, list[Any]]:
        near = {"column": "v", "q": q, "approx_mode": "accurate", **asked}
        rows: dict[str, list[Any]] = dataset.to_table(
            columns=["id", "_distance"], nearest=near, fast_search=fast, **filtered
        ).to_pydict()
        return rows

    together = found(QUERIES)
    alone = [found(query) for query in QUERIES]
    numbers = [number for number, one in enumerate(alone) for _ in one["id"]]
    assert together["query_index"] == numbers
    assert together["id"] == [row for one in alone for row in one["id"]]
    distances = [distance for one in alone for distance in one["_distance"]]
    np.testing.assert_allclose(together["_distance"], distances, rtol=1e-6)


def test_as_many_threads_as_there_are_partitions_find_the_same(dataset: lancelet.LanceDataset) -> None:
    indices = dataset.table.vector_indices
    (part, *_) = next(iter(indices._by_field.values()))
    segment = indices.open(part)
    for query in QUERIES[:5]:
        asked = [
            VectorQuery(query, 7, min_probes=8, max_probes=8, approx="accurate", workers=workers)
            for workers in (1, 2, 3, 50)
        ]
        expected, *others = (segment.best(one, 7, ALL_KEPT) for one in asked)
        for found in others:
            assert found.rows.tolist() == expected.rows.tolist()
            assert found.marks.tolist() == expected.marks.tolist()
        assert len({(one.use.partitions, one.use.codes) for one in asked}) == 1


@pytest.mark.parametrize("parallelism", [-1, 0, 1, 2, 1000])
def test_parallelism_changes_no_answer(dataset: lancelet.LanceDataset, parallelism: int) -> None:
    def found(**more: Any) -> Any:
        near = {"column": "v", "q": QUERIES[0], "k": 9, "nprobes": 6, "approx_mode": "accurate", **more}
        return dataset.to_table(columns=["id", "_distance"], nearest=near).to_pydict()

    assert found(query_parallelism=parallelism) == found()
