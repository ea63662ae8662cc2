"""Small columns: encoded in one step, they have the very bytes that the steps for columns of any size make."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.encoding.kernels import small_encode
from lancelet.encoding.v2_1.encode.messages import EncodedPage
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.page import encode_in_steps
from lancelet.encoding.v2_1.encode.shred import Leaf, leaves_of
from lancelet.encoding.v2_1.encode.small import encode_small
from lancelet.format.schema import schema_from_arrow

NUMBERS = [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.timestamp("us")]
STRINGS = [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()]


def leaf_of(kind: pa.DataType, nullable: bool = True) -> Leaf:
    (leaf,) = leaves_of(schema_from_arrow(pa.schema([pa.field("x", kind, nullable)])).fields[0])
    return leaf


def content(page: EncodedPage) -> tuple[object, ...]:
    buffers = [b"".join(piece.tobytes() for piece in pieces) for pieces in page.buffers]
    return page.length, page.rows, page.name, page.column, page.layout.SerializeToString(), buffers


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """Up to 1023 values of one type: repeating or not, in runs or not, with nulls or without, from anywhere in a buffer."""
    kind = draw(st.sampled_from(NUMBERS + STRINGS))
    count = draw(st.sampled_from([1, 2, 63, 64, 65, 99, 100, 255, 256, 512, 513, 1023]) | st.integers(1, 1023))
    random = draw(st.randoms(use_true_random=False))
    distinct = draw(st.sampled_from([1, 2, 5, 49, 95, 1000, 10**6]))
    run, share = draw(st.sampled_from([1, 1, 4, 300])), draw(st.sampled_from([0, 0, 0.03, 0.5, 1]))
    long = draw(st.sampled_from([0, 1, 4, 60, 300]))
    scale = draw(st.sampled_from([1, 2**20]))
    values: list[object] = []
    while len(values) < count:
        number = random.randrange(distinct)
        value: object = (f"{number}" * long)[: long + number % 3]
        if kind in NUMBERS:
            value = number / 3 if pa.types.is_floating(kind) else number * scale % 2 ** min(kind.bit_width - 1, 62)
        elif kind in (pa.binary(), pa.large_binary()):
            value = str(value).encode()
        values += [value] * random.choice([1, run])
    head = draw(st.integers(0, 9))
    array = pa.array(values[:head] + values[:count], kind).slice(min(head, len(values)))
    if not share:
        return array
    # What lies beneath nulls is not blank.
    _, *data = array.buffers()
    bits = pa.array([random.random() >= share for _ in range(array.offset + len(array))]).buffers()[1]
    return pa.Array.from_buffers(kind, len(array), [bits, *data], offset=array.offset)


@given(columns(), st.sampled_from(["2.1", "2.2"]))
@settings(max_examples=examples(100), deadline=None)
def test_small_pages_are_those_of_the_steps(array: pa.Array, version: str) -> None:
    options = EncodeOptions.of(version, "x", {}, {})
    page = encode_small(array, leaf_of(array.type), options)
    if page is not None:
        assert [content(page)] == [content(each) for each in encode_in_steps(array, leaf_of(array.type), options)]


@pytest.mark.parametrize("kind", NUMBERS + STRINGS)
def test_plain_columns_take_one_step(kind: pa.DataType) -> None:
    values = pa.array([None, *range(1, 90)], pa.int64()).cast(pa.string() if kind in STRINGS else pa.int64()).cast(kind)
    for version in ("2.1", "2.2"):
        assert encode_small(values, leaf_of(kind), EncodeOptions.of(version, "x", {}, {})) is not None


def test_what_was_asked_for_is_left_to_the_steps() -> None:
    array = pa.array(range(50))
    asked = EncodeOptions.of("2.2", "x", {"lance-encoding:compression": "zstd"}, {})
    assert encode_small(array, leaf_of(pa.int64()), asked) is None
    assert encode_small(array, leaf_of(pa.int32()), EncodeOptions.of("2.2", "x", {}, {})) is None
    holes = pa.array([1, None, 2])
    assert encode_small(holes, leaf_of(pa.int64(), nullable=False), EncodeOptions.of("2.2", "x", {}, {})) is None


@pytest.mark.parametrize(("word", "least"), [(4, -(2**31)), (8, -(2**63))])
def test_offsets_so_low_that_lengths_wrap_around_are_refused(word: int, least: int) -> None:
    places = np.array([1, least, 1], f"<i{word}")
    with pytest.raises(ValueError, match="do not rise"):
        small_encode.encode_strings(places, b"x", word, 0, 2, None, True)


@given(
    st.binary(max_size=40),
    st.sampled_from([1, 4, 8, 16, 32, 64, 65, -8]),
    st.integers(-3, 50) | st.sampled_from([2**62, 2**63 - 1, -(2**63)]),
    st.integers(-3, 50) | st.sampled_from([1023, 1024, 2**62, 2**63 - 1]),
    st.none() | st.binary(max_size=3),
    st.binary(max_size=40),
)
@settings(max_examples=examples(300), deadline=None)
def test_kernels_stay_inside_of_their_buffers(
    data: bytes, width: int, offset: int, count: int, validity: bytes | None, text: bytes
) -> None:
    for call in (
        lambda: small_encode.encode_words(data, width, offset, count, validity, True),
        lambda: small_encode.encode_strings(data, text, width, offset, count, validity, True),
    ):
        try:
            made = call()
        except ValueError:
            continue
        assert made is None or len(made[3]) % 8 == 0
