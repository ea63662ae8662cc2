"""What a table's MemWAL entry tells of its shards (``inline_snapshots``): a small Lance file inside of the entry.

::

    of today            shard_id: text    shard_spec_id                      shard_field_{id}: values that all rows of the shard have
    of the first model  region_id: bytes  region_spec_id  version, writer_epoch, positions, generations, runs; region fields

It is a picture of some moment, which whoever keeps it up may take again. States of a shard are newer, and count where both
speak; which rows belong to a shard never changes, so that it may be learned here where a state does not say. pylance 14 does not
write such pictures, and neither does lancelet; commits carry them on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from lancelet.errors import CorruptFile, InvalidInput, LanceletError
from lancelet.file.lance_file import LanceFileReader
from lancelet.memwal.shard_manifest import ShardManifest, SsTable
from lancelet.memwal.sharding import scalar_bytes
from lancelet.store.memory import MemoryStore

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.memwal.sharding import ShardingSpec

_FILE: Final = "snapshots.lance"
_PREFIXES: Final = ("shard_field_", "region_field_", "")


@dataclass(frozen=True, slots=True)
class ToldShard:
    """A shard, as the table's entry tells it."""

    shard: UUID
    spec_id: int = 0
    field_values: Mapping[str, bytes] = field(default_factory=dict)
    """The values of sharding fields that all of its rows have."""
    state: ShardManifest | None = None
    """Its state at that moment; the picture of today has none."""

    def shown(self) -> dict[str, Any]:
        """As ``mem_wal_index_details`` tells it."""
        found: dict[str, Any] = {"shard_id": str(self.shard), "shard_spec_id": self.spec_id}
        if self.state is not None:
            found |= {
                "version": self.state.version,
                "writer_epoch": self.state.epoch,
                "replay_after_wal_entry_position": self.state.replay_after,
                "wal_entry_position_last_seen": self.state.last_seen,
                "current_generation": self.state.generation,
                "sstables": [{"generation": run.generation, "path": run.path} for run in self.state.sstables],
            }
        return found


def read_told(data: bytes, specs: Sequence[ShardingSpec], path: str) -> dict[UUID, ToldShard]:
    """The shards that a table's entry tells of; ``path`` is that of the manifest, for errors."""
    if not data:
        return {}
    store = MemoryStore(f"memory://memwal-{uuid4().hex}").private()
    store.put(_FILE, data)
    try:
        table = LanceFileReader.at(store, _FILE).read_all().to_table()
        rows = [_told(table, number, specs) for number in range(table.num_rows)]
    except (LanceletError, KeyError, ValueError, TypeError) as error:
        raise CorruptFile(
            path, f"what it tells of the shards of its MemWAL cannot be read: {error}", "inline_snapshots"
        ) from error
    return {told.shard: told for told in rows}


def _told(table: pa.Table, number: int, specs: Sequence[ShardingSpec]) -> ToldShard:
    names = set(table.column_names)
    if "shard_id" in names:
        shard = UUID(table["shard_id"][number].as_py())
        spec_id = int(table["shard_spec_id"][number].as_py() or 0)
        return ToldShard(shard, spec_id, _values(table, number, spec_id, specs))
    if "region_id" not in names:
        raise InvalidInput(f"it has neither shard_id nor region_id, but {sorted(names)}")
    shard = UUID(bytes=table["region_id"][number].as_py())
    told = {name: int(table[name][number].as_py() or 0) for name in _STATE}
    runs = [
        SsTable(int(run["generation"]), str(run["path"])) for run in table["flushed_generations"][number].as_py() or ()
    ]
    values = _values(table, number, told["region_spec_id"], specs)
    state = ShardManifest(
        shard,
        told["version"],
        told["writer_epoch"],
        told["replay_after_wal_entry_position"],
        told["wal_entry_position_last_seen"],
        told["current_generation"],
        tuple(sorted(runs, key=lambda run: run.generation)),
        told["region_spec_id"],
        tuple(values.items()),
    )
    return ToldShard(shard, state.spec_id, values, state)


_STATE: Final = (
    "version",
    "region_spec_id",
    "writer_epoch",
    "replay_after_wal_entry_position",
    "wal_entry_position_last_seen",
    "current_generation",
)


def _values(table: pa.Table, number: int, spec_id: int, specs: Sequence[ShardingSpec]) -> dict[str, bytes]:
    """The values of the fields of a spec that the row has."""
    found = {}
    for spec in specs:
        for one in spec.fields if spec.spec_id == spec_id else ():
            name = next(
                (prefix + one.field_id for prefix in _PREFIXES if prefix + one.field_id in table.column_names), None
            )
            if name is not None and table[name][number].is_valid:
                found[one.field_id] = scalar_bytes(table[name][number])
    return found
