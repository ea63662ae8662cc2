"""Segments of ZONEMAP indices (:mod:`lancelet.index.scalar.zone_map`), open and written (spec indices.md 7).

::

    zonemap.lance    min, max                            the column's type; null when the zone has no value
                     null_count, nan_count               uint32
                     fragment_id, zone_start, zone_length    see zones.py
        metadata     rows_per_zone   live rows of a full zone
                     null_bitmap     the global buffer with the rows whose value is null

Of floats, ``min`` and ``max`` leave NaN out, but ``max`` is NaN where there is one: then nothing is known of the greatest
number. Types without an order have zones without ``min`` and ``max``, which tell of nulls alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, arrow_scalar, numpy_array, numpy_type
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.format.proto import index_details_pb2
from lancelet.index.kind import NewRows, Source
from lancelet.index.questions import Answer, Between, IsIn, Missing, Question, StartsWith
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.extremes import Extremes, find_extremes
from lancelet.index.scalar.options import DEFAULT_ROWS, ROWS_PER_ZONE, USE_SEEDS, positive
from lancelet.index.scalar.value_types import is_ordered
from lancelet.index.scalar.zone_build import missing, read_nulls, write_zones
from lancelet.index.zones import FIELDS, Longs, Pieces, Zones, joined
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter

FILE = "zonemap.lance"
_COUNTS = ("null_count", "nan_count")
_FEW = 8
_NARROW = 8

Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ZoneMap:
    """An open segment; all of it is in memory."""

    zones: Zones
    low: pa.Array
    high: pa.Array
    null_counts: npt.NDArray[np.uint32]
    nan_counts: npt.NDArray[np.uint32]
    nulls: RowSet | None
    nulls_size: int
    rows_per_zone: int
    dtype: pa.DataType
    """That of the column; zones of another type (pylance keeps the bytes of JSON) leave all values possible."""

    @property
    def nbytes(self) -> int:
        counts = self.null_counts.nbytes + self.nan_counts.nbytes
        return int(self.zones.nbytes + self.low.nbytes + self.high.nbytes + counts + self.nulls_size)

    def statistics(self) -> Mapping[str, Any]:
        return {"num_zones": len(self.zones), "rows_per_zone": self.rows_per_zone}

    def ask(self, question: Question) -> Answer:
        if isinstance(question, Missing):
            return missing(self, self.null_counts > 0)
        return Answer(self.zones.rows(self._chosen(question)), exact=False, nulls=self.nulls)

    def _chosen(self, question: Question) -> Chosen:
        if self.low.type != self.dtype:
            return np.ones(len(self.zones), np.bool_)
        bounds = self._bounds
        if isinstance(question, IsIn):
            return bounds.with_any(_comparable(question.values))
        if isinstance(question, StartsWith):
            prefix = question.prefix.encode() if isinstance(question.prefix, str) else question.prefix
            after = _next_prefix(prefix)
            dtype = bounds.low.type
            question = Between(
                pa.scalar(prefix, dtype), None if after is None else pa.scalar(after, dtype), True, False
            )
        assert isinstance(question, Between)
        return bounds.within(question)

    def admits(self, zone: int, values: pa.Array) -> Chosen:
        """Which values lie between the ends of a zone; the order of types without one leaves all possible."""
        if self.low.type != self.dtype or not is_ordered(self.dtype):
            return np.ones(len(values), np.bool_)
        bounds = self._bounds
        values = _comparable(values)
        inside = numpy_array(values.is_valid()) & bool(bounds.some[zone])
        if bounds.some[zone]:
            low, high = bounds.low[zone], bounds.high[zone]
            inside &= _true(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)))
        if pa.types.is_floating(values.type):
            inside |= _true(pc.is_nan(values)) & bool(bounds.has_nan[zone])
        return inside

    def summaries(self, which: Longs, zones: Zones, dtype: pa.DataType) -> _Summaries:
        """What is known of some of the zones, which are elsewhere now."""
        low = high = pa.nulls(len(which), dtype)
        if is_ordered(dtype):
            low, high = (ends.take(arrow_array(which)) for ends in (self.low, self.high))
        nulls, nans = (counts[which].astype(np.int64) for counts in (self.null_counts, self.nan_counts))
        return _Summaries(Extremes(low, high, nans), nulls, zones)

    @cached_property
    def _bounds(self) -> _Bounds:
        return _Bounds.of(self.low, self.high, self.nan_counts > 0)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Zones by what can be in them, made of types that can be compared."""

    low: pa.Array
    high: pa.Array
    some: Chosen
    """Which zones have values, or numbers; the others have no bounds."""
    has_nan: Chosen
    numbers: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None
    """The bounds as numbers, where they are some underneath; anything in zones without."""

    @classmethod
    def of(cls, low: pa.Array, high: pa.Array, has_nan: Chosen) -> _Bounds:
        low, high = _comparable(low), _comparable(high)
        if pa.types.is_floating(low.type):
            low = pc.if_else(pc.is_nan(low), pa.scalar(-math.inf, low.type), low)
            # The greatest number of a zone without numbers is null underneath its NaN.
            high = pc.if_else(pc.is_nan(high), pa.scalar(math.inf, high.type), high)
        plain = _plain_type(low.type)
        numbers = None
        if pa.types.is_integer(plain) or pa.types.is_floating(plain):
            numbers = tuple(_filled(ends.view(plain)) for ends in (low, high))
        return cls(low, high, numpy_array(low.is_valid()), has_nan, numbers)  # type: ignore[arg-type]

    def within(self, question: Between) -> Chosen:
        low, high = (None if end is None else _comparable(end) for end in (question.low, question.high))
        if not pa.types.is_floating(self.low.type):
            return self._overlap(low, high, question.with_low, question.with_high)
        # What stands at a border may be a zero of the other sign: borders are always with it.
        if _is_nan(low):
            return self.has_nan
        if _is_nan(high):
            high = None
        chosen = self._overlap(low, high, True, True)
        return chosen | self.has_nan if high is None else chosen

    def _overlap(self, low: pa.Scalar | None, high: pa.Scalar | None, with_low: bool, with_high: bool) -> Chosen:
        chosen = self.some
        if self.numbers is not None:
            least, most = self.numbers
            if low is not None:
                chosen = chosen & (most >= _number(low) if with_low else most > _number(low))
            if high is not None:
                chosen = chosen & (least <= _number(high) if with_high else least < _number(high))
            return chosen
        if low is not None:
            chosen = chosen & _true((pc.greater_equal if with_low else pc.greater)(self.high, low))
        if high is not None:
            chosen = chosen & _true((pc.less_equal if with_high else pc.less)(self.low, high))
        return chosen

    def with_any(self, values: pa.Array) -> Chosen:
        if not pa.types.is_floating(values.type):
            return self._with_any(values)
        numbers = values.filter(pc.invert(pc.is_nan(values)))
        found = self._with_any(numbers)
        return found | self.has_nan if len(numbers) < len(values) else found

    def _with_any(self, values: pa.Array) -> Chosen:
        found = np.zeros(len(self.low), np.bool_)
        if len(values) <= _FEW:
            return reduce(np.logical_or, [self._overlap(one, one, True, True) for one in values], found)
        # A zone has one of many sorted values between its ends when not all of them are below it or above it.
        wanted = np.sort(_objects(values))
        low, high = self.numbers or (_objects(self.low), _objects(self.high))
        first = np.searchsorted(wanted, low[self.some], "left")
        found[self.some] = first < np.searchsorted(wanted, high[self.some], "right")
        return found


