"""Deletion files: which physical rows of a fragment are gone.

Spec table-format.md chapter 4. Two kinds hold the same set of row offsets::

    .arrow   Arrow IPC file: one batch, one column, row_id: uint32 not null
    .bin     32-bit Roaring bitmap
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancelet.encoding.plain import numpy_array
from lancelet.errors import CorruptFile
from lancelet.store.checksum import Checksum
from lancelet.table.rows.roaring import decode_roaring

if TYPE_CHECKING:
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.paths import Places

OffsetT = TypeVar("OffsetT", bound=np.integer)
ARROW_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


CHECKSUM = b"lancelet:checksum"
"""Our own note beside the rows of an Arrow file, where checksums are asked for; pylance passes over it."""


def offsets_checksum(offsets: npt.NDArray[np.uint32]) -> bytes:
    """The XXH64 of row offsets, in hexadecimal digits."""
    checksum = Checksum()
    checksum.update(np.ascontiguousarray(offsets).view(np.uint8))
    return f"{checksum.digest():016x}".encode()


@dataclass(frozen=True, slots=True, eq=False)
class DeletionVector:
    """The deleted rows of one fragment."""

    offsets: npt.NDArray[np.uint32]
    """Physical row offsets, ascending, without repetition."""

    def __len__(self) -> int:
        return len(self.offsets)

    def bitmap(self) -> BitMap:
        return BitMap(self.offsets)

    def keep(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """For the physical rows ``[start, stop)``: is the row live."""
        low, high = self._span(start, stop)
        mask = np.ones(stop - start, np.bool_)
        mask[self.offsets[low:high].astype(np.int64) - start] = False
        return mask

    def count(self, start: int, stop: int) -> int:
        """How many of the physical rows ``[start, stop)`` are deleted."""
        low, high = self._span(start, stop)
        return high - low

    def _span(self, start: int, stop: int) -> tuple[int, int]:
        # Keys of another type would have numpy convert all offsets for every call.
        keys = np.array((start, stop), np.uint32 if stop < 1 << 32 else np.int64)
        low, high = self.offsets.searchsorted(keys).tolist()
        return low, high

    def contains(self, offsets: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """For each physical offset: is the row deleted."""
        if not len(self.offsets):
            return np.zeros(len(offsets), np.bool_)
        at = np.minimum(np.searchsorted(self.offsets, offsets), len(self.offsets) - 1)
        found: npt.NDArray[np.bool_] = self.offsets[at] == offsets
        return found

    def joined(self, others: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """All deleted rows when others go too, of which none is deleted yet."""
        if not len(self.offsets):
            return others
        return np.sort(np.concatenate((self.offsets, others)))

    def physical(self, live: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Physical offsets of rows given by their position among the live ones."""
        # Before the i-th deleted row there are offsets[i] - i live ones, an ascending sequence.
        before = self.offsets.astype(np.int64) - np.arange(len(self.offsets))
        positions = np.asarray(live, np.int64)
        return positions + np.searchsorted(before, positions, side="right")


def ascending(offsets: npt.NDArray[OffsetT]) -> npt.NDArray[OffsetT]:
    """Sorted, each once. Most are already; where not, numpy's own ``unique`` hashes, which takes far longer than sorting."""
    if np.all(offsets[1:] > offsets[:-1]):
        return offsets
    ordered: npt.NDArray[OffsetT] = np.sort(offsets)
    distinct: npt.NDArray[OffsetT] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return distinct


# One small column: waking threads for it takes longer than reading it.
_ALONE = pa.ipc.IpcReadOptions(use_threads=False)

NO_DELETIONS = DeletionVector(np.empty(0, np.uint32))


def read_deletions(places: Places, fragment: Fragment, physical_rows: int | None = None) -> DeletionVector:
    """The deleted rows of a fragment; an empty vector when it has no deletion file.

    ``physical_rows`` is what the data files say, for fragments that do not record it.
    """
    file = fragment.deletion_file
    if file is None:
        return NO_DELETIONS
    rows = fragment.physical_rows if physical_rows is None else physical_rows
    place = places.deletion_file(fragment.id, file)
    data = place.store.read_all(place.path)
    parse = parse_bitmap if file.is_bitmap else parse_arrow
    offsets = parse(data, place.full_path, rows)
    if file.num_deleted_rows is not None and file.num_deleted_rows != len(offsets):
        raise CorruptFile(
            place.full_path, f"has {len(offsets)} deleted rows, but the manifest says {file.num_deleted_rows}"
        )
    return DeletionVector(offsets)


def parse_bitmap(data: bytes, path: str, physical_rows: int | None) -> npt.NDArray[np.uint32]:
    """Row offsets of a ``.bin`` file."""
    return _bounded(decode_roaring(data, path, "deleted rows", limit=physical_rows), path, physical_rows)


def parse_arrow(data: bytes, path: str, physical_rows: int | None) -> npt.NDArray[np.uint32]:
    """Row offsets of an ``.arrow`` file."""
    try:
        with pa.ipc.open_file(pa.py_buffer(data), options=_ALONE) as reader:
            if not reader.schema.equals(ARROW_SCHEMA, check_metadata=False):
                found = str(reader.schema).replace("\n", ", ")
                raise CorruptFile(path, f"its columns are ({found}), not (row_id: uint32 not null)")
            if reader.num_record_batches != 1:
                raise CorruptFile(path, f"has {reader.num_record_batches} batches, not one")
            batch, notes = reader.get_batch_with_custom_metadata(0)
            batch.validate(full=True)
            column = batch.column(0)
            if column.null_count:
                raise CorruptFile(path, "has nulls among the deleted rows")
            offsets = numpy_array(column)
            stored = None if notes is None else notes.get(CHECKSUM)
            if stored is not None and stored != offsets_checksum(offsets):
                raise CorruptFile(path, "its rows are not those that were written: the checksum is another", "checksum")
    except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
        if isinstance(error, CorruptFile):
            raise
        raise CorruptFile(path, f"is not an Arrow file of row offsets: {error}") from None
    return _bounded(ascending(offsets), path, physical_rows)


def _bounded(offsets: npt.NDArray[np.uint32], path: str, physical_rows: int | None) -> npt.NDArray[np.uint32]:
    if physical_rows is not None and len(offsets) and int(offsets[-1]) >= physical_rows:
        raise CorruptFile(path, f"deletes row {int(offsets[-1])} of a fragment with {physical_rows} rows")
    return offsets
