"""How a table came about: its versions, what made each, and which names point to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from lancelet.errors import CorruptFile, InvalidInput
from lancelet.table.commit.properties import COMMIT_MESSAGE
from lancelet.table.manifest.manifest import Manifest, read_manifest
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import list_versions
from lancelet.table.refs.read import list_branches, list_tags


@dataclass(frozen=True, slots=True)
class PastVersion:
    """One version. What old writers did not record is None, and all of it if the version cannot be read."""

    version: int
    committed: datetime | None
    operation: str | None
    read_version: int | None
    rows: int | None
    fragments: int | None
    bytes: int | None
    message: str | None
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    """Those that begin here."""
    properties: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    """Why it cannot be read."""


def past_versions(snapshot: Snapshot, limit: int | None = None) -> Iterator[PastVersion]:
    """The versions of a table or branch, the newest first; one that is damaged hides no other."""
    if limit is not None and limit < 1:
        raise InvalidInput(f"limit is a number of versions above 0, not {limit!r}")
    tags: dict[int, list[str]] = {}
    for tag in list_tags(snapshot.root):
        if tag.branch == snapshot.manifest.branch:
            tags.setdefault(tag.version, []).append(tag.name)
    branches: dict[int, list[str]] = {}
    for branch in list_branches(snapshot.root):
        if branch.parent_branch == snapshot.manifest.branch:
            branches.setdefault(branch.parent_version, []).append(branch.name)
    for name in list_versions(snapshot.store)[::-1][:limit]:
        names = tuple(sorted(tags.get(name.version, ()))), tuple(sorted(branches.get(name.version, ())))
        try:
            yield past_version(read_manifest(snapshot.store, name.path), *names)
        except CorruptFile as error:
            yield PastVersion(name.version, None, None, None, None, None, None, None, *names, problem=str(error))


def past_version(manifest: Manifest, tags: tuple[str, ...] = (), branches: tuple[str, ...] = ()) -> PastVersion:
    """What a manifest tells of how its version came about."""
    made = manifest.transaction
    kind = "" if made is None else made.WhichOneof("operation") or ""
    properties = {} if made is None else dict(made.transaction_properties)
    counts = manifest.fragments.row_counts
    return PastVersion(
        manifest.version,
        manifest.timestamp,
        "".join(word.capitalize() for word in kind.split("_")) or None,
        None if made is None else made.read_version,
        int(counts.sum()) if (counts >= 0).all() else None,
        len(manifest.fragments),
        sum(file.file_size_bytes for fragment in manifest.message.fragments for file in fragment.files),
        properties.get(COMMIT_MESSAGE),
        tags,
        branches,
        properties,
    )
