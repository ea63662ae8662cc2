"""Clones: a new table with the content of a version (spec table-format.md 8.4).

A shallow clone has a manifest of its own and refers to the files of its source,
which becomes one of its base paths. A deep clone has copies of all files that
the version refers to, from whatever base path they are in, under the names that
they have there. Two deep clones into one folder would share these names, and
one that fails removes its files; so each takes the folder before it begins, by
the file ``_cloning``, which is gone when it is done.
"""

from __future__ import annotations

import threading
import uuid as uuids
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias

from lancelet.errors import CommitConflict, NotSupported, StorageError, TableExists, TableNotFound, UncertainPut
from lancelet.runtime.interrupts import deferred
from lancelet.runtime.threads import Pool, checkpoint, core_count
from lancelet.store.transfer import copy_object
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import clone
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.paths import FilePlace
from lancelet.table.manifest.version_files import Role, blob_files, named_files
from lancelet.table.manifest.versions import latest_version

if TYPE_CHECKING:
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

_COPIES_AT_ONCE = 16
_FEW = 64
_LARGE = 4 << 20
"""Fewer files than this, and fewer bytes, are copied on the spot: threads take longer to be told."""
_POOL = Pool("lancelet-clone", max(_COPIES_AT_ONCE, core_count()))
CLONING = "_cloning"
"""The file of a deep clone that is being made."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A file to copy into a new table."""

    source: FilePlace
    target: str
    """Path in the new table."""
    size: int | None = None
    base_id: int | None = None
    """The base path that it is in now."""


Copier: TypeAlias = Callable[[Iterator[Copy], "Store", WrittenFiles], None]


def shallow_clone(source: Snapshot, target: Store) -> Snapshot:
    """Make a table that refers to the files of ``source``."""
    return clone(source, target, _operation(source, is_shallow=True))


def deep_clone(source: Snapshot, target: Store, copy_all: Copier | None = None) -> Snapshot:
    """Make a table with copies of all files of ``source``. An error leaves no files behind.

    ``copy_all`` copies the files, and adds them to those of the clone before it begins; by default threads do.
    """
    with suppress(TableNotFound):
        latest_version(target)
        raise TableExists(target.uri)
    with deferred(), _taken(target, source.version), WrittenFiles(target) as files:
        (copy_all or _copy_here)(_without_clashes(files_of(source)), target, files)
        try:
            return clone(source, target, _operation(source, is_shallow=False), files=files)
        except TableExists:
            # Made by a library that does not take folders: it may be a clone with the same files.
            files.forget()
            raise


@contextmanager
def _taken(target: Store, version: int) -> Iterator[None]:
    """No other deep clone is made in a folder meanwhile."""
    sign = uuids.uuid4().bytes
    try:
        won = target.put_if_absent(CLONING, sign)
    except UncertainPut:
        won = target.put_if_absent(CLONING, sign) or target.read_all(CLONING) == sign
    if not won:
        raise CommitConflict(
            target.uri,
            version,
            f"another deep clone is being made there, or was interrupted; if none is, remove {target.join(CLONING)} and "
            "try again",
        )
    try:
        yield
    finally:
        with suppress(StorageError):
            target.delete_many([CLONING])


def files_of(source: Snapshot) -> Iterator[Copy]:
    """All files that a version refers to, and where a deep clone has them."""
    for file in chain(named_files(source), blob_files(source)):
        if file.role is not Role.TRANSACTION:
            yield Copy(file.place(source.places), file.name, file.size, file.base_id)


def _copy_here(queue: Iterator[Copy], target: Store, files: WrittenFiles) -> None:
    """Copy files side by side; none is begun after one has failed."""
    lock = threading.Lock()
    failed = False

    def work() -> None:
        nonlocal failed
        try:
            while not failed:
                checkpoint()
                with lock:
                    copy = next(queue, None)
                if copy is None:
                    return
                files.add(copy.target)
                copy_object(copy.source.store, copy.source.path, target, copy.target, copy.size)
        except BaseException:
            failed = True
            raise

    if target.is_local:
        begun = list(islice(queue, _FEW))
        queue = chain(begun, queue)
        if len(begun) < _FEW and sum(_LARGE if copy.size is None else copy.size for copy in begun) < _LARGE:
            work()
            return
    _POOL.all([work] * (core_count() if target.is_local else _COPIES_AT_ONCE))


def _without_clashes(copies: Iterator[Copy]) -> Iterator[Copy]:
    """Each file once; two of the same name are refused."""
    origins: dict[str, str] = {}
    for copy in copies:
        origin = copy.source.full_path
        known = origins.get(copy.target)
        if known is None:
            origins[copy.target] = origin
            yield copy
        elif known != origin:
            raise NotSupported(
                f"{known} and {origin} have the same name, so that one table cannot have both; compact the table before "
                "it is cloned"
            )


def _operation(source: Snapshot, *, is_shallow: bool) -> ops.Clone:
    return ops.Clone(is_shallow, source.manifest.branch, source.version, source.uri)
