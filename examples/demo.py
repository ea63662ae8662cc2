"""A data pipeline on Spark, from pictures that come in to a table that others open.

    make demo

A table of captioned pictures with embeddings is ingested, corrected by late updates,
thinned out, given a new column, fed by a stream, compacted and searched by indices on its embeddings and
captions, all as jobs of a Spark that runs inside this program. SQL makes another table of it. Then plain Python and
pylance open the same table.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pictures import COLUMNS, DIMENSIONS, loudness, pictures
from rich.panel import Panel
from rich.table import Table
from screen import console, megabytes, say, section, show, working

import lancelet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.spark import LanceTable

TASKS = 12
LATE = 3_000
ARRIVALS, ARRIVAL = 3, 1_000
WORDS = {
    "Overwrite": "ingest",
    "Update": "late updates",
    "Delete": "delete",
    "Merge": "new column",
    "Append": "stream",
    "ReserveFragments": "compaction begins",
    "Rewrite": "compaction",
    "CreateIndex": "index",
}
"""Lance's operations, as the steps above call them."""
LIKE_ID = 4_711
"""The picture whose neighbours are looked for."""
CAPTION, HALLS, CANDIDATES = "sleeping cats snow", "market halls", 200
"""What is looked for in captions; and together with an embedding, of which each side finds so many rows."""
PARTITIONS, PROBES, REFINED = 48, 4, 2
ASKED = 50
"""Pictures whose neighbours tell how good the index is."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--rows", type=int, default=40_000, help="pictures at the start (40000)")
    rows = max(arguments.parse_args().rows, LIKE_ID + LATE)
    started = time.perf_counter()
    console.print(
        Panel(
            f"{rows:,} captioned pictures with embeddings go through a pipeline on [bold]Spark[/bold];\n"
            "then plain Python and [bold]pylance[/bold] open the same table.",
            title="lancelet",
            expand=False,
        )
    )
    with tempfile.TemporaryDirectory(prefix="lancelet-demo-") as folder, spark_session(Path(folder)) as spark:
        table = str(Path(folder) / "pictures.lance")
        ingest(spark, table, rows)
        look(spark, table)
        merge(spark, table, rows)
        delete(spark, table)
        backfill(spark, table)
        stream(spark, table, rows, Path(folder))
        compact(spark, table)
        travel(spark, table)
        search(spark, table)
        search_captions(spark, table)
        speak_sql(spark, table)
        open_in_python(table)
        open_in_pylance(table)
        summary(table, time.perf_counter() - started)


@contextmanager
def spark_session(folder: Path) -> Iterator[SparkSession]:
    """Spark inside this program; what it has to say goes to a file, which is shown when it does not start."""
    section("Spark, inside this program", "spark = lancelet.spark.local_session()")
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    from lancelet.spark import local_session
    from lancelet.spark.session import CATALOG

    log = folder / "spark.log"
    started = time.perf_counter()
    try:
        with stderr_in(log):
            names = {"spark.sql.catalog.gallery": CATALOG, "spark.sql.catalog.gallery.root": str(folder / "gallery")}
            settings = {"spark.local.dir": str(folder), "spark.log.level": "ERROR", **names}
            spark = local_session(2, settings=settings)
    except Exception:
        console.print(log.read_text(), markup=False)
        raise
    spark.addArtifacts(str(Path(__file__).with_name("pictures.py")), pyfile=True)
    say(f"Spark {spark.version} is there after {time.perf_counter() - started:.1f} s")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def stderr_in(log: Path) -> Iterator[None]:
    """What processes that start meanwhile write to stderr, now and later, goes to a file."""
    kept = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)


def made(spark: SparkSession, start: int, end: int, tasks: int) -> DataFrame:
    """Pictures with these ids."""
    return spark.range(start, end, 1, tasks).mapInArrow(pictures, COLUMNS)


def ingest(spark: SparkSession, table: str, rows: int) -> None:
    section(
        "Ingest",
        'pictures.write.format("lance").mode("append")',
        f'    .option("vector.embedding", {DIMENSIONS}).option("enableStableRowIds", "true").save("pictures.lance")',
    )
    with working(spark, "tasks make and write"):
        writer = made(spark, 0, rows, TASKS).write.format("lance").mode("append")
        writer.option("vector.embedding", DIMENSIONS).option("enableStableRowIds", "true").save(table)
    ds = lancelet.dataset(table)
    ds.tags.create("ingested", ds.version)
    for field in ds.schema:
        say(f"{field.name:<10} [green]{field.type}[/green]")
    fragments = ds.get_fragments()
    say(f"{ds.count_rows():,} rows in {len(fragments)} fragments, {megabytes(written_bytes(table, 0, 1))}, one version")


def look(spark: SparkSession, table: str) -> None:
    wanted = "likes > 3000 AND caption LIKE 'A lighthouse%'"
    section(
        "A query",
        f'spark.read.format("lance").load("pictures.lance").filter("{wanted}")',
        '    .select("id", "caption", "likes").orderBy("id").limit(4)',
    )
    frame = spark.read.format("lance").load(table).filter(wanted).select("id", "caption", "likes")
    with working(spark, "three of seven columns"):
        found = frame.orderBy("id").limit(4).toArrow()
    show(found)


def merge(spark: SparkSession, table: str, rows: int) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

    from lancelet.spark import LanceTable

    section(
        "Late updates",
        'table.merge(late.alias("late"), "target.id = late.id")',
        '    .whenMatchedUpdate(set={"caption": "late.caption", "likes": "late.likes"})',
        "    .whenNotMatchedInsertAll().execute()",
    )
    late = made(spark, rows - LATE // 2, rows + LATE // 2, 2).withColumn(
        "caption", F.concat("caption", F.lit(", again"))
    )
    with working(spark, "join, then write"):
        counts = (
            LanceTable.forPath(spark, table)
            .merge(late.alias("late"), "target.id = late.id")
            .whenMatchedUpdate(set={"caption": "late.caption", "likes": "late.likes"})
            .whenNotMatchedInsertAll()
            .execute()
        )
    say(f"{counts['num_updated_rows']:,} rows updated, {counts['num_inserted_rows']:,} inserted, in one commit")


def delete(spark: SparkSession, table: str) -> None:
    from lancelet.spark import LanceTable

    section("Rows that must go", "table.delete(\"license = 'withdrawn'\")")
    with working(spark, "find and mark"):
        counts = LanceTable.forPath(spark, table).delete("license = 'withdrawn'")
    version = lancelet.dataset(table).version
    say(
        f"{counts['num_deleted_rows']:,} rows are gone; no data file was written, {version - 1} versions still have "
        "them"
    )


def backfill(spark: SparkSession, table: str) -> None:
    from lancelet.spark import LanceTable

    section("A new column, from a model", 'table.addColumns(loudness, readColumns=["embedding"])')
    with working(spark, "one task a fragment"):
        LanceTable.forPath(spark, table).addColumns(loudness, readColumns=["embedding"])
    version = lancelet.dataset(table).version
    say(f"{megabytes(written_bytes(table, version - 1, version))} written: the new column and nothing else")


def stream(spark: SparkSession, table: str, rows: int, folder: Path) -> None:
    inbox, checkpoint = str(folder / "inbox"), str(folder / "checkpoint")
    section(
        "A stream",
        'spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet("inbox")',
        '    .writeStream.format("lance").option("checkpointLocation", "checkpoint").start("pictures.lance")',
    )
    first = rows + LATE
    arrived = made(spark, first, first + ARRIVALS * ARRIVAL, ARRIVALS)
    arrived.write.mode("append").parquet(inbox)

    def run() -> None:
        source = spark.readStream.schema(arrived.schema).option("maxFilesPerTrigger", 1).parquet(inbox)
        sink = source.writeStream.format("lance").option("checkpointLocation", checkpoint)
        sink.trigger(availableNow=True).start(table).awaitTermination()

    before = lancelet.dataset(table)
    with working(spark, "each file a batch"):
        run()
    after = lancelet.dataset(table)
    say(
        f"{after.count_rows() - before.count_rows():,} rows in {after.version - before.version} versions, each batch once"
    )
    forget_last_batch(Path(checkpoint))
    with working(spark, "a crash, and once again"):
        run()
    say(f"{lancelet.dataset(table).count_rows() - after.count_rows():,} rows more: the table knows the batch")


def forget_last_batch(checkpoint: Path) -> None:
    """As if the driver had died after the commit, before Spark noted that the batch was done."""
    commits = checkpoint / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def compact(spark: SparkSession, table: str) -> None:
    from lancelet.spark import LanceTable

    section("Small fragments put together", "table.optimize().executeCompaction(target_rows_per_fragment=20_000)")
    before = len(lancelet.dataset(table).get_fragments())
    with working(spark, "one task a group"):
        LanceTable.forPath(spark, table).optimize().executeCompaction(target_rows_per_fragment=20_000)
    say(f"{before} fragments became {len(lancelet.dataset(table).get_fragments())}; deleted rows are out of the files")


def travel(spark: SparkSession, table: str) -> None:
    section("Time travel", 'spark.read.format("lance").option("tag", "ingested").load("pictures.lance").count()')
    reader = spark.read.format("lance")
    with working(spark, "counted from metadata"):
        then, now = reader.option("tag", "ingested").load(table).count(), spark.read.format("lance").load(table).count()
    say(f"{then:,} rows when they were ingested, {now:,} now")


def search(spark: SparkSession, table: str) -> None:
    from lancelet.spark import LanceTable

    section(
        "The pictures most like one, by an index",
        f'table.createIndex("embedding", "IVF_SQ", metric="cosine", num_partitions={PARTITIONS})',
        f'table.search(embedding, k=4, columns=["id", "caption", "likes"], nprobes={PROBES}, refine_factor={REFINED})',
    )
    held = LanceTable.forPath(spark, table)
    with working(spark, "learn, then encode"):
        held.createIndex("embedding", "IVF_SQ", metric="cosine", num_partitions=PARTITIONS)
    embedding = lancelet.dataset(table).to_table(["embedding"], filter=f"id = {LIKE_ID}")["embedding"][0]
    with working(spark, "segments side by side"):
        found = held.search(
            embedding, k=4, columns=["id", "caption", "likes"], nprobes=PROBES, refine_factor=REFINED
        ).toArrow()
    show(found)
    say(f"recall {recall(held):.1%}: of the ten nearest of {ASKED} pictures, as comparing all of them finds them")


def search_captions(spark: SparkSession, table: str) -> None:
    from lancelet.spark import LanceTable

    section(
        "Words of captions, alone and together with an embedding",
        'table.createIndex("caption", "INVERTED")',
        f'table.search(text="{CAPTION}", k=3, filter="likes > 3000", columns=["id", "caption", "likes"])',
        f'table.search(text="{HALLS}", vector=embedding, k=3, candidates={CANDIDATES}, columns=["id", "caption"])',
    )
    held = LanceTable.forPath(spark, table)
    with working(spark, "tasks cut texts into words"):
        held.createIndex("caption", "INVERTED")
    with working(spark, "statistics, then the best rows"):
        found = held.search(text=CAPTION, k=3, filter="likes > 3000", columns=["id", "caption", "likes"]).toArrow()
    show(found)
    ds = lancelet.dataset(table)
    embedding = ds.to_table(["embedding"], filter=f"id = {LIKE_ID}")["embedding"][0]
    with working(spark, "both, then one order"):
        both = held.search(
            text=HALLS, vector=embedding, k=3, candidates=CANDIDATES, columns=["id", "caption"]
        ).toArrow()
    show(both)
    alone = ds.search(HALLS, embedding, k=3, candidates=CANDIDATES, columns=["id", "caption"])
    same = both.to_pydict() == alone.to_pydict()
    say(f"one process finds {'the same rows with the same scores' if same else 'SOMETHING ELSE'}")


def speak_sql(spark: SparkSession, table: str) -> None:
    """A table by its name, made, merged into and searched, without a word of Python."""
    vector = lancelet.dataset(table).to_table(["embedding"], filter=f"id = {LIKE_ID}")["embedding"][0].as_py()
    array = f"array({', '.join(map(str, vector))})"
    statements = (
        "CREATE NAMESPACE gallery.spring",
        "CREATE TABLE gallery.spring.liked AS SELECT id, caption, likes FROM lance.`pictures.lance` WHERE likes > 3000",
        """MERGE INTO gallery.spring.liked AS t
    USING (SELECT id, caption, likes FROM lance.`pictures.lance` VERSION AS OF 'ingested') AS s ON t.id = s.id
    WHEN MATCHED AND s.likes < 3100 THEN DELETE WHEN MATCHED THEN UPDATE SET caption = upper(s.caption)""",
        "SELECT version, operation, numRows FROM gallery.spring.liked.history",
        "SELECT count(*) AS liked_at_first FROM gallery.spring.liked VERSION AS OF 1",
        "SELECT id, caption, _distance FROM VECTOR_SEARCH('pictures.lance', embedding, 3) ORDER BY _distance",
    )
    section("The same in SQL", *(line for statement in statements for line in f"{statement};".split("\n")))
    for statement in statements:
        with working(spark, statement.partition(" ")[0]):
            rows = spark.sql(statement.replace("pictures.lance", table).replace(" embedding,", f" {array},")).toArrow()
        if rows.num_columns:
            show(rows)


def recall(table: LanceTable) -> float:
    """What share of the exact answers the index finds."""
    queries = table.toDF().where(f"id % 97 = 0 AND id < {97 * ASKED}").orderBy("id").select("embedding")
    answers = [
        table.search(
            queries, columns=["id"], metric="cosine", nprobes=PROBES, refine_factor=REFINED, use_index=use_index
        )
        for use_index in (True, False)
    ]
    by_index, exact = ({(row.query_index, row.id) for row in answer.collect()} for answer in answers)
    return len(by_index & exact) / len(exact)


def open_in_python(table: str) -> None:
    section(
        "The same table in plain Python",
        'ds = lancelet.dataset("pictures.lance")',
        'ds.to_table(["id", "caption", "likes", "loudness"], nearest={"column": "embedding", "q": embedding, "k": 4})',
    )
    ds = lancelet.dataset(table)
    own = ds.to_table(["embedding", "image"], filter=f"id = {LIKE_ID}")
    started = time.perf_counter()
    found = ds.to_table(
        ["id", "caption", "likes", "loudness", "_distance"],
        nearest={"column": "embedding", "q": own["embedding"][0], "k": 4, "nprobes": PROBES, "refine_factor": REFINED},
    )
    taken = time.perf_counter() - started
    show(found)
    say(f"the pictures most like number {LIKE_ID:,}, of {ds.count_rows():,}, in {1000 * taken:.1f} ms")
    image = own["image"][0].as_py()
    say(f"its picture: {len(image):,} bytes, from {image[:4].hex(' ')} to {image[-2:].hex(' ')}")


def open_in_pylance(table: str) -> None:
    if find_spec("lance") is None:
        say("pylance is not installed; `pip install pylance` lets it open the same table")
        return
    os.environ.setdefault("LANCE_LOG", "error")
    import lance

    section("And in pylance", 'lance.dataset("pictures.lance").to_table(filter="id = 4711")')
    theirs, ours = lance.dataset(table), lancelet.dataset(table)
    columns = ["id", "caption", "likes", "loudness"]
    show(theirs.to_table(columns, filter=f"id = {LIKE_ID}"))
    same = theirs.to_table(columns).equals(ours.to_table(columns))
    say(f"version {theirs.version}, {theirs.count_rows():,} rows; {'the same rows' if same else 'NOT the same rows'}")


def files_of(table: str, version: int) -> dict[str, int]:
    """The data files of a version and their sizes."""
    if version == 0:
        return {}
    fragments = lancelet.dataset(table, version=version).get_fragments()
    paths = {file.path for fragment in fragments for file in fragment.metadata.files}
    return {path: (Path(table) / "data" / path).stat().st_size for path in paths}


def written_bytes(table: str, before: int, after: int) -> int:
    """Bytes of the data files that a version has and an earlier one has not."""
    old = files_of(table, before)
    return sum(size for path, size in files_of(table, after).items() if path not in old)


def summary(table: str, seconds: float) -> None:
    """Every version, and what is there now."""
    from lancelet.spark.table.history import history

    console.print()
    grid = Table(title="What happened", header_style="bold", title_style="bold")
    for name in ("version", "change", "rows", "", "fragments", "written"):
        grid.add_column(name, justify="left" if name in ("change", "") else "right")
    newest = lancelet.dataset(table)
    versions: list[tuple[Any, ...]] = history(newest.table.snapshot, None)[::-1]
    most = max(rows for _, _, _, _, _, rows, _ in versions)
    for version, _, operation, _, properties, rows, fragments in versions:
        batch = properties.get("lancelet.stream.batch")
        what = WORDS.get(operation, operation) + (f" [dim]batch {batch}[/dim]" if batch else "")
        bar = "[green]" + "█" * round(10 * rows / most) + "[/green]"
        size = megabytes(written_bytes(table, version - 1, version))
        grid.add_row(str(version), what, f"{rows:,}", bar, str(fragments), size)
    console.print(grid)
    live, held = sum(files_of(table, newest.version).values()), folder_bytes(Path(table))
    console.print(
        Panel(
            f"[bold]{newest.count_rows():,}[/bold] rows in [bold]{len(newest.get_fragments())}[/bold] fragments, "
            f"[bold]{megabytes(live)}[/bold]\n"
            f"{len(versions)} versions, {megabytes(held)} with all that older ones still need\n"
            f"every file checked: {'in order' if newest.verify().ok else 'DAMAGED'}\n"
            f"made in [bold]{seconds:.0f} s[/bold]",
            title="The table now",
            expand=False,
        )
    )


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
