"""What a search is given: queries of all kinds, options, columns of the result, and one sentence for what makes no sense."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput, InvalidType, UnknownColumn
from vector.brute import vector_array

D = 4
QUERY = [1.0, 0.0, 0.5, 0.0]


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(1)
    path = str(tmp_path_factory.mktemp("search") / "t")
    data = {
        "id": np.arange(60),
        "w": [f"w{i % 5}" for i in range(60)],
        "v": vector_array(np.round(rng.normal(size=(60, D)), 1), "float32"),
        "h": vector_array(rng.normal(size=(60, D)), "float16"),
        "bits": vector_array(rng.integers(0, 256, (60, D)), "uint8"),
        "whole": vector_array(rng.integers(0, 256, (60, D)), "int32"),
    }
    lancelet.write_dataset(pa.table(data), path, max_rows_per_file=25)
    return path


def near(**more: Any) -> dict[str, Any]:
    return {"column": "v", "q": QUERY, "k": 7, **more}


class Tensor:
    """As much of a tensor as a search looks at: torch itself is not installed here."""

    dtype = "torch.float32"

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(QUERY, np.float32)


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        tuple(QUERY),
        np.array(QUERY),
        np.array(QUERY, np.float16),
        pa.array(QUERY, pa.float32()),
        pa.array(QUERY, pa.float64()),
        pa.chunked_array([QUERY[:2], QUERY[2:]]),
        pa.array([QUERY], pa.list_(pa.float32(), D))[0],
        pa.array([QUERY])[0],
        Tensor(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_query_may_be_any_list_of_numbers(where: str, query: Any) -> None:
    dataset = lancelet.dataset(where)
    expected = dataset.to_table(nearest=near(q=np.array(QUERY, np.float32)))
    assert dataset.to_table(nearest=near(q=query)).equals(expected)


@pytest.mark.parametrize(
    "queries",
    [
        [QUERY, QUERY],
        np.array([QUERY, QUERY]),
        [np.array(QUERY), pa.array(QUERY)],
        pa.array([QUERY, QUERY], pa.list_(pa.float32(), D)),
        pa.array([QUERY, QUERY]),
    ],
    ids=["lists", "numpy", "list of arrays", "fixed lists", "arrow lists"],
)
def test_several_queries_are_a_batch(where: str, queries: Any) -> None:
    found = lancelet.dataset(where).to_table(["id", "_distance"], nearest=near(q=queries, k=2))
    alone = lancelet.dataset(where).to_table(["id"], nearest=near(k=2))["id"].to_pylist()
    assert found["query_index"].to_pylist() == [0, 0, 1, 1]
    assert found["id"].to_pylist() == alone * 2


OPTIONS: list[dict[str, Any]] = [
    {},
    {"columns": ["id"]},
    {"columns": ["_distance", "id"]},
    {"columns": []},
    {"columns": [], "with_row_id": True},
    {"columns": ["id"], "with_row_id": True, "with_row_address": True},
    {"columns": ["_rowid", "id", "_distance"]},
    {"columns": ["_rowoffset", "w", "_rowaddr"]},
    {"columns": {"x": "_distance * 2", "y": "id + 1"}},
    {"columns": {"x": "id"}},
    {"columns": ["id"], "disable_scoring_autoprojection": True},
    {"disable_scoring_autoprojection": True},
    {"columns": ["id"], "limit": 3},
    {"columns": ["id"], "offset": 2},
    {"columns": ["id"], "limit": 2, "offset": 3},
    {"columns": ["id"], "limit": 50},
    {"columns": ["id"], "limit": 0},
    {"columns": ["id"], "filter": "id > 20"},
    {"columns": ["id"], "filter": "id > 20", "prefilter": True},
    {"columns": ["id"], "filter": "_distance > 1"},
    {"columns": ["id"], "filter": "w = 'w1'", "limit": 1, "prefilter": True},
    {"columns": ["id"], "order_by": ["id"]},
    {"columns": ["w"], "order_by": ["id"], "limit": 2, "offset": 1},
    {"columns": ["id"], "fast_search": True},
]


# Of a row that two queries found, pylance does not say which comes first in another order.
CASES = [(options, batch) for options in OPTIONS for batch in (False, True) if not (batch and len(options) > 3)]


@pytest.mark.parametrize(("options", "batch"), CASES, ids=str)
def test_results_look_as_pylances_do(where: str, options: dict[str, Any], batch: bool) -> None:
    nearest = near(q=[QUERY, QUERY[::-1]]) if batch else near()
    scanners = [module.dataset(where).scanner(nearest=nearest, **options) for module in (lancelet, lance)]
    mine, theirs = (scanner.to_table() for scanner in scanners)
    assert mine.schema.equals(theirs.schema, check_metadata=True)
    assert scanners[0].projected_schema == mine.schema
    pairs = zip(mine.column_names, mine.columns, theirs.columns, strict=True)
    for name, ours, other in pairs:
        if pa.types.is_floating(ours.type):
            np.testing.assert_allclose(ours, other, rtol=1e-5, atol=1e-6)
        else:
            assert ours.to_pylist() == other.to_pylist(), name
    if "limit" not in options and "offset" not in options:
        assert scanners[0].count_rows() == mine.num_rows
    assert pa.Table.from_batches(scanners[0].to_batches(), mine.schema).equals(mine)


def test_what_pylance_does_not_have(where: str) -> None:
    """The distance to order by, a column in other letters, and single fragments without a prefilter."""
    dataset = lancelet.dataset(where)
    plain = dataset.to_table(["id"], nearest=near())["id"].to_pylist()
    order = [lancelet.ColumnOrdering("_distance", ascending=False)]
    back = dataset.to_table(["_distance"], nearest=near(), order_by=order)["_distance"].to_pylist()
    assert back == sorted(back, reverse=True)
    assert dataset.to_table(["id"], nearest=near(column="V"))["id"].to_pylist() == plain
    part = dataset.scanner(["id"], nearest=near(), fragments=dataset.get_fragments()[:1]).to_table()["id"].to_pylist()
    assert set(part) <= set(range(25))
    sizes = [batch.num_rows for batch in dataset.to_batches(["id"], nearest=near(), batch_size=3)]
    assert sizes == [3, 3, 1]


def test_searches_are_in_frames_heads_and_plans(where: str) -> None:
    dataset = lancelet.dataset(where)
    scanner = dataset.scanner(["id", "_distance"], nearest=near(), filter="id > 5")
    assert scanner.to_pandas()["id"].tolist() == scanner.to_table()["id"].to_pylist()
    assert scanner.head(2).equals(scanner.to_table().slice(0, 2))
    plan = scanner.explain_plan()
    assert "Nearest: column=v, k=7" in plan
    assert "ExactSearch: metric=l2" in plan
    assert plan.index("Filter: id > 5") < plan.index("Nearest")
    before = dataset.scanner(["id"], nearest=near(), filter="id > 5", prefilter=True).analyze_plan()
    assert before.index("Filter: id > 5") > before.index("Nearest")
    assert "vectors compared=54" in before
    costs: list[Any] = []
    found = dataset.scanner(["id"], nearest=near(), scan_stats_callback=costs.append).to_table()
    assert costs[0].all_counts["rows_scanned"] == found.num_rows == 7


def test_a_distance_that_nobody_asked_for_is_announced(where: str, caplog: pytest.LogCaptureFixture) -> None:
    dataset = lancelet.dataset(where)
    with caplog.at_level(logging.WARNING, "lancelet"):
        dataset.to_table(["id", "_distance"], nearest=near())
        dataset.to_table(nearest=near())
        assert not caplog.records
        dataset.to_table(["id"], nearest=near())
        assert "disable_scoring_autoprojection" in caplog.text


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"q": [1.0, 2.0]}, InvalidInput, "size 2 does not match index column size 4"),
    ({"q": QUERY * 2}, InvalidInput, "size 8 does not match"),
    ({"q": [QUERY, [1.0]]}, InvalidInput, "same length"),
    ({"q": [math.nan, 0, 0, 0]}, InvalidInput, "NaN"),
    ({"q": [QUERY, [math.nan, 0, 0, 0]]}, InvalidInput, "NaN"),
    ({"q": [None, 0, 0, 0]}, InvalidInput, "null"),
    ({"q": pa.array([None, 0, 0, 0])}, InvalidInput, "null"),
    ({"q": []}, InvalidInput, "empty"),
    ({"q": np.zeros((0, D))}, InvalidInput, "empty"),
    ({"q": np.zeros((2, 2, D))}, InvalidInput, "3 dimensions"),
    ({"q": "abcd"}, InvalidType, "array of floats"),
    ({"q": ["a", "b", "c", "d"]}, InvalidInput, "numbers, not texts"),
    ({"q": None}, InvalidType, "array of floats"),
    ({"q": Ellipsis}, InvalidType, "array of floats"),
    ({"q": pa.array(["a"])}, InvalidType, "string"),
    ({"q": pa.nulls(1, pa.list_(pa.float32(), D))[0]}, InvalidType, "null"),
    ({"k": 0}, InvalidInput, "Nearest-K must be > 0 but got 0"),
    ({"k": -1}, InvalidInput, "Nearest-K must be > 0 but got -1"),
    ({"k": 2.5}, InvalidType, "whole number"),
    ({"k": "a"}, InvalidType, "whole number"),
    ({"metric": "foo"}, InvalidInput, "metric"),
    ({"metric": "hamming"}, InvalidInput, "hamming does not support"),
    ({"column": "bits", "metric": "l2", "q": [1, 2, 3, 4]}, InvalidInput, "l2 does not support"),
    ({"column": "bits", "q": [1.5, 2, 3, 4]}, InvalidInput, "0 to 255"),
    ({"column": "bits", "q": [256, 2, 3, 4]}, InvalidInput, "0 to 255"),
    ({"column": "h", "q": [1e6, 2, 3, 4]}, InvalidInput, "float16 cannot hold"),
    ({"column": "nope"}, UnknownColumn, "nope"),
    ({"column": "id"}, InvalidType, "must be a vector"),
    ({"column": "whole"}, InvalidInput, "int32"),
    ({"column": 3}, InvalidType, "named by a text"),
    ({"distance_range": (1, 2, 3)}, InvalidInput, "lower_bound, upper_bound"),
    ({"distance_range": 3}, InvalidInput, "lower_bound, upper_bound"),
    ({"distance_range": ("a", 2)}, InvalidType, "numbers"),
    ({"distance_range": (math.nan, 2)}, InvalidInput, "NaN"),
    ({"nprobes": 0}, InvalidInput, "Nprobes must be > 0 but got 0"),
    ({"minimum_nprobes": -1}, InvalidInput, "Minimum nprobes must be >= 0"),
    ({"maximum_nprobes": -1}, InvalidInput, "Maximum nprobes must be >= 0"),
    ({"minimum_nprobes": 3, "maximum_nprobes": 2}, InvalidInput, "minimum_nprobes must be <= maximum_nprobes"),
    ({"refine_factor": 0}, InvalidInput, "Refine factor must be 1 or more"),
    ({"ef": 0}, InvalidInput, "ef must be > 0"),
    ({"search_effort": 2}, InvalidInput, "search_effort must be finite"),
    ({"search_effort": math.nan}, InvalidInput, "search_effort must be finite"),
    ({"search_effort": "x"}, InvalidType, "search_effort"),
    ({"approx_mode": "x"}, InvalidInput, "approx_mode must be one of"),
    ({"query_parallelism": -2}, InvalidInput, "query_parallelism must be >= -1"),
    ({"query_parallelism": 1.5}, InvalidType, "whole number"),
    ({"foo": 1}, InvalidType, "foo"),
]


@pytest.mark.parametrize(("wrong", "error", "text"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_makes_no_sense_is_refused(where: str, wrong: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        lancelet.dataset(where).scanner(nearest=near(**wrong))


def test_the_rest_that_makes_no_sense(where: str, tmp_path: Path) -> None:
    dataset = lancelet.dataset(where)
    with pytest.raises(InvalidType, match="a dict"):
        dataset.scanner(nearest=[1])
    with pytest.raises(InvalidType, match="no 'q'"):
        dataset.scanner(nearest={"column": "v"})
    with pytest.raises(InvalidInput, match="deleted rows"):
        dataset.scanner(nearest=near(), include_deleted_rows=True, with_row_id=True)
    with pytest.raises(UnknownColumn, match="_distance"):
        dataset.scanner(nearest=near(), filter="_distance > 1", prefilter=True)
    for name, query in (("_distance", QUERY), ("query_index", [QUERY])):
        data = pa.table({name: [1], "v": vector_array(np.ones((1, D)), "float32")})
        taken = lancelet.write_dataset(data, f"memory://search/{name}")
        with pytest.raises(InvalidInput, match=name):
            taken.scanner(nearest=near(q=query))
    assert taken.to_table(nearest=near()).column_names == ["query_index", "v", "_distance"]
