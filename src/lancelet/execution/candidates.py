"""Which rows a filter can be true for, as far as indices and row ids tell.

What is known of a condition is two sets of rows: those for which it is surely
true, and those for which it may be. An exact answer makes them equal, "at most
these rows" leaves the first one empty, and what nobody knows is (no rows, all
rows). AND intersects both, OR unites both; so fragments that an index does not
cover need no special case. Deleted rows may be in the sets: a scan drops them.

::

    answer of an index       asked for true              asked for false
    exact, nulls known       rows, rows                  the rest without nulls, twice
    at most, nulls known     none, rows                  the rest without nulls, all without nulls
    at most                  none, rows                  none, all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from lancelet.execution.costs import ENTRIES_A_TEST, FEW_LEFT
from lancelet.execution.index_match import (
    AllOf,
    AnyOf,
    Constant,
    Lookup,
    Opposite,
    Shape,
    fused,
    lookups,
    shape_of,
    weight,
)
from lancelet.execution.open_indices import IndexPart, IndexUse
from lancelet.execution.row_lookup import named_rows
from lancelet.expressions.build import all_of as joined
from lancelet.expressions.evaluate import may_fail
from lancelet.expressions.expr import Column, Expr, conjuncts
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID
from lancelet.index.questions import Answer, Between, IsIn, Question
from lancelet.index.row_set import RowSet

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rows for which something is surely true, and rows for which it may be."""

    sure: RowSet
    maybe: RowSet

    def __and__(self, other: Bounds) -> Bounds:
        return Bounds(self.sure & other.sure, self.maybe & other.maybe)

    def __or__(self, other: Bounds) -> Bounds:
        return Bounds(self.sure | other.sure, self.maybe | other.maybe)

    def within(self, fragments: Iterable[int]) -> Bounds:
        """The same of some fragments."""
        kept = RowSet.whole(fragments)
        return Bounds(self.sure & kept, self.maybe & kept)

    def opposite(self, rows: Mapping[int, int]) -> Bounds:
        """Of the rows for which it is not true; ``rows`` tells how many each fragment has."""
        return Bounds(self.maybe.inverted(rows), self.sure.inverted(rows))

    def decides(self, fragment: int) -> bool:
        """Whether nothing is open about the rows of a fragment."""
        return self.sure.agrees(self.maybe, fragment)


def answered(answer: Answer, *, negated: bool, loose: bool, rows: Mapping[int, int]) -> Bounds:
    """What an answer tells about the fragments in ``rows``, which are those that it is about.

    A ``loose`` question has at least the rows that are wanted; ``negated`` asks for those where it is false.
    """
    exact = answer.exact and not loose
    if not negated:
        return Bounds(answer.rows if exact else RowSet(), answer.rows)
    if answer.nulls is None:
        return Bounds(RowSet(), answer.rows.inverted(rows) if exact else RowSet.whole(rows))
    false = (answer.rows | answer.nulls).inverted(rows)
    return Bounds(false, false if exact else answer.nulls.inverted(rows))


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows to look at, and what is still to be tested."""

    bounds: Bounds
    known: tuple[tuple[tuple[Expr, ...], Bounds], ...]
    """What was found of each part of the filter that was asked about; the parts are joined by AND."""
    rest: tuple[Expr, ...]
    """Parts that were not asked about."""
    search: Search
    use: IndexUse
    _rechecks: dict[frozenset[int], Expr | None] = field(default_factory=dict)

    @property
    def fragments(self) -> frozenset[int]:
        """Those with rows to look at."""
        return self.bounds.maybe.fragments

    @property
    def is_decided(self) -> bool:
        """Whether no row has to be tested."""
        return all(self.bounds.decides(fragment) for fragment in self.fragments)

    @property
    def is_counted(self) -> bool:
        """Whether the rows are sure, and known one by one."""
        return self.is_decided and not self.bounds.maybe.has_whole

    def within(self, fragments: Iterable[int]) -> Candidates:
        """Those of some fragments."""
        return replace(self, bounds=self.bounds.within(fragments))

    def recheck(self, fragment: int) -> Expr | None:
        """What has to be tested on a fragment's rows, unless they are sure; None for nothing."""
        if self.bounds.decides(fragment):
            return None
        decided = frozenset(at for at, (_, found) in enumerate(self.known) if found.decides(fragment))
        if decided not in self._rechecks:
            left = [part for at, (parts, _) in enumerate(self.known) if at not in decided for part in parts]
            # A part that may fail relies on the others to keep rows away from it.
            keep = not decided or may_fail(self.search.condition)
            self._rechecks[decided] = self.search.condition if keep else joined([*left, *self.rest])
        return self._rechecks[decided]


