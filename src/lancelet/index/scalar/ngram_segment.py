"""Segments of NGRAM indices (:mod:`lancelet.index.scalar.ngram`), open and written (spec indices.md 9).

::

    ngram_postings.lance    tokens          uint32, ascending; 0 for the rows without a text (trigrams.pyx)
                            posting_list    binary, the rows as a treemap (treemaps.pyx)

Texts are reduced to letters and digits before (folding.py), so the index knows more texts to hold a piece than do. Texts
of less than three characters are nowhere, and pieces of less than three cannot be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile
from lancelet.index.kind import ROW, VALUE, Entries, NewRows, Rename, Source
from lancelet.index.questions import Answer, Holds, Question, StartsWith
from lancelet.index.row_set import RowSet
from lancelet.index.row_set_wire import read_entries, scan_sets
from lancelet.index.scalar.arrow_bytes import is_text_or_bytes, spans, validity
from lancelet.index.scalar.digests import number_digests
from lancelet.index.scalar.folding import certain_runs, code_of, folding_table
from lancelet.index.scalar.posting_runs import PostingRuns
from lancelet.index.scalar.treemaps import with_lengths, without_lengths
from lancelet.index.scalar.trigrams import TOKEN_LIMIT, sorted_postings
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, SegmentWriter

FILE = "ngram_postings.lance"
_TOKENS, _POSTINGS = "tokens", "posting_list"
_SCHEMA = pa.schema(
    [
        pa.field(_TOKENS, pa.uint32()),
        pa.field(_POSTINGS, pa.binary(), nullable=False, metadata={"lance-encoding:compression": "none"}),
    ]
)
_LETTERS = 3
_BASE = 37
_RUN_ROWS, _RUN_BYTES = 1 << 20, 24 << 20
"""Rows and bytes of texts that make a run."""
_RUN_SHARE = 6
"""A run takes about so many times the bytes of its texts."""
_LISTS_AT_ONCE = 1 << 10
_BYTES_AT_ONCE = 32 << 20
_ROWS_AT_ONCE = 1 << 22
_MOST_ASKED = 32
"""Trigrams that are looked at; more hardly leave fewer rows."""
_FEW_ROWS = 64
"""So few rows are looked at sooner than another list is read."""

Longs = npt.NDArray[np.int64]


class NGrams:
    """An open segment. The tokens are in memory; posting lists are read when they are asked for."""

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        tokens = file.read([_TOKENS])[_TOKENS]
        if tokens.type != pa.uint32() or tokens.null_count:
            raise CorruptFile(file.path, f"column {_TOKENS!r} is not made of uint32 without nulls")
        self.tokens = np.asarray(tokens)
        if np.any(self.tokens[1:] <= self.tokens[:-1]) or (len(tokens) and self.tokens[-1] >= TOKEN_LIMIT):
            raise CorruptFile(file.path, "its tokens are out of order, or too large")

    @property
    def nbytes(self) -> int:
        return int(self.tokens.nbytes + self.file.nbytes)

    def statistics(self) -> Mapping[str, Any]:
        return {"num_ngrams": len(self.tokens)}

    def ask(self, question: Question) -> Answer:
        wanted = wanted_trigrams(question)
        assert len(wanted)
        at = np.searchsorted(self.tokens, wanted)
        found = at < len(self.tokens)
        if not found.all() or np.any(self.tokens[at] != wanted):
            return Answer(RowSet(), exact=False)
        at = at[:: -(-len(at) // _MOST_ASKED)]
        data, offsets = spans(self.lists(at))
        rows: RowSet | None = None
        for part in np.argsort(np.diff(offsets)).tolist():
            more = self._rows(data[offsets[part] : offsets[part + 1]])
            rows = more if rows is None else rows & more
            if len(rows) <= _FEW_ROWS:
                break
        assert rows is not None
        return Answer(rows, exact=False)

    def entries(self, source: Source) -> Iterator[Entries]:
        for tokens, sizes, rows in self.postings():
            yield np.repeat(number_digests(tokens.astype(np.uint64)), sizes), rows

    def digests(self, values: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Of texts that every release folds in the same way it is sure what they hold."""
        tokens, sizes, places = sorted_postings(*spans(values), validity(values), folding_table())
        found = np.zeros(len(values), np.uint64)
        np.add.at(found, places.astype(np.int64), np.repeat(number_digests(tokens.astype(np.uint64)), sizes))
        return found, np.asarray(pc.string_is_ascii(values).fill_null(True))

    def lists(self, at: Longs) -> pa.Array:
        """Posting lists by their places, which ascend."""
        return self._checked(self.file.take([_POSTINGS], at)[_POSTINGS])

    def all_lists(self) -> Iterator[tuple[npt.NDArray[np.uint32], pa.Array]]:
        """All tokens and posting lists, a few at a time."""
        step = _LISTS_AT_ONCE
        start = 0
        while start < len(self.tokens):
            stop = min(start + step, len(self.tokens))
            found = self._checked(self.file.slice([_POSTINGS], start, stop)[_POSTINGS])
            yield self.tokens[start:stop], found
            step = max(min(_BYTES_AT_ONCE * len(found) // max(found.nbytes, 1), _LISTS_AT_ONCE), 1)
            start = stop

    def _checked(self, lists: pa.Array) -> pa.Array:
        if not is_text_or_bytes(lists.type) or lists.null_count:
            raise CorruptFile(self.file.path, f"column {_POSTINGS!r} is not made of bytes without nulls")
        return lists

    def _rows(self, data: npt.NDArray[np.uint8]) -> RowSet:
        return RowSet.deserialize(self._sets(data, np.array([0, len(data)]))[0].tobytes(), self.file.path, _POSTINGS)

    def _sets(self, data: npt.NDArray[np.uint8], offsets: Longs) -> tuple[npt.NDArray[np.uint8], Longs]:
        try:
            return with_lengths(data, offsets)
        except ValueError as error:
            raise CorruptFile(self.file.path, str(error), _POSTINGS) from None

    def postings(self) -> Iterator[tuple[npt.NDArray[np.uint32], Longs, npt.NDArray[np.uint64]]]:
        """Tokens, how many rows each has, and these; bounded pieces, so a token can be in several."""
        for tokens, lists in self.all_lists():
            data, offsets = self._sets(*spans(lists))
            try:
                sets, highs, starts, stops, sizes = scan_sets(data, offsets)
                at = 0
                while at < len(sizes):
                    total = np.cumsum(sizes[at:])
                    here = slice(at, at + max(int(np.searchsorted(total, _ROWS_AT_ONCE, side="right")), 1))
                    rows = read_entries(data, highs[here], starts[here], stops[here], sizes[here])
                    yield tokens[sets[here]], sizes[here], rows
                    at = here.stop
            except ValueError as error:
                raise CorruptFile(self.file.path, f"a set of rows is damaged: {error}", _POSTINGS) from None


def wanted_trigrams(question: Question) -> npt.NDArray[np.uint32]:
    """The trigrams that all texts have that are asked for, in ascending order."""
    if isinstance(question, StartsWith):
        pieces: tuple[str, ...] = (question.prefix,) if isinstance(question.prefix, str) else ()
    else:
        pieces = question.pieces if isinstance(question, Holds) else ()
    tokens: set[int] = set()
    for run in (run for piece in pieces for run in certain_runs(piece)):
        codes = [code_of(char) for char in run]
        tokens.update((a * _BASE + b) * _BASE + c for a, b, c in zip(codes, codes[1:], codes[2:], strict=False))
    return np.array(sorted(tokens), np.uint32)


def _add_rows(runs: PostingRuns, batches: Iterable[pa.RecordBatch], run_bytes: int) -> None:
    """Make runs of new rows."""
    held: list[pa.RecordBatch] = []
    rows = size = 0

    def spill() -> None:
        texts = pa.concat_arrays([batch[VALUE] for batch in held])
        numbers = np.concatenate([np.asarray(batch[ROW]) for batch in held])
        tokens, sizes, places = sorted_postings(*spans(texts), validity(texts), folding_table())
        runs.add_places(tokens, sizes, places, numbers)

    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch[VALUE].nbytes
        if rows >= _RUN_ROWS or size >= run_bytes:
            spill()
            held, rows, size = [], 0, 0
    if rows:
        spill()


def _add_segment(runs: PostingRuns, old: NGrams, rename: Rename | None) -> None:
    """Make a run of an older segment, whose rows are named as they are now."""
    run = runs.begin_rows()
    for tokens, sizes, rows in old.postings():
        if rename is not None:
            rows, kept = rename(rows)
            rows = rows[kept]
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[np.cumsum(sizes)]
            sizes = np.diff(ends, prepend=0)
        some = sizes > 0
        run.add(tokens[some], sizes[some], rows)
    run.finish()


def write_segment(sources: Sequence[Source], rows: NewRows, out: SegmentWriter) -> None:
    """Write a segment of the entries of older ones and of new rows."""
    with PostingRuns(TOKEN_LIMIT) as runs:
        for source in sources:
            assert isinstance(source.segment, NGrams)
            _add_segment(runs, source.segment, source.rename)
        _add_rows(runs, rows.batches, min(_RUN_BYTES, out.memory_limit // _RUN_SHARE))
        with out.create(FILE, _SCHEMA) as file:
            for tokens, data, offsets in runs.merged():
                maps, places = without_lengths(data, offsets)
                lists = _binary(maps, places)
                file.write(pa.RecordBatch.from_arrays([pa.array(tokens), lists], schema=_SCHEMA))


def _binary(data: npt.NDArray[np.uint8], offsets: Longs) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
