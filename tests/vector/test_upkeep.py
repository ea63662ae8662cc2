"""Vector indices in tables that change: extended, merged, moved, checked; pylance goes on with what we leave, and we with its."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import LanceletError
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import read_indices
from lancelet.index.ranked import best_rows
from lancelet.index.segments import Whereabouts, indexed_type
from lancelet.index.vector.kind import KIND
from lancelet.index.vector.query import VectorQuery
from lancelet.index.vector.segment import VectorSegment
from vector.samples import KINDS, open_segments, table_of, vectors

ROWS = 1500


def append(uri: str, rows: int, seed: int) -> None:
    lancelet.write_dataset(table_of(vectors("f32", rows, seed)), uri, mode="append")


def known(uri: str) -> list[list[int]]:
    """The rows of each segment that are still covered, by their present ids."""
    dataset = lancelet.dataset(uri)
    table, snapshot = dataset.table, dataset._snapshot
    where = Whereabouts(snapshot, lambda: table.row_id_index, table.physical_rows)
    found = []
    for entry in read_indices(snapshot.manifest):
        if entry.name.startswith("__") or not KIND.is_built(entry):
            continue
        segment = VectorSegment(IndexFolder(snapshot, entry), indexed_type(snapshot, entry))
        rows = np.concatenate([partition.rows for _, partition in segment.stream()])
        addresses, kept = where.addresses(entry, rows)
        found.append(sorted(addresses[kept].tolist()))
    return found


def live(uri: str) -> list[int]:
    """Addresses of the rows in covered fragments."""
    return sorted(lancelet.dataset(uri).to_table([], with_row_address=True)["_rowaddr"].to_pylist())


def complete(uri: str) -> None:
    """Every live row is in one segment, once; pylance searches all of them and finds each."""
    rows = sorted(row for segment in known(uri) for row in segment)
    assert len(set(rows)) == len(rows)
    assert set(live(uri)) <= set(rows)
    dataset = lance.dataset(uri)
    assert dataset.stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    whole = dataset.to_table(["id", "v"])
    place = len(whole) // 3
    nearest = {"column": "v", "q": whole["v"][place].as_py(), "k": len(whole), "nprobes": 100}
    answers = dataset.to_table(["id"], nearest=nearest, fast_search=True)
    assert sorted(answers["id"].to_pylist()) == sorted(whole["id"].to_pylist())


def indexed(uri: str, kind: str, partitions: int = 4, module: object = lancelet, **options: object) -> None:
    dataset = module.write_dataset(table_of(vectors("f32")), uri, max_rows_per_file=600, **options)
    dataset.create_index("v", kind.partition(" ")[0], num_partitions=partitions, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.spread(0.5, each=False)
def test_a_table_that_changes_keeps_its_index(tmp_path: Path, kind: str, stable: bool) -> None:
    uri = str(tmp_path)
    indexed(uri, kind, 1, enable_stable_row_ids=stable)
    append(uri, 200, 7)
    dataset = lancelet.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert [len(rows) for rows in known(uri)] == [ROWS, 200]
    complete(uri)
    dataset.delete("id % 7 = 3")
    dataset.optimize.compact_files(target_rows_per_fragment=10_000)
    complete(uri)
    append(uri, 100, 8)
    dataset = lancelet.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=5)
    assert len(known(uri)) == 1
    complete(uri)
    before = open_segments(uri)[0].model
    dataset.optimize.optimize_indices(retrain=True)
    complete(uri)
    assert open_segments(uri)[0].model.quantizer.name == before.quantizer.name


@pytest.mark.parametrize("kind", KINDS)
def test_each_extends_what_the_other_began(tmp_path: Path, kind: str) -> None:
    for first, second in ((lance, lancelet), (lancelet, lance)):
        uri = str(tmp_path / first.__name__)
        indexed(uri, kind, 1, first)
        model = open_segments(uri)[0].model
        append(uri, 150, 3)
        second.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
        append(uri, 150, 4)
        second.dataset(uri).optimize.optimize_indices(num_indices_to_merge=2)
        complete(uri)
        now = [segment.model for segment in open_segments(uri)]
        assert all(np.array_equal(one.centroids, model.centroids) for one in now)


def test_codes_of_new_rows_are_those_that_pylance_makes(tmp_path: Path) -> None:
    dataset = lance.write_dataset(table_of(vectors("f32")), tmp_path / "a", max_rows_per_file=600)
    dataset.create_index("v", "IVF_SQ", num_partitions=3, ivf_centroids=vectors("f32", 3, seed=7))
    append(str(tmp_path / "a"), 300, 3)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    codes = []
    for module, name in ((lancelet, "a"), (lance, "b")):
        module.dataset(str(tmp_path / name)).optimize.optimize_indices(num_indices_to_merge=1)
        (segment,) = open_segments(str(tmp_path / name))
        codes.append([(part.rows.tolist(), part.stored[0]) for _, part in segment.stream()])
    for (rows, one), (others, other) in zip(*codes, strict=True):
        assert rows == others
        np.testing.assert_array_equal(one, other)


def sizes(uri: str) -> list[list[int]]:
    return [segment.sizes.tolist() for segment in open_segments(uri)]


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_partitions_are_cut_and_given_up_as_pylance_does(tmp_path: Path, kind: str) -> None:
    """Centroids are given: what pylance learns by chance may lie so near to a limit that either is right."""
    options = {"target_partition_size": 100, **KINDS[kind]}
    for rows, partitions in ((1200, 1), (580, 4), (760, 3), (420, 2)):
        options |= {"num_partitions": partitions, "ivf_centroids": vectors("f32", partitions, seed=7)}
        begun = tmp_path / f"begun{rows}"
        dataset = lance.write_dataset(table_of(vectors("f32", rows)), begun)
        dataset.create_index("v", kind, **options)
        append(str(begun), 100, 5)
        shown = []
        for module in (lancelet, lance):
            uri = str(tmp_path / f"{module.__name__}{rows}")
            shutil.copytree(begun, uri)
            module.dataset(uri).optimize.optimize_indices()
            shown.append([len(one) for one in sizes(uri)])
            assert sum(map(sum, sizes(uri))) == rows + 100
        assert shown[0] == shown[1], (rows, shown, sizes(str(begun)))
        complete(str(tmp_path / f"lancelet{rows}"))


@pytest.mark.parametrize(
    ("first", "appended"),
    [
        ((339, 100, 100), (57, 0, 0)),
        ((339, 100, 100), (62, 0, 0)),
        ((380, 100, 100), (0, 57, 0)),
        ((399, 100, 100), (1, 0, 0)),
        ((399, 100, 100), (2, 0, 0)),
        ((100, 100, 100), (310, 0, 0)),
        ((410, 900, 10), (0, 0, 1)),
        ((100, 1, 100), (0, 450, 0)),
        ((100, 20, 100), (0, 4, 0)),
        ((100, 20, 100), (0, 5, 0)),
        ((100, 20, 10), (5, 0, 0)),
        ((12, 10, 11), (3, 0, 0)),
    ],
)
def test_rows_count_where_they_belong_when_partitions_are_cut_and_given_up(
    tmp_path: Path, first: tuple[int, ...], appended: tuple[int, ...]
) -> None:
    random = np.random.default_rng(4)
    centroids = 100 * np.eye(3, 16, dtype=np.float32)

    def rows(counts: tuple[int, ...]) -> pa.Table:
        near = np.repeat(centroids, counts, axis=0)
        return table_of(near + random.standard_normal(near.shape).astype(np.float32))

    begun = str(tmp_path / "begun")
    dataset = lance.write_dataset(rows(first), begun)
    dataset.create_index("v", "IVF_FLAT", num_partitions=3, ivf_centroids=centroids, target_partition_size=100)
    lance.write_dataset(rows(appended), begun, mode="append")
    shown = []
    for module in (lancelet, lance):
        uri = str(tmp_path / module.__name__)
        shutil.copytree(begun, uri)
        module.dataset(uri).optimize.optimize_indices()
        shown.append([len(one) for one in sizes(uri)])
        assert sum(map(sum, sizes(uri))) == sum(first) + sum(appended)
    assert shown[0] == shown[1]
    complete(str(tmp_path / "lancelet"))


def test_parts_with_one_model_are_merged_and_others_are_refused(tmp_path: Path) -> None:
    uri = str(tmp_path)
    dataset = lancelet.write_dataset(table_of(vectors("f32")), uri, max_rows_per_file=500)
    apart = [dataset.create_index_uncommitted("v", "IVF_FLAT", num_partitions=2, fragment_ids=[n]) for n in (0, 1)]
    with pytest.raises(LanceletError, match="mismatch"):
        dataset.merge_existing_index_segments(apart)
    centroids = vectors("f32", 3, seed=1)
    given = {"ivf_centroids": centroids, "num_partitions": 3}
    for kind in ("IVF_FLAT", "IVF_SQ"):
        parts = [dataset.create_index_uncommitted("v", kind, fragment_ids=[n], **given) for n in (0, 1, 2)]
        merged = dataset.merge_existing_index_segments(parts[:2])
        dataset.commit_existing_index_segments("v_idx", "v", [merged, parts[2]])
        assert [len(rows) for rows in known(uri)] == [1000, 500]
        complete(uri)
        dataset.drop_index("v_idx")


def test_segments_that_learned_apart_are_read_again_to_be_one(tmp_path: Path) -> None:
    uri = str(tmp_path)
    dataset = lancelet.write_dataset(table_of(vectors("f32")), uri, max_rows_per_file=500)
    options = {"num_partitions": 1, "num_sub_vectors": 8}
    parts = [dataset.create_index_uncommitted("v", "IVF_PQ", fragment_ids=[n], **options) for n in (0, 1, 2)]
    dataset.commit_existing_index_segments("v_idx", "v", parts)
    complete(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=3)
    assert [len(rows) for rows in known(uri)] == [ROWS]
    complete(uri)


def test_answers_do_not_depend_on_how_rows_are_spread_over_segments(tmp_path: Path) -> None:
    uri = str(tmp_path)
    values = vectors("f32")
    dataset = lancelet.write_dataset(table_of(values), uri, max_rows_per_file=300)
    given = {"ivf_centroids": vectors("f32", 4, seed=1)}
    parts = [dataset.create_index_uncommitted("v", "IVF_FLAT", fragment_ids=[n], **given) for n in range(5)]
    dataset.commit_existing_index_segments("v_idx", "v", parts)
    dataset.delete("id % 3 = 0")
    snapshot, table = dataset._snapshot, dataset.table
    where = Whereabouts(snapshot, lambda: table.row_id_index, table.physical_rows)
    alive = np.array(live(uri), np.uint64)

    def asked(query: npt.NDArray) -> npt.NDArray:
        pairs = []
        for entry in read_indices(snapshot.manifest):

            def rename(rows: npt.NDArray, entry: object = entry) -> tuple[npt.NDArray, npt.NDArray]:
                addresses, kept = where.addresses(entry, rows)
                return addresses, kept & np.isin(addresses, alive)

            pairs.append((VectorSegment(IndexFolder(snapshot, entry), indexed_type(snapshot, entry)), rename))
        return best_rows(KIND, pairs, VectorQuery(query, 20, min_probes=4, max_probes=4), 20).rows

    for query in vectors("f32", 5, seed=2):
        marks = ((values.astype(np.float64) - query) ** 2).sum(axis=1)
        marks[np.arange(ROWS) % 3 == 0] = np.inf
        exact = np.argsort(marks)[:20]
        assert asked(query).tolist() == [int(row) // 300 << 32 | int(row) % 300 for row in exact]


def test_a_check_finds_rows_that_an_index_has_lost(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri, "IVF_SQ", 3)
    dataset = lancelet.dataset(uri)
    assert not dataset.verify(deep=True).findings
    dataset.delete("id < 10")
    dataset.optimize.compact_files(target_rows_per_fragment=700)
    assert not dataset.verify(deep=True).findings
    dataset.drop_index("v_idx")
    part = dataset.create_index_uncommitted(
        "v", "IVF_SQ", num_partitions=2, fragment_ids=[dataset.get_fragments()[0].fragment_id]
    )
    claimed = {fragment.fragment_id for fragment in dataset.get_fragments()}
    dataset.commit_existing_index_segments("v_idx", "v", [replace(part, fragment_ids=claimed)])
    (finding,) = dataset.verify(deep=True).findings
    assert "does not have" in str(finding)
