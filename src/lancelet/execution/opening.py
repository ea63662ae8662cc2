"""What runs a plan: a scan, or a search. Searching is imported when somebody searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.execution.scan import Scan

if TYPE_CHECKING:
    from lancelet.execution.nearest import NearestScan
    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.table_reader import TableReader


def open_scan(table: TableReader, plan: ScanPlan) -> Scan | NearestScan:
    """What runs a plan."""
    if plan.nearest is None:
        return Scan(table, plan)
    from lancelet.execution.nearest import NearestScan

    return NearestScan(table, plan)
