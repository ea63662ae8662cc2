"""Arrow arrays of whole fields, put together from their leaf columns.

A field is built from the inside out. Every leaf starts with its level entries;
each layer around it takes its share: an item layer (leaf, struct) becomes a
validity bitmap, a list layer becomes offsets and validity and leaves one entry a
list. Struct and list layers are the same in all leaves below them, so the first
leaf speaks for all.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.fetch import gather
from lancelet.encoding.kernels import levels as kernel
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices, Ranges, Rows
from lancelet.encoding.v2_1.column import LeafColumn, LeafType, join_parts
from lancelet.encoding.v2_1.levels import ITEM, LIST, Entries, Levels, writable
from lancelet.encoding.v2_1.pages import PageRows
from lancelet.encoding.v2_1.values import with_validity
from lancelet.errors import NotSupported
from lancelet.format.schema import BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR, Field

_INT32_MAX = 2**31 - 1
_CHUNKED_BYTES = 256 << 10
_HOLLOW = pa.struct([])


def leaf_types(field: Field) -> dict[int, LeafType]:
    """The leaves below a top-level field, by field id."""
    found: dict[int, LeafType] = {}

    def visit(node: Field, outer: tuple[int, ...], multiplier: int) -> None:
        if node.owns_column:
            found[node.id] = LeafType(_leaf_dtype(node), (ITEM, *outer), multiplier)
        elif node.logical_type.startswith("fixed_size_list:struct:"):
            size = node.arrow_type.list_size
            if LIST in outer or any(child.logical_type != "struct" for child in node.children) or size < 1:
                raise NotSupported(f"field '{node.name}': lists around or inside a fixed-size list of structs")
            visit(node.children[0], (ITEM, *outer), multiplier * size)
        else:
            kind = ITEM if node.logical_type == "struct" else LIST
            for child in node.children:
                visit(child, (kind, *outer), multiplier)

    visit(field, (), 1)
    return found


def _leaf_dtype(field: Field) -> pa.DataType:
    if field.is_blob_v2:
        return BLOB_V2_DESCRIPTOR
    if field.is_blob:
        return BLOB_V1_DESCRIPTOR
    return field.arrow_type


def read_field(
    field: Field, columns: Mapping[int, LeafColumn], rows: Rows, place: Place
) -> Generator[Ranges, list[Bytes], pa.Array | pa.ChunkedArray]:
    """One top-level field; leaves without a column are null.

    Big plain leaves come in the chunks that their pages gave, so that views of the file are not copied."""
    if not columns:
        return pa.nulls(len(rows), field.arrow_type)
    if not field.owns_column:
        parts: list[list[PageRows]] = yield from gather([column.read(rows) for column in columns.values()])
        leaves = {leaf_id: join_parts(part, place) for leaf_id, part in zip(columns, parts, strict=True)}
        return build_field(field, leaves, len(rows), place)
    pieces = yield from columns[field.id].read(rows)
    if len(pieces) == 1:
        return _build_leaf(pieces[0], len(rows), place)
    if sum(piece.values.nbytes for piece in pieces) > _CHUNKED_BYTES * len(pieces):
        return pa.chunked_array([_build_leaf(piece, piece.entries.count, place) for piece in pieces])
    return _build_leaf(join_parts(pieces, place), len(rows), place)


def _build_leaf(part: PageRows, rows: int, place: Place) -> pa.Array:
    """A field that is a leaf itself: its levels are its validity."""
    values, defs = part.values, part.entries.defs
    if len(values) != rows or part.entries.count != rows:
        raise place.corrupt(f"{part.entries.count} levels and {len(values)} values where {rows} rows were read")
    if defs is None or (pa.types.is_struct(values.type) and values.type.num_fields == 0):
        return values
    valid = defs == 0
    nulls = rows - int(np.count_nonzero(valid))
    if nulls == 0:
        return values
    return with_validity(values, pa.py_buffer(np.packbits(valid, bitorder="little")), nulls)


def build_field(field: Field, leaves: Mapping[int, PageRows], rows: int, place: Place) -> pa.Array:
    """A nested field of the rows of its leaves."""
    built = _Builder(leaves, place).build(field, ())
    assert built is not None
    array, _ = built
    if len(array) != rows:
        raise place.corrupt(f"levels of field '{field.name}' make {len(array)} rows where {rows} were read")
    return array


@dataclass(slots=True)
class _Cursor:
    """Level entries of a leaf, after the layers inside have taken their share."""

    count: int
    reps: Levels | None
    defs: Levels | None
    outer: tuple[int, ...]
    """Kinds of the layers still to come, innermost first."""
    taken: int = 0
    """Definition levels that the layers inside have used up."""

    @property
    def slot_up_to(self) -> int:
        """Entries above this level stand for a null or empty list further out, and have no slot in this layer."""
        total = self.taken + self.outer[0]
        for kind in self.outer[1:]:
            if kind == LIST:
                break
            total += kind
        return total

    def take_item(self) -> tuple[int, pa.Buffer | None, int]:
        """Fold an item layer: slots, validity, nulls."""
        limit, valid_up_to = self.slot_up_to, self.taken
        self.taken += ITEM
        self.outer = self.outer[1:]
        if self.defs is None:
            return self.count, None, 0
        slots, nulls = kernel.count_slots(self.defs, valid_up_to, limit)
        if nulls == 0:
            return slots, None, 0
        if slots == self.count:
            return slots, pa.py_buffer(np.packbits(self.defs <= valid_up_to, bitorder="little")), nulls
        marks = np.empty(self.count, np.uint8)
        kernel.validity(self.defs, valid_up_to, limit, marks)
        return slots, pa.py_buffer(np.packbits(marks[:slots], bitorder="little")), nulls

    def take_list(self, place: Place) -> tuple[int, Indices, int, pa.Buffer | None, int]:
        """Fold a list layer: lists, offsets, children, validity, nulls."""
        if self.reps is None:
            if self.count:
                raise place.corrupt("lists without repetition levels")
            self.reps = np.empty(0, np.uint16)
        limit = self.slot_up_to
        defs = np.zeros(self.count, np.uint16) if self.defs is None else writable(self.defs)
        reps = writable(self.reps)
        starts = int(np.count_nonzero(reps))
        offsets = np.empty(starts + 1, np.int64)
        valid = np.empty(starts + 1, np.uint8)
        lists, children, left = kernel.list_layer(
            reps, defs, self.taken, self.taken + 1, self.taken + LIST, limit, offsets, valid
        )
        self.count, self.reps, self.defs = left, reps[:left], defs[:left]
        self.taken += LIST
        self.outer = self.outer[1:]
        nulls = lists - int(np.count_nonzero(valid[:lists]))
        bitmap = pa.py_buffer(np.packbits(valid[:lists], bitorder="little")) if nulls else None
        return lists, offsets[: lists + 1], children, bitmap, nulls

    def every(self, size: int, place: Place) -> None:
        """Keep one entry of each group: the levels of a fixed-size list are repeated for all its items."""
        if self.count % size:
            raise place.corrupt(f"{self.count} elements in fixed-size lists of {size}")
        self.count //= size
        if self.defs is not None:
            self.defs = np.ascontiguousarray(self.defs[::size])


class _Builder:
    def __init__(self, leaves: Mapping[int, PageRows], place: Place) -> None:
        self._leaves = leaves
        self._place = place

    def build(self, field: Field, outer: tuple[int, ...]) -> tuple[pa.Array, _Cursor] | None:
        """The field's array and what is left of its levels; None when the file has none of its leaves."""
        if field.owns_column:
            return self._leaf(field, outer)
        if field.logical_type == "struct":
            return self._struct(field, outer)
        if field.logical_type.startswith("fixed_size_list:struct:"):
            return self._fixed_size_list(field, outer)
        return self._list(field, outer)

    def _leaf(self, field: Field, outer: tuple[int, ...]) -> tuple[pa.Array, _Cursor] | None:
        part = self._leaves.get(field.id)
        if part is None:
            return None
        entries: Entries = part.entries
        cursor = _Cursor(entries.count, entries.reps, entries.defs, (ITEM, *outer))
        slots, bitmap, nulls = cursor.take_item()
        if slots != len(part.values):
            raise self._place.corrupt(f"field '{field.name}' has {slots} slots and {len(part.values)} values")
        if pa.types.is_struct(part.values.type) and part.values.type.num_fields == 0:
            return part.values, cursor
        if bitmap is None:
            return part.values, cursor
        return with_validity(part.values, bitmap, nulls), cursor

    def _struct(self, field: Field, outer: tuple[int, ...]) -> tuple[pa.Array, _Cursor] | None:
        built = [self.build(child, (ITEM, *outer)) for child in field.children]
        present = [pair for pair in built if pair is not None]
        if not present:
            return None
        # A struct without fields knows nothing of the structs around it.
        cursor = next((c for array, c in present if array.type != _HOLLOW), present[0][1])
        count = len(present[0][0])
        children = []
        for child, pair in zip(field.children, built, strict=True):
            array = pa.nulls(count, child.arrow_type) if pair is None else pair[0]
            if len(array) != count:
                raise self._place.corrupt(f"children of '{field.name}' differ in length: {count} and {len(array)}")
            children.append(array)
        slots, bitmap, nulls = cursor.take_item()
        if slots != count:
            raise self._place.corrupt(f"struct '{field.name}' has {slots} slots and children of {count}")
        dtype = pa.struct(
            [
                pa.field(c.name, a.type, c.nullable, c.arrow_field.metadata)
                for c, a in zip(field.children, children, strict=True)
            ]
        )
        return pa.Array.from_buffers(dtype, count, [bitmap if nulls else None], nulls, children=children), cursor

    def _fixed_size_list(self, field: Field, outer: tuple[int, ...]) -> tuple[pa.Array, _Cursor] | None:
        built = self.build(field.children[0], (ITEM, *outer))
        if built is None:
            return None
        items, cursor = built
        size = field.arrow_type.list_size
        cursor.every(size, self._place)
        slots, bitmap, nulls = cursor.take_item()
        dtype = pa.list_(field.arrow_type.value_field, size)
        return pa.Array.from_buffers(dtype, slots, [bitmap if nulls else None], nulls, children=[items]), cursor

    def _list(self, field: Field, outer: tuple[int, ...]) -> tuple[pa.Array, _Cursor] | None:
        child = field.children[0]
        built = self.build(child, (LIST, *outer))
        if built is None:
            return None
        items, cursor = built
        lists, offsets, children, bitmap, nulls = cursor.take_list(self._place)
        if children != len(items):
            raise self._place.corrupt(f"lists of '{field.name}' hold {children} items, the column has {len(items)}")
        dtype = field.arrow_type
        starts = pa.py_buffer(offsets)
        if not pa.types.is_large_list(dtype):
            if children > _INT32_MAX:
                raise self._place.too_large(f"lists '{field.name}' of {children} items")
            starts = pa.py_buffer(offsets.astype(np.int32))
        if not pa.types.is_map(dtype) and items.type != dtype.value_type:
            item = pa.field(child.name, items.type, child.nullable, child.arrow_field.metadata)
            dtype = pa.large_list(item) if pa.types.is_large_list(dtype) else pa.list_(item)
        if pa.types.is_map(dtype) and (items.null_count or items.field(0).null_count):
            # Arrow takes the whole process down over a map with null entries or keys.
            raise self._place.corrupt(f"map '{field.name}' has null keys")
        buffers = [bitmap, starts]
        return pa.Array.from_buffers(dtype, lists, buffers, nulls, children=[items]), cursor
