"""Where the files that a manifest names are.

Spec table-format.md 8.5. A file without a base id is in the table's own folder::

    <base>/data/<path>   <base>/_deletions/<name>   <base>/_indices/<uuid>/<path>

With a base id it is in the folder of that base path, in the same sub-folders
when the base is a table's root, directly in it otherwise. The path itself must
stay inside: only a base path may lead out of the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lancelet.errors import CorruptFile, UnsafePath
from lancelet.store import ByteSource, Store
from lancelet.store.gate import locate_referred, open_referred
from lancelet.store.limit import Limit
from lancelet.table.manifest.names import DATA_DIR, DELETIONS_DIR, INDICES_DIR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancelet.store.location import Location
    from lancelet.table.manifest.fragment import DataFile, DeletionFile
    from lancelet.table.manifest.manifest import BasePath

_DRIVE = re.compile(r"[A-Za-z]:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file: the store that has it, and its path there."""

    store: Store
    path: str

    @property
    def full_path(self) -> str:
        return self.store.join(self.path)

    def open(self, size: int | None = None) -> ByteSource:
        return self.store.open(self.path, size)


@dataclass(frozen=True, slots=True)
class Places:
    """Resolves the files of one version. Stores of base paths are opened when first needed."""

    store: Store
    bases: Mapping[int, BasePath]
    manifest_path: str
    named: frozenset[int] = frozenset()
    """Base paths that the caller names in this very call; they may use credentials of the environment."""
    _opened: dict[int, Store] = field(default_factory=dict, repr=False, compare=False)
    _folders: dict[Location, Store] = field(default_factory=dict, repr=False, compare=False)

    def data_file(self, file: DataFile) -> FilePlace:
        return self.referred(DATA_DIR, file.path, file.base_id)

    def deletion_file(self, fragment_id: int, file: DeletionFile) -> FilePlace:
        return self.referred(DELETIONS_DIR, file.name(fragment_id), file.base_id)

    def index_file(self, uuid: str, path: str, base_id: int | None) -> FilePlace:
        return self.referred(INDICES_DIR, f"{uuid}/{path}", base_id)

    def data_folder(self, base_id: int | None) -> FilePlace:
        """The folder of data files, for files that lie next to them."""
        store, inner = self._base(base_id)
        return FilePlace(store, DATA_DIR if inner else "")

    def referred(self, folder: str, path: str, base_id: int | None) -> FilePlace:
        """A file of one of the folders of a table; a base path that is no table has all files directly in it."""
        check_inside(path, self.manifest_path)
        store, inner = self._base(base_id)
        return FilePlace(store, f"{folder}/{path}" if inner else path)

    def _base(self, base_id: int | None) -> tuple[Store, bool]:
        """The store of a base, and whether it has the folders of a table."""
        if base_id is None:
            return self.store, True
        base = self.bases.get(base_id)
        if base is None:
            raise CorruptFile(self.manifest_path, f"a file is in base path {base_id}, which is not listed")
        store = self._opened.get(base_id)
        if store is None:
            if not base.path or "\0" in base.path:
                raise CorruptFile(self.manifest_path, f"base path {base_id} is {base.path!r}")
            where = f"base path {base_id}"
            location = locate_referred(self.store, base.path, where)
            named = {str(location)} if base_id in self.named else ()
            store = self._opened.setdefault(
                base_id, open_referred(self.store, location, where, base_id=base_id, named=named)
            )
        return store, base.is_dataset_root

    def external(self, uri: str) -> FilePlace:
        """An object that data names by its whole URI."""
        location = locate_referred(self.store, uri, "the blob")
        folder, name = location.split()
        known = self._folders.get(folder)
        if known is None:
            known = self._folders.setdefault(folder, open_referred(self.store, folder, "the blob"))
        return FilePlace(known, name)

    def check_external(self, uri: str, where: str) -> None:
        """Refuse a URI or path that the table's limit does not allow to be kept in it."""
        if Limit.of(self.store.options) is not None:
            locate_referred(self.store, uri, where)


def check_inside(path: str, manifest_path: str) -> None:
    """Refuse a path that is not plainly inside the folder that it is relative to."""
    reason = None
    if not path:
        reason = "is empty"
    elif "\0" in path:
        reason = "has a null character"
    elif path.startswith(("/", "\\")) or _DRIVE.match(path) or _SCHEME.match(path):
        reason = "is absolute"
    elif any(part in ("", ".", "..") for part in re.split(r"[/\\]", path)):
        reason = "has empty or dotted parts"
    if reason:
        raise UnsafePath(
            manifest_path,
            f"the file path {path!r} {reason}; it must lie inside the table, or below one of its base paths",
        )
