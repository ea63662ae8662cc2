"""Scans that are restricted to row ids from outside, and what only vector searches take."""

from __future__ import annotations

import itertools
import pickle
import uuid
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

import lancelet
from drawing import examples
from lancelet.errors import InvalidInput, InvalidType
from lancelet.index.row_set import RowSet

ROWS = 60
STATES = ("addresses", "stable ids", "moved stable ids", "indexed", "stable and indexed")


def some(*ids: int) -> bytes:
    return RowSet.of(np.array(sorted(ids), np.uint64)).serialize()


def address(fragment: int, offset: int) -> int:
    return (fragment << 32) | offset


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("masks")
    for state in STATES:
        rows = pa.table({"k": range(ROWS), "v": [i % 5 for i in range(ROWS)], "s": [f"s{i}" for i in range(ROWS)]})
        stable = "stable" in state
        dataset = lance.write_dataset(rows, path / state, max_rows_per_file=20, enable_stable_row_ids=stable)
        dataset.delete("k in (3, 12, 25, 26, 41)")
        if "moved" in state:
            dataset.update({"s": "'new'"}, where="k % 7 = 1")
            dataset.optimize.compact_files(target_rows_per_fragment=40)
            dataset = lance.dataset(path / state)
        if "indexed" in state:
            dataset.create_scalar_index("k", "BTREE")
    return path


MASKS: dict[str, dict[str, bytes]] = {
    "few allowed": {"allow": some(2, 3, 4, 15, 25, 33, address(1, 0), address(1, 5), address(2, 19))},
    "few blocked": {"block": some(2, 3, 4, 15, 25, 33, address(1, 0), address(1, 5), address(2, 19))},
    "both": {"allow": some(*range(30), address(1, 1)), "block": some(4, 7, address(1, 1))},
    "most": {"allow": some(*range(1, 60), *(address(1, i) for i in range(18)))},
    "nothing allowed": {"allow": some()},
    "nothing blocked": {"block": some()},
    "a whole fragment": {"allow": RowSet.whole([0]).serialize()},
    "all but a whole fragment": {"block": RowSet.whole([0]).serialize()},
    "whole but some": {"allow": RowSet.whole([0, 2]).serialize(), "block": some(5, 6, address(2, 1))},
    "rows that are not there": {
        "allow": some(1, 10**6, address(1, 500), address(77, 0)),
        "block": some(address(99, 1)),
    },
}
QUESTIONS: list[dict[str, Any]] = [
    {},
    {"filter": "v < 3"},
    {"filter": "k > 8 and k < 50"},
    {"filter": "k > 8 and k < 50 and v = 2"},
    {"filter": "k > 8 or v = 2", "use_scalar_index": False},
    {"limit": 3},
    {"limit": 4, "offset": 2},
    {"filter": "v < 3", "limit": 2, "offset": 1},
    {"with_row_id": True, "with_row_address": True},
    {"columns": ["s", "_rowoffset"]},
    {"columns": {"double": "k * 2"}},
    {"columns": ["k"], "filter": "_rowid > 4"},
    {"include_deleted_rows": True, "with_row_id": True},
    {"include_deleted_rows": True, "with_row_id": True, "filter": "v < 3"},
    {"order_by": ["v", "k"]},
    {"batch_size": 3},
]


