"""Rows with stable ids that were updated are found by the texts that they have now, whatever pylance's merges left in a segment."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest
from tests.text.corpus import PLAIN, entries, partitions
from tests.text.oracle import Texts
from tests.text.test_histories import QUERIES, theirs
from tests.text.test_matching import ranked, sentences

import lancelet
from lancelet.index.folder import IndexFolder
from lancelet.index.text.metadata import Head
from lancelet.query import DocumentGranularity, MatchQuery

OPTIONS = {**PLAIN, "with_position": True}


def merged_by_pylance(uri: str, *, by: Any = lance) -> None:
    """One segment with all texts that rows ever had: some have a newer one, some the same words in another order, some none."""
    draw = random.Random(3)
    table = pa.table({"id": range(120), "text": sentences(draw, 120, 8)})
    dataset = by.write_dataset(table, uri, max_rows_per_file=50, enable_stable_row_ids=True)
    dataset.create_scalar_index("text", "INVERTED", **OPTIONS)
    for text, some in (("'w0 w1 new'", 0), ("'w1 w0 new'", 0), ("cast(null as string)", 1), ("''", 2), ("text", 3)):
        by.dataset(uri).update({"text": text}, where=f"id % 7 = {some}")
        by.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=10)
    (segment,) = entries(uri)
    rows = [int(row) for part in partitions(uri, segment) for row in part.documents.rows]
    assert len(set(rows)) < len(rows), "the segment has rows twice"


def check(dataset: lancelet.LanceDataset, *, fresh: bool = False) -> None:
    """What brute force finds, and each row as pylance scores that document."""
    rows = dataset.to_table(["id", "text"])
    texts = Texts(dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)))
    other = lance.dataset(dataset.uri)
    for query in QUERIES:
        found = ranked(dataset, query)
        assert len(found[0]) == len(set(found[0]))
        expected = texts.answer(query.inner)
        assert set(found[0]) == set(expected)
        their_ids, their_scores = ranked(other, theirs(query))
        scores: dict[int, list[float]] = {}
        for row, score in zip(their_ids, their_scores.tolist(), strict=True):
            scores.setdefault(row, []).append(score)
        for row, score in zip(found[0], found[1].tolist(), strict=True):
            # A text that another one must not be in may be missed by pylance.
            assert row not in scores or any(score == pytest.approx(one, rel=1e-6) for one in scores[row])
        if fresh:
            assert sorted(found[1].tolist()) == pytest.approx(sorted(expected.values()), rel=1e-5)


@pytest.mark.parametrize("writer", [lance, lancelet], ids=["pylance", "lancelet"])
def test_updated_rows_are_found_once_and_by_what_they_say_now(tmp_path: Path, writer: Any) -> None:
    uri = str(tmp_path / "table")
    merged_by_pylance(uri, by=writer)
    check(lancelet.dataset(uri))
    # Also when other rows come, and when fragments are put together.
    lance.dataset(uri).delete("id % 5 = 4")
    lance.dataset(uri).optimize.compact_files()
    check(lancelet.dataset(uri))


def test_a_check_warns_of_outdated_texts_and_optimising_drops_them(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    merged_by_pylance(uri)
    (finding,) = lancelet.dataset(uri).verify(deep=True).findings
    assert finding.level == "warning"
    assert "before they were updated" in finding.problem
    dataset = lancelet.dataset(uri)
    dataset.optimize.optimize_indices()
    assert not dataset.verify(deep=True).findings
    check(dataset, fresh=True)
    (segment,) = entries(uri)
    assert Head.read(IndexFolder(dataset._snapshot, segment)).is_current
    version = dataset.version
    dataset.optimize.optimize_indices()
    assert dataset.version == version, "there is nothing left to do"


def test_segments_that_lancelet_merges_have_no_outdated_texts(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    merged_by_pylance(uri)
    dataset = lancelet.dataset(uri)
    dataset.insert(pa.table({"id": range(120, 130), "text": ["w0 w1 w2"] * 10}))
    dataset.optimize.optimize_indices(num_indices_to_merge=10)
    check(dataset, fresh=True)


def test_items_of_updated_lists_are_found_as_they_are_now(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lists = [["a b", "c"], ["b", "a"], ["a"], ["c", "c a", "b"]]
    table = pa.table({"id": range(4), "l": pa.array(lists, pa.list_(pa.string()))})
    dataset = lance.write_dataset(table, uri, enable_stable_row_ids=True)
    whole = lance.query.DocumentGranularity.LIST_ELEMENT
    dataset.create_scalar_index("l", "INVERTED", document_granularity=whole, **OPTIONS)
    new = pa.table({"id": [0, 1, 3], "l": pa.array([["x", "c"], [], ["c a"]], pa.list_(pa.string()))})
    dataset.merge_insert("id").when_matched_update_all().execute(new)
    dataset = lance.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    dataset = lance.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=10)
    ours = lancelet.dataset(uri)
    for word, expected in {"a": [(2, 0), (3, 0)], "c": [(0, 1), (3, 0)], "b": [], "x": [(0, 0)]}.items():
        query = MatchQuery(word, "l", document_granularity=DocumentGranularity.LIST_ELEMENT)
        found = ours.to_table(columns=["id"], full_text_query=query)
        pairs = zip(found["id"].to_pylist(), found["_doc_index"].to_pylist(), strict=True)
        assert sorted((row, item) for row, (item,) in pairs) == expected
