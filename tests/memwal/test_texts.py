"""Texts of all levels are scored as those of one table that has the rows which count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    Occur,
    PhraseQuery,
)
from memwal.samples import KEY

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("text", pa.string()),
        pa.field("title", pa.string()),
        pa.field("notes", pa.list_(pa.string())),
    ]
)
WORDS = ["kelp", "tide", "pool", "crab", "sand", "kelps", "kelt", "tides"]
SHARES = [0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05]
GONE = (0, 55, 101)
QUERIES = [
    "kelp",
    "kelp tide tide",
    MatchQuery("kelp", "title"),
    MatchQuery("kelp", "text", fuzziness=1),
    MatchQuery("kelp", "text", fuzziness=1, max_expansions=2),
    PhraseQuery("kelp tide", "text"),
    BooleanQuery(
        [
            (Occur.MUST, MatchQuery("kelp", "text")),
            (Occur.SHOULD, MatchQuery("tide", "title")),
            (Occur.MUST_NOT, MatchQuery("sand", "text")),
        ]
    ),
    BoostQuery(MatchQuery("kelp", "text"), MatchQuery("sand", "text")),
    CombinedFieldsQuery("kelp tide", ["text", "title"]),
]


def drawn(ids: list[int], seed: int) -> pa.Table:
    """Rows with texts of different lengths, also empty ones and none; a word of its own is in every level."""
    draw = np.random.default_rng(seed)

    def text() -> str | None:
        count = int(draw.integers(0, 9))
        return None if count == 0 else " ".join(draw.choice(WORDS, count - 1, p=SHARES))

    columns: dict[str, list[Any]] = {"id": ids, "text": [text() for _ in ids], "title": [text() for _ in ids]}
    columns["notes"] = [[text() or "kelp", text() or "crab"] for _ in ids]
    columns["text"][0] = f"kelq{'abc'[seed]}"
    return pa.table(columns, SCHEMA)


def levelled(where: Path, make: Any, late: Any = None) -> tuple[lancelet.LanceDataset, pa.Table]:
    """A table, a run and a log, and the rows of them that count; ``late`` comes between the first run and the second."""
    levels = [
        drawn(list(range(300)), 0),
        drawn(list(range(100, 220)), 1),
        drawn([*range(50, 120), *range(400, 450)], 2),
    ]
    dataset = lancelet.write_dataset(levels[0], where)
    make(dataset)
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put(levels[1])
    if late is not None:
        late(dataset)
    writer = dataset.writer()
    writer.put(levels[2])
    writer.delete({"id": list(GONE)})
    newest = {row["id"]: row for level in levels for row in level.to_pylist() if row["id"] not in GONE}
    return dataset, pa.Table.from_pylist(list(newest.values()), SCHEMA)


def indexed(dataset: Any, columns: tuple[str, ...] = ("text",), **options: Any) -> None:
    for column in columns:
        dataset.create_scalar_index(column, "INVERTED", with_position=True, replace=True, **options)


def unindexed(dataset: Any) -> None:
    """Without an index words are what stands between spaces."""


def scanner_of(dataset: lancelet.LanceDataset, condition: str | None = None) -> lancelet.mem_wal.LsmScanner:
    scanner = dataset.lsm_scanner(strong=True).project(["id", "_score"])
    return scanner if condition is None else scanner.filter(condition)


def found(scanner: lancelet.mem_wal.LsmScanner, query: Any) -> dict[int, float]:
    table = scanner.full_text_search(query).to_table()
    scores = table["_score"].to_pylist()
    assert scores == sorted(scores, reverse=True)
    return dict(zip(table["id"].to_pylist(), scores, strict=True))


def expected(whole: Any, query: Any, condition: str | None) -> dict[int, float]:
    table = whole.to_table(["id", "_score"], filter=condition, prefilter=True, full_text_query=query)
    return dict(zip(table["id"].to_pylist(), table["_score"].to_pylist(), strict=True))


def both(dataset: Any) -> None:
    indexed(dataset, ("text", "title"))


def stemmed(dataset: Any) -> None:
    indexed(dataset, stem=True, remove_stop_words=True)


@pytest.mark.parametrize(
    ("make", "late", "last"),
    [
        (unindexed, None, unindexed),
        (indexed, None, indexed),
        (both, None, both),
        (unindexed, both, both),
        (indexed, stemmed, stemmed),
    ],
)
def test_scores_are_those_of_one_table(tmp_path: Path, make: Any, late: Any, last: Any) -> None:
    dataset, rows = levelled(tmp_path / "levels", make, late)
    whole = lancelet.write_dataset(rows, tmp_path / "whole")
    last(whole)
    asked = [query for query in QUERIES if last is not unindexed or not isinstance(query, (str, CombinedFieldsQuery))]
    check_same(dataset, whole, asked)


def check_same(dataset: lancelet.LanceDataset, whole: lancelet.LanceDataset, queries: list[Any]) -> None:
    for condition in (None, "id % 3 = 0"):
        scanner = scanner_of(dataset, condition)
        for query in queries:
            wanted = expected(whole, query, condition)
            assert wanted, "the question is one that finds something"
            assert found(scanner, query) == wanted, (query, condition)


def test_rows_that_the_table_lost_moved_or_got_since_count_once(tmp_path: Path) -> None:
    """The index of the base table knows rows that are gone, and does not know some that are there."""
    dataset = lancelet.write_dataset(drawn(list(range(200)), 0), tmp_path / "levels", enable_stable_row_ids=True)
    both(dataset)
    dataset.delete("id < 10")
    dataset.insert(drawn(list(range(500, 540)), 1))
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put(drawn(list(range(100, 150)), 2))
    dataset.compact_mem_wal()
    dataset.writer().put(drawn(list(range(140, 180)), 1))
    rows = dataset.lsm_scanner(strong=True).to_table()
    whole = lancelet.write_dataset(rows, tmp_path / "whole")
    both(whole)
    check_same(
        dataset, whole, ["kelp tide", PhraseQuery("kelp tide", "text"), CombinedFieldsQuery("kelp", ["text", "title"])]
    )


def test_rows_without_a_key_all_count(tmp_path: Path) -> None:
    schema = pa.schema([field.remove_metadata() for field in SCHEMA])
    parts = [drawn(list(range(first, first + 60)), seed).cast(schema) for seed, first in enumerate((0, 60, 120))]
    dataset = lancelet.write_dataset(parts[0], tmp_path / "levels")
    both(dataset)
    dataset.initialize_mem_wal(unsharded=True)
    for part in parts[1:]:
        with dataset.writer() as writer:
            writer.put(part)
    whole = lancelet.write_dataset(pa.concat_tables(parts), tmp_path / "whole")
    both(whole)
    check_same(dataset, whole, ["kelp tide"])


def test_scores_are_those_of_pylance(tmp_path: Path) -> None:
    dataset, rows = levelled(tmp_path / "levels", both)
    whole = lance.write_dataset(rows, tmp_path / "whole")
    both(whole)
    for text in ("kelp", "crab pool"):
        wanted = expected(whole, {"query": text, "columns": ["text"]}, None)
        scores = found(scanner_of(dataset), MatchQuery(text, "text"))
        assert scores.keys() == wanted.keys()
        assert np.allclose([scores[key] for key in wanted], list(wanted.values()), atol=1e-5)


def test_items_of_lists_are_scored_over_all_levels(tmp_path: Path) -> None:
    def make(dataset: Any) -> None:
        dataset.create_scalar_index("notes", "INVERTED", document_granularity="list_element")

    for make_first, late in ((make, None), (unindexed, make)):
        where = tmp_path / make_first.__name__
        dataset, rows = levelled(where, make_first, late)
        whole = lancelet.write_dataset(rows, f"{where}-whole")
        make(whole)
        columns = ["id", "_score", "_doc_index"]
        wanted = whole.to_table(columns, full_text_query=MatchQuery("crab kelp", "notes"))
        scanner = dataset.lsm_scanner(strong=True).full_text_search(MatchQuery("crab kelp", "notes")).project(columns)
        assert sorted(map(repr, scanner.to_table().to_pylist())) == sorted(map(repr, wanted.to_pylist()))


def test_the_best_rows_are_the_best_of_all_levels(tmp_path: Path) -> None:
    dataset, _ = levelled(tmp_path, indexed)
    every = dataset.lsm_scanner(strong=True).full_text_search("kelp tide").project(["id", "_score"]).to_table()
    for limit, offset in ((1, 0), (5, 0), (5, 3), (1000, 7)):
        scanner = dataset.lsm_scanner(strong=True).full_text_search("kelp tide").limit(limit, offset)
        some = scanner.project(["id", "_score"]).to_table()
        assert some["_score"].to_pylist() == every["_score"].to_pylist()[offset : offset + limit]
    other, _ = levelled(tmp_path / "other", lambda dataset: dataset.create_scalar_index("text", "INVERTED"))
    phrases = other.lsm_scanner().full_text_search(PhraseQuery("kelp tide", "text"))
    with pytest.raises(ValueError, match="position is not found"):
        phrases.to_table()
