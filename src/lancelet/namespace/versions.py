"""Versions of a namespace's tables, and the transactions that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_namespace import (
    BatchDeleteTableVersionsRequest,
    ConcurrentModificationError,
    CreateTableVersionRequest,
    DescribeTableVersionRequest,
    DescribeTransactionResponse,
    InvalidInputError,
    ListTableVersionsRequest,
    TableVersion,
    TableVersionNotFoundError,
    TransactionNotFoundError,
)

from lancelet.errors import MissingFile, TableNotFound, VersionNotFound
from lancelet.namespace.errors import translated
from lancelet.namespace.names import Names, identifier, shown, shown_table
from lancelet.namespace.tables import open_table
from lancelet.table.manifest.names import VERSIONS_DIR, ManifestName, NamingScheme
from lancelet.table.manifest.versions import latest_version, list_manifests, publish_version, read_version
from lancelet.table.registers.external import base_of

if TYPE_CHECKING:
    from lancelet.dataset import LanceDataset
    from lancelet.namespace.root import Root
    from lancelet.store import ObjectInfo, Store


def list_versions(root: Root, request: ListTableVersionsRequest) -> list[TableVersion]:
    """All versions, the oldest first unless the request says otherwise; none of a table that is only declared."""
    store = _store(root, request.id, request.branch)
    found = _manifests(store, request)
    names = sorted(found, key=lambda name: name.version, reverse=bool(request.descending))
    return [_version(store, name, found[name]) for name in names]


def describe_version(root: Root, request: DescribeTableVersionRequest) -> TableVersion:
    """One version; the newest by default."""
    store = _store(root, request.id, request.branch)
    found = _manifests(store, request)
    wanted = max((name.version for name in found), default=0) if request.version is None else request.version
    for name, entry in found.items():
        if name.version == wanted:
            return _version(store, name, entry)
    raise TableVersionNotFoundError(f"{shown_table(request.id)} has no version {wanted}")


def _manifests(store: Store, request: Any) -> dict[ManifestName, ObjectInfo]:
    with translated(shown_table(request.id)):
        try:
            manifests, _ = list_manifests(store)
        except TableNotFound:
            return {}
    return {name: entry for name, entry in manifests.items() if not name.is_detached}


def create_version(root: Root, request: CreateTableVersionRequest) -> TableVersion:
    """Make a manifest that a client has written under another name the next version, if nobody else has made it."""
    store = _store(root, request.id, request.branch)
    with translated(shown_table(request.id)):
        newest = _newest(store, request)
        staged = _inside(store, request.manifest_path)
        try:
            data = store.read_all(staged)
        except MissingFile as error:
            raise InvalidInputError(
                f"{shown_table(request.id)}: there is no manifest at {request.manifest_path}"
            ) from error
        name = ManifestName(request.version, newest.scheme)
        if request.version <= newest.version:
            if _same(store, name, data):
                return describe_version(
                    root, DescribeTableVersionRequest(id=request.id, branch=request.branch, version=name.version)
                )
            raise ConcurrentModificationError(
                f"{shown_table(request.id)} has another version {request.version} already"
            )
        if request.version != newest.version + 1:
            raise ConcurrentModificationError(
                f"{shown_table(request.id)} is at version {newest.version}, which version {request.version} does not follow"
            )
        if not publish_version(store, name, data) and not _same(store, name, data):
            raise ConcurrentModificationError(
                f"{shown_table(request.id)} got version {request.version} from somebody else meanwhile"
            )
        store.delete(staged)
    return describe_version(
        root, DescribeTableVersionRequest(id=request.id, branch=request.branch, version=name.version)
    )


def delete_versions(root: Root, request: BatchDeleteTableVersionsRequest) -> int:
    """Remove versions, and files that only they needed; returns how many. Tagged ones and the newest have to stay."""
    table = open_table(root, request.id, branch=request.branch)
    known = [entry["version"] for entry in table.version_refs()]
    chosen: set[int] = set()
    for span in request.ranges:
        last = known[-1] if span.end_version == -1 else span.end_version - 1
        chosen.update(version for version in known if span.start_version <= version <= last)
    if known[-1] in chosen:
        raise InvalidInputError(
            f"{shown_table(request.id)}: version {known[-1]} is the newest, without which the table would be gone"
        )
    if not chosen:
        return 0
    with translated(shown_table(request.id)):
        return table.cleanup_old_versions(versions=sorted(chosen)).old_versions


def _store(root: Root, names: Names, branch: str | None) -> Store:
    if branch is None:
        return root.store.child(root.find(names).folder)
    return open_table(root, names, branch=branch)._snapshot.store


def _newest(store: Store, request: CreateTableVersionRequest) -> ManifestName:
    """The newest version; number 0 when there is none, named as the request has it."""
    try:
        return latest_version(store)
    except TableNotFound:
        return ManifestName(0, NamingScheme.V1 if request.naming_scheme == "V1" else NamingScheme.V2)


def _inside(store: Store, path: str) -> str:
    """The path of a manifest, however it begins, relative to its table."""
    plain = path.removeprefix(store.uri).lstrip("/").removeprefix(base_of(store)).lstrip("/")
    if not plain.startswith(f"{VERSIONS_DIR}/") or ".." in plain.split("/"):
        raise InvalidInputError(f"{path} is not below {store.join(VERSIONS_DIR)}, where manifests of the table are")
    return plain


def _same(store: Store, name: ManifestName, data: bytes) -> bool:
    try:
        return store.read_all(name.path) == data
    except MissingFile:
        return False


def _version(store: Store, name: ManifestName, entry: ObjectInfo) -> TableVersion:
    return TableVersion(
        version=name.version,
        manifest_path=f"{base_of(store)}/{name.path}",
        manifest_size=entry.size,
        timestamp_millis=round(entry.modified.timestamp() * 1000),
    )


# Transactions


def describe_transaction(root: Root, names: Names) -> DescribeTransactionResponse:
    """A commit, by the id of its table and its uuid or version; it is done, or it is not known."""
    ident = identifier(names, "transaction")
    if len(ident) < 2:
        raise InvalidInputError(
            f"the id of a transaction is that of its table and its uuid or version, not {list(ident)}"
        )
    table = open_table(root, ident[:-1])
    found = _transaction(table, ident[-1])
    if found is None:
        raise TransactionNotFoundError(f"table {shown(ident[:-1])} has no transaction {ident[-1]}")
    version, transaction = found
    return DescribeTransactionResponse(
        status="SUCCEEDED",
        properties={
            "version": str(version),
            "uuid": transaction.uuid,
            "read_version": str(transaction.read_version),
            "operation": type(transaction.operation).__name__,
            **transaction.transaction_properties,
        },
    )


def _transaction(table: LanceDataset, wanted: str) -> tuple[int, Any] | None:
    store = table._snapshot.store
    with translated(table.uri):
        if wanted.isdecimal():
            try:
                read_version(store, int(wanted))
            except VersionNotFound:
                return None
            transaction = table.read_transaction(int(wanted))
            return None if transaction is None else (int(wanted), transaction)
        for entry in reversed(table.version_refs()):
            transaction = table.read_transaction(entry["version"])
            if transaction is not None and transaction.uuid == wanted:
                return entry["version"], transaction
    return None
