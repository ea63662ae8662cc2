"""BLOOMFILTER: answers that hold at least what brute force finds, and files equal to pylance's."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.indices import IndexConfig

import lancelet
from index.segments import Rows, content
from index.zoned import UNORDERED, VALUES, ZoneBench, check, made, questions, refused_flips
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.index.kind import Source
from lancelet.index.metadata import read_indices
from lancelet.index.questions import Between, IsIn, Missing
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.bloom import hash_fixed, hash_spans, insert, probe
from lancelet.index.scalar.bloom_filter import FILE, KIND, filter_bytes

ZONE = {"number_of_items": 16, "probability": 0.01}
FITTING = {
    name: values
    for name, values in VALUES.items()
    if name not in ("bool", "float16", "decimal128", "decimal256", "duration")
}


@pytest.mark.parametrize("name", FITTING)
def test_types(tmp_path: Path, name: str) -> None:
    values = FITTING[name]
    bench = ZoneBench(tmp_path / "t", values, KIND, ZONE, max_rows_per_file=max(1, len(values) // 2 + 1))
    rows = bench.dataset.to_table([], with_row_id=True)["_rowid"].to_numpy()
    theirs = bench.theirs()
    ours, built, folder = bench.write(values, rows, step=37, options=ZONE)
    for question in questions(values):
        if isinstance(question, IsIn | Missing):
            assert KIND.takes(question, values.type)
            check(theirs.ask(question), question, values, rows)
            check(ours.ask(question), question, values, rows)
        else:
            assert not KIND.takes(question, values.type)
    assert (built.details, built.index_version) == (bench.entry.details, bench.entry.index_version)
    mine, metadata = content(folder / FILE)
    other, their_metadata = content(bench.folder(bench.entry) / FILE)
    assert mine.equals(other)
    assert metadata == their_metadata
    if len(values):
        assert dict(ours.statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]
        assert ours.nbytes > 0


def test_zones_leave_rows_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = pa.array(rng.integers(0, 2**60, 5000))
    bench = ZoneBench(tmp_path / "t", values, KIND, {"number_of_items": 100, "probability": 0.001})
    rows = np.arange(5000, dtype=np.uint64)
    segment = bench.theirs()
    for at in (0, 77, 4999):
        question = IsIn(values[at : at + 1])
        assert check(segment.ask(question), question, values, rows) < 400
    assert len(segment.ask(IsIn(pa.array(range(20)))).rows) < 1000


@pytest.mark.parametrize("items", [1, 7, 1000, 8192, 100_000])
@pytest.mark.parametrize("probability", [0.5, 0.1, 0.00057, 1e-6])
def test_sizes(tmp_path: Path, items: int, probability: float) -> None:
    """Filters are as large as pylance's."""
    parameters = {"number_of_items": items, "probability": probability}
    bench = ZoneBench(tmp_path / "t", pa.array([5]), KIND, parameters)
    table, metadata = content(bench.folder(bench.entry) / FILE)
    assert len(table["bloom_filter_data"][0].as_py()) == filter_bytes(items, probability)
    _, _, folder = bench.write(pa.array([5]), options=parameters)
    assert content(folder / FILE)[1] == metadata


