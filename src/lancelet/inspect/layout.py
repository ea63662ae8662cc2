"""What a version is stored as: fragments, their files, and the pages of each column.

::

    table ── fragment ── data file ── column ── page ── buffers
             deletions   version      field     encoding
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lancelet.execution.table_reader import TableReader
from lancelet.file.lance_file import LanceFileReader
from lancelet.format.schema import Field
from lancelet.table.manifest.snapshot import Snapshot

_WORDS: Final = re.compile(r"(\w+) \{|scheme: COMPRESSION_(\w+)")
_SHOWN: Final = {
    "inline_bitpacking": "bitpacked",
    "out_of_line_bitpacking": "bitpacked",
    "bitpacked": "bitpacked",
    "bitpacked_for_non_neg": "bitpacked",
    "flat": "plain",
    "variable": "variable",
    "binary": "variable",
    "fsst": "fsst",
    "dictionary": "dictionary",
    "rle": "runs",
    "byte_stream_split": "byte streams",
    "packed_struct": "packed struct",
    "constant": "constant",
    "all_nulls": "all null",
}
_LAYOUTS: Final = {
    "mini_block_layout": "mini-block",
    "full_zip_layout": "full-zip",
    "constant_layout": "constant",
    "blob_layout": "blob",
}


@dataclass(frozen=True, slots=True)
class FragmentFacts:
    """A fragment."""

    id: int
    rows: int
    deleted_rows: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A data file."""

    fragment: int
    path: str
    base: str | None
    """Where it is, if not below the table."""
    version: str
    columns: tuple[str, ...]
    bytes: int | None


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A stored column over all files, or one of its files."""

    name: str
    type: str
    pages: int
    bytes: int
    encodings: tuple[str, ...]
    """The most frequent first."""


@dataclass(frozen=True, slots=True)
class PageFacts:
    """One page."""

    fragment: int
    path: str
    column: str
    page: int
    bytes: int
    encoding: str
    description: str
    """As it stands in the file."""


def fragment_facts(snapshot: Snapshot) -> Iterator[FragmentFacts]:
    """Fragments in their order."""
    for reader in TableReader(snapshot).readers():
        files, physical = reader.fragment.files, reader.physical_rows
        size = sum(file.size or 0 for file in files)
        yield FragmentFacts(reader.fragment.id, reader.num_rows, physical - reader.num_rows, len(files), size)


def file_facts(snapshot: Snapshot) -> Iterator[FileFacts]:
    """Data files in the order of their fragments."""
    manifest = snapshot.manifest
    names = _names(manifest.schema.fields)
    for fragment in manifest.fragments:
        for file in fragment.files:
            base = None if file.base_id is None else manifest.base_paths[file.base_id].path
            columns = tuple(names[number] for number in file.fields if number in names)
            yield FileFacts(fragment.id, file.path, base, file.version, columns, file.size)


def page_facts(snapshot: Snapshot, column: str | None = None) -> Iterator[PageFacts]:
    """Pages of all columns, or of one; files of the version 0.1 have other pages and are left out."""
    names = _names(snapshot.manifest.schema.fields)
    for fragment in snapshot.manifest.fragments:
        for file in fragment.files:
            if file.is_legacy:
                continue
            wanted = {
                index: names[field]
                for field, index in zip(file.fields, file.column_indices, strict=True)
                if index >= 0 and field in names and (column is None or names[field] == column)
            }
            if not wanted:
                continue
            place = snapshot.places.data_file(file)
            reader = LanceFileReader.at(place.store, place.path)
            for index in sorted(wanted):
                for at, page in enumerate(reader.describe_column(index).pages):
                    size = sum(buffer.size for buffer in page.buffers)
                    short = short_encoding(page.encoding)
                    yield PageFacts(fragment.id, file.path, wanted[index], at, size, short, page.encoding)


def column_facts(snapshot: Snapshot) -> list[ColumnFacts]:
    """Stored columns by their bytes, the largest first."""
    kinds = {name: node.logical_type for node, name in _walk(snapshot.manifest.schema.fields)}
    pages: dict[str, list[PageFacts]] = {}
    for page in page_facts(snapshot):
        pages.setdefault(page.column, []).append(page)
    found = []
    for name, of_column in pages.items():
        counts: dict[str, int] = {}
        for page in of_column:
            counts[page.encoding] = counts.get(page.encoding, 0) + 1
        order = tuple(sorted(counts, key=lambda one: (-counts[one], one)))
        found.append(ColumnFacts(name, kinds[name], len(of_column), sum(page.bytes for page in of_column), order))
    return sorted(found, key=lambda one: (-one.bytes, one.name))


def short_encoding(description: str) -> str:
    """A page's encoding in a few words.

    Examples
    --------
    >>> short_encoding("mini_block_layout { value_compression { fsst { binary: 1 } } dictionary { flat { } } }")
    'mini-block: fsst, dictionary, plain'
    """
    words = [word or scheme.lower() for word, scheme in _WORDS.findall(description)]
    layout = next((_LAYOUTS[word] for word in words if word in _LAYOUTS), "")
    parts = [_SHOWN.get(word, word if word in _SCHEMES else "") for word in words]
    inner = ", ".join(dict.fromkeys(part for part in parts if part and part != layout))
    return ": ".join(part for part in (layout, inner) if part) or "none"


_SCHEMES: Final = ("lz4", "zstd", "none")


def _walk(fields: Sequence[Field], above: str = "") -> Iterator[tuple[Field, str]]:
    for node in fields:
        name = f"{above}{node.name}"
        yield node, name
        yield from _walk(node.children, f"{name}.")


def _names(fields: Sequence[Field]) -> dict[int, str]:
    return {node.id: name for node, name in _walk(fields)}
