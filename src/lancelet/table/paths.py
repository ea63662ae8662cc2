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
from lancelet.store import ByteSource, Store, open_store
from lancelet.store.options import base_options
from lancelet.table.names import DATA_DIR, DELETIONS_DIR, INDICES_DIR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancelet.table.fragment import DataFile, DeletionFile
    from lancelet.table.manifest import BasePath

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
    _opened: dict[int, Store] = field(default_factory=dict, repr=False, compare=False)

    def data_file(self, file: DataFile) -> FilePlace:
        return self._place(DATA_DIR, file.path, file.base_id)

    def deletion_file(self, fragment_id: int, file: DeletionFile) -> FilePlace:
        return self._place(DELETIONS_DIR, file.name(fragment_id), file.base_id)

    def index_file(self, uuid: str, path: str, base_id: int | None) -> FilePlace:
        return self._place(INDICES_DIR, f"{uuid}/{path}", base_id)

    def data_folder(self, base_id: int | None) -> FilePlace:
        """The folder of data files, for files that lie next to them."""
        store, inner = self._base(base_id)
        return FilePlace(store, DATA_DIR if inner else "")

    def _place(self, folder: str, path: str, base_id: int | None) -> FilePlace:
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
            store = self._opened.setdefault(
                base_id, open_store(base.path, base_options(self.store.options, base_id, base.path))
            )
        return store, base.is_dataset_root


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
