"""Stable row ids and row versions of a fragment.

Spec table-format.md 5.2 and 5.4. Entry *i* of a row id sequence is the id of
physical row *i*, deleted rows included. Five kinds of segments say the same
thing; here all become *runs* of consecutive ids, so that memory follows the
bytes of the manifest and not the number of rows that they claim::

    range             start..end                              one run
    range_with_holes  start..end without the listed values    a run between two holes
    range_with_bitmap start..end, bit i (least significant first) set: start + i is present
    sorted_array, array                                       the values themselves

In a version sequence only the number of values of a span counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile
from lancelet.format.proto import rowids_pb2
from lancelet.table.manifest.fragment import Fragment, Spilled
from lancelet.table.manifest.manifest import parse_message
from lancelet.table.rows.addresses import MAX_ROWS
from lancelet.table.rows.row_id_wire import split_entries

Ids = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

FIRST_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class RowIdSequence:
    """Ids of physical rows as runs: run *k* has the ids ``starts[k]``, ``starts[k] + 1``, ..."""

    starts: Ids
    bounds: Counts
    """Row offset at which each run begins, and the number of rows at the end."""

    def __len__(self) -> int:
        return int(self.bounds[-1])

    @classmethod
    def from_values(cls, values: Ids) -> RowIdSequence:
        """The sequence of these ids, as a hidden column holds them."""
        starts, lengths = _as_runs(values)
        return cls(starts, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))

    def slice(self, start: int, stop: int) -> Ids:
        """Ids of the physical rows ``[start, stop)``."""
        if len(self.starts) == 1:
            only: Ids = np.arange(start, stop, dtype=np.uint64) + self.starts[0]
            return only
        low = int(np.searchsorted(self.bounds, start, side="right")) - 1
        high = int(np.searchsorted(self.bounds, stop, side="left"))
        low = max(low, 0)
        bounds = np.clip(self.bounds[low : high + 1], start, stop)
        # Each run's ids are (start of the run) + (offset of the row in it).
        begins = self.starts[low:high] + (bounds[:-1] - self.bounds[low:high]).astype(np.uint64)
        return _expand(begins, np.diff(bounds))

    def take(self, offsets: npt.NDArray[np.integer]) -> Ids:
        """Ids of single physical rows."""
        rows = np.asarray(offsets, np.int64)
        run = np.searchsorted(self.bounds, rows, side="right") - 1
        taken: Ids = self.starts[run] + (rows - self.bounds[run]).astype(np.uint64)
        return taken


@dataclass(frozen=True, slots=True, eq=False)
class VersionSequence:
    """A version for each physical row, as runs of equal ones."""

    versions: Ids
    bounds: Counts

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def slice(self, start: int, stop: int) -> Ids:
        """Versions of the physical rows ``[start, stop)``."""
        bounds: Counts = np.clip(self.bounds, start, stop)
        return np.repeat(self.versions, bounds[1:] - bounds[:-1])

    def take(self, offsets: npt.NDArray[np.integer]) -> Ids:
        """Versions of single physical rows."""
        taken: Ids = self.versions[np.searchsorted(self.bounds, np.asarray(offsets, np.int64), side="right") - 1]
        return taken


def read_row_ids(fragment: Fragment, physical_rows: int, path: str) -> RowIdSequence:
    """The inline row ids of a fragment; ``path`` is the manifest's."""
    place = f"row ids of fragment {fragment.id}"
    if fragment.row_ids is None:
        raise CorruptFile(path, "the table has stable row ids, but this fragment has none", place)
    if isinstance(fragment.row_ids, Spilled):
        raise CorruptFile(path, "are in a column, not in the manifest", place)
    return parse_row_ids(fragment.row_ids, physical_rows, path, place)


def parse_row_ids(data: bytes, physical_rows: int | None, path: str, place: str) -> RowIdSequence:
    """Read a serialized RowIdSequence and check that it has one id for each row, when their number is given."""
    entries = _entries(data, rowids_pb2.RowIdSequence, path, place)
    starts, lengths = [], []
    at = 0
    for odd in np.flatnonzero(~entries.is_range).tolist():
        starts.append(entries.starts[at:odd])
        lengths.append(_spans(entries.starts[at:odd], entries.ends[at:odd], path, place))
        begins, counts = _segment_runs(entries.segment(odd, path, place), path, place)
        starts.append(begins)
        lengths.append(counts)
        at = odd + 1
    starts.append(entries.starts[at:])
    lengths.append(_spans(entries.starts[at:], entries.ends[at:], path, place))
    begins, counts = np.concatenate(starts), np.concatenate(lengths)
    bounds = _bounds(counts, physical_rows, "ids", path, place)
    # Runs of nothing would make two runs begin at one row.
    filled = counts > 0
    return RowIdSequence(begins[filled], np.concatenate([bounds[:-1][filled], bounds[-1:]]))


