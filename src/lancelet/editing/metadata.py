"""Editing a table's config and metadata: entries set, removed, or replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lancelet._naming.texts import check_text
from lancelet.errors import InvalidChange, InvalidType, UnknownColumn
from lancelet.table.commit.operations import MapEdits, UpdateConfig
from lancelet.table.commit.run import commit

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot


def update_config(snapshot: Snapshot, values: object, *, replace: bool) -> Snapshot:
    """Edit the table's config."""
    return commit(snapshot, UpdateConfig(config=_edits(values, replace)))


def delete_config_keys(snapshot: Snapshot, keys: object) -> Snapshot:
    """Remove entries of the table's config; those that are not there do no harm."""
    if isinstance(keys, str) or not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        raise InvalidType(f"keys is a list of texts, not {keys!r}")
    known = [check_text(key, "a key of the config") for key in keys]
    return commit(snapshot, UpdateConfig(config=MapEdits(dict.fromkeys(known))))


def update_table_metadata(snapshot: Snapshot, values: object, *, replace: bool) -> Snapshot:
    """Edit the metadata of the table."""
    return commit(snapshot, UpdateConfig(table_metadata=_edits(values, replace)))


def update_schema_metadata(snapshot: Snapshot, values: object, *, replace: bool) -> Snapshot:
    """Edit the metadata of the schema."""
    return commit(snapshot, UpdateConfig(schema_metadata=_edits(values, replace)))


def update_field_metadata(snapshot: Snapshot, updates: object, *, replace: bool) -> Snapshot:
    """Edit the metadata of fields, named by their paths."""
    if not isinstance(updates, Mapping) or not all(isinstance(path, str) for path in updates):
        raise InvalidType(f"field_updates is a dict of field paths and their metadata, not {updates!r}")
    schema = snapshot.manifest.schema
    edits = {}
    for path, values in updates.items():
        try:
            field = schema.field_by_path((path,) if path in schema.names else path)
        except UnknownColumn as error:
            raise InvalidChange(f"Field '{path}' not found: {error}") from None
        edits[field.id] = _edits(values, replace)
    return commit(snapshot, UpdateConfig(field_metadata=edits))


def _edits(values: object, replace: bool) -> MapEdits:
    if not isinstance(values, Mapping):
        raise InvalidType(f"metadata is a dict of texts, not {values!r}")
    for key, value in values.items():
        if not isinstance(key, str) or not isinstance(value, (str, type(None))):
            raise InvalidType(f"metadata is made of texts (None removes an entry), not {key!r}: {value!r}")
        check_text(key, "a key of metadata")
        check_text(value or "", f"the metadata of {key!r}")
    return MapEdits(dict(values), bool(replace))
