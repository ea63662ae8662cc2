"""Row id and version sequences: every kind of segment, against a list of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from lancelet.errors import CorruptFile
from lancelet.format.proto import rowids_pb2
from lancelet.table.rows.deletions import NO_DELETIONS, DeletionVector
from lancelet.table.rows.row_id_index import build_row_id_index
from lancelet.table.rows.row_ids import RowIdSequence, parse_row_ids, parse_versions

TOP = 2**64 - 1


def encoded(values: list[int]) -> rowids_pb2.EncodedU64Array:
    message = rowids_pb2.EncodedU64Array()
    base = min(values, default=0)
    spread = max(values, default=0) - base
    offsets = np.array(values, np.uint64) - np.uint64(base)
    if spread < 2**16:
        message.u16_array.base = base
        message.u16_array.offsets = offsets.astype("<u2").tobytes()
    elif spread < 2**32:
        message.u32_array.base = base
        message.u32_array.offsets = offsets.astype("<u4").tobytes()
    else:
        message.u64_array.values = np.array(values, "<u8").tobytes()
    return message


@st.composite
def segments(draw: st.DrawFn) -> tuple[rowids_pb2.U64Segment, list[int]]:
    """A segment and the numbers that it stands for."""
    message = rowids_pb2.U64Segment()
    start = draw(
        st.one_of(st.integers(0, 1000), st.integers(2**63 - 50, 2**63 + 50), st.integers(TOP - 200, TOP - 100))
    )
    length = draw(st.integers(0, 100))
    full = list(range(start, start + length))
    kind = draw(st.sampled_from(["range", "holes", "bitmap", "sorted", "array"]))
    missing = set(draw(st.lists(st.sampled_from(full), unique=True))) if full else set()
    kept = [value for value in full if value not in missing]
    if kind == "range":
        message.range.start, message.range.end = start, start + length
        message.range.SetInParent()
        return message, full
    if kind == "holes":
        message.range_with_holes.start, message.range_with_holes.end = start, start + length
        message.range_with_holes.holes.CopyFrom(encoded(sorted(missing)))
        return message, kept
    if kind == "bitmap":
        message.range_with_bitmap.start, message.range_with_bitmap.end = start, start + length
        bits = np.array([value in set(kept) for value in full], np.bool_)
        message.range_with_bitmap.bitmap = np.packbits(bits, bitorder="little").tobytes()
        message.range_with_bitmap.SetInParent()
        return message, kept
    values = kept + draw(st.lists(st.integers(0, TOP), max_size=3))
    if kind == "sorted":
        message.sorted_array.CopyFrom(encoded(sorted(values)))
        return message, sorted(values)
    values = draw(st.permutations(values))
    message.array.CopyFrom(encoded(list(values)))
    return message, list(values)


SEQUENCES = st.lists(segments(), max_size=6)


@given(SEQUENCES, st.data())
def test_ids_of_rows(drawn: list[tuple[rowids_pb2.U64Segment, list[int]]], data: st.DataObject) -> None:
    message = rowids_pb2.RowIdSequence(segments=[segment for segment, _ in drawn])
    expected = np.array([value for _, values in drawn for value in values], np.uint64)
    count = len(expected)
    sequence = parse_row_ids(message.SerializeToString(), count, "file", "place")
    assert len(sequence) == count
    assert np.array_equal(sequence.slice(0, count), expected)
    assert np.array_equal(RowIdSequence.from_values(expected).slice(0, count), expected)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    assert np.array_equal(sequence.slice(start, stop), expected[start:stop])
    if count:
        rows = np.array(data.draw(st.lists(st.integers(0, count - 1), max_size=10)), np.int64)
        assert np.array_equal(sequence.take(rows), expected[rows])
    for wrong in (count + 1, count - 1):
        if wrong >= 0:
            with pytest.raises(CorruptFile, match="rows"):
                parse_row_ids(message.SerializeToString(), wrong, "file", "place")


@given(SEQUENCES)
def test_only_the_size_of_a_span_counts(drawn: list[tuple[rowids_pb2.U64Segment, list[int]]]) -> None:
    message = rowids_pb2.RowDatasetVersionSequence()
    expected: list[int] = []
    for number, (segment, values) in enumerate(drawn):
        message.runs.add(span=segment, version=number + 5)
        expected += [number + 5] * len(values)
    count = len(expected)
    sequence = parse_versions(message.SerializeToString(), count, "file", "place")
    assert sequence.slice(0, count).tolist() == expected
    assert sequence.slice(count // 3, count // 2).tolist() == expected[count // 3 : count // 2]
    assert sequence.take(np.arange(count)).tolist() == expected
    with pytest.raises(CorruptFile, match="versions for"):
        parse_versions(message.SerializeToString(), count + 1, "file", "place")


def reference(segment: rowids_pb2.U64Segment) -> list[int] | None:
    """The values of a segment, the slow way; None when it makes no sense."""
    kind = segment.WhichOneof("segment")
    if kind == "range":
        low, high = segment.range.start, segment.range.end
        return list(range(low, high)) if low <= high <= low + 5000 else None
    if kind is None:
        return None
    sequence = rowids_pb2.RowIdSequence(segments=[segment])
    for count in range(200):
        try:
            return parse_row_ids(sequence.SerializeToString(), count, "file", "place").slice(0, count).tolist()
        except CorruptFile as error:
            if "ids for" not in error.reason:
                return None
    return None


@given(SEQUENCES, st.randoms(use_true_random=False), st.booleans())
def test_changed_bytes_mean_what_protobuf_says(
    drawn: list[tuple[rowids_pb2.U64Segment, list[int]]], random: st.random_module, insert: bool
) -> None:
    data = bytearray(rowids_pb2.RowIdSequence(segments=[segment for segment, _ in drawn]).SerializeToString())
    at = random.randrange(len(data) + 1)
    if insert:
        data[at:at] = bytes([random.choice([0x08, 0x0A, 0x10, 0x12, 0x18, 0x80, 0x00]), random.randrange(4)])
    elif at < len(data):
        data[at] ^= 1 << random.randrange(8)
    try:
        message = rowids_pb2.RowIdSequence.FromString(bytes(data))
    except DecodeError:
        with pytest.raises(CorruptFile):
            parse_row_ids(bytes(data), 0, "file", "place")
        return
    parts = [reference(segment) for segment in message.segments]
    count = sum(len(part) for part in parts if part is not None)
    if None in parts:
        with pytest.raises(CorruptFile):
            parse_row_ids(bytes(data), count, "file", "place")
    else:
        expected = [value for part in parts if part is not None for value in part]
        assert parse_row_ids(bytes(data), count, "file", "place").slice(0, count).tolist() == expected


def test_unusual_but_legal_bytes() -> None:
    range_backwards = bytes.fromhex("1005" + "0803")
    unknown = bytes.fromhex("9801" + "07")
    segment = bytes([0x0A, len(range_backwards)]) + range_backwards
    data = unknown + bytes([0x0A, len(segment)]) + segment + unknown
    assert parse_row_ids(data, 2, "file", "place").slice(0, 2).tolist() == [3, 4]
    run = bytes.fromhex("1009") + bytes([0x0A, len(segment)]) + segment
    data = bytes([0x0A, len(run)]) + run
    assert parse_versions(data, 2, "file", "place").slice(0, 2).tolist() == [9, 9]


def one(**segment: object) -> bytes:
    return rowids_pb2.RowIdSequence(segments=[rowids_pb2.U64Segment(**segment)]).SerializeToString()  # type: ignore[arg-type]


def test_the_bit_order_of_the_spec() -> None:
    data = one(range_with_bitmap={"start": 0, "end": 10, "bitmap": bytes.fromhex("d903")})
    assert parse_row_ids(data, 7, "file", "place").slice(0, 7).tolist() == [0, 3, 4, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "segment, reason",
    [
        ({"range": {"start": 0, "end": 2**60}}, "ids for 10 rows"),
        ({"range": {"start": 0, "end": TOP}}, "a range of"),
        ({"range": {"start": 9, "end": 3}}, "runs backwards"),
        ({"range_with_holes": {"start": 0, "end": 2**60}}, "ids for 10 rows"),
        ({"range_with_holes": {"start": 0, "end": 11, "holes": encoded([11])}}, "holes outside"),
        ({"range_with_holes": {"start": 5, "end": 16, "holes": encoded([4])}}, "holes outside"),
        ({"range_with_holes": {"start": 0, "end": 12, "holes": encoded([4, 3])}}, "not ascending"),
        ({"range_with_bitmap": {"start": 0, "end": 2**60, "bitmap": b"x"}}, "bitmap of 1 bytes"),
        ({"range_with_bitmap": {"start": 8, "end": 0}}, "bitmap of 0 bytes"),
        ({"range_with_bitmap": {"start": 0, "end": 10, "bitmap": b"\xff\xff"}}, "bits behind its end"),
        ({"sorted_array": encoded([3, 2])}, "not sorted"),
        ({"array": {"u16_array": {"base": 0, "offsets": b"abc"}}}, "2-byte values"),
        ({"array": {"u32_array": {"base": TOP, "offsets": b"\1\0\0\0"}}}, "leave 64 bits"),
        ({}, "unknown kind"),
    ],
)
def test_lies(segment: dict[str, object], reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        parse_row_ids(one(**segment), 10, "file", "place")


def test_lies_that_only_add_up_to_too_much() -> None:
    message = rowids_pb2.RowIdSequence()
    for _ in range(64):
        message.segments.add(range={"start": 0, "end": 2**61})
    with pytest.raises(CorruptFile, match="ids for 10 rows"):
        parse_row_ids(message.SerializeToString(), 10, "file", "place")


def test_bytes_that_are_no_message() -> None:
    with pytest.raises(CorruptFile, match="not a RowIdSequence message"):
        parse_row_ids(b"\xff\xff\xff", 1, "file", "place")


@given(st.data())
def test_the_index_finds_every_live_row_and_no_other(data: st.DataObject) -> None:
    ids = data.draw(st.permutations(range(200)))
    cuts = sorted(data.draw(st.lists(st.integers(0, 200), max_size=4)))
    if data.draw(st.booleans()):
        ids = list(range(200))
    parts, expected = [], {}
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, 200], strict=True)):
        part = list(ids[start:stop])
        fragment = number * 7
        sequence = parse_row_ids(one(array=encoded(part)), len(part), "file", "place")
        gone = sorted(data.draw(st.sets(st.integers(0, len(part) - 1)))) if part else []
        deletions = DeletionVector(np.array(gone, np.uint32)) if gone else NO_DELETIONS
        parts.append((fragment, sequence, deletions))
        expected |= {value: fragment << 32 | at for at, value in enumerate(part) if at not in gone}
    index = build_row_id_index(parts, "file")
    assert len(index) == len(expected)
    found, known = index.lookup(np.arange(250))
    assert {value: int(found[value]) for value in np.flatnonzero(known).tolist()} == expected


def test_an_id_of_two_live_rows_is_corruption() -> None:
    sequence = parse_row_ids(one(range={"start": 0, "end": 10}), 10, "file", "place")
    with pytest.raises(CorruptFile, match="row id 0 belongs to two live rows"):
        build_row_id_index([(0, sequence, NO_DELETIONS), (1, sequence, NO_DELETIONS)], "file")


def test_an_empty_index_finds_nothing() -> None:
    _, known = build_row_id_index([], "file").lookup([1, 2])
    assert not known.any()
