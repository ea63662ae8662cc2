"""Segments of BLOOMFILTER indices (:mod:`lancelet.index.scalar.bloom_filter`), open and written (spec indices.md 8).

::

    bloomfilter.lance    fragment_id, zone_start, zone_length    see zones.py
                         has_null             bool
                         bloom_filter_data    binary, a split-block Bloom filter (bloom.pyx) of the values' bytes
        metadata         bloomfilter_item           live rows of a full zone
                         bloomfilter_probability    of a value being taken for one of a full zone
                         null_bitmap                the global buffer with the rows whose value is null

The bytes of a number are those of its own width, little-endian. A NaN can have many, and zero has two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import CorruptFile
from lancelet.index.kind import NewRows, Source
from lancelet.index.questions import Answer, IsIn, Missing, Question
from lancelet.index.scalar.arrow_bytes import fixed, is_text_or_bytes, spans, validity
from lancelet.index.scalar.bloom import hash_fixed, hash_spans, insert, probe, probe_each
from lancelet.index.scalar.options import (
    DEFAULT_PROBABILITY,
    DEFAULT_ROWS,
    NUMBER_OF_ITEMS,
    chosen_probability,
    positive,
)
from lancelet.index.scalar.zone_build import missing, read_nulls, write_zones
from lancelet.index.zones import FIELDS, Longs, Pieces, Zones, joined
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder, SegmentWriter

FILE = "bloomfilter.lance"

_ITEMS, _CHANCE = "bloomfilter_item", "bloomfilter_probability"
_HAS_NULL, _FILTER = "has_null", "bloom_filter_data"
_SCHEMA = pa.schema(
    [*FIELDS, pa.field(_HAS_NULL, pa.bool_(), nullable=False), pa.field(_FILTER, pa.binary(), nullable=False)]
)
_LEAST, _MOST = 32, 128 << 20
_TERMS = 750
_AT_ONCE = 64 << 20
_KEPT = 256 << 20
"""Bytes of filters that are read at once, and that an open segment keeps."""
_NO_FILTER = 2
"""What the probe of bytes that are not a filter answers."""
Filters = npt.NDArray[np.uint8]


@cache
def filter_bytes(items: int, probability: float) -> int:
    """The size of a filter that takes a value for one of ``items`` others that rarely, or as rarely as the largest can."""
    size = _LEAST
    while size < _MOST and _mistaken(items, 8 * size) > probability:
        size *= 2
    return size


def _mistaken(items: int, bits: int) -> float:
    """How often a full filter is wrong: values fall into a block by chance, each sets a bit in its eight words."""
    mean = 256 * items / bits
    values = np.arange(_TERMS)
    logarithms = values * math.log(mean) - mean - np.array([math.lgamma(value + 1) for value in values.tolist()])
    chances = np.exp(logarithms)
    # A block with more values than that is full.
    return float(np.sum(chances * (1 - (31 / 32) ** values) ** 8) + max(1 - np.sum(chances), 0))


class BloomFilters:
    """An open segment. Its zones are in memory, and its filters too once they were asked for, if they are not too many."""

    def __init__(self, file: IndexFileReader, zones: Zones, has_null: npt.NDArray[np.bool_]) -> None:
        self.file = file
        self.zones = zones
        self.has_null = has_null
        self.nulls, self._nulls_size = read_nulls(file)
        self.items, self.probability = _settings(file)
        self._size = filter_bytes(self.items, self.probability)
        self._kept: list[pa.Array] | None = None

    @property
    def nbytes(self) -> int:
        total = len(self.zones) * self._size
        return self.zones.nbytes + self.has_null.nbytes + self._nulls_size + (total if total <= _KEPT else 0)

    def statistics(self) -> Mapping[str, Any]:
        return {
            "type": "BloomFilter",
            "num_blocks": len(self.zones),
            "number_of_items": self.items,
            "probability": self.probability,
        }

    def ask(self, question: Question) -> Answer:
        if isinstance(question, Missing):
            return missing(self, self.has_null)
        assert isinstance(question, IsIn)
        hashes = _wanted(question.values)
        if hashes is None:
            return Answer(self.zones.rows(np.ones(len(self.zones), np.bool_)), exact=False, nulls=self.nulls)
        found = [probe(hashes, *spans(part)) for part in self.filters()]
        hits = np.concatenate(found) if found else np.empty(0, np.uint8)
        if (hits == _NO_FILTER).any():
            at = int((hits == _NO_FILTER).argmax())
            raise CorruptFile(self.file.path, f"the filter of zone {at} is not made of whole blocks")
        return Answer(self.zones.rows(hits.view(np.bool_)), exact=False, nulls=self.nulls)

    def admits(self, zone: int, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Which values the filter of a zone takes for its own."""
        part = self.file.slice([_FILTER], zone, zone + 1)[_FILTER]
        if not is_text_or_bytes(part.type) or part.null_count:
            raise CorruptFile(self.file.path, f"column {_FILTER!r} is not made of bytes without nulls")
        data, offsets = spans(part)
        filter_ = data[offsets[0] : offsets[1]]
        if len(filter_) < _LEAST or len(filter_) % _LEAST:
            raise CorruptFile(self.file.path, f"the filter of zone {zone} is not made of whole blocks")
        return probe_each(_hashes(values), filter_).view(np.bool_)

    def filters(self) -> Iterable[pa.Array]:
        """The filters of all zones, in parts of :attr:`part_zones`."""
        if self._kept is not None:
            return self._kept
        if len(self.zones) * self._size > _KEPT:
            return self._read()
        self._kept = list(self._read())
        return self._kept

    @property
    def part_zones(self) -> int:
        return max(_AT_ONCE // self._size, 1)

    def _read(self) -> Iterator[pa.Array]:
        for start in range(0, len(self.zones), self.part_zones):
            part = self.file.slice([_FILTER], start, min(start + self.part_zones, len(self.zones)))[_FILTER]
            if not is_text_or_bytes(part.type) or part.null_count:
                raise CorruptFile(self.file.path, f"column {_FILTER!r} is not made of bytes without nulls")
            yield part


def _settings(file: IndexFileReader) -> tuple[int, float]:
    items, chance = file.metadata.get(_ITEMS, str(DEFAULT_ROWS)), file.metadata.get(_CHANCE, str(DEFAULT_PROBABILITY))
    try:
        probability = float(chance)
    except ValueError:
        probability = math.nan
    if not items.isdecimal() or not int(items) or not 0 <= probability < 1:
        raise CorruptFile(file.path, f"{_ITEMS} and {_CHANCE} cannot be {items!r} and {chance!r}")
    return int(items), probability


def _hashes(values: pa.Array) -> npt.NDArray[np.uint64]:
    return hash_spans(*spans(values)) if is_text_or_bytes(values.type) else hash_fixed(*fixed(values))


def _wanted(values: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Hashes of all bytes that equal values can have; None when these are too many."""
    if pa.types.is_floating(values.type):
        if pc.any(pc.is_nan(values)).as_py():
            return None
        if pc.any(pc.equal(values, pa.scalar(0, values.type))).as_py():
            values = pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])
    return _hashes(values)


@dataclass(frozen=True, slots=True)
class _Filled:
    """Zones, or pieces of zones, with their filters."""

    zones: Zones
    has_null: npt.NDArray[np.bool_]
    filters: Filters

    def slice(self, start: int, stop: int) -> _Filled:
        return _Filled(self.zones.take(slice(start, stop)), self.has_null[start:stop], self.filters[start:stop])

    def joined(self, after: _Filled) -> _Filled:
        """One zone out of two pieces."""
        return _Filled(joined(self.zones, after.zones), self.has_null | after.has_null, self.filters | after.filters)

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        count, size = self.filters.shape
        offsets = pa.py_buffer((np.arange(count + 1) * size).astype(np.int32))
        data = pa.py_buffer(np.ascontiguousarray(self.filters))
        return _batch(self.zones, self.has_null, pa.Array.from_buffers(pa.binary(), count, [None, offsets, data]))


def _batch(zones: Zones, has_null: npt.NDArray[np.bool_], filters: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*zones.arrays(), arrow_array(has_null), filters], schema=_SCHEMA)


def _filled(size: int, values: pa.Array, pieces: Pieces, null_counts: Longs) -> Iterator[_Filled]:
    """Zones of rows with their filters, of so many bytes each."""
    hashes, valid = _hashes(values), validity(values)
    ends = np.append(pieces.begins[1:], len(values))
    at_once = max(_AT_ONCE // size, 1)
    for first in range(0, len(pieces.begins), at_once):
        last = min(first + at_once, len(pieces.begins))
        start, stop = int(pieces.begins[first]), int(ends[last - 1])
        filters = np.zeros((last - first, size), np.uint8)
        insert(hashes[start:stop], valid[start:stop], pieces.begins[first:last] - start, filters)
        yield _Filled(pieces.zones.take(slice(first, last)), null_counts[first:last] > 0, filters)


def read_settings(folder: IndexFolder) -> tuple[int, float]:
    """Rows of a full zone, and how often a value may be taken for one of it."""
    return _settings(folder.open(FILE))


def open_segment(folder: IndexFolder) -> BloomFilters:
    """Read what is known of the zones of a segment, without their filters."""
    file = folder.open(FILE)
    batch = file.read([_HAS_NULL, *(field.name for field in FIELDS)])
    if batch[_HAS_NULL].type != pa.bool_() or batch[_HAS_NULL].null_count:
        raise CorruptFile(file.path, f"column {_HAS_NULL!r} is not made of booleans without nulls")
    return BloomFilters(file, Zones.read(batch, file.path), numpy_array(batch[_HAS_NULL]))


def write_segment(sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]) -> None:
    """Write a segment of the zones of older ones and of new rows."""
    old = [(_of(source), source) for source in sources]
    items, chance = (old[-1][0].items, old[-1][0].probability) if old else (DEFAULT_ROWS, DEFAULT_PROBABILITY)
    items, chance = positive(options, NUMBER_OF_ITEMS, items), chosen_probability(options, chance)
    with out.create(FILE, _SCHEMA) as file:
        file.add_metadata(_ITEMS, str(items))
        file.add_metadata(_CHANCE, np.format_float_positional(chance, trim="-"))
        write_zones(file, old, _carried, rows, items, partial(_filled, filter_bytes(items, chance)))


def _of(source: Source) -> BloomFilters:
    assert isinstance(source.segment, BloomFilters)
    return source.segment


def _carried(old: BloomFilters, which: Longs, zones: Zones) -> Iterator[pa.RecordBatch]:
    """The zones of an older segment, where they are now, with their filters."""
    for part, filters in enumerate(old.filters()):
        first = part * old.part_zones
        here = slice(*np.searchsorted(which, [first, first + len(filters)]).tolist())
        if here.start < here.stop:
            yield _batch(
                zones.take(here),
                old.has_null[which[here]],
                filters.take(pa.array(which[here] - first)).cast(pa.binary()),
            )
