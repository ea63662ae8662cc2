"""Opening a table by what users give: a path, a version or tag, a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from lancelet.errors import InvalidInput, InvalidType, RowNotFound
from lancelet.namespace_client.versions import managed_store
from lancelet.store import open_store
from lancelet.table.manifest.snapshot import open_snapshot

if TYPE_CHECKING:
    from lancelet.namespace_client.tables import Manager
    from lancelet.table.manifest.snapshot import Snapshot

Reference: TypeAlias = int | str | tuple[str | None, int | None] | None
"""A version number, a tag, or a pair of branch and version."""


def open_table(
    uri: str | os.PathLike[str],
    version: Reference,
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


def parse_time(moment: Any) -> datetime:
    """A point in time: a datetime, a pandas Timestamp, or a text; without a zone it is local time."""
    if isinstance(moment, datetime):
        return moment
    if not isinstance(moment, str):
        raise InvalidType(f"a time is a datetime or a text, not {moment!r} of {type(moment)}")
    try:
        return datetime.fromisoformat(moment)
    except ValueError:
        raise InvalidInput(f"{moment!r} is not a time; write it like 2024-01-31T12:30:00") from None
