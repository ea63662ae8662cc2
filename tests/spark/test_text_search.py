"""Texts on Spark: indices that tasks build, and searches whose scores are those of one process to the last bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lancelet
from lancelet.errors import InvalidInput
from lancelet.query import (
    MatchQuery,
    PhraseQuery,
)
from lancelet.spark import LanceTable
from lancelet.spark.table import indices
from text.corpus import PLAIN, documents

ROWS, DIMENSION = 400, 4


def rows(first: int, last: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    vectors = pa.array(rng.normal(size=(last - first, DIMENSION)).tolist(), pa.list_(pa.float32(), DIMENSION))
    texts, titles = documents(last - first, seed=seed), documents(last - first, 20, seed + 1, 5)
    return pa.table(
        {
            "id": pa.array(range(first, last), pa.int64()),
            "text": pa.array(texts, pa.string()),
            "title": pa.array(titles, pa.string()),
            "vector": vectors,
        }
    )


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks for a few kilobytes of texts."""
    monkeypatch.setattr(indices, "_HEAVY_BYTES", 1_000)


@pytest.mark.usefixtures("small_parts")
def test_an_index_that_tasks_build_has_the_scores_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    ours, alone = str(tmp_path / "spark.lance"), str(tmp_path / "alone.lance")
    lancelet.write_dataset(rows(0, ROWS, 1), ours, max_rows_per_file=60)
    shutil.copytree(ours, alone)
    LanceTable.forPath(spark, ours).createIndex("text", "INVERTED", with_position=True, **PLAIN)
    lancelet.dataset(alone).create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    (index,) = lancelet.dataset(ours).describe_indices()
    assert len(index.segments) > 1
    assert index.num_rows_indexed == ROWS
    for query in (
        MatchQuery("w0 w7 κύμα", "text"),
        PhraseQuery("w0 w1", "text"),
        MatchQuery("w3x", "text", fuzziness=1),
    ):
        columns = ["id", "_score"]
        tables = [lancelet.dataset(uri).to_table(columns, full_text_query=query) for uri in (ours, alone)]
        assert tables[0].num_rows
        assert tables[0] == tables[1]
    theirs = lance.dataset(ours).to_table(["id", "_score"], full_text_query=lance.query.MatchQuery("w0 w7", "text"))
    found = lancelet.dataset(ours).to_table(["id", "_score"], full_text_query=MatchQuery("w0 w7", "text"))
    assert dict(zip(*found.to_pydict().values(), strict=True)) == pytest.approx(
        dict(zip(*theirs.to_pydict().values(), strict=True)), rel=1e-6
    )


def test_options_and_mistakes_of_an_index(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lancelet.write_dataset(rows(0, 20, 2), uri)
    held = LanceTable.forPath(spark, uri)
    with pytest.raises(InvalidInput, match="nolang"):
        held.createIndex("text", "INVERTED", language="nolang")
    with pytest.raises(InvalidInput, match="id"):
        held.createIndex("id", "FTS")
    assert not held.indices()
    held.createIndex("text", "FTS", stem=False, lower_case=False, name="words")
    assert lancelet.dataset(uri).to_table(full_text_query="w0").num_rows
    lancelet.write_dataset(rows(20, 40, 3), uri, mode="append")
    held.optimizeIndices()
    (index,) = held.indices()
    assert (index.name, index.num_rows_indexed) == ("words", 40)
