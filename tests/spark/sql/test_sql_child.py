"""The Python process that answers Java: one for a driver, which ends with it and comes again when it dies."""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput
from lancelet.spark.sql import jobs, server
from lancelet.spark.sql.server import answer, answer_text
from spark.conftest import data_files
from spark.sessions import MODE


def children(of: int) -> dict[int, str]:
    """Processes by their numbers, with what they run."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (folder / "status").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"\nPPid:\t{of}\n" in status:
            found[int(folder.name)] = command.replace(b"\0", b" ").decode()
    return found


def servers(spark) -> list[int]:
    """The processes that answer the Java of this session."""
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    return [number for number, command in children(java).items() if "lancelet.spark.sql.server" in command]


@pytest.mark.skipif(MODE.startswith("connect"), reason="the Java process is not this one's to look at")
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
def test_a_process_that_was_killed_comes_again(spark, sql):
    sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    (before,) = servers(spark)
    os.kill(before, signal.SIGKILL)
    assert sql("SHOW TABLES IN {ns}") == [("ns", "t", False)]
    (after,) = servers(spark)
    assert after != before
    assert sql("SELECT * FROM {ns}.t") == [(1,)]


@pytest.mark.skipif(MODE.startswith("connect"), reason="the Java process is not this one's to look at")
@pytest.mark.skipif(MODE.endswith("plain"), reason="the bridge asks it")
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
def test_reads_by_path_are_planned_by_it(spark, tmp_path):
    table = pa.table({"id": range(5)})
    lancelet.write_dataset(table, str(tmp_path / "t.lance"))
    for before in servers(spark):
        os.kill(before, signal.SIGKILL)
    frame = spark.read.format("lance").load(str(tmp_path / "t.lance"))
    (after,) = servers(spark)
    assert frame.where("id > 2").toArrow() == table.slice(3)
    assert servers(spark) == [after]


@pytest.mark.skipif(MODE.startswith("connect"), reason="the Java process is not this one's to look at")
@pytest.mark.skipif(MODE.endswith("plain"), reason="the bridge asks it")
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
def test_writes_start_no_process_that_plans(spark, sql, tmp_path):
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    before = children(java)
    sql("CREATE TABLE {ns}.t AS SELECT 1 AS id, 2 AS n")
    path = str(tmp_path / "t.lance")
    spark.range(3).write.format("lance").mode("append").save(path)
    sql("INSERT INTO {ns}.t VALUES (3, 4)")
    sql("UPDATE {ns}.t SET n = 5 WHERE id = 1")
    assert sql("SELECT * FROM {ns}.t ORDER BY id") == [(1, 5), (3, 4)]
    assert spark.read.format("lance").load(path).count() == 3
    assert not [
        command for number, command in children(java).items() if number not in before and "data_source" in command
    ]


@pytest.mark.skipif(MODE.startswith("connect"), reason="the Java process is not this one's to look at")
def test_long_texts_are_read(spark):
    """Jobs carry what they need as one text; Java's reader refuses those above 20 million characters by itself."""
    reader = spark.sparkContext._jvm.io.lancelet.spark.python.Python.JSON
    assert reader.readTree('["' + "x" * 20_000_001 + '"]').get(0).isTextual()


