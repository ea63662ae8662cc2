"""What is known of a scan without reading it: for Spark's planner, and in place of a scan that would only count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancelet.execution.candidates import candidate_fragments
from lancelet.execution.plan import visible_schema
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.expressions import build
from lancelet.index.scalar.zone_map_segment import ZoneMap

if TYPE_CHECKING:
    from lancelet.execution.open_indices import IndexPart
    from lancelet.spark.plan import ReadJob
    from lancelet.table.manifest.snapshot import Snapshot

_MICROS = "us"


def estimate(snapshot: Snapshot, job: ReadJob, aggregates: str | None) -> dict[str, Any]:
    """About how many rows a scan gives; what zones tell of columns; and aggregates, if all of them are known."""
    table = TableReader(snapshot)
    plan = job.scan_plan(snapshot)
    rows = table.num_rows
    if plan.filter is not None:
        found = candidate_fragments(table, plan.filter)
        live = dict(zip(snapshot.manifest.fragments.ids.tolist(), table.row_counts.tolist(), strict=True))
        rows = sum(live[number] if count is None else min(count, live[number]) for number, count in found.items())
    columns = {name: known for name in table.indices.columns() if (known := _column(table, name)) is not None}
    answers = None if aggregates is None else _answers(table, job, json.loads(aggregates))
    return {"rows": rows, "columns": columns, "answers": json.dumps(answers)}


def _column(table: TableReader, name: str) -> dict[str, int] | None:
    """The ends of a column's values, and how many are null; deleted rows may be among them."""
    zones = _zones(table, name)
    if zones is None:
        return None
    low, high, nulls = zones
    ends = {} if low is None or high is None else {"min": low, "max": high}
    return {**ends, "nulls": nulls}


def _answers(table: TableReader, job: ReadJob, asked: Sequence[Sequence[str]]) -> list[int | None] | None:
    """Aggregates over all rows of a scan; None unless metadata and indices tell all of them, which a search is not among."""
    if job.is_search:
        return None
    plan = job.scan_plan(table.snapshot)
    count: int | None = table.num_rows
    if plan.filter is not None:
        scan = Scan(table, plan)
        count = scan.count() if scan.candidates is not None and scan.candidates.is_counted else None
    values: list[int | None] = []
    for what, *names in asked:
        if what == "count":
            if count is None:
                return None
            values.append(count)
            continue
        ends = None if plan.filter is not None or _has_deletions(table) else _zones(table, names[0])
        if ends is None:
            return None
        values.append(ends[0] if what == "min" else ends[1])
    return values


def _has_deletions(table: TableReader) -> bool:
    return any(fragment.deletion_file is not None for fragment in table.snapshot.manifest.fragments)


def _zones(table: TableReader, name: str) -> tuple[int | None, int | None, int] | None:
    """The least and the greatest value of a column of whole numbers or times, and how many are null, as its zones have
    them; None unless these know all fragments.
    """
    column = build.column(visible_schema(table.snapshot.manifest.schema), [name])
    left = set(table.snapshot.manifest.fragments.ids.tolist())
    ends: list[tuple[Any, Any, int]] = []
    for part in table.indices.parts(column):
        mine = left & part.fragments
        if mine and _is_counted(part.dtype):
            segment = table.indices.segment(part)
            if isinstance(segment, ZoneMap) and segment.low.type == part.dtype:
                ends.append(_ends(part, segment, mine))
                left -= mine
    if left or not ends:
        return None
    lows = [low for low, _, _ in ends if low is not None]
    highs = [high for _, high, _ in ends if high is not None]
    return min(lows, default=None), max(highs, default=None), sum(nulls for _, _, nulls in ends)


def _ends(part: IndexPart, segment: ZoneMap, fragments: set[int]) -> tuple[Any, Any, int]:
    inside = np.isin(segment.zones.fragments, sorted(fragments))
    kept = pa.array(inside)
    low, high = (ends.filter(kept).drop_null() for ends in (segment.low, segment.high))
    width = pa.int64() if part.dtype.bit_width == 64 else pa.int32() if part.dtype.bit_width == 32 else part.dtype
    numbers = [np.asarray(ends.view(width)) if len(ends) else None for ends in (low, high)]
    least, greatest = (None if some is None else some for some in numbers)
    return (
        None if least is None else int(least.min()),
        None if greatest is None else int(greatest.max()),
        int(segment.null_counts[inside].sum()),
    )


def _is_counted(dtype: pa.DataType) -> bool:
    """Whether values are whole numbers that Spark holds as they are."""
    if pa.types.is_timestamp(dtype):
        return bool(dtype.unit == _MICROS)
    return bool(pa.types.is_signed_integer(dtype) or pa.types.is_date32(dtype))
