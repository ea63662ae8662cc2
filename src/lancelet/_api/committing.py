"""Committing what users build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lancelet._api.conversion import stored_operation
from lancelet._api.fragment_metadata import FragmentMetadata
from lancelet._api.transaction import LanceOperation, Transaction
from lancelet.errors import InvalidInput, NotSupported
from lancelet.table.commit.patience import COMMIT_RETRIES, COMMIT_SECONDS
from lancelet.table.commit.run import commit
from lancelet.table.manifest.names import NamingScheme
from lancelet.writing.options import refuse_lock, transaction_texts
from lancelet.writing.table import Target

if TYPE_CHECKING:
    from lancelet.namespace_client.tables import Manager
    from lancelet.table.manifest.snapshot import Snapshot


def commit_change(
    place: object,
    change: LanceOperation.BaseOperation | Transaction,
    read_version: int | None,
    *,
    commit_lock: object,
    storage_options: Mapping[str, str] | None,
    base_store_params: Mapping[str, Mapping[str, str]] | None,
    commit_message: str | None,
    max_retries: int,
    commit_timeout: timedelta | None,
    detached: bool | None,
    enable_stable_row_ids: bool | None,
    enable_v2_manifest_paths: bool | None,
    manager: Manager | None,
) -> Snapshot:
    """Commit what a user built to the table at a uri; see :meth:`lancelet.LanceDataset.commit`."""
    refuse_lock(commit_lock)
    uuid, properties = None, transaction_texts(commit_message, None)
    if isinstance(change, Transaction):
        if commit_message is not None:
            raise InvalidInput(
                "commit_message does not go with a Transaction; set the message among its transaction_properties"
            )
        uuid, read_version = change.uuid, change.read_version
        properties = transaction_texts(None, change.transaction_properties)
        change = change.operation
    elif read_version is None and not isinstance(change, (LanceOperation.Overwrite, LanceOperation.Restore)):
        raise InvalidInput("read_version is missing: only Overwrite and Restore are based on no version")
    operation = stored_operation(change)
    target = Target.of(place, storage_options, base_store_params, manager)
    v2 = enable_v2_manifest_paths
    return commit(
        target.snapshot or target.store,
        operation,
        read_version=read_version,
        properties=properties,
        retries=None if max_retries == COMMIT_RETRIES else max_retries,
        timeout=COMMIT_SECONDS if commit_timeout is None else commit_timeout.total_seconds(),
        detached=bool(detached),
        stable_row_ids=enable_stable_row_ids,
        naming=None if v2 is None else NamingScheme.V2 if v2 else NamingScheme.V1,
        uuid=uuid,
    )


def merged_appends(transactions: Iterable[Any]) -> Transaction:
    """Several appends as one, based on the oldest version that any of them was based on."""
    appends = list(transactions)
    if not appends:
        raise InvalidInput("there are no transactions to commit")
    fragments: list[FragmentMetadata] = []
    for transaction in appends:
        if not isinstance(transaction, Transaction) or not isinstance(transaction.operation, LanceOperation.Append):
            raise NotSupported("only Append transactions can be committed as a batch")
        fragments.extend(transaction.operation.fragments)
    return Transaction(min(t.read_version for t in appends), LanceOperation.Append(fragments))
