"""Checks and repairs of tables by their place, also of those that cannot be opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lancelet._api.opening import open_table
from lancelet.errors import CorruptFile
from lancelet.store import open_store
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import newest_readable

if TYPE_CHECKING:
    from lancelet.maintenance.repair import RepairReport
    from lancelet.maintenance.validation.report import VerifyReport
    from lancelet.table.refs.read import Reference


def verify(
    uri: str | os.PathLike[str],
    version: Reference | None = None,
    *,
    deep: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> VerifyReport:
    """Check a table, also one whose newest manifest is damaged.

    The checks are those of :meth:`LanceDataset.verify`. When the newest version cannot be read, the newest one that can
    is checked, and the report says which that is.

    Parameters
    ----------
    uri
        Where the table is.
    version
        The version to check in full: a number, a tag, or a pair of branch and version; the newest by default.
    deep
        Also decode every page, compare what indices say with the columns, and check checksums where there are some.
    storage_options
        Options of the object store.

    Returns
    -------
    VerifyReport
        Its ``findings``, the worst first; it prints as a table, and ``ok`` is whether nothing is wrong.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"x": [1]}, "memory://docs/verified")
    >>> dataset.verify().ok
    True
    """
    from lancelet.maintenance.validation.table import no_version, verify

    try:
        snapshot = open_table(uri, version, None, storage_options)
    except CorruptFile:
        if version is not None:
            raise
        store = open_store(uri, storage_options)
        readable, damaged = newest_readable(store)
        if readable is None:
            return no_version(store.uri, damaged)
        snapshot = Snapshot.of(store, readable)
    return verify(snapshot, deep=deep)


def repair(
    uri: str | os.PathLike[str],
    *,
    dry_run: bool = True,
    set_aside_damaged: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> RepairReport:
    """Repair what can be repaired without guessing, also of a table whose newest manifest is damaged.

    By default nothing is done: the report says what would be.

    Parameters
    ----------
    uri
        Where the table is.
    dry_run
        Only tell.
    set_aside_damaged
        Go on without versions whose manifests cannot be read. Their rows are lost to the table unless a copy of the
        manifest is found: try backups first. The newest version that can be read becomes the newest again, as a new
        version; damaged manifests stay under another name (``.damaged``), and no other file is touched.
    storage_options
        Options of the object store.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"x": [1]}, "memory://docs/repaired")
    >>> dataset.repair().actions
    ()
    """
    from lancelet.maintenance.repair import repair

    store = open_store(uri, storage_options)
    try:
        snapshot = open_table(uri, None, None, storage_options)
    except CorruptFile:
        readable, _ = newest_readable(store)
        if readable is None:
            raise
        snapshot = Snapshot.of(store, readable)
    report, _ = repair(snapshot, dry_run=dry_run, set_aside_damaged=set_aside_damaged)
    return report
