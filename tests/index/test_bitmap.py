"""BITMAP: answers equal to brute force, files equal to pylance's."""

from __future__ import annotations

import math
import shutil
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancelet
from index.segments import Rows, Workbench, batches, content
from lancelet.errors import CorruptFile, InvalidInput, NotSupported
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import Source
from lancelet.index.metadata import read_indices
from lancelet.index.questions import Answer, Between, Holds, IsIn, Missing, Question, StartsWith
from lancelet.index.registry import kind_of_entry
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.bitmap import KIND
from lancelet.index.scalar.bitmap_build import BitmapBuilder, Limits
from lancelet.index.scalar.bitmap_file import FILE
from lancelet.query.comparing import compare, is_in
from lancelet.table.written import WrittenFiles

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures" / "historical"
_NAN, _INF = math.nan, math.inf
_ODD_NAN = np.array([0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64).tolist()


def _spread(values: list[Any], dtype: pa.DataType, rows: int = 300) -> pa.Array:
    rng = np.random.default_rng(len(values))
    return pa.array([None if pick < 0 else values[pick] for pick in rng.integers(-1, len(values), rows)], dtype)


VALUES: dict[str, pa.Array] = {
    "bool": _spread([True, False], pa.bool_()),
    "int8": _spread([-128, -1, 0, 5, 127], pa.int8()),
    "int64": _spread([*range(-30, 30), 2**63 - 1, -(2**63)], pa.int64()),
    "uint64": _spread([0, 1, 2**63, 2**64 - 1], pa.uint64()),
    "float16": _spread([np.float16(x) for x in (-_INF, -0.0, 0.0, 1.5, _INF, _NAN)], pa.float16()),
    "float32": _spread([-_INF, -1.5, -0.0, 0.0, 1.5, _INF, _NAN], pa.float32()),
    "float64": _spread([-_INF, -1.5, -0.0, 0.0, 1e-300, _INF, _NAN, *_ODD_NAN], pa.float64()),
    "string": _spread(["", "a", "ab", "abc", "b", "ß", "日本語", "\U0001f600", "z" * 300], pa.string()),
    "large_string": _spread(["", "a", "ab", "\uffff", "\U00010000"], pa.large_string()),
    "binary": _spread([b"", b"\x00", b"a", b"ab", b"\xff", b"\xff\xff"], pa.binary()),
    "large_binary": _spread([b"", b"\xff"], pa.large_binary()),
    "fixed": _spread([b"abc", b"abd", b"\x00\x00\x00", b"\xff\xff\xff"], pa.binary(3)),
    "decimal128": _spread([Decimal("-1.50"), Decimal("0.00"), Decimal("99.25")], pa.decimal128(10, 2)),
    "decimal256": _spread([Decimal("-1.50"), Decimal("0.00"), Decimal("9e40")], pa.decimal256(60, 2)),
    "date32": _spread([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)], pa.date32()),
    "date64": _spread([date(1969, 12, 31), date(2024, 2, 29)], pa.date64()),
    "timestamp": _spread([datetime(1969, 1, 1), datetime(2100, 1, 1)], pa.timestamp("us")),
    "zoned": _spread([datetime(1969, 1, 1), datetime(2100, 1, 1)], pa.timestamp("ns", "UTC")),
    "time": _spread([1, 2, 3], pa.time64("ns")),
    "duration": _spread([-1, 0, 1], pa.duration("ms")),
    "one": pa.array([7], pa.int32()),
    "all null": pa.nulls(50, pa.string()),
    "no rows": pa.array([], pa.int64()),
    "mostly distinct": pa.array([None, "", *(f"{n * 7919 % 90_001:x}" for n in range(75_000)), "", None]),
    "distinct": pa.array(np.random.default_rng(1).permutation(3000)),
    "dense": pa.array([1] * 70_000 + [2] * 5_000 + [1, None] * 2_000, pa.int64()),
}


