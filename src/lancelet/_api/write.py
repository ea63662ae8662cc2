"""Writing tables: the one function that most programs need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet._api.row_writes import write_rows
from lancelet._api.session import Session
from lancelet._naming.keywords import takes
from lancelet.dataset import LanceDataset
from lancelet.namespace_client.tables import is_named, place_to_write
from lancelet.writing.keywords import DEFAULTS, TableKeywords
from lancelet.writing.options import write_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from lancelet.namespace_client.tables import Manager


@takes(TableKeywords, defaults=DEFAULTS)
def write_dataset(
    data_obj: object,
    uri: str | os.PathLike[str] | LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    progress: object = None,
    storage_options: Mapping[str, str] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    allowed_prefixes: Sequence[str] | None = None,
    namespace_client: object = None,
    table_id: Sequence[str] | None = None,
    session: Session | None = None,
    **options: Unpack[TableKeywords],
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
        is none. A table that is created in memory (``memory://``) takes the name from one that is there, unless a
        ``session`` is given; datasets that have the other one open keep it. Appended columns are found by name; nullable ones may be left out and are null then.
    max_rows_per_file, max_bytes_per_file
        When to begin another file; the bytes are a soft limit, looked at after ``max_rows_per_group`` rows or more.
    data_cache_bytes, max_page_bytes
        Bytes to collect before pages are written, over all columns and for each.
    progress
        True shows bars, and a function is called with each :class:`lancelet.progress.WorkProgress`; or an object whose
        ``begin`` and ``complete`` are called with the metadata of each fragment.
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
    allowed_prefixes
        Paths and URIs below which the table may have, and refer to in this write, base paths and external blobs, for tables that somebody else wrote;
        an empty list allows its own folder alone. By default the environment variable ``LANCELET_ALLOWED_PREFIXES``
        holds, with commas between prefixes, and without it everything is allowed. A storage option of the same name is
        the same.
    external_blob_mode
        What becomes of blobs that are given by URI: ``reference`` stores the URI, ``ingest`` the bytes behind it.
    allow_external_blob_outside_bases
        Let references lead anywhere; without it they have to lead into base paths of the table that are no table's
        root, and are stored relative to those.
    session
        Caches for the dataset that is returned.
    use_legacy_format
        Deprecated: ``data_storage_version`` says it.
    checksums
        Whether data files end with a checksum of their bytes, which a deep :meth:`LanceDataset.verify` and readers with
        ``verify_checksums`` compare, and other readers pass over. A new table keeps the answer in its config
        (``lancelet.checksums``), by which all later writes go, those of indices too, unless they say otherwise.
    blob_pack_file_size_threshold
        How large files become that blobs share; by default the blob fields tell, see :func:`lancelet.blob_field`.
    namespace_client, table_id
        A ``LanceNamespace`` and the table's id in it, instead of ``uri``. A table that is to be created is declared
        first; the others have to be there.
    commit_lock
        Not supported.

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
    how = write_options(mode, **options)

    def write(place: object, options: Mapping[str, str] | None, manager: Manager | None = None) -> LanceDataset:
        snapshot = write_rows(
            data_obj,
            place,
            schema,
            how,
            progress=progress,
            storage_options=options,
            base_store_params=base_store_params,
            allowed_prefixes=allowed_prefixes,
            manager=manager,
            is_shared=session is not None,
        )
        return LanceDataset._written(place, snapshot, session, options)

    if not is_named(uri, namespace_client, table_id):
        return write(uri, storage_options)
    with place_to_write(namespace_client, table_id or (), mode, storage_options) as place:
        return write(place.uri, place.storage_options, place.manager)
