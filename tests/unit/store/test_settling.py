"""What a write makes lasts before a version refers to it: synced all together, files before the folders that name them."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import MissingFile, StorageError
from lancelet.fragment import write_fragments
from lancelet.store.local import LocalStore
from lancelet.table.commit.written import WrittenFiles


class Syscalls:
    """What was synced and linked, in order, by path relative to a folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self._folder = folder
        self._fsync, self._link = os.fsync, os.link
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "link", self.link)

    def fsync(self, descriptor: int) -> None:
        self.seen.append(f"sync {self._name(str(Path(f'/proc/self/fd/{descriptor}').readlink()))}")
        self._fsync(descriptor)

    def link(self, source: str, target: str) -> None:
        self.seen.append(f"link {self._name(target)}")
        self._link(source, target)

    def _name(self, path: str) -> str:
        name = os.path.relpath(path, self._folder)
        return f"{name.rpartition('/')[0]}/*" if "." in Path(name).name and name != "." else name


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Syscalls:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to know the names of open files")
    return Syscalls(tmp_path, monkeypatch)


def test_nothing_is_synced_before_it_is_asked_for(tmp_path: Path, calls: Syscalls) -> None:
    store = LocalStore(tmp_path / "t")
    sink = store.open_sink("data/a.lance")
    sink.write(b"x" * 3_000_000)
    sink.finish()
    store.put_new("_transactions/b.txn", b"y")
    store.put_hint("_versions/hint.json", b"z")
    assert calls.seen == []
    store.settle(["data/a.lance", "_transactions/b.txn"])
    assert sorted(calls.seen[:2]) == ["sync t/_transactions/*", "sync t/data/*"]
    assert sorted(calls.seen[2:]) == ["sync .", "sync t", "sync t/_transactions", "sync t/data"]
    calls.seen.clear()
    store.settle(["data/a.lance"])
    assert calls.seen == ["sync t/data/*", "sync t/data"], "folders are new only once"


def test_the_files_of_a_commit_are_synced_before_its_version(tmp_path: Path, calls: Syscalls) -> None:
    rows = pa.table({"x": [1, 2, 3]})
    for mode in ("create", "append", "overwrite"):
        calls.seen.clear()
        lancelet.write_dataset(rows, tmp_path / "t", mode=mode, max_rows_per_file=2)
        version = calls.seen.index("link t/_versions/*")
        assert calls.seen[:version].count("sync t/data/*") == 2
        for name in ("sync t/data", "sync t/_versions/*"):
            assert name in calls.seen[:version], (mode, name)
        assert "sync t/_transactions/*" not in calls.seen, "the manifest has the transaction too"
        assert "sync t/_versions" in calls.seen[version:]
    calls.seen.clear()
    lancelet.dataset(tmp_path / "t").delete("x = 1")
    version = calls.seen.index("link t/_versions/*")
    assert "sync t/_deletions/*" in calls.seen[:version]
    assert "sync t/_deletions" in calls.seen[:version]
    assert "sync t" in calls.seen[:version], "the folder is new"


def test_fragments_that_somebody_else_commits_are_synced(tmp_path: Path, calls: Syscalls) -> None:
    write_fragments(pa.table({"x": [1, 2, 3]}), str(tmp_path / "t"))
    assert calls.seen[0] == "sync t/data/*"
    assert sorted(calls.seen[1:]) == ["sync .", "sync t", "sync t/data"]


def test_a_disk_that_fails_to_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset(pa.table({"x": [1]}), where)
    before = sorted(path for path in where.rglob("*") if path.is_file())

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StorageError, match="Input/output error"):
            lancelet.write_dataset(pa.table({"x": [2]}), where, mode="append")
        with pytest.raises(StorageError, match="Input/output error"):
            write_fragments(pa.table({"x": [1, 2, 3]}), str(where))
    assert sorted(path for path in where.rglob("*") if path.is_file()) == before
    assert lancelet.dataset(where).version == 1


def test_a_file_that_is_replaced_or_copied_lasts(tmp_path: Path, calls: Syscalls) -> None:
    store = LocalStore(tmp_path)
    store.put("a/x", b"first")
    assert calls.seen[0] == "sync a/*"
    assert sorted(calls.seen[1:]) == ["sync .", "sync a"], "folders side by side"
    calls.seen.clear()
    store.put("a/x", b"second")
    assert calls.seen == ["sync a/*", "sync a"]
    calls.seen.clear()
    store.copy("a/x", "a/y")
    assert calls.seen == ["sync a/*", "sync a"]
    assert (tmp_path / "a" / "y").read_bytes() == b"second"
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["x", "y"]


def test_a_file_that_went_away_is_not_committed(tmp_path: Path) -> None:
    files = WrittenFiles(LocalStore(tmp_path))
    files.add("data/gone.lance")
    files.put("data/here.lance", b"x")
    with pytest.raises(MissingFile, match=r"gone\.lance"):
        files.__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_is_never_written_over(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_new("x", b"first")
    store.put_new("x", b"second")
    assert (tmp_path / "x").read_bytes() == b"first"


@pytest.mark.parametrize("pieces", [(0,), (5, 0, 7), (1 << 20,), (3, (1 << 20) - 4, 2), (5 << 20, 1, 3 << 20)])
def test_pieces_of_any_size(tmp_path: Path, pieces: tuple[int, ...]) -> None:
    sink = LocalStore(tmp_path).open_sink("x")
    parts = [os.urandom(size) for size in pieces]
    for part in parts:
        sink.write(part)
    assert sink.tell() == sum(pieces)
    sink.finish()
    sink.abort()
    assert (tmp_path / "x").read_bytes() == b"".join(parts)


def test_a_sink_that_is_given_up(tmp_path: Path) -> None:
    sink = LocalStore(tmp_path).open_sink("x")
    sink.write(b"y" * (2 << 20))
    sink.abort()
    sink.abort()
    assert list(tmp_path.iterdir()) == []


def test_folders_that_were_made_and_are_gone_are_nobody_s_error(tmp_path: Path) -> None:
    """Stores of one table share what is to be synced: one may have removed what another made."""
    store = LocalStore(str(tmp_path))
    store.child("made/inside").put_new("file", b"1")
    shutil.rmtree(tmp_path / "made")
    store.put_new("other", b"2")
    store.settle(["other"])
    with pytest.raises(MissingFile):
        store.settle(["made/inside/file"])


def test_threads_make_folders_while_others_settle(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))

    def work(number: int) -> None:
        for turn in range(40):
            child = store.child(f"{number}/{turn}/deep/er")
            child.put_new("file", b"1")
            child.settle(["file"])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(list(tmp_path.rglob("file"))) == 320
