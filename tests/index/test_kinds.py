"""BTREE, BITMAP, ZONEMAP and BLOOMFILTER: answers by brute force, files equal to pylance's, segments merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
from index.segments import Workbench, content, only_files, refused_flips
from index.truths import (
    EXACT,
    LARGE,
    NEAR,
    SPREAD,
    check,
    check_most,
    check_pylance,
    moved_up,
    numbered,
    questions,
    scattered,
)
from lancelet.index.folder import IndexFolder
from lancelet.index.kind import Kind, Rename, Source
from lancelet.index.metadata import read_indices
from lancelet.index.questions import Between, IsIn, Missing, StartsWith
from lancelet.index.registry import kind_named, kind_of_entry
from lancelet.index.row_set import RowSet

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures" / "historical"


@dataclass(frozen=True)
class Case:
    """What a test has to know of a kind."""

    name: str
    files: tuple[str, ...]
    columns: Mapping[str, pa.Array]
    merged: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] | None = None
    """Options of another segment over the same rows."""
    exact: bool = True
    rename: Rename = scattered
    operators: tuple[str, ...] = EXACT
    """What pylance asks such an index."""

    @property
    def kind(self) -> Kind:
        return kind_named(self.name)

    def check(self, *asked: Any) -> None:
        (check if self.exact else check_most)(*asked)


_NOT_IN_FILTERS = ("bool", "float16", "decimal128", "decimal256", "duration")
_PLAIN = ("int64", "float64", "string", "all null", "no rows")
CASES = (
    Case(
        "BTREE",
        ("page_data.lance", "page_lookup.lance"),
        SPREAD | {name: LARGE[name] for name in ("distinct", "dense", "mostly null", "wide")},
        (*_PLAIN, "decimal128", "distinct", "dense", "mostly null", "one row"),
        small={"zone_size": 16},
    ),
    Case(
        "BITMAP",
        ("bitmap_page_lookup.lance",),
        SPREAD | {name: LARGE[name] for name in ("distinct", "dense", "mostly distinct")},
        (*_PLAIN, "decimal128", "distinct", "dense", "mostly distinct"),
    ),
    Case(
        "ZONEMAP",
        ("zonemap.lance",),
        NEAR,
        _PLAIN,
        {"rows_per_zone": 16},
        exact=False,
        rename=moved_up,
        operators=("=", "<", "in", "null", "some"),
    ),
    Case(
        "BLOOMFILTER",
        ("bloomfilter.lance",),
        {name: values for name, values in NEAR.items() if name not in _NOT_IN_FILTERS},
        tuple(name for name in _PLAIN if name != "float64"),
        {"number_of_items": 16, "probability": 0.01},
        exact=False,
        rename=moved_up,
        operators=("=", "in", "null"),
    ),
)
BY_NAME = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def _pairs(names: str) -> Any:
    pairs = [(case, name) for case in CASES for name in getattr(case, names)]
    return pytest.mark.parametrize(("case", "name"), pairs, ids=[f"{case.name}-{name}" for case, name in pairs])


def bits(column: pa.ChunkedArray) -> pa.Array:
    """Floats by their bits, so that NaNs and zeros are told apart."""
    joined = column.combine_chunks()
    if not pa.types.is_floating(joined.type):
        return joined
    return joined.view({2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[joined.type.bit_width // 8])


@pytest.mark.spread(0.3)
@_pairs("columns")
def test_types(tmp_path: Path, case: Case, name: str) -> None:
    """pylance's segment and ours answer as brute force does, and their files are the same."""
    values = case.columns[name]
    rows_per_file = max(1, len(values) // 2 + 1)
    bench = Workbench(tmp_path / "t", values, case.kind, case.options, max_rows_per_file=rows_per_file)
    rows = bench.dataset.to_table([], with_row_id=True)["_rowid"].to_numpy()
    ours, built, folder = bench.write(values, rows, step=max(37, len(values) // 9), options=case.options)
    segments = [bench.theirs(), ours]
    if case.small is not None:
        segments.append(bench.write(values, rows, options=case.small)[0])
    for question in questions(values, case.kind):
        answers = [segment.ask(question) for segment in segments]
        for answer in answers:
            case.check(answer, question, values, rows)
            assert answer.rows == answers[0].rows
    assert (built.details, built.index_version) == (bench.entry.details, bench.entry.index_version)
    for file in case.files:
        mine, metadata = content(folder / file)
        other, their_metadata = content(bench.folder(bench.entry) / file)
        assert mine.schema == other.schema
        assert metadata == their_metadata
        # Equal values have their ids in any order; a NaN stands for the others in zones.
        for column in set(mine.column_names) - {"ids"}:
            assert bits(mine[column]).equals(bits(other[column])) or (
                case.name == "ZONEMAP" and repr(mine[column].to_pylist()) == repr(other[column].to_pylist())
            )
    if len(values):
        assert dict(ours.statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]
    assert ours.nbytes > 0


@pytest.mark.spread(0.3)
@_pairs("merged")
def test_merged_and_renamed(tmp_path: Path, case: Case, name: str) -> None:
    """pylance's segment whose rows moved, one of ours and new rows become one segment."""
    values = case.columns[name]
    bench = Workbench(tmp_path / "t", values, case.kind, case.options)
    rows = numbered(values)
    far, new = rows + np.uint64(1 << 34), rows + np.uint64(9 << 32)
    if case.exact:
        far = far[::-1]
    second, _, _ = bench.write(values, far, options=case.small or case.options)
    merged, _, folder = bench.write(values, new, [Source(bench.theirs(), case.rename), Source(second)])
    moved, kept = case.rename(rows)
    everything = pa.concat_arrays([values.filter(pa.array(kept, pa.bool_())), values, values])
    numbers = np.concatenate([moved[kept], far, new])
    for question in questions(values, case.kind):
        case.check(merged.ask(question), question, everything, numbers)
    metadata = content(folder / case.files[-1])[1]
    for option, key in (("rows_per_zone", b"rows_per_zone"), ("number_of_items", b"bloomfilter_item")):
        assert metadata.get(key, b"") == str(case.options.get(option, "")).encode()


@pytest.mark.parametrize("name", ["int64", "float64", "string", "binary", "decimal128", "timestamp", "bool"])
@BY_NAME
def test_pylance_asks_ours(tmp_path: Path, case: Case, name: str) -> None:
    if name not in case.columns:
        with pytest.raises(lancelet.errors.InvalidInput, match="index takes"):
            case.kind.check(pa.field("v", SPREAD[name].type), {})
        return
    values = case.columns[name]
    if name == "float64":
        # About NaN, pylance's own zones and its scan disagree.
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    lance.write_dataset(pa.table({"v": values}), tmp_path / "t", max_rows_per_file=170)
    lancelet.dataset(tmp_path / "t").create_scalar_index("v", case.name, **case.options)
    asked = [one for one in case.operators if name != "bool" or one != "between"]
    check_pylance(tmp_path / "t", values, asked)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("name", ["int64", "float64", "string", "bool"])
@pytest.mark.parametrize("case", CASES[2:], ids=lambda case: case.name)
@pytest.mark.spread(0.5, each=False)
def test_zones_with_deleted_rows(tmp_path: Path, case: Case, name: str, stable: bool) -> None:
    """A zone counts live rows; its file is the one that pylance writes, also after an append."""
    if name not in case.columns:
        name = "date32"
    values = case.columns[name]
    table = pa.table({"v": values, "k": range(len(values))})
    engines = {tmp_path / "pylance": lance, tmp_path / "ours": lancelet}
    for where, engine in engines.items():
        lance.write_dataset(table, where, max_rows_per_file=130, enable_stable_row_ids=stable)
        lance.dataset(where).delete("k % 5 = 1 or k < 7 or k between 100 and 140")
        Workbench.create(engine.dataset(where), case.kind, case.options)
    for step in ("create", "optimize"):
        (left, mine), (right, other) = (only_files(where, case.files) for where in engines)
        assert (left.details, left.fragment_ids, left.index_version) == (
            right.details,
            right.fragment_ids,
            right.index_version,
        )
        assert repr(mine) == repr(other), step
        for where, engine in engines.items():
            engine.write_dataset(table.slice(0, 90), where, mode="append")
            engine.dataset(where).optimize.optimize_indices()


@BY_NAME
def test_options_outlive_a_retraining(tmp_path: Path, case: Case) -> None:
    """Also where pylance does not write them into the manifest."""
    options = case.small or case.options
    bench = Workbench(tmp_path / "t", case.columns["int64"], case.kind, case.options)
    if case.small:
        lancelet.dataset(bench.where).create_scalar_index("v", case.name, **options)
    assert case.kind.options(IndexFolder(bench.snapshot, bench.entry)).items() >= options.items()
    _, before = only_files(bench.where, case.files[-1:])
    lancelet.dataset(bench.where).optimize.optimize_indices(retrain=True)
    assert repr(only_files(bench.where, case.files[-1:])[1]) == repr(before)


@pytest.mark.parametrize("case", CASES[:2], ids=lambda case: case.name)
def test_an_old_index(case: Case) -> None:
    """Entries without details, found by their files; a lookup without the size of pages."""
    where = FIXTURES / "v0.20.0" / "old_btree_bitmap_indices.lance"
    if not where.is_dir():
        pytest.skip("the historical tables (../shared/fixtures/historical) are not on this machine")
    dataset = lancelet.dataset(where)
    column = case.name.lower()
    entry = next(entry for entry in read_indices(dataset._snapshot.manifest) if entry.name == f"{column}_idx")
    if entry.files or entry.type_url:
        assert kind_of_entry(entry) is case.kind
    values = dataset.to_table([column])[column].combine_chunks()
    segment = case.kind.open(IndexFolder(dataset._snapshot, entry), values.type)
    for question in questions(values, case.kind):
        check(segment.ask(question), question, values, numbered(values))


@pytest.mark.parametrize("case", CASES[1:], ids=lambda case: case.name)
def test_flipped_bits(tmp_path: Path, case: Case) -> None:
    """Whatever bytes are damaged: an answer, or an error that names the file."""
    bench = Workbench(tmp_path / "t", case.columns["string"], case.kind, case.options)
    asked = (Missing(), Between(None, None), StartsWith("a"), IsIn(pa.array(list("abcdefghijkl"))))
    assert refused_flips(bench, case.files[0], [one for one in asked if case.kind.takes(one, pa.string())]) > 15


@BY_NAME
def test_rows_that_are_all_gone(tmp_path: Path, case: Case) -> None:
    values = case.columns["string"]
    bench = Workbench(tmp_path / "t", values, case.kind, case.options)
    source = Source(bench.theirs(), lambda rows: (rows, np.zeros(len(rows), np.bool_)))
    empty, _, _ = bench.write(None, None, [source])
    for question in questions(values, case.kind):
        assert empty.ask(question).rows == RowSet()
