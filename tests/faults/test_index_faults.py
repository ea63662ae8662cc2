"""Indices over a store that fails at any operation: the old indices or the new ones, right answers, no files too many."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import lance
import lance.query
import numpy as np
import pyarrow as pa
import pytest

import lancelet
import lancelet.query
from faults.stores import Fault, FaultyStore, Killed, attempt, files_below
from lancelet.errors import CommitOutcomeUnknown
from lancelet.execution.table_reader import TableReader
from lancelet.format.proto import table_pb2
from lancelet.index.registry import kind_named
from lancelet.indexing.create import create_index, drop_index
from lancelet.indexing.optimize import optimize_indices
from lancelet.indexing.parts import build_part, commit_parts, merge_parts
from lancelet.maintenance.compaction.commit import compact
from lancelet.maintenance.compaction.options import compaction_settings
from lancelet.store import open_store
from lancelet.table.manifest.snapshot import open_snapshot
from vector.brute import check_nearest, distances, vector_array

ROWS = 40
COLUMNS = {
    "BTREE": "k",
    "BITMAP": "c",
    "LABEL_LIST": "l",
    "ZONEMAP": "k",
    "BLOOMFILTER": "c",
    "NGRAM": "t",
    "INVERTED": "t",
}
FILTERS = ("k = 12", "k between 18 and 43 and c <> 'c1'", "c is null or array_has(l, 2)", "contains(t, 'row 1')")
INDICES = "_indices/"
CHANGING = ("begin", "write", "finish", "settle", "put", "delete", "copy")
Change = Callable[[TableReader], object]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "c": [None if n % 9 == 4 else f"c{n % 5}" for n in numbers],
            "l": [[n % 3, n % 4] for n in numbers],
            "t": [f"the row {n}" for n in numbers],
            "v": vector_array(np.array([[n * 7 % 31, n * 3 % 17] * 4 for n in numbers]), "float32"),
        }
    )


def plain(where: Path) -> None:
    lancelet.write_dataset(rows(0, ROWS), where, max_rows_per_file=10).delete("k = 12")


def indexed(where: Path) -> None:
    plain(where)
    dataset = lancelet.dataset(where)
    for kind in ("BTREE", "BITMAP"):
        dataset.create_scalar_index(COLUMNS[kind], kind)


def grown(where: Path) -> None:
    """Rows that no index knows, and an index without any."""
    indexed(where)
    lancelet.dataset(where).create_scalar_index("k", "ZONEMAP", "zones", train=False)
    lancelet.write_dataset(rows(ROWS, 10), where, mode="append")


def in_parts(where: Path) -> None:
    """Two halves of an index that nobody refers to; what they are called is told to nobody but the test."""
    plain(where)
    table = TableReader(open_snapshot(where))
    halves = [build_part(table, "k", kind_named("BTREE"), "parts", half) for half in ([0, 1], [2, 3])]
    (where.parent / f"{where.name}.parts").write_bytes(b"\n--\n".join(half.SerializeToString() for half in halves))


def parts_of(table: TableReader) -> list[table_pb2.IndexMetadata]:
    where = Path(table.snapshot.uri)
    stored = (where.parent / f"{where.name}.parts").read_bytes()
    return [table_pb2.IndexMetadata.FromString(data) for data in stored.split(b"\n--\n")]


def created(kind: str) -> Change:
    return lambda table: create_index(table, COLUMNS[kind], kind_named(kind))


def nearest(kind: str, **options: Any) -> Change:
    """A vector index built."""
    vectors = kind_named(kind)
    told = vectors.options_of(kind, {"num_partitions": 2, "metric": "l2", **options})
    return lambda table: create_index(table, "v", vectors, options=told)


VECTORS = {
    "IVF_FLAT": nearest("IVF_FLAT"),
    "IVF_SQ": nearest("IVF_SQ"),
    "IVF_PQ": nearest("IVF_PQ", num_sub_vectors=4, num_bits=4),
    "IVF_RQ": nearest("IVF_RQ"),
    "IVF_HNSW_SQ": nearest("IVF_HNSW_SQ"),
}


def near(where: Path) -> None:
    plain(where)
    VECTORS["IVF_PQ"](TableReader(open_snapshot(where)))


def near_and_grown(where: Path) -> None:
    near(where)
    lancelet.write_dataset(rows(ROWS, 10), where, mode="append")


def worded(table: TableReader) -> object:
    """A text index built, with places of words."""
    texts = kind_named("INVERTED")
    return create_index(table, "t", texts, options={"with_position": True})


def told(where: Path) -> None:
    plain(where)
    worded(TableReader(open_snapshot(where)))


def told_and_grown(where: Path) -> None:
    told(where)
    lancelet.write_dataset(rows(ROWS, 10), where, mode="append")


def compacted(table: TableReader) -> object:
    return compact(table, compaction_settings({"target_rows_per_fragment": 100}, table.snapshot.manifest))


CHANGES: dict[str, tuple[Callable[[Path], None], Change]] = {
    "create": (plain, created("BTREE")),
    "replace": (indexed, created("BTREE")),
    "optimize": (grown, optimize_indices),
    "extend": (grown, lambda table: optimize_indices(table, merged=0, names=["k_idx"])),
    "compact": (grown, compacted),
    "drop": (indexed, lambda table: drop_index(table, "k_idx")),
    "nearest": (plain, VECTORS["IVF_PQ"]),
    "nearest replaced": (near, VECTORS["IVF_HNSW_SQ"]),
    "nearest extended": (near_and_grown, lambda table: optimize_indices(table, merged=0)),
    "nearest merged": (near_and_grown, lambda table: optimize_indices(table, merged=1)),
    "nearest compacted": (near_and_grown, compacted),
    "nearest dropped": (near, lambda table: drop_index(table, "v_idx")),
    "parts": (in_parts, lambda table: commit_parts(table, "parts", "k", parts_of(table))),
    "texts replaced": (told, worded),
    "texts extended": (told_and_grown, lambda table: optimize_indices(table, merged=0)),
    "texts merged": (told_and_grown, lambda table: optimize_indices(table, merged=1)),
    "texts compacted": (told_and_grown, compacted),
}


IN_ALL_WAYS = ("create", "drop", "nearest", "parts")
IN_SOAKS = ("texts replaced", "texts extended", "texts compacted")


def indices(where: Path) -> dict[str, tuple[str, int]]:
    """Every segment: the name of its index, and how many fragments it covers."""
    dataset = lance.dataset(where)
    live = {fragment.fragment_id for fragment in dataset.get_fragments()}
    return {
        segment.uuid: (index.name, len(live & set(segment.fragment_ids)))
        for index in dataset.describe_indices()
        for segment in index.segments
    }


def shape(before: dict[str, Any], after: dict[str, Any]) -> frozenset[tuple[str, int, bool]]:
    """What the segments are, apart from the names of new ones."""
    return frozenset((*what, uuid in before) for uuid, what in after.items())


def index_files(where: Path) -> set[str]:
    return {file for file in files_below(where) if file.startswith(INDICES)}


def referenced(where: Path) -> set[str]:
    return {file for file in index_files(where) if file.split("/")[1] in indices(where)}


@cache
def answers(more: bool) -> dict[str, list[int]]:
    """Brute force, on a table that has no index."""
    numbers = [n for n in range(ROWS + 10 * more) if n != 12]
    whole = lancelet.write_dataset(rows(0, ROWS + 10 * more), f"memory://answers/{more}", mode="overwrite")
    found = {text: whole.to_table(["k"], filter=text)["k"].to_pylist() for text in FILTERS}
    return {text: [n for n in found[text] if n in numbers] for text in FILTERS}


def check_answers(where: Path, label: str) -> None:
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    for text, wanted in answers(ours.count_rows() > ROWS).items():
        assert sorted(ours.to_table(["k"], filter=text)["k"].to_pylist()) == wanted, (label, text)
        assert ours.count_rows(text) == len(wanted), (label, text)
        assert sorted(theirs.to_table(["k"], filter=text)["k"].to_pylist()) == wanted, (label, text)
    for dataset, queries in ((ours, lancelet.query), (theirs, lance.query)):
        found = dataset.to_table(["k", "_score"], full_text_query=queries.MatchQuery("17 3 12 41 45", "t"))
        assert sorted(found["k"].to_pylist()) == [3, 17, 41, 45][: 4 if ours.count_rows() > ROWS else 2], label
    query = np.array([11, 5] * 4, np.float32)
    live = ours.to_table(["v"], with_row_id=True)
    exact = distances(live["v"], query, "l2")
    asked = {"column": "v", "q": query, "k": 9, "nprobes": 9, "refine_factor": 9}
    for dataset in (ours, theirs):
        answer = dataset.to_table(["_distance"], nearest=asked, with_row_id=True)
        check_nearest(answer, live["_rowid"].to_numpy(), exact, 9)


def copied(template: Path) -> Callable[[Path], None]:
    def prepare(where: Path) -> None:
        shutil.copytree(template, where)
        if (parts := template.parent / f"{template.name}.parts").exists():
            shutil.copy(parts, where.parent / f"{where.name}.parts")

    return prepare


def places(calls: list[str], fault: Fault) -> list[int]:
    """Operations at which a fault makes a difference of its own."""
    if fault is Fault.REFUSED:
        return list(range(len(calls)))
    wanted = "put_if_absent" if fault is Fault.LOST else CHANGING
    return [at for at, call in enumerate(calls) if call.startswith(wanted)]


def fail_everywhere(folder: Path, prepare: Callable[[Path], None], change: Change, fault: Fault) -> None:
    template = folder / "template"
    prepare(template)
    before = indices(template)

    def act(store: FaultyStore) -> None:
        change(TableReader(open_snapshot(store)))

    whole = attempt(folder / "whole", copied(template), act)
    assert whole.error is None
    old, new = shape(before, before), shape(before, indices(whole.where))
    assert old != new
    check_answers(whole.where, "whole")
    for at in places(whole.calls, fault):
        tried = attempt(folder / str(at), copied(template), act, at, fault)
        where, error, label = tried.where, tried.error, tried.label
        if error is not None and files_below(where) == tried.existing:
            # Files are never changed: this is the table that it was, of which all is known.
            continue
        now = shape(before, indices(where))
        check_answers(where, label)
        if error is None:
            assert now == new, label
        elif isinstance(error, (Killed, CommitOutcomeUnknown)):
            assert now in (old, new), label
        else:
            assert now == old, label
            assert index_files(where) == {file for file in tried.existing if file.startswith(INDICES)}, label
        if now == old:
            change(TableReader(open_snapshot(where)))
            assert shape(before, indices(where)) == new, label
        if index_files(where) - referenced(where) - set(tried.existing):
            # Whatever was left behind, a cleanup finds.
            lancelet.dataset(where).cleanup_old_versions(timedelta(0), delete_unverified=True)
            assert index_files(where) == referenced(where), label
            check_answers(where, label)


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        pytest.param(
            change,
            fault,
            id=f"{change}-{fault.name.lower()}",
            marks=()
            if (fault is Fault.REFUSED and change not in IN_SOAKS) or change in IN_ALL_WAYS
            else pytest.mark.soak,
        )
        for change in CHANGES
        for fault in Fault
    ],
)
def test_a_fault_at_every_operation(tmp_path: Path, change: str, fault: Fault) -> None:
    fail_everywhere(tmp_path, *CHANGES[change], fault)


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=() if fault is Fault.REFUSED else pytest.mark.soak) for fault in Fault]
)
@pytest.mark.parametrize("kind", [kind for kind in COLUMNS if kind != "BTREE"])
@pytest.mark.spread(0.5, each=False)
def test_a_fault_while_building_each_kind(tmp_path: Path, kind: str, fault: Fault) -> None:
    fail_everywhere(tmp_path, plain, created(kind), fault)


@pytest.mark.soak
@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("kind", [kind for kind in VECTORS if kind != "IVF_PQ"])
def test_a_fault_while_building_each_kind_of_vector_index(tmp_path: Path, kind: str, fault: Fault) -> None:
    fail_everywhere(tmp_path, plain, VECTORS[kind], fault)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_a_fault_while_building_or_merging_parts(tmp_path: Path, stable: bool) -> None:
    """Nothing is committed; what was not finished is not there."""
    lancelet.write_dataset(rows(0, ROWS), tmp_path / "t", max_rows_per_file=10, enable_stable_row_ids=stable)
    table = TableReader(open_snapshot(tmp_path / "t"))
    halves = [build_part(table, "k", kind_named("BTREE"), "parts", half) for half in ([0, 1], [2, 3])]
    existing = index_files(tmp_path / "t")
    acts: list[Change] = [
        lambda table: build_part(table, "k", kind_named("BITMAP"), "parts", [1, 2]),
        lambda table: merge_parts(table, halves),
    ]
    for act in acts:
        store = FaultyStore(open_store(tmp_path / "t"))
        act(TableReader(open_snapshot(store)))
        for made in index_files(tmp_path / "t") - existing:
            (tmp_path / "t" / made).unlink()
        for at in range(len(store.calls)):
            with pytest.raises(OSError, match="on purpose"):
                act(TableReader(open_snapshot(FaultyStore(open_store(tmp_path / "t"), at))))
            assert index_files(tmp_path / "t") == existing, store.calls[at]
    commit_parts(table, "parts", "k", [merge_parts(table, halves)])
    assert lance.dataset(tmp_path / "t").to_table(filter="k = 17")["k"].to_pylist() == [17]
    lancelet.dataset(tmp_path / "t").cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert index_files(tmp_path / "t") == referenced(tmp_path / "t")


def test_an_interrupt_while_reading_rows(tmp_path: Path) -> None:
    plain(tmp_path / "t")

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    for kind, column in COLUMNS.items():
        with pytest.raises(KeyboardInterrupt):
            lancelet.dataset(tmp_path / "t").create_scalar_index(column, kind, progress_callback=stop)
    with pytest.raises(KeyboardInterrupt):
        lancelet.dataset(tmp_path / "t").create_index("v", "IVF_FLAT", num_partitions=2, progress_callback=stop)
    for stage in ("train_quantizer", "shuffle", "merge_partitions"):
        with pytest.raises(KeyboardInterrupt):
            lancelet.dataset(tmp_path / "t").create_index(
                "v",
                "IVF_SQ",
                num_partitions=2,
                progress_callback=lambda told, stage=stage: told.stage != stage or stop(told),
            )
    assert index_files(tmp_path / "t") == set()
    assert lance.dataset(tmp_path / "t").version == 2
