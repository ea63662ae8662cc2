"""Making a change visible: the one place that writes into ``_versions/`` (spec table-format.md chapter 7).

::

    1  find the newest version L
    2  for every version since the one the work was based on: does its transaction rule ours out?
    3  change ours as those demand (``rebase.py``)
    4  write the transaction's file, build the manifest of L + 1
    5  create the manifest under its final name, only if there is none
       somebody else was faster     wait a little, look up what came after L, go to 2
       the store did not answer     read L + 1 back: it is ours if it has our transaction
    6  remove what lost attempts wrote and the new version does not refer to

A version that turns out to hold our own transaction ends the loop with success,
however it got there: stores repeat requests on their own, and report the first
one's success as a conflict with the second.
"""

from __future__ import annotations

import os
import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lancelet.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptFile,
    InvalidInput,
    LanceletError,
    MissingFile,
    RetryableCommitConflict,
    StorageError,
    TableExists,
    TableNotFound,
    UncertainPut,
    VersionNotFound,
)
from lancelet.log import debug
from lancelet.runtime.events import TABLES, tell
from lancelet.runtime.interrupts import critical, deferred
from lancelet.table.commit import operations as ops
from lancelet.table.commit.conflicts import Committed, Rebase, Rows, check_conflict, unknown_transaction
from lancelet.table.commit.fragment_reuse import read_rewrites
from lancelet.table.commit.gaps import may_follow
from lancelet.table.commit.next_manifest import cloned_manifest, first_manifest, next_manifest
from lancelet.table.commit.patience import COMMIT_SECONDS, PUTS, READ_PAUSE, READS, Pace
from lancelet.table.commit.rebase import carry_out, is_current
from lancelet.table.commit.transactions import transaction_from_proto, transaction_message
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.manifest import TAIL, Manifest, ManifestFile, manifest_body
from lancelet.table.manifest.names import (
    DETACHED_BIT,
    TRANSACTIONS_DIR,
    VERSIONS_DIR,
    ManifestName,
    NamingScheme,
    is_detached,
)
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import latest_version, publish_version, read_named
from lancelet.table.manifest.versions import read_version as read_one
from lancelet.table.rows.counts import record_counts

if TYPE_CHECKING:
    from types import TracebackType

    from lancelet.format.proto import table_pb2
    from lancelet.store import Store
    from lancelet.table.commit.draft import Draft

AUTO_CLEANUP = "lance.auto_cleanup.interval"
"""Config of a table that is cleaned up after some of its commits."""
HINT = f"{VERSIONS_DIR}/latest_version_hint.json"
LONG_AGO = 5.0
"""After so many seconds the newest version is listed again: those after one that we know may have been cleaned up."""
_PROBES = 4
"""How many names after the newest known version are looked up before a listing is quicker."""


def create(
    store: Store,
    operation: ops.Overwrite,
    *,
    properties: Mapping[str, str] | None = None,
    stable_row_ids: bool = False,
    naming: NamingScheme = NamingScheme.V2,
    storage_version: str | None = None,
    files: WrittenFiles | None = None,
    uuid: str | None = None,
    indices: Sequence[table_pb2.IndexMetadata] = (),
    pace: Pace | None = None,
) -> Snapshot:
    """Commit the first version of a table; ``TableExists`` when there is one already.

    See :func:`commit` for the parameters. A second call with the same ``uuid`` finds the table of the first. ``indices`` are
    segments over the fragments that the table begins with.
    """
    with suppress(TableNotFound):
        newest = latest_version(store)
        first = read_named(store, ManifestName(1, newest.scheme)) if uuid and newest.version == 1 else None
        if first is not None and first.transaction is not None and first.transaction.uuid == uuid:
            return Snapshot.of(store, first)
        raise TableExists(store.uri)
    transaction = ops.Transaction(0, operation, uuid or str(uuids.uuid4()), dict(properties or {}))

    def make() -> Draft:
        draft = first_manifest(operation, stable_row_ids=stable_row_ids, storage_version=storage_version)
        draft.indices.extend(indices)
        return draft

    with _Writer(store, transaction, files, pace or Pace()) as writer:
        return writer.create(ManifestName(1, naming), make)