def find_candidates(
    table: TableReader,
    condition: Expr,
    fragments: Sequence[int] | None = None,
    *,
    use_index: bool = True,
    indexed_only: bool = False,
) -> Candidates | None:
    """The rows that a filter can be true for; None when nothing is known about them.

    Parameters
    ----------
    fragments
        Ids of the fragments in question; all by default.
    use_index
        Whether indices may be asked; row ids and addresses are known without.
    indexed_only
        Leave out what the indices do not cover, if any of them is asked at all.
    """
    search = Search.of(table, condition, fragments, use_index=use_index)
    if search is None:
        return None
    return search.run(indexed_only=indexed_only)


def candidate_fragments(
    table: TableReader, condition: Expr, fragments: Sequence[int] | None = None, *, use_index: bool = True
) -> dict[int, int | None]:
    """The fragments that can have rows for a filter, with the number of rows to look at; None: all of them."""
    found = find_candidates(table, condition, fragments, use_index=use_index)
    if found is None:
        return dict.fromkeys(table.snapshot.manifest.fragments.ids.tolist() if fragments is None else fragments)
    maybe = found.bounds.maybe
    return {number: None if maybe.is_whole(number) else len(maybe.bitmap(number)) for number in sorted(found.fragments)}


def _wanted(table: TableReader, fragments: Sequence[int] | None) -> RowSet:
    return table.all_rows if fragments is None else RowSet.whole(fragments)


def _names_rows(table: TableReader, column: Column) -> bool:
    """Whether a column is one of those that say where a row is, and not one that the table stores."""
    return column.path[0] in (ROW_ID, ROW_ADDRESS) and column.path[0] not in table.snapshot.manifest.schema.names


@dataclass(frozen=True, slots=True)
class Search:
    """What will be asked for a filter, and about which fragments."""

    table: TableReader
    condition: Expr
    parts: tuple[tuple[tuple[Expr, ...], Shape], ...]
    """Parts of the filter, and what to ask about each."""
    rest: tuple[Expr, ...]
    fragments: tuple[int, ...] | None

    @classmethod
    def of(
        cls, table: TableReader, condition: Expr, fragments: Sequence[int] | None, *, use_index: bool = True
    ) -> Search | None:
        """None when there is nothing to ask."""
        if table.ids_repeat:
            return None
        asks_index = use_index and bool(table.indices)

        def usable(column: Column, question: Question) -> bool:
            if _names_rows(table, column):
                return isinstance(question, (IsIn, Between))
            return asks_index and any(part.takes(question) for part in table.indices.parts(column))

        pieces = [(part, shape_of(part, usable)) for part in conjuncts(condition)]
        rest = tuple(part for part, shape in pieces if shape is None)
        shapes = [shape for _, shape in pieces if shape is not None]
        if not shapes:
            return None
        parts = _assigned(fused(shapes), pieces)
        # A fragment may come several times, with other rows.
        return cls(table, condition, parts, rest, None if fragments is None else tuple(dict.fromkeys(fragments)))

    def run(self, *, indexed_only: bool = False) -> Candidates | None:
        """Ask."""
        wanted = _wanted(self.table, self.fragments)
        runner = _Run(self.table, wanted, self.fragments, IndexUse())
        if indexed_only:
            runner = _Run(self.table, wanted & self._indexed(), self.fragments, runner.use)
        total: Bounds | None = None
        known: list[tuple[tuple[Expr, ...], Bounds]] = []
        rest = list(self.rest)
        for conditions, shape in sorted(self.parts, key=lambda part: weight(part[1])):
            if total is not None and not runner.is_worth_asking(shape, total.maybe):
                rest += conditions
                continue
            bounds = runner.bounds(shape)
            known.append((conditions, bounds))
            total = bounds if total is None else total & bounds
        assert total is not None
        if rest:
            total = Bounds(RowSet(), total.maybe)
        if not total.sure and total.maybe == wanted:
            return None
        return Candidates(total, tuple(known), tuple(rest), self, runner.use)

    def _indexed(self) -> RowSet:
        """The fragments that all indices cover which are asked."""
        covered = _wanted(self.table, self.fragments)
        for _, shape in self.parts:
            for lookup in lookups(shape):
                parts = self.serving(lookup)
                if parts:
                    covered &= RowSet.union(part.covered for part in parts)
        return covered

    def serving(self, lookup: Lookup) -> list[IndexPart]:
        """The segments that are asked for a lookup."""
        if _names_rows(self.table, lookup.column):
            return []
        parts = self.table.indices.parts(lookup.column)
        return [part for part in parts if any(part.takes(asked.question) for asked in lookup.asked)]


