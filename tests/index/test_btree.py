"""BTREE: answers equal to brute force, files equal to pylance's, segments merged and written in parts."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap

import lancelet
from faults.damage import flips, patches, truncations
from index.segments import Rows, Workbench, batches, content
from lancelet.errors import CorruptFile, InvalidInput, LanceletError
from lancelet.format.proto import table_pb2
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import NewRows, Source
from lancelet.index.metadata import IndexFile, read_indices
from lancelet.index.questions import Answer, Between, HasItems, Holds, IsIn, Missing, Question, StartsWith
from lancelet.index.registry import kind_of_entry
from lancelet.index.scalar.btree import KIND
from lancelet.index.scalar.btree_files import DATA, LOOKUP, PARTS_KEY, finish_parts, write_part
from lancelet.index.scalar.btree_segment import BTreeSegment
from lancelet.index.segments import NewSegment, write_segment
from lancelet.query.comparing import compare, is_in
from lancelet.table import operations as ops
from lancelet.table.commit import commit
from lancelet.table.snapshot import Snapshot
from lancelet.table.written import WrittenFiles

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures" / "historical"
_NAN, _INF = math.nan, math.inf
_NANS = np.array([0xFFF8000000000000, 0x7FF8000000000001, 0xFFF8000000000009], np.uint64).view(np.float64).tolist()
_TEXTS = ["", "a", "ab", "abc", "abcdefgh", "abcdefgh\x00", "abcdefghi", "b", "ß", "日本語", "\U0001f600", "z" * 300]


def _spread(values: list[Any], dtype: pa.DataType, rows: int = 300) -> pa.Array:
    """The values in an order without pattern, with nulls between."""
    picks = np.random.default_rng(len(values)).integers(-1, len(values), rows)
    return pa.array([None if pick < 0 else values[pick] for pick in picks], dtype)


VALUES: dict[str, pa.Array] = {
    "bool": _spread([True, False], pa.bool_()),
    "int8": _spread([-128, -1, 0, 5, 127], pa.int8()),
    "int64": _spread([*range(-60, 60), 2**63 - 1, -(2**63)], pa.int64()),
    "uint16": _spread([0, 1, 65535], pa.uint16()),
    "uint64": _spread([0, 1, 2**63, 2**64 - 1], pa.uint64()),
    "float16": _spread([np.float16(x) for x in (-_INF, -0.0, 0.0, 1.5, _INF, _NAN)], pa.float16()),
    "float32": _spread([-_INF, -1.5, -0.0, 0.0, 1.5, _INF, _NAN], pa.float32()),
    "float64": _spread([-_INF, -1.5, -0.0, 0.0, 1e-300, 5e-324, 1e300, _INF, _NAN, *_NANS], pa.float64()),
    "string": _spread(_TEXTS, pa.string()),
    "large_string": _spread(["", "a", "ab", "\uffff", "\U00010000"], pa.large_string()),
    "binary": _spread([b"", b"\x00", b"a", b"ab", b"\xff", b"\xff\xff", b"\xff\xff\x00"], pa.binary()),
    "large_binary": _spread([b"", b"\xff", b"0123456789abc"], pa.large_binary()),
    "fixed": _spread([b"abc", b"abd", b"\x00\x00\x00", b"\xff\xff\xff"], pa.binary(3)),
    "decimal128": _spread([Decimal("-1.50"), Decimal("0.00"), Decimal("99.25"), Decimal("-9e7")], pa.decimal128(10, 2)),
    "decimal256": _spread([Decimal("-1.50"), Decimal("0.00"), Decimal("9e40"), Decimal("-9e40")], pa.decimal256(60, 2)),
    "date32": _spread([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)], pa.date32()),
    "date64": _spread([date(1969, 12, 31), date(2024, 2, 29)], pa.date64()),
    "timestamp": _spread([datetime(1969, 1, 1), datetime(2100, 1, 1)], pa.timestamp("us")),
    "zoned": _spread([datetime(1969, 1, 1), datetime(2100, 1, 1)], pa.timestamp("ns", "UTC")),
    "time32": _spread([1, 2, 3], pa.time32("s")),
    "time64": _spread([1, 2, 3], pa.time64("ns")),
    "duration": _spread([-1, 0, 1], pa.duration("ms")),
    "one": pa.array([7], pa.int32()),
    "all null": pa.nulls(50, pa.string()),
    "no rows": pa.array([], pa.int64()),
    "distinct": pa.array(np.random.default_rng(1).permutation(9000)),
    "dense": pa.array([1] * 9000 + [2] * 5000 + [None, 3] * 4100, pa.int64()),
    "mostly null": pa.array([None] * 8192 + ["x"], pa.string()),
    "wide": _spread(["w" * 3000 + str(n) for n in range(40)], pa.string(), 100),
}


def questions(values: pa.Array) -> list[Question]:
    """Questions with values that occur in a column, and some that do not."""
    dtype = values.type
    known = values.drop_null().unique()[:9]
    if pa.types.is_floating(dtype):
        known = pa.concat_arrays([known, pa.array(np.array([0.0, -0.0, _NAN, 7.0], dtype.to_pandas_dtype()))])
    elif pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        known = pa.concat_arrays([known, pa.array(["", "aa", "zzz"], dtype)])
    elif dtype == pa.int64():
        known = pa.concat_arrays([known, pa.array([-61, 100_000, 2, 8999], dtype)])
    asked: list[Question] = [Missing(), IsIn(known[:0]), IsIn(known), Between(None, None)]
    for at, value in enumerate(known):
        other = known[at - 1]
        asked += [IsIn(known[at : at + 1]), Between(value, None), Between(value, None, False)]
        asked += [Between(None, value), Between(None, value, True, False)]
        asked += [Between(value, other), Between(value, other, False, True), Between(other, value, True, False)]
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        asked += [StartsWith(prefix) for prefix in ("", "a", "ab", "abcdefgh", "日", "\U0001f600", "z", "w" * 2999)]
    elif pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype):
        asked += [StartsWith(prefix) for prefix in (b"", b"a", b"\xff", b"\xff\xff", b"ab\xff")]
    return asked


def truth(values: pa.Array, question: Question) -> npt.NDArray[np.bool_]:
    """For which values it is true."""
    match question:
        case Missing():
            found = values.is_null()
        case IsIn(wanted):
            # pyarrow tells NaNs apart by their bits.
            found = is_in(values, wanted)
            if pa.types.is_floating(values.type) and any(math.isnan(one) for one in wanted.to_pylist()):
                found = pc.or_(found, pc.is_nan(values.cast(pa.float64())).fill_null(False))
        case Between(low, high, with_low, with_high):
            found = values.is_valid()
            if low is not None:
                found = pc.and_(found, compare(">=" if with_low else ">", values, low))
            if high is not None:
                found = pc.and_(found, compare("<=" if with_high else "<", values, high))
        case StartsWith(prefix):
            found = pa.array([v is not None and v.startswith(prefix) for v in values.to_pylist()], pa.bool_())
        case _:
            raise TypeError(question)
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def check(answer: Answer, question: Question, values: pa.Array, rows: Rows) -> None:
    assert answer.exact
    assert np.array_equal(answer.rows.numbers(), np.sort(rows[truth(values, question)])), question
    nulls = rows[:0] if isinstance(question, Missing) else rows[values.is_null().to_numpy(zero_copy_only=False)]
    assert answer.nulls is not None
    assert np.array_equal(answer.nulls.numbers(), np.sort(nulls)), question


def rows_of(count: int) -> Rows:
    return np.arange(count, dtype=np.uint64)


def write(bench: Workbench, values: pa.Array, rows: Rows, page_rows: int, sources: list[Source] | None = None) -> Any:
    """A segment with pages of some size."""
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    KIND.write(sources or [], NewRows(bench.dtype, batches(values, rows, 70)), out, {"zone_size": page_rows})
    return opened(bench, out)


def opened(bench: Workbench, out: SegmentWriter, **changes: Any) -> BTreeSegment:
    entry = replace(bench.entry, uuid=out.uuid, files=tuple(out.written), **changes)
    return KIND.open(IndexFolder(bench.snapshot, entry), bench.dtype)


def _bits(array: pa.ChunkedArray) -> pa.Array:
    """Floats by their bits, so that NaNs and zeros are told apart."""
    joined = array.combine_chunks()
    wide = {2: pa.int16(), 4: pa.int32(), 8: pa.int64()}
    return joined.view(wide[joined.type.bit_width // 8]) if pa.types.is_floating(joined.type) else joined


@pytest.mark.parametrize("name", VALUES)
def test_types(tmp_path: Path, name: str) -> None:
    """pylance's files and ours answer as brute force does, and hold the same pages."""
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND, max_rows_per_file=max(1, len(values) // 2 + 1))
    rows = bench.dataset.to_table([], with_row_id=True)["_rowid"].to_numpy()
    theirs = bench.theirs()
    ours, built, folder = bench.write(values, rows)
    small = write(bench, values, rows, 16)
    for question in questions(values):
        assert KIND.takes(question, values.type)
        for segment in (theirs, ours, small):
            check(segment.ask(question), question, values, rows)
            assert 0 <= segment.share(question) <= 1
    assert built.index_version == bench.entry.index_version
    for file in (DATA, LOOKUP):
        mine, metadata = content(folder / file)
        other, their_metadata = content(bench.folder(bench.entry) / file)
        assert mine.schema.equals(other.schema, check_metadata=False)
        assert metadata == their_metadata
        for column in set(mine.column_names) - {"ids"}:
            assert _bits(mine[column]).equals(_bits(other[column]))
    if len(values):
        assert dict(ours.statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]
    assert ours.nbytes > 0


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-99999999, 2932896 + 5], pa.date32()),
        pa.array([-86400000 * 800000, 86400000 * 3000000], pa.date64()),
        pa.array([0.1, 65504], pa.float16()),
        pa.array([3.4e38, 1e-40], pa.float32()),
        pa.array([b"x" * 11, b"y" * 10], pa.binary()),
        pa.array([Decimal("-99999999999999999999999999999999999999999999.25")], pa.decimal256(50, 2)),
    ],
    ids=lambda values: str(values.type),
)
def test_statistics_print_as_pylance_does(tmp_path: Path, values: pa.Array) -> None:
    bench = Workbench(tmp_path / "t", values, KIND)
    assert dict(bench.theirs().statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]


