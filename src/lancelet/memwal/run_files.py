"""Runs: MemTables as small tables of their own (spec memwal.md 7).

A run is a table of one version and one fragment. Its rows are those of the MemTable in the order in which they came, with the
column ``_tombstone`` at the end; a deletion file hides all but the last row of each key. Beside it lie an index of all keys and a
filter. It has the indices that the base table says runs should have, under the same names.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.editing.merge.join import match_keys
from lancelet.editing.merge.keys import KeyIndex
from lancelet.encoding.plain import arrow_array
from lancelet.errors import CorruptFile, MissingFile, NotFound
from lancelet.execution.table_reader import TableReader
from lancelet.file import FileCache
from lancelet.format.file_versions import V2_0, writable_version
from lancelet.format.proto import table_pb2
from lancelet.format.schema import Field, Schema
from lancelet.format.schema_messages import schema_messages
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import ROW, VALUE
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.questions import IsIn
from lancelet.index.scalar import btree_lookup
from lancelet.index.scalar.btree_files import LOOKUP, write_segment_files
from lancelet.index.scalar.external_sort import sorted_within
from lancelet.index.scalar.value_types import key_type, stored_type
from lancelet.index.segments import usable_kind
from lancelet.indexing.create import build_segment
from lancelet.indexing.rows import columns_of_fields
from lancelet.log import LOGGER
from lancelet.memwal.names import BLOOM_FILTER, PK_INDEX_DIR, TOMBSTONE, new_run_folder
from lancelet.memwal.primary_key import PrimaryKey, bloom_filter, key_bytes, key_values, last_of_each, may_hold
from lancelet.memwal.shard_manifest import SsTable
from lancelet.memwal.wal_entry import check_added
from lancelet.table.commit import operations as ops
from lancelet.table.commit.deletion_write import write_deletions
from lancelet.table.commit.next_manifest import first_manifest
from lancelet.table.commit.run import create
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.manifest import Manifest, ManifestFile
from lancelet.table.manifest.paths import FilePlace
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from lancelet.table.rows.addresses import OFFSET_MASK
from lancelet.writing.fragments import Limits, write_fragment_files

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.index.scalar.btree_segment import BTreeSegment
    from lancelet.store import Store
    from lancelet.table.manifest.fragment import Fragment

KEY_PAGE_ROWS = 8192
_EVERYTHING = 1 << 62


def run_schema(schema: Schema) -> Schema:
    """The columns of runs of a table."""
    last = max((node.id for node in schema.walk()), default=-1)
    return Schema((*schema.fields, Field(last + 1, TOMBSTONE, "bool", nullable=False)), schema.metadata)


def write_run(
    shard: Store,
    base: Snapshot,
    batches: Sequence[pa.RecordBatch],
    generation: int,
    maintained: Sequence[str],
    folder: str | None = None,
    *,
    indexed: Snapshot | None = None,
) -> SsTable:
    """Write rows as a run of a shard; nothing refers to it yet.

    ``base`` tells its columns, and ``maintained`` names the indices that it gets: those of the version ``indexed``, where this is
    a newer one. The files of older ones may be gone.
    """
    folder = folder or new_run_folder(generation)
    store = shard.child(folder)
    key = PrimaryKey.of(base.manifest.schema)
    schema = run_schema(base.manifest.schema)
    version = writable_version(base.manifest.data_storage_version)
    with WrittenFiles(store) as files:
        limits = Limits(rows=_EVERYTHING, nbytes=_EVERYTHING)
        (fragment,) = write_fragment_files(store, schema, batches, version=version, limits=limits, files=files)
        size: int | None = None
        columns: list[pa.Array] = []
        if key:
            columns = [
                pa.concat_arrays(parts) for parts in zip(*(key.columns(batch) for batch in batches), strict=True)
            ]
            size = sum(key_bytes(key.columns(batch)) for batch in batches)
            values = key_values(columns)
            fragment = _with_deletions(store, fragment, values, files)
            _write_key_index(store, values, key, files)
        files.put(BLOOM_FILTER, bloom_filter(columns))
        operation = ops.Overwrite(schema, (fragment,))
        indices = _write_indices(store, base, operation, indexed or base, maintained, files)
        create(store, operation, storage_version=version, files=files, indices=indices)
    rows = sum(batch.num_rows for batch in batches)
    return SsTable(generation, folder, sum(batch.nbytes for batch in batches), rows, size)


def _with_deletions(store: Store, fragment: Fragment, values: pa.Array, files: WrittenFiles) -> Fragment:
    """A fragment without the rows after which another one with the same key came."""
    hidden = np.ones(len(values), np.bool_)
    hidden[last_of_each(values)] = False
    if not hidden.any():
        return fragment
    offsets = np.flatnonzero(hidden).astype(np.uint32)
    return replace(fragment, deletion_file=write_deletions(store, 0, 1, offsets, bitmap=True, files=files))


def _write_key_index(store: Store, values: pa.Array, key: PrimaryKey, files: WrittenFiles) -> None:
    """All rows by their keys, those that are hidden too."""
    out = SegmentWriter(store, uuids.uuid4(), V2_0, files, folder=PK_INDEX_DIR)
    rows = arrow_array(np.arange(len(values), dtype=np.uint64))
    batch = pa.RecordBatch.from_arrays([values, rows], names=[VALUE, ROW])
    ordered = sorted_within(iter([batch]), out.memory_limit)
    write_segment_files(ordered, stored_type(key.index_type), out, KEY_PAGE_ROWS)


def _write_indices(
    store: Store,
    base: Snapshot,
    operation: ops.Overwrite,
    indexed: Snapshot,
    maintained: Sequence[str],
    files: WrittenFiles,
) -> list[table_pb2.IndexMetadata]:
    """Segments over the rows of a run, with the settings that those of the indexed version have."""
    entries = {entry.name: entry for entry in read_indices(indexed.manifest) if entry.name in maintained}
    if not entries:
        return []
    version = writable_version(base.manifest.data_storage_version)
    message = first_manifest(operation, storage_version=version).message
    table = TableReader(Snapshot.of(store, Manifest(ManifestFile(store, "a run", 0, b""), message)))
    found = []
    for entry in entries.values():
        kind, paths = usable_kind(indexed, entry), _paths(base, entry)
        if kind is None or not kind.is_built(entry) or paths is None or paths != _paths(indexed, entry):
            # Searches of the run read its rows instead.
            LOGGER.debug("index %s of %s is of no kind that runs can have", entry.name, base.uri)
            continue
        options = kind.options_beside(IndexFolder(indexed, entry))
        found.append(build_segment(table, paths, kind, entry.name, [0], files, options=options))
    return found


def _paths(version: Snapshot, entry: IndexMetadata) -> list[str] | None:
    """The columns of an index by the names that a version has for them; None where it has not all of them."""
    if not set(entry.fields) <= {node.id for node in version.manifest.schema.walk()}:
        return None
    return columns_of_fields(TableReader(version), entry.fields).paths


@dataclass(frozen=True)
class Run:
    """A run that can be read."""

    sstable: SsTable
    store: Store
    """Its folder."""
    snapshot: Snapshot
    cache: FileCache = field(default_factory=FileCache, compare=False)

    @classmethod
    def open(cls, shard: Store, sstable: SsTable, schema: Schema, cache: FileCache | None = None) -> Run:
        """A run of a table that has this schema now."""
        store = shard.child(sstable.path)
        try:
            snapshot = open_snapshot(store, 1)
        except NotFound:
            reason = "this run was compacted and removed meanwhile, or is lost; read the table anew"
            raise MissingFile(store.uri, reason) from None
        return cls(sstable, store, _shown_as(snapshot, schema), cache or FileCache())

    @cached_property
    def table(self) -> TableReader:
        return TableReader(self.snapshot, self.cache)

    @property
    def bloom(self) -> bytes:
        """The filter of the keys, which is kept."""
        found: bytes | None = self.__dict__.get("_bloom")
        if found is None:
            found = self.__dict__["_bloom"] = self.store.read_all(BLOOM_FILTER)
        return found

    @property
    def has_key_index(self) -> bool:
        """Whether there are files beside the run that find keys; those of the first model have none."""
        found: bool | None = self.__dict__.get("_has_key_index")
        if found is None:
            found = self.__dict__["_has_key_index"] = self.store.exists(f"{PK_INDEX_DIR}/{LOOKUP}")
        return found

    def may_hold(self, hashed: npt.NDArray[np.uint64] | None) -> bool:
        """Whether any of some keys may be here, by their hashes; None for keys that filters do not know."""
        if hashed is None or not self.has_key_index:
            return True
        try:
            return bool(may_hold(self.bloom, hashed).any())
        except ValueError as error:
            raise CorruptFile(self.store.join(BLOOM_FILTER), str(error)) from error

    def rows_of(self, key: PrimaryKey, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """The physical rows that have one of some keys, hidden ones too."""
        if not self.has_key_index:
            addresses = match_keys(self.table, key.fields, KeyIndex(list(columns))).addresses
            return np.unique(addresses & np.uint64(OFFSET_MASK)).astype(np.int64)
        dtype = key_type(stored_type(key.index_type))
        values = key_values(columns)
        answer = self._key_index(dtype).ask(IsIn(values.cast(dtype) if values.type != dtype else values))
        rows: npt.NDArray[np.int64] = (answer.rows.numbers() & np.uint64(OFFSET_MASK)).astype(np.int64)
        return rows

    def _key_index(self, dtype: pa.DataType) -> BTreeSegment:
        found: BTreeSegment | None = self.__dict__.get("_opened_index")
        if found is None:
            entry = IndexMetadata(uuids.UUID(int=0), PK_INDEX_DIR, (), 1, None, "", b"", 0, None, None, (), (), {})
            found = btree_lookup.open_segment(_KeyFolder(self.snapshot, entry), dtype)
            self.__dict__["_opened_index"] = found
        return found


def _shown_as(run: Snapshot, schema: Schema) -> Snapshot:
    """A run with the columns that its table has now, which are found by their ids; those that came later are null.

    The column ``_tombstone`` may have the id of one that came later: then that one goes by another id here.
    """
    own = run.manifest.schema
    following = max((node.id for fields in (own, schema) for node in fields.walk()), default=0) + 1
    mark = next((field for field in own.fields if field.name == TOMBSTONE), None)
    if mark is None:
        # Of the time before rows could be deleted.
        mark, following = Field(following, TOMBSTONE, "bool"), following + 1
    elif own.fields == (*schema.fields, mark):
        return run
    stored = {node.id: path for field in own.fields if field is not mark for node, path in _nodes(field, field.name)}
    now = {node.id for node in schema.walk()}
    changed = {path for number, path in stored.items() if number not in now}
    fields = []
    for wanted in schema.fields:
        for node, path in _nodes(wanted, wanted.name):
            if node.id not in stored:
                check_added(path, node.nullable, changed, "its runs")
        shown, following = _renumbered(wanted, stored, following)
        fields.append(shown)
    message = table_pb2.Manifest()
    message.CopyFrom(run.manifest.message)
    del message.fields[:]
    message.fields.extend(schema_messages(Schema((*fields, mark), own.metadata)))
    return Snapshot.of(run.store, run.manifest.with_message(message))


def _nodes(field: Field, path: str) -> Iterator[tuple[Field, str]]:
    """A field and all below it, with their paths."""
    yield field, path
    for child in field.children:
        yield from _nodes(child, f"{path}.{child.name}")


def _renumbered(field: Field, stored: Container[int], following: int) -> tuple[Field, int]:
    """A field of which what is not stored has ids that no file has."""
    number, children = field.id, []
    if number not in stored:
        number, following = following, following + 1
    for child in field.children:
        shown, following = _renumbered(child, stored, following)
        children.append(shown)
    return replace(field, id=number, children=tuple(children)), following


class _KeyFolder(IndexFolder):
    """The index of keys, which no manifest knows of."""

    def place(self, name: str) -> FilePlace:
        return FilePlace(self.snapshot.store, f"{PK_INDEX_DIR}/{name}")
