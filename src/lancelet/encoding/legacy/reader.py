"""One legacy file (spec file-format.md 4.1)::

pages | page table | statistics | dictionary values
u32 length, Manifest      schema only; fields 1 and 5 are those of a file schema
u32 length, Metadata
u64 metadata position | u16 0 | u16 minor | "LANC"
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from lancelet.encoding.fetch import run
from lancelet.encoding.legacy.claims import Claims
from lancelet.encoding.legacy.pages import decode_block
from lancelet.encoding.legacy.statistics import PageStatistics, read_statistics
from lancelet.encoding.legacy.table import PageTable
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Decode, Indices, Rows, Step
from lancelet.errors import NotSupported
from lancelet.format.proto import file_pb2
from lancelet.format.schema import Field, Schema
from lancelet.store import ByteSource

FOOTER = struct.Struct("<QHH4s")
MAGIC = b"LANC"
TAIL = 64 << 10
M = TypeVar("M", bound=Message)


class LegacyReader:
    """Decodes the columns of one legacy file.

    Parameters
    ----------
    source
        The bytes of the file; its last part is read at once.
    field_ids
        The ids that the table's manifest lists for the file, in its order; -2 for those that are dead.
    dictionaries
        Values of dictionary fields by id, likewise.
    """

    __slots__ = ("_claims", "_dictionaries", "_metadata", "_source", "_table", "num_rows", "schema")

    def __init__(
        self, source: ByteSource, *, field_ids: Sequence[int] = (), dictionaries: Mapping[int, pa.Array] | None = None
    ) -> None:
        self._source = source
        self._dictionaries: dict[int, pa.Array] = {}
        tail = Tail(source)
        metadata_at = tail.metadata_position
        self._metadata = tail.message(metadata_at, file_pb2.Metadata, "metadata")
        self.schema: Schema | None = None
        ids = frozenset(field_id for field_id in field_ids if field_id >= 0)
        if self._metadata.manifest_position:
            manifest = tail.message(self._metadata.manifest_position, file_pb2.Schema, "embedded manifest")
            self.schema = Schema.from_proto(manifest.fields, manifest.metadata, path=source.path)
            ids = frozenset(field.id for field in self.schema.walk())
        self._claims = Claims(source.path, field_ids, self.schema) if field_ids else None
        offsets = _batch_offsets(self._metadata.batch_offsets, Place(source.path, "metadata"))
        if self.schema is None:
            self._dictionaries.update(dictionaries or {})
        self.num_rows = int(offsets[-1])
        self._table = PageTable(
            source.path, source.size, self._metadata.page_table_position, ids, offsets, self._dictionary_values
        )

    @property
    def num_batches(self) -> int:
        return self._table.batches

    @property
    def batch_rows(self) -> tuple[int, ...]:
        return tuple(np.diff(self._table.batch_offsets).tolist())

    def read(self, field: Field, rows: Rows) -> Decode:
        """These rows of a field; children that the file does not have, by the manifest too, are null."""
        return self._table.read(field if self._claims is None else self._claims.own(field), rows)

    def check(self, field: Field) -> None:
        """Refuse a field of which the manifest says that the file has it, and the file has not."""
        if self._claims is not None:
            self._claims.own(field)

    def statistics(self) -> dict[int, PageStatistics]:
        """Null counts and bounds of each batch by field id; empty if the file has none."""
        if not self._metadata.HasField("statistics"):
            return {}
        message = self._metadata.statistics
        schema = Schema.from_proto(message.schema, path=self._source.path)
        ids = frozenset(field.id for field in schema.walk())
        offsets = np.array([0, self.num_batches], np.int64)
        table = PageTable(
            self._source.path, self._source.size, message.page_table_position, ids, offsets, _no_dictionary
        )
        found: dict[int, PageStatistics] = run(read_statistics(table, schema.fields), self._source)
        return found

    def _dictionary_values(self, field: Field) -> Step:
        """The values of a dictionary field: those beside the data, else those that the table's manifest has."""
        values = self._dictionaries.get(field.id)
        if values is None:
            place = Place(self._source.path, f"dictionary of field '{field.name}'")
            known = self.schema.walk() if self.schema is not None else iter(())
            own = next((node.dictionary for node in known if node.id == field.id), None)
            if own is None:
                raise place.corrupt("its values are missing")
            values = yield from decode_block(field.arrow_type.value_type, *own, self._source.size, place)
            self._dictionaries[field.id] = values
        return values


class Tail:
    """The end of the file, fetched at once, and more only if a message begins earlier."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._start = max(0, source.size - TAIL)
        (self._data,) = source.read([(self._start, source.size - self._start)])
        place = Place(source.path, "footer")
        if source.size < FOOTER.size:
            raise place.corrupt(f"a file of {source.size} bytes has no footer")
        self.metadata_position, major, minor, magic = FOOTER.unpack(self._data[-FOOTER.size :].tobytes())
        if magic != MAGIC:
            raise place.corrupt(f"it ends with {magic!r}, not with {MAGIC!r}")
        if major != 0 or minor > 2:
            raise place.unsupported(f"version {major}.{minor} is not a legacy file")

    def message(self, position: int, kind: type[M], what: str) -> M:
        """A message behind its u32 length."""
        place = Place(self._source.path, what)
        if position > self._source.size - 4:
            raise place.corrupt(f"it begins at {position}, the file ends at {self._source.size}")
        (length,) = struct.unpack("<I", self._bytes(position, 4).tobytes())
        if position + 4 + length > self._source.size:
            raise place.corrupt(f"{length} bytes at {position} in a file of {self._source.size}")
        try:
            return kind.FromString(self._bytes(position + 4, length).tobytes())
        except DecodeError:
            raise place.corrupt("not a protobuf message") from None

    def _bytes(self, position: int, length: int) -> Bytes:
        if position >= self._start:
            return self._data[position - self._start :][:length]
        (data,) = self._source.read([(position, length)])
        return data


def _batch_offsets(message: Sequence[int], place: Place) -> Indices:
    offsets = np.fromiter(message, np.int64, len(message)) if message else np.zeros(1, np.int64)
    if offsets[0] != 0 or bool((np.diff(offsets) < 0).any()):
        raise place.corrupt("batch offsets do not rise from 0")
    return offsets


def _no_dictionary(field: Field) -> Step:
    raise NotSupported(f"page statistics of field '{field.name}' hold dictionaries; read without statistics")
