"""The last touch on a manifest: time and writer, the order of the fragments, feature flags (spec table-format.md 2.4)."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput
from lancelet.table.commit.index_upkeep import REUSE_INDEX
from lancelet.table.manifest.flags import STICKY, Feature, check_readable

if TYPE_CHECKING:
    from lancelet.format.proto import table_pb2
    from lancelet.table.commit.draft import Draft

LIBRARY = "lancelet"


def carry(message: table_pb2.Manifest, previous: table_pb2.Manifest) -> None:
    """What no later version may lose, a restored one included."""
    if previous.HasField("max_fragment_id"):
        message.max_fragment_id = max(message.max_fragment_id, previous.max_fragment_id)
    sticky = (previous.reader_feature_flags | message.reader_feature_flags) & STICKY
    message.reader_feature_flags |= sticky
    message.writer_feature_flags |= sticky
    if previous.HasField("max_allocated_field_id"):
        mark = message.max_allocated_field_id if message.HasField("max_allocated_field_id") else -1
        message.max_allocated_field_id = max(mark, previous.max_allocated_field_id)


def stamp(draft: Draft) -> None:
    """Time, writer, order of the fragments and feature flags."""
    message = draft.message
    now = time.time_ns()
    message.timestamp.seconds, message.timestamp.nanos = divmod(now, 10**9)
    message.ClearField("writer_version")
    message.writer_version.library, message.writer_version.version = LIBRARY, _own_version()
    message.ClearField("tag")
    message.ClearField("transaction_file")
    ids = [fragment.id for fragment in message.fragments]
    if ids != sorted(ids):
        message.fragments.sort(key=lambda fragment: fragment.id)
    greatest = max(max(ids, default=-1), -1 if draft.kept is None else draft.kept.greatest)
    if draft.kept is not None and not draft.kept.is_ascending:
        draft.unfold()
    if greatest >= 0:
        message.max_fragment_id = max(message.max_fragment_id, greatest)
    _set_flags(draft)


def _set_flags(draft: Draft) -> None:
    message = draft.message
    stable = draft.stable_row_ids
    both = message.reader_feature_flags & STICKY
    if draft.kept is not None and stable and not draft.kept.all_have_row_ids:
        draft.unfold()
    if draft.kept is not None:
        both |= Feature.DELETION_FILES if draft.kept.have_deletions else 0
        both |= Feature.SPILLED_ROW_LINEAGE if draft.kept.have_spilled else 0
    for record in message.fragments:
        if record.HasField("deletion_file"):
            both |= Feature.DELETION_FILES
        if record.overlays:
            both |= Feature.OVERLAY_FILES
        ids = record.WhichOneof("row_id_sequence")
        if (
            ids == "column_row_ids"
            or record.HasField("column_created_at_versions")
            or record.HasField("column_last_updated_at_versions")
        ):
            both |= Feature.SPILLED_ROW_LINEAGE
        if stable and ids is None:
            raise InvalidInput(
                f"fragment {record.id} has no row ids, but the table has stable row ids and every fragment must"
            )
    if stable:
        both |= Feature.STABLE_ROW_IDS
    if message.base_paths:
        both |= Feature.BASE_PATHS
    if any(index.covering_fields for index in draft.indices):
        both |= Feature.COVERING_INDICES
    if any(index.name == REUSE_INDEX and index.index_version >= 1 for index in draft.indices):
        both |= Feature.TAGGED_REUSE_INDEX
    writer = both
    if message.config:
        writer |= Feature.TABLE_CONFIG
    if message.HasField("max_allocated_field_id"):
        writer |= Feature.NON_REUSABLE_FIELD_IDS
    message.reader_feature_flags, message.writer_feature_flags = int(both), int(writer)
    # What we could not read ourselves is not written.
    has_mark = message.HasField("max_allocated_field_id")
    check_readable("the new version", int(both), int(writer), has_field_id_mark=has_mark)


@cache
def _own_version() -> str:
    with suppress(PackageNotFoundError):
        return package_version("lancelet")
    return "0.0.0"