def commit_segment(where: Path, page_rows: int = 16) -> None:
    """Build an index with small pages, and commit it."""
    snapshot = lancelet.dataset(where)._snapshot
    table = lance.dataset(where).to_table(["v"], with_row_address=True)
    fragments = snapshot.manifest.fragments.ids.tolist()
    new = NewSegment("v_idx", 0, KIND, frozenset(fragments), {"zone_size": page_rows})
    values, rows = table["v"].combine_chunks(), table["_rowaddr"].to_numpy()
    with WrittenFiles(snapshot.store) as files:
        entry = write_segment(snapshot, new, (), NewRows(values.type, batches(values, rows, 50)), files)
        commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),)), files=files)


def check_pylance(where: Path, values: pa.Array) -> None:
    """pylance uses the index, and answers as it does without."""
    dataset = lance.dataset(where)
    known = values.drop_null().unique()
    column = pc.field("v")
    for asked in [
        column == known[0],
        column > known[1],
        (column > known[1]) & (column <= known[0]),
        column.isin(known[:5].to_pylist()),
        column.is_null(),
        ~(column == known[0]),
    ]:
        scans = [dataset.scanner(filter=asked, with_row_id=True, use_scalar_index=use) for use in (True, False)]
        assert "ScalarIndexQuery" in scans[0].explain_plan()
        found = [sorted(scan.to_table()["_rowid"].to_pylist()) for scan in scans]
        assert found[0] == found[1], asked


