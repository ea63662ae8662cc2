"""A vector index in steps, each of which may run elsewhere or be kept: train, assign, encode, sort, commit.

::

    rows ─ train ─ centroids, codebook
    rows ─ encode ─ unsorted file       _rowid, __ivf_part_id, __pq_code: a row for each vector
                    └─ sort ─ sorted files   partitions: a row for each partition, a list of structs of the three
                              └─ commit ─ index

The files are those of pylance. A sorted file holds as many rows as are sorted at once, so several of them may tell of the same
partition; they are put together at the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput
from lancelet.file.lance_file import LanceFileReader
from lancelet.file.lance_file_writer import LanceFileWriter
from lancelet.format.file_versions import V2_0
from lancelet.format.system_columns import ROW_ID
from lancelet.index.kind import ROW, VALUE, Built, NewRows
from lancelet.index.segments import NewSegment, write_segment
from lancelet.index.vector.centroids import assign, ranking_metric
from lancelet.index.vector.files import VectorFileWriter, VectorModel
from lancelet.index.vector.kind import KIND as VECTORS
from lancelet.index.vector.kind import VectorKind
from lancelet.index.vector.kmeans import train_centroids
from lancelet.index.vector.options import INDEX_TYPE, read_options
from lancelet.index.vector.pq import COLUMN, KIND, ProductQuantizer
from lancelet.index.vector.rows import indexable
from lancelet.indexing.create import name_index
from lancelet.indexing.rows import find_columns, read_rows
from lancelet.runtime.threads import checkpoint
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.rows.addresses import fragments_of

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.index.folder import SegmentWriter
    from lancelet.index.kind import Source
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.accelerator import Accelerator
    from lancelet.index.vector.metric import Metric
    from lancelet.index.vector.query import Vectors
    from lancelet.table.manifest.snapshot import Snapshot

PARTITION_COLUMN: Final = "__ivf_part_id"
PQ_COLUMN: Final = COLUMN
_INDEX_TYPE: Final = "IVF_PQ"
_PARTITIONS: Final = "partitions"
_LOSS: Final = "_loss"
_SORT_BYTES: Final = 256 << 20
"""Of entries that are sorted at once."""


@dataclass(frozen=True)
class VectorColumn:
    """A column of vectors, of all or of some fragments of a version."""

    table: TableReader
    column: str
    fragments: Sequence[int] | None = None

    def rows(self) -> NewRows:
        """Its vectors and their row numbers, and how to sample them."""
        manifest = self.table.snapshot.manifest
        chosen = manifest.fragments.ids.tolist() if self.fragments is None else self.fragments
        return read_rows(self.table, find_columns(self.table, self.column), VECTORS, chosen)

    def batches(self, metric: Metric) -> Iterator[tuple[Vectors, RowNumbers]]:
        """Vectors that an index can have, normalised where the metric says so, and their row numbers."""
        for batch in self.rows().batches:
            checkpoint()
            vectors, places = indexable(batch.column(VALUE), metric)
            yield vectors, batch.column(ROW).to_numpy(zero_copy_only=False)[places]

    def sample(self, wanted: int, metric: Metric, seed: int) -> Vectors:
        """Vectors by chance, in an order of chance."""
        rows = self.rows()
        assert rows.sample is not None
        parts = [np.array(indexable(values, metric)[0]) for values in rows.sample(wanted, seed)]
        if not sum(map(len, parts)):
            raise InvalidInput(f"column {self.column!r} has no vectors to train from: all are null or not finite")
        found = np.concatenate(parts)
        drawn: Vectors = found[np.random.default_rng(seed).permutation(len(found))[:wanted]]
        return drawn


def train_ivf(
    column: VectorColumn,
    partitions: int,
    metric: Metric,
    sample_rate: int,
    max_iters: int,
    *,
    seed: int = 0,
    accelerator: Accelerator | None = None,
) -> Vectors:
    """Centroids of partitions, in the type of the column."""
    sample = column.sample(partitions * sample_rate, metric, seed)
    step = None if accelerator is None else accelerator.step
    found, _ = train_centroids(sample, partitions, ranking_metric(metric), max_iters, seed, step)
    return found.astype(sample.dtype, copy=False)


def train_pq(
    column: VectorColumn,
    centroids: Vectors,
    parts: int,
    metric: Metric,
    sample_rate: int,
    max_iters: int,
    *,
    bits: int = 8,
    seed: int = 0,
    accelerator: Accelerator | None = None,
) -> ProductQuantizer:
    """A codebook for what is left of vectors when their centroids are taken away."""
    sample = column.sample(sample_rate << bits, metric, seed)
    work = assign if accelerator is None else accelerator.assign
    nearest, _ = work(sample, centroids, ranking_metric(metric))
    asked = {"num_sub_vectors": parts, "num_bits": bits, "sample_rate": sample_rate, "max_iters": max_iters}
    options = {**asked, **KIND.check(asked, metric, sample.dtype, sample.shape[1])}
    options["step"] = None if accelerator is None else accelerator.step
    found = KIND.train(sample, nearest, centroids, metric, options, seed)
    assert isinstance(found, ProductQuantizer)
    return found


def assignments(
    column: VectorColumn, centroids: Vectors, metric: Metric, accelerator: Accelerator | None
) -> Iterator[tuple[RowNumbers, npt.NDArray[np.uint32]]]:
    """Row numbers and partitions of all vectors."""
    work = assign if accelerator is None else accelerator.assign
    for vectors, rows in column.batches(metric):
        yield rows, work(vectors, centroids, ranking_metric(metric))[0]


def transform(
    column: VectorColumn,
    model: VectorModel,
    known: Mapping[str, npt.NDArray[Any]] | None = None,
    accelerator: Accelerator | None = None,
) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Entries of all vectors, and the loss of each batch; ``known`` has the partitions of rows, by ascending ``row_id``."""
    schema = _entry_schema(model.quantizer)
    for vectors, rows in column.batches(model.metric):
        if known is None:
            work = assign if accelerator is None else accelerator.assign
            nearest, loss = work(vectors, model.centroids, ranking_metric(model.metric))
        else:
            rows, vectors, nearest = _looked_up(known, rows, vectors, len(model.centroids))
            loss = 0.0
        if accelerator is None:
            (codes,) = model.quantizer.encode(vectors, nearest, model.centroids)
        else:
            (codes,) = accelerator.encode(model.quantizer, vectors, nearest, model.centroids)
        arrays = [pa.array(rows, pa.uint64()), pa.array(nearest, pa.uint32()), _lists(codes, schema)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema), loss


