"""Values inside of JSON columns: found by their path, and taken out as Arrow arrays.

JSONB is looked at as it is stored; no value becomes a Python object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.assemble import pack_validity, variable_array
from lancelet.encoding.jsonb import REASONS, decode_jsonb, encode_jsonb, pieces
from lancelet.encoding.jsonb_paths import JsonPath
from lancelet.encoding.kernels import jsonb_items, jsonb_select
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices
from lancelet.errors import InvalidInput

_NO_BYTES: Final = np.empty(0, np.uint8)
_PLACE: Final = Place("JSON", "value")
_TAGS: Final = ("null", "boolean", "integer", "number", "text", "array", "object")


@dataclass(frozen=True, slots=True)
class Selection:
    """What a path leads to in each row."""

    path: JsonPath
    data: Bytes
    ends: Indices
    """Where the items of each row begin, and those of the last end."""
    kinds: Bytes
    starts: Indices
    sizes: Indices

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """The rows in which there is something."""
        found: npt.NDArray[np.bool_] = (
            self.kinds != jsonb_select.NOTHING if self.path.is_single else np.diff(self.ends) > 0
        )
        return found

    def one(self) -> Selection:
        """The same with one item for each row: several become an array."""
        if self.path.is_single:
            return self
        stored, offsets = self._stored()
        everything = replace(self.path, code=np.zeros(1, np.int64), names=_NO_BYTES, is_single=True, is_test=False)
        return _located(everything, stored, offsets, self.found.view(np.uint8))

    def first(self) -> Selection:
        """The same with the first item of each row."""
        if self.path.is_single:
            return self
        at = np.minimum(self.ends[:-1], max(len(self.kinds) - 1, 0))
        some = self.found
        if not len(self.kinds):
            kinds = np.full(len(self), jsonb_select.NOTHING, np.uint8)
            starts = sizes = np.zeros(len(self), np.int64)
        else:
            kinds = np.where(some, self.kinds[at], np.uint8(jsonb_select.NOTHING))
            starts, sizes = self.starts[at], self.sizes[at]
        return Selection(replace(self.path, is_single=True), self.data, np.arange(len(self) + 1), kinds, starts, sizes)

    def stored(self) -> pa.Array:
        """JSONB of each row's value, as large binary."""
        data, offsets = self._stored()
        return variable_array(pa.large_binary(), offsets, data, pack_validity(self.found), _PLACE)

    def json(self) -> pa.Array:
        """The same as JSON text."""
        return decode_jsonb(self.stored())

    def _stored(self) -> tuple[Bytes, Indices]:
        offsets = np.zeros(len(self) + 1, np.int64)
        data = jsonb_items.gather(self.data, self.ends, self.kinds, self.starts, self.sizes, offsets)
        return np.frombuffer(data, np.uint8), offsets

    def integers(self) -> pa.Array:
        """Values as 64-bit integers, floats rounded to the nearest; texts are read."""
        values, valid = np.empty(len(self), np.int64), np.empty(len(self), np.uint8)
        one = self.one()
        self._check(jsonb_items.integers(one.data, one.kinds, one.starts, one.sizes, values, valid), "an integer")
        return pa.array(values, mask=valid == 0)

    def floats(self) -> pa.Array:
        """Values as doubles; texts are read."""
        values, valid = np.empty(len(self), np.float64), np.empty(len(self), np.uint8)
        one = self.one()
        self._check(jsonb_items.floats(one.data, one.kinds, one.starts, one.sizes, values, valid), "a number")
        return pa.array(values, mask=valid == 0)

    def truths(self) -> pa.Array:
        """Values as true or false."""
        values, valid = np.empty(len(self), np.uint8), np.empty(len(self), np.uint8)
        one = self.one()
        self._check(jsonb_items.truths(one.data, one.kinds, one.starts, one.sizes, values, valid), "true or false")
        return pa.array(values.view(np.bool_), mask=valid == 0)

    def texts(self) -> pa.Array:
        """Values as text, without quotes."""
        offsets, valid = np.zeros(len(self) + 1, np.int64), np.empty(len(self), np.uint8)
        one = self.one()
        data, wrong, reason = jsonb_items.texts(one.data, one.kinds, one.starts, one.sizes, offsets, valid)
        self._check((wrong, reason), "a text")
        return variable_array(pa.string(), offsets, np.frombuffer(data, np.uint8), pack_validity(valid != 0), _PLACE)

    def tags(self) -> Bytes:
        """0 null or nothing, 1 boolean, 2 integer of 64 bits, 3 another number, 4 text, 5 array, 6 object."""
        tags = np.empty(len(self), np.uint8)
        one = self.one()
        self._check(jsonb_items.type_tags(one.data, one.kinds, one.starts, one.sizes, tags), "JSON")
        return tags

    def array_sizes(self) -> pa.Array:
        """How many elements the first value has; 0 for what is no array."""
        first = self.first()
        sizes = np.empty(len(self), np.int64)
        jsonb_items.array_sizes(first.data, first.kinds, first.starts, first.sizes, sizes)
        return pa.array(sizes, mask=~first.found)

    def arrays_with(self, text: str) -> npt.NDArray[np.bool_]:
        """Rows with an array of which an element has this JSON text, or is this text."""
        marks = np.empty(len(self), np.uint8)
        wanted = np.frombuffer(text.encode(), np.uint8)
        found = jsonb_items.arrays_with(self.data, self.ends, self.kinds, self.starts, self.sizes, wanted, marks)
        self._check(found, "JSON")
        return marks.view(np.bool_)

    def _check(self, result: tuple[int, int], wanted: str) -> None:
        row, reason = result
        if row < 0:
            return
        if reason != jsonb_items.UNFIT:
            raise _not_jsonb(row, reason)
        one = self.one()
        value = one.json()[row].as_py()
        shown = value if len(value) <= 40 else value[:40] + "..."
        raise InvalidInput(
            f"the value at {self.path.text!r} of row {row} is {_TAGS[int(one.tags()[row])]} {shown}, "
            f"which cannot be taken for {wanted}; json_extract shows any value"
        )


