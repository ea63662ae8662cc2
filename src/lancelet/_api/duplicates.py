"""Rows that are like each other: pairs out of vector indices, and clusters of hashes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancelet._api.vector_reader import vector_segments
from lancelet.errors import InvalidInput, InvalidOption, InvalidType, UnknownColumn
from lancelet.format.extensions import storage_of
from lancelet.format.system_columns import ROW_ID
from lancelet.index.fragment_reuse import FragmentReuse
from lancelet.index.metadata import read_indices
from lancelet.index.registry import kind_of_entry
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.pairs import clusters, near_pairs
from lancelet.index.vector.rows import indexable

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.dataset import LanceDataset
    from lancelet.execution.table_reader import TableReader
    from lancelet.index.metadata import IndexMetadata
    from lancelet.index.vector.segment import VectorSegment

PAIRS = pa.schema(
    [
        pa.field("row_id_a", pa.uint64(), nullable=False),
        pa.field("row_id_b", pa.uint64(), nullable=False),
        pa.field("distance", pa.float32(), nullable=False),
    ]
)
CLUSTERS = pa.schema(
    [
        pa.field("representative", pa.uint64(), nullable=False),
        pa.field("duplicates", pa.list_(pa.uint64()), nullable=False),
    ]
)
_HELD_BYTES = 256 << 20
_DECODED_ROWS = 8192
_WORD = 8
"""Bytes of hashes come in multiples of so many."""


def find_duplicate_pairs(
    dataset: LanceDataset,
    column: str,
    distance_threshold: float,
    *,
    memory_limit: int | None = None,
    max_concurrency: int | None = None,
) -> pa.RecordBatchReader:
    """Pairs of rows whose vectors are near, by the vector index of a column: within partitions, over all of them.

    Vectors are compared as the index keeps them, so those of ``IVF_FLAT`` exactly. Rows that are deleted are left out.

    Parameters
    ----------
    dataset
        A table.
    column
        Its vectors, with one index that covers all fragments.
    distance_threshold
        The greatest distance: by l2 squared, ``1 - cos``, ``1 - dot``, or different bits.
    memory_limit
        How many bytes of vectors of a partition are held; 256 MiB by default. Those of larger ones go through a temporary file, which
        changes nothing else.
    max_concurrency
        Accepted for pylance's sake.

    Examples
    --------
    >>> import lancelet
    >>> vectors = pa.array([[0.0, 0.0], [0.0, 0.1], [5.0, 5.0]], pa.list_(pa.float32(), 2))
    >>> table = lancelet.write_dataset({"vector": vectors}, "memory://docs/find_duplicate_pairs")
    >>> table = table.create_index("vector", "IVF_FLAT", num_partitions=1)
    >>> find_duplicate_pairs(table, "vector", 0.5).read_all()["row_id_b"].to_pylist()
    [1]
    """
    _check(distance_threshold, memory_limit, max_concurrency)
    table = dataset.table
    entries = _entries_on(table, column)
    names = {entry.name for entry in entries}
    if len(names) != 1:
        raise InvalidInput(f"column '{column}' requires exactly one vector index, found {len(names)}")
    live = table.snapshot.manifest.fragments.ids.tolist()
    if set(live) - set().union(*(entry.covers(live) for entry in entries)):
        raise InvalidInput(f"vector index on column '{column}' does not cover all fragments; optimize the index first")
    segments = [segment for _, segment in vector_segments(table, names.pop())]
    parts = ((segment, number) for segment in segments for number in range(len(segment.sizes)))
    return pa.RecordBatchReader.from_batches(PAIRS, _pairs(table, parts, distance_threshold, memory_limit))


def find_duplicate_pairs_in_partition(
    dataset: LanceDataset,
    column: str,
    segment_id: str | UUID,
    partition_id: int,
    distance_threshold: float,
    *,
    memory_limit: int | None = None,
    max_concurrency: int | None = None,
) -> pa.RecordBatchReader:
    """What :func:`find_duplicate_pairs` finds in one partition of one segment, for those who share the work."""
    _check(distance_threshold, memory_limit, max_concurrency)
    try:
        wanted = UUID(str(segment_id))
    except ValueError:
        raise InvalidInput(f"invalid segment_id '{segment_id}': a segment is named by its UUID") from None
    entries = [entry for entry in _entries_on(dataset.table, column) if entry.uuid == wanted]
    if not entries:
        raise InvalidInput(f"column '{column}' has no vector index with a segment {wanted}")
    ((_, segment),) = vector_segments(dataset.table, entries[0].name, [wanted])
    if not 0 <= partition_id < len(segment.sizes):
        raise InvalidInput(f"partition_id={partition_id} out of range 0..{len(segment.sizes)} for segment {wanted}")
    return pa.RecordBatchReader.from_batches(
        PAIRS, _pairs(dataset.table, [(segment, partition_id)], distance_threshold, memory_limit)
    )


def _check(threshold: float, memory_limit: int | None, max_concurrency: int | None) -> None:
    if not isinstance(threshold, (int, float, np.number)):
        raise InvalidType(f"distance_threshold is a number, not {threshold!r}")
    if not np.isfinite(threshold):
        raise InvalidInput(f"distance_threshold must be finite, got {threshold}")
    if memory_limit is not None and memory_limit < 0:
        raise InvalidOption(f"memory_limit is a number of bytes, not {memory_limit}")
    if max_concurrency is not None and max_concurrency < 1:
        raise InvalidInput(f"max_concurrency must be positive, got {max_concurrency}")


def _entries_on(table: TableReader, column: str) -> list[IndexMetadata]:
    """Segments of vector indices on a column."""
    schema = table.snapshot.manifest.schema
    names = {node.name: node.id for node in schema.fields}
    if column not in names:
        raise UnknownColumn(column, list(names))
    found = []
    for entry in read_indices(table.snapshot.manifest):
        kind = kind_of_entry(entry)
        if entry.fields == (names[column],) and kind is not None and kind.has_metric:
            found.append(entry)
    return found


def _pairs(
    table: TableReader, parts: Iterable[tuple[VectorSegment, int]], threshold: float, limit: int | None
) -> Iterator[pa.RecordBatch]:
    held = _HELD_BYTES if limit is None else limit
    for segment, number in parts:
        rows, vectors = _partition(table, segment, number, held)
        for ones, twos, distances in near_pairs(vectors, segment.metric, threshold):
            arrays = [pa.array(rows[ones]), pa.array(rows[twos]), pa.array(distances, pa.float32())]
            yield pa.RecordBatch.from_arrays(arrays, schema=PAIRS)


def _partition(
    table: TableReader, segment: VectorSegment, number: int, held: int | None = None
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any]]:
    """Rows of a partition that are still there, and their vectors as the index keeps them.

    Where these are more than ``held`` bytes, they are in a temporary file.
    """
    (partition,) = segment.files.read([number], graphs=False)
    rows = np.asarray(partition.rows)
    quantizer = segment.model.quantizer
    if not len(rows):
        return rows, np.empty((0, segment.dimension), np.float32)
    live = np.ones(len(rows), np.bool_)
    reuse = FragmentReuse.of(table.snapshot)
    if reuse is not None and not table.snapshot.manifest.has_stable_row_ids:
        rows, live = reuse.follow(rows)
    chosen = np.flatnonzero(live & table.locate_ids(rows)[2])
    codes = quantizer.pick_up(partition.stored)
    dtype = np.dtype(np.uint8 if segment.metric is Metric.HAMMING else np.float32)
    found = _room((len(chosen), segment.dimension), dtype, held)
    for start in range(0, len(chosen), _DECODED_ROWS):
        some = chosen[start : start + _DECODED_ROWS]
        part = [column[some] for column in codes]
        if segment.metric is not Metric.HAMMING:
            part = [quantizer.decode(part, segment.model.centroids[number])]
        found[start : start + len(some)] = part[0]
    return rows[chosen], found


def _room(shape: tuple[int, int], dtype: np.dtype[Any], held: int | None) -> npt.NDArray[Any]:
    """An array to be filled: in memory, or in a file that goes with it."""
    size = shape[0] * shape[1] * dtype.itemsize
    if held is None or size <= held or not size:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="lancelet-pairs-") as file:
        return np.memmap(file, dtype, "w+", shape=shape)


# Clusters of hashes


def get_ivf_partition_info(
    dataset: LanceDataset, index_name: str, *, index_segments: Iterable[str | UUID] | None = None
) -> list[dict[str, int]]:
    """How many rows the partitions of an index on hashes have, over all segments or some of them."""
    segments = _hash_segments(dataset, index_name, index_segments)
    sizes = np.sum([segment.sizes for segment in segments], axis=0)
    return [{"partition_id": number, "size": int(size)} for number, size in enumerate(sizes.tolist())]


def hamming_clustering_for_ivf_partition(
    dataset: LanceDataset,
    index_name: str,
    partition_id: int,
    hamming_threshold: int,
    *,
    index_segments: Iterable[str | UUID] | None = None,
) -> pa.RecordBatchReader:
    """Clusters of hashes in a partition of an index: hashes that at most so many bits lie between, and what hangs together."""
    segments = _hash_segments(dataset, index_name, index_segments)
    if not 0 <= partition_id < len(segments[0].sizes):
        raise InvalidInput(f"Partition ID {partition_id} is out of range (0..{len(segments[0].sizes)})")
    parts = [_partition(dataset.table, segment, partition_id) for segment in segments]
    return _clustered(
        np.concatenate([rows for rows, _ in parts]),
        np.concatenate([hashes.astype(np.uint8, copy=False) for _, hashes in parts]),
        hamming_threshold,
    )


def hamming_clustering_for_range(
    dataset: LanceDataset,
    column: str,
    fragment_id: int,
    start_row: int,
    num_rows: int,
    hamming_threshold: int = 10,
) -> pa.RecordBatchReader:
    """Clusters of hashes among some rows of a fragment."""
    _check_hashes(dataset, column)
    fragment = dataset.get_fragment(fragment_id)
    if fragment is None:
        raise InvalidInput(f"Fragment with ID {fragment_id} not found")
    if start_row < 0 or num_rows < 0:
        raise InvalidOption(f"start_row and num_rows are 0 or more, not {start_row} and {num_rows}")
    rows = fragment.to_table(columns=[column], offset=start_row, limit=num_rows, with_row_id=True)
    return _clustered(*_hashes(rows, column), hamming_threshold)


def hamming_clustering_for_sample(
    dataset: LanceDataset, column: str, sample_size: int | None = None, hamming_threshold: int = 10
) -> pa.RecordBatchReader:
    """Clusters of hashes among rows by chance, or among all rows.

    Examples
    --------
    >>> import lancelet
    >>> hashes = pa.array([[0] * 8, [0] * 7 + [1], [255] * 8], pa.list_(pa.uint8(), 8))
    >>> table = lancelet.write_dataset({"hash": hashes}, "memory://docs/hamming_clustering")
    >>> hamming_clustering_for_sample(table, "hash", hamming_threshold=2).read_all().to_pylist()
    [{'representative': 0, 'duplicates': [1]}]
    """
    _check_hashes(dataset, column)
    if sample_size is None:
        rows = dataset.to_table(columns=[column], with_row_id=True)
    elif sample_size < 0:
        raise InvalidOption(f"sample_size is 0 or more, not {sample_size}")
    else:
        count = min(sample_size, dataset.count_rows())
        rows = dataset.sample(count, [column, ROW_ID], randomize_order=False)
    return _clustered(*_hashes(rows, column), hamming_threshold)


def _check_hashes(dataset: LanceDataset, column: str) -> None:
    if column not in dataset.schema.names:
        raise InvalidInput(f"Column '{column}' not found in dataset schema")
    _check_hash_type(column, dataset.schema.field(column).type)


def _check_hash_type(column: str, dtype: pa.DataType) -> None:
    if not pa.types.is_fixed_size_list(dtype) or dtype.value_type != pa.uint8() or dtype.list_size % _WORD:
        raise InvalidInput(
            f"Column '{column}' has hashes of {_WORD} bytes, or a multiple of them, as uint8; not {dtype}"
        )


def _hash_segments(dataset: LanceDataset, name: str, chosen: Iterable[str | UUID] | None) -> list[VectorSegment]:
    known = {entry.name for entry in read_indices(dataset.table.snapshot.manifest)}
    if name not in known:
        raise InvalidInput(f"Index '{name}' not found on dataset")
    segments = [segment for _, segment in vector_segments(dataset.table, name, chosen)]
    if not segments:
        raise InvalidInput(f"no segments of index '{name}' are chosen")
    for segment in segments:
        _check_hash_type(name, segment.dtype)
        if not np.array_equal(segment.model.centroids, segments[0].model.centroids):
            raise InvalidInput(f"the segments of index '{name}' have partitions of their own: choose one of them")
    return segments


def _hashes(rows: pa.Table, column: str) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    values, places = indexable(storage_of(rows[column].combine_chunks()), Metric.HAMMING)
    return rows[ROW_ID].to_numpy()[places], values


def _clustered(rows: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint8], threshold: int) -> pa.RecordBatchReader:
    if threshold < 0:
        raise InvalidOption(f"hamming_threshold is a number of bits, not {threshold}")
    order = np.argsort(rows, kind="stable")
    rows, hashes = rows[order], np.ascontiguousarray(hashes[order])
    heads = clusters(len(rows), near_pairs(hashes, Metric.HAMMING, threshold))
    followers = np.flatnonzero(heads != np.arange(len(rows)))
    followers = followers[np.argsort(heads[followers], kind="stable")]
    leaders, counts = np.unique(heads[followers], return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(rows[followers], pa.uint64()))
    batch = pa.RecordBatch.from_arrays([pa.array(rows[leaders], pa.uint64()), lists], schema=CLUSTERS)
    return pa.RecordBatchReader.from_batches(CLUSTERS, [batch])
