"""BITMAP: what it has of its own, beside :mod:`index.test_kinds`; the builder of its file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from index.segments import Rows, Workbench, batches, content, made
from index.truths import SPREAD, check, questions
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.index.folder import BUILD_MEMORY, IndexFolder, SegmentWriter
from lancelet.index.kind import Built, NewRows, Source
from lancelet.index.metadata import read_indices
from lancelet.index.questions import Between, IsIn, Missing
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.bitmap import KIND
from lancelet.index.scalar.bitmap_build import BitmapBuilder, BuildLimits
from lancelet.index.scalar.bitmap_file import FILE
from lancelet.index.segments import NewSegment, entry_of
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles


@pytest.mark.parametrize("stable", [False, True])
def test_after_changes(tmp_path: Path, stable: bool) -> None:
    """Deleted and updated rows, several fragments; stable ids are what segments hold where a table has them."""
    values = SPREAD["string"]
    bench = Workbench(tmp_path / "t", values, KIND, max_rows_per_file=50, enable_stable_row_ids=stable)
    table = bench.dataset.to_table(with_row_id=True)
    segment = bench.theirs()
    bench.dataset.delete("v = 'ab'")
    bench.dataset.update({"v": "'new'"}, where="v = 'b'")
    lance.dataset(bench.where).create_scalar_index("v", "BITMAP", name="other")
    for question in questions(values, KIND):
        check(segment.ask(question), question, values, table["_rowid"].to_numpy())
    after = lance.dataset(bench.where).to_table(with_row_id=True)
    entry = next(entry for entry in read_indices(bench.snapshot.manifest) if entry.name == "other")
    assert not KIND.names_addresses(entry)
    segment = KIND.open(IndexFolder(bench.snapshot, entry), values.type)
    for question in questions(values, KIND):
        check(segment.ask(question), question, after["v"].combine_chunks(), after["_rowid"].to_numpy())


def test_keys_without_rows_vanish(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "t", pa.array([1, None, 2, 1]), KIND)
    kept, _, folder = bench.write(None, None, [Source(bench.theirs(), lambda rows: (rows, rows == 2))])
    assert content(folder / FILE)[0]["keys"].to_pylist() == [2]
    assert not kept.ask(Missing()).rows


def test_columns_that_it_cannot_have() -> None:
    for dtype in (
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.null(),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
    ):
        with pytest.raises(TypeError, match="BITMAP index takes"):
            KIND.check(pa.field("v", dtype), {})
    with pytest.raises(InvalidInput, match="'bins'"):
        KIND.check(pa.field("v", pa.int8()), {"bins": 3})


# The builder.


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("bench") / "t", pa.array([1, 2, None]), KIND)


def built_with(bench: Workbench, limits: BuildLimits, values: pa.Array, rows: Rows, step: int) -> dict[Any, list[int]]:
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
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
    limits = BuildLimits(run_rows, 1 << 20, runs_bytes, merge_keys, 1 << 20, merge_rows)
    want: dict[Any, list[int]] = {}
    for key, row in sorted(zip(keys, rows.tolist(), strict=True), key=lambda pair: pair[1]):
        want.setdefault(key, []).append(row)
    assert built_with(bench, limits, pa.array(keys, dtype), rows, step) == want


def test_a_build_holds_what_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BuildLimits.within(BUILD_MEMORY) == BuildLimits()
    small = BuildLimits.within(16 << 20)
    assert small.run_bytes + small.runs_bytes + small.merge_bytes <= 16 << 20
    # A kind's build goes by what its writer may hold: less than its rows take goes to temporary files on the way.
    values, rows = pa.array(np.arange(50_000) % 997), np.arange(50_000, dtype=np.uint64)
    bench = Workbench(tmp_path / "t", pa.array([1, 2, None]), KIND)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    seen: list[int] = []

    def coming() -> Iterator[pa.RecordBatch]:
        for batch in batches(values, rows, 5000):
            yield batch
            seen.append(len(list(folder.iterdir())))

    contents = []
    for limit in (BUILD_MEMORY, 1 << 18):
        seen.clear()
        out = SegmentWriter(
            bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store), memory_limit=limit
        )
        KIND.write((), NewRows(values.type, coming()), out, {})
        assert any(seen) == (limit < BUILD_MEMORY)
        contents.append(content(bench.where / "_indices" / str(out.uuid) / FILE))
    assert contents[0] == contents[1]
    assert not list(folder.iterdir())


def test_temporary_files_are_removed(bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    values = pa.array(range(100))
    with BitmapBuilder(values.type, BuildLimits(run_rows=10, runs_bytes=100)) as builder:
        builder.add_rows(values, np.arange(100, dtype=np.uint64))
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


# Damaged files.


def damaged(bench: Workbench, keys: pa.Array, bitmaps: pa.Array) -> IndexFolder:
    return made(bench, FILE, {"keys": keys, "bitmaps": bitmaps})


GOOD = RowSet.of(np.array([1, 5, 1 << 32], np.uint64)).serialize()


def test_wrong_columns(bench: Workbench) -> None:
    for columns in (
        {"keys": pa.array([1]), "other": pa.array([GOOD])},
        {"keys": pa.array(["1"]), "bitmaps": pa.array([GOOD])},
        {"keys": pa.array([1]), "bitmaps": pa.array([1])},
    ):
        with pytest.raises(CorruptFile, match="bitmap_page_lookup"):
            KIND.open(made(bench, FILE, columns), pa.int64())


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
    """An entry may stand for all rows of a fragment; carried over, it is as many as the fragment can have."""
    some = RowSet.of(np.array([1, 5, 1 << 32], np.uint64))
    both = (RowSet.whole([3]) | some).serialize()
    segment = KIND.open(damaged(bench, pa.array([None, 1, 2]), pa.array([both, GOOD, both])), pa.int64())
    assert segment.ask(IsIn(pa.array([1, 2]))).rows == RowSet.whole([3]) | some
    with pytest.raises(InvalidInput, match="all rows of fragment 3"):
        bench.write(None, None, [Source(segment)])
    source = Source(segment, lambda rows: (rows + np.uint64(10), rows % 2 == 1), {3: 6}.__getitem__)
    merged, _, _ = bench.write(None, None, [source])
    odd = RowSet.of(np.array([11, 15, *((3 << 32) + at for at in (11, 13, 15))], np.uint64))
    assert merged.ask(IsIn(pa.array([2]))).rows == merged.ask(Missing()).rows == odd
    assert merged.ask(IsIn(pa.array([1]))).rows == RowSet.of(np.array([11, 15], np.uint64))


def test_keys_in_any_order(bench: Workbench) -> None:
    """As the oldest writers left them."""
    sets = pa.array([RowSet.of(np.array([row], np.uint64)).serialize() for row in range(4)])
    segment = KIND.open(damaged(bench, pa.array([5, None, -1, 3]), sets), pa.int64())
    values = pa.array([5, None, -1, 3])
    for question in questions(values, KIND):
        check(segment.ask(question), question, values, np.arange(4, dtype=np.uint64))
    again, _, folder = bench.write(None, None, [Source(segment)])
    assert content(folder / FILE)[0]["keys"].to_pylist() == [None, -1, 3, 5]
    assert again.ask(Missing()).rows == RowSet.of(np.array([1], np.uint64))


# Entries that stand for all rows of a fragment, in a table.

CHANGES: dict[str, Any] = {
    "asked": lambda dataset: None,
    "optimized": lambda dataset: dataset.optimize.optimize_indices(),
    "merged": lambda dataset: dataset.optimize.optimize_indices(num_indices_to_merge=2),
    "compacted": lambda dataset: dataset.optimize.compact_files(),
    "deferred": lambda dataset: dataset.optimize.compact_files(defer_index_remap=True),
    "deferred, then optimized": lambda dataset: (
        dataset.optimize.compact_files(defer_index_remap=True),
        dataset.optimize.optimize_indices(),
    ),
}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("change", CHANGES)
def test_whole_fragments_in_a_table(tmp_path: Path, stable: bool, change: str) -> None:
    """Ids have upper halves too: here all of them have the same."""
    if stable and "deferred" in change:
        pytest.skip("a table with stable row ids has nothing to defer")
    values = [1] * 40 if stable else [1] * 10 + [2] * 10 + [2, 3] * 10
    table = pa.table({"v": pa.array(values, pa.int64()), "k": range(40)})
    dataset = lancelet.write_dataset(table, tmp_path / "t", max_rows_per_file=10, enable_stable_row_ids=stable)
    sets = {1: RowSet.whole([0])}
    if not stable:
        some = [number << 32 | at for number in (2, 3) for at in range(10)]
        sets[2] = RowSet.whole([1]) | RowSet.of(np.array(some[::2], np.uint64))
        sets[3] = RowSet.of(np.array(some[1::2], np.uint64))
    snapshot = dataset._snapshot
    new = NewSegment("v_idx", (0,), KIND, frozenset(range(4)), {})
    with WrittenFiles(snapshot.store) as files:
        out = SegmentWriter(snapshot.store, uuid4(), "2.1", files)
        batch = pa.record_batch({"keys": list(sets), "bitmaps": [one.serialize() for one in sets.values()]})
        with out.create(FILE, batch.schema) as writer:
            writer.write(batch)
        entry = entry_of(snapshot, new, out.uuid, Built(), out.written)
        commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),)), files=files)
    lancelet.dataset(tmp_path / "t").delete("k % 7 = 3")
    lancelet.write_dataset(table.slice(0, 5), tmp_path / "t", mode="append")
    CHANGES[change](lancelet.dataset(tmp_path / "t"))
    dataset = lancelet.dataset(tmp_path / "t")
    for text in ("v = 1", "v = 2", "v <> 2", "v in (1, 3)", "v is null", "not (v = 1)"):
        assert "ScalarIndexQuery" in dataset.scanner(filter=text).explain_plan()
        truth = dataset.to_table(filter=text, use_scalar_index=False)
        assert dataset.to_table(filter=text).equals(truth), text
        assert dataset.count_rows(text) == len(truth)