def _assigned(
    shapes: Sequence[Shape], pieces: Sequence[tuple[Expr, Shape | None]]
) -> tuple[tuple[tuple[Expr, ...], Shape], ...]:
    """Each shape with the parts of the filter that it stands for; ranges may stand for several."""
    assigned = []
    for shape in shapes:
        if isinstance(shape, Lookup):
            held = tuple(
                part for part, one in pieces if isinstance(one, Lookup) and set(one.conditions) <= set(shape.conditions)
            )
        else:
            held = tuple(part for part, one in pieces if one is shape)
        assigned.append((held, shape))
    return tuple(assigned)


@dataclass(frozen=True, slots=True)
class _Run:
    """One search over some fragments."""

    table: TableReader
    wanted: RowSet
    fragments: tuple[int, ...] | None
    use: IndexUse

    def bounds(self, shape: Shape) -> Bounds:
        match shape:
            case Constant(value):
                rows = self.wanted if value else RowSet()
                return Bounds(rows, rows)
            case AllOf(parts, complete):
                found = self._all(parts)
                return found if complete else Bounds(RowSet(), found.maybe)
            case AnyOf(parts):
                return reduce(Bounds.__or__, [self.bounds(part) for part in parts])
            case Opposite(part):
                return self.bounds(part).opposite(self._rows(self.wanted.fragments))
            case Lookup():
                return self._lookup(shape)

    def _all(self, parts: Sequence[Shape]) -> Bounds:
        found: Bounds | None = None
        for part in sorted(parts, key=weight):
            if found is not None and not self.is_worth_asking(part, found.maybe):
                return Bounds(RowSet(), found.maybe)
            bounds = self.bounds(part)
            found = bounds if found is None else found & bounds
        assert found is not None
        return found

    def is_worth_asking(self, shape: Shape, left: RowSet) -> bool:
        """Whether asking for more takes less time than testing the rows that are left."""
        if left.has_whole or (count := len(left)) > FEW_LEFT:
            return True
        most: float = count * ENTRIES_A_TEST
        for lookup in lookups(shape):
            if not _names_rows(self.table, lookup.column):
                most -= self.table.indices.entries(lookup, self.use)
        return most > 0

    def _lookup(self, lookup: Lookup) -> Bounds:
        if _names_rows(self.table, lookup.column):
            return self._named(lookup)
        indices = self.table.indices
        bounds = Bounds(RowSet(), self.wanted)
        everything = open_ = self.wanted.fragments
        for asked in lookup.asked:
            for part in indices.parts(lookup.column):
                reach = part.fragments & open_
                if not reach or not part.takes(asked.question):
                    continue
                answer = indices.ask(part, asked.question, self.use, with_nulls=lookup.negated)
                if answer is None:
                    continue
                self.use.note(lookup, part, answer)
                rows = self._rows(reach) if lookup.negated else {}
                found = answered(answer, negated=lookup.negated, loose=asked.loose, rows=rows)
                if len(reach) < len(part.fragments):
                    found = found.within(reach)
                beyond = RowSet.whole(everything - reach)
                bounds = Bounds(bounds.sure | found.sure, bounds.maybe & (found.maybe | beyond))
                if answer.exact and not asked.loose:
                    open_ -= reach
        return bounds

    def _named(self, lookup: Lookup) -> Bounds:
        (asked,) = lookup.asked
        rows = named_rows(self.table, lookup.column.path[0], asked.question, self.fragments) & self.wanted
        counts = self._rows(self.wanted.fragments) if lookup.negated else {}
        return answered(Answer(rows, True, RowSet()), negated=lookup.negated, loose=False, rows=counts)

    def _rows(self, fragments: frozenset[int]) -> dict[int, int]:
        return {number: self.table.physical_rows(number) for number in fragments}
