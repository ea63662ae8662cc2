"""Deletion files: both kinds, the strict checks, and arithmetic on the set."""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lancelet.errors import CorruptFile, LanceletError
from lancelet.table.rows.deletions import (
    ARROW_SCHEMA,
    NO_DELETIONS,
    DeletionVector,
    ascending,
    parse_arrow,
    parse_bitmap,
)


def arrow(*batches: list[int], schema: pa.Schema = ARROW_SCHEMA, compression: str | None = "zstd") -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch([pa.array(batch, schema.field(0).type)], schema=schema))
    return sink.getvalue()


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_files(compression: str | None) -> None:
    offsets = parse_arrow(arrow([5, 1, 99, 5], compression=compression), "file", 100)
    assert offsets.tolist() == [1, 5, 99]
    assert offsets.dtype == np.uint32


def test_bitmap_files() -> None:
    assert parse_bitmap(BitMap([5, 1, 99]).serialize(), "file", 100).tolist() == [1, 5, 99]


@pytest.mark.parametrize(
    "data, reason",
    [
        (arrow([100]), "deletes row 100 of a fragment with 100 rows"),
        (arrow([1], [2]), "has 2 batches"),
        (arrow(), "has 0 batches"),
        (arrow([1], schema=pa.schema([pa.field("row_id", pa.int32(), nullable=False)])), "uint32"),
        (arrow([1], schema=pa.schema([pa.field("row_id", pa.uint32())])), "not null"),
        (arrow([1], schema=pa.schema([pa.field("other", pa.uint32(), nullable=False)])), "row_id"),
        (arrow([1])[:-20], "not an Arrow file"),
        (b"", "not an Arrow file"),
    ],
)
def test_strict_checks_of_arrow_files(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        parse_arrow(data, "file", 100)


def test_bitmaps_beyond_the_rows() -> None:
    with pytest.raises(CorruptFile, match="deletes row 100"):
        parse_bitmap(BitMap([100]).serialize(), "file", 100)
    with pytest.raises(CorruptFile, match="at most 100"):
        parse_bitmap(BitMap(range(101)).serialize(), "file", 100)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_changed_bytes_of_arrow_files_give_our_errors_only(compression: str | None) -> None:
    draw = random.Random(1)
    good = arrow(draw.sample(range(5000), 800), compression=compression)
    for _ in range(400):
        data = bytearray(good)
        for _ in range(draw.choice([1, 1, 3])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        cut = draw.randrange(len(data)) if draw.random() < 0.2 else len(data)
        try:
            offsets = parse_arrow(bytes(data[:cut]), "file", 5000)
        except LanceletError:
            continue
        assert len(offsets) <= 5000
        assert not len(offsets) or offsets[-1] < 5000


@given(st.sets(st.integers(0, 199)), st.integers(0, 200), st.integers(0, 200))
def test_arithmetic(gone: set[int], one: int, other: int) -> None:
    vector = DeletionVector(np.array(sorted(gone), np.uint32))
    start, stop = sorted((one, other))
    expected = [row not in gone for row in range(start, stop)]
    assert vector.keep(start, stop).tolist() == expected
    assert vector.count(start, stop) == expected.count(False)
    assert vector.contains(np.arange(200)).tolist() == [row in gone for row in range(200)]
    live = [row for row in range(200) if row not in gone]
    assert vector.physical(np.arange(len(live))).tolist() == live
    assert set(vector.bitmap()) == gone


@given(st.lists(st.integers(0, 2**32 - 1)), st.sampled_from([np.uint32, np.int64]))
def test_offsets_in_any_order_become_a_set(offsets: list[int], kind: type[np.integer]) -> None:
    found = ascending(np.array(offsets, kind))
    assert found.dtype == kind
    assert found.tolist() == sorted(set(offsets))


@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)))
def test_deleted_rows_and_others_are_joined_in_order(gone: set[int], more: set[int]) -> None:
    vector = DeletionVector(np.array(sorted(gone), np.uint32))
    joined = vector.joined(np.array(sorted(more - gone), np.uint32))
    assert joined.dtype == np.uint32
    assert joined.tolist() == sorted(gone | more)


def test_no_deletions() -> None:
    assert NO_DELETIONS.keep(3, 6).all()
    assert NO_DELETIONS.physical(np.array([4])).tolist() == [4]
