"""The local file system: files are mapped, writes go through a temporary name."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lancelet.errors import MissingFile, PathNotAllowed, StorageError, UncertainPut
from lancelet.runtime.interrupts import deferred
from lancelet.runtime.metrics import answered, given, measured
from lancelet.runtime.threads import Pool
from lancelet.store.base import ObjectInfo
from lancelet.store.limit import Limit, is_in
from lancelet.store.local_files import (
    copy_bytes,
    failures,
    remove_file,
    remove_if_empty,
    remove_tree,
    sync_file,
    sync_folder,
    unlink_all,
    write_all,
)
from lancelet.store.local_sink import WORTHWHILE, LocalSink
from lancelet.store.mapped import MappedFile
from lancelet.store.source import ByteSource, Counters, MappedSource
from lancelet.store.writeback import start_writing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lancelet.store.base import Store

# A network file system that failed after it had carried out a request, perhaps.
_SILENCE = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNRESET, errno.EINTR)
_TRIES = 5
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


_SYNCS = Pool("lancelet-sync", 8)


def _settle_file(full: str) -> None:
    with failures(full):
        sync_file(full)


def _settle_folder(folder: str, *, is_needed: bool) -> None:
    try:
        sync_folder(folder)
    except FileNotFoundError:
        # What we made a folder in may be gone with it: then there is nothing to remember.
        if is_needed:
            raise


class _Staged:
    """A file under a temporary name, still open."""

    __slots__ = ("file", "is_renamed", "path")

    def __init__(self, path: str, file: int) -> None:
        self.path = path
        self.file = file
        self.is_renamed = False

    def rename(self, path: str) -> None:
        """Give it its final name, replacing an existing file."""
        os.replace(self.path, path)  # noqa: PTH105 - a Path takes longer than the call
        self.is_renamed = True


class LocalStore:
    """A folder of the local file system. It may be forked, and copied to other processes."""

    __slots__ = ("_grown", "_made", "_root", "counters", "options")

    scheme = "file"
    is_local = True
    lists_in_order = False

    def __init__(self, root: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> None:
        # abspath, not resolve: a table that is reached through a symbolic link keeps the name the user gave.
        self._root = os.path.abspath(os.path.expanduser(root))  # noqa: PTH100, PTH111
        self.options: Mapping[str, str] = dict(options or {})
        self.counters = Counters()
        # Folders in which we made others, until they are synced.
        self._grown: set[str] = set()
        # Folders that we made: they go with the last file that we remove from them.
        self._made: set[str] = set()

    def __getstate__(self) -> tuple[str, Mapping[str, str]]:
        return self._root, self.options

    def __setstate__(self, state: tuple[str, Mapping[str, str]]) -> None:
        self._root, self.options = state
        self.counters = Counters()
        self._grown = set()
        self._made = set()

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    @property
    def uri(self) -> str:
        return self._root

    def join(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}" if path else self._root

    def child(self, path: str) -> LocalStore:
        store = type(self)(self.join(path), self.options)
        store.counters = self.counters
        store._grown, store._made = self._grown, self._made
        return store

    def open(self, path: str, size: int | None = None) -> ByteSource:
        full = self.join(path)
        with failures(full):
            return MappedSource(full, MappedFile(full), self.counters)

    @measured("get", answered)
    def read_all(self, path: str) -> bytes:
        full = self.join(path)
        with failures(full):
            data = Path(full).read_bytes()
        return self._counted(data)

    @measured("get", answered)
    def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
        full = self.join(path)
        with failures(full):
            file = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
            try:
                size = os.fstat(file).st_size
                data = os.pread(file, nbytes, max(size - nbytes, 0))
            finally:
                os.close(file)
        return self._counted(data), size

    @measured("head")
    def size_of(self, path: str) -> int:
        full = self.join(path)
        with failures(full):
            return Path(full).stat().st_size

    @measured("head")
    def exists(self, path: str) -> bool:
        return Path(self.join(path)).is_file()

    def list_objects(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self.counters.lists += 1
        yield from self._walk(prefix)

    def _walk(self, prefix: str) -> Iterator[ObjectInfo]:
        for entry in self._scan(prefix):
            path = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_dir():
                yield from self._walk(path)
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                # Another process removed it between the listing and now.
                continue
            yield ObjectInfo(path, status.st_size, datetime.fromtimestamp(status.st_mtime, timezone.utc))

    @measured("list")
    def list_names(self, prefix: str) -> list[str]:
        """Names of the files directly in a folder, unsorted, without asking for their sizes."""
        self.counters.lists += 1
        full = self.join(prefix)
        try:
            with failures(full):
                return os.listdir(full)  # noqa: PTH208 - one call, and nothing to close
        except MissingFile:
            return []

    def list_folders(self, prefix: str = "") -> list[str]:
        self.counters.lists += 1
        return [entry.name for entry in self._scan(prefix) if entry.is_dir()]

    @measured("list")
    def _scan(self, prefix: str) -> list[os.DirEntry[str]]:
        full = self.join(prefix)
        try:
            with failures(full), os.scandir(full) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except MissingFile:
            return []

    @measured("put", given)
    def put(self, path: str, data: bytes) -> None:
        full = self.join(path)
        with failures(full), self._staged(full, data) as temporary:
            os.fsync(temporary.file)
            temporary.rename(full)
            self._sync_folders({full.rpartition("/")[0]})

    @measured("put", given)
    def put_hint(self, path: str, data: bytes) -> None:
        """Write a file that nothing depends on, replacing an existing one; a crash of the machine may lose it."""
        full = self.join(path)
        with failures(full), self._staged(full, data) as temporary:
            temporary.rename(full)

    @measured("put", given)
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file only if there is none. It survives a crash of the machine once this returns True."""
        full = self.join(path)
        with failures(full), self._staged(full, data) as temporary:
            os.fsync(temporary.file)
            try:
                os.link(temporary.path, full)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise StorageError(
                        full,
                        "the file system has no hard links, without which two writers could both win; keep the "
                        "versions of this table in a manifest store (storage option 'manifest_store')",
                    ) from None
                if error.errno in _SILENCE:
                    raise UncertainPut(full, error.strerror or str(error)) from None
                raise
            try:
                self._sync_folders({full.rpartition("/")[0]})
            except OSError as error:
                raise UncertainPut(full, f"cannot sync its folder: {error.strerror or error}") from None
        return True

    @measured("copy")
    def copy(self, source: str, target: str) -> None:
        full, origin = self.join(target), self.join(source)
        with failures(origin), self._staged(full, b"") as temporary:
            shutil.copyfile(origin, temporary.path)
            os.fsync(temporary.file)
            temporary.rename(full)
            self._sync_folders({full.rpartition("/")[0]})

    @measured("copy")
    def copy_from(self, source: Store, path: str, target: str, size: int | None = None) -> bool:
        if not isinstance(source, LocalStore):
            return False
        origin, full = source.join(path), self.join(target)
        with failures(origin):
            read = os.open(origin, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with failures(full):
                self._copy_open(read, full)
        finally:
            os.close(read)
        return True

    def _copy_open(self, read: int, full: str) -> None:
        try:
            write = os.open(full, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        except FileNotFoundError:
            write = self._open_new(full)
        try:
            copy_bytes(read, write)
            size = os.fstat(write).st_size
            if size >= WORTHWHILE:
                # A sync that comes later waits less.
                start_writing(write, 0, size)
        finally:
            os.close(write)

    @measured("delete")
    def delete(self, path: str) -> None:
        full = self.join(path)
        with failures(full):
            remove_file(full)

    @measured("delete")
    def delete_many(self, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
        files = {self.join(path): path for path in paths}
        failed = [files[full] for full in unlink_all(list(files))]
        for folder in {path.rpartition("/")[0] for path in paths}:
            if "/" in folder:
                remove_if_empty(self.join(folder))
            elif lasting:
                with suppress(FileNotFoundError):
                    sync_folder(self.join(folder))
            self._unmake(self.join(folder))
        return failed

    def _unmake(self, folder: str) -> None:
        """Remove a folder, and those above it, as far as we made them and they are empty."""
        while folder in self._made:
            remove_if_empty(folder)
            if Path(folder).exists():
                return
            self._made.discard(folder)
            folder = folder.rpartition("/")[0]

    def remove_folder(self, folder: str, spared: Collection[str] = ()) -> None:
        try:
            remove_tree(self.join(folder), frozenset(map(self.join, spared)))
        except OSError as error:
            raise StorageError(error.filename or self.join(folder), error.strerror or str(error)) from None
        # Folders are nothing to a table, so those that lead to what is gone need not stay.
        for parent in PurePosixPath(folder).parents:
            if parent.name:
                remove_if_empty(self.join(str(parent)))

    def open_sink(self, path: str) -> LocalSink:
        """Begin a new file. Nothing of it lasts before :meth:`settle`."""
        full = self.join(path)
        with failures(full):
            return LocalSink(full, self._open_new(full), self.counters)

    @measured("put", given)
    def put_new(self, path: str, data: bytes) -> None:
        """Write a small file unless it is there. An error may leave half of it, and nothing lasts before :meth:`settle`."""
        full = self.join(path)
        with failures(full):
            try:
                file = self._open_new(full)
            except FileExistsError:
                return
            try:
                write_all(file, memoryview(data))
            finally:
                os.close(file)
        self.counters.writes += 1
        self.counters.written += len(data)

    def settle(self, paths: Sequence[str]) -> None:
        """Have new files survive a crash of the machine; several together take little longer than one."""
        if not paths:
            return
        files = [self.join(path) for path in paths]
        if len(files) == 1:
            _settle_file(files[0])
        else:
            # Side by side: a file system that keeps a journal writes it once for all of them, not once for each.
            _SYNCS.all([partial(_settle_file, full) for full in files])
        with failures(self._root):
            self._sync_folders({full.rpartition("/")[0] for full in files})

    def _sync_folders(self, folders: set[str]) -> None:
        """Have the file system remember what is new in some folders, and the folders that we made."""
        grown = set(self._grown)
        # One after the other: the first has a file system write its journal, the others find that there is nothing to do,
        # for a quarter of what threads take to be told.
        for folder in sorted(folders | grown):
            _settle_folder(folder, is_needed=folder in folders)
        self._grown -= grown

    @contextmanager
    def _staged(self, full: str, data: bytes) -> Iterator[_Staged]:
        """Write ``data`` under a name that no reader looks at, next to its final place."""
        folder, _, name = full.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        with deferred():
            file = self._open_new(temporary)
            staged = _Staged(temporary, file)
            done = False
            try:
                write_all(file, memoryview(data))
                yield staged
                done = True
                self.counters.writes += 1
                self.counters.written += len(data)
            finally:
                os.close(file)
                if not staged.is_renamed:
                    remove_file(temporary)
                if not done:
                    self._unmake(folder)

    def _open_new(self, full: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        for _ in range(_TRIES):
            try:
                return os.open(full, flags, 0o666)
            except FileNotFoundError:
                # A writer that failed may remove an empty folder before our file is in it.
                self._make_folder(full.rpartition("/")[0])
        return os.open(full, flags, 0o666)

    def _make_folder(self, folder: str) -> None:
        """Make a folder and those above it; the next sync has the file system remember them."""
        # Not by Paths, which take longer than the calls.
        above, grown = folder, set()
        while above and not os.path.isdir(above):  # noqa: PTH112
            self._made.add(above)
            above = above.rpartition("/")[0]
            grown.add(above or "/")
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        # Only now: another thread may sync whatever is named here, and what is not there yet cannot be synced.
        self._grown |= grown

    def _counted(self, data: bytes) -> bytes:
        self.counters.count_reads(1, len(data))
        return data


class ConfinedStore(LocalStore):
    """A folder whose symbolic links may not lead out of what its options allow.

    Where folders lead is looked up once for each store, and whether a file is a link every time.
    """

    __slots__ = ("_allowed", "_folders", "_limit")

    def __init__(self, root: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> None:
        super().__init__(root, options)
        self._begin()

    def __setstate__(self, state: tuple[str, Mapping[str, str]]) -> None:
        super().__setstate__(state)
        self._begin()

    def _begin(self) -> None:
        self._limit = Limit.of(self.options)
        self._allowed: list[str] | None = None
        self._folders: dict[str, str] = {}

    def join(self, path: str) -> str:
        full = super().join(path)
        if self._limit is None:
            return full
        real = self._real(full)
        if self._allowed is None:
            self._allowed = self._limit.folders()
        if not any(is_in(real, folder) for folder in self._allowed):
            raise PathNotAllowed(
                full,
                f"a symbolic link leads to {real}, outside of what is allowed ({self._limit}); if that is "
                "well, add a prefix of it to allowed_prefixes (or LANCELET_ALLOWED_PREFIXES)",
            )
        return full

    def _real(self, full: str) -> str:
        """Where a path leads."""
        folder, _, name = full.rpartition("/")
        real = self._folders.get(folder)
        if real is None:
            real = os.path.realpath(folder)
            # One that is not there yet may become a link.
            if Path(real).is_dir():
                self._folders[folder] = real
        # Not by a Path, which takes several times as long; every access comes by here.
        if name in ("", ".", "..") or os.path.islink(full):  # noqa: PTH114
            return os.path.realpath(full)
        return f"{real}/{name}"
