"""Creating an object only if it is absent: who wins, what is known afterwards, and what survives a crash."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import Bucket
from lancelet.errors import StorageError, UncertainPut
from lancelet.store import LocalStore, Store, open_store


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return LocalStore(tmp_path)
    if request.param == "memory":
        return open_store(f"memory://putting-{request.node.name.replace('[', '-').replace(']', '')}/t")
    bucket: Bucket = request.getfixturevalue("bucket")
    return open_store(f"{bucket.uri}/t", bucket.options)


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads take turns after every few instructions."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_one_of_many_wins(store: Store, busy_threads: None) -> None:
    with ThreadPoolExecutor(8) as pool:
        for turn in range(30):
            name = f"a/{turn}"
            assert list(pool.map(lambda _, name=name: store.put_if_absent(name, b""), range(8))).count(True) == 1
        won = list(pool.map(lambda number: store.put_if_absent("a/b/x", bytes([number]) * 1000), range(16)))
    assert won.count(True) == 1
    assert store.read_all("a/b/x") == bytes([won.index(True)]) * 1000
    assert [entry.path for entry in store.list_objects("a/b")] == ["a/b/x"], "no temporary file is left"


@pytest.mark.parametrize(
    "number, error",
    [
        (errno.EIO, UncertainPut),
        (errno.ESTALE, UncertainPut),
        (errno.ENOSPC, StorageError),
        (errno.EPERM, StorageError),
    ],
)
def test_a_link_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(error) as caught:
        LocalStore(tmp_path).put_if_absent("x", b"data")
    assert type(caught.value) is error
    if number == errno.EPERM:
        assert "no hard links" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been created while only the temporary file was written, so the failure is certain."""
    synced: list[int] = []

    def fail(descriptor: int) -> None:
        synced.append(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="No space left") as caught:
        LocalStore(tmp_path).put_if_absent("x", b"data")
    assert type(caught.value) is StorageError
    assert len(synced) == 1
    assert list(tmp_path.iterdir()) == []


def test_file_and_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to know the names of open files")
    monkeypatch.setattr(os, "fsync", watch)
    store = LocalStore(tmp_path)
    assert store.put_if_absent("a/b/x", b"data")
    folder = str(tmp_path)
    assert synced[0].startswith(f"{folder}/a/b/.x.")
    assert sorted(synced[1:]) == [folder, f"{folder}/a", f"{folder}/a/b"], "new folders are remembered above them too"
    synced.clear()
    assert not store.put_if_absent("a/b/x", b"data")
    assert len(synced) == 1


def test_a_folder_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (errno.EINVAL, errno.EIO):

        def fail(folder: str, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("lancelet.store.local.sync_folder", fail)
        with pytest.raises(UncertainPut, match="sync its folder"):
            LocalStore(tmp_path).put_if_absent(f"x{number}", b"data")
        assert (tmp_path / f"x{number}").read_bytes() == b"data"


def test_a_server_that_is_not_there() -> None:
    options = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_endpoint": "http://127.0.0.1:9",
        "aws_region": "us-east-1",
        "allow_http": "true",
        "client_max_retries": "0",
    }
    with pytest.raises(UncertainPut):
        open_store("s3://bucket/t", options).put_if_absent("x", b"data")


def test_a_bucket_that_is_not_there(bucket: Bucket) -> None:
    with pytest.raises((StorageError, FileNotFoundError)) as caught:
        open_store("s3://no-such-bucket-anywhere/t", bucket.options).put_if_absent("x", b"data")
    assert not isinstance(caught.value, UncertainPut)
