"""An open text segment: its parts, what is told of it, and what a check compares with the column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.format.extensions import storage_of
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.metadata import Head, staged_prefix
from lancelet.index.text.packing import hash_texts
from lancelet.index.text.params import LIST_ELEMENT
from lancelet.index.text.partition import Partition
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder
    from lancelet.index.kind import Entries, Source
    from lancelet.index.text.params import Params

_POSTINGS_AT_ONCE: Final = 1 << 20
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(1)

Digests = npt.NDArray[np.uint64]


class TextSegment:
    """The parts of a segment, whose files are read when they are needed; or, ``staged``, one that waits to be merged."""

    def __init__(self, folder: IndexFolder, dtype: pa.DataType, staged: int | None = None) -> None:
        self._folder = folder
        self.dtype = dtype
        self.head = Head.read(folder) if staged is None else Head.read_staged(folder, staged)
        numbers: tuple[int | None, ...] = (None,) if self.head.parts is None else self.head.parts
        prefix = None if staged is None else staged_prefix(staged)
        self._outdated: Mapping[int | None, npt.NDArray[np.bool_]] = {}
        self.partitions = [Partition(folder, self.head, number, prefix) for number in numbers]

    @property
    def params(self) -> Params:
        return self.head.params

    @cached_property
    def analyzer(self) -> Analyzer:
        """Makes of texts what it made of those in the segment."""
        return Analyzer(self.params)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.partitions)

    @property
    def has_positions(self) -> bool:
        """Whether phrases can be asked for."""
        return self.params.with_position and all(part.has_positions for part in self.partitions)

    @property
    def num_documents(self) -> int:
        return sum(len(part.documents) for part in self.partitions)

    @property
    def total_tokens(self) -> int:
        """The lengths of all documents together."""
        return sum(part.documents.total_tokens for part in self.partitions)

    def hold(self) -> None:
        """Read what fits into memory."""
        self._folder.hold()
        for part in self.partitions:
            part.hold()

    def statistics(self) -> Mapping[str, Any]:
        """What ``index_statistics`` tells."""
        params: dict[str, Any] = self.params.to_dict()
        if self.head.parts is None:
            params["lance_tokenizer"] = None
        tokens = sum(part.num_tokens for part in self.partitions)
        return {"params": params, "num_tokens": tokens, "num_docs": self.num_documents}

    # Documents that do not count

    def disregard(self, outdated: Mapping[int | None, npt.NDArray[np.bool_]]) -> None:
        """Leave documents out that are not what their rows say now, by the number of their part."""
        self._outdated = outdated

    @property
    def has_outdated(self) -> bool:
        """Whether documents are left out."""
        return bool(self._outdated)

    def outdated(self, part: Partition) -> npt.NDArray[np.bool_]:
        """The documents of a part that are left out."""
        found = self._outdated.get(part.number)
        return np.zeros(len(part.documents), np.bool_) if found is None else found

    # What a check compares

    def entries(self, source: Source) -> Iterator[Entries]:
        """For each token of each document one: of the token, how often it is there and, if that is known, where."""
        for part in self.partitions:
            counted, rows = ~self.outdated(part), part.documents.rows
            for digests, docs in self._postings(part):
                here = counted[docs]
                yield digests[here], rows[docs[here]]

    def _postings(self, part: Partition) -> Iterator[tuple[Digests, npt.NDArray[np.uint32]]]:
        """A number for each token of each document, and which document that is."""
        data, offsets, ids = part.tokens.arrays()
        hashes = np.zeros(part.num_tokens, np.uint64)
        hashes[ids] = hash_texts(data, offsets)
        totals = np.cumsum(part.lengths(), dtype=np.int64)
        start = 0
        while start < len(totals):
            before = int(totals[start - 1]) if start else 0
            stop = max(int(np.searchsorted(totals, before + _POSTINGS_AT_ONCE, side="right")), start + 1)
            found = part.decoded(start, stop, self.has_positions)
            mine = np.repeat(hashes[start:stop], np.diff(found.starts))
            yield _digests(mine, found.freqs, found.positions), found.docs
            start = stop

    def digests_of_documents(self, part: Partition, wanted: npt.NDArray[np.bool_]) -> Digests:
        """The sums of the entries of some documents of a part; 0 for the others."""
        sums = np.zeros(len(part.documents), np.uint64)
        if wanted.any():
            for digests, docs in self._postings(part):
                here = wanted[docs]
                np.add.at(sums, docs[here], digests[here])
        return sums

    def digests_of_items(self, values: pa.Array, rows: npt.NDArray[np.int64], items: npt.NDArray[np.uint32]) -> Digests:
        """What the documents of some rows among values of the column, or of items of their lists, would sum up to."""
        if self.params.document_granularity != LIST_ELEMENT:
            return self.digests(values)[0][rows]
        values = storage_of(values)
        sums = np.append(self._sums(values.flatten().fill_null("")), np.uint64(0))
        sizes = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        begins = np.cumsum(sizes) - sizes
        return sums[np.where(items < sizes[rows], begins[rows] + items, len(sums) - 1)]

    def digests(self, values: pa.Array) -> tuple[Digests, None]:
        """The sums of the same for the texts of a column."""
        values = storage_of(values)
        if self.params.document_granularity == LIST_ELEMENT:
            # Entries of a row are those of all its items.
            found = np.zeros(len(values), np.uint64)
            items = values.flatten().fill_null("")
            np.add.at(found, np.asarray(pc.list_parent_indices(values)).astype(np.int64), self._sums(items))
            return found, None
        return self._sums(values), None

    def _sums(self, values: pa.Array) -> Digests:
        analyzer = Analyzer(self.params)
        tokens = analyzer.analyze(values)
        hashes = hash_texts(*analyzer.terms.arrays())
        order = np.lexsort((tokens.term, tokens.document))
        document, term = tokens.document[order].astype(np.int64), tokens.term[order]
        first = np.flatnonzero(np.append(True, (np.diff(document) != 0) | (np.diff(term) != 0))) if len(term) else order
        freqs = np.diff(np.append(first, len(term))).astype(np.uint32)
        positions = tokens.position[order] if self.has_positions else None
        sums = np.zeros(len(values), np.uint64)
        np.add.at(sums, document[first], _digests(hashes[term[first]], freqs, positions))
        return sums


def _digests(hashes: Digests, freqs: npt.NDArray[np.uint32], positions: npt.NDArray[np.uint32] | None) -> Digests:
    """A number for a token that is so often in a document, at these positions."""
    found: Digests = hashes * (freqs.astype(np.uint64) * np.uint64(2) + _ONE)
    if positions is not None and len(freqs):
        mixed = (positions.astype(np.uint64) + _ONE) * _FACTOR
        mixed ^= mixed >> np.uint64(31)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(freqs, dtype=np.int64)])
        totals = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        found += hashes * (totals[ends[1:]] - totals[ends[:-1]])
    return found
