"""Keys of rows as 64-bit words, so that rows can be matched whatever the types of their keys.

One column of at most 8 bytes a value is its own word, and equal words are equal
keys. All other keys are hashed; rows with equal words are compared then. What
equal means is told by the bytes: NaN equals NaN, and -0.0 is not 0.0. A key
that is null, in any of its columns, equals nothing; inside of structs and lists
nulls are values like others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.merge.key_words import WordIndex, combine, fold_spans, hash_fixed, hash_spans
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.encoding.rows import Bytes, Indices
from lancelet.errors import NotSupported
from lancelet.format.extensions import storage_of
from lancelet.runtime import compute as pc

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_WORD_BITS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Words of the keys of some rows."""

    words: Words
    valid: Mask | None
    """Which keys are not null; None when all are."""

    def flags(self) -> Bytes | None:
        return None if self.valid is None else self.valid.view(np.uint8)


def are_exact(types: Sequence[pa.DataType]) -> bool:
    """Whether equal words of such keys are equal keys."""
    return len(types) == 1 and _width(types[0]) is not None


def keys_of(columns: Sequence[pa.Array]) -> Keys:
    """The words of the keys in some columns, which are plain arrays."""
    valid: Mask | None = None
    for column in columns:
        if column.null_count:
            mask = _valid(column)
            valid = mask if valid is None else valid & mask
    if are_exact([column.type for column in columns]):
        return Keys(_bits(columns[0]), valid)
    words = _digest(columns[0])
    for column in columns[1:]:
        words = combine(words, _digest(column))
    return Keys(words, valid)


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array without extension types, dictionaries and views."""
    if isinstance(column, pa.ChunkedArray):
        whole = column.combine_chunks()
        column = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    column = storage_of(column)
    dtype = column.type
    if pa.types.is_dictionary(dtype):
        return plain(column.dictionary_decode())
    if pa.types.is_string_view(dtype):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(dtype):
        return column.cast(pa.large_binary())
    return column


class KeyIndex:
    """Which rows of a source have a key."""

    __slots__ = ("_columns", "_exact", "_index")

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        keys = keys_of(columns)
        self._columns = list(columns)
        self._exact = are_exact([column.type for column in columns])
        self._index = WordIndex(keys.words, keys.flags())

    @property
    def columns(self) -> list[pa.Array]:
        """The keys themselves."""
        return self._columns

    def last_of_each(self) -> Indices | None:
        """The last row of every key, ascending; None when no two rows share one. Keys are not null."""
        following = self._index.following
        if following is None:
            return None
        last = following < 0
        if not self._exact:
            earlier = np.flatnonzero(~last)
            same = np.ones(len(earlier), np.bool_)
            for column in self._columns:
                same &= equal_rows(column, earlier, column, following[earlier])
            if not same.all():
                return self._last_by_pairs()
        return np.flatnonzero(last)

    def _last_by_pairs(self) -> Indices | None:
        """The same where different keys share a word: rows are compared with all others of their word."""
        here, there = self.match(self._columns)
        last = np.zeros(len(self._columns[0]), np.int64)
        np.maximum.at(last, here, there)
        found = np.flatnonzero(last == np.arange(len(last)))
        return None if len(found) == len(last) else found

    def match(self, columns: Sequence[pa.Array]) -> tuple[Indices, Indices]:
        """Pairs of rows with equal keys: of the columns given, ascending, and of the source."""
        keys = keys_of(columns)
        left, right = self._index.find(keys.words, keys.flags())
        if self._exact or not len(left):
            return left, right
        same = np.ones(len(left), np.bool_)
        for mine, theirs in zip(columns, self._columns, strict=True):
            same &= equal_rows(mine, left, theirs, right)
        return (left, right) if same.all() else (left[same], right[same])


def equal_rows(left: pa.Array, at: Indices, right: pa.Array, there: Indices) -> Mask:
    """Whether rows of one column equal rows of another, pair by pair; null equals null here."""
    return _same(pick_rows(left, arrow_array(at)), pick_rows(right, arrow_array(there)))


def _valid(column: pa.Array) -> Mask:
    mask: Mask = numpy_array(column.is_valid())
    return mask


def _width(dtype: pa.DataType) -> int | None:
    """Bits of a value that fits into a word."""
    if pa.types.is_boolean(dtype):
        return 1
    number = pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_temporal(dtype)
    if number and not pa.types.is_interval(dtype):
        return int(dtype.bit_width)
    return None


def _bits(column: pa.Array) -> Words:
    """The values of a narrow column as they are stored, widened to words; of nulls whatever is there."""
    width = _width(column.type)
    assert width is not None
    if width == 1:
        filled = column.fill_null(False) if column.null_count else column
        return numpy_array(filled).astype(np.uint64)
    data = column.buffers()[1]
    kind = np.dtype(f"u{width // 8}")
    if data is None:
        return np.zeros(len(column), np.uint64)
    stored = np.frombuffer(data, kind, len(column), column.offset * kind.itemsize)
    return stored if width == _WORD_BITS else stored.astype(np.uint64)


def _digest(column: pa.Array) -> Words:
    """A word for every value; equal values have equal words, null has one of its own."""
    words = _digest_values(column)
    if not column.null_count:
        return words
    return np.where(_valid(column), words, _NULL)


def _digest_values(column: pa.Array) -> Words:
    dtype = column.type
    if _width(dtype) is not None:
        return _bits(column)
    if pa.types.is_null(dtype):
        return np.zeros(len(column), np.uint64)
    if _is_bytes(dtype):
        data, offsets = _spans(column)
        return hash_spans(data, offsets)
    if pa.types.is_fixed_size_binary(dtype) or pa.types.is_decimal(dtype):
        return hash_fixed(_fixed(column), dtype.bit_width // 8) if dtype.bit_width else np.zeros(len(column), np.uint64)
    if pa.types.is_struct(dtype):
        words = np.zeros(len(column), np.uint64)
        for index in range(dtype.num_fields):
            words = combine(words, _digest(_child(column, index)))
        return words
    if _is_list(dtype):
        items, offsets = _items(column)
        return fold_spans(_digest(items), offsets)
    raise NotSupported(f"rows cannot be matched by keys of type {dtype}")


def _same(left: pa.Array, right: pa.Array) -> Mask:
    """Row by row; null equals null."""
    nulls = None
    if left.null_count or right.null_count:
        mine, theirs = _valid(left), _valid(right)
        nulls = mine, theirs
    equal = _same_values(left, right)
    if nulls is None:
        return equal
    return np.where(nulls[0] & nulls[1], equal, nulls[0] == nulls[1])


def _same_values(left: pa.Array, right: pa.Array) -> Mask:
    dtype = left.type
    if _width(dtype) is not None:
        return np.asarray(_bits(left) == _bits(right))
    if pa.types.is_null(dtype):
        return np.ones(len(left), np.bool_)
    if pa.types.is_struct(dtype):
        equal = np.ones(len(left), np.bool_)
        for index in range(dtype.num_fields):
            equal &= _same(_child(left, index), _child(right, index))
        return equal
    if _is_list(dtype):
        return _same_lists(left, right)
    if pa.types.is_decimal(dtype) or pa.types.is_fixed_size_binary(dtype):
        width = max(dtype.bit_width // 8, 1)
        shape = (-1, width) if dtype.bit_width else (len(left), 0)
        return np.asarray((_fixed(left).reshape(shape) == _fixed(right).reshape(shape)).all(axis=1))
    return numpy_array(pc.equal(left, right).fill_null(False))


def _same_lists(left: pa.Array, right: pa.Array) -> Mask:
    (mine, starts), (theirs, others) = _items(left), _items(right)
    lengths = np.diff(starts)
    equal = lengths == np.diff(others)
    # Of lists of one length, the items are compared side by side; a list is equal when none of its items differs.
    counts = np.where(equal, lengths, 0)
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    at, there = np.repeat(starts[:-1], counts) + within, np.repeat(others[:-1], counts) + within
    differs = ~equal_rows(mine, at, theirs, there)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(differs)])
    return np.asarray(equal & (before[ends] == before[ends - counts]))


def _is_bytes(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(dtype)
        or pa.types.is_large_string(dtype)
        or pa.types.is_binary(dtype)
        or pa.types.is_large_binary(dtype)
    )


def _is_list(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(dtype)
        or pa.types.is_large_list(dtype)
        or pa.types.is_fixed_size_list(dtype)
        or pa.types.is_map(dtype)
    )


def _spans(column: pa.Array) -> tuple[Bytes, Indices]:
    """The bytes of texts, and where each begins and ends."""
    _, where, content = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    kind = np.dtype(np.int64 if wide else np.int32)
    if where is None or not len(column):
        return np.empty(0, np.uint8), np.zeros(len(column) + 1, np.int64)
    offsets = np.frombuffer(where, kind, len(column) + 1, column.offset * kind.itemsize).astype(np.int64)
    return np.frombuffer(content or b"", np.uint8), offsets


def _fixed(column: pa.Array) -> Bytes:
    width, data = column.type.bit_width // 8, column.buffers()[1]
    if data is None:
        return np.zeros(len(column) * width, np.uint8)
    return np.frombuffer(data, np.uint8, len(column) * width, column.offset * width)


def _child(column: pa.Array, index: int) -> pa.Array:
    """A field of structs; null where the struct is."""
    return plain(column.flatten()[index])


def _items(column: pa.Array) -> tuple[pa.Array, Indices]:
    """The items of lists, and where each list begins and ends among them."""
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        start = column.offset
        items = column.values.slice(start * size, len(column) * size)
        return plain(items), np.arange(len(column) + 1, dtype=np.int64) * size
    items = column.values if not pa.types.is_map(column.type) else _entries(column)
    if not len(column):
        return plain(items), np.zeros(1, np.int64)
    return plain(items), column.offsets.to_numpy().astype(np.int64)


def _entries(column: pa.Array) -> pa.Array:
    keys, items = column.keys, column.items
    return pa.StructArray.from_arrays([keys, items], names=["key", "value"])
