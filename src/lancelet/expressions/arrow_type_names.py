"""The names of Arrow types, as ``arrow_cast`` takes them and ``arrow_typeof`` gives them.

::

    Int32  Utf8View  Timestamp(Microsecond, None)  Timestamp(µs, "UTC")  Decimal128(10, 2)
    List(Int64)  List(non-null Int64, field: 'element')  FixedSizeList(32 x Float32)
    Struct("a": Int32, "b": non-null Utf8)  Map("entries": Struct("key": Utf8, "value": Int8), unsorted)
    Dictionary(Int32, Utf8)  RunEndEncoded("run_ends": Int32, "values": Utf8)  Interval(MonthDayNano)
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from lancelet.errors import InvalidInput

__all__ = ["arrow_name", "parse_arrow_name"]

_TYPES: dict[str, pa.DataType] = {
    "Null": pa.null(),
    "Boolean": pa.bool_(),
    "Int8": pa.int8(),
    "Int16": pa.int16(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "UInt8": pa.uint8(),
    "UInt16": pa.uint16(),
    "UInt32": pa.uint32(),
    "UInt64": pa.uint64(),
    "Float16": pa.float16(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Utf8View": pa.string_view(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "BinaryView": pa.binary_view(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_SHORT_UNITS = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns"}
_UNITS = {
    **{name: name for name in ("s", "ms", "us", "ns")},
    "µs": "us",
    "Second": "s",
    "Millisecond": "ms",
    "Microsecond": "us",
    "Nanosecond": "ns",
}
_TOKEN = re.compile(r"\s*(?:([A-Za-zµ][\w-]*)|(-?\d+)|\"([^\"]*)\"|'([^']*)'|([(),:]))")
_DECIMALS: dict[str, Callable[[int, int], pa.DataType]] = {
    "Decimal32": pa.decimal32,
    "Decimal64": pa.decimal64,
    "Decimal128": pa.decimal128,
    "Decimal256": pa.decimal256,
}
_LISTS: dict[str, Callable[[pa.Field], pa.DataType]] = {
    "List": pa.list_,
    "LargeList": pa.large_list,
    "ListView": pa.list_view,
    "LargeListView": pa.large_list_view,
}
_CLOCKS: dict[str, Callable[[str], pa.DataType]] = {
    "Time32": pa.time32,
    "Time64": pa.time64,
    "Duration": pa.duration,
}
_DEEPEST = 50


def parse_arrow_name(text: str) -> pa.DataType:
    """The type that ``arrow_cast`` means by ``text``."""
    reading = _Reading(text)
    try:
        kind = reading.type(0)
        reading.end()
    except (ValueError, OverflowError, TypeError, pa.ArrowException) as error:
        reason = f" ({error})" if str(error) else ""
        raise InvalidInput(
            f"arrow_cast() knows no type {text!r}{reason}; an example is 'Timestamp(Microsecond, None)'"
        ) from None
    return kind


class _Reading:
    """A walk over the words of a type's name; ValueError says where it makes no sense."""

    def __init__(self, text: str) -> None:
        self._words: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                self._words.append(("?", text[at:]))
                break
            kinds = ("name", "number", "text", "text", "mark")
            kind = kinds[(match.lastindex or 1) - 1]
            self._words.append((kind, match[match.lastindex or 1]))
            at = match.end()
        self._at = 0

    def _next(self, kind: str, word: str | None = None) -> str:
        if self._at >= len(self._words):
            raise ValueError("it ends too early")
        found, text = self._words[self._at]
        if found != kind or (word is not None and text != word):
            raise ValueError(f"unexpected {text!r}")
        self._at += 1
        return text

    def _is(self, kind: str, *words: str) -> bool:
        if self._at >= len(self._words):
            return False
        found, text = self._words[self._at]
        return found == kind and (not words or text in words)

    def _skip(self, kind: str, *words: str) -> bool:
        if self._is(kind, *words):
            self._at += 1
            return True
        return False

    def end(self) -> None:
        if self._at < len(self._words):
            raise ValueError(f"unexpected {self._words[self._at][1]!r}")

    def type(self, depth: int) -> pa.DataType:
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        name = self._next("name")
        if name in _TYPES:
            return _TYPES[name]
        self._next("mark", "(")
        kind = self._parametric(name, depth + 1)
        self._next("mark", ")")
        return kind

    def _parametric(self, name: str, depth: int) -> pa.DataType:
        if name in _CLOCKS:
            return _CLOCKS[name](self._unit())
        if name in _DECIMALS:
            precision = int(self._next("number"))
            self._next("mark", ",")
            return _DECIMALS[name](precision, int(self._next("number")))
        if name in _LISTS:
            return _LISTS[name](self._item(depth))
        others: dict[str, Callable[[int], pa.DataType]] = {
            "Timestamp": self._timestamp,
            "Interval": self._interval,
            "Dictionary": self._dictionary,
            "FixedSizeBinary": self._fixed_size_binary,
            "FixedSizeList": self._fixed_size_list,
            "Struct": self._struct,
            "Map": self._map,
            "RunEndEncoded": self._run_end_encoded,
        }
        if name not in others:
            raise ValueError(f"unexpected {name!r}")
        return others[name](depth)

    def _unit(self) -> str:
        name = self._next("name")
        if name not in _UNITS:
            raise ValueError(f"unexpected {name!r}")
        return _UNITS[name]

    def _timestamp(self, depth: int) -> pa.DataType:
        unit = self._unit()
        if not self._skip("mark", ",") or self._skip("name", "None"):
            return pa.timestamp(unit)
        if self._skip("name", "Some"):
            self._next("mark", "(")
            zone = self._next("text")
            self._next("mark", ")")
        else:
            zone = self._next("text")
        return pa.timestamp(unit, zone)

    def _interval(self, depth: int) -> pa.DataType:
        name = self._next("name")
        if name != "MonthDayNano":
            raise ValueError("of intervals, pyarrow has MonthDayNano alone")
        return pa.month_day_nano_interval()

    def _dictionary(self, depth: int) -> pa.DataType:
        index = self.type(depth)
        self._next("mark", ",")
        values = self.type(depth)
        if not pa.types.is_integer(index):
            raise ValueError("a dictionary is indexed by integers")
        return pa.dictionary(index, values)

    def _fixed_size_binary(self, depth: int) -> pa.DataType:
        return pa.binary(_size(self._next("number")))

    def _fixed_size_list(self, depth: int) -> pa.DataType:
        """``2 x Float32``, or ``2, Float32`` as older ones write."""
        size = _size(self._next("number"))
        if not self._skip("name", "x"):
            self._next("mark", ",")
        return pa.list_(self._item(depth), size)

    def _item(self, depth: int) -> pa.Field:
        nullable = self._nullable()
        kind = self.type(depth)
        name = "item"
        if self._skip("mark", ","):
            self._next("name", "field")
            self._next("mark", ":")
            name = self._next("text")
        return pa.field(name, kind, nullable)

    def _nullable(self) -> bool:
        if self._skip("name", "non-null"):
            return False
        self._skip("name", "nullable")
        return True

    def _field(self, depth: int) -> pa.Field:
        name = self._next("text")
        self._next("mark", ":")
        nullable = self._nullable()
        return pa.field(name, self.type(depth), nullable)

    def _struct(self, depth: int) -> pa.DataType:
        fields: list[pa.Field] = []
        while self._is("text"):
            fields.append(self._field(depth))
            if not self._skip("mark", ","):
                break
        return pa.struct(fields)

    def _map(self, depth: int) -> pa.DataType:
        entries = self._field(depth)
        self._next("mark", ",")
        ordered = self._next("name")
        if (
            ordered not in ("sorted", "unsorted")
            or not pa.types.is_struct(entries.type)
            or entries.type.num_fields != 2
        ):
            raise ValueError("a map has entries of two fields and is sorted or unsorted")
        key, value = entries.type
        return pa.map_(key.with_nullable(False), value, keys_sorted=ordered == "sorted")

    def _run_end_encoded(self, depth: int) -> pa.DataType:
        ends = self._field(depth)
        self._next("mark", ",")
        return pa.run_end_encoded(ends.type, self._field(depth).type)


