"""Which versions and files of a table nobody needs any more (spec table-format.md 8.6).

::

    a version stays    from the version that cleanup is asked of on; the newest; tagged ones; what the policy keeps;
                       the one a branch left at, as long as the branch refers to its files; detached ones
    a file stays       when a version that stays names it, or any version of a branch
    another file goes  when a version that goes names it, or nobody has touched it for seven days

The seven days are for writers at work: their files are named by no version yet.
Only files of the kinds that tables are made of, in the table's own folder, are
looked at; base paths and clones are never touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from lancelet.errors import InvalidCleanup, RefNotFound
from lancelet.table.cleanup.references import FileNames, ManifestHead, NameReader, Origin, names_in, read_heads
from lancelet.table.manifest.flags import check_writable
from lancelet.table.manifest.names import (
    BLOBS_DIR,
    DATA_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    MAIN_BRANCH,
    SUFFIX,
    TRANSACTIONS_DIR,
    VERSIONS_DIR,
    ManifestName,
    is_detached,
    parse_manifest_name,
)
from lancelet.table.manifest.versions import list_manifests
from lancelet.table.refs.read import Branch, branch_store, list_branches, list_tags
from lancelet.table.registers.external import base_of, external_for

if TYPE_CHECKING:
    from lancelet.store import ObjectInfo, Store
    from lancelet.table.manifest.snapshot import Snapshot

UNVERIFIED_AGE = timedelta(days=7)
"""How long a file that no version names is taken for work in progress."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_STAGED = re.compile(re.escape(SUFFIX) + r"-[0-9a-fA-F-]{32,36}\Z")
_FILE_SUFFIXES = {
    DATA_DIR: (".lance", ".blob"),
    DELETIONS_DIR: (".arrow", ".bin"),
    TRANSACTIONS_DIR: (".txn",),
    BLOBS_DIR: (".blob",),
}
_KINDS = {
    DATA_DIR: "data",
    DELETIONS_DIR: "deletion",
    TRANSACTIONS_DIR: "transaction",
    INDICES_DIR: "index",
    BLOBS_DIR: "data",
}


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """What may go. A version goes only when every rule that is set lets it go."""

    older_than: timedelta | None = None
    retain_versions: int | None = None
    """How many of the newest versions stay."""
    versions: frozenset[int] | None = None
    """Only these versions may go."""
    delete_unverified: bool = False
    """Whether files that no version names go at any age; only when no writer is at work."""
    error_if_tagged: bool = True
    """Whether tagged versions that would go are an error; otherwise they just stay."""


class UnneededFile(NamedTuple):
    """A file that is to go."""

    path: str
    """Relative to the table."""
    kind: str
    unverified: bool
    """No version named it: it was left behind by a write that failed, or by a cleanup that did not finish."""
    size: int


@dataclass(frozen=True, slots=True)
class CleanupReferencedBranch:
    """A branch that left this table at some version."""

    name: str
    referenced_version: int
    cleanup_candidate: bool = False
    """Whether it is cleaned up first, by its own rules."""


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """What a cleanup will remove."""

    read_version: int
    versions: tuple[int, ...]
    manifests: tuple[UnneededFile, ...]
    """Of ``versions``, in their order."""
    files: tuple[UnneededFile, ...]
    kept: frozenset[str]
    """Manifests that stay."""
    branches: tuple[CleanupReferencedBranch, ...]


