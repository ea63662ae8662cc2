"""ALTER TABLE: a statement is checked as a whole, and committed as one operation.

==================================  ======================================================
group of changes                    committed as
==================================  ======================================================
properties, comments, defaults,     one UpdateConfig
the primary key
new columns                         one Merge; without a default no file is written
columns that go                     one Project
other names, types, nullability     one Project, or with types one Merge
another place                       one Project
==================================  ======================================================

Changes of several groups in one statement are refused; Spark's SQL makes no such statements, but for rows WITH SCHEMA
EVOLUTION that have both wider columns and new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

from lancelet.dataset import LanceDataset
from lancelet.editing.merge import primary_key_paths
from lancelet.errors import InvalidChange, NotSupported, UnknownColumn
from lancelet.format.schema import Schema, join_path
from lancelet.spark.sql import definition
from lancelet.spark.sql.catalog import Table
from lancelet.spark.sql.definition import COMMENT, DEFAULTS, FILE_VERSION, STABLE_ROW_IDS
from lancelet.spark.sql.tables import told
from lancelet.spark.types import written_schema
from lancelet.table.commit.operations import MapEdits, Project, UpdateConfig
from lancelet.table.commit.run import commit

if TYPE_CHECKING:
    from lancelet.format.schema import Field
    from lancelet.spark.options import TableRef
    from lancelet.table.manifest.snapshot import Snapshot

Change = Sequence[Any]
"""What kind it is, and what it says; see ``protocol.CHANGES``."""


def alter_table(details: Mapping[str, Any]) -> dict[str, Any]:
    """Change a table; returns what it is like then."""
    table = Table.of(details)
    place, external = table.find()
    return told(alter(place, details["changes"]), place, external=external)


def alter(place: TableRef, changes: Sequence[Change]) -> Snapshot:
    """Commit the changes of one statement; none are no commit."""
    dataset = LanceDataset(place.uri, place.version, storage_options=dict(place.storage_options) or None)
    if not changes:
        return dataset.table.snapshot
    groups = {_GROUPS[change[0]] for change in changes}
    if groups == {_alter_columns, _add_columns}:
        # A data frame may have wider columns and new ones; the two are two versions.
        _alter_columns(dataset, [change for change in changes if change[0] != "add_column"])
        return _add_columns(dataset, [change for change in changes if change[0] == "add_column"])
    if len(groups) > 1:
        raise NotSupported(
            "one statement changes columns in one way: "
            + ", ".join(change[0] for change in changes)
            + " do not go together"
        )
    (group,) = groups
    return group(dataset, changes)


# Metadata


def _edit_metadata(dataset: LanceDataset, changes: Sequence[Change]) -> Snapshot:
    """Properties, comments, defaults and the primary key, all in one commit."""
    snapshot = dataset.table.snapshot
    schema = snapshot.manifest.schema
    config: dict[str, str | None] = {}
    of_schema: dict[str, str | None] = {}
    of_fields: dict[int, dict[str, str | None]] = {}

    def field_metadata(path: Sequence[str]) -> dict[str, str | None]:
        return of_fields.setdefault(_field(schema, path).id, {})

    for kind, *said in changes:
        if kind in ("set_property", "remove_property"):
            key, value = said[0], said[1] if kind == "set_property" else None
            if key == COMMENT:
                of_schema[COMMENT] = value
                continue
            _edit_property(schema, key, value, config, field_metadata)
        elif kind == "set_comment":
            field_metadata(said[0])[COMMENT] = said[1] or None
        elif kind == "set_default":
            field_metadata(said[0])[DEFAULTS[0]] = said[1] or None
        elif kind == "add_constraint":
            _set_primary_key(schema, said[0][1], field_metadata)
        else:
            raise NotSupported("the primary key of a Lance table is declared once; it cannot be dropped")
    return commit(
        snapshot,
        UpdateConfig(
            config=MapEdits(config) if config else None,
            schema_metadata=MapEdits(of_schema) if of_schema else None,
            field_metadata={number: MapEdits(values) for number, values in of_fields.items()},
        ),
    )


def _edit_property(
    schema: Schema,
    key: str,
    value: str | None,
    config: dict[str, str | None],
    field_metadata: Callable[[Sequence[str]], dict[str, str | None]],
) -> None:
    if key in (STABLE_ROW_IDS, FILE_VERSION):
        raise NotSupported(f"'{key}' is chosen when a table is made; CREATE TABLE ... AS SELECT makes another one")
    if key in definition.RESERVED:
        raise NotSupported(f"'{key}' is not for TBLPROPERTIES")
    if key == definition.WIDE_OFFSETS and value is not None:
        definition.has_wide_offsets({key: value})
    found = definition.encoding_of(key, value, schema.names)
    if found is None:
        config[key] = value
    else:
        column, name = found
        field_metadata([column])[name] = value


def _set_primary_key(
    schema: Schema, columns: Sequence[Sequence[str]], field_metadata: Callable[[Sequence[str]], dict[str, str | None]]
) -> None:
    if primary_key_paths(schema):
        raise InvalidChange("the table already has an unenforced primary key, which is declared once")
    if len(set(map(tuple, columns))) < len(columns):
        raise InvalidChange(f"the primary key names a column twice: {', '.join(map(join_path, columns))}")
    for place, path in enumerate(columns, 1):
        field, text = _field(schema, path), join_path(path)
        if field.children:
            raise InvalidChange(f"column '{text}' has fields of its own: a primary key is made of single values")
        if field.nullable:
            raise InvalidChange(
                f"column '{text}' is nullable; ALTER TABLE ... ALTER COLUMN {text} SET NOT NULL makes it fit for a primary key"
            )
        field_metadata(path).update(definition.key_metadata(place))


# Columns


def _add_columns(dataset: LanceDataset, changes: Sequence[Change]) -> Snapshot:
    manifest = dataset.table.snapshot.manifest
    schema = manifest.schema
    fields: list[pa.Field] = []
    values: dict[str, Any] = {}
    for _, path, described, comment, position, default in changes:
        if position is not None:
            raise NotSupported(
                f"a new column comes last; add '{path[-1]}', then say ALTER TABLE ... ALTER COLUMN {path[-1]} FIRST, or AFTER"
            )
        metadata = {} if comment is None else {COMMENT: comment}
        if default is not None:
            metadata[DEFAULTS[0]] = metadata[DEFAULTS[1]] = default[0]
        column = st.StructType.fromJson(described).fields[0]
        field = _new_field(st.StructField(path[-1], column.dataType, column.nullable, metadata), manifest.config, path)
        if default is not None:
            if len(path) > 1:
                raise NotSupported(f"'{'.'.join(path)}' is a field of a struct, which has no default of its own")
            values[path[-1]] = definition.constant(default[1], field)
        fields = _merged_field(fields, schema, path, field)
    if not values:
        dataset.add_columns(pa.schema(fields))
    else:
        dataset.add_columns(partial(_constants, pa.schema(fields), values))
    return dataset.table.snapshot


def _new_field(column: st.StructField, config: Mapping[str, str], path: Sequence[str]) -> pa.Field:
    """A column with the properties that the table's config has for it."""
    said = definition.pending(config, column.name) if len(path) == 1 else {}
    return definition.new_field(column, said, wide=definition.has_wide_offsets(config))


