"""Local files: mapped, without descriptors, with memory given back."""

from __future__ import annotations

import gc
import os
import pickle
from pathlib import Path

import numpy as np
import psutil
import pytest

from lancelet.errors import CorruptFile, InvalidInput, MissingFile, StorageError
from lancelet.store import LocalStore, MappedSource, drop_resident_files, open_store, release_views
from lancelet.store import source as sources_of_files
from lancelet.store.mapped import MappedFile


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def test_reads_are_read_only_views_in_the_order_asked_for(store: LocalStore) -> None:
    store.put("a/b.bin", bytes(range(256)))
    source = store.open("a/b.bin")
    views = source.read([(100, 3), (0, 2), (256, 0), (7, 0)])
    assert [view.tolist() for view in views] == [[100, 101, 102], [0, 1], [], []]
    assert all(np.shares_memory(view, source.mapped) for view in views[:2])
    assert not views[0].flags.writeable
    assert (store.counters.requests, store.counters.bytes) == (4, 5)


def test_views_outlive_the_source_and_the_file(store: LocalStore) -> None:
    store.put("x", b"hello")
    (view,) = store.open("x").read([(1, 3)])
    store.delete("x")
    gc.collect()
    assert view.tobytes() == b"ell"


@pytest.mark.parametrize("offset, length", [(0, 6), (5, 1), (-1, 2), (2, -1), (0, 1 << 60), (1 << 63, 1 << 63)])
def test_ranges_outside_the_file_are_corruption(store: LocalStore, offset: int, length: int) -> None:
    store.put("x", b"hello")
    with pytest.raises(CorruptFile, match="the file has 5 bytes"):
        store.open("x").read([(offset, length)])


def test_an_empty_file(store: LocalStore) -> None:
    store.put("empty", b"")
    source = store.open("empty")
    assert source.size == 0
    assert source.read([(0, 0)])[0].size == 0
    source.release(0, 0)
    assert bytes(memoryview(MappedFile(store.join("empty")))) == b""


def test_an_open_file_costs_no_descriptor(store: LocalStore) -> None:
    store.put("x", b"hello")
    before = psutil.Process().num_fds()
    sources = [store.open("x") for _ in range(500)]
    # Threads of servers that other tests have started open and close theirs meanwhile.
    assert psutil.Process().num_fds() < before + 100
    assert sources[-1].read([(0, 5)])[0].tobytes() == b"hello"


def test_a_mapping_cannot_be_written(store: LocalStore) -> None:
    store.put("x", b"hello")
    with pytest.raises(TypeError, match="read-only"):
        memoryview(MappedFile(store.join("x")))[0] = 1


def resident() -> int:
    return psutil.Process().memory_info().rss


def test_released_pages_leave_memory_and_come_back(store: LocalStore) -> None:
    data = np.random.default_rng(0).integers(0, 256, 32 << 20, np.uint8)
    store.put("big", data.tobytes())
    source = store.open("big")
    before = resident()
    assert int(source.mapped.sum()) == int(data.sum())
    touched = resident()
    assert touched - before > 24 << 20
    source.release(0, source.size)
    assert touched - resident() > 24 << 20
    assert np.array_equal(source.mapped[5000:6000], data[5000:6000])


def test_files_below_views_leave_memory_and_come_back(store: LocalStore) -> None:
    for name in "ab":
        store.put(name, b"\1" * (16 << 20))
    sources = [store.open(name) for name in "ab"]
    views = [source.mapped for source in sources]
    own = np.ones(16 << 20, np.uint8)
    before = resident()
    assert sum(int(view.sum()) for view in views) == 32 << 20
    touched = resident()
    assert touched - before > 24 << 20
    part = views[1][4 << 20 :]
    release_views([(own.ctypes.data, own.nbytes), (part.ctypes.data, part.nbytes), (0, 1 << 40)])
    assert 8 << 20 < touched - resident() < 16 << 20
    assert [int(view[-1]) for view in views] == [1, 1]
    release_views([(view.ctypes.data, view.nbytes) for view in views])
    assert touched - resident() > 24 << 20
    assert sum(int(view.sum()) for view in (*views, own)) == 48 << 20


def test_all_files_leave_memory_before_other_work_and_come_back(store: LocalStore) -> None:
    for name in "ab":
        store.put(name, b"\1" * (16 << 20))
    sources = [store.open(name) for name in "ab"]
    assert sum(int(view.sum()) for source in sources for view in source.read([(0, source.size)])) == 32 << 20
    touched = resident()
    drop_resident_files()
    assert touched - resident() > 24 << 20
    assert sources[0].mapped[7] == 1


