"""Search through an index: pylance's answers with the same probes, and brute force when everything is probed and refined."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput
from vector.brute import check_nearest, distances, odd_vectors, vector_array

D = 16
PARTITIONS = 6
KINDS: dict[str, dict[str, Any]] = {"IVF_FLAT": {}, "IVF_PQ": {"num_sub_vectors": 4}, "IVF_SQ": {}}
SHORT = [
    ("IVF_FLAT", "l2", False),
    ("IVF_FLAT", "dot", True),
    ("IVF_PQ", "l2", True),
    ("IVF_PQ", "cosine", False),
    ("IVF_SQ", "cosine", True),
    ("IVF_SQ", "dot", False),
]
LONG = [(kind, metric, stable) for kind in KINDS for metric in ("l2", "cosine", "dot") for stable in (False, True)]


def rows_of(rng: np.random.Generator, first: int, count: int, element: str = "float32") -> pa.Table:
    """Without equal vectors: of those, pylance's segments keep any when there are too many."""
    ids = np.arange(first, first + count)
    vectors = odd_vectors(rng, count, D, element, copies=False)
    return pa.table({"id": ids, "word": [f"w{i % 7}" for i in ids], "v": vectors})


def written(where: str, rng: np.random.Generator, kind: str, metric: str, *, stable: bool = False) -> None:
    """A table of some fragments, with an index of pylance's."""
    data = rows_of(rng, 0, 900)
    theirs = lance.write_dataset(data, where, max_rows_per_file=400, enable_stable_row_ids=stable)
    theirs.create_index("v", kind, num_partitions=PARTITIONS, metric=metric, **KINDS[kind])


def both(where: str, **options: Any) -> tuple[pa.Table, pa.Table]:
    mine, theirs = (
        module.dataset(where).scanner(["id", "_distance"], with_row_id=True, **options).to_table()
        for module in (lancelet, lance)
    )
    return mine, theirs


def check_same(where: str, **options: Any) -> None:
    """The same rows at the same distances; where these are the same but for rounding, in any order."""
    mine, theirs = both(where, **options)
    np.testing.assert_allclose(mine["_distance"], theirs["_distance"], rtol=1e-4, atol=1e-5)
    found = [
        dict(zip(table["_rowid"].to_pylist(), table["_distance"].to_pylist(), strict=True)) for table in (mine, theirs)
    ]
    # Which of the rows at about the last distance are taken is a matter of rounding; those before it are found by both.
    last = max(found[0].values(), default=0)
    for some, others in (found, found[::-1]):
        assert {row for row, mark in some.items() if mark < last - 1e-4 * abs(last) - 1e-5} <= others.keys()
    shared = found[0].keys() & found[1].keys()
    np.testing.assert_allclose(*([some[row] for row in shared] for some in found), rtol=1e-4, atol=1e-5)


def check_against_pylance(where: str, query: npt.NDArray[Any]) -> None:
    nearest = {"column": "v", "q": query, "k": 12}
    for probes in (2, PARTITIONS):
        check_same(where, nearest=nearest | {"nprobes": probes})
    check_same(where, nearest=nearest | {"nprobes": PARTITIONS, "refine_factor": 3})
    check_same(where, nearest=nearest | {"nprobes": PARTITIONS}, fast_search=True)
    check_same(where, nearest=nearest | {"nprobes": PARTITIONS}, filter="id % 3 = 0", prefilter=True)
    check_same(where, nearest=nearest | {"nprobes": 3}, filter="id < 60", prefilter=True)
    check_same(where, nearest=nearest | {"nprobes": PARTITIONS}, filter="word = 'w2'")
    check_same(where, nearest=nearest | {"use_index": False})


def check_against_brute_force(dataset: lancelet.LanceDataset, query: npt.NDArray[Any], metric: str) -> None:
    """With all partitions probed and all rows refined, an index changes nothing."""
    everything = dataset.to_table(["id", "v"], with_row_id=True)
    ids, exact = everything["_rowid"].to_numpy(), distances(everything["v"], query, metric)
    exact[~np.isfinite(exact)] = np.nan
    nearest = {"column": "v", "q": query, "k": 15, "nprobes": 100, "refine_factor": 100, "metric": metric}
    found = dataset.to_table(["_distance"], nearest=nearest, with_row_id=True)
    check_nearest(found, ids, exact, 15)
    third = everything["id"].to_numpy() % 3 == 0
    found = dataset.to_table(["_distance"], nearest=nearest, filter="id % 3 = 0", prefilter=True, with_row_id=True)
    check_nearest(found, ids[third], exact[third], 15)


