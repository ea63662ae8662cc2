"""Segments of MINHASHLSH indices (:mod:`lancelet.index.minhash.kind`), open and written (spec indices.md 13).

::

    signatures.lance   _rowid      uint64                              one row for each text that has tokens, a document
                       signature   fixed_size_list<uint16>[hashes]
    bands.lance        band_key    uint64, ascending                   one row for each band of each document
                       doc_id      uint32, the row in signatures.lance
                       a global buffer: the last key of every 4096 rows, uint64

    in the metadata of both: minhash_lsh_details, the details in hexadecimal, and minhash_lsh_index_version
    in that of bands.lance: minhash_lsh_num_docs, minhash_lsh_page_rows, minhash_lsh_page_table_buffer

A text is near another one if a band of their signatures is equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile
from lancelet.format.system_columns import ROW_ID
from lancelet.index.kind import ROW, VALUE, Entries, NewRows, Rename, Source
from lancelet.index.minhash.params import MinHashParams, Signatures
from lancelet.index.ranked import Ranked
from lancelet.index.row_set import RowNumbers
from lancelet.index.scalar.bloom import hash_fixed
from lancelet.index.spilled_arrays import SpilledArrays
from lancelet.index.text.analyzer import Analyzer

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder, SegmentWriter

_SIGNATURES, _BANDS = "signatures.lance", "bands.lance"
_SIGNATURE, _KEY, _DOC = "signature", "band_key", "doc_id"
_PREFIX: Final = "minhash_lsh_"
_PAGE_ROWS: Final = 4096
_DOCS_AT_ONCE: Final = 1 << 14
_WRITTEN_AT_ONCE: Final = 1 << 17
_HELD_SHARE: Final = 4
"""What part of the memory holds keys, and, later, those that are sorted."""
_SORTED_BYTES: Final = 40
"""What sorting needs for a key."""
_SAMPLED: Final = 64
"""Of so many keys one is looked at to find one in the middle."""
_PLAIN: Final = {"lance-encoding:compression": "none"}

_Keys = npt.NDArray[np.uint64]
_Docs = npt.NDArray[np.uint32]


class NearTexts:
    """An open segment. The last keys of pages are in memory; the rest is read when it is asked for."""

    def __init__(self, folder: IndexFolder) -> None:
        self.params = MinHashParams.from_details(folder.entry.details, folder.snapshot.manifest.path)
        self.params.check()
        self.signatures, self.bands = folder.open(_SIGNATURES), folder.open(_BANDS)
        self.num_docs = self.signatures.num_rows
        wanted = pa.list_(pa.field("item", pa.uint16()), self.params.num_hashes)
        if self.signatures.type(_SIGNATURE) != wanted or self.bands.num_rows != self.num_docs * self.params.num_bands:
            raise CorruptFile(
                self.bands.path, f"it is not made of {self.params.num_bands} bands of {self.num_docs} texts"
            )
        self.page_rows = _number(self.bands, "page_rows")
        table = self.bands.global_buffer(_number(self.bands, "page_table_buffer")) if self.num_docs else b""
        if not self.page_rows or len(table) != 8 * -(-self.bands.num_rows // self.page_rows):
            raise CorruptFile(self.bands.path, "its last keys are not those of its pages")
        self.last_keys = np.frombuffer(table, "<u8")

    @property
    def nbytes(self) -> int:
        return int(self.last_keys.nbytes + self.signatures.nbytes + self.bands.nbytes)

    def statistics(self) -> Mapping[str, Any]:
        params = self.params
        return {
            "type": "MinHashLsh",
            "num_docs": self.num_docs,
            "num_pages": len(self.last_keys),
            "num_hashes": params.num_hashes,
            "num_bands": params.num_bands,
            "shingle_size": params.shingle_size,
            "signature_version": 0,
        }

    def best(self, wanted: Signatures, count: int, rename: Rename) -> Ranked:
        """The rows whose texts are nearest to that of a signature."""
        docs = self._near(wanted)
        best = Ranked(np.empty(0, np.uint64), np.empty(0, np.float32))
        for start in range(0, len(docs), _DOCS_AT_ONCE):
            found = self.signatures.take([ROW_ID, _SIGNATURE], docs[start : start + _DOCS_AT_ONCE].astype(np.int64))
            rows, kept = rename(np.asarray(found[ROW_ID]))
            marks = self.params.distances(_matrix(found[_SIGNATURE]), wanted)[kept]
            rows, marks = np.concatenate([best.rows, rows[kept]]), np.concatenate([best.marks, marks])
            order = np.lexsort((rows, marks))[:count]
            best = Ranked(rows[order], marks[order])
        return best

    def _near(self, wanted: Signatures) -> npt.NDArray[np.uint32]:
        """Documents of which a band is equal, ascending."""
        keys = self.params.keys(wanted[None, :])[0]
        first = np.searchsorted(self.last_keys, keys, side="left")
        last = np.searchsorted(self.last_keys, keys, side="right")
        docs = np.empty(0, np.uint32)
        for key, start, stop in zip(keys, first.tolist(), last.tolist(), strict=True):
            if start == len(self.last_keys):
                continue
            end = min((stop + 1) * self.page_rows, self.bands.num_rows)
            found = [docs]
            for begin in range(start * self.page_rows, end, _WRITTEN_AT_ONCE):
                page = self.bands.slice([_KEY, _DOC], begin, min(begin + _WRITTEN_AT_ONCE, end))
                found.append(np.asarray(page[_DOC])[np.asarray(page[_KEY]) == key])
            docs = np.unique(np.concatenate(found))
        if len(docs) and docs[-1] >= self.num_docs:
            raise CorruptFile(self.bands.path, f"names text {docs[-1]} of {self.num_docs}", _DOC)
        return docs

    def documents(self) -> Iterator[tuple[RowNumbers, Signatures]]:
        """All rows and their signatures, some at a time."""
        for start in range(0, self.num_docs, _DOCS_AT_ONCE):
            batch = self.signatures.slice([ROW_ID, _SIGNATURE], start, min(start + _DOCS_AT_ONCE, self.num_docs))
            yield np.asarray(batch[ROW_ID]), _matrix(batch[_SIGNATURE])

    def entries(self, source: Source) -> Iterator[Entries]:
        for rows, signatures in self.documents():
            yield self._digests(signatures), rows

    def digests(self, values: pa.Array) -> tuple[npt.NDArray[np.uint64], None]:
        found = np.zeros(len(values), np.uint64)
        places, signatures = self.params.sign(Analyzer(self.params.tokenizer), values)
        found[places] = self._digests(signatures)
        return found, None

    def _digests(self, signatures: Signatures) -> npt.NDArray[np.uint64]:
        return hash_fixed(np.ascontiguousarray(signatures).view(np.uint8).reshape(-1), 2 * self.params.num_hashes)


def write_segment(sources: Sequence[Source], rows: NewRows, out: SegmentWriter, params: MinHashParams) -> None:
    """Write signatures as they come, then their bands by key, which are in a temporary file if they do not fit into memory."""
    item = pa.list_(pa.field("item", pa.uint16()), params.num_hashes)
    told = {f"{_PREFIX}details": params.to_details().hex(), f"{_PREFIX}index_version": "0"}
    schema = pa.schema(
        [
            pa.field(ROW_ID, pa.uint64(), nullable=False),
            pa.field(
                _SIGNATURE, item, nullable=False, metadata={"lance-encoding:structural-encoding": "fullzip", **_PLAIN}
            ),
        ],
        metadata=told,
    )
    with SpilledArrays(out.memory_limit // _HELD_SHARE) as keys:
        docs = _write_signatures(_documents(sources, rows, params), out, schema, params, keys)
        _write_bands(keys, docs, params, out, told)


def _write_signatures(
    documents: Iterator[tuple[RowNumbers, Signatures]],
    out: SegmentWriter,
    schema: pa.Schema,
    params: MinHashParams,
    keys: SpilledArrays,
) -> int:
    """Tells how many they are; of each array of keys a row is a band."""
    docs, item = 0, schema.field(_SIGNATURE).type
    with out.create(_SIGNATURES, schema) as file:
        for numbers, signatures in documents:
            flat = pa.array(signatures.reshape(-1))
            file.write(
                pa.RecordBatch.from_arrays(
                    [pa.array(numbers), pa.FixedSizeListArray.from_arrays(flat, type=item)], schema=schema
                )
            )
            keys.add(np.ascontiguousarray(params.keys(signatures).T))
            docs += len(numbers)
    return docs


def _documents(
    sources: Sequence[Source], rows: NewRows, params: MinHashParams
) -> Iterator[tuple[RowNumbers, Signatures]]:
    for source in sources:
        assert isinstance(source.segment, NearTexts)
        for numbers, signatures in source.segment.documents():
            now, kept = (numbers, np.ones(len(numbers), np.bool_)) if source.rename is None else source.rename(numbers)
            if kept.any():
                yield now[kept], signatures[kept]
    for batch in rows.batches:
        for start in range(0, batch.num_rows, _DOCS_AT_ONCE):
            part = batch.slice(start, _DOCS_AT_ONCE)
            # Terms are kept for as long as they are needed.
            places, signatures = params.sign(Analyzer(params.tokenizer), part.column(VALUE))
            if len(places):
                yield np.asarray(part.column(ROW))[places], signatures


def _write_bands(
    keys: SpilledArrays, docs: int, params: MinHashParams, out: SegmentWriter, told: Mapping[str, str]
) -> None:
    schema = pa.schema(
        [
            pa.field(_KEY, pa.uint64(), nullable=False, metadata=_PLAIN),
            pa.field(_DOC, pa.uint32(), nullable=False, metadata=_PLAIN),
        ]
    )
    last_keys: list[npt.NDArray[np.uint64]] = []
    done, total = 0, docs * params.num_bands
    with out.create(_BANDS, schema) as file:
        for found, numbers in _sorted_keys(keys, docs, params, out.memory_limit):
            file.write(pa.RecordBatch.from_arrays([pa.array(found), pa.array(numbers)], schema=schema))
            ends = np.arange(_PAGE_ROWS - 1 - done % _PAGE_ROWS, len(found), _PAGE_ROWS)
            last_keys.append(found[ends])
            done += len(found)
            if done == total and done % _PAGE_ROWS:
                last_keys.append(found[-1:])
        buffer = b"".join(part.astype("<u8").tobytes() for part in last_keys)
        table = file.add_global_buffer(buffer)
        facts = {"num_docs": docs, "page_rows": _PAGE_ROWS, "page_table_buffer": table}
        for name, value in {**told, **{_PREFIX + name: str(value) for name, value in facts.items()}}.items():
            file.add_metadata(name, value)


def _sorted_keys(
    keys: SpilledArrays, docs: int, params: MinHashParams, memory_limit: int
) -> Iterator[tuple[_Keys, _Docs]]:
    """Keys and documents by both, some at a time: band after band, and of a band so many ranges that one is sorted in memory."""
    most = max(memory_limit // _HELD_SHARE // _SORTED_BYTES, 1)
    shares = -(-docs // most)
    for band in range(params.num_bands):
        for share in range(shares):
            low, high = params.range_of_keys(band, share, shares)
            yield from _keys_between(_Band(keys, band), low, high, 2 * most)


@dataclass(frozen=True, slots=True)
class _Band:
    """The keys of one band, in the order of their documents."""

    keys: SpilledArrays
    band: int

    def between(self, low: np.uint64, high: np.uint64) -> Iterator[tuple[_Keys, _Docs]]:
        """Keys from one to another one, and their documents."""
        before = 0
        for chunk in range(len(self.keys)):
            (mine,) = self.keys.part(chunk, self.band, self.band + 1)
            here = np.flatnonzero((mine >= low) & (mine <= high))
            yield mine[here], (here + before).astype(np.uint32)
            before += len(mine)


def _keys_between(band: _Band, low: np.uint64, high: np.uint64, most: int) -> Iterator[tuple[_Keys, _Docs]]:
    """A range of keys and their documents, by both. One with more than are sorted at once is cut, around one of its keys.

    Where most texts are the same, that is the key of most of them, and these need no sorting.
    """
    found, numbers = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
    count = 0
    for mine, places in band.between(low, high):
        count += len(mine)
        if count > most:
            break
        found.append(mine)
        numbers.append(places)
    if count <= most:
        flat, docs_of = np.concatenate(found), np.concatenate(numbers)
        order = np.argsort(flat, kind="stable")
        for start in range(0, len(order), _WRITTEN_AT_ONCE):
            some = order[start : start + _WRITTEN_AT_ONCE]
            yield flat[some], docs_of[some]
        return
    sample = np.sort(np.concatenate([mine[::_SAMPLED] for mine, _ in band.between(low, high)]))
    middle, one = sample[len(sample) // 2], np.uint64(1)
    if low < middle:
        yield from _keys_between(band, low, middle - one, most)
    for mine, places in band.between(middle, middle):
        if len(mine):
            yield mine, places
    if middle < high:
        yield from _keys_between(band, middle + one, high, most)


def _matrix(values: pa.Array) -> Signatures:
    return np.asarray(values.flatten()).reshape(len(values), values.type.list_size)


def _number(file: IndexFileReader, name: str) -> int:
    text = file.metadata.get(_PREFIX + name, "")
    if not text.isdecimal():
        raise CorruptFile(file.path, f"{_PREFIX}{name} is {text!r}, and no number", "schema metadata")
    return int(text)
