"""Repairing what can be repaired without guessing.

::

    the hint             written anew from the newest version
    orphan files         removed, by the rules of a cleanup: nobody named them for a week
    sizes and counts     looked up in the files and recorded, with a commit
    greatest ids         set right by the same commit
    damaged manifests    set aside, only where that is asked for (damaged_versions.py)

Everything else that a check finds needs somebody who knows what happened.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancelet._naming.html import text_html
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.maintenance.damaged_versions import aside_path, damaged_versions, set_aside
from lancelet.maintenance.validation.report import Finding, show_table
from lancelet.maintenance.validation.table import NOTHING, check_hint, missing_statistics
from lancelet.table.cleanup.plan import CleanupPlan, plan_cleanup
from lancelet.table.cleanup.run import run_cleanup
from lancelet.table.commit.operations import Merge
from lancelet.table.commit.run import HINT, commit
from lancelet.table.manifest.fragment import Fragment
from lancelet.table.manifest.names import ManifestName, is_detached
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import newest_readable
from lancelet.table.rows.counts import counted


@dataclass(frozen=True, slots=True)
class RepairAction:
    """One thing that a repair does."""

    kind: str
    place: str
    action: str


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair did, or would do."""

    uri: str
    dry_run: bool
    actions: tuple[RepairAction, ...]

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        title = f"{self.uri}: " + ("would do" if self.dry_run else "did") + f" {len(self.actions)} thing(s)"
        rows = [(action.kind, action.place, action.action) for action in self.actions]
        return "\n".join([title, *show_table(("kind", "place", "action"), rows, (16, 60, 60))])


def repair(
    snapshot: Snapshot, *, dry_run: bool = True, set_aside_damaged: bool = False
) -> tuple[RepairReport, Snapshot]:
    """Repair the newest version of a table; returns what was done, and the version that there is then.

    An interrupted repair is carried on by the next one.
    """
    if is_detached(snapshot.version):
        raise InvalidInput(f"version {snapshot.version} stands outside the history; repair the latest version instead")
    damaged = damaged_versions(snapshot.store)
    if damaged:
        return _without(snapshot, damaged, dry_run=dry_run, set_aside_damaged=set_aside_damaged)
    newest = snapshot.latest()
    hint = list(check_hint(newest))
    files = plan_cleanup(newest, NOTHING)
    fragments = tuple(_completed(newest, fragment) for fragment in newest.manifest.fragments)
    actions = [*_statistics(newest, fragments), *_hint(hint), *_orphans(files)]
    if not dry_run:
        if any(action.kind == "statistics" for action in actions):
            newest = commit(newest, Merge(fragments, newest.manifest.schema, preserves_nullability=True))
        elif hint:
            newest.store.put(HINT, f'{{"version":{newest.version}}}'.encode())
        run_cleanup(newest, files)
    return RepairReport(newest.uri, dry_run, tuple(actions)), newest


def _without(
    snapshot: Snapshot, damaged: list[ManifestName], *, dry_run: bool, set_aside_damaged: bool
) -> tuple[RepairReport, Snapshot]:
    """Go on without damaged versions. Nothing else is repaired in the same go: what files they need is not known."""
    readable, after = newest_readable(snapshot.store)
    if readable is None:
        raise after[0][1]
    source = Snapshot.of(snapshot.store, readable)
    actions = []
    if after:
        action = f"make its content the newest again, as version {after[0][0] + 1}"
        actions.append(RepairAction("damaged version", f"version {readable.version}", action))
    for name in damaged:
        action = f"set aside as {aside_path(name)}; the rows that only this version had are lost with it"
        actions.append(RepairAction("damaged version", name.path, action))
    if not dry_run:
        if not set_aside_damaged:
            raise CorruptFile(
                snapshot.store.join(damaged[-1].path),
                f"the manifest of version {damaged[-1].version} is damaged, and only a backup has its content; to go on "
                f"from version {readable.version} without it, say set_aside_damaged=True",
            )
        source = set_aside(source, damaged)
    return RepairReport(snapshot.uri, dry_run, tuple(actions)), source


def _completed(snapshot: Snapshot, fragment: Fragment) -> Fragment:
    """The fragment with all sizes and counts that its files know."""
    if not missing_statistics(fragment):
        return fragment
    return counted(snapshot, fragment)


def _statistics(snapshot: Snapshot, fragments: tuple[Fragment, ...]) -> list[RepairAction]:
    found = [
        RepairAction("statistics", f"version {snapshot.version}", f"record otherwise: {fault}")
        for fault in snapshot.manifest.mended
    ]
    for before, after in zip(snapshot.manifest.fragments, fragments, strict=True):
        gaps = missing_statistics(before)
        if gaps:
            action = f"record its {', '.join(gaps)} ({after.physical_rows} rows)"
            found.append(RepairAction("statistics", f"fragment {before.id}", action))
    mark, greatest = snapshot.manifest.max_fragment_id, max((f.id for f in fragments), default=-1)
    if mark is not None and mark < greatest:
        action = f"record {greatest} as the greatest fragment id"
        found.append(RepairAction("statistics", f"version {snapshot.version}", action))
    return found


def _hint(findings: list[Finding]) -> list[RepairAction]:
    return [RepairAction("hint", finding.place, "write it anew") for finding in findings]


def _orphans(plan: CleanupPlan) -> list[RepairAction]:
    return [RepairAction("orphan file", file.path, f"remove it ({file.size} bytes)") for file in plan.files]
