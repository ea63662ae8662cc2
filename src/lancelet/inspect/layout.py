"""What a version is stored as: fragments, their files, and the pages of each column.

::

    table ── fragment ── data file ── column ── page ── buffers
             deletions   version      field     encoding
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lancelet.execution.table_reader import TableReader
from lancelet.file.lance_file import LanceFileReader
from lancelet.format.schema import Field
from lancelet.table.manifest.names import DATA_DIR
from lancelet.table.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    from typing import TypeAlias

    from lancelet.table.manifest.fragment import DataFile, Fragment

    Files: TypeAlias = Sequence[tuple[Fragment, DataFile]]

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
    counts: tuple[int, ...] = ()
    """Pages of each encoding."""


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


def fragment_facts(snapshot: Snapshot, positions: slice = slice(None)) -> Iterator[FragmentFacts]:
    """Fragments in their order: all of them, or those at some positions."""
    table = TableReader(snapshot)
    for position in range(len(snapshot.manifest.fragments))[positions]:
        reader = table.reader(position)
        files, physical = reader.fragment.files, reader.physical_rows
        size = sum(file.size or 0 for file in files)
        yield FragmentFacts(reader.fragment.id, reader.num_rows, physical - reader.num_rows, len(files), size)


def file_facts(snapshot: Snapshot, positions: slice = slice(None)) -> Iterator[FileFacts]:
    """Data files in the order of their fragments, of all or of those at some positions."""
    manifest = snapshot.manifest
    names = _names(manifest.schema.fields)
    for position in range(len(manifest.fragments))[positions]:
        fragment = manifest.fragments[position]
        for file in fragment.files:
            base = None if file.base_id is None else manifest.base_paths[file.base_id].path
            columns = tuple(names[number] for number in file.fields if number in names)
            yield FileFacts(fragment.id, file.path, base, file.version, columns, file.size)


def data_files(snapshot: Snapshot) -> list[tuple[Fragment, DataFile]]:
    """Data files with pages, in the order of their fragments; files of the version 0.1 have other pages and are left out."""
    return [
        (fragment, file) for fragment in snapshot.manifest.fragments for file in fragment.files if not file.is_legacy
    ]


def stored_columns(snapshot: Snapshot) -> list[str]:
    """The columns that data files have pages of: plain ones, and the leaves of nested ones."""
    ids = {number for _, file in data_files(snapshot) for number in file.fields}
    return [name for number, name in _names(snapshot.manifest.schema.fields).items() if number in ids]


def page_facts(snapshot: Snapshot, column: str | None = None, files: Files | None = None) -> Iterator[PageFacts]:
    """Pages of all columns, or of one; of all data files, or of some out of :func:`data_files`."""
    names = _names(snapshot.manifest.schema.fields)
    for fragment, file in data_files(snapshot) if files is None else files:
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


def column_facts(snapshot: Snapshot, files: Files | None = None) -> list[ColumnFacts]:
    """Stored columns by their bytes, the largest first; of all data files, or of some as in :func:`page_facts`."""
    return columns_of(snapshot, page_facts(snapshot, files=files))


def columns_of(snapshot: Snapshot, pages: Iterable[PageFacts]) -> list[ColumnFacts]:
    """What pages add up to, column by column."""
    kinds = {name: node.logical_type for node, name in _walk(snapshot.manifest.schema.fields)}
    sizes: dict[str, int] = {}
    encodings: dict[str, dict[str, int]] = {}
    for page in pages:
        sizes[page.column] = sizes.get(page.column, 0) + page.bytes
        counts = encodings.setdefault(page.column, {})
        counts[page.encoding] = counts.get(page.encoding, 0) + 1
    found = []
    for name, size in sizes.items():
        counts = encodings[name]
        order = tuple(sorted(counts, key=lambda one: (-counts[one], one)))
        numbers = tuple(counts[one] for one in order)
        found.append(ColumnFacts(name, kinds[name], sum(numbers), size, order, numbers))
    return sorted(found, key=lambda one: (-one.bytes, one.name))


def written_times(snapshot: Snapshot, most: int) -> dict[str, datetime]:
    """When data files of the table's own folder were written, by their paths; none if there are more than ``most``."""
    found = {}
    folder = f"{DATA_DIR}/"
    for entry in snapshot.store.list_objects(DATA_DIR):
        found[entry.path.removeprefix(folder)] = entry.modified
        if len(found) > most:
            return {}
    return found


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