def _plain_type(dtype: pa.DataType) -> pa.DataType:
    """What values of temporal types are underneath."""
    if not pa.types.is_temporal(dtype):
        return dtype
    return pa.int32() if dtype.bit_width == 32 else pa.int64()


def _number(scalar: pa.Scalar) -> Any:
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()


def _comparable(values: Any) -> Any:
    """Values or a value of a type that pyarrow compares as the bytes or numbers that they are."""
    dtype = values.type
    if pa.types.is_float16(dtype):
        return values.cast(pa.float32())
    if pa.types.is_string(dtype):
        return values.cast(pa.binary())
    return values.cast(pa.large_binary()) if pa.types.is_large_string(dtype) else values


def _objects(values: pa.Array) -> npt.NDArray[Any]:
    """Values that numpy can sort."""
    values = values.view(_plain_type(values.type))
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return np.asarray(values)
    found = np.empty(len(values), object)
    found[:] = values.to_pylist()
    return found


def _filled(numbers: pa.Array) -> npt.NDArray[Any]:
    """Numbers, 0 in place of nulls."""
    return numpy_array(numbers.fill_null(arrow_array(np.zeros(1, numpy_type(numbers.type)))[0]))


def _is_nan(value: pa.Scalar | None) -> bool:
    return value is not None and math.isnan(value.as_py())


def _true(array: pa.Array) -> Chosen:
    return numpy_array(array.fill_null(arrow_scalar(False, pa.bool_())))


