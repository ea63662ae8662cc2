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
from lancelet.table.fragment import Fragment, Spilled
from lancelet.table.manifest import parse_message

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


def parse_row_ids(data: bytes, physical_rows: int, path: str, place: str) -> RowIdSequence:
    """Read a serialized RowIdSequence and check that it has one id for each row."""
    message = parse_message(data, rowids_pb2.RowIdSequence, path, place)
    starts: list[Ids] = []
    lengths: list[Counts] = []
    singles: list[tuple[int, int]] = []

    def flush() -> None:
        if singles:
            pairs = np.array(singles, np.uint64)
            starts.append(pairs[:, 0])
            lengths.append(_spans(pairs[:, 0], pairs[:, 1], path, place))
            singles.clear()

    for segment in message.segments:
        # Updates write one range a row, so ranges are gathered and converted together.
        if segment.HasField("range"):
            singles.append((segment.range.start, segment.range.end))
            continue
        flush()
        begins, counts = _segment_runs(segment, path, place)
        starts.append(begins)
        lengths.append(counts)
    flush()
    # Summed without overflow: each length is below 2^63, but their sum need not be.
    total = sum(int(part.sum(dtype=np.float64)) if len(part) else 0 for part in lengths)
    if total > 2 * physical_rows + 1:
        raise CorruptFile(path, f"has about {total} ids for {physical_rows} rows", place)
    counts = np.concatenate(lengths) if lengths else np.empty(0, np.int64)
    begins = np.concatenate(starts) if starts else np.empty(0, np.uint64)
    begins, counts = begins[counts > 0], counts[counts > 0]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    if int(bounds[-1]) != physical_rows:
        raise CorruptFile(path, f"has {int(bounds[-1])} ids for {physical_rows} rows", place)
    return RowIdSequence(begins, bounds)


def read_created_at(fragment: Fragment, physical_rows: int, path: str) -> VersionSequence:
    """In which version each row was first written."""
    return _versions(fragment.created_at, physical_rows, path, f"created-at versions of fragment {fragment.id}")


def read_last_updated_at(fragment: Fragment, physical_rows: int, path: str) -> VersionSequence:
    """In which version each row was last changed."""
    return _versions(fragment.last_updated_at, physical_rows, path, f"updated-at versions of fragment {fragment.id}")


def parse_versions(data: bytes, physical_rows: int, path: str, place: str) -> VersionSequence:
    """Read a serialized RowDatasetVersionSequence and check that it covers all rows."""
    message = parse_message(data, rowids_pb2.RowDatasetVersionSequence, path, place)
    counts = [_cardinality(run.span, path, place) for run in message.runs]
    if sum(counts) != physical_rows:
        raise CorruptFile(path, f"has {sum(counts)} versions for {physical_rows} rows", place)
    versions = np.fromiter((run.version for run in message.runs), np.uint64, len(counts))
    return VersionSequence(versions, np.cumsum([0, *counts], dtype=np.int64))


def _versions(data: bytes | Spilled | None, physical_rows: int, path: str, place: str) -> VersionSequence:
    if data is None:
        return VersionSequence(np.array([FIRST_VERSION], np.uint64), np.array([0, physical_rows], np.int64))
    if isinstance(data, Spilled):
        raise CorruptFile(path, "are in a column, not in the manifest", place)
    return parse_versions(data, physical_rows, path, place)


def _segment_runs(segment: rowids_pb2.U64Segment, path: str, place: str) -> tuple[Ids, Counts]:
    """Starts and lengths of the runs of any segment but a plain range."""
    match segment.WhichOneof("segment"):
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


def _cardinality(segment: rowids_pb2.U64Segment, path: str, place: str) -> int:
    """How many values a segment has, without listing them."""
    if segment.HasField("range"):
        length = segment.range.end - segment.range.start
        if length < 0:
            raise CorruptFile(path, f"the range {segment.range.start}..{segment.range.end} runs backwards", place)
        return length
    match segment.WhichOneof("segment"):
        case "range_with_bitmap":
            return len(_bitmap_values(segment.range_with_bitmap, path, place))
        case "sorted_array":
            return len(_values(segment.sorted_array, path, place))
        case "array":
            return len(_values(segment.array, path, place))
    _, counts = _segment_runs(segment, path, place)
    return sum(map(int, counts))


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
