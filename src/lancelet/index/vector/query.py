"""What the parts of a vector index say to each other: a query, quantizers, graphs, and which rows count.

An index cuts the vectors into partitions, each around a centroid. A :class:`Quantizer` makes codes of the vectors of a
partition and compares a query with them; a :class:`Graph` over the codes of a partition finds the near ones without
looking at all. Both are chosen by the type of the index::

    IVF_HNSW_PQ
        │    └─ quantizer   FLAT PQ SQ RQ
        └────── graph       HNSW, or none: all codes of a partition are looked at

Arrays of codes have one row for each vector. ``stored`` is how the file keeps those of one partition: a list with an
array for each of the quantizer's ``fields``, 2-D where the field is a list of fixed size and 1-D otherwise, rows in the file's
own order (transposed, packed) and maybe read-only views of a mapped file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.index.kind import Rename
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.blocks import Blocks
    from lancelet.index.vector.metric import Metric
    from lancelet.index.vector.top import Top

    Vectors = npt.NDArray[Any]
    Columns = Sequence[npt.NDArray[Any]]
    Keep = npt.NDArray[np.bool_]

APPROX_MODES: Final = ("fast", "normal", "accurate")


class SearchUse:
    """What a search looked at, counted by all the threads that take part."""

    __slots__ = ("_lock", "codes", "missing", "partitions", "refined", "segments")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.segments = 0
        self.partitions = 0
        """Partitions that were probed."""
        self.codes = 0
        """Codes that were compared with a query."""
        self.refined = 0
        """Rows whose vectors were read and compared."""
        self.missing = 0
        """Rows that were looked at, and have no vector, or not all of its elements; known where all vectors are compared."""

    def note(
        self, *, segments: int = 0, partitions: int = 0, codes: int = 0, refined: int = 0, missing: int = 0
    ) -> None:
        """Add to the counts."""
        with self._lock:
            self.segments += segments
            self.partitions += partitions
            self.codes += codes
            self.refined += refined
            self.missing += missing


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """One query vector against the segments of an index."""

    vector: Vectors
    """One dimension, in the column's element type; a segment normalises it where its metric says so."""
    count: int
    """How many rows are looked for: ``k``, or ``k * refine_factor``."""
    lower: float | None = None
    """Distances in ``[lower, upper)``, in the index's own unit."""
    upper: float | None = None
    min_probes: int | None = None
    """Partitions that are probed at least, and at most; both None: as many as ``count`` needs (spec indices.md 14.12)."""
    max_probes: int | None = None
    effort: float | None = None
    """From 0 to 1, in place of numbers of partitions."""
    ef: int | None = None
    """How many candidates a graph keeps in mind."""
    approx: str = "normal"
    """One of :data:`APPROX_MODES`; RQ alone looks at it."""
    use: SearchUse = field(default_factory=SearchUse, compare=False)
    workers: int = 1
    """How many threads look at partitions side by side."""

    def asking(self, vector: Vectors, count: int) -> VectorQuery:
        """The same with another form of the vector, for so many rows."""
        if vector is self.vector and count == self.count:
            return self
        bounds, probes = (self.lower, self.upper), (self.min_probes, self.max_probes)
        return VectorQuery(vector, count, *bounds, *probes, self.effort, self.ef, self.approx, self.use, self.workers)


@dataclass(frozen=True, slots=True)
class KeyedRename:
    """A :data:`~lancelet.index.kind.Rename` whose answers a segment may keep: those with equal keys do the same."""

    rename: Rename
    key: Hashable
    """None: answers are not kept."""
    keeps_all: bool = False
    """No row is left out; only the names change. So nothing is asked before the end of a search."""
    whole: Mapping[int, int] = field(default_factory=dict)
    """Fragments of which no row is left out, and how many rows these have, where rows are called by their addresses."""
    keeps_names: bool = False
    """Rows that are not left out have the names that the segment knows them by."""

    def __call__(self, rows: RowNumbers) -> tuple[RowNumbers, Keep]:
        return self.rename(rows)


def _as_they_are(rows: RowNumbers) -> tuple[RowNumbers, Keep]:
    return rows, np.ones(len(rows), np.bool_)


ALL_KEPT: Final = KeyedRename(_as_they_are, "all kept", keeps_all=True, keeps_names=True)
"""Nothing was deleted, moved or filtered out, and rows are called by their addresses."""


class Prepared(Protocol):
    """A quantizer that has seen the query. One thread uses it."""

    def scan(self, stored: Columns, rows: RowNumbers, centroid: Vectors, top: Top, keep: Keep | None, /) -> None:
        """Offer the vectors of one partition to ``top``; where ``keep`` is given, those for which it is true."""

    def scan_blocks(self, blocks: Blocks, centroids: Vectors, top: Top, /) -> None:
        """Offer the vectors of several partitions, each with its centroid."""

    def distances(self, stored: Columns, count: int, centroid: Vectors, /) -> npt.NDArray[np.float32]:
        """All distances of a partition of so many vectors."""


