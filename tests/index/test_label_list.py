"""LABEL_LIST: answers equal to brute force, files equal to pylance's."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from index.segments import Rows, Workbench, content
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.expressions.list_functions import FUNCTIONS
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import Source
from lancelet.index.questions import Answer, HasItems
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.bitmap_file import FILE, LIST_NULLS
from lancelet.index.scalar.label_list import KIND
from lancelet.table.commit.written import WrittenFiles


def _spread(items: list[Any], dtype: pa.DataType, rows: int = 300) -> pa.Array:
    """Lists of up to 4 items, null ones and repeated ones among them; some lists are empty, some null."""
    rng = np.random.default_rng(len(items))
    lists = [
        [None if pick < 0 else items[pick] for pick in rng.integers(-1, len(items), rng.integers(0, 5))]
        for _ in range(rows)
    ]
    return pa.array([None if rng.random() < 0.1 else one for one in lists], dtype)


VALUES: dict[str, pa.Array] = {
    "string": _spread(["", "a", "b", "日本語", "\U0001f600"], pa.list_(pa.string())),
    "large": _spread(["", "a", "b"], pa.large_list(pa.large_string())),
    "int": _spread([*range(-9, 9)], pa.list_(pa.int64())),
    "float": _spread([-0.0, 0.0, 1.5, math.inf, math.nan], pa.list_(pa.float64())),
    "bool": _spread([True, False], pa.list_(pa.bool_())),
    "binary": _spread([b"", b"\xff"], pa.list_(pa.binary())),
    "decimal": _spread([Decimal("1.5"), Decimal("-2.5")], pa.list_(pa.decimal128(5, 1))),
    "dictionary": _spread(["x", "y", "z"], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    "no items": pa.array([[], None, []], pa.list_(pa.int8())),
    "all null": pa.nulls(9, pa.list_(pa.string())),
    "no rows": pa.array([], pa.list_(pa.string())),
    "no nulls": pa.array([["a", "b"], [], ["b"]]),
}


def questions(values: pa.Array) -> list[HasItems]:
    items = values.flatten()
    items = items.dictionary_decode() if pa.types.is_dictionary(items.type) else items
    known = items.unique()
    if pa.types.is_floating(known.type):
        known = pa.concat_arrays([known, pa.array([0.0, -0.0, 9.0], known.type)])
    asked = [HasItems(known[:0], False), HasItems(known, False)]
    for every in (True, False) if len(known) else ():
        asked.append(HasItems(known[:1], every))
        asked += [HasItems(known.take(pa.array([at, (at + 1) % len(known)])), every) for at in range(len(known))]
        asked += [HasItems(known.take(pa.array([at, at, at // 2])), every) for at in range(len(known))]
    return asked


def truth(values: pa.Array, question: HasItems) -> pa.Array:
    wanted = pa.scalar(question.items.to_pylist(), pa.list_(question.items.type))
    name = "array_has_all" if question.every else "array_has_any"
    found: pa.Array = FUNCTIONS[name].run([values, wanted], pa.bool_())
    return found


def check(answer: Answer, question: HasItems, values: pa.Array, rows: Rows) -> None:
    want = truth(values, question)
    assert answer.exact
    assert np.array_equal(answer.rows.numbers(), np.sort(rows[_mask(want.fill_null(False))])), question
    assert answer.nulls is not None
    assert np.array_equal(answer.nulls.numbers(), np.sort(rows[_mask(want.is_null())])), question


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return values.to_numpy(zero_copy_only=False).astype(np.bool_)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_types(tmp_path: Path, name: str, stable: bool) -> None:
    """pylance's file answers as brute force does, and our file is as theirs."""
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND, max_rows_per_file=90, enable_stable_row_ids=stable)
    rows = bench.dataset.to_table([], with_row_id=True)["_rowid"].to_numpy()
    theirs = bench.theirs()
    ours, built, folder = bench.write(values, rows, step=70)
    for question in questions(values):
        assert KIND.takes(question, values.type)
        check(theirs.ask(question), question, values, rows)
        check(ours.ask(question), question, values, rows)
    assert built.index_version == bench.entry.index_version == 1
    mine, metadata = content(folder / FILE)
    other, their_metadata = content(bench.folder(bench.entry) / FILE)
    assert mine["bitmaps"].combine_chunks() == other["bitmaps"].combine_chunks()
    assert mine.schema == other.schema
    assert str(mine["keys"].to_pylist()) == str(other["keys"].to_pylist())
    assert metadata == their_metadata
    if len(values):
        assert dict(ours.statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]


@pytest.mark.parametrize("name", ["string", "int", "large"])
def test_pylance_asks_ours(tmp_path: Path, name: str) -> None:
    values = VALUES[name]
    lance.write_dataset(pa.table({"v": values}), tmp_path / "t", max_rows_per_file=70)
    lancelet.dataset(tmp_path / "t").create_scalar_index("v", "LABEL_LIST")
    dataset = lance.dataset(tmp_path / "t")
    a, b = ("1", "2") if name == "int" else ("'a'", "'b'")
    for text in (
        "array_has(v, {a})",
        "array_has_any(v, [{a}, {b}])",
        "array_has_all(v, [{a}, {b}])",
        "array_has_any(v, [{a}, NULL])",
    ):
        for whole in (text, f"not {text}"):
            asked = whole.format(a=a, b=b)
            scans = [dataset.scanner(filter=asked, with_row_id=True, use_scalar_index=use) for use in (True, False)]
            assert "ScalarIndexQuery" in scans[0].explain_plan()
            found = [sorted(scan.to_table()["_rowid"].to_pylist()) for scan in scans]
            assert found[0] == found[1]


