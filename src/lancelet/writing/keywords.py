"""How rows are to be written: the keywords of all functions that write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from lancelet.writing.defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, ROWS_PER_GROUP

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import BasePath


class FragmentKeywords(TypedDict, total=False):
    """What is said about rows and their files; see :func:`lancelet.write_dataset`."""

    max_rows_per_file: int
    max_rows_per_group: int | None
    max_bytes_per_file: int
    data_cache_bytes: int | None
    max_page_bytes: int | None
    data_storage_version: str | None
    use_legacy_format: bool | None
    enable_stable_row_ids: bool
    initial_bases: Sequence[BasePath] | None
    target_bases: Sequence[str] | None
    target_all_bases: bool | None
    external_blob_mode: str
    allow_external_blob_outside_bases: bool
    checksums: bool | None


class TableKeywords(FragmentKeywords, total=False):
    """What is said about a new version of a table besides."""

    commit_lock: Any
    enable_v2_manifest_paths: bool
    auto_cleanup_options: Mapping[str, int] | None
    commit_message: str | None
    transaction_properties: Mapping[str, str] | None
    blob_pack_file_size_threshold: int | None


DEFAULTS: TableKeywords = {
    "max_rows_per_file": MAX_ROWS_PER_FILE,
    "max_rows_per_group": ROWS_PER_GROUP,
    "max_bytes_per_file": MAX_BYTES_PER_FILE,
    "enable_v2_manifest_paths": True,
    "enable_stable_row_ids": False,
    "external_blob_mode": "reference",
    "allow_external_blob_outside_bases": False,
}
"""All others are None."""
