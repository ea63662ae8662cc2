"""What becomes of rows that a search found: a filter, an order, a limit, then their columns.

::

    search     rows and their marks: distances, or scores
    filter     on these rows, unless it came first (``prefilter``)
    order, limit, offset
    columns    of the rows that are left, taken by address; those that the search makes are added
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.encoding.rows import Indices
from lancelet.errors import NotSupported
from lancelet.execution.costs import KEPT_PLANS
from lancelet.execution.plan import Outputs, ScanPlan, column_of, is_search_column, needed_fields
from lancelet.execution.scan import Scan
from lancelet.execution.shown import scan_field
from lancelet.expressions.expr import Column, Expr, columns_of
from lancelet.expressions.sort import SortKey, sort_table
from lancelet.format.system_columns import DISTANCE, DOC_INDEX, QUERY_INDEX, SEARCH_FIELDS, SYSTEM_FIELDS
from lancelet.runtime.attributes import cached_property

if TYPE_CHECKING:
    from lancelet.execution.candidates import Candidates
    from lancelet.execution.matching_plan import Matching
    from lancelet.execution.near_text_plan import NearText
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Schema
    from lancelet.index.vector.query import SearchUse


Answer = tuple[npt.NDArray[np.float32], npt.NDArray[np.uint64]]
"""Distances or scores and row ids, the best first."""
NO_ROWS: Answer = (np.empty(0, np.float32), np.empty(0, np.uint64))


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows that were found, in the order of the answer."""

    owners: Indices
    """The places of their fragments in the table."""
    offsets: Indices
    """Physical rows in these."""
    marks: npt.NDArray[np.float32]
    """Distances, or scores."""
    queries: npt.NDArray[np.int32]
    """Which query found a row."""
    items: npt.NDArray[np.uint32] | None = None
    """Which item of a list was found, where these are texts of their own."""
    distances: npt.NDArray[np.float32] | None = None
    """Beside scores, where vectors were compared too."""

    def __len__(self) -> int:
        return len(self.owners)

    def pick(self, which: npt.NDArray[np.bool_] | Indices | slice) -> Hits:
        """Some of them, by mark or place."""
        items = None if self.items is None else self.items[which]
        distances = None if self.distances is None else self.distances[which]
        return Hits(self.owners[which], self.offsets[which], self.marks[which], self.queries[which], items, distances)

    def made(self, name: str) -> pa.Array:
        """One of the columns that a search makes."""
        if name == DOC_INDEX:
            offsets = pa.array(np.arange(len(self) + 1, dtype=np.int32))
            return pa.ListArray.from_arrays(offsets, pa.array(self.items), type=SEARCH_FIELDS[DOC_INDEX].type)
        if name == DISTANCE and self.distances is not None:
            return arrow_array(self.distances)
        return arrow_array(self.queries if name == QUERY_INDEX else self.marks)


