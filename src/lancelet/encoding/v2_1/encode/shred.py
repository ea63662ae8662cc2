"""From an Arrow column to one leaf's level entries and values (spec encodings.md 2.4).

Levels are first numbered as if every layer could hold everything, as the decoder
does (see :mod:`lancelet.encoding.v2_1.levels`); then the levels that occur in the page
are counted, and what does not occur is numbered away. So the layers that a page
declares are exact: nulls hidden below a null list or struct count for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.kernels import levels as levels_kernel
from lancelet.encoding.kernels import shred as kernel
from lancelet.encoding.picking import keep_rows
from lancelet.encoding.plain import list_offsets, numpy_array
from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_1.encode.values import Offsets, plain_storage
from lancelet.encoding.v2_1.levels import ITEM, LIST, Levels
from lancelet.errors import NotSupported, UnfitData
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.schema import Field

_OPEN = 65535
_KEPT_LEAVES = 4096
_PLAIN = (pb.REPDEF_ALL_VALID_ITEM,)
_NO_LEVELS = np.empty(0, np.uint16)
_NO_BITS = np.empty(0, np.uint8)
_NO_RANGES = np.empty(0, np.int64)
_LIST_LAYERS = {
    (False, False): pb.REPDEF_ALL_VALID_LIST,
    (True, False): pb.REPDEF_NULLABLE_LIST,
    (False, True): pb.REPDEF_EMPTYABLE_LIST,
    (True, True): pb.REPDEF_NULL_AND_EMPTY_LIST,
}


@dataclass(frozen=True, slots=True)
class Node:
    """One layer on the way from a top-level field down to a leaf."""

    field: Field
    kind: int
    child: int = 0
    """Which child of a struct the way goes on with."""
    repeat: int = 1
    """Elements of a fixed-size list of structs."""


@dataclass(frozen=True)
class Leaf:
    """A column of the file: the layers from the top-level field to the leaf, outermost first."""

    nodes: tuple[Node, ...]

    @property
    def field(self) -> Field:
        return self.nodes[-1].field

    @property
    def top(self) -> Field:
        return self.nodes[0].field

    @property
    def path(self) -> str:
        return ".".join([node.field.name for node in self.nodes])

    @property
    def lists(self) -> int:
        return sum(node.kind == LIST for node in self.nodes)

    @cached_property
    def levels(self) -> int:
        return sum(node.kind for node in self.nodes)

    @property
    def multiplier(self) -> int:
        return math.prod([node.repeat for node in self.nodes])


@lru_cache(maxsize=_KEPT_LEAVES)
def leaves_of(field: Field) -> tuple[Leaf, ...]:
    """The leaves below a top-level field, in the order of their columns."""
    found: list[Leaf] = []

    def visit(node: Field, outer: tuple[Node, ...]) -> None:
        if node.owns_column:
            found.append(Leaf((*outer, Node(node, ITEM))))
        elif node.logical_type.startswith("fixed_size_list:struct:"):
            size = node.arrow_type.list_size
            if size < 1 or any(step.kind == LIST for step in outer) or _has_list(node):
                raise NotSupported(
                    f"field '{node.name}': a fixed-size list of structs cannot hold lists or lie within one"
                )
            visit(node.children[0], (*outer, Node(node, ITEM, repeat=size)))
        else:
            kind = ITEM if node.logical_type == "struct" else LIST
            for index, child in enumerate(node.children):
                visit(child, (*outer, Node(node, kind, index)))

    visit(field, ())
    return tuple(found)


def _has_list(field: Field) -> bool:
    return any(node.logical_type.startswith(("list", "large_list", "map")) for node in field.walk())


@dataclass(frozen=True, slots=True)
class Shredded:
    """Levels and values of one leaf over some rows; absent levels are all zero."""

    leaf: Leaf
    length: int
    """Rows, or elements for a fixed-size list of structs."""
    entries: int
    reps: Levels | None
    defs: Levels | None
    layers: tuple[pb.RepDefLayer, ...]
    """Innermost first."""
    max_visible: int
    values: pa.Array
    """One for each visible entry."""

    @property
    def rows(self) -> int:
        return self.length // self.leaf.multiplier

    @property
    def validity(self) -> npt.NDArray[np.bool_] | None:
        """Whether each visible value counts; None when all do."""
        if self.defs is None or self.max_visible == 0:
            return None
        visible = self.defs if self.entries == len(self.values) else self.defs[self.defs <= self.max_visible]
        valid: npt.NDArray[np.bool_] = visible == 0
        return None if valid.all() else valid


def shred(array: pa.Array, leaf: Leaf) -> Shredded:
    """Walk from a top-level column down to a leaf."""
    length = entries = len(array)
    if len(leaf.nodes) == 1 and array.null_count == 0:
        values = plain_storage(array, leaf.field, leaf.path)
        return Shredded(leaf, length, length, None, None, _PLAIN, 0, values)
    reps: Levels | None = None
    defs: Levels | None = None
    open_up_to, base, rep = _OPEN, leaf.levels, leaf.lists
    for node in leaf.nodes:
        array = plain_storage(array, node.field, leaf.path)
        base -= node.kind
        if node.kind == LIST:
            defs = np.zeros(entries, np.uint16) if defs is None else defs
            bits, first = _validity(array)
            offsets = list_offsets(array)
            entries, items = kernel.list_totals(defs, open_up_to, bits, first, offsets, _NO_RANGES)
            out_reps, out_defs = np.zeros(entries, np.uint16), np.zeros(entries, np.uint16)
            own = _NO_LEVELS if reps is None else reps
            kernel.list_layer(own, defs, open_up_to, rep, base + 1, bits, first, offsets, out_reps, out_defs)
            array = _items(array, defs, open_up_to, bits, first, offsets, items)
            reps, defs = out_reps, out_defs
            open_up_to, rep = base, rep - 1
            continue
        bits, first = _validity(array)
        if len(bits):
            defs = np.zeros(entries, np.uint16) if defs is None else defs
            kernel.item_layer(defs, open_up_to, base + 1, bits, first)
        if node.repeat > 1 or node.field.logical_type.startswith("fixed_size_list:struct:"):
            array = array.values.slice(array.offset * node.repeat, len(array) * node.repeat)
            length, entries = length * node.repeat, entries * node.repeat
            defs = None if defs is None else np.repeat(defs, node.repeat)
        elif node is not leaf.nodes[-1]:
            array = array.field(node.child)
    visible = leaf.levels if open_up_to == _OPEN else open_up_to
    return _exact(Shredded(leaf, length, entries, reps, defs, (), visible, array))


def part(whole: Shredded, start: tuple[int, int, int], stop: tuple[int, int, int]) -> Shredded:
    """Some rows of a page, from (entry, row, visible item) to another; its layers stay those of the whole."""
    return Shredded(
        whole.leaf,
        (stop[1] - start[1]) * whole.leaf.multiplier,
        stop[0] - start[0],
        None if whole.reps is None else whole.reps[start[0] : stop[0]],
        None if whole.defs is None else whole.defs[start[0] : stop[0]],
        whole.layers,
        whole.max_visible,
        whole.values.slice(start[2], stop[2] - start[2]),
    )


def _exact(page: Shredded) -> Shredded:
    """Drop the levels that do not occur, and say which layers are left with any."""
    leaf, defs = page.leaf, page.defs
    present = np.zeros(leaf.levels + 1, np.uint8)
    if defs is not None:
        kernel.mark_levels(defs, present)
    table = np.zeros(leaf.levels + 1, np.uint16)
    layers: list[pb.RepDefLayer] = []
    level = following = max_visible = 0
    for node, nulls in zip(reversed(leaf.nodes), _nullable_layers(leaf, present), strict=True):
        if nulls:
            following += 1
            table[level + 1] = following
        if node.kind == LIST:
            empties = bool(present[level + 2])
            if empties:
                following += 1
                table[level + 2] = following
            layers.append(_LIST_LAYERS[nulls, empties])
        else:
            layers.append(pb.REPDEF_NULLABLE_ITEM if nulls else pb.REPDEF_ALL_VALID_ITEM)
        level += node.kind
        if level <= page.max_visible:
            max_visible = following
    if following == 0:
        defs = None
    elif defs is not None and (table != np.arange(len(table)))[present > 0].any():
        levels_kernel.renumber(defs, table)
    return replace(page, defs=defs, layers=tuple(layers), max_visible=max_visible)


def _nullable_layers(leaf: Leaf, present: Bytes) -> list[bool]:
    """Which layers the page declares nullable, innermost first: those with nulls, and two more for pylance's sake.

    It reads a list under a null struct as a null list, so lists inside nullable structs are nullable too. And it
    cannot join pages that differ in whether a struct between two lists may be null; so such structs always may."""
    nodes = leaf.nodes[::-1]
    found, level = [], 0
    for node in nodes:
        nulls = bool(present[level + 1])
        if nulls and not node.field.nullable:
            raise UnfitData(
                f"Column '{leaf.path}' is declared as non-nullable but contains null values (in '{node.field.name}'); "
                "declare the field nullable or fill the nulls"
            )
        found.append(nulls)
        level += node.kind
    lists = 0
    for depth, node in enumerate(nodes):
        lists += node.kind == LIST
        if node.kind == ITEM and node.field.nullable and 0 < lists < leaf.lists:
            found[depth] = True
    within = -1
    for depth, node in enumerate(nodes):
        if node.kind == LIST:
            within = depth
        elif within >= 0 and found[depth]:
            found[within] = True
    return found


def _validity(array: pa.Array) -> tuple[Bytes, int]:
    """The validity bitmap and the bit where the array starts; empty when nothing is null."""
    if len(array) == 0 or array.null_count == 0:
        return _NO_BITS, 0
    if pa.types.is_null(array.type):
        return np.zeros((len(array) + 7) // 8, np.uint8), 0
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        return np.packbits(numpy_array(array.is_valid()), bitorder="little"), 0
    return np.frombuffer(array.buffers()[0], np.uint8), array.offset


def _items(
    array: pa.Array, defs: Levels, open_up_to: int, bits: Bytes, first: int, offsets: Offsets, items: int
) -> pa.Array:
    """The items of the lists that count; those under null lists and structs are left out."""
    start, stop = int(offsets[0]), int(offsets[-1])
    if items == stop - start:
        return array.values.slice(start, items)
    kept = np.zeros(len(offsets) - 1, np.int64)
    kernel.list_totals(defs, open_up_to, bits, first, offsets, kept)
    return keep_rows(array.values.slice(start, stop - start), pa.array(np.repeat(kept > 0, np.diff(offsets))))
