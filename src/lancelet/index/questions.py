"""What can be asked of an index about its column, and what it answers.

Values are Arrow, of the column's type (for list columns: of the items' type), without nulls and without NaN's
other spellings: what a NaN, a zero with a sign or a padded value means is for the kind of index to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lancelet.index.row_set import RowSet


@dataclass(frozen=True, slots=True)
class IsIn:
    """The value is one of these; one of them: equality."""

    values: pa.Array


@dataclass(frozen=True, slots=True)
class Between:
    """The value is in a range; None on a side leaves it open."""

    low: pa.Scalar | None
    high: pa.Scalar | None
    with_low: bool = True
    with_high: bool = True


@dataclass(frozen=True, slots=True)
class Missing:
    """The value is null."""


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The text, or the bytes, begin so."""

    prefix: str | bytes


@dataclass(frozen=True, slots=True)
class Holds:
    """The text holds these pieces, in this order, in any place and without overlap; ``contains`` asks for one.

    A row that holds them may still not be wanted: a ``LIKE`` says more about their places.
    """

    pieces: tuple[str, ...]
    exact: bool
    """Whether holding the pieces is all that is asked."""


@dataclass(frozen=True, slots=True)
class HasItems:
    """The list has these items: any of them, or all."""

    items: pa.Array
    """A null among them asks for a null item."""
    every: bool


@dataclass(frozen=True, slots=True)
class Overlaps:
    """The box around the geometry has a point in common with this one."""

    low_x: float
    low_y: float
    high_x: float
    high_y: float


Question: TypeAlias = IsIn | Between | Missing | StartsWith | Holds | HasItems | Overlaps


class Answer:
    """The rows for which something holds, as far as an index knows."""

    __slots__ = ("_nulls", "exact", "rows")

    def __init__(self, rows: RowSet, exact: bool, nulls: RowSet | Callable[[], RowSet] | None = None) -> None:
        """A function in the place of ``nulls`` finds them; it is called when they are needed."""
        self.rows = rows
        """Exactly those for which it is true; or, when not ``exact``, at least those."""
        self.exact = exact
        self._nulls = nulls

    @property
    def nulls(self) -> RowSet | None:
        """Exactly the rows for which it is neither true nor false; None when the index does not know them."""
        if callable(self._nulls):
            self._nulls = self._nulls()
        return self._nulls
