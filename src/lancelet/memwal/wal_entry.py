"""Entries of the log: Arrow streams (spec memwal.md 5).

::

    schema     the table's columns, each with lance:field_id in its metadata, then _tombstone: bool not null
               metadata: writer_epoch, generation
    batches    rows in the order in which they came; a deletion has the key, null elsewhere, and _tombstone = true

A sentinel is a stream without columns and batches, whose metadata says ``fence_sentinel``. It takes a position, so that a
writer who was there before cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lancelet.errors import CorruptFile, NotSupported, UnfitData
from lancelet.memwal.names import TOMBSTONE

if TYPE_CHECKING:
    from lancelet.format.schema import Schema

EPOCH: Final = b"writer_epoch"
GENERATION: Final = b"generation"
SENTINEL: Final = b"fence_sentinel"
FIELD_ID: Final = b"lance:field_id"
TOMBSTONE_FIELD: Final = pa.field(TOMBSTONE, pa.bool_(), nullable=False)


@dataclass(frozen=True, slots=True, eq=False)
class WalEntry:
    """An entry of the log that was read."""

    position: int
    epoch: int
    batches: tuple[pa.RecordBatch, ...]
    is_sentinel: bool = False


def entry_schema(schema: Schema) -> pa.Schema:
    """The columns of the entries of a table."""
    fields = []
    for field in schema.fields:
        arrow = field.arrow_field
        fields.append(arrow.with_metadata({**(arrow.metadata or {}), FIELD_ID: str(field.id).encode()}))
    return pa.schema([*fields, TOMBSTONE_FIELD])


def fitted(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Rows of an entry in the columns that the table has now, which are found by their ids."""
    if batch.schema.equals(target, check_metadata=True):
        return batch
    # Entries of the first model do not tell ids, and know no deletions: their columns are found by name.
    names = {field.name: _id_of(field) for field in target}
    stored = [_id_of(field, names.get(field.name)) for field in batch.schema]
    numbers = {number: place for place, number in enumerate(stored) if batch.schema.names[place] != TOMBSTONE}
    changed = {batch.schema.names[place] for number, place in numbers.items() if number not in names.values()}
    columns = []
    for field in list(target)[:-1]:
        place = numbers.get(_id_of(field))
        if place is not None:
            columns.append(_reshaped(batch.column(place), field.type, field.name))
        else:
            check_added(field.name, field.nullable, changed, "rows in the log")
            columns.append(pa.nulls(batch.num_rows, field.type))
    known = TOMBSTONE in batch.schema.names
    gone = batch.column(TOMBSTONE) if known else pa.repeat(pa.scalar(False), batch.num_rows)
    return pa.RecordBatch.from_arrays([*columns, gone], schema=target)


def _reshaped(column: pa.Array, dtype: pa.DataType, path: str) -> pa.Array:
    """A column with the children that it has now. Entries tell only ids of columns: those inside are found by their names."""
    if column.type == dtype:
        return column
    before, now = ({child.name for child in one} if pa.types.is_struct(one) else None for one in (column.type, dtype))
    if before is None or now is None or (before - now and now - before):
        check_added(path, True, (path,), "rows in the log")
    children = []
    for child in dtype:
        at = column.type.get_field_index(child.name)
        if at < 0:
            check_added(f"{path}.{child.name}", child.nullable, (), "rows in the log")
            children.append(pa.nulls(len(column), child.type))
        else:
            children.append(_reshaped(column.field(at), child.type, f"{path}.{child.name}"))
    return pa.StructArray.from_arrays(children, fields=list(dtype), mask=column.is_null())


def _id_of(field: pa.Field, otherwise: bytes | None = None) -> bytes:
    found: bytes = (field.metadata or {}).get(FIELD_ID, otherwise or field.name.encode())
    return found


def check_added(name: str, nullable: bool, changed: Collection[str], what: str) -> None:
    """Raise when older rows have no value for a column that the table has now, and null would be a lie."""
    if name in changed:
        raise NotSupported(
            f"column '{name}' was given another type, or dropped and made anew, while {what} have it as it was: compact the "
            "MemWAL before such a change; a version from before it still reads them"
        )
    if not nullable:
        raise UnfitData(
            f"column '{name}' came to the table later than {what}, which have no value for it, and it cannot be null; let it be "
            "null (alter_columns), or compact the MemWAL before adding such a column"
        )


def encode_entry(schema: pa.Schema, batches: Sequence[pa.RecordBatch], epoch: int, generation: int) -> bytes:
    """The content of an entry; ``schema`` is that of :func:`entry_schema`."""
    noted = schema.with_metadata({GENERATION: str(generation).encode(), EPOCH: str(epoch).encode()})
    return _stream(noted, batches)


def encode_sentinel(epoch: int) -> bytes:
    """The content of an entry that only takes a position."""
    return _stream(pa.schema([], {SENTINEL: b"true", EPOCH: str(epoch).encode()}), ())


def _stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_entry(data: bytes, position: int, path: str) -> WalEntry:
    """An entry out of its file. One that cannot be read is an error, never passed over: its rows were acknowledged."""
    try:
        with pa.ipc.open_stream(data) as reader:
            metadata = reader.schema.metadata or {}
            batches = tuple(reader)
        for batch in batches:
            batch.validate(full=True)
        epoch = int(metadata[EPOCH])
    except (pa.ArrowException, OSError, KeyError, ValueError, EOFError) as error:
        raise CorruptFile(path, lost_entry(position, f"cannot be read ({error})")) from error
    return WalEntry(position, epoch, batches, metadata.get(SENTINEL) == b"true")


def lost_entry(position: int, reason: str) -> str:
    """What is lost with an entry, and what to do."""
    return (
        f"entry {position} of the log {reason}. The rows of this entry are lost unless the store has an older copy of the file; "
        "other entries are not touched. Put the copy back, or give the entry up with "
        f"give_up_mem_wal_entry(shard_id, {position}) of the dataset, and open the shard again"
    )
