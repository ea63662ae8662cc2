"""Sets of fragment ids."""

from __future__ import annotations

from collections.abc import Iterable


class Bitmap(set[int]):
    """A set of numbers that shows itself in order."""

    def __repr__(self) -> str:
        return f"Bitmap({{{', '.join(map(str, sorted(self)))}}})"

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(sorted(super().__iter__()))

    def __eq__(self, other: object) -> bool:
        return super().__eq__(set(other)) if isinstance(other, Iterable) else NotImplemented

    __hash__ = None  # type: ignore[assignment]