class PreparedMany(Protocol):
    """A quantizer that has seen several queries."""

    def scan_grouped(
        self, blocks: Blocks, ends: npt.NDArray[np.int64], which: npt.NDArray[np.int64], tops: list[Top], /
    ) -> None:
        """Offer the vectors of each of some partitions to the tops of its queries: those in ``which`` between two ``ends``."""


class Quantizer(Protocol):
    """How vectors are stored. Trained, small, and can be pickled."""

    @property
    def name(self) -> str:
        """``FLAT``, ``PQ``, ``SQ``, ``RQ``."""

    @property
    def metric(self) -> Metric: ...

    @property
    def dimension(self) -> int: ...

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """Columns of ``auxiliary.idx`` after ``_rowid``."""

    @property
    def uses_centroids(self) -> bool:
        """Whether codes depend on the partition, so that a vector in another one has to be encoded anew."""

    def encode(
        self, vectors: Vectors, partitions: npt.NDArray[np.uint32], centroids: Vectors
    ) -> list[npt.NDArray[Any]]:
        """An array for each field, one row a vector. Vectors are normalised already where the metric says so."""

    def lay_out(self, codes: Columns) -> list[npt.NDArray[Any]]:
        """Codes of all vectors of one partition in the order of the file."""

    def pick_up(self, stored: Columns) -> list[npt.NDArray[Any]]:
        """The reverse of :meth:`lay_out`."""

    def as_scanned(self, stored: Columns) -> Columns:
        """Codes of one partition in the order of scans, mostly that of the file."""

    def decode(self, codes: Columns, centroid: Vectors) -> npt.NDArray[np.float32]:
        """About the vectors that were encoded; for codes of one partition, one row a vector."""

    def describe(self, add_buffer: Callable[[bytes], int]) -> dict[str, Any]:
        """What goes into ``storage_metadata``; ``add_buffer`` adds a global buffer to the file and tells its number."""

    def prepare(self, query: VectorQuery, metric: Metric) -> Prepared:
        """Once a query, whose vector is normalised already where the metric says so."""


@runtime_checkable
class SharedQuantizer(Protocol):
    """A quantizer with which several queries read the codes of a partition once, instead of each for itself."""

    def prepare_many(self, queries: Sequence[VectorQuery], metric: Metric) -> PreparedMany:
        """Several queries, to be compared with the vectors of partitions together."""


class QuantizerKind(Protocol):
    """How a quantizer comes to be; the kinds are listed in :mod:`lancelet.index.vector.quantizers`."""

    name: str

    def load(
        self,
        about: Mapping[str, Any],
        buffer: Callable[[int], bytes],
        metric: Metric,
        dtype: np.dtype[Any],
        dimension: int,
        path: str,
    ) -> Quantizer:
        """Of what :meth:`Quantizer.describe` told; ``path`` is the file, for errors."""

    def check(self, options: Mapping[str, Any], metric: Metric, dtype: np.dtype[Any], dimension: int) -> dict[str, Any]:
        """Its options out of all those of an index, complete; raises when they make no sense."""

    def sample_rows(self, options: Mapping[str, Any]) -> int:
        """How many vectors :meth:`train` wants to see."""

    def train(
        self,
        vectors: Vectors,
        partitions: npt.NDArray[np.uint32],
        centroids: Vectors,
        metric: Metric,
        options: Mapping[str, Any],
        seed: int,
    ) -> Quantizer:
        """Of some vectors (normalised, with their partitions) and the options that :meth:`check` gave."""


class Graph(Protocol):
    """The graph of one open partition."""

    @property
    def nbytes(self) -> int: ...

    def search(
        self,
        quantizer: Quantizer,
        query: VectorQuery,
        prepared: Prepared,
        stored: Columns,
        rows: RowNumbers,
        centroid: Vectors,
        top: Top,
        keep: Keep | None,
        /,
    ) -> int:
        """Offer near vectors to ``top``; tells how many codes were compared."""


class GraphKind(Protocol):
    """How graphs of partitions are made and opened: rows of ``index.idx``, and a JSON for each partition."""

    name: str
    """``HNSW``; the key of the JSON texts in the file is ``lance:hnsw``."""
    quantizers: tuple[str, ...]
    """Names of those whose codes it compares."""
    schema: pa.Schema
    """Of ``index.idx``."""
    searched: tuple[str, ...]
    """The columns that :meth:`open` wants; the others are for others."""

    def check(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Its options out of all those of an index, complete."""

    def build(
        self,
        quantizer: Quantizer,
        stored: Columns,
        count: int,
        centroid: Vectors,
        options: Mapping[str, Any],
        seed: int,
    ) -> tuple[Iterator[pa.RecordBatch], dict[str, Any]]:
        """The rows and the JSON of one partition; an empty one has no rows, and nothing is said of it."""

    def open(self, batch: pa.RecordBatch, about: Mapping[str, Any], count: int, path: str) -> Graph:
        """Of the rows and the JSON of a partition with so many vectors; everything is checked."""
