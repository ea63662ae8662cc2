"""Rows that move: marked as deleted where they were, written anew in fragments at the end (spec table-format.md 8.2).

This is how updates and merges change rows, and how an engine can: it finds the
addresses of the old rows, writes the new ones, and ``rows_moved`` makes the
operation of both. In a table with stable row ids the new rows keep the ids of
the old ones and the version that they were created in::

    new fragments    moved rows, then rows that are new: those get their ids at the commit
    row_ids          of the moved rows, in the order in which they were written
    created_at       of the moved rows

With ``lance.row_lineage.spill`` in the table's config, long sequences become
hidden columns of a file of their own (5.6); rows without ids must not be in the
same fragment then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.encoding.rows import RowIndices
from lancelet.errors import InvalidInput
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.table_reader import TableReader
from lancelet.format.file_versions import LEGACY, plain_name, writable_version
from lancelet.format.schema import Field, Schema
from lancelet.format.system_columns import CREATED_AT, CREATED_AT_FIELD, ROW_ID, ROW_ID_FIELD
from lancelet.table.commit import operations as ops
from lancelet.table.commit.conflicts import Rows
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.fragment import DataFile, Fragment, Spilled
from lancelet.table.manifest.manifest import Manifest
from lancelet.table.manifest.mending import refuse_mixed
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.rows.addresses import by_fragment
from lancelet.table.rows.lineage import inline_bytes
from lancelet.table.rows.row_id_write import encode_row_ids, encode_versions
from lancelet.table.rows.row_ids import Ids
from lancelet.writing.bases import DataFolder
from lancelet.writing.fragments import Limits, write_fragment_files
from lancelet.writing.options import write_options

Addresses = npt.NDArray[np.uint64]

_HIDDEN = Schema(
    (
        Field(ROW_ID_FIELD, ROW_ID, "uint64", nullable=False),
        Field(CREATED_AT_FIELD, CREATED_AT, "uint64", nullable=False),
    )
)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """An Update that is ready to be committed, and the rows that it takes away."""

    operation: ops.Update
    affected_rows: Rows | None
    """By fragment: what a commit needs to get past a deletion of other rows."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptIds:
    """Ids of rows, and in which version each was created."""

    row_ids: Ids
    created_at: Ids

    def __len__(self) -> int:
        return len(self.row_ids)


@dataclass(frozen=True, slots=True)
class RowWriter:
    """How the new rows of a table are written."""

    snapshot: Snapshot
    version: str
    files: WrittenFiles
    limits: Limits
    folders: tuple[DataFolder, ...] = ()
    """Where new fragments go, in turn; the table's own folder by default."""
    stem: bytes = b""
    """Begins the names of all files, so that those who write together find them again."""

    @classmethod
    def of(
        cls, snapshot: Snapshot, files: WrittenFiles, version: str | None = None, folders: tuple[DataFolder, ...] = ()
    ) -> RowWriter:
        """Files of ``version``, or of the version that the table is written in."""
        manifest = snapshot.manifest
        limits = write_options().limits(len(manifest.schema.fields), manifest.config)
        return cls(snapshot, write_version(manifest, version), files, limits, folders)

    def write(self, batches: Iterable[pa.RecordBatch], schema: Schema | None = None) -> tuple[Fragment, ...]:
        """Write rows into new fragments."""
        return self._write(batches, schema or self.snapshot.manifest.schema, self.limits, self.folders)

    def write_file(self, batches: Iterable[pa.RecordBatch], schema: Schema, groups: tuple[int, ...] = ()) -> DataFile:
        """Write columns of a fragment into one file, in the table's own folder."""
        (fragment,) = self._write(
            batches, schema, replace(self.limits, rows=1 << 62, nbytes=1 << 62, groups=groups), ()
        )
        return fragment.files[0]

    def _write(
        self, batches: Iterable[pa.RecordBatch], schema: Schema, limits: Limits, folders: tuple[DataFolder, ...]
    ) -> tuple[Fragment, ...]:
        return write_fragment_files(
            self.snapshot.store,
            schema,
            batches,
            version=self.version,
            limits=limits,
            files=self.files,
            folders=folders,
            stem=self.stem,
        )

    def trace(self, fragments: Sequence[Fragment], lineage: KeptIds | None) -> tuple[Fragment, ...]:
        """New fragments with the ids of the rows that moved into them: the first ones, as many as ``lineage`` has."""
        if lineage is None:
            return tuple(fragments)
        return tuple(self._traced(fragment, part) for fragment, part in _parts(fragments, lineage))

    def _traced(self, fragment: Fragment, lineage: KeptIds) -> Fragment:
        if not len(lineage):
            return fragment
        ids, created = encode_row_ids(lineage.row_ids), encode_versions(lineage.created_at)
        if len(ids) + len(created) <= inline_bytes(self.snapshot.manifest) or len(lineage) != fragment.physical_rows:
            return replace(fragment, row_ids=ids, created_at=created)
        columns = [arrow_array(lineage.row_ids), arrow_array(lineage.created_at)]
        batch = pa.RecordBatch.from_arrays(columns, names=[ROW_ID, CREATED_AT])
        files = (*fragment.files, self.write_file([batch], _HIDDEN))
        return replace(fragment, files=files, row_ids=Spilled.COLUMN, created_at=Spilled.COLUMN)


