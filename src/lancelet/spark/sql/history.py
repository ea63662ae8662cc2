"""DESCRIBE HISTORY, DESCRIBE DETAIL and RESTORE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lancelet.errors import InvalidInput, NotSupported
from lancelet.spark.options import at_version
from lancelet.spark.sql.tables import place_to_change, place_to_read
from lancelet.table.commit.operations import Restore
from lancelet.table.commit.run import commit

if TYPE_CHECKING:
    from lancelet.spark.sql.catalog import Table
    from lancelet.table.manifest.manifest import Manifest


def history(table: Table, arguments: Mapping[str, Any], _: Any) -> list[tuple[Any, ...]]:
    """How the versions came about, the newest first."""
    from lancelet.spark.table.history import history as rows

    return rows(place_to_read(table).open(), arguments.get("limit"))


def detail(table: Table, _: Mapping[str, Any], __: Any) -> list[tuple[Any, ...]]:
    """What a version is like."""
    from lancelet.spark.table.history import detail as row

    return [row(place_to_read(table).open())]


def restore(table: Table, arguments: Mapping[str, Any], _: Any) -> list[tuple[int, ...]]:
    """Make an older version the newest again, as a new version."""
    version, micros = arguments.get("version"), arguments.get("timestamp")
    if (version is None) == (micros is None):
        raise InvalidInput("a table is restored to a version or to a time; give one of them")
    place = place_to_change(table)
    now, wanted = place.open(), at_version(place, version, micros).open()
    if wanted.manifest.branch != now.manifest.branch:
        raise NotSupported(
            f"version {wanted.version} is on the branch {wanted.manifest.branch or 'main'}, and {table.shown} is on "
            f"{now.manifest.branch or 'main'}; a table is restored to a version of its own branch"
        )
    commit(now, Restore(wanted.version))
    before, after = _files(now.manifest), _files(wanted.manifest)
    gone, back = before.keys() - after.keys(), after.keys() - before.keys()
    sizes = (_size(before, gone), _size(after, back))
    return [(sum(after.values()), len(after), len(gone), len(back), *sizes)]


def _files(manifest: Manifest) -> dict[tuple[int | None, str], int]:
    """Data files with their sizes."""
    return {(file.base_id, file.path): file.size or 0 for fragment in manifest.fragments for file in fragment.files}


def _size(files: Mapping[tuple[int | None, str], int], some: Iterable[tuple[int | None, str]]) -> int:
    return sum(files[key] for key in some)
