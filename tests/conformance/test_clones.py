"""Clones: shallow and deep, of versions, tags, branches and other clones, made by one library and continued by the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.blob import blob_array, blob_field

import lancelet
from conformance.together import together
from conftest import Bucket
from lancelet.cloning.clone import deep_clone, shallow_clone
from lancelet.errors import CommitConflict, LanceletError, MissingFile, NotSupported, TableExists
from lancelet.store import open_store
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.testing import assert_identical

BOTH = [pytest.param(lancelet, lance, id="ours first"), pytest.param(lance, lancelet, id="pylance first")]


def rows(start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    vectors = np.repeat(numbers.astype(np.float32), 4)
    return pa.table(
        {
            "x": pa.array(numbers, pa.int64()),
            "s": pa.array([f"text {number % 7}" for number in numbers], pa.string()),
            "v": pa.FixedSizeListArray.from_arrays(vectors, 4),
        }
    )


def files_below(place: str | Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in Path(place).rglob("*") if path.is_file())


def table_of(dataset: Any) -> pa.Table:
    return dataset.to_table().sort_by("x")


def bases(dataset: Any) -> list[tuple[Any, ...]]:
    return sorted((b.id, b.name, b.path, b.is_dataset_root) for b in dataset.base_paths().values())


def plain(place: str) -> None:
    lance.write_dataset(rows(0, 40), place, max_rows_per_file=15)
    lance.write_dataset(rows(40, 5), place, mode="append")


def deleted(place: str) -> None:
    plain(place)
    lance.dataset(place).delete("x % 4 = 1")


def indexed(place: str) -> None:
    lance.write_dataset(rows(0, 600), place, max_rows_per_file=300)
    dataset = lance.dataset(place)
    dataset.create_scalar_index("x", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    dataset.delete("x < 10")


def evolved(place: str) -> None:
    lance.write_dataset(rows(0, 40), place, max_rows_per_file=15, enable_stable_row_ids=True)
    dataset = lance.dataset(place)
    dataset.add_columns({"y": "x * 2"})
    dataset.update({"s": "'new'"}, where="x < 5")
    dataset.update_config({"owner": "me"})


def spread(place: str) -> None:
    base = [lance.DatasetBasePath(f"{place}-near", "near"), lance.DatasetBasePath(f"{place}-far", "far", True)]
    lance.write_dataset(rows(0, 40), place, initial_bases=base, target_all_bases=True, max_rows_per_file=9)
    lance.dataset(place).delete("x < 3")


def old_names(place: str) -> None:
    lance.write_dataset(rows(0, 10), place, enable_v2_manifest_paths=False, data_storage_version="2.0")


def empty(place: str) -> None:
    lance.write_dataset(rows(0, 0), place)


HISTORIES = [plain, deleted, indexed, evolved, spread, old_names, empty]
each_history = pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)


# pylance looks for the files of a base path that is no table's root below data/, and cannot copy them.
COMPARED = [
    (kind, h) for kind in ("shallow_clone", "deep_clone") for h in HISTORIES if (kind, h) != ("deep_clone", spread)
]


@pytest.mark.parametrize(("kind", "history"), COMPARED, ids=lambda given: getattr(given, "__name__", given))
def test_clones_are_those_of_pylance(tmp_path: Path, kind: str, history: Callable[[str], None]) -> None:
    place = str(tmp_path / "t")
    history(place)
    before = files_below(place)
    expected = table_of(lance.dataset(place))
    version = lance.dataset(place).version
    ours = getattr(lancelet.dataset(place), kind)(tmp_path / "ours", version)
    theirs = getattr(lance.dataset(place), kind)(str(tmp_path / "theirs"), version)
    assert ours.uri == str(tmp_path / "ours")
    assert ours.version == theirs.version == version
    assert bases(ours) == bases(theirs)
    named = [
        {path for path in files_below(tmp_path / name) if not path.startswith("_transactions")}
        for name in ("ours", "theirs")
    ]
    assert named[0] == named[1]
    assert files_below(place) == before
    for name in ("ours", "theirs"):
        for library in (lance, lancelet):
            dataset = library.dataset(str(tmp_path / name))
            assert_identical(table_of(dataset), expected)
            dataset.validate()
            assert dataset.config() == lance.dataset(place).config()
            assert (library.dataset(place).to_table(filter="x = 33").num_rows) == dataset.count_rows("x = 33")
    made = [lance.dataset(str(tmp_path / name)) for name in ("ours", "theirs")]
    descriptions = [[(i.name, i.index_type, i.num_rows_indexed) for i in d.describe_indices()] for d in made]
    assert descriptions[0] == descriptions[1]
    assert str(made[0].get_transactions(1)[0].operation) == str(made[1].get_transactions(1)[0].operation)


@each_history
@pytest.mark.parametrize(("first", "second"), BOTH)
def test_a_clone_goes_its_own_way(tmp_path: Path, history: Callable[[str], None], first: Any, second: Any) -> None:
    place, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    history(place)
    before, source = files_below(place), table_of(lance.dataset(place))
    first.dataset(place).shallow_clone(clone, None)
    second.write_dataset(rows(1000, 6).select(["x", "s", "v"]), clone, mode="append")
    first.dataset(clone).delete("x % 10 = 2")
    second.dataset(clone).delete("x = 1001 or x = 17")
    lance.dataset(clone).update({"s": "'changed'"}, where="x % 10 = 3")
    expected = {x for x in [*source["x"].to_pylist(), *range(1000, 1006)] if x % 10 != 2 and x not in (1001, 17)}
    for library in (first, second):
        dataset = library.dataset(clone)
        dataset.validate()
        assert set(dataset.to_table()["x"].to_pylist()) == expected
        assert dataset.count_rows("s = 'changed'") == len([x for x in expected if x % 10 == 3])
    lance.dataset(clone).optimize.compact_files()
    assert set(lancelet.dataset(clone).to_table()["x"].to_pylist()) == expected
    assert files_below(place) == before
    assert_identical(table_of(lancelet.dataset(place)), source)


@each_history
def test_a_deep_clone_needs_no_source(tmp_path: Path, history: Callable[[str], None]) -> None:
    place, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    history(place)
    source = lance.dataset(place)
    expected, found = table_of(source), source.count_rows("x = 33")
    lancelet.dataset(place).deep_clone(clone, None)
    for folder in tmp_path.iterdir():
        if folder != Path(clone):
            shutil.rmtree(folder)
    for library in (lance, lancelet):
        dataset = library.dataset(clone)
        dataset.validate()
        assert_identical(table_of(dataset), expected)
        assert dataset.count_rows("x = 33") == found
    if history is indexed:
        query = {"column": "v", "q": [33.0] * 4, "k": 3}
        near = lance.dataset(clone).to_table(columns=["x"], nearest=query)["x"].to_pylist()
        assert sorted(near) == [32, 33, 34]
    lance.write_dataset(rows(1000, 1), clone, mode="append")
    assert lancelet.dataset(clone).count_rows() == len(expected) + 1


@pytest.mark.parametrize(("first", "second"), BOTH)
def test_clones_of_tags_branches_and_clones(tmp_path: Path, first: Any, second: Any) -> None:
    place = str(tmp_path / "t")
    plain(place)
    dataset = first.dataset(place)
    dataset.tags.create("one", 1)
    dev = first.write_dataset(rows(100, 3), dataset.create_branch("dev"), mode="append")
    dev.tags.create("on-dev")
    second.dataset(place).shallow_clone(str(tmp_path / "a"), "one")
    first.write_dataset(rows(200, 3), str(tmp_path / "a"), mode="append")
    second.dataset(str(tmp_path / "a")).shallow_clone(str(tmp_path / "b"), 2)
    second.write_dataset(rows(300, 3), str(tmp_path / "b"), mode="append")
    first.dataset(str(tmp_path / "b")).create_branch("inner", 3)
    first.dataset(str(tmp_path / "b")).shallow_clone(str(tmp_path / "c"), ("inner", None))
    first.dataset(place).shallow_clone(str(tmp_path / "d"), ("dev", 3))
    first.dataset(place).shallow_clone(str(tmp_path / "e"), "on-dev")
    second.dataset(place).checkout_version(("dev", None)).shallow_clone(str(tmp_path / "f"), 2)
    first.dataset(str(tmp_path / "c")).deep_clone(str(tmp_path / "g"), (None, None))
    numbers = {
        "a": [*range(40), *range(200, 203)],
        "b": [*range(40), *range(200, 203), *range(300, 303)],
        "d": [*range(45), 100, 101, 102],
        "f": list(range(45)),
    }
    numbers["c"] = numbers["g"] = numbers["b"]
    numbers["e"] = numbers["d"]
    for name, expected in numbers.items():
        for library in (first, second):
            assert sorted(library.dataset(str(tmp_path / name)).to_table()["x"].to_pylist()) == expected
    roots = [str(tmp_path / "t"), str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "b/tree/inner")]
    assert bases(lancelet.dataset(tmp_path / "c")) == [
        (number, "inner" if path.endswith("inner") else None, path, True) for number, path in enumerate(roots)
    ]
    assert bases(lance.dataset(str(tmp_path / "d"))) == [(0, None, place, True), (1, "dev", f"{place}/tree/dev", True)]
    assert lance.dataset(str(tmp_path / "g")).base_paths() == {}


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone"])
def test_a_clone_needs_a_place_of_its_own(tmp_path: Path, kind: str) -> None:
    for name in ("t", "other"):
        plain(str(tmp_path / name))
    before = files_below(tmp_path)
    for target in (tmp_path / "other", tmp_path / "t"):
        for library in (lance, lancelet):
            with pytest.raises(OSError, match="already exists"):
                getattr(library.dataset(str(tmp_path / "t")), kind)(str(target), 1)
        with pytest.raises(TableExists):
            getattr(lancelet.dataset(tmp_path / "t"), kind)(target, 2)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(("count", "rows_of_each"), [(70, 1), (2, 300_000)], ids=["many files", "large files"])
def test_deep_clones_that_threads_make(tmp_path: Path, count: int, rows_of_each: int) -> None:
    table = pa.table({"x": np.random.default_rng(0).integers(0, 2**62, count * rows_of_each)})
    source = lance.write_dataset(table, tmp_path / "t", max_rows_per_file=rows_of_each)
    clone = lancelet.dataset(tmp_path / "t").deep_clone(tmp_path / "clone", None)
    assert len(clone.get_fragments()) == count
    assert_identical(lance.dataset(tmp_path / "clone").to_table(), source.to_table())
    assert files_below(tmp_path / "clone/data") == files_below(tmp_path / "t/data")


def test_a_deep_clone_that_fails_leaves_no_files(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    indexed(place)
    lance.write_dataset(rows(600, 1), place, mode="append", target_bases=None)
    missing = max(Path(place, "_indices").rglob("*.idx"))
    missing.unlink()
    with pytest.raises(MissingFile, match=missing.name):
        lancelet.dataset(place).deep_clone(tmp_path / "clone", None)
    assert files_below(tmp_path / "clone") == []
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(LanceletError):
        lancelet.dataset(place).deep_clone(tmp_path / "file" / "clone", 1)
    lancelet.dataset(place, version=1).deep_clone(tmp_path / "clone", None)
    assert lance.dataset(str(tmp_path / "clone")).count_rows() == 600


def test_what_a_killed_clone_left_does_not_matter(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    plain(place)
    (tmp_path / "clone" / "data").mkdir(parents=True)
    for path in Path(place, "data").iterdir():
        (tmp_path / "clone" / "data" / path.name).write_bytes(path.read_bytes()[:100])
    (tmp_path / "clone" / "_cloning").write_text("x")
    before = files_below(tmp_path)
    with pytest.raises(CommitConflict, match="remove .*_cloning"):
        lancelet.dataset(place).deep_clone(tmp_path / "clone", None)
    assert files_below(tmp_path) == before
    (tmp_path / "clone" / "_cloning").unlink()
    lancelet.dataset(place).deep_clone(tmp_path / "clone", None)
    assert_identical(table_of(lance.dataset(str(tmp_path / "clone"))), table_of(lance.dataset(place)))
    assert "_cloning" not in files_below(tmp_path / "clone")


@pytest.mark.parametrize("remote", [False, True], ids=["local", "s3"])
def test_one_of_many_clones_into_a_folder_is_made(tmp_path: Path, bucket: Bucket, remote: bool) -> None:
    """They copy files of the same names, and those that fail must not remove them."""
    place = str(tmp_path / "t")
    indexed(place)
    source = open_snapshot(place)
    expected = table_of(lance.dataset(place))
    for attempt in range(3):
        where = f"{bucket.uri}/c{attempt}" if remote else str(tmp_path / f"c{attempt}")
        options = bucket.options if remote else None
        target = open_store(where, options)
        found = together(lambda n, target=target: (shallow_clone if n == 3 else deep_clone)(source, target), 4)
        assert len([kind for kind in found if not isinstance(kind, (CommitConflict, TableExists))]) == 1
        for library in (lance, lancelet):
            assert_identical(table_of(library.dataset(where, storage_options=options)), expected)


def test_one_name_in_two_places_cannot_be_cloned_deep(tmp_path: Path) -> None:
    """A table whose bases have different files of the same name."""
    where = str(tmp_path / "t")
    there = [lance.DatasetBasePath(str(tmp_path / name), name) for name in ("a", "b")]
    lance.write_dataset(rows(0, 20), where, initial_bases=there, target_all_bases=False, max_rows_per_file=10)
    first, second = (fragment.files[0] for fragment in open_snapshot(where).manifest.fragments)
    shutil.copy(tmp_path / "b" / second.path, tmp_path / "b" / first.path)
    dataset = lance.dataset(where)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    written = fragments[1].to_json()
    written["files"][0]["path"] = first.path
    changed = lance.FragmentMetadata.from_json(__import__("json").dumps(written))
    operation = lance.LanceOperation.Overwrite(dataset.schema, [fragments[0], changed])
    lance.LanceDataset.commit(where, operation)
    assert lancelet.dataset(where).count_rows() == 20
    with pytest.raises(NotSupported, match="same name"):
        lancelet.dataset(where).deep_clone(tmp_path / "clone", None)
    assert files_below(tmp_path / "clone") == []


# Blobs


def blobs(place: str, outside: Path) -> list[bytes | None]:
    """Blobs of every kind: in the data file, in files of their own, in a base path, anywhere."""
    (outside / "near").mkdir(parents=True)
    (outside / "near" / "n").write_bytes(b"near")
    (outside / "f").write_bytes(b"far")
    contents = [b"in", b"packed" * 20_000, b"alone" * 1_000_000, None, b"near", b"far"]
    given = [*contents[:4], (outside / "near" / "n").as_uri(), (outside / "f").as_uri()]
    schema = pa.schema([pa.field("x", pa.int64()), blob_field("b")])
    lance.write_dataset(
        pa.table([pa.array(range(len(given)), pa.int64()), blob_array(given)], schema=schema),
        place,
        initial_bases=[lance.DatasetBasePath(str(outside / "near"), "near")],
        allow_external_blob_outside_bases=True,
    )
    return contents


def contents_of(dataset: Any, count: int) -> list[bytes | None]:
    return [None if blob is None else blob.readall() for blob in dataset.take_blobs("b", indices=range(count))]


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone"])
def test_blobs_of_clones(tmp_path: Path, kind: str) -> None:
    """pylance forgets the base paths that blobs refer to when it clones deep; we keep them."""
    place = str(tmp_path / "t")
    expected = blobs(place, tmp_path / "outside")
    getattr(lancelet.dataset(place), kind)(tmp_path / "clone", 1)
    if kind == "deep_clone":
        shutil.rmtree(place)
    for library in (lance, lancelet):
        assert contents_of(library.dataset(str(tmp_path / "clone")), len(expected)) == expected
    assert len([path for path in files_below(tmp_path / "clone") if path.endswith(".blob")]) == (
        2 if kind == "deep_clone" else 0
    )


# Stores


def test_clones_between_stores(tmp_path: Path, bucket: Bucket) -> None:
    place = str(tmp_path / "t")
    deleted(place)
    expected = table_of(lance.dataset(place))
    there = f"{bucket.uri}/deep"
    lancelet.dataset(place).deep_clone(there, None, storage_options=bucket.options)
    remote = lancelet.dataset(there, storage_options=bucket.options)
    assert_identical(table_of(lance.dataset(there, storage_options=bucket.options)), expected)
    again = remote.deep_clone(f"{bucket.uri}/again", None)
    assert_identical(table_of(again), expected)
    back = remote.deep_clone(str(tmp_path / "back"), None)
    assert_identical(table_of(lance.dataset(back.uri)), expected)
    shallow = remote.shallow_clone(f"{bucket.uri}/shallow", None)
    lancelet.write_dataset(rows(500, 5), shallow, mode="append")
    theirs = lance.dataset(f"{bucket.uri}/shallow", storage_options=bucket.options)
    assert theirs.count_rows() == len(expected) + 5
    third = remote.deep_clone("memory://clones/deep", None, storage_options={})
    assert_identical(table_of(third), expected)


def test_a_store_copies_within_itself(bucket: Bucket) -> None:
    """No bytes of the data go through this process."""
    place = f"{bucket.uri}/t"
    lancelet.write_dataset(rows(0, 5000), place, storage_options=bucket.options, max_rows_per_file=1000)
    source = open_snapshot(place, storage_options=bucket.options)
    size = sum(file.size or 0 for fragment in source.manifest.fragments for file in fragment.files)
    before = source.store.counters.bytes
    deep_clone(source, open_store(f"{bucket.uri}/copy", bucket.options))
    assert source.store.counters.bytes - before < size / 10
    copy = lancelet.dataset(f"{bucket.uri}/copy", storage_options=bucket.options)
    assert copy.count_rows() == 5000


def test_a_copied_table_works_at_its_new_place(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    indexed(place)
    lancelet.dataset(place).tags.create("v", 1)
    expected = table_of(lance.dataset(place))
    shutil.copytree(place, tmp_path / "moved" / "there")
    shutil.rmtree(place)
    for library in (lancelet, lance):
        dataset = library.dataset(str(tmp_path / "moved" / "there"))
        assert_identical(table_of(dataset).slice(0, len(expected)), expected)
        assert dataset.checkout_version("v").count_rows() == 600
        dataset.validate()
        library.write_dataset(rows(900, 1), dataset, mode="append")
    assert lance.dataset(str(tmp_path / "moved" / "there")).count_rows() == len(expected) + 2
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]
