"""merge_insert: rows of a source matched with those of a table, and what becomes of each.

Here is what others build merges of their own with, as Spark does.
"""

from typing import TYPE_CHECKING

from lancelet._naming.lazy import lazy_names

if TYPE_CHECKING:
    from lancelet.editing.merge.clauses import SOURCE, TARGET, primary_key_ids, primary_key_paths
    from lancelet.editing.merge.filter import key_filter
    from lancelet.editing.merge.keys import plain
    from lancelet.editing.merge.run import MergeResult
    from lancelet.editing.merge.write import kept_columns

__all__ = [
    "SOURCE",
    "TARGET",
    "MergeResult",
    "kept_columns",
    "key_filter",
    "plain",
    "primary_key_ids",
    "primary_key_paths",
]

__getattr__ = lazy_names(
    __name__,
    {
        "lancelet.editing.merge.clauses": ("SOURCE", "TARGET", "primary_key_ids", "primary_key_paths"),
        "lancelet.editing.merge.filter": ("key_filter",),
        "lancelet.editing.merge.keys": ("plain",),
        "lancelet.editing.merge.run": ("MergeResult",),
        "lancelet.editing.merge.write": ("kept_columns",),
    },
)
