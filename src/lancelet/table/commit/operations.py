"""Operations: what a transaction does to a table (spec table-format.md 6.2).

Each is a frozen value that can be sent to another process. ``Transaction`` adds
the version that the work was based on; ``transaction_message`` and
``transaction_from_proto`` in ``transactions.py`` are its wire form.

Fragments of ``Append``, ``Overwrite`` and ``Update.new_fragments`` have the id 0
and no row ids: both are given when the manifest is built, so that a retry gives
new ones. All other fragments are complete records.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias
from uuid import UUID

from lancelet.format.proto import table_pb2
from lancelet.format.schema import Schema
from lancelet.table.manifest.fragment import DataFile, Fragment, OverlayFile
from lancelet.table.manifest.manifest import BasePath
from lancelet.table.rows.roaring import decode_roaring


@dataclass(frozen=True)
class IndexSegment:
    """An ``IndexMetadata`` message, kept as bytes so that whatever we do not know of it survives."""

    data: bytes

    @classmethod
    def of(cls, message: table_pb2.IndexMetadata) -> IndexSegment:
        return cls(message.SerializeToString())

    @cached_property
    def message(self) -> table_pb2.IndexMetadata:
        return table_pb2.IndexMetadata.FromString(self.data)

    def __getstate__(self) -> dict[str, bytes]:
        return {"data": self.data}

    @property
    def uuid(self) -> bytes:
        return self.message.uuid.uuid

    @property
    def name(self) -> str:
        return self.message.name

    @property
    def fields(self) -> tuple[int, ...]:
        return tuple(self.message.fields)

    @cached_property
    def fragment_ids(self) -> frozenset[int] | None:
        """Covered fragments; None when the writer did not say."""
        if not self.message.HasField("fragment_bitmap"):
            return None
        return frozenset(decode_roaring(self.message.fragment_bitmap, f"index {self.name}", "fragments").tolist())


@dataclass(frozen=True, slots=True)
class Append:
    """New rows at the end."""

    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows marked as deleted, and fragments that lost all of theirs."""

    updated_fragments: tuple[Fragment, ...]
    deleted_fragment_ids: tuple[int, ...]
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """New content and schema; also how a table is created."""

    schema: Schema
    fragments: tuple[Fragment, ...]
    config_upserts: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Index segments added and removed; without new ones, an index dropped."""

    new_indices: tuple[IndexSegment, ...] = ()
    removed_indices: tuple[IndexSegment, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Fragments, and those with the same rows that replace them."""

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """An index segment, and the one that replaces it after its rows moved."""

    old_uuid: UUID
    new_uuid: UUID
    details_type_url: str
    details: bytes
    index_version: int
    files: tuple[tuple[str, int], ...] = ()
    """Path and size of each file."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The same rows in other files: compaction."""

    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[RewrittenIndex, ...] = ()
    moves: bytes | None = None
    """For the fragment-reuse index: what became of the rows' addresses. Like the next one it goes into the list of
    indices, not into the transaction."""
    followers: frozenset[str] | None = None
    """Kinds of indices that follow ``moves``, by the names of their details; the others give up the old fragments.
    None are all."""
    reuse_index: IndexSegment | None = None
    """The entry of the fragment-reuse index that holds ``moves``; made anew whenever the newest version changes."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Columns added or exchanged; ``fragments`` is the complete new list."""

    fragments: tuple[Fragment, ...]
    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """An old version made the newest again."""

    version: int


@dataclass(frozen=True, slots=True)
class ReserveFragments:
    """Fragment ids taken for a later commit."""

    num_fragments: int


@dataclass(frozen=True, slots=True)
class CompactedSsTable:
    """A run of a MemWAL that went into the table."""

    shard: UUID
    generation: int


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Which keys a merge inserted (spec table-format.md 7.5): a bloom filter, or the hashes themselves."""

    field_ids: tuple[int, ...]
    bitmap: bytes | None = None
    num_bits: int = 0
    number_of_items: int = 0
    probability: float = 0.0
    hashes: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Rows or columns replaced."""

    removed_fragment_ids: tuple[int, ...] = ()
    updated_fragments: tuple[Fragment, ...] = ()
    new_fragments: tuple[Fragment, ...] = ()
    fields_modified: tuple[int, ...] = ()
    """Fields whose values changed in place."""
    preserved_fields: tuple[int, ...] = ()
    """``fields_for_preserving_frag_bitmap``: fields of the rows that moved whose values changed."""
    rewrites_columns: bool = False
    """False: changed rows moved to new fragments. True: fragments got new files for some columns."""
    inserted_keys: KeyFilter | None = None
    updated_offsets: Mapping[int, bytes] = field(default_factory=dict)
    """For each fragment with new columns, the Roaring bitmap of the rows that changed."""
    compacted_sstables: tuple[CompactedSsTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """Columns dropped, renamed or reordered."""

    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class MapEdits:
    """Edits of a map of texts; None removes a key."""

    updates: Mapping[str, str | None]
    replace: bool = False
    """The updates are the whole new map."""


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Config and metadata edited."""

    config: MapEdits | None = None
    table_metadata: MapEdits | None = None
    schema_metadata: MapEdits | None = None
    field_metadata: Mapping[int, MapEdits] = field(default_factory=dict)
    """By field id."""


@dataclass(frozen=True, slots=True)
class DataReplacement:
    """Files of one set of fields exchanged, fragment by fragment."""

    replacements: tuple[tuple[int, DataFile], ...]
    """Fragment id and new file."""


@dataclass(frozen=True, slots=True)
class UpdateMemWalState:
    """Runs of a MemWAL marked as merged into the table."""

    compacted_sstables: tuple[CompactedSsTable, ...]


@dataclass(frozen=True, slots=True)
class Clone:
    """The first commit of a clone or branch."""

    is_shallow: bool
    ref_name: str | None
    ref_version: int
    ref_path: str
    branch_name: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateBases:
    """Base paths added; the id 0 asks for a free one."""

    new_bases: tuple[BasePath, ...]
    moves: bool = False
    """The base paths are there, and are at other places now; the wire form is the same."""


@dataclass(frozen=True, slots=True)
class DataOverlay:
    """New values for single cells."""

    groups: tuple[tuple[int, tuple[OverlayFile, ...]], ...]
    """Fragment id and overlays."""


Operation: TypeAlias = (
    Append
    | Delete
    | Overwrite
    | CreateIndex
    | Rewrite
    | Merge
    | Restore
    | ReserveFragments
    | Update
    | Project
    | UpdateConfig
    | DataReplacement
    | UpdateMemWalState
    | Clone
    | UpdateBases
    | DataOverlay
)

LEAVING_ROWS = (
    Rewrite,
    CreateIndex,
    UpdateConfig,
    ReserveFragments,
    UpdateBases,
    UpdateMemWalState,
    Clone,
    Project,
    Merge,
)
"""After these there are the same rows, and what was in them is still the same."""
TRACED_BY_LINEAGE = (Append, Overwrite, Delete, Update)
"""Of these the rows' lineage tells which rows are new, changed or gone. Of what is in neither list nobody knows."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One commit: what it does, and the version it was based on."""

    read_version: int
    operation: Operation
    uuid: str = field(default_factory=lambda: str(uuids.uuid4()))
    properties: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""

    @property
    def file_name(self) -> str:
        """Name inside ``_transactions/``."""
        return f"{self.read_version}-{self.uuid}.txn"
