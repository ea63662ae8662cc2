"""Carrying an object from one store to another."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

from lancelet.errors import MissingFile, StorageError
from lancelet.store.local import LocalStore
from lancelet.store.writeback import start_writing

if TYPE_CHECKING:
    from lancelet.store.base import Store

_PIECE = 16 << 20
_ONE_COPY = 1 << 30
_CANNOT_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
_ONE_REQUEST = 5 << 30
"""Object stores copy no more than this in one request."""


def copy_object(source: Store, path: str, target: Store, target_path: str, size: int | None = None) -> None:
    """Copy an object: by the file system or the store itself where they can, else in pieces.

    What is at the target is replaced, and may be half written when the copy fails; it lasts after
    :func:`lancelet.store.writing.settle`. A known ``size`` saves a request.
    """
    if isinstance(source, LocalStore) and isinstance(target, LocalStore):
        _copy_file(source, path, target, target_path)
    elif not _copied_inside(source, path, target, target_path, size):
        _carry(source, path, target, target_path, size)


def _copied_inside(source: Store, path: str, target: Store, target_path: str, size: int | None) -> bool:
    # Object stores are only loaded by those who use them.
    if source.is_local or target.is_local:
        return False
    from lancelet.store.remote import RemoteStore

    if not isinstance(source, RemoteStore) or not isinstance(target, RemoteStore):
        return False
    if (source.size_of(path) if size is None else size) > _ONE_REQUEST:
        return False
    return target.copy_from(source, path, target_path)


def _copy_file(source: LocalStore, path: str, target: LocalStore, target_path: str) -> None:
    origin, full = source.join(path), target.join(target_path)
    try:
        read = os.open(origin, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise MissingFile(origin) from None
    except OSError as error:
        raise StorageError(origin, error.strerror or str(error)) from None
    try:
        write = _open_target(target, target_path)
        try:
            _copy_bytes(read, write)
            # A sync that comes later waits less.
            start_writing(write, 0, os.fstat(write).st_size)
        finally:
            os.close(write)
    except OSError as error:
        raise StorageError(full, error.strerror or str(error)) from None
    finally:
        os.close(read)


def _open_target(target: LocalStore, path: str) -> int:
    try:
        return os.open(target.join(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    except FileNotFoundError:
        return target.begin(path)


def _copy_bytes(read: int, write: int) -> None:
    """Have the system copy a file, which may share its blocks, or do it ourselves."""
    try:
        while os.copy_file_range(read, write, _ONE_COPY):
            pass
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _CANNOT_COPY:
            raise
        with os.fdopen(os.dup(read), "rb", 0) as origin, os.fdopen(os.dup(write), "wb", 0) as copy:
            shutil.copyfileobj(origin, copy, _PIECE)


def _carry(source: Store, path: str, target: Store, target_path: str, size: int | None) -> None:
    from lancelet.store.writing import open_sink

    origin = source.open(path, size)
    target.delete(target_path)
    sink = open_sink(target, target_path)
    try:
        for start in range(0, origin.size, _PIECE):
            (piece,) = origin.read([(start, min(_PIECE, origin.size - start))])
            sink.write(piece)
        sink.finish()
    except BaseException:
        sink.abort()
        raise
