"""``python -m benchmarks.sql``: tables by name on Spark SQL, beside Parquet, ``LanceTable`` and Iceberg.

Each engine is a Spark session in a process of its own (``sql_engine.py``); they take turns, and their answers are compared before
any is timed. CPU time is that of Java and all Python workers together; it says more than time on a machine that does other
things too.

``tpch``        the 22 questions of TPC-H over our tables and over Parquet, which the same session wrote
``names``       a query by name beside the same query by path
``statements``  statements about tables beside Delta's and Iceberg's, many a sample
``reads``       questions about all rows of a table beside Iceberg
``changes``     MERGE, UPDATE and DELETE of one row in a hundred beside ``LanceTable`` and Iceberg

Iceberg and Delta need a Spark that they know: ``--iceberg-python`` and ``--delta-python`` name a Python with such a pyspark and psutil,
``--iceberg-jar`` and ``--delta-jars`` their jars from Maven Central. Without them their columns are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.tpch import QUESTIONS, TABLES, generate
from lancelet.spark.session import CATALOG, EXTENSIONS, bridge_jar

PARTS = ("tpch", "names", "statements", "reads", "changes")
COMMON = {
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
OURS, THEIRS, DELTA, FRAMES = "SQL", "Iceberg", "Delta", "LanceTable"


class Engine:
    """A session elsewhere."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"an engine ended at {question}")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise SystemExit(f"{question}: {told['error']}")
        return told

    def sql(self, text: str) -> dict[str, Any]:
        return self.ask({"sql": text})


@contextmanager
def engine(python: str, settings: Mapping[str, str], log: Path) -> Iterator[Engine]:
    """Started, and ended by closing its input."""
    command = [python, str(Path(__file__).with_name("sql_engine.py")), json.dumps({**COMMON, **settings})]
    with log.open("w") as noise:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": noise}
        environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        process = subprocess.Popen(command, text=True, env=environment, **pipes)
        try:
            yield Engine(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def _places(folder: Path) -> dict[str, str]:
    """Where Spark itself puts files."""
    return {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "spark")}


def lancelet_settings(folder: Path) -> dict[str, str]:
    return {
        "spark.jars": str(bridge_jar()),
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalog.lance": CATALOG,
        "spark.sql.catalog.lake": CATALOG,
        "spark.sql.catalog.lake.root": str(folder / "lake"),
        **_places(folder / "own"),
        "spark.pyspark.python": sys.executable,
    }


def iceberg_settings(folder: Path, jar: str) -> dict[str, str]:
    return {
        "spark.jars": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "iceberg"),
        **_places(folder / "iceberg-own"),
    }


def delta_settings(folder: Path, jars: str) -> dict[str, str]:
    return {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.sources.default": "delta",
        **_places(folder / "delta-own"),
    }


class Report:
    """Lines of medians, each against one other engine."""

    def __init__(self, title: str, others: Sequence[str]) -> None:
        self._others = others
        self._table = Table(title=title, title_justify="left", header_style="bold")
        self._table.add_column("what")
        for name in ("ms", "cpu ms", *(f"{kind} / {other}" for other in others for kind in ("wall", "cpu"))):
            self._table.add_column(name, justify="right", no_wrap=True)

    def add(self, name: str, taken: Mapping[str, Sequence[Mapping[str, float]]], ours: str = OURS) -> None:
        def median(engine: str, what: str) -> float:
            return statistics.median(each[what] for each in taken[engine])

        ratios = [
            f"{median(ours, what) / max(median(other, what), 0.001):.2f}" if other in taken else "-"
            for other in self._others
            for what in ("wall", "cpu")
        ]
        line = (name, f"{median(ours, 'wall') * 1000:,.1f}", f"{median(ours, 'cpu') * 1000:,.1f}", *ratios)
        self._table.add_row(*line)
        print(*line, sep="  ", file=sys.stderr, flush=True)

    def show(self) -> None:
        Console(width=120).print(self._table)


