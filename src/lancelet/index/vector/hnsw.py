"""Graphs of near neighbours over the vectors of each partition: HNSW (spec indices.md 14.7, 14.14).

The vectors of a partition are numbered as their rows in ``auxiliary.idx``. In ``index.idx`` a partition has a row for each
vector on each level where it is, level after level, with the vectors that it leads to::

    level_offsets     __vector_id   __neighbors      _distance
    0             ->  0             [17, 4, 203]     [0.11, 0.32, 0.35]     level 0: all vectors
                      1             [6, 44]          [0.05, 0.87]
                      ...
    1000          ->  44            [364, 69]        [1.20, 0.95]           level 1: about one in m of them
                      ...
    1052          ->  364           [44, 902]        [1.20, 2.31]           level 2, and so on
    1054                                                                    the number of rows

A search begins at ``entry_point``, goes to nearer vectors on ever lower levels, and on level 0 follows the ``ef`` nearest that it
has met until they lead nowhere nearer. Small partitions, and those of which few rows are kept, are scanned instead: that is
faster, and exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput, InvalidType, NotSupported
from lancelet.index.vector.flat import FlatQuantizer
from lancelet.index.vector.graph import Growth, Hand, Lists, Points
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.pq import ProductQuantizer
from lancelet.index.vector.sq import ScalarQuantizer
from lancelet.runtime.threads import Pool, checkpoint, core_count

if TYPE_CHECKING:
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.vector.query import Columns, Graph, Keep, Prepared, Quantizer, VectorQuery, Vectors
    from lancelet.index.vector.top import Top

_ID: Final = "__vector_id"
_NEIGHBOURS: Final = "__neighbors"
_DISTANCES: Final = "_distance"
SCHEMA: Final = pa.schema(
    [
        pa.field(_ID, pa.uint32()),
        pa.field(_NEIGHBOURS, pa.list_(pa.uint32())),
        pa.field(_DISTANCES, pa.list_(pa.float32())),
    ]
)
_DEFAULTS: Final = {"m": 20, "ef_construction": 150, "max_level": 7}
_LEAST_M: Final = 4
_MOST_M: Final = 10_000
_MOST_LEVELS: Final = 255
_PREFETCH: Final = 2
"""``prefetch_distance``: a number that pylance's searches read; ours do not."""

_SCANNED: Final = {"FLAT": 32, "SQ": 100, "PQ": 256}
"""A step of a walk costs as much as a scan of so many vectors, or codes, that partitions of which no more than so many times ``ef``
rows count are scanned."""
_DECODED: Final = 256 << 20
"""PQ codes are compared faster as vectors while a graph grows: if these take no more bytes than that."""
_BATCH: Final = 256
"""Vectors that are added to a growing graph together."""
_SHARE: Final = 8
"""A batch is no larger than such a part of the graph."""
_SPARE: Final = 8
"""Room in lists that are still growing: the more, the less often they are cut."""
_ROWS_AT_ONCE: Final = 1 << 16
"""Of a graph, on their way to the file."""
_ALONE: Final = 4096
"""Graphs of fewer vectors are built by one thread."""
_TRIMMED: Final = 1 << 16
_POOL: Final = Pool("lancelet-graphs", core_count())


