from collections.abc import Callable

import pyarrow as pa

from lancelet.encoding.kernels.page_plans import PagePlans
from lancelet.encoding.rows import Indices

def read_columns(
    plans: PagePlans,
    columns: Indices,
    widths: Indices,
    kinds: Indices,
    start: int,
    stop: int,
    picks: Indices | None,
    dtypes: list[pa.DataType],
    make: Callable[[int, pa.DataType], pa.Array],
) -> list[pa.Array | tuple[pa.Array, pa.Array | None, pa.Array | None] | None]: ...
