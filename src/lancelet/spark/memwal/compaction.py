"""Runs of a MemWAL into the base table, as a Spark job with one commit.

::

    a task for each shard    of each key the row that counts: its key, the run and the place in it, whether it is a deletion
    Spark                    joins the keys with those of the table, for the addresses of older rows
    tasks                    read the rows from the runs, as they are stored, and write them; older rows are named
    driver                   commits both, and how far each shard has come

Only keys, addresses and places go through Spark. Without a primary key nothing is joined: all rows are new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as st

from lancelet.editing.retry import retried
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import CommitConflict, MissingFile
from lancelet.execution.plan import plan_take
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.format.extensions import storage_of
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.memwal.compaction import Group, is_behind, newest_rows, open_runs, pending_runs, progress_of
from lancelet.memwal.primary_key import PrimaryKey
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.table.edit import pin_version
from lancelet.spark.table.jobs import tasks_frame
from lancelet.spark.table.rows import RowAction, RowJob, RowStep, commit_done, run_rows
from lancelet.spark.table.values import STEP, table_frame
from lancelet.spark.types import arrow_schema
from lancelet.table.commit.operations import UpdateMemWalState
from lancelet.table.commit.patience import SPARK_SECONDS
from lancelet.table.commit.run import commit

if TYPE_CHECKING:
    from uuid import UUID

    from pyspark.sql import DataFrame, SparkSession

    from lancelet.spark.options import TableRef
    from lancelet.table.manifest.snapshot import Snapshot

_SHARD, _RUN, _OFFSET, _GONE = "__lance_shard", "__lance_run", "__lance_offset", "__lance_gone"
_UPDATE, _DELETE, _INSERT = range(3)
_PLACES = (
    st.StructField(_SHARD, st.IntegerType()),
    st.StructField(_RUN, st.IntegerType()),
    st.StructField(_OFFSET, st.LongType()),
    st.StructField(_GONE, st.BooleanType()),
)


@dataclass(frozen=True, slots=True)
class RunRows:
    """Rows of runs as the new values of a job; tasks get their places: shard, run and offset."""

    groups: tuple[Group, ...]
    """The runs of each shard."""

    def open(self, table: TableReader) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        opened: dict[int, list[TableReader]] = {}
        names = list(table.snapshot.manifest.schema.names)

        def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
            shards, runs, offsets = (numpy_array(batch.column(name)) for name in (_SHARD, _RUN, _OFFSET))
            parts, places = [], []
            for shard in np.unique(shards).tolist():
                if shard not in opened:
                    opened[shard] = [run.table for run in open_runs(table, self.groups[shard])]
                for number in np.unique(runs[shards == shard]).tolist():
                    here = np.flatnonzero((shards == shard) & (runs == number))
                    here = here[np.argsort(offsets[here], kind="stable")]
                    run = opened[shard][number]
                    scan = Scan(run, plan_take(run.snapshot.manifest.schema, names))
                    parts.append(scan.take(np.zeros(len(here), np.int64), offsets[here]))
                    places.append(here)
            order = arrow_array(np.argsort(np.concatenate(places), kind="stable"))
            whole = pick_rows(pa.concat_tables(parts), order)
            columns = [storage_of(pa.concat_arrays(column.chunks)) for column in whole.columns]
            return pa.RecordBatch.from_arrays(columns, names=names)

        return rows


def compact_shards(spark: SparkSession, place: TableRef, shards: Collection[UUID] | None = None) -> dict[str, int]:
    """Take the runs of all shards, or of some, into the table; again on the newest version when others came in between."""

    def attempt(table: TableReader) -> dict[str, int]:
        pending = pending_runs(table.snapshot, shards)
        done = dict.fromkeys(("num_runs", "num_inserted_rows", "num_updated_rows", "num_deleted_rows"), 0)
        if not pending:
            return done
        try:
            return {**done, **_compact(spark, place, table.snapshot, pending)}
        except (CommitConflict, MissingFile, PythonException):
            # Another compactor was faster, and its runs may be gone already.
            newest = table.snapshot.latest()
            if not is_behind(newest, pending):
                raise
            return attempt(TableReader(newest, table.cache))

    return retried(TableReader(place.open()), attempt, None, SPARK_SECONDS)


def _compact(spark: SparkSession, place: TableRef, snapshot: Snapshot, pending: Group) -> dict[str, int]:
    here = pin_version(snapshot, place)
    schema = snapshot.manifest.schema
    groups = tuple(
        tuple((shard, run) for shard, run in pending if shard == one)
        for one in dict.fromkeys(shard for shard, _ in pending)
    )
    frame = _changes(spark, snapshot, here, groups)
    columns = tuple(schema.names)
    steps = (RowStep(RowAction.UPDATE, columns), RowStep(RowAction.DELETE), RowStep(RowAction.INSERT, columns))
    job = RowJob(here, steps, source=RunRows(groups), key=PrimaryKey.of(schema).names)
    done = run_rows(frame, job, snapshot.store)
    progress = progress_of(pending)
    if done.gone or done.fragments:
        commit_done(snapshot, job, done, schema.fields, compacted=progress)
    else:
        commit(snapshot, UpdateMemWalState(progress))
    return {
        "num_runs": len(pending),
        "num_inserted_rows": done.inserted,
        "num_updated_rows": done.updated,
        "num_deleted_rows": done.deleted,
    }


def _changes(spark: SparkSession, snapshot: Snapshot, here: TableRef, groups: tuple[Group, ...]) -> DataFrame:
    """What becomes of each row: step, address, and where the new row is."""
    key = PrimaryKey.of(snapshot.manifest.schema)
    base = table_frame(spark, here, snapshot.manifest.schema).select(ROW_ADDRESS, *key.names)
    keys = [st.StructField(f"k{at}", base.schema[name].dataType) for at, name in enumerate(key.names)]
    found = st.StructType([*_PLACES, *keys])
    newest = tasks_frame(spark, partial(_read_places, here, groups, found), range(len(groups)), found)
    places = [F.col(field.name) for field in _PLACES]
    if not key:
        return newest.select(F.lit(_INSERT).alias(STEP), F.lit(None).cast("long").alias(ROW_ADDRESS), *places)
    older = base.select(ROW_ADDRESS, *(F.col(f"`{name}`").alias(f"b{at}") for at, name in enumerate(key.names)))
    same = [F.col(f"k{at}") == F.col(f"b{at}") for at in range(len(keys))]
    # Of several rows with one key, which the table does not forbid, one is left.
    rows = newest.join(older, same, "left").groupBy(*places).agg(F.sort_array(F.collect_list(ROW_ADDRESS)).alias("all"))
    each = rows.select(*places, F.posexplode_outer("all").alias("number", ROW_ADDRESS))
    is_new, goes = F.col(ROW_ADDRESS).isNull(), F.col(_GONE) | (F.col("number") > 0)
    step = F.when(~is_new & goes, _DELETE).when(~is_new, _UPDATE).when(~F.col(_GONE), _INSERT)
    chosen = each.select(step.alias(STEP), ROW_ADDRESS, *places).filter(F.col(STEP).isNotNull())
    return chosen.sortWithinPartitions(F.col(ROW_ADDRESS).asc_nulls_last())


def _read_places(
    here: TableRef, groups: tuple[Group, ...], found: st.StructType, number: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one shard that go into the table."""
    rows = newest_rows(TableReader(here.open()), groups[number])
    shard = np.full(len(rows.runs), number, np.int32)
    places = [arrow_array(column) for column in (shard, rows.runs, rows.offsets, rows.tombstones)]
    batch = pa.RecordBatch.from_arrays([*places, *rows.keys], names=found.names)
    yield from conformed_batches([batch], arrow_schema(found))


def shards_named(names: Iterable[str] | None) -> Collection[UUID] | None:
    """Shards by the texts of their UUIDs."""
    from lancelet.memwal.names import shard_of

    return None if names is None else {shard_of(name) for name in names}
