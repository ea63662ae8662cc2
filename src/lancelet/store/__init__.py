"""Bytes: local files, memory and object stores behind one small interface."""

from lancelet.store.base import ObjectInfo, Sink, Store
from lancelet.store.local import LocalStore
from lancelet.store.source import (
    FAULT_AROUND,
    Bytes,
    ByteSource,
    Counters,
    HeldSource,
    MappedSource,
    Ranges,
    drop_resident_files,
    release_views,
)
from lancelet.store.uri import open_store
from lancelet.store.whole_ranges import Extent, WholeRanges

__all__ = [
    "FAULT_AROUND",
    "ByteSource",
    "Bytes",
    "Counters",
    "Extent",
    "HeldSource",
    "LocalStore",
    "MappedSource",
    "ObjectInfo",
    "Ranges",
    "Sink",
    "Store",
    "WholeRanges",
    "drop_resident_files",
    "open_store",
    "release_views",
]
