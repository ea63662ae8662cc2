"""Overlay files: new values for some cells of a fragment (spec table-format.md 8.9).

The newest overlay that covers a cell wins, later ones in the list before earlier
ones; the value of row r is at position rank(r) of the overlay's own column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancelet.encoding.fetch import run
from lancelet.encoding.rows import RowIndices, Rows
from lancelet.errors import CorruptFile
from lancelet.file import FileCache
from lancelet.format.schema import Field
from lancelet.table.fragment import Fragment
from lancelet.table.snapshot import Snapshot


def apply_overlays(
    snapshot: Snapshot,
    fragment: Fragment,
    cache: FileCache,
    field: Field,
    column: pa.Array | pa.ChunkedArray,
    rows: Rows,
) -> pa.Array | pa.ChunkedArray:
    """Replace the cells of a top-level field that overlays cover, oldest overlay first."""
    wanted = rows.to_indices()
    order = sorted(range(len(fragment.overlays)), key=lambda i: (fragment.overlays[i].committed_version, i))
    for index in order:
        overlay = fragment.overlays[index]
        place = snapshot.places.data_file(overlay.file)
        covered = next((c for node in field.walk() if (c := overlay.rows(node.id, place.full_path)) is not None), None)
        if covered is None:
            continue
        offsets = np.array(covered, dtype=np.int64)
        at = np.minimum(np.searchsorted(offsets, wanted), max(len(offsets) - 1, 0))
        hit = offsets[at] == wanted if len(offsets) else np.zeros(len(wanted), bool)
        if not hit.any():
            continue
        columns = dict(zip(overlay.file.fields, overlay.file.column_indices, strict=True))
        file = cache.open(place.full_path, columns, lambda place=place, size=overlay.file.size: place.open(size))  # type: ignore[misc]
        if file.reader.num_rows < len(offsets):
            raise CorruptFile(
                place.full_path, f"it has {file.reader.num_rows} values for {len(offsets)} cells", "overlay"
            )
        ranks, back = np.unique(at[hit], return_inverse=True)
        values = run(file.reader.read(field, RowIndices(ranks)), file.source)
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        base = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        # Take from both laid end to end: works for every type.
        source = np.arange(len(wanted), dtype=np.int64)
        source[hit] = len(wanted) + back
        column = pa.concat_arrays([base, values]).take(pa.array(source))
    return column
