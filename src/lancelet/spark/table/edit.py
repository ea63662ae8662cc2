"""Deleting and updating the rows of a table that meet a condition, as a Spark job with one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from lancelet.editing.delete import DeleteResult
from lancelet.editing.retry import retried
from lancelet.editing.truncate import truncate
from lancelet.editing.update import UpdateResult
from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.spark.names import is_case_sensitive
from lancelet.spark.options import TableRef
from lancelet.spark.table.rows import Changed, RowAction, RowJob, RowStep, commit_moved, run_rows
from lancelet.spark.table.values import STEP, analysed, assigned, condition_of, fitted, in_words, table_frame
from lancelet.spark.types import stored_columns
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.patience import SPARK_SECONDS
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.table.manifest.snapshot import Snapshot


def pin_version(snapshot: Snapshot, place: TableRef) -> TableRef:
    """Where tasks find this version."""
    return TableRef(snapshot.uri, place.storage_options, snapshot.version)


def delete_where(spark: SparkSession, place: TableRef, condition: Any, alias: str | None) -> DeleteResult:
    """Delete the rows for which a condition is true; all rows without one."""
    table = TableReader(place.open())
    if condition is None:
        count = table.num_rows
        truncate(table)
        return {"num_deleted_rows": count}
    text = condition if isinstance(condition, str) else str(condition)

    def attempt(table: TableReader) -> DeleteResult:
        snapshot = table.snapshot
        manifest = snapshot.manifest
        check_writable(manifest.path, manifest.head.writer_feature_flags)
        here = pin_version(snapshot, place)
        frame = _matching(table_frame(spark, here, manifest.schema), condition, alias)
        job = RowJob(here, (RowStep(RowAction.DELETE),))
        done = run_rows(frame.select(F.lit(0).alias(STEP), ROW_ADDRESS), job, snapshot.store)
        return {"num_deleted_rows": commit_deleted(snapshot, done, text)}

    return retried(table, attempt, None, SPARK_SECONDS)


def commit_deleted(snapshot: Snapshot, done: Changed, predicate: str) -> int:
    """Commit that the rows which the tasks named are gone; returns their number."""
    rows = {number: np.asarray(offsets.to_array()) for number, offsets in done.gone.items()}
    with WrittenFiles(snapshot.store) as files:
        deletion = delete_rows(snapshot, rows, predicate=predicate, files=files)
        commit(snapshot, deletion.operation, affected_rows=deletion.affected_rows, files=files)
    return deletion.num_rows


def update_where(
    spark: SparkSession, place: TableRef, condition: Any, values: Mapping[str, str | Column], alias: str | None
) -> UpdateResult:
    """Give columns new values in the rows for which a condition is true; in all rows without one."""

    def attempt(table: TableReader) -> UpdateResult:
        snapshot = table.snapshot
        schema = snapshot.manifest.schema
        here = pin_version(snapshot, place)
        given = assigned(schema, values, case_sensitive=is_case_sensitive(spark))
        frame = _matching(table_frame(spark, here, schema), condition, alias)
        new = fitted(frame, schema, given)
        stored = stored_columns(schema)
        job = RowJob(here, (RowStep(RowAction.UPDATE, tuple(new)),), pa.schema([stored.field(name) for name in new]))
        rows = frame.select(
            F.lit(0).alias(STEP), ROW_ADDRESS, *(value.alias(f"v{at}") for at, value in enumerate(new.values()))
        )
        changed = [field for field in schema.fields if field.name in new]
        done = commit_moved(snapshot, rows, job, changed)
        return {"num_rows_updated": done.updated}

    return retried(TableReader(place.open()), attempt, None, SPARK_SECONDS)


def _matching(frame: DataFrame, condition: Any, alias: str | None) -> DataFrame:
    if alias is not None:
        frame = frame.alias(alias)
    if condition is None:
        return frame
    given = condition_of(condition)
    with in_words(f"the condition {condition!r}"):
        return analysed(frame.filter(given))
