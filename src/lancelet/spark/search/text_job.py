"""A search for texts as a Spark job: parts of the indices, and rows that none knows, are searched side by side.

::

    parts ── tasks ──► words that are nearly the same, where a query asks for such ──┐   at once
    parts ── tasks ──► how many texts there are, how long, how many have each word ──┴─► statistics of all
    parts, statistics ── tasks ──► best rows ──► one task: best of all, with their columns    when the result is asked for

Scores depend on the statistics of all texts, so that these are gathered first: then they are those of one process, bit for
bit. A query that takes several searches (of several columns, say) is divided as in one process, and what tasks find for
its parts is put together in the same way. Words in columns that count as one text are searched by one task, and so are items of
lists where vectors are searched too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.execution.matching import MatchingScan
from lancelet.execution.ranked_scan import NO_ROWS, Answer
from lancelet.execution.table_reader import TableReader
from lancelet.execution.text_column import Asked, ColumnSearch, best
from lancelet.index.text.clauses import Clauses, clauses_of_both, merged
from lancelet.index.text.query import NO_TEXTS, CombinedFields, Match, Query, Statistics, leaves
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.plan import split_fragments
from lancelet.spark.search.request import result_schema
from lancelet.spark.search.tasks import each_piece, finished
from lancelet.spark.table.jobs import run_tasks
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.text_column import ItemKeys
    from lancelet.spark.options import TableRef

FOUND = "step int, mark float, row bigint, item int"
_MOST_TASKS = 512
Near = tuple[bytes, int, int]
"""A word, by how many edits others may differ from it, and how many characters at its beginning they share."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """What one task looks at: a segment of the index on a column, or fragments that it does not know."""

    column: str
    segment: str | None
    fragments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One search of one column."""

    column: str
    query: Query
    limit: int | None
    asked: Asked


