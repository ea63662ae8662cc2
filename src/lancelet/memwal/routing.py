"""Writing to all shards of a table: every row goes to the shard that the table's spec tells."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import InvalidInput, LanceletError, WriterClosed
from lancelet.memwal.details import require_details
from lancelet.memwal.incoming import check_columns, check_place, rows_to_delete, rows_to_put
from lancelet.memwal.names import shard_of
from lancelet.memwal.primary_key import PrimaryKey
from lancelet.memwal.sharding import scalar_bytes, shard_values
from lancelet.memwal.view import iterate_shards
from lancelet.memwal.wal_entry import entry_schema, fitted
from lancelet.memwal.writer import Acknowledgement, ShardWriter

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot

_SHARDS: Final = UUID("7d1a6a3e-5f0c-4a57-9a39-1f0f4c0b5d6e")
"""Shards of a table are named by it and by what their rows share, so that all writers agree without asking each other."""


Place = tuple[UUID, tuple[tuple[str, bytes], ...]]
"""A shard, and the values of sharding fields that its rows share."""


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
        if self._one is None:
            self._check_spec()
            self._find_shards()

    def _find_shards(self) -> None:
        """See which shards there are, and which of the names that this writer would give are taken by sealed ones."""
        self._known: dict[bytes | None, UUID] = {}
        self._sealed: set[UUID] = set()
        for manifest in iterate_shards(self._base.store):
            value = dict(manifest.field_values).get(self._field_id)
            compacted = self._details.compacted.get(manifest.shard, 0)
            has_rows = any(run.generation > compacted for run in manifest.sstables)
            if manifest.sealed:
                self._sealed.add(manifest.shard)
                if self._key and has_rows:
                    raise InvalidInput(
                        f"shard {manifest.shard} of {self._base.uri} is sealed and has rows that are not in the table yet: newer rows "
                        "of their keys would go to another shard. Call compact_mem_wal() first"
                    )
            elif manifest.spec_id == self._details.specs[-1].spec_id:
                if self._key and value is None and self._sources:
                    raise InvalidInput(
                        f"shard {manifest.shard} of {self._base.uri} does not say which rows it has, so that newer rows of their keys "
                        "could go to another shard: seal it (seal_mem_wal_shard) and call compact_mem_wal(), or name a shard "
                        "(shard_id)"
                    )
                self._known[value] = manifest.shard

    @property
    def _field_id(self) -> str:
        return self._details.specs[-1].fields[0].field_id

    def _check_spec(self) -> None:
        if not self._details.specs:
            raise InvalidInput(
                f"the MemWAL of {self._base.uri} has no way to tell the shard of a row: name one with shard_id, or initialize it "
                "with bucket_column, identity_column or unsharded"
            )
        names = {field.id: field.name for field in self._base.manifest.schema.fields}
        for number in self._details.specs[-1].fields[0].source_ids:
            if self._key and names.get(number) not in self._key.names:
                raise InvalidInput(
                    f"rows of {self._base.uri} are sharded by '{names.get(number)}', which is not part of the primary key "
                    f"{list(self._key.names)}: the newer row of a key could go to another shard than the older one. Write to "
                    "shards by name (shard_id) if you know that it never does"
                )

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
        for writer, _ in writers:
            writer.check_open()
        return [self._submit(writer, rows) for writer, rows in writers]

    def _submit(self, writer: ShardWriter, rows: Sequence[pa.RecordBatch]) -> Acknowledgement:
        """Hand in rows for one shard, whose writer may have come when the table had other columns."""
        batches = [fitted(batch, writer.shard.schema) for batch in rows]
        if self._one is not None:
            check_place(writer.shard.details, self._base.manifest.schema, writer.shard.manifest.field_values, batches)
        return writer.submit(batches)

    def _split(self, batch: pa.RecordBatch) -> list[tuple[Place, pa.RecordBatch]]:
        if self._one is not None:
            return [((self._one, ()), batch)]
        values = shard_values(batch, self._details.specs, self._base.manifest.schema)
        codes = values.dictionary_encode(null_encoding="encode")
        numbers = numpy_array(codes.indices)
        found: list[tuple[Place, pa.RecordBatch]] = []
        for code, value in enumerate(codes.dictionary):
            stored = scalar_bytes(value)
            place: Place = self._shard(stored), ((self._field_id, stored),)
            rows = batch if len(codes.dictionary) == 1 else batch.take(arrow_array(np.flatnonzero(numbers == code)))
            found.append((place, rows))
        return found

    def _shard(self, value: bytes) -> UUID:
        known = self._known.get(value) or (self._known.get(None) if not self._sources else None)
        name = f"{self._details.specs[-1].spec_id}/{self._field_id}={value.hex()}"
        following = 0
        while known is None:
            named = uuid5(_SHARDS, f"{name}/{following}" if following else name)
            known = None if named in self._sealed else named
            following += 1
        return known

    @property
    def _sources(self) -> list[int]:
        return self._details.specs[-1].fields[0].source_ids

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
