"""Indices after a compaction of ours: pylance finds through them what it finds without, whatever happens next."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64

import lancelet
from drawing import seeds
from lancelet.errors import NotSupported, RetryableCommitConflict
from lancelet.format.proto import table_pb2
from lancelet.index.fragment_reuse import FragmentReuse
from lancelet.index.metadata import read_indices
from lancelet.optimize import Compaction
from lancelet.table.commit import fragment_reuse
from lancelet.table.commit import operations as ops
from lancelet.table.commit.fragment_reuse import read_rewrites
from lancelet.table.commit.run import commit

ROWS = 600
COLUMNS = {
    "btree": "BTREE",
    "bitmap": "BITMAP",
    "zones": "ZONEMAP",
    "bloom": "BLOOMFILTER",
    "labels": "LABEL_LIST",
    "grams": "NGRAM",
    "words": "INVERTED",
    "vector": "IVF_PQ",
}
FILTERS = [
    "btree = 150",
    "btree > 1100 and btree < 1400",
    "not (btree < 1700)",
    "btree is null",
    "bitmap = 3",
    "bitmap in (1, 5)",
    "bitmap is null",
    "zones between 333 and 350",
    "zones > 1790",
    "bloom = 444",
    "array_has_any(labels, [2])",
    "contains(grams, 'word88')",
]
BY_ADDRESS = {"zones", "bloom"}
"""The same for tables with stable row ids, where the others name rows by id, or are written anew."""
LEFT_BEHIND = {"zones", "bloom"}
"""Indices that a compaction does not write anew: the new fragments are not covered until they are extended."""


def table(first: int, count: int = ROWS) -> pa.Table:
    keys = np.arange(first, first + count)
    rng = np.random.default_rng(first)
    return pa.table(
        {
            "k": keys,
            "btree": pa.array([None if key % 97 == 0 else int(key) for key in keys]),
            "bitmap": pa.array([None if key % 50 == 0 else int(key % 7) for key in keys]),
            "zones": keys,
            "bloom": keys,
            "labels": [[int(key % 5)] for key in keys],
            "grams": [f"word{key}" for key in keys],
            "words": [f"word{key % 50} text" for key in keys],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(count * 8, np.float32)), 8),
        }
    )


Indexed = Callable[..., None]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    """Puts a table that pylance indexed in a place; each kind of table is made once, and copied."""
    folder = tmp_path_factory.mktemp("indexed")

    def put(where: Path, *, fragments: int = 3, stable: bool = False, names: Sequence[str] = tuple(COLUMNS)) -> None:
        original = folder / f"{fragments}-{stable}-{'-'.join(names)}"
        if not original.exists():
            make_indexed(original, fragments, stable, names)
        shutil.copytree(original, where)

    return put


def make_indexed(where: Path, fragments: int, stable: bool, names: Sequence[str]) -> None:
    """Fragments with deleted rows under an index of each kind, a deletion since, and a fragment without indices."""
    for number in range(fragments):
        mode = "append" if number else "create"
        lance.write_dataset(table(number * ROWS), where, mode=mode, enable_stable_row_ids=stable)
    dataset = lance.dataset(where)
    dataset.delete("k in (3, 4, 605)")
    for name in names:
        if name == "vector":
            dataset.create_index("vector", "IVF_PQ", num_partitions=2, num_sub_vectors=2)
        else:
            dataset.create_scalar_index(name, COLUMNS[name])
    dataset.delete("k = 444 or k % 20 = 7")
    lance.write_dataset(table(fragments * ROWS, 50), where, mode="append")


def check(where: Path) -> None:
    """pylance gives the same answers through the indices and without them."""
    dataset = lance.dataset(where)
    for text in FILTERS:
        found = dataset.to_table(["k"], filter=text, use_scalar_index=True)["k"].to_pylist()
        expected = dataset.to_table(["k"], filter=text, use_scalar_index=False)["k"].to_pylist()
        assert sorted(found) == sorted(expected), text
        assert sorted(lancelet.dataset(where).to_table(["k"], filter=text)["k"].to_pylist()) == sorted(expected), text
    kinds = {index.name for index in dataset.describe_indices()}
    whole = dataset.to_table(["k", "words", "vector"])
    if "words_idx" in kinds:
        found = dataset.to_table(["k", "_score"], full_text_query="word7")["k"].to_pylist()
        expected = [row["k"] for row in whole.to_pylist() if row["words"].startswith("word7 ")]
        assert sorted(found) == sorted(expected)
    if "vector_idx" in kinds and whole.num_rows:
        target = whole["vector"][whole.num_rows // 2].as_py()
        near = {"column": "vector", "q": target, "k": 10, "nprobes": 2, "refine_factor": 100}
        found = dataset.to_table(["k", "_distance"], nearest=near)["k"].to_pylist()
        expected = dataset.to_table(["k", "_distance"], nearest=near | {"use_index": False})["k"].to_pylist()
        assert set(found) == set(expected)
    dataset.validate()


def coverage(where: Path) -> dict[str, set[int] | None]:
    found = read_indices(lancelet.dataset(where).table.snapshot.manifest)
    return {index.name: None if index.fragment_ids is None else set(index.fragment_ids) for index in found}


def used(where: Path, text: str) -> bool:
    return "ScalarIndexQuery" in lance.dataset(where).scanner(filter=text).explain_plan()


@pytest.mark.parametrize("mode", ["deferred", "plain", "stable"])
def test_pylance_finds_the_rows(tmp_path: Path, mode: str, indexed: Indexed) -> None:
    where = tmp_path / "t"
    indexed(where, stable=mode == "stable")
    check(where)
    ours = lancelet.dataset(where)
    expected = ours.to_table().sort_by("k")
    done = ours.optimize.compact_files(defer_index_remap=mode == "deferred")
    # The fragment without indices stays apart.
    assert (done.fragments_removed, done.fragments_added) == (3, 1)
    assert ours.to_table().sort_by("k") == expected
    lost = {"deferred": set(), "plain": LEFT_BEHIND, "stable": BY_ADDRESS}[mode]
    covered = coverage(where)
    for name in COLUMNS:
        there = {0, 1, 2} if mode == "deferred" else {4}
        # Fragments that are gone may stay in the entries of those that lost them.
        gone = {0, 1, 2} if mode == "plain" else set()
        assert covered[f"{name}_idx"] - gone == (set() if name in lost else there), name
    assert ("__lance_frag_reuse" in covered) is (mode == "deferred")
    check(where)
    for text, name in (("btree = 150", "btree"), ("bitmap = 3", "bitmap"), ("zones = 333", "zones")):
        assert used(where, text) is (name not in lost)


def test_entry_is_that_of_pylance(tmp_path: Path, indexed: Indexed) -> None:
    where, copy = tmp_path / "t", tmp_path / "theirs"
    indexed(where, names=["btree"])
    shutil.copytree(where, copy)
    lancelet.dataset(where).optimize.compact_files(defer_index_remap=True)
    lance.dataset(copy).optimize.compact_files(defer_index_remap=True)
    ours, theirs = (
        next(
            index
            for index in lancelet.dataset(place).table.snapshot.manifest.indices
            if index.name == "__lance_frag_reuse"
        )
        for place in (where, copy)
    )
    assert ours.index_details == theirs.index_details
    for field in ("name", "fields", "dataset_version", "fragment_bitmap", "index_version"):
        assert getattr(ours, field) == getattr(theirs, field), field


def again(where: Path, **options: Any) -> None:
    lancelet.dataset(where).optimize.compact_files(target_rows_per_fragment=10**7, **options)


def by_pylance(where: Path, **options: Any) -> None:
    lance.dataset(where).optimize.compact_files(target_rows_per_fragment=10**7, **options)


def appended(where: Path) -> None:
    lancelet.write_dataset(table(5000, 40), where, mode="append")


STEPS: dict[str, Callable[[Path], Any]] = {
    "append": appended,
    "delete": lambda where: lancelet.dataset(where).delete("k % 11 = 1"),
    "delete-most": lambda where: lancelet.dataset(where).delete("k > 100"),
    "delete-by-pylance": lambda where: lance.dataset(where).delete("k % 11 = 1"),
    "update": lambda where: lancelet.dataset(where).update({"btree": "9999", "bitmap": "3"}, where="k % 9 = 2"),
    "update-by-pylance": lambda where: lance.dataset(where).update({"btree": "9999"}, where="k % 9 = 2"),
    "compact": again,
    "compact-deferred": lambda where: again(where, defer_index_remap=True),
    "compact-by-pylance": by_pylance,
    "compact-deferred-by-pylance": lambda where: by_pylance(where, defer_index_remap=True),
    "extend-indices": lambda where: lance.dataset(where).optimize.optimize_indices(),
    "new-index": lambda where: lance.dataset(where).create_scalar_index("k", "BTREE", replace=True),
    "new-index-again": lambda where: lance.dataset(where).create_scalar_index("btree", "BTREE", replace=True),
}
HISTORIES = [
    ["append", "delete", "compact", "update", "compact"],
    ["delete-by-pylance", "append", "compact", "compact-by-pylance", "append", "compact"],
    ["update-by-pylance", "extend-indices", "append", "compact", "extend-indices", "append", "compact"],
    ["new-index", "append", "compact", "new-index-again", "delete-most", "compact", "extend-indices", "compact"],
]
DEFERRED_HISTORIES = [
    ["append", "delete", "compact-deferred", "update", "compact-deferred"],
    ["update-by-pylance", "compact-deferred-by-pylance", "append", "compact-deferred", "extend-indices", "append"],
]


def follow(where: Path, history: list[str]) -> None:
    for step in history:
        before = lancelet.dataset(where).to_table(["k"]).sort_by("k")
        STEPS[step](where)
        if "compact" in step or "index" in step:
            assert lancelet.dataset(where).to_table(["k"]).sort_by("k") == before
        check(where)


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history[0])
@pytest.mark.spread(0.5, each=False)
def test_whatever_happens_next(tmp_path: Path, history: list[str], indexed: Indexed) -> None:
    indexed(tmp_path / "t")
    follow(tmp_path / "t", ["compact", *history])


@pytest.mark.parametrize("history", DEFERRED_HISTORIES, ids=lambda history: history[0])
def test_whatever_happens_after_deferring(tmp_path: Path, history: list[str], indexed: Indexed) -> None:
    indexed(tmp_path / "t")
    follow(tmp_path / "t", ["compact-deferred", *history])


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["deferred", "plain", "stable"])
@pytest.mark.parametrize("seed", seeds(0, 40))
def test_drawn_histories(tmp_path: Path, seed: int, mode: str, indexed: Indexed) -> None:
    indexed(tmp_path / "t", stable=mode == "stable")
    # Once deferred, pylance must go on deferring.
    plain = ("compact", "compact-by-pylance")
    steps = [step for step in STEPS if (step not in plain if mode == "deferred" else "deferred" not in step)]
    follow(tmp_path / "t", np.random.default_rng(seed).choice(steps, 10).tolist())


def test_values_that_change_after_a_rewrite(tmp_path: Path, indexed: Indexed) -> None:
    """The index still names the old fragments; a change of the new one must reach it."""
    where = tmp_path / "t"
    indexed(where, names=["btree", "bitmap"])
    again(where, defer_index_remap=True)
    ours = lancelet.dataset(where)
    (new,) = [fragment for fragment in ours.get_fragments() if fragment.fragment_id == 4]
    count = new.count_rows()
    fresh = pa.table({"btree": pa.array(range(70_000, 70_000 + count), pa.int64())})
    aside = lancelet.write_dataset(fresh, tmp_path / "aside")
    file = aside.get_fragments()[0].metadata.files[0]
    shutil.copy(tmp_path / "aside" / "data" / file.path, where / "data" / file.path)
    field = next(field.id() for field in ours.lance_schema.fields() if field.name() == "btree")
    file.fields = [field]
    replacement = lancelet.LanceOperation.DataReplacementGroup(4, file)
    operation = lancelet.LanceOperation.DataReplacement([replacement])
    lancelet.LanceDataset.commit(ours, operation, read_version=ours.version)
    covered = coverage(where)
    assert covered["btree_idx"] == set()
    assert covered["bitmap_idx"] == {4}
    dataset = lance.dataset(where)
    assert dataset.count_rows("btree = 70003") == 1
    assert dataset.count_rows("btree = 150") == 0
    check(where)


def test_segments_of_an_index_survive(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lance.write_dataset(table(0, 100), where, max_rows_per_file=50)
    dataset = lance.dataset(where)
    dataset.create_scalar_index("btree", "BTREE")
    dataset = lance.write_dataset(table(100, 100), where, mode="append", max_rows_per_file=50)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    ours = lancelet.dataset(where)
    assert ours.optimize.compact_files(defer_index_remap=True).fragments_added == 2
    # Neither segment covers a live fragment by name; both still answer.
    ours.delete("k = 1")
    segments = read_indices(ours.table.snapshot.manifest)
    assert sorted(sorted(index.fragment_ids or ()) for index in segments if index.name == "btree_idx") == [[4], [5]]
    assert used(where, "btree = 150")
    assert lance.dataset(where).to_table(filter="btree in (20, 150)")["k"].to_pylist() == [20, 150]


def test_long_lists_go_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: Indexed) -> None:
    monkeypatch.setattr(fragment_reuse, "INLINE_BYTES", 10)
    where = tmp_path / "t"
    indexed(where, names=["btree", "bitmap"])
    again(where, defer_index_remap=True)
    check(where)
    lancelet.dataset(where).delete("k % 4 = 3")
    again(where, defer_index_remap=True)
    check(where)
    assert len(list(where.glob("_indices/*/details.binpb"))) == 2


def test_what_no_index_needs_is_forgotten(tmp_path: Path, indexed: Indexed) -> None:
    where = tmp_path / "t"
    indexed(where, names=["btree"])
    again(where, defer_index_remap=True)
    assert len(read_rewrites(lancelet.dataset(where).table.snapshot)) == 1
    lance.dataset(where).create_scalar_index("btree", "BTREE", replace=True)
    lancelet.dataset(where).delete("k % 3 = 0")
    again(where, defer_index_remap=True)
    assert len(read_rewrites(lancelet.dataset(where).table.snapshot)) == 1
    check(where)


def test_addresses_can_be_followed(tmp_path: Path, indexed: Indexed) -> None:
    """What an index search will do: old addresses of rows to new ones, through several rewrites."""
    where = tmp_path / "t"
    indexed(where, names=["btree"])
    first = lance.dataset(where).to_table(["k"], with_row_address=True)
    again(where, defer_index_remap=True)
    lancelet.dataset(where).delete("k % 5 = 0")
    again(where, defer_index_remap=True)
    now = lance.dataset(where).to_table(["k"], with_row_address=True)
    known = dict(zip(now["k"].to_pylist(), now["_rowaddr"].to_pylist(), strict=True))
    reuse = FragmentReuse.of(lancelet.dataset(where).table.snapshot)
    assert reuse is not None
    addresses, kept = reuse.follow(first["_rowaddr"].to_numpy())
    assert len(reuse.rewrites) == 2
    for key, address, live in zip(first["k"].to_pylist(), addresses.tolist(), kept.tolist(), strict=True):
        assert (known.get(key) == address) if live else (key not in known)
    assert kept.sum() == len(known)


def test_without_an_index_nothing_is_recorded(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lance.write_dataset(table(0), where, max_rows_per_file=100)
    lancelet.dataset(where).optimize.compact_files(defer_index_remap=True)
    assert coverage(where) == {}


def test_deferring_is_refused_with_stable_row_ids(tmp_path: Path, indexed: Indexed) -> None:
    where = tmp_path / "t"
    indexed(where, stable=True, names=["btree"])
    for dataset in (lancelet.dataset(where), lance.dataset(where)):
        with pytest.raises(OSError, match="stable row"):
            dataset.optimize.compact_files(defer_index_remap=True)
    with pytest.raises(NotSupported):
        Compaction.plan(lancelet.dataset(where), {"defer_index_remap": True})


def test_an_index_made_meanwhile(tmp_path: Path) -> None:
    """Built on the old fragments, so that the rewrite has to begin again."""
    where = tmp_path / "t"
    lance.write_dataset(table(0), where, max_rows_per_file=100)
    ours = lancelet.dataset(where)
    results = [task.execute(ours) for task in Compaction.plan(ours, {}).tasks]
    lance.dataset(where).create_scalar_index("bitmap", "BITMAP")
    with pytest.raises(RetryableCommitConflict, match="CreateIndex"):
        Compaction.commit(ours, results)
    lancelet.dataset(where).optimize.compact_files()
    assert used(where, "bitmap = 3")
    check(where)


def test_an_index_of_half_a_group_made_meanwhile(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lance.write_dataset(table(0), where, max_rows_per_file=100)
    ours = lancelet.dataset(where)
    results = [task.execute(ours) for task in Compaction.plan(ours, {}).tasks]
    lance.dataset(where).create_scalar_index("bitmap", "BITMAP")
    snapshot = lancelet.dataset(where).table.snapshot
    (entry,) = snapshot.manifest.indices
    half = table_pb2.IndexMetadata()
    half.CopyFrom(entry)
    half.fragment_bitmap = BitMap([0, 1]).serialize()
    segments = tuple(ops.IndexSegment.of(index) for index in (half, entry))
    commit(snapshot, ops.CreateIndex(segments[:1], segments[1:]))
    with pytest.raises(RetryableCommitConflict, match="CreateIndex"):
        Compaction.commit(ours, results)
    assert ours.optimize.compact_files().fragments_added == 2
    assert used(where, "bitmap = 3")
    check(where)


def test_survivors_are_ordered_by_fragment(tmp_path: Path, indexed: Indexed) -> None:
    where = tmp_path / "t"
    indexed(where, names=["btree"])
    expected = lance.dataset(where).to_table(["k"], with_row_address=True)["_rowaddr"].to_pylist()
    again(where, defer_index_remap=True)
    (rewrite,) = read_rewrites(lancelet.dataset(where).table.snapshot)
    found = list(BitMap64.deserialize(rewrite.groups[0].changed_row_addrs))
    assert found == expected[: len(found)]
