"""The dicts that methods of datasets take and give."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AlterColumn", "Branch", "DatasetStats", "Tag", "Version", "VersionRef"]


class AlterColumn(TypedDict):
    """A change of a column, for :meth:`lancelet.LanceDataset.alter_columns`; what is left out stays."""

    path: str
    name: str | None
    nullable: bool | None
    data_type: pa.DataType | None


class Branch(TypedDict):
    """A branch, as ``dataset.branches.list()`` shows it."""

    parent_branch: str | None
    branch_identifier: list[tuple[int, str]]
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: dict[str, str]


class DatasetStats(TypedDict):
    """What ``dataset.stats.dataset_stats()`` gives."""

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


class Tag(TypedDict):
    """A tag, as ``dataset.tags.list()`` shows it."""

    branch: str | None
    version: int
    created_at: datetime | None
    updated_at: datetime | None
    manifest_size: int
    metadata: dict[str, str]


class Version(TypedDict):
    """A version, as :meth:`lancelet.LanceDataset.versions` shows it."""

    version: int
    timestamp: int | datetime
    metadata: dict[str, str]


class VersionRef(TypedDict):
    """A version, as :meth:`lancelet.LanceDataset.version_refs` shows it."""

    version: int
