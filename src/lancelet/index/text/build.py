"""A new segment: texts become tokens, tokens runs of postings, runs the rows of a part (spec indices.md 10.2).

::

    batches ──> tokens ──> run            in the threads of a pool, as many batches at once as there are cores
    old parts ──> postings ──> run        documents under the numbers that they get here, without those that are gone
    runs ──> one run in a temporary file  whenever more than a share of the memory holds them
    all runs ──> rows of part_p_invert.lance, term by term: those of many documents, of few, of one

A term has the number by which it was first met, and tokens keep that order within each of these. Documents have the order in which they
come: those of old segments first. What stays in memory are the terms, the lengths of documents, and one term's
blocks at a time. When terms alone take all the memory, another part begins.

An old part whose documents are all still what they were is copied as it is, unless it is so small beside what is
new that one part for both is better.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, arrow_scalar, numpy_array
from lancelet.errors import InvalidInput
from lancelet.format.system_columns import ROW_ID
from lancelet.index.kind import ROW, VALUE, Built
from lancelet.index.text import partition as columns
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.blocks import FIXED32, VARINT
from lancelet.index.text.fst_writer import FstWriter
from lancelet.index.text.metadata import ITEM, posting_metadata, staged_prefix, write_head
from lancelet.index.text.packing import Merger, RunMaker, make_run_of_postings
from lancelet.index.text.params import LIST_ELEMENT, Params, TextOptions
from lancelet.index.text.segment import TextSegment
from lancelet.index.text.spill import Run, Runs
from lancelet.index.text.terms import Terms
from lancelet.runtime import compute as pc
from lancelet.runtime.threads import Pool, checkpoint, core_count

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileWriter, SegmentWriter
    from lancelet.index.kind import NewRows, Source
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.text.packing import Rows
    from lancelet.index.text.partition import Partition

_POOL: Final = Pool("lancelet-texts", core_count())
_LEAST_TEXT, _MOST_TEXT = 1 << 16, 4 << 20
"""Bytes of texts that become tokens at once."""
_TEXT_SHARE: Final = 64
_WRITTEN_AT_ONCE: Final = 4 << 20
_POSTINGS_AT_ONCE: Final = 1 << 18
_MANY_TERMS: Final = 1 << 14
_COPIED: Final = 4
"""An old part is copied when it has so many times the documents of what is new."""

Numbers = npt.NDArray[np.uint32]


def write_texts(sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: TextOptions) -> Built:
    """Write a segment of the parts of older ones and of new rows."""
    params = options.params
    old = [_OldPart.of(source, part) for source in sources for part in _parts_of(source, params)]
    copied, merged = _divided(old, rows.count)
    numbers = []
    for at, one in enumerate(copied):
        one.part.copy(out, at)
        numbers.append(at)
    limit = options.memory_limit or out.memory_limit
    number = len(copied) if options.staged is None else options.staged
    stage = "" if options.staged is None else staged_prefix(number)
    pieces = _pieces(rows.batches, limit)
    is_done = False
    while not is_done:
        with _PartWriter(out, stage or f"part_{number}_", params, limit) as writer:
            for one in merged:
                writer.add_part(one)
            is_done = writer.add_rows(pieces, options.num_workers, bool(stage))
            if writer.finish():
                numbers.append(number)
        merged, number = [], number + 1
    write_head(out, params, numbers, stage)
    return Built(params.to_details(), params.index_version)


@dataclass(frozen=True, slots=True)
class _OldPart:
    """A part of an older segment, and what became of its documents."""

    part: Partition
    rows: RowNumbers
    kept: npt.NDArray[np.bool_] | None
    """Which documents are still wanted; None: all."""
    is_same: bool
    """Whether its documents are the same rows, under the same names."""

    @classmethod
    def of(cls, source: Source, part: Partition) -> _OldPart:
        rows = part.documents.rows
        dead = part.head.deleted
        assert isinstance(source.segment, TextSegment)
        outdated = source.segment.outdated(part)
        if source.rename is None and not dead and not outdated.any():
            return cls(part, rows, None, not part.is_old)
        now, kept = (rows, np.ones(len(rows), np.bool_)) if source.rename is None else source.rename(rows)
        kept = kept & ~outdated
        if dead:
            kept &= ~np.isin((rows >> np.uint64(32)).astype(np.int64), np.array(sorted(dead), np.int64))
        if kept.all():
            return cls(part, now, None, not part.is_old and np.array_equal(now, rows))
        return cls(part, now, kept, False)

    @property
    def count(self) -> int:
        return len(self.rows) if self.kept is None else int(np.count_nonzero(self.kept))


def _parts_of(source: Source, params: Params) -> Iterator[Partition]:
    segment = source.segment
    assert isinstance(segment, TextSegment)
    if not segment.params.same_tokens(params):
        raise InvalidInput(
            f"segments of a text index that were built with other options do not go together: {segment.params.to_json()} "
            f"and {params.to_json()}; build one of them again"
        )
    for part in segment.partitions:
        if params.with_position and not part.has_positions:
            raise InvalidInput("a segment without positions cannot become part of one with them; build the index again")
        yield part


def _divided(old: Sequence[_OldPart], new_rows: int | None) -> tuple[list[_OldPart], list[_OldPart]]:
    """Parts that are copied, and those that are merged with what is new: the largest stay, as long as they are large."""
    if not new_rows:
        # Segments that are put together, or whose rows were moved, become one part; one that is as it was stays so.
        return (list(old), []) if len(old) == 1 and old[0].is_same else ([], list(old))
    copied, merged = [], []
    size = new_rows
    for one in sorted(old, key=lambda one: one.count):
        if one.is_same and one.count >= _COPIED * size:
            copied.append(one)
        else:
            merged.append(one)
            size += one.count
    order = {id(one): at for at, one in enumerate(old)}
    return sorted(copied, key=lambda one: order[id(one)]), sorted(merged, key=lambda one: order[id(one)])


class _PartWriter:
    """Writes one part. Used as a context; nothing is written when there are no documents."""

    def __init__(self, out: SegmentWriter, prefix: str, params: Params, limit: int) -> None:
        self._out = out
        self._prefix = prefix
        self._params = params
        self._limit = limit
        self._terms = Terms()
        self._analyzer: Analyzer | None = None
        self._makers = threading.local()
        self._lengths: list[Numbers] = []
        self._count = 0
        self._stack = ExitStack()
        self._runs = self._stack.enter_context(Runs(params.with_position, limit // 3))
        self._docs: IndexFileWriter | None = None
        self._has_items = params.document_granularity == LIST_ELEMENT

    def __enter__(self) -> _PartWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    # Documents

    def _add_documents(self, rows: RowNumbers, lengths: Numbers, items: Numbers | None) -> None:
        if not len(rows):
            return
        if self._docs is None:
            fields = [pa.field(ROW_ID, pa.uint64(), False), pa.field(columns.NUM_TOKENS, pa.uint32(), False)]
            if self._has_items:
                fields.append(pa.field(ITEM, pa.uint32(), False))
            self._docs = self._stack.enter_context(self._create("docs", fields))
        arrays = [arrow_array(rows), arrow_array(lengths), *([] if items is None else [arrow_array(items)])]
        self._docs.write(pa.RecordBatch.from_arrays(arrays, schema=self._docs.schema))
        self._lengths.append(lengths)
        self._count += len(rows)

    def _create(
        self, what: str, fields: Sequence[pa.Field], metadata: Mapping[str, str] | None = None
    ) -> IndexFileWriter:
        return self._out.create(f"{self._prefix}{what}.lance", pa.schema(fields, metadata=metadata))

    # Old parts

    def add_part(self, old: _OldPart) -> None:
        """Take over the postings of a part."""
        part, base = old.part, self._count
        documents = part.documents
        kept = old.kept
        if kept is None:
            self._add_documents(old.rows, documents.lengths, documents.items)
            places = None
        else:
            items = None if documents.items is None else documents.items[kept]
            self._add_documents(old.rows[kept], documents.lengths[kept], items)
            places = np.cumsum(kept) - 1
        terms = self._numbers(part)
        for start, stop in _spans(part.lengths()):
            checkpoint()
            found = part.decoded(start, stop, self._params.with_position)
            starts, docs, freqs, positions = found.starts, found.docs, found.freqs, found.positions
            if kept is not None and places is not None:
                alive = kept[docs]
                starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(alive)])[starts]
                if positions is not None:
                    positions = positions[np.repeat(alive, freqs)]
                docs, freqs = places[docs[alive]].astype(np.uint32), freqs[alive]
            self._add_postings(terms[start:stop], starts, docs, freqs, positions, base)

    def _numbers(self, part: Partition) -> Numbers:
        """The number of the term of each token of a part."""
        data, offsets, ids = part.tokens.arrays()
        found = np.zeros(part.num_tokens, np.int64) - 1
        # In the order of their ids, so that those of a first part need not be sorted.
        order = np.argsort(ids, kind="stable")
        texts, ends = _reordered(data, offsets, order)
        found[ids[order]] = self._terms.intern_all(texts, ends)
        if len(ids) != part.num_tokens or (found < 0).any():
            raise part.damaged("has postings of tokens that have no name")
        return found.astype(np.uint32)

    def _add_postings(
        self,
        terms: Numbers,
        starts: npt.NDArray[np.int64],
        docs: Numbers,
        freqs: Numbers,
        positions: Numbers | None,
        base: int,
    ) -> None:
        some = np.flatnonzero(np.diff(starts))
        order = some[np.argsort(terms[some], kind="stable")]
        if len(order) < len(terms) or (order[1:] < order[:-1]).any():
            sizes = np.diff(starts)[order]
            places = _ragged(starts[order], sizes)
            if positions is not None:
                ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(freqs, dtype=np.int64)])
                positions = positions[_ragged(ends[places], freqs[places].astype(np.int64))]
            docs, freqs = docs[places], freqs[places]
            starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
            terms = terms[order]
        if len(terms):
            self._runs.add(Run(*make_run_of_postings(terms, starts, docs, freqs, positions), base))

    # New rows

    def add_rows(self, pieces: Iterator[pa.RecordBatch], workers: int | None, is_last: bool) -> bool:
        """Take in rows; several pieces become tokens at once, and are taken in in their order.

        False when there may be more of them for another part: this one, unless it ``is_last``, has all terms that memory
        is for.
        """
        at_once = max(1, min(workers or _POOL.size, _POOL.size))
        waiting: deque[Any] = deque()
        is_full = False
        try:
            for batch in pieces:
                checkpoint()
                if len(waiting) == at_once:
                    self._take_in(waiting.popleft().result())
                waiting.append(_POOL.submit(self._tokenize, batch))
                if self._terms.nbytes > self._limit and not is_last:
                    is_full = True
                    break
            while waiting:
                self._take_in(waiting.popleft().result())
        finally:
            for task in waiting:
                task.cancel()
            for task in waiting:
                task.join()
        return not is_full

    def _tokenize(self, batch: pa.RecordBatch) -> _Tokenized:
        values, rows = batch.column(VALUE), numpy_array(batch.column(ROW))
        items, count = None, -1
        if self._has_items:
            lengths_of_lists = pc.list_value_length(values)
            sizes = numpy_array(lengths_of_lists.fill_null(arrow_scalar(0, lengths_of_lists.type))).astype(np.int64)
            values = values.flatten()
            values = values.fill_null(arrow_scalar("", values.type))
            items = _ragged(np.zeros(len(sizes), np.int64), sizes).astype(np.uint32)
            rows, count = np.repeat(rows, sizes), len(values)
        notes, numbers = self.analyzer.notes(values)
        maker = self._makers.own = getattr(self._makers, "own", None) or RunMaker()
        terms, counts, lasts, offsets, data, kept, lengths = maker.make(
            notes, numbers, self._params.with_position, len(self._terms), count
        )
        run = Run(terms, counts, lasts, offsets, data, 0)
        return _Tokenized(run, rows[kept], lengths, None if items is None else items[kept])

    @property
    def analyzer(self) -> Analyzer:
        if self._analyzer is None:
            self._analyzer = Analyzer(self._params, self._terms)
        return self._analyzer

    def _take_in(self, found: _Tokenized) -> None:
        base = self._count
        self._add_documents(found.rows, found.lengths, found.items)
        if len(found.run.terms):
            self._runs.add(replace(found.run, base=base))

    # The files of tokens and postings

    def finish(self) -> bool:
        """Write what was taken in; False when there are no documents."""
        if self._docs is None:
            return False
        lengths = np.concatenate(self._lengths)
        self._docs.add_metadata("total_tokens", str(int(lengths.sum(dtype=np.uint64))))
        numbers = self._write_postings(lengths)
        self._write_tokens(numbers)
        return True

    def _write_postings(self, lengths: Numbers) -> Numbers:
        """The terms in the order of their rows."""
        params = self._params
        is_first_format = params.format_version == 1
        fields = [*_FIELDS]
        if params.with_position:
            fields += _OLD_POSITION_FIELDS if is_first_format else _POSITION_FIELDS
        tail = FIXED32 if is_first_format else VARINT
        merger = Merger(self._runs.parts(), lengths, params.block_size, tail, params.with_position, is_first_format)
        found = []
        turn, has_many = merger.turn, len(self._terms) >= _MANY_TERMS
        with self._create("invert", fields, posting_metadata(params)) as file:
            while (rows := merger.rows(_WRITTEN_AT_ONCE)) is not None:
                checkpoint()
                found.append(rows[0])
                # Small blocks take half the bytes in pages without large ones, and those of single documents less again.
                if merger.turn != turn and has_many:
                    file.end_pages()
                turn = merger.turn
                arrays = _columns_of(rows, params.with_position, is_first_format)
                file.write(pa.RecordBatch.from_arrays(arrays, schema=file.schema))
        return np.concatenate(found) if found else np.empty(0, np.uint32)

    def _write_tokens(self, numbers: Numbers) -> None:
        data, offsets = self._terms.arrays()
        ids = np.full(len(self._terms), len(numbers), np.uint32)
        ids[numbers] = np.arange(len(numbers), dtype=np.uint32)
        order = self._terms.sorted().astype(np.int64)
        order = order[ids[order] < len(numbers)]
        writer = FstWriter()
        writer.add_all(np.ascontiguousarray(data), np.ascontiguousarray(offsets, np.int64), order, ids)
        size = int(np.diff(offsets)[numbers].sum())
        fields = [
            pa.field(columns.FST, pa.large_binary(), False),
            pa.field(columns.NEXT_ID, pa.uint32(), False),
            pa.field(columns.TOTAL_LENGTH, pa.uint64(), False),
        ]
        with self._create("tokens", fields) as file:
            fst = np.frombuffer(writer.finish(), np.uint8)
            arrays = [
                _blobs(np.array([0, len(fst)], np.int64), fst),
                arrow_array(np.array([len(numbers)], np.uint32)),
                arrow_array(np.array([size], np.uint64)),
            ]
            file.write(pa.RecordBatch.from_arrays(arrays, schema=file.schema))


@dataclass(frozen=True, slots=True)
class _Tokenized:
    """What became of a batch."""

    run: Run
    rows: RowNumbers
    lengths: Numbers
    items: Numbers | None


_BLOBS: Final = pa.list_(pa.field("item", pa.large_binary()))
_FIELDS: Final = (
    pa.field(columns.POSTING, _BLOBS, False),
    pa.field(columns.MAX_SCORE, pa.float32(), False),
    pa.field(columns.LENGTH, pa.uint32(), False),
    pa.field(columns.IMPACTS, _BLOBS, False),
)
_POSITION_FIELDS: Final = (
    pa.field(columns.POSITIONS, pa.large_binary(), False),
    pa.field(columns.POSITION_OFFSETS, pa.list_(pa.field("item", pa.uint32())), False),
)
_OLD_POSITION_FIELDS: Final = (pa.field(columns.OLD_POSITIONS, pa.list_(pa.field("item", _BLOBS)), False),)


def _columns_of(rows: Rows, with_positions: bool, is_first_format: bool) -> list[pa.Array]:
    _, lengths, scores, lists, blocks, data, impact_lists, impact_ends, impacts, ends, stream, place_lists, places = (
        rows
    )
    found = [_blob_lists(lists, blocks, data), arrow_array(scores), arrow_array(lengths)]
    found.append(_blob_lists(impact_lists, impact_ends, impacts))
    if not with_positions:
        return found
    if is_first_format:
        inner = _blob_lists(places.astype(np.int32), ends, stream)
        return [*found, pa.ListArray.from_arrays(arrow_array(place_lists), inner, type=_OLD_POSITION_FIELDS[0].type)]
    starts = pa.ListArray.from_arrays(arrow_array(place_lists), arrow_array(places), type=_POSITION_FIELDS[1].type)
    return [*found, _blobs(ends, stream), starts]


def _blob_lists(lists: npt.NDArray[np.int32], ends: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.Array:
    return pa.ListArray.from_arrays(arrow_array(lists), _blobs(ends, data), type=_BLOBS)


def _blobs(ends: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


def _pieces(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Batches with a bounded number of bytes of texts."""
    most = min(max(limit // _TEXT_SHARE, _LEAST_TEXT), _MOST_TEXT)
    for batch in batches:
        count = max(1, -(-batch.column(VALUE).nbytes // most))
        step = max(1, -(-batch.num_rows // count))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def _spans(lengths: Numbers) -> Iterator[tuple[int, int]]:
    """Ranges of tokens with a bounded number of postings, if one token has not more."""
    totals = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(totals):
        before = int(totals[start - 1]) if start else 0
        stop = max(int(np.searchsorted(totals, before + _POSTINGS_AT_ONCE, side="right")), start + 1)
        yield start, stop
        start = stop


def _ragged(starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers from each start on, as many as its size says, one range behind the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    found: npt.NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
    return found


def _reordered(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Texts of a buffer in another order."""
    sizes = np.diff(offsets)[order]
    return data[_ragged(offsets[order], sizes)], np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
