"""Adding, changing and dropping columns.

Here is what others fill new columns with, as Spark does.
"""

from typing import TYPE_CHECKING

from lancelet._naming.lazy import lazy_names

if TYPE_CHECKING:
    from lancelet.editing.columns.add import Addition, add_columns
    from lancelet.editing.columns.beside_mem_wal import refuse_computed
    from lancelet.editing.columns.commit import Filled, fill_fragment
    from lancelet.editing.columns.fill import with_file
    from lancelet.editing.columns.new_fields import Growth, grown, with_null_columns
    from lancelet.editing.columns.sources import Computed, column_source

__all__ = [
    "Addition",
    "Computed",
    "Filled",
    "Growth",
    "add_columns",
    "column_source",
    "fill_fragment",
    "grown",
    "refuse_computed",
    "with_file",
    "with_null_columns",
]

__getattr__ = lazy_names(
    __name__,
    {
        "lancelet.editing.columns.add": ("Addition", "add_columns"),
        "lancelet.editing.columns.beside_mem_wal": ("refuse_computed",),
        "lancelet.editing.columns.commit": ("Filled", "fill_fragment"),
        "lancelet.editing.columns.fill": ("with_file",),
        "lancelet.editing.columns.new_fields": ("Growth", "grown", "with_null_columns"),
        "lancelet.editing.columns.sources": ("Computed", "column_source"),
    },
)
