"""Kinds of indices that another module adds: made, asked, described, kept up, checked and carried to Spark's workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import lancelet
from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import ROW, VALUE, Built, Entries, Kind, Moves, NewRows, Rename, ScalarKind, Source
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.questions import Answer, IsIn, Missing, Question
from lancelet.index.ranked import Ranked, RankedKind, best_rows
from lancelet.index.registry import kind_named, known_named, known_names, register
from lancelet.index.row_set import RowNumbers, RowSet
from lancelet.index.scalar.digests import value_digests
from lancelet.index.segments import NewSegment, Whereabouts, indexed_type, write_segment
from lancelet.indexing.rows import find_columns, read_rows
from lancelet.spark import LanceTable
from lancelet.spark.table import indices
from lancelet.table.commit.written import WrittenFiles

FILE = "pairs.lance"


@dataclass(frozen=True)
class Pairs:
    """A segment: every row with its value."""

    values: pa.Array
    rows: RowNumbers

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes + self.rows.nbytes)

    def ask(self, question: Question) -> Answer:
        nulls = np.asarray(self.values.is_null())
        if isinstance(question, Missing):
            return Answer(RowSet.of(self.rows[nulls]), True, RowSet())
        assert isinstance(question, IsIn)
        found = np.asarray(pc.is_in(self.values, question.values)) & ~nulls
        return Answer(RowSet.of(self.rows[found]), True, RowSet.of(self.rows[nulls]))

    def best(self, wanted: Sequence[int], count: int, rename: Rename) -> Ranked:
        rows, kept = rename(self.rows)
        columns = self.values.flatten() if pa.types.is_struct(self.values.type) else [self.values]
        apart = [np.abs(np.asarray(column) - one) for column, one in zip(columns, wanted, strict=True)]
        marks = np.sum(apart, axis=0)[kept].astype(np.float32)
        order = np.lexsort((rows[kept], marks))[:count]
        return Ranked(rows[kept][order], marks[order])

    def statistics(self) -> Mapping[str, Any]:
        return {"num_pairs": len(self.rows)}

    def entries(self, source: Source) -> Iterator[Entries]:
        yield self.digests(self.values)[0], self.rows

    def digests(self, values: pa.Array) -> tuple[Any, None]:
        columns = values.flatten() if pa.types.is_struct(values.type) else [values]
        return np.sum([value_digests(column) * np.uint64(3**at) for at, column in enumerate(columns)], axis=0), None


class _OfPairs(Kind):
    """What both kinds below have."""

    def check(self, column: pa.Field, options: Mapping[str, Any]) -> None:
        types = [field.type for field in column.type] if pa.types.is_struct(column.type) else [column.type]
        if not all(map(pa.types.is_integer, types)) or options:
            raise InvalidType(f"{self.name} indices are on whole numbers, and have no options")

    def parameters(self, entry: IndexMetadata, path: str) -> dict[str, Any]:
        return {"note": entry.details.decode()}

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> Pairs:
        batch = folder.open(FILE).read([VALUE, ROW])
        return Pairs(batch[VALUE], batch[ROW].to_numpy())

    def write(self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, Any]) -> Built:
        schema = pa.schema([pa.field(VALUE, rows.dtype), pa.field(ROW, pa.uint64())])
        with out.create(FILE, schema) as file:
            for source in sources:
                assert isinstance(source.segment, Pairs)
                numbers, kept = source.rename(source.segment.rows) if source.rename else (source.segment.rows, None)
                batch = pa.RecordBatch.from_arrays([source.segment.values, pa.array(numbers)], schema=schema)
                file.write(batch if kept is None else batch.filter(pa.array(kept)))
            for batch in rows.batches:
                if batch.nbytes > out.memory_limit:
                    raise InvalidInput(f"{batch.nbytes} bytes at once are too many")
                file.write(batch)
        return Built(b"toy")


class PairsKind(_OfPairs, ScalarKind):
    """Answers filters; names rows by their ids where a table has these."""

    name = "PAIRS"
    aliases = ("TWOSOME",)
    type_url = "/example.PairsIndexDetails"
    last_version_with_ids = 0
    moves = Moves.REWRITTEN
    is_exact = True
    rank = -1

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        return isinstance(question, IsIn | Missing)


class NearestKind(_OfPairs, RankedKind):
    """Finds the numbers that are nearest to one, or the pairs of numbers that are nearest to a pair."""

    name = "NEAREST"
    type_url = "/example.NearestIndexDetails"
    moves = Moves.REWRITTEN
    most_columns = 2


@pytest.fixture(autouse=True, scope="module")
def kinds() -> None:
    register(PairsKind())
    register(NearestKind())
    # What a user's package on the workers, or addPyFile, does otherwise.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])


def rows(first: int, count: int = 60) -> pa.Table:
    keys = range(first, first + count)
    return pa.table({"k": keys, "x": pa.array([None if key % 11 == 3 else key % 7 for key in keys], pa.int64())})


def made(where: Path, stable: bool = False) -> lancelet.LanceDataset:
    dataset = lancelet.write_dataset(rows(0), where, max_rows_per_file=20, enable_stable_row_ids=stable)
    dataset.delete("k % 10 = 4")
    return dataset


def agree(dataset: lancelet.LanceDataset) -> None:
    for text in ("x = 3", "x in (0, 6)", "x is null", "not (x = 3)", "x is not null and k > 30"):
        truth = dataset.to_table(["k"], filter=text, use_scalar_index=False)["k"].to_pylist()
        assert dataset.to_table(["k"], filter=text)["k"].to_pylist() == truth, text
    assert "ScalarIndexQuery" in dataset.scanner(filter="x = 3").explain_plan()
    assert not dataset.verify(deep=True).errors


def covered(dataset: lancelet.LanceDataset, name: str = "x_idx") -> int:
    return int(dataset.stats.index_stats(name)["num_indexed_rows"])


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_a_life(tmp_path: Path, stable: bool) -> None:
    dataset = made(tmp_path / "t", stable)
    dataset.create_scalar_index("x", "twosome")
    agree(dataset)
    (described,) = dataset.describe_indices()
    assert (described.index_type, described.details) == ("Pairs", {"note": "toy"})
    assert dataset.stats.index_stats("x_idx")["segments"] == [{"num_pairs": 54}]
    dataset.insert(rows(100))
    agree(dataset)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert covered(dataset) == dataset.count_rows()
    agree(dataset)
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    # Rows of different segments stay apart.
    assert (len(dataset.get_fragments()), covered(dataset)) == (2, dataset.count_rows())
    agree(dataset)
    dataset.delete("k = 7")
    dataset.optimize.optimize_indices(num_indices_to_merge=5)
    assert dataset.stats.index_stats("x_idx")["num_segments"] == 1
    agree(dataset)


def test_damage_is_found(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t")
    dataset.create_scalar_index("x", "PAIRS")
    dataset.create_scalar_index("k", "PAIRS")
    one, other = (next((tmp_path / "t/_indices" / uuid).iterdir()) for uuid in _folders(dataset))
    one.write_bytes(other.read_bytes())
    assert dataset.verify(deep=True).errors


def test_damage_is_found_in_an_index_of_two_columns(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t")
    dataset.add_columns({"y": "k % 5", "z": "k % 5 + CASE WHEN k = 17 THEN 1 ELSE 0 END"})
    dataset.create_index(["k", "y"], "NEAREST", "one")
    dataset.create_index(["k", "z"], "NEAREST", "other")
    assert not dataset.verify(deep=True).errors
    one, other = (next((tmp_path / "t/_indices" / uuid).iterdir()) for uuid in _folders(dataset))
    one.write_bytes(other.read_bytes())
    (found,) = dataset.verify(deep=True).errors
    assert "has other values for 1 row(s): row 17 of fragment 0" in found.problem


def _folders(dataset: lancelet.LanceDataset) -> list[str]:
    return [index.segments[0].uuid for index in dataset.describe_indices()]


def test_built_and_extended_by_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indices, "_PART_ROWS", 20)
    made(tmp_path / "t")
    held = LanceTable.forPath(spark, str(tmp_path / "t"))
    held.createIndex("x", "PAIRS")
    agree(lancelet.dataset(tmp_path / "t"))
    lancelet.dataset(tmp_path / "t").insert(rows(200))
    held.optimizeIndices()
    dataset = lancelet.dataset(tmp_path / "t")
    assert covered(dataset) == dataset.count_rows()
    agree(dataset)


@pytest.mark.parametrize("columns", ["k", ["k", "y"]], ids=["one column", "two columns"])
def test_segments_whose_answer_is_ranked_are_asked_side_by_side(tmp_path: Path, columns: Any) -> None:
    dataset = made(tmp_path / "t")
    dataset.add_columns({"y": "k % 5"})
    dataset.create_index(columns, "NEAREST", "near")
    dataset.insert(dataset.to_table(filter="k < 20"))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    # A filter has no use for it.
    assert "ScalarIndexQuery" not in dataset.scanner(filter="k = 3").explain_plan()
    wanted = (17, 4)[: 1 if columns == "k" else 2]
    for _ in range(2):
        rows = dataset.to_table(["k", "y"], with_row_address=True)
        apart = np.abs(np.asarray(rows["k"]) - 17) + (np.abs(np.asarray(rows["y"]) - 4) if len(wanted) == 2 else 0)
        order = np.lexsort((np.asarray(rows["_rowaddr"]), apart))[:5]
        found = _nearest(dataset, wanted)
        assert found.marks.tolist() == apart[order].tolist()
        assert found.rows.tolist() == np.asarray(rows["_rowaddr"])[order].tolist()
        assert covered(dataset, "near") == dataset.count_rows()
        dataset.optimize.compact_files(target_rows_per_fragment=1000)
    assert not dataset.verify(deep=True).errors


def _nearest(dataset: lancelet.LanceDataset, wanted: Sequence[int]) -> Ranked:
    table = dataset._table
    snapshot, kind = table.snapshot, kind_named("nearest")
    assert isinstance(kind, RankedKind)
    where = Whereabouts(snapshot, lambda: table.row_id_index, table.physical_rows)
    segments = [
        (kind.open(IndexFolder(snapshot, entry), indexed_type(snapshot, entry)), where.rename(entry))
        for entry in read_indices(snapshot.manifest)
    ]
    return best_rows(kind, segments, wanted, 5)


def test_most_kinds_are_over_one_column(tmp_path: Path) -> None:
    for kind in ("BTREE", "PAIRS"):
        with pytest.raises(NotSupported, match="single column"):
            made(tmp_path / kind).create_index(["k", "x"], kind)


def test_a_build_has_a_bound(tmp_path: Path) -> None:
    table = made(tmp_path / "t")._table
    indexed = find_columns(table, "x")
    kind = kind_named("PAIRS")
    new = NewSegment("x_idx", indexed.ids, kind, frozenset([0]), {}, memory_limit=8)
    with pytest.raises(InvalidInput, match="too many"), WrittenFiles(table.snapshot.store) as files:
        write_segment(table.snapshot, new, (), read_rows(table, indexed, kind, [0]), files)


def test_names_belong_to_one_kind() -> None:
    class Thief(PairsKind):
        name = "THIEF"

    with pytest.raises(InvalidInput, match="belong to PAIRS"):
        register(Thief())
    assert known_named("thief") is None
    again = PairsKind()
    register(again)
    assert kind_named("Pairs") is kind_named("TWOSOME") is again


@pytest.mark.parametrize("name", ["FM", "fm"])
def test_kinds_that_cannot_be_built_yet_are_refused_by_name(tmp_path: Path, name: str) -> None:
    assert name.upper() in known_names()
    with pytest.raises(NotSupported, match=f"{name} indices are not supported yet"):
        made(tmp_path / "t").create_scalar_index("x", name)


def test_whoever_can_commit_a_rewrite_knows_which_kinds_name_rows_by_ids() -> None:
    """A fresh process: an import that nobody seems to need makes the kinds known to the layer below."""
    for module in ("lancelet._api.conversion", "lancelet.maintenance.compaction.commit"):
        check = f"import {module}, sys; assert 'lancelet.index.registry' in sys.modules"
        subprocess.run([sys.executable, "-c", check], check=True)
