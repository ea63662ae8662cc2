"""What old releases recorded wrongly or not at all, and what it is taken as.

::

    writer          fault                                            mended
    before 0.8.15   no counts of rows, or wrong ones                 counted in the files, recorded by the next commit
    before 0.11     an id given again to a new column                when a manifest is read: the later file has it,
                                                                     under a new id
    0.16            table said to be 0.1, files of 2.0               when a manifest is read: as its files
    0.16            files of 0.1 and 2.0 side by side                not at all: reads, and can be overwritten

Sizes of files are recorded along with the counts. The next commit of any kind writes
down what was mended, as pylance's does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.errors import NotSupported
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, version_numbered

if TYPE_CHECKING:
    from lancelet.format.proto import table_pb2
    from lancelet.table.manifest.manifest import Manifest

_REUSED_IDS_BEFORE = (0, 11)
COUNTS_SINCE = (1, 0)
"""The first release that records all counts of rows and sizes of files."""


def written_before(message: table_pb2.Manifest, version: tuple[int, int]) -> bool:
    """Whether a release of pylance older than this wrote a manifest; the first ones did not name themselves."""
    if not message.HasField("writer_version"):
        return bool(message.fragments)
    parts = message.writer_version.version.split(".")[:2]
    known = message.writer_version.library == "lance" and all(part.isdecimal() for part in parts)
    return known and tuple(map(int, parts)) < version


def mend_field_ids(message: table_pb2.Manifest) -> tuple[int, ...]:
    """Give new ids to the fields whose ids older columns had before; returns the ids that were used twice.

    Within a fragment, the last file that lists an id is the one of the field that the schema has now.
    """
    if not written_before(message, _REUSED_IDS_BEFORE):
        return ()
    doubled: set[int] = set()
    greatest = max((field.id for field in message.fields), default=-1)
    for record in message.fragments:
        seen: set[int] = set()
        for file in record.files:
            own = {field for field in file.fields if field >= 0}
            greatest = max(greatest, *own, -1)
            doubled |= seen & own
            seen |= own
    fresh = {old: greatest + 1 + place for place, old in enumerate(sorted(doubled))}
    if not fresh:
        return ()
    for field in message.fields:
        field.id, field.parent_id = fresh.get(field.id, field.id), fresh.get(field.parent_id, field.parent_id)
    live = {field.id for field in message.fields}
    for record in message.fragments:
        left = set(fresh)
        for file in reversed(record.files):
            mine = left & set(file.fields)
            file.fields[:] = [fresh[field] if field in mine else field for field in file.fields]
            left -= mine
        for place in reversed(range(len(record.files))):
            if not live & set(record.files[place].fields):
                del record.files[place]
    return tuple(fresh)


def mend_storage_version(message: table_pb2.Manifest) -> str | None:
    """Set the file version of a table that is said to be legacy to that of its files; returns it if it changed."""
    if message.data_format.version != LEGACY:
        return None
    versions = file_versions(message)
    if len(versions) != 1 or LEGACY in versions:
        return None
    (message.data_format.version,) = versions
    return message.data_format.version


def file_versions(message: table_pb2.Manifest) -> set[str]:
    """The versions of all data files; what is not known counts as new."""
    numbers = {(f.file_major_version, f.file_minor_version) for record in message.fragments for f in record.files}
    return {version_numbered(*pair) or f"{pair[0]}.{pair[1]}" for pair in numbers}


def refuse_mixed(manifest: Manifest) -> None:
    """Refuse to change a table in which legacy files stand beside newer ones."""
    if manifest.data_storage_version != LEGACY:
        return
    versions = file_versions(manifest.message)
    if len(versions) > 1 and LEGACY in versions:
        raise NotSupported(
            f"{manifest.path} has files of the versions {', '.join(sorted(versions))} side by side, as a faulty release left "
            "them; such a table can be read, but not changed. Write its rows anew, with write_dataset(dataset.to_table(), "
            f"uri, mode='overwrite', data_storage_version='{DEFAULT_VERSION}'), or restore an older version"
        )


def forget_counts(message: table_pb2.Manifest) -> None:
    """Drop the counts that the first releases recorded, which are wrong after deletions."""
    if message.HasField("writer_version"):
        return
    for record in message.fragments:
        record.physical_rows = 0
        if record.HasField("deletion_file"):
            record.deletion_file.num_deleted_rows = 0
