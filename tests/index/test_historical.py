"""Indices that others left: those of years past are used, those of kinds that we do not know are carried along."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancelet
from lancelet.format.proto import table_pb2
from lancelet.index.metadata import read_indices
from lancelet.index.registry import kind_of_entry
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit
from lancelet.table.manifest.snapshot import open_snapshot

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures" / "historical"
ENGINES = {"ours": lancelet, "pylance": lance}
Change = Callable[[Any, Path], object]


historical = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason="the historical tables (../shared/fixtures/historical) are not on this machine"
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the one historical table whose newest version has indices."""
    folders = [path.parent for path in FIXTURES.rglob("_versions")]
    (folder,) = [folder for folder in folders if open_snapshot(folder).manifest.indices]
    return shutil.copytree(folder, tmp_path / "t", copy_function=shutil.copyfile)


def messages(where: Path) -> dict[str, bytes]:
    """The entries of all indices as they are stored."""
    return {entry.name: entry.SerializeToString() for entry in open_snapshot(where).manifest.indices}


def conditions(column: str, values: list[int]) -> list[str]:
    found = [f"{column} is null", f"{column} is not null", f"{column} <> {values[0]}"]
    for value in values:
        found += [f"{column} {operator} {value}" for operator in ("=", "<", "<=", ">", ">=")]
    return [*found, f"{column} in ({', '.join(map(str, values))}, 777)", f"not ({column} = {values[-1]})"]


def check_answers(where: Path) -> None:
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    columns = [entry.field_names[0] for entry in ours.describe_indices() if entry.fields]
    whole = ours.to_table()
    for column in columns:
        values = sorted({value for value in whole[column].to_pylist() if value is not None})
        for text in conditions(column, [values[0], values[-1], values[len(values) // 2]]):
            truth = ours.to_table(filter=text, use_scalar_index=False)
            found = ours.to_table(filter=text)
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, truth.to_pylist())), text
            assert ours.count_rows(text) == truth.num_rows
            assert theirs.count_rows(text) == truth.num_rows, text


@historical
def test_they_are_described(old: Path) -> None:
    ours, theirs = lancelet.dataset(old), lance.dataset(old)
    shown = []
    for dataset in (ours, theirs):
        shown.append(
            [
                (index.name, index.index_type, index.fields, index.field_names, index.num_rows_indexed, index.type_url)
                for index in dataset.describe_indices()
            ]
        )
    assert sorted(shown[0]) == sorted(shown[1])
    for index in ours.describe_indices():
        mine, yours = (dataset.stats.index_stats(index.name) for dataset in (ours, theirs))
        for key in ("index_type", "num_indexed_rows", "num_unindexed_rows", "num_segments"):
            assert mine[key] == yours[key], (index.name, key)


@historical
def test_they_are_asked(old: Path) -> None:
    check_answers(old)
    dataset = lancelet.dataset(old)
    for entry in read_indices(dataset._snapshot.manifest):
        assert kind_of_entry(entry) is not None
        column = next(index.field_names[0] for index in dataset.describe_indices() if index.name == entry.name)
        assert f" {entry.name}: " in dataset.scanner(filter=f"{column} = 1").explain_plan()
        dataset.prewarm_index(entry.name)


@pytest.mark.parametrize("engine", ENGINES)
@historical
def test_they_are_kept_up(old: Path, engine: str) -> None:
    """Rows come and go, and the next writer does not mind how old the files were."""
    first = lancelet.dataset(old).to_table()
    column = first.schema.names[0]
    changes: list[Change] = [
        lambda dataset, where: lancelet.write_dataset(first.slice(0, 2), where, mode="append"),
        lambda dataset, where: dataset.delete(f"{column} = {first[column][1].as_py()}"),
        lambda dataset, where: dataset.optimize.optimize_indices(num_indices_to_merge=0),
        lambda dataset, where: dataset.optimize.optimize_indices(num_indices_to_merge=2),
        lambda dataset, where: dataset.optimize.compact_files(),
        lambda dataset, where: dataset.optimize.optimize_indices(retrain=True),
    ]
    for change in changes:
        change(ENGINES[engine].dataset(old), old)
        check_answers(old)
    statistics = lancelet.dataset(old).stats.index_stats(lancelet.dataset(old).describe_indices()[0].name)
    assert statistics["num_unindexed_rows"] == 0


# Kinds that we do not know


def rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    rng = np.random.default_rng(first)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(8 * count, np.float32)), 8)
    return pa.table({"k": numbers, "t": [f"some words {n}" for n in numbers], "v": vectors})


