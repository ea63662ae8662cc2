"""RTREE: boxes around geometries, near ones together, in pages with boxes around these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput, InvalidType
from lancelet.format.logical_types import EXTENSION_NAME
from lancelet.index.kind import Built, Moves, NewRows, ScalarKind, Source
from lancelet.index.questions import Missing, Overlaps, Question
from lancelet.index.scalar.options import refuse_unknown

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.scalar.rtree_segment import RTree

_PAGE_SIZE: Final = "page_size"
_MOST: Final = 1 << 31


class RTreeKind(ScalarKind):
    """The kind of index that users call ``RTREE``."""

    name = "RTREE"
    type_url = "/lance.index.pb.RTreeIndexDetails"
    last_version_with_ids = 0
    moves = Moves.REWRITTEN
    rank = 5

    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        from lancelet.index.geometry import NAMES, check_storage

        refuse_unknown(options, (_PAGE_SIZE,), self.name)
        _page_size(options)
        extension = (column.metadata or {}).get(EXTENSION_NAME.encode(), b"").decode(errors="replace")
        if extension not in NAMES or not check_storage(column.type, extension):
            raise InvalidType(
                f"an RTREE index is on geometries of GeoArrow ({', '.join(NAMES)}); column {column.name!r} is "
                f"{extension or column.type}"
            )

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        return isinstance(question, Overlaps | Missing)

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        from lancelet.index.scalar.rtree_segment import read_page_size

        try:
            return {_PAGE_SIZE: read_page_size(folder)}
        except (CorruptFile, FileNotFoundError):
            # What replaces damaged files has pages as a new segment has.
            return {}

    def indexed_values(self, values: pa.Array, folder: IndexFolder) -> pa.Array:
        """The boxes around geometries; null for those without."""
        from lancelet.index.scalar.rtree_segment import box_array

        schema = folder.snapshot.manifest.schema
        (field,) = (node for node in schema.walk() if node.id == folder.entry.fields[0])
        return box_array(values, field.extension_name or "")

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> RTree:
        from lancelet.index.scalar.rtree_segment import RTree

        return RTree(folder)

    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        from lancelet.index.scalar.rtree_segment import write_segment

        write_segment(sources, rows, out, _page_size(options))
        return Built()


def _page_size(options: Mapping[str, object]) -> int:
    size = options.get(_PAGE_SIZE, 4096)
    if isinstance(size, bool) or not isinstance(size, int) or not 2 <= size < _MOST:
        raise InvalidInput(f"{_PAGE_SIZE} is the number of boxes of a page, at least 2, not {size!r}")
    return size


KIND: Final = RTreeKind()
