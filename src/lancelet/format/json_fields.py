"""JSON columns: text for Arrow, a binary form of its own in files (spec file-format.md 2.5)."""

from __future__ import annotations

from dataclasses import replace

from lancelet.format.logical_types import EXTENSION_METADATA, EXTENSION_NAME
from lancelet.format.schema import Field, Schema

ARROW_JSON = "arrow.json"
"""The extension type of JSON text."""
STORED_JSON = "lance.json"
"""That of JSON as it is stored."""
_TEXTS = ("string", "large_string")


def with_json(schema: Schema) -> Schema:
    """The schema with the logical type ``json`` where Arrow has the extension ``arrow.json`` or ``lance.json``."""
    return Schema(tuple(_with_json(field) for field in schema.fields), schema.metadata)


def _with_json(field: Field) -> Field:
    name = field.extension_name
    if (name == ARROW_JSON and field.logical_type in _TEXTS) or (
        name == STORED_JSON and field.logical_type == "large_binary"
    ):
        metadata = {**field.metadata, EXTENSION_NAME: STORED_JSON, EXTENSION_METADATA: ""}
        return replace(field, logical_type="json", metadata=metadata)
    if not field.children:
        return field
    return replace(field, children=tuple(_with_json(child) for child in field.children))
