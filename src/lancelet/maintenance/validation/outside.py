"""What lies outside a table's folder: base paths, blobs that are references, symbolic links.

None of it is wrong, so these are notes. Who got the table from somebody else reads them before trusting it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.encoding.rows import RowRange
from lancelet.errors import InvalidInput, LanceletError
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.file import FileCache
from lancelet.format.blob_types import EXTERNAL
from lancelet.maintenance.validation.report import Finding, Level
from lancelet.runtime import compute as pc
from lancelet.store.limit import Limit
from lancelet.store.location import parse_location

if TYPE_CHECKING:
    from lancelet.format.schema import Field
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.snapshot import Snapshot

OUTSIDE = "outside"
_ROWS = 65_536
_KIND, _BASE, _URI = 0, 3, 4
_ADVICE = "if others wrote the table, open it with allowed_prefixes"


def outside_bases(snapshot: Snapshot, manifest: Manifest) -> Iterator[Finding]:
    """Base paths of a version that are not below the table's root."""
    for number, base in manifest.base_paths.items():
        if _is_outside(snapshot, base.path):
            problem = f"files of the table may be there, outside of {snapshot.root.uri}"
            yield Finding(Level.NOTE, OUTSIDE, f"base path {number} ({base.path})", problem, _ADVICE)


def outside_links(snapshot: Snapshot) -> Iterator[Finding]:
    """Symbolic links below a local table that lead out of it."""
    if not snapshot.store.is_local:
        return
    root = Limit((parse_location(snapshot.root.uri),))
    for folder, folders, files in os.walk(snapshot.store.uri):
        for name in (*folders, *files):
            path = f"{folder}/{name}"
            if os.path.islink(path) and not root.allows_real(path):  # noqa: PTH114
                problem = f"a symbolic link leads to {os.path.realpath(path)}"
                yield Finding(Level.NOTE, OUTSIDE, path, problem, _ADVICE)


def outside_blobs(snapshot: Snapshot) -> Iterator[Finding]:
    """Places outside of the table that blobs of this version refer to by whole URIs, with the number of blobs."""
    columns = [top for top in snapshot.manifest.schema.fields if any(node.is_blob_v2 for node in top.walk())]
    if not columns:
        return
    places: Counter[tuple[str, str]] = Counter()
    for fragment in snapshot.manifest.fragments:
        reader = FragmentReader(snapshot, fragment, FileCache())
        for top in columns:
            try:
                for uri in _external(reader, top):
                    if _is_outside(snapshot, uri):
                        places[top.name, uri.rpartition("/")[0] or "/"] += 1
            except LanceletError:
                # What cannot be read is told by the check of the fragment.
                continue
    for (column, place), count in places.items():
        problem = f"{count} blob(s) of column '{column}' are references to objects there"
        yield Finding(Level.NOTE, OUTSIDE, place, problem, _ADVICE)


def _external(reader: FragmentReader, top: Field) -> Iterator[str]:
    for start in range(0, reader.physical_rows, _ROWS):
        (column,) = reader.read([top], RowRange(start, min(start + _ROWS, reader.physical_rows)))
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            yield from _uris(top, chunk)


def _uris(node: Field, array: pa.Array) -> Iterator[str]:
    if node.is_blob_v2:
        whole = pc.and_(pc.equal(array.field(_KIND), EXTERNAL), pc.equal(array.field(_BASE), 0))
        yield from array.field(_URI).filter(pc.and_(whole, array.is_valid())).drop_null().to_pylist()
    elif node.logical_type == "struct":
        for at, child in enumerate(node.children):
            yield from _uris(child, array.field(at))


def _is_outside(snapshot: Snapshot, text: str) -> bool:
    try:
        return not Limit((parse_location(snapshot.root.uri),)).allows(parse_location(text))
    except InvalidInput:
        return True
