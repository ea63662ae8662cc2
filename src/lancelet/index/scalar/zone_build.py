"""Segments of zones, made of older ones and of new rows: what all kinds that keep a summary of each zone have in common.

A kind says how it summarizes zones, how two summaries of one zone become one, and how the summaries of older zones
go on; zones are cut, joined over the borders of batches and followed to where their rows are now, and null rows
are gathered, for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.errors import CorruptFile
from lancelet.index.kind import ROW, VALUE, NewRows, Source
from lancelet.index.questions import Answer
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.arrow_bytes import validity
from lancelet.index.zones import Longs, Pieces, ZoneCutter, Zones

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFileWriter

NULLS = "null_bitmap"
_GATHERED = 64
_GATHERED_BYTES = 4 << 20


class Summaries(Protocol):
    """What is known of zones, or of pieces of zones."""

    @property
    def zones(self) -> Zones: ...

    def slice(self: S, start: int, stop: int) -> S:
        """Those of some of the zones."""

    def joined(self: S, after: S) -> S:
        """One zone out of two pieces."""

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The columns of a file."""


S = TypeVar("S", bound=Summaries)


class Zoned(Protocol):
    """An open segment."""

    @property
    def zones(self) -> Zones: ...

    @property
    def nulls(self) -> RowSet | None:
        """The rows whose value is null; None when the segment does not tell."""


Old = TypeVar("Old", bound=Zoned)


def missing(segment: Zoned, has_null: npt.NDArray[np.bool_]) -> Answer:
    """The rows whose value is null, or, when they are not known, those of the zones that have some."""
    if segment.nulls is not None:
        return Answer(segment.nulls, exact=True, nulls=RowSet())
    return Answer(segment.zones.rows(has_null), exact=False, nulls=RowSet())


def read_nulls(file: IndexFileReader) -> tuple[RowSet | None, int]:
    """The rows whose value is null, None when the file does not tell; and how many bytes these take."""
    number = file.metadata.get(NULLS)
    if number is None:
        return None, 0
    if not number.isdecimal():
        raise CorruptFile(file.path, f"its {NULLS} is not a number but {number!r}")
    data = file.global_buffer(int(number))
    return RowSet.deserialize(data, file.path, NULLS), len(data)


def write_zones(
    file: IndexFileWriter,
    sources: Sequence[tuple[Old, Source]],
    carried: Callable[[Old, Longs, Zones], Iterable[pa.RecordBatch]],
    rows: NewRows,
    rows_per_zone: int,
    summarize: Callable[[pa.Array, Pieces, Longs], Iterable[S]],
) -> bool:
    """Write the zones of older segments and of new rows, and which rows are null, if that is known; tells whether it is.

    Parameters
    ----------
    carried
        Gets an older segment, numbers of its zones, and where these are now; a zone may come several times.
    summarize
        Gets values, their pieces of zones, and how many nulls are in each.
    """
    nulls: list[RowSet] = []
    known = True
    for segment, source in sources:
        if segment.nulls is None:
            known = False
        else:
            nulls.append(source.renamed(segment.nulls))
        which, zones = np.arange(len(segment.zones)), segment.zones
        if source.rename is not None:
            which, zones = zones.followed(source.rename)
        for batch in carried(segment, which, zones):
            file.write(batch)
    found = _summarized(rows.batches, ZoneCutter(rows_per_zone), summarize, nulls)
    for batch in _gathered(part.batch(file.schema) for part in found):
        file.write(batch)
    if known:
        file.add_metadata(NULLS, str(file.add_global_buffer(RowSet.union(nulls).serialize())))
    return known


def _summarized(
    batches: Iterable[pa.RecordBatch],
    cutter: ZoneCutter,
    summarize: Callable[[pa.Array, Pieces, Longs], Iterable[S]],
    nulls: list[RowSet],
) -> Iterator[S]:
    """Summaries of the zones of rows; what is null is added to ``nulls``."""
    last: S | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        values, rows = batch[VALUE], numpy_array(batch[ROW])
        pieces = cutter.cut(rows)
        valid = validity(values)
        counts = np.zeros(len(pieces.begins), np.int64)
        if len(valid):
            counts = np.add.reduceat((valid == 0).astype(np.int64), pieces.begins)
            nulls.append(RowSet.of(rows[valid == 0]))
        goes_on = pieces.goes_on
        for part in summarize(values, pieces, counts):
            if last is not None and goes_on:
                last = last.joined(part.slice(0, 1))
                part = part.slice(1, len(part.zones))
            goes_on = False
            if not len(part.zones):
                continue
            if last is not None:
                yield last
            before = len(part.zones) - 1
            if before:
                yield part.slice(0, before)
            last = part.slice(before, before + 1)
    if last is not None:
        yield last


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, since each costs a writer more than its rows."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if len(held) == _GATHERED or size >= _GATHERED_BYTES:
            yield pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield pa.concat_batches(held)
