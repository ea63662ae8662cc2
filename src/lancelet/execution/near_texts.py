"""Searching a table for texts that are nearly the same as another one, by an index of the kind MINHASHLSH.

::

    segments ── bands equal to those of the text ──► rows, by how alike their signatures are
    fragments not indexed ── signatures of their texts, made now ──► the same
                                                     │
                                    the best of all, as row ids

The distance is 1 less the share of the signature that is equal. Texts without any equal band are not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.errors import InvalidInput
from lancelet.execution.allowed import AllowedRows, passing_rows
from lancelet.execution.near_text_plan import NearText
from lancelet.execution.plan import ScanPlan, allowed_plan, column_of
from lancelet.execution.ranked_scan import Answer, RankedScan
from lancelet.execution.scan import Scan
from lancelet.expressions.expr import Column
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.minhash.kind import KIND
from lancelet.index.registry import kind_of_entry
from lancelet.index.segments import Whereabouts
from lancelet.index.text.analyzer import Analyzer
from lancelet.runtime.attributes import cached_property
from lancelet.table.rows.addresses import split_addresses

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.index.kind import Rename
    from lancelet.index.minhash.params import Signatures
    from lancelet.index.minhash.segment import NearTexts
    from lancelet.index.row_set import RowNumbers

_DEFAULT_LIMIT: Final = 10


def near_text_of(table: TableReader, column: str, text: str) -> NearText:
    """A search in a column, which must have an index."""
    schema = table.snapshot.manifest.schema
    try:
        found = column_of(schema, column)
    except InvalidInput:
        found = None
    if found is None or not _entries(table, found.path):
        raise InvalidInput(
            f"there is no MINHASHLSH index on column {column!r} of {table.snapshot.uri}; create one before searching "
            "for texts that are nearly the same"
        )
    return NearText(found.path, text)


def _entries(table: TableReader, path: tuple[str, ...]) -> list[IndexMetadata]:
    """The segments of the first index of the kind on a column."""
    manifest = table.snapshot.manifest
    if path[0] not in manifest.schema.names:
        return []
    field = manifest.schema.field_by_path(path)
    found = [entry for entry in read_indices(manifest) if entry.fields == (field.id,) and kind_of_entry(entry) is KIND]
    return [entry for entry in found if entry.name == found[0].name]


class NearTextScan(RankedScan):
    """One execution of a plan with such a search in it."""

    def __init__(self, table: TableReader, plan: ScanPlan, threads: int | None = None) -> None:
        assert plan.near_text is not None, "the plan has a search"
        self.near: NearText = plan.near_text
        super().__init__(table, plan, self.near, threads)

    def _open_reads(self) -> Scan:
        return Scan(self.table, allowed_plan(self.plan, self.near), self._threads)

    def _find(self) -> Sequence[Answer]:
        limit = _DEFAULT_LIMIT if self.plan.limit is None else self.plan.limit
        return [self._best(self.plan.offset + limit)]

    def _best(self, count: int) -> Answer:
        entries = _entries(self.table, self.near.path)
        where = Whereabouts(self.table.snapshot, lambda: self.table.row_id_index, self.table.physical_rows)
        segments = [(entry, self._open(entry)) for entry in entries]
        params = segments[0][1].params
        places, signatures = params.sign(Analyzer(params.tokenizer), pa.array([self.near.text]))
        if not len(places) or not count:
            return np.empty(0, np.float32), np.empty(0, np.uint64)
        wanted = signatures[0]
        rows: list[RowNumbers] = []
        marks: list[npt.NDArray[np.float32]] = []
        covered: frozenset[int] = frozenset()
        for entry, segment in segments:
            if segment.params != params:
                _, (wanted,) = segment.params.sign(Analyzer(segment.params.tokenizer), pa.array([self.near.text]))
            found = segment.best(wanted, count, self._rename(where, entry))
            rows.append(self._ids(found.rows))
            marks.append(found.marks)
            covered |= where.coverage(entry)
        if not self.plan.indexed_only:
            for ids, distances in self._unindexed(covered, segments[0][1], signatures[0]):
                rows.append(ids)
                marks.append(distances)
        all_rows, all_marks = np.concatenate(rows), np.concatenate(marks)
        order = np.lexsort((all_rows, all_marks))[:count]
        return all_marks[order], all_rows[order]

    def _open(self, entry: IndexMetadata) -> NearTexts:
        """The open segment, which is kept for the next search."""
        snapshot = self.table.snapshot

        def make() -> NearTexts:
            folder = IndexFolder(snapshot, entry)
            if self.table.cache.checked:
                folder.check_files()
            return KIND.open(folder, pa.string())

        opened: NearTexts = self.table.cache.indices.get(entry.uuid, make)
        return opened

    def _rename(self, where: Whereabouts, entry: IndexMetadata) -> Rename:
        """Addresses of a segment's rows, of which those that may not be found are gone."""
        follow = where.rename_to_addresses(entry)

        def renamed(numbers: RowNumbers) -> tuple[RowNumbers, npt.NDArray[np.bool_]]:
            addresses, kept = follow(numbers)
            kept = kept.copy()
            kept[kept] = self._allowed.marks(addresses[kept])
            return addresses, kept

        return renamed

    def _ids(self, addresses: RowNumbers) -> RowNumbers:
        """The ids of rows by their addresses."""
        table = self.table
        if not table.snapshot.manifest.has_stable_row_ids or not len(addresses):
            return addresses
        plan = ScanPlan(table.snapshot.manifest.schema, ((ROW_ID, Column((ROW_ID,), pa.uint64())),))
        owners, offsets = _places(table, addresses)
        return numpy_array(Scan(table, plan).take(owners, offsets)[ROW_ID].combine_chunks())

    @cached_property
    def _allowed(self) -> AllowedRows:
        ids = self.plan.fragment_ids
        wanted = self.table.all_rows.fragments if ids is None else frozenset(ids)
        restricted = self._reads.plan.filter is not None or self.plan.mask is not None
        return AllowedRows(self.table, wanted, passing_rows(self._reads) if restricted else None)

    def _unindexed(
        self, covered: frozenset[int], segment: NearTexts, wanted: Signatures
    ) -> Iterator[tuple[RowNumbers, npt.NDArray[np.float32]]]:
        """Rows of fragments that the index does not know, and their distances."""
        params, schema = segment.params, self.table.snapshot.manifest.schema
        keys = params.keys(wanted[None, :])
        left = tuple(sorted(self._allowed.fragments - covered))
        outputs = (
            ("text", Column(self.near.path, column_of(schema, ".".join(self.near.path)).type)),
            (ROW_ID, Column((ROW_ID,), pa.uint64())),
            (ROW_ADDRESS, Column((ROW_ADDRESS,), pa.uint64())),
        )
        for batch in Scan(self.table, ScanPlan(schema, outputs, fragment_ids=left)).batches() if left else ():
            places, signatures = params.sign(Analyzer(params.tokenizer), batch.column(0))
            addresses = numpy_array(batch.column(2))[places]
            some = (params.keys(signatures) == keys).any(axis=1) & self._allowed.marks(addresses)
            yield numpy_array(batch.column(1))[places][some], params.distances(signatures[some], wanted)


def _places(table: TableReader, addresses: RowNumbers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Addresses as places of fragments in the table, and rows in these."""
    numbers, offsets = split_addresses(addresses)
    fragments = table.snapshot.manifest.fragments
    known = {number: fragments.position(number) for number in np.unique(numbers).tolist()}
    return np.array([known[number] for number in numbers.tolist()], np.int64), offsets.astype(np.int64)
