"""How far long work is: bars for people, numbers for programs, and which fragments are being written."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lancelet.errors import InvalidType
from lancelet.runtime.steps import watched
from lancelet.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.progress import Progress, TaskID

    from lancelet._api.fragment_metadata import FragmentMetadata

__all__ = [
    "FileSystemFragmentWriteProgress",
    "FragmentWriteProgress",
    "IndexProgress",
    "NoopFragmentWriteProgress",
    "WorkProgress",
    "bars",
]


@contextmanager
def bars() -> Iterator[None]:
    """Show how far writes, merges, index builds, compactions and new columns are that run inside of the block.

    The bars are on the standard error, or in the notebook. There is one set of them in a process: blocks inside of others,
    or in other threads, share it until the last of them ends.

    Examples
    --------
    >>> import lancelet
    >>> with lancelet.progress.bars():
    ...     dataset = lancelet.write_dataset({"x": range(1000)}, "memory://docs/barred")
    """
    _enter()
    try:
        yield
    finally:
        _leave()


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """How far a kind of work is."""

    what: str
    """What is counted, for example ``rows written``."""
    done: int
    total: int | None
    """None where nobody knows how much it will be."""


ShownProgress: TypeAlias = "bool | Callable[[WorkProgress], object] | None"
"""What ``progress`` is: True shows bars, a function hears of every step."""


def is_shown(progress: object) -> bool:
    """Whether this is such a ``progress``, and not one of fragments that are written."""
    return progress is None or isinstance(progress, bool) or (callable(progress) and not hasattr(progress, "begin"))


@contextmanager
def shown(progress: ShownProgress) -> Iterator[None]:
    """Tell of the work inside of the block as somebody wants it.

    A function hears of all that the process does meanwhile, whichever thread does it; it is called in that thread.
    """
    if progress is None or progress is False:
        yield
    elif progress is True:
        with bars():
            yield
    elif callable(progress):
        with watched(_Called(progress)):
            yield
    else:
        raise InvalidType(f"progress is True, for bars, or a function, not {type(progress).__name__}")


class _Called:
    """Adds up what is done for a function."""

    def __init__(self, callback: Callable[[WorkProgress], object]) -> None:
        self._callback = callback
        self._done: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        self._lock = threading.Lock()

    def expect(self, what: str, amount: int) -> None:
        self._add(self._totals, what, amount)

    def step(self, what: str, amount: int) -> None:
        self._add(self._done, what, amount)

    def _add(self, numbers: dict[str, int], what: str, amount: int) -> None:
        # Under the lock, so that the numbers that it hears never go back.
        with self._lock:
            numbers[what] = numbers.get(what, 0) + amount
            self._callback(WorkProgress(what, self._done.get(what, 0), self._totals.get(what) or None))


_lock: Final = threading.Lock()
_open_blocks = 0
_screen: Final = ExitStack()


def _enter() -> None:
    global _open_blocks
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with _lock:
        if not _open_blocks:
            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
            shown = _screen.enter_context(Progress(*columns, console=Console(stderr=True)))
            _screen.enter_context(watched(_Bars(shown)))
        _open_blocks += 1


def _leave() -> None:
    global _open_blocks
    with _lock:
        _open_blocks -= 1
        if not _open_blocks:
            _screen.close()


class _Bars:
    """A bar for each kind of work, which several threads may do."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._totals: dict[str, int] = {}
        self._lock = threading.Lock()

    def expect(self, what: str, amount: int) -> None:
        with self._lock:
            self._totals[what] = self._totals.get(what, 0) + amount
            self._progress.update(self._task(what), total=self._totals[what] or None)

    def step(self, what: str, amount: int) -> None:
        with self._lock:
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
