"""The end of a 2.x file: footer, tables, messages. What it says is checked before it is believed."""

from __future__ import annotations

import functools
import struct

import pyarrow as pa
import pytest

from lancelet.encoding.rows import RowRange
from lancelet.errors import CorruptFile, LanceletError, NotSupported
from lancelet.file.container import TAIL_BYTES, Container
from lancelet.file.reader import open_file
from lancelet.format.proto import column_pb2, file_pb2
from unit.encoding.made21 import ALL_ITEM, File, Page, Source, constant, finish, make_file, numbers

GOOD = make_file(pa.int32(), [[constant(5, [ALL_ITEM], inline_value=numbers([7]))]])
FOOTER = struct.Struct("<QQQIIHH4s")
NAMES = ("first", "columns_at", "globals_at", "buffers", "columns", "major", "minor", "magic")


def with_footer(data: bytes = GOOD, **changes: object) -> bytes:
    values = dict(zip(NAMES, FOOTER.unpack(data[-40:]), strict=True))
    return data[:-40] + FOOTER.pack(*(values | changes).values())


def opened(data: bytes, *, mapped: bool = True) -> pa.Array:
    return File(data, mapped=mapped).scan()


@pytest.mark.parametrize("mapped", [True, False])
def test_a_good_file(mapped: bool) -> None:
    assert opened(GOOD, mapped=mapped).to_pylist() == [7] * 5


@pytest.mark.parametrize("size", [0, 1, 4, 15, 16, 39, 40, 41, 60, len(GOOD) - 40, len(GOOD) - 1])
def test_files_that_end_too_early(size: int) -> None:
    with pytest.raises(CorruptFile):
        opened(GOOD[:size])


def test_files_that_begin_too_late() -> None:
    """Only the end is there: every position points somewhere else."""
    for size in range(len(GOOD)):
        with pytest.raises(LanceletError):
            opened(GOOD[len(GOOD) - size :])


def test_the_magic_is_looked_at_first() -> None:
    with pytest.raises(CorruptFile, match="LANC"):
        opened(with_footer(magic=b"PAR1", major=99))


@pytest.mark.parametrize(("major", "minor"), [(2, 4), (3, 0), (0, 9), (65535, 65535)])
def test_unknown_versions_are_named(major: int, minor: int) -> None:
    with pytest.raises(NotSupported, match=rf"{major}\.{minor}"):
        opened(with_footer(major=major, minor=minor))


@pytest.mark.parametrize("value", [0, 1, len(GOOD) - 40, len(GOOD), 2**32, 2**60, 2**63, 2**64 - 1])
@pytest.mark.parametrize("name", ["first", "columns_at", "globals_at"])
@pytest.mark.parametrize("mapped", [True, False])
def test_positions_that_lie(name: str, value: int, mapped: bool) -> None:
    """An error, or the file as it is where the position does not matter."""
    try:
        found = opened(with_footer(**{name: value}), mapped=mapped)
    except LanceletError:
        return
    assert found.to_pylist() == [7] * 5


@pytest.mark.parametrize("value", [0, 1000, 2**31, 2**32 - 1])
@pytest.mark.parametrize("name", ["buffers", "columns"])
def test_counts_that_lie(name: str, value: int) -> None:
    with pytest.raises(LanceletError):
        opened(with_footer(**{name: value}))


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**62, len(GOOD)])
@pytest.mark.parametrize("which", [0, 8])
@pytest.mark.parametrize("table", ["columns_at", "globals_at"])
def test_table_entries_that_lie(table: str, which: int, value: int) -> None:
    place = dict(zip(NAMES, FOOTER.unpack(GOOD[-40:]), strict=True))[table] + which
    data = GOOD[:place] + struct.pack("<Q", value) + GOOD[place + 8 :]
    with pytest.raises(LanceletError):
        opened(data)


def test_one_read_opens_a_small_file() -> None:
    source = Source(GOOD, mapped=False)
    reader = open_file(source)
    reader.read(reader.schema().fields[0], RowRange(0, 5))
    assert len(source.requests) == 1


