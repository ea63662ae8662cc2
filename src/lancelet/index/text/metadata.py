"""What a segment says of itself: ``metadata.lance``, or, before there were parts, ``tokens.lance`` (spec indices.md 10.2)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancelet.errors import CorruptFile, MissingFile, NotSupported
from lancelet.index.text.params import FORMATS, LIST_ELEMENT, ROW, Params
from lancelet.table.rows.roaring import decode_roaring

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lancelet.index.folder import IndexFileReader, IndexFolder, SegmentWriter

METADATA_FILE: Final = "metadata.lance"
OLD_FILE: Final = "tokens.lance"
STAGING: Final = "staging"
"""The folder of parts that wait to be merged."""
ITEM: Final = "_doc_index_0"
"""Where each item of a list is a document: which item."""
DELETED: Final = "deleted_fragments"
POSITIONS_LAYOUT: Final = "shared_stream_v2"
POSITIONS_CODEC: Final = "packed_delta_v1"
_WITHOUT_OUTDATED: Final = "lancelet:without_outdated_documents"
"""Segments of pylance do not say it, and may have such documents where row ids are stable."""
_SCHEMA: Final = pa.schema([pa.field(DELETED, pa.binary(), nullable=False)])
_TOKEN_SETS: Final = ("fst", "arrow")
_MOST_PARTS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Head:
    """What holds for all parts of a segment."""

    params: Params
    parts: tuple[int, ...] | None
    """The numbers of its parts; None: it is from before there were some."""
    deleted: frozenset[int] = frozenset()
    """Fragments whose documents do not count any more."""
    is_current: bool = False
    """Whether it says that no document of it is a text that its row had before it was updated."""

    @classmethod
    def read(cls, folder: IndexFolder) -> Head:
        """Of either layout."""
        names = {file.path for file in folder.entry.files}
        granularity = _granularity(folder)
        if METADATA_FILE not in names and OLD_FILE in names:
            return cls._read_old(folder, granularity)
        try:
            file = folder.open(METADATA_FILE)
        except MissingFile:
            if METADATA_FILE in names:
                raise
            return cls._read_old(folder, granularity)
        return cls._of(file, granularity)

    @classmethod
    def read_staged(cls, folder: IndexFolder, number: int) -> Head:
        """Of a part that waits to be merged with others, which has a head of its own."""
        head = cls._of(folder.open(f"{staged_prefix(number)}{METADATA_FILE}"), ROW)
        if head.parts and ITEM in folder.open(f"{staged_prefix(number)}docs.lance").columns:
            return replace(head, params=replace(head.params, document_granularity=LIST_ELEMENT))
        return head

    @classmethod
    def _of(cls, file: IndexFileReader, granularity: str) -> Head:
        said = file.metadata
        version = _number(file, "format_version", 1)
        if version not in FORMATS:
            raise NotSupported(f"{file.path}: the index is of format {version}, which lancelet does not know yet")
        if said.get("token_set_format", "fst") not in _TOKEN_SETS:
            raise NotSupported(f"{file.path}: tokens are kept as {said['token_set_format']!r}, which is not known")
        params = Params.from_json(_said(file, "params"), file.path, granularity=granularity, format_version=version)
        size = _number(file, "posting_block_size", params.block_size)
        if size != params.block_size:
            raise CorruptFile(file.path, f"has blocks of {size} documents, and of {params.block_size}", "params")
        return cls(params, _parts(file), _deleted(file), said.get(_WITHOUT_OUTDATED) == "true")

    @classmethod
    def _read_old(cls, folder: IndexFolder, granularity: str) -> Head:
        file = folder.open(OLD_FILE)
        text = file.metadata.get("tokenizer") or file.metadata.get("params") or "{}"
        return cls(Params.from_json(text, file.path, granularity=granularity, format_version=1), None)


def staged_prefix(number: int) -> str:
    """What the names of the files of a part begin with that waits to be merged with others."""
    return f"{STAGING}/part_{number}_"


def staged_numbers(names: Iterable[str]) -> list[int]:
    """The parts whose heads are among the files that wait."""
    found = (re.fullmatch(r"part_(\d{1,20})_metadata\.lance", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def write_head(out: SegmentWriter, params: Params, parts: Sequence[int], prefix: str = "") -> None:
    """Write ``metadata.lance``."""
    with out.create(f"{prefix}{METADATA_FILE}", _SCHEMA) as file:
        file.add_metadata("partitions", json.dumps(list(parts), separators=(",", ":")))
        file.add_metadata("params", params.to_json())
        file.add_metadata("token_set_format", "fst")
        for key, value in posting_metadata(params).items():
            file.add_metadata(key, value)
        if params.format_version == 1:
            file.add_metadata("posting_tail_codec", "fixed32_v1")
        if out.stable_row_ids:
            file.add_metadata(_WITHOUT_OUTDATED, "true")
        empty = BitMap().serialize()
        buffers = [None, pa.py_buffer(np.array([0, len(empty)], np.int32)), pa.py_buffer(empty)]
        file.write(pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.binary(), 1, buffers)], schema=_SCHEMA))


def posting_metadata(params: Params) -> dict[str, str]:
    """What the files of postings say of their bytes."""
    said = {"posting_block_size": str(params.block_size), "format_version": str(params.format_version)}
    if params.format_version > 1:
        said["posting_tail_codec"] = "varint_delta_v1"
        if params.with_position:
            said |= {"positions_layout": POSITIONS_LAYOUT, "positions_codec": POSITIONS_CODEC}
    return said


def _granularity(folder: IndexFolder) -> str:
    details = folder.entry.details
    if not details:
        return ROW
    told = Params.from_details(details, folder.snapshot.manifest.path)
    return LIST_ELEMENT if told.document_granularity == LIST_ELEMENT else ROW


def _said(file: IndexFileReader, key: str) -> str:
    if key not in file.metadata:
        raise CorruptFile(file.path, f"does not tell {key!r}", key)
    return file.metadata[key]


def _number(file: IndexFileReader, key: str, otherwise: int) -> int:
    text = file.metadata.get(key)
    if text is None:
        return otherwise
    if not text.isdecimal() or len(text) > 9:
        raise CorruptFile(file.path, f"tells no number, but {text[:100]!r}", key)
    return int(text)


def _parts(file: IndexFileReader) -> tuple[int, ...]:
    text = _said(file, "partitions")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if (
        not isinstance(found, list)
        or len(found) > _MOST_PARTS
        or not all(type(number) is int and 0 <= number < 1 << 64 for number in found)
        or len(set(found)) < len(found)
    ):
        raise CorruptFile(file.path, f"is no list of different numbers: {text[:100]!r}", "partitions")
    return tuple(found)


def _deleted(file: IndexFileReader) -> frozenset[int]:
    if DELETED not in file.columns:
        return frozenset()
    column = file.read([DELETED]).column(0)
    if len(column) != 1 or column.null_count:
        raise CorruptFile(file.path, f"has {len(column)} sets of fragments, not one", DELETED)
    data = column[0].as_py()
    return frozenset(decode_roaring(data, file.path, DELETED).tolist()) if data else frozenset()
