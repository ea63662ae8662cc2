"""The sparse structure of a 2.3 page (docs/format-notes.md, "File version 2.3").

Instead of a level for each entry the page stores, layer by layer from the
outermost in, only what is out of the ordinary::

    item layer              the slots that are null, or the slots that are not
    list layer              the lists that hold something, how much each holds,
                            and which are null; all others are empty
    fixed-size list layer   its size and the slots that are null

Slots of a layer are numbered through the page. A list layer makes one slot of the
next layer for each item, a fixed-size list of structs as many as its size, an item
layer passes its slots on. So neighbouring rows are neighbouring slots in every layer,
and a read follows its rows inwards as ranges and writes down their levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lancelet.encoding.place import Place
from lancelet.encoding.rows import Indices
from lancelet.encoding.v2_1.levels import ITEM, LIST, Entries, Levels, expand_ranges

Mask: TypeAlias = npt.NDArray[np.bool_]

_MAX_ENTRIES = 2**26
"""Items of lists need not have bytes of their own, so one read makes at most this many level entries."""
_MAX_SUM = 2**48


@dataclass(frozen=True, slots=True)
class Slots:
    """Ranges of slots of one layer, in order."""

    starts: Indices
    stops: Indices

    @property
    def count(self) -> int:
        return int((self.stops - self.starts).sum())

    def numbers(self) -> Indices:
        return expand_ranges(self.starts, self.stops)


@dataclass(frozen=True, slots=True)
class EvenNumbers:
    """start, start + step, ...: as a set of positions or as sizes; never written out whole."""

    start: int
    step: int
    count: int

    @property
    def nbytes(self) -> int:
        return 0

    def rank(self, slots: Indices) -> Indices:
        """How many positions come before each slot."""
        ranks: Indices = np.clip(-((self.start - slots) // max(self.step, 1)), 0, self.count)
        return ranks

    def holds(self, slots: Slots) -> Mask:
        offsets = slots.numbers() - self.start
        steps, rest = np.divmod(offsets, max(self.step, 1))
        mask: Mask = (rest == 0) & (steps >= 0) & (steps < self.count)
        return mask

    def before(self, indices: Indices) -> Indices:
        """Sum of the sizes that come before each index."""
        sums: Indices = indices * self.start + self.step * (indices * (indices - 1) // 2)
        return sums

    def summed(self, place: Place) -> EvenNumbers:
        return self

    @property
    def last(self) -> int:
        return self.start + self.step * (self.count - 1)

    def check_rising(self, slots: int, place: Place) -> None:
        if self.count and (self.last >= slots or (self.step == 0 and self.count > 1)):
            raise place.corrupt(f"{self.count} positions up to {self.last} in a layer of {slots} slots")

    def check_sum(self, total: int, place: Place) -> None:
        found = self.count * self.start + self.step * (self.count * (self.count - 1) // 2)
        if found != total or (self.count and self.start == 0):
            raise place.corrupt(f"lists of {found} items above {total} slots")


@dataclass(frozen=True, slots=True)
class ListedNumbers:
    """Positions or sizes one by one."""

    values: Indices
    sums: Indices
    """For sizes: what comes before each, and the total."""

    def summed(self, place: Place) -> ListedNumbers:
        if float(self.values.sum(dtype=np.float64)) > _MAX_SUM:
            raise place.corrupt("lists of an impossible number of items")
        return ListedNumbers(self.values, np.concatenate((np.zeros(1, np.int64), self.values.cumsum())))

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.sums.nbytes

    def rank(self, slots: Indices) -> Indices:
        return self.values.searchsorted(slots)

    def holds(self, slots: Slots) -> Mask:
        if len(slots.starts) == 1:
            # A plain range, as scans ask for, needs no search for each slot.
            first, last = int(slots.starts[0]), int(slots.stops[0])
            begin, end = self.values.searchsorted((first, last))
            mask = np.zeros(last - first, bool)
            mask[self.values[begin:end] - first] = True
            return mask
        numbers = slots.numbers()
        found = self.values.searchsorted(numbers)
        mask = np.zeros(len(numbers), bool)
        inside = found < len(self.values)
        mask[inside] = self.values[found[inside]] == numbers[inside]
        return mask

    def before(self, indices: Indices) -> Indices:
        sums: Indices = self.sums[indices]
        return sums

    def check_rising(self, slots: int, place: Place) -> None:
        if self.count and ((np.diff(self.values) <= 0).any() or self.values[-1] >= slots):
            raise place.corrupt(f"positions that do not rise, or leave their layer of {slots} slots")

    def check_sum(self, total: int, place: Place) -> None:
        if self.sums[-1] != total or (self.count and self.values.min() < 1):
            raise place.corrupt(f"lists of {self.sums[-1]} items above {total} slots")


Numbers: TypeAlias = EvenNumbers | ListedNumbers


@dataclass(frozen=True, slots=True)
class Validity:
    """The slots of a layer that are null, or those that are not."""

    positions: Numbers
    lists_nulls: bool

    def nulls(self, slots: Slots) -> Mask | None:
        """A mask over the slots; None when none is null."""
        if self.positions.count == 0:
            return None if self.lists_nulls else np.ones(slots.count, bool)
        found = self.positions.holds(slots)
        return found if self.lists_nulls else ~found

    def valid(self, slots: int) -> int:
        """How many of a layer's slots are not null."""
        return slots - self.positions.count if self.lists_nulls else self.positions.count

    def valid_before(self, slots: Indices) -> Indices:
        """How many slots that are not null come before each slot."""
        ranks = self.positions.rank(slots)
        return slots - ranks if self.lists_nulls else ranks


