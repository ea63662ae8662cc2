"""Small tables of every file version for the fault tests to damage, made once a run; folders in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import pyarrow as pa
import pytest

from lancelet.testing import random_array

KINDS = {
    "i": pa.int32(),
    "b": pa.bool_(),
    "f": pa.float64(),
    "s": pa.string(),
    "n": pa.binary(),
    "l": pa.list_(pa.int16()),
    "ls": pa.list_(pa.string()),
    "st": pa.struct([("x", pa.int64()), ("y", pa.string())]),
    "v": pa.list_(pa.float32(), 4),
    "w": pa.list_(pa.float32(), 70),
    "d": pa.dictionary(pa.int8(), pa.string()),
    "fsb": pa.binary(3),
    "dec": pa.decimal128(20, 2),
}


def small(version: str, rows: int = 300) -> pa.Table:
    """Every layout and codec worth damaging, in a file of a few tens of kilobytes."""
    columns = {"k": pa.array(range(rows), pa.int64())}
    for number, (name, kind) in enumerate(KINDS.items()):
        for pattern in ("random", "low", "runs"):
            columns[f"{name}_{pattern}"] = random_array(
                kind, rows, number, pattern=pattern, nulls="some", null_structs=version >= "2.1", text_bytes=20
            )
    columns["long"] = random_array(pa.string(), rows, 99, nulls="some", text_bytes=400)
    columns["constant"] = pa.array([7] * rows, pa.int32())
    columns["nothing"] = pa.nulls(rows, pa.string())
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    for scheme in ("zstd", "lz4", "fsst"):
        columns[f"c_{scheme}"] = random_array(pa.string(), rows, 5, text_bytes=150)
        fields.append(pa.field(f"c_{scheme}", pa.string(), metadata={"lance-encoding:compression": scheme}))
    if version >= "2.0":
        columns["j"] = random_array(pa.json_(), rows, 8, nulls="some")
        fields.append(pa.field("j", columns["j"].type))
        columns["blob"] = random_array(pa.large_binary(), rows, 9, nulls="some", text_bytes=90)
        fields.append(pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}))
    if version >= "2.2":
        columns["m"] = random_array(pa.map_(pa.string(), pa.int32()), rows, 6, nulls="some")
        fields.append(pa.field("m", columns["m"].type))
        packed = pa.struct([("a", pa.int32()), ("t", pa.string())])
        columns["packed"] = random_array(packed, rows, 7)
        fields.append(pa.field("packed", packed, metadata={"lance-encoding:packed": "true"}))
    return pa.table(list(columns.values()), schema=pa.schema(fields))


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One table for each file version, with stable row ids and an Arrow deletion file; one with a bitmap."""
    folder = tmp_path_factory.mktemp("faults")
    made = {}
    for version in ("0.1", "2.0", "2.1", "2.2"):
        where = folder / version
        dataset = lance.write_dataset(
            small(version),
            where,
            data_storage_version=version,
            enable_stable_row_ids=True,
            max_rows_per_group=100,
        )
        dataset.delete("k % 11 = 2")
        made[version] = where
    where = folder / "bitmap"
    lance.write_dataset(pa.table({"k": pa.array(range(9000), pa.int64())}), where).delete("k % 3 > 0")
    made["bitmap"] = where
    return made


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on no disk where there is one: what is tried is many small commits, each of which syncs."""
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else tmp_path_factory.mktemp("disk")) as folder:
        yield Path(folder)


@pytest.fixture
def folder(memory: Path, request: pytest.FixtureRequest) -> Path:
    return memory / "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
