"""What users hold: a table at one version."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from lancelet._api.scanner import ColumnOrdering, LanceScanner, ScannerBuilder, ScanStatistics
from lancelet._api.session import Session
from lancelet._api.stats import DataStatistics, FieldStatistics, IOStats, LanceStats, version_entry
from lancelet._api.tags import Branches, Tags
from lancelet._naming.lazy import lazy_names
from lancelet.blob import BlobFile
from lancelet.errors import InvalidInput
from lancelet.execution.threads import ordered_map
from lancelet.fragment import LanceFragment
from lancelet.indexed import IndexedTable
from lancelet.schema import LanceSchema
from lancelet.store import open_store
from lancelet.store.limit import elsewhere, limit_options
from lancelet.store.options import own_options, with_base_params
from lancelet.store.uri import open_like
from lancelet.table.commit.operations import COMMIT_MESSAGE as LANCE_COMMIT_MESSAGE_KEY
from lancelet.table.commit.patience import COMMIT_RETRIES, COMMIT_SECONDS
from lancelet.table.manifest.manifest import BasePath as DatasetBasePath
from lancelet.table.manifest.manifest import read_manifest
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import list_versions, migrate_to_v2
from lancelet.table.refs.read import Reference, check_reference

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet._api.merge_insert import MergeInsertBuilder
    from lancelet._api.transaction import LanceOperation, Transaction
    from lancelet.changes.delta import DatasetDelta
    from lancelet.editing.delete import DeleteResult
    from lancelet.editing.update import UpdateResult
    from lancelet.file import LanceFileSession
    from lancelet.maintenance.cleanup_report import (
        CleanupCandidateFile,
        CleanupExplanation,
        CleanupReferencedBranch,
        CleanupStats,
    )
    from lancelet.maintenance.repair import RepairReport
    from lancelet.maintenance.validation.report import VerifyReport
    from lancelet.optimize import DatasetOptimizer
    from lancelet.store import Store
    from lancelet.table.manifest.names import ManifestName

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "BlobFile",
    "Branches",
    "BulkCommitResult",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "ColumnOrdering",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetOptimizer",
    "DeleteResult",
    "FieldStatistics",
    "IOStats",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "MergeInsertBuilder",
    "ScanStatistics",
    "ScannerBuilder",
    "Session",
    "Tags",
    "Transaction",
    "UpdateResult",
]

COMMIT_TIMEOUT = timedelta(seconds=COMMIT_SECONDS)
_MANIFESTS_AT_ONCE = 16


__getattr__ = lazy_names(
    __name__,
    {
        "lancelet.maintenance.cleanup_report": (
            "CleanupCandidateFile",
            "CleanupExplanation",
            "CleanupReferencedBranch",
            "CleanupStats",
        ),
        "lancelet._api.records": ("AlterColumn", "Branch", "DatasetStats", "Tag", "Version", "VersionRef"),
        "lancelet.optimize": ("AutoCleanupConfig", "Compaction", "CompactionMetrics", "DatasetOptimizer"),
        "lancelet.udf": ("BatchUDF", "BatchUDFCheckpoint", "batch_udf"),
        "lancelet._api.fragment_metadata": ("DataFile", "FragmentMetadata"),
        "lancelet._api.transaction": ("Index", "IndexFile", "LanceOperation", "Transaction"),
        "lancelet.indices": ("IndexConfig", "IndexInformation", "SupportedDistributedIndices"),
        "lancelet._api.bitmap": ("Bitmap",),
        "lancelet.changes.delta": ("DatasetDelta",),
        "lancelet.editing.delete": ("DeleteResult",),
        "lancelet.editing.update": ("UpdateResult",),
        "lancelet._api.merge_insert": ("ExecuteResult", "MergeInsertBuilder"),
        "lancelet._api.write": ("write_dataset",),
    },
)


class BulkCommitResult(TypedDict):
    """What a batch of transactions became."""

    dataset: LanceDataset
    merged: Transaction


class LanceDataset(IndexedTable):
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
        """Another version: a number on the same branch, a tag, or a pair of branch and version.

        Of a pair, None is the main branch (as ``"main"`` is), or the newest version.
        """
        return self._at(self._snapshot.at(check_reference(version)))

    def checkout_latest(self) -> None:
        """Move this dataset to the newest version."""
        newest = self._snapshot.latest()
        if newest.version != self.version:
            self._move(newest)

    def read_transaction(self, version: int) -> Transaction | None:
        """How a version came about."""
        from lancelet._api.conversion import read_transaction

        return read_transaction(self._snapshot.at(version).manifest)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """How this version and those before it came about, the newest first."""
        from lancelet._api.conversion import read_transaction

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
        from lancelet.changes.delta import DatasetDelta

        if compared_against is not None:
            return DatasetDelta.between(self._table, compared_against, self.version)
        if begin_version is None and end_version is None:
            raise InvalidInput("delta needs compared_against, or begin_version and end_version")
        if begin_version is None or end_version is None:
            raise InvalidInput("delta needs begin_version and end_version together")
        return DatasetDelta(self._table, begin_version, end_version)

    # Files: compaction, cleanup, checks

    @property
    def optimize(self) -> DatasetOptimizer:
        """Compaction: ``dataset.optimize.compact_files()``."""
        from lancelet.optimize import DatasetOptimizer

        return DatasetOptimizer(self)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Sequence[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupStats:
        """Remove old versions, and the files that only they needed.

        This version and later ones stay, and so do tagged and detached ones, and those that branches depend on. A
        version goes only when all arguments that are given let it go. Shallow clones in other places are not known to
        the table: do not remove versions that they depend on.

        Parameters
        ----------
        older_than
            Only versions older than this go; two weeks when neither ``retain_versions`` nor ``versions`` is given.
        retain_versions
            This many of the newest versions stay.
        delete_unverified
            Also remove young files that no version names. They may belong to a write in progress, so they otherwise
            stay for seven days.
        error_if_tagged_old_versions
            Whether tagged versions that would go are an error, or just stay.
        delete_rate_limit
            At most so many files in a second.
        versions
            Only these go. A detached version goes only when it is named here.
        delete_concurrency
            At most so many requests at the same time.
        """
        from lancelet.maintenance.cleanup_report import clean, cleanup_policy

        policy = cleanup_policy(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            versions=versions,
        )
        return clean(self._snapshot, policy, delete_rate_limit, delete_concurrency)

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Sequence[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """What :meth:`cleanup_old_versions` would remove; nothing is removed.

        Parameters
        ----------
        older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions
            See :meth:`cleanup_old_versions`.
        delete_rate_limit
            Means nothing here.
        include_files, max_files
            Whether to name the files, and how many of them at most.
        """
        from lancelet.maintenance.cleanup_report import cleanup_policy, explain

        policy = cleanup_policy(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            versions=versions,
        )
        return explain(self._snapshot, policy, include_files=include_files, max_files=max_files)

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Check this version in full, and what the whole table relies on: other versions, tags, branches, the hint.

        The report has its findings in ``.findings``, the worst first, and prints as a table; ``.ok`` is whether nothing
        is wrong. :func:`lancelet.verify` does the same for a table that cannot be opened.

        Parameters
        ----------
        deep
            Also decode every page of this version, look for nulls in columns that have none, compare what indices say
            with their columns, and check checksums where files have some.
        """
        from lancelet.maintenance.validation.table import verify

        return verify(self._snapshot, deep=deep)

    def repair(self, *, dry_run: bool = True, set_aside_damaged: bool = False) -> RepairReport:
        """Repair what can be repaired without guessing, on the newest version.

        That is the hint file, files that no version has named for a week, and sizes and counts that the manifest lacks.
        By default nothing is done: the report says what would be. ``set_aside_damaged`` goes on without versions whose
        manifests are damaged; see :func:`lancelet.repair`, which also works where the table cannot be opened.
        """
        from lancelet.maintenance.repair import repair

        report, snapshot = repair(self._snapshot, dry_run=dry_run, set_aside_damaged=set_aside_damaged)
        if not dry_run and snapshot.version != self.version:
            self._move(snapshot)
        return report

    # Branches, clones, base paths

    def create_branch(
        self,
        branch: str,
        reference: Reference | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> LanceDataset:
        """Begin a branch: a line of versions of its own, which shares the files of the version that it begins at.

        Parameters
        ----------
        branch
            Letters, digits, ``.``, ``-`` and ``_``, in parts with ``/`` between them; not ``main``.
        reference
            A version number on this branch, a tag, or a pair of branch and version; this version by default.
        storage_options
            Options of the dataset that is returned; those of this dataset by default.

        Returns
        -------
        LanceDataset
            The branch at its first version, whose number is that of the version it begins at.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"x": [1]}, "memory://docs/branched")
        >>> branch = dataset.create_branch("try")
        >>> lancelet.write_dataset({"x": [2]}, branch, mode="append").count_rows(), dataset.count_rows()
        (2, 1)
        """
        from lancelet.table.refs.write import create_branch

        source = self._with_options(storage_options)
        made = create_branch(source, branch, None if reference is None else check_reference(reference))
        return LanceDataset._of(made.uri, made, self._session, storage_options or self._storage_options)

    def shallow_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Reference | None,
        storage_options: Mapping[str, str] | None = None,
    ) -> LanceDataset:
        """Make a table that shares the files of a version, and goes its own way from there.

        The clone reads the files where they are: it needs them as long as it refers to them, and a cleanup of this
        table does not know of it. A tag keeps the version.

        Parameters
        ----------
        target_path
            Where the clone is to be; no table may be there.
        reference
            A version number on this branch, a tag, or a pair of branch and version; None is this version.
        storage_options
            Options of the clone; those of this dataset by default.
        """
        from lancelet.cloning.clone import shallow_clone

        # The clone reads this table's files, with the options that this table has for them.
        source = self._referred(reference)
        target = self._target(target_path, storage_options)
        target = open_like(
            target, with_base_params(target.options, {source.root.uri: own_options(source.store.options)})
        )
        made = shallow_clone(source, target)
        return LanceDataset._of(os.fspath(target_path), made, None, storage_options or self._storage_options)

    def deep_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Reference | None,
        storage_options: Mapping[str, str] | None = None,
    ) -> LanceDataset:
        """Make a table with copies of all files of a version: data, deletions, indices, blobs.

        Blobs that are references stay references. The parameters are those of :meth:`shallow_clone`.
        """
        from lancelet.cloning.clone import deep_clone

        target = self._target(target_path, storage_options)
        made = deep_clone(self._referred(reference), target)
        return LanceDataset._of(os.fspath(target_path), made, None, storage_options or self._storage_options)

    def add_bases(
        self, new_bases: Sequence[DatasetBasePath], transaction_properties: Mapping[str, str] | None = None
    ) -> LanceDataset:
        """Add places that files of the table may be in, and move to the new version.

        Parameters
        ----------
        new_bases
            Their names and paths are no other base path's. Local paths become absolute.
        transaction_properties
            Texts kept with the transaction.

        Returns
        -------
        LanceDataset
            This dataset.
        """
        from lancelet.cloning.bases import add_bases

        self._move(add_bases(self._snapshot, new_bases, transaction_properties))
        return self

    def move_base(
        self,
        base: str | int,
        path: str,
        *,
        check: bool = True,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> LanceDataset:
        """Tell the table that the files of a base path are at another place now, and move to the new version.

        Copy the files first, and remove the old ones when no version before this one is needed any more. No file of
        the table is written but a manifest. Nobody may write to the base path meanwhile.

        Parameters
        ----------
        base
            Name, path or id of the base path.
        path
            Its new place.
        check
            Look whether all files of this version are there.
        transaction_properties
            Texts kept with the transaction.

        Returns
        -------
        LanceDataset
            This dataset.
        """
        from lancelet.cloning.bases import move_base

        self._move(move_base(self._snapshot, base, path, check=check, properties=transaction_properties))
        return self

    def truncate_table(self) -> None:
        """Delete all rows, and move to the new version; the columns stay."""
        from lancelet.editing.truncate import truncate

        self._move(truncate(self._table))

    @staticmethod
    def drop(
        base_uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Remove a table with everything in its folder; what is in other base paths stays.

        Parameters
        ----------
        base_uri
            The table. A folder without a manifest that can be read is refused.
        storage_options
            Options of the object store.
        ignore_not_found
            No error when there is nothing at all.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"x": [1]}, "memory://docs/dropped")
        >>> lancelet.LanceDataset.drop("memory://docs/dropped")
        """
        from lancelet.cloning.drop import drop_table

        drop_table(open_store(base_uri, storage_options), ignore_not_found=bool(ignore_not_found))

    def _with_options(self, storage_options: Mapping[str, str] | None) -> Snapshot:
        """This version, read with other options."""
        if storage_options is None:
            return self._snapshot
        store = self._snapshot.store
        return Snapshot.of(
            open_like(store, {**storage_options, **limit_options(store.options)}), self._snapshot.manifest
        )

    def _referred(self, reference: Reference | None) -> Snapshot:
        return self._snapshot if reference is None else self._snapshot.at(check_reference(reference))

    def _target(self, path: str | os.PathLike[str], storage_options: Mapping[str, str] | None) -> Store:
        """The folder of a new table."""
        own = elsewhere(self._snapshot.store.options)
        return open_store(path, own if storage_options is None else {**storage_options, **limit_options(own)})

    # Commits

    def new_file_session(self) -> LanceFileSession:
        """Read and write single files of the table's folder, with the storage options of this dataset."""
        from lancelet.file.session import LanceFileSession

        return LanceFileSession._of(self._snapshot.store)

    def remap_row_addrs(self, addrs: pa.Array) -> pa.Array | None:
        """Where rows are now that had these addresses before compactions that the table remembers.

        A row that a compaction dropped is null. None when the table remembers no compaction.

        Parameters
        ----------
        addrs
            Addresses as 64-bit numbers without a sign.
        """
        from lancelet.indices import remap_row_addresses

        return remap_row_addresses(self._snapshot, addrs)

    @classmethod
    def from_pydantic_model(
        cls,
        model_class: Any,
        data: Any,
        uri: str | os.PathLike[str] | None = None,
        mode: str = "create",
        **kwargs: Any,
    ) -> LanceDataset:
        """Write instances of a pydantic model to a table.

        Parameters
        ----------
        model_class
            The model, whose fields are the columns; see :func:`lancelet.pydantic.pydantic_to_schema`.
        data
            A list of its instances.
        uri
            Where the table is or will be; by default the model's name in small letters with ``_`` between its words.
        mode, kwargs
            See :func:`lancelet.write_dataset`.
        """
        from lancelet.fragment import reported
        from lancelet.pydantic import model_rows, table_name
        from lancelet.writing.options import write_options
        from lancelet.writing.table import Target, write_table

        rows = model_rows(model_class, data)
        place = table_name(model_class) if uri is None else uri
        progress, session = kwargs.pop("progress", None), kwargs.pop("session", None)
        storage_options = kwargs.pop("storage_options", None)
        limit = kwargs.pop("allowed_prefixes", None)
        target = Target.of(place, storage_options, kwargs.pop("base_store_params", None), allowed_prefixes=limit)
        if session is None and not isinstance(place, LanceDataset):
            target = replace(target, anew=True)
        snapshot = write_table(rows, None, target, write_options(mode, **kwargs), reported(progress))
        return cls._of(os.fspath(place), snapshot, session, storage_options)

    def restore(self) -> None:
        """Make this version the newest again, as a new version."""
        from lancelet.table.commit import operations
        from lancelet.table.commit.run import commit

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
        max_retries: int = COMMIT_RETRIES,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        commit_timeout: timedelta | None = COMMIT_TIMEOUT,
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
            How often and how long to try when others are faster. 20 times, the default of pylance, are not counted: the
            commit goes on until its time is over.
        commit_message
            Kept with the transaction; not together with a transaction, which has properties of its own.
        base_store_params
            Storage options of base paths, by their URIs.
        namespace_client, table_id, namespace_client_managed_versioning
            The namespace that has the table, beside ``base_uri``, and whether it makes the table's versions: then the
            new one is made by its ``create_table_version``.
        commit_lock
            Not supported.
        """
        from lancelet._api.committing import commit_change
        from lancelet.namespace_client.tables import manager_of
        from lancelet.writing.options import refuse_lock

        refuse_lock(commit_lock)
        manager = manager_of(namespace_client, table_id, managed=namespace_client_managed_versioning)
        snapshot = commit_change(
            base_uri,
            operation,
            read_version,
            storage_options=storage_options,
            base_params=base_store_params,
            commit_message=commit_message,
            retries=max_retries,
            timeout=commit_timeout,
            detached=bool(detached),
            stable_row_ids=enable_stable_row_ids,
            v2_names=enable_v2_manifest_paths,
            manager=manager,
        )
        if isinstance(base_uri, LanceDataset):
            return base_uri._at(snapshot)
        return LanceDataset._of(os.fspath(base_uri), snapshot, None, storage_options)

    @staticmethod
    def commit_batch(
        dest: str | os.PathLike[str] | LanceDataset,
        transactions: Sequence[Transaction],
        commit_lock: Any = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = COMMIT_RETRIES,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        commit_timeout: timedelta | None = COMMIT_TIMEOUT,
    ) -> BulkCommitResult:
        """Commit several appends as one version; the options are those of :meth:`commit`."""
        from lancelet._api.committing import merged_appends

        merged = merged_appends(transactions)
        dataset = LanceDataset.commit(
            dest,
            merged,
            commit_lock=commit_lock,
            storage_options=storage_options,
            enable_v2_manifest_paths=enable_v2_manifest_paths,
            detached=detached,
            max_retries=max_retries,
            base_store_params=base_store_params,
            commit_timeout=commit_timeout,
        )
        return {"dataset": dataset, "merged": merged}
