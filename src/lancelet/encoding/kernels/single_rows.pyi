from collections.abc import Callable

import pyarrow as pa

from lancelet.encoding.kernels.page_plans import PagePlans
from lancelet.encoding.rows import Indices

def pick_columns(
    plans: list[PagePlans],
    columns: list[Indices],
    widths: Indices,
    owners: Indices,
    rows: Indices,
    dtypes: list[pa.DataType],
    make: Callable[[int, pa.DataType], pa.Array],
) -> list[pa.Array] | None: ...