def check_history(tmp_path: Path, kind: str, metric: str, stable: bool) -> None:
    rng = np.random.default_rng(len(kind) * 10 + len(metric) + stable)
    where = str(tmp_path / "t")
    written(where, rng, kind, metric, stable=stable)

    def check() -> None:
        query = rng.normal(size=D).astype(np.float32)
        check_against_pylance(where, query)
        check_against_brute_force(lancelet.dataset(where), query, metric)

    check()
    lancelet.dataset(where).delete("id % 7 = 1")
    lancelet.dataset(where).update({"word": "'w2'"}, where="id % 11 = 3")
    check()
    lancelet.write_dataset(rows_of(rng, 900, 60), where, mode="append")
    check()
    lance.dataset(where).optimize.optimize_indices(num_indices_to_merge=0)
    check()
    lance.dataset(where).optimize.compact_files()
    check()


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(("kind", "metric", "stable"), SHORT)
def test_pylances_indices_are_asked_as_pylance_asks_them(tmp_path: Path, kind: str, metric: str, stable: bool) -> None:
    check_history(tmp_path, kind, metric, stable)


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "metric", "stable"), LONG)
def test_pylances_indices_in_all_states(tmp_path: Path, kind: str, metric: str, stable: bool) -> None:
    check_history(tmp_path, kind, metric, stable)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """900 rows in three fragments with an IVF_PQ index, and 50 more that it does not know."""
    rng = np.random.default_rng(6)
    where = str(tmp_path_factory.mktemp("indexed") / "t")
    written(where, rng, "IVF_PQ", "l2")
    lancelet.write_dataset(rows_of(rng, 900, 50), where, mode="append")
    lancelet.dataset(where).create_scalar_index("id", "BTREE")
    return where


QUERY = np.random.default_rng(20).normal(size=D).astype(np.float32)
NEAR: dict[str, Any] = {"column": "v", "q": QUERY, "k": 10}


def test_rows_that_are_not_indexed_are_compared_and_all_distances_are_exact(indexed: str) -> None:
    check_same(indexed, nearest=NEAR | {"nprobes": PARTITIONS})
    mine, _ = both(indexed, nearest=NEAR | {"nprobes": PARTITIONS})
    everything = lancelet.dataset(indexed).to_table(["v"], with_row_id=True)
    exact = dict(zip(everything["_rowid"].to_pylist(), distances(everything["v"], QUERY, "l2").tolist(), strict=True))
    assert mine["_distance"].to_pylist() == pytest.approx([exact[row] for row in mine["_rowid"].to_pylist()], rel=1e-5)
    fast = lancelet.dataset(indexed).to_table(["id"], nearest=NEAR | {"k": 1000}, fast_search=True)
    assert max(fast["id"].to_pylist()) < 900


def test_a_narrow_filter_compares_the_rows_that_it_leaves(indexed: str) -> None:
    dataset = lancelet.dataset(indexed)
    condition = "id BETWEEN 300 AND 340"
    scanner = dataset.scanner(["id", "_distance"], nearest=NEAR, filter=condition, prefilter=True, with_row_id=True)
    rows = dataset.to_table(["v"], filter=condition, with_row_id=True)
    exact = distances(rows["v"], QUERY, "l2")
    exact[~np.isfinite(exact)] = np.nan
    check_nearest(scanner.to_table(), rows["_rowid"].to_numpy(), exact, 10)
    assert "few rows to look at" in scanner.analyze_plan()
    told = dataset.scanner(["id"], nearest=NEAR | {"nprobes": 2}, filter=condition, prefilter=True).analyze_plan()
    assert "partitions probed=2" in told


