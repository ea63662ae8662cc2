"""What every store promises beyond reading: one list of behaviour for all of them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from faults.stores import Fault, FaultyStore, Killed
from lancelet.errors import MissingFile, StorageError
from lancelet.store import LocalStore, Store, open_store
from lancelet.store.removal import remove_below
from lancelet.store.transfer import copy_object


def memory() -> Store:
    return open_store(f"memory://behaviour-{uuid.uuid4().hex}/t")


@pytest.fixture(params=["local", "memory", "s3", "faulty"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return memory()
    if request.param == "s3":
        bucket = request.getfixturevalue("bucket")
        return open_store(f"{bucket.uri}/t", bucket.options)
    local = LocalStore(tmp_path / "t")
    return FaultyStore(local) if request.param == "faulty" else local


def paths(store: Store) -> list[str]:
    return [entry.path for entry in store.list_objects()]


def fill(store: Store, *names: str) -> None:
    for name in names:
        store.put(name, name.encode())


def test_new_objects(store: Store) -> None:
    store.put_new("a/x", b"first")
    store.put_new("a/x", b"second")
    store.put_hint("a/hint", b"first")
    store.put_hint("a/hint", b"second")
    sink = store.open_sink("b/y")
    sink.write(b"piece ")
    sink.write(b"by piece")
    assert sink.tell() == 14
    sink.finish()
    store.settle(["a/x", "b/y"])
    store.settle([])
    assert {path: store.read_all(path) for path in paths(store)} == {
        "a/hint": b"second",
        "a/x": b"first",
        "b/y": b"piece by piece",
    }


def test_a_sink_that_is_given_up(store: Store) -> None:
    sink = store.open_sink("x")
    sink.write(b"anything")
    sink.abort()
    assert paths(store) == []


def test_many_are_deleted(store: Store) -> None:
    fill(store, "a", "b/c", "b/d/e", "f")
    assert store.delete_many([]) == []
    assert store.delete_many(["a"]) == []
    assert store.delete_many(["a", "b/d/e", "f", "nothing/here"], lasting=True) == []
    assert paths(store) == ["b/c"]


def test_very_many_are_deleted(tmp_path: Path) -> None:
    """Two threads share the work, and a folder two levels down goes with its last file."""
    store = LocalStore(tmp_path)
    names = [f"data/x/{number}" for number in range(1100)]
    for name in names:
        store.put_new(name, b"")
    (tmp_path / "data" / "x" / "stubborn").mkdir()
    assert store.delete_many([*names, "data/x/stubborn"]) == ["data/x/stubborn"]
    assert (tmp_path / "data" / "x").is_dir()
    (tmp_path / "data" / "x" / "stubborn").rmdir()
    assert store.delete_many(["data/x/0"]) == []
    assert not (tmp_path / "data" / "x").exists()


def test_folders_are_removed(store: Store) -> None:
    fill(store, "a/x", "a/b/y", "a/b/c/z", "a/bc/w", "d/v")
    store.remove_folder("a", ["a/b"])
    assert paths(store) == ["a/b/c/z", "a/b/y", "d/v"]
    store.remove_folder("nothing/here")
    remove_below(store, "", keep=["d"], last="a/b/c")
    assert paths(store) == ["d/v"]
    store.remove_folder("")
    assert paths(store) == []


def test_what_is_to_go_last_outlives_a_failure(tmp_path: Path) -> None:
    local = LocalStore(tmp_path)
    fill(local, "a", "b", "last/c")
    store = FaultyStore(local)
    remove_below(store, "", last="last")
    deletes = [number for number, call in enumerate(store.calls) if call.startswith("delete")]
    assert [store.calls[number] for number in deletes] == ["delete a", "delete b", "delete last/c"]
    for number in deletes[:2]:
        fill(local, "a", "b", "last/c")
        with pytest.raises(Killed):
            remove_below(FaultyStore(local, number, Fault.KILLED_AFTER), "", last="last")
        assert local.exists("last/c")


def test_copies_by_the_stores_own_means(store: Store) -> None:
    fill(store, "a/x", "b/y")
    other = store.child("b")
    if isinstance(store, FaultyStore):
        assert store.copy_from(other, "y", "a/x")
    else:
        assert other.copy_from(store, "a/x", "new/folder/z")
        assert store.read_all("b/new/folder/z") == b"a/x"
        assert store.copy_from(other, "y", "a/x", 3)
    assert store.read_all("a/x") == b"b/y", "what was there is replaced"
    store.settle(["a/x"])
    with pytest.raises((MissingFile, StorageError)):
        store.copy_from(other, "nothing", "a/y")
    assert not store.exists("a/y")


def test_copies_between_kinds(store: Store, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    for source, target in ((store, memory()), (memory(), store), (store, LocalStore(tmp_path / "other"))):
        source.put("x/y", content)
        target.put("z", b"before")
        copy_object(source, "x/y", target, "z")
        assert target.read_all("z") == content
        copy_object(source, "x/y", target, "w", len(content))
        assert target.read_all("w") == content


def test_other_kinds_are_left_to_the_caller(tmp_path: Path) -> None:
    local, remote = LocalStore(tmp_path), memory()
    fill(local, "x")
    fill(remote, "x")
    assert not local.copy_from(remote, "x", "y")
    assert not remote.copy_from(local, "x", "y")
    assert not remote.copy_from(memory(), "x", "y"), "another bucket"
    assert paths(local) == paths(remote) == ["x"]
