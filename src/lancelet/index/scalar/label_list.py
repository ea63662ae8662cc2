"""LABEL_LIST: for each distinct item the rows whose list has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidType
from lancelet.index.kind import Built, Moves, NewRows, ScalarKind, Source
from lancelet.index.questions import HasItems, Question
from lancelet.index.scalar.options import refuse_options
from lancelet.index.scalar.value_types import has_order, key_type

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.scalar.label_list_segment import LabelListSegment


class LabelListKind(ScalarKind):
    """The kind of index that users call ``LABEL_LIST``."""

    name = "LABEL_LIST"
    type_url = "/lance.table.LabelListIndexDetails"
    last_version_with_ids = 1
    newest_version = 1
    moves = Moves.REWRITTEN
    is_exact = True
    rank = 2

    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        if not _is_list(column.type):
            raise InvalidType(
                f"column {column.name!r} is {column.type}; a LABEL_LIST index takes lists and large lists"
            )
        if not has_order(key_type(column.type.value_type)):
            raise InvalidInput(
                f"column {column.name!r} is {column.type}; the items of a LABEL_LIST index must be single values"
            )
        refuse_options(self.name, options)

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        # Every list has all of no items, also those that are under no key.
        if not isinstance(question, HasItems) or (question.every and not len(question.items)):
            return False
        return _is_list(dtype) and has_order(key_type(dtype.value_type))

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> LabelListSegment:
        from lancelet.index.scalar.label_list_segment import open_segment

        return open_segment(folder, dtype)

    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        from lancelet.index.scalar.label_list_segment import write_segment

        return Built(index_version=write_segment(sources, rows, out))


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype))


KIND: Final = LabelListKind()
