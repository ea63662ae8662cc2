"""Changes of columns that are refused while a table has a MemWAL, whose logs and runs have rows as the table was.

A column that came later is null in such rows, and one that was renamed is found. All else would make them unreadable, or would
have them say what nobody wrote; and writers go on with the columns that they began with. pylance refuses most of this too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from lancelet.editing.merge import primary_key_ids
from lancelet.errors import InvalidChange
from lancelet.table.commit.index_upkeep import has_mem_wal
from lancelet.table.commit.mem_wal_state import sharding_fields

if TYPE_CHECKING:
    from lancelet.editing.columns.alter import Alteration
    from lancelet.format.schema import Field
    from lancelet.table.manifest.snapshot import Snapshot

_ROUTE = (
    "Without the MemWAL it can be done: close its writers, call compact_mem_wal() and cleanup_mem_wal(timedelta(0)), then "
    "drop_index('__lance_mem_wal'), and initialize_mem_wal() again after the change"
)


def refuse_computed(snapshot: Snapshot) -> None:
    """Refuse to compute a column: nobody would compute it for rows in logs and runs, and they would have null."""
    if has_mem_wal(snapshot.manifest):
        raise InvalidChange(
            f"cannot add a computed column to {snapshot.uri}, which has a MemWAL: rows in its logs and runs would have null there. "
            "Add the column without values (add_columns with a pyarrow field), have writers fill it, and update the rows of the "
            "table"
        )


def refuse_altered(snapshot: Snapshot, chains: Sequence[tuple[tuple[Field, ...], Alteration]]) -> None:
    """Refuse casts, columns that take no nulls any more, and names that writers go by."""
    if not has_mem_wal(snapshot.manifest):
        return
    keys = primary_key_ids(snapshot.manifest.schema)
    for chain, change in chains:
        what = why = ""
        if change.data_type is not None:
            what, why = "be given another type", "rows in logs and runs, and those that writers put, have the old one"
        elif change.nullable is False and chain[-1].nullable:
            what, why = "be made to take no nulls", "rows in logs and runs, and those that writers put, may have some"
        elif change.name is not None and chain[-1].id in keys:
            what, why = "be renamed", "it is part of the primary key, by whose name writers know rows"
        elif change.name is not None and len(chain) > 1:
            what, why = "be renamed", "rows in logs have fields inside of columns by their names"
        if what:
            raise InvalidChange(
                f"column '{change.path}' of {snapshot.uri} cannot {what} while the table has a MemWAL: {why}. {_ROUTE}"
            )


def refuse_dropped(snapshot: Snapshot, gone: Collection[int]) -> None:
    """Refuse to drop columns by which rows of a key are found."""
    if not has_mem_wal(snapshot.manifest):
        return
    schema = snapshot.manifest.schema
    needed = dict.fromkeys(sharding_fields(snapshot.manifest), "it tells which shard a row belongs to")
    needed |= dict.fromkeys(primary_key_ids(schema), "it is part of the primary key")
    for field in schema.walk():
        if field.id in gone and field.id in needed:
            raise InvalidChange(
                f"column '{field.name}' of {snapshot.uri} cannot be dropped while the table has a MemWAL: {needed[field.id]}. {_ROUTE}"
            )
