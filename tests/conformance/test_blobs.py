"""Blob columns: descriptors in a scan, lazy files on request, every way the bytes can be stored."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.blob import Blob, blob_array, blob_field

import lancelet
from conformance.agree import agree
from lancelet.errors import LanceletError

VALUES = [b"abc", None, b"", bytes(range(256)) * 300, b"x" * 70_000] * 4
MARKED = pa.schema(
    [pa.field("k", pa.int32()), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]
)


def marked(where: Path, version: str, **options: Any) -> None:
    """A large_binary column marked as blob: v1 up to file version 2.1, stored as v2 from 2.2 on."""
    table = pa.table([list(range(len(VALUES))), VALUES], schema=MARKED)
    dataset = lance.write_dataset(table, where, data_storage_version=version, max_rows_per_file=8, **options)
    dataset.delete("k = 2 or k = 9")


def logical(where: Path, version: str, **options: Any) -> None:
    """A ``lance.blob.v2`` column: inline, packed and dedicated payloads by size, and ranges of other files."""
    outside = where.parent / "outside.bin"
    outside.write_bytes(bytes(range(256)) * 10)
    uri = outside.as_uri()
    values = [Blob.from_bytes(v) if v is not None else None for v in VALUES[:-2]]
    values += [Blob.from_uri(uri), Blob.from_uri(uri, 100, 50)]
    schema = pa.schema([pa.field("k", pa.int32()), blob_field("b")])
    table = pa.table([pa.array(range(len(values)), pa.int32()), blob_array(values)], schema=schema)
    lance.write_dataset(
        table,
        where,
        data_storage_version=version,
        allow_external_blob_outside_bases=True,
        max_rows_per_file=8,
        **options,
    )


CELLS = [
    pytest.param(marked, "2.0", {}, id="marked-2.0"),
    pytest.param(marked, "2.1", {}, id="marked-2.1"),
    pytest.param(marked, "2.2", {}, id="marked-2.2"),
    pytest.param(marked, "2.2", {"enable_stable_row_ids": True}, id="marked-2.2-stable"),
    pytest.param(logical, "2.2", {}, id="logical-2.2"),
]


@pytest.mark.parametrize(("make", "version", "options"), CELLS)
def test_blobs_read_as_pylance(tmp_path: Path, make: Any, version: str, options: dict[str, Any]) -> None:
    make(tmp_path / "t", version, **options)
    ours, theirs = lancelet.dataset(tmp_path / "t"), lance.dataset(tmp_path / "t")
    for columns in (None, ["b"], ["b", "k"]):
        agree(ours, theirs, lambda ds, columns=columns: ds.to_table(columns))
    for handling in ("all_binary", "blobs_descriptions", "all_descriptions"):
        agree(ours, theirs, lambda ds, handling=handling: ds.to_table(blob_handling=handling))
    agree(ours, theirs, lambda ds: ds.take([0, 3, 1, 3]))
    agree(ours, theirs, lambda ds: ds.to_table(["k"], filter="b is not null"))
    indices = list(range(theirs.count_rows()))[::-1]
    assert _contents(ours.take_blobs("b", indices=indices)) == _contents(theirs.take_blobs("b", indices=indices))
    ids = theirs.to_table(["k"], with_row_id=True)["_rowid"].to_pylist()[::2]
    assert _contents(ours.take_blobs("b", ids=ids)) == _contents(theirs.take_blobs("b", ids=ids))
    addresses = theirs.to_table(["k"], with_row_address=True)["_rowaddr"].to_pylist()[::3]
    assert _contents(ours.take_blobs("b", addresses=addresses)) == _contents(
        theirs.take_blobs("b", addresses=addresses)
    )


def _contents(blobs: list[Any]) -> list[bytes | None]:
    return [None if blob is None else blob.readall() for blob in blobs]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_blob_is_a_file(tmp_path: Path, version: str) -> None:
    marked(tmp_path / "t", version)
    (blob,) = lancelet.dataset(tmp_path / "t").take_blobs("b", indices=[2])
    assert isinstance(blob, io.BufferedIOBase)
    assert (blob.readable(), blob.seekable(), blob.writable(), blob.size()) == (True, True, False, 76_800)
    assert blob.seek(10) == 10
    assert (blob.read(3), blob.tell()) == (b"\n\x0b\x0c", 13)
    assert blob.seek(-3, io.SEEK_END) == 76_797
    assert blob.read() == b"\xfd\xfe\xff"
    assert blob.read() == b""
    blob.seek(0)
    target = bytearray(5)
    assert (blob.readinto(target), bytes(target)) == (5, b"\x00\x01\x02\x03\x04")
    blob.seek(0)
    assert blob.readall() == VALUES[3]
    with lancelet.dataset(tmp_path / "t").take_blobs("b", indices=[0])[0] as small:
        assert small.read(100) == b"abc"
    assert small.closed
    with pytest.raises(ValueError, match="closed"):
        small.read()


@pytest.mark.parametrize(
    "arguments",
    [{}, {"indices": [0], "ids": [0]}, {"indices": [0], "addresses": [0]}],
    ids=["none", "two", "other two"],
)
def test_rows_are_named_in_one_way(tmp_path: Path, arguments: dict[str, list[int]]) -> None:
    marked(tmp_path / "t", "2.1")
    with pytest.raises(ValueError, match="[Ee]xactly one") as caught:
        lancelet.dataset(tmp_path / "t").take_blobs("b", **arguments)
    assert isinstance(caught.value, LanceletError)


@pytest.mark.parametrize("column", ["k", "nothing"])
def test_only_blob_columns_have_blobs(tmp_path: Path, column: str) -> None:
    marked(tmp_path / "t", "2.1")
    with pytest.raises(LanceletError, match=column):
        lancelet.dataset(tmp_path / "t").take_blobs(column, indices=[0])
