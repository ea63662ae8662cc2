"""Columns that a data frame has and the table has not: with ``mergeSchema`` the table gets them first, empty.

Tasks write under the field ids that the new columns are going to have. The commit
adds the columns, sees that they got these ids, and appends; a table whose columns
changed in between is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.editing.columns import add_columns, with_null_columns
from lancelet.errors import RetryableCommitConflict
from lancelet.execution.table_reader import TableReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancelet.format.schema import Field, Schema
    from lancelet.table.manifest.snapshot import Snapshot


def missing_columns(schema: Schema, arrow: pa.Schema) -> pa.Schema:
    """The columns, and fields of structs, that a table has not; all of them nullable."""
    return pa.schema(_missing(schema.fields, arrow))


def _missing(stored: tuple[Field, ...], given: Iterable[pa.Field]) -> list[pa.Field]:
    known = {field.name: field for field in stored}
    found = []
    for field in given:
        if field.name not in known:
            found.append(field.with_nullable(True))
        elif pa.types.is_struct(field.type) and known[field.name].logical_type == "struct":
            inner = _missing(known[field.name].children, field.type)
            if inner:
                found.append(field.with_type(pa.struct(inner)).with_nullable(True))
    return found


def widened(snapshot: Snapshot, new: pa.Schema) -> Schema:
    """The table's schema as it will be with the new columns."""
    return with_null_columns(snapshot.manifest, new)


def add_missing(snapshot: Snapshot, new: pa.Schema, written: Schema) -> Snapshot:
    """Add new columns to the newest version, unless somebody did already; ``written`` is what files were written with."""
    newest = snapshot.latest()
    if holds(newest.manifest.schema, written):
        return newest
    names = {field.name for field in newest.manifest.schema.fields}
    if not names.isdisjoint(_new_names(snapshot, new)) or not holds(widened(newest, new), written):
        raise RetryableCommitConflict(
            snapshot.uri,
            newest.version,
            f"the columns of the table changed since version {snapshot.version}, while rows with new columns were "
            "written; write them again",
        )
    return add_columns(TableReader(newest), new)


def _new_names(snapshot: Snapshot, new: pa.Schema) -> set[str]:
    return set(new.names) - {field.name for field in snapshot.manifest.schema.fields}


def holds(schema: Schema, written: Schema) -> bool:
    """Whether a schema has all fields that files were written with, under the same ids."""
    known = {node.id: (node.name, node.logical_type) for node in schema.walk()}
    return all(known.get(node.id) == (node.name, node.logical_type) for node in written.walk())
