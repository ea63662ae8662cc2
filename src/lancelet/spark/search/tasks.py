"""What a search does in tasks: pieces are searched by their numbers, then all that was found becomes the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from lancelet.spark.arrays import conformed_batches
from lancelet.spark.search.request import result_schema
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

P = TypeVar("P", contravariant=True)


class Job(Protocol[P]):
    """A search that tasks work on."""

    @property
    def plan(self) -> Any: ...

    def find(self, piece: P) -> pa.RecordBatch:
        """What a piece has."""

    def finish(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The result, of what all pieces have."""


def each_piece(job: Job[P], pieces: Sequence[P]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that searches the pieces whose numbers it is given."""

    @in_a_sentence
    def find(number: int) -> pa.RecordBatch:
        with a_task():
            return job.find(pieces[number])

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield find(number)

    return task


def finished(job: Job[Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of the result."""
    found = [batch for batch in batches if batch.num_rows]
    if found:
        with a_task():
            yield from conformed_batches(job.finish(found), arrow_schema(result_schema(job.plan)))
