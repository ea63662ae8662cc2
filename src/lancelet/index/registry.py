"""The kinds of indices, by name and by the type of their details: the one list of them.

Other modules add their own::

    register(MyKind())

from then on it is created, asked, extended and carried along like the ones here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput, NotSupported
from lancelet.index import json_path, unbuilt
from lancelet.index.kind import Kind, KnownKind, Moves
from lancelet.index.minhash import kind as minhash
from lancelet.index.scalar import bitmap, bloom_filter, btree, label_list, ngram, rtree, zone_map
from lancelet.index.text import kind as text
from lancelet.index.vector import kind as vector
from lancelet.table.commit.index_upkeep import register_ids

if TYPE_CHECKING:
    from lancelet.index.metadata import IndexMetadata

_KINDS: dict[str, KnownKind] = {}
"""By the name that users write, in the order in which they were registered."""
_NAMES: dict[str, KnownKind] = {}
"""By names and aliases."""
_DETAILS: dict[str, KnownKind] = {}


def register(kind: KnownKind) -> None:
    """Add a kind; again, from the same module, it takes the place of the one before.

    Raises
    ------
    InvalidInput
        Another kind has one of its names, or its details.
    """
    names = [name.upper() for name in (kind.name, *kind.aliases)]
    details = kind.details_name.lower()
    for other in {id(one): one for one in (*map(_NAMES.get, names), _DETAILS.get(details)) if one is not None}.values():
        if (type(other).__module__, other.name) != (type(kind).__module__, kind.name):
            raise InvalidInput(
                f"index kind {kind.name} would take names or details ({kind.details_name}) that belong to "
                f"{other.name} of {type(other).__module__}; call it otherwise"
            )
    _KINDS[names[0]] = _DETAILS[details] = kind
    _NAMES.update(dict.fromkeys(names, kind))
    # Kinds that went over to addresses are written anew by a rewrite, or give up what it replaces.
    if kind.last_version_with_ids is not None and not (isinstance(kind, Kind) and kind.by_address):
        register_ids(details, kind.last_version_with_ids)


def known_names() -> Sequence[str]:
    """All names that users may write, also those of kinds that cannot be built yet."""
    return tuple(_NAMES)


def known_named(name: str) -> KnownKind | None:
    """The kind that users call so, in any case of letters."""
    return _NAMES.get(name.upper())


def kind_named(name: str) -> Kind:
    """The same of kinds that can be built."""
    kind = known_named(name)
    if kind is None:
        kinds = [one for one in _KINDS.values() if isinstance(one, Kind)]
        built = ", ".join(
            dict.fromkeys(title for one in kinds for title in (one.aliases if one.learns else (one.name,)))
        )
        raise NotSupported(f"there is no index of type {name!r}; known are {built}")
    if not isinstance(kind, Kind):
        raise NotSupported(f"{name} indices are not supported yet")
    return kind


def known_kind(entry: IndexMetadata, files: Collection[str] = ()) -> KnownKind | None:
    """The kind of a segment that is listed in a manifest, whether we can open it or not; None for unknown ones.

    ``files`` are the names of its files, where the oldest entries do not tell them.
    """
    if entry.type_url:
        found = _DETAILS.get(entry.type_name.lower())
        return None if found is None else found.specific(entry)
    names = {file.path for file in entry.files}.union(files)
    return next((kind for kind in _KINDS.values() if not names.isdisjoint(kind.marks)), None)


def kind_of_entry(entry: IndexMetadata) -> Kind | None:
    """The kind of a segment that can be opened; None for one that cannot, or that is too new."""
    kind = known_kind(entry)
    if not isinstance(kind, Kind) or (entry.index_version or 0) > kind.newest_version:
        return None
    return kind if kind.opens(entry) else None


def details_that_follow() -> frozenset[str]:
    """Details, in small letters, of the kinds whose rows the fragment-reuse index finds after every rewrite."""
    return frozenset(details for details, kind in _DETAILS.items() if kind.moves is Moves.FOLLOWED)


for _module in (btree, bitmap, label_list, zone_map, bloom_filter, ngram, rtree, vector, text, minhash, json_path):
    register(_module.KIND)
for _kind in unbuilt.KINDS:
    register(_kind)
