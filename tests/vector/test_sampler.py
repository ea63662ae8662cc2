"""Samplers give every process its part of a table, the same at every run, and samples are rows by chance."""

from __future__ import annotations

import inspect
from pathlib import Path

import lance
import lance.sampler
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from lancelet import sampler
from lancelet._api.sampling import draw
from lancelet.errors import InvalidInput, MissingPackage

ROWS = 1000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of ten fragments, with some rows deleted."""
    path = tmp_path_factory.mktemp("sampler") / "table"
    dataset = lancelet.write_dataset(
        pa.table({"id": range(ROWS), "word": [f"w{number}" for number in range(ROWS)]}), path, max_rows_per_file=100
    )
    dataset.delete("id % 7 = 3")
    return path


def ids(batches) -> list[list[int]]:
    return [batch["id"].to_pylist() for batch in batches]


def flat(batches) -> list[int]:
    return [number for batch in ids(batches) for number in batch]


def both(place: Path, kind: str, *how, **options):
    """What our sampler gives, and what pylance's does."""
    ours = getattr(sampler, kind)(*how)(lancelet.dataset(place), **options)
    theirs = getattr(lance.sampler, kind)(*how)(lance.dataset(str(place)), **options)
    return ids(ours), ids(theirs)


@pytest.mark.parametrize("kind", ["ShardedFragmentSampler", "ShardedBatchSampler"])
@pytest.mark.parametrize("how", [(0, 1), (0, 3), (2, 3), (11, 12), (1, 2, True, 0), (1, 3, True, 5)])
def test_parts_are_those_of_pylance(place: Path, kind: str, how: tuple) -> None:
    ours, theirs = both(place, kind, *how, batch_size=30, columns=["id"])
    assert ours == theirs


@pytest.mark.parametrize("rank", range(3))
def test_rows_that_pass_a_filter_are_dealt_out_as_pylance_does(place: Path, rank: int) -> None:
    ours, theirs = both(place, "ShardedBatchSampler", rank, 3, batch_size=30, filter="id % 2 = 0")
    assert ours == theirs


@pytest.mark.parametrize("kind", ["ShardedFragmentSampler", "ShardedBatchSampler"])
@pytest.mark.parametrize("condition", [None, "id % 2 = 0"])
@pytest.mark.parametrize("randomize", [False, True])
def test_the_parts_of_all_processes_are_the_table(
    place: Path, kind: str, condition: str | None, randomize: bool
) -> None:
    dataset = lancelet.dataset(place)
    parts = [
        flat(getattr(sampler, kind)(rank, 4, randomize, 3)(dataset, batch_size=17, filter=condition))
        for rank in range(4)
    ]
    expected = dataset.to_table(filter=condition)["id"].to_pylist()
    assert sorted(number for part in parts for number in part) == expected


@pytest.mark.parametrize("kind", ["ShardedFragmentSampler", "ShardedBatchSampler"])
@pytest.mark.parametrize("condition", [None, "id % 2 = 0"])
def test_an_order_by_chance_is_that_of_its_seed_and_epoch(place: Path, kind: str, condition: str | None) -> None:
    dataset = lancelet.dataset(place)

    def order(seed: int, epoch: int) -> list[int]:
        one = getattr(sampler, kind)(0, 1, randomize=True, seed=seed)
        one.set_epoch(epoch)
        return flat(one(dataset, batch_size=20, filter=condition))

    assert order(1, 0) == order(1, 0)
    assert order(1, 1) == order(2, 0)
    assert len({tuple(order(1, epoch)) for epoch in range(4)}) == 4


def test_a_full_scan(place: Path) -> None:
    ours, theirs = both(place, "FullScanSampler", batch_size=64, columns=["id"], filter="id < 300")
    assert ours == theirs
    batch = next(
        iter(sampler.FullScanSampler()(lancelet.dataset(place), columns={"twice": "id * 2"}, with_row_id=True))
    )
    assert batch.schema.names == ["twice", "_rowid"]


@pytest.mark.parametrize(
    "how", [{}, {"randomize": True}, {"filter": "id > 5"}, {"randomize": True, "filter": "id > 5"}]
)
@pytest.mark.parametrize("columns", [None, ["id"], {"id": "id"}])
def test_batches_have_row_ids_when_asked(place: Path, how: dict, columns: list[str] | dict[str, str] | None) -> None:
    dataset = lancelet.dataset(place)
    randomize = how.pop("randomize", False) if (how := dict(how)) else False
    batches = sampler.ShardedBatchSampler(0, 2, randomize)(dataset, with_row_id=True, columns=columns, **how)
    for batch in batches:
        assert dataset._take_rows(batch["_rowid"].to_pylist(), ["id"])["id"].to_pylist() == batch["id"].to_pylist()


