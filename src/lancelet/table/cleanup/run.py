"""Carrying out a cleanup: exactly what was planned, in an order that may be interrupted anywhere.

Manifests go first and files after them, so that every version that can still be
listed has its files; what an interrupted cleanup leaves is files that no version
names. Between the two steps versions and branches are listed again: a version
that was committed meanwhile (a restore of an old one, say), a branch that was
made meanwhile, or a version whose manifest could not be removed keeps its files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lancelet.errors import StorageError
from lancelet.log import debug
from lancelet.table.cleanup.plan import CleanupPlan, UnneededFile, is_named, names_of_branch, referring_branches
from lancelet.table.cleanup.references import NameReader, read_heads
from lancelet.table.manifest.names import is_detached
from lancelet.table.manifest.versions import list_manifests
from lancelet.table.refs.read import branch_store
from lancelet.table.registers.external import base_of, external_for

if TYPE_CHECKING:
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

REQUEST = 1000
"""Objects that one request removes."""
_REQUESTS_AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class CleanupStats:
    """What a cleanup removed, or would remove."""

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    failed_deletes: int = 0
    """Files that the store refused to remove."""

    @classmethod
    def of(cls, files: Sequence[UnneededFile], failed: int = 0) -> CleanupStats:
        """Count and size of files, by what they are."""
        counts = {"manifest": 0, "data": 0, "transaction": 0, "index": 0, "deletion": 0, "temporary_manifest": 0}
        size = 0
        for file in files:
            counts[file.kind] += 1
            size += file.size
        return cls(
            size,
            counts["manifest"],
            counts["data"],
            counts["transaction"],
            counts["index"],
            counts["deletion"],
            failed,
        )


@dataclass(frozen=True, slots=True)
class DeleteRate:
    """How fast files are removed."""

    per_second: int | None = None
    """Files; None: as fast as the store takes it."""
    requests: int | None = None
    """How many requests are made at once."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def chunks(self, files: Sequence[UnneededFile]) -> Iterator[list[UnneededFile]]:
        """The files in pieces, each handed out when it is time for it."""
        size = REQUEST * (self.requests or _REQUESTS_AT_ONCE)
        if self.per_second is not None:
            size = min(size, self.per_second)
        began, done, queue = self.clock(), 0, iter(files)
        while chunk := list(islice(queue, size)):
            if self.per_second is not None:
                wait = began + done / self.per_second - self.clock()
                if wait > 0:
                    self.sleep(wait)
            yield chunk
            done += len(chunk)


def run_cleanup(snapshot: Snapshot, plan: CleanupPlan, rate: DeleteRate | None = None) -> CleanupStats:
    """Remove what a plan found in the table of ``snapshot``."""
    store = snapshot.store
    rate = rate or DeleteRate()
    removed: list[UnneededFile] = []
    failed = 0
    if plan.manifests:
        forgotten = _forget(store, plan)
        gone = _delete(store, forgotten, rate, lasting=True)
        removed += gone
        failed += len(plan.manifests) - len(gone)
    files = _still_unused(snapshot, plan)
    gone = _delete(store, files, rate)
    stats = CleanupStats.of([*removed, *gone], failed + len(files) - len(gone))
    debug("removed %d old versions of %s: %d bytes", stats.old_versions, snapshot.uri, stats.bytes_removed)
    return stats


def _forget(store: Store, plan: CleanupPlan) -> Sequence[UnneededFile]:
    """Have an external manifest store forget the versions; returns the manifests of those that it forgot."""
    external = external_for(store)
    if external is None:
        return plan.manifests
    base, done = base_of(store), []
    for version, manifest in zip(plan.versions, plan.manifests, strict=True):
        try:
            if not is_detached(version):
                external.delete(base, version)
        except StorageError:
            continue
        done.append(manifest)
    return done


def _still_unused(snapshot: Snapshot, plan: CleanupPlan) -> Sequence[UnneededFile]:
    """The files that no version names which is there now."""
    if not plan.files:
        return ()
    manifests, _ = list_manifests(snapshot.store)
    unknown = [name.path for name in manifests if name.path not in plan.kept]
    known = {branch.name for branch in plan.branches}
    branches = [branch for branch, _ in referring_branches(snapshot) if branch.name not in known]
    if not unknown and not branches:
        return plan.files
    names = NameReader()
    for head in read_heads(snapshot.store, unknown):
        if head is not None:
            names.read(head)
    for branch in branches:
        names.names.add(names_of_branch(branch_store(snapshot.root, branch.name)))
    return [file for file in plan.files if not is_named(names.names, file.path)]


def _delete(
    store: Store, files: Sequence[UnneededFile], rate: DeleteRate, *, lasting: bool = False
) -> list[UnneededFile]:
    """Remove files; returns those that are gone."""
    gone: list[UnneededFile] = []
    for chunk in rate.chunks(files):
        failed = set(store.delete_many([file.path for file in chunk], lasting=lasting))
        gone += [file for file in chunk if file.path not in failed]
    return gone
