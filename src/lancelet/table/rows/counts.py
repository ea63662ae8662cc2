"""Numbers of rows and sizes of files that an old release did not record, looked up in the files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lancelet.errors import CorruptFile, MissingFile
from lancelet.file.reader import open_file
from lancelet.table.manifest.fragment import fragment_from_proto
from lancelet.table.manifest.mending import COUNTS_SINCE, written_before
from lancelet.table.manifest.messages import fragment_message
from lancelet.table.rows.deletions import read_deletions

if TYPE_CHECKING:
    from lancelet.format.proto import table_pb2
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot


def record_counts(snapshot: Snapshot, message: table_pb2.Manifest, previous: table_pb2.Manifest) -> None:
    """Write the counts and sizes that an old release left out into a new manifest."""
    if not written_before(previous, COUNTS_SINCE):
        return
    for record in message.fragments:
        gaps = not record.physical_rows or not all(file.file_size_bytes for file in record.files)
        if gaps or (record.HasField("deletion_file") and not record.deletion_file.num_deleted_rows):
            # Versions whose files are gone can still be committed, as what they are.
            with suppress(MissingFile):
                record.CopyFrom(fragment_message(counted(snapshot, fragment_from_proto(record, snapshot.uri))))


def counted(snapshot: Snapshot, fragment: Fragment) -> Fragment:
    """The fragment with its numbers of rows and the sizes of its files, looked up where it does not have them."""
    files = []
    for file in fragment.files:
        place = snapshot.places.data_file(file)
        files.append(file if file.size is not None else replace(file, size=place.store.size_of(place.path)))
    rows = fragment.physical_rows
    if rows is None:
        counts = {open_file(snapshot.places.data_file(file).open(file.size)).num_rows for file in files}
        if len(counts) != 1:
            raise CorruptFile(
                snapshot.manifest.path, "its files have different numbers of rows", f"fragment {fragment.id}"
            )
        (rows,) = counts
    deletion = fragment.deletion_file
    if deletion is not None and deletion.num_deleted_rows is None:
        gone = len(read_deletions(snapshot.places, fragment, rows))
        deletion = replace(deletion, num_deleted_rows=gone)
    return replace(fragment, files=tuple(files), physical_rows=rows, deletion_file=deletion)
