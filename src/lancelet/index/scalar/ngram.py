"""NGRAM: for every three letters or digits in a row, the rows of whose text they are a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lancelet.errors import InvalidType
from lancelet.index.kind import Built, Moves, NewRows, ScalarKind, Source
from lancelet.index.questions import Holds, Question, StartsWith
from lancelet.index.scalar.options import refuse_json, refuse_unknown

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.scalar.ngram_segment import NGrams

_FILE: Final = "ngram_postings.lance"


class NGramKind(ScalarKind):
    """The kind of index that users call ``NGRAM``."""

    name = "NGRAM"
    type_url = "/lance.table.NGramIndexDetails"
    marks = (_FILE,)
    last_version_with_ids = 0
    moves = Moves.REWRITTEN
    rank = 3

    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
            raise InvalidType(f"NGRAM index column {column.name} must be a string, not {column.type}")
        refuse_json(column, self.name)
        refuse_unknown(options, (), self.name)

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        if not isinstance(question, Holds | StartsWith):
            return False
        from lancelet.index.scalar.ngram_segment import wanted_trigrams

        return len(wanted_trigrams(question)) > 0

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> NGrams:
        from lancelet.index.scalar.ngram_segment import NGrams

        return NGrams(folder.open(_FILE))

    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        from lancelet.index.scalar.ngram_segment import write_segment

        write_segment(sources, rows, out)
        return Built()


KIND: Final = NGramKind()