def strange(where: Path) -> None:
    """An entry of a kind that nobody knows, with a field that our messages do not have."""
    snapshot = open_snapshot(where)
    covered = BitMap(snapshot.manifest.fragments.ids.tolist()).serialize()
    entry = table_pb2.IndexMetadata(
        name="strange", fields=[0], dataset_version=snapshot.version, index_version=7, fragment_bitmap=covered
    )
    entry.uuid.uuid = uuid4().bytes
    entry.index_details.type_url = "/somebody.else.StrangeIndexDetails"
    entry.index_details.value = bytes(range(40))
    entry.MergeFromString(bytes([0xFA, 0x3F, 3]) + b"abc")
    commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),)))


def newer(where: Path) -> None:
    """A BTREE of a version that is to come."""
    dataset = lancelet.dataset(where)
    dataset.create_scalar_index("k", "BTREE", "strange")
    snapshot = open_snapshot(where)
    (old,) = (entry for entry in snapshot.manifest.indices if entry.name == "strange")
    entry = table_pb2.IndexMetadata()
    entry.CopyFrom(old)
    entry.index_version = 99
    commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),), (ops.IndexSegment.of(old),)))


UNKNOWN: dict[str, Callable[[Path], object]] = {
    "strange": strange,
    "newer": newer,
}


@pytest.mark.filterwarnings("ignore:.*stay as they are:UserWarning")
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("kind", UNKNOWN)
@pytest.mark.filterwarnings("ignore:.*lancelet does not extend:UserWarning")
def test_unknown_kinds_are_carried_along(tmp_path: Path, kind: str, stable: bool) -> None:
    where = tmp_path / "t"
    lance.write_dataset(rows(0, 300), where, max_rows_per_file=100, enable_stable_row_ids=stable)
    lance.dataset(where).create_scalar_index("k", "BITMAP")
    UNKNOWN[kind](where)
    stored = messages(where)["strange"]
    folder = where / "_indices" / str(UUID(bytes=table_pb2.IndexMetadata.FromString(stored).uuid.uuid))
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    changes: dict[str, Change] = {
        "append": lambda dataset, where: lancelet.write_dataset(rows(300, 50), where, mode="append"),
        "delete": lambda dataset, where: dataset.delete("k % 50 = 7"),
        "update": lambda dataset, where: dataset.update({"t": "'other'"}, where="k = 12"),
        "optimize": lambda dataset, where: dataset.optimize.optimize_indices(),
        "retrain": lambda dataset, where: dataset.optimize.optimize_indices(retrain=True),
        "another index": lambda dataset, where: dataset.create_scalar_index("k", "BTREE", "other"),
        "drop": lambda dataset, where: dataset.drop_index("other"),
        "metadata": lambda dataset, where: dataset.update_config({"a": "b"}),
        "compact": lambda dataset, where: dataset.optimize.compact_files(target_rows_per_fragment=1000),
        "optimize after": lambda dataset, where: dataset.optimize.optimize_indices(),
    }
    for name, change in changes.items():
        change(lancelet.dataset(where), where)
        now = messages(where)["strange"]
        if name in ("compact", "optimize after"):
            now = _apart_from_coverage(now)
            assert now == _apart_from_coverage(stored), name
        else:
            assert now == stored, name
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files, name
        dataset = lancelet.dataset(where)
        for text in ("k = 12", "k between 90 and 110", "t = 'some words 41'", "contains(t, 'words 30')"):
            truth = dataset.to_table(["k"], filter=text, use_scalar_index=False)
            assert dataset.to_table(["k"], filter=text).equals(truth), (name, text)
        assert "strange" not in dataset.scanner(filter="k = 12 and t = 'x'").explain_plan()
    assert "strange" in [index.name for index in lancelet.dataset(where).describe_indices()]
    assert lancelet.dataset(where).stats.index_stats("strange")["num_segments"] == 1


def _apart_from_coverage(data: bytes) -> bytes:
    entry = table_pb2.IndexMetadata.FromString(data)
    entry.ClearField("fragment_bitmap")
    return entry.SerializeToString()


def test_an_unknown_kind_can_be_dropped(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lance.write_dataset(rows(0, 50), where)
    strange(where)
    lancelet.dataset(where).drop_index("strange")
    assert lance.dataset(where).describe_indices() == []
