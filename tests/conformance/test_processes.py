"""A dataset crosses processes: pickled, forked after use, and used from many threads."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pytest

import lancelet
from conformance.states import append, create, rows
from lancelet.testing import assert_identical

OPTIONS: dict[str, Any] = {"data_storage_version": "2.2"}


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processes") / "t"
    create(path, OPTIONS).delete("k = 5")
    return path


def test_pickle_keeps_table_and_version(tmp_path: Path) -> None:
    create(tmp_path / "t", OPTIONS)
    dataset = lancelet.dataset(tmp_path / "t")
    dataset.to_table()
    append(tmp_path / "t", rows(9, 600), OPTIONS)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(dataset, protocol))
        assert (copy.version, copy.count_rows(), copy.uri) == (1, 600, dataset.uri)
        assert_identical(copy.to_table(), dataset.to_table())


def test_a_pickle_is_small(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.to_table()
    assert len(pickle.dumps(dataset)) < 20_000


def test_fragments_and_errors_pickle(where: Path) -> None:
    fragment = pickle.loads(pickle.dumps(lancelet.dataset(where).get_fragments()[1]))
    assert (fragment.fragment_id, fragment.count_rows()) == (1, 200)
    with pytest.raises(lancelet.errors.UnknownColumn) as caught:
        lancelet.dataset(where).to_table(["nothing"])
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# A fresh interpreter: pytest's own process holds pylance and its threads, which do not survive a fork.
FORK = """
import multiprocessing, sys, warnings
import lancelet

def work(rows):
    return dataset.to_table(filter="k >= 0").num_rows + dataset.take(rows).num_rows

dataset = lancelet.dataset(sys.argv[1])
dataset.to_table()
dataset.take([1, 2, 3])
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map_async(work, [[1, 2], [300], [7, 7, 7]]).get(60))
print(work([1]))
"""


def test_fork_after_use(where: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(where)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[601, 600, 602]", "600"]


def test_spawned_workers(where: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(_count, (lancelet.dataset(where),)).get(120) == 599


def _count(dataset: Any) -> int:
    return dataset.count_rows("k >= 0")


def test_many_threads_one_dataset(where: Path) -> None:
    dataset = lancelet.dataset(where)
    expected = lance.dataset(where).to_table()

    def work(number: int) -> None:
        if number % 3 == 0:
            assert_identical(dataset.to_table(), expected)
        elif number % 3 == 1:
            assert_identical(dataset.take([number, 598, number]), expected.take([number, 598, number]))
        else:
            assert dataset.count_rows(f"k > {number}") == 599 - number - (number < 5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(60)))
