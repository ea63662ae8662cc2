"""Blobs that are written before their data file, and described to it (spec encodings.md 7.5).

An engine may have the payloads long before the rows, or in another process. It
writes them beside a data file to come, and later gives that file's writer the
*prepared* column: an array of descriptions, made by :class:`BlobDescriptorArrayBuilder`
or :meth:`PackedBlobWriter.finish_array`, under the field that goes with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.errors import InvalidInput, InvalidOption, InvalidType
from lancelet.format.blob_types import (
    BLOB_V2_NAME,
    DEDICATED,
    INLINE,
    MANAGED,
    MANAGED_IN_BASE,
    PACKED,
    PREPARED,
    side_file,
)
from lancelet.format.logical_types import EXTENSION_NAME

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from lancelet.store import Store

_BLOB_IDS = 1 << 32


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """Where the payload of a blob is, beside a data file or in it; without a kind it is null."""

    kind: int | None = None
    data: bytes | None = None
    uri: str | None = None
    blob_id: int | None = None
    blob_size: int | None = None
    position: int | None = None


def prepared_field(name: str) -> pa.Field:
    """A column of prepared blobs. The extension is only named: the type of this name stands for what users write."""
    return pa.field(name, PREPARED, metadata={EXTENSION_NAME: BLOB_V2_NAME})


def prepared_array(descriptors: Iterable[BlobDescriptor]) -> pa.StructArray:
    """Prepared blobs as an array."""
    rows = list(descriptors)
    parts = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in PREPARED]
    mask = pa.array([row.kind is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(parts, fields=list(PREPARED), mask=mask)


class BlobDescriptorArrayBuilder:
    """Makes a column of prepared blobs.

    Parameters
    ----------
    column
        The column's name.

    Examples
    --------
    >>> builder = BlobDescriptorArrayBuilder("clip")
    >>> builder.append_inline(b"small")
    >>> builder.extend_packed(1, [0, 700], [700, 300])
    >>> builder.append_null()
    >>> len(builder.finish())
    4
    """

    def __init__(self, column: str) -> None:
        if not isinstance(column, str):
            raise InvalidType(f"the name of a column is a text, not {column!r}")
        self._field = prepared_field(column)
        self._parts: list[pa.StructArray] = []
        self._rows: list[BlobDescriptor] = []
        self._finished = False

    @property
    def field(self) -> pa.Field:
        """The field of the column."""
        return self._field

    def append(self, value: BlobDescriptor) -> None:
        """Add what a writer of blobs has returned."""
        if not isinstance(value, BlobDescriptor):
            raise InvalidType(f"a BlobDescriptor is wanted, not {type(value)}")
        self._check_open()
        self._rows.append(value)

    def extend(self, values: Iterable[BlobDescriptor]) -> None:
        """Add what a writer of blobs has returned."""
        for value in values:
            self.append(value)

    def append_inline(self, data: bytes) -> None:
        """Add bytes, which go into the data file."""
        self.append(BlobDescriptor(INLINE, _plain_bytes(data)))

    def append_null(self) -> None:
        """Add a null."""
        self.append(BlobDescriptor())

    def append_dedicated(self, blob_id: int, size: int) -> None:
        """Add a blob that has the file ``blob_id`` for its own."""
        self.append(BlobDescriptor(DEDICATED, blob_id=check_blob_id(blob_id), blob_size=_unsigned("size", size)))

    def extend_packed(self, blob_id: int, offsets: Sequence[int], sizes: Sequence[int]) -> None:
        """Add blobs that share the file ``blob_id``."""
        self._check_open()
        check_blob_id(blob_id)
        if len(offsets) != len(sizes):
            raise InvalidInput(f"offsets and sizes must have the same length, got {len(offsets)} and {len(sizes)}")
        positions, lengths = _numbers("offsets", offsets), _numbers("sizes", sizes)
        self._flush()
        count = len(positions)
        parts = [
            pa.array(np.full(count, PACKED, np.uint8)),
            pa.nulls(count, pa.large_binary()),
            pa.nulls(count, pa.string()),
            pa.array(np.full(count, blob_id, np.uint32)),
            lengths,
            positions,
        ]
        self._parts.append(pa.StructArray.from_arrays(parts, fields=list(PREPARED)))

    def append_managed(self, uri: str, offset: int, size: int, *, base_id: int | None = None) -> None:
        """Add a range of an object that the table keeps, by its path below the table or one of its base paths."""
        _check_relative(uri)
        kind = MANAGED if base_id is None else MANAGED_IN_BASE
        number = None if base_id is None else check_blob_id(base_id)
        self.append(
            BlobDescriptor(kind, None, uri, number, _unsigned("size", size), _unsigned("offset", offset)),
        )

    def finish(self) -> pa.StructArray:
        """The column; nothing can be added after it."""
        self._check_open()
        self._flush()
        self._finished = True
        return pa.concat_arrays(self._parts) if self._parts else prepared_array(())

    def _flush(self) -> None:
        if self._rows:
            self._parts.append(prepared_array(self._rows))
            self._rows = []

    def _check_open(self) -> None:
        if self._finished:
            raise InvalidInput("BlobDescriptorArrayBuilder is already finished; begin another one")


class _SideFile:
    """A file of blobs under construction; leaving it early as a context removes it."""

    def __init__(self, store: Store, data_file: str, blob_id: int) -> None:
        if not data_file.endswith(".lance"):
            raise InvalidInput(
                f"the data file '{data_file}' must end with '.lance': its blobs are in a folder of its name"
            )
        self._blob_id = check_blob_id(blob_id)
        self._store = store
        self._name = side_file(data_file, blob_id)
        self._sink = store.open_sink(self._name)
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    @property
    def path(self) -> str:
        """Full path or URI of the file."""
        return self._sink.path

    @property
    def blob_id(self) -> int:
        """The number of the file."""
        return self._blob_id

    def abort(self) -> None:
        """Give up: nothing of the file is left. Does nothing after it is finished."""
        if not self._finished:
            self._finished = True
            self._sink.abort()

    def _close(self) -> None:
        self._check_open()
        self._finished = True
        self._sink.finish()
        self._store.settle([self._name])

    def _check_open(self) -> None:
        if self._finished:
            raise InvalidInput(f"{type(self).__name__} is already finished; begin another one")


class PackedBlobWriter(_SideFile):
    """Writes many blobs into one file beside a data file to come.

    See :meth:`lancelet.file.LanceFileSession.open_packed_blob_writer`.
    """

    def __init__(self, store: Store, data_file: str, blob_id: int) -> None:
        super().__init__(store, data_file, blob_id)
        self._positions: list[int | None] = []
        self._sizes: list[int] = []
        self._field: pa.Field | None = None

    def write_blob(self, data: bytes) -> None:
        """Add a blob."""
        self._check_open()
        content = _plain_bytes(data)
        self._positions.append(self._sink.tell())
        self._sizes.append(len(content))
        self._sink.write(content)

    def write_blobs(self, payloads: pa.Array | pa.ChunkedArray) -> None:
        """Add the blobs of a binary array: nulls stay nulls, empty values are empty blobs."""
        self._check_open()
        if not isinstance(payloads, (pa.Array, pa.ChunkedArray)):
            raise InvalidInput(f"payloads is a binary array of pyarrow, not {type(payloads)}")
        if not _is_binary(payloads.type):
            raise InvalidInput(f"payloads is an array of binary values, not of {payloads.type}")
        for chunk in payloads.chunks if isinstance(payloads, pa.ChunkedArray) else [payloads]:
            self._write_array(chunk)

    def _write_array(self, payloads: pa.Array) -> None:
        values = payloads.cast(pa.large_binary()).fill_null(b"")
        if len(values) == 0:
            return
        _, where, content = values.buffers()
        offsets = np.frombuffer(where, np.int64)[values.offset : values.offset + len(values) + 1]
        starts = offsets[:-1] - offsets[0] + self._sink.tell()
        known = numpy_array(payloads.is_valid()).tolist()
        self._positions += [at if ok else None for at, ok in zip(starts.tolist(), known, strict=True)]
        self._sizes += np.diff(offsets).tolist()
        self._sink.write(np.frombuffer(content or b"", np.uint8)[offsets[0] : offsets[-1]])

    def finish(self) -> list[BlobDescriptor]:
        """Complete the file; a description of each blob."""
        self._close()
        return [
            BlobDescriptor() if at is None else BlobDescriptor(PACKED, None, None, self._blob_id, size, at)
            for at, size in zip(self._positions, self._sizes, strict=True)
        ]

    def finish_array(self, field_name: str) -> pa.StructArray:
        """Complete the file; the blobs as a prepared column, for which :attr:`field` is the field."""
        descriptors = self.finish()
        self._field = prepared_field(field_name)
        return prepared_array(descriptors)

    @property
    def field(self) -> pa.Field:
        """The field of what :meth:`finish_array` has returned."""
        if self._field is None:
            raise InvalidInput("PackedBlobWriter has a field after finish_array, which names it")
        return self._field


class DedicatedBlobWriter(_SideFile):
    """Writes one large blob, piece by piece, into a file beside a data file to come.

    See :meth:`lancelet.file.LanceFileSession.open_dedicated_blob_writer`.
    """

    def write(self, data: bytes) -> None:
        """Add a piece."""
        self._check_open()
        self._sink.write(_plain_bytes(data))

    def finish(self) -> BlobDescriptor:
        """Complete the file; what describes the blob."""
        size = self._sink.tell()
        self._close()
        return BlobDescriptor(DEDICATED, blob_id=self._blob_id, blob_size=size)


def check_blob_id(number: object) -> int:
    """The number of a file of blobs, if it is one."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidType(f"a blob id is a number, not {number!r}")
    if number == 0:
        raise InvalidInput("Blob id 0 is reserved: ids begin at 1")
    if not 0 < number < _BLOB_IDS:
        raise InvalidOption(f"a blob id has 32 bits, {number} has not")
    return number


def _unsigned(title: str, number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidType(f"{title} is a number, not {number!r}")
    if not 0 <= number < 1 << 64:
        raise InvalidOption(f"{title} is {number}; it has 64 bits and no sign")
    return number


def _numbers(title: str, values: object) -> pa.Array:
    try:
        return pa.array(values, pa.uint64())
    except (pa.ArrowInvalid, OverflowError) as error:
        raise InvalidOption(f"{title} has numbers that are negative or too large: {error}") from None


def _plain_bytes(data: object) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidType(f"the payload of a blob is bytes, not {type(data)}")
    return bytes(data)


def _is_binary(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(dtype)
        or pa.types.is_large_binary(dtype)
        or pa.types.is_fixed_size_binary(dtype)
        or pa.types.is_binary_view(dtype)
    )


def _check_relative(path: object) -> None:
    if not isinstance(path, str):
        raise InvalidType(f"the path of a managed blob is a text, not {path!r}")
    if not path or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidInput(f"a managed blob is at a relative path without empty or dotted parts, not at {path!r}")
