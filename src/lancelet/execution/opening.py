"""What runs a plan: a scan, or a search. What searches is imported when somebody searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.execution.scan import Scan

if TYPE_CHECKING:
    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.ranked_scan import RankedScan
    from lancelet.execution.table_reader import TableReader


def open_scan(table: TableReader, plan: ScanPlan) -> Scan | RankedScan:
    """What runs a plan."""
    if plan.matching is not None and plan.matching.near is not None:
        from lancelet.execution.near_matching import NearMatchingScan

        return NearMatchingScan(table, plan)
    if plan.matching is not None:
        from lancelet.execution.matching import MatchingScan

        return MatchingScan(table, plan)
    if plan.near_text is not None:
        from lancelet.execution.near_texts import NearTextScan

        return NearTextScan(table, plan)
    if plan.nearest is not None:
        from lancelet.execution.nearest import NearestScan

        return NearestScan(table, plan)
    return Scan(table, plan)
