"""Schemas that grow: new columns beside the old ones, new fields inside structs.

New fields get the ids after the greatest ever used, parents before children. A
field that the table has already may be named again only to reach a place inside
it: ``s: struct<z>`` adds ``z`` to the struct ``s``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet._naming.texts import check_text
from lancelet.errors import InvalidChange, NotSupported
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, V2_2, is_writable
from lancelet.format.schema import Field, Schema
from lancelet.format.system_columns import SYSTEM_FIELDS
from lancelet.table.commit.next_manifest import next_field_id
from lancelet.writing.fit import new_schema

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest

_PARTS_SINCE = V2_2
"""Files of earlier versions cannot hold a part of a struct that another file holds as well."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A schema, and what of it new files hold."""

    schema: Schema
    """The table's from now on."""
    added: Schema
    """The new fields, within the fields around them."""
    strict: bool = False
    """Whether a new field takes no nulls, so that rows without it no longer fit."""


def grown(manifest: Manifest, arrow: pa.Schema) -> Growth:
    """The table's schema with new columns, or refused."""
    stored = manifest.data_storage_version
    given = new_schema(arrow, stored if is_writable(stored) else DEFAULT_VERSION)
    ids = iter(range(next_field_id(manifest), 2**31))
    table = manifest.schema
    fields, added = _joined(table.fields, given.fields, ids, "", stored)
    schema = Schema(fields, {**given.metadata, **table.metadata})
    check_names(schema)
    known = {node.id for node in table.walk()}
    return Growth(schema, Schema(added), any(_is_strict(field, known) for field in added))


def with_null_columns(manifest: Manifest, arrow: pa.Schema) -> Schema:
    """The table's schema with columns that have no value in any row."""
    if manifest.data_storage_version == LEGACY:
        raise NotSupported("columns without values cannot be added to a table of file version 0.1")
    for field in arrow:
        if not field.nullable:
            raise InvalidChange(f"All-null columns must be nullable, but field '{field.name}' is not.")
    return grown(manifest, arrow).schema


def check_names(schema: Schema) -> None:
    """Refuse names that a table cannot have."""
    for field in schema.fields:
        if "." in field.name:
            raise InvalidChange(
                f"Top level field {field.name} cannot contain `.`. Maybe you meant to create a struct field?"
            )
        if field.name in SYSTEM_FIELDS:
            raise InvalidChange(f"'{field.name}' is a column that every table has; choose another name")
    _check_siblings(schema.fields, "the table")
    for node in schema.walk():
        _check_siblings(node.children, f"field '{node.name}'")


def renumbered(field: Field, ids: Iterator[int]) -> Field:
    """The field and those inside it under new ids."""
    number = next(ids)
    return replace(field, id=number, children=tuple(renumbered(child, ids) for child in field.children))


def _check_siblings(fields: Iterable[Field], where: str) -> None:
    seen: set[str] = set()
    for field in fields:
        check_text(field.name, "the name of a field")
        if not field.name or "\0" in field.name:
            raise InvalidChange(f"{field.name!r} cannot be the name of a field of {where}")
        if field.name in seen:
            raise InvalidChange(f'Duplicate field name "{field.name}" in {where}; give every field its own name')
        seen.add(field.name)


def _joined(
    stored: tuple[Field, ...], given: tuple[Field, ...], ids: Iterator[int], prefix: str, version: str
) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """The stored fields with the given ones, and the part of the result that is new."""
    result = {field.name: field for field in stored}
    added = []
    for field in given:
        known = result.get(field.name)
        path = prefix + field.name
        if known is None:
            result[field.name] = fresh = renumbered(field, ids)
            added.append(fresh)
            continue
        if not _can_hold_parts(known) or not _can_hold_parts(field) or known.arrow_type.id != field.arrow_type.id:
            if known.arrow_type != field.arrow_type:
                raise InvalidChange(
                    f"Type conflicts between {path} ({known.arrow_type}) and {path} ({field.arrow_type})"
                )
            raise InvalidChange(f"Column {path} already exists in the dataset; drop it first, or choose another name")
        if version < _PARTS_SINCE:
            raise InvalidChange(
                f"column {path} is there already, and fields cannot be added inside it: files of version {version} do "
                f"not hold parts of a column; write the table anew in version {_PARTS_SINCE}"
            )
        children, fresh_children = _joined(known.children, field.children, ids, f"{path}.", version)
        result[field.name] = replace(known, children=children)
        added.append(replace(known, children=fresh_children))
    return tuple(result.values()), tuple(added)


def _is_strict(field: Field, known: set[int]) -> bool:
    if field.id not in known:
        return not field.nullable
    return any(_is_strict(child, known) for child in field.children)


def _can_hold_parts(field: Field) -> bool:
    """Whether the leaves below a field may lie in different files."""
    if field.logical_type == "struct":
        return not field.is_packed and not field.is_blob_v2
    if field.logical_type.startswith(("list", "large_list")):
        return _can_hold_parts(field.children[0])
    return False
