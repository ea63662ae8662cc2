"""A data file that no version refers to, taken for a fragment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancelet.errors import InvalidInput, InvalidType, MissingFile, UnfitData
from lancelet.file.reader import open_file
from lancelet.format.schema import Field
from lancelet.query.plan import table_schema
from lancelet.table.fragment import DataFile, Fragment
from lancelet.writing.fit import side_by_side

if TYPE_CHECKING:
    from lancelet.table.snapshot import Snapshot


def adopted_fragment(snapshot: Snapshot, filename: Any, fragment_id: int) -> Fragment:
    """The fragment that a file below ``data/`` makes, which must have all columns of the table."""
    if not isinstance(filename, str):
        raise InvalidType(f"a file is named by a text, not by {filename!r}")
    place = snapshot.places.data_file(DataFile(filename, (), ()))
    if not place.store.exists(place.path):
        raise MissingFile(place.full_path, "it is to become a fragment")
    source = place.open()
    reader = open_file(source)
    if reader.version == "0.1":
        raise InvalidInput(f"{place.full_path} is a file of version 0.1, which does not tell its columns")
    table, own = snapshot.manifest.schema, reader.schema()
    ids: dict[int, int] = {}
    if not _matched(table.fields, own.fields, ids):
        raise UnfitData(
            f"the columns of {place.full_path} are not those of the table\n"
            + side_by_side("table", table_schema(table), "file", table_schema(own))
        )
    owners = [node for node in own.walk() if node.owns_column or reader.version == "2.0"]
    inside = {below.id for node in own.walk() if node.owns_column for below in node.walk() if below is not node}
    fields = tuple(ids[node.id] for node in owners if node.id not in inside)
    major, minor = (2, 0) if reader.version == "2.0" else map(int, reader.version.split("."))
    file = DataFile(filename, fields, tuple(range(len(fields))), major, minor, source.size)
    return Fragment(fragment_id, (file,), None, reader.num_rows)


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
