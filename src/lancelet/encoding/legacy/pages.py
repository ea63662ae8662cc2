"""Pages of legacy files (spec file-format.md 4.3 to 4.5).

::

    plain           length values, raw; bits for booleans. No validity
    var-binary      bytes | (length + 1) i64 absolute file offsets      position -> the offsets
    list            rows + 1 offsets from 0, i32 or i64                 items: the child's page of that batch
    dictionary      plain keys; the values stand once in the file

Nothing is null but strings of no bytes in nullable fields. A field has one page
for each batch of rows, so a read is a list of spans, each inside one batch, and
all spans are fetched and decoded together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import bit_width, fixed_array, is_variable, pack_validity, pick_bits, variable_array
from lancelet.encoding.extents import expand_spans, join
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Decode, Indices, Ranges, Step


@dataclass(frozen=True, slots=True)
class Spans:
    """Runs of items, each inside one batch: items ``starts`` up to ``stops`` of batch ``batches``."""

    batches: Indices
    starts: Indices
    stops: Indices

    @property
    def lengths(self) -> Indices:
        return self.stops - self.starts

    @property
    def total(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True, slots=True)
class Entries:
    """The pages of one field: where they are in a file of ``file_size`` bytes, and how many values they have."""

    positions: Indices
    lengths: Indices
    file_size: int
    place: Place


def decode_plain(dtype: pa.DataType, entries: Entries, spans: Spans) -> Decode:
    """Values of fixed width, all of them valid."""
    bits = bit_width(dtype)
    if bits == 0 and not pa.types.is_fixed_size_list(dtype):
        raise entries.place.unsupported(f"values of {dtype} in a legacy file")
    require(
        bits == 0 or not (spans.stops > 8 * entries.file_size // bits).any(), entries.place, "a page exceeds the file"
    )
    first, last = spans.starts * bits, spans.stops * bits
    begins = entries.positions[spans.batches] + first // 8
    sizes = (last + 7) // 8 - first // 8
    data = join((yield _ranges(begins, sizes, entries)))
    if bits % 8:
        skipped = (np.cumsum(sizes) - sizes) * 8 + first % 8
        data = pick_bits(data, expand_spans(skipped, last - first))
    return fixed_array(dtype, spans.total, data)


def decode_variable(dtype: pa.DataType, nullable: bool, entries: Entries, spans: Spans) -> Decode:
    """Strings or binary; in a nullable field the empty ones are null."""
    lengths, begins, totals = yield from fetch_offsets(np.dtype("<i8"), entries, spans)
    data = join((yield _ranges(begins, totals, entries)))
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return variable_array(dtype, offsets, data, pack_validity(lengths > 0) if nullable else None, entries.place)


def decode_block(dtype: pa.DataType, position: int, length: int, file_size: int, place: Place) -> Decode:
    """The values of a dictionary: one page on its own; empty strings are null."""
    require(0 <= position <= file_size and 0 <= length <= file_size, place, f"{length} values at {position}")
    entries = Entries(np.array([position]), np.array([length]), file_size, place)
    spans = Spans(np.array([0]), np.array([0]), np.array([length]))
    if is_variable(dtype):
        return (yield from decode_variable(dtype, True, entries, spans))
    return (yield from decode_plain(dtype, entries, spans))


def fetch_offsets(width: np.dtype[np.signedinteger], entries: Entries, spans: Spans) -> Step:
    """Lengths of all values; and of each span where its first value begins and the lengths' total."""
    counts = spans.lengths
    size = width.itemsize
    require(not (spans.stops > entries.file_size // size).any(), entries.place, "a page exceeds the file")
    begins = entries.positions[spans.batches] + spans.starts * size
    data = join((yield _ranges(begins, (counts + 1) * size, entries)))
    offsets = np.frombuffer(data, width).astype(np.int64)
    heads = np.cumsum(counts + 1) - (counts + 1)
    lengths = np.diff(offsets)
    if len(heads) > 1:
        # The difference between the last offset of a span and the first of the next means nothing.
        lengths = np.delete(lengths, heads[1:] - 1)
    inside = not (offsets < 0).any() and not (offsets > 2**40).any()
    require(inside and not (lengths < 0).any(), entries.place, "offsets decrease or are out of range")
    return lengths, offsets[heads], offsets[heads + counts] - offsets[heads]


def require(condition: bool, place: Place, otherwise: str) -> None:
    if not condition:
        raise place.corrupt(otherwise)


def _ranges(begins: Indices, sizes: Indices, entries: Entries) -> Ranges:
    inside = not (begins < 0).any() and not (begins + sizes > entries.file_size).any()
    require(inside, entries.place, f"a page lies outside the file of {entries.file_size} bytes")
    return list(zip(begins.tolist(), sizes.tolist(), strict=True))
