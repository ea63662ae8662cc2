"""Two versions of a table side by side: columns, fragments and rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancelet.changes.delta import DatasetDelta
from lancelet.execution.table_reader import TableReader
from lancelet.format.schema import Field
from lancelet.table.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Differences:
    """What is different in a later version."""

    before: int
    after: int
    rows_before: int
    rows_after: int
    inserted: int | None
    """Rows that came; None where rows have no stable ids, and the rows that stayed cannot be told from new ones."""
    updated: int | None
    deleted: int | None
    added_columns: tuple[str, ...]
    dropped_columns: tuple[str, ...]
    changed_columns: tuple[str, ...]
    """Each with what it was and what it is."""
    added_fragments: tuple[int, ...]
    removed_fragments: tuple[int, ...]
    changed_fragments: tuple[int, ...]
    """Other files, or other rows deleted."""

    @property
    def are_none(self) -> bool:
        """Whether both versions are the same table."""
        columns = self.added_columns or self.dropped_columns or self.changed_columns
        fragments = self.added_fragments or self.removed_fragments or self.changed_fragments
        return not columns and not fragments


def differences(snapshot: Snapshot, before: int | str, after: int | str) -> Differences:
    """Compare two versions, given by number or tag."""
    old, new = snapshot.at(before), snapshot.at(after)
    were, are = (dict(_described(one.manifest.schema.fields)) for one in (old, new))
    pieces = [{fragment.id: fragment for fragment in one.manifest.fragments} for one in (old, new)]
    both = pieces[0].keys() & pieces[1].keys()
    counts = _row_counts(old, new)
    return Differences(
        old.version,
        new.version,
        TableReader(old).num_rows,
        TableReader(new).num_rows,
        *counts,
        tuple(f"{name}: {are[name]}" for name in are if name not in were),
        tuple(f"{name}: {were[name]}" for name in were if name not in are),
        tuple(f"{name}: {were[name]} -> {are[name]}" for name in are if name in were and were[name] != are[name]),
        tuple(sorted(pieces[1].keys() - both)),
        tuple(sorted(pieces[0].keys() - both)),
        tuple(sorted(number for number in both if pieces[0][number] != pieces[1][number])),
    )


def _row_counts(old: Snapshot, new: Snapshot) -> tuple[int | None, int | None, int | None]:
    known = old.manifest.has_stable_row_ids and new.manifest.has_stable_row_ids
    if not known or old.manifest.branch != new.manifest.branch or old.version > new.version:
        return None, None, None
    delta = DatasetDelta(TableReader(new), old.version, new.version)
    changes = delta.get_inserted_rows(), delta.get_updated_rows(), delta.get_deleted_row_ids()
    inserted, updated, deleted = (_count(reader) for reader in changes)
    return inserted, updated, deleted


def _count(reader: pa.RecordBatchReader) -> int:
    return sum(batch.num_rows for batch in reader)


def _described(fields: Sequence[Field], above: str = "") -> Iterator[tuple[str, str]]:
    for node in fields:
        name = f"{above}{node.name}"
        yield name, f"{node.logical_type}{'' if node.nullable else ' not null'}"
        yield from _described(node.children, f"{name}.")
