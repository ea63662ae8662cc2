"""Names for the types of arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as pads

    from lancelet.dataset import LanceDataset

__all__ = ["ReaderLike"]

ReaderLike: TypeAlias = Union[
    "pd.DataFrame",
    pa.Table,
    "pads.Dataset",
    "pads.Scanner",
    pa.RecordBatch,
    pa.RecordBatchReader,
    "LanceDataset",
    Iterable[pa.RecordBatch],
    dict[str, Any],
    list[dict[str, Any]],
]
"""Whatever rows can be written from, see :func:`lancelet.write_dataset`."""
