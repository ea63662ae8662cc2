"""Indices that Spark builds answer as those that one process builds, for us and for pylance."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

import lancelet
from index.questions import KINDS, filters, table
from lancelet.errors import IndexNotFound, InvalidType
from lancelet.spark import LanceTable
from lancelet.spark.table import indices

COLUMNS = ["i64", "f64", "text", "u64", "time", "labels"]


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(indices, "_PART_ROWS", 150)
    place = tmp_path / "t"
    lance.write_dataset(table(COLUMNS), place, max_rows_per_file=60)
    lance.dataset(place).delete("key % 9 = 4")
    return place


def agree(where: Path, column: str) -> None:
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    for text in filters(column):
        truth = sorted(ours.to_table(["key"], filter=text, use_scalar_index=False)["key"].to_pylist())
        assert sorted(ours.to_table(["key"], filter=text)["key"].to_pylist()) == truth, text
        assert sorted(theirs.to_table(["key"], filter=text)["key"].to_pylist()) == truth, text


def folders_with_files(where: Path) -> set[str]:
    return {path.parent.name for path in (where / "_indices").rglob("*") if path.is_file()}


def named_folders(where: Path) -> set[str]:
    return {segment.uuid for index in lancelet.dataset(where).describe_indices() for segment in index.segments}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("i64", "BTREE"),
        ("f64", "BTREE"),
        ("text", "BTREE"),
        ("u64", "BTREE"),
        ("time", "BTREE"),
        ("i64", "BITMAP"),
        ("labels", "LABEL_LIST"),
        ("f64", "ZONEMAP"),
        ("text", "BLOOMFILTER"),
        ("text", "NGRAM"),
    ],
)
@pytest.mark.spread(0.5, each=False)
def test_kinds(spark: SparkSession, where: Path, column: str, kind: str) -> None:
    assert column in KINDS[kind]
    LanceTable.forPath(spark, str(where)).createIndex(column, kind)
    agree(where, column)
    assert folders_with_files(where) == named_folders(where)


def test_extended_and_dropped(spark: SparkSession, where: Path) -> None:
    held = LanceTable.forPath(spark, str(where))
    held.createIndex("i64", name="numbers")
    lance.write_dataset(table(COLUMNS, 130), where, mode="append", max_rows_per_file=60)
    assert held.indices()[0].num_rows_indexed < lancelet.dataset(where).count_rows()
    held.optimizeIndices()
    (index,) = held.indices()
    assert index.num_rows_indexed == lancelet.dataset(where).count_rows()
    agree(where, "i64")
    held.dropIndex("numbers")
    assert held.indices() == []
    with pytest.raises(IndexNotFound, match="numbers"):
        held.dropIndex("numbers")


def test_nested_and_refused(spark: SparkSession, where: Path) -> None:
    held = LanceTable.forPath(spark, str(where))
    with pytest.raises(InvalidType, match="labels"):
        held.createIndex("labels", "BTREE")
    assert held.indices() == []
