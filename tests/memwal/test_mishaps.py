"""What goes wrong in the middle, and what others do meanwhile: rows that were acknowledged stay, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancelet
from lancelet.errors import StorageError
from memwal.faulty import FaultyStore, failing
from memwal.samples import SHARD, keyed_table, manifests, open_writer, rows


@pytest.fixture
def where(tmp_path: Path) -> Path:
    keyed_table(tmp_path / "t", [1, 2, 3], unsharded=True)
    return tmp_path / "t"


def ids(where: Path, *, strong: bool = False) -> list[int]:
    found: list[int] = lancelet.dataset(where).lsm_scanner(strong=strong).to_table()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError("state", "the line is cut")])
def test_a_flush_that_ends_after_its_state_landed_keeps_its_run(where: Path, error: BaseException) -> None:
    writer = open_writer(where)
    writer.put(rows([4]))
    states: Any = writer.shard.states
    states.store = FaultyStore(states.store, "manifest/", failing(error))
    with pytest.raises(type(error)):
        writer.flush()
    assert ids(where) == [1, 2, 3, 4]
    writer.put(rows([5]))
    writer.close()
    newest = list(manifests(where, SHARD).values())[-1]
    assert [run.generation for run in newest.sstables] == [1, 2]
    assert ids(where) == [1, 2, 3, 4, 5]