@dataclass(frozen=True, slots=True)
class TextJob:
    """What all tasks share."""

    place: TableRef
    """With the version."""
    plan: ScanPlan
    steps: tuple[Step, ...] = ()
    """Without any, one task does all."""

    def open(self) -> TableReader:
        return TableReader(self.place.open())

    def scan(self, piece: TextPiece) -> MatchingScan:
        """A search that looks at a part."""
        plan = replace(self.plan, fragment_ids=piece.fragments)
        segments = frozenset(() if piece.segment is None else (piece.segment,))
        return MatchingScan(self.open(), plan, segments=segments)

    def near(self, piece: TextPiece, words: Sequence[tuple[Near, int]]) -> list[list[bytes]]:
        """What a part has that is nearly the same as some words; of each at most so many."""
        part = self.scan(piece).column(piece.column)
        if piece.segment is not None:
            return [part.near(*word, limit) for word, limit in words]
        return [merged(part.near_unindexed(*word), limit) for word, limit in words]

    def statistics(self, piece: TextPiece, terms: frozenset[bytes]) -> tuple[Statistics, Statistics]:
        """How many texts a part has, and how many of them have some words."""
        return self.scan(piece).column(piece.column).statistics(sorted(terms))

    def find(self, piece: TextPiece | None) -> pa.RecordBatch:
        """The best rows of a part for each step; None: the whole table."""
        if piece is None:
            return _batch([(0, MatchingScan(self.open(), self.plan).answers[0])], None)
        scan = self.scan(piece)
        part = scan.column(piece.column)
        mine = [(number, step) for number, step in enumerate(self.steps) if step.column == piece.column]
        return _batch([(number, part.find_asked(step.asked, step.limit)) for number, step in mine], scan.items)

    def search(self, table: TableReader, found: Sequence[pa.RecordBatch]) -> MatchingScan:
        """What becomes of all that the tasks found."""
        steps, marks, rows, items = (
            np.concatenate([np.empty(0, dtype), *(batch.column(at).to_numpy() for batch in found)]).astype(dtype)
            for at, dtype in enumerate((np.int32, np.float32, np.int64, np.int32))
        )
        numbers = {(step.column, step.query, step.limit): at for at, step in enumerate(self.steps)}

        def find(name: str, query: Query, limit: int | None) -> Answer | None:
            number = numbers.get((name, query, limit))
            if number is None:
                return None
            here = steps == number
            keys = rows[here].view(np.uint64)
            if scan.items is not None:
                keys = scan.items.encode(keys, items[here].astype(np.uint32))
            return best([(marks[here], keys)], limit)

        scan = MatchingScan(table, self.plan, find=find if self.steps else None)
        return scan

    def answer(self, table: TableReader, found: Sequence[pa.RecordBatch]) -> Answer:
        """The best rows of all."""
        if self.steps:
            return self.search(table, found).answers[0]
        marks, rows = (
            np.concatenate([np.empty(0, dtype), *(batch.column(at).to_numpy() for batch in found)])
            for at, dtype in ((1, np.float32), (2, np.int64))
        )
        return best([(marks.astype(np.float32), rows.astype(np.int64).view(np.uint64))], None)

    def finish(self, found: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the result."""
        return self.search(self.open(), found).batches()


def _batch(answers: Sequence[tuple[int, Answer]], keys: ItemKeys | None) -> pa.RecordBatch:
    """Answers, each for a step; ``keys`` tell which items of lists they are about, where that is so."""
    found = [(ids, np.zeros(len(ids), np.uint32)) if keys is None else keys.decode(ids) for _, (_, ids) in answers]
    columns = [
        np.concatenate([np.empty(0, np.int32), *(np.full(len(ids), n, np.int32) for n, (_, ids) in answers)]),
        np.concatenate([np.empty(0, np.float32), *(marks for _, (marks, _) in answers)]),
        np.concatenate([np.empty(0, np.uint64), *(ids for ids, _ in found)]).view(np.int64),
        np.concatenate([np.empty(0, np.uint32), *(items for _, items in found)]).view(np.int32),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in columns], names=[part.split()[0] for part in FOUND.split(", ")]
    )


# On the driver


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a column, of which tasks have told those that are nearly the same as others."""

    column: ColumnSearch
    lists: dict[Near, list[list[bytes]]]

    def words(self, text: str) -> list[tuple[bytes, int]]:
        return self.column.words(text)

    def near(self, term: bytes, edits: int, prefix: int, limit: int) -> list[bytes]:
        return merged(self.lists.get((term, edits, prefix), []), limit)


def text_frame(spark: SparkSession, table: TableReader, place: TableRef, plan: ScanPlan) -> DataFrame:
    """The result of a search as a data frame; ``place`` names the version."""
    assert plan.matching is not None, "the plan has a search"
    if _is_combined(plan):
        job = TextJob(place, plan)
        return spark.range(0, 1, 1, 1).mapInArrow(partial(_shown_whole, job), result_schema(plan))
    job, pieces = plan_texts(spark, table, place, plan)
    return found_frame(spark, job, pieces).repartition(1).mapInArrow(partial(finished, job), result_schema(plan))


def found_frame(spark: SparkSession, job: TextJob, pieces: Sequence[TextPiece | None]) -> DataFrame:
    """What the parts of the table have."""
    parts = spark.range(0, len(pieces), 1, max(1, min(len(pieces), _MOST_TASKS)))
    return parts.mapInArrow(each_piece(job, tuple(pieces)), FOUND)


def plan_texts(
    spark: SparkSession, table: TableReader, place: TableRef, plan: ScanPlan, *, by_row: bool = False
) -> tuple[TextJob, tuple[TextPiece | None, ...]]:
    """What tasks have to do for a search, with the statistics of all texts; jobs gather these now.

    ``by_row``, whoever puts together what they find knows rows, and no items of lists.
    """
    assert plan.matching is not None, "the plan has a search"
    # Tasks look at the filter, each for its own rows.
    here = MatchingScan(table, replace(plan, filter=None))
    here.check()
    job = TextJob(place, plan)
    if _is_combined(plan) or (by_row and plan.matching.has_items):
        return job, (None,)
    pieces = [piece for column in plan.matching.columns for piece in _pieces(table, here.column(column.name), plan)]
    indexed, whole = _vocabularies(spark, here, job, pieces)
    wanted: dict[tuple[str, Query, int | None], tuple[Clauses, Clauses]] = {}

    def note(name: str, query: Query, limit: int | None) -> Answer | None:
        both = clauses_of_both(query, indexed[name], whole[name])
        if both is None:
            return None
        wanted[name, query, limit] = both
        return NO_ROWS

    recording = MatchingScan(table, plan, find=note)
    assert recording.answers, "the steps are noted"
    terms = {
        column: frozenset().union(*(a.terms | b.terms for (name, _, _), (a, b) in wanted.items() if name == column))
        for column in indexed
    }
    known, every = dict.fromkeys(indexed, NO_TEXTS), dict.fromkeys(indexed, NO_TEXTS)
    told = run_tasks(spark, partial(_statistics, job, terms), pieces)
    for piece, (of_index, of_others) in zip(pieces, told, strict=True):
        known[piece.column] += of_index
        every[piece.column] += of_index + of_others
    steps = tuple(
        Step(name, query, limit, Asked(clauses, sought, known[name], every[name]))
        for (name, query, limit), (clauses, sought) in wanted.items()
    )
    return replace(job, steps=steps), tuple(pieces)


def _is_combined(plan: ScanPlan) -> bool:
    """Whether several columns count as one text, so that one task does all."""
    assert plan.matching is not None
    return any(isinstance(leaf, CombinedFields) for leaf in leaves(plan.matching.query))


def _pieces(table: TableReader, column: ColumnSearch, plan: ScanPlan) -> Iterator[TextPiece]:
    name = column.column.name
    for part in () if column.index is None else column.index.parts:
        yield TextPiece(name, str(part.entry.uuid), tuple(sorted(part.fragments)))
    wanted = frozenset(node.id for node in column.column.field(plan.schema).walk())
    fragments = [fragment for fragment in table.snapshot.manifest.fragments if fragment.id in column.unindexed]
    for split in split_fragments(table, fragments, wanted, whole_fragments=True):
        yield TextPiece(name, None, tuple(number for number, _, _ in split.pieces))


def _vocabularies(
    spark: SparkSession, here: MatchingScan, job: TextJob, pieces: Sequence[TextPiece]
) -> tuple[dict[str, _Words], dict[str, _Words]]:
    """The words of the columns: those of their indices, and all."""
    columns = {column.name: here.column(column.name) for column in here.matching.columns}
    asked: dict[str, dict[Near, int]] = {name: {} for name in columns}
    for leaf in leaves(here.matching.query):
        if isinstance(leaf, Match) and leaf.fuzziness:
            for term, _ in columns[leaf.column].words(leaf.text):
                word = (term, leaf.fuzziness, leaf.prefix_length)
                asked[leaf.column][word] = max(leaf.max_expansions, asked[leaf.column].get(word, 0))
    indexed = {name: _Words(column, {}) for name, column in columns.items()}
    whole = {name: _Words(column, {}) for name, column in columns.items()}
    tasks = [piece for piece in pieces if asked[piece.column]]
    for piece, lists in zip(tasks, run_tasks(spark, partial(_near, job, asked), tasks), strict=True):
        for word, some in zip(asked[piece.column], lists, strict=True):
            whole[piece.column].lists.setdefault(word, []).append(some)
            if piece.segment is not None:
                indexed[piece.column].lists.setdefault(word, []).append(some)
    return indexed, whole


def _near(job: TextJob, asked: dict[str, dict[Near, int]], piece: TextPiece) -> list[list[bytes]]:
    return job.near(piece, list(asked[piece.column].items()))


def _statistics(job: TextJob, terms: dict[str, frozenset[bytes]], piece: TextPiece) -> tuple[Statistics, Statistics]:
    return job.statistics(piece, terms[piece.column])


# In tasks


def _shown_whole(job: TextJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        with a_task():
            yield from conformed_batches(
                MatchingScan(job.open(), job.plan).batches(), arrow_schema(result_schema(job.plan))
            )
