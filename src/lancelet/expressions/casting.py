"""CAST and TRY_CAST over Arrow values, with the results that arrow-rs gives.

pyarrow's own casts are used where they agree. They differ from arrow-rs in how
floats and timestamps are written as text, in what text they accept, in
rounding decimals, and in the direction of cutting a timestamp to a coarser unit.
Casts from and to text work once per distinct value.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_type
from lancelet.errors import InvalidInput
from lancelet.expressions.coercion import DAY, TICKS, describe, is_bytes, is_list_like, is_number, is_text, value_type
from lancelet.expressions.literals import integer_range, parse_text, sized
from lancelet.runtime import compute as pc

__all__ = ["Datum", "can_cast", "cast_datum", "cast_may_fail"]

# Expressions are evaluated on arrays, and on scalars while no column is involved.
Datum: TypeAlias = "pa.Array | pa.Scalar"


def can_cast(origin: pa.DataType, kind: pa.DataType) -> bool:
    """Whether some value of ``origin`` can become one of ``kind``."""
    origin, kind = value_type(origin), value_type(kind)
    if origin == kind or pa.types.is_null(origin):
        return True
    if is_list_like(kind) or pa.types.is_list_view(kind):
        item = origin.value_type if is_list_like(origin) else origin
        return can_cast(item, kind.value_type) and (is_list_like(origin) or pa.types.is_list(kind))
    if pa.types.is_struct(origin) and pa.types.is_struct(kind):
        places = [origin.get_field_index(field.name) for field in kind]
        return all(
            at >= 0 and can_cast(origin.field(at).type, field.type) for at, field in zip(places, kind, strict=True)
        )
    if pa.types.is_interval(origin) or pa.types.is_interval(kind):
        return False
    if pa.types.is_nested(origin) or pa.types.is_nested(kind):
        return False
    if is_text(origin) or is_text(kind):
        return not (pa.types.is_duration(origin) or pa.types.is_duration(kind))
    if is_bytes(origin) or is_bytes(kind):
        return is_bytes(origin) and is_bytes(kind)
    if pa.types.is_boolean(origin) or pa.types.is_boolean(kind):
        other = kind if pa.types.is_boolean(origin) else origin
        return bool(pa.types.is_integer(other) or pa.types.is_floating(other))
    if pa.types.is_temporal(origin) and pa.types.is_temporal(kind):
        return _same_sort_of_time(origin, kind)
    if pa.types.is_temporal(origin) or pa.types.is_temporal(kind):
        other = kind if pa.types.is_temporal(origin) else origin
        return bool(pa.types.is_integer(other))
    return is_number(origin) and is_number(kind)


def _same_sort_of_time(origin: pa.DataType, kind: pa.DataType) -> bool:
    def sort(time: pa.DataType) -> str:
        if pa.types.is_time(time):
            return "time"
        return "duration" if pa.types.is_duration(time) else "point"

    if pa.types.is_timestamp(origin) and pa.types.is_time(kind):
        return True
    return sort(origin) == sort(kind)


def cast_may_fail(origin: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a strict cast can meet a value that does not fit."""
    origin, kind = value_type(origin), value_type(kind)
    if origin == kind or pa.types.is_null(origin) or pa.types.is_boolean(origin) or pa.types.is_boolean(kind):
        return is_text(origin) and pa.types.is_boolean(kind)
    if is_text(kind):
        return is_bytes(origin)
    if pa.types.is_integer(origin) and pa.types.is_integer(kind):
        (low, high), (least, greatest) = integer_range(origin), integer_range(kind)
        return low < least or high > greatest
    return not pa.types.is_floating(kind) or is_text(origin)


