"""A column added beside a MemWAL under the name of one that was dropped.

Rows in logs and runs may still have the dropped one. Nobody could tell then whether the column was dropped and made anew, so
that it is null in these rows, or cast by somebody else, so that they have values for it: such rows are not read at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lancelet.errors import InvalidChange
from lancelet.memwal.details import read_details
from lancelet.memwal.log import read_log
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, list_shards
from lancelet.table.manifest.snapshot import open_snapshot

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot


def check_new_columns(snapshot: Snapshot, names: Iterable[str]) -> None:
    """Raise where rows that are not in the table yet have a dropped column of the same name."""
    wanted = set(names) - set(snapshot.manifest.schema.names)
    for shard in list_shards(snapshot.store) if wanted else ():
        states = ShardStates.of(snapshot.store, shard)
        state = states.latest()
        for name in () if state is None else sorted(wanted & _columns(snapshot, states, state)):
            raise InvalidChange(
                f"column '{name}' cannot be added to {snapshot.uri}: one of that name was dropped, and rows of shard {shard} of its "
                "MemWAL that are not in the table yet still have it. Close the writer, call compact_mem_wal(), and add the "
                "column then, or take another name"
            )


def _columns(snapshot: Snapshot, states: ShardStates, state: ShardManifest) -> set[str]:
    """The names of columns of rows that are not in the table."""
    details = read_details(snapshot.manifest)
    done = 0 if details is None else details.compacted.get(state.shard, 0)
    found: set[str] = set()
    for run in state.sstables:
        if run.generation > done:
            found.update(open_snapshot(states.store.child(run.path), 1).manifest.schema.names)
    for entry in read_log(states, state):
        for batch in entry.batches:
            found.update(batch.schema.names)
    return found
