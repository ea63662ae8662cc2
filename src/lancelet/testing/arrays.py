"""Random Arrow arrays of any type, in the shapes that decide how a page is encoded.

    pattern    what the values look like                   what it provokes
    random     all different                               flat, FSST
    sorted     ascending where the type has an order        bit packing, delta
    constant   one value                                    constant pages
    low        a handful of values, in any order            dictionaries
    runs       a handful of values in runs of 1 to 600      run lengths (past 255 too)

Nulls are drawn at every level of a nested type. Values include the awkward
ones: NaN, -0.0, infinities, extremes of a type, empty strings and lists.
"""

from __future__ import annotations

import json
import string
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.runtime import compute as pc

__all__ = ["PATTERNS", "NullShare", "Pattern", "random_array"]

Pattern = Literal["random", "sorted", "constant", "low", "runs"]
NullShare = Literal["none", "some", "all"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)

_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_LETTERS = np.frombuffer((string.ascii_letters + string.digits + " _-").encode(), np.uint8)


def random_array(
    kind: pa.DataType,
    length: int,
    seed: int = 0,
    *,
    pattern: Pattern = "random",
    nulls: NullShare = "none",
    null_structs: bool = True,
    text_bytes: int = 12,
) -> pa.Array:
    """Draw ``length`` values of type ``kind``; the same arguments give the same array.

    Parameters
    ----------
    kind
        Any Arrow type that Lance can hold, nested or not.
    null_structs
        Whether structs themselves may be null (file version 2.0 cannot hold that).
    text_bytes
        The longest string or binary value.

    Examples
    --------
    >>> import pyarrow as pa
    >>> random_array(pa.int8(), 4, pattern="constant").null_count
    0
    """
    if kind in _VIEWS:
        plain = random_array(
            _VIEWS[kind], length, seed, pattern=pattern, nulls=nulls, null_structs=null_structs, text_bytes=text_bytes
        )
        return plain.cast(kind)
    draw = _Draw(np.random.default_rng(seed), 0.3 if nulls == "some" else 0.0, null_structs, text_bytes)
    if nulls == "all":
        if pa.types.is_struct(kind) and not null_structs:
            return draw.struct(kind, length, all_null=True)
        return pa.nulls(length, kind)
    if pattern == "random" or length == 0:
        return draw.nullable(kind, length)
    if pattern == "sorted":
        values = draw.values(kind, length)
        values = values.take(pc.array_sort_indices(values)) if _has_order(kind) else values
        picks = np.arange(length)
    elif pattern == "runs":
        values = draw.values(kind, min(length, 9))
        steps = draw.rng.choice([1, 2, 17, 60, 255, 256, 600], length)
        picks = np.repeat(draw.rng.integers(0, len(values), length), steps)[:length]
    else:
        values = draw.values(kind, 1 if pattern == "constant" else min(length, 7))
        picks = draw.rng.integers(0, len(values), length)
    return draw.with_nulls(values, picks)


def _has_order(kind: pa.DataType) -> bool:
    nested = pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind)
    return not (nested or isinstance(kind, pa.BaseExtensionType) or pa.types.is_float16(kind))