def test_what_is_held_leaves_room_and_comes_back_after_all_was_dropped(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_of_files, "HELD_LIMIT", 240 << 20)
    drop_resident_files()
    size = 48 << 20
    for name in "abcdefghij":
        store.put(name, bytes(size))
    sources = [store.open(name) for name in "abcdefghij"]
    before = resident()
    held = []
    for each in sources:
        held.append(each.hold(0, size))
        if held[-1]:
            assert int(each.mapped.max()) == 0
    assert held[0]
    assert not held[-1]
    assert held == [True] * 5 + [False] * 5
    assert resident() - before < 320 << 20
    assert [each.hold(0, size) for each in sources] == held, "what is held stays so, and nothing else gets in"
    # What is read beside it does not drive it out.
    for _ in range(4):
        assert int(sources[9].read([(0, size)])[0].max()) == 0
    assert resident() - before < 640 << 20
    assert [each.hold(0, size) for each in sources] == held
    drop_resident_files()
    assert sources[-1].hold(0, size)


def test_what_closed_files_held_can_be_held_by_others(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_of_files, "HELD_LIMIT", 100 << 20)
    drop_resident_files()
    size = 96 << 20
    for name in "abc":
        store.put(name, bytes(size))
        one = store.open(name)
        assert one.hold(0, size)
        assert int(one.mapped.max()) == 0
        del one


def test_scattered_reads_over_many_files_stay_bounded(store: LocalStore) -> None:
    size = 16 << 20
    for number in range(4):
        store.put(str(number), bytes(size))
    sources = [store.open(str(number)) for number in range(4)]
    before = resident()
    total = 0
    for _ in range(12):
        for source in sources:
            for view in source.read([(offset, 64) for offset in range(0, size - 64, 64 << 10)]):
                total += int(view[0])
    assert total == 0
    assert resident() - before < 200 << 20


def test_listing_is_sorted_and_a_missing_folder_is_empty(store: LocalStore) -> None:
    for path in ("b/2", "a", "b/1", "b/c/3"):
        store.put(path, b"x")
    assert [(entry.path, entry.size) for entry in store.list_objects()] == [
        ("a", 1),
        ("b/1", 1),
        ("b/2", 1),
        ("b/c/3", 1),
    ]
    assert [entry.path for entry in store.list_objects("b")] == ["b/1", "b/2", "b/c/3"]
    assert store.list_folders() == ["b"]
    assert list(store.list_objects("nowhere")) == []
    assert list(store.list_names("nowhere")) == []
    assert store.list_folders("nowhere") == []


def test_writes(store: LocalStore) -> None:
    assert store.put_if_absent("a/x", b"one")
    assert not store.put_if_absent("a/x", b"two")
    assert store.read_all("a/x") == b"one"
    store.put("a/x", b"two")
    store.copy("a/x", "b/y")
    assert store.read_tail("b/y", 2) == (b"wo", 3)
    assert store.read_tail("b/y", 200) == (b"two", 3)
    assert store.exists("b/y")
    store.delete("b/y")
    store.delete("b/y")
    assert not store.exists("b/y")
    assert [entry.path for entry in store.list_objects()] == ["a/x"]


def test_failures_name_the_file(store: LocalStore) -> None:
    store.put("folder/x", b"")
    for call in (store.open, store.read_all, store.size_of, lambda path: store.read_tail(path, 1)):
        with pytest.raises(MissingFile, match="folder/nope"):
            call("folder/nope")
        with pytest.raises(MissingFile, match="parent of it is a file"):
            call("folder/x/y")
    with pytest.raises(StorageError, match="directory"):
        store.open("folder")
    with pytest.raises(StorageError, match="null"):
        store.open("fol\0der")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions(store: LocalStore, tmp_path: Path) -> None:
    store.put("x", b"secret")
    (tmp_path / "x").chmod(0)
    with pytest.raises(StorageError, match="Permission denied"):
        store.open("x")


def test_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (
        open_store("a/b").uri
        == open_store(f"file://{tmp_path}/a/b").uri
        == open_store("~/a/./b").uri
        == f"{tmp_path}/a/b"
    )
    assert open_store(f"file://{tmp_path}/a%20b").uri == f"{tmp_path}/a b"
    assert open_store(Path("x")).join("y") == f"{tmp_path}/x/y"
    for uri in ("", "ftp://host/x", "s3://", "file://host/x"):
        with pytest.raises(InvalidInput):
            open_store(uri)
    with pytest.raises(InvalidInput, match="DynamoDB"):
        open_store("s3+ddb://bucket/path")
    external = open_store("s3+ddb://bucket/path?ddbTableName=t")
    assert (external.uri, external.options) == ("s3://bucket/path", {"manifest_store": "dynamodb://t"})


def test_a_store_can_be_pickled(store: LocalStore) -> None:
    store.put("x", b"hello")
    again = pickle.loads(pickle.dumps(store.child("y")))
    assert again.uri == store.join("y")
    assert isinstance(pickle.loads(pickle.dumps(store)).open("x"), MappedSource)
