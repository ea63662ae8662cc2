"""Rows into data files, one for each new fragment.

A file is named by a random UUID: its first three bytes in binary, so that names
spread over the partitions of an object store, the others in hexadecimal (spec
table-format.md 1).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.file.writer import PAGE_BYTES, FileWriter
from lancelet.format.schema import Schema
from lancelet.store.writing import open_sink
from lancelet.table.fragment import DataFile, Fragment
from lancelet.table.names import DATA_DIR

if TYPE_CHECKING:
    from types import TracebackType

    from lancelet.store import Store
    from lancelet.table.written import WrittenFiles

_STEP_BYTES = 64 << 20
"""How much is handed to the encoders at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a file is full, and how large its pages are."""

    rows: int = 1 << 20
    nbytes: int = 90 << 30
    """A soft limit: looked at after every ``step`` rows or more."""
    step: int = 1024
    page_bytes: int = PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Progress:
    """Called with each fragment when its file is begun, and when it is complete."""

    begin: Callable[[Fragment], object]
    complete: Callable[[Fragment], object]


def data_file_name() -> str:
    """A name that no other file has, relative to ``data/``."""
    drawn = uuid.uuid4().bytes
    return f"{int.from_bytes(drawn[:3], 'big'):024b}{drawn[3:].hex()}.lance"


def write_fragments(
    store: Store,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    version: str,
    limits: Limits,
    files: WrittenFiles,
    progress: Progress | None = None,
) -> tuple[Fragment, ...]:
    """Write batches into new files; their fragments have no ids yet. No rows, no fragments."""
    with _Files(store, schema, version, limits, files, progress) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


class _Files:
    """The file under construction, and the fragments that are done. Leaving it early removes the former."""

    def __init__(
        self,
        store: Store,
        schema: Schema,
        version: str,
        limits: Limits,
        files: WrittenFiles,
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._schema = schema
        self._version = version
        self._limits = limits
        self._files = files
        self._progress = progress
        self._name = ""
        self._writer: FileWriter | None = None
        self._done: list[Fragment] = []

    def __enter__(self) -> _Files:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        start, rows = 0, batch.num_rows
        step = _step(batch, self._limits)
        while start < rows:
            writer = self._writer or self._begin()
            count = min(step, self._limits.rows - writer.num_rows, rows - start)
            writer.write_batch(batch.slice(start, count))
            start += count
            if writer.num_rows >= self._limits.rows or writer.size >= self._limits.nbytes:
                self._end(writer)

    def finish(self) -> tuple[Fragment, ...]:
        if self._writer is not None:
            self._end(self._writer)
        return tuple(self._done)

    def _begin(self) -> FileWriter:
        self._name = data_file_name()
        path = f"{DATA_DIR}/{self._name}"
        self._files.add(path)
        if self._progress is not None:
            self._progress.begin(Fragment(0, (), None, 0))
        sink = open_sink(self._store, path)
        try:
            self._writer = FileWriter(sink, self._schema, self._version, page_bytes=self._limits.page_bytes)
        except BaseException:
            sink.abort()
            raise
        return self._writer

    def _end(self, writer: FileWriter) -> None:
        written = writer.finish()
        self._writer = None
        file = DataFile(self._name, written.fields, written.column_indices, written.major, written.minor, written.size)
        fragment = Fragment(0, (file,), None, written.num_rows)
        self._done.append(fragment)
        if self._progress is not None:
            self._progress.complete(fragment)


def _step(batch: pa.RecordBatch, limits: Limits) -> int:
    """Rows to write before the size of the file is looked at again."""
    each = max(1, int(batch.nbytes) // max(1, batch.num_rows))
    rows: int = max(min(_STEP_BYTES, limits.nbytes) // each, limits.step)
    return rows
