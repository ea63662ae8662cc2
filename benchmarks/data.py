"""The tables that are measured, made once and kept under build/bench."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CACHE = Path(__file__).parents[1] / "build" / "bench"
BATCH = 20_000
DIMENSIONS = 256

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.int32()),
        ("f", pa.float64()),
        ("at", pa.timestamp("us")),
        ("flag", pa.bool_()),
        ("category", pa.string()),
        ("text", pa.string()),
        ("vector", pa.list_(pa.float32(), DIMENSIONS)),
        ("tags", pa.list_(pa.string())),
        ("points", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.float64())]))),
    ]
)
_WORDS = [
    f"{head}{tail}" for head in ("lan", "ce", "ta", "ble", "ar", "row") for tail in ("let", "ment", "ow", "ing", "")
]


def _batch(start: int, rows: int) -> pa.RecordBatch:
    """Rows ``start`` to ``start + rows``; 7 in 100 values of ``a`` and ``text`` are null."""
    rng = np.random.default_rng(start)
    hidden = rng.random(rows) < 0.07
    words = pa.array(_WORDS)
    text = [" ".join(_WORDS[word] for word in line) for line in rng.integers(0, len(_WORDS), (rows, 6))]
    tags = _offsets(rng, rows, 5)
    points = _offsets(rng, rows, 7)
    spots = pa.StructArray.from_arrays(
        [pa.array(rng.integers(0, 1000, points[-1]), pa.int32()), pa.array(rng.random(points[-1]))],
        fields=list(SCHEMA.field("points").type.value_type),
    )
    columns = [
        pa.array(np.arange(start, start + rows)),
        pa.array(rng.integers(0, 1_000_000, rows), pa.int32(), mask=hidden),
        pa.array(rng.standard_normal(rows)),
        pa.array(1_700_000_000_000_000 + np.arange(start, start + rows) * 1000, pa.timestamp("us")),
        pa.array(rng.random(rows) < 0.2),
        words.take(pa.array(rng.integers(0, 12, rows))),
        pa.array(text, mask=hidden[::-1]),
        pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * DIMENSIONS, np.float32)), DIMENSIONS),
        pa.ListArray.from_arrays(pa.array(tags, pa.int32()), words.take(pa.array(rng.integers(0, 30, tags[-1])))),
        pa.ListArray.from_arrays(pa.array(points, pa.int32()), spots),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _offsets(rng: np.random.Generator, rows: int, longest: int) -> np.ndarray:
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(rng.integers(0, longest, rows), out=offsets[1:])
    return offsets


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of the big table."""
    for start in range(0, rows, BATCH):
        yield _batch(start, min(BATCH, rows - start))


def main_table(rows: int) -> tuple[Path, Path]:
    """The big table, written by pylance at file version 2.2, and the same as Parquet."""
    folder = CACHE / f"rows-{rows}"
    table, parquet = folder / "t.lance", folder / "t.parquet"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        lance.write_dataset(
            pa.RecordBatchReader.from_batches(SCHEMA, batches(rows)), table, schema=SCHEMA, data_storage_version="2.2"
        )
        with pq.ParquetWriter(parquet, SCHEMA, compression="zstd") as writer:
            for batch in batches(rows):
                writer.write_batch(batch, row_group_size=BATCH)
        (folder / "complete").touch()
    return table, parquet


def many_fragments(fragments: int, versions: int) -> Path:
    """A table of tiny fragments and a long history."""
    table = CACHE / f"fragments-{fragments}-{versions}"
    if not (table / "complete").exists():
        shutil.rmtree(table, ignore_errors=True)
        each = fragments // versions
        for number in range(versions):
            rows = pa.table({"k": range(number * each, (number + 1) * each)})
            lance.write_dataset(rows, table, mode="append", max_rows_per_file=1)
        (table / "complete").touch()
    return table


def five_gigabytes() -> Path:
    """Written in pieces of about 50 MB."""
    table = CACHE / "five-gigabytes"
    if not (table / "complete").exists():
        shutil.rmtree(table, ignore_errors=True)
        for piece in range(100):
            batch = _batch(piece * 45_000, 45_000)
            lance.write_dataset(pa.Table.from_batches([batch]), table, mode="append", data_storage_version="2.2")
        (table / "complete").touch()
    return table
