"""The order in which indices keep values (spec indices.md 4), and keys that are in the same order.

Numbers and times ascend, floats in the total order of IEEE 754, false is before true, texts and bytes go byte by
byte. Nulls come before all of them and have no key here::

    integers, times   64 bits, the sign flipped          -1 -> 0x7fff...      0 -> 0x8000...
    floats            their bits, all of them flipped under a sign, else the sign
                      -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN
    texts, bytes      as they are
    decimals          16 or 32 bytes, the highest first, the sign flipped
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array
from lancelet.index.scalar.value_types import has_words
from lancelet.index.sorting import compare_spans, find_spans, sort_spans, sort_words

Words = npt.NDArray[np.uint64]
Spans = tuple[npt.NDArray[np.uint8], npt.NDArray[np.signedinteger[Any]]]
"""Bytes, and the offsets between every two of which one value is."""
Keys = Words | Spans

_SIGN: Final = np.uint64(1 << 63)
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def order_of(values: pa.Array) -> npt.NDArray[np.uint32]:
    """The places of values, of which none is null, in ascending order; equal ones stay in the order in which they are."""
    if has_words(values.type):
        return sort_words(words_of(values))
    return sort_spans(*_spans(values))


def is_ascending(values: pa.Array) -> bool:
    """Whether values, of which none is null, are in order."""
    if has_words(values.type):
        words = words_of(values)
        return bool((words[1:] >= words[:-1]).all())
    # Sorting finds out at once, and leaves what is in order where it is.
    return bool((order_of(values) == np.arange(len(values), dtype=np.uint32)).all())


def places_of(values: pa.Array, wanted: pa.Array, after: bool) -> npt.NDArray[np.int64]:
    """For each wanted value how many of sorted ones are below it; or, ``after`` equal ones, not above it.

    None is null.
    """
    return find(keys_of(values), keys_of(wanted), after)


def keys_of(values: pa.Array) -> Keys:
    """What values, of which none is null, are compared by."""
    return words_of(values) if has_words(values.type) else _spans(values)


def find(keys: Keys, wanted: Keys, after: bool) -> npt.NDArray[np.int64]:
    """As :func:`places_of`, of keys."""
    if isinstance(keys, tuple):
        assert isinstance(wanted, tuple)
        data, offsets = keys
        return find_spans(data, offsets.astype(np.int64, copy=False), *wanted, after)
    return keys.searchsorted(wanted, "right" if after else "left")


def kept_keys(keys: Keys) -> Keys:
    """The same keys with no more memory than they need, and nothing else behind it."""
    if not isinstance(keys, tuple):
        return keys
    data, offsets = keys
    first, last = int(offsets[0]), int(offsets[-1])
    near = offsets - first
    return data[first:last].copy(), near.astype(np.int32) if last - first < 1 << 31 else near


def keys_between(keys: Keys, start: int, stop: int) -> Keys:
    """Some of the keys."""
    return (keys[0], keys[1][start : stop + 1]) if isinstance(keys, tuple) else keys[start:stop]


def compared(values: pa.Array, others: pa.Array) -> npt.NDArray[np.int8]:
    """For each value -1 when it is below the one in the same place of others, 1 when it is above, else 0.

    None is null.
    """
    mine, theirs = keys_of(values), keys_of(others)
    if isinstance(mine, tuple):
        return compare_spans(*mine, *theirs)
    return (mine > theirs).astype(np.int8) - (mine < theirs)


def distinct(values: pa.Array) -> pa.Array:
    """Values, of which none is null, in ascending order, each once."""
    if len(values) < 2:
        return values
    ordered = values.take(arrow_array(order_of(values)))
    first = np.ones(len(ordered), np.bool_)
    first[1:] = compared(ordered[1:], ordered[:-1]) > 0
    return ordered.filter(arrow_array(first))


def key_at(values: pa.Array, place: int) -> Any:
    """One value, which is not null, as Python sorts it: a number or bytes."""
    one = values.slice(place, 1)
    if has_words(values.type):
        return int(words_of(one)[0])
    data, offsets = _spans(one)
    return data[offsets[0] : offsets[1]].tobytes()


def words_of(values: pa.Array) -> Words:
    """The words of values, of which none is null; an array of its own."""
    dtype = values.type
    if pa.types.is_boolean(dtype):
        bits: npt.NDArray[np.uint8] = values.cast(pa.uint8()).to_numpy(zero_copy_only=False)
        return bits.astype(np.uint64)
    width = dtype.bit_width // 8
    if pa.types.is_floating(dtype):
        bits = _fixed(values, _UNSIGNED[width])
        sign = bits.dtype.type(1 << (8 * width - 1))
        return np.where(bits & sign, ~bits, bits | sign).astype(np.uint64)
    if pa.types.is_unsigned_integer(dtype):
        return _fixed(values, _UNSIGNED[width]).astype(np.uint64)
    numbers: npt.NDArray[np.int64] = _fixed(values, _SIGNED[width]).astype(np.int64)
    words: Words = numbers.view(np.uint64) ^ _SIGN
    return words


def _fixed(values: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The buffer of an array of fixed width."""
    if not len(values):
        return np.empty(0, dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * size)


def _spans(values: pa.Array) -> Spans:
    """The bytes of values and the offsets between them."""
    dtype = values.type
    if pa.types.is_decimal(dtype):
        data, width = _decimal_bytes(values), dtype.byte_width
    elif pa.types.is_fixed_size_binary(dtype):
        width = dtype.byte_width
        data = _fixed(values, np.dtype((np.void, width))).view(np.uint8) if width else np.empty(0, np.uint8)
    else:
        wide = np.int64 if pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype) else np.int32
        _, offsets, bytes_ = values.buffers()
        if offsets is None or not len(values):
            return np.empty(0, np.uint8), np.zeros(len(values) + 1, np.int64)
        found = np.frombuffer(offsets, wide, len(values) + 1, values.offset * np.dtype(wide).itemsize)
        data = np.empty(0, np.uint8) if bytes_ is None else np.frombuffer(bytes_, np.uint8)
        return data, found.astype(np.int64)
    return data, np.arange(len(values) + 1, dtype=np.int64) * width


def _decimal_bytes(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Decimals with the highest byte first, in the order of unsigned bytes."""
    words = values.type.byte_width // 8
    raw: Words = _fixed(values, np.dtype((np.uint64, words))).reshape(-1, words)[:, ::-1].copy()
    raw[:, 0] ^= _SIGN
    return raw.astype(">u8").reshape(-1).view(np.uint8)
