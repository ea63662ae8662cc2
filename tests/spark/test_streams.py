"""Streams out of tables and into them."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

import lancelet
from lancelet.spark.options import read_options
from lancelet.spark.source import table_columns
from lancelet.spark.stream.read import LanceStreamReader, make_stream_reader, with_changes
from lancelet.spark.stream.write import (
    _NAMESPACE,
    BATCH,
    QUERY,
    WrittenInStream,
    _commit,
    commit_batch,
    is_committed,
    make_stream_writer,
)
from lancelet.spark.writer import plan_write, write_rows
from spark.conftest import data_files

ALL = ReadAllAvailable()


def reader(uri: str, **options: str) -> LanceStreamReader:
    given = {"path": uri, **{key.lower(): value for key, value in options.items()}}
    schema = table_columns(lancelet.dataset(uri).table.snapshot, read_options(given))
    return make_stream_reader(with_changes(schema, given), given)


def between(stream: LanceStreamReader, start: int, end: int) -> list[dict]:
    """The rows of one batch, each task run from a copy, as in another process."""
    found = []
    for task in stream.partitions({"version": start}, {"version": end}):
        copy, part = pickle.loads(pickle.dumps((stream, task)))
        assert len(pickle.dumps(part)) < 4096
        for batch in copy.read(part):
            found.extend(batch.to_pylist())
    return found


def ids(rows: list[dict]) -> list[int]:
    return sorted(row["id"] for row in rows)


def append(uri: str, *numbers: int, **options: object) -> None:
    rows = pa.table({"id": pa.array(numbers, pa.int64()), "s": [f"s{n}" for n in numbers]})
    lance.write_dataset(rows, uri, mode="append", **options)


# Reading


def test_offsets_are_versions(uri):
    append(uri, 1, 2)
    append(uri, 3)
    stream = reader(uri)
    start = stream.initialOffset()
    assert start == {"version": 0}
    assert stream.latestOffset(start, ALL) == {"version": 2}
    assert ids(between(stream, 0, 2)) == [1, 2, 3]
    append(uri, 4)
    append(uri, 5, 6)
    assert stream.latestOffset({"version": 2}, ALL) == {"version": 4}
    assert ids(between(stream, 2, 4)) == [4, 5, 6]
    assert ids(between(stream, 2, 3)) == [4]
    assert stream.partitions({"version": 4}, {"version": 4}) == []
    assert stream.latestOffset({"version": 4}, ALL) == {"version": 4}
    assert stream.reportLatestOffset() == {"version": 4}


def test_where_a_stream_begins(uri):
    for number in range(1, 5):
        append(uri, number)
    assert reader(uri, startingVersion="3").initialOffset() == {"version": 2}
    assert reader(uri, startingVersion="latest").initialOffset() == {"version": 4}
    first = reader(uri, startingVersion="1")
    assert ids(between(first, 0, 2)) == [1, 2]


def test_admission_control(uri):
    for number in range(6):
        append(uri, *range(number * 10, number * 10 + 10))
    stream = reader(uri, startingVersion="1", maxVersionsPerTrigger="2")
    assert stream.getDefaultReadLimit() == ReadMaxFiles(2)
    assert stream.latestOffset({"version": 0}, ReadMaxFiles(2)) == {"version": 2}
    assert stream.latestOffset({"version": 5}, ReadMaxFiles(2)) == {"version": 6}
    assert stream.latestOffset({"version": 0}, ALL) == {"version": 6}
    rows = reader(uri, startingVersion="1", maxRowsPerTrigger="25")
    assert rows.getDefaultReadLimit() == ReadMaxRows(25)
    assert rows.latestOffset({"version": 0}, ReadMaxRows(25)) == {"version": 2}
    assert rows.latestOffset({"version": 0}, ReadMaxRows(3)) == {"version": 1}, "a version is never cut"
    rows.prepareForTriggerAvailableNow()
    append(uri, 99)
    assert rows.latestOffset({"version": 4}, ALL) == {"version": 6}


def test_compaction_and_indices_are_no_rows(uri):
    append(uri, 1, 2)
    append(uri, 3)
    ds = lance.dataset(uri)
    ds.optimize.compact_files()
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).update_config({"a": "b"})
    append(uri, 4)
    newest = lance.dataset(uri).version
    assert ids(between(reader(uri, startingVersion="1"), 0, newest)) == [1, 2, 3, 4]


def test_changed_rows_are_not_passed_over_in_silence(uri):
    append(uri, 1, 2, 3)
    lance.dataset(uri).delete("id = 2")
    append(uri, 4)
    stream = reader(uri, startingVersion="1")
    with pytest.raises(ValueError, match=r"version 2 of .* changed rows \(Delete\).*skipChanges=true"):
        between(stream, 0, 3)
    assert ids(between(reader(uri, startingVersion="1", skipChanges="true"), 0, 3)) == [1, 2, 3, 4]
    assert ids(between(reader(uri), 0, 3)) == [1, 3, 4], "the table as it is has no history"


def test_versions_that_are_gone(uri):
    append(uri, 1)
    append(uri, 2)
    append(uri, 3)
    stream = reader(uri, startingVersion="1")
    for manifest in sorted((Path(uri) / "_versions").glob("*.manifest"))[1:]:
        manifest.unlink()
    with pytest.raises(ValueError, match="the stream has not read it yet"):
        between(stream, 0, 3)


def test_changes(uri):
    append(uri, *range(10), enable_stable_row_ids=True)
    append(uri, 10, 11)
    ds = lance.dataset(uri)
    ds.update({"s": "'new'"}, where="id in (1, 11)")
    ds.delete("id in (2, 3)")
    late = pa.table({"id": pa.array([4, 50], pa.int64()), "s": ["merged", "fresh"]})
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(late)
    lance.dataset(uri).optimize.compact_files()
    newest = lance.dataset(uri).version
    stream = reader(uri, readChanges="true", rowId="true", startingVersion="2")
    found = between(stream, 1, newest)
    seen = sorted((r["_commit_version"], r["_change_type"], r["id"], r["s"]) for r in found)
    assert seen == [
        (2, "insert", 10, "s10"),
        (2, "insert", 11, "s11"),
        (3, "update", 1, "new"),
        (3, "update", 11, "new"),
        (4, "delete", 2, "s2"),
        (4, "delete", 3, "s3"),
        (5, "insert", 50, "fresh"),
        (5, "update", 4, "merged"),
    ]
    held: dict[int, str] = {r["id"]: r["s"] for r in lance.dataset(uri, version=1).to_table().to_pylist()}
    for version, change, number, text in seen:
        assert version > 1
        if change == "delete":
            del held[number]
        else:
            held[number] = text
    assert held == {r["id"]: r["s"] for r in lance.dataset(uri).to_table().to_pylist()}


def test_changes_of_an_overwrite(uri):
    append(uri, 1, 2, enable_stable_row_ids=True)
    lance.write_dataset(pa.table({"id": pa.array([7], pa.int64()), "s": ["x"]}), uri, mode="overwrite")
    stream = reader(uri, readChanges="true", startingVersion="1")
    seen = sorted((r["_commit_version"], r["_change_type"], r["id"]) for r in between(stream, 0, 2))
    assert seen == [(1, "insert", 1), (1, "insert", 2), (2, "delete", 1), (2, "delete", 2), (2, "insert", 7)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"readChanges": "true"}, "has no stable row ids"),
        ({"readChanges": "true", "skipChanges": "true"}, "exclude each other"),
        ({"version": "1"}, "makes no sense for a stream"),
        ({"limit": "1"}, "makes no sense for a stream"),
        ({"startingVersion": "soon"}, "startingVersion is a whole number"),
        ({"filter": "id > 1", "readChanges": "true"}, "takes no filter"),
    ],
)
def test_options_that_make_no_sense(uri, options, words):
    append(uri, 1)
    with pytest.raises(ValueError, match=words):
        reader(uri, **options)


# Writing

SCHEMA = st.StructType().add("id", st.LongType()).add("s", st.StringType())


def batch_of(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": pa.array(numbers, pa.int64()), "s": [str(n) for n in numbers]})]


def sink(uri: str, query: str, batch: int, *numbers: int, mode: str = "append") -> object:
    job = plan_write(SCHEMA, {"path": uri}, mode)
    return commit_batch(job, query, batch, write_rows(job, batch_of(*numbers)))


def held(uri: str) -> list[int]:
    return sorted(lance.dataset(uri).to_table()["id"].to_pylist())


def test_every_batch_is_written_once(uri):
    assert sink(uri, "q", 0, 1, 2).version == 1
    assert sink(uri, "q", 1, 3).version == 2
    files = data_files(uri)
    for batch, numbers in ((1, [3]), (0, [1, 2])):
        assert sink(uri, "q", batch, *numbers) is None, "a replay"
    assert held(uri) == [1, 2, 3]
    assert data_files(uri) == files, "what a replay wrote is gone"
    assert sink(uri, "other", 0, 9).version == 3, "another query counts for itself"
    texts = lance.dataset(uri).read_transaction(2).transaction_properties
    assert (texts[QUERY], texts[BATCH]) == ("q", "1")


def test_a_replay_is_noticed_after_cleanup(uri):
    for batch in range(4):
        sink(uri, "q", batch, batch)
    append(uri, 100)
    lance.dataset(uri).cleanup_old_versions(older_than=dt.timedelta(0))
    assert len(lance.dataset(uri).versions()) == 1
    assert sink(uri, "q", 3, 3) is None
    assert sink(uri, "q", 4, 4) is not None
    assert held(uri) == [0, 1, 2, 3, 4, 100]


def test_a_replay_is_noticed_without_its_mark(uri):
    sink(uri, "q", 0, 1)
    sink(uri, "q", 1, 2)
    for number in range(12):
        append(uri, 10 + number)
    lance.dataset(uri).delete_config_keys(["lancelet.stream.q"])
    newest = lancelet.dataset(uri).table.snapshot
    assert not any("lancelet.stream" in key for key in newest.manifest.config)
    assert is_committed(newest, "q", 1)
    assert not is_committed(newest, "q", 2)
    assert not is_committed(newest, "r", 0)


def test_two_drivers_with_one_batch(uri):
    """A driver that was thought dead commits the batch while its successor does."""
    sink(uri, "q", 0, 1)
    first, second = (plan_write(SCHEMA, {"path": uri}, "append") for _ in range(2))
    written = write_rows(first, batch_of(2)), write_rows(second, batch_of(2))
    base = lancelet.dataset(uri).table.snapshot
    _commit(first, first.store(), base, "q", 1, written[0])
    _commit(second, second.store(), base, "q", 1, written[1])
    assert held(uri) == [1, 2]


def test_a_table_that_changes_its_columns(uri):
    sink(uri, "q", 0, 1)
    job = plan_write(SCHEMA, {"path": uri}, "append")
    written = write_rows(job, batch_of(2))
    lance.dataset(uri).drop_columns(["s"])
    with pytest.raises(OSError, match="columns of the table changed since the stream started"):
        commit_batch(job, "q", 1, written)
    assert held(uri) == [1]
    assert not data_files(uri) & {file.path for fragment in written for file in fragment.files}


def test_complete_output_replaces(uri):
    sink(uri, "q", 0, 1, 2, mode="overwrite")
    sink(uri, "q", 1, 3, mode="overwrite")
    assert sink(uri, "q", 1, 3, mode="overwrite") is None
    assert (held(uri), lance.dataset(uri).version) == ([3], 2)


def test_empty_batches_make_no_versions(uri):
    sink(uri, "q", 0, 1)
    writer = make_stream_writer(SCHEMA, {"path": uri}, overwrite=False)
    writer.commit([], 1)
    writer.commit([WrittenInStream((), "q", writer._job)], 1)
    assert lance.dataset(uri).version == 1


@pytest.mark.parametrize(
    ("key", "words"), [("savemode", "outputMode says"), ("mergeschema", "before the stream starts")]
)
def test_options_of_batch_writes(uri, key, words):
    with pytest.raises(ValueError, match=words):
        make_stream_writer(SCHEMA, {"path": uri, key: "true"}, overwrite=False)


def test_a_driver_that_died_before_its_manifest(uri):
    """The transaction's file of the first attempt is there, its fragments are not."""
    sink(uri, "q", 0, 1)
    stale = Path(uri) / "_transactions" / f"1-{uuid.uuid5(_NAMESPACE, 'q:1')}.txn"
    stale.write_bytes(b"")
    sink(uri, "q", 1, 2)
    assert held(uri) == [1, 2]
    assert lance.dataset(uri).read_transaction(2).transaction_properties[BATCH] == "1"


