"""BLOOMFILTER: for every zone a set of its values that errs on one side. Small, and for equality alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput, NotSupported
from lancelet.index.kind import Built, NewRows, ScalarKind, Source
from lancelet.index.questions import IsIn, Missing, Question
from lancelet.index.scalar.options import (
    DEFAULT_PROBABILITY,
    DEFAULT_ROWS,
    NUMBER_OF_ITEMS,
    PROBABILITY,
    chosen_probability,
    positive,
    refuse_json,
    refuse_unknown,
)
from lancelet.index.scalar.value_types import is_ordered

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.scalar.bloom_filter_segment import BloomFilters

_UNFIT = (
    pa.types.is_boolean,
    pa.types.is_float16,
    pa.types.is_decimal,
    pa.types.is_duration,
    pa.types.is_interval,
)


class BloomFilterKind(ScalarKind):
    """The kind of index that users call ``BLOOMFILTER``."""

    name = "BLOOMFILTER"
    type_url = "/lance.index.pb.BloomFilterIndexDetails"
    rank = 5

    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        refuse_json(column, self.name)
        if not _fits(column.type):
            raise InvalidInput(
                f"column {column.name!r} is {column.type}; a BLOOMFILTER index takes integers, float32 and float64, texts, "
                "bytes, dates, times and timestamps"
            )
        refuse_unknown(options, (NUMBER_OF_ITEMS, PROBABILITY), self.name)
        positive(options, NUMBER_OF_ITEMS, DEFAULT_ROWS)
        chosen_probability(options, DEFAULT_PROBABILITY)

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        return isinstance(question, IsIn | Missing) and _fits(dtype)

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        from lancelet.index.scalar.bloom_filter_segment import read_settings

        try:
            items, probability = read_settings(folder)
        except (CorruptFile, NotSupported, FileNotFoundError):
            # What replaces a damaged file has the settings that a new one has.
            return {}
        return {NUMBER_OF_ITEMS: items, **({PROBABILITY: probability} if probability else {})}

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> BloomFilters:
        from lancelet.index.scalar.bloom_filter_segment import open_segment

        return open_segment(folder)

    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        from lancelet.index.scalar.bloom_filter_segment import write_segment

        write_segment(sources, rows, out, options)
        return Built()


def _fits(dtype: pa.DataType) -> bool:
    return is_ordered(dtype) and not any(test(dtype) for test in _UNFIT)


KIND: Final = BloomFilterKind()