@pytest.mark.parametrize("name", ["int64", "string", "bool", "binary", "decimal128", "timestamp", "wide", "float64"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_pylance_asks_ours(tmp_path: Path, name: str, stable: bool) -> None:
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"v": VALUES[name]}), where, max_rows_per_file=70, enable_stable_row_ids=stable)
    lance.dataset(where).delete("_rowid % 11 = 3")
    commit_segment(where)
    values = VALUES[name].filter(
        pa.array([not math.isnan(v) if isinstance(v, float) else True for v in VALUES[name].to_pylist()])
    )
    check_pylance(where, values)
    (entry,) = read_indices(lancelet.dataset(where)._snapshot.manifest)
    assert entry.index_version == int(stable)
    assert KIND.names_addresses(entry) is stable
    lance.write_dataset(pa.table({"v": VALUES[name]}), where, mode="append")
    lance.dataset(where).optimize.optimize_indices()
    check_pylance(where, values)
    lance.dataset(where).optimize.compact_files()
    check_pylance(where, values)


def test_ids_become_addresses(tmp_path: Path) -> None:
    """Version 0 holds stable row ids where a table has them; what is written from it holds addresses."""
    where = tmp_path / "t"
    values = VALUES["int64"]
    lance.write_dataset(pa.table({"v": values}), where, max_rows_per_file=70, enable_stable_row_ids=True)
    lance.dataset(where).delete("v > 30")
    lance.dataset(where).optimize.compact_files()
    table = lance.dataset(where).to_table(with_row_id=True)
    snapshot = lancelet.dataset(where)._snapshot
    out = SegmentWriter(snapshot.store, uuid4(), "2.1", WrittenFiles(snapshot.store))
    rows = table["_rowid"].to_numpy()
    KIND.write([], NewRows(values.type, batches(table["v"].combine_chunks(), rows, 50)), out, {})
    commit_parts(snapshot, out)
    before = lancelet.dataset(where)
    wanted = [f"v {operator} 3" for operator in ("=", "<", "<>")] + ["v is null", "v in (1, 2, 3, 4, 5, 6, 7)"]
    truths = [
        sorted(before.to_table([], filter=text, with_row_id=True, use_scalar_index=False)["_rowid"].to_pylist())
        for text in wanted
    ]
    for text, truth in zip(wanted, truths, strict=True):
        assert sorted(before.to_table([], filter=text, with_row_id=True)["_rowid"].to_pylist()) == truth
    lance.write_dataset(pa.table({"v": pa.array([1000, 1001])}), where, mode="append")
    dataset = lancelet.dataset(where)
    dataset.optimize.optimize_indices()
    (entry,) = read_indices(lancelet.dataset(where)._snapshot.manifest)
    assert entry.index_version == 1
    for engine in (lancelet, lance):
        for text, truth in zip(wanted, truths, strict=True):
            if "<>" not in text:
                scanner = engine.dataset(str(where)).scanner([], filter=text, with_row_id=True)
                assert sorted(scanner.to_table()["_rowid"].to_pylist()) == truth