def write_transformed(uri: str, column: VectorColumn, model: VectorModel, **how: Any) -> None:
    """Write the unsorted file of some rows."""
    total = 0.0
    with LanceFileWriter(uri, _entry_schema(model.quantizer)) as writer:
        for batch, loss in transform(column, model, **how):
            writer.write_batch(batch)
            total += loss
        writer.add_schema_metadata(_LOSS, str(total))


def _looked_up(
    known: Mapping[str, npt.NDArray[Any]], rows: RowNumbers, vectors: Vectors, count: int
) -> tuple[RowNumbers, Vectors, npt.NDArray[np.uint32]]:
    """Rows whose partition is known; the others are left out."""
    ids, partitions = known["row_id"], known["partition"]
    places = np.minimum(np.searchsorted(ids, rows), max(0, len(ids) - 1))
    there = ids[places] == rows if len(ids) else np.zeros(len(rows), np.bool_)
    found = partitions[places[there]].astype(np.uint32)
    if len(found) and int(found.max()) >= count:
        raise InvalidInput(f"rows were assigned to partition {int(found.max())}, but the model has {count}")
    return rows[there], vectors[there], found


def _entry_schema(quantizer: Any) -> pa.Schema:
    (codes,) = quantizer.fields
    return pa.schema(
        [pa.field(ROW_ID, pa.uint64()), pa.field(PARTITION_COLUMN, pa.uint32()), codes.with_nullable(False)]
    )


def _lists(codes: npt.NDArray[np.uint8], schema: pa.Schema) -> pa.Array:
    dtype = schema.field(PQ_COLUMN).type
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(codes).reshape(-1)), type=dtype)


# Sorting


def sort_transformed(sources: Iterable[str], target: str, partitions: int) -> list[str]:
    """Sort unsorted files by partition, as many rows at once as fit into memory; tells the names of the new files.

    ``target`` is a path to which ``_0.lance``, ``_1.lance``, ... are added.
    """
    written: list[str] = []
    waiting: list[pa.RecordBatch] = []
    size = 0
    for source in sources:
        reader = LanceFileReader(source)
        _check_entries(source, reader.metadata().schema)
        for batch in reader.read_all(batch_size=1 << 16).to_batches():
            checkpoint()
            waiting.append(batch)
            size += batch.nbytes
            if size >= _SORT_BYTES:
                written.append(_write_sorted(f"{target}_{len(written)}.lance", waiting, partitions))
                waiting, size = [], 0
    if waiting:
        written.append(_write_sorted(f"{target}_{len(written)}.lance", waiting, partitions))
    return written


def _check_entries(path: str, schema: pa.Schema) -> None:
    wanted = [ROW_ID, PARTITION_COLUMN, PQ_COLUMN]
    if not set(wanted) <= set(schema.names):
        raise InvalidInput(f"{path} has the columns {schema.names}, not {wanted}: give what transform_vectors wrote")


