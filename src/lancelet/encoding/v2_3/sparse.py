"""Pages with a sparse structure (docs/format-notes.md, "File version 2.3").

::

    buffers   those of the values | one for each sequence of the structure that takes bytes,
              outermost layer first, in a list layer: positions, sizes, nulls

Chunked values have a slot for each leaf slot, null or not; zipped ones only for those
that are not null and lie in nothing that is. Neither has levels of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lancelet.encoding.fetch import gather
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Ranges, RowIndices, RowRange, Rows
from lancelet.encoding.v2_1.constant import ConstantPage, check_memory, zero_slots
from lancelet.encoding.v2_1.fullzip import FullZipPage
from lancelet.encoding.v2_1.levels import ITEM, LIST
from lancelet.encoding.v2_1.miniblock import MiniBlockPage, MiniBlockRun, Recipe
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder, PageRows
from lancelet.encoding.v2_3.null_items import NullItemsPage
from lancelet.encoding.v2_3.structure import (
    EvenNumbers,
    FixedSizeListLayer,
    ItemLayer,
    Layer,
    ListedNumbers,
    ListLayer,
    Mask,
    Numbers,
    Selection,
    Slots,
    SparseLayers,
    Validity,
)
from lancelet.encoding.v2_3.translate import chunked_layout, holds_nothing, unknown, zipped_layout
from lancelet.encoding.words import LARGEST, decode_words, one_piece, takes_bytes
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.proto import encodings23_pb2 as planar_pb

_MAX_SLOTS = 2**40
_ENTRY_BYTES = 16
"""Memory that a level entry takes while it is made."""
_PLAIN = [pb.REPDEF_ALL_VALID_ITEM]


class SparsePage:
    """Decoder of one sparse page."""

    __slots__ = ("_context", "_leaf_slots", "_loaded", "_messages", "_rows_each", "_sequences", "_stored", "_values")

    def __init__(self, layout: planar_pb.PlanarLayout, context: PageContext) -> None:
        self._context = context
        self._messages = tuple(layout.structure.sparse.layers)
        self._rows_each = _check_layers(self._messages, context)
        self._sequences = [codec for layer in self._messages for codec in _sequences(layer) if takes_bytes(codec)]
        if len(self._sequences) > len(context.sizes):
            raise context.place.corrupt(f"a structure of {len(self._sequences)} buffers in {len(context.sizes)}")
        self._leaf_slots = context.rows
        for layer in self._messages:
            if layer.WhichOneof("kind") == "list":
                self._leaf_slots = int(layer.list.child_slots)
        if self._leaf_slots > _MAX_SLOTS:
            raise context.place.corrupt(f"{self._leaf_slots} slots in a page")
        zipped = layout.values.WhichOneof("kind") == "zipped"
        self._stored = int(layout.values.zipped.num_items) if zipped else None
        self._values = self._open_values(layout.values)
        self._loaded: tuple[SparseLayers, Validity] | None = None

    @property
    def nbytes(self) -> int:
        own = self._loaded[0].nbytes + self._loaded[1].positions.nbytes if self._loaded is not None else 0
        return own + (self._values.nbytes if self._values is not None else 0)

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        place = self._context.place
        loaded = self._loaded
        if loaded is None:
            loaded = self._loaded = yield from self._load()
        structure, present = loaded
        check_memory(len(rows) * _ENTRY_BYTES, place)
        selection = structure.select(self._slots_of(rows), place)
        values = yield from self._read_values(selection, present)
        return PageRows(selection.entries, values)

    def _slots_of(self, rows: Rows) -> Slots:
        """Rows as slots of the outermost layer; elements of a fixed-size list come in whole lists."""
        each, place = self._rows_each, self._context.place
        if isinstance(rows, RowRange):
            starts, stops = np.array([rows.start], np.int64), np.array([rows.stop], np.int64)
            if each > 1 and (rows.start % each or rows.stop % each):
                raise place.corrupt(f"lists of {each} items do not agree with the schema")
            return Slots(starts // each, stops // each)
        values = rows.values
        if each > 1:
            firsts = values[::each]
            if len(values) % each or (values.reshape(-1, each) - firsts[:, None] != np.arange(each)).any():
                raise place.corrupt(f"lists of {each} items do not agree with the schema")
            if (firsts % each).any():
                raise place.corrupt(f"lists of {each} items do not agree with the schema")
            values = firsts // each
        first = np.concatenate(([True], values[1:] != values[:-1] + 1))
        starts = values[first]
        return Slots(starts, np.append(values[np.flatnonzero(first)[1:] - 1], values[-1]) + 1)

    def _load(self) -> Generator[Ranges, list[Bytes], tuple[SparseLayers, Validity]]:
        """Decode the structure and check that its layers agree; also the leaf slots that have a value."""
        context, place = self._context, self._context.place
        first = len(context.sizes) - len(self._sequences)
        buffers = iter((yield from gather([context.buffer(index) for index in range(first, len(context.sizes))])))
        slots = context.rows // self._rows_each
        layers: list[Layer] = []
        for message in self._messages:
            match message.WhichOneof("kind"):
                case "item":
                    layers.append(ItemLayer(_validity(message.item, slots, buffers, place)))
                case "fixed_size_list":
                    size = int(message.fixed_size_list.size)
                    layers.append(
                        FixedSizeListLayer(_validity(message.fixed_size_list.validity, slots, buffers, place), size)
                    )
                    slots *= size
                case "list":
                    layers.append(_list(message.list, slots, buffers, place))
                    slots = int(message.list.child_slots)
        structure = SparseLayers(tuple(layers))
        return structure, self._present(structure)

    def _present(self, structure: SparseLayers) -> Validity:
        """The leaf slots that zipped values are for."""
        leaf, place = structure.layers[-1].validity, self._context.place
        if self._stored is None or leaf.valid(self._leaf_slots) == self._stored:
            return leaf
        # The leaf may call slots valid that lie in a null fixed-size list.
        check_memory(self._context.rows * _ENTRY_BYTES, place)
        whole = structure.select(self._slots_of(RowRange(0, self._context.rows)), place)
        nulls = np.zeros(whole.slots.count, bool) if whole.nulls is None else whole.nulls
        slots = np.flatnonzero(~nulls)
        if len(slots) != self._stored:
            raise place.corrupt(f"{self._stored} values for {len(slots)} slots")
        return Validity(ListedNumbers(slots, np.zeros(1, np.int64)), lists_nulls=False)

    def _open_values(self, values: planar_pb.Values) -> PageDecoder | None:
        """The decoder of the values alone: a page of as many rows as there are values, without levels."""
        count = len(self._context.sizes) - len(self._sequences)
        inner = replace(
            self._context,
            offsets=self._context.offsets[:count],
            sizes=self._context.sizes[:count],
            rows=self._leaf_slots,
            kinds=(ITEM,),
        )
        place = inner.place
        match values.WhichOneof("kind"):
            case "chunked":
                if values.chunked.HasField("levels") or values.chunked.num_items not in (0, self._leaf_slots):
                    raise place.unsupported("a sparse page whose values have levels is not known")
                mini = chunked_layout(values.chunked)
                mini.num_items = self._leaf_slots
                mini.layers.extend(_PLAIN)
                return MiniBlockRun((MiniBlockPage(mini, inner, 0),), Recipe.of(mini, inner.kinds, place))
            case "zipped":
                zipped = values.zipped
                if zipped.HasField("levels") or zipped.num_items != zipped.num_visible_items:
                    raise place.unsupported("a sparse page whose values have levels is not known")
                full = zipped_layout(zipped)
                full.layers.extend(_PLAIN)
                inner = replace(inner, rows=int(zipped.num_items))
                return NullItemsPage(full, inner) if holds_nothing(zipped.values) else FullZipPage(full, inner)
            case "constant":
                return ConstantPage(pb.ConstantLayout(layers=_PLAIN, inline_value=values.constant.scalar), inner)
            case "none":
                return None
            case _:
                raise unknown("kind of values", place)

    def _read_values(self, selection: Selection, present: Validity) -> Generator[Ranges, list[Bytes], pa.Array]:
        """The values of the leaf slots; anything under nulls."""
        place, dtype, slots, nulls = self._context.place, self._context.dtype, selection.slots, selection.nulls
        count = slots.count
        if self._values is None:
            plain = pa.types.is_null(dtype) or (pa.types.is_struct(dtype) and dtype.num_fields == 0)
            if not plain and count and (nulls is None or not nulls.all()):
                raise place.corrupt("slots that are not null in a page without values")
            check_memory(count * _ENTRY_BYTES, place)
            return zero_slots(dtype, count)
        if count == 0 or (self._stored is not None and nulls is not None and nulls.all()):
            return zero_slots(dtype, count)
        if self._stored is None:
            return (yield from self._values.read(_rows(slots))).values
        stored = Slots(present.valid_before(slots.starts), present.valid_before(slots.stops))
        expected = count if nulls is None else count - int(np.count_nonzero(nulls))
        if stored.count != expected:
            raise place.corrupt(f"{stored.count} values for {expected} slots")
        values = (yield from self._values.read(_rows(stored))).values
        return values if nulls is None else _spread(values, nulls)


def _rows(slots: Slots) -> Rows:
    if len(slots.starts) == 1:
        return RowRange(int(slots.starts[0]), int(slots.stops[0]))
    return RowIndices(slots.numbers())


def _spread(values: pa.Array, nulls: Mask) -> pa.Array:
    """Put the values into the slots that are not null."""
    at = np.cumsum(~nulls) - 1
    return pick_rows(values, pa.array(np.maximum(at, 0), mask=nulls))


def _check_layers(messages: tuple[planar_pb.SparseLayer, ...], context: PageContext) -> int:
    """Match the layers with the schema's; gives the elements that a row has in fixed-size lists."""
    place, kinds, each = context.place, [], 1
    for layer in messages:
        match layer.WhichOneof("kind"):
            case "item":
                kinds.append(ITEM)
            case "list":
                kinds.append(LIST)
            case "fixed_size_list":
                kinds.append(ITEM)
                each *= int(layer.fixed_size_list.size)
            case _:
                raise unknown("layer", place)
    if tuple(reversed(kinds)) != context.kinds or messages[-1].WhichOneof("kind") != "item":
        raise place.corrupt("the layers of nesting are not those of the field")
    if not 1 <= each <= _MAX_SLOTS or context.rows % each or (each > 1 and LIST in kinds):
        raise place.corrupt(f"{context.rows} elements in fixed-size lists of {each}")
    return each