def test_plans_tell_what_is_probed_scored_and_refined(indexed: str) -> None:
    dataset = lancelet.dataset(indexed)
    scanner = dataset.scanner(["id", "_distance"], nearest=NEAR | {"nprobes": 3, "refine_factor": 2})
    plan = scanner.explain_plan()
    assert "VectorIndexQuery: IVF_PQ v_idx, metric=l2, fragments=3, segments=1, probes=3 to 3" in plan
    assert "Refine: factor=2" in plan
    assert "ExactSearch: metric=l2, not indexed" in plan
    told = scanner.analyze_plan()
    assert "partitions probed=3" in told
    assert "codes scored=" in told
    fast = dataset.scanner(["id", "_distance"], nearest=NEAR, fast_search=True).analyze_plan()
    assert "rows refined=0" in fast
    assert "ExactSearch" not in fast
    exact = dataset.scanner(["id"], nearest=NEAR | {"use_index": False}).explain_plan()
    assert "VectorIndexQuery" not in exact
    other = dataset.scanner(["id"], nearest=NEAR | {"metric": "cosine"}).explain_plan()
    assert "ExactSearch: metric=cosine" in other
    nothing = dataset.scanner(["id"], nearest=NEAR | {"metric": "cosine"}, fast_search=True)
    assert "NoRows" in nothing.explain_plan()
    assert nothing.to_table().num_rows == 0


@pytest.mark.parametrize(
    "options",
    [
        {"minimum_nprobes": 2, "maximum_nprobes": 3},
        {"maximum_nprobes": 2},
        {"minimum_nprobes": PARTITIONS},
        {"search_effort": 0},
        {"search_effort": 1},
        {"distance_range": (10, 20), "nprobes": PARTITIONS},
        {"distance_range": (10, 20), "nprobes": PARTITIONS, "refine_factor": 2},
        {"distance_range": (None, 12), "nprobes": PARTITIONS},
        {"approx_mode": "accurate", "nprobes": 3},
    ],
    ids=str,
)
def test_options_mean_what_they_mean_to_pylance(indexed: str, options: dict[str, Any]) -> None:
    check_same(indexed, nearest=NEAR | options)
    check_same(indexed, nearest=NEAR | options, fast_search=True)


@pytest.mark.parametrize("options", [{"minimum_nprobes": 0}, {"maximum_nprobes": 0}], ids=str)
def test_no_probes_are_refused(indexed: str, options: dict[str, Any]) -> None:
    for module, error in ((lancelet, InvalidInput), (lance, ValueError)):
        with pytest.raises(error):
            module.dataset(indexed).to_table(["_distance"], nearest=NEAR | options)


def test_a_batch_through_an_index_is_its_queries_one_by_one(indexed: str) -> None:
    dataset = lancelet.dataset(indexed)
    queries = np.random.default_rng(3).normal(size=(5, D))
    for more in ({"nprobes": 3}, {"nprobes": 3, "refine_factor": 2}):
        for options in ({"fast_search": True}, {}, {"filter": "id % 2 = 0", "prefilter": True}):
            nearest = NEAR | {"k": 4} | more
            found = dataset.to_table(["id", "_distance"], nearest=nearest | {"q": queries}, **options)
            parts = [dataset.to_table(["id", "_distance"], nearest=nearest | {"q": q}, **options) for q in queries]
            assert found["query_index"].to_pylist() == [i for i in range(5) for _ in range(parts[i].num_rows)]
            assert found.drop_columns(["query_index"]).equals(pa.concat_tables(parts).combine_chunks())


