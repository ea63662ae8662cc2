"""Commands that bring rows into tables and out of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from lancelet._api.write import write_dataset
from lancelet._naming.plain_values import json_rows, json_text
from lancelet.cli.places import AsOf, At, Json, Options, Place, in_namespace, open_table, storage_options
from lancelet.cli.printing import Printer
from lancelet.cli.progress import counted
from lancelet.cli.texts import bytes_as_texts, carriers, typed, typed_schema
from lancelet.cli.with_spark import export_with_spark, import_with_spark
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput, MissingFile, TableNotFound, UnfitData

app = typer.Typer()
FORMATS: Final = ("parquet", "csv", "json", "arrow")
_BY_ENDING: Final = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
Format = Annotated[
    str | None, typer.Option("--format", "-f", help="parquet, csv, json or arrow; by default by the ending.")
]


@app.command("import")
def import_rows(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE... TABLE", help="Files, and the table last.")],
    mode: Annotated[str, typer.Option("--mode", "-m", help="create, append or overwrite.")] = "create",
    format: Format = None,  # noqa: A002
    file_version: Annotated[str | None, typer.Option("--file-version", help="Of a new table.")] = None,
    stable_row_ids: Annotated[bool, typer.Option("--stable-row-ids", help="Of a new table.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Read and write with Spark: for much data.")] = False,
    options: Options = None,
    json: Json = False,
) -> None:
    """Write files into a table: Parquet, CSV, JSON (an object a line) or Arrow.

    CSV and JSON do not tell the types of their columns: rows that are appended are read with those of the table.
    """
    if len(sources) < 2:
        raise InvalidInput("name at least one file, and then the table: lancelet import rows.parquet kelp.lance")
    *files, table = sources
    if mode not in ("create", "append", "overwrite"):
        raise InvalidInput(f"--mode is create, append or overwrite, not {mode!r}")
    kinds = {_format(file, format) for file in files}
    if len(kinds) > 1:
        raise InvalidInput(f"files of one import are of one format, not {', '.join(sorted(kinds))}; --format names it")
    for file in files:
        if "://" not in file and not Path(file).exists():
            raise MissingFile(file, "there is no such file")
    printer, kind = Printer(as_json=json), kinds.pop()
    new: dict[str, Any] = {} if file_version is None else {"data_storage_version": file_version}
    if stable_row_ids:
        new["enable_stable_row_ids"] = True
    if spark:
        if new or options or in_namespace(table) is not None:
            told = "--file-version, --stable-row-ids, --storage-option and names of a namespace"
            raise InvalidInput(f"{told} do not go with --spark; write with Spark itself, or without --spark")
        import_with_spark(files, table, kind, mode)
        dataset = open_table(table, options=options)
    else:
        with counted("rows", None) as step:
            schema, batches = _batches(files, kind, _types(table, options) if mode == "append" else None)
            rows = pa.RecordBatchReader.from_batches(schema, _watched(batches, step))
            dataset = _written(rows, table, mode, options, new)
    printer.facts("", {"table": dataset.uri, "version": dataset.version, "rows": dataset.count_rows()})


@app.command("export")
def export_rows(
    table: Place,
    target: Annotated[str, typer.Argument(metavar="FILE", help="A new file.")],
    where: Annotated[
        str | None, typer.Option("--where", "-w", metavar="SQL", help="Only rows for which this holds.")
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", "-c", metavar="A,B", help="Only these.")] = None,
    format: Format = None,  # noqa: A002
    force: Annotated[bool, typer.Option("--force", help="In place of a file that is there.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="With Spark, into a folder of files: for much data.")] = False,
    at: At = None,
    as_of: AsOf = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """Write a table's rows into a file: Parquet, CSV, JSON (an object a line) or Arrow."""
    path, kind = Path(target), _format(target, format)
    if spark:
        dataset = open_table(table, at, as_of, options)
        rows = export_with_spark(dataset, target, kind, where, columns, force, storage_options(options))
        Printer(as_json=json).facts("", {"folder": target, "rows": rows})
        return
    if "://" in target:
        raise InvalidInput(f"rows are exported to a file on this machine, not to {target}; --spark writes there")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"{path.absolute().parent}: there is no such folder")
    if path.exists() and not force:
        raise InvalidInput(f"{target} exists: --force writes over it")
    dataset = open_table(table, at, as_of, options)
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    reader = dataset.scanner(names, filter=where, blob_handling="all_binary").to_reader()
    if kind == "csv":
        # Bytes as JSON has them.
        reader = bytes_as_texts(reader)
        nested = [field.name for field in reader.schema if pa.types.is_nested(field.type)]
        if nested:
            raise InvalidInput(
                f"CSV has no lists or structs, which {', '.join(nested)} has; --columns leaves them out, or export JSON"
            )
    partial = path.with_name(f"{path.name}.{token_hex(4)}.partial")
    count = 0
    try:
        with counted("rows", dataset.count_rows() if where is None else None) as step:
            count = _write(reader, partial, kind, step)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    Printer(as_json=json).facts("", {"file": target, "rows": count})


def _format(file: str, told: str | None) -> str:
    if told is not None:
        if told not in FORMATS:
            raise InvalidInput(f"--format is one of {', '.join(FORMATS)}, not {told!r}")
        return told
    ending = "".join(Path(file).suffixes[-1:]).lower()
    if ending not in _BY_ENDING:
        raise InvalidInput(f"{file}: its ending does not tell its format; --format does ({', '.join(FORMATS)})")
    return _BY_ENDING[ending]


