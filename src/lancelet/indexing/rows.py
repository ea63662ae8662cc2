"""The rows that an index is built from: the values of its columns, with the rows' addresses or ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.execution.matching_plan import check_texts_path
from lancelet.execution.outdated_texts import outdated_documents
from lancelet.execution.plan import ScanPlan, column_of
from lancelet.execution.scan import Scan
from lancelet.execution.shown import texts_type
from lancelet.expressions.expr import Column
from lancelet.expressions.printing import quoted_path
from lancelet.format.extensions import storage_of, storage_type
from lancelet.format.json_fields import STORED_JSON
from lancelet.format.schema import split_path, texts_path
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID
from lancelet.index.kind import ROW, VALUE, NewRows, Stages
from lancelet.index.registry import kind_of_entry
from lancelet.index.segments import joined_type, joined_values, text_chains
from lancelet.index.text.kind import InvertedKind
from lancelet.store import release_views

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field, Schema
    from lancelet.index.kind import Kind, Source
    from lancelet.index.metadata import IndexMetadata
    from lancelet.index.segments import Whereabouts
    from lancelet.index.text.segment import TextSegment

_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20
_SAMPLE_BLOCK = 4 << 10
"""Rows of a sample are drawn in blocks of about so many bytes: most stores read no less at once."""
_SAMPLE_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """What an index is over: a column, or several, whose values go together as those of a struct."""

    columns: tuple[Column, ...]
    fields: tuple[Field, ...]
    names: tuple[tuple[str, ...], ...]
    """The path of each, as users have it: items of lists have no name."""

    @classmethod
    def of(cls, chains: Sequence[Sequence[Field]]) -> IndexedColumns:
        """Columns by the fields that lead to each."""
        columns = [Column(tuple(node.name for node in chain), texts_type(chain)) for chain in chains]
        return cls(tuple(columns), tuple(chain[-1] for chain in chains), tuple(map(texts_path, chains)))

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(field.id for field in self.fields)

    @property
    def type(self) -> pa.DataType:
        return joined_type([pa.field(column.path[-1], column.type) for column in self.columns])

    @property
    def width(self) -> int:
        """About how many bytes a row has."""
        return max(1, sum(_width(column.type) for column in self.columns))

    @property
    def paths(self) -> list[str]:
        """As users name them, without the names of items of lists."""
        return [quoted_path(path) for path in self.names]

    @property
    def arrow_field(self) -> pa.Field:
        """The column as a kind checks it."""
        if len(self.fields) == 1:
            return self.fields[0].arrow_field.with_type(self.columns[0].type)
        return pa.field(", ".join(self.paths), self.type)

    def joined(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """The values of rows out of those of each column."""
        return joined_values([storage_of(array) for array in arrays], self.type)


def find_columns(table: TableReader, columns: str | Sequence[str], *, in_lists: bool = False) -> IndexedColumns:
    """Columns by their names or nested paths; as in pylance, in any case when no name fits exactly.

    ``in_lists``, they may also be fields of structs that are items of lists, of which all in a row go together.
    """
    names = [columns] if isinstance(columns, str) else columns
    return IndexedColumns.of([_chain(table.snapshot.manifest.schema, name, in_lists) for name in names])


def _chain(schema: Schema, name: Any, in_lists: bool) -> tuple[Field, ...]:
    if in_lists and isinstance(name, str) and name not in schema.names:
        chain = schema.resolve_texts(tuple(split_path(name)), any_case=True)
        if any(node.is_list for node in chain[:-1]):
            check_texts_path(name, chain)
            return chain
    found = column_of(schema, name, any_case=True)
    if found.path[0] not in schema.names:
        raise UnknownColumn(name, schema.names)
    return schema.resolve(found.path)


def columns_of_fields(table: TableReader, ids: Sequence[int]) -> IndexedColumns:
    """The columns with these field ids."""
    known = dict(text_chains(table.snapshot.manifest.schema.fields))
    if missing := [number for number in ids if number not in known]:
        raise InvalidInput(f"there is no field {missing[0]} in version {table.snapshot.version}")
    return IndexedColumns.of([known[number] for number in ids])


def old_source(table: TableReader, where: Whereabouts, entry: IndexMetadata, indexed: IndexedColumns) -> Source:
    """A segment that becomes part of a new one, without what its rows do not say any more."""
    source = where.source(entry, indexed.type)
    if isinstance(kind_of_entry(entry), InvertedKind):
        segment = cast("TextSegment", source.segment)
        segment.disregard(outdated_documents(table, where, entry, indexed.columns[0].path, segment).marks)
    return source


def read_rows(
    table: TableReader,
    indexed: IndexedColumns,
    kind: Kind,
    fragments: Iterable[int],
    seen: Callable[[int], object] | None = None,
    stages: Stages | None = None,
) -> NewRows:
    """The live rows of some fragments, by ascending address; ``seen`` hears how many have been read."""
    manifest = table.snapshot.manifest
    name = ROW_ID if manifest.has_stable_row_ids and not kind.by_address else ROW_ADDRESS
    if kind.reads_stored_json:
        indexed = replace(
            indexed, columns=tuple(Column(one.path, pa.large_binary(), STORED_JSON) for one in indexed.columns)
        )
    values = tuple((f"{VALUE}{number}", column) for number, column in enumerate(indexed.columns))
    outputs = (*values, (ROW, Column((name,), pa.uint64())))
    chosen = tuple(sorted(fragments))
    width = max(indexed.width, _stored_width(table, indexed, chosen))
    batch_size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // width))
    plan = ScanPlan(manifest.schema, outputs, batch_size=batch_size, fragment_ids=chosen)

    def batches() -> Iterator[pa.RecordBatch]:
        if not chosen:
            return
        done = 0
        for batch in Scan(table, plan).batches(joined=False):
            *arrays, rows = batch.columns
            yield pa.RecordBatch.from_arrays([indexed.joined(arrays), rows], names=[VALUE, ROW])
            # What was taken in is seldom read again, and need not be in memory beside what is made of it.
            release_views(
                [(held.address, held.size) for array in arrays for held in array.buffers() if held is not None]
            )
            done += batch.num_rows
            if seen is not None:
                seen(done)

    starts, counts = _extents(table, chosen)
    total = int(counts.sum())

    def sample(wanted: int, seed: int) -> Iterator[pa.Array]:
        if wanted >= total:
            for batch in Scan(
                table, ScanPlan(manifest.schema, values, batch_size=batch_size, fragment_ids=chosen)
            ).batches():
                yield indexed.joined(batch.columns)
            return
        scan = Scan(table, ScanPlan(manifest.schema, values))
        numbers = _drawn(starts, counts, wanted, max(1, _SAMPLE_BLOCK // width), seed)
        step = max(1, min(_SAMPLE_ROWS, _BATCH_BYTES // width))
        for start in range(0, len(numbers), step):
            found = scan.take(*table.locate(numbers[start : start + step])).combine_chunks()
            for batch in found.to_batches():
                yield indexed.joined(batch.columns)

    extension = indexed.fields[0].extension_name or ""
    return NewRows(indexed.type, batches(), total, sample, stages or Stages(), extension)


def _extents(table: TableReader, fragments: Iterable[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each fragment the number of its first live row in the table, and how many it has."""
    places = [table.snapshot.manifest.fragments.position(number) for number in fragments]
    known = [place for place in places if place is not None]
    starts = np.array([table.rows_before(place) for place in known], np.int64)
    return starts, table.row_counts[np.array(known, np.int64)].astype(np.int64)


