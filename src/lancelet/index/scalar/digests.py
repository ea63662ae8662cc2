"""What an index must know of a row, as one number: so both can be compared in bounded memory, row by row.

A row's number is the sum of the hashes of its entries (64 bits, without carry), whatever their order: of its value, of
the distinct items of its list, of the trigrams of its text. A null has a hash of its own. Values that filters take for
equal (both zeros, every NaN) have one hash; items of lists have not, since a list may hold both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.index.kind import Entries, Source
from lancelet.index.row_set import RowSet, scan_stored
from lancelet.index.row_set_wire import read_entries
from lancelet.index.scalar.bitmap_file import BITMAPS, BitmapFile, meant_words
from lancelet.index.scalar.bloom import hash_fixed, hash_spans
from lancelet.index.scalar.dictionaries import plain_values
from lancelet.index.scalar.sort_keys import keys_of, words_of
from lancelet.index.scalar.value_types import has_words
from lancelet.runtime import compute as pc

Digests = npt.NDArray[np.uint64]

NULL: Final = np.uint64(0x6C616E63656C6574)
"""The hash of a null value."""
NULL_LIST: Final = np.uint64(0x6C6162656C6C6973)
"""The hash of a list that is null; a null item has that of a null value."""
_ROWS_AT_ONCE: Final = 1 << 20


def value_digests(values: pa.Array, *, exact: bool = False) -> Digests:
    """The hash of each value; ``exact`` keeps apart what filters take for equal."""
    values = plain_values(values)
    found = np.full(len(values), NULL, np.uint64)
    valid = numpy_array(values.is_valid())
    present = values.drop_null() if values.null_count else values
    if not len(present):
        return found
    if has_words(present.type):
        found[valid] = number_digests(words_of(present) if exact else meant_words(present))
        return found
    keys = keys_of(present)
    assert isinstance(keys, tuple)
    data, offsets = keys
    found[valid] = hash_spans(np.ascontiguousarray(data), offsets.astype(np.int64, copy=False))
    return found


def number_digests(words: npt.NDArray[np.uint64]) -> Digests:
    """The hash of each number."""
    return hash_fixed(np.ascontiguousarray(words).view(np.uint8), 8)


def list_digests(lists: pa.Array) -> Digests:
    """The sum of the hashes of the distinct items of each list; 0 for an empty one."""
    found = np.zeros(len(lists), np.uint64)
    owners = np.asarray(pc.list_parent_indices(lists)).astype(np.uint64)
    if len(owners):
        pairs = np.unique(np.stack([owners, value_digests(lists.flatten(), exact=True)], axis=1), axis=0)
        np.add.at(found, pairs[:, 0].astype(np.int64), pairs[:, 1])
    found[np.asarray(lists.is_null())] = NULL_LIST
    return found


def bitmap_entries(file: BitmapFile, source: Source, *, exact: bool = False) -> Iterator[Entries]:
    """All rows of a file, with the hashes of their keys; a key at a time where its rows are many."""
    path = file.reader.path
    for keys, data, offsets in file.blocks():
        hashes = value_digests(keys, exact=exact)
        entries = scan_stored(data, offsets, path, BITMAPS)
        for which in np.flatnonzero(entries.sizes < 0).tolist():
            for rows in source.all_rows(int(entries.highs[which])):
                yield np.full(len(rows), hashes[entries.sets[which]]), rows
        counted = np.flatnonzero(entries.sizes >= 0)
        totals = np.cumsum(entries.sizes[counted])
        first = before = 0
        while first < len(counted):
            last = max(int(np.searchsorted(totals, before + _ROWS_AT_ONCE, side="right")), first + 1)
            some = counted[first:last]
            sizes = entries.sizes[some]
            rows = read_entries(data, entries.highs[some], entries.starts[some], entries.stops[some], sizes)
            yield np.repeat(hashes[entries.sets[some]], sizes), rows
            first, before = last, int(totals[last - 1])


def set_entries(rows: RowSet, digest: np.uint64, source: Source) -> Iterator[Entries]:
    """The rows of a set, each with the same hash."""
    for high in sorted(rows.fragments):
        parts = source.all_rows(high) if rows.is_whole(high) else iter([rows.within([high]).numbers()])
        for numbers in parts:
            yield np.full(len(numbers), digest), numbers
