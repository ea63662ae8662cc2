"""Updates, merges, compactions and changes of history that fail at any operation of the store.

Afterwards the table is as before or as intended; an error means as before, without a file too many; and what a killed
process left behind is removed by a cleanup, which removes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, Killed, attempt, attempts, referenced, row_files
from lancelet.table.manifest.snapshot import open_snapshot

ROWS = pa.table({"k": range(12), "t": [f"row {k}" for k in range(12)]})
SOURCE = pa.table({"k": [3, 8, 50], "t": ["three", "eight", "fifty"]})


def merge(dataset: Any) -> None:
    builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    builder.conflict_retries(0).execute(SOURCE)


def replace(dataset: Any) -> None:
    builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_by_source_delete()
    builder.conflict_retries(0).execute(SOURCE.select(["k", "t"]))


ACTS: dict[str, Callable[[Any], object]] = {
    "update": lambda d: d.update({"t": "'new'"}, where="k % 4 = 0", conflict_retries=0),
    "update all": lambda d: d.update({"t": "'new'"}, conflict_retries=0),
    "merge": merge,
    "merge and delete": replace,
    "compact": lambda d: d.optimize.compact_files(materialize_deletions_threshold=0.0, num_threads=1),
    "truncate": lambda d: d.truncate_table(),
    "restore": lambda d: d.checkout_version(1).restore(),
    "configure": lambda d: d.update_config({"a": "1"}),
}
QUICK = {
    "update": Fault.KILLED_AFTER,
    "update all": Fault.ANSWER_LOST,
    "merge": Fault.REFUSED,
    "merge and delete": Fault.KILLED_BEFORE,
    "compact": Fault.KILLED_AFTER,
    "truncate": Fault.LOST,
    "restore": Fault.REFUSED,
    "configure": Fault.KILLED_BEFORE,
}
CELLS = [
    pytest.param(
        name, fault, stable, id=f"{name}-{fault.name.lower()}-{'stable' if stable else 'addresses'}", marks=marks
    )
    for number, name in enumerate(ACTS)
    for fault in Fault
    for stable in (False, True)
    for marks in [() if QUICK[name] is fault and stable == bool(number % 2) else pytest.mark.soak]
]


def content(where: Path, version: int | None = None) -> list[Any]:
    """Rows, fragments and texts as both read them."""
    theirs = lance.dataset(where, version=version)
    table = theirs.to_table(with_row_id=True)
    assert lancelet.dataset(where, version).to_table(with_row_id=True).equals(table)
    theirs.validate()
    return [table.to_pylist(), [fragment.fragment_id for fragment in theirs.get_fragments()], theirs.config()]


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(("name", "fault", "stable"), CELLS)
def test_a_fault_at_every_operation(tmp_path: Path, name: str, fault: Fault, stable: bool) -> None:
    def make(where: Path) -> None:
        lancelet.write_dataset(ROWS, where, max_rows_per_file=5, enable_stable_row_ids=stable).delete("k = 6")

    def act(store: FaultyStore) -> None:
        ACTS[name](lancelet.LanceDataset._of(store.uri, open_snapshot(store), None, None))

    whole = attempt(tmp_path / "whole", make, act)
    assert whole.error is None
    new, old = content(whole.where), content(whole.where, 2)
    versions = lance.dataset(whole.where).version - 2
    assert new != old
    for tried in attempts(tmp_path, make, act, fault, whole.calls):
        where, label = tried.where, tried.label
        found = content(where)
        tried.check(found, old, new, versions=versions)
        if isinstance(tried.error, Killed):
            before = lancelet.dataset(where).versions()
            lancelet.dataset(where).cleanup_old_versions(timedelta(0), retain_versions=100, delete_unverified=True)
            assert lancelet.dataset(where).versions() == before, label
            assert row_files(where) == referenced(where), label
            assert content(where) == found, label
    assert len(whole.calls) > 4
