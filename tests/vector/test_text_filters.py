"""The nearest of the rows whose texts match a query, and of the nearest rows those that do: as pylance answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.query
import numpy as np
import pyarrow as pa
import pytest

import lancelet
import lancelet.query
from lancelet.errors import InvalidInput, InvalidType
from vector.samples import column, vectors

ROWS = 400
WORDS = ["sea", "land", "sand", "salt", "kelp", "reef", "wave", "tide"]
QUERY = vectors("f32", 1, seed=21)[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two fragments, of which the indices know one; some rows are deleted, some texts null."""
    random = np.random.default_rng(3)
    texts: list[str | None] = [" ".join(random.choice(WORDS, random.integers(1, 6))) for _ in range(ROWS)]
    texts[5] = texts[17] = None
    table = pa.table({"id": np.arange(ROWS), "text": texts, "v": column(vectors("f32", ROWS))})
    uri = str(tmp_path_factory.mktemp("texts") / "t")
    dataset = lance.write_dataset(table.slice(0, 300), uri)
    dataset.create_index("v", "IVF_FLAT", num_partitions=3)
    dataset.create_scalar_index("text", "INVERTED", with_position=True)
    lance.write_dataset(table.slice(300), uri, mode="append")
    lance.dataset(uri).delete("id % 11 = 4")
    return uri


def queries(module: Any) -> list[Any]:
    kinds = module.query
    sea, kelp = kinds.MatchQuery("sea", "text"), kinds.MatchQuery("kelp reef", "text")
    return [
        sea,
        kelp,
        kinds.MatchQuery("nothing", "text"),
        kinds.MatchQuery("sea tide", "text", operator=kinds.FullTextOperator.AND),
        kinds.PhraseQuery("sea land", "text"),
        kinds.BooleanQuery([(kinds.Occur.MUST, sea), (kinds.Occur.MUST_NOT, kelp)]),
    ]


def answer(module: Any, uri: str, text: Any, **options: Any) -> list[tuple[Any, ...]]:
    nearest = {"column": "v", "q": QUERY, "k": 9, "nprobes": 3, **options.pop("nearest", {})}
    columns = ["id", "_distance"]
    found = module.dataset(uri).to_table(columns=columns, nearest=nearest, filter=text, **options)
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("use_index", [True, False])
@pytest.mark.parametrize("at", range(6))
def test_the_nearest_of_rows_that_match(place: str, at: int, use_index: bool) -> None:
    options = {"prefilter": True, "nearest": {"use_index": use_index}}
    ours, theirs = (answer(module, place, queries(module)[at], **options) for module in (lancelet, lance))
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    np.testing.assert_allclose([row[1] for row in ours], [row[1] for row in theirs], rtol=1e-6)
    assert bool(ours) == (at != 2)


def test_rows_that_match_of_the_nearest(place: str) -> None:
    for at in range(3):
        ours, theirs = (answer(module, place, queries(module)[at], nearest={"k": 60}) for module in (lancelet, lance))
        assert [row[0] for row in ours] == [row[0] for row in theirs]
    # pylance looks at single words only; what is found is told by the searches themselves.
    for text in queries(lancelet)[3:]:
        dataset = lancelet.dataset(place)
        matching = dataset.to_table(columns=["id"], full_text_query=text, limit=ROWS)["id"].to_pylist()
        every = answer(lancelet, place, None, nearest={"k": 60})
        assert answer(lancelet, place, text, nearest={"k": 60}) == [row for row in every if row[0] in matching]


@pytest.mark.parametrize("prefilter", [True, False])
def test_a_filter_of_both_kinds_and_several_queries(place: str, prefilter: bool) -> None:
    many = vectors("f32", 3, seed=22)
    found = []
    for module in (lancelet, lance):
        both = {"expr_filter": "id % 3 > 0", "search_filter": module.query.MatchQuery("sea", "text")}
        found.append(answer(module, place, both, prefilter=prefilter, nearest={"q": many, "k": 40}))
    assert [row[:2] for row in found[0]] == [row[:2] for row in found[1]]
    assert {row[0] for row in found[0]} == {0, 1, 2}
    (scanner,) = [
        lancelet.dataset(place).scanner(nearest={"column": "v", "q": QUERY, "k": 40}, filter=both, prefilter=prefilter)
        for both in [{"expr_filter": "id % 3 > 0", "search_filter": lancelet.query.MatchQuery("sea", "text")}]
    ]
    assert scanner.count_rows() == scanner.to_table().num_rows
    assert "Match: Match(" in scanner.explain_plan() or "TextIndexQuery: INVERTED" in scanner.explain_plan()


def test_texts_without_an_index(tmp_path: Path) -> None:
    table = pa.table({"id": np.arange(50), "text": ["sea" if at % 4 else "land" for at in range(50)]})
    table = table.append_column("v", column(vectors("f32", 50)))
    lancelet.write_dataset(table, tmp_path)
    for prefilter in (True, False):
        ours, theirs = (
            answer(module, str(tmp_path), module.query.MatchQuery("land", "text"), prefilter=prefilter)
            for module in (lancelet, lance)
        )
        assert [row[0] for row in ours] == [row[0] for row in theirs]


def test_a_query_is_no_filter_of_other_scans(place: str) -> None:
    dataset, text = lancelet.dataset(place), lancelet.query.MatchQuery("sea", "text")
    for options in ({}, {"full_text_query": "tide"}):
        with pytest.raises(InvalidInput, match="Query filter can only be used with vector search"):
            dataset.to_table(filter=text, **options)
    with pytest.raises(InvalidType, match=r"a filter is an SQL text, .* not 5"):
        dataset.to_table(filter=5)
    with pytest.raises(InvalidInput, match="both nearest and full text search"):
        dataset.to_table(full_text_query=text, nearest={"column": "v", "q": QUERY})
