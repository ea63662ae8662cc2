"""BLOOMFILTER: what it has of its own, beside :mod:`index.test_kinds`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from index.segments import Workbench, content
from index.truths import NEAR, check_most, moved_up, numbered, questions
from lancelet.errors import InvalidInput
from lancelet.index.kind import Source
from lancelet.index.questions import Between, IsIn, Missing
from lancelet.index.scalar.bloom import hash_fixed, hash_spans, insert, probe
from lancelet.index.scalar.bloom_filter import KIND
from lancelet.index.scalar.bloom_filter_segment import FILE, filter_bytes

ZONE = {"number_of_items": 16, "probability": 0.01}


def test_zones_leave_rows_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = pa.array(rng.integers(0, 2**60, 5000))
    bench = Workbench(tmp_path / "t", values, KIND, {"number_of_items": 100, "probability": 0.001})
    rows = np.arange(5000, dtype=np.uint64)
    segment = bench.theirs()
    for at in (0, 77, 4999):
        question = IsIn(values[at : at + 1])
        assert check_most(segment.ask(question), question, values, rows) < 400
    assert len(segment.ask(IsIn(pa.array(range(20)))).rows) < 1000


@pytest.mark.parametrize("items", [1, 7, 1000, 8192, 100_000])
@pytest.mark.parametrize("probability", [0.5, 0.1, 0.00057, 1e-6])
def test_sizes(tmp_path: Path, items: int, probability: float) -> None:
    """Filters are as large as pylance's."""
    parameters = {"number_of_items": items, "probability": probability}
    bench = Workbench(tmp_path / "t", pa.array([5]), KIND, parameters)
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


def test_filters_that_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again for every question."""
    monkeypatch.setattr("lancelet.index.scalar.bloom_filter_segment._KEPT", 0)
    monkeypatch.setattr("lancelet.index.scalar.bloom_filter_segment._AT_ONCE", 200)
    values = NEAR["string"]
    bench = Workbench(tmp_path / "t", values, KIND, ZONE)
    rows = numbered(values)
    merged, _, _ = bench.write(values, rows + np.uint64(9 << 32), [Source(bench.theirs(), moved_up)])
    moved, kept = moved_up(rows)
    everything = pa.concat_arrays([values.filter(pa.array(kept)), values])
    for question in questions(values, KIND):
        check_most(merged.ask(question), question, everything, np.append(moved[kept], rows + np.uint64(9 << 32)))


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
    unfit = (pa.binary(3), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.int8()), pa.struct([("a", pa.int8())]))
    for dtype in (*unfit, pa.bool_(), pa.float16(), pa.decimal128(5), pa.duration("s"), pa.null()):
        with pytest.raises(ValueError, match="BLOOMFILTER index takes"):
            KIND.check(pa.field("v", dtype), {})
        assert not KIND.takes(Missing(), dtype)
    assert not KIND.takes(Between(None, None), pa.int8())
