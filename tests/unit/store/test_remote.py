"""Memory and S3: the same promises, over obstore."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from conftest import Bucket
from lancelet.errors import CorruptFile, InvalidInput, MissingFile, StorageError
from lancelet.store import Store, open_store
from lancelet.store.options import sort_options

MEBI = 1 << 20


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return open_store(f"memory://{request.node.name.replace('[', '-').replace(']', '')}/table")
    bucket = request.getfixturevalue("bucket")
    return open_store(f"{bucket.uri}/table", bucket.options)


def test_reads_are_gathered(store: Store) -> None:
    data = np.random.default_rng(0).integers(0, 256, 20 * MEBI, np.uint8)
    store.put("d/x", data.tobytes())
    source = store.open("d/x", len(data))
    assert source.mapped is None
    store.counters.reset()
    ranges = [(10, 20), (7, 0), (5, 100), (60_000, 50), (5 * MEBI, 10), (5 * MEBI - 10, 10)]
    views = source.read(ranges)
    for (offset, length), view in zip(ranges, views, strict=True):
        assert np.array_equal(view, data[offset : offset + length])
        assert not view.flags.writeable
    assert store.counters.requests == 2
    assert source.read([]) == []
    store.counters.reset()
    long, after = source.read([(3, 18 * MEBI), (18 * MEBI + 3, 5)])
    assert np.array_equal(long, data[3 : 18 * MEBI + 3])
    assert np.array_equal(after, data[18 * MEBI + 3 : 18 * MEBI + 8])
    assert not long.flags.writeable
    assert not after.flags.writeable
    assert store.counters.requests == 2
    assert store.counters.bytes == 18 * MEBI + 5


def test_the_end_of_an_object_is_read_once(store: Store) -> None:
    data = np.random.default_rng(0).integers(0, 256, MEBI, np.uint8)
    store.put("x", data.tobytes())
    source = store.open("x", MEBI)
    store.counters.reset()
    source.read([(MEBI - 1000, 1000)])
    ranges = [(MEBI - 10, 10), (5, 100), (MEBI - 1000, 1), (MEBI, 0), (MEBI - 1001, 2)]
    for (offset, length), view in zip(ranges, source.read(ranges), strict=True):
        assert np.array_equal(view, data[offset : offset + length])
        assert not view.flags.writeable
    assert (store.counters.requests, store.counters.bytes) == (3, 1102)
    assert source.mapped is None


def test_a_small_object_is_in_memory_once_it_was_read(store: Store) -> None:
    store.put("x", b"hello world")
    source = store.open("x", 11)
    assert source.mapped is None
    source.read([(0, 11)])
    store.counters.reset()
    assert source.mapped is not None
    assert source.mapped.tobytes() == b"hello world"
    assert [view.tobytes() for view in source.read([(6, 5), (0, 0), (0, 5)])] == [b"world", b"", b"hello"]
    assert store.counters.requests == 0


def test_a_size_is_only_asked_for_when_unknown(store: Store) -> None:
    store.put("x", b"hello")
    store.counters.reset()
    assert store.open("x", 5).read([(0, 5)])[0].tobytes() == b"hello"
    assert store.counters.requests == 1
    assert store.open("x").size == 5
    assert store.counters.requests == 2


@pytest.mark.parametrize(
    "claimed, offset, length", [(1 << 60, 0, 1 << 59), (1 << 60, 1 << 50, 9), (8, 6, 2), (8, 2, 6)]
)
def test_a_size_that_lies_is_corruption(store: Store, claimed: int, offset: int, length: int) -> None:
    store.put("x", b"hello")
    with pytest.raises(CorruptFile):
        store.open("x", claimed).read([(offset, length)])


def test_listing(store: Store) -> None:
    for path in ("b/2", "a", "b/1", "b/c/3"):
        store.put(path, b"x")
    assert [entry.path for entry in store.list_objects()] == ["a", "b/1", "b/2", "b/c/3"]
    assert [entry.path for entry in store.list_objects("b")] == ["b/1", "b/2", "b/c/3"]
    assert list(store.list_names("b")) == ["1", "2"]
    assert store.list_folders() == ["b"]
    assert store.list_folders("b") == ["c"]
    assert list(store.list_names("nowhere")) == []
    assert store.child("b").read_all("c/3") == b"x"


def test_writes(store: Store) -> None:
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


def test_failures_name_the_object(store: Store) -> None:
    for call in (store.open, store.read_all, store.size_of, lambda path: store.read_tail(path, 1)):
        with pytest.raises(MissingFile, match="table/folder/nope"):
            call("folder/nope")
    with pytest.raises(StorageError):
        store.read_all("../x")


def test_a_store_can_be_pickled(store: Store) -> None:
    store.put("x", b"hello")
    assert pickle.loads(pickle.dumps(store)).read_all("x") == b"hello"


def test_nobody_listens() -> None:
    options = {"aws_endpoint": "http://127.0.0.1:1", "allow_http": "true", "client_max_retries": "0"}
    store = open_store("s3://bucket/x", {**options, "aws_access_key_id": "a", "aws_secret_access_key": "b"})
    with pytest.raises(StorageError, match="s3://bucket/x/y") as caught:
        store.read_all("y")
    assert "Debug source" not in str(caught.value)


def test_memory_stores_are_shared_by_name() -> None:
    open_store("memory://shared/one").put("x", b"1")
    assert open_store("memory://shared").read_all("one/x") == b"1"
    assert not open_store("memory://other").exists("one/x")


def test_options_are_sorted_out_by_store() -> None:
    options = {
        "aws_access_key_id": "a",
        "region": "r",
        "GOOGLE_SERVICE_ACCOUNT": "s",
        "azure_storage_account_name": "n",
        "allow_http": "TRUE",
        "client_max_retries": "3",
        "timeout": "30s",
    }
    s3 = sort_options("s3", options)
    assert s3.config == {"access_key_id": "a", "region": "r"}
    assert s3.client == {"allow_http": True, "timeout": "30s"}
    assert s3.retry == {"max_retries": 3}
    assert sort_options("gs", options).config == {"service_account": "s"}
    assert sort_options("az", options).config == {"account_name": "n"}


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("aws_acess_key_id", "x", "did you mean 'aws_access_key_id'"),
        ("allow_http", "perhaps", "must be 'true' or 'false'"),
        ("client_max_retries", "many", "whole number"),
        ("conditional_put", "nonsense", "cannot open s3://bucket"),
    ],
)
def test_bad_options_are_refused(option: str, value: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_store("s3://bucket/x", {option: value}).exists("y")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_refuses_instead_of_hanging(bucket: Bucket) -> None:
    script = f"""
        import os
        from lancelet.errors import StorageError
        from lancelet.store import open_store
        store = open_store({bucket.uri!r}, {bucket.options!r})
        store.put("x", b"1")
        if os.fork() == 0:
            try:
                store.read_all("x")
            except StorageError as error:
                os._exit(7 if "spawn" in str(error) else 1)
            os._exit(2)
        _, status = os.wait()
        assert store.read_all("x") == b"1"
        raise SystemExit(os.waitstatus_to_exitcode(status))
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=60, check=False)
    assert result.returncode == 7