def questions(values: pa.Array) -> list[Question]:
    """Questions about a column, with values that occur in it and, where that is easy, some that do not."""
    dtype = values.type
    known = values.drop_null().unique()[:12]
    if pa.types.is_floating(dtype):
        known = pa.concat_arrays([known, pa.array(np.array([0.0, -0.0, _NAN, 7.0], dtype.to_pandas_dtype()))])
    elif pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        known = pa.concat_arrays([known, pa.array(["", "aa", "zzz"], dtype)])
    asked: list[Question] = [Missing(), IsIn(known[:0]), IsIn(known), Between(None, None)]
    for at, value in enumerate(known):
        other = known[at - 1]
        asked += [IsIn(known[at : at + 1]), Between(value, None), Between(None, value, True, False)]
        asked += [Between(value, other), Between(value, other, False, True), Between(other, value, True, False)]
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        asked += [StartsWith(prefix) for prefix in ("", "a", "ab", "abcd", "日", "\U0001f600", "z")]
        asked += [Holds(("b",), True), Holds(("a", "c"), False), Holds(("本",), True), Holds((".",), True)]
    elif pa.types.is_binary(dtype) or pa.types.is_fixed_size_binary(dtype):
        asked += [StartsWith(prefix) for prefix in (b"", b"a", b"\xff", b"\xff\xff\xff")]
    return asked


def truth(values: pa.Array, question: Question) -> npt.NDArray[np.bool_]:
    """For which values it is true; null ones are false, except where nulls are asked for."""
    match question:
        case Missing():
            found = values.is_null()
        case IsIn(wanted):
            found = is_in(values, wanted)
        case Between(low, high, with_low, with_high):
            found = values.is_valid()
            if low is not None:
                found = pc.and_(found, compare(">=" if with_low else ">", values, low))
            if high is not None:
                found = pc.and_(found, compare("<=" if with_high else "<", values, high))
        case StartsWith(str() as prefix):
            found = pc.starts_with(values, prefix)
        case StartsWith(prefix):
            found = pa.array([None if v is None else v.startswith(prefix) for v in values.to_pylist()], pa.bool_())
        case Holds(pieces):
            found = pc.match_like(values, "%" + "%".join(pieces) + "%")
        case _:
            raise TypeError(question)
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def check(answer: Answer, question: Question, values: pa.Array, rows: Rows) -> None:
    want = truth(values, question)
    assert answer.exact or isinstance(question, Holds)
    assert np.array_equal(answer.rows.numbers(), np.sort(rows[want])), question
    nulls = rows[:0] if isinstance(question, Missing) else rows[values.is_null().to_numpy(zero_copy_only=False)]
    assert answer.nulls is not None
    assert np.array_equal(answer.nulls.numbers(), np.sort(nulls)), question


