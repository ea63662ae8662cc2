"""Rows of a shard in one task: a data frame shuffled by what the table's spec tells of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.pandas.functions import arrow_udf

from lancelet.encoding.plain import arrow_array
from lancelet.errors import UnknownColumn
from lancelet.memwal.placing import ShardMap
from lancelet.memwal.sharding import BUCKET, IDENTITY, bucket_of, buckets_of
from lancelet.spark.arrays import conform
from lancelet.spark.names import find_name, is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.table.manifest.snapshot import Snapshot


def by_shard(spark: SparkSession, snapshot: Snapshot, frame: DataFrame) -> DataFrame:
    """A data frame of which no two partitions have rows of one shard."""
    (one,) = ShardMap.of(snapshot).spec.fields
    if one.transform not in (BUCKET, IDENTITY):
        return frame.repartition(1)
    field = next(field for field in snapshot.manifest.schema.fields if field.id == one.source_ids[0])
    name = find_name(field.name, frame.columns, case_sensitive=is_case_sensitive(spark))
    if name is None:
        raise UnknownColumn(field.name, frame.columns, "the data frame, whose rows are to be sharded by it")
    column = F.col(f"`{name.replace('`', '``')}`")
    if one.transform == IDENTITY:
        return frame.repartition(column)
    count, stored = buckets_of(one), field.arrow_type

    def bucket(values: pa.Array) -> pa.Array:
        return arrow_array(bucket_of(conform(values, stored), count))

    # Spark's stubs take types of functions for which there are protocols of theirs only.
    function: Any = arrow_udf
    return frame.repartition(count, function(bucket, "int")(column))
