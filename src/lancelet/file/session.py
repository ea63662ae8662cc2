"""Many single files in one folder: the store is opened once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput, InvalidOption, MissingFile, StorageError
from lancelet.file.blob_writers import DedicatedBlobWriter, PackedBlobWriter
from lancelet.file.lance_file import LanceFileReader
from lancelet.file.lance_file_writer import LanceFileWriter
from lancelet.namespace_client.tables import vended
from lancelet.store import open_store
from lancelet.store.local import LocalStore
from lancelet.store.transfer import copy_object

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.store import Store


@dataclass
class ListResult:
    """What is directly in a folder."""

    common_prefixes: list[str]
    """Folders, by their paths below the session's folder."""
    objects: list[str]
    """Files, by their paths below the session's folder."""


class LanceFileSession:
    """Reads and writes files of one folder. All paths are relative to it.

    Parameters
    ----------
    base_path
        The folder, as a local path or a URI.
    storage_options
        See :func:`lancelet.store.open_store`.
    namespace_client, table_id
        A ``LanceNamespace`` and the id of the table whose file it is, for storage options where none are given.

    Examples
    --------
    >>> import pyarrow as pa
    >>> session = LanceFileSession("memory://docs/files")
    >>> with session.open_writer("a/x.lance") as writer:
    ...     writer.write_batch(pa.table({"x": [1, 2]}))
    >>> session.list(), session.open_reader("a/x.lance").num_rows()
    (['a/x.lance'], 2)
    """

    def __init__(
        self,
        base_path: str,
        storage_options: Mapping[str, str] | None = None,
        namespace_client: object = None,
        table_id: Sequence[str] | None = None,
    ) -> None:
        self._store = open_store(base_path, vended(base_path, storage_options, namespace_client, table_id))

    @classmethod
    def _of(cls, store: Store) -> LanceFileSession:
        """A session in a store that is open already."""
        made = cls.__new__(cls)
        made._store = store
        return made

    def open_reader(self, path: str, columns: Sequence[str] | None = None) -> LanceFileReader:
        """Open a data file."""
        return LanceFileReader.at(self._store, _inside(path), columns)

    def open_writer(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        keep_original_array: bool | None = None,
        max_page_bytes: int | None = None,
    ) -> LanceFileWriter:
        """Begin a data file; see :class:`LanceFileWriter` for the parameters.

        ``keep_original_array`` is accepted for pylance's sake, without effect.
        """
        return LanceFileWriter._at(
            self._store, _inside(path), schema, data_cache_bytes, version, max_page_bytes, keep_original_array
        )

    def open_packed_blob_writer(self, path: str, blob_id: int) -> PackedBlobWriter:
        """Begin the file ``blob_id`` for blobs of the data file at ``path``, which may be written later."""
        return PackedBlobWriter(self._store, _inside(path), blob_id)

    def open_dedicated_blob_writer(self, path: str, blob_id: int) -> DedicatedBlobWriter:
        """Begin the file ``blob_id`` for one blob of the data file at ``path``, which may be written later."""
        return DedicatedBlobWriter(self._store, _inside(path), blob_id)

    def contains(self, path: str) -> bool:
        """Whether there is such a file."""
        return self._store.exists(_inside(path))

    def list(self, path: str | None = None) -> list[str]:
        """Paths of all files below a folder."""
        return [entry.path for entry in self._store.list_objects(_folder(path))]

    def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """Folders and files directly in a folder."""
        folder = _folder(path)
        before = f"{folder}/" if folder else ""
        folders = self._store.list_folders(folder)
        names = sorted(set(self._store.list_names(folder)) - set(folders))
        return ListResult([before + name for name in folders], [before + name for name in names])

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes of a file."""
        if offset < 0 or length < 0:
            raise InvalidOption(f"a range has no negative numbers, not {length} bytes at {offset}")
        source = self._store.open(_inside(path))
        if offset + length > source.size:
            raise StorageError(source.path, f"has {source.size} bytes, not {length} at {offset}")
        return source.read([(offset, length)])[0].tobytes() if length else b""

    def delete_file(self, path: str) -> None:
        """Remove a file."""
        if not self.contains(path):
            raise MissingFile(self._store.join(path))
        self._store.delete(path)

    def upload_file(self, local_path: str | os.PathLike[str], remote_path: str) -> None:
        """Copy a local file here, over what is there."""
        source, name = _local(local_path)
        target = _inside(remote_path)
        copy_object(source, name, self._store, target)
        self._store.settle([target])

    def download_file(self, remote_path: str, local_path: str | os.PathLike[str]) -> None:
        """Copy a file to a local path, over what is there; the folder must exist."""
        if not self.contains(remote_path):
            raise MissingFile(self._store.join(remote_path))
        target, name = _local(local_path)
        if not Path(target.uri).is_dir():
            raise MissingFile(target.uri)
        copy_object(self._store, remote_path, target, name)


def _local(path: str | os.PathLike[str]) -> tuple[LocalStore, str]:
    place = Path(path).absolute()
    return LocalStore(str(place.parent), {}), place.name


def _folder(path: str | None) -> str:
    return _inside(path.rstrip("/")) if path else ""


def _inside(path: str) -> str:
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidInput(f"paths of a session lie inside its folder, and have no empty or dotted parts, not {path!r}")
    return path
