"""Stable row ids and row versions on their way into a manifest (spec table-format.md 5.2 to 5.4).

The form of a sequence is the smallest by the reference's estimate; ties go to
the first::

    not ascending                      array
    ascending, no gap                  range
    ascending, n values in min..max    holes        24 + 4 * holes
                                       bitmap       24 + ceil((max - min + 1) / 8)
                                       sorted array 24 + 2 * n
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from lancelet.format.proto import rowids_pb2
from lancelet.table.rows.row_ids import Ids, VersionSequence, parse_row_ids


def range_of_ids(start: int, count: int) -> bytes:
    """The sequence ``start``, ``start + 1``, ..."""
    return rowids_pb2.RowIdSequence(segments=[_range(start, start + count)]).SerializeToString()


def encode_row_ids(ids: Ids) -> bytes:
    """A serialized RowIdSequence of one segment."""
    return rowids_pb2.RowIdSequence(segments=[_segment(np.asarray(ids, np.uint64))]).SerializeToString()


def encode_row_id_parts(parts: Iterable[Ids]) -> bytes:
    """A serialized RowIdSequence with a segment for each part; ranges that go on become one."""
    segments: list[rowids_pb2.U64Segment] = []
    for part in parts:
        segment = _segment(np.asarray(part, np.uint64))
        before = segments[-1] if segments else None
        follows = before is not None and before.HasField("range") and segment.HasField("range")
        if follows and before is not None and before.range.end == segment.range.start:
            before.range.end = segment.range.end
        else:
            segments.append(segment)
    return rowids_pb2.RowIdSequence(segments=segments).SerializeToString()


def complete_row_ids(known: bytes | None, rows: int, next_id: int, path: str, place: str) -> tuple[bytes, int]:
    """Give ids to the rows at the end that have none; also the next free id."""
    if known is None:
        return range_of_ids(next_id, rows), next_id + rows
    sequence = parse_row_ids(known, None, path, place)
    missing = rows - len(sequence)
    if missing <= 0:
        # Checks that there are not too many.
        parse_row_ids(known, rows, path, place)
        return known, next_id
    if not len(sequence):
        return range_of_ids(next_id, rows), next_id + rows
    fresh = np.arange(next_id, next_id + missing, dtype=np.uint64)
    return encode_row_ids(np.concatenate([sequence.slice(0, len(sequence)), fresh])), next_id + missing


def same_version(version: int, rows: int) -> bytes:
    """A serialized RowDatasetVersionSequence with one version for all rows."""
    run = rowids_pb2.RowDatasetVersionRun(span=_range(0, rows), version=version)
    return rowids_pb2.RowDatasetVersionSequence(runs=[run]).SerializeToString()


def encode_versions(versions: npt.NDArray[np.uint64]) -> bytes:
    """A serialized RowDatasetVersionSequence: one run for each stretch of equal versions."""
    edges = np.flatnonzero(np.diff(versions)) + 1
    bounds = [0, *edges.tolist(), len(versions)]
    runs = [
        rowids_pb2.RowDatasetVersionRun(span=_range(start, stop), version=int(versions[start]))
        for start, stop in itertools.pairwise(bounds)
        if stop > start
    ]
    return rowids_pb2.RowDatasetVersionSequence(runs=runs).SerializeToString()


def stamp_versions(sequence: VersionSequence, rows: npt.NDArray[np.integer], version: int) -> bytes:
    """The sequence with some rows set to ``version``."""
    versions = sequence.slice(0, len(sequence))
    versions[rows] = version
    return encode_versions(versions)


def _range(start: int, end: int) -> rowids_pb2.U64Segment:
    return rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=start, end=end))


def _segment(ids: Ids) -> rowids_pb2.U64Segment:
    if not len(ids):
        return _range(0, 0)
    if np.any(ids[1:] <= ids[:-1]):
        return rowids_pb2.U64Segment(array=_array(ids))
    first, last = int(ids[0]), int(ids[-1])
    span, count = last - first + 1, len(ids)
    if last == 2**64 - 1:
        # The end of a range is exclusive, and there is no number for it.
        return rowids_pb2.U64Segment(sorted_array=_array(ids))
    if span == count:
        return _range(first, last + 1)
    costs = (24 + 4 * (span - count), 24 + (span + 7) // 8, 24 + 2 * count)
    match costs.index(min(costs)):
        case 0:
            absent = np.ones(span, np.bool_)
            absent[(ids - np.uint64(first)).astype(np.int64)] = False
            holes = np.flatnonzero(absent).astype(np.uint64) + np.uint64(first)
            kind = rowids_pb2.U64Segment.RangeWithHoles(start=first, end=last + 1, holes=_array(holes))
            return rowids_pb2.U64Segment(range_with_holes=kind)
        case 1:
            bits = np.zeros(span, np.bool_)
            bits[(ids - np.uint64(first)).astype(np.int64)] = True
            bitmap = np.packbits(bits, bitorder="little").tobytes()
            mapped = rowids_pb2.U64Segment.RangeWithBitmap(start=first, end=last + 1, bitmap=bitmap)
            return rowids_pb2.U64Segment(range_with_bitmap=mapped)
        case _:
            return rowids_pb2.U64Segment(sorted_array=_array(ids))


def _array(values: Ids) -> rowids_pb2.EncodedU64Array:
    base, top = int(values.min()), int(values.max())
    if top - base > 2**32 - 1:
        full = rowids_pb2.EncodedU64Array.U64Array(values=values.astype("<u8").tobytes())
        return rowids_pb2.EncodedU64Array(u64_array=full)
    offsets = values - np.uint64(base)
    if top - base > 2**16 - 1:
        words = rowids_pb2.EncodedU64Array.U32Array(base=base, offsets=offsets.astype("<u4").tobytes())
        return rowids_pb2.EncodedU64Array(u32_array=words)
    halves = rowids_pb2.EncodedU64Array.U16Array(base=base, offsets=offsets.astype("<u2").tobytes())
    return rowids_pb2.EncodedU64Array(u16_array=halves)
