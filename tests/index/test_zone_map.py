"""ZONEMAP: answers that hold at least what brute force finds, and files equal to pylance's."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
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
from index.segments import Rows, batches, content
from index.zoned import UNORDERED, VALUES, ZoneBench, check, made, questions, refused_flips, truth
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.index.kind import Source
from lancelet.index.metadata import read_indices
from lancelet.index.questions import Between, HasItems, Holds, IsIn, Missing, StartsWith
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.zone_map import FILE, KIND
from lancelet.index.scalar.zones import ZoneCutter, Zones

ZONE = {"rows_per_zone": 16}


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal, where NaN is equal to NaN."""
    return left.schema == right.schema and repr(left.to_pylist()) == repr(right.to_pylist())


@pytest.mark.parametrize("name", VALUES)
def test_types(tmp_path: Path, name: str) -> None:
    values = VALUES[name]
    bench = ZoneBench(tmp_path / "t", values, KIND, ZONE, max_rows_per_file=max(1, len(values) // 2 + 1))
    rows = bench.dataset.to_table([], with_row_id=True)["_rowid"].to_numpy()
    theirs = bench.theirs()
    ours, built, folder = bench.write(values, rows, step=37, options=ZONE)
    for question in questions(values):
        if KIND.takes(question, values.type):
            check(theirs.ask(question), question, values, rows)
            check(ours.ask(question), question, values, rows)
            assert ours.ask(question).rows == theirs.ask(question).rows
        else:
            assert isinstance(question, StartsWith)
    assert (built.details, built.index_version) == (bench.entry.details, bench.entry.index_version)
    mine, metadata = content(folder / FILE)
    other, their_metadata = content(bench.folder(bench.entry) / FILE)
    assert same(mine, other)
    assert metadata == their_metadata
    if len(values):
        assert dict(ours.statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]
        assert ours.nbytes > 0


def test_zones_leave_rows_out(tmp_path: Path) -> None:
    """An ordered column: next to no zone is chosen in vain."""
    values = pa.array(range(1000))
    bench = ZoneBench(tmp_path / "t", values, KIND, ZONE)
    rows = np.arange(1000, dtype=np.uint64)
    for segment in (bench.theirs(), bench.write(values, options=ZONE)[0]):
        for question in (
            IsIn(pa.array([500])),
            IsIn(pa.array(range(480, 496))),
            Between(pa.scalar(100), pa.scalar(200), False, False),
            Between(pa.scalar(990), None, False),
        ):
            assert check(segment.ask(question), question, values, rows) < 32
        assert not segment.ask(IsIn(pa.array([-1, 5000]))).rows
        assert not segment.ask(Between(pa.scalar(999), None, False)).rows
        assert not segment.ask(Between(None, pa.scalar(0), True, False)).rows


@pytest.mark.parametrize("name", UNORDERED)
def test_types_without_order(tmp_path: Path, name: str) -> None:
    """Only nulls are known."""
    values = UNORDERED[name]
    bench = ZoneBench(tmp_path / "t", values, KIND, ZONE)
    ours, built, folder = bench.write(values, options=ZONE)
    rows = np.arange(len(values), dtype=np.uint64)
    for segment in (ours, bench.theirs(), bench.write(None, None, [Source(ours), Source(bench.theirs())])[0]):
        check(segment.ask(Missing()), Missing(), values, rows)
    assert built.details == bench.entry.details
    if name != "struct":
        assert same(content(folder / FILE)[0], content(bench.folder(bench.entry) / FILE)[0])
    assert KIND.takes(Missing(), values.type)
    assert not KIND.takes(IsIn(values[:1]), values.type)
    assert not KIND.takes(Between(None, None), values.type)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("name", ["int64", "float64", "string", "decimal128", "bool"])
def test_with_deleted_rows(tmp_path: Path, name: str, stable: bool) -> None:
    """A zone counts live rows; its file is the one that pylance writes, also after an append."""
    values = VALUES[name]
    for where in (tmp_path / "a", tmp_path / "b"):
        table = pa.table({"v": values, "k": range(len(values))})
        lance.write_dataset(table, where, max_rows_per_file=130, enable_stable_row_ids=stable)
        lance.dataset(where).delete("k % 5 = 1 or k < 7 or k between 100 and 140")
    config = IndexConfig("zonemap", ZONE)
    lance.dataset(tmp_path / "a").create_scalar_index("v", config)
    lancelet.dataset(tmp_path / "b").create_scalar_index("v", "ZONEMAP", **ZONE)
    for step in ("create", "optimize"):
        found = [_only_file(tmp_path / name) for name in "ab"]
        assert same(found[0][0], found[1][0]), step
        assert found[0][1] == found[1][1]
        lance.write_dataset(table.slice(0, 90), tmp_path / "a", mode="append")
        lancelet.write_dataset(table.slice(0, 90), tmp_path / "b", mode="append")
        lance.dataset(tmp_path / "a").optimize.optimize_indices()
        lancelet.dataset(tmp_path / "b").optimize.optimize_indices()
    left, right = (read_indices(lancelet.dataset(tmp_path / name)._snapshot.manifest)[0] for name in "ab")
    assert (left.details, left.fragment_ids, left.index_version) == (
        right.details,
        right.fragment_ids,
        right.index_version,
    )


def _only_file(where: Path) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    entry = read_indices(lancelet.dataset(where)._snapshot.manifest)[0]
    return content(where / "_indices" / str(entry.uuid) / FILE)


@pytest.mark.parametrize("name", ["int64", "float64", "string", "binary", "decimal128", "timestamp", "bool"])
def test_pylance_asks_ours(tmp_path: Path, name: str) -> None:
    values = VALUES[name]
    if name == "float64":
        # About NaN, pylance's own zones and its scan disagree.
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    lance.write_dataset(pa.table({"v": values}), tmp_path / "t", max_rows_per_file=170)
    lancelet.dataset(tmp_path / "t").create_scalar_index("v", "ZONEMAP", **ZONE)
    dataset = lance.dataset(tmp_path / "t")
    known = values.drop_null().unique()
    field = pc.field("v")
    for text in [
        field == known[0],
        field > known[1],
        field <= known[1],
        field.isin(known[: 1 if name == "bool" else 5].to_pylist()),
        field.is_null(),
        ~field.is_null(),
    ]:
        scans = [dataset.scanner(filter=text, with_row_id=True, use_scalar_index=use) for use in (True, False)]
        assert "ScalarIndexQuery" in scans[0].explain_plan()
        found = [sorted(scan.to_table()["_rowid"].to_pylist()) for scan in scans]
        assert found[0] == found[1]


def test_appended_to_by_both(tmp_path: Path) -> None:
    """pylance goes on with our segment, and we with one for which pylance keeps summaries in data files (seeds)."""
    values = VALUES["string"]
    table = pa.table({"v": values, "k": range(len(values))})
    lance.write_dataset(table, tmp_path / "t")
    lancelet.dataset(tmp_path / "t").create_scalar_index("v", "ZONEMAP", **ZONE)
    for append, engine in ((lancelet, lance), (lance, lancelet), (lance, lance), (lancelet, lancelet)):
        append.write_dataset(table, tmp_path / "t", mode="append")
        engine.dataset(tmp_path / "t").optimize.optimize_indices()
        ours = lancelet.dataset(tmp_path / "t")
        entry = read_indices(ours._snapshot.manifest)[0]
        assert len(entry.fragment_ids or ()) == len(ours.get_fragments())
        for text in ("v = 'abc'", "v is null", "v > 'b'", "v like 'ab%'"):
            truth = ours.to_table(["v"], filter=text, use_scalar_index=False)
            assert ours.to_table(["v"], filter=text).equals(truth)
            assert lance.dataset(tmp_path / "t").to_table(["v"], filter=text).equals(truth)


def _moved(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Every third row is gone, the others moved up; those behind row 100 went into a fragment of their own."""
    kept = rows % np.uint64(3) != 0
    up = rows - rows // np.uint64(3)
    return np.where(rows > 100, up + np.uint64(5 << 32), up), kept


@pytest.mark.parametrize("name", ["int64", "float64", "string", "all null", "no rows"])
def test_merged_and_renamed(tmp_path: Path, name: str) -> None:
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
    assert content(folder / FILE)[1][b"rows_per_zone"] == b"16"


def test_rows_that_are_gone_leave_no_zone(tmp_path: Path) -> None:
    bench = ZoneBench(tmp_path / "t", pa.array([*range(99), None]), KIND, ZONE)
    kept, _, folder = bench.write(None, None, [Source(bench.theirs(), lambda rows: (rows, rows == 40))])
    assert content(folder / FILE)[0].drop_columns(["null_count", "nan_count"]).to_pylist() == [
        {"min": 32, "max": 47, "fragment_id": 0, "zone_start": 40, "zone_length": 1}
    ]
    assert kept.ask(Missing()).rows == RowSet()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.one_of(st.none(), st.integers(-9, 9))), max_size=60),
    st.integers(1, 7),
    st.integers(1, 9),
)
def test_cutting(drawn: list[tuple[int, int, int | None]], size: int, step: int) -> None:
    """Zones of so many rows each, whatever the batches are."""
    addresses, want = [], []
    fragment = offset = count = 0
    for skip, gap, _ in drawn:
        new = skip == 0 and addresses
        fragment, offset = (fragment + 1, gap) if new else (fragment, offset + gap)
        addresses.append(fragment << 32 | offset)
        if new or count == size or not want:
            want.append([fragment, offset, offset + 1])
            count = 0
        want[-1][2] = offset + 1
        count += 1
    cutter = ZoneCutter(size)
    found: list[list[int]] = []
    for start in range(0, len(addresses), step):
        pieces = cutter.cut(np.array(addresses[start : start + step], np.uint64))
        zones = np.stack([pieces.zones.fragments, pieces.zones.starts, pieces.zones.stops], axis=1).tolist()
        if pieces.goes_on:
            found[-1][2] = zones.pop(0)[2]
        found += zones
    assert found == want


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> ZoneBench:
    return ZoneBench(tmp_path_factory.mktemp("bench") / "t", pa.array([1, 2, None]), KIND, {})


FLOATS = st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.lists(st.one_of(st.none(), st.integers(-20, 20)), max_size=50).map(lambda v: pa.array(v, pa.int16())),
        st.lists(FLOATS, max_size=50).map(lambda v: pa.array(v, pa.float64())),
        st.lists(st.one_of(st.none(), st.text("ab\u00e9\U0001f600", max_size=3)), max_size=50).map(
            lambda v: pa.array(v, pa.string())
        ),
    ),
    st.integers(1, 9),
    st.integers(1, 12),
)
def test_drawn_columns(bench: ZoneBench, values: pa.Array, size: int, step: int) -> None:
    kept = bench.dtype
    bench.dtype = values.type
    try:
        segment, _, folder = bench.write(values, step=step, options={"rows_per_zone": size})
    finally:
        bench.dtype = kept
    rows = np.arange(len(values), dtype=np.uint64)
    for question in questions(values):
        if KIND.takes(question, values.type):
            check(segment.ask(question), question, values, rows)
    shutil.rmtree(folder)


def test_options() -> None:
    for options, text in (
        ({"rows_per_zone": 0}, "at least 1"),
        ({"rows_per_zone": "many"}, "'many'"),
        ({"use_seeds": 3}, "True or False"),
        ({"bins": 3}, "bins"),
    ):
        with pytest.raises(InvalidInput, match=text):
            KIND.check(pa.field("v", pa.int8()), options)
    KIND.check(pa.field("v", pa.int8()), {"rows_per_zone": 5, "use_seeds": True})
    json = pa.field("v", pa.string(), metadata={"ARROW:extension:name": "lance.json"})
    with pytest.raises(InvalidInput, match="JSON"):
        KIND.check(json, {})
    assert not KIND.takes(Holds(("abc",), True), pa.string())
    assert not KIND.takes(HasItems(pa.array([1]), True), pa.list_(pa.int64()))
    assert not KIND.takes(Missing(), pa.null())


def test_options_go_on(bench: ZoneBench) -> None:
    built = bench.write(pa.array([1]), options={"rows_per_zone": 5, "use_seeds": True})[1]
    assert KIND.options(replace(bench.entry, details=built.details)) == {"rows_per_zone": 5, "use_seeds": True}
    assert KIND.options(replace(bench.entry, details=b"")) == {}
    assert KIND.options(replace(bench.entry, details=b"\xff\xff")) == {}


# Files of other makers, and damaged ones.

GOOD: dict[str, pa.Array] = {
    "min": pa.array([1, None], pa.int64()),
    "max": pa.array([5, None], pa.int64()),
    "null_count": pa.array([0, 3], pa.uint32()),
    "nan_count": pa.array([0, 0], pa.uint32()),
    "fragment_id": pa.array([0, 7], pa.uint64()),
    "zone_start": pa.array([0, 10], pa.uint64()),
    "zone_length": pa.array([8, 3], pa.uint64()),
}


def test_without_a_null_bitmap(bench: ZoneBench) -> None:
    """Older files: nulls are somewhere in the zones that count some."""
    segment = KIND.open(made(bench, FILE, GOOD, {}), pa.int64())
    missing = segment.ask(Missing())
    assert (missing.exact, missing.nulls) == (False, RowSet())
    assert missing.rows.numbers().tolist() == [(7 << 32) + at for at in (10, 11, 12)]
    found = segment.ask(IsIn(pa.array([3])))
    assert found.nulls is None
    assert found.rows.numbers().tolist() == list(range(8))
    again, built, folder = bench.write(pa.array([None, 4]), None, [Source(segment)])
    assert again.ask(Missing()).exact is False
    assert b"null_bitmap" not in content(folder / FILE)[1]
    assert built.details == bytes.fromhex("08804010001800")


def test_nulls_as_whole_fragments(bench: ZoneBench) -> None:
    segment = KIND.open(made(bench, FILE, GOOD, {"null_bitmap": "1"}, RowSet.whole([7]).serialize()), pa.int64())
    assert segment.ask(Missing()).rows == RowSet.whole([7])
    again, _, _ = bench.write(None, None, [Source(segment, lambda rows: (rows, np.ones(len(rows), np.bool_)))])
    assert not again.ask(Missing()).exact
    assert again.ask(Missing()).rows.fragments == {7}


def test_another_type(bench: ZoneBench) -> None:
    """All zones stay possible; such zones cannot go on."""
    segment = KIND.open(made(bench, FILE, GOOD, {}), pa.int32())
    assert len(segment.ask(IsIn(pa.array([99], pa.int32()))).rows) == 11
    narrow = {**GOOD, "min": GOOD["min"].cast(pa.int32()), "max": GOOD["max"].cast(pa.int32())}
    with pytest.raises(InvalidInput, match="create it again"):
        bench.write(None, None, [Source(KIND.open(made(bench, FILE, narrow, {}), pa.int32()))])


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("fragment_id", pa.array([0, 1 << 32], pa.uint64())),
        ("fragment_id", pa.array([0, 1], pa.uint32())),
        ("zone_start", pa.array([0, None], pa.uint64())),
        ("zone_start", pa.array([0, 2**32 - 1], pa.uint64())),
        ("zone_length", pa.array([0, 2**64 - 1], pa.uint64())),
        ("null_count", pa.array([0, 0], pa.int64())),
        ("nan_count", pa.array([0, None], pa.uint32())),
        ("max", pa.array([5, None], pa.int32())),
        ("max", pa.array([None, None], pa.int64())),
        ("zone_length", None),
    ],
)
def test_wrong_columns(bench: ZoneBench, column: str, array: pa.Array | None) -> None:
    columns = {name: good for name, good in GOOD.items() if name != column}
    if array is not None:
        columns[column] = array
    with pytest.raises(CorruptFile, match=FILE):
        KIND.open(made(bench, FILE, columns, {}), pa.int64())


@pytest.mark.parametrize(
    ("metadata", "buffer"),
    [
        ({"rows_per_zone": "many"}, None),
        ({"rows_per_zone": "0"}, None),
        ({"null_bitmap": "1"}, None),
        ({"null_bitmap": "0"}, b""),
        ({"null_bitmap": "-1"}, b""),
        ({"null_bitmap": "1"}, b"\x01\0\0\0"),
    ],
)
def test_wrong_metadata(bench: ZoneBench, metadata: dict[str, str], buffer: bytes | None) -> None:
    with pytest.raises(CorruptFile, match=FILE):
        KIND.open(made(bench, FILE, GOOD, metadata, buffer), pa.int64())


def test_flipped_bytes(tmp_path: Path) -> None:
    """Whatever bytes are damaged: an answer, or an error that names the file."""
    bench = ZoneBench(tmp_path / "t", VALUES["string"], KIND, ZONE)
    asked = (Missing(), Between(None, None), StartsWith("a"), IsIn(pa.array(list("abcdefghijkl"))))
    assert refused_flips(bench, FILE, asked) > 20


def test_long_zones_are_followed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancelet.index.scalar.zones._FOLLOWED_AT_ONCE", 10)
    zones = Zones(np.array([0, 0, 1]), np.array([0, 25, 3]), np.array([25, 30, 7]))
    which, found = zones.followed(lambda rows: (rows + np.uint64(2 << 32), rows % np.uint64(2) == 0))
    assert which.tolist() == [0, 0, 0, 1, 2]
    assert found.fragments.tolist() == [2, 2, 2, 2, 3]
    assert list(zip(found.starts.tolist(), found.stops.tolist(), strict=True)) == [
        (0, 9),
        (10, 19),
        (20, 25),
        (26, 29),
        (4, 7),
    ]


def test_brute_force_is_what_it_says() -> None:
    values = pa.array([1.0, None, math.nan, -0.0])
    assert truth(values, IsIn(pa.array([0.0, math.nan]))).tolist() == [False, False, True, True]
    assert [batch.num_rows for batch in batches(values, np.arange(4, dtype=np.uint64), 3)] == [3, 1]
