"""Compaction in pieces: plan, execute anywhere, commit once.

>>> import lancelet
>>> from lancelet.optimize import Compaction
>>> dataset = lancelet.write_dataset({"a": [1, 2, 3, 4]}, "memory://compacted", max_rows_per_file=1)
>>> plan = Compaction.plan(dataset, {})
>>> print(plan.explain())  # doctest: +ELLIPSIS
1 task for version 1
  4 fragments, 0 to 3 (4 with few rows): 4 rows, 0 deleted, ... bytes -> 1 of 4 rows
>>> results = [task.execute(dataset) for task in plan.tasks]
>>> Compaction.commit(dataset, results)
CompactionMetrics(fragments_removed=4, fragments_added=1, files_removed=4, files_added=1)

Tasks and results are pickled on their way to other processes and back. A task is small: it
names its fragments by their places in a version. The JSON forms are pylance's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from lancelet._api.compaction import Compaction, CompactionPlan, CompactionTask, RewriteResult
from lancelet._naming.keywords import refuse_unknown, takes
from lancelet.editing.metadata import delete_config_keys, update_config
from lancelet.maintenance.compaction.commit import CompactionMetrics
from lancelet.maintenance.compaction.options import CompactFilesOptions, CompactionOptions
from lancelet.progress import ShownProgress, shown
from lancelet.writing.options import CLEANUP_KEYS, cleanup_config

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from lancelet._api.protocols import Movable

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "DatasetOptimizer",
    "RewriteResult",
]


class AutoCleanupConfig(TypedDict):
    """When writers remove old versions by themselves."""

    interval: int
    """At every commit whose version is a multiple of this."""
    older_than_seconds: int
    """Versions older than this go."""


class DatasetOptimizer:
    """``dataset.optimize``: keeping the files of a table in good shape."""

    def __init__(self, dataset: Movable) -> None:
        self._dataset = dataset

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig, **kwargs: object) -> None:
        """Have writers remove old versions by themselves, and move to the new version.

        Parameters
        ----------
        auto_cleanup_config
            How often, and how old versions have to be.
        kwargs
            Accepted for pylance's sake, without effect.
        """
        self._dataset._move(
            update_config(self._dataset.table.snapshot, cleanup_config(auto_cleanup_config), replace=False)
        )

    def disable_auto_cleanup(self, **kwargs: object) -> None:
        """Have writers keep old versions again, and move to the new version."""
        self._dataset._move(delete_config_keys(self._dataset.table.snapshot, list(CLEANUP_KEYS)))

    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: list[str] | None = None,
        retrain: bool = False,
        **kwargs: object,
    ) -> None:
        """Extend indices by the rows that they do not know yet, and move to the new version.

        Parameters
        ----------
        num_indices_to_merge
            How many of an index's segments become one with the new rows, the last ones first: 1 by default; 0 leaves
            them alone and adds a segment.
        index_names
            Which indices; all by default.
        retrain
            Build the indices anew from all rows.
        kwargs
            Accepted for pylance's sake, without effect.
        """
        from lancelet.indexing.optimize import optimize_indices

        table, merged = self._dataset.table, num_indices_to_merge
        self._dataset._move(optimize_indices(table, merged=merged, names=index_names, retrain=retrain))

    @takes(CompactFilesOptions)
    def compact_files(
        self, *, progress: ShownProgress = None, **options: Unpack[CompactFilesOptions]
    ) -> CompactionMetrics:
        """Rewrite neighbouring small fragments as larger ones, without the rows that are deleted.

        Rows keep their order within what is rewritten together, their stable row ids and their versions. Options that
        are not given come from the table's config (``lance.compaction.<option>``), then from the defaults.

        Indices are not written anew. Those of the kinds BITMAP, LABEL_LIST, ZONEMAP, BLOOMFILTER and of vectors go on
        answering: where the rows went is recorded in the fragment-reuse index. Others no longer cover what was
        rewritten, and readers scan it until the index is extended; with ``defer_index_remap`` all go on. In tables with
        stable row ids, those that name rows by id go on, and the others give up what was rewritten.

        Parameters
        ----------
        target_rows_per_fragment
            Rows that a fragment is to have; 1,048,576 by default.
        max_rows_per_group, binary_copy_read_batch_bytes
            Without effect.
        max_bytes_per_file
            A file that has become larger is ended, and a new fragment begun.
        materialize_deletions, materialize_deletions_threshold
            Whether a fragment of which more than this share of the rows is deleted (0.1 by default) is rewritten even
            if it is large.
        defer_index_remap
            Have all indices go on through the fragment-reuse index; refused where there are stable row ids. pylance 14
            must go on compacting such a table with the same option: without, it loses rows from indices that wait.
        num_threads, batch_size
            How many ranges of rows are read side by side, and how many rows one has at most.
        compaction_mode
            Pages are always encoded anew; ``"force_binary_copy"`` is refused.
        max_source_fragments, max_source_rows, max_source_bytes
            Limits for one run: the first tasks that stay within them are done.
        excluded_fragment_ids
            Fragments to leave as they are, between which nothing is put together.
        data_storage_version
            File version of the new files; that of the table by default.
        progress
            True shows bars; a function is called with each :class:`lancelet.progress.WorkProgress`.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"a": [1, 2, 3]}, "memory://compact", max_rows_per_file=1)
        >>> dataset.optimize.compact_files()
        CompactionMetrics(fragments_removed=3, fragments_added=1, files_removed=3, files_added=1)
        """
        refuse_unknown("compact_files", options, CompactFilesOptions)
        wanted: Any = {name: value for name, value in options.items() if value is not None}
        with shown(progress):
            return Compaction.execute(self._dataset, wanted)