def _types(table: str, options: Any) -> pa.Schema | None:
    """The columns of a table that is there."""
    named = in_namespace(table, options)
    if named is not None:
        return named[0].open(named[1]).schema if named[0].exists(named[1]) else None
    try:
        return open_table(table, options=options).schema
    except TableNotFound:
        return None


def _batches(files: list[str], kind: str, types: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The rows of files as they are read; all have the columns of the first."""
    with _naming(files[0], kind):
        schema, batches = _reader(files[0], kind, types)

    def rest() -> Iterator[pa.RecordBatch]:
        with _naming(files[0], kind):
            yield from batches
        for file in files[1:]:
            with _naming(file, kind):
                for batch in _reader(file, kind, types)[1]:
                    yield _fitted(batch, schema, file)

    return schema, rest()


@contextmanager
def _naming(file: str, kind: str) -> Iterator[None]:
    """What Arrow says of a file that it cannot read, with the file's name."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise UnfitData(f"{file} cannot be read as {kind}: {error}") from error


def _fitted(batch: pa.RecordBatch, schema: pa.Schema, file: str) -> pa.RecordBatch:
    """The same rows with the columns of the first file, in their order."""
    if batch.schema.equals(schema):
        return batch
    if sorted(batch.schema.names) != sorted(schema.names):
        names = ", ".join(schema.names), ", ".join(batch.schema.names)
        raise UnfitData(f"{file} has other columns than the first file: {names[1]} in place of {names[0]}")
    try:
        found: pa.RecordBatch = batch.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnfitData(f"{file} has other types than the first file: {error}") from error
    return found


def _written(rows: pa.RecordBatchReader, table: str, mode: str, options: Any, new: dict[str, Any]) -> LanceDataset:
    """The table with the rows; one of a namespace is made and found by its name."""
    named = in_namespace(table, options)
    if named is None:
        return write_dataset(rows, table, mode=mode, storage_options=storage_options(options), **new)
    space, name = named
    if mode == "append" and space.exists(name):
        dataset = space.open(name)
        dataset.insert(rows, **new)
        return dataset
    return space.create(name, rows, mode="create" if mode == "append" else mode, **new)


def _reader(file: str, kind: str, types: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow.fs

    if "://" in file:
        store, path = pyarrow.fs.FileSystem.from_uri(file)
    else:
        store, path = pyarrow.fs.LocalFileSystem(), str(Path(file).absolute())
    if kind == "parquet":
        import pyarrow.parquet

        found = pyarrow.parquet.ParquetFile(store.open_input_file(path))
        # Parquet has its own name for the items of lists.
        schema = typed_schema(found.schema_arrow, types, of_texts=False)
        return schema, (typed(batch, schema, file) for batch in found.iter_batches())
    if kind == "arrow":
        opened = pa.ipc.open_file(store.open_input_file(path))
        return opened.schema, (opened.get_batch(number) for number in range(opened.num_record_batches))
    if kind == "csv":
        import pyarrow.csv

        # As it is written below: nothing is null, and two quotes are an empty text.
        convert = pyarrow.csv.ConvertOptions(
            column_types=carriers(types, lists=False),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        rows = pyarrow.csv.open_csv(store.open_input_stream(path), convert_options=convert)
        if len(rows.schema) == 1:
            # A line without anything is a row then.
            parse = pyarrow.csv.ParseOptions(ignore_empty_lines=False)
            rows = pyarrow.csv.open_csv(store.open_input_stream(path), parse_options=parse, convert_options=convert)
    else:
        import pyarrow.json

        lines = pyarrow.json.ParseOptions(explicit_schema=pa.schema(carriers(types, lists=True)))
        rows = pyarrow.json.open_json(store.open_input_stream(path), parse_options=lines)
    schema = typed_schema(rows.schema, types)
    return schema, (typed(batch, schema, file) for batch in rows)


def _watched(batches: Iterator[pa.RecordBatch], step: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        step(batch.num_rows)
        yield batch


def _write(reader: pa.RecordBatchReader, path: Path, kind: str, step: Any) -> int:
    count = 0
    with _sink(path, reader.schema, kind) as write:
        for batch in reader:
            write(batch)
            step(batch.num_rows)
            count += batch.num_rows
    return count


def _sink(path: Path, schema: pa.Schema, kind: str) -> Any:
    @contextmanager
    def parquet() -> Iterator[Any]:
        import pyarrow.parquet

        with pyarrow.parquet.ParquetWriter(path, schema) as writer:
            yield writer.write_batch

    @contextmanager
    def arrow() -> Iterator[Any]:
        with pa.ipc.new_file(str(path), schema) as writer:
            yield writer.write_batch

    @contextmanager
    def csv() -> Iterator[Any]:
        import pyarrow.csv

        with pyarrow.csv.CSVWriter(str(path), schema) as writer:
            yield writer.write_batch

    @contextmanager
    def json() -> Iterator[Any]:
        with path.open("w", encoding="utf-8") as stream:

            def write(batch: pa.RecordBatch) -> None:
                stream.writelines(json_text(row) + "\n" for row in json_rows(batch))

            yield write

    return {"parquet": parquet, "arrow": arrow, "csv": csv, "json": json}[kind]()
