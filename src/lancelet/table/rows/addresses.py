"""Row addresses: ``fragment id << 32 | physical row offset`` (spec table-format.md 5.1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

OFFSET_BITS = 32
OFFSET_MASK = (1 << OFFSET_BITS) - 1
MAX_ROWS = 1 << OFFSET_BITS
"""Of a fragment."""
MAX_FRAGMENT_ID = 2**32 - 1


def row_address(fragment_id: int, offset: int) -> int:
    return fragment_id << OFFSET_BITS | offset


def row_addresses(fragment_id: int, offsets: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """Addresses of rows of one fragment."""
    addresses: npt.NDArray[np.uint64] = np.asarray(offsets).astype(np.uint64) | np.uint64(fragment_id << OFFSET_BITS)
    return addresses


def fragment_of(address: int) -> int:
    """The id of the fragment that a row is in."""
    return address >> OFFSET_BITS


def fragments_of(addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Ids of the fragments that rows are in."""
    numbers: npt.NDArray[np.uint64] = addresses >> np.uint64(OFFSET_BITS)
    return numbers


def split_addresses(addresses: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Fragment ids and physical offsets of addresses."""
    return fragments_of(addresses).astype(np.int64), (addresses & np.uint64(OFFSET_MASK)).astype(np.int64)


def by_fragment(addresses: npt.NDArray[np.uint64]) -> Iterator[tuple[int, slice, npt.NDArray[np.int64]]]:
    """Fragment id, where its rows are among the addresses, and their offsets; rows of a fragment are neighbours."""
    # The two halves of each address, as they lie: all rows of a table can be among them.
    halves = np.ascontiguousarray(addresses, "<u8").view("<u4").reshape(-1, 2)
    numbers = halves[:, 1]
    bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield int(numbers[start]), slice(start, stop), halves[start:stop, 0].astype(np.int64)
