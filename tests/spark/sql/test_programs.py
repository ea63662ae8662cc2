"""Spark's own programs with nothing but the settings that docs/sql.md shows: spark-sql, spark-submit, Thrift and Connect servers."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import lance
import pyspark
import pytest

import lancelet
from lancelet.spark.session import bridge_jar
from spark.kept import kept
from spark.sessions import SETTINGS, sign_of_life

HOME = Path(pyspark.__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "sql.md"
SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CONNECT_CLIENT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.sql("MERGE INTO lake.db.t t USING (SELECT 12 AS id, 20 AS next) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.next")
print("rows", sorted(row["id"] for row in spark.table("lake.db.t").collect()))
spark.stop()
"""
CLIENT = """
import java.sql.*;

public class Client {
  public static void main(String[] given) throws Exception {
    Class.forName("org.apache.hive.jdbc.HiveDriver");
    try (Connection server = DriverManager.getConnection(given[0], "someone", ""); Statement statement = server.createStatement()) {
      for (int number = 1; number < given.length; number++) {
        if (statement.execute(given[number])) {
          ResultSet rows = statement.getResultSet();
          while (rows.next()) {
            System.out.println("row " + rows.getString(1));
          }
        }
      }
    }
  }
}
"""


def settings(root: Path) -> list[str]:
    """Those of the page, with the places of this machine."""
    (block,) = re.findall(r"```text\n(spark\.jars .*?)```", PAGE.read_text(), re.DOTALL)
    shown = dict(line.split(maxsplit=1) for line in block.strip().splitlines())
    own = {"spark.jars": str(bridge_jar()), "spark.sql.catalog.lake.root": str(root / "lake")}
    assert own.keys() < shown.keys()
    quiet = {**SETTINGS, "spark.log.level": "ERROR", "spark.sql.warehouse.dir": str(root / "warehouse")}
    return [part for key, value in {**quiet, **shown, **own}.items() for part in ("--conf", f"{key}={value}")]


def environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(HOME)}


def run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.mark.soak
def test_programs_of_spark(tmp_path):
    common = [*settings(tmp_path), "--master", "local[1]"]
    statements = "CREATE NAMESPACE lake.db; CREATE TABLE lake.db.t AS SELECT 1 AS id; OPTIMIZE lake.db.t; SELECT id + 40 FROM lake.db.t"
    assert "41" in run([str(HOME / "bin" / "spark-sql"), *common, "-e", statements], tmp_path).split()
    place = lancelet.connect(tmp_path / "lake").open("db.t").uri
    assert lance.dataset(place).to_table().to_pydict() == {"id": [1]}

    program = tmp_path / "program.py"
    program.write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "spark.sql('INSERT INTO lake.db.t VALUES (2)')\n"
        "print('rows', spark.table('lake.db.t').count())\n"
    )
    assert "rows 2" in run([str(HOME / "bin" / "spark-submit"), *common, str(program)], tmp_path)

    port = free_port()
    client = tmp_path / "Client.java"
    client.write_text(CLIENT)
    with ExitStack() as stack:
        there = (
            "--hiveconf",
            f"hive.server2.thrift.port={port}",
            "--hiveconf",
            "hive.server2.thrift.bind.host=127.0.0.1",
        )
        submit = [str(HOME / "bin" / "spark-submit"), *common, "--conf", "spark.log.level=INFO", "--class", SERVER]
        metastore = ("--driver-java-options", f"-Dderby.system.home={tmp_path}")
        server = stack.enter_context(kept([*submit, *metastore, "spark-internal", *there], environment()))
        sign_of_life(server, r"(Starting ThriftBinaryCLIService on port)")
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else Path("java")
        asked = (
            "UPDATE lake.db.t SET id = id + 10 WHERE id = 2",
            "SELECT max(id) FROM lake.db.t",
            "SHOW TAGS IN lake.db.t",
        )
        jdbc = [
            str(java),
            "-cp",
            str(HOME / "jars" / "*"),
            str(client),
            f"jdbc:hive2://127.0.0.1:{port}/default",
            *asked,
        ]
        assert "row 12" in run(jdbc, tmp_path)
    assert sorted(lance.dataset(place).to_table()["id"].to_pylist()) == [1, 12]

    port = free_port()
    with ExitStack() as stack:
        there = ("--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.log.level=INFO")
        submit = [str(HOME / "bin" / "spark-submit"), *common, *there, "--class", CONNECT_SERVER, "spark-internal"]
        server = stack.enter_context(kept(submit, environment()))
        sign_of_life(server, r"(Spark Connect server started at)")
        told = run([sys.executable, "-c", CONNECT_CLIENT, f"sc://127.0.0.1:{port}"], tmp_path)
    assert "rows [1, 20]" in told
    assert sorted(lance.dataset(place).to_table()["id"].to_pylist()) == [1, 20]
