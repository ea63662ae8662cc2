"""Rows brought in and out by Spark, where they are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput, UnfitData


def import_with_spark(files: list[str], table: str, kind: str, mode: str) -> None:
    """Have Spark read files, and write their rows into a table."""
    if kind == "arrow":
        raise InvalidInput("Spark does not read Arrow files; import them without --spark")
    from lancelet.spark import local_session

    spark = local_session()
    reader = spark.read.option("header", "true").option("inferSchema", "true") if kind == "csv" else spark.read
    # Spark knows two modes of sources in Python; the option says the others.
    how = {"create": "errorifexists"}.get(mode, mode)
    with _sentences("import"):
        frame = reader.format(kind).load(files)
        frame.write.format("lance").mode("append").option("saveMode", how).save(table)


def export_with_spark(
    dataset: LanceDataset,
    target: str,
    kind: str,
    where: str | None,
    columns: str | None,
    force: bool,
    options: Mapping[str, str] | None,
) -> int:
    """Have Spark write a version's rows into a folder of files. Returns how many there are."""
    if kind == "arrow":
        raise InvalidInput("Spark does not write Arrow files; export them without --spark")
    from lancelet.spark import local_session

    # Its columns and its condition are looked at before a session is started.
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    count: int = dataset.scanner(names, filter=where).count_rows()
    manifest = dataset.table.snapshot.manifest
    told = {"version": manifest.version, "branch": manifest.branch, "filter": where, "columns": columns}
    reader = local_session().read.format("lance")
    for key, value in {**told, **{f"storage.{key}": value for key, value in (options or {}).items()}}.items():
        reader = reader if value is None else reader.option(key, value)
    with _sentences("export"):
        writer = reader.load(dataset.uri).write.mode("overwrite" if force else "errorifexists")
        (writer.option("header", "true") if kind == "csv" else writer).format(kind).save(target)
    return count


@contextmanager
def _sentences(what: str) -> Iterator[None]:
    """What a job failed of, in one sentence; Spark tells it at the end of pages of where it was."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise UnfitData(f"Spark could not {what} them: {cause.getMessage() or cause.toString()}") from None
