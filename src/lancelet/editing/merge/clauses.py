"""What a merge is to do, and what that means for one table and one source.

``Clauses`` are what the user said. ``plan_merge`` holds them against the schemas
of the table and of the source: which columns are keys, which ones the source
lacks, and whether rows or columns are rewritten (spec table-format.md 8.3)::

    rows       the default: changed rows move to new fragments
    columns    asked for, or the source has only some fields of a struct, or it lacks columns and an index has the
               key: fragments with changed rows get a new file for the source's columns
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.editing.moved import write_version
from lancelet.errors import InvalidInput, MergeRefused, UnfitData, UnknownColumn
from lancelet.execution.blobs import has_blobs
from lancelet.execution.plan import plan_filter
from lancelet.execution.shown import scan_field
from lancelet.format.schema import Field, Schema
from lancelet.format.schema_messages import PRIMARY_KEY, PRIMARY_KEY_POSITION
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID, SYSTEM_FIELDS
from lancelet.index.kind import ScalarKind
from lancelet.index.metadata import read_indices
from lancelet.index.questions import IsIn
from lancelet.index.registry import known_kind
from lancelet.table.commit.operations import CompactedSsTable
from lancelet.writing.fit import fitted_schema

if TYPE_CHECKING:
    from lancelet.expressions.expr import Expr
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.snapshot import Snapshot

SOURCE, TARGET = "source", "target"
_LAST = 2**32


class Matched(enum.Enum):
    """What becomes of a row that the source has too."""

    KEEP = "DoNothing"
    UPDATE = "UpdateAll"
    DELETE = "Delete"
    FAIL = "Fail"


class WriteMode(enum.Enum):
    """How changed rows are written."""

    AUTO = "auto"
    ROWS = "rewrite_rows"
    COLUMNS = "rewrite_columns"


@dataclass(frozen=True, slots=True)
class Clauses:
    """What the user asked for."""

    on: tuple[str, ...]
    """The columns that rows are matched by."""
    matched: Matched = Matched.KEEP
    condition: str | None = None
    """SQL over ``source.`` and ``target.`` columns: which matched rows are updated."""
    insert: bool = False
    """Whether rows that only the source has are inserted."""
    delete_others: bool = False
    """Whether rows that only the table has are deleted."""
    others: str | None = None
    """SQL over the table's columns: which of those are."""
    write_mode: WriteMode = WriteMode.AUTO
    use_index: bool = True
    version: str | None = None
    """File version of what is written; that of the table by default."""
    bases: tuple[str, ...] = ()
    """Base paths that new fragments go to in turn, by name or path; the table's own uri stands for its folder."""
    all_bases: bool | None = None
    """All base paths, after the table's own folder if it is True."""
    sstables: tuple[CompactedSsTable, ...] = ()
    """Runs of a MemWAL that are in the table after this."""

    def check(self) -> None:
        """Refuse a merge that would never do anything."""
        if self.matched is Matched.KEEP and not self.insert and not self.delete_others:
            raise InvalidInput(
                "the merge would not change the table in any way; say what to do with rows, for example with "
                "when_matched_update_all() or when_not_matched_insert_all()"
            )

    def __str__(self) -> str:
        matched = f"UpdateIf({self.condition})" if self.condition is not None else self.matched.value
        others = "Keep"
        if self.delete_others:
            others = "Delete" if self.others is None else f"DeleteIf({self.others})"
        return (
            f"on=[{', '.join(self.on)}], when_matched={matched}, "
            f"when_not_matched={'InsertAll' if self.insert else 'DoNothing'}, when_not_matched_by_source={others}"
        )


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A merge of one source into one version of a table."""

    clauses: Clauses
    keys: tuple[Field, ...]
    given: tuple[Field, ...]
    """The table's fields as far as the source has them, in the order of the table."""
    missing: tuple[Field, ...]
    """Top-level fields that the source does not have."""
    condition: Expr | None
    """Which matched rows are updated, over the structs ``source`` and ``target``."""
    others: Expr | None
    """Which rows that only the table has are deleted; None for all of them."""
    written: Schema
    """The columns of new rows: what the source has, and what it lacks, in the order of the table."""
    splits_structs: bool = False
    """Whether the source has only some fields of a struct."""
    rewrites_columns: bool = False

    @property
    def changed(self) -> tuple[Field, ...]:
        """The columns that updated rows get from the source, besides the keys."""
        keys = {key.id for key in self.keys}
        return tuple(field for field in self.given if field.id not in keys)


