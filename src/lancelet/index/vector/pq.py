"""Product quantization: a byte, or half of one, for each part of a vector (spec indices.md 14.4).

A vector is cut into ``m`` parts of equal length. The codebook has ``2 ** bits`` words for each part, and the code of a
part is the number of the nearest word. Of l2 and cosine the residual is encoded, what is left when the centroid of the
partition is taken away; of dot the vector itself::

    codebook    [m][2 ** bits][d / m], though the shape in the file says [2 ** bits, d]
    code        8 bits: m bytes; 4 bits: m / 2 bytes, the first part in the low half
    partition   n codes, column by column: byte j of row r at j * n + r

Distances are sums of one number for each part, which a table holds that is made for each query and partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile, IndexRefused, InvalidInput, InvalidType
from lancelet.format.proto.vector_index_pb2 import Tensor
from lancelet.index.vector import pq_scan
from lancelet.index.vector.centroids import array_of, tensor_of
from lancelet.index.vector.kmeans import train_words
from lancelet.index.vector.metric import Metric
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.blocks import Blocks
    from lancelet.index.vector.query import Columns, Keep, Prepared, Quantizer, VectorQuery, Vectors
    from lancelet.index.vector.top import Top

COLUMN: Final = "__pq_code"
_BYTE: Final = 8
_NIBBLE: Final = 4
_ROWS_AT_ONCE: Final = 1 << 14


@dataclass(frozen=True)
class ProductQuantizer:
    """A codebook."""

    metric: Metric
    codebook: Vectors
    """``[m, 2 ** bits, d / m]``, in the type of the column."""
    bits: int = _BYTE
    transposed: bool = True
    name: str = "PQ"

    @property
    def parts(self) -> int:
        return len(self.codebook)

    @property
    def dimension(self) -> int:
        return self.parts * int(self.codebook.shape[2])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.codebook.dtype

    @property
    def code_bytes(self) -> int:
        return self.parts * self.bits // _BYTE

    @property
    def uses_centroids(self) -> bool:
        return self.metric is not Metric.DOT

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(COLUMN, pa.list_(pa.uint8(), self.code_bytes)),)

    @cached_property
    def words(self) -> npt.NDArray[np.float32]:
        """The codebook, as tables are made of it: ``[m, d / m, 2 ** bits]``."""
        return np.ascontiguousarray(self.codebook.transpose(0, 2, 1), np.float32)

    def residuals(self, vectors: Vectors, partitions: npt.NDArray[np.uint32], centroids: Vectors) -> Vectors:
        """What is encoded, in the type of the column: for 16 bits this loses digits, and pylance's does too."""
        if not self.uses_centroids:
            return vectors
        found: Vectors = vectors - centroids.astype(vectors.dtype, copy=False)[partitions]
        return found

    def encode(
        self, vectors: Vectors, partitions: npt.NDArray[np.uint32], centroids: Vectors
    ) -> list[npt.NDArray[np.uint8]]:
        codes = np.empty((len(vectors), self.code_bytes), np.uint8)
        for start in range(0, len(vectors), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            left = self.residuals(vectors[part], partitions[part], centroids)
            codes[part] = pq_scan.encode(np.ascontiguousarray(left, np.float32), self.words)
        return [codes]

    def lay_out(self, codes: Columns) -> list[npt.NDArray[np.uint8]]:
        (rows,) = codes
        return [np.ascontiguousarray(rows.T).reshape(rows.shape) if self.transposed else rows]

    def pick_up(self, stored: Columns) -> list[npt.NDArray[np.uint8]]:
        (rows,) = stored
        if not self.transposed:
            return [rows]
        return [np.ascontiguousarray(rows.reshape(self.code_bytes, len(rows)).T)]

    def as_scanned(self, stored: Columns) -> Columns:
        return stored

    def numbers(self, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Of codes row by row the number of the word of each part."""
        if self.bits == _BYTE:
            return codes
        return np.stack([codes & 15, codes >> _NIBBLE], axis=2).reshape(len(codes), self.parts)

    def decode(self, codes: Columns, centroid: Vectors) -> npt.NDArray[np.float32]:
        numbers = self.numbers(codes[0])
        found = np.empty((len(numbers), self.dimension), np.float32)
        length = self.codebook.shape[2]
        for part in range(self.parts):
            found[:, part * length : (part + 1) * length] = self.codebook[part][numbers[:, part]]
        if self.uses_centroids:
            found += centroid.astype(np.float32)
        return found

    def describe(self, add_buffer: Callable[[bytes], int]) -> dict[str, Any]:
        tensor = tensor_of(self.codebook.reshape(1 << self.bits, -1))
        return {
            "codebook_position": add_buffer(tensor.SerializeToString()),
            "nbits": self.bits,
            "num_sub_vectors": self.parts,
            "dimension": self.dimension,
            "codebook_tensor": [],
            "transposed": self.transposed,
        }

    def table(self, query: Vectors, centroid: Vectors) -> npt.NDArray[np.float32]:
        """For each part and word what it adds to the distance."""
        return pq_scan.distance_table(self.compared(query, centroid), self.words, not self.uses_centroids)

    def compared(self, query: Vectors, centroids: Vectors) -> npt.NDArray[np.float32]:
        """What codes are compared with in the partition of each centroid."""
        if not self.uses_centroids:
            return np.ascontiguousarray(query, np.float32)
        if query.dtype != np.float16:
            return np.ascontiguousarray(query - centroids, np.float32)
        # Differences of half floats may be too large for them, and are near to nothing then.
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(query - centroids, np.float32)

    @property
    def offset(self) -> float:
        """What is added to a sum of the table: of dot each part adds 1 too much, but for one."""
        return 0.0 if self.uses_centroids else 1.0 - self.parts

    def prepare(self, query: VectorQuery, metric: Metric) -> Prepared:
        return _Prepared(self, query.vector)


@dataclass(slots=True)
class _Prepared:
    quantizer: ProductQuantizer
    query: Vectors
    kept: npt.NDArray[np.float32] | None = None
    """The table, where it does not depend on the partition."""

    def scan(self, stored: Columns, rows: RowNumbers, centroid: Vectors, top: Top, keep: Keep | None, /) -> None:
        codes, transposed = stored[0].reshape(-1), self.quantizer.transposed
        pq_scan.scan(self._table(centroid), codes, transposed, top, rows, keep, offset=self.quantizer.offset)

    def scan_blocks(self, blocks: Blocks, centroids: Vectors, top: Top, /) -> None:
        one = self.quantizer
        compared, dot = np.atleast_2d(one.compared(self.query, centroids)), not one.uses_centroids
        pq_scan.scan_blocks(compared, one.words, dot, one.transposed, blocks, top, one.offset)

    def distances(self, stored: Columns, count: int, centroid: Vectors, /) -> npt.NDArray[np.float32]:
        codes, transposed = stored[0].reshape(-1), self.quantizer.transposed
        return pq_scan.distances(self._table(centroid), codes, transposed, self.quantizer.offset)

    def _table(self, centroid: Vectors) -> npt.NDArray[np.float32]:
        if self.quantizer.uses_centroids:
            return self.quantizer.table(self.query, centroid)
        if self.kept is None:
            self.kept = self.quantizer.table(self.query, centroid)
        return self.kept


class ProductKind:
    """How codebooks are trained and read."""

    name = "PQ"

    def load(
        self,
        about: Mapping[str, Any],
        buffer: Callable[[int], bytes],
        metric: Metric,
        dtype: np.dtype[Any],
        dimension: int,
        path: str,
    ) -> Quantizer:
        place = "storage_metadata"
        bits, parts = about.get("nbits"), about.get("num_sub_vectors")
        if bits not in (_NIBBLE, _BYTE) or not isinstance(parts, int) or parts < 1 or dimension % parts:
            problem = f"has {parts!r} sub-vectors of {bits!r} bits for vectors of {dimension} numbers"
            raise CorruptFile(path, problem, place)
        if bits == _NIBBLE and parts % 2:
            raise CorruptFile(path, f"has {parts} sub-vectors of 4 bits, which do not fill bytes", place)
        if about.get("dimension") != dimension:
            raise CorruptFile(path, f"has vectors of {about.get('dimension')!r} numbers, not {dimension}", place)
        position = about.get("codebook_position")
        try:
            # In files of old the codebook is a list of bytes here.
            data = buffer(position) if isinstance(position, int) and position else bytes(about["codebook_tensor"])
        except (KeyError, TypeError, ValueError):
            raise CorruptFile(path, "tells no codebook", place) from None
        tensor = array_of(parse_message(data, Tensor, path, "codebook"), path, "codebook")
        if tensor.size != dimension << bits or tensor.dtype.kind != "f":
            problem = f"has a codebook of shape {tensor.shape} for vectors of {dimension} numbers and {bits} bits"
            raise CorruptFile(path, problem, "codebook")
        codebook = tensor.reshape(parts, 1 << bits, dimension // parts)
        return ProductQuantizer(metric, codebook, bits, bool(about.get("transposed")))

    def check(self, options: Mapping[str, Any], metric: Metric, dtype: np.dtype[Any], dimension: int) -> dict[str, Any]:
        if dtype == np.uint8:
            raise IndexRefused("PQ indices are built of floating point vectors, not of bytes; use IVF_FLAT")
        bits, parts = options.get("num_bits"), options.get("num_sub_vectors")
        bits = _BYTE if bits is None else bits
        if bits not in (_NIBBLE, _BYTE):
            raise IndexRefused(f"product quantization has 4 or 8 bits for each sub-vector, not {bits!r}")
        if parts is None:
            raise InvalidInput("num_sub_vectors is required for a PQ index: into how many parts vectors are cut")
        if not isinstance(parts, int) or parts < 1:
            raise InvalidType(f"num_sub_vectors is a number of parts, not {parts!r}")
        if dimension % parts:
            raise InvalidInput(f"dimension ({dimension}) must be divisible by num_sub_vectors ({parts})")
        if bits == _NIBBLE and parts % 2:
            raise IndexRefused(f"num_sub_vectors must be divisible by 2 for num_bits=4, but got {parts}")
        codebook = options.get("pq_codebook")
        return {"num_bits": bits, "num_sub_vectors": parts, "pq_codebook": _given(codebook, parts, bits, dimension)}

    def sample_rows(self, options: Mapping[str, Any]) -> int:
        if options["pq_codebook"] is not None:
            return 0
        return int(options["sample_rate"]) << int(options["num_bits"])

    def train(
        self,
        vectors: Vectors,
        partitions: npt.NDArray[np.uint32],
        centroids: Vectors,
        metric: Metric,
        options: Mapping[str, Any],
        seed: int,
    ) -> Quantizer:
        parts, bits = options["num_sub_vectors"], options["num_bits"]
        codebook = options["pq_codebook"]
        if codebook is None:
            sample = vectors if metric is Metric.DOT else vectors - centroids.astype(vectors.dtype)[partitions]
            values = sample.astype(np.float32, copy=False)
            codebook = train_words(values, parts, 1 << bits, options["max_iters"], seed, options.get("step"))
        return ProductQuantizer(metric, codebook.astype(vectors.dtype), bits, not options.get("skip_transpose"))


def _given(codebook: Any, parts: int, bits: int, dimension: int) -> Vectors | None:
    """A codebook of the caller's, as an array of ``[m, 2 ** bits, d / m]``."""
    if codebook is None:
        return None
    if isinstance(codebook, pa.ExtensionArray):
        codebook = codebook.to_numpy_ndarray()
    elif isinstance(codebook, pa.FixedSizeListArray):
        codebook = codebook.flatten().to_numpy(zero_copy_only=False)
    found = np.asarray(codebook)
    if found.ndim == 1 and found.size == dimension << bits:
        found = found.reshape(parts, 1 << bits, dimension // parts)
    if found.ndim != 3 or found.shape != (parts, 1 << bits, dimension // parts):
        raise InvalidInput(
            f"PQ codebook must be 3D array: (sub_vectors, {1 << bits}, dim) for num_bits={bits}, got {found.shape}"
        )
    if found.dtype.kind != "f":
        raise InvalidType(f"PQ codebook must be floating number, got {found.dtype}")
    if not np.isfinite(found).all():
        raise InvalidInput("PQ codebook has numbers that are not finite")
    return found


KIND: Final = ProductKind()
