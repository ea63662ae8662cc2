"""The fragment-reuse index: what it remembers, and whom it concerns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyroaring import BitMap, BitMap64

import lancelet
from lancelet.errors import CorruptFile, NotSupported
from lancelet.format.proto import table_pb2
from lancelet.index import registry  # noqa: F401 - kinds tell the table how their segments name rows
from lancelet.index.fragment_reuse import FragmentReuse
from lancelet.maintenance.compaction.plan import even_parts
from lancelet.table.commit import operations as ops
from lancelet.table.commit.fragment_reuse import Group, Version, advance_coverage, advanced, read_rewrites
from lancelet.table.commit.index_upkeep import REUSE_INDEX, covered_fragments, follow_rows
from lancelet.table.commit.run import commit
from lancelet.table.rows.row_id_write import encode_row_id_parts
from lancelet.table.rows.row_ids import parse_row_ids


def group(old: dict[int, int], new: dict[int, int], survivors: list[int] | None = None) -> Group:
    message = Group()
    for number, count in old.items():
        message.old_fragments.add(id=number, physical_rows=count)
    for number, count in new.items():
        message.new_fragments.add(id=number, physical_rows=count)
    rows = survivors or [number << 32 | row for number, count in old.items() for row in range(count)]
    message.changed_row_addrs = BitMap64(rows).serialize()
    return message


def entry(name: str, covered: list[int], kind: str = "BTreeIndexDetails", version: int = 0) -> table_pb2.IndexMetadata:
    message = table_pb2.IndexMetadata(name=name, fields=[0], index_version=version)
    message.uuid.uuid = name.encode().ljust(16)[:16]
    message.fragment_bitmap = BitMap(covered).serialize()
    message.index_details.type_url = f"/lance.table.{kind}"
    return message


def test_coverage_goes_through_all_rewrites() -> None:
    rewrites = [
        Version(groups=[group({0: 5, 1: 5}, {4: 10}), group({2: 5}, {5: 5})]),
        Version(groups=[group({4: 10, 5: 5}, {6: 15})]),
    ]
    assert advanced([0, 1, 2, 3], rewrites) == {3, 6}
    assert advanced([0, 1, 3], rewrites) == {3, 4}
    # Half of a group's rows are of no use: the new fragment has the others too.
    assert advanced([0, 2], rewrites) == {0, 5}
    assert advanced([4, 5], rewrites) == {6}
    assert advanced([], rewrites) == set()


def test_entries_of_the_system_stay_as_they_are() -> None:
    rewrites = [Version(groups=[group({0: 5}, {1: 5})])]
    indices = [entry("a", [0]), entry(REUSE_INDEX, [0]), table_pb2.IndexMetadata(name="__lance_mem_wal")]
    advanced_entries = advance_coverage(indices, rewrites)
    assert [covered_fragments(index) for index in advanced_entries] == [{1}, {0}, None]
    assert advance_coverage(indices, []) is indices


@pytest.mark.parametrize(
    ("kind", "version", "expected"),
    [
        ("BitmapIndexDetails", 0, {3, 9}),
        ("BitmapIndexDetails", 1, {3}),
        ("LabelListIndexDetails", 1, {3, 9}),
        ("LabelListIndexDetails", 2, {3}),
        ("InvertedIndexDetails", 3, {3, 9}),
        ("VectorIndexDetails", 2, {3, 9}),
        ("BTreeIndexDetails", 1, {3}),
        ("BTreeIndexDetails", 0, {3}),
        ("ZoneMapIndexDetails", 0, {3}),
        ("SomethingNewIndexDetails", 0, {3}),
    ],
)
def test_indices_of_tables_with_stable_row_ids(kind: str, version: int, expected: set[int]) -> None:
    index = follow_rows(entry("a", [0, 1, 3], kind, version), [({0, 1}, {9})])
    assert covered_fragments(index) == expected


def test_addresses_that_are_gone_or_never_moved() -> None:
    kept = [0 << 32 | 1, 0 << 32 | 4, 1 << 32 | 0]
    reuse = FragmentReuse((Version(groups=[group({0: 5, 1: 2}, {7: 2, 8: 1}, kept)]),), "manifest")
    asked = np.array([4, 0, 1 << 32, 5 << 32 | 3, 1, 1 << 32 | 1], np.uint64)
    addresses, live = reuse.follow(asked)
    assert live.tolist() == [True, False, True, True, True, False]
    assert addresses[live].tolist() == [7 << 32 | 1, 8 << 32, 5 << 32 | 3, 7 << 32]
    assert reuse.follow(np.empty(0, np.uint64))[0].tolist() == []


def test_numbers_that_do_not_add_up() -> None:
    wrong = group({0: 5}, {7: 4})
    with pytest.raises(CorruptFile, match="another number"):
        FragmentReuse((Version(groups=[wrong]),), "manifest").follow(np.array([1], np.uint64))
    wrong.changed_row_addrs = b"no bitmap"
    with pytest.raises(CorruptFile, match="Roaring"):
        FragmentReuse((Version(groups=[wrong]),), "manifest").follow(np.array([1], np.uint64))


def with_entry(where: Path, details: bytes, version: int) -> lancelet.LanceDataset:
    """A table with an index and a fragment-reuse entry of any content."""
    dataset = lancelet.write_dataset({"a": range(4)}, where, max_rows_per_file=2)
    reuse = entry(REUSE_INDEX, [], "FragmentReuseIndexDetails", version)
    del reuse.fields[:]
    reuse.index_details.value = details
    segments = tuple(ops.IndexSegment.of(index) for index in (entry("a_idx", [0, 1], "BitmapIndexDetails"), reuse))
    return dataset._at(commit(dataset.table.snapshot, ops.CreateIndex(segments)))


def test_a_form_that_is_not_known(tmp_path: Path) -> None:
    dataset = with_entry(tmp_path / "t", b"", 1)
    assert read_rewrites(dataset.table.snapshot) == ()
    before = sorted(path.name for path in (tmp_path / "t").rglob("*.lance"))
    with pytest.raises(NotSupported, match="fragment-reuse index of version 1"):
        dataset.optimize.compact_files()
    assert sorted(path.name for path in (tmp_path / "t").rglob("*.lance")) == before
    assert dataset.insert({"a": [9]}) is None


def test_details_that_are_damaged(tmp_path: Path) -> None:
    dataset = with_entry(tmp_path / "t", b"\xff\xff\xff", 0)
    assert dataset.count_rows() == 4
    with pytest.raises(CorruptFile, match="fragment-reuse index"):
        dataset.optimize.compact_files()
    with pytest.raises(CorruptFile, match="fragment-reuse index"):
        dataset.insert({"a": [9]})


def test_rows_are_shared_out_evenly() -> None:
    assert even_parts(0, 10) == ()
    assert even_parts(9, 10) == (9,)
    assert even_parts(19, 10) == (19,)
    assert even_parts(20, 10) == (10, 10)
    assert even_parts(37, 10) == (13, 12, 12)


def test_ranges_of_ids_that_go_on_become_one() -> None:
    def encoded(*parts: list[int]) -> bytes:
        return encode_row_id_parts(np.array(part, np.uint64) for part in parts)

    joined = encoded([0, 1, 2], [3, 4], [5])
    assert joined == encoded([0, 1, 2, 3, 4, 5])
    mixed = encoded([7, 8], [3, 1], [2], [3])
    assert parse_row_ids(mixed, 6, "", "").slice(0, 6).tolist() == [7, 8, 3, 1, 2, 3]
