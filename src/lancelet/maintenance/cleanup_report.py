"""A cleanup under pylance's names: its arguments checked, its plan shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lancelet._naming.html import text_html
from lancelet.errors import InvalidCleanup, InvalidInput, InvalidType
from lancelet.table.cleanup.plan import CleanupPlan, CleanupPolicy, CleanupReferencedBranch, plan_cleanup
from lancelet.table.cleanup.run import CleanupStats, DeleteRate, run_cleanup
from lancelet.table.manifest.names import MAX_VERSION
from lancelet.table.registers.external import base_of

if TYPE_CHECKING:
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

__all__ = [
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "clean",
    "cleanup_policy",
    "explain",
]

DEFAULT_AGE = timedelta(days=14)
MAX_CONCURRENCY = 2**61 - 1


@dataclass(frozen=True, slots=True)
class CleanupCandidateFile:
    """A file that a cleanup would remove."""

    path: str
    """From the root of the file system or bucket, without a leading slash."""
    kind: str
    """``data``, ``deletion``, ``transaction``, ``index``, ``manifest`` or ``temporary_manifest``."""
    unverified: bool
    """No version named it: it was left behind by something that failed."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleanupExplanation:
    """What a cleanup would remove."""

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupCandidateFile]
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[CleanupReferencedBranch]
    warnings: list[str]

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        stats = self.stats
        counts = {
            "data": stats.data_files_removed,
            "deletion": stats.deletion_files_removed,
            "index": stats.index_files_removed,
            "transaction": stats.transaction_files_removed,
        }
        files = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count) or "no"
        gone = f"{stats.old_versions:,} old versions would go, with {files} files; {stats.bytes_removed:,} bytes"
        lines = [f"seen from version {self.read_version}: {gone}"]
        for branch in self.referenced_branches:
            what = "is cleaned up with it" if branch.cleanup_candidate else "keeps what it refers to"
            lines.append(f"  branch {branch.name}, from version {branch.referenced_version}, {what}")
        for file in self.candidate_files:
            why = "no version names it" if file.unverified else "only old versions name it"
            lines.append(f"  {file.kind:<12} {file.size_bytes:>14,} bytes  {file.path}  ({why})")
        return "\n".join([*lines, *(f"  {warning}" for warning in self.warnings)])


def cleanup_policy(
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    *,
    delete_unverified: bool = False,
    error_if_tagged_old_versions: bool = True,
    versions: Sequence[int] | None = None,
) -> CleanupPolicy:
    """What the arguments of a cleanup ask for."""
    if older_than is None and retain_versions is None and versions is None:
        older_than = DEFAULT_AGE
    if older_than is not None and not isinstance(older_than, timedelta):
        raise InvalidType(f"older_than is a datetime.timedelta, not {older_than!r}")
    if retain_versions is not None:
        retain_versions = _positive("retain_versions", retain_versions, MAX_VERSION)
    chosen = None
    if versions is not None:
        if isinstance(versions, (str, bytes)) or not isinstance(versions, Sequence):
            raise InvalidType(f"versions is a list of version numbers, not {versions!r}")
        if not versions:
            raise InvalidCleanup("versions is an empty list; name the versions to remove, or leave it out")
        chosen = frozenset(_positive("a version", version, MAX_VERSION, least=0) for version in versions)
    return CleanupPolicy(
        older_than, retain_versions, chosen, bool(delete_unverified), bool(error_if_tagged_old_versions)
    )


def clean(snapshot: Snapshot, policy: CleanupPolicy, rate: int | None, concurrency: int | None) -> CleanupStats:
    """Remove what a policy lets go."""
    if rate is not None:
        _positive("delete_rate_limit", rate, MAX_VERSION)
    if concurrency is not None:
        _positive("delete_concurrency", concurrency, MAX_CONCURRENCY)
    return run_cleanup(snapshot, plan_cleanup(snapshot, policy), DeleteRate(rate, concurrency))


def explain(snapshot: Snapshot, policy: CleanupPolicy, *, include_files: bool, max_files: int) -> CleanupExplanation:
    """What a policy lets go."""
    if isinstance(max_files, bool) or not isinstance(max_files, int):
        raise InvalidType(f"max_files is a number, not {max_files!r}")
    if max_files <= 0:
        raise InvalidInput(f"max_files is positive, not {max_files}")
    plan = plan_cleanup(snapshot, policy)
    found = _shown(snapshot.store, plan, max_files) if include_files else []
    truncated = include_files and len(found) < len(plan.files) + len(plan.manifests)
    return CleanupExplanation(
        plan.read_version,
        CleanupStats.of([*plan.files, *plan.manifests]),
        found,
        truncated,
        max_files,
        list(plan.branches),
        [f"candidate_files truncated to {max_files} entries"] if truncated else [],
    )


def _shown(store: Store, plan: CleanupPlan, limit: int) -> list[CleanupCandidateFile]:
    base = base_of(store)
    return [
        CleanupCandidateFile(f"{base}/{file.path}" if base else file.path, file.kind, file.unverified, file.size)
        for file in [*plan.files, *plan.manifests][:limit]
    ]


def _positive(name: str, number: object, most: int, least: int = 1) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidType(f"{name} is a number, not {number!r}")
    if not least <= number <= most:
        raise InvalidCleanup(f"{name} is {number}, but has to be between {least} and {most}")
    return number
