"""Statistics of a table: fragments, bytes of each field, requests to the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancelet.file.container import Container
from lancelet.format.file_versions import LEGACY

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.store import Counters


@dataclass
class FieldStatistics:
    """Statistics of one field."""

    id: int
    bytes_on_disk: int
    """Bytes of its pages in all data files."""


@dataclass
class DataStatistics:
    """Statistics of the data files."""

    fields: list[FieldStatistics]


@dataclass(frozen=True)
class IOStats:
    """What a dataset asked its store for."""

    read_iops: int
    read_bytes: int
    write_iops: int = 0
    written_bytes: int = 0


@dataclass(slots=True)
class IOWatch:
    """Reads the counters of a store from some moment on."""

    counters: Counters
    requests: int = 0
    bytes: int = 0
    writes: int = 0
    written: int = 0

    def since(self, *, reset: bool) -> IOStats:
        """What happened since the last reset."""
        now = self.counters
        stats = IOStats(
            now.requests - self.requests, now.bytes - self.bytes, now.writes - self.writes, now.written - self.written
        )
        if reset:
            self.requests, self.bytes, self.writes, self.written = now.requests, now.bytes, now.writes, now.written
        return stats


class LanceStats:
    """Statistics of one version.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": range(100)}, "memory://docs/stats", max_rows_per_file=60)
    >>> dataset.stats.dataset_stats()["num_fragments"]
    2
    """

    def __init__(self, table: TableReader) -> None:
        self._table = table

    def dataset_stats(self, max_rows_per_group: int = 1024) -> dict[str, int]:
        """Deleted rows, fragments, and fragments with fewer rows than ``max_rows_per_group``."""
        deleted = small = 0
        fragments = self._table.snapshot.manifest.fragments
        for position, fragment in enumerate(fragments):
            reader = self._table.reader(position)
            known = fragment.num_deletions
            deleted += len(reader.deletions) if known is None else known
            small += reader.physical_rows < max_rows_per_group
        return {"num_deleted_rows": deleted, "num_fragments": len(fragments), "num_small_files": small}

    def data_stats(self) -> DataStatistics:
        """Bytes of each field. Legacy files do not record them, and count as nothing."""
        snapshot = self._table.snapshot
        sizes = {field.id: 0 for field in snapshot.manifest.schema.walk()}
        files = [file for fragment in snapshot.manifest.fragments for file in fragment.files if not file.is_legacy]
        for file in files if snapshot.manifest.data_storage_version != LEGACY else ():
            source = snapshot.places.data_file(file).open(file.size)
            container = Container.read(source, source.size, source.path)
            owned = sorted((column, number) for number, column in zip(file.fields, file.column_indices, strict=True))
            ends = [column for column, _ in owned[1:]] + [len(container.columns)]
            for (first, number), end in zip(owned, ends, strict=True):
                # Files of 2.0 have columns that no field lists: those of a field's items come after its own.
                if first >= 0 and number in sizes:
                    pages = (page for at in range(first, end) for page in container.column(source, at).pages)
                    sizes[number] += sum(sum(page.buffer_sizes) for page in pages)
        return DataStatistics([FieldStatistics(number, size) for number, size in sizes.items()])

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """What the manifest tells about an index: its segments, and the rows and fragments that they cover."""
        from lancelet._api.index_descriptions import index_statistics

        return index_statistics(self._table, index_name)
