"""The files of one job: their names begin alike, whoever wrote them.

Spark may run a task twice, and only the fragments of the attempts that it chose
reach the commit. The files of the others are found by how their names begin, and
removed. Large blobs lie in a folder beside their data file, of the same name
(``data/<name>.lance``, ``data/<name>/<number>.blob``): they stay or go with it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lancelet.errors import StorageError
from lancelet.table.manifest.names import DATA_DIR
from lancelet.writing.fragments import data_file_name

if TYPE_CHECKING:
    from lancelet.format.schema import Schema
    from lancelet.store import Store
    from lancelet.table.manifest.fragment import Fragment

_STEM_BYTES = 8
_QUIET_SECONDS = 1.0
_MOST_SECONDS = 5.0
_PAUSE = 0.1
_STEM_LETTERS = 24 + 2 * (_STEM_BYTES - 3)
"""A name has the first three bytes in binary, the others in hexadecimal."""


def new_stem() -> bytes:
    """What the names of a job's files begin with."""
    return uuid.uuid4().bytes[:_STEM_BYTES]


def data_paths(fragments: Iterable[Fragment]) -> list[str]:
    """Paths of the data files of fragments."""
    return [f"{DATA_DIR}/{file.path}" for fragment in fragments for file in fragment.files]


def written_paths(store: Store, stem: bytes, fragments: Iterable[Fragment], schema: Schema) -> list[str]:
    """Paths of all files of a job's fragments; where there may be blobs, the store is asked for theirs."""
    paths = data_paths(fragments)
    if not any(field.is_blob_v2 for field in schema.walk()):
        return paths
    owners = frozenset(paths)
    return paths + [path for path in _files_of(store, stem) if _owner(path) in owners]


def sweep(store: Store, stem: bytes, kept: Iterable[str] = ()) -> int:
    """Remove the files of a job, as far as the store lets us, but for the data files that are kept and their blobs.

    Returns their number.
    """
    spared = frozenset(kept)
    count = 0
    with suppress(StorageError):
        for path in list(_files_of(store, stem)):
            if path not in spared and _owner(path) not in spared:
                store.delete(path)
                count += 1
    return count


def sweep_failed(store: Store, stem: bytes) -> None:
    """Remove the files of a job that failed, until no more of them come for a second.

    Tasks that were under way do not hear of it: to them the end of a stream that broke off is the end of their rows, and they
    finish their files. What comes later than a few seconds is left to a cleanup.
    """
    began = heard = time.monotonic()
    while time.monotonic() - heard < _QUIET_SECONDS and time.monotonic() - began < _MOST_SECONDS:
        if sweep(store, stem):
            heard = time.monotonic()
        time.sleep(_PAUSE)


@contextmanager
def swept(store: Store, kept: Callable[[], Iterable[str]]) -> Iterator[bytes]:
    """Gives a new stem to some work, and removes what it leaves besides the data files that are to be kept then."""
    stem = new_stem()
    try:
        yield stem
    finally:
        sweep(store, stem, kept())


def _files_of(store: Store, stem: bytes) -> Iterator[str]:
    begin = f"{DATA_DIR}/{data_file_name(stem)[:_STEM_LETTERS]}"
    return (entry.path for entry in store.list_objects(DATA_DIR) if entry.path.startswith(begin))


def _owner(path: str) -> str:
    """The data file that a blob's file belongs to."""
    return f"{path.rpartition('/')[0]}.lance"