def test_metadata_beyond_the_tail_costs_one_more_read() -> None:
    pages = [constant(1, [ALL_ITEM], inline_value=numbers([i])) for i in range(3000)]
    data = make_file(pa.int32(), [pages])
    assert len(data) > TAIL_BYTES
    file = File(data, mapped=False)
    assert file.scan().to_pylist() == list(range(3000))
    source = Source(data, mapped=False)
    open_file(source)
    assert len(source.requests) == 2


def test_a_file_without_columns() -> None:
    data = finish(bytearray(), file_pb2.FileDescriptor(length=3), [], "2.2")
    source = Source(data)
    reader = open_file(source)
    assert (reader.num_rows, reader.schema().fields) == (3, ())


@pytest.mark.parametrize("which", ["descriptor", "column"])
def test_messages_that_do_not_parse(which: str) -> None:
    data = bytearray(finish(bytearray(), file_pb2.FileDescriptor(length=3), [column_pb2.ColumnMetadata()], "2.2"))
    table = len(data) - 40 - (16 if which == "descriptor" else 32)
    # Point the message at the footer, which is no message.
    data[table : table + 16] = struct.pack("<QQ", len(data) - 20, 19)
    source = Source(bytes(data))
    container = Container.read(source, source.size, "x")
    read = container.descriptor if which == "descriptor" else functools.partial(container.column, index=0)
    with pytest.raises(CorruptFile, match="does not parse"):
        read(source)


@pytest.mark.parametrize("rows", [0, 4, 6, 2**40, 2**64 - 1])
def test_rows_that_the_pages_do_not_have(rows: int) -> None:
    data = make_file(pa.int32(), [[constant(5, [ALL_ITEM], inline_value=numbers([7]))]], rows=rows)
    file = File(data)
    with pytest.raises(CorruptFile, match="rows"):
        file.read(RowRange(0, min(rows, 5)))


@pytest.mark.parametrize("length", [2**41, 2**63, 2**64 - 1])
def test_pages_of_an_impossible_number_of_rows(length: int) -> None:
    page = constant(5, [ALL_ITEM], inline_value=numbers([7]))
    page.rows = length
    with pytest.raises(CorruptFile):
        opened(make_file(pa.int32(), [[page]], rows=length))


@pytest.mark.parametrize(
    ("offset", "size"), [(2**64 - 1, 2**64 - 1), (2**63, 1), (0, 2**60), (10**6, 1), (1, 2**64 - 1), (2**64 - 1, 1)]
)
@pytest.mark.parametrize("mapped", [True, False])
def test_buffers_outside_of_the_file(offset: int, size: int, mapped: bool) -> None:
    page = constant(5, [ALL_ITEM], [b"x"])
    data = make_file(pa.string(), [[page]])
    container = Container.read(Source(data), len(data), "x")
    message = container.column(Source(data), 0)
    message.pages[0].buffer_offsets[0], message.pages[0].buffer_sizes[0] = offset, size
    descriptor = container.descriptor(Source(data))
    with pytest.raises(CorruptFile):
        opened(finish(bytearray(b"x" * 64), descriptor, [message], "2.2"), mapped=mapped)


def test_a_page_without_encoding_and_one_with_an_unknown_one() -> None:
    for change in ("none", "url"):
        data = make_file(pa.int32(), [[constant(5, [ALL_ITEM], inline_value=numbers([7]))]])
        container = Container.read(Source(data), len(data), "x")
        message = container.column(Source(data), 0)
        if change == "none":
            message.pages[0].encoding.Clear()
        else:
            strange = column_pb2.AnyMessage(type_url="/lance.encodings99.Layout", value=b"")
            message.pages[0].encoding.direct.encoding = strange.SerializeToString()
        with pytest.raises((CorruptFile, NotSupported)):
            opened(finish(bytearray(), container.descriptor(Source(data)), [message], "2.2"))


def test_fewer_columns_than_the_schema_has_leaves() -> None:
    dtype = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    with pytest.raises(CorruptFile, match="column 1"):
        opened(make_file(dtype, [[Page(5, constant(5, [ALL_ITEM, ALL_ITEM]).layout)]]))
