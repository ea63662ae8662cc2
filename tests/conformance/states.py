"""Tables in every state that a history of operations can leave them in, made by pylance.

Each maker takes an empty folder, a file version and whether row ids are stable,
and leaves a table there. ``STATES`` names them all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lancelet.testing import random_array

Maker = Callable[[Path, dict[str, Any]], None]
STATES: dict[str, Maker] = {}
FROM_2_0: set[str] = set()
"""States that need more than file version 0.1 can do."""


def state(*, since: str = "0.1") -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        STATES[make.__name__] = make
        if since > "0.1":
            FROM_2_0.add(make.__name__)
        return make

    return register


def rows(count: int, start: int = 0, **extra: pa.Array) -> pa.Table:
    """A mixed table whose ``k`` counts up from ``start``."""
    point = pa.struct([pa.field("x", pa.int32()), pa.field("deep", pa.struct([("y", pa.string()), ("z", pa.int8())]))])
    columns = {
        "k": pa.array(range(start, start + count), pa.int64()),
        "i": random_array(pa.int32(), count, start + 1, nulls="some"),
        "f": random_array(pa.float64(), count, start + 2, nulls="some"),
        "s": random_array(pa.string(), count, start + 3, nulls="some"),
        "low": random_array(pa.string(), count, start + 4, pattern="low"),
        "l": random_array(pa.list_(pa.int16()), count, start + 5, nulls="some"),
        "v": random_array(pa.list_(pa.float32(), 4), count, start + 6),
        "p": random_array(point, count, start + 7, nulls="some", null_structs=False),
        **extra,
    }
    return pa.table(columns)


def create(where: Path, options: dict[str, Any], count: int = 600, file_rows: int = 200) -> lance.LanceDataset:
    return lance.write_dataset(rows(count), where, max_rows_per_file=file_rows, max_rows_per_group=64, **options)


def append(where: Path, table: pa.Table, options: dict[str, Any]) -> lance.LanceDataset:
    return lance.write_dataset(table, where, mode="append", max_rows_per_group=64, **options)


@state()
def appended(where: Path, options: dict[str, Any]) -> None:
    create(where, options)
    append(where, rows(50, 600), options)
    append(where, rows(1, 650), options)


@state()
def deleted_few(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.delete("k % 7 = 3")
    dataset.delete("k = 0 or k = 599 or k = 199 or k = 200")


@state()
def deleted_many(where: Path, options: dict[str, Any]) -> None:
    """More than 5000 rows of a fragment: the deletion file is a bitmap."""
    dataset = create(where, options, 12_000, 9000)
    dataset.delete("k % 10 < 7")


@state()
def deleted_fragment(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.delete("k >= 200 and k < 400")
    dataset.delete("k = 401")


@state()
def deleted_everything(where: Path, options: dict[str, Any]) -> None:
    create(where, options).delete("true")


@state()
def added_computed(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.delete("k % 5 = 0")
    dataset.add_columns({"twice": "k * 2", "shout": "upper(s)"})
    dataset.delete("twice = 2")


@state(since="2.0")
def added_null(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.add_columns(pa.field("later", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))))
    dataset.add_columns(pa.field("number", pa.float32()))


@state()
def added_by_merge(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.merge(pa.table({"k": [1, 300, 599, 9999], "m": ["a", "b", "c", "d"]}), "k")


@state()
def dropped(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.drop_columns(["s", "l"])
    dataset.drop_columns(["p.deep.y"])


@state()
def dropped_and_added_again(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.add_columns({"extra": "k + 1"})
    dataset.drop_columns(["extra"])
    dataset.add_columns({"extra": "concat(low, '!')"})


@state()
def renamed(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.alter_columns({"path": "i", "name": "integer"}, {"path": "p.deep", "name": "deeper"})
    dataset.alter_columns({"path": "p", "name": "point"})


@state(since="2.0")
def cast(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.alter_columns({"path": "i", "data_type": pa.int64()})
    dataset.alter_columns({"path": "low", "data_type": pa.large_string()})
    dataset.alter_columns({"path": "f", "data_type": pa.float32()})


@state(since="2.0")
def appended_fewer_columns(where: Path, options: dict[str, Any]) -> None:
    create(where, options)
    append(where, rows(40, 600).select(["s", "k"]), options)
    append(where, rows(40, 640).select(["v", "k", "p"]), options)


@state()
def updated(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.update({"s": "'new'", "i": "k + 1"}, where="k % 11 = 4")
    dataset.update({"s": "'newer'"}, where="k = 15 or k = 16")


@state()
def merged(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    (
        dataset.merge_insert("k")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(pa.concat_tables([rows(30, 190), rows(20, 600)]))
    )


@state()
def compacted(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options, 600, 50)
    dataset.delete("k % 3 = 1")
    dataset.optimize.compact_files(target_rows_per_fragment=250)
    append(where, rows(10, 600), options)


@state()
def restored(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.delete("k < 100")
    lance.dataset(where, version=1).restore()


@state()
def overwritten(where: Path, options: dict[str, Any]) -> None:
    create(where, options)
    other = pa.table({"x": random_array(pa.uint16(), 90), "k": random_array(pa.string(), 90, nulls="some")})
    lance.write_dataset(other, where, mode="overwrite", max_rows_per_file=40, **options)


@state()
def created_empty(where: Path, options: dict[str, Any]) -> None:
    lance.write_dataset(rows(0), where, **options)


@state()
def filled_after_empty(where: Path, options: dict[str, Any]) -> None:
    lance.write_dataset(rows(0), where, **options)
    append(where, rows(30), options)


@state()
def old_manifest_names(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options | {"enable_v2_manifest_paths": False})
    for number in range(10):
        dataset.delete(f"k = {number}")


@state()
def moved_to_new_manifest_names(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options | {"enable_v2_manifest_paths": False})
    dataset.delete("k = 3")
    dataset.migrate_manifest_paths_v2()


@state(since="2.0")
def indexed(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("low", "BITMAP")
    append(where, rows(20, 600), options)
    dataset.checkout_latest()
    dataset.delete("k % 50 = 1")


@state(since="2.0")
def mixed_file_versions(where: Path, options: dict[str, Any]) -> None:
    create(where, options)
    for number, other in enumerate({"2.0", "2.1", "2.2"} - {options["data_storage_version"]}):
        append(where, rows(30, 600 + 30 * number), options | {"data_storage_version": other})


@state()
def configured(where: Path, options: dict[str, Any]) -> None:
    dataset = create(where, options)
    dataset.update_config({"owner": "us"})
    dataset.update_schema_metadata({"note": "grüße"})
    dataset.update_field_metadata({"k": {"unit": "pieces"}})


@state()
def cloned(where: Path, options: dict[str, Any]) -> None:
    source = where.parent / "source"
    dataset = create(source, options)
    dataset.delete("k % 13 = 2")
    dataset.shallow_clone(str(where), dataset.version)
    clone = lance.dataset(where)
    clone.delete("k % 17 = 5")
    append(where, rows(25, 600), options)


@state()
def copied(where: Path, options: dict[str, Any]) -> None:
    source = where.parent / "source"
    dataset = create(source, options)
    dataset.delete("k % 13 = 2")
    dataset.deep_clone(str(where), dataset.version)


@state(since="2.0")
def spread_over_bases(where: Path, options: dict[str, Any]) -> None:
    bases = [
        lance.DatasetBasePath(str(where.parent / "near"), name="near", is_dataset_root=False, id=1),
        lance.DatasetBasePath(str(where.parent / "far"), name="far", is_dataset_root=True, id=2),
    ]
    for base in ("near", "far"):
        (where.parent / base).mkdir()
    lance.write_dataset(rows(200), where, initial_bases=bases, target_bases=["near"], max_rows_per_file=90, **options)
    lance.write_dataset(rows(50, 200), where, mode="append", target_bases=["far"], **options)
    append(where, rows(30, 250), options)
    lance.dataset(where).delete("k % 6 = 0")