def read_created_at(fragment: Fragment, physical_rows: int, path: str) -> VersionSequence:
    """In which version each row was first written."""
    return _versions(fragment.created_at, physical_rows, path, f"created-at versions of fragment {fragment.id}")


def read_last_updated_at(fragment: Fragment, physical_rows: int, path: str) -> VersionSequence:
    """In which version each row was last changed."""
    return _versions(fragment.last_updated_at, physical_rows, path, f"updated-at versions of fragment {fragment.id}")


def parse_versions(data: bytes, physical_rows: int | None, path: str, place: str) -> VersionSequence:
    """Read a serialized RowDatasetVersionSequence and check that it covers all rows, when their number is given."""
    entries = _entries(data, rowids_pb2.RowDatasetVersionSequence, path, place)
    counts: Counts = np.zeros(len(entries.starts), np.int64)
    plain = entries.is_range
    counts[plain] = _spans(entries.starts[plain], entries.ends[plain], path, place)
    for odd in np.flatnonzero(~plain).tolist():
        _, lengths = _segment_runs(entries.segment(odd, path, place), path, place)
        counts[odd] = _bounds(lengths, None, "values", path, place)[-1]
    return VersionSequence(entries.versions, _bounds(counts, physical_rows, "versions", path, place))


def _versions(data: bytes | Spilled | None, physical_rows: int, path: str, place: str) -> VersionSequence:
    if data is None:
        return VersionSequence(np.array([FIRST_VERSION], np.uint64), np.array([0, physical_rows], np.int64))
    if isinstance(data, Spilled):
        raise CorruptFile(path, "are in a column, not in the manifest", place)
    return parse_versions(data, physical_rows, path, place)


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """The entries of a sequence; those that are no plain ranges still as bytes."""

    data: bytes
    is_range: npt.NDArray[np.bool_]
    starts: Ids
    ends: Ids
    versions: Ids
    firsts: Counts
    lasts: Counts

    def segment(self, index: int, path: str, place: str) -> rowids_pb2.U64Segment:
        content = self.data[int(self.firsts[index]) : int(self.lasts[index])]
        return parse_message(content, rowids_pb2.U64Segment, path, place)


def _entries(
    data: bytes,
    kind: type[rowids_pb2.RowIdSequence] | type[rowids_pb2.RowDatasetVersionSequence],
    path: str,
    place: str,
) -> _Entries:
    versioned = kind is rowids_pb2.RowDatasetVersionSequence
    split = split_entries(data, versioned)
    if split is None:
        # Legal in protobuf but unusual, or no message at all: write it anew in the usual form.
        message = parse_message(data, kind, path, place)
        message.DiscardUnknownFields()
        data = message.SerializeToString()
        split = split_entries(data, versioned)
    if split is None:
        raise CorruptFile(path, f"not a {kind.DESCRIPTOR.name} message", place)
    return _Entries(data, *split)


def _bounds(counts: Counts, physical_rows: int | None, what: str, path: str, place: str) -> Counts:
    """Row offsets at which runs begin and end. The sum is checked first, since it need not fit 64 bits."""
    total = float(counts.sum(dtype=np.float64))
    limit = MAX_ROWS if physical_rows is None else physical_rows
    if total > 2 * limit + 1:
        raise CorruptFile(path, f"has about {total:.3g} {what} for {limit} rows", place)
    bounds: Counts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    if physical_rows is not None and int(bounds[-1]) != physical_rows:
        raise CorruptFile(path, f"has {int(bounds[-1])} {what} for {physical_rows} rows", place)
    return bounds


