"""``lancelet.util.HNSW``, and what is told of the processor, beside pylance's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import lance.util
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.encoding.legacy.reader import LegacyReader
from lancelet.errors import LanceletError
from lancelet.file.place import split_place
from lancelet.index.folder import IndexFileReader
from lancelet.util import HNSW
from vector.samples import column, vectors


def parts(dtype: str) -> list[pa.Array]:
    values = vectors(dtype, 400)
    return [column(values[:150]), column(values[150:])]


def written(path: Path) -> tuple[pa.RecordBatch, dict[str, Any]]:
    store, name = split_place(str(path), None)
    source = store.open(name)
    reader = IndexFileReader(source)
    schema = LegacyReader(source).schema
    assert schema is not None
    return reader.read(reader.columns), json.loads(schema.metadata["lance:hnsw"])


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
def test_a_graph_is_written_as_pylance_writes_it(tmp_path: Path, dtype: str) -> None:
    shown = []
    for library in (HNSW, lance.util.HNSW):
        graph = library.build(iter(parts(dtype)), m=8, max_level=5)
        assert graph.vectors().equals(pa.concat_arrays(parts(dtype)))
        graph.to_lance_file(str(tmp_path / library.__module__))
        shown.append(written(tmp_path / library.__module__))
    (ours, about), (theirs, wanted) = shown
    assert ours.schema == theirs.schema
    assert about.keys() == wanted.keys()
    assert about["params"] == wanted["params"]
    assert len(about["level_offsets"]) == len(wanted["level_offsets"])
    values = vectors(dtype, 400).astype(np.float64)
    for batch in (ours, theirs):
        for number, near, marks in zip(*(batch.column(at).to_pylist() for at in range(3)), strict=True):
            exact = np.square(values[near] - values[number]).sum(axis=1)
            np.testing.assert_allclose(marks, exact, rtol=1e-2 if dtype == "f16" else 1e-5)


@pytest.mark.parametrize(
    ("arrays", "options"),
    [
        ([], {}),
        ([pa.array([1.0])], {}),
        ([column(vectors("f32", 30)), column(vectors("f64", 30))], {}),
        ([pa.chunked_array([column(vectors("f32", 30))])], {}),
        ([column(vectors("f32", 30))], {"m": 2}),
        ([column(vectors("f32", 30))], {"max_level": 0}),
        ([column(vectors("f32", 30))], {"ef_construction": 1}),
        ([column(vectors("f32", 30) * np.float32(np.nan))], {}),
    ],
)
def test_what_makes_no_graph_is_refused(arrays: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises(LanceletError):
        HNSW.build(iter(arrays), **options)


def test_an_array_is_no_iterator() -> None:
    with pytest.raises(TypeError, match="iterator of arrays"):
        HNSW.build(column(vectors("f32", 30)))  # type: ignore[arg-type]


def test_what_the_processor_can_do_is_told() -> None:
    ours, theirs = lancelet.simd_info(), lance.simd_info()
    assert ours.keys() == theirs.keys()
    assert ours["target_arch"] == theirs["target_arch"]
    assert set(theirs["host_features"]) <= set(ours["host_features"])
