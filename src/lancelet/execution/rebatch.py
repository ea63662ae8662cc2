"""Batches of another size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def by_rows(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of exactly ``rows`` rows, and the rest in the last one."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, rows - held)
            batch = batch.slice(part.num_rows)
            waiting.append(part)
            held += part.num_rows
            if held == rows:
                yield _joined(waiting)
                waiting, held = [], 0
    if waiting:
        yield _joined(waiting)


def by_bytes(batches: Iterable[pa.RecordBatch], nbytes: int) -> Iterator[pa.RecordBatch]:
    """Batches of about ``nbytes`` at most, and of one row at least."""
    for batch in batches:
        pieces = min(-(-batch.nbytes // nbytes), max(batch.num_rows, 1))
        rows = -(-batch.num_rows // pieces) if pieces else batch.num_rows
        if pieces <= 1:
            yield batch
            continue
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
