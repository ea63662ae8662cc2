"""Writing tags and branches: the files that ``read.py`` reads (spec table-format.md 1.4 and 1.5).

A name is taken by creating its file only if there is none, so that of several
who want it one wins. A branch is two things, a file and a table under
``tree/``; the file comes first when a branch is made, and goes first when it is
deleted::

    file, table     a branch
    file            being made or half made: the name is taken, and cleanup keeps the parent's version already
    table           half deleted, or half made by a writer that begins with the table

``delete_branch`` removes either half.
"""

from __future__ import annotations

import json
import time
import uuid as uuids
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lancelet.errors import (
    CommitOutcomeUnknown,
    InvalidType,
    RefConflict,
    RefNotFound,
    StorageError,
    TableExists,
    UncertainPut,
)
from lancelet.store.removal import remove_below
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import clone
from lancelet.table.manifest.names import VERSIONS_DIR, branch_folder
from lancelet.table.refs.read import (
    Branch,
    Reference,
    branch_path,
    branch_record,
    branch_store,
    list_branches,
    list_tags,
    read_branch,
    tag_path,
    tag_record,
)
from lancelet.table.registers.external import forget_versions

if TYPE_CHECKING:
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot


def create_tag(snapshot: Snapshot, name: str, reference: Reference | None = None) -> None:
    """Give a version a name; by default the one at hand."""
    path = tag_path(name)
    now = _now()
    content = _tag_content(_chosen(snapshot, reference), now, now, {})
    if not _put_new(snapshot.root, path, content):
        raise RefConflict(f"Ref conflict error: tag {name} already exists in {snapshot.root.uri}; update moves it")


def update_tag(snapshot: Snapshot, name: str, reference: Reference | None = None) -> None:
    """Let a tag name another version."""
    record = tag_record(snapshot.root, name)
    target = _chosen(snapshot, reference)
    content = _tag_content(target, record.text("createdAt"), _now(), record.texts("metadata"))
    snapshot.root.put(tag_path(name), _json(content))


def replace_tag_metadata(root: Store, name: str, metadata: Mapping[str, str]) -> None:
    """Exchange all metadata of a tag."""
    record = tag_record(root, name)
    root.put(tag_path(name), _json({**record.content, "metadata": _texts(metadata)}))


def delete_tag(root: Store, name: str) -> None:
    """Remove a tag; its version stays."""
    tag_record(root, name)
    root.delete(tag_path(name))


def create_branch(snapshot: Snapshot, name: str, reference: Reference | None = None) -> Snapshot:
    """Begin a line of versions at a version, by default the one at hand; its first version has the same number."""
    path = branch_path(name)
    parent = _chosen(snapshot, reference)
    root, origin = snapshot.root, parent.manifest.branch
    lineage = () if origin is None else read_branch(root, origin).identifier
    content = {
        "parentBranch": origin,
        "identifier": {"version_mapping": [*map(list, lineage), [parent.version, uuids.uuid4().hex]]},
        "parentVersion": parent.version,
        "createAt": time.time_ns() // 10**9,
        "manifestSize": parent.manifest.size,
        "metadata": {},
    }
    if not _put_new(root, path, content):
        raise RefConflict(f"Ref conflict error: branch {name} already exists in {root.uri}")
    operation = ops.Clone(True, origin, parent.version, parent.uri, name)
    try:
        return clone(parent, branch_store(root, name), operation)
    except CommitOutcomeUnknown:
        # The table may be there: its branch stays, and can be deleted.
        raise
    except TableExists:
        root.delete(path)
        raise RefConflict(
            f"Ref conflict error: {branch_folder(name)} in {root.uri} has a table, but branch {name} is not listed: "
            "another writer is making it, or was interrupted; delete the branch if nobody is"
        ) from None
    except BaseException:
        with suppress(StorageError):
            root.delete(path)
        raise


def delete_branch(root: Store, name: str) -> None:
    """Remove a branch with all versions that are its own; refused while other branches or tags depend on it."""
    path = branch_path(name)
    folder = branch_folder(name)
    others = [branch for branch in list_branches(root) if branch.name != name]
    try:
        _check_unused(root, read_branch(root, name), others)
    except RefNotFound:
        if not any(True for _ in root.list_names(f"{folder}/{VERSIONS_DIR}")):
            raise
    root.delete(path)
    forget_versions(branch_store(root, name))
    # Branches named name/... have their folders inside this one's.
    keep = [branch_folder(branch.name) for branch in others if branch.name.startswith(f"{name}/")]
    # Its manifests go last: while some are left, the rest can be deleted by another try.
    remove_below(root, folder, keep=keep, last=f"{folder}/{VERSIONS_DIR}")


def replace_branch_metadata(root: Store, name: str, metadata: Mapping[str, str]) -> None:
    """Exchange all metadata of a branch."""
    record = branch_record(root, name)
    root.put(branch_path(name), _json({**record.content, "metadata": _texts(metadata)}))


def _check_unused(root: Store, branch: Branch, others: list[Branch]) -> None:
    length = len(branch.identifier)
    children = [
        other.name
        for other in others
        if other.parent_branch == branch.name or (length and other.identifier[:length] == branch.identifier)
    ]
    tags = [tag.name for tag in list_tags(root) if tag.branch == branch.name]
    for what, names in (("branches", children), ("tags", tags)):
        if names:
            raise RefConflict(
                f"Ref conflict error: branch {branch.name} cannot be deleted: the {what} {', '.join(sorted(names))} "
                "refer to its versions; delete those first"
            )


def _chosen(snapshot: Snapshot, reference: Reference | None) -> Snapshot:
    return snapshot if reference is None else snapshot.at(reference)


def _tag_content(target: Snapshot, created: str | None, updated: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    return {
        "branch": target.manifest.branch,
        "version": target.version,
        "createdAt": created,
        "updatedAt": updated,
        "manifestSize": target.manifest.size,
        "metadata": dict(metadata),
    }


def _put_new(root: Store, path: str, content: Mapping[str, object]) -> bool:
    """Create a file; when the store does not say whether it did, the file itself tells."""
    data = _json(content)
    try:
        return root.put_if_absent(path, data)
    except UncertainPut:
        return root.put_if_absent(path, data) or root.read_all(path) == data


def _json(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, indent=2, ensure_ascii=False).encode()


def _now() -> str:
    """The time in UTC, to the nanosecond."""
    seconds, nanos = divmod(time.time_ns(), 10**9)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{nanos:09}Z"


def _texts(metadata: object) -> dict[str, str]:
    if not isinstance(metadata, Mapping) or not all(isinstance(t, str) for pair in metadata.items() for t in pair):
        raise InvalidType(f"metadata is a mapping of texts to texts, not {metadata!r}")
    return dict(metadata)