def _segment_runs(segment: rowids_pb2.U64Segment, path: str, place: str) -> tuple[Ids, Counts]:
    """Starts and lengths of the runs of a segment."""
    match segment.WhichOneof("segment"):
        case "range":
            begin, end = (np.array([edge], np.uint64) for edge in (segment.range.start, segment.range.end))
            return begin, _spans(begin, end, path, place)
        case "range_with_holes":
            holes = segment.range_with_holes
            return _around_holes(holes.start, holes.end, _values(holes.holes, path, place), path, place)
        case "range_with_bitmap":
            mapped = segment.range_with_bitmap
            return _as_runs(_bitmap_values(mapped, path, place))
        case "sorted_array":
            values = _values(segment.sorted_array, path, place)
            if np.any(values[1:] < values[:-1]):
                raise CorruptFile(path, "a sorted array is not sorted", place)
            return _as_runs(values)
        case "array":
            return _as_runs(_values(segment.array, path, place))
    raise CorruptFile(path, "has a segment of an unknown kind", place)


def _around_holes(start: int, end: int, holes: Ids, path: str, place: str) -> tuple[Ids, Counts]:
    if len(holes):
        if np.any(holes[1:] <= holes[:-1]):
            raise CorruptFile(path, "the holes of a range are not ascending", place)
        if int(holes[0]) < start or int(holes[-1]) >= end:
            raise CorruptFile(path, f"the range {start}..{end} has holes outside of it", place)
    begins = np.concatenate([np.array([start], np.uint64), holes + np.uint64(1)])
    ends = np.concatenate([holes, np.array([end], np.uint64)])
    return begins, _spans(begins, ends, path, place)


def _bitmap_values(mapped: rowids_pb2.U64Segment.RangeWithBitmap, path: str, place: str) -> Ids:
    length = mapped.end - mapped.start
    if length < 0 or len(mapped.bitmap) != (length + 7) // 8:
        raise CorruptFile(
            path, f"the range {mapped.start}..{mapped.end} has a bitmap of {len(mapped.bitmap)} bytes", place
        )
    bits = np.unpackbits(np.frombuffer(mapped.bitmap, np.uint8), bitorder="little")
    if bits[length:].any():
        raise CorruptFile(path, f"the bitmap of the range {mapped.start}..{mapped.end} has bits behind its end", place)
    present: Ids = np.flatnonzero(bits[:length]).astype(np.uint64) + np.uint64(mapped.start)
    return present


def _values(array: rowids_pb2.EncodedU64Array, path: str, place: str) -> Ids:
    match array.WhichOneof("array"):
        case "u16_array":
            return _offsets(array.u16_array.base, array.u16_array.offsets, "<u2", path, place)
        case "u32_array":
            return _offsets(array.u32_array.base, array.u32_array.offsets, "<u4", path, place)
        case "u64_array":
            return _offsets(0, array.u64_array.values, "<u8", path, place)
    # An array without values may leave its kind unsaid.
    return np.empty(0, np.uint64)


def _offsets(base: int, data: bytes, dtype: str, path: str, place: str) -> Ids:
    width = np.dtype(dtype).itemsize
    if len(data) % width:
        raise CorruptFile(path, f"{len(data)} bytes are not a whole number of {width}-byte values", place)
    values = np.frombuffer(data, dtype).astype(np.uint64)
    if len(values) and base + int(values.max()) >= 2**64:
        raise CorruptFile(path, f"values on the base {base} leave 64 bits", place)
    absolute: Ids = values + np.uint64(base)
    return absolute


def _spans(begins: Ids, ends: Ids, path: str, place: str) -> Counts:
    if np.any(ends < begins):
        at = int(np.argmax(ends < begins))
        raise CorruptFile(path, f"the range {int(begins[at])}..{int(ends[at])} runs backwards", place)
    lengths = ends - begins
    if len(lengths) and int(lengths.max()) >= 2**62:
        raise CorruptFile(path, f"has a range of {int(lengths.max())} ids", place)
    return lengths.astype(np.int64)


def _as_runs(values: Ids) -> tuple[Ids, Counts]:
    """Group values into runs of consecutive ones."""
    if not len(values):
        return values, np.empty(0, np.int64)
    breaks = np.flatnonzero(values[1:] != values[:-1] + np.uint64(1)) + 1
    edges: Counts = np.concatenate([np.zeros(1, np.int64), breaks, np.array([len(values)])])
    return values[edges[:-1]], np.diff(edges)


def _expand(begins: Ids, lengths: Counts) -> Ids:
    """The ids of runs one after another."""
    total = int(lengths.sum())
    before: Counts = np.cumsum(lengths) - lengths
    # Modulo 2^64, so that a run may begin with a smaller id than the number of rows before it.
    shifts: Ids = np.subtract(begins, before.astype(np.uint64))
    return np.add(np.repeat(shifts, lengths), np.arange(total, dtype=np.uint64), dtype=np.uint64)
