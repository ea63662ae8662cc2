"""Opening a table by what users give: a path, a version or tag, a time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput, InvalidType, NotSupported, RowNotFound
from lancelet.namespace_client.tables import is_named, located, manager_of
from lancelet.namespace_client.versions import managed_store
from lancelet.store import open_store
from lancelet.store.limit import with_limit
from lancelet.store.options import with_base_params
from lancelet.table.manifest.snapshot import open_snapshot

if TYPE_CHECKING:
    from lancelet.namespace_client.tables import Manager
    from lancelet.table.manifest.snapshot import Snapshot
    from lancelet.table.refs.read import Reference


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table at one version, and how it was found."""

    uri: str
    snapshot: Snapshot
    storage_options: Mapping[str, str] | None


def find_table(
    uri: str | os.PathLike[str] | None,
    version: Reference | None,
    asof: datetime | str | None,
    *,
    storage_options: Mapping[str, str] | None,
    base_store_params: Mapping[str, Mapping[str, str]] | None,
    allowed_prefixes: Sequence[str] | None,
    serialized_manifest: bytes | None,
    namespace_client: object,
    table_id: Sequence[str] | None,
    is_managed: bool,
) -> OpenTable:
    """The table that the arguments of :class:`lancelet.LanceDataset` name."""
    # With a uri, the namespace has been asked already.
    manager = None
    if is_named(None if table_id is not None else uri, namespace_client, table_id):
        manager = manager_of(namespace_client, table_id, managed=is_managed)
        if uri is None:
            place = located(namespace_client, table_id or (), storage_options)
            uri, storage_options, manager = place.uri, place.storage_options, place.manager
    assert uri is not None
    if serialized_manifest is not None:
        raise NotSupported("a manifest that was serialized is not taken; pickle the dataset, or open it by its version")
    moment = parse_time(asof) if version is None and asof is not None else None
    options = with_limit(with_base_params(storage_options, base_store_params), allowed_prefixes)
    snapshot = open_table(uri, version, moment, options, manager)
    return OpenTable(os.fspath(uri), snapshot, storage_options)


def open_table(
    uri: str | os.PathLike[str],
    version: Reference | None,
    asof: datetime | None,
    storage_options: Mapping[str, str] | None,
    manager: Manager | None = None,
) -> Snapshot:
    """The table at one version; ``manager`` is the namespace that makes its versions."""
    if not isinstance(uri, (str, os.PathLike)):
        raise InvalidType(f"the uri of a table is a text or a path, not {uri!r}")
    if version is not None and (isinstance(version, bool) or not isinstance(version, (int, str, tuple))):
        raise InvalidInput(f"version must be an integer or a string, not {version!r}")
    if isinstance(version, int) and version < 0:
        raise RowNotFound(f"versions are not negative, got {version}")
    if manager is not None:
        store = managed_store(open_store(uri, storage_options), manager)
        return open_snapshot(store, version, asof=asof)
    return open_snapshot(uri, version, asof=asof, storage_options=storage_options)


def parse_time(moment: object) -> datetime:
    """A point in time: a datetime, a pandas Timestamp, or a text; without a zone it is local time."""
    if isinstance(moment, datetime):
        return moment
    if not isinstance(moment, str):
        raise InvalidType(f"a time is a datetime or a text, not {moment!r} of {type(moment)}")
    try:
        return datetime.fromisoformat(moment)
    except ValueError:
        raise InvalidInput(f"{moment!r} is not a time; write it like 2024-01-31T12:30:00") from None
