"""Few rows of plain columns of mapped files, wherever they lie: one call for all fragments, and the order is that of the question.

Rows that were found by a search or named by their numbers are few, and each in a fragment of its own. What a read costs a fragment,
a column and a page is then more than what the rows cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lancelet.encoding.v2_1.leaf_batch import LeafBatch, pick_together
from lancelet.execution.costs import TAKE_PIECE

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.encoding.rows import Indices
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field


def pick_rows_together(
    table: TableReader, fields: Sequence[Field], owners: Indices, offsets: Indices
) -> list[pa.Array] | None:
    """An array for each field, by the places of fragments and the physical rows in them; None where they have to be read."""
    if not fields:
        return []
    if len(owners) > TAKE_PIECE or not LeafBatch.of(fields).is_plain:
        return None
    numbers = owners.tolist()
    places = {owner: place for place, owner in enumerate(dict.fromkeys(numbers))}
    files = []
    for owner in places:
        file = table.reader(owner).bound(fields, len(numbers) // len(places) + 1)
        if file is None:
            return None
        files.append(file)
    return pick_together(files, np.array([places[owner] for owner in numbers], np.int64), np.ascontiguousarray(offsets))
