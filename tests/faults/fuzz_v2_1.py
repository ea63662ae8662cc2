"""Reads data files of 2.1 and 2.2 after changing them in ways that keep the rest of the file believable.

Flipping bits of a whole file mostly breaks its footer or a text. Here the file is taken apart, one thing
is changed (a page's buffer, a field of its layout, a codec, a length, the schema) and the container is
written anew around it, so that the decoders get to see the lie.

Every reading must give an error of lancelet's own tree or an array that is sound. Started with a job on
standard input: a folder of files, a seed, and how many changes or how many seconds. ``FIND`` lines name
findings; a line ``NEXT n`` comes before each change, so that the parent knows which one a crash belongs to.
"""

from __future__ import annotations

import json
import random
import re
import resource
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lancelet.encoding.fetch import run
from lancelet.encoding.rows import RowIndices, RowRange, Rows
from lancelet.encoding.v2_1.leaf_batch import LeafBatch, is_small, pick_together
from lancelet.errors import LanceletError
from lancelet.file.reader import FileReader, StructuralFile, open_file
from lancelet.format.proto import column_pb2, file_pb2
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.schema import Field
from lancelet.testing import difference

SECONDS = 20
TYPE_URL = "/lance.encodings21.PageLayout"
MANY_ROWS = 4000
SPARE_BYTES = 1 << 30
EXTREMES = (0, 1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 1000, 1023, 1024, 1025, 4096, 65535,
            65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**60, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
PATTERNS = (b"\xff" * 8, b"\0" * 8, (2**60).to_bytes(8, "little"), b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff\xff")
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint64", "bool", "float", "double", "string", "large_string",
         "binary", "large_binary", "null", "fixed_size_binary:3", "fixed_size_list:float:4", "fixed_size_list:bool:9",
         "decimal:128:20:2", "dict:string:int8:false", "list", "struct", "date32:day", "halffloat")  # fmt: skip
# Sound in memory, only senseless as a time of day or a number: another value, which a changed bit may well give.
HARMLESS = ("range", "Date64", "date64", "does not fit in precision", "timestamp", "time64", "time32")


class TooSlow(BaseException):
    """One reading took longer than any reading of so small a file may."""


def _alarm(*_: object) -> None:
    raise TooSlow


class Source:
    """Bytes in memory, either as a mapped file or fetched."""

    def __init__(self, data: bytes, mapped: bool) -> None:
        self.path = "fuzzed.lance"
        self.data = np.frombuffer(data, np.uint8)
        self.size = len(data)
        self.mapped = self.data if mapped else None

    def read(self, ranges: list[tuple[int, int]]) -> list[np.ndarray]:
        if any(offset < 0 or length < 0 or offset + length > self.size for offset, length in ranges):
            raise AssertionError(f"a read outside of the file: {ranges}")
        # Copies of their own, so that a kernel that leaves them leaves an allocation.
        return [self.data[offset : offset + length].copy() for offset, length in ranges]

    def read_pieces(self, starts: object, sizes: object, out: object) -> bool:
        return False

    def reserve(self, ranges: int, nbytes: int) -> None:
        pass

    def release(self, start: int, stop: int) -> None:
        pass


class Parts:
    """A file taken apart."""

    def __init__(self, data: bytes) -> None:
        first, columns_at, globals_at, _, count, self.major, self.minor, _ = struct.unpack("<QQQIIHH4s", data[-40:])
        at, size = struct.unpack_from("<QQ", data, globals_at)
        self.descriptor = file_pb2.FileDescriptor.FromString(data[at : at + size])
        self.body = bytearray(data[: min(at, first)])
        self.columns = []
        for number in range(count):
            at, size = struct.unpack_from("<QQ", data, columns_at + 16 * number)
            self.columns.append(column_pb2.ColumnMetadata.FromString(data[at : at + size]))

    def pages(self) -> list[column_pb2.ColumnMetadata.Page]:
        return [page for column in self.columns for page in column.pages]

    def join(self) -> bytes:
        out = bytearray(self.body)
        places = []
        for message in (self.descriptor, *self.columns):
            text = message.SerializeToString()
            places.append((len(out), len(text)))
            out += text
        columns_at = len(out)
        out += b"".join(struct.pack("<QQ", *place) for place in places[1:])
        globals_at = len(out)
        out += struct.pack("<QQ", *places[0])
        first = places[1][0] if len(places) > 1 else columns_at
        numbers = first, columns_at, globals_at, 1, len(self.columns), self.major, self.minor
        return bytes(out + struct.pack("<QQQIIHH4s", *numbers, b"LANC"))


def _change_bytes(rng: random.Random, body: bytearray, start: int, size: int) -> None:
    """One to three flips or patches; half of them at the front, where headers are."""
    size = min(size, len(body) - start)
    for _ in range(rng.choice((1, 1, 1, 2, 3)) if size > 0 else 0):
        at = start + rng.randrange(min(size, 48) if rng.random() < 0.5 else size)
        draw = rng.random()
        if draw < 0.5:
            body[at] ^= 1 << rng.randrange(8)
        elif draw < 0.7:
            body[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
        else:
            patch = rng.choice(PATTERNS)[: start + size - at]
            body[at : at + len(patch)] = patch


def buffer_bytes(rng: random.Random, parts: Parts) -> None:
    page = rng.choice(parts.pages())
    if page.buffer_sizes:
        which = rng.randrange(len(page.buffer_sizes))
        _change_bytes(rng, parts.body, page.buffer_offsets[which], page.buffer_sizes[which])


def buffer_splice(rng: random.Random, parts: Parts) -> None:
    """Bytes of one buffer over those of another."""
    pages = [page for page in parts.pages() if page.buffer_sizes]
    if pages:
        left, right = rng.choice(pages), rng.choice(pages)
        a, b = rng.randrange(len(left.buffer_sizes)), rng.randrange(len(right.buffer_sizes))
        size = min(left.buffer_sizes[a], right.buffer_sizes[b], rng.choice((2, 8, 64, 10**6)))
        at, to = left.buffer_offsets[a], right.buffer_offsets[b]
        parts.body[to : to + size] = parts.body[at : at + size]


def buffer_table(rng: random.Random, parts: Parts) -> None:
    """Buffers that are shorter, longer, elsewhere, missing or too many."""
    page = rng.choice(parts.pages())
    if not page.buffer_sizes:
        page.buffer_offsets.append(0)
        page.buffer_sizes.append(min(len(parts.body), rng.choice((0, 1, 2, 8, 100))))
        return
    which = rng.randrange(len(page.buffer_sizes))
    match rng.randrange(6):
        case 0:
            page.buffer_sizes[which] = rng.randrange(page.buffer_sizes[which] + 1)
        case 1:
            page.buffer_sizes[which] = rng.choice(EXTREMES)
        case 2:
            page.buffer_offsets[which] = rng.randrange(max(len(parts.body), 1))
        case 3:
            del page.buffer_sizes[which], page.buffer_offsets[which]
        case 4:
            page.buffer_sizes.append(page.buffer_sizes[which])
            page.buffer_offsets.append(page.buffer_offsets[which])
        case 5:
            other = rng.randrange(len(page.buffer_sizes))
            for values in (page.buffer_sizes, page.buffer_offsets):
                values[which], values[other] = values[other], values[which]


def page_length(rng: random.Random, parts: Parts) -> None:
    """More or fewer rows than the page has, with a descriptor that believes it."""
    column = rng.choice(parts.columns)
    if column.pages:
        page = rng.choice(column.pages)
        page.length = rng.choice((rng.choice(EXTREMES), max(page.length + rng.choice((-1, 1, 5)), 0))) % 2**64
        total = sum(each.length for each in column.pages)
        parts.descriptor.length = min(total, 2**64 - 1)
        for other in parts.columns:
            if other is not column and other.pages and rng.random() < 0.9:
                del other.pages[:-1]
                other.pages[0].length = min(total, 2**64 - 1)


def _messages(message: Any) -> list[Any]:
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in value if field.is_repeated else [value]:
                found += _messages(child)
    return found


def _layout(page: column_pb2.ColumnMetadata.Page, change: Callable[[pb.PageLayout], None]) -> None:
    layout = _layout_of(page)
    if layout is not None:
        change(layout)
        described = column_pb2.AnyMessage(type_url=TYPE_URL, value=layout.SerializeToString())
        page.encoding.direct.encoding = described.SerializeToString()


def _layout_of(page: column_pb2.ColumnMetadata.Page) -> pb.PageLayout | None:
    """None when a change before this one has broken it."""
    try:
        described = column_pb2.AnyMessage.FromString(page.encoding.direct.encoding)
        return pb.PageLayout.FromString(described.value)
    except DecodeError:
        return None


def layout_numbers(rng: random.Random, parts: Parts) -> None:
    """A number of the layout or of a codec in it, or one layer."""

    def change(layout: pb.PageLayout) -> None:
        target = rng.choice(_messages(layout))
        names = [f for f in target.DESCRIPTOR.fields if f.message_type is None]
        if not names:
            return
        field = rng.choice(names)
        if field.is_repeated:
            values = getattr(target, field.name)
            kind = rng.randrange(3)
            if kind == 0 and values:
                values[rng.randrange(len(values))] = rng.randrange(8)
            elif kind == 1 and values:
                del values[rng.randrange(len(values))]
            else:
                values.append(rng.randrange(8))
        elif field.type == field.TYPE_BYTES:
            text = bytearray(getattr(target, field.name))
            _change_bytes(rng, text, 0, len(text))
            setattr(target, field.name, bytes(text[: rng.choice((len(text), len(text), rng.randrange(len(text) + 1)))]))
        elif field.type == field.TYPE_BOOL:
            setattr(target, field.name, not getattr(target, field.name))
        elif field.type == field.TYPE_ENUM:
            setattr(target, field.name, rng.randrange(4))
        elif field.type in (field.TYPE_UINT32, field.TYPE_INT32):
            setattr(target, field.name, rng.choice(EXTREMES) % 2**31)
        else:
            near = getattr(target, field.name)
            setattr(
                target,
                field.name,
                rng.choice((rng.choice(EXTREMES), max(near + rng.choice((-8, -1, 1, 8)), 0))) % 2**64,
            )

    _layout(rng.choice(parts.pages()), change)


def layout_codecs(rng: random.Random, parts: Parts) -> None:
    """A codec in place of another, from anywhere in the file or new."""
    pool = [m for page in parts.pages() for m in _codecs_of(page)] + [_new_codec(rng, 3)]

    def change(layout: pb.PageLayout) -> None:
        places = [m for m in _messages(layout) if isinstance(m, pb.CompressiveEncoding)]
        if places and rng.random() < 0.8:
            rng.choice(places).CopyFrom(rng.choice(pool))
        elif places and rng.random() < 0.5:
            rng.choice(places).Clear()
        else:
            target = rng.choice(_messages(layout))
            names = [f for f in target.DESCRIPTOR.fields if f.message_type is not None and not f.is_repeated]
            if names:
                field = rng.choice(names)
                if target.HasField(field.name):
                    target.ClearField(field.name)
                else:
                    getattr(target, field.name).SetInParent()

    _layout(rng.choice(parts.pages()), change)


def _codecs_of(page: column_pb2.ColumnMetadata.Page) -> list[pb.CompressiveEncoding]:
    layout = _layout_of(page)
    found = []
    for message in [] if layout is None else _messages(layout):
        if isinstance(message, pb.CompressiveEncoding):
            copy = pb.CompressiveEncoding()
            copy.CopyFrom(message)
            found.append(copy)
    return found


def _new_codec(rng: random.Random, depth: int) -> pb.CompressiveEncoding:
    codec = pb.CompressiveEncoding()
    names = [field.name for field in codec.DESCRIPTOR.fields]
    inner = getattr(codec, rng.choice(names))
    inner.SetInParent()
    for field in inner.DESCRIPTOR.fields:
        if field.message_type is None and not field.is_repeated and field.type == field.TYPE_UINT64:
            setattr(inner, field.name, rng.choice((1, 8, 16, 32, 64, rng.choice(EXTREMES))))
        elif field.message_type is pb.CompressiveEncoding.DESCRIPTOR and depth and rng.random() < 0.8:
            getattr(inner, field.name).CopyFrom(_new_codec(rng, depth - 1))
    return codec


def layout_bytes(rng: random.Random, parts: Parts) -> None:
    page = rng.choice(parts.pages())
    text = bytearray(page.encoding.direct.encoding)
    _change_bytes(rng, text, 0, len(text))
    page.encoding.direct.encoding = bytes(text)


def page_order(rng: random.Random, parts: Parts) -> None:
    """Layouts or whole pages that belong to another page, perhaps of another column."""
    left, right = rng.choice(parts.pages()), rng.choice(parts.pages())
    if rng.random() < 0.5:
        left.encoding.CopyFrom(right.encoding)
    else:
        length = left.length
        left.CopyFrom(right)
        left.length = length


def schema_types(rng: random.Random, parts: Parts) -> None:
    """The schema says something else than the pages were made for."""
    fields = parts.descriptor.schema.fields
    if fields:
        field = rng.choice(fields)
        field.logical_type = rng.choice((rng.choice(TYPES), rng.choice(fields).logical_type))


CHANGES = (buffer_bytes, buffer_bytes, buffer_bytes, buffer_splice, buffer_table, page_length, layout_numbers,
           layout_numbers, layout_codecs, layout_bytes, page_order, schema_types)  # fmt: skip


def changed(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """A description and the bytes of the file after one change, sometimes two."""
    if rng.random() < 0.08:
        body = bytearray(data)
        _change_bytes(rng, body, max(len(body) - rng.choice((40, 400, 10**9)), 0), min(len(body), 40))
        return "file bytes", bytes(body[: rng.choice((len(body), len(body), rng.randrange(len(body))))])
    parts = Parts(data)
    chosen = rng.choices(CHANGES, k=rng.choice((1, 1, 1, 2)))
    for change in chosen:
        change(rng, parts)
    return "+".join(change.__name__ for change in chosen), parts.join()


def _selections(rows: int, rng: random.Random) -> list[Rows]:
    found: list[Rows] = [RowRange(0, min(rows, MANY_ROWS))]
    if rows:
        start = rng.randrange(rows)
        found.append(RowRange(start, min(rows, start + rng.choice((1, 50, MANY_ROWS)))))
        picks = {rng.randrange(rows) for _ in range(rng.choice((1, 2, 40, 400)))} | {rows - 1}
        found.append(RowIndices(np.array(sorted(picks), np.int64)))
        found.append(RowIndices(np.array([start], np.int64)))
    return found


def _sound(array: pa.Array | pa.ChunkedArray, rows: int) -> None:
    if len(array) != rows:
        raise AssertionError(f"{len(array)} rows instead of {rows}")
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        if not any(word in str(error) for word in HARMLESS):
            raise


def _read_together(reader: FileReader, field: Field, rows: Rows) -> pa.Array | None:
    """As scans of small files read their columns; None for what they read otherwise."""
    batch = reader.batch([field]) if isinstance(reader, StructuralFile) and is_small(rows) else None
    return None if batch is None else batch.read(rows)[0]


def _pick_together(reader: FileReader, field: Field, rows: Rows) -> pa.Array | None:
    """As searches and takes read rows of several files; None for what they read otherwise."""
    if not isinstance(reader, StructuralFile) or isinstance(rows, RowRange) or not LeafBatch.of([field]).is_plain:
        return None
    batch = reader.batch([field])
    arrays = None if batch is None else pick_together([batch], np.zeros(len(rows), np.int64), rows.values)
    return None if arrays is None else arrays[0]


def _is_elsewhere(error: LanceletError, data: bytes, rows: Rows) -> bool:
    """Whether an error is about a page that has none of the rows: all pages of a column are looked at together, or only those asked."""
    if (named := re.search(r"column (\d+) page (\d+)", str(error))) is None:
        return False
    pages = Parts(data).columns[int(named[1])].pages
    first = sum(page.length for page in pages[: int(named[2])])
    last = first + pages[int(named[2])].length
    picks = np.arange(rows.start, rows.stop) if isinstance(rows, RowRange) else rows.values
    return not ((picks >= first) & (picks < last)).any()


def _one(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def problems(data: bytes, seed: int) -> list[str]:
    """What is neither an answer nor an error of lancelet's own."""
    found = []
    for mapped in (True, False):
        rng = random.Random(seed)
        try:
            source = Source(data, mapped)
            reader = open_file(source)
            fields = reader.schema().fields
        except LanceletError:
            continue
        except Exception:
            found.append(f"opening: {traceback.format_exc(limit=-6)}")
            continue
        for field in fields:
            for rows in _selections(min(reader.num_rows, 2**62), rng):
                signal.alarm(SECONDS)
                together = None
                try:
                    together = _read_together(reader, field, rows)
                    # Of damage to other rows it knows nothing.
                    picked = _pick_together(reader, field, rows)
                    if picked is not None:
                        _sound(picked, len(rows))
                    alone = run(reader.read(field, rows), source)
                    _sound(alone, len(rows))
                    if picked is not None and (unlike := difference(picked, _one(alone))) is not None:
                        found.append(f"{field.name}: picked with others {unlike}")
                    if together is not None and (unlike := difference(together, _one(alone))) is not None:
                        found.append(f"{field.name}: read together with others {unlike}")
                except LanceletError as error:
                    if together is not None and not _is_elsewhere(error, data, rows):
                        found.append(f"{field.name}: read together with others it is no error, alone {error}")
                except TooSlow:
                    found.append(f"more than {SECONDS} s: {traceback.format_exc(limit=-6)}")
                except Exception:
                    kind = type(rows).__name__
                    found.append(f"mapped={mapped} {field.name} {kind}: {traceback.format_exc(limit=-6)}")
                finally:
                    signal.alarm(0)
    return found


def main() -> None:
    job = json.load(sys.stdin)
    if job["limit"]:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, used + SPARE_BYTES))
    signal.signal(signal.SIGALRM, _alarm)
    files = [path.read_bytes() for path in sorted(Path(job["folder"]).iterdir())]
    names = [path.name for path in sorted(Path(job["folder"]).iterdir())]
    end = time.monotonic() + job.get("seconds", 10**9)
    number = job["first"]
    while number < job["first"] + job["count"] and time.monotonic() < end:
        print(f"NEXT {number}", flush=True)
        rng = random.Random(f"{job['seed']} {number}")
        which = rng.randrange(len(files))
        what, data = changed(files[which], rng)
        for problem in problems(data, number):
            print(
                "FIND", json.dumps(f"{names[which]} {what} seed {job['seed']} number {number}: {problem}"), flush=True
            )
        number += 1
    print(f"DONE {number - job['first']}", flush=True)


if __name__ == "__main__":
    main()
