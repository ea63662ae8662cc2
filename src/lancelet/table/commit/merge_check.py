"""What a Merge or Project may not do: lose rows, or read a column as another one.

Both replace parts of the manifest by what the transaction says, so that a wrong
list of fragments or a schema with other ids would be believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.errors import InvalidChange
from lancelet.format.proto import file_pb2, table_pb2
from lancelet.format.schema_messages import schema_messages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancelet.format.schema import Schema
    from lancelet.table.manifest.fragment import Fragment


def check_fragments(message: table_pb2.Manifest, fragments: Iterable[Fragment]) -> None:
    """Every fragment is still there, once and with as many rows."""
    rows = {fragment.id: fragment.physical_rows for fragment in message.fragments}
    seen: set[int] = set()
    for fragment in fragments:
        if fragment.id in seen:
            raise InvalidChange(f"Merge operation lists fragment {fragment.id} twice; list every fragment once")
        seen.add(fragment.id)
        before = rows.get(fragment.id)
        if before and fragment.physical_rows and before != fragment.physical_rows:
            raise InvalidChange(
                f"Merge operation changed row count for fragment {fragment.id} from {before} to "
                f"{fragment.physical_rows}; it adds or replaces columns, and keeps all rows"
            )
    missing = sorted(rows.keys() - seen)
    if missing:
        raise InvalidChange(
            f"Merge operation reduced fragment count from {len(rows)}: fragment {missing[0]} is missing; list all "
            "fragments of the version, also those that do not change"
        )


def check_ids(message: table_pb2.Manifest, schema: Schema, what: str) -> None:
    """Field ids mean what they meant: the same type, and for a Merge no name of another field."""
    before = {field.id: field for field in message.fields}
    names = {(field.parent_id, field.name) for field in message.fields}
    for field in schema_messages(schema):
        known = before.get(field.id)
        if known is None:
            continue
        place = field.parent_id, field.name
        taken = what == "Merge" and field.name != known.name and place in names
        if taken or field.parent_id != known.parent_id or _kind(field) != _kind(known):
            raise InvalidChange(
                f'{what} operation remaps field id {field.id} from "{known.name}" ({known.logical_type}) to '
                f'"{field.name}" ({field.logical_type}); derive the schema from that of the dataset (lance_schema), '
                "which has its field ids"
            )


def _kind(field: file_pb2.Field) -> str:
    """The logical type; whether a list holds structs is told by its child."""
    return field.logical_type.removesuffix(".struct")
