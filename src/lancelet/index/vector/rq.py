"""RaBitQ: a sign, and a few bits more, for each number of a rotated residual (spec indices.md 14.6 and its corrections).

What is left of a vector when the centroid of its partition is taken away, ``r = v - c``, is rotated; the rotation makes its
numbers alike, so that signs say much about the direction. With ``x = num_bits - 1`` extra bits the code of a number is

    f = (sign << x) + extra - (2 ** x - 1/2)        signs alone: f = 1/2 or -1/2

and with the rotated query ``q`` and two factors of the row the distance is estimated without bias::

    l2, cosine      add + scale * <f, q> + |q - c|^2         scale = -2 |r|^2 / <f, r>    add = |r|^2 - scale * <f, c>
    dot             u * add + scale * <f, q> + 1 - 2 u       scale =   -|r|^2 / <f, r>    add = 1 - <r, c> - scale * <f, c>
                                                             u = <q, c>

There are two pairs of factors: for signs alone and, with extra bits, for whole codes. A third factor tells how far off the
estimate by signs may be. Rotations are four rounds of random signs and butterflies (``fast``) or a matrix.

That is the estimator ``raw_query``. Files of old have signs alone, and factors for the query less the centroid
(``residual_query``), with codes of length 1::

    l2, cosine      add + scale * <f, q - c> * 2 / sqrt(d) + |q - c|^2        add = |r|^2
    dot             add + scale * <f, q - c> * 2 / sqrt(d) - <q, c>           add = 1 - <r, c>
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile, IndexRefused, InvalidInput, NotSupported
from lancelet.format.proto.vector_index_pb2 import Tensor
from lancelet.index.vector import rq_layout
from lancelet.index.vector.centroids import array_of, tensor_of
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.rabit import RabitQuery, extra_codes, rotate
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.blocks import Blocks
    from lancelet.index.vector.query import Columns, Keep, Prepared, Quantizer, VectorQuery, Vectors
    from lancelet.index.vector.top import Top

Floats = npt.NDArray[np.float32]

SIGNS: Final = "_rabit_codes"
FACTORS: Final = ("__add_factors", "__scale_factors", "__error_factors")
EXTRA: Final = "__blocked_ex_codes"
EXTRA_FACTORS: Final = ("__add_factors_ex", "__scale_factors_ex")
RAW: Final = "raw_query"
RESIDUAL: Final = "residual_query"
_ROUNDS: Final = 4
_BITS: Final = 5
_MOST_BITS: Final = 9
_CONFIDENCE: Final = 1.9
"""Standard deviations of the estimate by signs that the error factor stands for."""
_REACH: Final = 2.0
"""How many times that the estimate by signs may be off before a row is left out wrongly."""
_ROWS_AT_ONCE: Final = 1 << 13


@dataclass(frozen=True)
class RabitQuantizer:
    """A rotation."""

    metric: Metric
    dimension: int
    bits: int
    signs: npt.NDArray[np.uint8] | None = None
    """Of the fast rotation: for each of four rounds a bit for each number, set where it is negated."""
    matrix: Vectors | None = None
    """Or orthogonal, ``[d, d]``."""
    packed: bool = True
    estimator: str = RAW
    name: str = "RQ"
    uses_centroids: bool = True

    @property
    def extra_bits(self) -> int:
        return self.bits - 1

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        found = [pa.field(SIGNS, pa.list_(pa.uint8(), self.dimension // 8))]
        found += [pa.field(name, pa.float32()) for name in FACTORS]
        if self.extra_bits:
            width = rq_layout.extra_width(self.dimension, self.extra_bits)
            found.append(pa.field(EXTRA, pa.list_(pa.uint8(), width)))
            found += [pa.field(name, pa.float32()) for name in EXTRA_FACTORS]
        return tuple(found)

    @cached_property
    def _flips(self) -> Floats:
        assert self.signs is not None
        rounds = self.signs.reshape(_ROUNDS, -1)
        bits = np.unpackbits(rounds, axis=1, bitorder="little", count=self.dimension)
        return np.asarray(np.where(bits, -1, 1), np.float32)

    def rotated(self, vectors: Vectors) -> Floats:
        """Rows after the rotation."""
        if self.matrix is not None:
            turned: Floats = vectors.astype(np.float32) @ self.matrix.astype(np.float32).T
            return turned
        rows = np.array(vectors, np.float32, order="C")
        rotate(rows, self._flips)
        return rows

    def encode(
        self, vectors: Vectors, partitions: npt.NDArray[np.uint32], centroids: Vectors
    ) -> list[npt.NDArray[Any]]:
        used, places = np.unique(partitions, return_inverse=True)
        middles = centroids[used].astype(vectors.dtype, copy=False)
        turned = self.rotated(middles)
        pieces = [
            self._encode(vectors[part] - middles[places[part]], turned[places[part]])
            for part in (slice(at, at + _ROWS_AT_ONCE) for at in range(0, max(len(vectors), 1), _ROWS_AT_ONCE))
        ]
        return [np.concatenate(column) for column in zip(*pieces, strict=True)]

    def _encode(self, residuals: Vectors, centroids: Floats) -> list[npt.NDArray[Any]]:
        """Of residuals, and for each the rotated centroid of its partition."""
        rows = self.rotated(residuals)
        codes = extra_codes(rows, self.extra_bits) if self.extra_bits else None
        return self._columns(rows, ~np.signbit(rows), codes, centroids)

    def _columns(
        self, rows: Floats, positive: npt.NDArray[Any], extra: npt.NDArray[np.uint8] | None, centroids: Floats
    ) -> list[npt.NDArray[Any]]:
        """All that is stored of rows with these codes."""
        square = np.einsum("ij,ij->i", rows, rows)
        halves = np.where(positive, np.float32(0.5), np.float32(-0.5))
        add, scale, product = self._factors(rows, square, halves, centroids)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = square * np.float32(self.dimension / 4) / (product * product) - 1
        spread = np.maximum(np.where(product == 0, 0, spread), 0) / max(self.dimension - 1, 1)
        error = np.sqrt(square * spread) * np.float32(_CONFIDENCE * (1 if self.metric is Metric.DOT else 2))
        found: list[npt.NDArray[Any]] = [np.packbits(positive, axis=1, bitorder="little"), add, scale, error]
        if extra is not None:
            add, scale, _ = self._factors(rows, square, self._whole(positive, extra), centroids)
            found += [rq_layout.pack_extra(extra, self.extra_bits), add, scale]
        return found

    def refit(self, codes: Columns, vectors: Vectors, centroid: Vectors) -> list[npt.NDArray[Any]]:
        """The same codes, of one partition, with the factors that they should have for these vectors."""
        positive = np.unpackbits(codes[0], axis=1, bitorder="little", count=self.dimension)
        extra = rq_layout.unpack_extra(codes[4], self.extra_bits, self.dimension) if self.extra_bits else None
        middle = centroid.astype(vectors.dtype, copy=False)[None]
        turned = np.broadcast_to(self.rotated(middle), vectors.shape)
        return self._columns(self.rotated(vectors - middle), positive, extra, turned)

    def _whole(self, positive: npt.NDArray[Any], extra: npt.NDArray[np.uint8]) -> Floats:
        """Whole codes as numbers."""
        unit = 1 << self.extra_bits
        found: Floats = extra.astype(np.float32)
        found += np.where(positive, np.float32(0.5), np.float32(0.5 - unit))
        return found

    def _factors(self, rows: Floats, square: Floats, codes: Floats, centroids: Floats) -> tuple[Floats, Floats, Floats]:
        """What is added and what the product with a query is multiplied by; and the product with the row itself."""
        product = np.einsum("ij,ij->i", codes, rows)
        share = np.divide(square, product, out=np.zeros_like(square), where=product != 0)
        dot = self.metric is Metric.DOT
        base = 1 - np.einsum("ij,ij->i", rows, centroids) if dot else square
        scale = -share if dot else -2 * share
        if self.estimator == RESIDUAL:
            return base, scale / np.float32(self._unit), product
        return base - scale * np.einsum("ij,ij->i", codes, centroids), scale, product

    @property
    def _unit(self) -> float:
        """What codes of signs are multiplied by to be of length 1."""
        return 2 / math.sqrt(self.dimension)

    def lay_out(self, codes: Columns) -> list[npt.NDArray[Any]]:
        return [rq_layout.pack_signs(codes[0]) if self.packed else codes[0], *codes[1:]]

    def pick_up(self, stored: Columns) -> list[npt.NDArray[Any]]:
        return [rq_layout.unpack_signs(stored[0]) if self.packed else stored[0], *stored[1:]]

    def as_scanned(self, stored: Columns) -> Columns:
        return stored if self.packed else [rq_layout.pack_signs(stored[0]), *stored[1:]]

    def decode(self, codes: Columns, centroid: Vectors) -> npt.NDArray[np.float32]:
        positive = np.unpackbits(codes[0], axis=1, bitorder="little", count=self.dimension)
        if self.extra_bits:
            extra = rq_layout.unpack_extra(codes[4], self.extra_bits, self.dimension)
            whole, scale = self._whole(positive, extra), codes[6]
        else:
            whole, scale = np.where(positive, np.float32(0.5), np.float32(-0.5)), codes[2]
        whole *= scale[:, None] * np.float32(-1 if self.metric is Metric.DOT else -0.5)
        if self.estimator == RESIDUAL:
            whole *= np.float32(self._unit)
        back = self.rotated(np.eye(self.dimension, dtype=np.float32)).T
        found: Floats = whole @ back + centroid.astype(np.float32)
        return found

    def describe(self, add_buffer: Callable[[bytes], int]) -> dict[str, Any]:
        matrix = None if self.matrix is None else add_buffer(tensor_of(self.matrix).SerializeToString())
        return {
            "rotate_mat_position": matrix,
            "fast_rotation_signs": None if self.signs is None else self.signs.reshape(-1).tolist(),
            "rotation_type": "matrix" if self.signs is None else "fast",
            "code_dim": self.dimension,
            "num_bits": self.bits,
            "packed": self.packed,
            "query_estimator": self.estimator,
        }

    def prepare(self, query: VectorQuery, metric: Metric) -> Prepared:
        if self.estimator == RESIDUAL:
            return _ResidualPrepared(self, query.vector)
        bits = 0 if query.approx == "fast" else self.extra_bits
        rotated = RabitQuery(self.rotated(query.vector[None])[0], bits)
        by_signs = bits > 0 and query.approx != "accurate"
        return _Prepared(self, query.vector.astype(np.float64), rotated, bits, by_signs)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A query, in one of three modes.

    ``accurate``: distances are those of the formulas in float32, and every row is looked at as closely as it takes to know
    that it is not among the nearest. ``normal``: the same distances, but rows that are too far away by their signs alone,
    even if that estimate is off by twice what their error factor says (3.8 standard deviations), are left out at once. So
    about one in ten thousand of the nearest rows is missed, where pylance's ``normal`` mode rounds its tables and is off by
    a few per cent. ``fast``: signs alone.
    """

    quantizer: RabitQuantizer
    query: npt.NDArray[np.float64]
    rotated: RabitQuery
    bits: int
    by_signs: bool = False
    """Whether rows may be left out by their signs."""

    def _lines(self, centroids: Vectors) -> npt.NDArray[np.float32]:
        """For each partition by what added factors are multiplied, what is added to all distances, and how far errors reach."""
        # Of centroids that no float can be far enough from, as a damaged file may have them, all distances are infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._lines_to(centroids.astype(np.float64))

    def _lines_to(self, middles: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        query = self.query
        found = np.ones((len(middles), 3), np.float32)
        if self.quantizer.metric is Metric.DOT:
            toward = middles @ query
            if self.quantizer.estimator == RESIDUAL:
                found[:, 1], found[:, 2] = -toward, 0
                return found
            apart = query - toward[:, None] * middles
            found[:, 0], found[:, 1] = toward, 1 - 2 * toward
            found[:, 2] = _REACH * np.sqrt(np.einsum("ij,ij->i", apart, apart))
            return found
        apart = query - middles
        square = np.einsum("ij,ij->i", apart, apart)
        found[:, 1], found[:, 2] = square, _REACH * np.sqrt(square)
        return found

    def _stored(self, stored: Columns) -> tuple[npt.NDArray[np.uint8], Floats, Floats, npt.NDArray[np.uint8] | None]:
        signs = stored[0] if self.quantizer.packed else rq_layout.pack_signs(stored[0])
        if self.bits:
            return signs.reshape(-1), stored[5], stored[6], stored[4].reshape(-1)
        return signs.reshape(-1), stored[1], stored[2], None

    def scan(self, stored: Columns, rows: RowNumbers, centroid: Vectors, top: Top, keep: Keep | None, /) -> None:
        a, b, reach = self._lines(centroid[None])[0].tolist()
        coarse = (stored[1], stored[2], stored[3], reach) if self.by_signs else ()
        self.rotated.scan(*self._stored(stored), a, b, top, rows, keep, 0, *coarse)

    def scan_blocks(self, blocks: Blocks, centroids: Vectors, top: Top, /) -> None:
        self.rotated.scan_blocks(blocks, self._lines(centroids), self.by_signs, top)

    def distances(self, stored: Columns, count: int, centroid: Vectors, /) -> npt.NDArray[np.float32]:
        a, b, _ = self._lines(centroid[None])[0].tolist()
        return self.rotated.distances(*self._stored(stored), a, b)


@dataclass(frozen=True, slots=True)
class _ResidualPrepared:
    """Of files of old: a query is rotated for each partition."""

    quantizer: RabitQuantizer
    query: Vectors

    def _in(self, centroid: Vectors) -> _Prepared:
        one = self.quantizer
        apart = self.query - centroid.astype(self.query.dtype, copy=False)
        rotated = RabitQuery(one.rotated(apart[None])[0] * np.float32(one._unit), 0)
        return _Prepared(one, self.query.astype(np.float64), rotated, 0)

    def scan(self, stored: Columns, rows: RowNumbers, centroid: Vectors, top: Top, keep: Keep | None, /) -> None:
        self._in(centroid).scan(stored, rows, centroid, top, keep)

    def scan_blocks(self, blocks: Blocks, centroids: Vectors, top: Top, /) -> None:
        for number in range(len(blocks)):
            self._in(centroids[number]).scan_blocks(blocks[number], centroids[number : number + 1], top)

    def distances(self, stored: Columns, count: int, centroid: Vectors, /) -> npt.NDArray[np.float32]:
        return self._in(centroid).distances(stored, count, centroid)


class RabitKind:
    """How rotations are drawn and read."""

    name = "RQ"

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
        found = _model(about, metric, dimension, lambda problem: CorruptFile(path, problem, place))
        if about.get("layered"):
            raise NotSupported(f"{path}: its RaBitQ codes are split into layers, which this version does not know")
        estimator = about.get("query_estimator", RESIDUAL)
        if estimator not in (RAW, RESIDUAL) or (estimator == RESIDUAL and found.extra_bits):
            raise NotSupported(
                f"{path}: its RaBitQ factors are for the estimator {estimator!r} with {found.bits} bits, which this "
                "version does not know; build the index anew"
            )
        found = replace(found, estimator=estimator)
        if found.signs is not None:
            return found
        position = about.get("rotate_mat_position")
        if not isinstance(position, int):
            raise CorruptFile(path, "tells no rotation", place)
        matrix = array_of(parse_message(buffer(position), Tensor, path, "rotation"), path, "rotation")
        if matrix.shape != (dimension, dimension) or matrix.dtype.kind != "f":
            raise CorruptFile(path, f"has a rotation of shape {matrix.shape} for {dimension} numbers", "rotation")
        return replace(found, matrix=matrix)

    def check(self, options: Mapping[str, Any], metric: Metric, dtype: np.dtype[Any], dimension: int) -> dict[str, Any]:
        if dtype == np.uint8 or metric is Metric.HAMMING:
            raise IndexRefused("RQ indices are built of floating point vectors with l2, cosine or dot; use IVF_FLAT")
        if dimension % 8:
            raise InvalidInput(f"vector dimension must be divisible by 8 for IVF_RQ, and is {dimension}")
        bits = options.get("num_bits")
        bits = _BITS if bits is None else bits
        if not isinstance(bits, int) or not 1 <= bits <= _MOST_BITS:
            raise InvalidInput(f"IVF_RQ num_bits must be from 1 to {_MOST_BITS}, got {bits!r}")
        rotation = str(options.get("rotation_type") or "fast").lower()
        if rotation not in ("fast", "matrix"):
            raise InvalidInput(f"rotation_type is 'fast' or 'matrix', not {rotation!r}")
        model = options.get("rabitq_model")
        given = None if model is None else _given(model, metric, dimension, bits)
        return {"num_bits": bits, "rotation_type": rotation, "rabitq_model": given}

    def sample_rows(self, options: Mapping[str, Any]) -> int:
        return 0

    def train(
        self,
        vectors: Vectors,
        partitions: npt.NDArray[np.uint32],
        centroids: Vectors,
        metric: Metric,
        options: Mapping[str, Any],
        seed: int,
    ) -> Quantizer:
        dimension, bits = centroids.shape[1], options["num_bits"]
        chance = np.random.default_rng(seed)
        if options["rabitq_model"] is not None:
            return RabitQuantizer(metric, dimension, bits, options["rabitq_model"])
        if options["rotation_type"] == "fast":
            return RabitQuantizer(metric, dimension, bits, chance.integers(0, 256, dimension // 2, np.uint8))
        turn, triangle = np.linalg.qr(chance.normal(size=(dimension, dimension)))
        matrix = turn * np.sign(np.diag(triangle))
        return RabitQuantizer(metric, dimension, bits, matrix=matrix.astype(centroids.dtype))


def _model(
    about: Mapping[str, Any], metric: Metric, dimension: int, refuse: Callable[[str], Exception]
) -> RabitQuantizer:
    """What metadata tells, less a matrix."""
    bits, rotation = about.get("num_bits"), about.get("rotation_type")
    if about.get("code_dim") != dimension or dimension % 8:
        raise refuse(f"has codes of {about.get('code_dim')!r} numbers for vectors of {dimension}")
    if not isinstance(bits, int) or not 1 <= bits <= _MOST_BITS or rotation not in ("fast", "matrix"):
        raise refuse(f"has codes of {bits!r} bits after a rotation {rotation!r}")
    if rotation == "matrix":
        return RabitQuantizer(metric, dimension, bits, packed=bool(about.get("packed")))
    try:
        signs = np.array(about.get("fast_rotation_signs"), np.uint8)
    except (TypeError, ValueError, OverflowError):
        raise refuse("has signs of a rotation that are no bytes") from None
    if signs.shape != (_ROUNDS * dimension // 8,):
        raise refuse(f"has {signs.size} bytes of signs for four rounds of {dimension} numbers")
    return RabitQuantizer(metric, dimension, bits, signs, packed=bool(about.get("packed")))


def _given(model: Any, metric: Metric, dimension: int, bits: int) -> npt.NDArray[np.uint8]:
    """The signs of a rotation that the caller has, a text as in a file."""
    try:
        about = json.loads(model)
    except (TypeError, ValueError):
        raise InvalidInput("rabitq_model is the JSON text that build_rq_model gives") from None
    if not isinstance(about, dict):
        raise InvalidInput("rabitq_model is the JSON text that build_rq_model gives")
    found = _model(about, metric, dimension, lambda problem: InvalidInput(f"rabitq_model {problem}"))
    if found.bits != bits or found.signs is None:
        raise InvalidInput(f"rabitq_model has {found.bits} bits, and a fast rotation is needed with {bits}")
    return found.signs


KIND: Final = RabitKind()
