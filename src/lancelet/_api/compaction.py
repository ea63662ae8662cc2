"""Compaction in pieces: plans, tasks and results, as classes that travel and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lancelet._api.fragment_metadata import FragmentMetadata, fragment_metadata, stored_fragment
from lancelet._naming.html import text_html
from lancelet.errors import InvalidInput, InvalidType
from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import ROW_ID_FIELD
from lancelet.maintenance.compaction.commit import CompactionMetrics, commit_rewrites, compact, metrics_of
from lancelet.maintenance.compaction.execute import Rewritten, rewrite_fragments
from lancelet.maintenance.compaction.options import CompactionOptions, CompactionSettings, compaction_settings
from lancelet.maintenance.compaction.plan import Reason, TaskPlan, WornFragment, judge, plan_tasks, task_of
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.fragment import Fragment, Spilled
from lancelet.table.manifest.versions import read_version

if TYPE_CHECKING:
    from lancelet._api.protocols import Movable
    from lancelet.store import Store


class CompactionTask:
    """Neighbouring fragments to rewrite together; made by :meth:`Compaction.plan`."""

    def __init__(
        self, version: int, settings: CompactionSettings, plan: TaskPlan, source: Store | tuple[Fragment, ...]
    ) -> None:
        self.read_version = version
        """The version of the table that the task was planned for."""
        self._settings = settings
        self._plan = plan
        # The table, to look its fragments up in; or the fragments, when the task comes from JSON.
        self._source = source

    def __reduce__(self) -> tuple[object, ...]:
        return CompactionTask, (self.read_version, self._settings, self._plan, self._source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompactionTask) and self.json() == other.json()

    def __hash__(self) -> int:
        return hash((self.read_version, self._plan))

    def __repr__(self) -> str:
        return f"CompactionTask(read_version={self.read_version}, fragments={self.fragments})"

    def __str__(self) -> str:
        return self._plan.describe([fragment.id for fragment in self._stored])

    @cached_property
    def _stored(self) -> tuple[Fragment, ...]:
        if isinstance(self._source, tuple):
            return self._source
        return self._plan.fragments(read_version(self._source, self.read_version))

    @property
    def fragments(self) -> list[FragmentMetadata]:
        """The fragments that will be rewritten."""
        return [fragment_metadata(fragment) for fragment in self._stored]

    def execute(self, dataset: Movable) -> RewriteResult:
        """Write the rows that are left into new files. Nothing is committed, and an error leaves no files."""
        table = dataset.table
        if table.snapshot.version != self.read_version:
            table = TableReader(table.snapshot.at(self.read_version), table.cache)
        manifest = table.snapshot.manifest
        if isinstance(self._source, tuple):
            current = [manifest.fragments.by_id(fragment.id) for fragment in self._source]
            fragments = [fragment for fragment in current if fragment is not None]
            if len(fragments) < len(current):
                missing = [mine.id for mine, there in zip(self._source, current, strict=True) if there is None]
                raise InvalidInput(f"version {self.read_version} of {table.snapshot.uri} has no fragments {missing}")
        else:
            fragments = list(self._plan.fragments(manifest))
        with WrittenFiles(table.snapshot.store) as files:
            return RewriteResult(rewrite_fragments(table, fragments, self._settings, files))

    def json(self) -> str:
        """The task as text."""
        task = {"fragments": [fragment.to_json() for fragment in self.fragments]}
        return json.dumps({"task": task, "read_version": self.read_version, "options": self._settings.to_json()})

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """The task that :meth:`json` or pylance showed."""
        content = _parsed(json, "task", "read_version", "options")
        return _task(content["task"], content["read_version"], CompactionSettings.from_json(content["options"]))


class CompactionPlan:
    """What there is to rewrite in a version of a table; made by :meth:`Compaction.plan`."""

    def __init__(self, version: int, settings: CompactionSettings, tasks: Sequence[CompactionTask]) -> None:
        self.read_version = version
        """The version of the table that the plan was made for."""
        self.tasks = list(tasks)
        self._settings = settings

    def __reduce__(self) -> tuple[object, ...]:
        return CompactionPlan, (self.read_version, self._settings, self.tasks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompactionPlan) and self.json() == other.json()

    def __hash__(self) -> int:
        return hash((self.read_version, len(self.tasks)))

    def __repr__(self) -> str:
        return f"CompactionPlan(read_version={self.read_version}, tasks=<{len(self.tasks)} compaction tasks>)"

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        return self.explain()

    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    def explain(self) -> str:
        """The plan for people: what each task rewrites and why. Nothing has been written yet."""
        if not self.tasks:
            return f"nothing to do for version {self.read_version}"
        number = "1 task" if len(self.tasks) == 1 else f"{len(self.tasks)} tasks"
        return "\n".join([f"{number} for version {self.read_version}", *(f"  {task}" for task in self.tasks)])

    def json(self) -> str:
        """The plan as text."""
        tasks = [{"fragments": [fragment.to_json() for fragment in task.fragments]} for task in self.tasks]
        return json.dumps({"tasks": tasks, "read_version": self.read_version, "options": self._settings.to_json()})

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """The plan that :meth:`json` or pylance showed."""
        content = _parsed(json, "tasks", "read_version", "options")
        settings = CompactionSettings.from_json(content["options"])
        version = content["read_version"]
        return CompactionPlan(version, settings, [_task(task, version, settings) for task in content["tasks"]])


class RewriteResult:
    """What a task wrote; made by :meth:`CompactionTask.execute`."""

    def __init__(self, rewritten: Rewritten) -> None:
        self._rewritten = rewritten

    def __reduce__(self) -> tuple[object, ...]:
        return RewriteResult, (self._rewritten,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RewriteResult) and self._rewritten == other._rewritten

    def __hash__(self) -> int:
        return hash(self._rewritten)

    def __repr__(self) -> str:
        return (
            f"RewriteResult(read_version={self.read_version}, new_fragments={self.new_fragments}, "
            f"old_fragments={self.original_fragments})"
        )

    @property
    def read_version(self) -> int:
        """The version that the rows were read from."""
        return self._rewritten.read_version

    @property
    def metrics(self) -> CompactionMetrics:
        """How many fragments and files go and come."""
        return metrics_of([self._rewritten])

    @property
    def original_fragments(self) -> list[FragmentMetadata]:
        """The fragments that are to be replaced."""
        return [fragment_metadata(fragment) for fragment in self._rewritten.old]

    @property
    def new_fragments(self) -> list[FragmentMetadata]:
        """The new ones; they get their ids at the commit."""
        return [fragment_metadata(fragment) for fragment in self._rewritten.new]

    def json(self) -> str:
        """The result as text."""
        metrics = self.metrics
        return json.dumps(
            {
                "metrics": {name: getattr(metrics, name) for name in CompactionMetrics.__slots__},
                "new_fragments": [fragment.to_json() for fragment in self.new_fragments],
                "read_version": self.read_version,
                "original_fragments": [fragment.to_json() for fragment in self.original_fragments],
                "row_addrs": None,
            }
        )

    @staticmethod
    def from_json(json: str) -> RewriteResult:
        """The result that :meth:`json` or pylance showed."""
        content = _parsed(json, "new_fragments", "read_version", "original_fragments")
        old, new = (_fragments(content[name]) for name in ("original_fragments", "new_fragments"))
        return RewriteResult(Rewritten(content["read_version"], old, new))


class Compaction:
    """Small fragments into larger ones, without the rows that are deleted."""

    @staticmethod
    def plan(dataset: Movable, options: CompactionOptions) -> CompactionPlan:
        """What is to be done; a dry run, whose text explains itself."""
        table = dataset.table
        settings = compaction_settings(options, table.snapshot.manifest)
        version = table.snapshot.version
        tasks = [CompactionTask(version, settings, plan, table.snapshot.store) for plan in plan_tasks(table, settings)]
        return CompactionPlan(version, settings, tasks)

    @staticmethod
    def execute(dataset: Movable, options: CompactionOptions) -> CompactionMetrics:
        """Plan, rewrite and commit, and move the dataset to the new version.

        When others change the same fragments meanwhile, the newest version is planned again.
        """
        table = dataset.table
        snapshot, metrics = compact(table, compaction_settings(options, table.snapshot.manifest))
        dataset._move(snapshot)
        return metrics

    @staticmethod
    def commit(
        dataset: Movable, rewrites: Sequence[RewriteResult], options: CompactionOptions | None = None
    ) -> CompactionMetrics:
        """Commit the results of tasks, of all of them or of some, and move the dataset to the new version.

        Parameters
        ----------
        dataset
            The table.
        rewrites
            What :meth:`CompactionTask.execute` returned.
        options
            Of them, ``defer_index_remap`` has an effect here.

        Raises
        ------
        RetryableCommitConflict
            Others changed the same fragments; plan again on the newest version, or leave out their results.
        """
        table = dataset.table
        defer = compaction_settings(options or {}, table.snapshot.manifest).defer_index_remap
        for result in rewrites:
            if not isinstance(result, RewriteResult):
                raise InvalidType(f"rewrites are results of CompactionTask.execute, not {type(result)}")
        done = [result._rewritten for result in rewrites]
        dataset._move(commit_rewrites(table.snapshot, done, defer=defer))
        return metrics_of(done)


def _task(content: object, version: int, settings: CompactionSettings) -> CompactionTask:
    fragments = _fragments(_member(content, "fragments"))
    members = [_member_of(fragment, settings) for fragment in fragments]
    return CompactionTask(version, settings, task_of(members, settings.target_rows_per_fragment), fragments)


def _member_of(fragment: Fragment, settings: CompactionSettings) -> WornFragment:
    rows, deleted = fragment.physical_rows or 0, fragment.num_deletions or 0
    reason = judge(rows, deleted, len(fragment.overlays), settings) or Reason.SMALL
    return WornFragment(0, reason, rows, deleted, sum(file.size or 0 for file in fragment.files))


def _fragments(content: object) -> tuple[Fragment, ...]:
    if not isinstance(content, list):
        raise InvalidInput("not the JSON of a list of fragments")
    return tuple(_fragment(stored_fragment(FragmentMetadata.from_json(json.dumps(entry)))) for entry in content)


def _fragment(fragment: Fragment) -> Fragment:
    """The JSON does not tell that ids are a column of the files; the files do."""
    if any(ROW_ID_FIELD in file.fields for file in fragment.files):
        column = Spilled.COLUMN
        return replace(fragment, row_ids=column, created_at=column, last_updated_at=column)
    return fragment


def _member(content: object, name: str) -> Any:
    if not isinstance(content, Mapping) or name not in content:
        raise InvalidInput(f"the JSON has no {name!r}")
    return content[name]


def _parsed(text: str, *names: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"not JSON: {error}") from None
    for name in names:
        _member(content, name)
    members: dict[str, Any] = content
    return members
