"""Which versions a table has, and where their manifests are.

Spec table-format.md 1.1 and 1.2. Under naming scheme V2 the newest version has
the smallest name, so the beginning of a sorted listing is enough. The hint file
next to the manifests is never needed: local listings are cheap, and the object
stores that we speak to list in order. A table with an external manifest store
asks that first.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lancelet.errors import CorruptFile, MissingFile, NotFound, TableNotFound, VersionNotFound
from lancelet.table.manifest.manifest import Manifest, read_manifest
from lancelet.table.manifest.names import (
    MAX_VERSION,
    SUFFIX,
    VERSIONS_DIR,
    ManifestName,
    NamingScheme,
    is_detached,
    parse_manifest_name,
)
from lancelet.table.registers.external import external_for, find_latest, find_version, publish, register, rename

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from lancelet.store import ObjectInfo, Store

_V2_LENGTH = 20 + len(SUFFIX)


def latest_version(store: Store) -> ManifestName:
    """The newest version of the table at ``store``, by one listing."""
    external = external_for(store)
    if external is not None:
        known = find_latest(store, external)
        if known is not None:
            return known
    if not store.lists_in_order:
        newest = _least_name(list(store.list_names(VERSIONS_DIR)))
        if newest is not None:
            return newest
    names = _attached(store)
    if store.lists_in_order:
        first = next(names, None)
        if first is None:
            raise TableNotFound(store.uri)
        if first.scheme is NamingScheme.V2:
            return first
        names = iter([first, *names])
    found = _consistent(store, names)
    if not found:
        raise TableNotFound(store.uri)
    return max(found, key=lambda name: name.version)


def list_versions(store: Store) -> list[ManifestName]:
    """All versions in the table's history, oldest first. Detached versions are not part of it."""
    external = external_for(store)
    if external is not None:
        # The newest one may not have its final name yet.
        find_latest(store, external)
    found = _consistent(store, _attached(store))
    if not found:
        raise TableNotFound(store.uri)
    return sorted(found, key=lambda name: name.version)


def list_manifests(store: Store) -> tuple[dict[ManifestName, ObjectInfo], list[ObjectInfo]]:
    """Everything in ``_versions/``: manifests, detached ones included, and the rest."""
    external = external_for(store)
    if external is not None:
        find_latest(store, external)
    manifests, others = {}, []
    for entry in store.list_objects(VERSIONS_DIR):
        name = parse_manifest_name(entry.path.removeprefix(f"{VERSIONS_DIR}/"))
        if name is None:
            others.append(entry)
        else:
            manifests[name] = entry
    if not _consistent(store, (name for name in manifests if not name.is_detached)):
        raise TableNotFound(store.uri)
    return manifests, others


def read_version(store: Store, version: int, scheme: NamingScheme | None = None) -> Manifest:
    """The manifest of one version, detached ones included.

    ``scheme`` saves a look at the other naming scheme where it is known.
    """
    if not 0 <= version <= MAX_VERSION:
        raise VersionNotFound(store.uri, version, "versions are numbers from 1 on")
    schemes = [scheme] if scheme is not None else [NamingScheme.V2, NamingScheme.V1]
    if is_detached(version):
        schemes = [NamingScheme.V2]
    for choice in schemes:
        with suppress(MissingFile):
            return read_named(store, ManifestName(version, choice))
    names = list_versions(store)
    held = f"the table has {len(names)} version(s), from {names[0].version} to {names[-1].version}"
    if 0 < version < names[-1].version:
        raise VersionNotFound(store.uri, version, f"it has been cleaned up, with its files; {held}")
    raise VersionNotFound(store.uri, version, f"it was never written; {held}")


def read_named(store: Store, name: ManifestName) -> Manifest:
    """The manifest of one version; ``MissingFile`` when there is none."""
    external = None if name.is_detached else external_for(store)
    if external is None:
        return read_manifest(store, name.path)
    known = find_version(store, external, name.version)
    manifest = read_manifest(store, (known or name).path)
    if known is None:
        register(store, external, name, manifest.size)
    return manifest


