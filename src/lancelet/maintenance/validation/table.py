"""Checks of a whole table: one version in full, and what all of its versions, tags and branches rely on.

::

    this version     schema, fragments, files, deleted rows, row ids, row versions; deep: every page (version.py)
    its indices      fields, covered fragments, files; deep: what they say of every row (indices.py)
    its base paths   whether they can be listed; what is outside of the table's folder (outside.py)
    all versions     manifests, their numbers, the files of each that are in the table's own folder, transactions
    the table        the hint, tags, branches, files that nobody names
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from lancelet.errors import CorruptFile, LanceletError, MissingFile
from lancelet.maintenance.validation.indices import check_indices
from lancelet.maintenance.validation.outside import outside_bases, outside_blobs, outside_links
from lancelet.maintenance.validation.report import MISSING, Finding, Level, VerifyReport, ordered, trouble
from lancelet.maintenance.validation.version import Tally, check_version
from lancelet.table.cleanup.plan import CleanupPolicy, plan_cleanup
from lancelet.table.cleanup.references import FileNames, ManifestHead, Origin, names_in, read_head
from lancelet.table.commit.index_upkeep import SYSTEM_INDICES
from lancelet.table.commit.run import HINT
from lancelet.table.manifest.names import (
    DATA_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    MAIN_BRANCH,
    TRANSACTIONS_DIR,
    is_detached,
)
from lancelet.table.manifest.versions import list_manifests
from lancelet.table.refs.read import branch_store, list_branches, list_tags

if TYPE_CHECKING:
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

NOTHING = CleanupPolicy(versions=frozenset())
"""Removes no version, only files that nobody named for a week."""
_SET_ASIDE = "lancelet.repair(uri, set_aside_damaged=True) shows how to go on without it"
_AGAIN = "write or restore it, or clean up the versions that need it"


def verify(snapshot: Snapshot, *, deep: bool = False) -> VerifyReport:
    """Check a table as this version shows it.

    Parameters
    ----------
    snapshot
        The version whose fragments and indices are checked in full.
    deep
        Also decode every page of the version, and compare what indices say with the columns.
    """
    tally = Tally()
    checks: tuple[Callable[[], Iterable[Finding]], ...] = (
        lambda: check_version(snapshot, tally, deep=deep),
        lambda: check_indices(snapshot, tally, deep=deep),
        lambda: _base_paths(snapshot),
        lambda: outside_links(snapshot),
        lambda: outside_blobs(snapshot) if deep else (),
        lambda: _history(snapshot, tally),
        lambda: check_hint(snapshot),
        lambda: _refs(snapshot),
        lambda: _orphans(snapshot),
        lambda: _gaps_in_statistics(snapshot),
    )
    findings: list[Finding] = []
    for check in checks:
        try:
            findings.extend(check())
        except LanceletError as error:
            findings.append(trouble(error, snapshot.uri))
    unique = tuple(dict.fromkeys(findings))
    return VerifyReport(snapshot.uri, snapshot.version, ordered(unique), tally.versions, len(tally.files), tally.rows)


def no_version(uri: str, damaged: list[tuple[int, CorruptFile]]) -> VerifyReport:
    """What there is to say of a table of which no manifest can be read."""
    advice = "restore the file from a backup: no version of the table can be opened"
    findings = tuple(
        Finding(Level.ERROR, "unreadable version", f"version {version}", str(error), advice)
        for version, error in damaged
    )
    return VerifyReport(uri, damaged[0][0], findings, 0, 0, 0)


def validate(snapshot: Snapshot) -> None:
    """Raise the first thing that is wrong with this version's fragments."""
    for finding in check_version(snapshot, Tally()):
        if finding.level is Level.ERROR:
            raise finding.error(snapshot.uri)


