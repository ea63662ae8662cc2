"""BTREE: all values in order, in pages, with the least and the greatest value of each page in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput, InvalidType, NotSupported
from lancelet.index.kind import Built, Moves, NewRows, ScalarKind, Source
from lancelet.index.questions import Between, IsIn, Missing, Question, StartsWith
from lancelet.index.scalar.value_types import has_order, is_bytes, key_type, stored_type

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.scalar.btree_files import PartLookup
    from lancelet.index.scalar.btree_segment import BTreeSegment

_ZONE_SIZE: Final = "zone_size"
_JSON: Final = ("arrow.json", "lance.json")


class BTree(ScalarKind):
    """The kind of index that users call ``BTREE``."""

    name = "BTREE"
    type_url = "/lance.table.BTreeIndexDetails"
    marks = ("page_lookup.lance",)
    last_version_with_ids = 0
    newest_version = 1
    moves = Moves.REWRITTEN
    is_exact = True
    rank = 1

    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        """Raise when a column cannot have such an index, or an option is not known."""
        if not _can_have(column.type):
            raise InvalidType(
                f"a BTREE index is on numbers, booleans, texts, bytes, decimals or times; "
                f"column {column.name!r} is {column.type}"
            )
        _page_rows(options)
        if unknown := set(options) - {_ZONE_SIZE}:
            raise InvalidInput(f"a BTREE index has no option {min(unknown)!r}, only {_ZONE_SIZE!r}")

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        """Whether segments over a column of this type answer such questions."""
        if not _can_have(dtype):
            return False
        return isinstance(question, IsIn | Between | Missing) or (
            isinstance(question, StartsWith) and is_bytes(_compared(dtype))
        )

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        """Pages are as large as those of the segment."""
        from lancelet.index.scalar.btree_lookup import read_page_rows

        try:
            return {_ZONE_SIZE: read_page_rows(folder)}
        except (CorruptFile, NotSupported, FileNotFoundError):
            # What replaces damaged files has pages as a new segment has.
            return {}

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> BTreeSegment:
        """Read the lookup of a segment."""
        from lancelet.index.scalar.btree_lookup import open_segment

        return open_segment(folder, _compared(dtype))

    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        """Sort new rows and merge them with those of older segments."""
        from lancelet.index.scalar.btree_files import built
        from lancelet.index.scalar.btree_lookup import write_segment

        write_segment(sources, rows, stored_type(rows.dtype), out, _page_rows(options))
        return built(out)

    def write_range(
        self, batches: Iterable[pa.RecordBatch], dtype: pa.DataType, out: SegmentWriter, part: int, attempt: int
    ) -> PartLookup:
        """Write the pages of one range of the values."""
        from lancelet.index.scalar.btree_files import write_part

        return write_part(batches, dtype, out, part, attempt=attempt)

    def files_of_range(self, part: PartLookup) -> Sequence[str]:
        """The file of a range that has rows."""
        return () if part.file is None else (part.file.path,)

    def finish_ranges(self, parts: Iterable[PartLookup], dtype: pa.DataType, out: SegmentWriter) -> Built:
        """Write the lookup of the pages of all ranges."""
        from lancelet.index.scalar.btree_files import finish_parts

        return finish_parts(parts, dtype, out)


def _compared(dtype: pa.DataType) -> pa.DataType:
    """The type in which values are compared."""
    return key_type(stored_type(dtype))


def _can_have(dtype: pa.DataType) -> bool:
    is_json = isinstance(dtype, pa.BaseExtensionType) and dtype.extension_name in _JSON
    return has_order(_compared(dtype)) and not is_json


def _page_rows(options: Mapping[str, object]) -> int | None:
    rows = options.get(_ZONE_SIZE)
    if rows is not None and (not isinstance(rows, int) or not 0 < rows < 1 << 32):
        raise InvalidInput(f"{_ZONE_SIZE} is the number of rows of a page, not {rows!r}")
    return rows


KIND: Final = BTree()