def _size(text: str) -> int:
    size = int(text)
    if not 0 <= size < 2**31:
        raise ValueError(f"{size} is no size")
    return size


def arrow_name(kind: pa.DataType) -> str:
    """The name of a type as ``arrow_typeof`` gives it, which ``arrow_cast`` takes."""
    if kind in _NAMES:
        return _NAMES[kind]
    if isinstance(kind, pa.BaseExtensionType):
        return arrow_name(kind.storage_type)
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else f', "{kind.tz}"'
        return f"Timestamp({_SHORT_UNITS[kind.unit]}{zone})"
    if pa.types.is_time(kind):
        return f"Time{kind.bit_width}({_SHORT_UNITS[kind.unit]})"
    if pa.types.is_duration(kind):
        return f"Duration({_SHORT_UNITS[kind.unit]})"
    if pa.types.is_interval(kind):
        return "Interval(MonthDayNano)"
    if pa.types.is_decimal(kind):
        return f"Decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"FixedSizeBinary({kind.byte_width})"
    if pa.types.is_dictionary(kind):
        return f"Dictionary({arrow_name(kind.index_type)}, {arrow_name(kind.value_type)})"
    return _nested_name(kind)


def _nested_name(kind: pa.DataType) -> str:
    if pa.types.is_fixed_size_list(kind):
        return f"FixedSizeList({kind.list_size} x {_item_name(kind.value_field)})"
    if pa.types.is_struct(kind):
        return f"Struct({', '.join(_field_name(field) for field in kind)})"
    if pa.types.is_map(kind):
        fields = f"{_field_name(kind.key_field)}, {_field_name(kind.item_field)}"
        return f'Map("entries": non-null Struct({fields}), {"sorted" if kind.keys_sorted else "unsorted"})'
    if pa.types.is_run_end_encoded(kind):
        return f'RunEndEncoded("run_ends": {arrow_name(kind.run_end_type)}, "values": {arrow_name(kind.value_type)})'
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)
    for name, test in zip(_LISTS, tests, strict=True):
        if test(kind):
            return f"{name}({_item_name(kind.value_field)})"
    return str(kind)


def _item_name(field: pa.Field) -> str:
    named = "" if field.name == "item" else f", field: '{field.name}'"
    return f"{'' if field.nullable else 'non-null '}{arrow_name(field.type)}{named}"


def _field_name(field: pa.Field) -> str:
    return f'"{field.name}": {"" if field.nullable else "non-null "}{arrow_name(field.type)}'
