"""Files written by lancelet, and their rows as lancelet and pylance read them back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

from lancelet.encoding.fetch import run
from lancelet.encoding.rows import RowIndices, RowRange, Rows
from lancelet.encoding.v2_1.assemble import leaf_types
from lancelet.file.reader import open_file
from lancelet.file.writer import FileWriter, WrittenFile
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.schema import Schema, schema_from_arrow
from lancelet.store import LocalStore
from lancelet.testing import difference

NAME = "ours.lance"
VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def write(
    folder: Path,
    table: pa.Table,
    version: str = "2.2",
    *,
    batch: int | None = None,
    schema: Schema | None = None,
    **options: int,
) -> WrittenFile:
    """Write a table in batches of ``batch`` rows, over whatever the folder held."""
    (folder / NAME).unlink(missing_ok=True)
    schema = schema or schema_from_arrow(table.schema)
    with FileWriter(LocalStore(folder).open_sink(NAME), schema, version, **options) as writer:
        for piece in table.to_batches(max_chunksize=batch):
            writer.write_batch(piece)
        return writer.finish()


def theirs(folder: Path, table: pa.Table, version: str = "2.2") -> int:
    """Let pylance write the same; the size of its file."""
    path = folder / "theirs.lance"
    with LanceFileWriter(str(path), table.schema, version=version) as writer:
        for piece in table.to_batches():
            writer.write_batch(piece)
    return path.stat().st_size


def read(folder: Path, rows: Rows | None = None) -> dict[str, pa.Array]:
    """Rows as lancelet reads them."""
    source = LocalStore(folder).open(NAME)
    file = open_file(source)
    rows = RowRange(0, file.num_rows) if rows is None else rows
    return {field.name: one(run(file.read(field, rows), source)) for field in file.schema().fields}


def round_trip(folder: Path, table: pa.Table, version: str = "2.2", **options: object) -> WrittenFile:
    """Write, then scan and take with both readers; every difference is named."""
    done = write(folder, table, version, **options)  # type: ignore[arg-type]
    assert done.num_rows == len(table)
    assert done.size == (folder / NAME).stat().st_size
    expected = {name: one(table[name]) for name in table.column_names}
    if len(table):
        compare(read(folder), expected, "scan by lancelet")
    file = LanceFileReader(str(folder / NAME))
    compare(columns(file.read_all().to_table()), expected, "scan by pylance")
    some = sorted({0, len(table) // 3, len(table) // 2, len(table) - 1, *range(0, len(table), len(table) // 50 + 1)})
    if len(table):
        chosen = {name: column.take(pa.array(some)) for name, column in expected.items()}
        compare(read(folder, RowIndices(np.array(some, np.int64))), chosen, "take by lancelet")
        compare(columns(file.take_rows(some).to_table()), chosen, "take by pylance")
        start, stop = len(table) // 4, len(table) // 4 + max(len(table) // 3, 1)
        part = {name: column.slice(start, stop - start) for name, column in expected.items()}
        compare(read(folder, RowRange(start, min(stop, len(table)))), part, "range by lancelet")
    return done


def compare(actual: dict[str, pa.Array], expected: dict[str, pa.Array], how: str) -> None:
    texts = (difference(actual[name], column.cast(actual[name].type), name) for name, column in expected.items())
    assert [f"{how}: {text}" for text in texts if text] == []


def columns(table: pa.Table) -> dict[str, pa.Array]:
    return {name: one(table[name]) for name in table.column_names}


def one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, of its storage type."""
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks
        if pa.types.is_dictionary(column.type):
            # Arrow cannot join dictionaries with nulls in them, as those of 2.0 have.
            chunks = [chunk.dictionary_decode() for chunk in chunks]
        column = pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if column.type in VIEWS:
        # Arrow cannot take from views.
        return column.cast(VIEWS[column.type])
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def layouts(folder: Path, name: str = NAME) -> list[list[pb.PageLayout]]:
    """The layouts of all pages, by column."""
    source = LocalStore(folder).open(name)
    file = open_file(source)
    leaves = [leaf for field in file.schema().fields for leaf in leaf_types(field)]
    found = []
    for index in range(len(leaves)):
        pages: Sequence[column_pb2.ColumnMetadata.Page] = file._container.column(source, index).pages
        messages = [column_pb2.AnyMessage.FromString(page.encoding.direct.encoding) for page in pages]
        found.append([pb.PageLayout.FromString(message.value) for message in messages])
    return found


def layout(folder: Path) -> tuple[str, object]:
    """Name and message of the first page's layout."""
    first = layouts(folder)[0][0]
    kind = first.WhichOneof("layout")
    assert kind is not None
    return kind, getattr(first, kind)