def in_turn(repeats: int, acts: Mapping[str, Callable[[int], dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """What each act took, in turns; each is first in every other one."""
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in acts}
    for turn in range(repeats):
        for name in sorted(acts, reverse=bool(turn % 2)):
            taken[name].append(acts[name](turn))
    return taken


def tpch(ours: Engine, source: Path, folder: Path, repeats: int, scale: float, numbers: Sequence[int]) -> None:
    """All questions, answers compared first."""
    ours.sql("CREATE NAMESPACE lake.tpch")
    ours.sql("CREATE DATABASE spark_catalog.tpch")
    for name in TABLES:
        rows = f"SELECT * FROM parquet.`{source / name}.parquet`"
        ours.sql(f"CREATE TABLE lake.tpch.{name} AS {rows}")
        ours.sql(f"CREATE TABLE spark_catalog.tpch.{name} USING parquet LOCATION '{folder / 'tpch' / name}' AS {rows}")
    report = Report(f"TPC-H, scale {scale:g}, median of {repeats}", ["Parquet"])
    total: dict[str, list[dict[str, float]]] = {}

    def asked(text: str, place: str) -> Callable[[int], dict[str, Any]]:
        def act(_: int) -> dict[str, Any]:
            ours.sql(f"USE {place}")
            return ours.sql(text)

        return act

    for number in numbers:
        text = QUESTIONS[number]
        acts = {OURS: asked(text, "lake.tpch"), "Parquet": asked(text, "spark_catalog.tpch")}
        first = {name: act(0)["rows"] for name, act in acts.items()}
        if first[OURS] != first["Parquet"] or not first[OURS]:
            raise SystemExit(f"question {number}: {first[OURS][:3]} is not {first['Parquet'][:3]}")
        taken = in_turn(repeats, acts)
        report.add(f"{number} ({len(first[OURS])} rows)", taken)
        for name, each in taken.items():
            medians = {what: statistics.median(one[what] for one in each) for what in ("wall", "cpu")}
            total.setdefault(name, []).append(medians)
    sums = {name: [{what: sum(one[what] for one in each) for what in ("wall", "cpu")}] for name, each in total.items()}
    report.add("all (at most 1.15)", sums)
    report.show()


def names(ours: Engine, folder: Path, repeats: int) -> None:
    """A small query, by name and by path."""
    ours.sql("CREATE NAMESPACE IF NOT EXISTS lake.names")
    ours.sql("CREATE TABLE lake.names.t AS SELECT id, id * 2 AS n, string(id) AS s FROM range(100000)")
    (place,) = (row[1] for row in ours.sql("DESCRIBE EXTENDED lake.names.t")["rows"] if row[0] == "Location")
    query = "SELECT n, s FROM {} WHERE id = 77"
    acts = {
        OURS: lambda _: ours.sql(query.format("lake.names.t")),
        "path": lambda _: ours.sql(query.format(f"lance.`{place}`")),
        "load(path)": lambda _: ours.ask(
            {"python": f"rows = spark.read.format('lance').load({place!r}).where('id = 77').select('n', 's').collect()"}
        ),
    }
    if len({str(act(0)["rows"]) for act in acts.values()}) != 1:
        raise SystemExit("names and paths gave different answers")
    in_turn(10, acts)
    report = Report(f"SELECT by name, median of {repeats} (at most 20 ms more)", ["path", "load(path)"])
    report.add("SELECT ... WHERE id = 77", in_turn(repeats, acts))
    report.show()


STATEMENTS = (
    "SHOW NAMESPACES IN lake",
    "SHOW TABLES IN lake.many",
    "DESCRIBE TABLE lake.many.t0",
    "DESCRIBE TABLE EXTENDED lake.many.t0",
    "SHOW TBLPROPERTIES lake.many.t0",
    "SHOW CREATE TABLE lake.many.t0",
    "SHOW COLUMNS IN lake.many.t0",
    "SELECT * FROM lake.many.t0.history",
    "CREATE TABLE lake.many.made{} (id BIGINT, s STRING)",
    "ALTER TABLE lake.many.made{} ADD COLUMN n INT",
    "ALTER TABLE lake.many.made{} SET TBLPROPERTIES ('a' = 'b')",
    "DROP TABLE lake.many.made{}",
)
_HISTORY = "SELECT * FROM lake.many.t0.history"
AT_ONCE = 10


def _in_words_of(name: str, text: str) -> str | None:
    """Delta's tables are in Spark's own catalog, their history is a statement, and it does not show how they were created."""
    if name != DELTA:
        return text
    if text.startswith("SHOW CREATE"):
        return None
    return "DESCRIBE HISTORY spark_catalog.many.t0" if text == _HISTORY else text.replace("lake", "spark_catalog", 1)


def _numbered(engine: Engine, text: str, turn: int) -> dict[str, Any]:
    """As many statements as one sample has, with other tables in each turn."""
    numbers = range(turn * AT_ONCE, (turn + 1) * AT_ONCE)
    return engine.ask({"each": [text.format(number) for number in numbers]})


def statements(engines: Mapping[str, Engine], repeats: int, tables: int = 50) -> None:
    """Statements that read and write metadata only."""
    for name, each in engines.items():
        place = "spark_catalog" if name == DELTA else "lake"
        each.sql(f"CREATE NAMESPACE {place}.many")
        for number in range(tables):
            each.sql(f"CREATE TABLE {place}.many.t{number} (id BIGINT, s STRING, x DOUBLE)")
        for number in range(20):
            each.sql(f"INSERT INTO {place}.many.t0 VALUES ({number}, 'a', 0.5)")
    others = [name for name in engines if name != OURS]
    report = Report(f"statements, {tables} tables, median of {repeats} times {AT_ONCE} (at most 1.0)", others)
    for text in STATEMENTS:
        words = {name: _in_words_of(name, text) for name in engines}
        acts = {name: partial(_numbered, engines[name], said) for name, said in words.items() if said is not None}
        if "{}" not in text:
            in_turn(10, acts)
        report.add(text.format(""), in_turn(repeats, acts))
    report.show()


ROWS = (
    "SELECT id, id % 1000 AS n, string(xxhash64(id)) AS s, double(id) / 7 AS x, timestamp_seconds(id) AS at "
    "FROM range(0, {}, 1, 4)"
)
READS = {
    "sum of a column": "SELECT sum(n) FROM lake.reads.t",
    "sum of doubles": "SELECT round(sum(x), 3) FROM lake.reads.t",
    "group by": "SELECT count(*), sum(c), sum(i) FROM (SELECT n, count(*) AS c, sum(id) AS i FROM lake.reads.t GROUP BY n)",
    "filter 1 %": "SELECT sum(id), max(s) FROM lake.reads.t WHERE n < 10",
    "all columns": "SELECT max(id), max(n), max(s), max(x), max(at) FROM lake.reads.t",
}


def reads(engines: Mapping[str, Engine], repeats: int, count: int) -> None:
    """Questions whose answers are a row; the first of them make the code warm."""
    for each in engines.values():
        each.sql("CREATE NAMESPACE lake.reads")
        each.sql(f"CREATE TABLE lake.reads.t AS {ROWS.format(count)}")
    report = Report(f"reads of {count:,} rows, median of {repeats} (at most 0.9)", [THEIRS])
    for name, text in READS.items():
        acts = {engine: partial(_asked, each, text) for engine, each in engines.items()}
        answers = {engine: act(0)["rows"] for engine, act in acts.items()}
        if len({str(rows) for rows in answers.values()}) != 1:
            raise SystemExit(f"{name}: the answers differ: {answers}")
        in_turn(repeats, acts)
        report.add(name, in_turn(repeats, acts))
    report.show()


def _asked(engine: Engine, text: str, _: int) -> dict[str, Any]:
    return engine.sql(text)


CHANGES = {
    "UPDATE 1 %": "UPDATE lake.rows.{0} SET x = x + 1, s = 'new' WHERE id % 100 = {1}",
    "MERGE 1 %": (
        "MERGE INTO lake.rows.{0} t USING (SELECT id * 100 + {1} AS id, 'merged' AS s FROM range({2})) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET s = s.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, s.s)"
    ),
    "DELETE 1 %": "DELETE FROM lake.rows.{0} WHERE id % 100 = {1}",
}
SAME_CHANGES = {
    "UPDATE 1 %": "t.update(set={{'x': 'x + 1', 's': \"'new'\"}}, condition='id % 100 = {1}')",
    "MERGE 1 %": (
        "(t.alias('t').merge(spark.sql(\"SELECT id * 100 + {1} AS id, 'merged' AS s FROM range({2})\").alias('s'), 't.id = s.id')"
        ".whenMatchedUpdate(set={{'s': 's.s'}}).whenNotMatchedInsert(values={{'id': 's.id', 's': 's.s'}}).execute())"
    ),
    "DELETE 1 %": "t.delete('id % 100 = {1}')",
}
MERGE_ON_READ = ", ".join(
    ["'format-version' = '2'", *(f"'write.{what}.mode' = 'merge-on-read'" for what in ("update", "merge", "delete"))]
)


def _changed(
    engine: Engine, question: Mapping[str, str], table: str, remainders: Sequence[int], count: int, turn: int
) -> dict[str, Any]:
    """Change the rows whose ids leave another remainder each turn."""
    return engine.ask({kind: text.format(table, remainders[turn], count // 100) for kind, text in question.items()})


def changes(engines: Mapping[str, Engine], repeats: int, count: int) -> None:
    """Rows changed, and the tables compared after each change."""
    for name, each in engines.items():
        each.sql("CREATE NAMESPACE lake.rows")
        given = f" TBLPROPERTIES ({MERGE_ON_READ})" if name == THEIRS else ""
        for table in ("sql", "frames"):
            each.sql(f"CREATE TABLE lake.rows.{table}{given} AS {ROWS.format(count)}")
    ours = engines[OURS]
    (place,) = (row[1] for row in ours.sql("DESCRIBE EXTENDED lake.rows.frames")["rows"] if row[0] == "Location")
    opened = f"from lancelet.spark import LanceTable\nt = LanceTable.forPath(spark, {place!r})\n"
    report = Report(f"changes of {count:,} rows, median of {repeats} (at most 1.1, 0.7)", [FRAMES, THEIRS])
    for number, what in enumerate(CHANGES):
        remainders = range(number * 30, number * 30 + repeats + 1)
        acts: dict[str, Callable[[int], dict[str, Any]]] = {
            name: partial(_changed, each, {"sql": CHANGES[what]}, "sql", remainders, count)
            for name, each in engines.items()
        }
        same = {"python": opened + SAME_CHANGES[what]}
        acts[FRAMES] = partial(_changed, ours, same, "frames", remainders, count)
        taken = in_turn(repeats + 1, acts)
        told = "SELECT count(*), sum(id), sum(CAST(xxhash64(id, n, s, x) AS DECIMAL(38, 0))) FROM (SELECT * FROM lake.rows.{}) t"
        found = {name: each.sql(told.format("sql"))["rows"] for name, each in engines.items()}
        found[FRAMES] = ours.sql(told.format("frames"))["rows"]
        if len({str(rows) for rows in found.values()}) != 1:
            raise SystemExit(f"{what}: the tables differ: {found}")
        report.add(what, {name: each[1:] for name, each in taken.items()})
    report.show()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.sql", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS), default=[])
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H")
    parser.add_argument("--questions", type=int, nargs="*", default=list(QUESTIONS), metavar="NUMBER", help="of TPC-H")
    parser.add_argument("--data", type=Path, default=Path("build"), help="where the rows of TPC-H are kept")
    parser.add_argument("--generator", default="tpchgen-cli")
    parser.add_argument("--rows", type=int, default=500_000, help="that are changed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--iceberg-python")
    parser.add_argument("--iceberg-jar")
    parser.add_argument("--delta-python")
    parser.add_argument("--delta-jars", help="of delta-spark and delta-storage, with a comma between them")
    given = parser.parse_args()
    chosen = given.parts or PARTS
    if not set(chosen) <= set(PARTS):
        parser.error(f"there are the parts {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        ours = stack.enter_context(engine(sys.executable, lancelet_settings(folder), folder / "lancelet.log"))
        engines = {OURS: ours}
        if given.iceberg_python and given.iceberg_jar and {"statements", "reads", "changes"} & set(chosen):
            settings = iceberg_settings(folder, given.iceberg_jar)
            engines[THEIRS] = stack.enter_context(engine(given.iceberg_python, settings, folder / "iceberg.log"))
        beside = dict(engines)
        if given.delta_python and given.delta_jars and "statements" in chosen:
            settings = delta_settings(folder, given.delta_jars)
            beside[DELTA] = stack.enter_context(engine(given.delta_python, settings, folder / "delta.log"))
        if "tpch" in chosen:
            source = generate(given.scale, given.data, given.generator).absolute()
            tpch(ours, source, folder, given.repeats, given.scale, given.questions)
        if "names" in chosen:
            names(ours, folder, max(given.repeats, 31))
        if "statements" in chosen:
            statements(beside, max(given.repeats, 15))
        if "reads" in chosen:
            reads(engines, max(given.repeats, 15), given.rows)
        if "changes" in chosen:
            changes(engines, given.repeats, given.rows)


if __name__ == "__main__":
    main()
