"""The keys that a merge inserts, as a filter in its transaction (spec table-format.md 7.5).

It is there when rows are matched by the table's primary key. Two merges whose
filters have a bit in common may have inserted the same key: the later one is
done again. A split-block filter of 1024 blocks, each 8 words of 32 bits; a key
sets one bit in every word of one block::

    bytes of a key   texts and binaries as they are, int32 and int64 as 8 bytes, uint32 and uint64 alike;
                     of several columns each followed by a zero byte
    other types      have no bytes; then all bits are set, so that any two such merges meet
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.merge.key_words import hash_fixed, hash_spans, set_bits
from lancelet.encoding.picking import keep_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.runtime import compute as pc
from lancelet.table.commit.operations import KeyFilter

BYTES = 32768
ITEMS = 8192
PROBABILITY = 0.00057
_WIDENED = {pa.int32(): pa.int64(), pa.uint32(): pa.uint64()}
_WORDS = (pa.int64(), pa.uint64())
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def key_filter(field_ids: Sequence[int], columns: Sequence[pa.Array]) -> KeyFilter:
    """The filter for keys that were inserted; keys with a null are left out."""
    words = np.zeros(BYTES // 4, np.uint32)
    keys = _whole_keys([_widened(column) for column in columns])
    if len(keys[0]):
        hashes = _hashes(keys)
        if hashes is None:
            words[:] = 0xFFFFFFFF
        else:
            set_bits(hashes, words)
    return KeyFilter(tuple(field_ids), words.astype("<u4").tobytes(), BYTES * 8, ITEMS, PROBABILITY)


def _whole_keys(columns: Sequence[pa.Array]) -> list[pa.Array]:
    valid = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count:
            valid &= numpy_array(column.is_valid())
    return list(columns) if valid.all() else [keep_rows(column, arrow_array(valid)) for column in columns]


def _widened(column: pa.Array) -> pa.Array:
    return column.cast(_WIDENED[column.type]) if column.type in _WIDENED else column


def _hashes(columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64] | None:
    """The hash of every key; None when a column has no bytes to hash."""
    if not all(column.type in _WORDS or column.type in _TEXTS for column in columns):
        return None
    if len(columns) == 1 and columns[0].type in _WORDS:
        return hash_fixed(numpy_array(columns[0]).view(np.uint8), 8)
    parts = [_bytes(column) for column in columns]
    whole = parts[0] if len(parts) == 1 else _joined(parts)
    _, where, content = whole.buffers()
    offsets = np.frombuffer(where, np.int64, len(whole) + 1, whole.offset * 8)
    return hash_spans(np.frombuffer(content or b"", np.uint8), offsets)


def _bytes(column: pa.Array) -> pa.Array:
    if column.type in _WORDS:
        column = pa.Array.from_buffers(pa.binary(8), len(column), [None, column.buffers()[1]], offset=column.offset)
    return column.cast(pa.large_binary())


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """The bytes of several columns, each followed by a zero."""
    end = pa.scalar(b"\0", pa.large_binary())
    pieces = [piece for part in parts for piece in (part, pa.repeat(end, len(part)))]
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))
