"""The tables of the corpus: each a function that writes one, with a sentence on what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lancelet
from corpus.types import columns, maps

VERSIONS = ("2.0", "2.1", "2.2")
_NOT_IN_2_0 = ("struct", "list_of_structs", "struct_of_lists")
"""That version has no null structs."""


@dataclass(frozen=True)
class Case:
    """A table to write, and whether a reader must refuse it."""

    name: str
    shows: str
    write: Callable[[Path], None]
    refused: bool = False


def cases() -> Iterator[Case]:
    """All of them."""
    for version in VERSIONS:
        found = columns() | (maps() if version == "2.2" else {})
        if version == "2.0":
            found = {name: found[name] for name in found if name not in _NOT_IN_2_0}
        for name, values in found.items():
            shows = f"a column of type {values.type} in files of version {version}"
            yield Case(
                f"types/{version}/{_path(name)}", shows, _writer(pa.table({"c": values}), data_storage_version=version)
            )
    yield from _encodings()
    yield from _operations()
    yield from _damages()


def _writer(table: pa.Table, **options: Any) -> Callable[[Path], None]:
    return lambda path: void(lancelet.write_dataset(table, path, **options))


def void(_: object) -> None:
    """Writing is all that a case does."""


def _encodings() -> Iterator[Case]:
    """Values that choose one encoding of pages or another."""
    rng = np.random.default_rng(7)
    shapes: dict[str, pa.Array] = {
        "bitpacked": pa.array(rng.integers(0, 50, 3000)),
        "constant": pa.array([7] * 3000),
        "runs": pa.array(np.repeat(rng.integers(0, 1 << 40, 30), 100)),
        "dictionary": pa.array([f"word {n}" for n in rng.integers(0, 20, 3000)]),
        "fsst": pa.array([f"https://example.org/kelp/{n}/forest" for n in rng.integers(0, 10**9, 3000)]),
        "wide": pa.FixedSizeListArray.from_arrays(rng.normal(size=200 * 256).astype(np.float32), 256),
        "nested": pa.array([None if n % 7 == 0 else [{"x": [n] * (n % 4)}] * (n % 3) for n in range(3000)]),
        "half_null": pa.array([None if n % 2 else n for n in range(3000)]),
    }
    for version in ("2.1", "2.2"):
        for name, values in shapes.items():
            table = pa.table({"c": values})
            shows = f"pages that {name.replace('_', ' ')} values have in files of version {version}"
            yield Case(f"encodings/{version}/{name}", shows, _writer(table, data_storage_version=version))
    for scheme in ("lz4", "zstd"):
        field = pa.field("c", pa.string(), metadata={"lance-encoding:compression": scheme})
        table = pa.table({"c": ["kelp " * 20] * 500}, pa.schema([field]))
        yield Case(
            f"encodings/2.2/{scheme}", f"pages compressed with {scheme}", _writer(table, data_storage_version="2.2")
        )


def _rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"id": numbers, "name": [f"row {number}" for number in numbers]})


def _operations() -> Iterator[Case]:
    """Tables after changes."""

    def made(path: Path, **options: Any) -> lancelet.LanceDataset:
        return lancelet.write_dataset(_rows(0, 20), path, max_rows_per_file=8, **options)

    def appended(path: Path) -> None:
        made(path).insert(_rows(20, 5))

    def deleted(path: Path) -> None:
        made(path).delete("id % 3 = 0")

    def fragment_gone(path: Path) -> None:
        made(path).delete("id < 8")

    def updated(path: Path) -> None:
        made(path).update({"name": "'new'"}, where="id > 15")

    def merged(path: Path) -> None:
        late = pa.table({"id": [3, 100], "name": ["merged", "inserted"]})
        made(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(late)

    def columns_changed(path: Path) -> None:
        dataset = made(path)
        dataset.add_columns({"twice": "id * 2"})
        dataset.alter_columns({"path": "name", "name": "title"})
        dataset.add_columns(pa.field("empty", pa.float64()))
        dataset.insert(pa.table({"id": [50], "title": ["late"]}))
        dataset.alter_columns({"path": "twice", "data_type": pa.int32()})

    def dropped(path: Path) -> None:
        made(path).drop_columns(["name"])

    def compacted(path: Path) -> None:
        dataset = made(path)
        dataset.delete("id = 3")
        dataset.optimize.compact_files()

    def stable(path: Path) -> None:
        dataset = made(path, enable_stable_row_ids=True)
        dataset.delete("id = 3")
        dataset.update({"name": "'moved'"}, where="id = 5")
        dataset.optimize.compact_files()

    def named(path: Path) -> None:
        dataset = made(path)
        dataset.delete("id > 10")
        dataset.tags.create("before", 1)
        dataset.create_branch("dev").insert(_rows(90, 2))

    def indexed(path: Path) -> None:
        dataset = made(path)
        for kind in ("BTREE", "BITMAP", "ZONEMAP"):
            dataset.create_scalar_index("id", kind, name=kind.lower())
        dataset.create_scalar_index("name", "INVERTED")
        dataset.insert(_rows(20, 5))

    def blobs(path: Path) -> None:
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        table = pa.table({"b": pa.array([b"kelp", None, b"", b"x" * 1000], pa.large_binary())}, pa.schema([field]))
        lancelet.write_dataset(table, path)

    def empty(path: Path) -> None:
        lancelet.write_dataset(_rows(0, 0), path)

    def overwritten(path: Path) -> None:
        made(path)
        lancelet.write_dataset(pa.table({"other": [1.5]}), path, mode="overwrite")

    def restored(path: Path) -> None:
        dataset = made(path)
        dataset.delete("id < 10")
        old = dataset.checkout_version(1)
        old.restore()

    for write, shows in (
        (appended, "rows appended"),
        (deleted, "rows deleted in every fragment"),
        (fragment_gone, "all rows of a fragment deleted"),
        (updated, "rows updated, which are now at the end"),
        (merged, "rows merged by a key"),
        (columns_changed, "columns added, renamed, cast; rows appended without some of them"),
        (dropped, "a column dropped, which files still have"),
        (compacted, "a compaction after a delete"),
        (stable, "stable row ids through a delete, an update and a compaction"),
        (named, "a tag and a branch"),
        (indexed, "indices that do not know the newest rows"),
        (blobs, "a blob column"),
        (empty, "a table without rows"),
        (overwritten, "a table overwritten with other columns"),
        (restored, "an old version restored"),
    ):
        yield Case(f"operations/{write.__name__}", shows, write)


def _damages() -> Iterator[Case]:
    """Tables that a reader must refuse: to give rows of them would be a guess."""

    def made(path: Path) -> Path:
        lancelet.write_dataset(_rows(0, 20), path)
        return next((path / "data").iterdir())

    def manifest(path: Path) -> Path:
        made(path)
        return next((path / "_versions").glob("*.manifest"))

    def manifest_cut(path: Path) -> None:
        file = manifest(path)
        file.write_bytes(file.read_bytes()[:-20])

    def manifest_magic(path: Path) -> None:
        file = manifest(path)
        file.write_bytes(file.read_bytes()[:-4] + b"LANX")

    def file_missing(path: Path) -> None:
        made(path).unlink()

    def file_cut(path: Path) -> None:
        file = made(path)
        file.write_bytes(file.read_bytes()[:-30])

    def file_magic(path: Path) -> None:
        file = made(path)
        file.write_bytes(file.read_bytes()[:-4] + b"LANX")

    def file_of_other_rows(path: Path) -> None:
        file = made(path)
        other = path.parent / "other.lance"
        lancelet.write_dataset(_rows(0, 7), other)
        file.write_bytes(next((other / "data").iterdir()).read_bytes())

    for write, shows in (
        (manifest_cut, "a manifest that ends early"),
        (manifest_magic, "a manifest with a wrong magic at its end"),
        (file_missing, "a data file that is not there"),
        (file_cut, "a data file that ends early"),
        (file_magic, "a data file with a wrong magic at its end"),
        (file_of_other_rows, "a data file with another number of rows than the manifest says"),
    ):
        yield Case(f"refused/{write.__name__}", shows, write, refused=True)


def _path(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name).strip("_")