# Both, by Spark


def run(spark: object, source: str, target: str, checkpoint: str, formats: str = "lance", **options: object) -> object:
    stream = spark.readStream.format(formats).options(**options).load(source)
    query = (
        stream.writeStream.format(formats)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(target)
    )
    try:
        assert query.awaitTermination(600)
    finally:
        query.stop()
    return query


@pytest.mark.parametrize("source", ["lance", pytest.param("lance_plain", marks=pytest.mark.soak)])
def test_from_table_to_table(spark, source, tmp_path):
    first, second, checkpoint = (str(tmp_path / name) for name in ("a.lance", "b.lance", "checkpoint"))
    append(first, 1, 2)
    append(first, 3)
    run(spark, first, second, checkpoint, source)
    assert held(second) == [1, 2, 3]
    append(first, 4)
    append(first, 5)
    query = run(spark, first, second, checkpoint, source, maxVersionsPerTrigger=1)
    assert held(second) == [1, 2, 3, 4, 5]
    assert lance.dataset(second).version == 3, "one version for each batch"
    assert json.loads(query.lastProgress["sources"][0]["endOffset"]) == {"version": 4}
    replay(checkpoint)
    run(spark, first, second, checkpoint, source)
    assert held(second) == [1, 2, 3, 4, 5], "a batch that the checkpoint forgot is in the table already"
    assert lance.dataset(second).version == 3


def replay(checkpoint: str) -> None:
    """Forget that the last batch was committed: as if the driver had died between the table and the checkpoint."""
    commits = Path(checkpoint) / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
