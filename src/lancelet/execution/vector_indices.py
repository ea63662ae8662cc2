"""The vector indices of a version: which one a search asks, and what its segments know of this version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.execution.shown import scan_field
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.ranked import RankedKind
from lancelet.index.segments import Whereabouts, kind_over
from lancelet.index.vector.metric import metric_named
from lancelet.runtime.attributes import cached_property
from lancelet.runtime.events import READS, tell

if TYPE_CHECKING:
    from uuid import UUID

    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.table_reader import TableReader
    from lancelet.index.vector.metric import Metric
    from lancelet.index.vector.segment import VectorSegment


K = TypeVar("K")
_KEPT_FILTERS: Final = 8
_KEPT_BITS: Final = 1 << 29
"""For so many filters, and together for so many rows, it is kept which rows pass."""


@dataclass(frozen=True, slots=True)
class VectorPart:
    """A segment of a version."""

    entry: IndexMetadata
    kind: RankedKind
    dtype: pa.DataType
    fragments: frozenset[int]
    """What it knows of this version."""


@dataclass(frozen=True)
class VectorIndex:
    """The index that a search asks."""

    name: str
    title: str
    """``IVF_PQ``."""
    metric: Metric
    parts: tuple[VectorPart, ...]
    """Its segments, those that know something of this version."""

    @cached_property
    def fragments(self) -> frozenset[int]:
        """What it knows of this version."""
        return frozenset().union(*(part.fragments for part in self.parts))

    def unindexed(self, table: TableReader, nearest: Nearest, fragments: Sequence[int] | None) -> tuple[int, ...]:
        """Of all fragments, or of those that are named, the ones whose vectors a search has to compare."""
        if nearest.segments is not None and fragments is None:
            return ()
        known = self.fragments
        if fragments is None and known == table.all_rows.fragments:
            return ()
        order = table.snapshot.manifest.fragments.ids.tolist() if fragments is None else fragments
        return tuple(dict.fromkeys(number for number in order if number not in known))


@dataclass(frozen=True, slots=True)
class OpenVectors:
    """An open segment, and what was read for it; kept by size."""

    folder: IndexFolder
    segment: VectorSegment

    @property
    def nbytes(self) -> int:
        return self.segment.nbytes + self.folder.held_bytes


class VectorIndices:
    """The segments of a version by the field that they are about, in the order of the manifest."""

    def __init__(self, table: TableReader) -> None:
        self._table = table
        self.where = Whereabouts(table.snapshot, lambda: table.row_id_index, table.physical_rows)
        manifest = table.snapshot.manifest
        self._by_field: dict[int, list[VectorPart]] = {}
        self._metrics: dict[UUID, Metric] = {}
        self._kept: dict[Hashable, object] = {}
        self._choices: dict[tuple[int, Metric | None], VectorIndex | None] = {}
        fields = {node.id: node for node in manifest.schema.walk()} if len(manifest.indices) else {}
        for entry in read_indices(manifest) if fields else ():
            node = fields.get(entry.fields[0]) if len(entry.fields) == 1 else None
            kind = None if node is None else kind_over(node, entry)
            if node is None or not isinstance(kind, RankedKind) or not kind.has_metric:
                continue
            part = VectorPart(entry, kind, scan_field(node).type, self.where.coverage(entry))
            self._by_field.setdefault(node.id, []).append(part)

    def choose(self, nearest: Nearest) -> VectorIndex | None:
        """The index for a search: the first one with its metric; None when all vectors are to be compared."""
        field = nearest.column.field(self._table.snapshot.manifest.schema)
        if nearest.segments is not None or not nearest.use_index:
            return self._chosen(nearest, self._by_field.get(field.id, []))
        key = field.id, nearest.metric
        if key not in self._choices:
            self._choices[key] = self._chosen(nearest, self._by_field.get(field.id, []))
        return self._choices[key]

    def _chosen(self, nearest: Nearest, parts: Sequence[VectorPart]) -> VectorIndex | None:
        if nearest.segments is not None:
            known = {str(part.entry.uuid) for part in parts}
            unknown = [uuid for uuid in nearest.segments if uuid not in known]
            if unknown:
                raise InvalidInput(
                    f"index_segments names segments that no vector index on '{nearest.column.name}' has: {', '.join(unknown)}"
                )
            parts = [part for part in parts if str(part.entry.uuid) in nearest.segments]
        if not nearest.use_index:
            return None
        for name in dict.fromkeys(part.entry.name for part in parts):
            own = [part for part in parts if part.entry.name == name]
            metric = self._metric(own[0])
            if nearest.metric in (None, metric):
                title = own[0].kind.title(self._table.snapshot, own[0].entry)
                return VectorIndex(name, title, metric, tuple(part for part in own if part.fragments))
        if nearest.segments is not None:
            raise InvalidInput(
                f"the segments in index_segments are of an index with another metric than "
                f"{nearest.exact_metric().value}: leave the metric out, or the segments"
            )
        return None

    def _metric(self, part: VectorPart) -> Metric:
        """That of a segment; the oldest entries do not tell it, but their files do."""
        if part.entry.uuid not in self._metrics:
            told = part.kind.parameters(part.entry, self._table.snapshot.manifest.path).get("metric_type")
            self._metrics[part.entry.uuid] = self.open(part).metric if told is None else metric_named(told)
        return self._metrics[part.entry.uuid]

    def open(self, part: VectorPart) -> VectorSegment:
        """The open segment, which is kept for the next search."""
        table = self._table

        def make() -> OpenVectors:
            folder = IndexFolder(table.snapshot, part.entry)
            if table.cache.checked:
                folder.check_files()
            segment: VectorSegment = part.kind.open(folder, part.dtype)  # type: ignore[assignment]
            tell(READS, type="open_vector_index", index_uuid=part.entry.uuid, index_type=part.kind.name)
            return OpenVectors(folder, segment)

        held: OpenVectors = table.cache.indices.get(part.entry.uuid, make)
        return held.segment

    def kept_rows(self, key: Hashable, make: Callable[[], K]) -> K:
        """What was made under a key before, or now; the last few are kept, as long as they are small."""
        found: Any = self._kept.get(key)
        if found is None:
            found = make()
            most = min(_KEPT_BITS // max(self._table.num_rows, 1), _KEPT_FILTERS)
            while self._kept and len(self._kept) >= max(most, 1):
                self._kept.pop(next(iter(self._kept)), None)
            if most:
                self._kept[key] = found
        kept: K = found
        return kept

    def hold_segments(self, name: str, segments: Collection[UUID] | None = None) -> None:
        """Open the segments of an index, or some of them, and read what fits into memory."""
        for part in self._all():
            if part.entry.name == name and (segments is None or part.entry.uuid in segments):
                self.open(part).hold()
        self._table.cache.indices.trim()

    def _all(self) -> Sequence[VectorPart]:
        return [part for parts in self._by_field.values() for part in parts]
