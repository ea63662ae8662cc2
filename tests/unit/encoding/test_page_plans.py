"""Pages planned by the compiled parser are those that the protobuf messages describe."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.encoding.kernels.page_plans import PagePlans
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings21_pb2 as pb

CE = pb.CompressiveEncoding
ROOM = 1 << 20
"""Bytes in front of the metadata, for buffers to lie in."""


def plan(message: bytes, rows: int) -> list[dict[str, Any]] | None:
    data = np.zeros(ROOM + len(message), np.uint8)
    data[ROOM:] = np.frombuffer(message, np.uint8)
    return PagePlans(data, np.array([[ROOM, len(message)]], np.int64), rows).describe(0)


def flat(bits: int) -> CE:
    return CE(flat=pb.Flat(bits_per_value=bits))


def strings(bits: int) -> CE:
    return CE(variable=pb.Variable(offsets=flat(bits)))


def packed(bits: int) -> CE:
    return CE(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits))


def runs(bits: int) -> CE:
    return CE(rle=pb.Rle(values=flat(bits), run_lengths=flat(8)))


def lz4(values: CE) -> CE:
    return CE(general=pb.General(compression=pb.BufferCompression(scheme=pb.COMPRESSION_LZ4), values=values))


WIDTHS = st.sampled_from((8, 16, 32, 64))
VALUES = st.one_of(
    st.builds(flat, st.sampled_from((1, 8, 16, 24, 32, 64, 128, 2400, 0, 3))),
    st.builds(packed, st.sampled_from((8, 16, 32, 64, 7))),
    st.builds(runs, WIDTHS),
    st.builds(strings, st.sampled_from((32, 64, 16))),
    st.builds(lambda bits, table: CE(fsst=pb.Fsst(symbol_table=table, values=strings(bits))),
              st.sampled_from((32, 64)), st.sampled_from((b"x" * 2312, b"\0" * 2312, b"short"))),
    st.builds(lz4, st.builds(flat, WIDTHS)),
    st.builds(lambda bits: CE(byte_stream_split=pb.ByteStreamSplit(values=flat(bits))), WIDTHS),
    st.just(CE()),
)  # fmt: skip
LEVELS = st.one_of(
    st.builds(flat, st.sampled_from((16, 8))),
    st.builds(packed, st.sampled_from((16, 32))),
    st.builds(runs, st.sampled_from((16, 32))),
    st.builds(lambda bits: CE(out_of_line_bitpacking=pb.OutOfLineBitpacking(
        uncompressed_bits_per_value=16, values=flat(bits))), st.sampled_from((0, 1, 7, 16, 17))),
)  # fmt: skip
ITEMS = st.one_of(
    st.builds(strings, st.sampled_from((32, 64))),
    st.builds(flat, WIDTHS),
    st.builds(lz4, st.builds(strings, st.sampled_from((32, 64)))),
)


@st.composite
def mini_blocks(draw: st.DrawFn, rows: int) -> pb.PageLayout:
    values = draw(VALUES)
    layout = pb.MiniBlockLayout(
        value_compression=values,
        layers=draw(st.sampled_from(((1,), (3,), (1, 3), (3, 6), (1, 2, 3), (3, 5, 3, 4), (2,), (7,), (1,) * 9, ()))),
        num_buffers=draw(st.sampled_from((2 if values.HasField("rle") else 1,) * 5 + (3,))),
        num_items=draw(st.sampled_from((rows,) * 5 + (rows + 1,))),
        has_large_chunk=draw(st.booleans()),
        repetition_index_depth=draw(st.sampled_from((0, 1, 1, 2))),
    )
    if draw(st.booleans()):
        layout.def_compression.CopyFrom(draw(LEVELS))
    if draw(st.integers(0, 2)) == 0:
        layout.dictionary.CopyFrom(draw(ITEMS))
        layout.num_dictionary_items = draw(st.integers(0, 1000))
    if any(layer in (2, 4, 5, 6) for layer in layout.layers) != (draw(st.integers(0, 15)) == 0):
        layout.rep_compression.CopyFrom(draw(LEVELS))
    return pb.PageLayout(mini_block_layout=layout)


@st.composite
def constants(draw: st.DrawFn) -> pb.PageLayout:
    value = draw(st.none() | st.binary(max_size=40))
    layers = draw(st.sampled_from(((1,), (3,), (3,), (6,), (1, 2))))
    return pb.PageLayout(constant_layout=pb.ConstantLayout(layers=layers, inline_value=value))


@st.composite
def columns(draw: st.DrawFn) -> column_pb2.ColumnMetadata:
    column = column_pb2.ColumnMetadata()
    column.encoding.none.SetInParent()
    for _ in range(draw(st.integers(0, 3))):
        rows = draw(st.integers(0, 5000))
        page = column.pages.add(length=rows, priority=draw(st.integers(0, 9)))
        is_constant = draw(st.integers(0, 3)) == 0
        layout = draw(constants()) if is_constant else draw(mini_blocks(rows))
        name = draw(st.sampled_from(("/lance.encodings21.PageLayout",) * 8 + ("lance.encodings23.PlanarLayout",)))
        described = column_pb2.AnyMessage(type_url=name, value=layout.SerializeToString())
        page.encoding.direct.encoding = described.SerializeToString()
        for _ in range(0 if is_constant else draw(st.integers(1, 4))):
            page.buffer_offsets.append(draw(st.sampled_from((0, 1, 64, 4096, ROOM, 2 * ROOM))))
            page.buffer_sizes.append(draw(st.sampled_from((0, 1, 2, 4, 4000))))
    return column


def described(column: column_pb2.ColumnMetadata, size: int) -> list[dict[str, Any]] | None:
    """The same plain values from the messages; None where a page is not one that the compiled parser plans."""
    found = [_page(page, size) for page in column.pages]
    return None if None in found else found  # type: ignore[return-value]


def _page(page: column_pb2.ColumnMetadata.Page, size: int) -> dict[str, Any] | None:
    if len(page.buffer_offsets) != len(page.buffer_sizes) or len(page.buffer_offsets) > 4:
        return None
    buffers = list(zip(page.buffer_offsets, page.buffer_sizes, strict=True))
    if any(at + length > size for at, length in buffers) or page.encoding.WhichOneof("location") != "direct":
        return None
    message = column_pb2.AnyMessage.FromString(page.encoding.direct.encoding)
    if message.type_url.rpartition("/")[2] != "lance.encodings21.PageLayout":
        return None
    layout = pb.PageLayout.FromString(message.value)
    match layout.WhichOneof("layout"):
        case "mini_block_layout":
            own = _mini_block(layout.mini_block_layout, page.length, len(buffers))
        case "constant_layout":
            own = None if buffers else _constant(layout.constant_layout)
        case _:
            own = None
    return None if own is None else {"rows": page.length, "buffers": buffers, **own}


def _constant(layout: pb.ConstantLayout) -> dict[str, Any] | None:
    value = layout.inline_value if layout.HasField("inline_value") else None
    if (
        list(layout.layers) not in ([1], [3])
        or layout.HasField("rep_compression")
        or layout.HasField("def_compression")
    ):
        return None
    if value == b"" or (value is None and list(layout.layers) == [1]) or len(value or b"") > 32:
        return None
    return {"kind": "constant", "layers": list(layout.layers), "value": value}


def _mini_block(layout: pb.MiniBlockLayout, rows: int, buffers: int) -> dict[str, Any] | None:
    lists = any(layer not in (1, 3) for layer in layout.layers)
    values = _coding(layout.value_compression)
    reps = _coding(layout.rep_compression) if layout.HasField("rep_compression") else None
    levels = _coding(layout.def_compression) if layout.HasField("def_compression") else None
    items = _coding(layout.dictionary) if layout.HasField("dictionary") else None
    if not layout.layers or layout.layers[0] not in (1, 3) or values is None:
        return None
    if lists != layout.HasField("rep_compression") or not (lists or layout.num_items == rows):
        return None
    if values[3] or (layout.HasField("dictionary") and (items is None or items[2] is not None)):
        return None
    if layout.HasField("def_compression") and all(layer < 3 for layer in layout.layers):
        return None
    if buffers < 2 + layout.HasField("dictionary") + lists or (lists and not layout.repetition_index_depth):
        return None
    return {
        "kind": "mini_block",
        "layers": list(layout.layers),
        "large": layout.has_large_chunk,
        "reps": reps,
        "levels": levels,
        "values": values,
        "dictionary": items,
        "dictionary_items": layout.num_dictionary_items,
    }


def _coding(codec: CE) -> tuple[str, int, bytes | None, bool] | None:
    match codec.WhichOneof("compression"):
        case "flat":
            return "flat", codec.flat.bits_per_value, None, False
        case "inline_bitpacking":
            return "inline", codec.inline_bitpacking.uncompressed_bits_per_value, None, False
        case "out_of_line_bitpacking":
            return "out_of_line", codec.out_of_line_bitpacking.values.flat.bits_per_value, None, False
        case "rle":
            return "runs", codec.rle.values.flat.bits_per_value, None, False
        case "byte_stream_split":
            return "streams", codec.byte_stream_split.values.flat.bits_per_value, None, False
        case "variable":
            return "strings", codec.variable.offsets.flat.bits_per_value, None, False
        case "fsst":
            return "strings", codec.fsst.values.variable.offsets.flat.bits_per_value, codec.fsst.symbol_table, False
        case "general" if codec.general.compression.scheme == pb.COMPRESSION_LZ4:
            inner = _coding(codec.general.values)
            return None if inner is None else (*inner[:3], True)
    return None


def check(message: bytes, rows: int) -> list[dict[str, Any]] | None:
    """What is planned must be what protobuf reads; where protobuf reads nothing, nothing is planned."""
    found = plan(message, rows)
    if found is None:
        return None
    try:
        column = column_pb2.ColumnMetadata.FromString(message)
        assert found == described(column, ROOM + len(message))
    except DecodeError:
        raise AssertionError("planned, though protobuf cannot read it") from None
    assert sum(page.length for page in column.pages) == rows
    return found


def usual() -> column_pb2.ColumnMetadata:
    """As files have it: levels, values, a dictionary."""
    column = column_pb2.ColumnMetadata()
    column.encoding.none.SetInParent()
    layout = pb.MiniBlockLayout(
        def_compression=packed(16), value_compression=packed(32), dictionary=lz4(strings(32)), num_dictionary_items=5,
        layers=[3], num_buffers=1, num_items=1000, has_large_chunk=True,
    )  # fmt: skip
    message = pb.PageLayout(mini_block_layout=layout).SerializeToString()
    name = column_pb2.AnyMessage(type_url="/lance.encodings21.PageLayout", value=message)
    page = column.pages.add(length=1000, buffer_offsets=[0, 64, 128], buffer_sizes=[4, 60, 30])
    page.encoding.direct.encoding = name.SerializeToString()
    return column


@settings(max_examples=examples(250))
@given(columns())
def test_plans_are_what_the_messages_say(column: column_pb2.ColumnMetadata) -> None:
    check(column.SerializeToString(), sum(page.length for page in column.pages))


def test_usual_pages_are_planned() -> None:
    (page,) = check(usual().SerializeToString(), 1000) or ()
    assert page["values"] == ("inline", 32, None, False)
    assert page["dictionary"] == ("strings", 32, None, True)


def test_a_file_of_another_length_is_left_to_the_general_parser() -> None:
    assert plan(usual().SerializeToString(), 999) is None
    assert plan(usual().SerializeToString(), 2**64 - 1) is None


@settings(max_examples=examples(150))
@given(columns(), st.randoms(use_true_random=False))
def test_changed_bytes_are_planned_as_protobuf_reads_them(
    column: column_pb2.ColumnMetadata, rng: random.Random
) -> None:
    message = bytearray((column if column.pages else usual()).SerializeToString())
    for _ in range(rng.choice((1, 1, 2))):
        message[rng.randrange(len(message))] = rng.choice((0, 1, 8, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    rows = sum(page.length for page in (column if column.pages else usual()).pages)
    for length in (len(message), rng.randrange(len(message) + 1)):
        check(bytes(message[:length]), rows)


def _fields(message: bytes) -> list[bytes]:
    """The fields of a message that holds numbers below 128 and short messages only."""
    found, at = [], 0
    while at < len(message):
        end = at + 2 + (message[at + 1] if message[at] & 7 == 2 else 0)
        found.append(message[at:end])
        at = end
    return found


@pytest.mark.parametrize("seed", range(8))
def test_fields_may_come_in_any_order(seed: int) -> None:
    page = usual().pages[0]
    named = column_pb2.AnyMessage.FromString(page.encoding.direct.encoding)
    layout = pb.PageLayout.FromString(named.value).mini_block_layout
    layout.num_items = page.length = 100
    parts = _fields(layout.SerializeToString())
    random.Random(seed).shuffle(parts)
    inner = b"".join(parts)
    named.value = bytes([0x0A, len(inner)]) + inner
    page.encoding.direct.encoding = named.SerializeToString()
    del page.buffer_sizes[:], page.buffer_offsets[:]
    page.buffer_offsets.extend((0, 64, 120))
    page.buffer_sizes.extend((4, 60, 30))
    fields = _fields_of_page(page)
    random.Random(seed).shuffle(fields)
    text = b"".join(fields)
    column = bytes([0x12, len(text) & 0x7F | 0x80, len(text) >> 7]) + text
    assert check(column, 100) is not None


def _fields_of_page(page: column_pb2.ColumnMetadata.Page) -> list[bytes]:
    """Each field by itself, repeated numbers one by one, as protobuf also allows."""
    parts = [bytes([0x08, at]) for at in page.buffer_offsets] + [bytes([0x10, size]) for size in page.buffer_sizes]
    parts = [b"".join(parts), bytes([0x18, page.length])]
    encoding = page.encoding.SerializeToString()
    return [*parts, bytes([0x22, len(encoding) & 0x7F | 0x80, len(encoding) >> 7]) + encoding]


@pytest.mark.parametrize("more", [b"\x98\x06\x01", b"\x9a\x06\x03abc", b"\x9d\x06\0\0\0\0"])
def test_unknown_fields_are_left_to_the_general_parser(more: bytes) -> None:
    message = usual().SerializeToString()
    column_pb2.ColumnMetadata.FromString(message + more)
    assert plan(message + more, 1000) is None


def test_what_is_outside_of_the_file_is_not_read() -> None:
    data = np.zeros(100, np.uint8)
    for at, size in ((-1, 10), (95, 10), (0, 101), (2**62, 2**62), (101, 0), (0, -1)):
        assert PagePlans(data, np.array([[at, size]], np.int64), 0).describe(0) is None
    with pytest.raises(IndexError):
        PagePlans(data, np.zeros((0, 2), np.int64), 0).describe(0)
