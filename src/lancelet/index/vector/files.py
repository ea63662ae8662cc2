"""The two files of a vector segment (spec indices.md 14.1).

::

    index.idx        global buffer ``lance:ivf``: the centroids, and where the graph of each partition is
                     rows: the graphs, or none
    auxiliary.idx    global buffer ``lance:ivf``: where the rows of each partition are
                     rows: ``_rowid`` and codes, partition after partition, ``_rowid`` ascending in each

Codes are written so that those of a partition are one piece of the file: where that is mapped, nothing is copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidType, LanceletError, NotSupported
from lancelet.format.file_versions import V2_0
from lancelet.format.system_columns import ROW_ID
from lancelet.index.vector.centroids import Extents, ivf_message, read_centroids, read_extents
from lancelet.index.vector.metric import Metric, metric_named
from lancelet.index.vector.quantizers import parts_of
from lancelet.table.rows.addresses import split_addresses

if TYPE_CHECKING:
    from types import TracebackType

    from lancelet.index.folder import IndexFileReader, IndexFileWriter, IndexFolder, SegmentWriter
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.blocks import Block
    from lancelet.index.vector.query import Columns, Graph, GraphKind, Quantizer, Vectors

INDEX_FILE: Final = "index.idx"
STORAGE_FILE: Final = "auxiliary.idx"
_ABOUT: Final = "lance:index"
_IVF: Final = "lance:ivf"
_STORAGE: Final = "storage_metadata"
_METRIC: Final = "distance_type"
_GRAPHS: Final = "lance:hnsw"
_MARKER: Final = pa.schema([pa.field("__flat_marker", pa.uint64(), nullable=False)])
_CONTIGUOUS: Final = {"lance-encoding:structural-encoding": "fullzip"}
_ELEMENTS: Final = (pa.float16(), pa.float32(), pa.float64(), pa.uint8())
_ROW_BYTES: Final = 8


@dataclass(frozen=True)
class VectorModel:
    """All that is trained: with it rows become entries of an index. Small, and can be pickled."""

    metric: Metric
    centroids: Vectors
    quantizer: Quantizer
    loss: float | None = None

    @property
    def entry_bytes(self) -> int:
        """How large an entry is: its row and its codes."""
        return _ROW_BYTES + sum(_width(column.type) for column in self.quantizer.fields)

    def same_as(self, other: VectorModel) -> bool:
        """Whether codes of one mean the same to the other."""

        def nothing(data: bytes) -> int:
            buffers.append(data)
            return len(buffers)

        said: list[tuple[Any, ...]] = []
        for model in (self, other):
            buffers: list[bytes] = []
            about = model.quantizer.describe(nothing)
            said.append((model.metric, model.quantizer.name, json.dumps(about, sort_keys=True), buffers))
        return said[0] == said[1] and np.array_equal(self.centroids, other.centroids)


def _width(dtype: pa.DataType) -> int:
    """Bytes of a value."""
    if pa.types.is_fixed_size_list(dtype):
        return int(dtype.list_size * dtype.value_type.bit_width // 8)
    return int(dtype.bit_width // 8)


def element_of(dtype: pa.DataType) -> tuple[np.dtype[Any], int, bool]:
    """The type and the number of the numbers in a vector, and whether a row has several vectors."""
    kind = dtype.storage_type if isinstance(dtype, pa.FixedShapeTensorType) and len(dtype.shape) == 1 else dtype
    several = bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
    kind = kind.value_type if several else kind
    if not pa.types.is_fixed_size_list(kind):
        raise InvalidType(
            f"vectors are lists of a fixed size, or tensors of one dimension, not {dtype}; cast the column first"
        )
    if kind.value_type not in _ELEMENTS:
        raise InvalidType(
            f"vectors have floating value type, or are bytes, not {kind.value_type}; cast the column first"
        )
    return np.dtype(kind.value_type.to_pandas_dtype()), kind.list_size, several


Marked = tuple[npt.NDArray[np.bool_] | None, int]
"""Which rows of a partition count (None: all), and how many these are."""


@dataclass(slots=True)
class Partition:
    """The entries of one partition, as the file keeps them."""

    rows: RowNumbers
    stored: list[npt.NDArray[Any]]
    graph: Graph | None = None
    block: Block | None = None
    """The same, as scans read it."""
    masks: dict[Any, Marked] = field(default_factory=dict)
    """Which rows count, by what a search says of them."""
    _ends: dict[int, int] | None = None

    @property
    def ends(self) -> Mapping[int, int]:
        """The fragments of its rows, each with the offset after the last one, where rows are called by their addresses."""
        if self._ends is None:
            numbers, offsets = split_addresses(self.rows)
            found, places = np.unique(numbers, return_inverse=True)
            ends = np.zeros(len(found), np.int64)
            np.maximum.at(ends, places, offsets + 1)
            self._ends = dict(zip(found.tolist(), ends.tolist(), strict=True))
        return self._ends

    @property
    def nbytes(self) -> int:
        graph = 0 if self.graph is None else self.graph.nbytes
        return int(self.rows.nbytes) + sum(array.nbytes for array in self.stored) + graph


@dataclass(frozen=True)
class VectorHeads:
    """What the files of a segment of any type tell without their rows."""

    index_type: str
    metric: Metric
    centroids: Vectors
    loss: float | None
    extents: Extents
    about: Mapping[str, Any]
    """How vectors are stored, in the words of the file."""
    graph_extents: Extents
    graphs: Sequence[Any]
    """What the file says of each graph; nothing where there are none."""
    version: str = "V3"
    """Of the layout of the files, as pylance calls it."""

    @classmethod
    def read(cls, index: IndexFileReader, storage: IndexFileReader) -> VectorHeads:
        said = _object(index, _ABOUT, index.metadata.get(_ABOUT))
        try:
            metric = metric_named(said.get(_METRIC))
        except LanceletError as error:
            raise CorruptFile(index.path, str(error), _ABOUT) from None
        extents, _ = read_extents(_buffer(storage, _IVF), storage.num_rows, storage.path)
        graph_extents, message = read_extents(_buffer(index, _IVF), index.num_rows, index.path)
        if len(graph_extents) != len(extents):
            problem = f"has {len(graph_extents)} partitions, but {STORAGE_FILE} has {len(extents)}"
            raise CorruptFile(index.path, problem, _IVF)
        centroids = read_centroids(message, len(extents), index.path)
        about = _object(storage, _STORAGE, _first(storage, _STORAGE))
        graphs = _graphs(index, len(extents))
        loss = message.loss if message.HasField("loss") else None
        index_type = str(said.get("type"))
        return cls(index_type, metric, centroids, loss, extents, about, graph_extents, graphs)


class SegmentFiles(Protocol):
    """The open files of a segment, whatever their layout."""

    @property
    def heads(self) -> VectorHeads: ...

    @property
    def model(self) -> VectorModel: ...

    @property
    def graph(self) -> GraphKind | None: ...

    @property
    def path(self) -> str:
        """Of the file that tells of the segment."""

    @property
    def storage_path(self) -> str:
        """Of the file with rows and codes."""

    @property
    def extents(self) -> Extents:
        """The rows of each partition."""

    @property
    def nbytes(self) -> int: ...

    def read(self, numbers: Sequence[int], graphs: bool = True) -> list[Partition]:
        """Partitions by their numbers, maybe without their graphs; all are asked for at once."""


@dataclass(frozen=True)
class VectorFiles:
    """The two files of a segment."""

    heads: VectorHeads
    index: IndexFileReader
    storage: IndexFileReader
    model: VectorModel
    graph: GraphKind | None

    @classmethod
    def open(cls, folder: IndexFolder, dtype: pa.DataType) -> VectorFiles:
        element, dimension, _ = element_of(dtype)
        index, storage = folder.open(INDEX_FILE), folder.open(STORAGE_FILE)
        heads = VectorHeads.read(index, storage)
        metric = heads.metric
        try:
            quantizer_kind, graph = parts_of(heads.index_type)
        except NotSupported as error:
            raise NotSupported(f"{index.path}: {error}") from None
        centroids = fitting_centroids(heads, element, dimension, index.path)
        quantizer = quantizer_kind.load(heads.about, storage.global_buffer, metric, element, dimension, storage.path)
        for column in quantizer.fields:
            found = storage.type(column.name)
            if not _same(found, column.type):
                raise CorruptFile(storage.path, f"has {found} in {column.name!r}, not {column.type}")
        if not pa.types.is_uint64(storage.type(ROW_ID)):
            raise CorruptFile(storage.path, f"has {storage.type(ROW_ID)} in {ROW_ID!r}, not uint64")
        if graph is not None and len(heads.graphs) != len(heads.extents):
            raise CorruptFile(index.path, f"tells of {len(heads.graphs)} graphs for {len(heads.extents)} partitions")
        return cls(heads, index, storage, VectorModel(metric, centroids, quantizer, heads.loss), graph)

    @property
    def path(self) -> str:
        return self.index.path

    @property
    def storage_path(self) -> str:
        return self.storage.path

    @property
    def extents(self) -> Extents:
        return self.heads.extents

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.storage.nbytes + int(self.model.centroids.nbytes)

    def read(self, numbers: Sequence[int], graphs: bool = True) -> list[Partition]:
        """Partitions by their numbers, maybe without their graphs; all are asked for at once."""
        found = [Partition(np.empty(0, np.uint64), []) for _ in numbers]
        ranges = [_range(self.extents, number) for number in numbers]
        for partition, array in zip(found, self.storage.slices(ROW_ID, ranges), strict=True):
            partition.rows = _numbers(array, self.storage.path, ROW_ID)
        for column in self.model.quantizer.fields:
            for partition, array in zip(found, self.storage.slices(column.name, ranges), strict=True):
                partition.stored.append(_numbers(array, self.storage.path, column.name))
        if self.graph is not None and graphs:
            wanted = [_range(self.heads.graph_extents, number) for number in numbers]
            columns = {name: self.index.slices(name, wanted) for name in self.graph.searched}
            for at, (number, partition) in enumerate(zip(numbers, found, strict=True)):
                batch = pa.RecordBatch.from_pydict({name: column[at] for name, column in columns.items()})
                if len(partition.rows):
                    about = self.heads.graphs[number]
                    partition.graph = self.graph.open(batch, about, len(partition.rows), self.index.path)
        return found


def fitting_centroids(heads: VectorHeads, element: np.dtype[Any], dimension: int, path: str) -> Vectors:
    """The centroids, in the type of the column; files whose centroids or metric do not fit it are refused."""
    centroids = heads.centroids
    if centroids.shape[1] != dimension or (centroids.dtype.kind == "f") != (element.kind == "f"):
        problem = f"has centroids of {centroids.shape[1]} numbers ({centroids.dtype}) for vectors of {dimension}"
        raise CorruptFile(path, f"{problem} ({element})", "centroids")
    if (heads.metric is Metric.HAMMING) != (element == np.uint8):
        raise CorruptFile(path, f"compares vectors of {element} by {heads.metric.value}", _ABOUT)
    return centroids.astype(element, copy=False)


def _range(extents: Extents, number: int) -> tuple[int, int]:
    start = int(extents.offsets[number])
    return start, start + int(extents.lengths[number])


def _numbers(array: pa.Array, path: str, column: str) -> npt.NDArray[Any]:
    """A column without nulls as an array of one dimension, or of two for lists."""
    if array.null_count:
        raise CorruptFile(path, f"has {array.null_count} nulls", column)
    if not pa.types.is_fixed_size_list(array.type):
        found = np.asarray(array.to_numpy(zero_copy_only=False))
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            # With such a factor no distance is a number, and its row would never be found.
            raise CorruptFile(path, f"has {int((~np.isfinite(found)).sum())} numbers that are not finite", column)
        return found
    values = array.flatten()
    if values.null_count:
        raise CorruptFile(path, f"has {values.null_count} nulls", column)
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(array), array.type.list_size)


def _same(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether types are the same but for names of items and for what may be null."""
    if pa.types.is_fixed_size_list(one) and pa.types.is_fixed_size_list(other):
        return bool(one.list_size == other.list_size and one.value_type == other.value_type)
    return bool(one == other)


