"""A small gallery of captioned pictures as a Lance table, written and read by lancelet.

    python examples/plain.py

At the end pylance opens the same table, changes it, and lancelet reads what
pylance left.
"""

from __future__ import annotations

import os
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table

import lancelet
from lancelet.optimize import Compaction

os.environ.setdefault("LANCE_LOG", "error")
ROWS, PIECE, DIMENSIONS = 200_000, 25_000, 128
SUBJECTS = ("heron", "lighthouse", "tram", "old bicycle", "market hall", "sleeping cat", "ferry", "birch wood")
MOODS = ("at dawn", "in the rain", "under snow", "seen from above", "with long shadows", "out of focus")
console = Console()


def gallery(start: int, rows: int) -> pa.Table:
    """Captions, embeddings, nested tags and a thumbnail each."""
    rng = np.random.default_rng(start)
    subject, mood = rng.integers(0, len(SUBJECTS), rows), rng.integers(0, len(MOODS), rows)
    captions = [f"A {SUBJECTS[s]} {MOODS[m]}" for s, m in zip(subject, mood, strict=True)]
    tags = [
        [{"name": SUBJECTS[s], "score": round(float(p), 3)}, {"name": MOODS[m].split()[-1], "score": 0.5}]
        for s, m, p in zip(subject, mood, rng.random(rows), strict=True)
    ]
    vectors = pa.array(rng.standard_normal(rows * DIMENSIONS).astype(np.float32))
    thumbnails = [rng.bytes(int(size)) for size in rng.integers(40, 400, rows)]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("caption", pa.string()),
            ("likes", pa.int32()),
            ("tags", pa.list_(pa.struct([("name", pa.string()), ("score", pa.float32())]))),
            ("embedding", pa.list_(pa.float32(), DIMENSIONS)),
            pa.field("thumbnail", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    likes = pa.array(rng.geometric(0.002, rows), pa.int32(), mask=rng.random(rows) < 0.02)
    columns = [
        pa.array(np.arange(start, start + rows)),
        pa.array(captions),
        likes,
        pa.array(tags, schema.field("tags").type),
        pa.FixedSizeListArray.from_arrays(vectors, DIMENSIONS),
        pa.array(thumbnails, pa.large_binary()),
    ]
    return pa.table(columns, schema=schema)


def write(where: Path) -> None:
    """Eight appends and a delete."""
    section("A new table", "lancelet.write_dataset(pictures, 'gallery.lance', mode='append')")
    bar = Progress(
        TextColumn("  [bold]lancelet writes"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
    )
    with bar as progress:
        task = progress.add_task("", total=ROWS)
        for start in range(0, ROWS, PIECE):
            lancelet.write_dataset(gallery(start, PIECE), where, mode="append" if start else "create")
            progress.advance(task, PIECE)
    section("Rows deleted", "dataset.delete('likes < 100')")
    dataset = lancelet.dataset(where)
    before, result = dataset.version, dataset.delete("likes < 100")
    console.print(f"  {result['num_deleted_rows']:,} rows are gone from version {dataset.version}, not from {before}")


def section(title: str, call: str) -> None:
    console.print()
    console.print(Rule(f"[bold]{title}", align="left"))
    console.print(f"  [dim]>>>[/dim] [cyan]{call}[/cyan]")


def show(table: pa.Table, *, rows: int = 5) -> None:
    """The first rows as a table on the screen."""
    grid = Table(header_style="bold", box=None, padding=(0, 2))
    for field in table.schema:
        number = pa.types.is_integer(field.type)
        grid.add_column(field.name, overflow="ellipsis", no_wrap=True, min_width=6 if number else None)
    for row in table.slice(0, rows).to_pylist():
        grid.add_row(*(_cell(value) for value in row.values()))
    console.print(grid)


def _cell(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], float):
        return "[" + ", ".join(f"{number:.2f}" for number in value[:3]) + f", … {len(value)}]"
    if isinstance(value, list):
        return ", ".join(f"{item['name']} {item['score']:.2f}" for item in value)
    return str(value)


def main() -> None:
    console.print(
        Panel(
            "lancelet writes a Lance table, reads it and changes it; then [bold]pylance[/bold] opens the same table.",
            title="A gallery of 200,000 pictures",
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "gallery.lance"
        write(where)
        read(where)
        change(where)
        meet_pylance(where)


def read(where: Path) -> None:
    section("The table", "dataset = lancelet.dataset('gallery.lance'); dataset.schema")
    dataset = lancelet.dataset(where)
    for field in dataset.schema:
        console.print(f"  {field.name:<10} [green]{field.type}[/green]")
    fragments = dataset.get_fragments()
    console.print(f"  version {dataset.version}, {dataset.count_rows():,} rows, {len(fragments)} fragments")

    section("Its history", "dataset.versions()")
    history = Table(header_style="bold", box=None, padding=(0, 2))
    for name in ("version", "at", "rows", "data files", "deleted rows"):
        history.add_column(name, justify="right")
    for entry in dataset.versions():
        facts = entry["metadata"]
        history.add_row(
            str(entry["version"]),
            f"{entry['timestamp']:%H:%M:%S.%f}"[:-3],
            f"{int(facts['total_rows']):,}",
            facts["total_data_files"],
            f"{int(facts['total_deletion_file_rows']):,}",
        )
    console.print(history)

    section("Time travel", "lancelet.dataset('gallery.lance', version=8).count_rows()")
    before = lancelet.dataset(where, version=8)
    console.print(f"  as collected {before.count_rows():,} rows, now {dataset.count_rows():,}")

    wanted = "likes > 3000 and caption like '%lighthouse%'"
    section("A filtered scan", f'dataset.to_table(["id", "caption", "likes", "tags"], filter="{wanted}")')
    started = time.perf_counter()
    found = dataset.to_table(["id", "caption", "likes", "tags"], filter=wanted)
    taken = time.perf_counter() - started
    show(found)
    console.print(f"  {found.num_rows:,} of {dataset.count_rows():,} rows in {taken * 1000:.1f} ms")

    section("Any rows, at once", "dataset.take([77_777, 5, 123_456], ['id', 'caption', 'embedding'])")
    started = time.perf_counter()
    rows = dataset.take([77_777, 5, 123_456], ["id", "caption", "embedding"])
    taken = time.perf_counter() - started
    show(rows)
    console.print(f"  {taken * 1000:.1f} ms")

    section("Blobs, read when asked for", "dataset.take_blobs('thumbnail', indices=[5])[0].read(8)")
    with dataset.take_blobs("thumbnail", indices=[5])[0] as blob:
        console.print(f"  {blob.size()} bytes, the first eight: [green]{blob.read(8).hex(' ')}[/green]")

    section("Everything, streamed", "for batch in dataset.to_batches(['embedding']): ...")
    total, squares = dataset.count_rows(), 0.0
    started = time.perf_counter()
    with Progress(
        TextColumn("  [bold]lancelet reads"), BarColumn(), MofNCompleteColumn(), TextColumn("rows")
    ) as progress:
        task = progress.add_task("", total=total)
        for batch in dataset.to_batches(["embedding"]):
            squares += float(np.square(batch["embedding"].flatten().to_numpy()).sum(dtype=np.float64))
            progress.advance(task, batch.num_rows)
    taken = time.perf_counter() - started
    size = total * DIMENSIONS * 4
    console.print(f"  mean square {squares / total / DIMENSIONS:.4f}; {size / 1e6:,.0f} MB in {taken:.2f} s")


def change(where: Path) -> None:
    dataset = lancelet.dataset(where)
    section("Late updates", "dataset.merge_insert('id').when_matched_update_all().when_not_matched_insert_all()")
    late = pa.concat_tables([gallery(ROWS - 2_000, 2_000), gallery(ROWS, 1_000)])
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    counts = merge.execute(late)
    console.print(f"  {counts['num_updated_rows']:,} rows updated, {counts['num_inserted_rows']:,} inserted")

    section("A new column", "dataset.add_columns({'popular': 'likes > 1000'})")
    dataset.add_columns({"popular": "likes > 1000"})
    console.print(f"  {dataset.count_rows('popular'):,} popular pictures; no other column was written again")

    section("A branch", "dev = dataset.create_branch('dev'); dev.update({'likes': '0'}, where='popular')")
    dev = dataset.create_branch("dev")
    dev.update({"likes": "0"}, where="popular")
    mine, theirs = dataset.count_rows("likes = 0"), dev.count_rows("likes = 0")
    console.print(f"  pictures without likes: {theirs:,} on the branch, {mine:,} on the main line")

    section("Small fragments put together", "print(Compaction.plan(dataset, {})); dataset.optimize.compact_files()")
    console.print(textwrap.indent(str(Compaction.plan(dataset, {})), "  "), highlight=False)
    before = len(dataset.get_fragments())
    metrics = dataset.optimize.compact_files()
    console.print(
        f"  {before} fragments became {len(dataset.get_fragments())}: {metrics.files_removed} files and the deleted rows "
        "are out of the newest version"
    )

    section(
        "What could be cleaned up, and why",
        "print(dataset.explain_cleanup_old_versions(retain_versions=2))",
    )
    explained = dataset.explain_cleanup_old_versions(retain_versions=2)
    console.print(textwrap.indent(str(explained), "  "), highlight=False)

    section("Is everything in order?", "dataset.verify(deep=True)")
    console.print(textwrap.indent(str(dataset.verify(deep=True)), "  "), highlight=False)


def meet_pylance(where: Path) -> None:
    import lance

    section("pylance opens the table", "theirs = lance.dataset('gallery.lance'); theirs.add_columns(...)")
    theirs = lance.dataset(where)
    console.print(
        f"  version {theirs.version}, {theirs.count_rows():,} rows in {len(theirs.get_fragments())} fragments"
    )
    theirs.tags.create("before", theirs.version)
    theirs.add_columns({"shout": "upper(caption)"})

    section("and lancelet reads on", "lancelet.dataset('gallery.lance').head(3, columns=['id', 'shout'])")
    ours = lancelet.dataset(where)
    show(ours.head(3, columns=["id", "shout"]))
    tagged = lancelet.dataset(where, version="before")
    console.print(
        f"  version {ours.version}, {ours.count_rows():,} rows in {len(ours.get_fragments())} fragments; ", end=""
    )
    console.print(f"the tag 'before' is version {tagged.version}")


if __name__ == "__main__":
    main()