class RankedScan(ABC):
    """One execution of a plan with a search in it."""

    use: SearchUse | None = None
    """What the search looked at, once it has run, where somebody counts that."""

    def __init__(
        self, table: TableReader, plan: ScanPlan, search: Nearest | Matching | NearText, threads: int | None = None
    ) -> None:
        self.table = table
        self.plan = plan
        self._search = search
        self._threads = threads

    @abstractmethod
    def _open_reads(self) -> Scan:
        """A scan of what the search looks at, with the filter when it comes first."""

    @cached_property
    def _reads(self) -> Scan:
        return self._open_reads()

    @property
    def schema(self) -> pa.Schema:
        return self.plan.output_schema

    @property
    def candidates(self) -> Candidates | None:
        """The rows that the filter lets the search look at; None when nothing is known about them."""
        return self._reads.candidates

    def to_table(self) -> pa.Table:
        """The whole result."""
        return self._shown(self.hits)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result in batches of at most the plan's size."""
        size = self.plan.batch_size
        for start in range(0, len(self.hits), size):
            part = self._shown(self.hits.pick(slice(start, start + size)))
            if not self.plan.outputs:
                yield pa.record_batch({"": pa.nulls(part.num_rows)}).select([])
            else:
                yield from part.combine_chunks().to_batches()

    def count(self) -> int:
        """How many rows the result has."""
        return len(self.hits)

    @cached_property
    def hits(self) -> Hits:
        """The rows of the result: nearest, filtered, in order, and no more than asked for."""
        plan, hits = self.plan, self._found
        if plan.filter is not None and not self._search.prefilter and len(hits):
            from lancelet.expressions.evaluate import mask

            hits = hits.pick(numpy_array(mask(plan.filter, self._batch([plan.filter], hits))))
        if plan.order_by and len(hits):
            hits = hits.pick(self._sorted(hits, plan.order_by))
        if plan.offset == 0 and (plan.limit is None or plan.limit >= len(hits)):
            return hits
        return hits.pick(slice(plan.offset, None if plan.limit is None else plan.offset + plan.limit))

    @cached_property
    def answers(self) -> Sequence[Answer]:
        """What the search found, an answer for each query; none where nothing is searched."""
        if self.table.ids_repeat:
            uri = self.table.snapshot.uri
            raise NotSupported(f"fragments of {uri} share ids, so that single rows cannot be named")
        return self._find()

    @abstractmethod
    def _find(self) -> Sequence[Answer]:
        """Search."""

    @cached_property
    def _found(self) -> Hits:
        return self._located(self.answers)

    def _located(self, answers: Sequence[Answer]) -> Hits:
        """Where the rows of the answers are; one answer for each query, of marks and row ids."""
        if len(answers) == 1:
            ((marks, ids),) = answers
            queries = np.zeros(len(ids), np.int32)
        else:
            marks = np.concatenate([np.empty(0, np.float32), *(marks for marks, _ in answers)])
            ids = np.concatenate([np.empty(0, np.uint64), *(ids for _, ids in answers)])
            queries = np.repeat(np.arange(len(answers), dtype=np.int32), [len(marks) for marks, _ in answers])
        owners, offsets, found = self.table.locate_ids(ids)
        assert found.all(), "rows that were read are there"
        return Hits(owners, offsets, marks, queries)

    def _sorted(self, hits: Hits, keys: Sequence[SortKey]) -> Indices:
        """The order of rows by some columns, which need not be in the result."""
        schema, outputs = self.plan.schema, dict(self.plan.outputs)
        exprs = []
        for key in keys:
            if key.column not in outputs:
                made = key.column in self._search.made
                outputs[key.column] = (
                    Column((key.column,), SEARCH_FIELDS[key.column].type) if made else column_of(schema, key.column)
                )
            exprs.append(outputs[key.column])
        from lancelet.expressions.evaluate import evaluate

        batch = self._batch(exprs, hits)
        columns = {key.column: evaluate(expr, batch) for key, expr in zip(keys, exprs, strict=True)}
        place = "place"
        while place in columns:
            place += "_"
        table = pa.table({**columns, place: np.arange(len(hits))})
        return numpy_array(sort_table(table, keys).column(place).combine_chunks())

    def _batch(self, exprs: Sequence[Expr], hits: Hits) -> pa.RecordBatch:
        """The columns that some expressions look at, as they are stored."""
        schema = self.plan.schema
        fields, system = needed_fields(schema, exprs)
        outputs: list[tuple[str, Expr]] = [
            (field.name, Column((field.name,), scan_field(schema.field_by_path((field.name,))).type))
            for field in fields
        ]
        outputs += [(name, Column((name,), SYSTEM_FIELDS[name].type)) for name in system]
        columns = {}
        if outputs:
            taken = self._taking(tuple(outputs)).take_stored(hits.owners, hits.offsets)
            columns = {name: _one(taken.column(name)) for name in taken.column_names}
        columns |= {name: hits.made(name) for name in self._search.made}
        return pa.record_batch(columns)

    def _taking(self, outputs: Outputs) -> Scan:
        """A scan that takes some outputs, kept with the version: searches often ask for the same columns again."""
        binary = self.plan.blobs_as_binary & {name for name, _ in outputs}
        schema, table, threads = self.plan.schema, self.table, self._threads

        def make() -> Scan:
            return Scan(table, ScanPlan(schema, outputs, blobs_as_binary=binary), threads)

        return table.kept(("take", schema, outputs, binary, threads), make)

    def _shown(self, hits: Hits) -> pa.Table:
        """The columns of the result for some rows."""
        plan = self.plan
        if not len(hits):
            return self.schema.empty_table()
        stored, made = _parted(plan.schema, plan.outputs)
        taken = self._taking(stored).take(hits.owners, hits.offsets) if stored or not made else None
        if taken is not None and not made:
            return taken
        columns = {} if taken is None else dict(zip(taken.column_names, taken.columns, strict=True))
        batch: pa.RecordBatch | None = None
        for name, expr in made:
            if isinstance(expr, Column):
                columns[name] = hits.made(expr.path[0])
                continue
            from lancelet.expressions.evaluate import evaluate

            if batch is None:
                batch = self._batch([expr for _, expr in made], hits)
            columns[name] = evaluate(expr, batch).cast(self.schema.field(name).type)
        return pa.Table.from_arrays([columns[name] for name, _ in plan.outputs], schema=self.schema)


@lru_cache(KEPT_PLANS)
def _parted(schema: Schema, outputs: Outputs) -> tuple[Outputs, Outputs]:
    """Outputs that are read, and those that are made of what the search found."""

    def is_made(expr: Expr) -> bool:
        return any(is_search_column(schema, path) for path in columns_of(expr))

    stored = tuple((name, expr) for name, expr in outputs if not is_made(expr))
    return stored, tuple((name, expr) for name, expr in outputs if is_made(expr))


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