def _sequences(layer: planar_pb.SparseLayer) -> Iterator[pb.CompressiveEncoding]:
    """The sequences of a layer in the order of their buffers."""
    match layer.WhichOneof("kind"):
        case "item":
            yield layer.item.positions
        case "fixed_size_list":
            yield layer.fixed_size_list.validity.positions
        case "list":
            yield layer.list.positions
            yield layer.list.sizes
            yield layer.list.validity.positions


def _validity(message: planar_pb.Validity, slots: int, buffers: Iterator[Bytes], place: Place) -> Validity:
    if message.meaning not in (planar_pb.MEANING_NULL, planar_pb.MEANING_VALID):
        raise unknown("meaning of a set of slots", place)
    positions = _numbers(message.positions, int(message.count), slots, buffers, place)
    positions.check_rising(slots, place)
    return Validity(positions, message.meaning == planar_pb.MEANING_NULL)


def _list(message: planar_pb.SparseList, slots: int, buffers: Iterator[Bytes], place: Place) -> ListLayer:
    count = int(message.count)
    positions = _numbers(message.positions, count, slots, buffers, place)
    positions.check_rising(slots, place)
    sizes = _numbers(message.sizes, count, slots, buffers, place).summed(place)
    sizes.check_sum(int(message.child_slots), place)
    return ListLayer(_validity(message.validity, slots, buffers, place), positions, sizes)


def _numbers(codec: pb.CompressiveEncoding, count: int, slots: int, buffers: Iterator[Bytes], place: Place) -> Numbers:
    """One sequence of the structure; those that are evenly spaced are not written out."""
    if count > slots:
        raise place.corrupt(f"{count} of {slots} slots")
    match codec.WhichOneof("compression"):
        case "constant":
            start, step = int.from_bytes(codec.constant.value, "little"), 0
            if count and len(codec.constant.value) != 8:
                raise place.corrupt(f"a number of {len(codec.constant.value)} bytes")
        case "range":
            start, step = int(codec.range.start), int(codec.range.step)
        case _:
            data = next(buffers) if takes_bytes(codec) else np.empty(0, np.uint8)
            words = decode_words(codec, one_piece(data), np.array([count], np.int64), place)
            if len(words) and int(words.max()) >= LARGEST:
                raise place.corrupt("a position or size that is too large")
            return ListedNumbers(words.astype(np.int64), np.zeros(1, np.int64))
    if start >= LARGEST or step >= LARGEST:
        raise place.corrupt("a position or size that is too large")
    return EvenNumbers(start, step, count)
