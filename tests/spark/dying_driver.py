"""A program that is killed at a chosen point: the driver's Python and its Java, at once and without a word.

    python dying_driver.py <point> <from table> <to table> <checkpoint>

``batch`` is a write that ends; the other points are those of a stream that takes a version at a time, in the second
batch: before its tasks write, after that and before the commit, after the commit and before the checkpoint, after the
checkpoint. Points that begin with ``upsert`` are those of a stream into a MemWAL, in the same batch; ``upsert half`` has added the
rows of one shard.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings

from lancelet.memwal.staging import StreamBatch
from lancelet.spark import local_session
from lancelet.spark.memwal.upsert import LanceUpsertStreamWriter, add_parts
from lancelet.spark.source import LanceDataSource
from lancelet.spark.stream.read import LanceStreamReader
from lancelet.spark.stream.write import LanceStreamWriter
from lancelet.spark.writer import LanceWriter

BATCH = 1


class DyingSource(LanceDataSource):
    """The data source; sent to Spark's processes by value, since this is a program and no module."""

    @classmethod
    def name(cls):
        return "lance_dying"

    def writer(self, schema, overwrite):
        return DyingWriter(super().writer(schema, overwrite)._job)

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
        writer = super().streamWriter(schema, overwrite)
        if isinstance(writer, LanceUpsertStreamWriter):
            return DyingUpsertWriter(writer._job)
        return DyingStreamWriter(writer._job)

    def streamReader(self, schema):  # noqa: N802 - Spark's name
        reader = super().streamReader(schema)
        reader.__class__ = DyingReader
        return reader


class DyingWriter(LanceWriter):
    def commit(self, messages):
        die_at("batch")
        super().commit(messages)


class DyingStreamWriter(LanceStreamWriter):
    def write(self, iterator):
        from pyspark import TaskContext

        if TaskContext.get().getLocalProperty("streaming.sql.batchId") == str(BATCH):
            die_at("before write")
        return super().write(iterator)

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        if batchId == BATCH:
            die_at("written")
        super().commit(messages, batchId)
        if batchId == BATCH:
            die_at("committed")


class DyingUpsertWriter(LanceUpsertStreamWriter):
    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        if batchId == BATCH:
            die_at("upsert written")
            parts = [part for message in messages for part in message.parts]
            first = [part for part in parts if part.place == parts[0].place]
            if POINT == "upsert half":
                add_parts(messages[0].job, first, StreamBatch(messages[0].query, batchId))
            die_at("upsert half")
        super().commit(messages, batchId)
        if batchId == BATCH:
            die_at("upsert added")


class DyingReader(LanceStreamReader):
    def latestOffset(self, start, limit):  # noqa: N802 - Spark's name
        # Spark asks for the third batch when the second is in the checkpoint.
        if start["version"] == BATCH + 1:
            die_at("checkpointed")
        return super().latestOffset(start, limit)


def die_at(point):
    if point == POINT:
        for process in DRIVER:
            os.kill(process, signal.SIGKILL)
        os._exit(1)


def work_through(spark, kind, point, source, target, checkpoint):
    """What the program is there for; ``kind`` is the format of tables."""
    if point == "batch":
        spark.read.format("lance").load(source).write.format(kind).mode("append").save(target)
        return
    stream = spark.readStream.format(kind).option("startingVersion", 1).option("maxVersionsPerTrigger", 1)
    sink = stream.load(source).writeStream.format(kind).option("checkpointLocation", checkpoint)
    if point.startswith("upsert"):
        sink = sink.option("writePath", "memwal")
    sink.trigger(availableNow=True).start(target).awaitTermination()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    POINT = sys.argv[1]
    session = local_session(2, memory="512m", settings={"spark.log.level": "OFF"})
    DRIVER = (session.sparkContext._gateway.proc.pid, os.getpid())
    session.dataSource.register(DyingSource)
    work_through(session, DyingSource.name(), *sys.argv[1:])
    session.stop()
