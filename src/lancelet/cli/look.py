"""Commands that look at tables and change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lancelet.changes.differences import differences
from lancelet.cli.places import AsOf, At, Json, Options, Place, in_namespace, open_table, reference, storage_options
from lancelet.cli.printing import Printer, Size
from lancelet.errors import InvalidInput, LanceletError
from lancelet.inspect.layout import column_facts, file_facts, fragment_facts, page_facts, stored_columns
from lancelet.inspect.overview import overview
from lancelet.inspect.past import past_versions
from lancelet.store import open_store

app = typer.Typer()
Columns = Annotated[
    str | None, typer.Option("--columns", "-c", metavar="A,B", help="Columns, with commas between them.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="The most rows.")]


@app.command("ls")
def list_tables(
    root: Annotated[
        str, typer.Argument(help="A folder, a store's URI, or a namespace's folder with # behind it.")
    ] = ".",
    options: Options = None,
    json: Json = False,
) -> None:
    """The tables in a folder, or in the namespace of a folder."""
    printer = Printer(as_json=json)
    named = in_namespace(root, options)
    if named is not None:
        space, name = named
        spaces = [(f"{name}.{one}" if name else one, "namespace") for one in space.namespaces(name or ())]
        found = [*spaces, *((f"{name}.{one}" if name else one, "table") for one in space.tables(name or ()))]
        printer.rows(("name", "kind"), found, empty=f"no tables in the namespace {root}")
        return
    if "://" not in root and not Path(root).is_dir():
        raise InvalidInput(f"{root}: there is no such folder")
    store = open_store(root, storage_options(options))
    rows: list[tuple[Any, ...]] = []
    damaged = []
    for folder in sorted(store.list_folders()):
        if "_versions" not in store.child(folder).list_folders():
            continue
        try:
            seen = overview(open_table(store.join(folder), options=options).table.snapshot)
        except (LanceletError, OSError) as error:
            rows.append((folder, None, None, None, None, None))
            damaged.append(f"{folder} cannot be read: {error}")
            continue
        rows.append((folder, seen.version, seen.rows, seen.columns, Size(seen.bytes), seen.committed))
    heads = ("table", "version", "rows", "columns", "size", "committed")
    printer.rows(heads, rows, empty=f"no tables below {root}")
    for problem in damaged:
        printer.say(problem)
    if damaged:
        raise typer.Exit(1)


@app.command()
def show(table: Place, at: At = None, as_of: AsOf = None, options: Options = None, json: Json = False) -> None:
    """A table at a glance: its columns, numbers, indices, and what could be done for it."""
    printer, dataset = Printer(as_json=json), open_table(table, at, as_of, options)
    seen = overview(dataset.table.snapshot)
    columns = [(field.name, str(field.type), field.nullable, dict(field.metadata or {})) for field in dataset.schema]
    if json:
        names = ("name", "type", "nullable", "metadata")
        raw = [dict(zip(names, column, strict=True)) for column in columns]
        printer.json({**asdict(seen), "schema": raw, "metadata": dataset.metadata, "config": dataset.config()})
        return
    facts = {
        "version": f"{seen.version}{f' of branch {seen.branch}' if seen.branch else ''}, {seen.versions} kept",
        "committed": seen.committed,
        "rows": seen.rows,
        "deleted rows": seen.deleted_rows,
        "fragments": seen.fragments,
        "data": f"{Size(seen.bytes)} in {seen.files:,} files of version {seen.file_version}",
        "stable row ids": seen.stable_row_ids,
        "indices": seen.indices,
    }
    printer.facts(seen.uri, facts)
    printer.out.print()
    printer.rows(
        ("column", "type", "null"), [(name, kind, null) for name, kind, null, _ in columns], empty="no columns"
    )
    for advice in seen.advice:
        printer.out.print(f"[yellow]•[/] {advice}")


@app.command()
def head(
    table: Place,
    limit: Limit = 10,
    columns: Columns = None,
    at: At = None,
    as_of: AsOf = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """The first rows."""
    scanner = open_table(table, at, as_of, options).scanner(_names(columns), limit=limit)
    Printer(as_json=json).batches(scanner.projected_schema, scanner.to_batches())


@app.command()
def count(
    table: Place,
    where: Annotated[
        str | None, typer.Option("--where", "-w", metavar="SQL", help="Only rows for which this holds.")
    ] = None,
    at: At = None,
    as_of: AsOf = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """The number of rows, all or those for which a condition holds."""
    found = open_table(table, at, as_of, options).count_rows(where)
    printer = Printer(as_json=json)
    if json:
        printer.json(found)
    else:
        typer.echo(found)


@app.command()
def query(
    table: Place,
    where: Annotated[str | None, typer.Argument(metavar="CONDITION", help="A condition in SQL: likes > 100")] = None,
    columns: Columns = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="The most rows; 100 by default, not with --sql.")
    ] = None,
    order: Annotated[str | None, typer.Option("--order-by", metavar="COLUMN [DESC]", help="The order of rows.")] = None,
    sql: Annotated[str | None, typer.Option("--sql", help="A whole query; the table's name in it is dataset.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show how rows would be found, and do nothing.")] = False,
    at: At = None,
    as_of: AsOf = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """Rows for which a condition holds, or the answer to a query in SQL."""
    printer, dataset = Printer(as_json=json), open_table(table, at, as_of, options)
    if sql is not None:
        if any(part is not None for part in (where, columns, order, limit)):
            raise InvalidInput("--sql is a whole query: write the condition, columns, order and limit into it")
        reader = dataset.sql(f"EXPLAIN {sql}" if explain else sql).build().to_stream_reader()
        printer.batches(reader.schema, reader)
        return
    most = 100 if limit is None else limit
    scanner = dataset.scanner(_names(columns), filter=where, limit=most, order_by=_order(order))
    if explain:
        plan = scanner.explain_plan(verbose=True)
        printer.json({"plan": plan}) if json else printer.text(plan)
        return
    if printer.batches(scanner.projected_schema, scanner.to_batches()) == most and most and not json:
        printer.say(f"the first {most:,} rows; --limit for more")


@app.command()
def history(
    table: Place,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="The most versions.")] = None,
    at: At = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """The versions, the newest first: when, by what, and what is named after them."""
    found = list(past_versions(open_table(table, at, None, options).table.snapshot, limit))
    heads = ("version", "committed", "operation", "rows", "fragments", "size", "names", "message")
    rows = (
        (
            one.version,
            one.committed,
            one.operation,
            one.rows,
            one.fragments,
            None if one.bytes is None else Size(one.bytes),
            [*one.tags, *(f"→{branch}" for branch in one.branches)],
            one.message if one.problem is None else "damaged: verify tells more",
        )
        for one in found
    )
    Printer(as_json=json).rows(heads, rows, raw=found)


@app.command()
def diff(
    table: Place,
    before: Annotated[str, typer.Argument(help="The older version or tag.")],
    after: Annotated[str, typer.Argument(help="The newer version or tag.")],
    options: Options = None,
    json: Json = False,
) -> None:
    """What is different between two versions; ends with 1 if anything is."""
    dataset = open_table(table, options=options)
    found = differences(dataset.table.snapshot, reference(dataset, before), reference(dataset, after))
    if json:
        Printer(as_json=True).json(found)
    else:
        unknown = "not known without stable row ids"
        facts = {
            "versions": f"{found.before} → {found.after}",
            "rows": f"{found.rows_before:,} → {found.rows_after:,}",
            "inserted": unknown if found.inserted is None else found.inserted,
            "updated": unknown if found.updated is None else found.updated,
            "deleted": unknown if found.deleted is None else found.deleted,
            "columns added": found.added_columns,
            "columns dropped": found.dropped_columns,
            "columns changed": found.changed_columns,
            "fragments added": _runs(found.added_fragments),
            "fragments removed": _runs(found.removed_fragments),
            "fragments changed": _runs(found.changed_fragments),
        }
        Printer(as_json=False).facts("", {name: value for name, value in facts.items() if value not in ((), unknown)})
    if not found.are_none:
        raise typer.Exit(1)


@app.command()
def fragments(table: Place, at: At = None, as_of: AsOf = None, options: Options = None, json: Json = False) -> None:
    """The fragments: rows, deleted ones, files and bytes of each."""
    found = list(fragment_facts(open_table(table, at, as_of, options).table.snapshot))
    rows = ((one.id, one.rows, one.deleted_rows, one.files, Size(one.bytes)) for one in found)
    Printer(as_json=json).rows(("fragment", "rows", "deleted", "files", "size"), rows, raw=found, empty="no fragments")


@app.command()
def files(table: Place, at: At = None, as_of: AsOf = None, options: Options = None, json: Json = False) -> None:
    """The data files: where they are, and which columns they have."""
    found = list(file_facts(open_table(table, at, as_of, options).table.snapshot))
    rows = (
        (one.fragment, one.path, one.version, None if one.bytes is None else Size(one.bytes), one.base, one.columns)
        for one in found
    )
    heads = ("fragment", "file", "version", "size", "elsewhere", "columns")
    Printer(as_json=json).rows(heads, rows, raw=found, empty="no files")


@app.command()
def columns(table: Place, at: At = None, as_of: AsOf = None, options: Options = None, json: Json = False) -> None:
    """The stored columns by their bytes, with pages and encodings."""
    found = column_facts(open_table(table, at, as_of, options).table.snapshot)
    rows = ((one.name, one.type, Size(one.bytes), one.pages, one.encodings) for one in found)
    Printer(as_json=json).rows(("column", "type", "size", "pages", "encodings"), rows, raw=found, empty="no columns")


@app.command()
def pages(
    table: Place,
    column: Annotated[str | None, typer.Option("--column", help="Only this one.")] = None,
    at: At = None,
    as_of: AsOf = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """Every page: its column, bytes and encoding."""
    snapshot = open_table(table, at, as_of, options).table.snapshot
    if column is not None:
        known = stored_columns(snapshot)
        if column not in known:
            raise InvalidInput(f"{snapshot.uri} stores no column {column!r}; it has: {', '.join(known) or 'none'}")
    found = list(page_facts(snapshot, column))
    rows = ((one.fragment, one.column, one.page, Size(one.bytes), one.encoding) for one in found)
    Printer(as_json=json).rows(("fragment", "column", "page", "size", "encoding"), rows, raw=found, empty="no pages")


@app.command()
def indices(table: Place, at: At = None, as_of: AsOf = None, options: Options = None, json: Json = False) -> None:
    """The indices: their columns, kinds, and how many rows they know."""
    dataset = open_table(table, at, as_of, options)
    total, rows, raw = dataset.count_rows(), [], []
    for one in dataset.describe_indices():
        size = None if one.total_size_bytes is None else Size(one.total_size_bytes)
        covered = f"{one.num_rows_indexed:,} of {total:,}"
        rows.append((one.name, one.index_type, one.field_names, covered, len(one.segments), size))
        shown = {"name": one.name, "type": one.index_type, "columns": one.field_names, "details": one.details}
        counts = {"rows_indexed": one.num_rows_indexed, "rows": total, "segments": len(one.segments)}
        raw.append({**shown, **counts, "bytes": one.total_size_bytes})
    Printer(as_json=json).rows(
        ("index", "kind", "columns", "rows", "segments", "size"), rows, raw=raw, empty="no indices"
    )


def _runs(numbers: Iterable[int]) -> tuple[str, ...]:
    """Numbers for people, neighbours put together.

    Examples
    --------
    >>> _runs([1, 2, 3, 7])
    ('1 to 3', '7')
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return tuple(f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in found)


def _names(columns: str | None) -> list[str] | None:
    return None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]


def _order(text: str | None) -> Any:
    if text is None:
        return None
    from lancelet._api.scanner import ColumnOrdering

    name, _, way = text.strip().rpartition(" ")
    if not name:
        return [ColumnOrdering(way)]
    if way.upper() not in ("ASC", "DESC"):
        raise InvalidInput(f"an order is COLUMN, COLUMN ASC or COLUMN DESC, not {text!r}")
    return [ColumnOrdering(name.strip(), ascending=way.upper() == "ASC")]