def write_version(manifest: Manifest, version: str | None = None) -> str:
    """The file version for new rows of a table."""
    refuse_mixed(manifest)
    stored = manifest.data_storage_version
    if version is not None and (plain_name(version) == LEGACY) != (stored == LEGACY):
        raise InvalidInput(
            f"files of version {version} cannot be in a table of version {stored}: legacy files and newer ones do not mix"
        )
    return writable_version(version or stored)


def lineage_of(table: TableReader, addresses: Addresses) -> KeptIds | None:
    """Ids and creation of rows, in the order of their addresses; None when the table has no stable row ids."""
    if not table.snapshot.manifest.has_stable_row_ids:
        return None
    order = None if np.all(addresses[1:] > addresses[:-1]) else np.argsort(addresses, kind="stable")
    ascending = addresses if order is None else addresses[order]
    found = {name: np.empty(len(addresses), np.uint64) for name in (ROW_ID, CREATED_AT)}
    for number, here, offsets in by_fragment(ascending):
        reader = reader_of(table, number)
        for name, values in found.items():
            values[here] = numpy_array(reader.system_column(name, RowIndices(offsets)))
    if order is not None:
        for values in found.values():
            values[order] = values.copy()
    return KeptIds(found[ROW_ID], found[CREATED_AT])


def reader_of(table: TableReader, fragment_id: int) -> FragmentReader:
    """The fragment that rows of this version were found in."""
    position = table.snapshot.manifest.fragments.position(fragment_id)
    assert position is not None, "the addresses are of this version"
    return table.reader(position)


def rows_moved(
    snapshot: Snapshot,
    gone: Addresses,
    fragments: Sequence[Fragment],
    files: WrittenFiles,
    *,
    fields: Sequence[int],
    inserted_keys: ops.KeyFilter | None = None,
) -> Change:
    """Mark rows as deleted, and make the operation that puts new fragments in their place.

    Parameters
    ----------
    snapshot
        The version in which the rows were found.
    gone
        Addresses of the rows that moved or are to go, in any order.
    fragments
        What was written, see :class:`RowWriter`.
    files
        Takes the names of the deletion files.
    fields
        Ids of the fields whose values may have changed.
    inserted_keys
        Keys of the rows that are new.
    """
    ascending = gone if np.all(gone[1:] > gone[:-1]) else np.sort(gone)
    rows = {number: offsets.astype(np.uint32) for number, _, offsets in by_fragment(ascending)}
    deletion = delete_rows(snapshot, rows, files=files)
    operation = ops.Update(
        deletion.operation.deleted_fragment_ids,
        deletion.operation.updated_fragments,
        tuple(fragments),
        preserved_fields=tuple(fields),
        inserted_keys=inserted_keys,
    )
    return Change(operation, deletion.affected_rows)


def _parts(fragments: Iterable[Fragment], lineage: KeptIds) -> Iterator[tuple[Fragment, KeptIds]]:
    at = 0
    for fragment in fragments:
        stop = at + (fragment.physical_rows or 0)
        yield fragment, KeptIds(lineage.row_ids[at:stop], lineage.created_at[at:stop])
        at = stop
