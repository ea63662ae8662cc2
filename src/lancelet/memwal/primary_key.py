"""The primary key of a table in a MemWAL: which rows share one, its bytes in order, its filter (spec memwal.md 7).

::

    order of a key of several columns    per column 00 for null, or 01 and
                                         integers      8 bytes, big endian, the sign bit flipped
                                         bool          1 byte
                                         texts, bytes  00 as 00 FF, then 00 00
    hash of a key for the filter         per column 01 for null, or 00 and
                                         int32, int64  little endian
                                         text          the bytes, then FF
                                         bytes         their number in 8 bytes, then the bytes

pylance hashes keys of other types as if they had no bytes, so that their filters say nothing: ours are full for them, and
theirs are not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.merge import plain, primary_key_ids
from lancelet.encoding.plain import numpy_array
from lancelet.errors import InvalidInput, InvalidOption, InvalidType
from lancelet.index.scalar.bloom import insert, probe_each
from lancelet.memwal.names import TOMBSTONE
from lancelet.memwal.siphash import hash_spans
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.format.schema import Field, Schema

FILTER_BYTES: Final = 32768
"""For 8192 keys, of which 0.00057 others seem to be there."""
_HASHED: Final = (pa.int32(), pa.int64(), pa.string(), pa.binary())
_BYTES: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_JOIN: Final = pa.scalar(b"", pa.large_binary())

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """The columns by which rows are told apart; none for a table to which rows are only added."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, schema: Schema) -> PrimaryKey:
        by_id = {field.id: field for field in schema.fields}
        key = cls(tuple(by_id[number] for number in primary_key_ids(schema)))
        for field in key.fields:
            if not _can_be_key(field.arrow_type):
                raise InvalidType(
                    f"Primary key column '{field.name}' has unsupported type {field.arrow_type} for a MemWAL; supported types "
                    "are integers, booleans, texts and bytes"
                )
        return key

    def __bool__(self) -> bool:
        return bool(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> list[pa.DataType]:
        return [field.arrow_type for field in self.fields]

    @property
    def index_type(self) -> pa.DataType:
        """The type of the values in ``_pk_index``."""
        return self.types[0] if len(self.fields) == 1 else pa.binary()

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [plain(batch.column(name)) for name in self.names]

    def require(self, what: str) -> None:
        """Refuse what makes no sense without a key."""
        if not self:
            raise InvalidInput(
                f"{what} requires a primary key, and the table has none: set the metadata "
                "'lance-schema:unenforced-primary-key' of the columns of the key to 'true'"
            )


def refuse_mark(schema: Schema, uri: str) -> None:
    """Refuse tables with a column of the name by which logs and runs mark deletions."""
    if TOMBSTONE in schema.names:
        raise InvalidOption(
            f"{uri} has a column '{TOMBSTONE}', which is the name of the column by which a MemWAL marks deletions; rename it"
        )


def _can_be_key(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_boolean(dtype) or dtype in _BYTES)


def key_values(columns: Sequence[pa.Array]) -> pa.Array:
    """Keys as one column, in the order of which they are sorted: that of the key itself, or bytes for several columns."""
    if len(columns) == 1:
        return columns[0]
    joined = pc.binary_join_element_wise(*(_ordered(column) for column in columns), _JOIN)
    return joined.cast(pa.binary())


def _ordered(column: pa.Array) -> pa.Array:
    dtype = column.type
    if dtype in _BYTES:
        raw = column.cast(pa.large_binary())
        if pc.any(pc.match_substring(raw, b"\0")).as_py():
            raw = pc.replace_substring(raw, b"\0", b"\0\xff")
        body = pc.binary_join_element_wise(_same(len(column), b"\1"), raw, _same(len(column), b"\0\0"), _JOIN)
    else:
        width = 1 if pa.types.is_boolean(dtype) else 8
        content = np.empty((len(column), 1 + width), np.uint8)
        content[:, 0] = 1
        filled = column.fill_null(False if width == 1 else 0) if column.null_count else column
        values = numpy_array(filled)
        if width == 1:
            content[:, 1] = values
        else:
            words = values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)
            if values.dtype.kind == "i":
                words = words ^ np.uint64(1 << 63)
            content[:, 1:] = words.astype(">u8").view(np.uint8).reshape(-1, 8)
        body = _binary(content)
    if column.null_count:
        return pc.if_else(column.is_valid(), body, pa.scalar(b"\0", pa.large_binary()))
    return body


