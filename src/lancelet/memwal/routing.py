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
from lancelet.memwal.incoming import check_columns, rows_to_delete, rows_to_put
from lancelet.memwal.names import shard_of
from lancelet.memwal.primary_key import PrimaryKey
from lancelet.memwal.scan import scalar_bytes
from lancelet.memwal.sharding import shard_values
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
        self._lock = threading.Lock()
        self._closed = False
        self._one = None if shard is None else shard_of(shard)
        if self._one is None:
            self._check_spec()
            self._known = {
                dict(manifest.field_values).get(self._field_id): manifest.shard
                for manifest in iterate_shards(base.store)
                if manifest.spec_id == self._details.specs[-1].spec_id and not manifest.sealed
            }

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
        return [self._submit(self._writer(*place), rows) for place, rows in parts.items()]

    def _submit(self, writer: ShardWriter, rows: Sequence[pa.RecordBatch]) -> Acknowledgement:
        """Hand in rows for one shard, whose writer may have come when the table had other columns."""
        return writer.submit([fitted(batch, writer.shard.schema) for batch in rows])

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
        return known or uuid5(_SHARDS, f"{self._details.specs[-1].spec_id}/{self._field_id}={value.hex()}")

    @property
    def _sources(self) -> list[int]:
        return self._details.specs[-1].fields[0].source_ids

    def _writer(self, shard: UUID, values: tuple[tuple[str, bytes], ...]) -> ShardWriter:
        with self._lock:
            if self._closed:
                raise WriterClosed(f"the writer of {self._base.uri} is already closed; open another")
            writer = self._writers.get(shard)
            if writer is None:
                writer = self._writers[shard] = ShardWriter.open(self._base, shard, self._config, values)
            return writer

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
