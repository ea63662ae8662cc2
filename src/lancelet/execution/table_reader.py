"""A version of a table, ready to read: readers of its fragments, and where rows are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array
from lancelet.encoding.rows import Indices, RowRange
from lancelet.errors import InvalidInput, NotSupported, RowNotFound
from lancelet.execution.costs import KEPT_PLANS, MAX_READERS
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.file import FileCache
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID
from lancelet.runtime.attributes import cached_property
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.rows.addresses import OFFSET_BITS, split_addresses
from lancelet.table.rows.deletions import DeletionVector
from lancelet.table.rows.row_id_index import RowIdIndex, build_row_id_index
from lancelet.table.rows.row_ids import RowIdSequence

if TYPE_CHECKING:
    from lancelet.execution.open_indices import TableIndices
    from lancelet.execution.text_indices import TextIndices
    from lancelet.execution.vector_indices import VectorIndices
    from lancelet.index.row_set import RowSet

T = TypeVar("T")


class TableReader:
    """Holds what repeated reads of one version share."""

    def __init__(self, snapshot: Snapshot, cache: FileCache | None = None) -> None:
        self.snapshot = snapshot
        self.cache = FileCache() if cache is None else cache
        self._readers: dict[int, FragmentReader] = {}
        self._kept: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return TableReader, (self.snapshot, self.cache)

    def reader(self, position: int) -> FragmentReader:
        """The fragment at a place in the scan order."""
        found = self._readers.get(position)
        if found is None:
            found = FragmentReader(self.snapshot, self.snapshot.manifest.fragments[position], self.cache)
            if len(self._readers) >= MAX_READERS:
                self._readers = {}
            self._readers[position] = found
        return found

    def deletions(self, fragment_id: int) -> DeletionVector:
        """What is deleted of a fragment that is there."""
        position = self.snapshot.manifest.fragments.position(fragment_id)
        assert position is not None
        return self.reader(position).deletions

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is small and the same for all reads that are asked in one way, made by the first of them."""
        found: T | None = self._kept.get(key)
        if found is None:
            found = make()
            if len(self._kept) >= KEPT_PLANS:
                self._kept = {}
            self._kept[key] = found
        return found

    def readers(self, fragment_ids: Sequence[int] | None = None) -> Iterator[FragmentReader]:
        """All fragments in scan order, or those with the given ids in the given order."""
        fragments = self.snapshot.manifest.fragments
        if fragment_ids is None:
            return (self.reader(position) for position in range(len(fragments)))
        if self.ids_repeat:
            raise NotSupported(f"fragments of {self.snapshot.uri} share ids, so that single ones cannot be named")
        positions = []
        for number in fragment_ids:
            position = fragments.position(number)
            if position is None:
                raise InvalidInput(
                    f"fragment {number} is not in version {self.snapshot.version} of {self.snapshot.uri}"
                )
            positions.append(position)
        return (self.reader(position) for position in positions)

    @cached_property
    def ids_repeat(self) -> bool:
        """Whether fragments share ids, as an old release wrote them."""
        ids = self.snapshot.manifest.fragments.ids
        return not np.all(ids[1:] > ids[:-1]) and len(np.unique(ids)) < len(ids)

    @cached_property
    def row_counts(self) -> Indices:
        """Live rows of each fragment."""
        counts = self.snapshot.manifest.fragments.row_counts
        unknown = np.flatnonzero(counts < 0)
        if len(unknown):
            counts = counts.copy()
            for position in unknown.tolist():
                counts[position] = self.reader(position).num_rows
        return counts

    @cached_property
    def _starts(self) -> Indices:
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.row_counts)))

    @property
    def num_rows(self) -> int:
        return int(self._starts[-1])

    def rows_before(self, position: int) -> int:
        """Live rows of the fragments before one."""
        return int(self._starts[position])

    def locate(self, positions: Indices) -> tuple[Indices, Indices]:
        """Places of fragments and physical offsets of rows, given by their number in the scan order."""
        if len(positions) and (int(positions.min()) < 0 or int(positions.max()) >= self.num_rows):
            wrong = int(positions.max()) if int(positions.min()) >= 0 else int(positions.min())
            raise RowNotFound(
                f"row {wrong} is out of range: the table has {self.num_rows} rows (0 to {self.num_rows - 1})"
            )
        owners = self._starts.searchsorted(positions, "right") - 1
        offsets = positions - self._starts[owners]
        if not self._has_deletions:
            return owners, offsets
        for owner in np.flatnonzero(np.bincount(owners)).tolist():
            here = owners == owner
            offsets[here] = self.reader(owner).physical(offsets[here])
        return owners, offsets

    @cached_property
    def _has_deletions(self) -> bool:
        return any(f.HasField("deletion_file") for f in self.snapshot.manifest.message.fragments)

    def locate_addresses(self, addresses: npt.NDArray[np.uint64]) -> tuple[Indices, Indices]:
        """Places of fragments and physical offsets of row addresses; rows that are gone are refused."""
        owners, offsets, found = self._find(addresses)
        if not found.all():
            raise RowNotFound(
                f"row address {int(addresses[np.flatnonzero(~found)[0]])} is not in this version of the table"
            )
        return owners, offsets

    def _find(self, addresses: npt.NDArray[np.uint64]) -> tuple[Indices, Indices, npt.NDArray[np.bool_]]:
        numbers, offsets = split_addresses(addresses)
        position = self.snapshot.manifest.fragments.position
        known = dict.fromkeys(numbers.tolist())
        if len(known) == 1:
            owner = position(*known)
            if owner is not None:
                return np.full(len(numbers), owner, np.int64), offsets, self._alive(owner, offsets)
        owners = np.full(len(numbers), -1, np.int64)
        found = np.zeros(len(numbers), np.bool_)
        for number in known:
            owner = position(number)
            if owner is not None:
                here = numbers == number
                owners[here] = owner
                found[here] = self._alive(owner, offsets[here])
        return owners, offsets, found

    def _alive(self, owner: int, offsets: Indices) -> npt.NDArray[np.bool_]:
        """Which physical rows of a fragment are there."""
        reader = self.reader(owner)
        alive = offsets < reader.physical_rows
        if reader.fragment.deletion_file is not None:
            alive &= ~reader.deletions.contains(offsets)
        return alive

    def locate_live(self, addresses: npt.NDArray[np.uint64]) -> tuple[Indices, Indices, npt.NDArray[np.bool_]]:
        """Places of fragments, physical offsets, and whether the table still has the row at an address."""
        return self._find(addresses)

    def locate_ids(self, row_ids: npt.NDArray[np.uint64]) -> tuple[Indices, Indices, npt.NDArray[np.bool_]]:
        """Places of fragments, physical offsets, and whether the table still has the row."""
        if not self.snapshot.manifest.has_stable_row_ids:
            return self._find(row_ids)
        addresses, found = self.row_id_index.lookup(row_ids)
        owners, offsets, alive = self._find(np.where(found, addresses, np.uint64(0)))
        return owners, offsets, found & alive

    def is_address(self, name: str) -> bool:
        """Whether a system column has the addresses of rows."""
        return name == ROW_ADDRESS or (name == ROW_ID and not self.snapshot.manifest.has_stable_row_ids)

    def addresses(self, owners: Indices, offsets: Indices) -> pa.Array:
        """The addresses of rows, by the places of their fragments and the physical rows in them."""
        ids = self.snapshot.manifest.fragments.ids[owners].astype(np.uint64)
        return arrow_array(ids << np.uint64(OFFSET_BITS) | offsets.astype(np.uint64))

    @cached_property
    def all_rows(self) -> RowSet:
        """Every fragment as a whole."""
        from lancelet.index.row_set import RowSet

        return RowSet.whole(self.snapshot.manifest.fragments.ids.tolist())

    @cached_property
    def indices(self) -> TableIndices:
        """The scalar indices that can be asked."""
        from lancelet.execution.open_indices import TableIndices

        return TableIndices(self)

    @cached_property
    def vector_indices(self) -> VectorIndices:
        """The indices that searches can ask."""
        from lancelet.execution.vector_indices import VectorIndices

        return VectorIndices(self)

    @cached_property
    def text_indices(self) -> TextIndices:
        """The indices that searches for texts can ask."""
        from lancelet.execution.text_indices import TextIndices

        return TextIndices(self)

    def physical_rows(self, fragment_id: int) -> int:
        """Rows of a fragment of this version, deleted ones included."""
        position = self.snapshot.manifest.fragments.position(fragment_id)
        if position is None:
            raise InvalidInput(
                f"fragment {fragment_id} is not in version {self.snapshot.version} of {self.snapshot.uri}"
            )
        known = self.snapshot.manifest.fragments[position].physical_rows
        return self.reader(position).physical_rows if known is None else known

    @cached_property
    def row_id_index(self) -> RowIdIndex:
        """Stable row ids to addresses, over the live rows of all fragments."""
        return self.row_ids_of(None)

    def row_ids_of(self, fragment_ids: Sequence[int] | None) -> RowIdIndex:
        """Stable row ids to addresses, over the live rows of some fragments."""

        def parts() -> Iterator[tuple[int, RowIdSequence, DeletionVector]]:
            for reader in self.readers(fragment_ids):
                ids = reader.row_ids
                if ids is None:
                    column: pa.Array = reader.system_column(ROW_ID, RowRange(0, reader.physical_rows))
                    ids = RowIdSequence.from_values(column.to_numpy())
                yield reader.fragment.id, ids, reader.deletions

        return build_row_id_index(parts(), self.snapshot.manifest.path)
