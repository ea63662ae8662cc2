"""Files of zones (ZONEMAP and BLOOMFILTER) that other writers could have left, and columns of any kind."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawing import examples
from index.segments import Workbench, content, made
from index.truths import check_most, numbered, questions
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.index.kind import Segment, Source
from lancelet.index.questions import IsIn, Missing
from lancelet.index.registry import kind_named
from lancelet.index.row_set import RowSet

ZONES: dict[str, pa.Array] = {
    "fragment_id": pa.array([0, 7], pa.uint64()),
    "zone_start": pa.array([0, 10], pa.uint64()),
    "zone_length": pa.array([8, 3], pa.uint64()),
}
GOOD: dict[str, tuple[str, dict[str, pa.Array]]] = {
    "ZONEMAP": (
        "zonemap.lance",
        {
            "min": pa.array([1, None], pa.int64()),
            "max": pa.array([5, None], pa.int64()),
            "null_count": pa.array([0, 3], pa.uint32()),
            "nan_count": pa.array([0, 0], pa.uint32()),
            **ZONES,
        },
    ),
    # Filters may be of different sizes.
    "BLOOMFILTER": (
        "bloomfilter.lance",
        {**ZONES, "has_null": pa.array([False, True]), "bloom_filter_data": pa.array([b"\xff" * 64, bytes(32)])},
    ),
}
IN_THE_SECOND = [(7 << 32) + at for at in (10, 11, 12)]


class Forger:
    """Makes segments of one kind."""

    def __init__(self, where: Path, name: str) -> None:
        self.bench = Workbench(where, pa.array([1, 2, None]), kind_named(name))
        self.file, self.columns = GOOD[name]

    def open(
        self,
        columns: Mapping[str, pa.Array | None],
        metadata: Mapping[str, str] | None = None,
        buffer: bytes | None = None,
        dtype: pa.DataType = pa.int64(),  # noqa: B008
    ) -> Segment:
        """A segment of the good columns, with some others or without some."""
        chosen = {name: array for name, array in {**self.columns, **columns}.items() if array is not None}
        return self.bench.kind.open(made(self.bench, self.file, chosen, metadata, buffer), dtype)


@pytest.fixture(scope="module", params=GOOD)
def forger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Forger:
    return Forger(tmp_path_factory.mktemp("forged") / "t", request.param)


def test_without_a_null_bitmap(forger: Forger) -> None:
    """Older files: nulls are somewhere in the zones that have some."""
    segment = forger.open({})
    missing = segment.ask(Missing())
    assert (missing.exact, missing.nulls) == (False, RowSet())
    assert missing.rows.numbers().tolist() == IN_THE_SECOND
    found = segment.ask(IsIn(pa.array([3])))
    assert found.nulls is None
    assert found.rows.numbers().tolist() == list(range(8))
    again, built, folder = forger.bench.write(pa.array([None, 4]), None, [Source(segment)])
    assert again.ask(Missing()).exact is False
    assert b"null_bitmap" not in content(folder / forger.file)[1]
    assert built.details == (bytes.fromhex("08804010001800") if "zonemap" in forger.file else b"")


def test_nulls_as_whole_fragments(forger: Forger) -> None:
    segment = forger.open({}, {"null_bitmap": "1"}, RowSet.whole([7]).serialize())
    assert segment.ask(Missing()).rows == RowSet.whole([7])
    again, _, _ = forger.bench.write(None, None, [Source(segment)])
    assert again.ask(Missing()).rows == RowSet.whole([7])
    source = Source(segment, lambda rows: (rows + 1, rows & 1 == 0), {7: 13}.__getitem__)
    moved, _, _ = forger.bench.write(None, None, [source])
    assert moved.ask(Missing()).exact
    assert moved.ask(Missing()).rows.numbers().tolist() == [(7 << 32) + at for at in range(1, 14, 2)]


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("fragment_id", pa.array([0, 1 << 32], pa.uint64())),
        ("fragment_id", pa.array([0, 1], pa.uint32())),
        ("zone_start", pa.array([0, None], pa.uint64())),
        ("zone_start", pa.array([0, 2**32 - 1], pa.uint64())),
        ("zone_length", pa.array([0, 2**64 - 1], pa.uint64())),
        ("zone_length", None),
        ("null_count", pa.array([0, 0], pa.int64())),
        ("nan_count", pa.array([0, None], pa.uint32())),
        ("max", pa.array([5, None], pa.int32())),
        ("max", pa.array([None, None], pa.int64())),
        ("has_null", pa.array([True, None])),
        ("has_null", pa.array([1, 0])),
        ("bloom_filter_data", pa.array([b"\xff" * 32, None])),
        ("bloom_filter_data", pa.array([b"\xff" * 32, b"\xff" * 31])),
        ("bloom_filter_data", pa.array([b"", b"\xff" * 32])),
        ("bloom_filter_data", pa.array([1, 2])),
        ("bloom_filter_data", None),
    ],
)
def test_wrong_columns(forger: Forger, column: str, array: pa.Array | None) -> None:
    if column not in forger.columns:
        assert forger.open({column: array}).ask(IsIn(pa.array([5]))).rows == RowSet.ranges([0], [0], [8])
        return
    with pytest.raises(CorruptFile, match=forger.file):
        forger.open({column: array}).ask(IsIn(pa.array([5])))


@pytest.mark.parametrize(
    ("key", "text", "buffer"),
    [
        ("null_bitmap", "1", None),
        ("null_bitmap", "0", b""),
        ("null_bitmap", "-1", b""),
        ("null_bitmap", "1", b"\x01\0\0\0"),
        *((key, text, None) for key in ("rows_per_zone", "bloomfilter_item") for text in ("many", "0", "-5")),
        *(("bloomfilter_probability", text, None) for text in ("rare", "1", "-0.5", "nan")),
    ],
)
def test_wrong_metadata(forger: Forger, key: str, text: str, buffer: bytes | None) -> None:
    if key != "null_bitmap" and (key == "rows_per_zone") != ("zonemap" in forger.file):
        forger.open({}, {key: text})
        return
    with pytest.raises(CorruptFile, match=forger.file):
        forger.open({}, {key: text}, buffer)


@pytest.mark.parametrize("forger", ["ZONEMAP"], indirect=True)
def test_bounds_of_another_type(forger: Forger) -> None:
    """All zones stay possible; such zones cannot go on."""
    segment = forger.open({}, dtype=pa.int32())
    assert len(segment.ask(IsIn(pa.array([99], pa.int32()))).rows) == 11
    narrow = {name: forger.columns[name].cast(pa.int32()) for name in ("min", "max")}
    with pytest.raises(InvalidInput, match="create it again"):
        forger.bench.write(None, None, [Source(forger.open(narrow, dtype=pa.int32()))])


FLOATS = st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]))
COLUMNS = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-20, 20)), max_size=50).map(lambda v: pa.array(v, pa.int16())),
    st.lists(FLOATS, max_size=50).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.one_of(st.none(), st.text("ab\u00e9\U0001f600", max_size=3)), max_size=50).map(
        lambda v: pa.array(v, pa.string())
    ),
    st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=50).map(lambda v: pa.array(v, pa.binary())),
)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(COLUMNS, st.integers(1, 9), st.integers(1, 12))
def test_drawn_columns(forger: Forger, values: pa.Array, size: int, step: int) -> None:
    bench = forger.bench
    kept, bench.dtype = bench.dtype, values.type
    options = {"rows_per_zone": size} if "zonemap" in forger.file else {"number_of_items": size, "probability": 0.3}
    try:
        segment, _, folder = bench.write(values, step=step, options=options)
    finally:
        bench.dtype = kept
    for question in questions(values, bench.kind):
        check_most(segment.ask(question), question, values, numbered(values))
    shutil.rmtree(folder)


def test_addresses_are_of_rows(forger: Forger) -> None:
    """Zones of rows that moved name the fragments where these are now."""
    segment = forger.open({}, {"null_bitmap": "1"}, RowSet.of(np.array(IN_THE_SECOND, np.uint64)).serialize())
    moved, _, folder = forger.bench.write(
        None, None, [Source(segment, lambda rows: (rows + np.uint64(1 << 32), rows < 5))]
    )
    table = content(folder / forger.file)[0]
    assert [table[name].to_pylist() for name in ZONES] == [[1], [0], [5]]
    assert not moved.ask(Missing()).rows
