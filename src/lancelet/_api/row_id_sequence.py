"""The stable row ids of a fragment, for those who write fragments themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet._api.fragment_metadata import RowIdMeta
from lancelet.errors import InvalidInput, InvalidOption, InvalidType
from lancelet.table.rows.row_id_write import encode_row_ids
from lancelet.table.rows.row_ids import parse_row_ids

__all__ = ["RowIdSequence"]


class RowIdSequence:
    """Stable row ids of one fragment, in the order of its rows; each occurs once.

    Parameters
    ----------
    row_ids
        Numbers, or an Arrow array of them.

    Examples
    --------
    >>> ids = RowIdSequence([1, 2, 3, 7])
    >>> RowIdSequence.from_inline_metadata(ids.to_inline_metadata()) == ids
    True
    """

    __slots__ = ("_ids",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, row_ids: object) -> None:
        self._ids = np.array(_unsigned(row_ids), np.uint64)
        distinct, counts = np.unique(self._ids, return_counts=True)
        if len(distinct) < len(self._ids):
            raise InvalidInput(f"row ids are unique, but {int(distinct[counts > 1][0])} is there more than once")

    @staticmethod
    def from_inline_metadata(metadata: RowIdMeta) -> RowIdSequence:
        """The sequence that a fragment's metadata holds."""
        if not isinstance(metadata, RowIdMeta):
            raise InvalidType(f"a RowIdMeta is wanted, not {type(metadata)}")
        found = parse_row_ids(metadata.inline, None, "row id metadata", "row ids")
        return RowIdSequence(found.slice(0, len(found)))

    def to_inline_metadata(self) -> RowIdMeta:
        """The sequence as a fragment's metadata holds it."""
        return RowIdMeta(encode_row_ids(self._ids))

    def to_pyarrow(self) -> pa.Array:
        """The ids as an Arrow array."""
        return pa.array(self._ids)

    def __reduce__(self) -> tuple[object, ...]:
        return RowIdSequence, (self._ids,)

    def __repr__(self) -> str:
        return f"RowIdSequence({self._ids.tolist()})"

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids.tolist())

    def __eq__(self, other: object) -> bool:
        return np.array_equal(self._ids, other._ids) if isinstance(other, RowIdSequence) else NotImplemented


def _unsigned(row_ids: object) -> Any:
    if isinstance(row_ids, (pa.Array, pa.ChunkedArray)):
        if row_ids.null_count:
            raise InvalidInput(f"row ids are never null, {row_ids.null_count} of them are")
        row_ids = row_ids.to_numpy()
    elif isinstance(row_ids, np.ndarray):
        pass
    elif isinstance(row_ids, Iterable):
        row_ids = list(row_ids)
        if not all(isinstance(number, (int, np.integer)) for number in row_ids):
            raise InvalidType("row ids are whole numbers, and some of these are not")
        if row_ids and not 0 <= min(row_ids) <= max(row_ids) < 1 << 64:
            raise InvalidOption("row ids have 64 bits and no sign, and some of these have not")
        return row_ids
    if not isinstance(row_ids, np.ndarray) or (len(row_ids) and row_ids.dtype.kind not in "iu"):
        raise InvalidType(f"row ids are whole numbers, or an Arrow array of them, not {type(row_ids)}")
    if len(row_ids) and int(row_ids.min()) < 0:
        raise InvalidOption("row ids have no sign, and some of these have")
    return row_ids
