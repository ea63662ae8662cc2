"""Transactions as users hold them, under pylance's names: what a commit did to a table (spec table-format.md 6.2).

pylance's classes have no place for some of what a transaction holds. Attributes that are no fields of these dataclasses
carry it, so that a change that was made and shown commits whole. ``conversion.py`` makes these of the operations
that the commit layer knows, and back.
"""

from __future__ import annotations

import uuid as uuids
import warnings
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lancelet._api.fragment_metadata import DataFile, FragmentMetadata
from lancelet.bitmap import Bitmap
from lancelet.schema import LanceSchema
from lancelet.table.manifest.manifest import BasePath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancelet.table.commit.operations import CompactedSsTable, KeyFilter, Operation


@dataclass
class IndexFile:
    """A file of an index segment."""

    path: str
    size_bytes: int


@dataclass
class Index:
    """An index segment."""

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: Bitmap
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None
    covering_fields: list[int] = field(default_factory=list)
    stored = cast("bytes | None", None)
    """The entry of the manifest that this was made of, with whatever else it says."""


class LanceOperation:
    """The kinds of changes."""

    class BaseOperation:
        """Any change."""

        stored = cast("Operation | None", None)
        """What it is, when only the library makes it: ids reserved, base paths added, runs of a MemWAL marked as merged."""

    @dataclass
    class Append(BaseOperation):
        """New rows at the end."""

        fragments: list[FragmentMetadata]

    @dataclass
    class Overwrite(BaseOperation):
        """New content and schema; also how a table is created."""

        new_schema: LanceSchema | pa.Schema
        fragments: list[FragmentMetadata]
        initial_bases: list[BasePath] | None = None
        config_upserts = cast("Mapping[str, str]", MappingProxyType({}))
        """Entries of the new table's config."""

    @dataclass
    class Delete(BaseOperation):
        """Rows marked as deleted, and fragments that lost all of theirs."""

        updated_fragments: list[FragmentMetadata]
        deleted_fragment_ids: list[int]
        predicate: str

    @dataclass
    class Update(BaseOperation):
        """Rows or columns replaced."""

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        updated_fragment_offsets: dict[int, bytes] | None = None
        inserted_keys = cast("KeyFilter | None", None)
        """Keys of rows that a merge inserted: another merge of the same keys notices."""
        compacted_sstables = cast("tuple[CompactedSsTable, ...]", ())
        """Runs of a MemWAL whose rows these are."""

    @dataclass
    class Merge(BaseOperation):
        """Columns added; the fragments are the complete new list."""

        fragments: list[FragmentMetadata]
        schema: LanceSchema | pa.Schema
        preserves_nullability: bool = False

        def __post_init__(self) -> None:
            if isinstance(self.schema, pa.Schema):
                warnings.warn(
                    "a Merge with a pyarrow.Schema is deprecated, use a LanceSchema", DeprecationWarning, stacklevel=3
                )

    @dataclass
    class Project(BaseOperation):
        """Columns dropped, renamed or reordered."""

        schema: LanceSchema | pa.Schema
        preserves_nullability: bool = False

    @dataclass
    class Restore(BaseOperation):
        """An old version made the newest again."""

        version: int

    @dataclass
    class Clone(BaseOperation):
        """The first commit of a clone or branch."""

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None

    @dataclass
    class RewriteGroup:
        """Fragments, and those with the same rows that replace them."""

        old_fragments: list[FragmentMetadata]
        new_fragments: list[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """A segment of an index, and the one that replaces it."""

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int
        files = cast("tuple[tuple[str, int], ...]", ())
        """Path and size of each file of the new segment."""

    @dataclass
    class Rewrite(BaseOperation):
        """The same rows in other files."""

        groups: list[LanceOperation.RewriteGroup]
        rewritten_indices: list[LanceOperation.RewrittenIndex]

    @dataclass
    class CreateIndex(BaseOperation):
        """Index segments added and removed."""

        new_indices: list[Index]
        removed_indices: list[Index]

    @dataclass
    class DataReplacementGroup:
        """A fragment, and its new file."""

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """Files of one set of fields exchanged."""

        replacements: list[LanceOperation.DataReplacementGroup]

    @dataclass
    class UpdateMap:
        """Edits of a map of texts; None removes a key."""

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Config and metadata edited."""

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class DataOverlayFile:
        """New values for some cells."""

        data_file: DataFile
        offsets: Bitmap | list[Bitmap]
        committed_version: int | None = None

    @dataclass
    class DataOverlayGroup:
        """New values for cells of one fragment."""

        fragment_id: int
        overlays: list[LanceOperation.DataOverlayFile]

    @dataclass
    class DataOverlay(BaseOperation):
        """New values for single cells."""

        groups: list[LanceOperation.DataOverlayGroup]


@dataclass
class Transaction:
    """A commit: the version that it was based on, and what it did."""

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuids.uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)
    tag = ""