def _merged_field(fields: list[pa.Field], schema: Schema, path: Sequence[str], field: pa.Field) -> list[pa.Field]:
    """New columns with one more; those of one struct come together."""
    if len(path) == 1:
        if path[0] in schema.names:
            raise InvalidChange(f"there is a column '{path[0]}' already")
        return [*fields, field]
    first = next((known for known in fields if known.name == path[0]), None)
    _field(schema, path[:-1])
    inner = _merged_inner([] if first is None else list(first.type), path[1:], field)
    outer = pa.field(path[0], pa.struct(inner))
    return [*(known for known in fields if known.name != path[0]), outer]


def _merged_inner(fields: list[pa.Field], path: Sequence[str], field: pa.Field) -> list[pa.Field]:
    if len(path) == 1:
        return [*fields, field]
    first = next((known for known in fields if known.name == path[0]), None)
    inner = _merged_inner([] if first is None else list(first.type), path[1:], field)
    return [*(known for known in fields if known.name != path[0]), pa.field(path[0], pa.struct(inner))]


def _constants(schema: pa.Schema, values: Mapping[str, Any], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same values in every row."""
    arrays = [
        pa.repeat(values[field.name], batch.num_rows) if field.name in values else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _drop_columns(dataset: LanceDataset, changes: Sequence[Change]) -> Snapshot:
    paths = []
    for _, path, if_exists in changes:
        try:
            _field(dataset.table.snapshot.manifest.schema, path)
        except UnknownColumn:
            if not if_exists:
                raise
        else:
            paths.append(join_path(path))
    if paths:
        dataset.drop_columns(paths)
    return dataset.table.snapshot


def _alter_columns(dataset: LanceDataset, changes: Sequence[Change]) -> Snapshot:
    alterations: dict[str, dict[str, Any]] = {}
    for kind, path, value in changes:
        one = alterations.setdefault(join_path(path), {"path": join_path(path)})
        if kind == "rename_column":
            one["name"] = value
        elif kind == "set_nullable":
            one["nullable"] = value
        else:
            spark = st.StructType([st.StructField(path[-1], st.StructType.fromJson(value).fields[0].dataType)])
            one["data_type"] = written_schema(spark, {}, None).field(0).type
    dataset.alter_columns(*alterations.values())
    return dataset.table.snapshot


def _move_columns(dataset: LanceDataset, changes: Sequence[Change]) -> Snapshot:
    snapshot = dataset.table.snapshot
    schema = snapshot.manifest.schema
    fields = list(schema.fields)
    for _, path, after in changes:
        if len(path) > 1:
            raise NotSupported(f"'{'.'.join(path)}' is a field of a struct, whose order is that of its values")
        moved = _field(schema, path)
        fields.remove(moved)
        fields.insert(0 if not after else fields.index(_field(schema, after)) + 1, moved)
    return commit(snapshot, Project(Schema(tuple(fields), schema.metadata), preserves_nullability=True))


def _field(schema: Schema, path: Sequence[str]) -> Field:
    return schema.field_by_path(tuple(path))


_GROUPS: dict[str, Callable[[LanceDataset, Sequence[Change]], Snapshot]] = {
    "set_property": _edit_metadata,
    "remove_property": _edit_metadata,
    "set_comment": _edit_metadata,
    "set_default": _edit_metadata,
    "add_constraint": _edit_metadata,
    "drop_constraint": _edit_metadata,
    "add_column": _add_columns,
    "drop_column": _drop_columns,
    "rename_column": _alter_columns,
    "retype_column": _alter_columns,
    "set_nullable": _alter_columns,
    "move_column": _move_columns,
}
