"""Rows into data files, one for each new fragment.

A file is named by a random UUID: its first three bytes in binary, so that names
spread over the partitions of an object store, the others in hexadecimal (spec
table-format.md 1).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.errors import InvalidOption
from lancelet.file.checksums import CONFIG
from lancelet.file.legacy_writer import LegacyFileWriter
from lancelet.file.writer import PAGE_BYTES, FileWriter
from lancelet.format.blob_types import side_file
from lancelet.format.file_versions import LEGACY, manifest_numbers
from lancelet.format.schema import Schema
from lancelet.runtime.steps import ROWS_WRITTEN
from lancelet.runtime.steps import step as step_on
from lancelet.table.manifest.fragment import DataFile, Fragment
from lancelet.writing.bases import DataFolder

if TYPE_CHECKING:
    from types import TracebackType

    from lancelet.store import Sink, Store
    from lancelet.table.commit.written import WrittenFiles

_NAME_BYTES = 16
_STEP_BYTES = 64 << 20
"""How much is handed to the encoders at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a file is full, and how large its pages are."""

    rows: int = 1 << 20
    nbytes: int = 90 << 30
    """A soft limit: looked at after every ``step`` rows or more."""
    step: int = 1024
    """Also the rows of a batch in legacy files."""
    page_bytes: int = PAGE_BYTES
    pack_bytes: int | None = None
    """How large files become that blobs share; None goes by the fields."""
    checksums: bool = False
    """Whether files end with their checksums."""
    groups: tuple[int, ...] = ()
    """The rows of the first batches in legacy files, where they are not ``step``."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Called with each fragment when its file is begun, and when it is complete."""

    begin: Callable[[Fragment], object]
    complete: Callable[[Fragment], object]


def data_file_name(stem: bytes = b"") -> str:
    """A name that no other file has, relative to ``data/``; names with one ``stem`` of a few bytes begin alike."""
    drawn = (stem + uuid.uuid4().bytes)[:_NAME_BYTES]
    return f"{int.from_bytes(drawn[:3], 'big'):024b}{drawn[3:].hex()}.lance"


def write_fragment_files(
    store: Store,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    version: str,
    limits: Limits,
    files: WrittenFiles,
    progress: Progress | None = None,
    folders: Sequence[DataFolder] = (),
    stem: bytes = b"",
) -> tuple[Fragment, ...]:
    """Write batches into new files; their fragments have no ids yet. No rows, no fragments.

    ``folders`` take one file each in turn; by default all go to the one of the table at ``store``. A ``stem`` of a few
    random bytes, with which the names of all files begin, lets those who write together find their files again.
    """
    with _Files(folders or [DataFolder(store)], schema, version, limits, files, progress, stem) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


class _Files:
    """The file under construction, and the fragments that are done. Leaving it early removes the former."""

    def __init__(
        self,
        folders: Sequence[DataFolder],
        schema: Schema,
        version: str,
        limits: Limits,
        files: WrittenFiles,
        progress: Progress | None,
        stem: bytes,
    ) -> None:
        if limits.checksums and version == LEGACY:
            raise InvalidOption(
                "files of version 0.1 have no room for checksums, which were asked for here or by the table's config; say "
                f"checksums=False, set {CONFIG} to 'false' in the config, or overwrite the table in a later version"
            )
        self._stem = stem
        self._folders = folders
        self._schema = schema
        self._version = version
        self._limits = limits
        self._files = files
        self._progress = progress
        self._name = ""
        self._writer: FileWriter | LegacyFileWriter | None = None
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
            step_on(ROWS_WRITTEN, count)
            if writer.num_rows >= self._limits.rows or writer.size >= self._limits.nbytes:
                self._end(writer)

    def finish(self) -> tuple[Fragment, ...]:
        if self._writer is not None:
            self._end(self._writer)
        return tuple(self._done)

    def _begin(self) -> FileWriter | LegacyFileWriter:
        self._name = data_file_name(self._stem)
        folder = self._folder()
        path = folder.file(self._name)
        self._files.add(path, folder.store)
        if self._progress is not None:
            major, minor = manifest_numbers(self._version)
            file = DataFile(self._name, (), (), major, minor, None, folder.base_id)
            self._progress.begin(Fragment(0, (file,), None, 0))

        def begin_side_file(number: int) -> Sink:
            side = side_file(path, number)
            self._files.add(side, folder.store)
            return folder.store.open_sink(side)

        sink = folder.store.open_sink(path)
        try:
            if self._version == LEGACY:
                self._writer = LegacyFileWriter(sink, self._schema, self._limits.step, self._limits.groups)
            else:
                self._writer = FileWriter(
                    sink,
                    self._schema,
                    self._version,
                    page_bytes=self._limits.page_bytes,
                    begin_side_file=begin_side_file,
                    pack_bytes=self._limits.pack_bytes,
                    checksums=self._limits.checksums,
                )
        except BaseException:
            sink.abort()
            raise
        return self._writer

    def _folder(self) -> DataFolder:
        """Where the file under construction goes."""
        return self._folders[len(self._done) % len(self._folders)]

    def _end(self, writer: FileWriter | LegacyFileWriter) -> None:
        written = writer.finish()
        self._writer = None
        file = DataFile(
            self._name,
            written.fields,
            written.column_indices,
            written.major,
            written.minor,
            written.size,
            self._folder().base_id,
        )
        fragment = Fragment(0, (file,), None, written.num_rows)
        self._done.append(fragment)
        if self._progress is not None:
            self._progress.complete(fragment)


def _step(batch: pa.RecordBatch, limits: Limits) -> int:
    """Rows to write before the size of the file is looked at again."""
    if batch.num_rows <= limits.step:
        # To add up the bytes of many columns takes as long as to encode a few rows of them.
        return limits.step
    each = max(1, int(batch.nbytes) // batch.num_rows)
    rows: int = max(min(_STEP_BYTES, limits.nbytes) // each, limits.step)
    return rows
