"""Indices that pylance wrote: asked by us they give its rows and its distances."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from lancelet.index.vector.metric import normalized
from lancelet.index.vector.query import ALL_KEPT, KeyedRename, VectorQuery
from vector.samples import (
    CLOSE,
    DIMENSION,
    FLOATS,
    KINDS,
    PARTITIONS,
    ROWS,
    agree,
    column,
    open_segments,
    theirs,
    vectors,
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("theirs")


def build(folder: Path, kind: str, metric: str, dtype: str) -> str:
    uri = str(folder / f"{kind}_{metric}_{dtype}".replace(" ", "_"))
    table = lance.write_dataset(pa.table({"v": column(vectors(dtype))}), uri, max_rows_per_file=700)
    options = {"num_partitions": PARTITIONS, "metric": metric, **KINDS[kind]}
    table.create_index("v", kind.partition(" ")[0], **options)
    return uri


@pytest.mark.spread(0.3)
@pytest.mark.parametrize(("kind", "metric", "dtype"), [*FLOATS, ("IVF_FLAT", "hamming", "u8")])
def test_what_pylance_indexed_is_found_as_pylance_finds_it(tables: Path, kind: str, metric: str, dtype: str) -> None:
    uri = build(tables, kind, metric, dtype)
    (segment,) = open_segments(uri)
    assert segment.index_type == kind.partition(" ")[0]
    assert (segment.metric.value, segment.dimension, segment.num_rows) == (metric, DIMENSION, ROWS)
    for query in vectors(dtype, 4, seed=77):
        for count, probes in ((1, 1), (10, 2), (40, PARTITIONS)):
            wanted = VectorQuery(query, count, min_probes=probes, max_probes=probes)
            ours = segment.best(wanted, count, ALL_KEPT)
            agree(ours, *theirs(uri, query, count, nprobes=probes), CLOSE[dtype])
            assert (wanted.use.segments, wanted.use.partitions) == (1, probes)


def test_product_codes_give_the_very_same_numbers(tables: Path) -> None:
    uri = build(tables / "bits", "IVF_PQ", "l2", "f32")
    (segment,) = open_segments(uri)
    for query in vectors("f32", 5, seed=3):
        ours = segment.best(VectorQuery(query, 50, min_probes=5, max_probes=5), 50, ALL_KEPT)
        rows, marks = theirs(uri, query, 50, nprobes=5)
        assert ours.marks.tolist() == marks.tolist()
        assert ours.rows.tolist() == rows.tolist()


def test_rows_that_do_not_count_take_no_place_and_more_partitions_are_looked_at(tables: Path) -> None:
    uri = build(tables / "kept", "IVF_FLAT", "l2", "f32")
    (segment,) = open_segments(uri)
    query = vectors("f32", 1, seed=9)[0]
    everything = segment.best(VectorQuery(query, ROWS, min_probes=5, max_probes=5), ROWS, ALL_KEPT)
    wanted = set(everything.rows[::100].tolist())

    def some(rows: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
        return rows + np.uint64(1), np.isin(rows, list(wanted))

    for rename in (some, KeyedRename(some, "key"), KeyedRename(some, "key")):
        found = segment.best(VectorQuery(query, 12), 12, rename)
        assert found.rows.tolist() == (everything.rows[::100][:12] + 1).tolist()
        assert found.marks.tolist() == everything.marks[::100][:12].tolist()


def test_distances_in_a_range(tables: Path) -> None:
    uri = build(tables / "range", "IVF_PQ", "l2", "f32")
    (segment,) = open_segments(uri)
    query = vectors("f32", 1, seed=9)[0]
    _, every = theirs(uri, query, ROWS, nprobes=5)
    low, high = float(every[300]), float(every[900])
    ours = segment.best(VectorQuery(query, 5, low, high, 5, 5), 5, ALL_KEPT)
    rows, marks = theirs(uri, query, 5, nprobes=5, distance_range=(low, high))
    assert ours.rows.tolist() == rows.tolist()
    assert ours.marks.tolist() == marks.tolist()
    assert ours.marks[0] == every[300]


def test_without_numbers_about_as_many_partitions_are_searched(tables: Path) -> None:
    uri = str(tables / "auto")
    values = np.random.default_rng(3).standard_normal((6000, DIMENSION)).astype(np.float32)
    table = lance.write_dataset(pa.table({"v": column(values)}), uri)
    # Where a search stops depends on the centroids, which pylance would draw by chance.
    centroids = normalized(values[::150])
    for metric in ("l2", "cosine", "dot"):
        table.create_index("v", "IVF_FLAT", num_partitions=40, metric=metric, ivf_centroids=centroids, replace=True)
        (segment,) = open_segments(uri)
        for count in (1, 10, 100, 1000):
            for query in values[:4]:
                wanted = VectorQuery(query, count)
                segment.best(wanted, count, ALL_KEPT)
                nearest = {"column": "v", "q": query, "k": count}
                shown = table.scanner(["_distance"], nearest=nearest).analyze_plan()
                (searched,) = map(int, re.findall(r"partitions_searched=(\d+)", shown))
                assert abs(wanted.use.partitions - searched) <= max(2, searched // 4), (metric, count)