def clone(
    source: Snapshot,
    target: Store,
    operation: ops.Clone,
    *,
    properties: Mapping[str, str] | None = None,
    files: WrittenFiles | None = None,
    uuid: str | None = None,
    pace: Pace | None = None,
) -> Snapshot:
    """Commit the first version of a clone or branch, which has the number of the version that it comes from.

    A shallow clone refers to the files of ``source``; those of a deep one must have been copied before.
    """
    with suppress(TableNotFound):
        latest_version(target)
        raise TableExists(target.uri)
    transaction = ops.Transaction(source.version, operation, uuid or str(uuids.uuid4()), dict(properties or {}))
    with _Writer(target, transaction, files, pace or Pace()) as writer:
        name = ManifestName(source.version, NamingScheme.V2)
        return writer.create(name, lambda: cloned_manifest(source.manifest, operation))


def commit(
    target: Snapshot | Store,
    operation: ops.Operation,
    *,
    read_version: int | None = None,
    affected_rows: Rows | None = None,
    properties: Mapping[str, str] | None = None,
    retries: int | None = None,
    timeout: float = COMMIT_SECONDS,
    detached: bool = False,
    stable_row_ids: bool | None = None,
    naming: NamingScheme | None = None,
    storage_version: str | None = None,
    files: WrittenFiles | None = None,
    uuid: str | None = None,
    config: Mapping[str, str] | None = None,
    strict: bool = False,
    indices: Sequence[table_pb2.IndexMetadata] = (),
    with_file: bool = True,
    pace: Pace | None = None,
) -> Snapshot:
    """Commit an operation as a new version.

    Parameters
    ----------
    target
        The table: a version of it, or its folder.
    operation
        What to do. An ``Overwrite`` also creates a table that is not there yet.
    read_version
        The version that the work was based on. By default that of ``target`` when it is a version, and the newest
        one for ``Overwrite`` and ``Restore``, which depend on no other.
    affected_rows
        For Delete and Update: the rows that were marked as deleted, by fragment. With them, deletions of other rows
        in the same fragments do not stand in the way.
    properties
        Texts kept with the transaction.
    retries, timeout
        How often and for how many seconds to try again when others are faster; as often as time allows by default.
    detached
        Make a version outside the history, known by its number only.
    stable_row_ids, naming
        For a new table: whether rows keep their ids, and how manifests are named.
    storage_version
        For a new or overwritten table: its file version.
    files
        Files that the operation refers to. They are kept as long as the commit may have taken place.
    uuid
        Identifies the transaction; a new one by default. After ``CommitOutcomeUnknown``, the same call with the same
        ``uuid`` and ``read_version`` finds its version if it was committed, and commits it otherwise.
    config
        Entries for the table's config, which all later versions have too: marks that outlast the cleanup of old
        versions. Only for a table that is there.
    strict
        The new version follows ``read_version`` immediately, or there is a ``RetryableCommitConflict``: for an
        ``Overwrite`` whose rows were made from those of that version.
    indices
        Segments over the fragments of a strict ``Overwrite``, which the new version has at once.
    with_file
        Whether the transaction has a file of its own, beside its copy in the manifest: for readers of old releases.
    pace
        Clock and chance for waiting between attempts.

    Returns
    -------
    Snapshot
        The new version.

    Raises
    ------
    RetryableCommitConflict
        Another commit stands in the way; the same change can be made again on the newest version.
    CommitConflict
        Another commit rules this one out, or others were faster too often.
    CommitOutcomeUnknown
        The store failed, and it is not known whether the commit took place.
    """
    store = target.store if isinstance(target, Snapshot) else target
    if read_version is None and isinstance(target, Snapshot):
        read_version = target.version
    if not read_version and not isinstance(operation, (ops.Overwrite, ops.Restore)):
        raise InvalidInput(
            f"{type(operation).__name__} needs read_version, the version that it was made from; only Overwrite and Restore do without"
        )
    transaction = ops.Transaction(read_version or 0, operation, uuid or str(uuids.uuid4()), dict(properties or {}))
    with _Writer(store, transaction, files, pace or Pace()) as writer:
        writer.config = dict(config or {})
        writer.strict, writer.indices, writer.with_file = strict, tuple(indices), with_file
        if files is not None:
            # Large files take long to reach the disk; others would commit meanwhile.
            files.settle()
        try:
            newest = latest_version(store)
        except TableNotFound:
            if not isinstance(operation, ops.Overwrite) or detached:
                reason = "only an Overwrite can make a table where there is none"
                raise TableNotFound(store.uri, reason) from None
            overwrite, stable = operation, bool(stable_row_ids)
            return writer.create(
                ManifestName(1, naming or NamingScheme.V2),
                lambda: first_manifest(overwrite, stable_row_ids=stable, storage_version=storage_version),
            )
        if detached:
            writer.transaction = replace(transaction, read_version=read_version or newest.version)
            return writer.detach(read_one(store, writer.transaction.read_version, newest.scheme), storage_version)
        if is_detached(read_version or 0):
            raise InvalidInput(f"version {read_version} is detached; only another detached version can follow it")
        if (read_version or 0) > newest.version:
            # A listing may lag behind what a writer has read before.
            newest = replace(newest, version=read_version or 0)
        writer.based_on = read_version or newest.version
        writer.move_to(writer.based_on)
        writer.repeated = uuid is not None
        if isinstance(target, Snapshot) and target.version == writer.based_on:
            writer.seen = target.manifest
        if isinstance(target, Snapshot) and target.version == newest.version:
            base = target.manifest
        else:
            base = read_one(store, newest.version, newest.scheme)
        rebase = Rebase(operation, affected_rows)
        done = writer.append(base, newest.scheme, rebase, storage_version, retries, timeout)
    if AUTO_CLEANUP in done.manifest.head.config:
        from lancelet.table.cleanup.automatic import clean_after_commit

        clean_after_commit(done)
    return done