def test_fragments_masks_and_segments_choose_what_is_searched(indexed: str) -> None:
    dataset = lancelet.dataset(indexed)
    pieces = dataset.get_fragments()
    nearest = NEAR | {"nprobes": PARTITIONS}
    for some in ([1], [0, 3], [3]):
        mine = dataset.scanner(["id"], nearest=nearest, prefilter=True, fragments=[pieces[i] for i in some]).to_table()
        other = lance.dataset(indexed)
        fragments = [other.get_fragments()[i] for i in some]
        theirs = other.scanner(["id"], nearest=nearest, prefilter=True, fragments=fragments).to_table()
        assert mine["id"].to_pylist() == theirs["id"].to_pylist()
    (segment,) = (index.segments for index in dataset.describe_indices() if index.name == "v_idx")
    name = str(segment[0].uuid)
    mine = dataset.scanner(["id", "_distance"], nearest=nearest, index_segments=[name]).to_table()
    theirs = lance.dataset(indexed).scanner(["id", "_distance"], nearest=nearest, index_segments=[name]).to_table()
    assert mine["id"].to_pylist() == theirs["id"].to_pylist()
    np.testing.assert_allclose(mine["_distance"], theirs["_distance"], rtol=1e-5)
    with pytest.raises(InvalidInput, match="no vector index"):
        dataset.scanner(["id"], nearest=nearest, index_segments=[str(uuid.uuid4())]).to_table()
    with pytest.raises(InvalidInput, match="another metric"):
        dataset.scanner(["id"], nearest=nearest | {"metric": "dot"}, index_segments=[name]).to_table()
    from lancelet.index.row_set import RowSet

    few = RowSet.of(np.arange(0, 800, 3, dtype=np.uint64)).serialize()
    options = {"nearest": nearest, "row_addr_blocklist": few, "with_row_id": True}
    mine = dataset.to_table(["_distance"], **options)
    assert not {row for row in mine["_rowid"].to_pylist() if row < 800 and row % 3 == 0}
    assert mine.num_rows == 10


