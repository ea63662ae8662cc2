"""ZONEMAP: what it has of its own, beside :mod:`index.test_kinds`; zones."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancelet
from index.segments import Workbench, batches, content
from index.truths import NEAR, check_most, near, truth
from lancelet.errors import InvalidInput
from lancelet.index.folder import IndexFolder
from lancelet.index.kind import Source
from lancelet.index.metadata import read_indices
from lancelet.index.questions import Between, HasItems, Holds, IsIn, Missing
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.zone_map import KIND
from lancelet.index.scalar.zone_map_segment import FILE
from lancelet.index.zones import ZoneCutter, Zones

ZONE = {"rows_per_zone": 16}
UNORDERED: dict[str, pa.Array] = {
    "fixed": near([b"abc", b"abd"], pa.binary(3)),
    "dictionary": near(["a", "b"], pa.string()).dictionary_encode(),
    "list": near([[1], [], [2, None]], pa.list_(pa.int32())),
    "struct": near([{"a": 1}, {"a": None}], pa.struct([("a", pa.int32())])),
    "vector": near([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
}


def test_zones_leave_rows_out(tmp_path: Path) -> None:
    """An ordered column: next to no zone is chosen in vain."""
    values = pa.array(range(1000))
    bench = Workbench(tmp_path / "t", values, KIND, ZONE)
    rows = np.arange(1000, dtype=np.uint64)
    for segment in (bench.theirs(), bench.write(values, options=ZONE)[0]):
        for question in (
            IsIn(pa.array([500])),
            IsIn(pa.array(range(480, 496))),
            Between(pa.scalar(100), pa.scalar(200), False, False),
            Between(pa.scalar(990), None, False),
        ):
            assert check_most(segment.ask(question), question, values, rows) < 32
        assert not segment.ask(IsIn(pa.array([-1, 5000]))).rows
        assert not segment.ask(Between(pa.scalar(999), None, False)).rows
        assert not segment.ask(Between(None, pa.scalar(0), True, False)).rows


@pytest.mark.parametrize("name", UNORDERED)
def test_types_without_order(tmp_path: Path, name: str) -> None:
    """Only nulls are known."""
    values = UNORDERED[name]
    bench = Workbench(tmp_path / "t", values, KIND, ZONE)
    ours, built, folder = bench.write(values, options=ZONE)
    rows = np.arange(len(values), dtype=np.uint64)
    for segment in (ours, bench.theirs(), bench.write(None, None, [Source(ours), Source(bench.theirs())])[0]):
        check_most(segment.ask(Missing()), Missing(), values, rows)
    assert built.details == bench.entry.details
    if name != "struct":
        assert content(folder / FILE)[0] == content(bench.folder(bench.entry) / FILE)[0]
    assert KIND.takes(Missing(), values.type)
    assert not KIND.takes(IsIn(values[:1]), values.type)
    assert not KIND.takes(Between(None, None), values.type)


def test_appended_to_by_both(tmp_path: Path) -> None:
    """pylance goes on with our segment, and we with one for which pylance keeps summaries in data files (seeds)."""
    values = NEAR["string"]
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


def test_rows_that_are_gone_leave_no_zone(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "t", pa.array([*range(99), None]), KIND, ZONE)
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
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("bench") / "t", pa.array([1, 2, None]), KIND, {})


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


def test_options_go_on(bench: Workbench) -> None:
    built = bench.write(pa.array([1]), options={"rows_per_zone": 5, "use_seeds": True})[1]
    for details, options in ((built.details, {"rows_per_zone": 5, "use_seeds": True}), (b"", {}), (b"\xff\xff", {})):
        assert KIND.options(IndexFolder(bench.snapshot, replace(bench.entry, details=details))) == options


def test_long_zones_are_followed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancelet.index.zones._FOLLOWED_AT_ONCE", 10)
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