class _Writer:
    """One commit under way. Leaving it with an error removes the files that it made."""

    __slots__ = (
        "_deferred",
        "_files",
        "_looked",
        "_noted",
        "_pace",
        "_pending",
        "_read",
        "_store",
        "based_on",
        "config",
        "indices",
        "repeated",
        "seen",
        "strict",
        "transaction",
        "with_file",
    )

    def __init__(self, store: Store, transaction: ops.Transaction, files: WrittenFiles | None, pace: Pace) -> None:
        self._store = store
        # Transaction and deletion files of this commit, and with them the caller's.
        self._files = [WrittenFiles(store)] if files is None else [WrittenFiles(store), files]
        self._pace = pace
        self._deferred = deferred()
        # A version that a put without an answer may still create.
        self._pending: int | None = None
        # Versions that were read on the way to the newest one, and when that was.
        self._read: dict[int, Manifest] = {}
        self._looked = pace.clock()
        # Name and content of the transaction's file.
        self._noted: tuple[str, bytes] | None = None
        self.transaction = transaction
        # The version that the work was based on, when the caller has it at hand.
        self.seen: Manifest | None = None
        # Whether an earlier call may have committed the same transaction.
        self.repeated = False
        self.based_on = transaction.read_version
        self.config: dict[str, str] = {}
        self.strict = False
        self.with_file = True
        self.indices: tuple[table_pb2.IndexMetadata, ...] = ()

    def __enter__(self) -> _Writer:
        self._deferred.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._leave(error)
        finally:
            self._deferred.__exit__(kind, error, traceback)

    def _leave(self, error: BaseException | None) -> None:
        if error is None:
            return
        if self._pending is not None and not isinstance(error, LanceletError):
            self._settle_interrupted()
        self._files[0].remove()
        if self._pending is not None and isinstance(error, LanceletError):
            if isinstance(error, CommitOutcomeUnknown):
                return
            raise self._unknown(str(error)) from error

    def _settle_interrupted(self) -> None:
        """After an interrupt between a put and the question whose version it is: its files stay only if it may be ours."""
        assert self._pending is not None
        with critical(), suppress(StorageError, CorruptFile):
            try:
                message = read_one(self._store, self._pending).transaction
            except (VersionNotFound, TableNotFound, MissingFile):
                # A request to another machine may still be on its way there.
                ours = not self._store.is_local
            else:
                ours = message is not None and message.uuid == self.transaction.uuid
            if not ours:
                self._occupied(self._pending)

    def create(self, name: ManifestName, make: Callable[[], Draft]) -> Snapshot:
        """Make the first version of a table."""
        for _ in range(PUTS):
            done = self._publish(make(), name) or self._find_own(name)
            if done is not None:
                return self._finish(done)
            if self._pending is None:
                raise TableExists(self._store.uri)
        raise self._unknown(f"the store did not say what became of {PUTS} requests")

    def detach(self, base: Manifest, storage_version: str | None) -> Snapshot:
        """Make a version outside the history."""
        self.based_on = base.version
        for _ in range(PUTS):
            version = DETACHED_BIT | self._pace.chance.getrandbits(63)
            draft = self._draft(Snapshot.of(self._store, base), version, storage_version)
            done = self._publish(draft, ManifestName(version, NamingScheme.V2))
            if done is not None:
                return self._finish(done)
        raise self._unknown(f"the store did not say what became of {PUTS} requests")

    def append(
        self,
        base: Manifest,
        scheme: NamingScheme,
        rebase: Rebase,
        storage_version: str | None,
        retries: int | None,
        timeout: float,
    ) -> Snapshot:
        """Rebase, build and publish until a version is ours."""
        began = self._looked = self._pace.clock()
        checked = self.transaction.read_version
        unit = timeout
        attempts = 0
        while True:
            own = self._pass(rebase, checked, base, scheme)
            if own is not None:
                return self._finish(own)
            passed, checked = base.version - checked, base.version
            if passed > 1:
                # Several versions took a while to read; building on the last of them would come too late again.
                newer = self._newest(base, scheme)
                if newer.version > checked:
                    base = newer
                    continue
            start = self._pace.clock()
            newest = Snapshot.of(self._store, base)
            if carry_out(rebase, newest, self._files[0]):
                self.move_to(base.version)
            if rebase.operation is not self.transaction.operation:
                self.transaction = replace(self.transaction, operation=rebase.operation)
            name = ManifestName(base.version + 1, scheme)
            done = self._publish(self._draft(newest, name.version, storage_version), name)
            attempts += 1
            tired = retries is not None and attempts > retries
            if done is None and (tired or self._pace.clock() - began > timeout):
                done = self._find_own(name)
                if done is None:
                    raise self._too_slow(name, attempts)
            if done is not None:
                return self._finish(done)
            unit = min(unit, self._pace.clock() - start)
            self._pace.let_others(attempts, unit)
            base = self._newest(base, scheme)

    def move_to(self, version: int) -> None:
        """Base the transaction on a later version; its file has another name from then on."""
        if version != self.transaction.read_version:
            self.transaction = replace(self.transaction, read_version=version)

    def _newest(self, known: Manifest, scheme: NamingScheme) -> Manifest:
        """The newest version. In a race that is the next one or the one after it, which are found by their names."""
        now = self._pace.clock()
        newest, fresh = known, now - self._looked < LONG_AGO
        self._looked = now
        for _ in range(_PROBES if fresh else 0):
            try:
                following = read_named(self._store, ManifestName(newest.version + 1, scheme))
            except MissingFile:
                if newest is not known:
                    return newest
                break
            self._read[following.version] = newest = following
        name = latest_version(self._store)
        if name.version <= newest.version:
            # A listing may lag behind what we know.
            name = ManifestName(newest.version + 1, scheme)
        try:
            return read_named(self._store, name)
        except MissingFile:
            return newest

    def _pass(self, rebase: Rebase, checked: int, base: Manifest, scheme: NamingScheme) -> Manifest | None:
        """Check the transactions since ``checked``. Returns a version when it turns out to be ours."""
        gap: int | None = None
        for version in range(checked + 1, base.version + 1):
            manifest = base if version == base.version else self._version(version, scheme)
            if manifest is None:
                gap = version
                continue
            message = manifest.transaction
            if message is not None and message.uuid == self.transaction.uuid:
                return manifest
            self._occupied(version)
            debug("version %d of %s came first; the change is tried on it", version, self._store.uri)
            if self.strict:
                raise RetryableCommitConflict(
                    self._store.uri,
                    version,
                    f"version {version} was committed since version {self.transaction.read_version}, which the change "
                    "has to follow immediately; make it again on the newest version",
                )
            theirs = None if message is None else transaction_from_proto(message, manifest.path)
            if theirs is None:
                raise unknown_transaction(self._store.uri, manifest, missing=message is None)
            places = Snapshot.of(self._store, manifest).places
            check_conflict(self._store.uri, rebase, Committed(version, theirs.operation, places))
        self._read.clear()
        if gap is not None:
            self._pass_gap(rebase, gap, base, scheme)
        return None

    def _version(self, version: int, scheme: NamingScheme) -> Manifest | None:
        """A version that was committed; None when it has been cleaned up since."""
        try:
            return self._read.get(version) or read_named(self._store, ManifestName(version, scheme))
        except MissingFile:
            return None

    def _pass_gap(self, rebase: Rebase, gap: int, base: Manifest, scheme: NamingScheme) -> None:
        """Go on past versions that are gone, if what they did cannot matter. One of them may have been ours."""
        if not (self.strict or self.repeated or self._pending is not None):
            before = self.seen
            if before is None:
                before = self._version(self.based_on, scheme)
            if before is not None and may_follow(rebase.operation, before, base):
                return
        raise RetryableCommitConflict(
            self._store.uri,
            gap,
            f"version {gap} was committed and removed since version {self.based_on}, on which the change is based, so "
            f"that nobody can tell whether it stands in the way; make the change again on version {base.version}, "
            "the newest one",
        )

    def _draft(self, base: Snapshot, version: int, storage_version: str | None) -> Draft:
        operation = self.transaction.operation
        restored = read_one(self._store, operation.version) if isinstance(operation, ops.Restore) else None
        draft = next_manifest(
            base.manifest,
            self.transaction,
            version,
            based_on=self.based_on,
            storage_version=storage_version,
            restored=restored,
            rewrites=read_rewrites(base),
            config=self.config,
        )
        draft.indices.extend(self.indices)
        if draft.kept is None:
            record_counts(base, draft.message, (restored or base.manifest).message)
        return draft

    def _publish(self, draft: Draft, name: ManifestName) -> Manifest | None:
        """Write the transaction's file and create the manifest. None when the version is not ours (yet)."""
        body = transaction_message(self.transaction).SerializeToString()
        if self.with_file:
            self._write_transaction(body)
            draft.message.transaction_file = self.transaction.file_name
        data = draft.to_bytes(body)
        for files in self._files:
            files.settle()
        # Until the version is known to be somebody else's, it may be ours: an answer can get lost, and a client that
        # repeats a request by itself reports the success of the first as the failure of the second.
        with critical():
            earlier, self._pending = self._pending, name.version
            for files in self._files:
                files.hold()
            try:
                won = publish_version(self._store, name, data)
            except UncertainPut:
                return self._find_own(name)
            except StorageError:
                if earlier is None:
                    self._occupied(name.version)
                raise
            if won:
                written = manifest_body(ManifestFile(self._store, name.path, len(data), data))
                file = ManifestFile(self._store, name.path, len(data), data[-TAIL:])
                return Manifest(file, draft.message, (), written, is_whole=draft.kept is None)
            return None

    def _write_transaction(self, body: bytes) -> None:
        written = self.transaction.file_name, body
        if written == self._noted:
            return
        self._noted = written
        # The manifest has the whole transaction too, which readers prefer: nothing depends on the file after a crash.
        self._files[0].put(f"{TRANSACTIONS_DIR}/{self.transaction.file_name}", body, lasting=False)

    def _find_own(self, name: ManifestName) -> Manifest | None:
        """The version, if it is ours: for puts whose answer was lost, or that a client repeated by itself."""
        for attempt in range(1, READS + 1):
            try:
                manifest = read_named(self._store, name)
                message = manifest.transaction
            except MissingFile:
                # A put that is still on its way competes with the next one; only one of them can win.
                return None
            except StorageError as error:
                if attempt == READS:
                    raise self._unknown(str(error)) from error
                self._pace.back_off(attempt, READ_PAUSE)
                continue
            if message is not None and message.uuid == self.transaction.uuid:
                return manifest
            self._occupied(name.version)
            break
        return None

    def _finish(self, manifest: Manifest) -> Snapshot:
        self._pending = None
        # Every attempt may have written its own form of the change; the version refers to one of them.
        left = [path for files in self._files for path in files.paths if not is_current(manifest, path)]
        for files in self._files:
            files.forget()
        if not is_detached(manifest.version):
            write_hint(self._store, manifest.version)
        if left:
            with suppress(StorageError):
                self._store.delete_many(left)
        kind = type(self.transaction.operation).__name__
        debug("committed version %d of %s: %s", manifest.version, self._store.uri, kind)
        tell(
            TABLES,
            event="committed",
            uri=self._store.uri,
            read_version=self.transaction.read_version,
            committed_version=manifest.version,
            detached=str(is_detached(manifest.version)).lower(),
            operation=kind,
        )
        return Snapshot.of(self._store, manifest)

    def _occupied(self, version: int) -> None:
        """No put of ours has created or can create this version."""
        if self._pending == version:
            self._pending = None
            for files in self._files:
                files.release()

    def _too_slow(self, name: ManifestName, attempts: int) -> CommitConflict | CommitOutcomeUnknown:
        if self._pending is not None:
            return self._unknown("the store did not say what became of the last request")
        return CommitConflict(
            self._store.uri,
            name.version,
            f"other writers were faster {attempts} times, the last time at version {name.version}; "
            "try again, or allow more retries",
        )

    def _unknown(self, reason: str) -> CommitOutcomeUnknown:
        version = self._pending or self.transaction.read_version + 1
        return CommitOutcomeUnknown(self._store.uri, version, self.transaction.uuid, reason)


def write_hint(store: Store, version: int) -> None:
    """Note the newest version for stores that list in no order. Nothing depends on it, so failures are ignored."""
    if store.lists_in_order or os.environ.get("LANCE_USE_VERSION_HINT", "").lower() in ("0", "false", "off"):
        return
    with suppress(StorageError, MissingFile):
        store.put_hint(HINT, f'{{"version":{version}}}'.encode())