def cast_datum(values: Datum, kind: pa.DataType, lenient: bool) -> Datum:
    """Cast; a value that does not fit is an error, or null when lenient."""
    if values.type == kind:
        return values
    if isinstance(values, pa.Scalar):
        return cast_datum(pa.repeat(values, 1), kind, lenient)[0]
    if pa.types.is_dictionary(kind):
        return _to_dictionary(values, kind, lenient)
    if value_type(kind) != kind:  # a view of text or bytes
        return cast_datum(values, value_type(kind), lenient).cast(kind)
    if isinstance(values.type, pa.BaseExtensionType):
        return cast_datum(values.storage, kind, lenient)
    if pa.types.is_dictionary(values.type):
        # Not the dictionary itself: it may hold values that no row has, and that do not fit.
        return cast_datum(values.dictionary_decode(), kind, lenient)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    if value_type(values.type) != values.type:
        return cast_datum(values.cast(value_type(values.type)), kind, lenient)
    origin = values.type
    if not can_cast(origin, kind):
        raise InvalidInput(f"cannot cast {describe(origin)} to {describe(kind)}")
    if pa.types.is_nested(kind):
        return _cast_nested(values, kind, lenient)
    if is_text(origin) and not is_text(kind):
        return _from_text(values, kind, lenient)
    if is_text(kind) and not is_text(origin):
        return _to_text(values, kind, lenient)
    if pa.types.is_fixed_size_binary(kind):
        return _by_distinct(values, kind, lambda raw: sized(raw, kind), lenient)
    if pa.types.is_boolean(kind):
        if pa.types.is_float16(origin):
            values = _through_numpy(values, pa.float32())
        return pc.not_equal(values, pa.scalar(0, values.type))
    if pa.types.is_temporal(origin) or pa.types.is_temporal(kind):
        return _cast_time(values, kind, lenient)
    if pa.types.is_decimal(origin) or pa.types.is_decimal(kind):
        return _cast_decimal(values, kind, lenient)
    if pa.types.is_integer(kind):
        return _to_integer(values, kind, lenient)
    if pa.types.is_boolean(origin):
        return values.cast(pa.int8()).cast(kind)
    if pa.types.is_floating(kind) and (pa.types.is_float16(origin) or pa.types.is_float16(kind)):
        return _through_numpy(values, kind)
    return _by_arrow(values, kind, safe=not pa.types.is_floating(kind))


def _to_dictionary(values: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    encoded = cast_datum(values, kind.value_type, lenient)
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    return pa.DictionaryArray.from_arrays(_by_arrow(encoded.indices, kind.index_type), encoded.dictionary)


def _cast_nested(values: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    """Lists and structs by their items and fields; a value that is no list becomes a list of one."""
    if pa.types.is_struct(kind):
        columns = [cast_datum(pc.struct_field(values, field.name), field.type, lenient) for field in kind]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=values.is_null())
    if not kind.value_field.nullable and (values.flatten() if is_list_like(values.type) else values).null_count:
        raise InvalidInput(f"cannot cast to {kind}: some items are null")
    if not is_list_like(values.type):
        items = cast_datum(values, kind.value_type, lenient)
        return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), items, kind)
    if values.type.value_type == kind.value_type or pa.types.is_fixed_size_list(values.type):
        return _by_arrow(values, kind)
    # Only items that some row has are cast: others may not fit.
    items = cast_datum(values.flatten(), kind.value_type, lenient)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    wide = pa.large_list(pa.field("item", kind.value_type))
    return _by_arrow(pa.LargeListArray.from_arrays(arrow_array(offsets), items, wide, mask=values.is_null()), kind)


def _by_arrow(values: pa.Array, kind: pa.DataType, safe: bool = True) -> pa.Array:
    try:
        return pc.cast(values, kind, safe=safe)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"cannot cast {describe(values.type)} to {describe(kind)}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _through_numpy(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Half floats have no compute kernels in pyarrow; numpy has them."""
    plain = values.fill_null(0) if not pa.types.is_float16(values.type) else values
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = plain.to_numpy(zero_copy_only=False).astype(numpy_type(kind))
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(numbers, kind, mask=mask, from_pandas=False)


def _refuse(values: pa.Array, bad: pa.Array, kind: pa.DataType) -> None:
    """Raise an error that shows the first value marked in ``bad``, if any is."""
    index = pc.index(bad, True).as_py()
    if index >= 0:
        shown = values[index].as_py()
        raise InvalidInput(
            f"cannot cast {shown!r} from {describe(values.type)} to {describe(kind)}; TRY_CAST gives NULL"
        )