def _base_paths(snapshot: Snapshot) -> Iterator[Finding]:
    """Every base path that files use is reachable; files in it are checked with their fragments."""
    for number, base in snapshot.manifest.base_paths.items():
        place = f"base path {number} ({base.path})"
        try:
            folder = snapshot.places.data_folder(number)
            next(iter(folder.store.list_objects(folder.path)), None)
        except LanceletError as error:
            yield trouble(error, place, Level.WARNING)


def _history(snapshot: Snapshot, tally: Tally) -> Iterator[Finding]:
    """Every manifest, and the files that it names in the table's own folder."""
    store = snapshot.store
    manifests, _ = list_manifests(store)
    present = {
        folder: {entry.path.removeprefix(f"{folder}/") for entry in store.list_objects(folder)}
        for folder in (DATA_DIR, DELETIONS_DIR)
    }
    present[INDICES_DIR] = {
        entry.path.split("/")[1] for entry in store.list_objects(INDICES_DIR) if entry.path.count("/") > 1
    }
    lost: dict[str, list[int]] = {}
    for name in sorted(manifests, key=lambda name: name.version):
        place = f"version {name.version}"
        try:
            head = read_head(store, name.path)
            names = names_in(head, Origin.OWN)
        except LanceletError as error:
            advice = f"restore the file from a backup; version {snapshot.version} can be opened, and {_SET_ASIDE}"
            yield Finding(Level.ERROR, "unreadable version", place, str(error), advice)
            continue
        tally.versions += 1
        if head.manifest.version != name.version:
            problem = f"{name.path} says that it is version {head.manifest.version}"
            yield Finding(Level.ERROR, "version number", place, problem, "restore the file from a backup")
        if head.manifest.branch != snapshot.manifest.branch and not is_detached(name.version):
            problem = f"says that it is on {head.manifest.branch or MAIN_BRANCH}, not {snapshot.manifest.branch or MAIN_BRANCH}"
            yield Finding(Level.WARNING, "version number", place, problem, "restore the file from a backup")
        names.indices -= _inline(head)
        for path in _absent(names, present):
            lost.setdefault(path, []).append(name.version)
        yield from _transaction(head, place)
        yield from outside_bases(snapshot, head.manifest)
    for path, versions in sorted(lost.items()):
        some = ", ".join(map(str, versions[:5])) + (", ..." if len(versions) > 5 else "")
        problem = f"{len(versions)} version(s) need it: {some}"
        yield Finding(Level.ERROR, MISSING, store.join(path), problem, _AGAIN)


def _inline(head: ManifestHead) -> set[str]:
    """Entries of the table's own bookkeeping, which need no folder: all that they say is in the manifest."""
    own = (index for index in head.manifest.indices if index.name in SYSTEM_INDICES and not index.files)
    return {str(UUID(bytes=index.uuid.uuid)) for index in own}


def _absent(names: FileNames, present: dict[str, set[str]]) -> Iterator[str]:
    wanted = ((DATA_DIR, names.data), (DELETIONS_DIR, names.deletions), (INDICES_DIR, names.indices))
    for folder, needed in wanted:
        for name in needed - present[folder]:
            yield f"{folder}/{name}"


def _transaction(head: ManifestHead, place: str) -> Iterator[Finding]:
    """A version without any record of how it came about cannot be rebased over."""
    try:
        known = head.manifest.transaction is not None
    except LanceletError as error:
        yield trouble(error, f"transaction of {place}", Level.WARNING)
        return
    name = head.manifest.transaction_file
    if not known:
        problem = f"neither the manifest nor {TRANSACTIONS_DIR}/{name or ''} says how it came about"
        advice = "work that is based on an older version has to be done again"
        yield Finding(Level.WARNING, "transaction", place, problem, advice)


