"""Overlay files: new values for some cells of a fragment (spec table-format.md 8.9).

The newest overlay that covers a cell wins, later ones in the list before earlier
ones; the value of row r is at position rank(r) of the overlay's own column. A cell
belongs to one field: an overlay of a struct's child leaves its siblings as they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.fetch import run
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.rows import RowIndices, Rows
from lancelet.errors import CorruptFile
from lancelet.file import FileCache
from lancelet.format.schema import Field
from lancelet.table.manifest.fragment import Fragment, OverlayFile
from lancelet.table.manifest.snapshot import Snapshot


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
        if any(node.id in overlay.file.fields for node in field.walk()):
            whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            column = _overlaid(snapshot, cache, overlay, (field,), whole, wanted)
    return column


def _overlaid(
    snapshot: Snapshot,
    cache: FileCache,
    overlay: OverlayFile,
    chain: tuple[Field, ...],
    column: pa.Array,
    wanted: npt.NDArray[np.int64],
) -> pa.Array:
    """The values of a field below its structs, which come first in ``chain``."""
    field = chain[-1]
    given = [node.id for node in field.walk() if node.id in overlay.file.fields]
    if not given:
        return column
    if pa.types.is_struct(column.type) and not field.owns_column and field.id not in given:
        children = [
            _overlaid(snapshot, cache, overlay, (*chain, child), column.field(at), wanted)
            for at, child in enumerate(field.children)
        ]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(column.type), mask=mask)
    place = snapshot.places.data_file(overlay.file)
    missing = [node.name for node in field.walk() if node.owns_column and node.id not in given]
    if missing:
        raise CorruptFile(
            place.full_path, f"it covers a part of '{field.name}', but has no '{missing[0]}'", f"field '{field.name}'"
        )
    covered = overlay.rows(given[0], place.full_path)
    offsets = np.array([] if covered is None else covered, dtype=np.int64)
    at = np.minimum(np.searchsorted(offsets, wanted), max(len(offsets) - 1, 0))
    hit = offsets[at] == wanted if len(offsets) else np.zeros(len(wanted), bool)
    if not hit.any():
        return column
    file = cache.open(place.full_path, overlay.file.columns(), lambda: place.open(overlay.file.size))
    if file.reader.num_rows < len(offsets):
        raise CorruptFile(place.full_path, f"it has {file.reader.num_rows} values for {len(offsets)} cells", "overlay")
    ranks, back = np.unique(at[hit], return_inverse=True)
    branch = field
    for parent in reversed(chain[:-1]):
        branch = replace(parent, children=(branch,))
    values = run(file.reader.read(branch, RowIndices(ranks)), file.source)
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    for _ in chain[1:]:
        values = values.field(0)
    # Take from both laid end to end: works for every type.
    source = np.arange(len(wanted), dtype=np.int64)
    source[hit] = len(wanted) + back
    return pick_rows(pa.concat_arrays([column, values]), pa.array(source))