def test_of_two_indices_the_one_with_the_metric_is_asked(indexed: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    where = str(tmp_path / "t")
    written(where, rng, "IVF_FLAT", "cosine")
    lance.dataset(where).create_index("v", "IVF_SQ", name="second", num_partitions=2, metric="l2")
    dataset = lancelet.dataset(where)
    assert "IVF_SQ second" in dataset.scanner(["id"], nearest=NEAR | {"metric": "l2"}).explain_plan()
    assert "IVF_FLAT v_idx" in dataset.scanner(["id"], nearest=NEAR | {"metric": "cosine"}).explain_plan()
    first = dataset.scanner(["id"], nearest=NEAR).explain_plan()
    assert ("IVF_FLAT" in first) != ("IVF_SQ" in first)


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_rows_that_a_deferred_compaction_moved_are_found(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(12)
    where = str(tmp_path / "t")
    written(where, rng, kind, "l2")
    lance.dataset(where).delete("id % 5 = 2")
    lance.dataset(where).optimize.compact_files(defer_index_remap=True)
    query = rng.normal(size=D).astype(np.float32)
    check_same(where, nearest={"column": "v", "q": query, "k": 20, "nprobes": 3})
    check_against_brute_force(lancelet.dataset(where), query, "l2")
    assert "ExactSearch" not in lancelet.dataset(where).scanner(["id"], nearest=NEAR).explain_plan()


def test_updated_vectors_are_found_where_they_are_now(tmp_path: Path) -> None:
    for stable in (False, True):
        rng = np.random.default_rng(13)
        where = str(tmp_path / f"t{stable}")
        written(where, rng, "IVF_FLAT", "l2", stable=stable)
        far = rng.normal(size=(3, D)) + 50
        rows = pa.table({"id": [5, 405, 805], "word": ["x"] * 3, "v": vector_array(far, "float32")})
        lancelet.dataset(where).merge_insert("id").when_matched_update_all().execute(rows)
        dataset = lancelet.dataset(where)
        for row, vector in zip([5, 405, 805], far, strict=True):
            found = dataset.to_table(["id"], nearest={"column": "v", "q": vector, "k": 1, "nprobes": PARTITIONS})
            assert found["id"].to_pylist() == [row]
        check_against_brute_force(dataset, rng.normal(size=D), "l2")


def test_rows_of_several_vectors_through_an_index(tmp_path: Path) -> None:
    rng = np.random.default_rng(14)
    counts = rng.integers(1, 5, 300)
    flat = vector_array(rng.normal(size=(counts.sum(), D)), "float32")
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    table = pa.table({"id": np.arange(300), "v": pa.ListArray.from_arrays(offsets, flat)})
    where = str(tmp_path / "t")
    lance.write_dataset(table, where, max_rows_per_file=200).create_index(
        "v", "IVF_FLAT", num_partitions=4, metric="cosine"
    )
    dataset = lancelet.dataset(where)
    dataset.delete("id % 10 = 3")
    query = rng.normal(size=(3, D)).astype(np.float32)
    nearest = {"column": "v", "q": query, "k": 8, "nprobes": 4}
    exact = dataset.to_table(["id", "_distance"], nearest=nearest | {"use_index": False, "metric": "cosine"})
    found = dataset.to_table(["id", "_distance"], nearest=nearest | {"refine_factor": 10})
    assert found["id"].to_pylist() == exact["id"].to_pylist()
    np.testing.assert_allclose(found["_distance"], exact["_distance"], rtol=1e-5)
    plain = dataset.scanner(["id", "_distance"], nearest=nearest)
    assert "VectorIndexQuery" in plain.explain_plan()
    few = dict(zip(exact["id"].to_pylist(), exact["_distance"].to_pylist(), strict=True))
    marks = {row: mark for row, mark in zip(*plain.to_table().to_pydict().values(), strict=True) if row in few}
    assert len(marks) >= 4
    assert marks == {row: pytest.approx(few[row], abs=1e-5) for row in marks}


def test_an_index_that_is_prewarmed_answers_the_same(indexed: str) -> None:
    dataset = lancelet.dataset(indexed, session=lancelet.Session())
    before = dataset.to_table(nearest=NEAR)
    dataset.prewarm_index("v_idx")
    assert dataset.to_table(nearest=NEAR).equals(before)


@pytest.mark.parametrize("element", ["float16", "float64", "uint8"])
def test_other_elements_through_an_index(tmp_path: Path, element: str) -> None:
    rng = np.random.default_rng(15)
    where = str(tmp_path / "t")
    metric = "hamming" if element == "uint8" else "l2"
    lance.write_dataset(rows_of(rng, 0, 600, element), where, max_rows_per_file=400).create_index(
        "v", "IVF_FLAT", num_partitions=4, metric=metric
    )
    query = rng.integers(0, 256, D).astype(np.uint8) if element == "uint8" else rng.normal(size=D).astype(element)
    wide = query.astype(np.float32) if element == "uint8" else query
    nearest = {"column": "v", "q": wide, "k": 15}
    check_same(where, nearest=nearest | {"nprobes": 2})
    check_same(where, nearest=nearest | {"nprobes": 4, "refine_factor": 2})
    check_against_brute_force(lancelet.dataset(where), query, metric)


@pytest.mark.parametrize("kind", ["IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"])
def test_codes_of_bits_and_graphs_find_the_near_rows_in_every_state(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(16)
    where = str(tmp_path / "t")
    theirs = lance.write_dataset(rows_of(rng, 0, 700), where, max_rows_per_file=300)
    options: dict[str, Any] = {"num_sub_vectors": 8} if kind.endswith("PQ") else {}
    theirs.create_index("v", kind, num_partitions=2, metric="l2", **options)

    def check() -> None:
        dataset, query = lancelet.dataset(where), rng.normal(size=D).astype(np.float32)
        assert f"VectorIndexQuery: {kind}" in dataset.scanner(["id"], nearest=NEAR).explain_plan()
        if kind == "IVF_RQ":
            check_against_brute_force(dataset, query, "l2")
            return
        everything = dataset.to_table(["id", "v"], with_row_id=True)
        ids, exact = everything["_rowid"].to_numpy(), distances(everything["v"], query, "l2")
        nearest = {"column": "v", "q": query, "k": 10, "nprobes": 2, "refine_factor": 4, "ef": 150}
        for condition in ("true", "id % 3 = 0"):
            left = exact.copy()
            left[~np.isin(ids, dataset.to_table([], filter=condition, with_row_id=True)["_rowid"])] = np.nan
            best = set(ids[np.argsort(left)[:10]].tolist())
            scanner = dataset.scanner(
                ["_distance"], nearest=nearest, filter=condition, prefilter=True, with_row_id=True
            )
            found = scanner.to_table()
            assert len(best & set(found["_rowid"].to_pylist())) >= 9
            of_row = dict(zip(ids.tolist(), left.tolist(), strict=True))
            expected = [of_row[row] for row in found["_rowid"].to_pylist()]
            np.testing.assert_allclose(found["_distance"], expected, rtol=1e-5)

    check()
    lancelet.dataset(where).delete("id % 7 = 1")
    lancelet.write_dataset(rows_of(rng, 700, 40), where, mode="append")
    check()
    lance.dataset(where).optimize.compact_files()
    check()
