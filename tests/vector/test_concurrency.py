"""Two at work on one table, of whom one builds or extends a vector index without knowing what the other did.

What cannot follow the other's commit is done again on the newest version; searches are answered right whatever came first.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import CommitConflict, RetryableCommitConflict
from vector.brute import vector_array
from vector.test_operations import DIMENSION, check_searches

ENGINES = {"ours": lancelet, "pylance": lance}
Act = Callable[[Any, Any, Path], object]


def rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    vectors = vector_array(np.random.default_rng(first).normal(size=(count, DIMENSION)), "float32")
    return pa.table({"k": numbers, "g": pa.array(numbers % 10, pa.int32()), "v": vectors})


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fragments that an index knows, and one that it does not."""
    where = tmp_path_factory.mktemp("concurrency") / ("stable" if request.param else "addresses")
    lance.write_dataset(rows(0, 200), where, max_rows_per_file=100, enable_stable_row_ids=request.param)
    lance.dataset(where).create_index("v", "IVF_FLAT", name="near", num_partitions=2)
    lance.write_dataset(rows(200, 60), where, mode="append")
    return where


def in_place(dataset: Any, engine: Any, where: Path) -> None:
    """Other vectors in the same fragment."""
    updates = rows(1000, 100).drop(["g"]).set_column(0, "k", pa.array(range(100, 200), pa.int64()))
    changed, fields = dataset.get_fragment(1).update_columns(updates, left_on="k", right_on="k")
    operation = engine.LanceOperation.Update(
        updated_fragments=[changed], fields_modified=fields, update_mode="rewrite_columns"
    )
    engine.LanceDataset.commit(str(where), operation, read_version=dataset.version)


FIRST: dict[str, Act] = {
    "append": lambda d, engine, where: engine.write_dataset(rows(300, 40), where, mode="append"),
    "delete": lambda d, engine, where: d.delete("k % 10 = 3"),
    "remove": lambda d, engine, where: d.delete("k < 100"),
    "update": lambda d, engine, where: d.update({"g": "g + 1"}, where="k % 10 = 4"),
    "in place": in_place,
    "compact": lambda d, engine, where: d.optimize.compact_files(target_rows_per_fragment=500),
    "replace": lambda d, engine, where: d.create_index(
        "v", "IVF_SQ", name="near", num_partitions=1, metric="l2", replace=True
    ),
    "drop": lambda d, engine, where: d.drop_index("near"),
    "optimize": lambda d, engine, where: d.optimize.optimize_indices(),
    "overwrite": lambda d, engine, where: engine.write_dataset(rows(0, 150), where, mode="overwrite"),
}
LATE: dict[str, Callable[[lancelet.LanceDataset], object]] = {
    "build": lambda d: d.create_index(
        "v", "IVF_PQ", name="near", num_partitions=2, num_sub_vectors=4, num_bits=4, replace=True
    ),
    "graphs": lambda d: d.create_index("v", "IVF_HNSW_SQ", name="near", num_partitions=1, replace=True),
    "extend": lambda d: d.optimize.optimize_indices(num_indices_to_merge=0),
    "merge": lambda d: d.optimize.optimize_indices(num_indices_to_merge=1),
    "compact": lambda d: d.optimize.compact_files(target_rows_per_fragment=500),
}


def check(where: Path) -> None:
    for seed in (1, 2):
        query = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
        check_searches(lancelet.dataset(where), lance.dataset(where), query, 10)


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("engine", ["pylance", pytest.param("ours", marks=pytest.mark.soak)])
@pytest.mark.parametrize("first", FIRST)
def test_what_comes_second(tmp_path: Path, template: Path, first: str, engine: str) -> None:
    for number, (late, act) in enumerate(LATE.items()):
        where = shutil.copytree(template, tmp_path / str(number))
        behind = lancelet.dataset(where)
        FIRST[first](ENGINES[engine].dataset(where), ENGINES[engine], where)
        if first == "overwrite":
            before = lance.dataset(where).version
            with pytest.raises(CommitConflict):
                act(behind)
            assert lance.dataset(where).version == before, late
        else:
            act(behind)
        check(where)
        report = lancelet.dataset(where).verify(deep=True)
        assert report.ok, (late, report)
        lancelet.dataset(where).optimize.optimize_indices()
        check(where)


@pytest.mark.parametrize("first", ["append", "delete", "remove", "update"])
def test_parts_can_follow(tmp_path: Path, template: Path, first: str) -> None:
    where = shutil.copytree(template, tmp_path / "t")
    behind = lancelet.dataset(where)
    given = {"ivf_centroids": np.eye(2, DIMENSION, dtype=np.float32)}
    parts = [behind.create_index_uncommitted("v", "IVF_SQ", "parts", fragment_ids=[n], **given) for n in (0, 1, 2)]
    behind.drop_index("near")
    FIRST[first](lance.dataset(where), lance, where)
    behind.commit_existing_index_segments("near", "v", parts)
    check(where)


def test_parts_cannot_follow_a_rewrite_of_their_fragments(tmp_path: Path, template: Path) -> None:
    where = shutil.copytree(template, tmp_path / "t")
    behind = lancelet.dataset(where)
    part = behind.create_index_uncommitted("v", "IVF_FLAT", "parts", num_partitions=2, fragment_ids=[0, 1])
    FIRST["compact"](lance.dataset(where), lance, where)
    with pytest.raises(RetryableCommitConflict):
        behind.commit_existing_index_segments("parts", "v", [part])
    check(where)


def test_many_at_once(tmp_path: Path, template: Path) -> None:
    """A builder, an optimizer, a compaction and writers, all at the same time."""
    where = shutil.copytree(template, tmp_path / "t")
    acts: list[Callable[[], object]] = [
        *(lambda late=late: LATE[late](lancelet.dataset(where)) for late in ("build", "merge", "compact")),
        *(lambda at=at: lancelet.write_dataset(rows(400 + at, 20), where, mode="append") for at in (0, 20)),
        lambda: lancelet.dataset(where).delete("k % 50 = 22"),
    ]
    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(act) for act in acts]:
            done.result()
    check(where)
    lancelet.dataset(where).optimize.optimize_indices()
    check(where)