def test_hashes() -> None:
    texts = [b"", b"a", b"abc", b"0123456789" * 10]
    data, ends = np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)])
    known = hash_spans(data, ends).tolist()
    assert known[:3] == [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0x44BC2CF5AD770999]
    for width in (1, 2, 3, 4, 5, 8, 31, 32, 33, 50, 64):
        part = data[: len(data) // width * width]
        places = np.arange(0, len(part) + 1, width)
        assert np.array_equal(hash_fixed(part, width), hash_spans(part, places))


def test_kernels_refuse() -> None:
    data, hashes, none = np.zeros(64, np.uint8), np.zeros(3, np.uint64), np.empty(0, np.uint8)
    for width in (0, -1, 7):
        with pytest.raises(ValueError, match="whole values"):
            hash_fixed(data, width)
    for ends in ([0, 65], [5, 3], [-1, 3], []):
        with pytest.raises(ValueError, match="offsets"):
            hash_spans(data, np.array(ends, np.int64))
    for valid, starts, shape in (
        (none, [0], (2, 32)),
        (none, [0], (1, 33)),
        (none, [0], (1, 0)),
        (none, [0, 4], (2, 32)),
        (none, [2, 1], (2, 32)),
        (np.ones(2, np.uint8), [0], (1, 32)),
    ):
        with pytest.raises(ValueError, match="needed|wrong size"):
            insert(hashes, valid, np.array(starts), np.zeros(shape, np.uint8))
    assert probe(hashes, data, np.array([0, 32, 40, 64, 99])).tolist() == [0, 2, 2, 2]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("name", ["int64", "float64", "string", "date32"])
def test_with_deleted_rows(tmp_path: Path, name: str, stable: bool) -> None:
    """A zone counts live rows; its file is the one that pylance writes, also after an append."""
    values = VALUES[name]
    table = pa.table({"v": values, "k": range(len(values))})
    for where in (tmp_path / "a", tmp_path / "b"):
        lance.write_dataset(table, where, max_rows_per_file=130, enable_stable_row_ids=stable)
        lance.dataset(where).delete("k % 5 = 1 or k < 7 or k between 100 and 140")
    lance.dataset(tmp_path / "a").create_scalar_index("v", IndexConfig("bloomfilter", ZONE))
    lancelet.dataset(tmp_path / "b").create_scalar_index("v", "BLOOMFILTER", **ZONE)
    for step in ("create", "optimize"):
        found = [_only_file(tmp_path / name) for name in "ab"]
        assert found[0][0].equals(found[1][0]), step
        assert found[0][1] == found[1][1]
        lance.write_dataset(table.slice(0, 90), tmp_path / "a", mode="append")
        lancelet.write_dataset(table.slice(0, 90), tmp_path / "b", mode="append")
        lance.dataset(tmp_path / "a").optimize.optimize_indices()
        lancelet.dataset(tmp_path / "b").optimize.optimize_indices()


def _only_file(where: Path) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    entry = read_indices(lancelet.dataset(where)._snapshot.manifest)[0]
    return content(where / "_indices" / str(entry.uuid) / FILE)


@pytest.mark.parametrize("name", ["int64", "float64", "string", "binary", "timestamp"])
def test_pylance_asks_ours(tmp_path: Path, name: str) -> None:
    values = VALUES[name]
    if name == "float64":
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    lance.write_dataset(pa.table({"v": values}), tmp_path / "t", max_rows_per_file=170)
    lancelet.dataset(tmp_path / "t").create_scalar_index("v", "BLOOMFILTER", **ZONE)
    dataset = lance.dataset(tmp_path / "t")
    known = values.drop_null().unique()
    field = pc.field("v")
    for text in [field == known[0], field == known[2], field.isin(known[:5].to_pylist()), field.is_null()]:
        scans = [dataset.scanner(filter=text, with_row_id=True, use_scalar_index=use) for use in (True, False)]
        assert "ScalarIndexQuery" in scans[0].explain_plan()
        found = [sorted(scan.to_table()["_rowid"].to_pylist()) for scan in scans]
        assert found[0] == found[1]


def _moved(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Every third row is gone, the others moved up; those behind row 100 went into a fragment of their own."""
    kept = rows % np.uint64(3) != 0
    up = rows - rows // np.uint64(3)
    return np.where(rows > 100, up + np.uint64(5 << 32), up), kept


@pytest.mark.parametrize("kept_filters", [1 << 20, 0])
@pytest.mark.parametrize("name", ["int64", "string", "all null", "no rows"])
def test_merged_and_renamed(tmp_path: Path, name: str, kept_filters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with filters that are read a few at a time, and again for every question."""
    if not kept_filters:
        monkeypatch.setattr("lancelet.index.scalar.bloom_filter._KEPT", 0)
        monkeypatch.setattr("lancelet.index.scalar.bloom_filter._AT_ONCE", 200)
    values = VALUES[name]
    bench = ZoneBench(tmp_path / "t", values, KIND, ZONE)
    rows = np.arange(len(values), dtype=np.uint64)
    far = rows + np.uint64(1 << 34)
    second, _, _ = bench.write(values, far, options=ZONE)
    sources = [Source(bench.theirs(), _moved), Source(second)]
    merged, _, folder = bench.write(values, rows + np.uint64(9 << 32), sources)
    moved, kept = _moved(rows)
    everything = pa.concat_arrays([values.filter(pa.array(kept, pa.bool_())), values, values])
    numbers = np.concatenate([moved[kept], far, rows + np.uint64(9 << 32)])
    for question in questions(values):
        if KIND.takes(question, values.type):
            check(merged.ask(question), question, everything, numbers)
    assert content(folder / FILE)[1][b"bloomfilter_item"] == b"16"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> ZoneBench:
    return ZoneBench(tmp_path_factory.mktemp("bench") / "t", pa.array([1, 2, None]), KIND, {})


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=50), st.integers(1, 9), st.integers(1, 12))
def test_drawn_columns(bench: ZoneBench, drawn: list[bytes | None], size: int, step: int) -> None:
    values = pa.array(drawn, pa.binary())
    kept = bench.dtype
    bench.dtype = values.type
    try:
        segment, _, folder = bench.write(values, step=step, options={"number_of_items": size, "probability": 0.3})
    finally:
        bench.dtype = kept
    for question in questions(values):
        if KIND.takes(question, values.type):
            check(segment.ask(question), question, values, np.arange(len(values), dtype=np.uint64))
    shutil.rmtree(folder)