def test_a_nested_column(tmp_path: Path) -> None:
    inner = VALUES["string"]
    table = pa.table({"s": pa.StructArray.from_arrays([inner, VALUES["int64"]], ["a", "b"])})
    lance.write_dataset(table, tmp_path / "t", max_rows_per_file=90)
    for name, engine in (("ours", lancelet), ("theirs", lance)):
        engine.dataset(str(tmp_path / "t")).create_scalar_index("s.a", "BTREE", name=name)
    snapshot = lancelet.dataset(tmp_path / "t")._snapshot
    rows = lance.dataset(tmp_path / "t").to_table([], with_row_id=True)["_rowid"].to_numpy()
    for entry in read_indices(snapshot.manifest):
        segment = KIND.open(IndexFolder(snapshot, entry), pa.string())
        for question in questions(inner):
            check(segment.ask(question), question, inner, rows)


def test_an_old_index() -> None:
    """An entry without details, found by its files; a lookup without the size of pages."""
    where = FIXTURES / "v0.20.0" / "old_btree_bitmap_indices.lance"
    if not where.is_dir():
        pytest.skip("the historical tables (../shared/fixtures/historical) are not on this machine")
    dataset = lancelet.dataset(where)
    entry = next(entry for entry in read_indices(dataset._snapshot.manifest) if entry.name == "btree_idx")
    if entry.files or entry.type_url:
        assert kind_of_entry(entry) is KIND
    values = dataset.to_table(["btree"])["btree"].combine_chunks()
    segment = KIND.open(IndexFolder(dataset._snapshot, entry), values.type)
    for question in questions(values):
        check(segment.ask(question), question, values, rows_of(len(values)))


