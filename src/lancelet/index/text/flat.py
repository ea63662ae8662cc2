"""Texts that no index knows: their tokens in memory, sorted by term, so that they are searched as a partition of an index is.

::

    terms      t0        t1            t2
    docs       3 7 9     0 1 2 3 4     7         where `starts` says that each term begins
    freqs      1 1 2     1 1 1 4 1     1
    positions  of all these, one after the other

Documents are numbered by the rows that the texts were read from. Making this takes most of the time of a first search;
a session keeps it for the next one, as long as there is room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.index.text.kernel import TermList, near_terms, norms
from lancelet.index.text.query import Statistics
from lancelet.index.text.search import Found, Keep, OpenTerm, find_documents
from lancelet.index.text.terms import Terms
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.index.text.analyzer import Analyzer
    from lancelet.index.text.clauses import Clauses


@dataclass(frozen=True, slots=True)
class FlatTexts:
    """The tokens of some texts."""

    terms: Terms
    starts: npt.NDArray[np.int64]
    """For each term by its number, where its documents begin."""
    docs: npt.NDArray[np.uint32]
    freqs: npt.NDArray[np.uint32]
    positions: npt.NDArray[np.uint32]
    position_starts: npt.NDArray[np.int64]
    """For each document of each term, where its positions begin."""
    lengths: npt.NDArray[np.uint32]
    """Tokens of each text; 0: it has none, and does not count."""
    rows: npt.NDArray[np.uint32] | None = None
    items: npt.NDArray[np.uint32] | None = None
    """Where each item of a list is a text: the row of each, and which item of it that is."""

    @classmethod
    def of(cls, texts: pa.Array, analyzer: Analyzer, *, by_item: bool = False) -> FlatTexts:
        """Cut texts into tokens; the analyzer's terms are those of these texts alone."""
        rows = items = None
        if by_item:
            counts = pc.fill_null(pc.list_value_length(texts), 0).to_numpy(zero_copy_only=False)
            rows = np.repeat(np.arange(len(texts), dtype=np.uint32), counts)
            items = (np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)).astype(np.uint32)
            texts = pc.list_flatten(texts)
        tokens = analyzer.analyze(texts)
        order = np.argsort(tokens.term, kind="stable")
        term, document = tokens.term[order], tokens.document[order]
        changes = np.flatnonzero((term[1:] != term[:-1]) | (document[1:] != document[:-1])) + 1
        firsts = np.concatenate([np.zeros(min(len(term), 1), np.int64), changes])
        counts = np.bincount(term[firsts], minlength=len(analyzer.terms)) if len(firsts) else np.empty(0, np.int64)
        starts = np.zeros(len(analyzer.terms) + 1, np.int64)
        np.cumsum(counts, out=starts[1 : 1 + len(counts)])
        bounds = np.append(firsts, len(term)).astype(np.int64)
        return cls(
            analyzer.terms,
            starts,
            document[firsts],
            np.diff(bounds).astype(np.uint32),
            tokens.position[order],
            bounds,
            np.bincount(tokens.document, minlength=len(texts)).astype(np.uint32),
            rows,
            items,
        )

    @property
    def nbytes(self) -> int:
        arrays = (self.starts, self.docs, self.freqs, self.positions, self.position_starts, self.lengths)
        return self.terms.nbytes + sum(array.nbytes for array in arrays)

    def near(self, term: bytes, edits: int, prefix: int) -> list[bytes]:
        """Its terms within so many edits that share so many characters at the beginning."""
        data, offsets = self.terms.arrays()
        return [self.terms.text(int(number)) for number in near_terms(data, offsets, term.decode(), edits, prefix)]

    def excerpt(self, terms: Iterable[bytes], keep: Keep | None) -> FlatExcerpt:
        """What a search for some terms needs; ``keep`` marks the texts that count."""
        held = {term: number for term in terms if (number := self.terms.find(term)) is not None}
        # Rows without tokens do not count; items of lists do, as in pylance.
        counted = self.lengths > 0 if self.rows is None else np.ones(len(self.lengths), np.bool_)
        return FlatExcerpt(
            {
                term: self._open(number)
                for term, number in held.items()
                if self.starts[number + 1] > self.starts[number]
            },
            self.lengths,
            counted if keep is None else keep & counted,
            self.rows,
            self.items,
        )

    def _open(self, number: int) -> OpenTerm:
        begin, end = int(self.starts[number]), int(self.starts[number + 1])
        places = self.position_starts[begin : end + 1]
        # Copies, so that the rest need not stay in memory.
        return OpenTerm(
            TermList.of_arrays(
                self.docs[begin:end].copy(),
                self.freqs[begin:end].copy(),
                self.positions[places[0] : places[-1]].copy(),
                places - places[0],
            )
        )


@dataclass(frozen=True, slots=True)
class FlatExcerpt:
    """Some terms of texts that no index knows."""

    terms: dict[bytes, OpenTerm]
    lengths: npt.NDArray[np.uint32]
    keep: Keep
    rows: npt.NDArray[np.uint32] | None = None
    items: npt.NDArray[np.uint32] | None = None

    def statistics(self) -> Statistics:
        """Of the texts that count."""
        frequencies = {}
        for term, held in self.terms.items():
            docs, _ = held.documents.decode()
            frequencies[term] = int(np.count_nonzero(self.keep[docs]))
        total = int(self.lengths[self.keep].sum(dtype=np.int64))
        return Statistics(int(np.count_nonzero(self.keep)), total, frequencies)

    def find(self, clauses: Clauses, statistics: Statistics, limit: int) -> Found:
        """The best texts; ``limit`` -1: all."""
        norm = norms(self.lengths, statistics.mean, False)
        return find_documents(clauses, self.terms, statistics, norm, self.keep, limit)