def _same(count: int, value: bytes) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.large_binary()), count)


def _binary(content: npt.NDArray[np.uint8]) -> pa.Array:
    """Rows of bytes of one width as values."""
    rows, width = content.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.Array.from_buffers(pa.large_binary(), rows, buffers)


def last_of_each(values: pa.Array) -> Rows:
    """The last row of every key, ascending."""
    codes = numpy_array(values.dictionary_encode(null_encoding="encode").indices)
    last = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    np.maximum.at(last, codes, np.arange(len(codes)))
    last.sort()
    return last


def key_bytes(columns: Sequence[pa.Array]) -> int:
    """How large the keys of a batch are in memory, as pylance counts it."""
    return sum(_column_bytes(column) for column in columns)


def _column_bytes(column: pa.Array) -> int:
    dtype, count = column.type, len(column)
    if pa.types.is_boolean(dtype):
        return -(-count // 8)
    if dtype not in _BYTES:
        return count * _width(dtype)
    large = dtype in (pa.large_string(), pa.large_binary())
    return int(pc.sum(pc.binary_length(column)).as_py() or 0) + count * (8 if large else 4)


def _width(dtype: pa.DataType) -> int:
    return int(dtype.bit_width) // 8


def hashes(columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64] | None:
    """The hash of each key; None when a column is of a type that filters do not know."""
    if not columns or any(column.type not in _HASHED for column in columns):
        return None
    parts = [_hashed(column) for column in columns]
    whole = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _JOIN)
    _, where, content = whole.buffers()
    if where is None:
        return np.empty(0, np.uint64)
    offsets = np.frombuffer(where, np.int64, len(whole) + 1, whole.offset * 8)
    return hash_spans(np.frombuffer(content or b"", np.uint8), offsets)


def _hashed(column: pa.Array) -> pa.Array:
    """The bytes that are hashed of each value."""
    count = len(column)
    if column.type == pa.string():
        body = pc.binary_join_element_wise(
            _same(count, b"\0"), column.cast(pa.large_binary()), _same(count, b"\xff"), _JOIN
        )
    elif column.type == pa.binary():
        lengths = numpy_array(pc.binary_length(column).fill_null(0)).astype("<u8").view(np.uint8).reshape(-1, 8)
        body = pc.binary_join_element_wise(_same(count, b"\0"), _binary(lengths), column.cast(pa.large_binary()), _JOIN)
    else:
        width = _width(column.type)
        values = numpy_array(column.fill_null(0) if column.null_count else column)
        content = np.zeros((count, 1 + width), np.uint8)
        content[:, 1:] = np.ascontiguousarray(values).astype(f"<i{width}").view(np.uint8).reshape(-1, width)
        body = _binary(content)
    if column.null_count:
        return pc.if_else(column.is_valid(), body, pa.scalar(b"\1", pa.large_binary()))
    return body


def bloom_filter(columns: Sequence[pa.Array]) -> bytes:
    """The content of ``bloom_filter.bin`` for some keys; full for types that it does not know.

    Without a primary key it has, as that of pylance, the key of no columns at all.
    """
    words = np.zeros((1, FILTER_BYTES), np.uint8)
    found = hashes(columns) if columns else hash_spans(np.empty(0, np.uint8), np.zeros(2, np.int64))
    if found is None:
        words[:] = 0xFF
    else:
        insert(found, np.empty(0, np.uint8), np.zeros(1, np.int64), words)
    return words.tobytes()


def may_hold(data: bytes, hashed: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """For each key, by its hash, whether a run may have it, as far as its filter tells."""
    return probe_each(hashed, np.frombuffer(data, np.uint8)).astype(np.bool_)
