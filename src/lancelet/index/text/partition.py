"""One part of a segment: its tokens, its documents, and the postings of its tokens (spec indices.md 10.2).

::

    part_{p}_tokens.lance    the tokens and their numbers, as an FST or as rows
    part_{p}_docs.lance      a row for each document: which row of the table it is, how many tokens it has
    part_{p}_invert.lance    a row for each token: in which documents it is, how often, where

Files are opened when they are first asked; tokens and documents are read whole, postings only of the tokens that
somebody wants. In the layout from before there were parts (``tokens.lance``, ``docs.lance``, ``invert.lance``)
postings may be plain rows; they are packed into blocks when they are read, so that there is one form of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.errors import CorruptFile, NotSupported
from lancelet.format.system_columns import ROW_ID
from lancelet.index.text.blocks import (
    FIXED32,
    VARINT,
    decode_many,
    decode_many_positions,
    decode_positions,
    decode_postings,
    stream_positions,
)
from lancelet.index.text.fst import Fst
from lancelet.index.text.fst_writer import FstWriter
from lancelet.index.text.metadata import ITEM
from lancelet.index.text.packing import pack_postings
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder, SegmentWriter
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.text.metadata import Head

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]

NUM_TOKENS: Final = "_num_tokens"
FST: Final = "_token_fst_bytes"
NEXT_ID: Final = "_token_next_id"
TOTAL_LENGTH: Final = "_token_total_length"
TOKEN: Final = "_token"
TOKEN_ID: Final = "_token_id"
POSTING: Final = "_posting"
MAX_SCORE: Final = "_max_score"
LENGTH: Final = "_length"
IMPACTS: Final = "_impacts"
POSITIONS: Final = "_compressed_position"
POSITION_OFFSETS: Final = "_position_block_offset"
OLD_POSITIONS: Final = "_position"
FREQUENCY: Final = "_frequency"
_GROUP: Final = 32
"""So many blocks share an impact."""
_TAILS: Final = {"fixed32_v1": FIXED32, "varint_delta_v1": VARINT}
_POSITION_CODECS: Final = ("packed_delta_v1",)


class TokenSet(Protocol):
    """The tokens of a part, and their numbers."""

    def __len__(self) -> int: ...

    def find(self, token: bytes) -> int | None:
        """The number of a token."""

    def near(self, token: bytes, edits: int, prefix: int, limit: int) -> list[tuple[bytes, int]]:
        """Tokens within so many edits that share so many characters at the beginning, in order; at most ``limit``."""

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, int]]:
        """All that begin so, in order."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of a part; what is said of document d is at place d."""

    rows: RowNumbers
    """The rows of the table, in the segment's own terms: addresses or ids."""
    lengths: Numbers
    """How many tokens a document has."""
    items: Numbers | None = None
    """Where each item of a list is a document: which item."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total_tokens(self) -> int:
        return int(self.lengths.sum(dtype=np.uint64))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.lengths.nbytes + (0 if self.items is None else self.items.nbytes)


@dataclass(frozen=True, slots=True)
class Postings:
    """The postings of one token in one part, as the file has them: bytes that ``blocks.h`` reads."""

    length: int
    """In how many documents the token is."""
    max_score: float
    """What the writer took for its best score."""
    block_size: int
    tail: int
    """The form of the last block, when that is not full."""
    blocks: Bytes
    offsets: Offsets
    """Where each block begins in ``blocks``, and where the last one ends."""
    impacts: Bytes | None = None
    impact_offsets: Offsets | None = None
    """One entry for each block, then one for each 32 of them."""
    positions: Bytes | None = None
    position_offsets: Offsets | None = None
    """Where the positions of each block begin, and where the last ones end."""
    path: str = ""

    @property
    def nbytes(self) -> int:
        arrays = (self.blocks, self.offsets, self.impacts, self.impact_offsets, self.positions, self.position_offsets)
        return sum(array.nbytes for array in arrays if array is not None)

    def decode(self, documents: int) -> tuple[Numbers, Numbers]:
        """All documents, ascending and below ``documents``, and how often the token is in each."""
        try:
            return decode_postings(self.blocks, self.offsets, self.length, self.block_size, self.tail, documents)
        except ValueError as error:
            raise CorruptFile(self.path, str(error), POSTING) from None

    def decode_positions(self, freqs: Numbers) -> Numbers:
        """Positions in all documents, those of a document ascending."""
        if self.positions is None or self.position_offsets is None:
            raise CorruptFile(self.path, "has no positions", POSITIONS)
        try:
            return decode_positions(self.positions, self.position_offsets, freqs, self.block_size)
        except ValueError as error:
            raise CorruptFile(self.path, str(error), POSITIONS) from None


@dataclass(frozen=True, slots=True)
class DecodedPostings:
    """The postings of several tokens, one behind the other."""

    starts: Offsets
    """Where those of each token begin, and where the last ones end."""
    docs: Numbers
    freqs: Numbers
    positions: Numbers | None


class FstTokens:
    """Tokens as an FST, read where they lie."""

    def __init__(self, fst: Fst, path: str, num_tokens: int) -> None:
        self._fst = fst
        self._path = path
        self._num_tokens = num_tokens

    def __len__(self) -> int:
        return len(self._fst)

    @property
    def nbytes(self) -> int:
        return len(self._fst.data)

    def find(self, token: bytes) -> int | None:
        try:
            return self._fst.find(token)
        except ValueError as error:
            raise self._damaged(error) from None

    def near(self, token: bytes, edits: int, prefix: int, limit: int) -> list[tuple[bytes, int]]:
        try:
            return self._fst.near(token.decode(), edits, prefix, limit)
        except ValueError as error:
            raise self._damaged(error) from None

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, int]]:
        try:
            yield from self._fst.walk(prefix)
        except ValueError as error:
            raise self._damaged(error) from None

    def arrays(self) -> tuple[Bytes, Offsets, npt.NDArray[np.int64]]:
        """All tokens in order: their bytes, where each begins, and their numbers."""
        try:
            data, offsets, numbers = self._fst.arrays()
        except ValueError as error:
            raise self._damaged(error) from None
        if len(numbers) and int(numbers.max()) >= self._num_tokens:
            problem = f"has token {int(numbers.max())}, but only {self._num_tokens} have postings"
            raise CorruptFile(self._path, problem, FST)
        return data, offsets, numbers.astype(np.int64)

    def _damaged(self, error: ValueError) -> CorruptFile:
        return CorruptFile(self._path, str(error), FST)


class Partition:
    """One part of a segment. Its files are opened, and tokens and documents read, when they are first asked for."""

    def __init__(self, folder: IndexFolder, head: Head, number: int | None, prefix: str | None = None) -> None:
        self._folder = folder
        self._prefix = prefix or ("" if number is None else f"part_{number}_")
        self.head = head
        self.number = number or 0

    @property
    def nbytes(self) -> int:
        """What is held in memory."""
        held = self.__dict__
        return sum(held[name].nbytes for name in ("documents", "tokens", "_invert", "_rows_of_old") if name in held)

    def hold(self) -> tuple[Documents, FstTokens]:
        """Read documents and tokens, which stay in memory."""
        return self.documents, self.tokens

    def file_name(self, what: str) -> str:
        """Of its ``tokens``, ``docs`` or ``invert``."""
        return f"{self._prefix}{what}.lance"

    @property
    def is_old(self) -> bool:
        """Whether it is from before there were parts."""
        return not self._prefix

    def copy(self, out: SegmentWriter, number: int) -> None:
        """Copy the files into a new segment, where the part has a number."""
        for what in ("tokens", "docs", "invert"):
            out.copy(self._folder, self.file_name(what), f"part_{number}_{what}.lance")

    def damaged(self, problem: str) -> CorruptFile:
        """The error of postings that cannot be."""
        return CorruptFile(self.path, problem)

    # Documents

    @cached_property
    def documents(self) -> Documents:
        file = self._folder.open(self.file_name("docs"))
        has_items = ITEM in file.columns
        if f"{ITEM[:-1]}1" in file.columns:
            raise NotSupported(f"{file.path}: documents are items of lists of lists, which lancelet does not know yet")
        batch = file.read([ROW_ID, NUM_TOKENS, *([ITEM] if has_items else [])])
        rows = numbers_of(batch.column(0), np.uint64, file.path, ROW_ID)
        lengths = numbers_of(batch.column(1), np.uint32, file.path, NUM_TOKENS)
        items = numbers_of(batch.column(2), np.uint32, file.path, ITEM) if has_items else None
        if self.is_plain:
            # They came in any order; postings name rows, and are told apart by their order.
            order = np.argsort(rows, kind="stable")
            rows, lengths = rows[order], lengths[order]
            if len(rows) and bool((rows[1:] == rows[:-1]).any()):
                raise CorruptFile(file.path, "has a row twice", ROW_ID)
        return Documents(rows, lengths, items)

    # Tokens

    @cached_property
    def tokens(self) -> FstTokens:
        file = self._folder.open(self.file_name("tokens"))
        return _fst_of_rows(file, self.num_tokens) if TOKEN in file.columns else _fst(file, self.num_tokens)

    # Postings

    @cached_property
    def _invert(self) -> IndexFileReader:
        return self._folder.open(self.file_name("invert"))

    @property
    def path(self) -> str:
        return self._invert.path

    @cached_property
    def is_plain(self) -> bool:
        """Whether postings are rows, as in the oldest layout."""
        return not self._prefix and POSTING not in self._invert.columns

    @cached_property
    def num_tokens(self) -> int:
        return len(self._rows_of_old.offsets) - 1 if self.is_plain else self._invert.num_rows

    @property
    def block_size(self) -> int:
        return self.head.params.block_size

    @cached_property
    def tail(self) -> int:
        if self.is_plain:
            return VARINT
        codec = self._invert.metadata.get("posting_tail_codec", "fixed32_v1")
        if codec not in _TAILS:
            raise NotSupported(f"{self.path}: postings end in {codec!r}, which this version of lancelet does not know")
        return _TAILS[codec]

    @cached_property
    def has_positions(self) -> bool:
        return POSITIONS in self._invert.columns or OLD_POSITIONS in self._invert.columns or self._has_plain_positions

    @property
    def _has_plain_positions(self) -> bool:
        return self.is_plain and "_positions" in self._invert.columns

    @property
    def has_impacts(self) -> bool:
        return IMPACTS in self._invert.columns

    def postings(self, ids: Sequence[int], positions: bool = False) -> list[Postings]:
        """The postings of tokens by their numbers, with their positions if these are wanted and there are some."""
        wanted, back = np.unique(np.asarray(ids, np.int64), return_inverse=True)
        if not len(wanted):
            return []
        if wanted[0] < 0 or wanted[-1] >= self.num_tokens:
            raise CorruptFile(self.path, f"has no token {int(wanted[-1])}, only {self.num_tokens}", TOKEN_ID)
        with_positions = positions and self.has_positions
        if self.is_plain:
            found = [self._pack(int(number), with_positions) for number in wanted]
        else:
            found = self._read(self._invert.take(self._columns(with_positions), wanted), with_positions)
        return [found[place] for place in back]

    def stream(self, positions: bool = False, at_once: int = 4096) -> Iterator[Postings]:
        """The postings of all tokens in the order of their numbers; so many tokens are read at once."""
        with_positions = positions and self.has_positions
        for start in range(0, self.num_tokens, at_once):
            stop = min(start + at_once, self.num_tokens)
            if self.is_plain:
                yield from (self._pack(number, with_positions) for number in range(start, stop))
            else:
                yield from self._read(self._invert.slice(self._columns(with_positions), start, stop), with_positions)

    def decoded(self, start: int, stop: int, positions: bool = False) -> DecodedPostings:
        """The postings of the tokens from ``start`` to before ``stop``, with positions if these are wanted."""
        documents = len(self.documents)
        if self.is_plain or (positions and POSITIONS not in self._invert.columns):
            return self._decoded_singly(start, stop, positions)
        batch = self._invert.slice(self._columns(positions), start, stop)
        lengths = numbers_of(batch.column(LENGTH), np.uint32, self.path, LENGTH)
        lists = _lists(batch.column(POSTING), self.path, POSTING)
        data, offsets = _blobs(lists.values, self.path, POSTING)
        ends = numpy_array(lists.offsets).astype(np.int64)
        where = None
        try:
            starts, docs, freqs = decode_many(data, offsets, ends, lengths, self.block_size, self.tail, documents)
            if positions:
                data, offsets = _blobs(batch.column(POSITIONS), self.path, POSITIONS)
                lists = _lists(batch.column(POSITION_OFFSETS), self.path, POSITION_OFFSETS)
                places = numbers_of(lists.values, np.uint32, self.path, POSITION_OFFSETS)
                ends = numpy_array(lists.offsets).astype(np.int64)
                where = decode_many_positions(data, offsets, places, ends, starts, freqs, self.block_size)
        except ValueError as error:
            raise CorruptFile(self.path, str(error), POSTING) from None
        return DecodedPostings(starts, docs, freqs, where)

    def _decoded_singly(self, start: int, stop: int, positions: bool) -> DecodedPostings:
        starts, docs, freqs, where = [0], [], [], []
        for one in self.postings(range(start, stop), positions):
            some, often = one.decode(len(self.documents))
            starts.append(starts[-1] + one.length)
            docs.append(some)
            freqs.append(often)
            if positions:
                where.append(one.decode_positions(often))
        none = [np.empty(0, np.uint32)]
        all_positions = np.concatenate(where or none) if positions else None
        ends = np.array(starts, np.int64)
        return DecodedPostings(ends, np.concatenate(docs or none), np.concatenate(freqs or none), all_positions)

    def lengths(self) -> Numbers:
        """In how many documents each token is."""
        if self.is_plain:
            return np.diff(self._rows_of_old.offsets).astype(np.uint32)
        return numbers_of(self._invert.read([LENGTH]).column(0), np.uint32, self.path, LENGTH)

    def _columns(self, positions: bool) -> list[str]:
        names = [POSTING, MAX_SCORE, LENGTH, *([IMPACTS] if self.has_impacts else [])]
        if not positions:
            return names
        if OLD_POSITIONS in self._invert.columns:
            return [*names, OLD_POSITIONS]
        codec = self._invert.metadata.get("positions_codec", _POSITION_CODECS[0])
        if codec not in _POSITION_CODECS:
            raise NotSupported(f"{self.path}: positions are in {codec!r}, which this version of lancelet does not know")
        return [*names, POSITIONS, POSITION_OFFSETS]

    def _read(self, batch: pa.RecordBatch, positions: bool) -> list[Postings]:
        path, size = self.path, self.block_size
        lengths = numbers_of(batch.column(LENGTH), np.uint32, path, LENGTH).tolist()
        scores = numbers_of(batch.column(MAX_SCORE), np.float32, path, MAX_SCORE).tolist()
        blocks = blobs_of_lists(batch.column(POSTING), path, POSTING)
        impacts = blobs_of_lists(batch.column(IMPACTS), path, IMPACTS) if self.has_impacts else None
        found = []
        for at, (length, score) in enumerate(zip(lengths, scores, strict=True)):
            data, offsets = blocks[at]
            wanted = -(-length // size)
            if len(offsets) != wanted + 1:
                raise CorruptFile(path, f"has {len(offsets) - 1} blocks for {length} documents of a token", POSTING)
            entries: tuple[Bytes | None, Offsets | None] = (None, None)
            if impacts is not None:
                entries = impacts[at]
                if len(impacts[at][1]) != wanted + -(-wanted // _GROUP) + 1:
                    problem = f"has {len(impacts[at][1]) - 1} impacts for {wanted} blocks of a token"
                    raise CorruptFile(path, problem, IMPACTS)
            found.append(Postings(length, score, size, self.tail, data, offsets, *entries, path=path))
        if not positions:
            return found
        if OLD_POSITIONS in self._invert.columns:
            return self._with_old_positions(found, batch.column(OLD_POSITIONS))
        return self._with_positions(found, batch)

    def _with_positions(self, found: list[Postings], batch: pa.RecordBatch) -> list[Postings]:
        data, bounds = _blobs(batch.column(POSITIONS), self.path, POSITIONS)
        starts = _lists(batch.column(POSITION_OFFSETS), self.path, POSITION_OFFSETS)
        places = numbers_of(starts.values, np.uint32, self.path, POSITION_OFFSETS).astype(np.int64)
        ends = numpy_array(starts.offsets).astype(np.int64)
        done = []
        for at, one in enumerate(found):
            offsets = np.append(places[ends[at] : ends[at + 1]], bounds[at + 1] - bounds[at])
            if len(offsets) != len(one.offsets) or (np.diff(offsets) < 0).any():
                raise CorruptFile(self.path, "does not tell where the positions of each block are", POSITION_OFFSETS)
            done.append(replace(one, positions=data[bounds[at] : bounds[at + 1]], position_offsets=offsets))
        return done

    def _with_old_positions(self, found: list[Postings], column: pa.ListArray) -> list[Postings]:
        _lists(_lists(column, self.path, OLD_POSITIONS).values, self.path, OLD_POSITIONS)
        ends = numpy_array(column.offsets).astype(np.int64)
        documents = numpy_array(column.values.offsets).astype(np.int64)
        data, chunks = _blobs(column.values.values, self.path, OLD_POSITIONS)
        done = []
        for at, one in enumerate(found):
            _, freqs = one.decode(len(self.documents))
            mine = documents[ends[at] : ends[at + 1] + 1]
            try:
                stream, offsets = stream_positions(data, chunks, mine, freqs, self.block_size)
            except ValueError as error:
                raise CorruptFile(self.path, str(error), OLD_POSITIONS) from None
            done.append(replace(one, positions=stream, position_offsets=offsets))
        return done

    # The oldest layout

    @cached_property
    def _rows_of_old(self) -> _PlainRows:
        file = self._invert
        try:
            offsets = np.array([*json.loads(file.metadata["offsets"]), file.num_rows], np.int64)
            scores = np.array(json.loads(file.metadata["max_scores"]), np.float32)
        except (KeyError, ValueError, TypeError, OverflowError, RecursionError):
            raise CorruptFile(file.path, "does not tell where the postings of each token are", "offsets") from None
        if offsets.ndim != 1 or len(scores) != len(offsets) - 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise CorruptFile(file.path, "does not tell where the postings of each token are", "offsets")
        return _PlainRows(offsets, scores)

    def _pack(self, number: int, positions: bool) -> Postings:
        old, documents = self._rows_of_old, self.documents
        start, stop = old.offsets[number : number + 2].tolist()
        names = [ROW_ID, FREQUENCY, *(["_positions"] if positions else [])]
        batch = self._invert.slice(names, start, stop)
        rows = numbers_of(batch.column(0), np.uint64, self.path, ROW_ID)
        freqs = numbers_of(batch.column(1), np.float32, self.path, FREQUENCY).astype(np.uint32)
        docs = np.searchsorted(documents.rows, rows)
        if len(docs) and (int(docs.max()) >= len(documents) or bool((documents.rows[docs] != rows).any())):
            raise CorruptFile(self.path, "has postings of rows that are no documents", ROW_ID)
        order = np.argsort(docs, kind="stable")
        docs, freqs = docs[order], freqs[order]
        if (docs[1:] == docs[:-1]).any():
            raise CorruptFile(self.path, "has a row twice for a token", ROW_ID)
        where = None
        if positions:
            lists = batch.column(2).take(pa.array(order))
            if lists.null_count or (np.diff(numpy_array(lists.offsets)) != freqs).any():
                raise CorruptFile(self.path, "has positions that do not fit the frequencies", "_positions")
            where = numbers_of(lists.flatten().cast(pa.uint32()), np.uint32, self.path, "_positions")
        packed = pack_postings(docs.astype(np.uint32), freqs, where, documents.lengths, self.block_size, VARINT)
        return Postings(stop - start, float(old.scores[number]), self.block_size, VARINT, *packed, path=self.path)


@dataclass(frozen=True, slots=True)
class _PlainRows:
    offsets: Offsets
    scores: npt.NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.scores.nbytes


def _fst(file: IndexFileReader, num_tokens: int) -> FstTokens:
    if file.num_rows != 1:
        raise CorruptFile(file.path, f"has {file.num_rows} rows of tokens, not one", FST)
    column = file.read([FST]).column(0)
    if column.null_count or not (pa.types.is_large_binary(column.type) or pa.types.is_binary(column.type)):
        raise CorruptFile(file.path, f"has no bytes, but {column.type}", FST)
    try:
        fst = Fst(column[0].as_py())
    except ValueError as error:
        raise CorruptFile(file.path, str(error), FST) from None
    if len(fst) > num_tokens:
        raise CorruptFile(file.path, f"has {len(fst)} tokens, but only {num_tokens} have postings", FST)
    if not fst.is_intact:
        raise CorruptFile(file.path, "has other bytes than were written: the checksum is wrong", FST)
    return FstTokens(fst, file.path, num_tokens)


def _fst_of_rows(file: IndexFileReader, num_tokens: int) -> FstTokens:
    """Tokens that are kept as rows, in any order."""
    batch = file.read([TOKEN, TOKEN_ID])
    tokens, ids = batch.column(0), numbers_of(batch.column(1), np.uint32, file.path, TOKEN_ID)
    if tokens.null_count or not (pa.types.is_string(tokens.type) or pa.types.is_large_string(tokens.type)):
        raise CorruptFile(file.path, f"has no texts, or {tokens.null_count} nulls", TOKEN)
    if len(ids) and int(ids.max()) >= num_tokens:
        raise CorruptFile(file.path, f"has token {int(ids.max())}, but only {num_tokens} have postings", TOKEN_ID)
    data, offsets = _blobs(tokens.cast(pa.large_string()), file.path, TOKEN)
    order = np.asarray(pc.sort_indices(tokens.cast(pa.large_binary()))).astype(np.int64)
    writer = FstWriter()
    try:
        writer.add_all(data, offsets, order, ids)
    except ValueError:
        raise CorruptFile(file.path, "has a token twice", TOKEN) from None
    return FstTokens(Fst(writer.finish()), file.path, num_tokens)


def numbers_of(array: pa.Array, dtype: Any, path: str, column: str) -> npt.NDArray[Any]:
    """A column of numbers of this type, without nulls."""
    if array.null_count:
        raise CorruptFile(path, f"has {array.null_count} nulls", column)
    if array.type != pa.from_numpy_dtype(dtype):
        raise CorruptFile(path, f"has {array.type}, not {np.dtype(dtype)}", column)
    return numpy_array(array)


def _lists(column: pa.Array, path: str, name: str) -> pa.ListArray:
    if not pa.types.is_list(column.type) or column.null_count:
        raise CorruptFile(path, f"has {column.type}, or nulls, in place of lists", name)
    return column


def blobs_of_lists(column: pa.Array, path: str, name: str) -> list[tuple[Bytes, Offsets]]:
    """Of each list of blobs: all their bytes, and where each begins and the last one ends."""
    data, bounds = _blobs(_lists(column, path, name).values, path, name)
    ends = numpy_array(column.offsets).tolist()
    found = []
    for start, stop in pairwise(ends):
        first = bounds[start] if stop > start else 0
        last = bounds[stop] if stop > start else 0
        found.append((data[first:last], bounds[start : stop + 1] - first))
    return found


def _blobs(values: pa.Array, path: str, name: str) -> tuple[Bytes, Offsets]:
    """The bytes of an array of blobs or texts, and where each begins."""
    if values.null_count:
        raise CorruptFile(path, f"has {values.null_count} nulls", name)
    kind = values.type
    if not (pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)):
        if not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
            raise CorruptFile(path, f"has {kind} in place of bytes", name)
        values = values.cast(pa.large_binary())
    _, where, data = values.buffers()
    count = len(values)
    if where is None:
        return np.empty(0, np.uint8), np.zeros(count + 1, np.int64)
    offsets = np.frombuffer(where, np.int64, count + 1, values.offset * 8)
    whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if offsets[0] < 0 or offsets[-1] > len(whole) or (np.diff(offsets) < 0).any():
        raise CorruptFile(path, "has bytes beyond its end", name)
    return whole, offsets