def key_fields(schema: Schema, on: str | Iterable[str] | None) -> tuple[Field, ...]:
    """The columns to match rows by: those named, or the table's primary key."""
    names = [on] if isinstance(on, str) else list(on or ())
    if not names:
        key = _primary_key(schema)
        if not key:
            raise InvalidInput(
                "merge_insert() needs the columns to match rows by: name them with on=, or give the table a primary key"
            )
        return key
    found: dict[int, Field] = {}
    for name in names:
        field = next((f for f in schema.fields if f.name == name), None)
        if field is None:
            field = next((f for f in schema.fields if f.name.lower() == name.lower()), None)
        if field is None:
            raise UnknownColumn(name, schema.names)
        if has_blobs(field):
            raise InvalidInput(f"column '{name}' holds blobs, by which rows cannot be matched")
        found[field.id] = field
    return tuple(found.values())


def plan_others(schema: Schema, condition: str | None) -> Expr | None:
    """The condition of ``when_not_matched_by_source_delete``, over the table's columns."""
    if condition is None:
        return None
    parsed = plan_filter(schema, condition)
    if parsed is None:
        raise InvalidInput("the condition is empty; leave it out to delete all rows that only the table has")
    return parsed


def plan_merge(snapshot: Snapshot, clauses: Clauses, source: pa.Schema) -> MergePlan:
    """Hold the clauses against a table and a source."""
    clauses.check()
    manifest = snapshot.manifest
    schema = manifest.schema
    keys = key_fields(schema, clauses.on)
    version = write_version(manifest, clauses.version)
    given = _given(schema, source, version, manifest.data_storage_version, snapshot.uri)
    for key in keys:
        if not any(field.id == key.id and _is_whole(field, key) for field in given):
            raise UnfitData(
                f"the source does not have the whole column '{key.name}', by which rows are matched; it has {source.names}"
            )
    names = {field.name for field in given}
    missing = tuple(field for field in schema.fields if field.name not in names)
    condition = None if clauses.condition is None else _condition(schema, given, clauses.condition)
    found = {field.id: field for field in given}
    written = Schema(tuple(found.get(field.id, field) for field in schema.fields))
    stored = {field.id: field for field in schema.fields}
    splits = any(not _is_whole(field, stored[field.id]) for field in given)
    plan = MergePlan(clauses, keys, given, missing, condition, plan_others(schema, clauses.others), written, splits)
    if clauses.insert:
        _check_insertable(schema, given)
    return replace(plan, rewrites_columns=_rewrites_columns(plan, manifest))


def primary_key_ids(schema: Schema) -> tuple[int, ...]:
    """Ids of the fields of the unenforced primary key, in its order."""
    return tuple(field.id for field in _primary_key(schema))


def primary_key_paths(schema: Schema) -> tuple[tuple[str, ...], ...]:
    """The fields of the unenforced primary key, in its order, each by its names from the column down."""
    paths: dict[int, tuple[str, ...]] = {}

    def note(above: tuple[str, ...], fields: tuple[Field, ...]) -> None:
        for field in fields:
            paths[field.id] = (*above, field.name)
            note(paths[field.id], field.children)

    note((), schema.fields)
    return tuple(paths[number] for number in primary_key_ids(schema))


def _primary_key(schema: Schema) -> tuple[Field, ...]:
    def position(field: Field) -> int:
        text = field.metadata.get(PRIMARY_KEY_POSITION, "")
        return int(text) if text.isascii() and text.isdecimal() else 0

    def is_key(field: Field) -> bool:
        return field.metadata.get(PRIMARY_KEY, "").lower() in ("true", "1", "yes") or position(field) > 0

    key = [field for field in schema.walk() if is_key(field)]
    return tuple(sorted(key, key=lambda field: (position(field) or _LAST, field.id)))


def _given(schema: Schema, source: pa.Schema, version: str, storage_version: str, uri: str) -> tuple[Field, ...]:
    """The part of the table's fields that the source has; any may be missing, for updates keep the others."""
    relaxed = Schema(tuple(_relaxed(field) for field in schema.fields), schema.metadata)
    fitted = fitted_schema(relaxed, source, version, storage_version, uri, "rename or cast the columns of the source")
    stored = {node.id: node for node in schema.walk()}
    places = {field.id: place for place, field in enumerate(schema.fields)}
    return tuple(_strict(field, stored) for field in sorted(fitted.fields, key=lambda field: places[field.id]))


