"""Columns of a mapped file that are read together, a few rows of each.

What is decoded one column at a time costs Python's time for each of them, which for a few thousand rows is
most of it. :class:`LeafBatch` says once, for the fields that a scan reads, what their leaves need; the kernel then
reads all of them in one call, and nested fields are put together of their levels. What it does not know or does not
believe is None, and read by :class:`LeafColumn`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import bit_width
from lancelet.encoding.kernels.page_plans import PagePlans
from lancelet.encoding.kernels.single_rows import pick_columns
from lancelet.encoding.kernels.small_pages import read_columns
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Indices, RowIndices, RowRange, Rows
from lancelet.encoding.v2_1.assemble import build_field, leaf_types
from lancelet.encoding.v2_1.column import LeafType
from lancelet.encoding.v2_1.levels import LIST, Entries, Levels
from lancelet.encoding.v2_1.pages import PageRows
from lancelet.errors import LanceletError
from lancelet.format.schema import Field

MOST_ROWS = 1 << 15
"""More rows at once are read column by column: then what each costs does not matter, and views of the file may."""
MOST_SPAN = 1024
"""Single rows that lie no farther apart are cut out of all rows between them."""
_MOST_LAYERS = 8
_KEPT = 256
_NUMBERED: dict[tuple[int, ...], tuple[Sequence[Field], LeafBatch]] = {}
_TEXTS = {pa.binary(): -32, pa.string(): -33, pa.large_binary(): -64, pa.large_string(): -65}


@dataclass(frozen=True, slots=True)
class LeafBatch:
    """What the kernel has to know of the leaves of some fields, those of one field after those of the other."""

    fields: tuple[Field, ...]
    nested: dict[int, tuple[int, int]]
    """Of fields that are no plain leaves, by their place: where their leaves begin and end."""
    ids: list[int]
    dtypes: list[pa.DataType]
    """And, at the end, that of levels."""
    widths: Indices
    """The bits of a value; of strings and binary as ``read_columns`` has them, and 0 for types that it does not read."""
    kinds: Indices
    """Layers of nesting, as ``read_columns`` has them."""
    is_plain: bool
    """Whether every field is a leaf without nesting, of a type that the kernels read."""

    @classmethod
    def of(cls, fields: Sequence[Field]) -> LeafBatch:
        """Kept for as long as the same field objects are asked for."""
        key = tuple(map(id, fields))
        known = _NUMBERED.get(key)
        if known is None:
            if len(_NUMBERED) >= _KEPT:
                _NUMBERED.clear()
            # The fields are kept too, so that no other can have their place in memory.
            known = _NUMBERED[key] = (tuple(fields), cls._of(tuple(fields)))
        return known[1]

    @classmethod
    def _of(cls, fields: tuple[Field, ...]) -> LeafBatch:
        nested = {}
        leaves: list[tuple[int, LeafType]] = []
        for place, field in enumerate(fields):
            begin = len(leaves)
            leaves.extend(_leaves(field))
            if field.children or len(leaves) != begin + 1:
                nested[place] = (begin, len(leaves))
        widths = np.array([leaf_width(leaf) for _, leaf in leaves], np.int64)
        kinds = np.array([_kinds(leaf) for _, leaf in leaves], np.int64)
        return cls(
            fields,
            nested,
            [number for number, _ in leaves],
            [*(leaf.dtype for _, leaf in leaves), pa.uint16()],
            widths,
            kinds,
            not nested and bool((kinds == 1).all()) and bool((widths != 0).all()),
        )

    def bind(self, plans: PagePlans, column_of: Mapping[int, int], place: Place) -> BoundBatch:
        """The same fields in one file, which has columns for some of them."""
        columns = np.array([column_of.get(number, -1) for number in self.ids], np.int64)
        return BoundBatch(self, plans, columns, plans.total_bytes(columns), place)


@dataclass(frozen=True, slots=True)
class BoundBatch:
    """Columns of one file."""

    leaves: LeafBatch
    plans: PagePlans
    columns: Indices
    """The number of each leaf's column, -1 where the file has none."""
    stored_bytes: int
    """Of those columns that are likely to be read here."""
    place: Place

    def read(self, rows: Rows) -> list[pa.Array | None]:
        """Rows of all fields, None for those that are to be read alone."""
        leaves, picks = self.leaves, None
        if isinstance(rows, RowRange):
            first, end = rows.start, rows.stop
        else:
            picks = np.ascontiguousarray(rows.values)
            first, end = int(picks[0]), int(picks[-1]) + 1
        found = read_columns(
            self.plans, self.columns, leaves.widths, leaves.kinds, first, end, picks, leaves.dtypes, _import
        )
        if not leaves.nested:
            return found
        arrays, at = [], 0
        for place, field in enumerate(leaves.fields):
            if place in leaves.nested:
                begin, at = leaves.nested[place]
                arrays.append(
                    self._built(field, dict(zip(leaves.ids[begin:at], found[begin:at], strict=True)), len(rows))
                )
            else:
                arrays.append(found[at])
                at += 1
        return arrays

    def _built(self, field: Field, leaves: Mapping[int, Any], rows: int) -> pa.Array | None:
        """A nested field of its leaves; None unless all of them are there."""
        if not leaves or None in leaves.values():
            return None
        try:
            return build_field(field, {number: _page_rows(*leaf) for number, leaf in leaves.items()}, rows, self.place)
        except LanceletError:
            # Who reads it alone meets the same, and says in which page.
            return None


def pick_together(files: Sequence[BoundBatch], owners: Indices, rows: Indices) -> list[pa.Array] | None:
    """Single rows of several files in which the same fields are bound, in any order; None where they are to be read otherwise.

    ``owners`` are the places in ``files`` of those that have the rows.
    """
    leaves = files[0].leaves
    plans, columns = [file.plans for file in files], [file.columns for file in files]
    return pick_columns(plans, columns, leaves.widths, owners, rows, leaves.dtypes, _import)


def is_small(rows: Rows) -> bool:
    """Whether rows are so few, and so near to each other, that columns are read together."""
    if isinstance(rows, RowIndices):
        return len(rows) > 0 and int(rows.values[-1] - rows.values[0]) < MOST_SPAN
    return 0 < len(rows) <= MOST_ROWS


def leaf_width(leaf: LeafType) -> int:
    """The bits of a value, or what ``read_columns`` takes for them; 0 for leaves that it does not read."""
    dtype = leaf.dtype
    if leaf.multiplier != 1 or len(leaf.kinds) > _MOST_LAYERS or dtype.num_fields:
        return 0
    return _TEXTS.get(dtype) or bit_width(dtype)


def _leaves(field: Field) -> list[tuple[int, LeafType]]:
    try:
        return list(leaf_types(field).items())
    except LanceletError:
        # Of a kind that no file can have; who reads it alone says so.
        return []


def _kinds(leaf: LeafType) -> int:
    return len(leaf.kinds) + sum(1 << 8 + place for place, kind in enumerate(leaf.kinds) if kind == LIST)


def _page_rows(values: pa.Array, reps: pa.Array | None, defs: pa.Array | None) -> PageRows:
    count = len(values) if reps is None else len(reps)
    return PageRows(Entries(count, _numbers(reps), _numbers(defs)), values)


def _numbers(levels: pa.Array | None) -> Levels | None:
    if levels is None:
        return None
    return np.frombuffer(levels.buffers()[1], np.uint16, len(levels), 2 * levels.offset)


_import = pa.Array._import_from_c