class HnswKind:
    """How such graphs are made and opened."""

    name = "HNSW"
    quantizers: tuple[str, ...] = ("FLAT", "SQ", "PQ")
    schema = SCHEMA
    searched: tuple[str, ...] = (_ID, _NEIGHBOURS)

    def check(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """``m``, ``ef_construction`` and ``max_level``."""
        found = {name: default if options.get(name) is None else options[name] for name, default in _DEFAULTS.items()}
        for name, value in found.items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidType(f"{name} is a whole number, not {value!r}")
        m, ef, levels = found["m"], found["ef_construction"], found["max_level"]
        if not _LEAST_M <= m <= _MOST_M:
            raise InvalidInput(
                f"m must be at least {_LEAST_M}, so that graphs do not fall apart, and at most {_MOST_M:,}, not {m}"
            )
        if not 0 < levels <= _MOST_LEVELS:
            raise InvalidInput(f"max_level must be greater than 0 and at most {_MOST_LEVELS}, not {levels}")
        if ef < m:
            raise InvalidInput(f"ef_construction must be at least m ({m}), not {ef}")
        return found

    def build(
        self,
        quantizer: Quantizer,
        stored: Columns,
        count: int,
        centroid: Vectors,
        options: Mapping[str, Any],
        seed: int,
    ) -> tuple[Iterator[pa.RecordBatch], dict[str, Any]]:
        """The rows and the JSON of one partition; an empty one has neither."""
        if not count:
            return iter(()), {}
        params = self.check(options)
        points = _points_to_build(quantizer, stored, centroid)
        heights = _heights(count, params["m"], params["max_level"], seed)
        order = np.argsort(-heights.astype(np.int16), kind="stable").astype(np.uint32)
        growth = Growth(points, heights, order, _upper(heights), params["m"], params["ef_construction"], _SPARE)
        _grow(growth, heights, order, 1 if count < _ALONE else _POOL.size)
        sizes = [np.count_nonzero(heights >= level) for level in range(params["max_level"])]
        return _rows(growth, heights), {
            "entry_point": int(order[0]),
            "params": {
                "max_level": params["max_level"],
                "m": params["m"],
                "ef_construction": params["ef_construction"],
                "prefetch_distance": _PREFETCH,
            },
            "level_offsets": [0, *np.cumsum(sizes).tolist()],
        }

    def open(self, batch: pa.RecordBatch, about: Mapping[str, Any], count: int, path: str) -> Graph:
        """Of the rows and the JSON of a partition with so many vectors; everything is checked."""
        try:
            return HnswGraph(_lists(batch, about, count))
        except (ValueError, TypeError, OverflowError) as error:
            raise CorruptFile(path, f"has a graph that is none: {error}", "lance:hnsw") from None


KIND: Final = HnswKind()


class HnswGraph:
    """The graph of one open partition."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._points: Points | None = None

    @property
    def nbytes(self) -> int:
        return self._lists.nbytes

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
        ef = checked_ef(query)
        kept = len(rows) if keep is None else int(np.count_nonzero(keep))
        if kept <= _SCANNED[quantizer.name] * ef:
            prepared.scan(stored, rows, centroid, top, keep)
            return len(rows)
        points = self._points
        if points is None:
            points = self._points = _points(quantizer, stored)
        asked = points.query(_query(quantizer, query.vector, centroid))
        marks, nodes, compared = self._lists.search(points, asked, ef, keep, query.lower)
        if len(nodes) < query.count:
            # Not all vectors can be reached, or few are in the range: what a walk misses a scan finds.
            prepared.scan(stored, rows, centroid, top, keep)
            return compared + len(rows)
        top.add(marks, rows[nodes])
        return compared


def checked_ef(query: VectorQuery) -> int:
    """How many vectors a search keeps in mind."""
    if query.ef is None:
        return query.count + query.count // 2
    if query.ef < query.count:
        raise InvalidInput(
            f"ef must be greater than or equal to k (times refine_factor), which is {query.count}, not {query.ef}"
        )
    return query.ef


# What is compared


def _points(quantizer: Quantizer, stored: Columns) -> Points:
    """The vectors of a partition as a graph compares them."""
    metric = quantizer.metric.value
    if isinstance(quantizer, FlatQuantizer):
        return Points.flat(np.ascontiguousarray(stored[0]), metric)
    if isinstance(quantizer, ScalarQuantizer):
        return Points.scalar(np.ascontiguousarray(stored[0]), quantizer.start, quantizer.end, metric)
    if isinstance(quantizer, ProductQuantizer):
        codes = np.ascontiguousarray(quantizer.numbers(quantizer.pick_up(stored)[0]))
        book = np.ascontiguousarray(quantizer.codebook, np.float32)
        return Points.product(codes, book, metric, quantizer.offset)
    raise NotSupported(f"there are no graphs over {quantizer.name} codes; FLAT, SQ and PQ have them")


def _points_to_build(quantizer: Quantizer, stored: Columns, centroid: Vectors) -> Points:
    """The same for comparisons with each other, which are as many as a query of each vector makes."""
    if not isinstance(quantizer, ProductQuantizer) or 4 * stored[0].shape[0] * quantizer.dimension > _DECODED:
        return _points(quantizer, stored)
    vectors = quantizer.decode(quantizer.pick_up(stored), np.zeros_like(centroid))
    return Points.flat(vectors, Metric.L2.value if quantizer.uses_centroids else Metric.DOT.value)


def _query(quantizer: Quantizer, vector: Vectors, centroid: Vectors) -> npt.NDArray[Any]:
    """A query as :func:`_points` are asked."""
    if isinstance(quantizer, ProductQuantizer):
        return quantizer.table(vector, centroid)
    if isinstance(quantizer, ScalarQuantizer) and quantizer.metric is not Metric.DOT:
        return quantizer.codes(vector[None]).reshape(-1)
    if quantizer.metric is Metric.COSINE and vector.dtype == np.float16:
        # Its length is 1 as well as 16 bits can say it.
        exact = vector.astype(np.float32)
        exact /= np.sqrt(exact @ exact)
        return exact
    return vector


# Building


def _heights(count: int, m: int, max_level: int, seed: int) -> npt.NDArray[np.uint8]:
    """The highest level of each vector: one in ``m`` is on the next one. It depends on the vector's number and the seed alone."""
    bits = np.arange(1, count + 1, dtype=np.uint64)
    bits += np.uint64(seed & (1 << 32) - 1) << np.uint64(32)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 0x9E3779B97F4A7C15)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    chances = ((bits >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53
    levels = np.floor(-np.log(chances) / np.log(m))
    found: npt.NDArray[np.uint8] = np.minimum(levels, max_level - 1).astype(np.uint8)
    return found


def _upper(heights: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Where the rows of each vector begin among those above level 0, by vector and level."""
    return (np.cumsum(heights, dtype=np.int64) - heights).astype(np.uint32)


def _grow(growth: Growth, heights: npt.NDArray[np.uint8], order: npt.NDArray[np.uint32], parts: int) -> None:
    """Add all vectors, batch after batch; the graph does not depend on how many threads take part."""
    count = len(order)
    hands = [Hand(growth, _BATCH) for _ in range(parts)]
    first = 1
    while first < count:
        checkpoint()
        end = min(count, first + max(1, min(_BATCH, first // _SHARE)))
        starts = np.zeros(end - first + 1, np.uint64)
        np.cumsum(heights[order[first:end]], dtype=np.uint64, out=starts[1:])
        starts += np.arange(end - first + 1, dtype=np.uint64)
        chosen = np.empty(int(starts[-1]) * growth.room, np.uint32)
        cuts = np.linspace(first, end, parts + 1).astype(int).tolist()
        _side_by_side(
            [
                partial(growth.choose, hand, chosen, starts, first, *cuts[part : part + 2])
                for part, hand in enumerate(hands)
            ]
        )
        _side_by_side(
            [partial(growth.link, hand, chosen, starts, first, end, part, parts) for part, hand in enumerate(hands)]
        )
        first = end
    for begin in range(0, count, _TRIMMED):
        checkpoint()
        growth.trim(hands[0], begin, min(count, begin + _TRIMMED))
    growth.connect(hands[0])


def _side_by_side(works: list[Callable[[], None]]) -> None:
    if len(works) == 1:
        works[0]()
    else:
        _POOL.all(works)


def _rows(growth: Growth, heights: npt.NDArray[np.uint8]) -> Iterator[pa.RecordBatch]:
    """Rows of the file: the lowest level in pieces, then all others, level after level."""
    for start in range(0, len(heights), _ROWS_AT_ONCE):
        end = min(start + _ROWS_AT_ONCE, len(heights))
        offsets, near, marks = growth.lowest(start, end)
        numbers = pa.array(np.arange(start, end, dtype=np.uint32))
        yield pa.RecordBatch.from_arrays(
            [numbers, *(_list_array(offsets, one) for one in (near, marks))], schema=SCHEMA
        )
    owners = np.repeat(np.arange(len(heights), dtype=np.uint32), heights)
    levels = np.arange(len(owners)) - np.repeat(_upper(heights), heights) + 1
    order = np.argsort(levels, kind="stable")
    offsets, near, marks = growth.others()
    lists = [_list_array(offsets, one).take(pa.array(order)) for one in (near, marks)]
    yield pa.RecordBatch.from_arrays([pa.array(owners[order]), *lists], schema=SCHEMA)


def _list_array(offsets: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


# Reading


def _lists(batch: pa.RecordBatch, about: Mapping[str, Any], count: int) -> Lists:
    """The lists of neighbours by vector and level. Errors that are no ``LanceletError`` say what is wrong."""
    if not isinstance(about, Mapping):
        raise TypeError(f"it is described by {about!r}")
    entry, bounds = about.get("entry_point"), about.get("level_offsets")
    if not isinstance(entry, int) or not 0 <= entry < count:
        raise ValueError(f"its entry is {entry!r}, of {count} vectors")
    if not isinstance(bounds, list) or not all(isinstance(bound, int) for bound in bounds) or len(bounds) < 2:
        raise ValueError(f"its levels begin at {bounds!r}")
    ids, neighbours = _numbers(batch.column(_ID)), batch.column(_NEIGHBOURS)
    if bounds[0] != 0 or bounds[-1] != len(ids) or bounds != sorted(bounds) or len(bounds) > _MOST_LEVELS + 1:
        raise ValueError(f"its levels begin at {bounds!r}, and it has {len(ids)} rows")
    if neighbours.null_count or neighbours.flatten().null_count:
        raise ValueError("it has nulls for neighbours")
    if len(ids) and int(ids.max()) >= count:
        raise ValueError(f"it has vector {int(ids.max())}, of {count}")
    heights = np.zeros(count, np.uint8)
    for level, (begin, end) in enumerate(pairwise(bounds[1:])):
        members = ids[begin:end]
        if (heights[members] != level).any():
            raise ValueError(f"level {level + 1} has vectors that level {level} has not")
        heights[members] += 1
    if int(heights.sum()) != len(ids) - bounds[1]:
        raise ValueError("a level has a vector twice")
    base = neighbours.slice(0, bounds[1])
    if bounds[1] != count or not np.array_equal(ids[:count], np.arange(count, dtype=np.uint32)):
        place = np.argsort(ids[: bounds[1]], kind="stable")
        if bounds[1] != count or not np.array_equal(ids[place], np.arange(count, dtype=np.uint32)):
            raise ValueError(f"level 0 does not have each of {count} vectors once")
        base = base.take(pa.array(place))
    levels = np.repeat(np.arange(len(bounds) - 2), np.diff(bounds)[1:])
    above = neighbours.slice(bounds[1]).take(pa.array(np.lexsort((levels, ids[bounds[1] :]))))
    return Lists(*_ragged(base), heights, _upper(heights), *_ragged(above), entry)


def _numbers(array: pa.Array) -> npt.NDArray[np.uint32]:
    if array.null_count or array.type != pa.uint32():
        raise ValueError(f"its vectors are {array.type} with {array.null_count} nulls")
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _ragged(lists: pa.ListArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    if lists.type.value_type != pa.uint32() or not pa.types.is_list(lists.type):
        raise ValueError(f"its neighbours are {lists.type}")
    offsets = np.asarray(lists.offsets.to_numpy(zero_copy_only=False)) if len(lists) else np.zeros(1, np.int32)
    # The array may be a part of one with the lists of other partitions.
    return offsets - offsets[0] if offsets[0] else offsets, np.asarray(lists.flatten().to_numpy(zero_copy_only=False))
