"""Writing tables: the one function that most programs need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput
from lancelet.fragment import reported
from lancelet.session import Session
from lancelet.table.manifest import BasePath
from lancelet.writing.defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, ROWS_PER_GROUP
from lancelet.writing.options import write_options
from lancelet.writing.table import Target, write_table


def write_dataset(
    data_obj: Any,
    uri: str | os.PathLike[str] | LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_rows_per_group: int = ROWS_PER_GROUP,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    commit_lock: Any = None,
    progress: Any = None,
    storage_options: Mapping[str, str] | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: Mapping[str, int] | None = None,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    initial_bases: Sequence[BasePath] | None = None,
    target_bases: Sequence[str] | None = None,
    target_all_bases: bool | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    namespace_client: Any = None,
    table_id: Sequence[str] | None = None,
    session: Session | None = None,
) -> LanceDataset:
    """Write rows to a table as a new version. Rows are streamed: memory stays bounded, whatever their number.

    Parameters
    ----------
    data_obj
        Tables, batches, readers and datasets of pyarrow; pandas and polars data frames; dicts of columns; lists of
        dicts; Lance datasets and scanners; anything with ``__arrow_c_stream__``; an iterable of batches.
    uri
        Where the table is or will be, or a dataset.
    schema
        The columns of an iterable of batches, and how to read Python values and pandas data frames. Arrow data has
        types of its own, and keeps them.
    mode
        ``create`` a new table, ``append`` rows to one or ``overwrite`` it. The last two make a new table where there
        is none. Appended columns are found by name; nullable ones may be left out and are null then.
    max_rows_per_file, max_bytes_per_file
        When to begin another file; the bytes are a soft limit, looked at after ``max_rows_per_group`` rows or more.
    data_cache_bytes, max_page_bytes
        Bytes to collect before pages are written, over all columns and for each.
    progress
        An object whose ``begin`` and ``complete`` are called with the metadata of each fragment.
    storage_options
        Options of the object store; see :func:`lancelet.store.open_store`.
    data_storage_version
        ``"2.2"`` (also ``"stable"``), ``"2.1"`` or ``"2.0"``; by default that of the table, and 2.2 for a new one.
    enable_v2_manifest_paths, enable_stable_row_ids, auto_cleanup_options, initial_bases
        Properties of a new table: names of its manifests, row ids that outlast compaction, entries of its config for
        writers that clean up, other places that files may be in.
    commit_message, transaction_properties
        Texts kept with the transaction.
    target_bases
        Names or paths of base paths of the table: data files go to them in turn. Those of a new table are its
        ``initial_bases``.
    target_all_bases
        Data files go to all base paths in turn; if True, to the table's own folder first.
    base_store_params
        For URIs of base paths, the storage options that hold there instead of ``storage_options``, in which
        ``base_<id>.<key>`` is an option for one base path too. They are not kept with the table.
    external_blob_mode
        What becomes of blobs that are given by URI: ``reference`` stores the URI, ``ingest`` the bytes behind it.
    allow_external_blob_outside_bases
        Let references lead anywhere; without it they have to lead into base paths of the table that are no table's
        root, and are stored relative to those.
    session
        Caches for the dataset that is returned.
    use_legacy_format
        Deprecated: ``data_storage_version`` says it.
    blob_pack_file_size_threshold
        How large files become that blobs share; by default the blob fields tell, see :func:`lancelet.blob_field`.
    commit_lock, namespace_client, table_id
        Not supported yet.

    Returns
    -------
    LanceDataset
        The table at its new version.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"x": [1, 2, 3]}, "memory://docs/written")
    >>> lancelet.write_dataset([{"x": 4}], dataset, mode="append").count_rows()
    4
    """
    options = write_options(
        mode,
        max_rows_per_file=max_rows_per_file,
        max_rows_per_group=max_rows_per_group,
        max_bytes_per_file=max_bytes_per_file,
        data_cache_bytes=data_cache_bytes,
        max_page_bytes=max_page_bytes,
        commit_lock=commit_lock,
        data_storage_version=data_storage_version,
        use_legacy_format=use_legacy_format,
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        enable_stable_row_ids=enable_stable_row_ids,
        auto_cleanup_options=auto_cleanup_options,
        commit_message=commit_message,
        transaction_properties=transaction_properties,
        initial_bases=initial_bases,
        target_bases=target_bases,
        target_all_bases=target_all_bases,
        external_blob_mode=external_blob_mode,
        allow_external_blob_outside_bases=allow_external_blob_outside_bases,
        blob_pack_file_size_threshold=blob_pack_file_size_threshold,
        namespace_client=namespace_client,
        table_id=table_id,
    )
    if uri is None:
        raise InvalidInput("uri is missing: it says where the table is or will be")
    target = Target.of(uri, storage_options, base_store_params)
    snapshot = write_table(data_obj, schema, target, options, reported(progress))
    if isinstance(uri, LanceDataset):
        return uri._at(snapshot, session)
    return LanceDataset._of(os.fspath(uri), snapshot, session, storage_options)