def test_what_it_takes() -> None:
    for dtype in (pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.null(), pa.dictionary(pa.int8(), pa.string())):
        with pytest.raises(TypeError, match="BTREE index is on"):
            KIND.check(pa.field("v", dtype), {})
        assert not KIND.takes(Missing(), dtype)
    with pytest.raises(TypeError, match="json"):
        KIND.check(pa.field("v", pa.json_()), {})
    with pytest.raises(InvalidInput, match="'bins'"):
        KIND.check(pa.field("v", pa.int8()), {"bins": 3})
    for rows in (0, -1, "7", 1 << 32):
        with pytest.raises(InvalidInput, match="zone_size"):
            KIND.check(pa.field("v", pa.int8()), {"zone_size": rows})
    assert not KIND.takes(StartsWith("a"), pa.int8())
    assert not KIND.takes(Holds(("a",), True), pa.string())
    assert not KIND.takes(HasItems(pa.array([1]), True), pa.int64())


@pytest.mark.parametrize("name", ["distinct", "string", "mostly null"])
def test_a_lookup_reads_few_pages(tmp_path: Path, name: str) -> None:
    """However many rows there are: values of two pages at most, ids of the rows found, and no nulls."""
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND)
    for value in values.drop_null().unique()[:20]:
        folder = IndexFolder(bench.snapshot, bench.entry)
        segment = KIND.open(folder, values.type)
        before = replace(folder.count)
        answer = segment.ask(IsIn(pa.repeat(value, 1)))
        assert folder.count.rows - before.rows <= 2 * 4096 + len(answer.rows)
        read = folder.count.parts
        segment.ask(IsIn(pa.repeat(value, 1)))
        assert folder.count.parts == read + 1, "the page is kept, the ids are read"
        folder = IndexFolder(bench.snapshot, bench.entry)
        segment = KIND.open(folder, values.type)
        before = replace(folder.count)
        answer = segment.ask(Between(value, None))
        assert folder.count.rows - before.rows <= 2 * 4096 + len(answer.rows)


# Merging.


