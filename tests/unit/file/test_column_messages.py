"""The metadata of columns is what protobuf would write of it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.file.column_messages import column_messages
from lancelet.format.proto import column_pb2

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))
PLACES = st.lists(NUMBERS, max_size=4)
PAGES = st.lists(st.tuples(NUMBERS, NUMBERS, st.binary(min_size=1, max_size=300), PLACES, PLACES), max_size=4)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(PAGES, max_size=4), st.integers(0, 2**50))
def test_messages_are_those_of_protobuf(
    columns: list[list[tuple[int, int, bytes, list[int], list[int]]]], first: int
) -> None:
    none = column_pb2.Encoding(direct=column_pb2.DirectEncoding(encoding=b"a column"))
    head = column_pb2.ColumnMetadata(encoding=none).SerializeToString()
    expected = []
    for pages in columns:
        message = column_pb2.ColumnMetadata(encoding=none)
        for length, priority, encoding, offsets, sizes in pages:
            page = message.pages.add(length=length, priority=priority, buffer_offsets=offsets, buffer_sizes=sizes)
            page.encoding.direct.encoding = encoding
        expected.append(message.SerializeToString())
    messages, table = column_messages([(head, pages) for pages in columns], first)
    assert messages == b"".join(expected)
    ends = [first + sum(map(len, expected[:at])) for at in range(len(expected))]
    places = zip(ends, map(len, expected), strict=True)
    assert table == b"".join(struct.pack("<QQ", *place) for place in places)


def test_what_no_file_has_is_refused() -> None:
    for page in ((-1, 0, b"x", [], []), (0, 0, b"x", [2**64], []), (0, 0, b"x", [], [-1])):
        with pytest.raises(OverflowError):
            column_messages([(b"", [page])], 0)