def _next_prefix(prefix: bytes) -> bytes | None:
    """The least bytes above all that begin so; None when there are none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


@dataclass(frozen=True, slots=True)
class _Summaries:
    """What zones, or pieces of zones, are known to hold."""

    extremes: Extremes
    null_counts: npt.NDArray[np.int64]
    zones: Zones

    def slice(self, start: int, stop: int) -> _Summaries:
        found = self.extremes
        ends = Extremes(found.low[start:stop], found.high[start:stop], found.nans[start:stop])
        return _Summaries(ends, self.null_counts[start:stop], self.zones.take(slice(start, stop)))

    def joined(self, after: _Summaries) -> _Summaries:
        """One zone out of two pieces."""
        one = np.zeros(1, np.int64)
        low = find_extremes(pa.concat_arrays([self.extremes.low, after.extremes.low]), one).low
        high = find_extremes(pa.concat_arrays([self.extremes.high, after.extremes.high]), one).high
        ends = Extremes(low, high, self.extremes.nans + after.extremes.nans)
        return _Summaries(ends, self.null_counts + after.null_counts, joined(self.zones, after.zones))

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        low, high, nans = self.extremes.low, self.extremes.high, self.extremes.nans
        if nans.any():
            high = pc.if_else(arrow_array(nans > 0), pa.scalar(math.nan, high.type), high)
        counts = [arrow_array(counts.astype(np.uint32)) for counts in (self.null_counts, nans)]
        return pa.RecordBatch.from_arrays([low, high, *counts, *self.zones.arrays()], schema=schema)


def _summarized(values: pa.Array, pieces: Pieces, null_counts: Longs) -> Iterator[_Summaries]:
    yield _Summaries(find_extremes(values, pieces.begins), null_counts, pieces.zones)


def open_segment(folder: IndexFolder, dtype: pa.DataType) -> ZoneMap:
    """Read a segment."""
    file = folder.open(FILE)
    ordered = is_ordered(dtype)
    batch = file.read([*(("min", "max") if ordered else ()), *_COUNTS, *(field.name for field in FIELDS)])
    low, high = (batch["min"], batch["max"]) if ordered else (pa.nulls(len(batch)),) * 2
    if low.type != high.type:
        raise CorruptFile(file.path, f"its least values are {low.type}, its greatest {high.type}")
    if np.any(numpy_array(high.is_null()) & numpy_array(low.is_valid())):
        raise CorruptFile(file.path, "a zone has a least value but no greatest one")
    for name in _COUNTS:
        if batch[name].type != pa.uint32() or batch[name].null_count:
            raise CorruptFile(file.path, f"column {name!r} is not made of uint32 without nulls")
    null_counts, nan_counts = (numpy_array(batch[name]) for name in _COUNTS)
    size = file.metadata.get(ROWS_PER_ZONE, str(DEFAULT_ROWS))
    if not size.isdecimal() or not int(size):
        raise CorruptFile(file.path, f"its {ROWS_PER_ZONE} is not a number of rows but {size!r}")
    zones = Zones.read(batch, file.path)
    return ZoneMap(zones, low, high, null_counts, nan_counts, *read_nulls(file), int(size), dtype)


def write_segment(sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, Any]) -> bytes:
    """Write a segment of the zones of older ones and of new rows, and tell its details."""
    old = [(_of(source, rows.dtype), source) for source in sources]
    rows_per_zone = positive(options, ROWS_PER_ZONE, old[-1][0].rows_per_zone if old else DEFAULT_ROWS)
    dtype = rows.dtype
    schema = pa.schema(
        [
            pa.field("min", dtype),
            pa.field("max", dtype),
            *(pa.field(name, pa.uint32(), nullable=False) for name in _COUNTS),
            *FIELDS,
        ]
    )
    with out.create(FILE, schema) as file:
        file.add_metadata(ROWS_PER_ZONE, str(rows_per_zone))

        def carried(segment: ZoneMap, which: Longs, zones: Zones) -> Iterator[pa.RecordBatch]:
            if len(zones):
                yield segment.summaries(which, zones, dtype).batch(schema)

        known = write_zones(file, old, carried, rows, rows_per_zone, _summarized)
    details = index_details_pb2.ZoneMapIndexDetails(
        rows_per_zone=rows_per_zone,
        use_seeds=options.get(USE_SEEDS, _is_wide(dtype)),
        has_null_bitmap=known,
    )
    return details.SerializeToString(deterministic=True)


def _of(source: Source, dtype: pa.DataType) -> ZoneMap:
    old = source.segment
    assert isinstance(old, ZoneMap)
    if is_ordered(dtype) and old.low.type != dtype:
        raise InvalidInput(
            f"zones of {old.low.type} cannot go on as zones of {dtype}; drop the index and create it again"
        )
    return old


def _is_wide(dtype: pa.DataType) -> bool:
    """Whether pylance gathers summaries of such columns while it writes data, which is then told by ``use_seeds``."""
    if pa.types.is_null(dtype) or pa.types.is_boolean(dtype) or pa.types.is_dictionary(dtype):
        return False
    try:
        return bool(dtype.byte_width > _NARROW)
    except ValueError:
        return True