@dataclass(frozen=True, slots=True)
class ItemLayer:
    validity: Validity


@dataclass(frozen=True, slots=True)
class FixedSizeListLayer:
    validity: Validity
    size: int


@dataclass(frozen=True, slots=True)
class ListLayer:
    validity: Validity
    positions: Numbers
    """Of the lists that hold something."""
    sizes: Numbers


Layer: TypeAlias = ItemLayer | FixedSizeListLayer | ListLayer


@dataclass(frozen=True, slots=True)
class Selection:
    """Level entries of some rows, and the slots of the leaf that they own."""

    entries: Entries
    slots: Slots
    nulls: Mask | None
    """Leaf slots that are null, or lie in something that is; None when there are none."""


@dataclass(frozen=True, slots=True)
class SparseLayers:
    """A page's layers, outermost first."""

    layers: tuple[Layer, ...]

    @property
    def nbytes(self) -> int:
        total = 0
        for layer in self.layers:
            total += layer.validity.positions.nbytes
            if isinstance(layer, ListLayer):
                total += layer.positions.nbytes + layer.sizes.nbytes
        return total

    def select(self, rows: Slots, place: Place) -> Selection:
        """Follow rows, as slots of the outermost layer, in to the leaf."""
        lists = sum(isinstance(layer, ListLayer) for layer in self.layers)
        level = sum(LIST if isinstance(layer, ListLayer) else ITEM for layer in self.layers)
        walk = _Walk(rows, lists, place)
        for layer in self.layers:
            level -= LIST if isinstance(layer, ListLayer) else ITEM
            match layer:
                case ListLayer():
                    walk.open_lists(layer, level)
                case ItemLayer():
                    walk.mark_nulls(layer.validity, level)
                case FixedSizeListLayer():
                    walk.mark_nulls(layer.validity, level)
                    walk.repeat(layer.size)
        return walk.finish()


class _Walk:
    """Level entries while they are made; ``live`` ones own a slot of the current layer."""

    def __init__(self, rows: Slots, lists: int, place: Place) -> None:
        self.slots = rows
        self._place = place
        self._rep = lists
        self._defs: Levels = np.zeros(rows.count, np.uint16)
        self._reps: Levels | None = np.zeros(rows.count, np.uint16) if lists else None
        self._live: Indices | None = None
        """None: all entries."""

    def mark_nulls(self, validity: Validity, level: int) -> None:
        """Give null slots their level unless something further out is null already."""
        nulls = validity.nulls(self.slots)
        if nulls is not None:
            hit = np.flatnonzero(nulls) if self._live is None else self._live[nulls]
            hit = hit[self._defs[hit] == 0]
            self._defs[hit] = level + 1

    def open_lists(self, layer: ListLayer, level: int) -> None:
        """One entry for each item, and one for each list that has none."""
        assert self._reps is not None
        first, last = layer.positions.rank(self.slots.starts), layer.positions.rank(self.slots.stops)
        inner = Slots(layer.sizes.before(first), layer.sizes.before(last))
        if len(self._defs) + inner.count > _MAX_ENTRIES:
            raise self._place.too_large(f"{inner.count} list items")
        filled = layer.positions.holds(self.slots)
        chosen = expand_ranges(first, last)
        sizes = np.zeros(len(filled), np.int64)
        sizes[filled] = layer.sizes.before(chosen + 1) - layer.sizes.before(chosen)
        nulls = layer.validity.nulls(self.slots)
        defs = self._defs if self._live is None else self._defs[self._live]
        own = np.where(filled, np.uint16(0), np.uint16(level + 2))
        if nulls is not None:
            own[nulls] = level + 1
        np.copyto(own, defs, where=defs != 0)
        if (own[filled] != 0).any():
            raise self._place.corrupt("items in a list that is null")
        reps = self._reps if self._live is None else self._reps[self._live]
        reps = np.where(reps == 0, np.uint16(self._rep), reps)
        self._rep -= 1
        if self._live is not None:
            # Entries closed further out stay as they are, between the others.
            self._defs[self._live], self._reps[self._live] = own, reps
            times = np.ones(len(self._defs), np.int64)
            times[self._live] = np.maximum(sizes, 1)
            opened = np.zeros(len(times), bool)
            opened[self._live] = filled
            own, reps, filled = self._defs, self._reps, opened
        else:
            times = np.maximum(sizes, 1)
        self._defs = np.repeat(own, times)
        self._reps = np.zeros(len(self._defs), np.uint16)
        self._reps[np.cumsum(times) - times] = reps
        self._live = None if filled.all() else np.flatnonzero(np.repeat(filled, times))
        self.slots = inner

    def repeat(self, size: int) -> None:
        """A fixed-size list hands its level to all its items."""
        self._defs = np.repeat(self._defs, size)
        self.slots = Slots(self.slots.starts * size, self.slots.stops * size)

    def finish(self) -> Selection:
        count = len(self._defs)
        if not self._defs.any():
            return Selection(Entries(count, self._reps, None), self.slots, None)
        nulls = (self._defs if self._live is None else self._defs[self._live]) != 0
        return Selection(Entries(count, self._reps, self._defs), self.slots, nulls if nulls.any() else None)