def _buffer(file: IndexFileReader, key: str) -> bytes:
    """The global buffer whose number an entry of the metadata tells."""
    text = file.metadata.get(key, "")
    if not text.isdecimal() or len(text) > 9:
        raise CorruptFile(file.path, f"tells no number of a buffer, but {text!r}", key)
    return file.global_buffer(int(text))


def _object(file: IndexFileReader, key: str, text: Any) -> dict[str, Any]:
    found = _parsed(file, key, text)
    if not isinstance(found, dict):
        raise CorruptFile(file.path, f"is no JSON object: {text!r}", key)
    return found


def _first(file: IndexFileReader, key: str) -> Any:
    texts = _parsed(file, key, file.metadata.get(key))
    if not isinstance(texts, list) or not texts:
        raise CorruptFile(file.path, "is no list of JSON texts", key)
    return texts[0]


def _parsed(file: IndexFileReader, key: str, text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise CorruptFile(file.path, f"is no JSON: {text!r}", key) from None


def _graphs(file: IndexFileReader, count: int) -> list[Any]:
    """What is told of the graphs of so many partitions."""
    if _GRAPHS not in file.metadata:
        return []
    texts = _parsed(file, _GRAPHS, file.metadata[_GRAPHS])
    if not isinstance(texts, list) or len(texts) != count:
        raise CorruptFile(file.path, f"does not tell of {count} graphs", _GRAPHS)
    return [_parsed(file, _GRAPHS, text) if text else {} for text in texts]


class VectorFileWriter:
    """Writes both files, a partition at a time. Used as a context: leaving it finishes them."""

    def __init__(
        self,
        out: SegmentWriter,
        index_type: str,
        model: VectorModel,
        graph_options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self._model = model
        self._index_type = index_type
        _, self._graph = parts_of(index_type)
        self._graph_options = dict(graph_options or {})
        self._seed = seed
        self._lengths: list[int] = []
        self._graph_lengths: list[int] = []
        self._graphs: list[str] = []
        metadata = None if out.file_version == V2_0 else _CONTIGUOUS
        fields = [column.with_metadata(metadata) for column in model.quantizer.fields]
        self._schema = pa.schema([pa.field(ROW_ID, pa.uint64()), *fields])
        with ExitStack() as stack:
            self._storage: IndexFileWriter = stack.enter_context(out.create(STORAGE_FILE, self._schema))
            head = _MARKER if self._graph is None else self._graph.schema
            self._index: IndexFileWriter = stack.enter_context(out.create(INDEX_FILE, head))
            self._open = stack.pop_all()

    def __enter__(self) -> VectorFileWriter:
        return self

    def add(self, rows: RowNumbers, codes: Columns) -> None:
        """The next partition: its rows, ascending, and their codes, one row a vector."""
        number = len(self._lengths)
        if number >= len(self._model.centroids):
            raise NotSupported(f"there are {len(self._model.centroids)} partitions, and no more")
        self._lengths.append(len(rows))
        stored = self._model.quantizer.lay_out(codes) if len(rows) else []
        if len(rows):
            arrays = [pa.array(rows, pa.uint64())]
            arrays += [_column(array, column) for array, column in zip(stored, list(self._schema)[1:], strict=True)]
            self._storage.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        if self._graph is None:
            self._graphs.append("")
            self._graph_lengths.append(0)
            return
        options = self._graph_options
        batches, about = self._graph.build(
            self._model.quantizer, stored, len(rows), self._model.centroids[number], options, self._seed
        )
        self._graphs.append(json.dumps(about, separators=(",", ":")) if about else "")
        total = 0
        for batch in batches:
            total += batch.num_rows
            if batch.num_rows:
                self._index.write(batch)
        self._graph_lengths.append(total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._open.__exit__(kind, error, trace)
            return
        with self._open:
            self._finish()

    def _finish(self) -> None:
        model = self._model
        missing = len(model.centroids) - len(self._lengths)
        for _ in range(missing):
            self.add(np.empty(0, np.uint64), [])
        metric = model.metric.value
        self._storage.add_metadata(_METRIC, metric)
        ivf = self._storage.add_global_buffer(ivf_message(Extents.of(self._lengths)))
        self._storage.add_metadata(_IVF, str(ivf))
        about = model.quantizer.describe(self._storage.add_global_buffer)
        self._storage.add_metadata(_STORAGE, json.dumps([json.dumps(about, separators=(",", ":"))]))
        key = "lance:flat" if self._graph is None else _GRAPHS
        self._index.add_metadata(key, json.dumps(self._graphs, separators=(",", ":")))
        self._index.add_metadata(_ABOUT, json.dumps({"type": self._index_type, _METRIC: metric}, separators=(",", ":")))
        # Without graphs all partitions are at 0.
        extents = Extents.of(self._graph_lengths)
        head = self._index.add_global_buffer(ivf_message(extents, model.centroids, model.loss))
        self._index.add_metadata(_IVF, str(head))


def _column(array: npt.NDArray[Any], column: pa.Field) -> pa.Array:
    if not pa.types.is_fixed_size_list(column.type):
        return pa.array(array, column.type)
    values = pa.array(np.ascontiguousarray(array).reshape(-1), column.type.value_type)
    return pa.FixedSizeListArray.from_arrays(values, type=column.type)