def _moved(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Every third row is gone, the others are in other fragments and in another order."""
    return (rows * np.uint64(2654435761)) % np.uint64(1 << 33), rows % np.uint64(3) != 0


@pytest.mark.parametrize(
    "name",
    ["int64", "float64", "string", "decimal128", "distinct", "dense", "all null", "no rows", "mostly null", "one"],
)
def test_merged_and_renamed(tmp_path: Path, name: str) -> None:
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND)
    rows = rows_of(len(values))
    far = rows[::-1] + np.uint64(1 << 34)
    second = write(bench, values, far, 16)
    sources = [Source(bench.theirs(), _moved), Source(second)]
    merged, _, _ = bench.write(values, rows + np.uint64(9 << 32), sources)
    moved, kept = _moved(rows)
    everything = pa.concat_arrays([values.filter(pa.array(kept, pa.bool_())), values, values])
    numbers = np.concatenate([moved[kept], far, rows + np.uint64(9 << 32)])
    for question in questions(values):
        check(merged.ask(question), question, everything, numbers)


def test_many_segments_become_one(tmp_path: Path) -> None:
    """More than are merged at once, some without rows; pages stay as large as those of the first."""
    values = VALUES["string"]
    bench = Workbench(tmp_path / "t", values, KIND)
    pieces = [values.slice(at, 7) for at in range(0, len(values), 7)] + [values.slice(0, 0)]
    numbers = [rows_of(len(piece)) + np.uint64(at << 32) for at, piece in enumerate(pieces)]
    sources = [Source(write(bench, *pair, 5)) for pair in zip(pieces, numbers, strict=True)]
    assert len(sources) > 40
    merged, _, folder = bench.write(None, None, sources)
    assert content(folder / LOOKUP)[1][b"batch_size"] == b"5"
    for question in questions(values):
        check(merged.ask(question), question, values, np.concatenate(numbers))


def test_rows_that_are_all_gone(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "t", VALUES["string"], KIND)
    source = Source(bench.theirs(), lambda rows: (rows, np.zeros(len(rows), np.bool_)))
    empty, _, _ = bench.write(None, None, [source])
    for question in questions(VALUES["string"]):
        assert not empty.ask(question).rows
    assert empty.statistics() == {}


# Parts.


def _range_parts(bench: Workbench, values: pa.Array, rows: Rows, cuts: list[int], page_rows: int = 16) -> SegmentWriter:
    """Sort, cut, write the pieces as processes of their own would, and make a segment of them."""
    present, missing = (
        np.flatnonzero(one.to_numpy(zero_copy_only=False)) for one in (values.is_valid(), values.is_null())
    )
    ordered = present[pc.sort_indices(values.take(pa.array(present))).to_numpy()]
    order = np.concatenate([missing, ordered])
    values, rows = values.take(pa.array(order)), rows[order]
    uuid = uuid4()
    stable = bench.snapshot.manifest.has_stable_row_ids
    lookups = []
    for part, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(values)], strict=True)):
        out = SegmentWriter(bench.snapshot.store, uuid, "2.1", WrittenFiles(bench.snapshot.store), stable)
        shuffled = np.random.default_rng(part).permutation(np.arange(start, stop))
        piece = batches(values.take(pa.array(shuffled)), rows[shuffled], 40)
        lookups.append(
            pickle.loads(pickle.dumps(write_part(piece, values.type, out, part, page_rows, attempt=7 * part)))
        )
    out = SegmentWriter(bench.snapshot.store, uuid, "2.1", WrittenFiles(bench.snapshot.store), stable)
    assert finish_parts(reversed(lookups), values.type, out).index_version == int(stable)
    return out


@pytest.mark.parametrize(
    "name", ["int64", "string", "distinct", "dense", "mostly null", "all null", "no rows", "decimal128"]
)
def test_parts(tmp_path: Path, name: str) -> None:
    """Ranges that several processes wrote answer like one file, and can be merged again."""
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND)
    rows = rows_of(len(values))
    count = len(values)
    for cuts in ([], [0, count // 3, count // 3, count // 2], [1, count] if count else [0]):
        segment = opened(bench, _range_parts(bench, values, rows, cuts))
        for question in questions(values):
            check(segment.ask(question), question, values, rows)
        merged, _, _ = bench.write(None, None, [Source(segment)])
        for question in questions(values)[:12]:
            check(merged.ask(question), question, values, rows)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("gone", ["v = 5 or v is null", "v > 20", "v between -20 and 20"])
def test_pylance_reads_parts(tmp_path: Path, stable: bool, gone: str) -> None:
    """It asks them, adds to them and follows a compaction."""
    values = VALUES["int64"]
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"v": values}), where, max_rows_per_file=70, enable_stable_row_ids=stable)
    bench = object.__new__(Workbench)
    bench.where, bench.kind, bench.dtype = where, KIND, values.type
    rows = lance.dataset(where).to_table([], with_row_address=True)["_rowaddr"].to_numpy()
    commit_parts(bench.snapshot, _range_parts(bench, values, rows, [0, 100, 170, 170]))
    check_pylance(where, values)
    lance.write_dataset(pa.table({"v": values}), where, mode="append")
    lance.dataset(where).optimize.optimize_indices(num_indices_to_merge=0)
    check_pylance(where, values)
    lance.dataset(where).delete(gone)
    lance.dataset(where).optimize.compact_files()
    check_pylance(where, values)
    lance.dataset(where).optimize.optimize_indices(num_indices_to_merge=2)
    check_pylance(where, values)


def test_a_part_that_pylance_emptied(tmp_path: Path) -> None:
    """When a compaction of pylance's leaves a part without rows, pylance cannot open the index any more; we can."""
    values = VALUES["int64"]
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"v": values}), where, max_rows_per_file=70)
    bench = object.__new__(Workbench)
    bench.where, bench.kind, bench.dtype = where, KIND, values.type
    rows = lance.dataset(where).to_table([], with_row_address=True)["_rowaddr"].to_numpy()
    commit_parts(bench.snapshot, _range_parts(bench, values, rows, [100, 160]))
    lance.dataset(where).delete("v < 0")
    lance.dataset(where).optimize.compact_files()
    left = lance.dataset(where).to_table(with_row_address=True)
    segment = bench.theirs()
    assert json.loads(_metadata(bench)[PARTS_KEY.encode()])[1][1] == 0
    merged, _, _ = bench.write(None, None, [Source(segment)])
    for question in questions(values):
        for one in (segment, merged):
            check(one.ask(question), question, left["v"].combine_chunks(), left["_rowaddr"].to_numpy())


