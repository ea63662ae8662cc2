"""Telling a program which fragments are being written."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lancelet.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancelet._api.fragment_metadata import FragmentMetadata

__all__ = ["FileSystemFragmentWriteProgress", "FragmentWriteProgress", "IndexProgress", "NoopFragmentWriteProgress"]


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
