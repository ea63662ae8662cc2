"""Graphs in the files of an index: pylance's asked by us, and files that lie."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from lancelet.errors import CorruptFile, InvalidInput, InvalidType
from lancelet.index.vector.flat import FlatQuantizer
from lancelet.index.vector.hnsw import KIND, SCHEMA
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.query import ALL_KEPT, VectorQuery
from lancelet.index.vector.top import Top
from vector.samples import column, open_segments, theirs

ROWS, DIMENSION = 2000, 16
KINDS: dict[str, dict[str, Any]] = {
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8},
    "IVF_HNSW_PQ of 4 bits": {"num_sub_vectors": 8, "num_bits": 4},
}
CASES = [
    ("IVF_HNSW_FLAT", "l2", "f32"),
    ("IVF_HNSW_FLAT", "cosine", "f16"),
    ("IVF_HNSW_FLAT", "dot", "f64"),
    ("IVF_HNSW_FLAT", "hamming", "u8"),
    ("IVF_HNSW_SQ", "l2", "f16"),
    ("IVF_HNSW_SQ", "cosine", "f32"),
    ("IVF_HNSW_SQ", "dot", "f32"),
    ("IVF_HNSW_PQ", "l2", "f32"),
    ("IVF_HNSW_PQ of 4 bits", "cosine", "f32"),
    ("IVF_HNSW_PQ of 4 bits", "dot", "f64"),
]
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "u8": np.uint8}


def vectors(dtype: str, rows: int = ROWS, seed: int = 3) -> npt.NDArray:
    random = np.random.default_rng(seed)
    if dtype == "u8":
        # Bits that hang together, so that few rows are equally far.
        planes = np.random.default_rng(0).standard_normal((12, 8 * DIMENSION))
        return np.packbits(random.standard_normal((rows, 12)) @ planes > 0, axis=1)
    return random.standard_normal((rows, DIMENSION)).astype(TYPES[dtype])


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(("kind", "metric", "dtype"), CASES)
def test_graphs_of_pylance_lead_us_where_they_lead_it(kind: str, metric: str, dtype: str, tmp_path: Path) -> None:
    values = vectors(dtype)
    table = lance.write_dataset(pa.table({"v": column(values)}), tmp_path / "t")
    name = kind.partition(" ")[0]
    table.create_index("v", name, num_partitions=1, metric=metric, **KINDS[kind])
    (segment,) = open_segments(str(tmp_path / "t"))
    assert segment.is_graph
    same = ours = total = 0.0
    for query in vectors(dtype, 40, 8):
        rows, marks = theirs(str(tmp_path / "t"), query, 5, ef=7)
        asked = VectorQuery(query, 5, ef=7)
        found = segment.best(asked, 5, ALL_KEPT)
        assert asked.use.codes < ROWS
        same += len(np.intersect1d(found.rows, rows)) / 200
        ours += found.marks.sum()
        total += marks.sum()
    # Rows at the same distance are met in another order, and lead elsewhere.
    assert same >= (0.8 if dtype == "u8" or "4 bits" in kind else 0.95)
    assert ours <= total + 0.01 * abs(total)


def test_rows_that_a_search_leaves_out_take_no_place(tmp_path: Path) -> None:
    values = vectors("f32")
    table = lance.write_dataset(pa.table({"v": column(values), "i": np.arange(ROWS)}), tmp_path / "t")
    table.create_index("v", "IVF_HNSW_SQ", num_partitions=1)
    (segment,) = open_segments(str(tmp_path / "t"))
    for share in (2, 50):

        def some(
            rows: npt.NDArray[np.uint64], share: int = share
        ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
            return rows, rows % share == 0

        found = segment.best(VectorQuery(values[7], 10, ef=20), 10, some)
        assert len(found.rows) == 10
        assert (found.rows % share == 0).all()
        nearest = np.sort(((values[::share] - values[7]) ** 2).sum(1))[:10]
        np.testing.assert_allclose(found.marks, nearest, rtol=0.1, atol=0.1)


# Our own graphs


def built(
    count: int = 1500, d: int = 8
) -> tuple[FlatQuantizer, npt.NDArray[np.float32], pa.RecordBatch, dict[str, Any]]:
    values = np.random.default_rng(1).standard_normal((count, d)).astype(np.float32)
    quantizer = FlatQuantizer(Metric.L2, values.dtype, d)
    parts, about = KIND.build(quantizer, [values], count, values[0], KIND.check({"m": 6, "ef_construction": 30}), 1)
    (batch,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return quantizer, values, batch, about


def test_a_graph_is_laid_out_level_after_level() -> None:
    _, values, batch, about = built()
    assert batch.schema == SCHEMA
    assert about["params"] == {"max_level": 7, "m": 6, "ef_construction": 30, "prefetch_distance": 2}
    offsets = about["level_offsets"]
    assert len(offsets) == 8
    assert offsets[:2] == [0, 1500]
    assert offsets[-1] == batch.num_rows
    ids = batch["__vector_id"].to_numpy()
    for level, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        members = ids[begin:end].tolist()
        assert members == sorted(members)
        limit = 6 if level else 12
        for node, neighbours, marks in zip(
            members, batch["__neighbors"][begin:end].to_pylist(), batch["_distance"][begin:end].to_pylist(), strict=True
        ):
            assert 0 < len(neighbours) <= limit or end - begin == 1
            assert set(neighbours) <= set(members)
            np.testing.assert_allclose(marks, ((values[neighbours] - values[node]) ** 2).sum(1), rtol=1e-5)
    assert (
        about["entry_point"]
        in ids[offsets[sum(end > begin for begin, end in zip(offsets, offsets[1:], strict=False)) - 1] :]
    )


def test_the_same_seed_builds_the_same_graph() -> None:
    (_, _, one, about), (_, _, other, again) = built(300), built(300)
    assert about == again
    assert one.equals(other)


def test_an_empty_partition_has_no_graph() -> None:
    quantizer = FlatQuantizer(Metric.L2, np.dtype(np.float32), 4)
    rows, about = KIND.build(quantizer, [], 0, np.zeros(4, np.float32), KIND.check({}), 0)
    assert (list(rows), about) == ([], {})


def search(batch: pa.RecordBatch, about: dict[str, Any], count: int, ef: int = 20, k: int = 10) -> list[int]:
    quantizer, values, _, _ = built(count)
    graph = KIND.open(batch, about, count, "index.idx")
    query = VectorQuery(values[5], k, ef=ef)
    top = Top(k)
    prepared = quantizer.prepare(query, Metric.L2)
    graph.search(quantizer, query, prepared, [values], np.arange(count, dtype=np.uint64), values[0], top, None)
    return top.sorted()[1].tolist()


def test_what_cannot_be_reached_is_found_all_the_same() -> None:
    _, _, batch, about = built()
    expected = search(batch, about, 1500)
    lonely = pa.ListArray.from_arrays(pa.array([0] * (batch.num_rows + 1), pa.int32()), pa.array([], pa.uint32()))
    cut = batch.set_column(1, SCHEMA.field(1), lonely)
    assert search(cut, about, 1500)[0] == expected[0] == 5
    assert len(search(cut, about, 1500)) == 10


def test_a_search_that_keeps_fewer_in_mind_than_it_gives_is_refused() -> None:
    _, _, batch, about = built()
    with pytest.raises(InvalidInput, match="ef must be greater than or equal to k"):
        search(batch, about, 1500, ef=9)


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"m": 3}, InvalidInput),
        ({"m": 100_000, "ef_construction": 200_000}, InvalidInput),
        ({"m": 30, "ef_construction": 29}, InvalidInput),
        ({"max_level": 0}, InvalidInput),
        ({"max_level": 256}, InvalidInput),
        ({"m": "20"}, InvalidType),
        ({"ef_construction": 20.5}, InvalidType),
    ],
)
def test_parameters_that_make_no_graph_are_refused(options: dict[str, Any], refused: type[Exception]) -> None:
    with pytest.raises(refused, match=r"m|ef_construction|max_level"):
        KIND.check(options)


def column_of(batch: pa.RecordBatch, place: int, array: pa.Array) -> pa.RecordBatch:
    arrays = list(batch.columns)
    arrays[place] = array
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def changed_ids(change: Callable[[npt.NDArray], Any]) -> Callable[[pa.RecordBatch, dict[str, Any]], pa.RecordBatch]:
    def damage(batch: pa.RecordBatch, about: dict[str, Any]) -> pa.RecordBatch:
        ids = batch["__vector_id"].to_numpy().copy()
        change(ids)
        return column_of(batch, 0, pa.array(ids))

    return damage


def changed_neighbours(
    change: Callable[[npt.NDArray], Any],
) -> Callable[[pa.RecordBatch, dict[str, Any]], pa.RecordBatch]:
    def damage(batch: pa.RecordBatch, about: dict[str, Any]) -> pa.RecordBatch:
        lists = batch["__neighbors"]
        values = lists.flatten().to_numpy().copy()
        change(values)
        return column_of(batch, 1, pa.ListArray.from_arrays(lists.offsets, pa.array(values)))

    return damage


def told(**entries: Any) -> Callable[[pa.RecordBatch, dict[str, Any]], None]:
    return lambda batch, about: about.update(copy.deepcopy(entries))


DAMAGES: dict[str, Callable[[pa.RecordBatch, dict[str, Any]], pa.RecordBatch | None]] = {
    "no entry": lambda batch, about: about.pop("entry_point") and None,
    "an entry outside": told(entry_point=300),
    "an entry below": told(entry_point=-1),
    "an entry that is no number": told(entry_point="0"),
    "no levels": told(level_offsets=[]),
    "levels that are no numbers": told(level_offsets=[0, "300"]),
    "levels of no list": told(level_offsets=7),
    "levels that begin later": lambda batch, about: about["level_offsets"].__setitem__(0, 1),
    "levels that end early": lambda batch, about: about["level_offsets"].__setitem__(-1, 300),
    "levels that end late": lambda batch, about: about["level_offsets"].__setitem__(-1, 1 << 70),
    "levels that go back": lambda batch, about: about["level_offsets"].__setitem__(2, 20),
    "a level 0 that is short": lambda batch, about: about["level_offsets"].__setitem__(1, 299),
    "a level 0 that is long": lambda batch, about: about["level_offsets"].__setitem__(1, 301),
    "a vector outside": changed_ids(lambda ids: ids.__setitem__(4, 300)),
    "a vector twice": changed_ids(lambda ids: ids.__setitem__(4, 3)),
    "a vector twice above": changed_ids(lambda ids: ids.__setitem__(301, ids[300])),
    "a neighbour outside": changed_neighbours(lambda values: values.__setitem__(9, 300)),
    "a neighbour far outside": changed_neighbours(lambda values: values.__setitem__(9, (1 << 32) - 1)),
    "a neighbour that is not on the level": changed_neighbours(lambda values: values.__setitem__(slice(-20, None), 0)),
    "null vectors": lambda batch, about: column_of(batch, 0, pa.nulls(batch.num_rows, pa.uint32())),
    "null lists": lambda batch, about: column_of(batch, 1, pa.nulls(batch.num_rows, pa.list_(pa.uint32()))),
    "other vectors": lambda batch, about: column_of(batch, 0, batch["__vector_id"].cast(pa.int64())),
    "other neighbours": lambda batch, about: column_of(batch, 1, batch["_distance"]),
    "fewer rows": lambda batch, about: batch.slice(0, 200),
    "no rows": lambda batch, about: batch.slice(0, 0),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_that_lie_about_a_graph_are_corrupt(damage: str) -> None:
    _, _, batch, about = built(300)
    spoilt = copy.deepcopy(about)
    changed = DAMAGES[damage](batch, spoilt)
    with pytest.raises(CorruptFile, match=r"index\.idx.*graph that is none"):
        KIND.open(batch if changed is None else changed, spoilt, 300, "index.idx")


@pytest.mark.parametrize("about", [{}, [], None, 5, "x"])
def test_a_graph_of_which_nothing_is_told_is_corrupt(about: Any) -> None:
    _, _, batch, _ = built(300)
    with pytest.raises(CorruptFile):
        KIND.open(batch, about, 300, "index.idx")


def test_rows_may_come_in_any_order_within_a_level() -> None:
    _, _, batch, about = built()
    offsets = about["level_offsets"]
    order = np.concatenate(
        [np.arange(end - 1, begin - 1, -1) for begin, end in zip(offsets, offsets[1:], strict=False)]
    )
    assert search(batch.take(pa.array(order)), about, 1500) == search(batch, about, 1500)