def _metadata(bench: Workbench) -> dict[bytes, bytes]:
    return dict(content(bench.folder(bench.entry) / LOOKUP)[1])


def commit_parts(snapshot: Snapshot, out: SegmentWriter) -> None:
    entry = table_pb2.IndexMetadata(
        name="v_idx",
        fields=[0],
        dataset_version=snapshot.version,
        fragment_bitmap=BitMap(snapshot.manifest.fragments.ids.tolist()).serialize(),
        index_version=int(out.stable_row_ids),
        files=[table_pb2.IndexFile(path=file.path, size_bytes=file.size) for file in out.written],
    )
    entry.uuid.uuid = out.uuid.bytes
    entry.index_details.type_url = KIND.type_url
    commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),)))


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "t", pa.array([1, 2, 3, None]), KIND)

    def part(number: int, values: list[int | None], page_rows: int = 16) -> Any:
        out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
        return write_part(
            batches(pa.array(values, pa.int64()), rows_of(len(values)), 9), pa.int64(), out, number, page_rows
        )

    for parts, text in (
        ([part(0, [1, 5]), part(1, [4])], "above the first value of part 1"),
        ([part(0, [1]), part(1, [None])], "above the first value"),
        ([part(0, [1]), part(0, [2])], "twice"),
        ([part(0, [1]), part(1, [2], 8)], "page_rows"),
    ):
        out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
        with pytest.raises(InvalidInput, match=text):
            finish_parts(parts, pa.int64(), out)


def test_a_part_alone(tmp_path: Path) -> None:
    """A part with a lookup of its own, which nobody merged, is a segment too."""
    values = VALUES["int64"]
    bench = Workbench(tmp_path / "t", values, KIND)
    _, _, folder = bench.write(values)
    for name in (DATA, LOOKUP):
        (folder / name).rename(folder / f"part_4294967296_{name}")
    files = tuple(IndexFile(path.name, path.stat().st_size) for path in folder.iterdir())
    entry = replace(bench.entry, uuid=type(bench.entry.uuid)(folder.name), files=files)
    segment = KIND.open(IndexFolder(bench.snapshot, entry), values.type)
    for question in questions(values):
        check(segment.ask(question), question, values, rows_of(len(values)))


# Damage.


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("bench") / "t", pa.array([1, 2, None]), KIND)


GOOD = {"min": [None, 3], "max": [2, 4], "null_count": [1, 0], "page_idx": [0, 1]}
ROWS = {"values": [None, 1, 2, 3, 4], "ids": [0, 1, 2, 3, 4]}
META = {"batch_size": "3", "range_partitioned": "false"}


def forged(bench: Workbench, lookup: dict[str, Any], rows: dict[str, Any], metadata: dict[str, str]) -> BTreeSegment:
    """A segment with files of our making."""
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    types = {"ids": pa.uint64(), "null_count": pa.uint32(), "page_idx": pa.uint32()}
    for name, columns, extra in ((DATA, rows, {}), (LOOKUP, lookup, metadata)):
        arrays = {
            key: value if isinstance(value, pa.Array) else pa.array(value, types.get(key, pa.int64()))
            for key, value in columns.items()
        }
        batch = pa.record_batch(arrays).replace_schema_metadata(extra)
        with out.create(name, batch.schema) as writer:
            writer.write(batch)
    return opened(bench, out)


def test_the_forged_one_is_good(bench: Workbench) -> None:
    segment = forged(bench, GOOD, ROWS, META)
    assert segment.ask(Between(pa.scalar(2), None)).rows.numbers().tolist() == [2, 3, 4]
    backwards = {name: column[::-1] for name, column in GOOD.items()}
    assert forged(bench, backwards, ROWS, META).ask(Missing()).rows.numbers().tolist() == [0]