def _drawn(
    starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], wanted: int, block: int, seed: int
) -> npt.NDArray[np.int64]:
    """Numbers of rows, ascending, in blocks that are drawn by chance."""
    ends = np.cumsum(counts)
    total = int(ends[-1])
    blocks = -(-total // block)
    some = np.sort(np.random.default_rng(seed).choice(blocks, min(blocks, -(-wanted // block)), replace=False))
    numbers = (some[:, None] * block + np.arange(block)).reshape(-1)
    numbers = numbers[numbers < total]
    owners = np.searchsorted(ends, numbers, side="right")
    found: npt.NDArray[np.int64] = numbers - (ends - counts)[owners] + starts[owners]
    return found


def _stored_width(table: TableReader, indexed: IndexedColumns, fragments: Sequence[int]) -> int:
    """About how many bytes a row has in its files, for columns of which the type does not tell; long texts are seen by it."""
    if all(pa.types.is_primitive(storage_type(column.type)) for column in indexed.columns):
        return 0
    manifest = table.snapshot.manifest
    places = [place for number in fragments if (place := manifest.fragments.position(number)) is not None]
    total = 0
    for place in places:
        held = [
            file for file in manifest.fragments[place].files if any(field.id in file.fields for field in indexed.fields)
        ]
        total += sum(file.size or 0 for file in held)
    return total // max(1, int(table.row_counts[np.array(places, np.int64)].sum()))


def _width(dtype: pa.DataType) -> int:
    """About how many bytes a value has."""
    if isinstance(dtype, pa.BaseExtensionType):
        return _width(dtype.storage_type)
    if pa.types.is_fixed_size_list(dtype):
        return int(dtype.list_size) * _width(dtype.value_type)
    return dtype.bit_width // 8 if pa.types.is_primitive(dtype) else 16
