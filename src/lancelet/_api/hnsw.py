"""A graph of near neighbours for users who want no table: what an ``IVF_HNSW_FLAT`` index has for each partition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidType
from lancelet.file.legacy_writer import LegacyFileWriter
from lancelet.file.place import split_place
from lancelet.format.schema import schema_from_arrow
from lancelet.index.vector.files import element_of
from lancelet.index.vector.flat import FlatQuantizer
from lancelet.index.vector.hnsw import KIND, SCHEMA
from lancelet.index.vector.metric import Metric

_ABOUT = "lance:hnsw"
_BATCH_ROWS = 1 << 16


class HNSW:
    """A graph of near neighbours, by l2; :meth:`build` makes one.

    Examples
    --------
    >>> values = np.random.default_rng(1).standard_normal((200, 8), np.float32)
    >>> vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 8)
    >>> graph = HNSW.build(iter([vectors]), m=8)
    >>> graph.to_lance_file("memory://docs/graph.lance")
    >>> len(graph.vectors())
    200
    """

    def __init__(self, hnsw: tuple[pa.Array, list[pa.RecordBatch], dict[str, Any]]) -> None:
        self._vectors, self._rows, self._about = hnsw

    @staticmethod
    def build(vectors_array: Iterator[pa.Array], max_level: int = 7, m: int = 20, ef_construction: int = 100) -> HNSW:
        """Build a graph.

        Parameters
        ----------
        vectors_array
            Arrays of lists of a fixed size, without nulls; together they are the vectors.
        max_level
            Levels at most.
        m
            Neighbours of a vector, on the lowest level twice as many.
        ef_construction
            How hard neighbours are looked for.
        """
        if isinstance(vectors_array, (pa.Array, pa.ChunkedArray)) or not isinstance(vectors_array, Iterable):
            raise InvalidType(f"vectors come as an iterator of arrays, not as {type(vectors_array).__name__}")
        parts = list(vectors_array)
        if not parts:
            raise InvalidInput("a graph needs at least one array of vectors")
        for part in parts:
            if not isinstance(part, pa.Array):
                raise InvalidType(f"vectors are pyarrow arrays, not {type(part).__name__}")
            if part.type != parts[0].type:
                raise InvalidInput(f"all arrays have one type, not {parts[0].type} and {part.type}")
        whole = pa.concat_arrays(parts)
        dtype, dimension, several = element_of(whole.type)
        if several or dtype == np.uint8:
            raise InvalidType(f"vectors are lists of a fixed size of floating point numbers, not {whole.type}")
        if whole.null_count or whole.flatten().null_count:
            raise InvalidInput("vectors of a graph are not null; leave the nulls out")
        values = np.asarray(whole.flatten().to_numpy(zero_copy_only=False)).reshape(len(whole), dimension)
        if not np.isfinite(values).all():
            raise InvalidInput("vectors of a graph have finite numbers; leave the others out")
        options = {"m": m, "max_level": max_level, "ef_construction": ef_construction}
        quantizer = FlatQuantizer(Metric.L2, dtype, dimension)
        rows, about = KIND.build(quantizer, [values], len(values), np.zeros(dimension, dtype), options, 0)
        return HNSW((whole, list(rows), about))

    def to_lance_file(self, file_path: str) -> None:
        """Write the graph, without its vectors, as pylance does: ``__vector_id``, ``__neighbors``, ``_distance``."""
        store, name = split_place(file_path, None)
        schema = schema_from_arrow(SCHEMA)
        schema = replace(schema, metadata={**schema.metadata, _ABOUT: json.dumps(self._about, separators=(",", ":"))})
        with LegacyFileWriter(store.open_sink(name), schema, _BATCH_ROWS) as writer:
            for batch in self._rows:
                writer.write_batch(batch)
            writer.finish()

    def vectors(self) -> pa.Array:
        """The vectors, in the order of their numbers."""
        return self._vectors
