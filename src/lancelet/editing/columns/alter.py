"""Altering columns: other names, other types, nulls allowed or refused.

Only a cast writes: the column under its new type, with a new field id, in one new
file for each fragment. The rest is a change of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lancelet.editing.columns.beside_mem_wal import refuse_altered
from lancelet.editing.columns.casts import can_recast, recast
from lancelet.editing.columns.commit import commit_columns
from lancelet.editing.columns.fill import batch_rows
from lancelet.editing.columns.new_fields import Growth, check_names, renumbered
from lancelet.errors import InvalidChange, InvalidInput, InvalidType, UnknownColumn
from lancelet.execution.plan import ScanPlan
from lancelet.execution.scan import Scan
from lancelet.execution.shown import scan_field
from lancelet.expressions.expr import Column, IsNull
from lancelet.format.schema import Field, Schema, schema_from_arrow
from lancelet.table.commit.next_manifest import next_field_id
from lancelet.table.commit.operations import Project
from lancelet.table.commit.run import commit

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.execution.table_reader import TableReader
    from lancelet.table.manifest.snapshot import Snapshot

_KEYS = ("path", "name", "nullable", "data_type")


@dataclass(frozen=True, slots=True)
class Alteration:
    """What is to become of one field."""

    path: str
    name: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None


Chains: TypeAlias = list[tuple[tuple[Field, ...], Alteration]]
"""Changes with the fields that lead to theirs."""


def alter_columns(table: TableReader, alterations: Iterable[object]) -> Snapshot:
    """Commit changes of columns; see :meth:`lancelet.LanceDataset.alter_columns`."""
    changes = tuple(_alteration(given) for given in alterations)
    if any(change.data_type is not None for change in changes):
        return commit_columns(table, Recasting(changes))
    snapshot = table.snapshot
    chains = _chains(snapshot.manifest.schema, changes)
    refuse_altered(snapshot, chains)
    altered = _altered(snapshot, chains)
    check_names(altered)
    strict = _made_strict(chains)
    for chain, change in strict:
        _check_no_nulls(table, chain, change.path)
    return commit(snapshot, Project(altered, preserves_nullability=not strict))


@dataclass(frozen=True, slots=True)
class Recasting:
    """Columns written anew under another type."""

    changes: tuple[Alteration, ...]
    repeatable: bool = True

    def growth(self, table: TableReader) -> Growth:
        snapshot = table.snapshot
        chains = _chains(snapshot.manifest.schema, self.changes)
        for chain, change in chains:
            _check_cast(chain[-1], change)
        refuse_altered(snapshot, chains)
        altered = _altered(snapshot, chains)
        check_names(altered)
        if _made_strict(chains):
            raise InvalidChange(
                "cannot make a column non-nullable and cast columns in the same call: apply the cast first, then the "
                "nullability change"
            )
        casts = _casts(chains)
        _refuse_indexed(snapshot, casts)
        parts = _cast_parts(snapshot.manifest.schema, altered, casts)
        strict = any(not chain[-1].nullable for chain, change in chains if change.data_type is not None)
        return Growth(altered, Schema(tuple(new for _, new in parts)), strict)

    def covers_deleted(self, table: TableReader) -> bool:
        return False

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        snapshot = table.snapshot
        chains = _chains(snapshot.manifest.schema, self.changes)
        parts = _cast_parts(snapshot.manifest.schema, _altered(snapshot, chains), _casts(chains))
        source = Schema(tuple(old for old, _ in parts))
        targets = [new for _, new in parts]
        outputs = tuple((old.name, Column((old.name,), scan_field(old).type)) for old in source.fields)
        size = batch_rows(reader, source.fields)
        plan = ScanPlan(source, outputs, fragment_ids=(reader.fragment.id,), batch_size=size)
        for batch in Scan(table, plan).batches():
            arrays = [recast(column, new) for column, new in zip(batch.columns, targets, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=[new.name for new in targets])

    def check_end(self) -> None:
        """Scans end by themselves."""


def _alteration(given: object) -> Alteration:
    if not isinstance(given, Mapping):
        raise InvalidType(f"an alteration is a dict with a path and what to change, not {given!r}")
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise InvalidInput(f"Unknown key: {unknown[0]}. Valid keys are name, nullable, and data_type.")
    if given.get("path") is None:
        raise InvalidInput("path is required: it says which column to alter")
    found = Alteration(given["path"], given.get("name"), given.get("nullable"), given.get("data_type"))
    for key, value, kind in (
        ("path", found.path, str),
        ("name", found.name, str),
        ("nullable", found.nullable, bool),
        ("data_type", found.data_type, pa.DataType),
    ):
        if value is not None and not isinstance(value, kind):
            raise InvalidType(f"{key} of an alteration is {kind.__name__}, not {value!r}")
    if found == Alteration(found.path):
        raise InvalidInput(f"At least one of name, nullable, or data_type must be specified for '{found.path}'")
    return found


def _chain(schema: Schema, path: str) -> tuple[Field, ...]:
    try:
        return schema.resolve((path,) if path in schema.names else path)
    except UnknownColumn as error:
        raise InvalidChange(f'Column "{path}" does not exist in the dataset: {error}') from None


def _chains(schema: Schema, changes: Iterable[Alteration]) -> Chains:
    return [(_chain(schema, change.path), change) for change in changes]


def _made_strict(chains: Chains) -> Chains:
    """The changes that forbid nulls where they were allowed."""
    return [(chain, change) for chain, change in chains if change.nullable is False and chain[-1].nullable]


def _casts(chains: Chains) -> dict[int, Alteration]:
    """Casts by the id of their field."""
    return {chain[-1].id: change for chain, change in chains if change.data_type is not None}


def _check_cast(field: Field, change: Alteration) -> None:
    kind = change.data_type
    if kind is None:
        return
    plain = not field.is_json and not field.is_blob and not field.is_blob_v2
    if not plain or isinstance(kind, pa.BaseExtensionType) or not can_recast(field.arrow_type, kind):
        raise InvalidChange(f'Cannot cast column "{change.path}" from {field.arrow_type} to {kind}')


def _altered(snapshot: Snapshot, chains: Chains) -> Schema:
    """The schema after all changes; what is cast has new ids, given in the order of the schema."""
    changes: dict[int, list[Alteration]] = {}
    for chain, change in chains:
        changes.setdefault(chain[-1].id, []).append(change)
    ids = iter(range(next_field_id(snapshot.manifest), 2**31))

    def altered(field: Field) -> Field:
        for change in changes.get(field.id, ()):
            if change.nullable is not None:
                field = replace(field, nullable=change.nullable)
            if change.name is not None:
                field = replace(field, name=change.name)
        children = tuple(altered(child) for child in field.children)
        field = field if children == field.children else replace(field, children=children)
        kinds = [change.data_type for change in changes.get(field.id, ()) if change.data_type is not None]
        return renumbered(_of_type(field, kinds[-1]), ids) if kinds else field

    schema = snapshot.manifest.schema
    return Schema(tuple(altered(field) for field in schema.fields), schema.metadata)


def _of_type(field: Field, kind: pa.DataType) -> Field:
    (fresh,) = schema_from_arrow(pa.schema([pa.field(field.name, kind, field.nullable)])).fields
    return replace(fresh, metadata=field.metadata)


def _check_no_nulls(table: TableReader, chain: tuple[Field, ...], path: str) -> None:
    """Refuse to forbid nulls where there are some."""
    if any(node.logical_type != "struct" for node in chain[:-1]):
        raise InvalidChange(f'"{path}" is inside a list or map, where nulls cannot be forbidden afterwards')
    schema = table.snapshot.manifest.schema
    column = Column(tuple(node.name for node in chain), scan_field(chain[-1]).type)
    plan = ScanPlan(schema, (), IsNull(column), limit=1)
    if Scan(table, plan).count():
        raise InvalidChange(
            f'Column "{path}" contains NULL values and cannot be made non-nullable; update or delete those rows first'
        )


def _refuse_indexed(snapshot: Snapshot, casts: Mapping[int, Alteration]) -> None:
    """An index of the old values would be of no use; dropping it is for the user to decide."""
    touched = {
        node.id: casts[field.id].path
        for field in snapshot.manifest.schema.walk()
        if field.id in casts
        for node in field.walk()
    }
    for index in snapshot.manifest.indices:
        for number in index.fields:
            if number in touched:
                raise InvalidChange(
                    f"Cannot cast column '{touched[number]}': index '{index.name}' was made of its values; drop the "
                    "index first, and create it again after the cast"
                )


def _cast_parts(schema: Schema, altered: Schema, casts: Mapping[int, Alteration]) -> list[tuple[Field, Field]]:
    """The columns with casts, before and after."""
    pairs = zip(schema.fields, altered.fields, strict=True)
    return [part for old, new in pairs if (part := _cast_part(old, new, casts)) is not None]


def _cast_part(old: Field, new: Field, casts: Mapping[int, Alteration]) -> tuple[Field, Field] | None:
    """A field before and after, reduced to what is cast in it."""
    if old.id in casts:
        return old, new
    if len(old.children) != len(new.children):
        return None
    below = [_cast_part(*pair, casts) for pair in zip(old.children, new.children, strict=True)]
    found = [part for part in below if part is not None]
    if not found:
        return None
    olds, news = (tuple(side) for side in zip(*found, strict=True))
    return replace(old, children=olds), replace(new, children=news)
