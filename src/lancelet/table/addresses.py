"""Row addresses: ``fragment id << 32 | physical row offset`` (spec table-format.md 5.1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

OFFSET_BITS = 32
OFFSET_MASK = 2**32 - 1


def row_address(fragment_id: int, offset: int) -> int:
    return fragment_id << OFFSET_BITS | offset


def row_addresses(fragment_id: int, offsets: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """Addresses of rows of one fragment."""
    addresses: npt.NDArray[np.uint64] = np.asarray(offsets).astype(np.uint64) | np.uint64(fragment_id << OFFSET_BITS)
    return addresses


def split_addresses(addresses: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Fragment ids and physical offsets of addresses."""
    fragments = (addresses >> np.uint64(OFFSET_BITS)).astype(np.int64)
    return fragments, (addresses & np.uint64(OFFSET_MASK)).astype(np.int64)