def check_hint(snapshot: Snapshot) -> Iterator[Finding]:
    """Whether the hint, where there is one, names the newest version."""
    store = snapshot.store
    try:
        data = store.read_all(HINT)
    except MissingFile:
        return
    newest = max(name.version for name in list_manifests(store)[0] if not name.is_detached)
    try:
        content = json.loads(data)
        version = content.get("version") if isinstance(content, dict) else None
    except ValueError:
        version = None
    if version != newest:
        problem = f"says {data[:40].decode(errors='replace')!r}, but the newest version is {newest}"
        advice = "no reader relies on it; repair() writes it anew"
        yield Finding(Level.NOTE, "hint", HINT, problem, advice, repairable=True)


def _refs(snapshot: Snapshot) -> Iterator[Finding]:
    """Tags and branches point at something. Each list is read as a whole: one broken entry hides the others."""
    root = snapshot.root
    known: dict[str, dict[int, int]] = {}

    def versions_of(branch: str) -> dict[int, int]:
        """Versions of a branch, with the sizes of their manifests."""
        if branch not in known:
            try:
                listed = list_manifests(branch_store(root, branch))[0]
            except LanceletError:
                listed = {}
            known[branch] = {name.version: entry.size for name, entry in listed.items()}
        return known[branch]

    try:
        for branch in list_branches(root):
            if not versions_of(branch.name):
                problem = "is listed, but has no versions"
                yield Finding(Level.WARNING, "branch", f"branch {branch.name}", problem, "delete the branch")
    except LanceletError as error:
        yield trouble(error, "branches", Level.WARNING)
    try:
        for tag in list_tags(root):
            place, on = f"tag {tag.name}", tag.branch or MAIN_BRANCH
            size = versions_of(on).get(tag.version)
            if size is None:
                problem = f"points at version {tag.version} of {on}, which is not there"
                yield Finding(Level.WARNING, "tag", place, problem, "delete the tag, or point it at another version")
            elif size != tag.manifest_size:
                problem = f"says that the manifest of version {tag.version} has {tag.manifest_size} bytes, not {size}"
                yield Finding(Level.WARNING, "tag", place, problem, "point the tag at the version again")
    except LanceletError as error:
        yield trouble(error, "tags", Level.WARNING)


def _orphans(snapshot: Snapshot) -> Iterator[Finding]:
    """Files that no version names: what a cleanup would remove, now or once they are a week old."""
    if is_detached(snapshot.version):
        return
    try:
        found = plan_cleanup(snapshot, CleanupPolicy(versions=frozenset(), delete_unverified=True)).files
        old = {file.path for file in plan_cleanup(snapshot, NOTHING).files} if found else set()
    except LanceletError as error:
        problem = f"it cannot be told which files nobody needs: {error}"
        yield Finding(Level.NOTE, "orphan file", snapshot.uri, problem, "see to the problems above first")
        return
    for file in found:
        if file.path in old:
            problem, advice = "no version names it", "repair() or a cleanup removes it"
        else:
            problem, advice = "no version names it yet", "a writer may be at work; after a week a cleanup removes it"
        yield Finding(
            Level.NOTE, "orphan file", file.path, f"{problem} ({file.size} bytes)", advice, repairable=file.path in old
        )


def _gaps_in_statistics(snapshot: Snapshot) -> Iterator[Finding]:
    """Sizes and counts that the manifest could have, and that spare readers requests."""
    for fragment in snapshot.manifest.fragments:
        gaps = missing_statistics(fragment)
        if gaps:
            problem = f"the manifest does not have its {', '.join(gaps)}"
            place = f"fragment {fragment.id}"
            yield Finding(
                Level.NOTE, "statistics", place, problem, "repair() looks them up and records them", repairable=True
            )


def missing_statistics(fragment: Fragment) -> list[str]:
    """What a fragment does not record about itself."""
    gaps = []
    if fragment.physical_rows is None:
        gaps.append("number of rows")
    if any(file.size is None for file in fragment.files):
        gaps.append("file sizes")
    if fragment.deletion_file is not None and fragment.deletion_file.num_deleted_rows is None:
        gaps.append("number of deleted rows")
    return gaps