def test_options() -> None:
    for options, text in (
        ({"number_of_items": 0}, "at least 1"),
        ({"probability": 1.5}, "between 0 and 1"),
        ({"probability": 0}, "between 0 and 1"),
        ({"probability": "rare"}, "'rare'"),
        ({"bins": 3}, "bins"),
    ):
        with pytest.raises(InvalidInput, match=text):
            KIND.check(pa.field("v", pa.int8()), options)
    unfit = [values.type for values in UNORDERED.values()]
    for dtype in (*unfit, pa.bool_(), pa.float16(), pa.decimal128(5), pa.duration("s"), pa.null()):
        with pytest.raises(ValueError, match="BLOOMFILTER index takes"):
            KIND.check(pa.field("v", dtype), {})
        assert not KIND.takes(Missing(), dtype)
    assert not KIND.takes(Between(None, None), pa.int8())


# Files of other makers, and damaged ones.

GOOD: dict[str, pa.Array] = {
    "fragment_id": pa.array([0, 7], pa.uint64()),
    "zone_start": pa.array([0, 10], pa.uint64()),
    "zone_length": pa.array([8, 3], pa.uint64()),
    "has_null": pa.array([False, True]),
    "bloom_filter_data": pa.array([b"\xff" * 64, bytes(32)]),
}


def test_without_a_null_bitmap(bench: ZoneBench) -> None:
    """Nulls are somewhere in the zones that say so. Filters may be of different sizes."""
    segment = KIND.open(made(bench, FILE, GOOD, {}), pa.int64())
    missing = segment.ask(Missing())
    assert (missing.exact, missing.nulls) == (False, RowSet())
    assert missing.rows.numbers().tolist() == [(7 << 32) + at for at in (10, 11, 12)]
    found = segment.ask(IsIn(pa.array([3])))
    assert found.nulls is None
    assert found.rows.numbers().tolist() == list(range(8))
    again, _, folder = bench.write(pa.array([None, 4]), None, [Source(segment)])
    assert again.ask(Missing()).exact is False
    assert b"null_bitmap" not in content(folder / FILE)[1]


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("fragment_id", pa.array([0, 1 << 32], pa.uint64())),
        ("zone_length", pa.array([0, 2**64 - 1], pa.uint64())),
        ("has_null", pa.array([True, None])),
        ("has_null", pa.array([1, 0])),
        ("bloom_filter_data", pa.array([b"\xff" * 32, None])),
        ("bloom_filter_data", pa.array([b"\xff" * 32, b"\xff" * 31])),
        ("bloom_filter_data", pa.array([b"", b"\xff" * 32])),
        ("bloom_filter_data", pa.array([1, 2])),
        ("bloom_filter_data", None),
    ],
)
def test_wrong_columns(bench: ZoneBench, column: str, array: pa.Array | None) -> None:
    columns = {name: good for name, good in GOOD.items() if name != column}
    if array is not None:
        columns[column] = array
    with pytest.raises(CorruptFile, match=FILE):
        KIND.open(made(bench, FILE, columns, {}), pa.int64()).ask(IsIn(pa.array([5])))


@pytest.mark.parametrize("text", ["0", "-5", "many"])
def test_wrong_metadata(bench: ZoneBench, text: str) -> None:
    for key in ("bloomfilter_item", "bloomfilter_probability", "null_bitmap"):
        if (key, text) != ("bloomfilter_probability", "0"):
            with pytest.raises(CorruptFile, match=FILE):
                KIND.open(made(bench, FILE, GOOD, {key: text}), pa.int64())


def test_flipped_bytes(tmp_path: Path) -> None:
    """Whatever bytes are damaged: an answer, or an error that names the file."""
    bench = ZoneBench(tmp_path / "t", VALUES["string"], KIND, ZONE)
    assert refused_flips(bench, FILE, (Missing(), IsIn(pa.array(list("abcdefghijkl"))))) > 20