def _write_sorted(path: str, waiting: list[pa.RecordBatch], partitions: int) -> str:
    table = pa.Table.from_batches(waiting).select([ROW_ID, PARTITION_COLUMN, PQ_COLUMN]).combine_chunks()
    numbers = table[PARTITION_COLUMN].to_numpy()
    if len(numbers) and int(numbers.max()) >= partitions:
        raise InvalidInput(f"rows were assigned to partition {int(numbers.max())}, but the model has {partitions}")
    table = table.take(pa.array(np.argsort(numbers, kind="stable")))
    ends = np.cumsum(np.bincount(numbers, minlength=partitions))
    item = pa.struct(list(table.schema.remove_metadata()))
    schema = pa.schema([pa.field(_PARTITIONS, pa.list_(item))])
    with LanceFileWriter(path, schema, version=V2_0) as writer:
        for start, stop in zip((ends - np.diff(ends, prepend=0)).tolist(), ends.tolist(), strict=True):
            part = table.slice(start, stop - start).combine_chunks()
            values = pa.StructArray.from_arrays([column.combine_chunks() for column in part.columns], fields=list(item))
            lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
            writer.write_batch(pa.RecordBatch.from_arrays([lists.cast(schema.field(0).type)], schema=schema))
    return path


# Committing


def commit_sorted(
    table: TableReader, column: str, name: str | None, model: VectorModel, files: Sequence[str]
) -> Snapshot:
    """Write a segment of sorted files, and commit it as an index; one of the same name is replaced.

    It covers the fragments of which there are entries.
    """
    quantizer = model.quantizer
    assert isinstance(quantizer, ProductQuantizer)
    shuffled = _Sorted(model, files)
    options = {
        INDEX_TYPE: _INDEX_TYPE,
        "metric": model.metric.value,
        "num_sub_vectors": quantizer.parts,
        "num_bits": quantizer.bits,
    }
    found = find_columns(table, column)
    shuffled.check(found.arrow_field, options)
    chosen, replaced = name_index(table, column, VECTORS, name, replace=True)
    new = NewSegment(chosen, found.ids, shuffled, shuffled.coverage(table), options)
    with WrittenFiles(table.snapshot.store) as written:
        entry = write_segment(table.snapshot, new, (), NewRows(found.type), written)
        operation = ops.CreateIndex((ops.IndexSegment.of(entry),), replaced)
        return commit(table.snapshot, operation, files=written)


class _Sorted(VectorKind):
    """The kind of vector indices, whose entries are in sorted files already."""

    def __init__(self, model: VectorModel, files: Sequence[str]) -> None:
        self._model = model
        self._files = [(path, LanceFileReader(path)) for path in files]
        for path, reader in self._files:
            rows = reader.num_rows()
            if rows != len(model.centroids) or reader.metadata().schema.names != [_PARTITIONS]:
                raise InvalidInput(
                    f"{path} has {rows} rows of {reader.metadata().schema.names}, not one of {[_PARTITIONS]} for each of "
                    f"{len(model.centroids)} partitions: give what shuffle_transformed_vectors wrote"
                )

    def coverage(self, table: TableReader) -> frozenset[int]:
        """Fragments of which there are entries."""
        numbers: set[int] = set()
        for number in range(len(self._model.centroids)):
            rows, _ = self._partition(number)
            numbers |= _fragments(table, rows)
        if gone := numbers - set(table.snapshot.manifest.fragments.ids.tolist()):
            raise InvalidInput(
                f"fragments {sorted(gone)} are not in version {table.snapshot.version} any more: transform the vectors again"
            )
        return frozenset(numbers)

    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        about = read_options(rows.dtype, options)
        with VectorFileWriter(out, _INDEX_TYPE, self._model) as writer:
            for number in range(len(self._model.centroids)):
                checkpoint()
                numbers, codes = self._partition(number)
                order = np.argsort(numbers, kind="stable")
                writer.add(numbers[order], [codes[order]])
        return Built(about.details(), about.index_version)

    def _partition(self, number: int) -> tuple[RowNumbers, npt.NDArray[np.uint8]]:
        """The entries of a partition out of all files."""
        (field,) = self._model.quantizer.fields
        rows, codes = [np.empty(0, np.uint64)], [np.empty((0, field.type.list_size), np.uint8)]
        for path, reader in self._files:
            for batch in reader.read_range(number, 1).to_batches():
                entries = batch.column(0).flatten()
                lists = entries.field(PQ_COLUMN)
                if entries.null_count or lists.null_count or lists.type.list_size != field.type.list_size:
                    problem = f"has codes of {lists.type} in partition {number}, not {field.type}"
                    raise CorruptFile(path, problem, _PARTITIONS)
                rows.append(entries.field(ROW_ID).to_numpy(zero_copy_only=False).astype(np.uint64))
                codes.append(lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1))
        return np.concatenate(rows), np.concatenate(codes)


def _fragments(table: TableReader, rows: RowNumbers) -> set[int]:
    """The fragments in which rows are, whether they are called by address or by id."""
    if not table.snapshot.manifest.has_stable_row_ids:
        return set(np.unique(fragments_of(rows)).tolist())
    owners, _, live = table.locate_ids(rows)
    return set(table.snapshot.manifest.fragments.ids[np.unique(owners[live])].tolist())
