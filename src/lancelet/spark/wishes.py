"""What Spark wants of one scan, as the bridge tells it, beside columns and options of users."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lancelet.spark import bridge
from lancelet.spark.options import count

if TYPE_CHECKING:
    from lancelet.expressions.expr import Expr
    from lancelet.spark.plan import ReadJob
    from lancelet.table.manifest.snapshot import Snapshot

_MATCH = '"match"'
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "in", "starts_with", "ends_with", "contains")
"""With a column and a value; not true where the column is null."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is pushed down."""

    predicates: str | None = None
    limit: int | None = None
    offset: int | None = None
    """Given where the limit is exact; otherwise each task gives as many rows, and Spark takes the first."""
    order: str | None = None
    sample: str | None = None
    runtime: str | None = None
    nearest: str | None = None
    parallelism: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Wishes:
        """From the options of a scan."""
        return cls(
            given.get(bridge.PREDICATES),
            count(given, bridge.LIMIT),
            count(given, bridge.OFFSET),
            given.get(bridge.ORDER),
            given.get(bridge.SAMPLE),
            given.get(bridge.RUNTIME),
            given.get(bridge.NEAREST),
            count(given, bridge.PARALLELISM) or 1,
        )

    @property
    def is_exact(self) -> bool:
        """Whether tasks together give as many rows as are wanted."""
        return self.offset is not None

    def added(self, snapshot: Snapshot, job: ReadJob) -> ReadJob:
        """A read that does what is wished."""
        if self.predicates is not None:
            job = _with_conditions(snapshot, job, self.predicates)
        if self.order is not None:
            from lancelet.spark.chosen_rows import Order

            job = replace(job, order=Order.read(self.order))
        if self.sample is not None:
            from lancelet.spark.chosen_rows import Sample

            job = replace(job, sample=Sample.read(self.sample))
        if self.nearest is not None:
            from lancelet.spark.search.nearest_rows import NearestRows

            job = replace(job, nearest=NearestRows.read(self.nearest))
        return job

    def known(self, snapshot: Snapshot) -> tuple[Expr, ...]:
        """What the other side of a join tells of the rows that it needs."""
        if self.runtime is None:
            return ()
        from lancelet.spark.predicates import from_json

        return (from_json(self.runtime, snapshot.manifest.schema),)


def _with_conditions(snapshot: Snapshot, job: ReadJob, predicates: str) -> ReadJob:
    """A read of rows for which conditions are true; one on texts becomes a search."""
    from lancelet.spark.predicates import parsed

    node, schema = _without_needless(json.loads(predicates)), snapshot.manifest.schema
    if _MATCH not in predicates:
        return replace(job, conditions=(*job.conditions, parsed(node, schema)))
    from lancelet.spark.search.match import matching_of, rows_that_match, split_search

    text, rest = split_search(node)
    condition = parsed(rest, schema, partial(rows_that_match, snapshot))
    found = None if text is None else matching_of(snapshot, text)
    return replace(job, conditions=(*job.conditions, condition), text=found)


def _without_needless(node: Any) -> Any:
    """Conditions without those that others imply: what is compared with a value is not null, which Spark says besides."""
    match node:
        case ["and", *parts]:
            compared = [part[1] for part in parts if part[0] in _COMPARISONS]
            return ["and", *(part for part in parts if part[0] != "is_not_null" or part[1] not in compared)]
    return node
