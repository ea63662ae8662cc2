"""The embedded manifest store: one SQLite file for the tables of a machine.

::

    manifests (base_uri text, version integer, path text, size integer, committer text, primary key (base_uri, version))
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput, StorageError, UncertainPut
from lancelet.table.registers.protocol import RegisteredVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMITTER = "lancelet"
PATIENCE = 60.0
"""Seconds to wait for another process that writes."""

_TABLE = """
create table if not exists manifests (
    base_uri text not null,
    version integer not null,
    path text not null,
    size integer,
    committer text not null,
    primary key (base_uri, version)
) without rowid
"""
_COLUMNS = "select version, path, size from manifests where base_uri = ?"


class SqliteManifestStore:
    """A manifest store in the file at ``path``. Every call opens it anew, so that it may be forked and pickled."""

    __slots__ = ("path",)
    can_change = True

    def __init__(self, path: str) -> None:
        if not path:
            raise InvalidInput("the manifest store needs the path of its file: sqlite:///path/of.db")
        self.path = path

    def get(self, base: str, version: int) -> RegisteredVersion | None:
        with self._opened() as database:
            return _entry(database.execute(f"{_COLUMNS} and version = ?", (base, version)).fetchone())

    def latest(self, base: str) -> RegisteredVersion | None:
        with self._opened() as database:
            return _entry(database.execute(f"{_COLUMNS} order by version desc limit 1", (base,)).fetchone())

    def put_if_absent(self, base: str, entry: RegisteredVersion) -> bool:
        with self._opened() as database:
            try:
                with database:
                    row = (base, entry.version, entry.path, entry.size, COMMITTER)
                    database.execute("insert into manifests values (?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                return False
            except sqlite3.OperationalError as error:
                raise UncertainPut(self.path, str(error)) from None
        return True

    def put_if_present(self, base: str, entry: RegisteredVersion) -> None:
        with self._opened() as database, database:
            row = (entry.path, entry.size, base, entry.version)
            database.execute("update manifests set path = ?, size = ? where base_uri = ? and version = ?", row)

    def delete(self, base: str, version: int) -> None:
        with self._opened() as database, database:
            database.execute("delete from manifests where base_uri = ? and version = ?", (base, version))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            database = sqlite3.connect(self.path, timeout=PATIENCE)
            try:
                database.execute("pragma synchronous = full")
                database.execute(_TABLE)
                yield database
            finally:
                database.close()
        except sqlite3.Error as error:
            raise StorageError(self.path, f"the manifest store failed: {error}") from None


def _entry(row: tuple[int, str, int | None] | None) -> RegisteredVersion | None:
    return None if row is None else RegisteredVersion(*row)
