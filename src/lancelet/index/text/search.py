"""Searching the texts of one partition: its terms are opened when they are first asked for, and kept up to a bound.

There are two sorts of partitions: those of an index, whose postings lie in files, and texts that no index knows
(:mod:`lancelet.index.text.flat`). Both give what the kernel goes through; clauses and statistics come from above, so that all
partitions of a column, wherever they are, give scores that can be compared.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile
from lancelet.index.text.kernel import EXCLUDED, OPTIONAL, BadPostings, TermList, norms, search
from lancelet.index.text.query import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lancelet.index.row_set import RowNumbers
    from lancelet.index.text.clauses import Clauses
    from lancelet.index.text.partition import Partition, Postings

Found = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]
"""Documents and their scores, the best first."""
Keep = npt.NDArray[np.bool_]

_KEPT_BYTES: Final = 256 << 20
"""Of the terms of a partition."""
_KEPT_TERMS: Final = 1 << 16
_KEPT_MASKS: Final = 4
_QUANTIZED: Final = 256
"""Blocks of so many documents go with lengths of one byte."""


@dataclass(slots=True)
class OpenTerm:
    """A term of a partition, ready to be gone through."""

    documents: TermList
    postings: Postings | None = None
    """None: plain, without bounds."""
    bounds: tuple[float, npt.NDArray[np.float32]] | None = None
    """The best of each block, for texts of a mean length."""

    @property
    def nbytes(self) -> int:
        return self.documents.nbytes

    def bounds_for(self, mean: float, norm: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
        """What no document of a block is better than."""
        postings, known = self.postings, self.bounds
        if postings is None:
            return None
        if known is not None and known[0] == mean:
            return known[1]
        if postings.impacts is not None and postings.impact_offsets is not None:
            made = self.documents.impact_bounds(postings.impacts, postings.impact_offsets, mean)
        else:
            made = self.documents.exact_bounds(norm)
        self.bounds = (mean, made)
        return made


def find_documents(
    clauses: Clauses,
    terms: Mapping[bytes, OpenTerm],
    statistics: Statistics,
    norm: npt.NDArray[np.float32],
    keep: Keep | None,
    limit: int,
) -> Found:
    """The best documents of a partition; ``limit`` -1: all. Terms that it does not have are not in ``terms``."""
    asked: list[tuple[TermList, npt.NDArray[np.float32] | None, float, int]] = []
    places: dict[bytes, int] = {}
    mean = statistics.mean

    def add(weights: Mapping[bytes, float], group: int) -> None:
        for term, factor in weights.items():
            held = terms.get(term)
            if held is not None:
                bounds = held.bounds_for(mean, norm) if limit >= 0 else None
                places.setdefault(term, len(asked))
                asked.append((held.documents, bounds, statistics.weight(term) * factor, group))

    for group, weights in enumerate(clauses.groups):
        before = len(asked)
        add(weights, group)
        if len(asked) == before:
            return np.empty(0, np.uint32), np.empty(0, np.float32)
    add(clauses.optional, OPTIONAL)
    add(dict.fromkeys(clauses.excluded, 0.0), EXCLUDED)
    phrases = [([places[term] for term in order.terms], order.offsets, order.slop) for order in clauses.orders]
    marks = None if keep is None else keep.view(np.uint8)
    return search(asked, len(clauses.groups), phrases, norm, marks, limit)


@dataclass(slots=True)
class PartitionSearch:
    """A partition of an index, and what was opened of it."""

    partition: Partition
    _terms: OrderedDict[bytes, OpenTerm | None] = field(default_factory=OrderedDict)
    _held: int = 0
    _norm: tuple[float, npt.NDArray[np.float32]] | None = None
    _masks: OrderedDict[Hashable, Keep | None] = field(default_factory=OrderedDict)
    _fragments: RowNumbers | None = None
    _totals: tuple[int, int] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def nbytes(self) -> int:
        norm = 0 if self._norm is None else self._norm[1].nbytes
        return self.partition.nbytes + self._held + norm

    @property
    def rows(self) -> RowNumbers:
        """The row of each document, as the segment calls it."""
        return self.partition.documents.rows

    @property
    def fragments(self) -> RowNumbers:
        """The upper halves of its rows, each once."""
        if self._fragments is None:
            self._fragments = np.unique(self.rows >> np.uint64(32))
        return self._fragments

    def statistics(self, terms: Iterable[bytes]) -> Statistics:
        """Of all its documents, also of those that are gone since."""
        if self._totals is None:
            documents = self.partition.documents
            self._totals = len(documents), documents.total_tokens
        return Statistics(*self._totals, {term: one.documents.length for term, one in self.open(terms).items()})

    def statistics_of(self, terms: Iterable[bytes], keep: Keep) -> Statistics:
        """Of some of its documents."""
        having = {term: int(np.count_nonzero(keep[docs])) for term, (docs, _) in self.decode(terms).items()}
        tokens = int(self.partition.documents.lengths[keep].sum(dtype=np.int64))
        return Statistics(int(np.count_nonzero(keep)), tokens, having)

    def find(self, clauses: Clauses, statistics: Statistics, keep: Keep | None, limit: int) -> Found:
        """Its best documents; ``limit`` -1: all."""
        if not len(self.partition.documents):
            return np.empty(0, np.uint32), np.empty(0, np.float32)
        held = self.open(clauses.terms, positions=bool(clauses.orders))
        try:
            return find_documents(clauses, held, statistics, self.norm(statistics.mean), keep, limit)
        except BadPostings as error:
            raise CorruptFile(self.partition.path, str(error), "postings") from None

    def decode(self, terms: Iterable[bytes]) -> dict[bytes, tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]:
        """In which documents terms are, and how often; of those that it has."""
        try:
            found = {term: held.documents.decode() for term, held in self.open(terms).items()}
        except BadPostings as error:
            raise CorruptFile(self.partition.path, str(error), "postings") from None
        for docs, _ in found.values():
            if int(docs[-1]) >= len(self.partition.documents):
                raise CorruptFile(
                    self.partition.path, f"names document {int(docs[-1])}, which is not there", "postings"
                )
        return found

    def norm(self, mean: float) -> npt.NDArray[np.float32]:
        """What lengths of documents do to their scores."""
        known = self._norm
        if known is None or known[0] != mean:
            quantized = self.partition.block_size == _QUANTIZED
            known = self._norm = mean, norms(self.partition.documents.lengths, mean, quantized)
        return known[1]

    def mask(self, key: Hashable, make: Callable[[], Keep | None]) -> Keep | None:
        """Which documents count, made once for a key."""
        with self._lock:
            if key in self._masks:
                self._masks.move_to_end(key)
                return self._masks[key]
        made = make()
        with self._lock:
            self._masks[key] = made
            while len(self._masks) > _KEPT_MASKS:
                self._masks.popitem(last=False)
        return made

    def open(self, terms: Iterable[bytes], *, positions: bool = False) -> dict[bytes, OpenTerm]:
        """Those of some terms that it has."""
        found: dict[bytes, OpenTerm] = {}
        missing: list[bytes] = []
        with self._lock:
            for term in terms:
                held = self._terms.get(term)
                if term not in self._terms or (positions and held is not None and not held.documents.has_positions):
                    missing.append(term)
                elif held is not None:
                    found[term] = held
                    self._terms.move_to_end(term)
        if missing:
            made = self._read(missing, positions)
            found.update((term, one) for term, one in made.items() if one is not None)
            self._keep(made)
        return found

    def _read(self, terms: list[bytes], positions: bool) -> dict[bytes, OpenTerm | None]:
        numbers = [(term, self.partition.tokens.find(term)) for term in terms]
        known = [(term, number) for term, number in numbers if number is not None]
        read = self.partition.postings([number for _, number in known], positions=positions)
        made: dict[bytes, OpenTerm | None] = dict.fromkeys(terms)
        for (term, _), one in zip(known, read, strict=True):
            if not one.length:
                continue
            try:
                documents = TermList.of_blocks(
                    one.blocks, one.offsets, one.length, one.block_size, one.tail, one.positions, one.position_offsets
                )
            except BadPostings as error:
                raise CorruptFile(self.partition.path, str(error), "postings") from None
            made[term] = OpenTerm(documents, one)
        return made

    def _keep(self, made: Mapping[bytes, OpenTerm | None]) -> None:
        with self._lock:
            for term, one in made.items():
                before = self._terms.pop(term, None)
                self._held += (one.nbytes if one else 0) - (before.nbytes if before else 0)
                self._terms[term] = one
            while self._terms and (self._held > _KEPT_BYTES or len(self._terms) > _KEPT_TERMS):
                _, gone = self._terms.popitem(last=False)
                self._held -= gone.nbytes if gone else 0
