"""The shards of a table, and which of them a row goes to. A small value, which travels to other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid5

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import InvalidInput
from lancelet.memwal.details import MemWalDetails, require_details
from lancelet.memwal.primary_key import PrimaryKey
from lancelet.memwal.sharding import ShardingSpec, scalar_bytes, shard_values
from lancelet.memwal.view import iterate_shards

if TYPE_CHECKING:
    from lancelet.format.schema import Schema
    from lancelet.table.manifest.snapshot import Snapshot

_SHARDS: Final = UUID("7d1a6a3e-5f0c-4a57-9a39-1f0f4c0b5d6e")
"""Shards of a table are named by it and by what their rows share, so that all writers agree without asking each other."""

Place = tuple[UUID, tuple[tuple[str, bytes], ...]]
"""A shard, and the values of sharding fields that its rows share."""


@dataclass(frozen=True)
class ShardMap:
    """Which shards there are, and which of the names that a writer would give are taken by sealed ones."""

    spec: ShardingSpec
    known: Mapping[bytes | None, UUID]
    """Shards by the value that their rows share; None: one that does not say."""
    sealed: Mapping[UUID, bytes | None]
    """Shards that take no more rows, with the values of theirs."""

    @classmethod
    def of(cls, base: Snapshot) -> ShardMap:
        """The shards of a table now; refuses those in which the newest row of a key could not be told."""
        details = require_details(base)
        key = PrimaryKey.of(base.manifest.schema)
        spec = _checked_spec(base, details, key)
        known: dict[bytes | None, UUID] = {}
        sealed: dict[UUID, bytes | None] = {}
        for manifest in iterate_shards(base.store):
            told = details.told.get(manifest.shard)
            values = dict(manifest.field_values) or ({} if told is None else told.field_values)
            value = values.get(spec.fields[0].field_id)
            compacted = details.compacted.get(manifest.shard, 0)
            has_rows = any(run.generation > compacted for run in manifest.sstables)
            if manifest.sealed:
                sealed[manifest.shard] = value
                if key and has_rows:
                    raise InvalidInput(
                        f"shard {manifest.shard} of {base.uri} is sealed and has rows that are not in the table yet: newer rows "
                        "of their keys would go to another shard. Call compact_mem_wal() first"
                    )
            elif manifest.spec_id == spec.spec_id:
                if key and value is None and spec.fields[0].source_ids:
                    raise InvalidInput(
                        f"shard {manifest.shard} of {base.uri} does not say which rows it has, so that newer rows of their keys "
                        "could go to another shard: seal it (seal_mem_wal_shard) and call compact_mem_wal(), or name a shard "
                        "(shard_id)"
                    )
                if key and known and not spec.fields[0].source_ids:
                    raise InvalidInput(
                        f"shards {manifest.shard} and {next(iter(known.values()))} of {base.uri} both take rows of any key, so that "
                        "nobody can tell which row of a key is newer: seal one of them (seal_mem_wal_shard) and call compact_mem_wal()"
                    )
                known[value] = manifest.shard
        return cls(spec, known, sealed)

    def split(self, batch: pa.RecordBatch, schema: Schema) -> list[tuple[Place, pa.RecordBatch]]:
        """The rows of a batch by their shards, in their order."""
        values = shard_values(batch, [self.spec], schema)
        codes = values.dictionary_encode(null_encoding="encode")
        numbers = numpy_array(codes.indices)
        found: list[tuple[Place, pa.RecordBatch]] = []
        for code, value in enumerate(codes.dictionary):
            stored = scalar_bytes(value)
            place: Place = self._shard(stored), ((self.spec.fields[0].field_id, stored),)
            rows = (
                batch if len(codes.dictionary) == 1 else pick_rows(batch, arrow_array(np.flatnonzero(numbers == code)))
            )
            found.append((place, rows))
        return found

    def before(self, place: Place) -> tuple[UUID, ...]:
        """The shards that had the rows of a place, and were sealed."""
        values = (None, dict(place[1]).get(self.spec.fields[0].field_id))
        return tuple(shard for shard, value in self.sealed.items() if value in values)

    def _shard(self, value: bytes) -> UUID:
        (one,) = self.spec.fields
        known = self.known.get(value) or (self.known.get(None) if not one.source_ids else None)
        name = f"{self.spec.spec_id}/{one.field_id}={value.hex()}"
        following = 0
        while known is None:
            named = uuid5(_SHARDS, f"{name}/{following}" if following else name)
            known = None if named in self.sealed else named
            following += 1
        return known


def _checked_spec(base: Snapshot, details: MemWalDetails, key: PrimaryKey) -> ShardingSpec:
    if not details.specs:
        raise InvalidInput(
            f"the MemWAL of {base.uri} has no way to tell the shard of a row: name one with shard_id, or initialize it "
            "with bucket_column, identity_column or unsharded"
        )
    names = {field.id: field.name for field in base.manifest.schema.fields}
    for number in details.specs[-1].fields[0].source_ids:
        if key and names.get(number) not in key.names:
            raise InvalidInput(
                f"rows of {base.uri} are sharded by '{names.get(number)}', which is not part of the primary key "
                f"{list(key.names)}: the newer row of a key could go to another shard than the older one. Write to "
                "shards by name (shard_id) if you know that it never does"
            )
    return details.specs[-1]
