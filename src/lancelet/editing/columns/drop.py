"""Dropping columns: they leave the schema, their files stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lancelet.editing.columns.beside_mem_wal import refuse_dropped
from lancelet.errors import InvalidInput, InvalidType
from lancelet.format.schema import Field, Schema
from lancelet.table.commit.operations import Project
from lancelet.table.commit.run import commit

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot


def drop_columns(snapshot: Snapshot, columns: object) -> Snapshot:
    """Commit a version without some columns, named by their paths."""
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not all(isinstance(c, str) for c in columns):
        raise InvalidType(f"columns is a list of names, not {columns!r}")
    schema = snapshot.manifest.schema
    gone = {schema.field_by_path((name,) if name in schema.names else name).id for name in columns}
    refuse_dropped(snapshot, gone)
    kept = tuple(left for field in schema.fields if (left := _without(field, gone)) is not None)
    if not kept and schema.fields:
        raise InvalidInput("Cannot drop all columns from a dataset; delete the table instead")
    return commit(snapshot, Project(Schema(kept, schema.metadata), preserves_nullability=True))


def _without(field: Field, gone: set[int]) -> Field | None:
    """The field without some inside it; None when nothing of it is left."""
    if field.id in gone:
        return None
    children = tuple(left for child in field.children if (left := _without(child, gone)) is not None)
    if field.children and not children:
        return None
    return field if children == field.children else replace(field, children=children)
