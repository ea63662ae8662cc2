"""External manifest stores: who took which version, for stores that cannot create an object only if it is absent.

A small database decides; the object store still holds every manifest, so that a
table can be copied and read without the database (spec table-format.md 7.7)::

    1  object store  put   _versions/<name>.manifest-<uuid>
    2  database      put   version -> <name>.manifest-<uuid>, only if absent: the commit is decided
    3  object store  copy  <name>.manifest-<uuid> to <name>.manifest
    4  database      put   version -> <name>.manifest
    5  object store  delete <name>.manifest-<uuid>

Whoever meets a version between 2 and 5, reader or writer, carries out the rest.
Which database a table uses is a storage option, ``manifest_store``:
``sqlite:///path/of.db`` or ``dynamodb://table``; an ``s3+ddb://`` URI sets it.
"""

from __future__ import annotations

import re
import uuid as uuids
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from lancelet.errors import CorruptFile, InvalidInput, MissingFile, StorageError, UncertainPut
from lancelet.store.objects import put_own
from lancelet.table.manifest.names import SUFFIX, VERSIONS_DIR, ManifestName, parse_manifest_name
from lancelet.table.registers.protocol import ManifestStore, RegisteredVersion
from lancelet.table.registers.registered import RegisteredStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancelet.store import Store

OPTION = "manifest_store"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*/?")
_STAGED = re.compile(re.escape(SUFFIX) + r"-[0-9a-fA-F-]{32,36}\Z")


def external_for(store: Store) -> ManifestStore | None:
    """The register that a table was opened with, or the database that its storage options name."""
    if isinstance(store, RegisteredStore):
        return store.register
    address = store.options.get(OPTION)
    return None if address is None else _open(address, tuple(sorted(store.options.items())))


@lru_cache(maxsize=64)
def _open(address: str, options: tuple[tuple[str, str], ...]) -> ManifestStore:
    kind, _, rest = address.partition("://")
    # Databases are only loaded by those who use them.
    if kind == "sqlite":
        from lancelet.table.registers.sqlite_store import SqliteManifestStore

        return SqliteManifestStore(rest)
    if kind == "dynamodb":
        from lancelet.table.registers.dynamodb import DynamoManifestStore

        settings: Mapping[str, str] = dict(options)
        return DynamoManifestStore(rest, settings)
    raise InvalidInput(f"storage option '{OPTION}' is {address!r}; it must be sqlite:///path/of.db or dynamodb://table")


def base_of(store: Store) -> str:
    """How the database names a table: its path inside the bucket."""
    uri = store.uri
    match = _SCHEME.match(uri)
    return uri[match.end() :].strip("/") if match else uri.strip("/")


def find_latest(store: Store, external: ManifestStore) -> ManifestName | None:
    """The newest version, finished if need be; None when the database does not know the table."""
    entry = external.latest(base_of(store))
    return None if entry is None else _name(store, _finished(store, external, entry))


def find_version(store: Store, external: ManifestStore, version: int) -> ManifestName | None:
    """One version, finished if need be; None when the database does not know it."""
    entry = external.get(base_of(store), version)
    return None if entry is None else _name(store, _finished(store, external, entry))


def register(store: Store, external: ManifestStore, name: ManifestName, size: int) -> None:
    """Tell the database of a version that was there before it."""
    if not external.can_change:
        return
    with suppress(StorageError):
        external.put_if_absent(base_of(store), RegisteredVersion(name.version, f"{base_of(store)}/{name.path}", size))


def rename(store: Store, external: ManifestStore, name: ManifestName, size: int) -> None:
    """Let the database lead to the new name of a version that it knows."""
    base = base_of(store)
    if external.get(base, name.version) is not None:
        external.put_if_present(base, RegisteredVersion(name.version, f"{base}/{name.path}", size))


def forget_versions(store: Store) -> None:
    """Drop what the database knows of a table that goes away, if the table has one."""
    external = external_for(store)
    if external is None or not external.can_change:
        return
    base = base_of(store)
    while (entry := external.latest(base)) is not None:
        external.delete(base, entry.version)


def publish(store: Store, external: ManifestStore, name: ManifestName, data: bytes) -> bool:
    """Create the manifest of a version; False when somebody else has it."""
    base = base_of(store)
    staged = f"{name.path}-{uuids.uuid4()}"
    put_own(store, staged, data)
    entry = RegisteredVersion(name.version, f"{base}/{staged}", len(data))
    try:
        ours = _decided(store, external, base, entry, data)
    except UncertainPut:
        raise
    except StorageError:
        _drop(store, staged)
        raise
    if not ours:
        _drop(store, staged)
        return False
    # The version is ours from here on; whoever reads it next does what we fail to do.
    with suppress(StorageError, MissingFile):
        _finished(store, external, entry)
    return True


def _drop(store: Store, staged: str) -> None:
    with suppress(StorageError):
        store.delete(staged)


def _decided(store: Store, external: ManifestStore, base: str, entry: RegisteredVersion, data: bytes) -> bool:
    """Whether the version is ours."""
    silence: StorageError | None = None
    try:
        if external.put_if_absent(base, entry):
            return True
    except UncertainPut as error:
        silence = error
    # The client may have repeated the request, so that ours is in the way of itself.
    try:
        found = external.get(base, entry.version)
    except StorageError as error:
        raise UncertainPut(store.join(entry.path), str(error)) from error
    if found is None:
        raise UncertainPut(store.join(entry.path), str(silence or "the version was taken, and is free now"))
    path = _inside(store, found)
    if path == _inside(store, entry):
        return True
    if found.is_staged:
        return False
    # Finished by somebody: only its bytes tell whose it was.
    try:
        return store.read_all(path) == data
    except StorageError as error:
        raise UncertainPut(store.join(entry.path), str(error)) from error


def _finished(store: Store, external: ManifestStore, entry: RegisteredVersion) -> str:
    """Path of a version's manifest under its final name, which it gets here if it does not have it yet."""
    path = _inside(store, entry)
    if not entry.is_staged:
        return path
    final = _final(path)
    if not store.exists(final):
        try:
            store.copy(path, final)
        except MissingFile:
            # Somebody else may have finished between the two questions.
            if not store.exists(final):
                raise MissingFile(
                    store.join(path),
                    f"version {entry.version} was committed with it, but it is gone; the table cannot be read",
                ) from None
    size = store.size_of(final)
    if entry.size is not None and size != entry.size:
        raise CorruptFile(
            store.join(final), f"has {size} bytes, but version {entry.version} was committed with {entry.size}"
        )
    if external.can_change:
        external.put_if_present(base_of(store), RegisteredVersion(entry.version, f"{base_of(store)}/{final}", size))
        with suppress(StorageError):
            store.delete(path)
    return final


def _final(path: str) -> str:
    return _STAGED.sub(SUFFIX, path)


def _inside(store: Store, entry: RegisteredVersion) -> str:
    """Path relative to the table."""
    base = base_of(store)
    path = entry.path.strip("/").removeprefix(f"{base}/")
    folder, _, name = path.rpartition("/")
    if folder != VERSIONS_DIR or not name or parse_manifest_name(_final(name)) is None:
        raise CorruptFile(
            store.join(VERSIONS_DIR), f"the manifest store has {entry.path!r} for version {entry.version}"
        )
    return path


def _name(store: Store, path: str) -> ManifestName:
    name = parse_manifest_name(path.rpartition("/")[2])
    if name is None:
        raise CorruptFile(store.join(path), "is not the name of a manifest")
    return name
