"""The kinds of scalar indices, by name and by the type of their details. A kind is imported when it is first needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from lancelet.errors import NotSupported

if TYPE_CHECKING:
    from lancelet.index.kind import Kind
    from lancelet.index.metadata import IndexMetadata

_MODULES = {
    "BTREE": "btree",
    "BITMAP": "bitmap",
    "LABEL_LIST": "label_list",
    "ZONEMAP": "zone_map",
    "BLOOMFILTER": "bloom_filter",
    "NGRAM": "ngram",
}
_DETAILS = {
    "btreeindexdetails": "BTREE",
    "bitmapindexdetails": "BITMAP",
    "labellistindexdetails": "LABEL_LIST",
    "zonemapindexdetails": "ZONEMAP",
    "bloomfilterindexdetails": "BLOOMFILTER",
    "ngramindexdetails": "NGRAM",
}
_FILES = {"page_lookup.lance": "BTREE", "bitmap_page_lookup.lance": "BITMAP", "ngram_postings.lance": "NGRAM"}
"""By these the oldest indices are known, whose entries have no details."""


@cache
def kind_named(name: str) -> Kind:
    """The kind that users call so, in any case of letters."""
    module = _MODULES.get(name.upper())
    if module is None:
        raise NotSupported(f"there is no scalar index of type {name!r}; known are {', '.join(_MODULES)}")
    kind: Kind = import_module(f"lancelet.index.scalar.{module}").KIND
    return kind


def kind_of_entry(entry: IndexMetadata) -> Kind | None:
    """The kind of a segment that is listed in a manifest; None for one that we do not know or that is too new."""
    name = _DETAILS.get(entry.type_name.lower())
    if name is None and not entry.type_url:
        name = next((_FILES[file.path] for file in entry.files if file.path in _FILES), None)
    if name is None:
        return None
    kind = kind_named(name)
    return kind if (entry.index_version or 0) <= kind.newest_version else None