def _to_integer(values: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    origin = values.type
    if pa.types.is_boolean(origin):
        return values.cast(kind)
    low, high = integer_range(kind)
    if pa.types.is_floating(origin):
        if pa.types.is_float16(origin):
            values = _through_numpy(values, pa.float32())
        whole = pc.trunc(values)
        # The bounds are exact in a double: the upper one is the power of two above the range.
        inside = pc.and_(pc.greater_equal(whole, float(low)), pc.less(whole, float(high + 1)))
    else:
        least, greatest = integer_range(origin)
        if low <= least and greatest <= high:
            return values.cast(kind)
        whole = values
        inside = pc.and_(
            pc.greater_equal(values, pa.scalar(max(low, least), origin)),
            pc.less_equal(values, pa.scalar(min(high, greatest), origin)),
        )
    bad = pc.invert(inside.fill_null(True))
    if not lenient:
        _refuse(values, bad, kind)
    return pc.cast(pc.if_else(bad, pa.scalar(None, whole.type), whole), kind, safe=False)


def _by_distinct(values: pa.Array, kind: pa.DataType, convert: Callable[[Any], object], lenient: bool) -> pa.Array:
    """Convert each distinct value once; ``convert`` raises ValueError for one that does not fit."""

    def converted(value: object) -> object:
        try:
            result = convert(value)
        except (ValueError, OverflowError):
            if lenient:
                return None
            origin = describe(values.type)
            raise InvalidInput(
                f"cannot cast {value!r} from {origin} to {describe(kind)}; TRY_CAST gives NULL"
            ) from None
        return np.float16(result) if isinstance(result, float) and pa.types.is_float16(kind) else result

    encoded = values.dictionary_encode()
    return pa.array([converted(value) for value in encoded.dictionary.to_pylist()], kind).take(encoded.indices)


def _from_text(values: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    if is_bytes(kind) and not pa.types.is_fixed_size_binary(kind):
        return _by_arrow(values, kind)
    return _by_distinct(values, kind, lambda text: parse_text(str(text), kind), lenient)


def _to_text(values: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    origin = values.type
    if is_bytes(origin):
        return _by_distinct(values, kind, lambda raw: raw.decode(), lenient)
    if pa.types.is_floating(origin):
        single = not pa.types.is_float64(origin)
        wide = _through_numpy(values, pa.float32()) if pa.types.is_float16(origin) else values
        return _by_distinct(wide, kind, lambda number: _float_text(float(number), single), lenient)
    if pa.types.is_timestamp(origin):
        return _timestamp_text(values).cast(kind)
    if pa.types.is_time(origin):
        text = pc.cast(values, pa.string())
        return pc.replace_substring_regex(text, r"\.0+$", "").cast(kind)
    return _by_arrow(values, kind)


def _float_text(number: float, single: bool) -> str:
    """The shortest text that reads back as the same number, with a fraction; an exponent from 1e16 and below 1e-5."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number) or number == 0:
        return str(number)
    shortest = str(np.float32(number)) if single else repr(number)
    exact = decimal.Decimal(shortest)
    if -5 <= exact.adjusted() < (13 if single else 16):
        plain = format(exact, "f")
        return plain if "." in plain else plain + ".0"
    digits, exponent = f"{exact.normalize():e}".split("e")
    return f"{digits}e{int(exponent)}"


def _timestamp_text(values: pa.Array) -> pa.Array:
    """ISO 8601 with a T; fractions in groups of three digits, without zero groups at the end."""
    zoned = values.type.tz is not None
    text = pc.strftime(values, format="%Y-%m-%dT%H:%M:%S" + ("%z" if zoned else ""))
    return _trim_fraction(text, zoned)


def _trim_fraction(text: pa.Array, zoned: bool) -> pa.Array:
    tail = r"([+-]\d{4})$" if zoned else r"()$"
    text = pc.replace_substring_regex(text, r"(\.\d{6})000" + tail, r"\1\2")
    text = pc.replace_substring_regex(text, r"(\.\d{3})000" + tail, r"\1\2")
    text = pc.replace_substring_regex(text, r"\.000" + tail, r"\1")
    if not zoned:
        return text
    text = pc.replace_substring_regex(text, r"\+0000$", "Z")
    return pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2")


def _cast_time(values: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    origin = values.type
    if pa.types.is_integer(origin) and pa.types.is_date64(kind):
        return _cast_time(_cast_time(values, pa.timestamp("ms"), lenient), kind, lenient)  # to a whole day
    if pa.types.is_integer(origin) and pa.types.is_time(kind):
        return _to_time(values, kind, lenient)
    if pa.types.is_integer(origin):
        return _by_arrow(_to_integer(values, _storage(kind), lenient), _storage(kind)).view(kind)
    if pa.types.is_integer(kind):
        return _to_integer(values.view(_storage(origin)), kind, lenient)
    if pa.types.is_timestamp(origin) and pa.types.is_timestamp(kind):
        return _cast_timestamp(values, kind)
    if pa.types.is_timestamp(origin) and origin.tz is not None:
        values = pc.local_timestamp(values)
    if pa.types.is_timestamp(kind):
        return _by_arrow(values, pa.timestamp(kind.unit)).view(kind)  # a date is midnight in UTC
    return _by_arrow(values, kind, safe=False)


def _to_time(values: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    """A number counts units since midnight and stays below a day."""
    ticks = _to_integer(values, pa.int64(), lenient)
    bad = pc.or_(pc.less(ticks, 0), pc.greater_equal(ticks, DAY * TICKS[kind.unit])).fill_null(False)
    if not lenient:
        _refuse(values, bad, kind)
    return pc.if_else(bad, pa.scalar(None, pa.int64()), ticks).cast(_storage(kind)).view(kind)


def _storage(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _cast_timestamp(values: pa.Array, kind: pa.DataType) -> pa.Array:
    origin = values.type
    step = TICKS[origin.unit] // TICKS[kind.unit]
    if step > 1:
        # Integer division cuts toward zero, also before 1970.
        ticks = pc.divide(values.view(pa.int64()), step)
        values = ticks.view(pa.timestamp(kind.unit, origin.tz))
    else:
        values = _by_arrow(values, pa.timestamp(kind.unit, origin.tz))
    if origin.tz is None and kind.tz is not None:
        return pc.assume_timezone(values, kind.tz, ambiguous="earliest", nonexistent="earliest")
    return values.view(kind)


def _cast_decimal(values: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    origin = values.type
    if pa.types.is_decimal(origin):
        if pa.types.is_integer(kind):
            whole = values.cast(pa.decimal256(76, origin.scale)).cast(pa.decimal256(76, 0), safe=False)
            return _decimal_to_integer(values, whole, kind, lenient)
        if pa.types.is_floating(kind):
            return cast_datum(values.cast(pa.float64()), kind, lenient)
    if pa.types.is_floating(origin):
        return _by_distinct(
            cast_datum(values, pa.float64(), lenient), kind, lambda x: parse_text(_plain(x), kind), lenient
        )
    # In 76 digits there is room for what rounding or a larger scale adds.
    wide = values.cast(pa.decimal256(76, 0 if pa.types.is_integer(origin) else origin.scale))
    if wide.type.scale > kind.scale:
        wide = pc.round(wide, ndigits=kind.scale, round_mode="half_towards_infinity")
    wide = wide.cast(pa.decimal256(76, kind.scale), safe=False)
    limit = pa.scalar(decimal.Decimal(10**kind.precision - 1).scaleb(-kind.scale), pa.decimal256(76, kind.scale))
    bad = pc.greater(pc.abs(wide), limit).fill_null(False)
    if not lenient:
        _refuse(values, bad, kind)
    return pc.if_else(bad, pa.scalar(None, wide.type), wide).cast(kind)


def _plain(number: object) -> str:
    assert isinstance(number, float)
    if not math.isfinite(number):
        raise ValueError
    return format(decimal.Decimal(repr(number)), "f")


def _decimal_to_integer(values: pa.Array, whole: pa.Array, kind: pa.DataType, lenient: bool) -> pa.Array:
    low, high = (pa.scalar(decimal.Decimal(bound), whole.type) for bound in integer_range(kind))
    bad = pc.or_(pc.less(whole, low), pc.greater(whole, high)).fill_null(False)
    if not lenient:
        _refuse(values, bad, kind)
    return pc.if_else(bad, pa.scalar(None, whole.type), whole).cast(kind)