def test_it_ends_with_its_input_and_keeps_what_is_printed_apart():
    process = subprocess.Popen(
        [sys.executable, "-m", "lancelet.spark.sql.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    question = b'{"number": 3, "ask": "list_tables", "details": {"catalog_name": "c", "catalog": {}, "namespace": []}}'
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(struct.pack(">I", len(question)) + question)
    process.stdin.flush()
    (length,) = struct.unpack(">I", process.stdout.read(4))
    said = process.stdout.read(length)
    assert b'"number": 3, "kind": "unsupported"' in said
    assert b"knows tables by their paths only" in said
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def ask(question: str, **details: object) -> dict:
    """An answer as it comes over the pipe."""
    told = json.loads(answer_text({"number": 1, "ask": question, "details": details}))
    return told.get("answer") or told


def test_a_plan_is_what_the_tasks_of_a_read_run(tmp_path):
    path = str(tmp_path / "t.lance")
    table = pa.table({"id": range(10), "text": [str(n) for n in range(10)]})
    lancelet.write_dataset(table, path, max_rows_per_file=4)
    columns = ask("describe_source", options={"path": path})["columns"]
    assert [field["name"] for field in columns["fields"]] == ["id", "text"]
    plan = ask("plan_source", columns=columns, options={"Path": path})
    function, _ = pickle.loads(b64decode(plan["command"]))
    given = [pa.record_batch({"": [b64decode(partition)]}) for partition in plan["partitions"]]
    rows = [batch for partition in given for batch in function([partition])]
    assert pa.Table.from_batches(rows).sort_by("id") == table


def test_a_write_is_committed_with_what_its_tasks_said(tmp_path):
    path = str(tmp_path / "t.lance")
    batch = pa.record_batch({"id": pa.array([1, 2], pa.int64())})
    columns, messages = (
        {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}}]}
        for name, kind in (("id", "long"), ("said", "binary"))
    )
    plan = ask("plan_sink", columns=columns, options={"Path": path}, overwrites=False, messages=messages)
    function, _ = pickle.loads(b64decode(plan["command"]))
    said = [b64encode(part["said"][0].as_py()).decode() for part in function(iter([batch]))]
    assert ask("commit_sink", writer=plan["writer"], results=said)["answer"] is None
    assert lancelet.dataset(path).to_table() == pa.Table.from_batches([batch])
    plan = ask("plan_sink", columns=columns, options={"Path": path}, overwrites=False, messages=messages)
    function, _ = pickle.loads(b64decode(plan["command"]))
    list(function(iter([batch])))
    assert len(data_files(path)) == 2
    assert ask("abort_sink", writer=plan["writer"], results=[None])["answer"] is None
    assert len(data_files(path)) == 1
    assert lancelet.dataset(path).version == 1


def test_a_plan_of_no_table_is_refused_by_the_name_of_the_error(tmp_path):
    said = ask("describe_source", options={"path": str(tmp_path / "none.lance")})
    assert (said["kind"], said["error"]) == ("table_not_found", "TableNotFound")


def test_a_mistake_of_ours_is_told_with_its_way():
    said = answer({"number": 1, "ask": "load_table", "details": {}})
    assert said["kind"] == "failed"
    assert "error" not in said
    assert "KeyError" in said["sentence"]


class Panic(BaseException):
    """As those of libraries that are not written in Python."""


@pytest.mark.parametrize(
    ("said", "words"),
    [({"x": float("nan")}, "ValueError"), ({"x": b"bytes"}, "TypeError"), (Panic("lost"), "lost")],
)
def test_what_cannot_be_said_is_told(monkeypatch, said, words):
    def give(_details):
        if isinstance(said, BaseException):
            raise said
        return said

    monkeypatch.setattr(server, "handler", lambda _: give)
    told = json.loads(answer_text({"number": 1, "ask": "load_table", "details": {}}))
    assert (told["number"], told["kind"]) == (1, "failed")
    assert words in told["sentence"]


def test_a_job_is_continued_by_the_process_that_began_it():
    told = jobs.start(lambda spark: [spark.running.ask({"query": ""})])
    other = jobs.start(lambda spark: [spark.running.ask({"query": ""})])
    assert other["job"] != told["job"]
    with pytest.raises(jobs.JobFailed):
        jobs.continue_procedure({"job": other["job"], "results": None})
    with pytest.raises(InvalidInput, match="nobody here waits"):
        jobs.continue_procedure({"job": 1, "results": []})
    assert jobs.continue_procedure({"job": told["job"], "results": ["x"]}) == {"records": [["x"]]}
