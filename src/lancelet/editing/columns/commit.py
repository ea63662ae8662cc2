"""New columns for all fragments, committed beside what others commit.

When others were faster, only the fragments that are new or whose columns changed
are filled again; the others keep the file that they got::

    1  the schema with the new columns, from the newest version
    2  a file for every fragment that has none for this schema
    3  commit a Merge; somebody else was faster, but the change is still possible: to 1
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lancelet._api.fragment_metadata import FragmentMetadata, fragment_metadata, stored_file
from lancelet.editing.columns.fill import spread_over_deleted, with_file, write_columns
from lancelet.editing.columns.list_shapes import with_checked_lists
from lancelet.editing.columns.new_fields import Growth
from lancelet.errors import InvalidInput, RetryableCommitConflict
from lancelet.execution.table_reader import TableReader
from lancelet.format.file_versions import writable_version
from lancelet.runtime.steps import ROWS_FILLED, expect, step
from lancelet.table.commit.operations import Merge
from lancelet.table.commit.patience import BUILD_SECONDS, Patience
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable
from lancelet.table.manifest.fragment import DataFile, Fragment
from lancelet.table.manifest.mending import refuse_mixed
from lancelet.table.manifest.names import DATA_DIR

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.table.manifest.snapshot import Snapshot
    from lancelet.udf import BatchUDFCheckpoint


class Work(Protocol):
    """Makes columns for one version of a table after the other, until one can be committed."""

    @property
    def repeatable(self) -> bool:
        """Whether the values of a fragment can be asked for again, and those of a new fragment at all."""

    def growth(self, table: TableReader) -> Growth:
        """The schema of the table with the columns."""

    def covers_deleted(self, table: TableReader) -> bool:
        """Whether deleted rows have values too."""

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        """Values for the rows of a fragment."""

    def check_end(self) -> None:
        """Called when all fragments have their values for the first time."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A new file, and the fragment as it was when the file was made for it."""

    fragment: Fragment
    file: DataFile | None

    def fits(self, fragment: Fragment, growth: Growth) -> bool:
        """Whether the file is still right: the columns it was made from are the same, and so are the ids it has."""
        ids = {node.id for node in growth.added.walk()}
        same = fragment.files == self.fragment.files and fragment.overlays == self.fragment.overlays
        return same and (self.file is None or ids.issuperset(self.file.fields))


def fill_fragment(
    table: TableReader, reader: FragmentReader, work: Work, growth: Growth, files: WrittenFiles, stem: bytes = b""
) -> Filled:
    """Write the new columns of one fragment; the name of their file begins with ``stem``."""
    if not growth.added.fields:
        return Filled(reader.fragment, None)
    version = writable_version(table.snapshot.manifest.data_storage_version)
    batches = with_checked_lists(table, reader, growth.added, work.batches(table, reader))
    if not work.covers_deleted(table):
        batches = spread_over_deleted(reader, growth.added, batches)
    return Filled(reader.fragment, write_columns(reader, growth.added, version, batches, files, stem))


def commit_columns(table: TableReader, work: Work, checkpoint: BatchUDFCheckpoint | None = None) -> Snapshot:
    """Fill all fragments and commit them."""
    patience = Patience(BUILD_SECONDS)
    filled: dict[int, Filled] = {}
    with WrittenFiles(table.snapshot.store) as files:
        for attempt in itertools.count():
            snapshot = table.snapshot
            check_writable(snapshot.manifest.path, snapshot.manifest.head.writer_feature_flags)
            refuse_mixed(snapshot.manifest)
            growth = work.growth(table)
            fragments = tuple(_filled(table, work, growth, filled, files, checkpoint))
            if attempt == 0:
                work.check_end()
            try:
                merge = Merge(fragments, growth.schema, preserves_nullability=not growth.strict)
                return commit(snapshot, merge, files=files)
            except RetryableCommitConflict:
                table = TableReader(snapshot.latest(), table.cache)
                if patience.is_over or not (work.repeatable or _all_fit(table, work, filled)):
                    raise
    raise AssertionError("the loop above ends by itself")


def _filled(
    table: TableReader,
    work: Work,
    growth: Growth,
    filled: dict[int, Filled],
    files: WrittenFiles,
    checkpoint: BatchUDFCheckpoint | None,
) -> Iterator[Fragment]:
    """All fragments with their new file; those that have none get one."""
    live = set(table.snapshot.manifest.fragments.ids.tolist())
    for number in [number for number in filled if number not in live]:
        _discard(filled.pop(number), files)
    expect(ROWS_FILLED, table.num_rows)
    for reader in table.readers():
        known = filled.get(reader.fragment.id)
        if known is not None and not known.fits(reader.fragment, growth):
            _discard(filled.pop(reader.fragment.id), files)
            known = None
        if known is None and checkpoint is not None:
            known = _remembered(checkpoint, reader, growth)
        if known is None:
            # What a checkpoint knows outlives an error.
            with nullcontext(files) if checkpoint is None else WrittenFiles(table.snapshot.store) as own:
                known = fill_fragment(table, reader, work, growth, own)
            if checkpoint is not None:
                done = with_file(reader.fragment, reader.physical_rows, known.file, growth.schema)
                checkpoint.insert_fragment(done.id, json.dumps(fragment_metadata(done).to_json()))
        filled[reader.fragment.id] = known
        step(ROWS_FILLED, reader.num_rows)
        yield with_file(reader.fragment, reader.physical_rows, known.file, growth.schema)


def _all_fit(table: TableReader, work: Work, filled: dict[int, Filled]) -> bool:
    growth = work.growth(table)
    return all(
        (known := filled.get(fragment.id)) is not None and known.fits(fragment, growth)
        for fragment in table.snapshot.manifest.fragments
    )


def _discard(filled: Filled, files: WrittenFiles) -> None:
    if filled.file is not None:
        files.discard(f"{DATA_DIR}/{filled.file.path}")


def _remembered(checkpoint: BatchUDFCheckpoint, reader: FragmentReader, growth: Growth) -> Filled | None:
    """The file that an earlier run made for a fragment, if it still fits."""
    text = checkpoint.get_fragment(reader.fragment.id)
    if text is None:
        return None
    paths = {file.path for file in reader.fragment.files}
    try:
        found = [stored_file(file) for file in FragmentMetadata.from_json(text).files]
    except InvalidInput:
        # Of another kind than we know: the values can be computed again.
        return None
    new = [file for file in found if file.path not in paths]
    if len(new) != 1 or len(found) != len(paths) + 1 or not reader.snapshot.store.exists(f"{DATA_DIR}/{new[0].path}"):
        return None
    known = Filled(reader.fragment, new[0])
    return known if known.fits(reader.fragment, growth) else None
