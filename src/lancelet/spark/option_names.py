"""Options as users of another connector for Lance write them.

Those that mean the same have our names from here on. Those that only tune that connector (its caches, its queues, what its
streams remember: ours go by their checkpoint) are passed over: answers do not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancelet.errors import InvalidInput

_SAME = {
    "write_mode": "savemode",
    "max_row_per_file": "maxrowsperfile",
    "max_rows_per_file": "maxrowsperfile",
    "max_bytes_per_file": "maxbytesperfile",
    "file_format_version": "datastorageversion",
    "data_storage_version": "datastorageversion",
    "enable_stable_row_ids": "enablestablerowids",
    "merge-schema": "mergeschema",
    "use_large_var_types": "uselargevartypes",
    "batch_size": "batchsize",
}
_TUNING = (
    "blob_pack_file_size_threshold",
    "block_size",
    "catalog",
    "executor_credential_refresh",
    "index_cache_size",
    "lance.streaming.dedupe.lookback.versions",
    "max_batch_bytes",
    "max_rows_per_group",
    "metadata_cache_size",
    "pushdownfilters",
    "queue_depth",
    "streamingqueryid",
    "topn_push_down",
    "use_queued_write_buffer",
    "use_scalar_index",
)
_SEARCHES = {"nearest": "VECTOR_SEARCH", "fulltextquery": "SEARCH"}

KNOWN = frozenset((*_SAME, *_TUNING))


def in_our_words(options: Mapping[str, str], *, writes: bool = False) -> dict[str, str]:
    """Options, in small letters, by our names.

    Examples
    --------
    >>> in_our_words({"Max_row_per_file": "10", "queue_depth": "8", "path": "t"})
    {'maxrowsperfile': '10', 'path': 't'}
    """
    found: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name in _SEARCHES:
            raise InvalidInput(f"'{key}' is no option, but the function {_SEARCHES[name]}(table, query, k) of SQL")
        if name in _TUNING or (writes and name == "batch_size"):
            continue
        ours = _SAME.get(name, name)
        # Who writes an option in both ways means ours.
        if ours == name or ours not in found:
            found[ours] = value
    return found
