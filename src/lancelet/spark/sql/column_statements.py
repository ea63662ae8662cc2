"""ALTER TABLE ADD COLUMNS ... FROM and UPDATE COLUMNS ... FROM: values for rows that a query found by their addresses.

Spark writes what the query gives as a table beside this one. Then each fragment gets a file of its new columns, and all
are one version. Addresses are those of the version that is the newest when the statement begins: when others change
fragments meanwhile, the statement fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lancelet._api.entry import dataset
from lancelet._api.transaction import LanceOperation
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidChange, UnknownColumn
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.spark.names import find_name
from lancelet.spark.sql.tables import place_to_change
from lancelet.store import open_store
from lancelet.store.removal import remove_below
from lancelet.table.rows.addresses import OFFSET_BITS

if TYPE_CHECKING:
    from lancelet.fragment import LanceFragment
    from lancelet.spark.options import TableRef
    from lancelet.spark.sql.catalog import Table

_BESIDE = ".backfill"
_ADDRESS = "address"
Arguments = Mapping[str, Any]


def add_columns(table: Table, arguments: Arguments, spark: Any) -> list[tuple[int]]:
    """Commit new columns; rows that the query does not have get null."""
    place = place_to_change(table)
    opened, names = _opened(place), arguments["columns"]
    there = [name for name in names if find_name(name, opened.schema.names, case_sensitive=False) is not None]
    if there:
        raise InvalidChange(f"there are columns {', '.join(there)} already; UPDATE COLUMNS gives them new values")
    with _queried(spark, place, names, arguments["source_rows"]) as rows:
        stored = pa.schema([rows.schema.field(name).with_nullable(True) for name in names])
        fragments, schema, count = [], None, 0
        for fragment in opened.get_fragments():
            own = _own(rows, fragment, stored)
            if not own.num_rows:
                fragments.append(fragment.metadata)
                continue
            merged, schema = fragment.merge(own, ROW_ADDRESS)
            fragments.append(merged)
            count += own.num_rows
        _check_found(count, rows, opened)
        if schema is None:
            opened.add_columns(stored)
        else:
            _commit(opened, LanceOperation.Merge(fragments, schema))
    return [(count,)]


def update_columns(table: Table, arguments: Arguments, spark: Any) -> list[tuple[int]]:
    """Commit new values of columns, for the rows that the query has; addresses and ids stay."""
    place = place_to_change(table)
    opened = _opened(place)
    known = opened.schema.names
    names = [find_name(name, known, case_sensitive=False) or name for name in arguments["columns"]]
    for name in names:
        if name not in known:
            raise UnknownColumn(name, known, "the table")
    stored = pa.schema([opened.schema.field(name) for name in names])
    with _queried(spark, place, names, arguments["source_rows"]) as rows:
        operation = LanceOperation.Update(update_mode="rewrite_columns", updated_fragment_offsets={})
        count = 0
        for fragment in opened.get_fragments():
            own = _own(rows, fragment, stored)
            if own.num_rows:
                updated, fields, *changed = fragment.update_columns(own, ROW_ADDRESS, with_offsets=True)
                operation.updated_fragments.append(updated)
                operation.fields_modified = fields
                assert operation.updated_fragment_offsets is not None
                operation.updated_fragment_offsets[fragment.fragment_id] = changed[0]
                count += own.num_rows
        _check_found(count, rows, opened)
        if count:
            _commit(opened, operation)
    return [(count,)]


@contextmanager
def _queried(spark: Any, place: TableRef, names: Sequence[str], source: str) -> Iterator[LanceDataset]:
    """What a query gives, as a table that is gone afterwards."""
    columns = ", ".join("`" + name.replace("`", "``") + "`" for name in names)
    query = f"SELECT {ROW_ADDRESS} AS {_ADDRESS}, {columns} FROM {source} WHERE {ROW_ADDRESS} IS NOT NULL"  # noqa: S608 - the user's own words
    folder, name = place.uri.rstrip("/").rsplit("/", 1)
    inside = f"{name}{_BESIDE}/{uuid4().hex}"
    try:
        spark.save(query, f"{folder}/{inside}", place.storage_options)
        yield dataset(f"{folder}/{inside}", storage_options=dict(place.storage_options) or None)
    finally:
        remove_below(open_store(folder, dict(place.storage_options) or None), inside)


def _own(rows: LanceDataset, fragment: LanceFragment, stored: pa.Schema) -> pa.Table:
    """The rows of a fragment, with columns as they are stored."""
    first = fragment.fragment_id << OFFSET_BITS
    inside = f"{_ADDRESS} >= {first} AND {_ADDRESS} < {first + (1 << OFFSET_BITS)}"
    own = rows.to_table(columns=[_ADDRESS, *stored.names], filter=inside)
    addresses = own.column(_ADDRESS).cast(pa.uint64())
    if len(pc.unique(addresses)) < len(addresses):
        raise InvalidChange("the query has several values for one row; make its rows unique by _rowaddr")
    try:
        columns = [own.column(field.name).cast(field.type) for field in stored]
    except pa.ArrowInvalid as error:
        raise InvalidChange(f"the values of the query do not fit the columns of the table: {error}") from None
    return pa.table([addresses, *columns], schema=pa.schema([pa.field(ROW_ADDRESS, pa.uint64()), *stored]))


def _check_found(count: int, rows: LanceDataset, opened: LanceDataset) -> None:
    """All rows of the query are rows of the table."""
    total = rows.count_rows()
    if count < total:
        raise InvalidChange(
            f"{total - count} rows of the query have an address that version {opened.version} of {opened.uri} does not "
            "have; take _rowaddr from the newest version of this table"
        )


def _opened(place: TableRef) -> LanceDataset:
    return dataset(place.uri, storage_options=dict(place.storage_options) or None)


def _commit(opened: LanceDataset, operation: LanceOperation.BaseOperation) -> None:
    LanceDataset.commit(opened, operation, read_version=opened.version)