def _moved(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    return (rows * np.uint64(2654435761)) % np.uint64(1 << 33), rows % np.uint64(3) != 0


@pytest.mark.parametrize("name", ["string", "float", "no items", "all null", "no rows"])
def test_merged_and_renamed(tmp_path: Path, name: str) -> None:
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND)
    rows = np.arange(len(values), dtype=np.uint64)
    far = rows + np.uint64(1 << 40)
    merged, built, _ = bench.write(values, far, [Source(bench.theirs(), _moved)])
    moved, kept = _moved(rows)
    everything = pa.concat_arrays([values.filter(pa.array(kept, pa.bool_())), values])
    assert built.index_version == 1
    for question in questions(values):
        check(merged.ask(question), question, everything, np.concatenate([moved[kept], far]))


def _written(bench: Workbench, metadata: dict[str, str], buffers: tuple[bytes, ...] = ()) -> IndexFolder:
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    sets = pa.array([RowSet.of(np.array(rows, np.uint64)).serialize() for rows in ([0, 2], [2])])
    batch = pa.record_batch({"keys": ["a", "b"], "bitmaps": sets})
    with out.create(FILE, batch.schema) as writer:
        writer.write(batch)
        for data in buffers:
            writer.add_global_buffer(data)
        for key, value in metadata.items():
            writer.add_metadata(key, value)
    return IndexFolder(bench.snapshot, replace(bench.entry, uuid=out.uuid, files=tuple(out.written), index_version=0))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("bench") / "t", pa.array([["a"], None, ["a", "b"]]), KIND)


def test_files_without_list_nulls(bench: Workbench) -> None:
    """Version 0: which lists are null is not known, and a merge must not claim that it is."""
    old = KIND.open(_written(bench, {}), bench.dtype)
    answer = old.ask(HasItems(pa.array(["a"]), False))
    assert answer.exact
    assert answer.nulls is None
    assert answer.rows.numbers().tolist() == [0, 2]
    merged, built, folder = bench.write(
        pa.array([["b"], None]), np.array([7, 8], np.uint64), [Source(old), Source(bench.theirs())]
    )
    assert built.index_version == 0
    assert LIST_NULLS.encode() not in content(folder / FILE)[1]
    answer = merged.ask(HasItems(pa.array(["b"]), False))
    assert answer.nulls is None
    assert answer.rows.numbers().tolist() == [2, 7]


@pytest.mark.parametrize("number", ["", "x", "-1", "0", "3", "99999999999999999999", "²"])
def test_no_such_buffer(bench: Workbench, number: str) -> None:
    with pytest.raises(CorruptFile, match=FILE):
        KIND.open(_written(bench, {LIST_NULLS: number}, (b"\0\0\0\0",)), bench.dtype)


@pytest.mark.parametrize("data", [b"", b"\1\0\0\0", b"\0\0\0\0\0"])
def test_damaged_list_nulls(bench: Workbench, data: bytes) -> None:
    with pytest.raises(CorruptFile, match=FILE):
        KIND.open(_written(bench, {LIST_NULLS: "1"}, (data,)), bench.dtype)


def test_questions_that_it_does_not_take() -> None:
    """A list has all of no items whatever it holds; empty lists are not in the index."""
    dtype = pa.list_(pa.string())
    assert not KIND.takes(HasItems(pa.array([], pa.string()), True), dtype)
    assert not KIND.takes(HasItems(pa.array(["a"]), True), pa.string())


def test_columns_that_it_cannot_have() -> None:
    for dtype in (pa.int8(), pa.list_(pa.int8(), 2), pa.string()):
        with pytest.raises(TypeError, match="LABEL_LIST index takes"):
            KIND.check(pa.field("v", dtype), {})
    for dtype in (pa.list_(pa.list_(pa.int8())), pa.list_(pa.struct([("a", pa.int8())]))):
        with pytest.raises(InvalidInput, match="single values"):
            KIND.check(pa.field("v", dtype), {})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
@given(
    st.lists(st.none() | st.lists(st.none() | st.sampled_from("abc"), max_size=4), max_size=30),
    st.lists(st.none() | st.sampled_from("abcd"), min_size=1, max_size=3),
    st.booleans(),
)
def test_any_lists(bench: Workbench, lists: list[Any], items: list[Any], every: bool) -> None:
    values = pa.array(lists, pa.list_(pa.string()))
    rows = np.arange(len(lists), dtype=np.uint64)[::-1].copy()
    segment, _, _ = bench.write(values, rows, step=7)
    question = HasItems(pa.array(items, pa.string()), every)
    check(segment.ask(question), question, values, rows)
