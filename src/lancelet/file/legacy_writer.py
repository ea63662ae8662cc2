"""Writing one legacy file, version 0.1; ``encoding.legacy.reader`` has its layout (spec file-format.md 4).

Rows are cut into batches of a given number. Of a batch, every field has one page; page
statistics, which readers may go without, are not written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import TracebackType

import numpy as np
import pyarrow as pa

from lancelet.encoding.legacy.encode import LegacyPage, encode_rows
from lancelet.errors import LanceletError, UnfitData
from lancelet.file.container import MAGIC
from lancelet.file.writer import WrittenFile, check_schema
from lancelet.format.file_versions import LEGACY
from lancelet.format.proto import file_pb2, table_pb2
from lancelet.format.schema import Schema
from lancelet.format.schema_messages import metadata_bytes, schema_messages
from lancelet.store import Sink

_MAJOR, _MINOR = 0, 2
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")


class LegacyFileWriter:
    """Writes batches of one schema into a legacy file.

    A batch of the file has ``group_rows`` rows, but the first ones as many as ``groups`` says: files of one fragment are
    cut alike.
    """

    def __init__(self, sink: Sink, schema: Schema, group_rows: int, groups: Sequence[int] = ()) -> None:
        self._sink = sink
        self._schema = schema
        self._group_rows = group_rows
        self._groups = groups
        self._ids = tuple(field.id for field in schema.walk())
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._pages: dict[int, list[tuple[int, int]]] = {field_id: [] for field_id in self._ids}
        self._borders = [0]
        self.num_rows = 0
        try:
            check_schema(schema, LEGACY)
        except LanceletError:
            sink.abort()
            raise

    def __enter__(self) -> LegacyFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    @property
    def size(self) -> int:
        """Bytes that have gone to the sink, or wait to be encoded."""
        return self._sink.tell() + sum(int(batch.nbytes) for batch in self._waiting)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Take in a batch whose columns are those of the schema, in any order."""
        names = self._schema.names
        if sorted(batch.schema.names) != sorted(names):
            raise UnfitData(f"a batch with the columns {batch.schema.names} does not fit a file of {names}")
        self.num_rows += batch.num_rows
        while batch.num_rows:
            done = len(self._borders) - 1
            wanted = self._groups[done] if done < len(self._groups) else self._group_rows
            part = batch.slice(0, wanted - self._waiting_rows)
            batch = batch.slice(part.num_rows)
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            if self._waiting_rows == wanted:
                self._flush()

    def finish(self) -> WrittenFile:
        """Write what waits, and the end of the file."""
        self._flush()
        table_at = self._sink.tell()
        self._sink.write(self._page_table())
        manifest_at = self._sink.tell()
        self._write_message(self._described())
        metadata_at = self._sink.tell()
        self._write_message(
            file_pb2.Metadata(manifest_position=manifest_at, batch_offsets=self._borders, page_table_position=table_at)
        )
        self._sink.write(_FOOTER.pack(metadata_at, _MAJOR, _MINOR, MAGIC))
        size = self._sink.tell()
        self._sink.finish()
        # pylance takes the first id of the list for the smallest.
        return WrittenFile(self.num_rows, size, tuple(sorted(self._ids)), (), _MAJOR, _MINOR)

    def abort(self) -> None:
        """Give up: nothing of the file is left. Does nothing after :meth:`finish`."""
        self._waiting = []
        self._sink.abort()

    def _flush(self) -> None:
        """Make a batch of the file of what waits."""
        if not self._waiting_rows:
            return
        rows = pa.Table.from_batches(self._waiting).combine_chunks()
        for field in self._schema.fields:
            chunked = rows.column(field.name)
            column = chunked.chunk(0) if chunked.num_chunks == 1 else pa.concat_arrays(chunked.chunks)
            for page in encode_rows(column, field, field.name):
                self._pages[page.field_id].append((self._place(page), page.length))
        self._borders.append(self._borders[-1] + self._waiting_rows)
        for field_id, pages in self._pages.items():
            if len(pages) < len(self._borders) - 1:
                # Structs have no page of their own.
                self._pages[field_id].append((0, 0))
        self._waiting, self._waiting_rows = [], 0

    def _place(self, page: LegacyPage) -> int:
        """Write a page; of variable values its offsets count, which come after the bytes."""
        at = self._sink.tell()
        self._sink.write(page.data)
        if page.ends is None:
            return at
        offsets_at = self._sink.tell()
        self._sink.write((page.ends + at).astype("<i8").view(np.uint8))
        return offsets_at

    def _page_table(self) -> bytes:
        """Positions and lengths by field id, holes between the ids included."""
        batches = len(self._borders) - 1
        first, last = min(self._ids), max(self._ids)
        table = np.zeros((last - first + 1, batches, 2), "<i8")
        for field_id, pages in self._pages.items():
            table[field_id - first] = np.array(pages, "<i8").reshape(batches, 2)
        return table.tobytes()

    def _described(self) -> table_pb2.Manifest:
        message = table_pb2.Manifest(version=1, fields=schema_messages(self._schema))
        message.schema_metadata.update(metadata_bytes(self._schema.metadata))
        message.data_format.file_format, message.data_format.version = "lance", LEGACY
        return message

    def _write_message(self, message: table_pb2.Manifest | file_pb2.Metadata) -> None:
        body = message.SerializeToString()
        self._sink.write(_LENGTH.pack(len(body)) + body)
