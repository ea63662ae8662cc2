"""``create_index`` for vectors: pylance's arguments as options of the kind."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lancelet._api.indexing import build_index, build_index_part
from lancelet._api.precomputed import precomputed_entries
from lancelet.errors import InvalidInput, NotSupported, StorageError
from lancelet.index.registry import known_named
from lancelet.index.vector.options import ACCELERATOR, FILE_VERSIONS, PRECOMPUTED
from lancelet.log import LOGGER

if TYPE_CHECKING:
    from lancelet._api.transaction import Index
    from lancelet.execution.table_reader import TableReader
    from lancelet.progress import IndexProgress
    from lancelet.table.manifest.snapshot import Snapshot

_ACCELERATED: Final = "IVF_PQ"


def is_vector_type(index_type: object) -> bool:
    """Whether an index of this type is one on vectors."""
    kind = known_named(index_type) if isinstance(index_type, str) else None
    return kind is not None and kind.has_metric


def refuse_vector_type(index_type: object) -> None:
    """Raise for a vector index where one on plain values is to be built."""
    if is_vector_type(index_type):
        raise NotSupported(f"{index_type} is no scalar index; create_index builds it")


def build_any_index(
    table: TableReader,
    column: str | list[str],
    index_type: Any,
    name: str | None,
    vector: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    replace: bool,
    train: bool,
    fragment_ids: list[int] | None,
    uuid: str | None,
    progress: Callable[[IndexProgress], None] | None,
) -> Snapshot:
    """See :meth:`lancelet.LanceDataset.create_index`; ``vector`` are options that only vector indices have."""
    if is_vector_type(index_type):
        options = vector_options(index_type, {**vector, **options})
        if fragment_ids is not None:
            build_index_part(
                table,
                column,
                index_type,
                name,
                fragment_ids,
                options,
                replace=replace,
                train=train,
                uuid=uuid,
                progress=progress,
            )
            return table.snapshot
    return build_index(
        table,
        column,
        index_type,
        name,
        options,
        replace=replace,
        train=train,
        fragment_ids=fragment_ids,
        uuid=uuid,
        progress=progress,
        named={},
    )


def build_any_part(
    table: TableReader,
    column: str | list[str],
    index_type: Any,
    name: str | None,
    vector: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    replace: bool,
    train: bool,
    fragment_ids: list[int] | None,
    uuid: str | None,
    progress: Callable[[IndexProgress], None] | None,
) -> Index:
    """See :meth:`lancelet.LanceDataset.create_index_uncommitted`; ``vector`` are options that only vector indices have."""
    if is_vector_type(index_type):
        options = vector_options(index_type, {**vector, **options})
    return build_index_part(
        table,
        column,
        index_type,
        name,
        fragment_ids,
        options,
        replace=replace,
        train=train,
        uuid=uuid,
        progress=progress,
    )


def vector_options(index_type: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a vector index out of the arguments of :meth:`lancelet.LanceDataset.create_index`."""
    options = {name: value for name, value in given.items() if value is not None}
    if options.pop("index_cache_size", None) is not None:
        warnings.warn(
            "The 'index_cache_size' parameter of create_index is ignored: the index cache belongs to the dataset or "
            "session, dataset(..., index_cache_size_bytes=...)",
            DeprecationWarning,
            stacklevel=5,
        )
    _check_version(options.pop("index_file_version", "V3"), index_type)
    storage = options.pop("storage_options", None)
    known = precomputed_entries(options, storage)
    path = options.pop("ivf_centroids_file", None)
    if path is not None:
        if "ivf_centroids" in options:
            raise InvalidInput("ivf_centroids and ivf_centroids_file cannot be provided at the same time")
        options["ivf_centroids"] = _load(str(path))
    if "pq_codebook" in options and "ivf_centroids" not in options and "model" not in options:
        raise InvalidInput("ivf_centroids must be specified when pq_codebook is provided")
    if known is not None:
        if "ivf_centroids" not in options:
            raise InvalidInput("ivf_centroids must be provided when precomputed_partition_dataset is provided")
        options[PRECOMPUTED] = known
    accelerator = options.pop("accelerator", None)
    if accelerator is not None:
        if index_type.upper() != _ACCELERATED:
            LOGGER.warning("Index type %s does not support GPU acceleration; falling back to CPU", index_type)
        else:
            from lancelet.index.vector.accelerator import Accelerator

            options[ACCELERATOR] = Accelerator(accelerator)
    return options


def _check_version(version: object, index_type: str) -> None:
    if str(version).upper() not in FILE_VERSIONS:
        raise InvalidInput(f"Invalid index_file_version: {version!r}; there is 'V3'")
    # As in pylance, other kinds never had the old layout.
    if str(version).upper() != FILE_VERSIONS[0] and index_type.upper() == _ACCELERATED:
        raise NotSupported(
            f"index_file_version={version!r}: indices of the old layout are read and extended, but new ones are not written "
            "in it; leave it out"
        )


def _load(path: str) -> Any:
    try:
        return np.load(path.removeprefix("file://"))
    except OSError as error:
        raise StorageError(path, f"holds no centroids: {error}") from None
    except ValueError as error:
        raise InvalidInput(f"{path} is no file of numpy's with centroids: {error}") from None
