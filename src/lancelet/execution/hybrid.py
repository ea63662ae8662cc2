"""A search for texts and one for vectors, whose answers become one.

::

    texts ────► the best candidates ───┐
                                       ├─ fuse ─► k rows ─► their columns, with scores and distances where they are known
    vectors ──► the nearest candidates ┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.execution.fusion import Fused, Fusion, fuse
from lancelet.execution.matching import MatchingScan
from lancelet.execution.nearest import NearestScan
from lancelet.execution.plan import ScanPlan
from lancelet.execution.ranked_scan import NO_ROWS
from lancelet.execution.scan import Scan
from lancelet.format.system_columns import DISTANCE, FUSED_FIELDS, RELEVANCE, SCORE
from lancelet.runtime.attributes import cached_property

if TYPE_CHECKING:
    from lancelet.execution.ranked_scan import Answer
    from lancelet.execution.table_reader import TableReader


@dataclass(frozen=True)
class HybridPlan:
    """What is asked, and what is shown: a picklable value."""

    texts: ScanPlan | None
    """A plan with a search for texts, whose limit is the number of candidates."""
    vectors: ScanPlan | None
    """A plan with a search for vectors, for as many."""
    fusion: Fusion
    count: int
    offset: int
    shown: ScanPlan
    """The columns of the table in the result."""
    order: tuple[str, ...]
    """The columns of the result."""

    @cached_property
    def storage_schema(self) -> pa.Schema:
        """The schema of the result before extension types are resolved."""
        return self._with_marks(self.shown.storage_schema)

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._with_marks(self.shown.output_schema)

    def _with_marks(self, stored: pa.Schema) -> pa.Schema:
        fields = {**FUSED_FIELDS, **{field.name: field for field in stored}}
        return pa.schema([fields[name] for name in self.order], stored.metadata)

    def texts_answer(self, table: TableReader) -> Answer | None:
        """The best rows by their texts; None: they are not asked for."""
        return None if self.texts is None else MatchingScan(table, self.texts).answers[0]

    def vectors_answer(self, table: TableReader) -> Answer | None:
        """The nearest rows by their vectors; None: they are not asked for."""
        return None if self.vectors is None else next(iter(NearestScan(table, self.vectors).answers), NO_ROWS)

    def run(self, table: TableReader) -> pa.Table:
        """The result."""
        return self.show(table, self.texts_answer(table), self.vectors_answer(table))

    def show(self, table: TableReader, texts: Answer | None, vectors: Answer | None) -> pa.Table:
        """The result, out of what both searches found."""
        fused = fuse(self.fusion, texts, vectors).cut(slice(self.offset, self.offset + self.count))
        owners, offsets, found = table.locate_ids(fused.ids)
        assert found.all(), "rows that were found are there"
        made = _made(fused)
        if not len(fused.ids):
            return self.output_schema.empty_table()
        stored = Scan(table, self.shown).take(owners, offsets) if self.shown.outputs else pa.table({})
        columns = [stored.column(name) if name in stored.column_names else made[name] for name in self.order]
        return pa.table(columns, schema=self.output_schema)


def _made(fused: Fused) -> dict[str, pa.Array]:
    known = {SCORE: fused.scores, DISTANCE: fused.distances}
    return {
        **{name: pa.array(marks, pa.float32(), mask=np.isnan(marks)) for name, marks in known.items()},
        RELEVANCE: pa.array(fused.relevance, pa.float32()),
    }
