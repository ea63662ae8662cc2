"""From a schema to its wire form: the flat list of field messages (spec table-format.md 3.1).

Manifests and transactions hold this list. ``encoding`` is a hint for legacy
readers; the key fields repeat what the metadata says, so that a reader need not
know the metadata's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from lancelet.format.proto import file_pb2

if TYPE_CHECKING:
    from lancelet.format.schema import Field, Schema

TOP_LEVEL = -1
PRIMARY_KEY = "lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION = "lance-schema:unenforced-primary-key:position"
CLUSTERING_KEY_POSITION = "lance-schema:unenforced-clustering-key:position"

_TRUE = ("true", "1", "yes")
_VARIABLE = ("string", "large_string", "binary", "large_binary", "json")


def schema_messages(schema: Schema) -> list[file_pb2.Field]:
    """The fields depth first, each parent before its children. They are to be copied, not changed: others have them too."""
    return [message for field in schema.fields for message in _tree(field)]


@lru_cache(maxsize=4096)
def _tree(field: Field) -> tuple[file_pb2.Field, ...]:
    """A top-level field. A commit writes each into the file, the transaction and the manifest."""

    def below(field: Field, parent: int) -> Iterator[file_pb2.Field]:
        yield field_message(field, parent)
        for child in field.children:
            yield from below(child, field.id)

    return tuple(below(field, TOP_LEVEL))


def field_message(field: Field, parent: int) -> file_pb2.Field:
    """One node of the schema tree, without its children."""
    message = file_pb2.Field(
        name=field.name,
        id=field.id,
        parent_id=parent,
        logical_type=field.logical_type,
        nullable=field.nullable,
        encoding=_encoding(field.logical_type),
        extension_name=field.extension_name or "",
        metadata=metadata_bytes(field.metadata),
    )
    if field.dictionary is not None:
        offset, length = field.dictionary
        message.dictionary.CopyFrom(file_pb2.Dictionary(offset=offset, length=length))
    if field.metadata:
        refresh_keys(message)
    return message


def metadata_bytes(metadata: Mapping[str, str]) -> dict[str, bytes]:
    """Metadata as the wire has it: values are bytes."""
    return {key: value.encode() for key, value in metadata.items()}


def refresh_keys(message: file_pb2.Field) -> None:
    """Set the key fields from the metadata."""

    def position(key: str) -> int | None:
        text = message.metadata.get(key, b"").decode(errors="replace")
        return int(text) if text.isascii() and text.isdecimal() and int(text) < 2**32 else None

    said = message.metadata.get(PRIMARY_KEY, b"").decode(errors="replace").lower() in _TRUE
    # Position 0 is one, though it reads like none.
    place = position(PRIMARY_KEY_POSITION)
    message.unenforced_primary_key_position = place or 0
    message.unenforced_primary_key = said or place is not None
    message.unenforced_clustering_key_position = position(CLUSTERING_KEY_POSITION) or 0


def _encoding(logical_type: str) -> file_pb2.Field.Encoding:
    if logical_type in ("null", "struct"):
        return file_pb2.Field.NONE
    if logical_type.startswith("dict:"):
        return file_pb2.Field.DICTIONARY
    return file_pb2.Field.VAR_BINARY if logical_type in _VARIABLE else file_pb2.Field.PLAIN
