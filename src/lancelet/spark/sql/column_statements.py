"""ALTER TABLE ADD COLUMNS ... FROM and UPDATE COLUMNS ... FROM: values for rows that a query found by their addresses.

Spark writes what the query gives as a table beside this one. Then each fragment gets a file of its new columns, and all
are one version. Addresses are those of the version that is the newest when the statement begins: when others change
fragments meanwhile, the statement fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import types as st

from lancelet._api.entry import dataset
from lancelet._api.transaction import LanceOperation
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidChange, UnknownColumn
from lancelet.format.extensions import storage_field
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.runtime import compute as pc
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.names import find_name
from lancelet.spark.options import ReadOptions
from lancelet.spark.source import table_columns
from lancelet.spark.sql.tables import open_dataset, place_to_change
from lancelet.spark.types import stored_columns
from lancelet.store import open_store
from lancelet.store.removal import remove_below
from lancelet.table.rows.addresses import OFFSET_BITS

if TYPE_CHECKING:
    from lancelet.fragment import LanceFragment
    from lancelet.spark.options import TableRef
    from lancelet.spark.sql.catalog import Table

_BESIDE = ".backfill"
Arguments = Mapping[str, Any]


def add_columns(table: Table, arguments: Arguments, spark: Any) -> list[tuple[int]]:
    """Commit new columns; rows that the query does not have get null."""
    place = place_to_change(table)
    opened, names = open_dataset(place), arguments["columns"]
    there = [name for name in names if find_name(name, opened.schema.names, case_sensitive=False) is not None]
    if there:
        raise InvalidChange(f"there are columns {', '.join(there)} already; UPDATE COLUMNS gives them new values")
    with _queried(spark, place, names, arguments["source_rows"], None) as rows:
        count = _check_found(rows, opened)
        stored = pa.schema([rows.values.schema.field(name).with_nullable(True) for name in names])
        fragments, schema = [], None
        for fragment in opened.get_fragments():
            own = _own(rows, fragment, stored)
            if not own.num_rows:
                fragments.append(fragment.metadata)
                continue
            merged, schema = fragment.merge(own, ROW_ADDRESS)
            fragments.append(merged)
        if schema is None:
            opened.add_columns(stored)
        else:
            _commit(opened, LanceOperation.Merge(fragments, schema))
    return [(count,)]


def update_columns(table: Table, arguments: Arguments, spark: Any) -> list[tuple[int]]:
    """Commit new values of columns, for the rows that the query has; addresses and ids stay."""
    place = place_to_change(table)
    opened = open_dataset(place)
    known = opened.schema.names
    names = [find_name(name, known, case_sensitive=False) or name for name in arguments["columns"]]
    for name in names:
        if name not in known:
            raise UnknownColumn(name, known, "the table")
    snapshot = opened.table.snapshot
    written = stored_columns(snapshot.manifest.schema)
    stored = pa.schema([written.field(name) for name in names])
    shown = table_columns(snapshot, ReadOptions(place, blobs_as_binary=True))
    with _queried(spark, place, names, arguments["source_rows"], [shown[name] for name in names]) as rows:
        count = _check_found(rows, opened)
        operation = LanceOperation.Update(update_mode="rewrite_columns", updated_fragment_offsets={})
        for fragment in opened.get_fragments():
            own = _own(rows, fragment, stored)
            if own.num_rows:
                updated, fields, *changed = fragment.update_columns(own, ROW_ADDRESS, with_offsets=True)
                operation.updated_fragments.append(updated)
                operation.fields_modified = fields
                assert operation.updated_fragment_offsets is not None
                operation.updated_fragment_offsets[fragment.fragment_id] = changed[0]
        if count:
            _commit(opened, operation)
    return [(count,)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a query gave: values, and the addresses of the rows that they are for."""

    values: LanceDataset
    address: str
    """The column of the addresses."""

    def of_fragment(self, fragment: LanceFragment, names: Sequence[str]) -> tuple[pa.Array, pa.Table]:
        """Addresses, each of which is there once, and columns."""
        first = fragment.fragment_id << OFFSET_BITS
        inside = f"{self.address} >= {first} AND {self.address} < {first + (1 << OFFSET_BITS)}"
        own = self.values.to_table(columns=[self.address, *names], filter=inside)
        addresses = own.column(self.address).combine_chunks().cast(pa.uint64())
        if len(pc.unique(addresses)) < len(addresses):
            raise InvalidChange("the query has several values for one row; make its rows unique by _rowaddr")
        return addresses, own


@contextmanager
def _queried(
    spark: Any, place: TableRef, names: Sequence[str], source: str, wanted: Sequence[st.StructField] | None
) -> Iterator[_Rows]:
    """What a query gives, as a table that is gone afterwards; Spark makes values what ``wanted`` says, or refuses."""
    address = _free_name(names)
    columns = ", ".join("`" + name.replace("`", "``") + "`" for name in names)
    query = f"SELECT {ROW_ADDRESS} AS {address}, {columns} FROM {source} WHERE {ROW_ADDRESS} IS NOT NULL"  # noqa: S608 - the user's own words
    folder, name = place.uri.rstrip("/").rsplit("/", 1)
    inside = f"{name}{_BESIDE}/{uuid4().hex}"
    assigned = None
    if wanted is not None:
        # Without their metadata: the table beside keeps values as Spark has them.
        plain = [st.StructField(column.name, column.dataType, column.nullable) for column in wanted]
        assigned = st.StructType([st.StructField(address, st.LongType()), *plain])
    try:
        spark.save(query, f"{folder}/{inside}", place.storage_options, name, assigned)
        yield _Rows(dataset(f"{folder}/{inside}", storage_options=dict(place.storage_options) or None), address)
    finally:
        remove_below(open_store(folder, dict(place.storage_options) or None), inside)


def _free_name(names: Sequence[str]) -> str:
    """A name for the addresses that no column of the query has."""
    taken, name = {known.lower() for known in names}, "address"
    while name in taken:
        name += "_"
    return name


def _own(rows: _Rows, fragment: LanceFragment, stored: pa.Schema) -> pa.Table:
    """The rows of a fragment, with columns as they are stored."""
    addresses, own = rows.of_fragment(fragment, stored.names)
    try:
        batches = list(conformed_batches(own.to_batches(), stored))
    except pa.ArrowNotImplementedError as error:
        raise InvalidChange(f"the values of the query do not fit the columns of the table: {error}") from None
    values = pa.Table.from_batches(batches, pa.schema([storage_field(field) for field in stored]))
    return values.add_column(0, pa.field(ROW_ADDRESS, pa.uint64()), addresses)


def _check_found(rows: _Rows, opened: LanceDataset) -> int:
    """All rows of the query are rows of the table, neither moved nor deleted; their number."""
    total, count = rows.values.count_rows(), 0
    for fragment in opened.get_fragments():
        addresses, _ = rows.of_fragment(fragment, ())
        if len(addresses):
            live = opened.scanner(columns=[], with_row_address=True, fragments=[fragment]).to_table()
            count += pc.sum(pc.is_in(addresses, value_set=live.column(ROW_ADDRESS).combine_chunks())).as_py()
    if count < total:
        raise InvalidChange(
            f"{total - count} rows of the query have an address that version {opened.version} of {opened.uri} does not "
            "have: they were deleted or moved; take _rowaddr from the newest version of this table"
        )
    return count


def _commit(opened: LanceDataset, operation: LanceOperation.BaseOperation) -> None:
    LanceDataset.commit(opened, operation, read_version=opened.version)
