"""What users hold: a table at one version."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow.compute as pc

from lancelet.blob import BlobFile
from lancelet.errors import InvalidInput, RowNotFound
from lancelet.fragment import LanceFragment, reported
from lancelet.query.threads import ordered_map
from lancelet.scanner import ColumnOrdering, LanceScanner, ScannerBuilder, ScanStatistics
from lancelet.schema import LanceSchema
from lancelet.session import Session
from lancelet.stats import DataStatistics, FieldStatistics, IOStats, LanceStats, version_entry
from lancelet.table.manifest import BasePath as DatasetBasePath
from lancelet.table.manifest import read_manifest
from lancelet.table.versions import list_versions, migrate_to_v2
from lancelet.tags import Branches, Tags
from lancelet.view import TableView

if TYPE_CHECKING:
    from lancelet.delta import DatasetDelta
    from lancelet.editing.delete import DeleteResult
    from lancelet.table.names import ManifestName
    from lancelet.transaction import LanceOperation, Transaction

__all__ = [
    "BlobFile",
    "Branches",
    "BulkCommitResult",
    "ColumnOrdering",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetDelta",
    "DeleteResult",
    "FieldStatistics",
    "IOStats",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "ScanStatistics",
    "ScannerBuilder",
    "Session",
    "Tags",
    "Transaction",
]

_MANIFESTS_AT_ONCE = 16
# Looked up when first asked for: a program that only reads rows does not wait for them.
_LATER = {
    "DatasetDelta": "delta",
    "DeleteResult": "editing.delete",
    "LanceOperation": "transaction",
    "Transaction": "transaction",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"lancelet.{_LATER[name]}"), name)


class BulkCommitResult(TypedDict):
    """What a batch of transactions became."""

    dataset: LanceDataset
    merged: Transaction


class LanceDataset(TableView):
    """A table at one version."""

    # Versions

    @property
    def tags(self) -> Tags:
        return Tags(self._snapshot)

    @property
    def branches(self) -> Branches:
        return Branches(self._snapshot)

    def versions(self) -> list[dict[str, Any]]:
        """All versions, oldest first. Reads every manifest; :meth:`version_refs` reads none."""
        store = self._snapshot.store

        def entry(name: ManifestName) -> dict[str, Any]:
            return version_entry(read_manifest(store, name.path))

        return list(ordered_map(entry, list_versions(store), 1 if store.is_local else _MANIFESTS_AT_ONCE))

    def get_version(self) -> dict[str, Any]:
        """This version as :meth:`versions` shows it."""
        return version_entry(self._snapshot.manifest)

    def version_refs(self) -> list[dict[str, int]]:
        """The numbers of all versions, oldest first."""
        return [{"version": name.version} for name in list_versions(self._snapshot.store)]

    def checkout_version(self, version: int | str | tuple[str | None, int | None]) -> LanceDataset:
        """Another version: a number on the same branch, a tag, or a pair of branch and version."""
        if isinstance(version, bool) or not isinstance(version, (int, str, tuple)):
            raise InvalidInput(f"a version is a number, a tag or a pair of branch and version, not {version!r}")
        if isinstance(version, int) and version < 0:
            raise RowNotFound(f"versions are not negative, got {version}")
        return self._at(self._snapshot.at(version))

    def checkout_latest(self) -> None:
        """Move this dataset to the newest version."""
        newest = self._snapshot.latest()
        if newest.version != self.version:
            self._move(newest)

    def read_transaction(self, version: int) -> Transaction | None:
        """How a version came about."""
        from lancelet.transaction import read_transaction

        return read_transaction(self._snapshot.at(version).manifest)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """How this version and those before it came about, the newest first."""
        from lancelet.transaction import read_transaction

        store = self._snapshot.store
        names = [name for name in list_versions(store) if name.version <= self.version]
        chosen = names[::-1][:recent_transactions]
        return [read_transaction(read_manifest(store, name.path)) for name in chosen]

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """What changed between two versions, the first one excluded."""
        from lancelet.delta import DatasetDelta

        if compared_against is not None:
            first, last = sorted((compared_against, self.version))
            return DatasetDelta(self._table, first, last)
        if begin_version is None and end_version is None:
            raise InvalidInput("delta needs compared_against, or begin_version and end_version")
        if begin_version is None or end_version is None:
            raise InvalidInput("delta needs begin_version and end_version together")
        return DatasetDelta(self._table, begin_version, end_version)

    # Rows

    def insert(self, data: Any, *, mode: str = "append", **kwargs: Any) -> None:
        """Write rows and move to the new version.

        The options are those of :func:`lancelet.write_dataset`, but for ``storage_options`` and ``session``: the
        dataset has its own.
        """
        from lancelet.writing.options import write_options
        from lancelet.writing.table import Target, write_table

        schema, progress = kwargs.pop("schema", None), reported(kwargs.pop("progress", None))
        self._move(write_table(data, schema, Target.of(self), write_options(mode, **kwargs), progress))

    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
    ) -> DeleteResult:
        """Delete the rows for which a predicate is true, and move to the new version.

        Parameters
        ----------
        predicate
            SQL text or a pyarrow expression.
        conflict_retries, retry_timeout
            How often and how long to find the rows again when somebody else changed them in between.
        """
        from lancelet.editing.delete import delete_where

        seconds = retry_timeout.total_seconds()
        snapshot, count = delete_where(self._table, predicate, retries=conflict_retries, timeout=seconds)
        self._move(snapshot)
        return {"num_deleted_rows": count}

    # Columns

    # Metadata

    # Files: compaction, cleanup, checks

    # Branches, clones, base paths

    # Commits

    def restore(self) -> None:
        """Make this version the newest again, as a new version."""
        from lancelet.table import operations
        from lancelet.table.commit import commit

        self._move(commit(self._snapshot.latest(), operations.Restore(self.version)))

    def migrate_manifest_paths_v2(self) -> None:
        """Give all manifests the names of scheme V2; no other writer may be at work meanwhile."""
        migrate_to_v2(self._snapshot.store)
        self._move(self._snapshot.at(self.version))

    @staticmethod
    def commit(
        base_uri: str | os.PathLike[str] | LanceDataset,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: Any = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        commit_timeout: timedelta | None = None,
    ) -> LanceDataset:
        """Commit a change whose files are written already.

        Parameters
        ----------
        base_uri
            The table; an ``Overwrite`` also creates one.
        operation
            What to do, or a transaction, which also says what it is based on.
        read_version
            The version that the work was based on; needed for all operations but ``Overwrite`` and ``Restore``.
        enable_v2_manifest_paths, enable_stable_row_ids
            Properties of a new table.
        detached
            Make a version outside the history, known by its number only.
        max_retries, commit_timeout
            How often and how long to try when others are faster.
        commit_message
            Kept with the transaction; not together with a transaction, which has properties of its own.
        commit_lock, namespace_client, table_id, namespace_client_managed_versioning, base_store_params
            Not supported.
        """
        from lancelet.committing import commit_change
        from lancelet.writing.options import refuse_services

        refuse_services(commit_lock, namespace_client, table_id, base_store_params)
        snapshot = commit_change(
            base_uri,
            operation,
            read_version,
            storage_options=storage_options,
            commit_message=commit_message,
            retries=max_retries,
            timeout=commit_timeout,
            detached=bool(detached),
            stable_row_ids=enable_stable_row_ids,
            v2_names=enable_v2_manifest_paths,
        )
        if isinstance(base_uri, LanceDataset):
            return base_uri._at(snapshot)
        return LanceDataset._of(os.fspath(base_uri), snapshot, None, storage_options)

    @staticmethod
    def commit_batch(
        dest: str | os.PathLike[str] | LanceDataset, transactions: Sequence[Transaction], **options: Any
    ) -> BulkCommitResult:
        """Commit several appends as one version; the options are those of :meth:`commit`."""
        from lancelet.committing import merged_appends

        merged = merged_appends(transactions)
        return {"dataset": LanceDataset.commit(dest, merged, **options), "merged": merged}
