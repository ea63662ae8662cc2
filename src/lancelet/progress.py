"""Telling a program which fragments are being written."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lancelet.runtime.steps import watched
from lancelet.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.progress import Progress, TaskID

    from lancelet._api.fragment_metadata import FragmentMetadata

__all__ = [
    "FileSystemFragmentWriteProgress",
    "FragmentWriteProgress",
    "IndexProgress",
    "NoopFragmentWriteProgress",
    "bars",
]


@contextmanager
def bars() -> Iterator[None]:
    """Show how far writes, merges, index builds, compactions and new columns are that run inside of the block.

    The bars are on the standard error, or in the notebook.

    Examples
    --------
    >>> import lancelet
    >>> with lancelet.progress.bars():
    ...     dataset = lancelet.write_dataset({"x": range(1000)}, "memory://docs/barred")
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as shown, watched(_Bars(shown)):
        yield


class _Bars:
    """A bar for each kind of work."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def expect(self, what: str, amount: int) -> None:
        task = self._task(what)
        known = next(one.total for one in self._progress.tasks if one.id == task)
        self._progress.update(task, total=(known or 0) + amount or None)

    def step(self, what: str, amount: int) -> None:
        self._progress.advance(self._task(what), amount)

    def _task(self, what: str) -> TaskID:
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=None)
        return self._tasks[what]


@dataclass(frozen=True)
class IndexProgress:
    """What happens while an index is built."""

    event: Literal["start", "progress", "complete"]
    stage: str
    completed: int | None = None
    total: int | None = None
    unit: str = ""

    @property
    def fraction(self) -> float | None:
        """How much of the stage is done, from 0 to 1; None when that is not known."""
        return None if self.completed is None or not self.total else self.completed / self.total


class FragmentWriteProgress(ABC):
    """What the ``progress`` of :func:`lancelet.write_dataset` is; anything with these methods will do."""

    @abstractmethod
    def begin(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        """A fragment is begun. Its file has a name, and nothing in it yet."""

    @abstractmethod
    def complete(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        """The files of a fragment are complete."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Does nothing."""

    def begin(self, fragment: FragmentMetadata, **kargs: object) -> None:
        pass

    def complete(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        pass


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """Leaves a file for every fragment: ``fragment_<id>.json``, and ``fragment_<id>.in_progress`` until it is complete.

    Parameters
    ----------
    base_uri
        The folder for these files, as a path or URI.
    metadata
        Texts that go into the second file, for example which worker this is.

    Examples
    --------
    >>> import lancelet
    >>> progress = FileSystemFragmentWriteProgress("memory://docs/progress", {"worker": "1"})
    >>> dataset = lancelet.write_dataset({"x": [1]}, "memory://docs/watched", progress=progress)
    """

    PROGRESS_EXT: str = ".in_progress"

    def __init__(self, base_uri: str, metadata: Mapping[str, str] | None = None) -> None:
        self._store = open_store(base_uri)
        self._metadata = dict(metadata or {})

    def begin(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        told = {"fragment_id": fragment.id, "metadata": self._metadata}
        self._store.put(self._mark(fragment), json.dumps(told).encode())
        self._store.put(f"fragment_{fragment.id}.json", json.dumps(fragment.to_json()).encode())

    def complete(self, fragment: FragmentMetadata, **kwargs: object) -> None:
        self._store.delete(self._mark(fragment))

    def _mark(self, fragment: FragmentMetadata) -> str:
        return f"fragment_{fragment.id}{self.PROGRESS_EXT}"
