"""The keywords of scans: each is named once for all calls of a class that take it.

Their order is that of pylance's signatures, for scans of tables and of fragments each its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from lancelet._api.scanner import ColumnOrdering, Columns, LanceScanner, ScannerBuilder, ScanStatistics
from lancelet._naming.keywords import by_name, refuse_unknown
from lancelet.errors import InvalidInput
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet._api.protocols import Scanned
    from lancelet.query import FullTextQuery


class ScanOptions(TypedDict, total=False):
    """What :meth:`lancelet.LanceDataset.scanner` takes besides columns, filter, limit and offset."""

    nearest: Any
    batch_size: int | None
    batch_size_bytes: int | None
    batch_readahead: int | None
    fragment_readahead: int | None
    scan_in_order: bool | None
    fragments: Iterable[Any] | None
    index_segments: Iterable[Any] | None
    full_text_query: Any
    prefilter: bool | None
    with_row_id: bool | None
    with_row_address: bool | None
    use_stats: bool | None
    fast_search: bool | None
    io_buffer_size: int | None
    late_materialization: bool | list[str] | None
    blob_handling: str | None
    use_scalar_index: bool | None
    include_deleted_rows: bool | None
    scan_stats_callback: Callable[[ScanStatistics], None] | None
    strict_batch_size: bool | None
    order_by: Sequence[ColumnOrdering | str] | str | None
    disable_scoring_autoprojection: bool | None
    row_addr_allowlist: bytes | None
    row_addr_blocklist: bytes | None


SCANNER_POSITIONS = tuple(ScanOptions.__annotations__)[:9]
"""What a scanner takes by position too, after columns, filter, limit and offset."""
RESULT_POSITIONS = SCANNER_POSITIONS[:6]
"""What calls that scan and return rows take by position too."""
FRAME_POSITIONS = tuple(name for name in RESULT_POSITIONS if name != "batch_size_bytes")
FRAME_OPTIONS = tuple(
    name
    for name in ScanOptions.__annotations__
    if name not in ("batch_size_bytes", "blob_handling", "strict_batch_size")
)
"""A data frame has a word of its own for blobs, and no batches."""


class SearchOptions(TypedDict, total=False):
    """How vectors are searched; see :meth:`lancelet.dataset.ScannerBuilder.nearest`."""

    metric: str | None
    nprobes: int | None
    minimum_nprobes: int | None
    maximum_nprobes: int | None
    refine_factor: int | None
    ef: int | None
    use_index: bool
    approx_mode: str
    search_effort: float | None
    distance_range: tuple[float | None, float | None] | None


class FragmentOptions(TypedDict, total=False):
    """What :meth:`lancelet.LanceFragment.scanner` takes."""

    columns: Columns
    batch_size: int | None
    filter: str | pc.Expression | None
    limit: int | None
    offset: int | None
    with_row_id: bool
    with_row_address: bool
    batch_readahead: int
    blob_handling: str | None
    order_by: Sequence[ColumnOrdering | str] | str | None
    use_scalar_index: bool | None
    io_buffer_size: int | None
    late_materialization: bool | list[str] | None
    include_deleted_rows: bool | None
    batch_size_bytes: int | None
    strict_batch_size: bool | None


FRAGMENT_POSITIONS = tuple(
    name
    for name in FragmentOptions.__annotations__
    if name not in ("columns", "filter", "limit", "offset", "batch_size", "batch_readahead")
)
"""What :meth:`lancelet.LanceFragment.to_table` takes by position too, after columns, filter, limit and offset."""
FRAGMENT_DEFAULTS: Mapping[str, Any] = {"with_row_id": False, "with_row_address": False, "batch_readahead": 16}


_SETTERS = {
    "fragments": "with_fragments",
    "index_segments": "with_index_segments",
    "full_text_query": "full_text_search",
}
"""Options that :class:`ScannerBuilder` has under another name, as pylance's has."""


def build_scanner(
    dataset: Scanned,
    defaults: Mapping[str, object] | None,
    columns: Columns,
    filter: str | pc.Expression | FullTextQuery | Mapping[str, Any] | None,  # noqa: A002
    limit: int | None,
    offset: int | None,
    more: Sequence[object],
    options: Mapping[str, object],
) -> LanceScanner:
    """A scan of a dataset, with its defaults and with the options that are not None."""
    named = by_name("scanner", SCANNER_POSITIONS, more, options) if more else options
    refuse_unknown("scanner", named, ScanOptions)
    wanted = {"columns": columns, "filter": filter, "limit": limit, "offset": offset, **named}
    builder = ScannerBuilder(dataset).row_addr_prefilter(
        wanted.pop("row_addr_allowlist", None), wanted.pop("row_addr_blocklist", None)
    )
    if defaults:
        builder.apply_defaults(defaults)
    builder.apply_defaults({_SETTERS.get(name, name): value for name, value in wanted.items() if value is not None})
    return builder.to_scanner()


def frame_options(more: Sequence[object], keywords: Mapping[str, object]) -> tuple[ScanOptions, dict[str, Any]]:
    """The options of a scan for a data frame, and those that are pyarrow's."""
    wanted = by_name("to_pandas", FRAME_POSITIONS, more, keywords)
    options: Any = {name: value for name, value in wanted.items() if name in FRAME_OPTIONS}
    return options, {name: value for name, value in wanted.items() if name not in FRAME_OPTIONS}


def slice_limit(start: int, end: int) -> int:
    """How many rows there are from ``start`` up to, not including, ``end``."""
    if start < 0:
        raise InvalidInput(f"start must be non-negative, got {start}")
    if end < start:
        raise InvalidInput(f"end ({end}) must be >= start ({start})")
    return end - start


def set_options(options: Mapping[str, object], known: type) -> dict[str, Any]:
    """The options that are set; None stands for those that are not."""
    refuse_unknown("scanner", options, known)
    return {name: value for name, value in options.items() if value is not None}
