"""Changes that lose races: afterwards no file is there that no version names, and none is missing.

Others commit right before each attempt to publish a version, as often as it takes for every kind of conflict to come up;
in the second half answers of the store get lost on top of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, files_below
from lancelet.errors import CommitOutcomeUnknown, RetryableCommitConflict, UncertainPut
from lancelet.store import Store, open_store
from lancelet.table.manifest.names import VERSIONS_DIR
from lancelet.table.manifest.snapshot import open_snapshot

ROWS = pa.table({"k": range(40), "t": [f"row {k}" for k in range(40)]})
SOURCE = pa.table({"k": [3, 8, 50], "t": ["three", "eight", "fifty"]})


def upsert(dataset: Any) -> None:
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(SOURCE)


ACTS: dict[str, Callable[[Any], object]] = {
    "append": lambda d: d.insert(SOURCE),
    "delete": lambda d: d.delete("k in (3, 8)"),
    "delete a fragment's last rows": lambda d: d.delete("k >= 20 and k not in (30, 31, 32)"),
    "update": lambda d: d.update({"t": "'new'"}, where="k in (3, 8)"),
    "merge": upsert,
    "compact": lambda d: d.optimize.compact_files(num_threads=1),
    "compact, deferred": lambda d: d.optimize.compact_files(num_threads=1, defer_index_remap=True),
    "index": lambda d: d.create_scalar_index("t", "BTREE"),
    "columns": lambda d: d.add_columns({"z": "k + 1"}),
    "null columns": lambda d: d.add_columns(pa.schema([("z", pa.int32())])),
    "cast": lambda d: d.alter_columns({"path": "t", "data_type": pa.large_string()}),
    "truncate": lambda d: d.truncate_table(),
    "configure": lambda d: d.update_config({"a": "1"}),
}
OTHERS: list[Callable[[Any], object]] = [
    lambda d: d.delete("k = 30"),
    lambda d: d.insert(pa.table({"k": [100], "t": ["late"]})),
    lambda d: d.update({"t": "'theirs'"}, where="k = 31"),
    lambda d: d.delete("k in (3, 32)"),
    lambda d: d.update({"t": "'theirs'"}, where="k = 8"),
]


class Overtaken(FaultyStore):
    """Others commit before each of the first versions that are published here."""

    def __init__(
        self,
        inner: Store,
        lost_answers: frozenset[int] = frozenset(),
        late: bool = False,
        others: Sequence[Callable[[Any], object]] = OTHERS,
    ) -> None:
        super().__init__(inner)
        self.turns = iter(others)
        self.puts = 0
        self.lost_answers = lost_answers
        self.late = late

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if not path.startswith(f"{VERSIONS_DIR}/"):
            return super().put_if_absent(path, data)
        number, self.puts = self.puts, self.puts + 1
        lost = number in self.lost_answers
        if lost and self.late:
            # Not carried out, and nobody says so.
            raise UncertainPut(path, "silence")
        act = next(self.turns, None)
        if act is not None:
            act(lancelet.dataset(self.uri))
        done = super().put_if_absent(path, data)
        if lost:
            raise UncertainPut(path, "silence")
        return done


def made(where: Path) -> None:
    lancelet.write_dataset(ROWS, where, max_rows_per_file=20)
    lancelet.dataset(where).create_scalar_index("k", "BTREE")
    lancelet.dataset(where).delete("k in (0, 20)")


def check(where: Path) -> None:
    report = lancelet.dataset(where).verify(deep=True)
    assert [(f.kind, f.place) for f in report.findings if f.kind != "hint"] == []
    for entry in lancelet.dataset(where).versions():
        lancelet.dataset(where, entry["version"]).to_table()
    assert [file for file in files_below(where) if file.endswith(".tmp")] == []


def act_on(name: str, store: FaultyStore) -> None:
    ACTS[name](lancelet.LanceDataset._of(store.uri, open_snapshot(store), None, None))


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.spread(0.5, each=False)
def test_lost_attempts_leave_nothing(folder: Path, name: str) -> None:
    made(folder / "t")
    store = Overtaken(open_store(folder / "t"))
    act_on(name, store)
    assert store.puts >= len(OTHERS), "it lost every race that it could"
    check(folder / "t")


def lose_answer(where: Path, name: str, number: int, *, late: bool) -> None:
    made(where)
    act_on(name, Overtaken(open_store(where), frozenset([number]), late))
    check(where)


@pytest.mark.parametrize("late", [False, True], ids=["done", "not done"])
@pytest.mark.parametrize(
    "name, number", [("delete", 0), ("update", len(OTHERS)), ("merge", 2), ("compact, deferred", 2)]
)
def test_lost_answers_leave_nothing_either(folder: Path, name: str, number: int, late: bool) -> None:
    lose_answer(folder / "t", name, number, late=late)


@pytest.mark.soak
@pytest.mark.parametrize("late", [False, True], ids=["done", "not done"])
@pytest.mark.parametrize("name", ACTS)
def test_no_lost_answer_leaves_anything(folder: Path, name: str, late: bool) -> None:
    for number in range(len(OTHERS) + 1):
        lose_answer(folder / str(number), name, number, late=late)


@pytest.mark.parametrize("name", ["delete", "merge"])
def test_an_unknown_outcome_keeps_every_file_that_a_version_may_have(folder: Path, name: str) -> None:
    """The version is there, and neither that nor anything after it is answered."""

    class Silent(Overtaken):
        def _do(self, what: str, path: str, act: Callable[[], Any]) -> Any:
            if self.puts > len(OTHERS) and what == "put_if_absent":
                self.at, self.fault = len(self.calls), Fault.ANSWER_LOST
                try:
                    return super()._do(what, path, act)
                finally:
                    self.silent = True
            if getattr(self, "silent", False):
                self.at, self.fault = len(self.calls), Fault.REFUSED
            return super()._do(what, path, act)

    made(folder / "t")
    with pytest.raises(CommitOutcomeUnknown):
        act_on(name, Silent(open_store(folder / "t")))
    report = lancelet.dataset(folder / "t").verify(deep=True)
    assert report.errors == ()
    assert lancelet.dataset(folder / "t").count_rows("t = 'theirs'") >= 1


def test_a_change_of_contested_rows_is_made_until_its_time_is_over(folder: Path) -> None:
    """Others change the same row more often than pylance would try; what every attempt wrote goes away."""
    made(folder / "t")
    others = [lambda d: d.update({"t": "concat(t, '!')"}, where="k = 3")] * 12
    store = Overtaken(open_store(folder / "t"), others=others)
    dataset = lancelet.LanceDataset._of(store.uri, open_snapshot(store), None, None)
    assert dataset.update({"t": "concat(t, '?')"}, where="k = 3") == {"num_rows_updated": 1}
    assert dataset.to_table(filter="k = 3")["t"].to_pylist() == [f"row 3{'!' * 12}?"]
    check(folder / "t")
    store = Overtaken(open_store(folder / "t"), others=others)
    dataset = lancelet.LanceDataset._of(store.uri, open_snapshot(store), None, None)
    with pytest.raises(RetryableCommitConflict):
        dataset.update({"t": "concat(t, '?')"}, where="k = 3", conflict_retries=3)
    check(folder / "t")