def select(values: pa.Array, path: JsonPath) -> Selection:
    """Follow a path in each row of JSONB: binary values, of which nulls have nothing."""
    offsets, data = pieces(values)
    valid = np.asarray(values.is_valid()).view(np.uint8) if values.null_count else _NO_BYTES
    if path.is_single:
        return _located(path, data, offsets, valid)
    ends = np.zeros(len(values) + 1, np.int64)
    kinds, starts, sizes, wrong, reason = jsonb_select.collect(
        data, offsets, valid, path.code, path.names, path.is_test, ends
    )
    if wrong >= 0:
        raise _not_jsonb(wrong, reason)
    return Selection(
        path,
        data,
        ends,
        np.frombuffer(kinds, np.uint8),
        np.frombuffer(starts, np.int64),
        np.frombuffer(sizes, np.int64),
    )


def _located(path: JsonPath, data: Bytes, offsets: Indices, valid: Bytes) -> Selection:
    count = len(offsets) - 1
    kinds, starts, sizes = np.empty(count, np.uint8), np.empty(count, np.int64), np.empty(count, np.int64)
    wrong, reason = jsonb_select.locate(data, offsets, valid, path.code, path.names, kinds, starts, sizes)
    if wrong >= 0:
        raise _not_jsonb(wrong, reason)
    return Selection(path, data, np.arange(count + 1), kinds, starts, sizes)


def _not_jsonb(row: int, reason: int) -> InvalidInput:
    return InvalidInput(f"value {row} is not JSONB: {REASONS[reason]}")


def in_form(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """An array with its JSON, at any depth, in the form that a type asks for: text, or JSONB in large binary.

    Other differences are left for others to find.
    """
    have = array.type
    if have == dtype:
        return array
    if pa.types.is_large_binary(have) and pa.types.is_string(dtype):
        return decode_jsonb(array)
    if pa.types.is_large_binary(dtype) and (pa.types.is_string(have) or pa.types.is_large_string(have)):
        return encode_jsonb(array)
    if pa.types.is_struct(have) and pa.types.is_struct(dtype) and have.num_fields == dtype.num_fields:
        children = [in_form(array.field(i), dtype.field(i).type) for i in range(dtype.num_fields)]
        mask = array.is_null() if array.null_count else None
        fields = [dtype.field(i).with_type(child.type) for i, child in enumerate(children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if have.id == dtype.id and have.num_fields == 1:
        # Offsets refer to all values, so the values are taken with the list's own offset left in place.
        values = in_form(array.values, dtype.value_type)
        fixed = pa.types.is_fixed_size_list(dtype)
        kind = _list_of(dtype, values.type)
        return pa.Array.from_buffers(
            kind, len(array), array.buffers()[: 1 if fixed else 2], array.null_count, array.offset, children=[values]
        )
    return array


def _list_of(dtype: pa.DataType, value: pa.DataType) -> pa.DataType:
    field = dtype.value_field.with_type(value)
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(field, dtype.list_size)
    return pa.large_list(field) if pa.types.is_large_list(dtype) else pa.list_(field)