def plan_cleanup(
    snapshot: Snapshot, policy: CleanupPolicy, *, before: int | None = None, now: datetime | None = None
) -> CleanupPlan:
    """Find what may go; reads every manifest of the table and of the branches that left it, and lists its folders.

    Parameters
    ----------
    snapshot
        A version of the table; it and all later ones stay.
    policy
        What may go.
    before
        Versions from this one on stay; that of ``snapshot`` by default.
    now
        The time to reckon from.
    """
    if is_detached(snapshot.version):
        raise InvalidCleanup(
            f"version {snapshot.version} stands outside the history, which cannot be cleaned up from there; check out "
            "the latest version first"
        )
    check_writable(snapshot.manifest.path, snapshot.manifest.head.writer_feature_flags)
    now = now or datetime.now(timezone.utc)
    store = snapshot.store
    manifests, others = list_manifests(store)
    referring = referring_branches(snapshot)
    chosen = _choose(snapshot, policy, manifests, before or snapshot.version, now)
    kept, gone = NameReader(), NameReader(Origin.OWN)
    going: list[ManifestName] = []
    points: dict[int, FileNames] = {}
    for branch, version in referring:
        names = names_of_branch(branch_store(snapshot.root, branch.name))
        kept.names.add(names)
        points.setdefault(version, FileNames()).add(names)
    tagged: dict[str, int] = {}
    listed = sorted(manifests, key=lambda name: name.version)
    for name, head in zip(listed, read_heads(store, (name.path for name in listed)), strict=True):
        if head is None:
            continue
        goes = chosen.takes(name.version, head)
        if goes and name.version in chosen.tags:
            tagged.update(dict.fromkeys(chosen.tags[name.version], name.version))
            goes = False
        if goes and name.version in points and names_in(head).shares(points[name.version]):
            goes = False
        if goes:
            going.append(name)
        (gone if goes else kept).read(head)
    if tagged and policy.error_if_tagged:
        names_of = ", ".join(f"{tag} (version {version})" for tag, version in sorted(tagged.items()))
        raise InvalidCleanup(
            f"{len(tagged)} tagged version(s) of {snapshot.uri} would be cleaned up: {names_of}; delete the tags, or "
            "clean up around them with error_if_tagged_old_versions=False"
        )
    last = frozenset(going)
    search = _Search(store, kept.names, gone.names, None if policy.delete_unverified else now - UNVERIFIED_AGE)
    return CleanupPlan(
        snapshot.version,
        tuple(name.version for name in going),
        tuple(UnneededFile(manifests[name].path, "manifest", False, manifests[name].size) for name in going),
        (*search.files(), *search.temporary(others)),
        frozenset(name.path for name in manifests if name not in last),
        tuple(CleanupReferencedBranch(branch.name, version) for branch, version in referring),
    )


