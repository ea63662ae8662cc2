"""Schemas of data that is to be written: of a new table, and fitted to a table that is there.

What the user's Arrow schema becomes (spec file-format.md 2.5)::

    arrow.json, text                        logical type json, extension lance.json
    large_binary + lance-encoding:blob      from 2.2 on: struct<data, uri>, extension lance.blob.v2
    lance.blob.v2 with prepared blobs       the logical struct<data, uri, position, size>

An append may leave out nullable columns, at any depth of structs and lists; they
read as null. Columns are found by name, so their order is free.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from lancelet.errors import Lines, UnfitData, printable
from lancelet.execution.plan import table_schema
from lancelet.file.writer import check_schema
from lancelet.format.blob_types import (
    BLOB_V2_NAME,
    LOGICAL,
    LOGICAL_WITHOUT_RANGES,
    PREPARED,
    BlobSizes,
    is_logical,
)
from lancelet.format.extensions import storage_field
from lancelet.format.file_versions import V2_2
from lancelet.format.json_fields import with_json
from lancelet.format.logical_types import EXTENSION_NAME
from lancelet.format.schema import BLOB_KEY, Field, Schema, schema_from_arrow
from lancelet.format.system_columns import SYSTEM_FIELDS

_BLOBS_V2_SINCE = V2_2
_KEPT_SCHEMAS = 64


def new_schema(arrow: pa.Schema, version: str, storage_version: str | None = None) -> Schema:
    """The schema of a new table, fields numbered from 0.

    ``version`` is that of the file; blobs go by ``storage_version``, the table's, where that is another.
    """
    data = arrow.serialize().to_pybytes()
    if EXTENSION_NAME.encode() in data:
        # What an extension type stores is its own matter.
        return _new_schema(arrow, version, storage_version or version)
    return _kept_schema(_Asked(data, version, storage_version or version, arrow))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A schema by its bytes: pyarrow takes two for equal that differ in their metadata."""

    data: bytes
    version: str
    storage_version: str
    arrow: pa.Schema = dataclasses.field(compare=False)


@lru_cache(maxsize=_KEPT_SCHEMAS)
def _kept_schema(asked: _Asked) -> Schema:
    """The schemas of small writes come again and again, and numbering their fields is much of the work."""
    return _new_schema(asked.arrow, asked.version, asked.storage_version)


def _new_schema(arrow: pa.Schema, version: str, storage_version: str) -> Schema:
    for name in arrow.names:
        if name in SYSTEM_FIELDS:
            raise UnfitData(
                f"{name} is a reserved name, under which every table has a column already; rename the column"
            )
    fields = [storage_field(field) for field in arrow]
    if storage_version >= _BLOBS_V2_SINCE:
        fields = [_blob_field(field) for field in fields]
    try:
        numbered = schema_from_arrow(pa.schema(fields, arrow.metadata))
    except UnicodeDecodeError as error:
        raise UnfitData(f"metadata of the schema is not UTF-8: {error}") from None
    schema = with_json(numbered)
    check_schema(schema, version)
    for node in schema.walk():
        if node.is_blob_v2:
            BlobSizes.of(node.name, node.metadata)
    return schema


def fitted_schema(
    table: Schema,
    arrow: pa.Schema,
    version: str,
    storage_version: str,
    uri: str,
    advice: str = "rename or cast the columns, or write with mode='overwrite'",
) -> Schema:
    """The table's fields that the data has, under the table's ids, in the order of the data."""
    given = new_schema(arrow, version, storage_version)
    flaws: list[str] = []
    fields = _matched(table.fields, given.fields, "", flaws, may_miss=True)
    if flaws:
        raise UnfitData(
            Lines.of(
                f"the columns of the data do not fit those of {uri}",
                *(f"  {flaw}" for flaw in flaws),
                *side_by_side("table", table_schema(table), "data", arrow),
                advice,
            )
        )
    return Schema(fields, table.metadata)


