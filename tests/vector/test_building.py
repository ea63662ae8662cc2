"""Indices that we build: pylance asks them and gives our answers; they find as much as pylance's own."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import LanceletError
from lancelet.index.vector.centroids import assign
from lancelet.index.vector.kmeans import train_centroids, train_words
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.query import ALL_KEPT, VectorQuery
from lancelet.index.vector.segment import VectorSegment
from lancelet.store import drop_resident_files
from lancelet.store.source import resident_file_bytes
from vector.samples import (
    BUILDS,
    CLOSE,
    FLOATS,
    KINDS,
    PARTITIONS,
    ROWS,
    agree,
    column,
    open_segments,
    table_of,
    theirs,
    vectors,
)


def build(uri: str, kind: str, metric: str, values: npt.NDArray, **options: object) -> lancelet.LanceDataset:
    dataset = lancelet.write_dataset(table_of(values), uri, max_rows_per_file=700)
    options = {"num_partitions": PARTITIONS, "metric": metric, **KINDS[kind], **options}
    return dataset.create_index("v", kind.partition(" ")[0], **options)


def recall(found: npt.NDArray, wanted: npt.NDArray) -> float:
    return np.mean([np.isin(one, other).mean() for one, other in zip(found, wanted, strict=True)])


@pytest.mark.parametrize(("kind", "metric", "dtype"), [*FLOATS, ("IVF_FLAT", "hamming", "u8")])
@pytest.mark.spread(0.5, each=False)
def test_pylance_gives_the_same_answers(tmp_path: Path, kind: str, metric: str, dtype: str) -> None:
    uri = str(tmp_path)
    build(uri, kind, metric, vectors(dtype))
    (segment,) = open_segments(uri)
    assert segment.num_rows == ROWS
    for query in vectors(dtype, 3, seed=77):
        for count, probes in ((5, 1), (40, PARTITIONS)):
            wanted = VectorQuery(query, count, min_probes=probes, max_probes=probes)
            agree(segment.best(wanted, count, ALL_KEPT), *theirs(uri, query, count, nprobes=probes), CLOSE[dtype])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.spread(0.4, each=False)
def test_as_much_is_found_as_in_the_index_of_pylance(tmp_path: Path, kind: str) -> None:
    values, queries = vectors("f32", 4000), vectors("f32", 50, seed=8)
    exact = ((queries[:, None] - values[None]) ** 2).sum(-1).argsort(axis=1)[:, :10]
    # Partitions are compared by themselves below: here, all indices have the same.
    given = {"num_partitions": 16, "ivf_centroids": values[::250]}
    shares: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(BUILDS):
        for who, module, options in (("ours", lancelet, {"seed": number}), ("theirs", lance, {})):
            uri = str(tmp_path / f"{who} {number}")
            dataset = module.write_dataset(table_of(values), uri)
            dataset.create_index("v", kind.partition(" ")[0], **given, **KINDS[kind], **options)
            shares[who].append(recall([theirs(uri, query, 10, nprobes=3)[0] for query in queries], exact))
    # Indices of the same partitions differ by 0.014 (one standard deviation) at most, whoever trains their codes.
    assert np.mean(shares["ours"]) >= np.mean(shares["theirs"]) - 0.05


def drawn(width: int, clusters: int, rows: int, queries: int) -> tuple[npt.NDArray, npt.NDArray, list[npt.NDArray]]:
    """Vectors with clusters or without, others to look for near to some of them, and their ten neighbours."""
    random = np.random.default_rng(width + clusters)
    values = random.standard_normal((rows, width)).astype(np.float32)
    if clusters:
        centres = random.standard_normal((clusters, width)).astype(np.float32)
        values = values * np.float32(0.6) + centres[random.integers(0, clusters, rows)]
    asked = values[random.integers(0, rows, queries)] + 0.2 * random.standard_normal((queries, width)).astype(
        np.float32
    )
    return values, asked, [((values - query) ** 2).sum(axis=1).argsort()[:10] for query in asked]


def at_least(ours: list[float], others: list[float], errors: int) -> None:
    """Means of trainings that differ by chance: ours is not less, but for some standard errors of the difference."""
    error = np.sqrt(np.var(ours, ddof=1) / len(ours) + np.var(others, ddof=1) / len(others))
    assert np.mean(ours) >= np.mean(others) - errors * error - 0.005, (np.mean(ours), np.mean(others), error)


@pytest.mark.parametrize(("width", "clusters"), [(16, 0), (16, 40), (384, 0), (384, 40)])
@pytest.mark.spread(0.5, each=False)
def test_partitions_have_the_neighbours_as_often_as_those_of_pylance(tmp_path: Path, width: int, clusters: int) -> None:
    values, queries, exact = drawn(width, clusters, 2048, 100)
    found: dict[str, list[float]] = {}
    for module in (lancelet, lance):
        dataset = module.write_dataset(table_of(values), str(tmp_path / module.__name__))
        found[module.__name__] = shares = []
        for seed in range(10):
            options = {"seed": seed} if module is lancelet else {}
            dataset.create_index("v", "IVF_FLAT", num_partitions=8, replace=True, **options)
            (segment,) = open_segments(dataset.uri)
            shares.append(found_by(segment, queries, exact, 2))
    at_least(found["lancelet"], found["lance"], 6)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [16, 128, 768, 1536])
@pytest.mark.parametrize("clusters", [0, 300])
def test_ten_indices_find_as_much_as_ten_of_pylance(tmp_path: Path, kind: str, width: int, clusters: int) -> None:
    values, queries, exact = drawn(width, clusters, 6000, 100)
    found: dict[str, list[float]] = {}
    for module in (lancelet, lance):
        dataset = module.write_dataset(table_of(values), str(tmp_path / module.__name__))
        found[module.__name__] = shares = []
        for seed in range(10):
            options = {**KINDS[kind], **({"seed": seed} if module is lancelet else {})}
            dataset.create_index("v", kind.partition(" ")[0], num_partitions=20, replace=True, **options)
            (segment,) = open_segments(dataset.uri)
            shares.append(found_by(segment, queries, exact, 4))
    at_least(found["lancelet"], found["lance"], 4)


def test_words_are_in_the_middle_of_what_is_near_to_them() -> None:
    """Of wide vectors without clusters, each word has few: a step that goes too far is not the last."""
    sample = np.random.default_rng(5).standard_normal((3000, 96)).astype(np.float32)
    (words,) = train_words(sample, 1, 256, 50, 0)
    lengths = (words**2).sum(axis=1)
    near = (lengths - 2 * sample @ words.T).argmin(axis=1)
    middles = np.stack([sample[near == word].mean(axis=0) for word in range(256)])
    better, loss = (((sample - one[near]) ** 2).sum() for one in (middles, words))
    assert better > 0.995 * loss


@pytest.mark.parametrize("count", [40, 300])
def test_clusters_are_shared_out_evenly(count: int) -> None:
    """The middle of many clusters is near to everything: a few large partitions would be what all searches look at."""
    random = np.random.default_rng(8)
    centres = random.standard_normal((4 * count, 64)).astype(np.float32)
    values = np.repeat(centres, 20, axis=0) + random.standard_normal((80 * count, 64)).astype(np.float32) * 0.3
    found, _ = train_centroids(values.astype(np.float32), count, Metric.L2, 50, 1)
    homes, _ = assign(values.astype(np.float32), found, Metric.L2)
    assert np.bincount(homes, minlength=count).max() <= 3 * 80


def found_by(segment: VectorSegment, queries: npt.NDArray, exact: list[npt.NDArray], probes: int) -> float:
    """Which share of the ten nearest rows is found."""
    wanted = [VectorQuery(query, 10, min_probes=probes, max_probes=probes) for query in queries]
    return recall([segment.best(query, 10, ALL_KEPT).rows for query in wanted], exact)


def test_the_same_seed_gives_the_same_index(tmp_path: Path) -> None:
    models = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        build(str(tmp_path / name), "IVF_PQ", "l2", vectors("f32"), seed=seed)
        models += [segment.model for segment in open_segments(str(tmp_path / name))]
    assert models[0].same_as(models[1])
    assert not models[0].same_as(models[2])


def test_nulls_and_numbers_that_are_none_are_not_indexed(tmp_path: Path) -> None:
    values = vectors("f32", 600)
    values[5, 3], values[6, 0], values[7] = np.nan, np.inf, 0
    rows = [None if place in (9, 10) else row for place, row in enumerate(values.tolist())]
    rows[11] = [*rows[11][:-1], None]
    made = pa.table({"v": pa.array(rows, pa.list_(pa.float32(), 16))})
    for metric, left_out in (("l2", {5, 6, 9, 10, 11}), ("cosine", {5, 6, 7, 9, 10, 11})):
        uri = str(tmp_path / metric)
        lancelet.write_dataset(made, uri).create_index("v", "IVF_FLAT", metric=metric, num_partitions=3)
        (segment,) = open_segments(uri)
        known = np.concatenate([partition.rows for _, partition in segment.stream()])
        assert set(range(600)) - set(known.tolist()) == left_out
        assert lance.dataset(uri).to_table(nearest={"column": "v", "q": values[0], "k": 600, "nprobes": 3}).num_rows


def test_entries_go_through_temporary_files_when_they_are_many(tmp_path: Path) -> None:
    from lancelet.index.vector import build as building

    values = vectors("f32", 3000)
    build(str(tmp_path / "memory"), "IVF_FLAT", "l2", values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "_RUN_SHARE", 1 << 40)
        patch.setattr(building, "_LEAST_RUN", 20_000)
        build(str(tmp_path / "files"), "IVF_FLAT", "l2", values)
    kept, spilled = (open_segments(str(tmp_path / name))[0] for name in ("memory", "files"))
    for (_, one), (_, other) in zip(kept.stream(), spilled.stream(), strict=True):
        assert one.rows.tolist() == other.rows.tolist() == sorted(one.rows.tolist())
        np.testing.assert_array_equal(one.stored[0], other.stored[0])


def test_given_centroids_and_codebooks_are_what_is_used(tmp_path: Path) -> None:
    values = vectors("f32")
    random = np.random.default_rng(0)
    centroids = random.standard_normal((3, 16)).astype(np.float32)
    words = random.standard_normal((8, 256, 2)).astype(np.float32)
    given = {"ivf_centroids": centroids, "pq_codebook": words, "num_sub_vectors": 8}
    for module in (lancelet, lance):
        module.write_dataset(table_of(values), str(tmp_path / module.__name__)).create_index("v", "IVF_PQ", **given)
    ours, others = (open_segments(str(tmp_path / name))[0] for name in ("lancelet", "lance"))
    assert ours.model.same_as(others.model)
    for (_, one), (_, other) in zip(ours.stream(), others.stream(), strict=True):
        assert one.rows.tolist() == other.rows.tolist()
        # Words that are equally near but for rounding may be told apart otherwise.
        assert (one.stored[0] != other.stored[0]).mean() < 0.001


def test_partitions_are_as_many_as_pylance_makes(tmp_path: Path) -> None:
    cases = [
        ("IVF_FLAT", 10, {"num_partitions": 20}),
        ("IVF_FLAT", 600, {}),
        ("IVF_PQ", 600, {"num_partitions": 3, "num_sub_vectors": 4}),
        ("IVF_PQ", 255, {"num_sub_vectors": 4}),
        ("IVF_SQ", 900, {"target_partition_size": 200}),
        ("IVF_SQ", 900, {"target_partition_size": 200, "num_partitions": 2}),
        ("IVF_FLAT", 0, {}),
    ]
    for place, (kind, rows, options) in enumerate(cases):
        shown = []
        for module in (lancelet, lance):
            uri = str(tmp_path / f"{module.__name__}{place}")
            dataset = module.write_dataset(table_of(vectors("f32", rows)), uri)
            with pytest.warns(UserWarning, match="at least 256") if (module, rows) == (lancelet, 255) else _calm():
                dataset.create_index("v", kind, **options)
            told = lance.dataset(uri).stats.index_stats("v_idx")
            shown.append((told["num_indexed_rows"], [part.get("num_partitions") for part in told["indices"]]))
        assert shown[0] == shown[1], (kind, rows, options)


def _calm() -> object:
    from contextlib import nullcontext

    return nullcontext()


def test_details_say_what_those_of_pylance_say(tmp_path: Path) -> None:
    for place, (kind, options) in enumerate(
        [
            ("IVF_PQ", {"num_sub_vectors": 4, "metric": "cosine"}),
            ("IVF_SQ", {"target_partition_size": 500}),
            ("IVF_FLAT", {}),
        ]
    ):
        told = []
        for module in (lancelet, lance):
            uri = str(tmp_path / f"{module.__name__}{place}")
            module.write_dataset(table_of(vectors("f32", 700)), uri).create_index("v", kind, **options)
            (one,) = lance.dataset(uri).describe_indices()
            (own,) = lancelet.dataset(uri).describe_indices()
            assert (one.index_type, one.details) == (own.index_type, own.details)
            told.append((one.name, one.index_type, one.type_url, one.num_rows_indexed, one.details))
            assert own.segments[0].index_version == 1
        assert told[0] == told[1]


def test_an_index_without_training_is_filled_later(tmp_path: Path) -> None:
    uri = str(tmp_path)
    dataset = lancelet.write_dataset(table_of(vectors("f32")), uri)
    dataset.create_index("v", "IVF_PQ", num_sub_vectors=4, train=False)
    assert lance.dataset(uri).stats.index_stats("v_idx")["num_indexed_rows"] == 0
    assert dataset.stats.index_stats("v_idx")["num_unindexed_rows"] == ROWS
    dataset.optimize.optimize_indices()
    assert lance.dataset(uri).stats.index_stats("v_idx")["num_indexed_rows"] == ROWS
    assert [segment.num_rows for segment in open_segments(uri)] == [ROWS]


def test_progress_is_told_by_stages(tmp_path: Path) -> None:
    heard = []
    dataset = lancelet.write_dataset(table_of(vectors("f32")), str(tmp_path))
    dataset.create_index("v", "IVF_SQ", num_partitions=3, progress_callback=heard.append)
    stages = list(dict.fromkeys(event.stage for event in heard))
    assert stages == ["train_ivf", "train_quantizer", "shuffle", "merge_partitions"]
    for stage in stages:
        events = [event.event for event in heard if event.stage == stage]
        assert (events[0], events[-1]) == ("start", "complete")
    assert [event.completed for event in heard if event.stage == "shuffle"][-1] == ROWS


def test_lists_of_vectors_have_an_entry_for_each(tmp_path: Path) -> None:
    values = vectors("f32", 900).tolist()
    rows = [None if place % 50 == 7 else values[place : place + place % 4] for place in range(800)]
    made = pa.table({"id": np.arange(800), "v": pa.array(rows, pa.list_(pa.list_(pa.float32(), 16)))})
    query = {"column": "v", "q": np.array(values[5:7], np.float32), "k": 5, "nprobes": 3, "refine_factor": 20}
    found = []
    for module in (lancelet, lance):
        uri = str(tmp_path / module.__name__)
        module.write_dataset(made, uri).create_index("v", "IVF_SQ", metric="cosine", num_partitions=3)
        (segment,) = open_segments(uri)
        assert segment.num_rows == sum(len(row or ()) for row in rows)
        assert not lancelet.dataset(uri).verify(deep=True).findings
        found.append(lance.dataset(uri).to_table(["id", "_distance"], nearest=query))
    assert found[0] == found[1]
    with pytest.raises(ValueError, match="cosine"):
        lancelet.dataset(uri).create_index("v", "IVF_SQ", "other")


MISTAKES = [
    ("nothing", "IVF_FLAT", {}),
    ("id", "IVF_FLAT", {}),
    ("v", "FOO", {}),
    ("v", "IVF_FLAT", {"metric": "foo"}),
    ("v", "IVF_FLAT", {"metric": "hamming"}),
    ("v", "IVF_FLAT", {"num_partitions": 0}),
    ("v", "IVF_FLAT", {"num_partitions": -1}),
    ("v", "IVF_FLAT", {"num_partitions": "2"}),
    ("v", "IVF_PQ", {}),
    ("v", "IVF_PQ", {"num_sub_vectors": 3}),
    ("v", "IVF_PQ", {"num_sub_vectors": 4, "num_bits": 5}),
    ("v", "IVF_PQ", {"num_sub_vectors": 1, "num_bits": 4}),
    ("v", "IVF_PQ", {"num_sub_vectors": 4, "pq_codebook": np.zeros((4, 256, 4), np.float32)}),
    ("v", "IVF_FLAT", {"ivf_centroids": np.zeros(4)}),
    ("v", "IVF_FLAT", {"ivf_centroids": np.zeros((0, 16))}),
    ("v", "IVF_FLAT", {"ivf_centroids": np.zeros((4, 16), np.int32)}),
    ("v", "IVF_FLAT", {"ivf_centroids": np.zeros((4, 15), np.float32)}),
    ("v", "IVF_FLAT", {"ivf_centroids": np.zeros((4, 16), np.float32), "num_partitions": 5}),
    ("v", "IVF_FLAT", {"index_uuid": "abc"}),
    ("bytes", "IVF_FLAT", {"metric": "l2"}),
    ("bytes", "IVF_PQ", {"metric": "hamming", "num_sub_vectors": 4}),
    ("bytes", "IVF_SQ", {"metric": "hamming"}),
]


def test_mistakes_are_errors_that_programs_for_pylance_expect(tmp_path: Path) -> None:
    made = pa.table({"id": np.arange(400), "v": column(vectors("f32", 400)), "bytes": column(vectors("u8", 400))})
    ours = lancelet.write_dataset(made, str(tmp_path / "ours"))
    others = lance.write_dataset(made, str(tmp_path / "theirs"))
    for name, kind, options in MISTAKES:
        with pytest.raises(LanceletError) as caught:
            ours.create_index(name, kind, **options)
        with pytest.raises(Exception) as expected:
            others.create_index(name, kind, **options)
        wanted = ImportError if isinstance(expected.value, ImportError) else type(expected.value)
        assert isinstance(caught.value, wanted), (name, kind, options, caught.value, expected.value)
    assert not ours.has_index
    assert not list((tmp_path / "ours" / "_indices").glob("*/*")) if (tmp_path / "ours" / "_indices").exists() else True


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    dataset = build(str(tmp_path), "IVF_FLAT", "l2", vectors("f32", 300))
    with pytest.raises(RuntimeError, match="already exists"):
        dataset.create_index("v", "IVF_SQ", num_partitions=2)
    dataset.create_index("v", "IVF_SQ", num_partitions=2, replace=True)
    assert [index.index_type for index in dataset.describe_indices()] == ["IVF_SQ"]


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_SQ"])
def test_a_build_does_not_keep_the_vectors_in_memory(tmp_path: Path, kind: str) -> None:
    """Of the files that it reads: 64 MiB, of which a batch is 16 MiB."""
    values = np.random.default_rng(0).random((1 << 17, 128), np.float32)
    dataset = lancelet.write_dataset(table_of(values), str(tmp_path))
    del values
    drop_resident_files()
    before = resident_file_bytes()
    assert before is not None
    seen: list[int] = []

    def watch(_: object) -> None:
        seen.append((resident_file_bytes() or 0) - before)

    dataset.create_index("v", kind, num_partitions=8, progress_callback=watch)
    assert max(seen) < 40 << 20
