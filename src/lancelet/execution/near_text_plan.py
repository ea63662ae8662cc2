"""A search for texts that are nearly the same, as a small picklable value: part of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from lancelet.format.system_columns import DISTANCE


@dataclass(frozen=True)
class NearText:
    """The rows whose texts are nearly the same as one."""

    path: tuple[str, ...]
    text: str
    prefilter: bool = False
    """Whether the filter chooses among all rows, and not among those that are near."""

    @property
    def made(self) -> tuple[str, ...]:
        """The columns that the search makes."""
        return (DISTANCE,)