@pytest.mark.parametrize("how", [(1000, 4, 100), (50, 3, 7), (0, 2, 3), (1, 4, 3), (12, 4, 3)])
@pytest.mark.parametrize("randomize", [False, True])
def test_row_numbers_in_batches(how: tuple[int, int, int], randomize: bool) -> None:
    total, world, size = how
    for rank in range(world):
        options = {"randomize": randomize, "seed": 3, "batch_size": size, "total_num_rows": total}
        ours = sampler.ShardedFixedBatchSampler(rank, world, **options)
        theirs = lance.sampler.ShardedFixedBatchSampler(rank, world, **options)
        for epoch in range(3):
            ours.set_epoch(epoch)
            theirs.set_epoch(epoch)
            assert [batch for batch in ours if batch] == [batch for batch in theirs if batch]
        assert len(ours) == len(list(ours))


def test_a_subclass_chooses_its_fragments(place: Path) -> None:
    class Backwards(sampler.FragmentSampler):
        def iter_fragments(self, ds, *args, **kwargs):
            return reversed(ds.get_fragments())

    batches = list(Backwards()(lancelet.dataset(place), batch_size=200))
    assert [batch["id"][0].as_py() // 100 for batch in batches] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 3000), st.integers(0, 3500), st.integers(1, 50), st.integers(0, 5))
def test_rows_are_drawn_once_each_in_few_runs(total: int, n: int, max_takes: int, seed: int) -> None:
    rows = draw(total, n, max_takes, np.random.default_rng(seed))
    assert len(rows) == len(set(rows.tolist())) == min(n, total)
    assert ((rows >= 0) & (rows < total)).all()
    if max_takes < n < total:
        assert 1 + np.count_nonzero(np.diff(rows) != 1) <= max_takes + 1


def test_every_row_can_be_drawn() -> None:
    drawn = set()
    for seed in range(60):
        drawn.update(draw(103, 20, 5, np.random.default_rng(seed)).tolist())
    assert drawn == set(range(103))


@pytest.mark.parametrize("how", [{}, {"max_takes": 4}, {"filt": "id % 2 = 0"}, {"filt": "id % 2 = 0", "max_takes": 3}])
def test_a_sample_has_as_many_rows_as_asked(place: Path, how: dict) -> None:
    dataset = lancelet.dataset(place)
    batches = list(sampler.maybe_sample(dataset, 50, ["id", "word"], batch_size=20, **how))
    assert [batch.num_rows for batch in batches] == [20, 20, 10]
    assert len(set(flat(batches))) == 50
    assert set(flat(batches)) <= set(dataset.to_table(filter=how.get("filt"))["id"].to_pylist())
    assert all(batch["word"].to_pylist() == [f"w{number}" for number in batch["id"].to_pylist()] for batch in batches)


def test_a_seed_repeats_a_sample(place: Path) -> None:
    first, second, other = (flat(sampler.maybe_sample(place, 50, "id", seed=seed)) for seed in (1, 1, 2))
    assert first == second != other
    assert sampler.reservoir_sampling(range(100), 5, seed=1) == sampler.reservoir_sampling(range(100), 5, seed=1)
    assert sorted(sampler.reservoir_sampling(range(3), 5)) == [0, 1, 2]


@pytest.mark.parametrize("n", [857, 858, 5000])
def test_a_sample_of_no_fewer_rows_is_the_table(place: Path, n: int) -> None:
    theirs = ids(lance.sampler.maybe_sample(str(place), n, ["id"], batch_size=100))
    assert ids(sampler.maybe_sample(str(place), n, "id", batch_size=100)) == theirs


def test_what_makes_no_sense_is_refused(place: Path) -> None:
    dataset = lancelet.dataset(place)
    with pytest.raises(InvalidInput, match="no rank 3 among 2"):
        sampler.ShardedFragmentSampler(3, 2)
    with pytest.raises(InvalidInput, match="no rank 0 among 0"):
        sampler.ShardedBatchSampler(0, 0)
    with pytest.raises(InvalidInput, match="batch_size is 1 or more"):
        next(sampler.ShardedBatchSampler(0, 1)(dataset, batch_size=0))
    with pytest.raises(InvalidInput, match="batch_size is 1 or more"):
        sampler.ShardedFixedBatchSampler(0, 1, total_num_rows=3)
    with pytest.raises(InvalidInput, match="cannot sample -1 rows"):
        sampler.maybe_sample(dataset, -1, "id")
    with pytest.raises(ValueError, match="nope"):
        list(sampler.maybe_sample(dataset, 3, "nope"))
    with pytest.raises(InvalidInput, match="k is 1 or more"):
        sampler.reservoir_sampling([], 0)


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingPackage, match=r"pip install 'lancelet\[torch\]'"):
        sampler.ShardedBatchSampler.from_torch()


@pytest.mark.parametrize("name", lance.sampler.__all__)
def test_all_of_pylance_is_there(name: str) -> None:
    theirs, ours = getattr(lance.sampler, name), getattr(sampler, name)
    if inspect.isclass(theirs):
        theirs, ours = theirs.__init__, ours.__init__
    named = {one.name for one in inspect.signature(theirs).parameters.values()}
    assert named <= {one.name for one in inspect.signature(ours).parameters.values()}