@pytest.mark.parametrize("name", VALUES)
def test_types(tmp_path: Path, name: str) -> None:
    """pylance's file answers as brute force does, and our file has the same keys and bitmaps, byte for byte."""
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND, max_rows_per_file=max(1, len(values) // 2 + 1))
    rows = bench.dataset.to_table([], with_row_id=True)["_rowid"].to_numpy()
    theirs = bench.theirs()
    ours, built, folder = bench.write(values, rows)
    for question in questions(values):
        assert KIND.takes(question, values.type)
        check(theirs.ask(question), question, values, rows)
        check(ours.ask(question), question, values, rows)
    assert built.index_version == bench.entry.index_version
    mine, metadata = content(folder / FILE)
    other, their_metadata = content(bench.folder(bench.entry) / FILE)
    bits = {2: pa.int16(), 4: pa.int32(), 8: pa.int64()}.get(values.type.bit_width // 8) if "float" in name else None
    for column in ("keys", "bitmaps"):
        left, right = mine[column].combine_chunks(), other[column].combine_chunks()
        left, right = (one.view(bits) if bits and column == "keys" else one for one in (left, right))
        assert left.equals(right)
    assert metadata == their_metadata
    if len(values):
        assert dict(ours.statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]
    assert ours.nbytes > 0


@pytest.mark.parametrize("name", ["int64", "float64", "string", "bool", "binary", "decimal128", "timestamp"])
def test_pylance_asks_ours(tmp_path: Path, name: str) -> None:
    values = VALUES[name]
    lance.write_dataset(pa.table({"v": values}), tmp_path / "t", max_rows_per_file=70)
    lancelet.dataset(tmp_path / "t").create_scalar_index("v", "BITMAP")
    dataset = lance.dataset(tmp_path / "t")
    known = values.drop_null().unique()
    field = pc.field("v")
    for text in [
        field == known[0],
        field > known[1],
        field.isin(known[:5].to_pylist()),
        field.is_null(),
        ~(field == known[0]),
    ]:
        scans = [dataset.scanner(filter=text, with_row_id=True, use_scalar_index=use) for use in (True, False)]
        assert "ScalarIndexQuery" in scans[0].explain_plan()
        found = [sorted(scan.to_table()["_rowid"].to_pylist()) for scan in scans]
        assert found[0] == found[1]


@pytest.mark.parametrize("stable", [False, True])
def test_after_changes(tmp_path: Path, stable: bool) -> None:
    """Deleted and updated rows, several fragments; stable ids are what segments hold where a table has them."""
    values = VALUES["string"]
    bench = Workbench(tmp_path / "t", values, KIND, max_rows_per_file=50, enable_stable_row_ids=stable)
    table = bench.dataset.to_table(with_row_id=True)
    segment = bench.theirs()
    bench.dataset.delete("v = 'ab'")
    bench.dataset.update({"v": "'new'"}, where="v = 'b'")
    lance.dataset(bench.where).create_scalar_index("v", "BITMAP", name="other")
    for question in questions(values):
        check(segment.ask(question), question, values, table["_rowid"].to_numpy())
    after = lance.dataset(bench.where).to_table(with_row_id=True)
    entry = next(entry for entry in read_indices(bench.snapshot.manifest) if entry.name == "other")
    assert not KIND.names_addresses(entry)
    segment = KIND.open(IndexFolder(bench.snapshot, entry), values.type)
    for question in questions(values):
        check(segment.ask(question), question, after["v"].combine_chunks(), after["_rowid"].to_numpy())


def _moved(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Every third row is gone, the others are in other fragments and in another order."""
    return (rows * np.uint64(2654435761)) % np.uint64(1 << 33), rows % np.uint64(3) != 0


@pytest.mark.parametrize(
    "name", ["int64", "float64", "string", "decimal128", "distinct", "mostly distinct", "dense", "all null", "no rows"]
)
def test_merged_and_renamed(tmp_path: Path, name: str) -> None:
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND)
    rows = np.arange(len(values), dtype=np.uint64)
    far = rows[::-1] + np.uint64(1 << 34)
    second, _, _ = bench.write(values, far)
    sources = [Source(bench.theirs(), _moved), Source(second)]
    merged, _, _ = bench.write(values, rows + np.uint64(9 << 32), sources)
    moved, kept = _moved(rows)
    everything = pa.concat_arrays([values.filter(pa.array(kept, pa.bool_())), values, values])
    numbers = np.concatenate([moved[kept], far, rows + np.uint64(9 << 32)])
    for question in questions(values):
        check(merged.ask(question), question, everything, numbers)


def test_keys_without_rows_vanish(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "t", pa.array([1, None, 2, 1]), KIND)
    kept, _, folder = bench.write(None, None, [Source(bench.theirs(), lambda rows: (rows, rows == 2))])
    assert content(folder / FILE)[0]["keys"].to_pylist() == [2]
    assert not kept.ask(Missing()).rows


def test_an_old_index() -> None:
    """Entries without details, found by their file."""
    where = FIXTURES / "v0.20.0" / "old_btree_bitmap_indices.lance"
    if not where.is_dir():
        pytest.skip("the historical tables (../shared/fixtures/historical) are not on this machine")
    dataset = lancelet.dataset(where)
    entry = next(entry for entry in read_indices(dataset._snapshot.manifest) if entry.name == "bitmap_idx")
    if entry.files or entry.type_url:
        assert kind_of_entry(entry) is KIND
    values = dataset.to_table(["bitmap"])["bitmap"].combine_chunks()
    segment = KIND.open(IndexFolder(dataset._snapshot, entry), values.type)
    for question in questions(values):
        check(segment.ask(question), question, values, np.arange(len(values), dtype=np.uint64))


def test_columns_that_it_cannot_have() -> None:
    for dtype in (pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.null(), pa.dictionary(pa.int8(), pa.string())):
        with pytest.raises(TypeError, match="BITMAP index takes"):
            KIND.check(pa.field("v", dtype), {})
    with pytest.raises(InvalidInput, match="'bins'"):
        KIND.check(pa.field("v", pa.int8()), {"bins": 3})


# The builder.


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("bench") / "t", pa.array([1, 2, None]), KIND)


def built_with(bench: Workbench, limits: Limits, values: pa.Array, rows: Rows, step: int) -> dict[Any, list[int]]:
    """What the builder writes: the rows of each key, by its bits."""
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    with BitmapBuilder(values.type, limits) as builder:
        for batch in batches(values, rows, step):
            builder.add_rows(batch.column(0), batch.column(1).to_numpy())
        builder.write(out, {})
    table, _ = content(bench.where / "_indices" / str(out.uuid) / FILE)
    shutil.rmtree(bench.where / "_indices" / str(out.uuid))
    keys = table["keys"].to_pylist()
    order = [key for key in keys if key is not None]
    assert order == sorted(order)
    assert keys[1:].count(None) == 0
    sets = [RowSet.deserialize(data, "", "") for data in table["bitmaps"].to_pylist()]
    return dict(zip(keys, [found.numbers().tolist() for found in sets], strict=True))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.tuples(st.none() | st.integers(-9, 9), st.integers(0, 2**34)), max_size=60, unique_by=lambda p: p[1]),
    st.sampled_from([pa.int32(), pa.string(), pa.decimal128(5, 0)]),
    st.integers(1, 20),
    st.integers(0, 300),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 70),
)
def test_small_limits(
    bench: Workbench,
    pairs: list[tuple[int | None, int]],
    dtype: pa.DataType,
    run_rows: int,
    runs_bytes: int,
    merge_keys: int,
    merge_rows: int,
    step: int,
) -> None:
    """Runs in temporary files, ranges of keys and sets in pieces make no difference."""
    make = {pa.int32(): lambda x: x, pa.string(): str, pa.decimal128(5, 0): Decimal}[dtype]
    keys = [None if key is None else make(key) for key, _ in pairs]
    rows = np.array([row for _, row in pairs], np.uint64)
    limits = Limits(run_rows, 1 << 20, runs_bytes, merge_keys, 1 << 20, merge_rows)
    want: dict[Any, list[int]] = {}
    for key, row in sorted(zip(keys, rows.tolist(), strict=True), key=lambda pair: pair[1]):
        want.setdefault(key, []).append(row)
    assert built_with(bench, limits, pa.array(keys, dtype), rows, step) == want


def test_temporary_files_are_removed(bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    values = pa.array(range(100))
    with BitmapBuilder(values.type, Limits(run_rows=10, runs_bytes=100)) as builder:
        builder.add_rows(values, np.arange(100, dtype=np.uint64))
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


# Damaged files.


def damaged(
    bench: Workbench, keys: pa.Array, bitmaps: pa.Array, names: tuple[str, str] = ("keys", "bitmaps")
) -> IndexFolder:
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    batch = pa.record_batch([keys, bitmaps], names=list(names))
    with out.create(FILE, batch.schema) as writer:
        writer.write(batch)
    return IndexFolder(bench.snapshot, replace(bench.entry, uuid=out.uuid, files=tuple(out.written)))


GOOD = RowSet.of(np.array([1, 5, 1 << 32], np.uint64)).serialize()


def test_wrong_columns(bench: Workbench) -> None:
    for keys, bitmaps, names in [
        (pa.array([1]), pa.array([GOOD]), ("keys", "other")),
        (pa.array(["1"]), pa.array([GOOD]), ("keys", "bitmaps")),
        (pa.array([1]), pa.array([1]), ("keys", "bitmaps")),
    ]:
        with pytest.raises(CorruptFile, match="bitmap_page_lookup"):
            KIND.open(damaged(bench, keys, bitmaps, names), pa.int64())


@pytest.mark.parametrize(
    "data", [None, b"", b"\x01\0\0\0", GOOD[:-1], GOOD + b"\0", GOOD.replace(b"\x3a\x30", b"\x3c\x30")]
)
def test_damaged_bitmaps(bench: Workbench, data: bytes | None) -> None:
    segment = KIND.open(damaged(bench, pa.array([1, 2]), pa.array([GOOD, data], pa.binary())), pa.int64())
    assert len(segment.ask(IsIn(pa.array([1]))).rows) == 3
    for question in (IsIn(pa.array([2])), Between(pa.scalar(0), None)):
        with pytest.raises(CorruptFile, match="bitmap_page_lookup"):
            segment.ask(question)
    with pytest.raises(CorruptFile, match="bitmap_page_lookup"):
        bench.write(None, None, [Source(segment)])


def test_whole_fragments(bench: Workbench) -> None:
    """They can be asked for, not carried over: nobody knows how many rows they have."""
    whole = RowSet.whole([3]).serialize()
    segment = KIND.open(damaged(bench, pa.array([1, 2]), pa.array([GOOD, whole])), pa.int64())
    assert segment.ask(IsIn(pa.array([1, 2]))).rows == RowSet.whole([3]) | RowSet.of(
        np.array([1, 5, 1 << 32], np.uint64)
    )
    with pytest.raises(CorruptFile, match="whole fragments"):
        bench.write(None, None, [Source(segment)])


def test_keys_in_any_order(bench: Workbench) -> None:
    """As the oldest writers left them."""
    sets = pa.array([RowSet.of(np.array([row], np.uint64)).serialize() for row in range(4)])
    segment = KIND.open(damaged(bench, pa.array([5, None, -1, 3]), sets), pa.int64())
    values = pa.array([5, None, -1, 3])
    for question in questions(values):
        check(segment.ask(question), question, values, np.arange(4, dtype=np.uint64))
    again, _, folder = bench.write(None, None, [Source(segment)])
    assert content(folder / FILE)[0]["keys"].to_pylist() == [None, -1, 3, 5]
    assert again.ask(Missing()).rows == RowSet.of(np.array([1], np.uint64))


def test_flipped_bytes(tmp_path: Path) -> None:
    """Whatever bytes are damaged: an answer, or an error that names the file."""
    bench = Workbench(tmp_path / "t", VALUES["string"], KIND)
    path = bench.folder(bench.entry) / FILE
    good = path.read_bytes()
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(300):
        data = bytearray(good)
        data[rng.integers(0, len(data))] ^= 1 << rng.integers(0, 8)
        path.write_bytes(data)
        try:
            segment = bench.theirs()
            for question in (Missing(), Between(None, None), StartsWith("a")):
                segment.ask(question)
            bench.write(None, None, [Source(segment)])
        except (CorruptFile, NotSupported) as error:
            assert FILE in str(error) or isinstance(error, NotSupported)
            refused += 1
    assert refused > 30
