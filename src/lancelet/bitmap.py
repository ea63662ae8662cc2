"""Sets of fragment ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Bitmap(set[int]):
    """A set of numbers, in order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Bitmap({{{', '.join(map(str, self))}}})"

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(super().__iter__()))

    def __eq__(self, other: object) -> bool:
        return super().__eq__(set(other)) if isinstance(other, Iterable) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None