def is_named(names: FileNames, path: str) -> bool:
    """Whether one of the files that a plan found is among ``names``."""
    place = _place(path)
    return place is not None and place[1] in _named_in(names, path.partition("/")[0])


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which versions the policy lets go."""

    before: int
    """They are older than this."""
    cutoff_ns: int | None
    versions: frozenset[int] | None
    tags: dict[int, list[str]]

    def takes(self, version: int, head: ManifestHead) -> bool:
        if is_detached(version):
            return self.versions is not None and version in self.versions
        return (
            version < self.before
            and (self.versions is None or version in self.versions)
            and (self.cutoff_ns is None or head.manifest.timestamp_ns < self.cutoff_ns)
        )


def _choose(
    snapshot: Snapshot, policy: CleanupPolicy, manifests: dict[ManifestName, ObjectInfo], before: int, now: datetime
) -> _Choice:
    versions = sorted(name.version for name in manifests if not name.is_detached)
    before = min(before, versions[-1])
    if policy.retain_versions is not None:
        before = min(before, versions[-min(policy.retain_versions, len(versions))])
    cutoff = None
    if policy.older_than is not None:
        # In whole numbers: no age is too large for them.
        cutoff = (now - _EPOCH) // _MICROSECOND * 1000 - policy.older_than // _MICROSECOND * 1000
    branch = snapshot.manifest.branch or MAIN_BRANCH
    tags: dict[int, list[str]] = {}
    for tag in list_tags(snapshot.root):
        if (tag.branch or MAIN_BRANCH) == branch:
            tags.setdefault(tag.version, []).append(tag.name)
    return _Choice(before, cutoff, policy.versions, tags)


def referring_branches(snapshot: Snapshot) -> list[tuple[Branch, int]]:
    """Branches that left this table, directly or by way of another branch, and the version that they left at."""
    branches = list_branches(snapshot.root)
    own: tuple[tuple[int, str], ...] = ()
    name = snapshot.manifest.branch
    if branches and name is not None:
        own = next((branch.identifier for branch in branches if branch.name == name), own)
        if not own:
            raise RefNotFound(
                f"branch {name} is not listed in {snapshot.root.uri}, so that it is not known which branches refer to it"
            )
    found = []
    for branch in branches:
        if not branch.identifier:
            # Nobody can say where it comes from: its files count in any case.
            found.append((branch, branch.parent_version))
        elif branch.identifier[: len(own)] == own and len(branch.identifier) > len(own):
            found.append((branch, branch.identifier[len(own)][0]))
    return found


def names_of_branch(store: Store) -> FileNames:
    """Files that versions of a branch refer to in other places. Names are unique, so it does not matter where."""
    paths = [
        f"{VERSIONS_DIR}/{name}" for name in store.list_names(VERSIONS_DIR) if parse_manifest_name(name) is not None
    ]
    names = NameReader(Origin.BASE_PATHS)
    for head in read_heads(store, paths):
        if head is not None:
            names.read(head)
    return names.names


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for files that nobody needs."""

    store: Store
    kept: FileNames
    gone: FileNames
    untouched_since: datetime | None
    """Files that no version names go when they are older; None: in any case."""

    def files(self) -> Iterator[UnneededFile]:
        for folder, kind in _KINDS.items():
            if folder == BLOBS_DIR and (self.kept.managed_blobs or self.gone.managed_blobs):
                continue
            kept, gone = _named_in(self.kept, folder), _named_in(self.gone, folder)
            for entry in self.store.list_objects(folder):
                place = _place(entry.path)
                if place is None or place[1] in kept:
                    continue
                verified = place[1] in gone
                if verified or self._is_abandoned(entry):
                    yield UnneededFile(entry.path, kind, not verified, entry.size)

    def temporary(self, entries: list[ObjectInfo]) -> Iterator[UnneededFile]:
        """Manifests that never got their final names."""
        for entry in entries:
            name = entry.path.rpartition("/")[2]
            if (_is_temporary(name) or self._is_staged_in_vain(name)) and self._is_abandoned(entry):
                yield UnneededFile(entry.path, "temporary_manifest", True, entry.size)

    def _is_abandoned(self, entry: ObjectInfo) -> bool:
        return self.untouched_since is None or entry.modified < self.untouched_since

    def _is_staged_in_vain(self, name: str) -> bool:
        """Whether a manifest of an external manifest store lost: without the store nobody can tell."""
        final = parse_manifest_name(_STAGED.sub(SUFFIX, name)) if _STAGED.search(name) else None
        external = external_for(self.store)
        if final is None or external is None:
            return False
        entry = external.get(base_of(self.store), final.version)
        return entry is None or not entry.path.endswith(f"/{name}")


def _place(path: str) -> tuple[str, str] | None:
    """Folder of a file, and the name that a manifest would have for it; None for what is no file of a table."""
    folder, _, inner = path.partition("/")
    if folder == INDICES_DIR:
        owner, slash, _ = inner.partition("/")
        return (folder, owner) if slash and _is_uuid(owner) else None
    if not inner.endswith(_FILE_SUFFIXES.get(folder, ())):
        return (folder, "") if _is_temporary(inner.rpartition("/")[2]) else None
    if folder == DATA_DIR and inner.endswith(".blob"):
        # Values of the data file whose name the folder has.
        owner = inner.rpartition("/")[0]
        return (folder, f"{owner}.lance") if owner else None
    return folder, inner


def _named_in(names: FileNames, folder: str) -> set[str]:
    return {
        DATA_DIR: names.data,
        DELETIONS_DIR: names.deletions,
        TRANSACTIONS_DIR: names.transactions,
        INDICES_DIR: names.indices,
    }.get(folder, set())


def _is_temporary(name: str) -> bool:
    """A file that was to be renamed: ours, or one of the reference implementation."""
    return name.startswith(".tmp_") or (name.startswith(".") and name.endswith(".tmp"))


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