def ask(dataset: Any, mask: dict[str, bytes], question: dict[str, Any]) -> pa.Table:
    lists = {"row_addr_allowlist": mask.get("allow"), "row_addr_blocklist": mask.get("block")}
    return dataset.scanner(**{"columns": ["k", "v"]} | question, **lists).to_table()


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mask", MASKS)
def test_same_rows_as_pylance(root: Path, state: str, mask: str) -> None:
    ours, theirs = lancelet.dataset(root / state), lance.dataset(root / state)
    for question in QUESTIONS:
        assert ask(ours, MASKS[mask], question).to_pydict() == ask(theirs, MASKS[mask], question).to_pydict(), question
    for first, second in itertools.permutations(range(len(theirs.get_fragments())), 2):
        answers = [
            ask(ds, MASKS[mask], {"fragments": [ds.get_fragments()[at] for at in (first, second)]}).to_pydict()
            for ds in (ours, theirs)
        ]
        assert answers[0] == answers[1]


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mask", MASKS)
def test_counts(root: Path, state: str, mask: str) -> None:
    for condition in (None, "v < 3", "k > 8 and k < 50"):
        lists = {"row_addr_allowlist": MASKS[mask].get("allow"), "row_addr_blocklist": MASKS[mask].get("block")}
        counts = [
            module.dataset(root / state).scanner(columns=["k"], filter=condition, **lists).count_rows()
            for module in (lancelet, lance)
        ]
        assert counts[0] == counts[1]


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_against_brute_force(root: Path, data: st.DataObject) -> None:
    """A mask is the same as a condition on the row ids."""
    dataset = lancelet.dataset(root / data.draw(st.sampled_from(STATES)))
    everything = dataset.to_table(["k", "v", "_rowid", "_rowoffset"]).to_pylist()
    known = st.sampled_from([row["_rowid"] for row in everything])
    ids = st.sets(known | st.integers(0, 80) | st.integers(0, 2**40))
    allowed, blocked = data.draw(st.none() | ids), data.draw(st.none() | ids)
    if allowed is None and blocked is None:
        return
    condition = data.draw(st.sampled_from([None, "v = 1", "k < 30", "k >= 10 and v <> 4", "_rowoffset > 7"]))
    expected = [
        row
        for row in dataset.to_table(["k", "v", "_rowid", "_rowoffset"], filter=condition).to_pylist()
        if (allowed is None or row["_rowid"] in allowed) and (blocked is None or row["_rowid"] not in blocked)
    ]
    scanner = dataset.scanner(
        ["k", "v", "_rowid", "_rowoffset"],
        condition,
        row_addr_allowlist=None if allowed is None else some(*allowed),
        row_addr_blocklist=None if blocked is None else some(*blocked),
    )
    assert scanner.to_table().to_pylist() == expected
    assert scanner.count_rows() == len(expected)
    assert scanner.head(3).to_pylist() == expected[:3]


def test_bitmaps_with_runs(root: Path) -> None:
    """Sets are taken in every form of Roaring bitmap."""
    runs = BitMap(range(4, 14))
    runs.run_optimize()
    data = runs.serialize()
    stored = b"".join(number.to_bytes(4, "little") for number in (1, 0, len(data))) + data
    for module in (lancelet, lance):
        found = module.dataset(root / "addresses").scanner(["k"], row_addr_allowlist=stored).to_table()
        assert found["k"].to_pylist() == [4, 5, 6, 7, 8, 9, 10, 11, 13]


@pytest.mark.parametrize("state", ["addresses", "indexed"])
def test_only_the_wanted_rows_are_read(root: Path, state: str) -> None:
    dataset = lancelet.dataset(root / state)
    seen: list[Any] = []
    scanner = dataset.scanner(["s"], row_addr_allowlist=some(address(2, 5)), scan_stats_callback=seen.append)
    assert scanner.to_table()["s"].to_pylist() == ["s45"]
    assert seen[0].all_counts["fragments_scanned"] == 1
    assert "RowMask: allowed row ids" in scanner.explain_plan()
    assert "RowMask" in dataset.scanner(filter="k > 3", row_addr_blocklist=some(1)).analyze_plan()


def test_plans_are_pickled_with_their_mask(root: Path) -> None:
    scanner = lancelet.dataset(root / "addresses").scanner(["k"], row_addr_allowlist=some(1, 2))
    assert pickle.loads(pickle.dumps(scanner._plan)) == scanner._plan


def kind_of(module: Any, path: Path, **options: Any) -> set[type]:
    with pytest.raises((ValueError, TypeError)) as caught:
        module.dataset(path).scanner(**options).to_table()
    return {kind for kind in (ValueError, TypeError) if isinstance(caught.value, kind)}


@pytest.mark.parametrize(
    "options",
    [
        *({f"row_addr_{side}list": data} for side in ("allow", "block") for data in (b"", b"xyz", some(1)[:-1])),
        {"row_addr_allowlist": "text"},
        {"index_segments": [uuid.UUID(int=7)]},
        {"index_segments": [str(uuid.UUID(int=7))], "filter": "k = 1"},
        {"index_segments": ["nope"]},
        {"index_segments": []},
        {"index_segments": [5]},
        {"index_segments": "abc"},
    ],
    ids=str,
)
def test_refusals_are_of_the_same_kind(root: Path, options: dict[str, Any]) -> None:
    assert kind_of(lance, root / "indexed", **options) <= kind_of(lancelet, root / "indexed", **options)


def test_refusals_say_what_is_wrong(root: Path) -> None:
    dataset = lancelet.dataset(root / "indexed")
    with pytest.raises(InvalidInput, match=r"row_addr_allowlist is not a stored set of row ids: not a set of rows"):
        dataset.scanner(row_addr_allowlist=b"xyz")
    with pytest.raises(InvalidInput, match="only supported for vector search"):
        dataset.scanner(index_segments=[uuid.uuid4()])
    with pytest.raises(InvalidType, match="index_segments is a list"):
        dataset.scanner(index_segments=[5])