class _Draw:
    """One source of randomness and the shares that hold all the way down a nested type."""

    __slots__ = ("null_share", "null_structs", "rng", "text_bytes")

    def __init__(self, rng: np.random.Generator, null_share: float, null_structs: bool, text_bytes: int) -> None:
        self.rng = rng
        self.null_share = null_share
        self.null_structs = null_structs
        self.text_bytes = text_bytes

    def nullable(self, kind: pa.DataType, length: int) -> pa.Array:
        return self.with_nulls(self.values(kind, length), np.arange(length))

    def with_nulls(self, values: pa.Array, picks: npt.NDArray[np.int64]) -> pa.Array:
        """``values[picks]`` with a share of nulls on top."""
        if not self.null_share or (pa.types.is_struct(values.type) and not self.null_structs):
            return values.take(pa.array(picks)) if len(picks) else values
        hidden = self.rng.random(len(picks)) < self.null_share
        return values.take(pa.array(picks, pa.int64(), mask=hidden))

    def values(self, kind: pa.DataType, length: int) -> pa.Array:
        """Values of a type, without nulls of its own (its children may hold some)."""
        types = pa.types
        if isinstance(kind, pa.JsonType):
            return self.json(kind, length)
        if isinstance(kind, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(kind, self.values(kind.storage_type, length))
        if types.is_null(kind):
            return pa.nulls(length)
        if types.is_struct(kind):
            return self.struct(kind, length)
        if types.is_map(kind):
            return self.map(kind, length)
        if types.is_fixed_size_list(kind):
            items = self.nullable(kind.value_type, length * kind.list_size)
            return pa.FixedSizeListArray.from_arrays(items, type=kind)
        if types.is_list(kind) or types.is_large_list(kind):
            offsets = self._offsets(length, 6)
            items = self._field(kind.value_field, int(offsets[-1]))
            if types.is_large_list(kind):
                return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items, type=kind)
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=kind)
        if types.is_dictionary(kind):
            return self.dictionary(kind, length)
        if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            return self.text(kind, length)
        return self.fixed(kind, length)

    def _field(self, field: pa.Field, length: int) -> pa.Array:
        return self.nullable(field.type, length) if field.nullable else self.values(field.type, length)

    def struct(self, kind: Any, length: int, *, all_null: bool = False) -> pa.Array:
        if not kind.num_fields:
            return pa.array([{}] * length, kind)
        if all_null:
            nested = pa.types.is_struct
            children = [
                self.struct(f.type, length, all_null=True) if nested(f.type) else pa.nulls(length, f.type) for f in kind
            ]
        else:
            children = [self._field(field, length) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind))

    def map(self, kind: Any, length: int) -> pa.Array:
        offsets = self._offsets(length, 4)
        keys = self.values(kind.key_type, int(offsets[-1]))
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()), keys, self._field(kind.item_field, int(offsets[-1])), type=kind
        )

    def dictionary(self, kind: Any, length: int) -> pa.Array:
        distinct = min(20, max(length, 1))
        indices = pa.array(self.rng.integers(0, distinct, length), pa.int64()).cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, self.values(kind.value_type, distinct))

    def text(self, kind: pa.DataType, length: int) -> pa.Array:
        """Strings and binaries from 0 to ``text_bytes`` bytes, some of them not ASCII or not text at all."""
        offsets = self._offsets(length, self.text_bytes)
        total = int(offsets[-1])
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            data = _LETTERS[self.rng.integers(0, len(_LETTERS), total)]
            wide = np.flatnonzero((np.diff(offsets) >= 4) & (self.rng.random(length) < 0.05))
            for row in wide:
                data[offsets[row] : offsets[row] + 4] = np.frombuffer("🦀".encode(), np.uint8)
        else:
            data = self.rng.integers(0, 256, total, np.uint8)
        large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        ends = pa.py_buffer(offsets.astype(np.int64 if large else np.int32))
        return pa.Array.from_buffers(kind, length, [None, ends, pa.py_buffer(np.ascontiguousarray(data))])

    def json(self, kind: Any, length: int) -> pa.Array:
        """Documents, as text."""
        names = self.text(pa.string(), length).to_pylist()
        numbers = self.rng.integers(-1000, 1000, length).tolist()
        documents = [
            json.dumps({"name": name, "at": [number, None, number / 8], "in": {"ok": number > 0}})
            for name, number in zip(names, numbers, strict=True)
        ]
        return pa.ExtensionArray.from_storage(kind, pa.array(documents, kind.storage_type))

    def fixed(self, kind: Any, length: int) -> pa.Array:
        """Types whose values all have the same width."""
        types = pa.types
        if types.is_boolean(kind):
            return pa.array(self.rng.random(length) < 0.5, kind)
        if types.is_floating(kind):
            return self._float(kind, length)
        if types.is_decimal(kind):
            digits = min(kind.precision, 18)
            whole = pa.array(self.rng.integers(-(10**digits) + 1, 10**digits, length), pa.int64())
            bytes_wide = kind.bit_width // 8
            limbs = np.zeros((length, bytes_wide // 8), np.int64)
            limbs[:] = (whole.to_numpy() >> 63)[:, None]
            limbs[:, 0] = whole.to_numpy()
            return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(limbs)])
        if types.is_fixed_size_binary(kind):
            data = self.rng.integers(0, 256, length * kind.byte_width, np.uint8)
            return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(data)])
        if types.is_date64(kind):
            days = self.rng.integers(-100_000, 100_000, length) * _DAY["ms"]
            return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(days)])
        if types.is_time(kind):
            ticks = self.rng.integers(0, _DAY[kind.unit], length).astype(f"i{kind.bit_width // 8}")
            return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(ticks)])
        if types.is_temporal(kind):
            span = 2**31 if kind.bit_width == 32 else 2**55 if getattr(kind, "unit", "") != "s" else 2**34
            ticks = self.rng.integers(-span, span, length).astype(f"i{kind.bit_width // 8}")
            return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(ticks)])
        return self._integer(kind, length)

    def _integer(self, kind: pa.DataType, length: int) -> pa.Array:
        """Values of a random number of bits, the extremes of the type among them."""
        sign = "i" if pa.types.is_signed_integer(kind) else "u"
        width = np.dtype(f"{sign}{kind.bit_width // 8}")
        info = np.iinfo(width)
        bits = int(self.rng.integers(1, info.bits + 1))
        if bits < info.bits:
            low = -(1 << (bits - 1)) if info.min and self.rng.random() < 0.5 else 0
            return pa.array(self.rng.integers(low, low + (1 << bits), length, width), kind)
        data = self.rng.integers(info.min, info.max, length, width, endpoint=True)
        if length > 3:
            data[self.rng.choice(length, 2, replace=False)] = info.min, info.max
        return pa.array(data, kind)

    def _float(self, kind: pa.DataType, length: int) -> pa.Array:
        data = self.rng.standard_normal(length) * 10.0 ** self.rng.integers(-3, 4, length)
        data = data.astype(f"f{kind.bit_width // 8}")
        if length > 8:
            places = self.rng.choice(length, 6, replace=False)
            data[places] = [np.nan, -0.0, 0.0, np.inf, -np.inf, np.finfo(data.dtype).tiny]
        return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(data)])

    def _offsets(self, length: int, longest: int) -> npt.NDArray[np.int64]:
        offsets = np.zeros(length + 1, np.int64)
        np.cumsum(self.rng.integers(0, longest, length, endpoint=True), out=offsets[1:])
        return offsets
