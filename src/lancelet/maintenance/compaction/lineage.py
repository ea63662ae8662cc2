"""Row ids and row versions of rewritten rows (spec table-format.md 5.3, 5.4 and 5.6).

Rows keep all three. They go into the manifest, or into hidden columns of the new
files when the table's config asks for that and they are long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.encoding.rows import RowRange
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.threads import core_count, ordered_map
from lancelet.format.schema import Field
from lancelet.format.system_columns import (
    CREATED_AT,
    CREATED_AT_FIELD,
    LAST_UPDATED_AT,
    LAST_UPDATED_AT_FIELD,
    ROW_ID,
    ROW_ID_FIELD,
)
from lancelet.table.manifest.fragment import Fragment, Spilled
from lancelet.table.rows.row_id_write import encode_row_id_parts, encode_versions
from lancelet.table.rows.row_ids import Ids

HIDDEN = (
    Field(ROW_ID_FIELD, ROW_ID, "uint64", nullable=False),
    Field(CREATED_AT_FIELD, CREATED_AT, "uint64", nullable=False),
    Field(LAST_UPDATED_AT_FIELD, LAST_UPDATED_AT, "uint64", nullable=False),
)


@dataclass(frozen=True)
class Lineage:
    """Ids and versions of rows, in order; ids in pieces, one for each fragment that they come from."""

    ids: tuple[Ids, ...]
    created: Ids
    updated: Ids

    def slice(self, start: int, stop: int) -> Lineage:
        """Those of some rows."""
        pieces, at = [], 0
        for piece in self.ids:
            part = piece[max(start - at, 0) : max(stop - at, 0)]
            at += len(piece)
            if len(part):
                pieces.append(part)
        return Lineage(tuple(pieces), self.created[start:stop], self.updated[start:stop])

    @cached_property
    def sequences(self) -> tuple[bytes, bytes, bytes]:
        """As the manifest has them."""
        return encode_row_id_parts(self.ids), encode_versions(self.created), encode_versions(self.updated)

    @property
    def encoded(self) -> bytes:
        """All of it, to see how long it is."""
        return b"".join(self.sequences)

    def beside(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of the same rows, with three more columns."""
        ids = np.concatenate(self.ids)
        at = 0
        for batch in batches:
            rows = slice(at, at + batch.num_rows)
            more = [arrow_array(values[rows]) for values in (ids, self.created, self.updated)]
            names = [*batch.schema.names, *(field.name for field in HIDDEN)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *more], names=names)
            at += batch.num_rows


def lineage_of(readers: Sequence[FragmentReader]) -> Lineage:
    """Ids and versions of all live rows of some fragments."""

    def read(reader: FragmentReader) -> tuple[Ids, ...]:
        rows = RowRange(0, reader.physical_rows)
        live = reader.live(rows)
        columns = (numpy_array(reader.system_column(field.name, rows)) for field in HIDDEN)
        return tuple(column if live is None else column[live] for column in columns)

    ids, created, updated = zip(*ordered_map(read, readers, core_count() + 1), strict=True)
    return Lineage(tuple(ids), np.concatenate(created), np.concatenate(updated))


def traced(fragments: Sequence[Fragment], lineage: Lineage) -> tuple[Fragment, ...]:
    """New fragments with the ids and versions of their rows."""
    result, at = [], 0
    for fragment in fragments:
        stop = at + (fragment.physical_rows or 0)
        ids, created, updated = (lineage if len(fragments) == 1 else lineage.slice(at, stop)).sequences
        result.append(replace(fragment, row_ids=ids, created_at=created, last_updated_at=updated))
        at = stop
    return tuple(result)


def spilled(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    """New fragments whose files have the ids and versions of their rows."""
    column = Spilled.COLUMN
    return tuple(replace(f, row_ids=column, created_at=column, last_updated_at=column) for f in fragments)