def side_by_side(left_title: str, left: pa.Schema, right_title: str, right: pa.Schema) -> list[str]:
    """Two schemas as lines of two columns; a mark shows the columns that differ."""
    names = [*left.names, *(name for name in right.names if name not in left.names)]
    rows = [(left_title, right_title, False)]
    for name in dict.fromkeys(names):
        first, second = _shown(left, name), _shown(right, name)
        rows.append((first, second, first != second))
    width = max(len(first) for first, _, _ in rows)
    return [f"{'!' if differs else ' '} {first:<{width}}  {second}".rstrip() for first, second, differs in rows]


def _shown(schema: pa.Schema, name: str) -> str:
    at = schema.get_all_field_indices(name)
    fields = [schema.field(index) for index in at]
    return printable(", ".join(f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in fields)) or "-"


def _blob_field(field: pa.Field) -> pa.Field:
    """Blobs of the first kind as those of the second, and prepared ones as logical ones, wherever they are nested."""
    metadata = dict(field.metadata or {})
    dtype = field.type
    if metadata.get(BLOB_KEY.encode()) == b"true" and dtype == pa.large_binary():
        del metadata[BLOB_KEY.encode()]
        metadata[EXTENSION_NAME.encode()] = BLOB_V2_NAME.encode()
        return pa.field(field.name, LOGICAL_WITHOUT_RANGES, field.nullable, metadata)
    if metadata.get(EXTENSION_NAME.encode()) == BLOB_V2_NAME.encode():
        if dtype == PREPARED:
            return field.with_type(LOGICAL)
        if not is_logical(dtype):
            raise UnfitData(f"field '{field.name}': blobs are {LOGICAL_WITHOUT_RANGES} or {LOGICAL}, not {dtype}")
        return field
    if pa.types.is_struct(dtype):
        return field.with_type(pa.struct([_blob_field(child) for child in dtype]))
    if pa.types.is_list(dtype):
        return field.with_type(pa.list_(_blob_field(dtype.value_field)))
    if pa.types.is_large_list(dtype):
        return field.with_type(pa.large_list(_blob_field(dtype.value_field)))
    return field


def _matched(
    stored: tuple[Field, ...], given: tuple[Field, ...], prefix: str, flaws: list[str], *, may_miss: bool
) -> tuple[Field, ...]:
    """The stored fields under the names of the given ones; what does not fit goes to ``flaws``."""
    known = {field.name: field for field in stored}
    found = {field.name for field in given}
    for field in stored:
        if field.name not in found and not (may_miss and field.nullable):
            why = "cannot be null" if may_miss else "cannot be left out there"
            flaws.append(f"`{prefix}{field.name}` is missing, and {why}")
    flaws.extend(f"`{prefix}{field.name}` is not in the table" for field in given if field.name not in known)
    pairs = [(known[field.name], field) for field in given if field.name in known]
    return tuple(_fitted(mine, theirs, prefix + mine.name, flaws, parts=may_miss) for mine, theirs in pairs)


def _fitted(stored: Field, given: Field, path: str, flaws: list[str], *, parts: bool) -> Field:
    if stored.is_blob_v2 and given.is_blob_v2:
        known, wanted = (BlobSizes.of(path, field.metadata).effective() for field in (stored, given))
        flaws.extend(
            f"`{path}` has {key}={known[key]} in the table, {number} in the data"
            for key, number in wanted.items()
            if key in given.metadata and number != known[key]
        )
        return stored
    if _kind(stored) != _kind(given):
        flaws.append(f"`{path}` is {stored.logical_type} in the table, {given.logical_type} in the data")
        return stored
    if not stored.children:
        return stored
    # A packed struct is one column, entries of a map are pairs: nothing of such fields can be left out.
    whole = stored.is_packed or stored.logical_type.startswith(("map", "fixed_size_list"))
    may_miss = parts and not whole
    children = _matched(stored.children, given.children, f"{path}.", flaws, may_miss=may_miss)
    return replace(stored, children=children)


def _kind(field: Field) -> str:
    """The logical type; whether a list holds structs is told by its child."""
    return field.logical_type.removesuffix(".struct") if field.children else field.logical_type
