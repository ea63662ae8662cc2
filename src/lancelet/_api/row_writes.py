"""Writing rows as users ask for it: into a table as a new version, or into fragments that somebody commits later."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancelet._api.fragment_metadata import FragmentMetadata, fragment_metadata
from lancelet._api.transaction import LanceOperation, Transaction
from lancelet.errors import InvalidInput, InvalidType
from lancelet.namespace_client.tables import manager_told, vended
from lancelet.progress import ShownProgress, is_shown, shown
from lancelet.schema import LanceSchema
from lancelet.table.commit.operations import Append
from lancelet.writing.fragments import Progress
from lancelet.writing.table import Target, write_operation, write_table

if TYPE_CHECKING:
    from lancelet.namespace_client.tables import Manager
    from lancelet.table.manifest.snapshot import Snapshot
    from lancelet.writing.options import WriteOptions


def write_rows(
    data: object,
    place: object,
    schema: pa.Schema | None,
    options: WriteOptions,
    *,
    progress: object = None,
    storage_options: Mapping[str, str] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    allowed_prefixes: Sequence[str] | None = None,
    manager: Manager | None = None,
    is_shared: bool = False,
) -> Snapshot:
    """The new version of the table at a uri, or of a dataset; see :func:`lancelet.write_dataset`.

    A table that is created in memory takes the name from one that is there, unless ``is_shared``: then others know it
    by a session.
    """
    target = Target.of(place, storage_options, base_store_params, manager, allowed_prefixes)
    if isinstance(place, (str, os.PathLike)) and manager is None and not is_shared:
        target = replace(target, anew=True)
    bars, told = _sorted(progress)
    with shown(bars):
        return write_table(data, schema, target, options, call_progress(told))


def write_new_fragments(
    data: object,
    place: object,
    schema: pa.Schema | None,
    options: WriteOptions,
    *,
    progress: object,
    storage_options: Mapping[str, str] | None,
    base_store_params: Mapping[str, Mapping[str, str]] | None,
    namespace_client: object,
    table_id: Sequence[str] | None,
) -> tuple[list[FragmentMetadata], Transaction]:
    """Write rows into fragments, and return them with the transaction that would commit them."""
    if (namespace_client is None) != (table_id is None):
        raise InvalidInput("namespace_client and table_id only name a table together")
    target = Target.of(
        place,
        vended(place, storage_options, namespace_client, table_id),
        base_store_params,
        # Rows that are appended have to fit the newest version.
        manager_told(namespace_client, table_id) if options.mode == "append" else None,
    )
    bars, told = _sorted(progress)
    with shown(bars):
        operation = write_operation(data, schema, target, options, call_progress(told))
    fragments = [fragment_metadata(fragment) for fragment in operation.fragments]
    read_version = 0 if target.snapshot is None else target.snapshot.version
    if isinstance(operation, Append):
        return fragments, Transaction(read_version, LanceOperation.Append(fragments))
    bases = list(operation.initial_bases) or None
    overwrite = LanceOperation.Overwrite(LanceSchema(operation.schema), fragments, bases)
    return fragments, Transaction(read_version, overwrite)


def _sorted(progress: Any) -> tuple[ShownProgress, object]:
    """What bars or a function show, and what hears of fragments: one of them is None."""
    return (progress, None) if is_shown(progress) else (None, progress)


class NumberedProgress:
    """Tells of fragments under the number that one of them will have."""

    def __init__(self, progress: object, number: int) -> None:
        self._progress = _with_methods(progress)
        self._number = number

    def begin(self, fragment: FragmentMetadata) -> None:
        self._progress.begin(replace(fragment, id=self._number))

    def complete(self, fragment: FragmentMetadata) -> None:
        self._progress.complete(replace(fragment, id=self._number))


def call_progress(progress: object) -> Progress | None:
    """An object with ``begin`` and ``complete``, which take a :class:`FragmentMetadata`, as those who write call it."""
    if progress is None:
        return None
    methods = _with_methods(progress)
    return Progress(
        lambda fragment: methods.begin(fragment_metadata(fragment)),
        lambda fragment: methods.complete(fragment_metadata(fragment)),
    )


def _with_methods(progress: object) -> Any:
    if not (callable(getattr(progress, "begin", None)) and callable(getattr(progress, "complete", None))):
        raise InvalidType(
            f"progress is True, a function, or something with the methods begin and complete, not {type(progress)}"
        )
    return progress
