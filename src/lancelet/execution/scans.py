"""What runs a plan, by what it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.execution.nearest import NearestScan
from lancelet.execution.scan import Scan

if TYPE_CHECKING:
    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.ranked_scan import RankedScan
    from lancelet.execution.table_reader import TableReader


def open_scan(table: TableReader, plan: ScanPlan) -> Scan | RankedScan:
    """What runs a plan."""
    if plan.matching is not None:
        # Importing what searches texts took 20 ms; most scans do without.
        from lancelet.execution.matching import MatchingScan

        return MatchingScan(table, plan)
    return Scan(table, plan) if plan.nearest is None else NearestScan(table, plan)
