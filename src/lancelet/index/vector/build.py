"""Vector segments out of rows, and out of older segments, in bounded memory.

Rows are read once to train, a sample of them, and once to be encoded. Entries are collected, sorted by partition
into runs, and runs go to temporary files when they are many; then each partition is put together out of all of them,
and written::

    rows ─ assign ─ encode ─┐            run 1  [p0 p0 p1 p3 ...]
    older segments ─────────┴─ collect ─ run 2  [p0 p1 p1 p2 ...] ─ p0 of each run, p1 of each, ... ─ auxiliary.idx
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import IndexRefused
from lancelet.index.kind import ROW, VALUE, Built
from lancelet.index.vector.centroids import assign, ranking_metric
from lancelet.index.vector.files import Partition, VectorFileWriter, VectorModel
from lancelet.index.vector.kmeans import move_centroids, train_centroids
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.rows import indexable
from lancelet.index.vector.segment import READ_AT_ONCE, VectorSegment
from lancelet.index.vector.sq import ScalarQuantizer
from lancelet.runtime.threads import checkpoint
from lancelet.store import drop_resident_files, release_views

if TYPE_CHECKING:
    from lancelet.index.folder import SegmentWriter
    from lancelet.index.kind import NewRows, Source
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.accelerator import Accelerator
    from lancelet.index.vector.options import VectorOptions
    from lancelet.index.vector.precomputed import Precomputed
    from lancelet.index.vector.query import Columns, Vectors

SAMPLE_BYTES: Final = 256 << 20
"""The most that a sample takes, as 32-bit numbers."""
_LEAST_RUN: Final = 1 << 20
_RUN_SHARE: Final = 3
"""What part of the memory is sorted at once; sorting takes as much again."""


def write_vectors(sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: VectorOptions) -> Built:
    """Write a segment; one that has nothing to be trained from has no files and covers nothing."""
    older = [source for source in sources if isinstance(source.segment, VectorSegment)]
    segments = [source.segment for source in older if isinstance(source.segment, VectorSegment)]
    model = options.model or merged_model(segments)
    if model is None:
        model = train_model(rows, options)
    if model is None:
        return Built(options.details(), options.index_version, covers=False)
    seed = options.seed
    with ExitStack() as stack:
        alike = bool(older) and all(segment.model.same_as(model) for segment in segments)
        if alike and rows.count is None and rows.batches == ():
            partitions = _side_by_side(older, model)
        else:
            runs = _Runs(len(model.centroids), max(_LEAST_RUN, out.memory_limit // _RUN_SHARE), stack)
            for source in older:
                runs.add_all(_old_entries(source, model))
            runs.add_all(_new_entries(rows, model, options.accelerator, options.precomputed))
            partitions = runs.partitions()
        if options.graph is not None:
            # The column was read, and graphs take as much memory as there is.
            drop_resident_files()
        with VectorFileWriter(out, options.index_type, model, options.graph, seed) as writer:
            rows.stages.begin("merge_partitions", len(model.centroids), "partitions")
            for number, (numbers, codes) in enumerate(partitions):
                writer.add(numbers, codes)
                rows.stages.advance(number + 1)
            rows.stages.complete()
    return Built(options.details(), options.index_version)


# Training


def train_model(rows: NewRows, options: VectorOptions) -> VectorModel | None:
    """Centroids and a quantizer for rows; None where there are too few of them."""
    kind, _ = options.parts
    stages = rows.stages
    count = rows.count or 0
    partitions = options.partitions_of(count)
    rate = options.sample_rate if options.streaming is None else options.streaming.first
    wanted = max(rate * partitions, kind.sample_rows(options.quantizer), options.least_rows)
    wanted = max(1, min(wanted, SAMPLE_BYTES // (4 * options.dimension)))
    sample = _sample(rows, wanted, options) if count else np.empty((0, options.dimension), options.dtype)
    if len(sample) < options.least_rows:
        if count:
            warnings.warn(
                f"{options.index_type} is trained from at least {options.least_rows} vectors, and there are "
                f"{len(sample)}: the index stays empty, and searches read the rows, until optimize_indices() finds enough",
                UserWarning,
                stacklevel=2,
            )
        return None
    metric = ranking_metric(options.metric)
    loss: float | None = None
    centroids = options.centroids
    stages.begin("train_ivf", options.max_iters, "iterations")
    if centroids is None:
        # Vectors that cannot be indexed are no rows; where the sample is all there is, that is known.
        partitions = options.partitions_of(min(count, len(sample)) if wanted >= count else count)
        used = sample[: max(rate * partitions, partitions)]
        step = None if options.accelerator is None else options.accelerator.step
        found, loss = train_centroids(used, partitions, metric, options.max_iters, options.seed, step)
        if options.streaming is not None and metric is not Metric.HAMMING:
            for _ in range(options.streaming.passes):
                loss = move_centroids(found, _pieces(rows, partitions, options), metric, step)
        centroids = found.astype(options.dtype)
    stages.complete()
    stages.begin("train_quantizer", None, "")
    seen = sample[: max(kind.sample_rows(options.quantizer), 1)]
    nearest, _ = assign(seen, centroids, metric)
    quantizer = kind.train(seen, nearest, centroids, options.metric, options.quantizer, options.seed)
    stages.complete()
    return VectorModel(options.metric, centroids, quantizer, loss)


def _pieces(rows: NewRows, partitions: int, options: VectorOptions) -> Iterator[Vectors]:
    """A sample of which only so many vectors are held at once as the caller says."""
    assert options.streaming is not None
    assert rows.sample is not None
    for values in rows.sample(options.sample_rate * partitions, options.seed):
        vectors, _ = indexable(values, options.metric)
        step = options.streaming.rate * partitions
        for start in range(0, len(vectors), step):
            yield vectors[start : start + step]


def _sample(rows: NewRows, wanted: int, options: VectorOptions) -> Vectors:
    """Vectors drawn by chance, in an order of chance."""
    parts: list[Vectors] = []
    for values in rows.sample(wanted, options.seed) if rows.sample is not None else ():
        vectors, _ = indexable(values, options.metric)
        parts.append(np.array(vectors, order="C"))
    if not parts:
        return np.empty((0, options.dimension), options.dtype)
    found = np.concatenate(parts)
    parts.clear()
    order = np.random.default_rng(options.seed).permutation(len(found))[:wanted]
    drawn: Vectors = found[order]
    return drawn


# Entries

_PartitionEntries = tuple["RowNumbers", list[npt.NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class _Entries:
    partitions: npt.NDArray[np.uint32]
    rows: RowNumbers
    codes: Columns

    @property
    def nbytes(self) -> int:
        return int(self.partitions.nbytes + self.rows.nbytes + sum(column.nbytes for column in self.codes))


def encoded(
    values: pa.Array,
    numbers: RowNumbers,
    model: VectorModel,
    accelerator: Accelerator | None = None,
    precomputed: Precomputed | None = None,
) -> _Entries:
    """Entries of some rows."""
    vectors, places = indexable(values, model.metric)
    rows = numbers[places]
    if precomputed is None:
        partitions = _assigned(vectors, model, accelerator)
        return _Entries(partitions, rows, _codes(vectors, partitions, model, accelerator))
    known, there = precomputed.find(rows)
    partitions = np.empty(len(rows), np.uint32)
    partitions[there] = precomputed.partitions[known]
    partitions[~there] = _assigned(vectors[~there], model, accelerator)
    if precomputed.codes is None:
        return _Entries(partitions, rows, _codes(vectors, partitions, model, accelerator))
    codes = np.empty((len(rows), precomputed.codes.shape[1]), np.uint8)
    codes[there] = precomputed.codes[known]
    (codes[~there],) = _codes(vectors[~there], partitions[~there], model, accelerator)
    return _Entries(partitions, rows, [codes])


def _assigned(vectors: Vectors, model: VectorModel, accelerator: Accelerator | None) -> npt.NDArray[np.uint32]:
    work = assign if accelerator is None else accelerator.assign
    return work(vectors, model.centroids, ranking_metric(model.metric))[0]


def _codes(
    vectors: Vectors, partitions: npt.NDArray[np.uint32], model: VectorModel, accelerator: Accelerator | None
) -> list[npt.NDArray[Any]]:
    if accelerator is None:
        return model.quantizer.encode(vectors, partitions, model.centroids)
    return accelerator.encode(model.quantizer, vectors, partitions, model.centroids)


def _new_entries(
    rows: NewRows, model: VectorModel, accelerator: Accelerator | None, precomputed: Precomputed | None
) -> Iterator[_Entries]:
    stages = rows.stages
    stages.begin("shuffle", rows.count, "rows")
    done = 0
    for batch in rows.batches:
        numbers = np.asarray(batch.column(ROW).to_numpy(zero_copy_only=False), np.uint64)
        yield encoded(batch.column(VALUE), numbers, model, accelerator, precomputed)
        done += batch.num_rows
        stages.advance(done)
    stages.complete()


def merged_model(segments: Sequence[VectorSegment]) -> VectorModel | None:
    """The model that codes of all segments can have; None for no segments.

    Ranges of scalar quantizers are united; otherwise what was trained apart stays apart.
    """
    if not segments:
        return None
    first = segments[0].model
    others = [segment.model for segment in segments[1:]]
    if all(first.same_as(other) for other in others):
        return first
    if not all(np.array_equal(first.centroids, other.centroids) for other in others):
        raise IndexRefused("IVF centroids mismatch across segments: only segments with the same centroids are merged")
    quantizers = [model.quantizer for model in (first, *others)]
    if not all(isinstance(quantizer, ScalarQuantizer) for quantizer in quantizers):
        raise IndexRefused(
            "the segments have codebooks of their own; build them with the same pq_codebook to merge them"
        )
    low = min(quantizer.start for quantizer in quantizers if isinstance(quantizer, ScalarQuantizer))
    high = max(quantizer.end for quantizer in quantizers if isinstance(quantizer, ScalarQuantizer))
    united = ScalarQuantizer(first.metric, first.centroids.dtype, quantizers[0].dimension, low, high)
    return VectorModel(first.metric, first.centroids, united, first.loss)


def _old_entries(source: Source, model: VectorModel) -> Iterator[_Entries]:
    segment = source.segment
    assert isinstance(segment, VectorSegment)
    own = segment.model
    same = own.same_as(model)
    for number, partition in segment.stream():
        if not len(partition.rows):
            continue
        rows, kept = partition.rows, None
        if source.rename is not None:
            rows, kept = source.rename(partition.rows)
        codes = own.quantizer.pick_up(partition.stored)
        if kept is not None and not kept.all():
            rows, codes = rows[kept], [column[kept] for column in codes]
        partitions = np.full(len(rows), number, np.uint32)
        if not same:
            vectors = own.quantizer.decode(codes, own.centroids[number]).astype(model.centroids.dtype)
            if not np.array_equal(own.centroids, model.centroids):
                partitions, _ = assign(vectors, model.centroids, ranking_metric(model.metric))
            codes = model.quantizer.encode(vectors, partitions, model.centroids)
        yield _Entries(partitions, rows, codes)


def _side_by_side(sources: Sequence[Source], model: VectorModel) -> Iterator[_PartitionEntries]:
    """The partitions of segments that share a model: each out of that of all of them, without a look at the others."""
    segments = [source.segment for source in sources]
    share = READ_AT_ONCE // max(1, len(segments))
    streams = [segment.stream(at_once=share) for segment in segments if isinstance(segment, VectorSegment)]
    for parts in zip(*streams, strict=True):
        checkpoint()
        pieces: list[list[npt.NDArray[Any]]] = []
        for source, (_, partition) in zip(sources, parts, strict=True):
            entries = _kept_entries(source, partition, model)
            if len(entries[0]):
                pieces.append(entries)
        yield _in_order(pieces)


def _kept_entries(source: Source, partition: Partition, model: VectorModel) -> list[npt.NDArray[Any]]:
    """Rows and codes of a partition, as far as the rows are wanted, under the numbers that these have now."""
    rows = partition.rows
    if not len(rows):
        return [rows]
    codes = model.quantizer.pick_up(partition.stored)
    if source.rename is None:
        return [rows, *codes]
    rows, kept = source.rename(rows)
    return [rows, *codes] if kept.all() else [rows[kept], *(column[kept] for column in codes)]


def _in_order(pieces: Sequence[Sequence[npt.NDArray[Any]]]) -> _PartitionEntries:
    """One partition out of pieces of it, by ascending row."""
    if not pieces:
        return np.empty(0, np.uint64), []
    columns = [np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*pieces, strict=True)]
    rows = columns[0]
    if np.any(rows[1:] < rows[:-1]):
        order = np.argsort(rows, kind="stable")
        columns = [column[order] for column in columns]
    return columns[0], columns[1:]


class _Runs:
    """Entries by partition: in memory as long as they fit, otherwise in temporary files."""

    def __init__(self, partitions: int, run_bytes: int, stack: ExitStack) -> None:
        self._count = partitions
        self._run_bytes = run_bytes
        self._stack = stack
        self._waiting: list[_Entries] = []
        self._size = 0
        self._runs: list[_Run] = []
        self._kept = 0

    def add_all(self, entries: Iterable[_Entries]) -> None:
        for some in entries:
            checkpoint()
            # What is a view of a batch would keep all of it.
            self._waiting.append(some)
            self._size += some.nbytes
            if self._size >= self._run_bytes:
                self._sort()

    def _sort(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        partitions = np.concatenate([some.partitions for some in waiting])
        order = np.argsort(partitions, kind="stable")
        ends = np.cumsum(np.bincount(partitions, minlength=self._count))
        rows = np.concatenate([some.rows for some in waiting])[order]
        columns: list[npt.NDArray[Any]] = [rows]
        for place in range(len(waiting[0].codes)):
            columns.append(np.concatenate([some.codes[place] for some in waiting])[order])  # noqa: PERF401 - large
        # Codes that are vectors may be views of the files that these are in.
        release_views([(column.ctypes.data, column.nbytes) for some in waiting for column in some.codes])
        del waiting
        nbytes = sum(column.nbytes for column in columns)
        if self._kept + nbytes <= self._run_bytes:
            self._kept += nbytes
            self._runs.append(_Run(ends, columns))
            return
        file = self._stack.enter_context(tempfile.TemporaryFile(prefix="lancelet-vectors-"))  # noqa: SIM115 - the stack is
        shapes: list[tuple[int, np.dtype[Any], tuple[int, ...]]] = []
        for column in columns:
            shapes.append((file.tell(), column.dtype, column.shape[1:]))
            file.write(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
        self._runs.append(_Run(ends, [], file, shapes))

    def partitions(self) -> Iterator[_PartitionEntries]:
        """Rows, ascending, and codes of each partition."""
        self._sort()
        for number in range(self._count):
            checkpoint()
            runs = [run for run in self._runs if run.count(number)]
            if len(runs) <= 1:
                yield _in_order([run.read(number) for run in runs])
                continue
            # Filled run by run, so that no partition is in memory twice.
            first = runs[0].read(number)
            total = sum(run.count(number) for run in runs)
            columns = [np.empty((total, *column.shape[1:]), column.dtype) for column in first]
            at = 0
            for run in runs:
                pieces = first if run is runs[0] else run.read(number)
                for column, piece in zip(columns, pieces, strict=True):
                    column[at : at + len(piece)] = piece
                at += run.count(number)
            del first, pieces
            if number + 1 == self._count:
                # What runs keep in memory is not needed while the last partition, maybe the only one, gets its graph.
                self._runs.clear()
                del run, runs
            yield _in_order([columns])


@dataclass(frozen=True, slots=True)
class _Run:
    ends: npt.NDArray[np.int64]
    columns: list[npt.NDArray[Any]]
    file: IO[bytes] | None = None
    shapes: Sequence[tuple[int, np.dtype[Any], tuple[int, ...]]] = ()

    def count(self, number: int) -> int:
        """How many entries one partition has."""
        return int(self.ends[number]) - (int(self.ends[number - 1]) if number else 0)

    def read(self, number: int) -> list[npt.NDArray[Any]]:
        """The columns of one partition."""
        start, stop = (int(self.ends[number - 1]) if number else 0), int(self.ends[number])
        if self.file is None:
            return [column[start:stop] for column in self.columns]
        found = []
        for place, dtype, shape in self.shapes:
            each = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            self.file.seek(place + start * each)
            data = self.file.read((stop - start) * each)
            found.append(np.frombuffer(data, dtype).reshape(stop - start, *shape))
        return found
