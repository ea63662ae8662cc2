"""Opening tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

from lancelet._api.session import Session, index_cache_bytes
from lancelet.dataset import LanceDataset, dataset_kind
from lancelet.namespace_client.tables import is_named


def dataset(
    uri: str | os.PathLike[str] | None = None,
    version: int | str | None = None,
    asof: datetime | str | None = None,
    block_size: int | None = None,
    commit_lock: object = None,
    index_cache_size: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    default_scan_options: Mapping[str, object] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: Mapping[str, object] | None = None,
    session: Session | None = None,
    namespace_client: object = None,
    table_id: Sequence[str] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    *,
    allowed_prefixes: Sequence[str] | None = None,
    verify_checksums: bool | None = None,
) -> LanceDataset:
    """Open a table.

    Parameters
    ----------
    uri
        A local path, or a URI such as ``s3://bucket/table.lance``.
    version
        A version number or a tag; the newest version by default.
    asof
        The newest version committed before this time; ignored when ``version`` is given.
    block_size, commit_lock, read_params
        Accepted for pylance's sake, without effect.
    index_cache_size
        Deprecated: ``index_cache_size_bytes`` in steps of 20 MiB.
    storage_options
        Options of the object store, such as credentials; see :func:`lancelet.store.open_store`.
    default_scan_options
        Options of :meth:`LanceDataset.scanner` that hold for every scan.
    metadata_cache_size_bytes, index_cache_size_bytes
        Bounds of the caches; ignored when ``session`` is given.
    session
        Caches to share with other datasets.
    namespace_client, table_id
        A ``LanceNamespace`` and the table's id in it, instead of ``uri``; the namespace's storage options come before
        ``storage_options``.
    base_store_params
        For URIs of base paths, the storage options that hold there instead of ``storage_options``, in which
        ``base_<id>.<key>`` is an option for one base path too. They hold for everything below; ``{}`` stands for the
        credentials of the environment.
    allowed_prefixes
        Paths and URIs below which the table may have base paths and external blobs, for tables that somebody else wrote;
        an empty list allows its own folder alone. By default the environment variable ``LANCELET_ALLOWED_PREFIXES``
        holds, with commas between prefixes, and without it everything is allowed. A storage option of the same name is
        the same.
    verify_checksums
        Whether files are compared with their checksums, those that have some, when they are first opened: each is read
        as a whole, once a session. By default the environment variable ``LANCELET_VERIFY_CHECKSUMS`` tells.

    Examples
    --------
    >>> import lancelet
    >>> lancelet.dataset("memory://docs/none.lance")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    lancelet.errors.TableNotFound: there is no table
    """
    is_named(uri, namespace_client, table_id)
    return dataset_kind(LanceDataset)(
        uri,
        version,
        block_size,
        commit_lock=commit_lock,
        storage_options=storage_options,
        default_scan_options=default_scan_options,
        metadata_cache_size_bytes=metadata_cache_size_bytes,
        index_cache_size_bytes=index_cache_bytes(index_cache_size, index_cache_size_bytes),
        read_params=read_params,
        session=session,
        namespace_client=namespace_client,
        table_id=table_id,
        base_store_params=base_store_params,
        asof=asof,
        allowed_prefixes=allowed_prefixes,
        verify_checksums=verify_checksums,
    )