def read_latest(store: Store) -> Manifest:
    """The manifest of the newest version: one listing and one read."""
    newest = latest_version(store)
    try:
        return read_manifest(store, newest.path)
    except CorruptFile as error:
        readable, _ = newest_readable(store)
        how = "no other version can be opened either"
        if readable is not None:
            how = f"version {readable.version} can be opened: version={readable.version}"
        advice = "lancelet.verify() and lancelet.repair() take the table's path and tell how to go on"
        reason = f"{error.reason}; this is the manifest of version {newest.version}, the newest; {how}; {advice}"
        raise CorruptFile(error.path, reason, error.place) from None


def newest_readable(store: Store) -> tuple[Manifest | None, list[tuple[int, CorruptFile]]]:
    """The newest version whose manifest is not damaged, and the damaged ones after it, the newest first."""
    damaged: list[tuple[int, CorruptFile]] = []
    for name in reversed(list_versions(store)):
        try:
            return read_manifest(store, name.path), damaged
        except CorruptFile as error:
            damaged.append((name.version, error))
        except MissingFile:
            # Cleaned up since it was listed.
            continue
    return None, damaged


def publish_version(store: Store, name: ManifestName, data: bytes) -> bool:
    """Create the manifest of a version under its final name; False when there is one."""
    external = None if name.is_detached else external_for(store)
    if external is None:
        return store.put_if_absent(name.path, data)
    return publish(store, external, name, data)


def migrate_to_v2(store: Store) -> int:
    """Rename the manifests of naming scheme V1, and those that an earlier migration left; returns how many.

    No other writer may be at work meanwhile.
    """
    external = external_for(store)
    if external is not None:
        # The newest one may not have its final name yet.
        find_latest(store, external)
    old = sorted((n for n in _attached(store) if n.scheme is NamingScheme.V1), key=lambda name: name.version)
    for name in old:
        target = ManifestName(name.version, NamingScheme.V2)
        data = store.read_all(name.path)
        if not store.put_if_absent(target.path, data) and store.read_all(target.path) != data:
            raise CorruptFile(
                store.join(target.path), f"is another manifest than {name.path}, which has the same version"
            )
        if external is not None:
            rename(store, external, target, len(data))
        store.delete(name.path)
    return len(old)


def read_as_of(store: Store, moment: datetime) -> Manifest:
    """The newest version committed before ``moment``; a naive time is local time."""
    moment = moment.astimezone()
    # Clocks of writers differ, so times need not ascend with versions: the newest version that fits wins.
    for name in reversed(list_versions(store)):
        manifest = read_manifest(store, name.path)
        if manifest.timestamp < moment:
            return manifest
    raise NotFound(f"{moment.isoformat()} is earlier than the first version of {store.uri}")


def _attached(store: Store) -> Iterator[ManifestName]:
    names: Iterable[str] = store.list_names(VERSIONS_DIR)
    parsed = (parse_manifest_name(name) for name in names)
    return (name for name in parsed if name is not None and not name.is_detached)


def _least_name(names: list[str]) -> ManifestName | None:
    """The newest of versions that are all named by scheme V2, with no look at any other; None where some are not."""
    alike = [name for name in names if len(name) == _V2_LENGTH]
    others = [name for name in names if len(name) != _V2_LENGTH] if len(alike) < len(names) else []
    if not alike or any(name.endswith(SUFFIX) and not name.startswith("d") for name in others):
        return None
    # Digits come before the letter of detached versions.
    least = parse_manifest_name(min(alike))
    return None if least is None or least.is_detached else least


def _consistent(store: Store, names: Iterable[ManifestName]) -> list[ManifestName]:
    found = list(names)
    if len({name.scheme for name in found}) > 1:
        raise CorruptFile(
            store.join(VERSIONS_DIR),
            "has manifests of both naming schemes; finish the migration by renaming those of the old scheme",
        )
    return found
