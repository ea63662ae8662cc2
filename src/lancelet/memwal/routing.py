"""Writing to all shards of a table: every row goes to the shard that the table's spec tells."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from lancelet.errors import LanceletError, WriterClosed
from lancelet.memwal.details import require_details
from lancelet.memwal.incoming import check_columns, check_place, rows_to_delete, rows_to_put
from lancelet.memwal.names import shard_of
from lancelet.memwal.placing import Place, ShardMap
from lancelet.memwal.primary_key import PrimaryKey
from lancelet.memwal.view import ShardView, shard_view
from lancelet.memwal.wal_entry import entry_schema, fitted
from lancelet.memwal.writer import Acknowledgement, ShardWriter

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot


class Router:
    """Writers of the shards of a table, each claimed when its first row comes."""

    def __init__(self, base: Snapshot, options: Mapping[str, Any], shard: str | UUID | None = None) -> None:
        base = base.latest()
        check_columns(base)
        self._base = base
        self._details = require_details(base)
        self._key = PrimaryKey.of(base.manifest.schema)
        self._config = self._details.config.with_options(options)
        self._schema = entry_schema(base.manifest.schema)
        self._writers: dict[UUID, ShardWriter] = {}
        self._opening: dict[UUID, threading.Lock] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._one = None if shard is None else shard_of(shard)
        self._map = ShardMap.of(base) if self._one is None else None

    def put(self, data: Any, schema: pa.Schema | None = None) -> list[Acknowledgement]:
        """Hand in rows; those of one call that go to one shard are acknowledged together."""
        return self._route(rows_to_put(self._base, self._schema, data, schema))

    def delete(self, keys: Any, schema: pa.Schema | None = None) -> list[Acknowledgement]:
        """Hand in keys of rows to delete."""
        return self._route(rows_to_delete(self._base, self._key, self._schema, keys, schema))

    @property
    def waits(self) -> bool:
        """Whether a put waits for the log."""
        return self._config.durable_write

    def _route(self, batches: Sequence[pa.RecordBatch]) -> list[Acknowledgement]:
        parts: dict[Place, list[pa.RecordBatch]] = {}
        for batch in batches:
            for place, part in self._split(batch):
                parts.setdefault(place, []).append(part)
        # Nothing is handed in before all shards are there to take it.
        writers = [(self._writer(*place), rows) for place, rows in parts.items()]
        shaped = [self._shaped(writer, rows) for writer, rows in writers]
        for writer, _ in writers:
            writer.check_open()
        return [_submit(writer, batches) for (writer, _), batches in zip(writers, shaped, strict=True)]

    def _shaped(self, writer: ShardWriter, rows: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Rows for one shard, whose writer may have come when the table had other columns."""
        batches = [fitted(batch, writer.shard.schema) for batch in rows]
        if self._one is not None:
            check_place(writer.shard.details, self._base.manifest.schema, writer.shard.manifest.field_values, batches)
        return batches

    def _split(self, batch: pa.RecordBatch) -> list[tuple[Place, pa.RecordBatch]]:
        if self._map is not None:
            return self._map.split(batch, self._base.manifest.schema)
        assert self._one is not None
        return [((self._one, ()), batch)]

    def _writer(self, shard: UUID, values: tuple[tuple[str, bytes], ...]) -> ShardWriter:
        writer = self._claimed(shard)
        if writer is not None:
            return writer
        with self._lock:
            opening = self._opening.setdefault(shard, threading.Lock())
        # Rows for other shards do not wait while this one is claimed and its log is read.
        with opening:
            writer = self._claimed(shard)
            if writer is not None:
                return writer
            writer = ShardWriter.open(self._base, shard, self._config, values)
            with self._lock:
                if not self._closed:
                    self._writers[shard] = writer
                    return writer
            writer.abandon()
            raise self._is_closed()

    def _claimed(self, shard: UUID) -> ShardWriter | None:
        with self._lock:
            if self._closed:
                raise self._is_closed()
            return self._writers.get(shard)

    def _is_closed(self) -> WriterClosed:
        return WriterClosed(f"the writer of {self._base.uri} is already closed; open another")

    @property
    def writers(self) -> list[ShardWriter]:
        with self._lock:
            return list(self._writers.values())

    def views(self) -> list[ShardView]:
        """What the shards that were claimed have, with what is in memory."""
        return [shard_view(*writer.shard.memtables()) for writer in self.writers]

    def flush(self) -> None:
        """Have all rows of the shards that were claimed in runs."""
        self._all([writer.flush for writer in self.writers])

    def close(self) -> None:
        """Have all rows in runs, and take no more."""
        with self._lock:
            self._closed = True
        self._all([writer.close for writer in self.writers])

    def abandon(self) -> None:
        """Take no more rows, and leave those in the logs to whoever claims the shards next."""
        with self._lock:
            self._closed = True
        for writer in self.writers:
            writer.abandon()

    def _all(self, acts: Sequence[Any]) -> None:
        """Do the same for all shards; the first error is raised when all are done."""
        errors: list[LanceletError] = []
        for act in acts:
            try:
                act()
            except LanceletError as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _submit(writer: ShardWriter, batches: Sequence[pa.RecordBatch]) -> Acknowledgement:
    """Hand in rows for one shard. If it takes none any more, other shards may have their parts: whoever waits is told of both."""
    try:
        return writer.submit(batches)
    except LanceletError as error:
        return writer.refused(error)
