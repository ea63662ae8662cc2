"""The column ``_fragid``: the number of the fragment that a row is in, which its address begins with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.runtime import compute as pc

FRAGMENT_ID = "_fragid"
_SHIFT = 32


def is_wanted(requested: StructType, names: Iterable[str]) -> bool:
    """Whether a read of a table with columns of these names wants the numbers of fragments."""
    return FRAGMENT_ID in requested.names and FRAGMENT_ID not in names


def scanned_columns(requested: StructType) -> StructType:
    """What is read for them: addresses instead of the numbers of fragments."""
    others = [field for field in requested if field.name not in (FRAGMENT_ID, ROW_ADDRESS)]
    return StructType([*others, StructField(ROW_ADDRESS, LongType(), True)])


def with_fragment_ids(batches: Iterable[pa.RecordBatch], requested: StructType) -> Iterator[pa.RecordBatch]:
    """Batches with the columns that were asked for."""
    # Arrow's scalars import pandas, which most reads do without.
    shift = pa.scalar(_SHIFT, pa.uint64())
    for batch in batches:
        addresses = pc.cast(batch.column(ROW_ADDRESS), pa.uint64())
        fragments = pc.cast(pc.shift_right(addresses, shift), pa.int32())
        columns = [fragments if name == FRAGMENT_ID else batch.column(name) for name in requested.names]
        yield pa.RecordBatch.from_arrays(columns, names=requested.names)
