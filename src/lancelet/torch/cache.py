"""Batches that are read once and then come from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa


class CachedBatches:
    """The batches of a stream, kept in a temporary folder from the first time on.

    A first time that was left before its end keeps nothing: the next one reads the stream again.
    """

    def __init__(self, folder: str | None = None) -> None:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._folder = TemporaryDirectory(prefix="lancelet-", dir=folder)
        self._file = Path(self._folder.name) / "batches.arrow"
        self._whole = False
        # Workers of a DataLoader end without the usual farewell of an interpreter, but with this one.
        Finalize(self, self._folder.cleanup, exitpriority=0)

    def batches(self, stream: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """What is kept, or what the stream gives."""
        if self._whole:
            with pa.memory_map(str(self._file)) as source:
                yield from pa.ipc.open_stream(source)
            return
        part = self._file.with_suffix(".part")
        writer = None
        with part.open("wb") as out:
            for batch in stream():
                writer = writer or pa.ipc.new_stream(out, batch.schema)
                writer.write_batch(batch)
                yield batch
            if writer is None:
                return
            writer.close()
        part.replace(self._file)
        self._whole = True
