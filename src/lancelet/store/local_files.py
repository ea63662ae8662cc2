"""What a local store does with files and folders of the operating system, by their full paths."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType

from lancelet.errors import LanceletError, MissingFile, StorageError
from lancelet.runtime.threads import Pool, checkpoint

_POOL = Pool("lancelet-delete", 2)
_MANY = 500
_PIECE = 16 << 20
_ONE_COPY = 64 << 20
_CANNOT_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


class failures:  # noqa: N801 - read as a statement
    """Turn what the operating system says into our errors. A class: a generator would take longer than many a system call."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, LanceletError):
            return
        if isinstance(error, FileNotFoundError):
            raise MissingFile(self._path) from None
        if isinstance(error, NotADirectoryError):
            raise MissingFile(self._path, "a parent of it is a file") from None
        if isinstance(error, ValueError):
            # A name with a null character never reaches the operating system.
            raise StorageError(self._path, str(error)) from None
        if isinstance(error, OSError):
            hint = ""
            if error.errno == errno.ENOMEM:
                hint = "; too many files may be mapped at once (see vm.max_map_count)"
            raise StorageError(self._path, f"{error.strerror or error}{hint}") from None


def write_all(file: int, data: memoryview) -> None:
    """Write all bytes to a descriptor, however many turns the system takes for it."""
    while data.nbytes:
        data = data[os.write(file, data) :]


def sync_file(path: str) -> None:
    """Have a file or a folder survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: str) -> None:
    """Have the file system remember which files a folder has."""
    try:
        sync_file(folder)
    except OSError as error:
        # Some network file systems cannot sync a folder; they keep names by their own means.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def copy_bytes(read: int, write: int) -> None:
    """Have the system copy an open file, which may share its blocks, or do it ourselves."""
    try:
        while os.copy_file_range(read, write, _ONE_COPY):
            checkpoint()
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _CANNOT_COPY:
            raise
        with os.fdopen(os.dup(read), "rb", 0) as origin, os.fdopen(os.dup(write), "wb", 0) as copy:
            while piece := origin.read(_PIECE):
                checkpoint()
                write_all(copy.fileno(), memoryview(piece))


def unlink_all(files: Sequence[str]) -> list[str]:
    """Remove files; returns those that the system refused to remove. What is not there is no failure."""
    if len(files) < _MANY:
        return _unlink(files)
    # Two at a time keep the file system busy; more get into each other's way.
    halves = _POOL.all([partial(_unlink, files[::2]), partial(_unlink, files[1::2])])
    return [file for half in halves for file in half]


def _unlink(files: Sequence[str]) -> list[str]:
    failed = []
    for file in files:
        checkpoint()
        try:
            os.unlink(file)  # noqa: PTH108
        except FileNotFoundError:
            continue
        except OSError:
            failed.append(file)
    return failed


def remove_file(path: str) -> None:
    """Remove a file, if it is there."""
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        return


def remove_tree(folder: str, spared: Collection[str]) -> None:
    """Remove a folder with everything in it, but for some folders. Links are removed, not followed."""
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        if entry.path in spared:
            continue
        if entry.is_dir(follow_symlinks=False):
            remove_tree(entry.path, spared)
        else:
            remove_file(entry.path)
    remove_if_empty(folder)


def remove_if_empty(folder: str) -> None:
    """A folder stays when something in it was to be kept, or came meanwhile."""
    with suppress(OSError):
        # Refused by the system unless it is empty.
        os.rmdir(folder)  # noqa: PTH106