@pytest.mark.parametrize(
    ("lookup", "rows", "metadata", "text"),
    [
        ({"page_idx": [0, 2]}, {}, {}, "name every page once"),
        ({"page_idx": [1, 1]}, {}, {}, "name every page once"),
        ({"min": [None, 1]}, {}, {}, "not in order"),
        ({"max": [4, 4]}, {}, {}, "not in order"),
        ({"min": [None, 5]}, {}, {}, "not in order"),
        ({"null_count": [0, 0]}, {}, {}, "counts of nulls"),
        ({"null_count": [1, 1]}, {}, {}, "counts of nulls"),
        ({"null_count": [3, 0]}, {}, {}, "counts of nulls"),
        ({"max": [2, None]}, {}, {}, "nulls after"),
        ({"min": pa.array([None, "3"])}, {}, {}, "is string"),
        ({}, {}, {"batch_size": "0"}, "batch_size"),
        ({}, {}, {"batch_size": "many"}, "batch_size"),
        ({}, {}, {"batch_size": "2"}, "3 pages|not 2 pages"),
        ({}, {}, {"range_partitioned": "true"}, PARTS_KEY),
        ({}, {}, {"range_partitioned": "true", PARTS_KEY: "[[0, 1]]"}, "2 pages"),
        ({}, {}, {"range_partitioned": "true", PARTS_KEY: "[7]"}, PARTS_KEY),
        ({}, {"values": [None, 1, 2, 4, 3]}, {}, "does not have the values"),
        ({}, {"values": [None, 2, 2, 3, 5]}, {}, "does not have the values"),
        ({}, {"values": [1, None, 2, 3, 4]}, {}, "does not have the values"),
        ({}, {"values": [1, 1, 2, 3, 4]}, {}, "does not have the values"),
        ({}, {"values": pa.array(["a"] * 5)}, {}, "values and ids"),
        ({}, {"values": [None, 1, 2, 3], "ids": [0, 1, 2, 3]}, {}, "does not have the values"),
        ({}, {"values": [None, 1], "ids": [0, 1]}, {}, "2 pages"),
        ({}, {"ids": pa.array([0, 1, None, 3, 4], pa.uint64())}, {}, "without an id"),
    ],
)
def test_lies(bench: Workbench, lookup: Any, rows: Any, metadata: Any, text: str) -> None:
    with pytest.raises(CorruptFile, match=text):
        asked_of(forged(bench, GOOD | lookup, ROWS | rows, META | metadata))


def asked_of(segment: BTreeSegment) -> None:
    for value in (1, 2, 3, 4):
        segment.ask(IsIn(pa.array([value])))
        segment.ask(Between(pa.scalar(0), pa.scalar(value), False, True))


@pytest.mark.parametrize("values", [[None, 1, 0, 3, 4], [None, 1, 2, 1, 4], [1, None, 2, 3, 4], [None, 1, 2, 3, 0]])
def test_merging_what_is_not_in_order(bench: Workbench, values: list[int | None]) -> None:
    segment = forged(bench, GOOD, ROWS | {"values": values}, META)
    with pytest.raises(CorruptFile):
        bench.write(None, None, [Source(segment)])


@pytest.mark.parametrize("name", [DATA, LOOKUP])
@pytest.mark.parametrize("column", ["int64", "string"])
def test_damaged_bytes(tmp_path: Path, name: str, column: str) -> None:
    """An error that names the file, or an answer; never anything else."""
    values = VALUES[column]
    bench = Workbench(tmp_path / "t", values, KIND)
    source = write(bench, values, rows_of(len(values)), 64).path
    victim = Path(source).parent / name
    good = victim.read_bytes()
    wanted = questions(values)[:6]
    for damage in flips(good, 60, 1) + patches(good, 60, 2) + truncations(good, 10, 3):
        victim.unlink()  # What is mapped stays as it is.
        victim.write_bytes(damage.apply(good))
        entry = replace(bench.entry, uuid=type(bench.entry.uuid)(victim.parent.name), files=())
        try:
            segment = KIND.open(IndexFolder(bench.snapshot, entry), values.type)
            for question in wanted:
                segment.ask(question)
        except LanceletError as error:
            assert name in str(error) or LOOKUP in str(error)
