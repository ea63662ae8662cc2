"""What a manifest says that a legacy file has, against what the file says itself.

Both list the fields in the order of their ids. A manifest may name them by other ids than
the file does: where an old release had used an id twice, a later one gave the
column another id and left the file as it was::

    manifest   [4, 5]     the same column, read under its new id
    file       [2, 3]

Ids that are all moved by the same distance are taken as they come, as pylance takes
them; else a field that is elsewhere must have its name there. A field that the
manifest gives to the file and that is not in it is an error, never null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lancelet.encoding.place import Place
from lancelet.format.schema import Field, Schema

ABSENT = -1
"""The id of a field that the file does not have."""


class Claims:
    """The fields that the manifest lists for a file; ``schema`` is the file's own."""

    __slots__ = ("_by_id", "_known", "_own", "_path", "_places", "_shifted")

    def __init__(self, path: str, field_ids: Sequence[int], schema: Schema | None) -> None:
        self._path = path
        self._places = {field_id: place for place, field_id in enumerate(field_ids) if field_id >= 0}
        self._own = None if schema is None else tuple(sorted(schema.walk(), key=lambda field: field.id))
        own = {field.id for field in self._own or ()}
        self._by_id = self._own is None or own.issuperset(self._places)
        self._shifted = not self._by_id and len(field_ids) == len(self._own or ()) and self._has_one_shift()
        self._known: dict[int, tuple[Field, Field]] = {}

    def own(self, field: Field) -> Field:
        """The field under the ids of the file."""
        if self._by_id:
            return field
        known = self._known.get(id(field))
        if known is None or known[0] is not field:
            known = self._known[id(field)] = (field, self._translated(field))
        return known[1]

    def _has_one_shift(self) -> bool:
        assert self._own is not None
        return len({field_id - self._own[place].id for field_id, place in self._places.items()}) == 1

    def _translated(self, field: Field) -> Field:
        return replace(
            field, id=self._own_id(field), children=tuple(self._translated(child) for child in field.children)
        )

    def _own_id(self, field: Field) -> int:
        place = self._places.get(field.id)
        if place is None:
            return ABSENT
        assert self._own is not None
        here = self._own[place] if place < len(self._own) else None
        if here is not None and here.id == field.id:
            return here.id
        alike = here is not None and _kind(here) == _kind(field)
        if here is not None and alike and (self._shifted or here.name == field.name):
            return here.id
        raise Place(self._path, f"field '{field.name}'").corrupt(
            f"the manifest says that it has field {field.id}, but it has "
            + ", ".join(f"{node.id} '{node.name}'" for node in self._own)
        )


def _kind(field: Field) -> str:
    """The logical type; whether a list holds structs is told by its child."""
    return field.logical_type.removesuffix(".struct")
