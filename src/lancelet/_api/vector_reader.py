"""What is inside of vector indices, for users: partitions and centroids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from lancelet._api.ivf_model import IvfModel
from lancelet._api.model_files import fixed_lists
from lancelet.errors import IndexNotFound, InvalidInput, RowNotFound
from lancelet.format.system_columns import ROW_ID
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.segments import indexed_type, open_segment
from lancelet.index.vector.segment import VectorSegment

if TYPE_CHECKING:
    from lancelet._api.protocols import Scanned
    from lancelet.execution.table_reader import TableReader


class VectorIndexReader:
    """The partitions of a vector index.

    Parameters
    ----------
    dataset
        A table.
    index_name
        One of its indices.

    Examples
    --------
    >>> import lancelet
    >>> vectors = np.random.default_rng(1).standard_normal((100, 4), np.float32)
    >>> column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 4)
    >>> table = lancelet.write_dataset({"vector": column}, "memory://docs/vector_index_reader")
    >>> table = table.create_index("vector", "IVF_FLAT", num_partitions=2)
    >>> reader = VectorIndexReader(table, "vector_idx")
    >>> sum(reader.read_partition(number).num_rows for number in range(reader.num_partitions()))
    100
    """

    def __init__(self, dataset: Scanned, index_name: str) -> None:
        self.dataset = dataset
        self.index_name = index_name
        self._segments = [segment for _, segment in vector_segments(dataset.table, index_name)]

    def num_partitions(self) -> int:
        """How many partitions there are."""
        return max(len(segment.sizes) for segment in self._segments)

    def read_partition(self, partition_id: int, *, with_vector: bool = False) -> pa.Table:
        """The row ids of a partition, of all segments.

        Parameters
        ----------
        partition_id
            From 0 on.
        with_vector
            Also what is stored of the vectors: for ``IVF_FLAT`` themselves, for others their codes. In every row there is the
            code of that row, also where the file keeps codes in another order.
        """
        count = self.num_partitions()
        if not 0 <= partition_id < count:
            raise RowNotFound(f"Partition id {partition_id} is out of range, expected 0 <= partition_id < {count}")
        having = [segment for segment in self._segments if partition_id < len(segment.sizes)]
        return pa.concat_tables([_shown(segment, partition_id, with_vector) for segment in having])


def _shown(segment: VectorSegment, number: int, with_vector: bool) -> pa.Table:
    (partition,) = segment.files.read([number])
    fields = [pa.field(ROW_ID, pa.uint64())]
    columns = [pa.array(partition.rows, pa.uint64())]
    if with_vector:
        fields += segment.model.quantizer.fields
        codes = segment.model.quantizer.pick_up(partition.stored) if len(partition.rows) else partition.stored
        for column, values in zip(segment.model.quantizer.fields, codes, strict=True):
            flat = pa.array(np.ascontiguousarray(values).reshape(-1))
            columns.append(
                pa.FixedSizeListArray.from_arrays(flat, type=column.type)
                if pa.types.is_fixed_size_list(column.type)
                else flat.cast(column.type)
            )
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def vector_segments(
    table: TableReader, name: str, segments: Iterable[str | UUID] | None = None
) -> list[tuple[IndexMetadata, VectorSegment]]:
    """The segments of a vector index, or some of them, opened."""
    entries = [entry for entry in read_indices(table.snapshot.manifest) if entry.name == name]
    if not entries:
        raise IndexNotFound(f'Index "{name}" not found in version {table.snapshot.version} of {table.snapshot.uri}')
    if segments is not None:
        wanted = {_uuid(segment) for segment in segments}
        if missing := wanted - {entry.uuid for entry in entries}:
            raise IndexNotFound(f'index "{name}" has no segment {min(map(str, missing))}')
        entries = [entry for entry in entries if entry.uuid in wanted]
    found = []
    for entry in entries:
        opened: Any = open_segment(table.snapshot, entry, indexed_type(table.snapshot, entry))
        if not isinstance(opened, VectorSegment):
            raise InvalidInput(f'"{name}" is no index on vectors')
        found.append((entry, opened))
    return found


def _uuid(text: str | UUID) -> UUID:
    try:
        return UUID(str(text))
    except ValueError:
        raise InvalidInput(f"a segment is named by its UUID, not by {text!r}") from None


def ivf_model(table: TableReader, name: str) -> IvfModel:
    """The centroids of an index; of its first segment where there are several."""
    _, segment = vector_segments(table, name)[0]
    return IvfModel(fixed_lists(segment.model.centroids, "centroids"), segment.metric.value)


def centroids_of(table: TableReader, index_name: str | None, column: str | None) -> pa.FixedSizeListArray:
    """The centroids of an index, or of the first one on a column."""
    if index_name is None and column is None:
        raise InvalidInput("Must provide 'index_name' or 'column'.")
    name = index_name
    if name is None:
        name = next(_indices_on(table, str(column)), None)
    if name is None:
        raise IndexNotFound(f"No IVF index for column {column!r}")
    return ivf_model(table, name).centroids


def _indices_on(table: TableReader, column: str) -> Iterator[str]:
    """Names of the vector indices on a column."""
    from lancelet._api.index_descriptions import describe_indices

    for index in describe_indices(table):
        if index.field_names == [column] and index.index_type.startswith("IVF"):
            yield index.name
