"""Whether a commit can follow versions that were cleaned up before it could read what they did.

A cleanup takes the transactions of old versions along, so that nothing is left to check a commit against but the two
ends: the version that it was based on, and the newest one. That is enough for operations which depend on little: the
columns are the same, and so is whatever the operation itself replaces. All others are made again on the newest version.

Whether the table was overwritten meanwhile, by rows with the same columns, no manifest says. What is knowable::

    a data file of then is still there     nobody overwrote the table, or somebody restored it afterwards
    none is                                an overwrite, a compaction of all that was there, or a deletion of all rows

An append must not follow an overwrite: its rows were meant for other ones. So it goes on in the first case only; in
the second its writer is told, and decides. A table that had no rows had none to be meant for, and takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lancelet.table.commit import operations as ops

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest


def may_follow(operation: ops.Operation, before: Manifest, after: Manifest) -> bool:
    """Whether an operation that was based on ``before`` is the same change of ``after``, whatever came between."""
    match operation:
        case ops.ReserveFragments():
            return True
        case ops.Append():
            same = _same_columns(before, after) and _same_bases(before, after)
            return same and (not before.message.fragments or _shares_files(before, after))
        case ops.Overwrite():
            # Another overwrite is what it must not replace unseen.
            untouched = _untouched(operation.config_upserts, before.config, after.config)
            return untouched and _same_bases(before, after) and _shares_files(before, after)
        case ops.UpdateConfig():
            return _may_edit(operation, before, after)
        case ops.Project():
            return operation.preserves_nullability and before.schema == after.schema
        case ops.UpdateBases():
            return _same_bases(before, after)
    return False


def _same_columns(before: Manifest, after: Manifest) -> bool:
    return before.schema.fields == after.schema.fields


def _same_bases(before: Manifest, after: Manifest) -> bool:
    return dict(before.base_paths) == dict(after.base_paths)


def _shares_files(before: Manifest, after: Manifest) -> bool:
    """Whether rows of then are still there: no overwrite came between, though a compaction may have."""
    old, new = (
        {file.path for fragment in manifest.message.fragments for file in fragment.files}
        for manifest in (before, after)
    )
    return not old.isdisjoint(new)


def _may_edit(operation: ops.UpdateConfig, before: Manifest, after: Manifest) -> bool:
    """Texts are edited one by one: each must be what the writer saw."""
    pairs = (
        (operation.config, before.config, after.config),
        (operation.table_metadata, before.table_metadata, after.table_metadata),
        (operation.schema_metadata, before.schema.metadata, after.schema.metadata),
    )
    for edits, old, new in pairs:
        if edits is None:
            continue
        if (edits.replace and dict(old) != dict(new)) or not _untouched(edits.updates, old, new):
            return False
    if operation.schema_metadata is None and not operation.field_metadata:
        return True
    return _same_columns(before, after)


def _untouched(keys: Mapping[str, object], old: Mapping[Any, object], new: Mapping[Any, object]) -> bool:
    return all(old.get(key) == new.get(key) for key in keys)
