"""Few rows of plain columns, and of vectors, of mapped files, wherever they lie: one call for all fragments, and the order is that of the question.

Rows that were found by a search or named by their numbers are few, and each in a fragment of its own. What a read costs a fragment,
a column and a page is then more than what the rows cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.encoding.v2_1.leaf_batch import LeafBatch, pick_together
from lancelet.execution.costs import TAKE_PIECE

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.encoding.rows import Indices
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field


def pick_rows_together(
    table: TableReader, fields: Sequence[Field], owners: Indices, offsets: Indices
) -> list[pa.Array] | None:
    """An array for each field, by the places of fragments and the physical rows in them; None where they have to be read."""
    if not fields:
        return []
    leaves = LeafBatch.of(fields)
    if len(owners) > TAKE_PIECE or leaves.nested:
        return None
    is_plain = ((leaves.kinds == 1) & (leaves.widths != 0)).tolist()
    lists = []
    for field, plain in zip(fields, is_plain, strict=True):
        if not plain:
            array = _pick_lists(table, field, owners, offsets)
            if array is None:
                return None
            lists.append(array)
    plain_fields = [field for field, plain in zip(fields, is_plain, strict=True) if plain]
    picked = _pick_plain(table, plain_fields, owners, offsets) if plain_fields else []
    if picked is None or not lists:
        return picked
    wide, narrow = iter(lists), iter(picked)
    return [next(narrow if plain else wide) for plain in is_plain]


def _pick_plain(
    table: TableReader, fields: Sequence[Field], owners: Indices, offsets: Indices
) -> list[pa.Array] | None:
    """Leaves without nesting."""
    numbers = owners.tolist()
    places = {owner: place for place, owner in enumerate(dict.fromkeys(numbers))}
    files = []
    for owner in places:
        file = table.reader(owner).bound(fields, len(numbers) // len(places) + 1)
        if file is None:
            return None
        files.append(file)
    return pick_together(files, np.array([places[owner] for owner in numbers], np.int64), np.ascontiguousarray(offsets))


def _pick_lists(table: TableReader, field: Field, owners: Indices, offsets: Indices) -> pa.Array | None:
    """Lists of a fixed size that lie in the files as they are: vectors."""
    dtype = field.arrow_type
    if not pa.types.is_fixed_size_list(dtype) or dtype.value_type.num_fields:
        return None
    rows: npt.NDArray[np.uint8] | None = None
    for owner in dict.fromkeys(owners.tolist()):
        here = np.flatnonzero(owners == owner)
        found = table.reader(owner).records(field, offsets[here])
        if found is None:
            return None
        if rows is None:
            rows = np.empty((len(owners), found.size), np.uint8)
        rows[here] = found.matrix()
    assert rows is not None, "there is a row"
    items = pa.Array.from_buffers(dtype.value_type, len(owners) * dtype.list_size, [None, pa.py_buffer(rows)])
    return pa.Array.from_buffers(dtype, len(owners), [None], 0, children=[items])