def _relaxed(field: Field) -> Field:
    return replace(field, nullable=True, children=tuple(_relaxed(child) for child in field.children))


def _strict(field: Field, stored: dict[int, Field]) -> Field:
    return replace(stored[field.id], children=tuple(_strict(child, stored) for child in field.children))


def _is_whole(given: Field, stored: Field) -> bool:
    return {node.id for node in given.walk()} == {node.id for node in stored.walk()}


def _check_insertable(schema: Schema, given: Sequence[Field]) -> None:
    """New rows must have a value for every column that takes no nulls."""
    known = {node.id for field in given for node in field.walk()}
    for field in schema.fields:
        lacking = [node.name for node in field.walk() if node.id not in known and not node.nullable]
        if lacking and (field.id in known or not field.nullable):
            raise UnfitData(
                f"rows cannot be inserted without a value for '{field.name}', which takes no nulls and is not in the "
                "source; add it, or only update rows"
            )


def _condition(schema: Schema, given: Sequence[Field], text: str) -> Expr:
    from lancelet.expressions.sql import parse_filter

    hidden = [SYSTEM_FIELDS[name] for name in (ROW_ID, ROW_ADDRESS)]
    sides = {
        SOURCE: pa.struct([scan_field(field) for field in given]),
        TARGET: pa.struct([*(scan_field(field) for field in schema.fields), *hidden]),
    }
    try:
        return parse_filter(text, pa.schema(sides), qualified=True)
    except UnknownColumn as error:
        if error.name.partition(".")[0] not in sides:
            raise MergeRefused(
                f"the condition {text!r} names '{error.name}'; columns are named source.{error.name} or "
                f"target.{error.name} here"
            ) from None
        raise MergeRefused(f"the condition {text!r}: {error}") from None
    except InvalidInput as error:
        raise MergeRefused(str(error)) from error


def _rewrites_columns(plan: MergePlan, manifest: Manifest) -> bool:
    """Whether columns are rewritten in place, rather than rows elsewhere."""
    clauses = plan.clauses
    if clauses.write_mode is WriteMode.COLUMNS:
        reasons = list(_obstacles(plan))
        if reasons:
            raise MergeRefused(
                f"write_mode 'rewrite_columns' cannot express this merge: {'; '.join(reasons)}. Use 'auto' or "
                "'rewrite_rows' instead"
            )
        return True
    if clauses.matched is not Matched.UPDATE:
        return False
    blobs = any(has_blobs(field) for field in plan.given)
    if plan.splits_structs:
        if clauses.delete_others or clauses.write_mode is WriteMode.ROWS or blobs:
            raise MergeRefused(
                "the source has only some fields of a struct; rows can be updated with them only in place, which "
                "write_mode 'rewrite_rows', blobs and deleting rows that only the table has rule out. Give the structs "
                "whole"
            )
        return True
    if clauses.write_mode is WriteMode.ROWS or clauses.delete_others or not clauses.use_index:
        return False
    return bool(plan.missing and plan.changed) and not blobs and _is_indexed(manifest, plan.keys)


def _obstacles(plan: MergePlan) -> Iterable[str]:
    """Why a merge cannot be done by rewriting columns only."""
    clauses = plan.clauses
    if clauses.matched is not Matched.UPDATE:
        yield "matched rows must be updated"
    if clauses.insert:
        yield "inserting rows adds rows"
    if clauses.delete_others:
        yield "deleting rows takes rows away"
    if not plan.missing and not plan.splits_structs:
        yield "the source has every column of the table, so there is nothing to skip"
    if not plan.changed:
        yield "the source has no column besides the key"
    if any(has_blobs(field) for field in plan.given):
        yield "the source has a blob column"


def _is_indexed(manifest: Manifest, keys: Sequence[Field]) -> bool:
    """Whether an index finds rows by the key."""
    if len(keys) != 1:
        return False
    (key,) = keys
    dtype = scan_field(key).type
    kinds = (known_kind(index) for index in read_indices(manifest) if index.fields == (key.id,))
    equality = IsIn(pa.nulls(0, dtype))
    return any(isinstance(kind, ScalarKind) and kind.is_exact and kind.takes(equality, dtype) for kind in kinds)
