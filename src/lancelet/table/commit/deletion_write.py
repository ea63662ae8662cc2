"""Writing deletion files, and the Delete operation for a set of rows (spec table-format.md chapter 4 and 8.2).

A file repeats all older deletions of its fragment. More than 5000 rows go into a
bitmap, fewer into an Arrow file; a fragment that loses its last row gets no
file, but leaves the table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancelet.encoding.plain import arrow_array
from lancelet.errors import InvalidInput
from lancelet.file.checksums import are_wanted
from lancelet.store.objects import put_own
from lancelet.table.commit.operations import Delete
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.fragment import DeletionFile, Fragment
from lancelet.table.rows.counts import counted
from lancelet.table.rows.deletions import (
    ARROW_SCHEMA,
    CHECKSUM,
    DeletionVector,
    ascending,
    offsets_checksum,
    read_deletions,
)

if TYPE_CHECKING:
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

BITMAP_ABOVE = 5000
_ZSTD = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_NAMES = random.SystemRandom()


@dataclass(frozen=True, slots=True, eq=False)
class Deletion:
    """A Delete that is ready to be committed, and the rows that it is about."""

    operation: Delete
    affected_rows: Mapping[int, npt.NDArray[np.uint32]]
    """Rows that were live before, by fragment: what a commit needs to get past another deletion."""

    @property
    def num_rows(self) -> int:
        return sum(len(rows) for rows in self.affected_rows.values())


def delete_rows(
    snapshot: Snapshot,
    rows: Mapping[int, npt.ArrayLike],
    *,
    predicate: str = "",
    files: WrittenFiles | None = None,
    known: Callable[[int], DeletionVector] | None = None,
) -> Deletion:
    """Write the deletion files for some rows of a version.

    Parameters
    ----------
    snapshot
        The version in which the rows were found.
    rows
        Physical row offsets by fragment id; rows that are gone already count as deleted before.
    predicate
        What chose the rows, as text for the transaction.
    files
        Takes the names of the files, so that a failed write can remove them.
    known
        Tells what is deleted of a fragment before, for callers who have read that already.
    """
    updated, removed, affected = [], [], {}
    for number in sorted(rows):
        fragment = snapshot.manifest.fragments.by_id(number)
        if fragment is None:
            raise InvalidInput(f"version {snapshot.version} of {snapshot.uri} has no fragment {number}")
        if fragment.physical_rows is None:
            fragment = counted(snapshot, fragment)
        assert fragment.physical_rows is not None
        chosen = ascending(np.asarray(rows[number], np.int64))
        if len(chosen) and not 0 <= int(chosen[0]) <= int(chosen[-1]) < fragment.physical_rows:
            raise InvalidInput(
                f"fragment {number} has {fragment.physical_rows} rows; {int(chosen[0])} to {int(chosen[-1])} cannot go"
            )
        before = read_deletions(snapshot.places, fragment) if known is None else known(number)
        fresh = chosen.astype(np.uint32)
        if len(before):
            fresh = fresh[~before.contains(fresh)]
        if not len(fresh):
            continue
        affected[number] = fresh
        if len(before) + len(fresh) == fragment.physical_rows:
            removed.append(number)
            continue
        gone, wanted = before.joined(fresh), are_wanted(snapshot.manifest.config)
        file = write_deletions(snapshot.store, number, snapshot.version, gone, checksums=wanted, files=files)
        updated.append(changed(fragment, deletion_file=file))
    return Deletion(Delete(tuple(updated), tuple(removed), predicate), affected)


def write_deletions(
    store: Store,
    fragment_id: int,
    read_version: int,
    offsets: npt.NDArray[np.uint32],
    *,
    bitmap: bool | None = None,
    checksums: bool = False,
    files: WrittenFiles | None = None,
) -> DeletionFile:
    """Write all deleted rows of a fragment; the flavour goes by their number unless ``bitmap`` says it.

    With ``checksums`` it is an Arrow file in any case: a bitmap has no room for one.
    """
    is_bitmap = not checksums and (len(offsets) > BITMAP_ABOVE if bitmap is None else bitmap)
    file = DeletionFile(is_bitmap, read_version, _NAMES.getrandbits(64), len(offsets))
    path = file.path(fragment_id)
    data = bitmap_bytes(offsets) if is_bitmap else arrow_bytes(offsets, checksum=checksums)
    if files is None:
        put_own(store, path, data)
    else:
        files.put(path, data)
    return file


def bitmap_bytes(offsets: npt.NDArray[np.uint32]) -> bytes:
    """The content of a ``.bin`` file."""
    data: bytes = BitMap(np.ascontiguousarray(offsets, np.uint32), optimize=False).serialize()
    return data


def arrow_bytes(offsets: npt.NDArray[np.uint32], *, checksum: bool = False) -> bytes:
    """The content of an ``.arrow`` file."""
    notes = {CHECKSUM: offsets_checksum(offsets)} if checksum else None
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, ARROW_SCHEMA, options=_ZSTD) as writer:
        writer.write_batch(pa.record_batch([arrow_array(offsets)], schema=ARROW_SCHEMA), custom_metadata=notes)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def joined_deletions(
    snapshot: Snapshot, fragment: Fragment, rows: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32] | None:
    """All deleted rows when ``rows`` go too; None when some of them are gone already."""
    before = read_deletions(snapshot.places, fragment)
    if before.contains(rows).any():
        return None
    return before.joined(rows)
