"""Compaction as a Spark job: a plan on the driver, each group of fragments rewritten by a task, one commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.maintenance.compaction.commit import CompactionMetrics, compact
from lancelet.maintenance.compaction.execute import Rewritten, rewrite_fragments
from lancelet.maintenance.compaction.options import CompactionSettings, compaction_settings
from lancelet.spark.attempts import data_paths, swept
from lancelet.spark.table.edit import pin_version
from lancelet.spark.table.jobs import run_tasks
from lancelet.spark.table.values import analysed, condition_of, in_words, table_frame
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.rows.addresses import OFFSET_BITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lancelet.spark.options import TableRef
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

_THREADS = 2
"""One that decodes, and one that is ahead of it."""


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Fragments that become new ones."""

    place: TableRef
    fragment_ids: tuple[int, ...]
    settings: CompactionSettings
    stem: bytes = b""
    """Begins the names of all files of the job."""


def rewrite(task: RewriteTask) -> tuple[Fragment, ...]:
    """Run one task; an error leaves no files."""
    table = TableReader(task.place.open())
    fragments = [reader.fragment for reader in table.readers(task.fragment_ids)]
    with WrittenFiles(table.snapshot.store) as files:
        return rewrite_fragments(table, fragments, task.settings, files, task.stem).new


def compact_table(
    spark: SparkSession,
    place: TableRef,
    options: Mapping[str, Any],
    where: Any = None,
    *,
    among: Collection[int] | None = None,
) -> CompactionMetrics:
    """Rewrite small and worn fragments; with a condition only those that have a row for which it is true.

    ``among`` are the fragments that may be rewritten, if it is known already which these are.
    """
    table = TableReader(place.open())
    settings = compaction_settings(options, table.snapshot.manifest)
    if where is not None:
        among = _fragments_with(spark, table.snapshot, place, where)
    if among is not None:
        others = set(table.snapshot.manifest.fragments.ids.tolist()).difference(among)
        settings = replace(settings, excluded_fragment_ids=tuple(sorted({*settings.excluded_fragment_ids, *others})))
    return compact(table, settings, partial(_rewrite_all, spark, place))[1]


def _rewrite_all(
    spark: SparkSession,
    place: TableRef,
    table: TableReader,
    groups: Sequence[tuple[Fragment, ...]],
    settings: CompactionSettings,
    files: WrittenFiles,
) -> list[Rewritten]:
    here = pin_version(table.snapshot, place)
    own = replace(settings, num_threads=settings.num_threads or _THREADS, excluded_fragment_ids=())
    made: list[str] = []

    def note(fragments: tuple[Fragment, ...]) -> None:
        for path in data_paths(fragments):
            files.add(path)
            made.append(path)

    with swept(table.snapshot.store, lambda: made) as stem:
        tasks = [RewriteTask(here, tuple(fragment.id for fragment in group), own, stem) for group in groups]
        results = run_tasks(spark, rewrite, tasks, note)
    version = table.snapshot.version
    return [Rewritten(version, group, new) for group, new in zip(groups, results, strict=True)]


def _fragments_with(spark: SparkSession, snapshot: Snapshot, place: TableRef, where: Any) -> set[int]:
    frame = table_frame(spark, pin_version(snapshot, place), snapshot.manifest.schema)
    condition = condition_of(where)
    with in_words(f"the condition {where!r}"):
        found = analysed(
            frame.filter(condition).select(F.shiftright(ROW_ADDRESS, OFFSET_BITS).alias("fragment")).distinct()
        )
    return {row.fragment for row in found.collect()}
