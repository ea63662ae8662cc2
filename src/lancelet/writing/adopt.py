"""A data file that no version refers to, taken for a fragment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.errors import InvalidBase, InvalidInput, InvalidType, Lines, MissingFile, NotFound, UnfitData
from lancelet.execution.plan import table_schema
from lancelet.file.reader import open_file
from lancelet.format.file_versions import LEGACY, V2_0, manifest_numbers
from lancelet.format.schema import Field, Schema
from lancelet.table.manifest.fragment import DataFile, Fragment
from lancelet.writing.fit import side_by_side

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot


_UNNUMBERED = -1
"""The id that descriptions of blobs have in files that pylance writes without a table: at the top level, like columns."""


def adopted_fragment(snapshot: Snapshot, filename: object, fragment_id: int) -> Fragment:
    """The fragment that a file below ``data/`` makes, which must have all columns of the table."""
    return Fragment(fragment_id, *_adopted(snapshot, filename, None, whole=True))


def adopted_file(snapshot: Snapshot, filename: object, base_id: int | None = None) -> DataFile:
    """A file with some columns of the table, as a manifest describes it."""
    return _adopted(snapshot, filename, base_id, whole=False)[0][0]


def _adopted(
    snapshot: Snapshot, filename: object, base_id: int | None, *, whole: bool
) -> tuple[tuple[DataFile], None, int]:
    """The file, no deletions, and the number of rows."""
    if not isinstance(filename, str):
        raise InvalidType(f"a file is named by a text, not by {filename!r}")
    if base_id is not None and base_id not in snapshot.manifest.base_paths:
        raise InvalidBase(f"{snapshot.uri} has no base path {base_id}")
    place = snapshot.places.data_file(DataFile(filename, (), (), base_id=base_id))
    if not place.store.exists(place.path):
        if whole:
            raise MissingFile(place.full_path, "it is to become a fragment")
        raise NotFound(f"Not found: {place.full_path}; it is to become a file of the table")
    source = place.open()
    reader = open_file(source)
    if reader.version == LEGACY:
        raise InvalidInput(f"{place.full_path} is a file of version 0.1, which does not tell its columns")
    table, own = snapshot.manifest.schema, reader.schema()
    own = Schema(tuple(field for field in own.fields if field.id != _UNNUMBERED), own.metadata)
    known = {field.name: field for field in table.fields}
    wanted = table.fields if whole else tuple(known[name] for name in own.names if name in known)
    ids: dict[int, int] = {}
    if not _matched(wanted, own.fields, ids):
        raise UnfitData(
            Lines.of(
                f"the columns of {place.full_path} are not those of the table",
                *side_by_side("table", table_schema(Schema(wanted)), "file", table_schema(own)),
            )
        )
    owners = [node for node in own.walk() if node.owns_column or reader.version == V2_0]
    inside = {below.id for node in own.walk() if node.owns_column for below in node.walk() if below is not node}
    fields = tuple(ids[node.id] for node in owners if node.id not in inside)
    major, minor = manifest_numbers(reader.version)
    file = DataFile(filename, fields, tuple(range(len(fields))), major, minor, source.size, base_id)
    return (file,), None, reader.num_rows


def _matched(stored: tuple[Field, ...], found: tuple[Field, ...], ids: dict[int, int]) -> bool:
    """Whether both have the same fields in the same order; notes the table's id for each of the file's."""
    if len(stored) != len(found):
        return False
    for mine, theirs in zip(stored, found, strict=True):
        if mine.name != theirs.name or mine.logical_type != theirs.logical_type:
            return False
        ids[theirs.id] = mine.id
        # A blob is described by other fields in the file than in the table.
        if not mine.is_blob_v2 and not _matched(mine.children, theirs.children, ids):
            return False
    return True
