"""Several processes on one root, and processes that die: a table is there as a whole, once, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pytest

from faults.stores import Fault, FaultyStore, Killed
from lancelet.errors import StorageError
from lancelet.namespace import DirectoryNamespace
from lancelet.namespace.catalog import ManifestTable
from lancelet.namespace.making import create_table, declare_table
from lancelet.namespace.removing import drop_table, rename_table
from lancelet.namespace.root import Root
from lancelet.namespace.settings import Settings
from lancelet.store import open_store
from namespace.spaces import BODY, MODES, ROWS, both, child, children, create, folders, tables

WINNER = -1
ALREADY_THERE = int(ln.ErrorCode.TABLE_ALREADY_EXISTS)


def program(what: str, **given: Any) -> Any:
    """Run the program of the races, whose processes share nothing with this one."""
    command = [sys.executable, str(Path(__file__).with_name("racing.py")), what, json.dumps(given)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def race(*races: tuple[Path, str, list[str], list[str]]) -> list[list[int]]:
    """The outcomes of processes that all do their thing at the same time, for each root, mode, table and ways."""
    return program(
        "race",
        races=[
            {"properties": {"root": str(root), **MODES[mode]}, "names": names, "ways": ways}
            for root, mode, names, ways in races
        ],
    )


def test_sixteen_processes_make_one_table(tmp_path: Path) -> None:
    modes = ("compatible", "manifest", "listing")
    outcomes = race(*((tmp_path / mode, mode, ["t"], ["create"] * 16) for mode in modes))
    assert outcomes == [[WINNER, *[ALREADY_THERE] * 15]] * 3
    for mode in modes:
        spaces = both(tmp_path / mode, mode)
        assert tables(spaces.ours) == tables(spaces.theirs) == ["t"]
        where = spaces.theirs.describe_table(ln.DescribeTableRequest(id=["t"])).location
        assert lance.dataset(where).to_table() == ROWS
        # One table, one data file, and no folder of those who came second.
        (folder,) = [path for path in (tmp_path / mode).iterdir() if path.name != "__manifest"]
        assert len(list((folder / "data").iterdir())) == len(list((folder / "_transactions").iterdir())) == 1


def test_others_at_the_same_time(tmp_path: Path) -> None:
    """A name is one table's or one namespace's, whatever the ways in which it is taken."""
    child(both(tmp_path).ours, "n")
    create(both(tmp_path).ours, "old")
    mixed, kept, renamed = race(
        (tmp_path, "manifest", ["n", "t"], ["create", "declare", "namespace", "create", "namespace", "declare"]),
        (tmp_path, "compatible", ["u"], ["exist_ok"] * 4),
        (tmp_path, "compatible", ["new"], ["rename"] * 4),
    )
    # Rows may come to a table that was declared first.
    assert mixed.count(WINNER) in (1, 2)
    assert set(mixed) - {WINNER} <= {ALREADY_THERE, int(ln.ErrorCode.NAMESPACE_ALREADY_EXISTS)}
    rows = lance.dataset(tmp_path / "__manifest").to_table(columns=["object_id"])["object_id"].to_pylist()
    assert sorted(rows) == ["n", "n$t", "new", "u"]
    assert kept == [WINNER] * 4
    assert renamed.count(WINNER) == 1
    assert tables(both(tmp_path).ours) == ["new", "u"]
    assert len(folders(tmp_path)) <= 4


def test_changes_of_both_libraries_at_the_same_time(tmp_path: Path) -> None:
    """No change of the catalog is lost, whoever makes it."""
    spaces = both(tmp_path, commit_retries="200")
    child(spaces.ours, "n")

    def work(who: str) -> None:
        space = getattr(both(tmp_path, commit_retries="200"), who)
        for number in range(8):
            child(space, "n", f"{who}{number}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, ("ours", "theirs")))
    wanted = sorted(f"{who}{number}" for who in ("ours", "theirs") for number in range(8))
    assert children(spaces.ours, "n") == children(spaces.theirs, "n") == wanted
    assert lance.dataset(tmp_path / "__manifest").version == 2 + len(wanted)


def test_killed_processes(tmp_path: Path) -> None:
    """``kill -9`` at any moment: what is listed can be opened, and the next one goes on."""
    child(both(tmp_path).ours, "n")
    for _ in range(2):
        program("kill", properties={"root": str(tmp_path)})
        spaces = both(tmp_path)
        for parent in ([], ["n"]):
            for name in tables(spaces.ours, *parent):
                asked = ln.CountTableRowsRequest(id=[*parent, name])
                assert spaces.ours.count_table_rows(asked) == spaces.theirs.count_table_rows(asked)
            assert create(spaces.ours, *parent, "t", mode="overwrite").version
            spaces.ours.drop_table(ln.DropTableRequest(id=[*parent, "t"]))
            assert tables(spaces.ours, *parent) == tables(spaces.theirs, *parent) == []


# Every single request to the store, failing


class Failing(FaultyStore):
    """A store whose children count, and fail, together with it."""

    def __init__(self, inner: Any, at: int = -1, fault: Fault = Fault.REFUSED, shared: Failing | None = None) -> None:
        super().__init__(inner, at, fault)
        self.shared = shared or self
        self.is_local = inner.is_local

    def child(self, path: str) -> Failing:
        return Failing(self.inner.child(path), shared=self.shared)

    def _do(self, what: str, path: str, act: Any) -> Any:
        if self is self.shared:
            return super()._do(what, path, act)
        return FaultyStore._do(self.shared, what, f"{self.uri.rpartition('/')[2]}/{path}", act)

    def __getattr__(self, name: str) -> Any:
        # What stores do beyond the operations above: also one operation each.
        found = getattr(self.inner, name)
        if not callable(found):
            return found
        return lambda *given, **named: self._do(name, str(given[:1]), lambda: found(*given, **named))


def failing_root(where: str, mode: str, at: int = -1, fault: Fault = Fault.REFUSED) -> tuple[Root, Failing]:
    settings = Settings.of({"root": where, **MODES[mode]})
    store = Failing(open_store(where), at, fault)
    manifest = ManifestTable(store, settings.retries) if settings.manifest else None
    return Root(settings, store, manifest, where), store


class Overtaken(Failing):
    """A store whose root is somebody else's just before one of its operations."""

    def __init__(self, inner: Any, turn: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self.turn = turn
        self.meanwhile = meanwhile

    def _do(self, what: str, path: str, act: Any) -> Any:
        self.turn -= 1
        if self.turn == 0:
            self.meanwhile()
        return super()._do(what, path, act)


def test_a_table_that_comes_after_its_name_was_looked_for(tmp_path: Path) -> None:
    """Whenever another process writes it, there is one folder of that name, and none besides."""
    turn, outcomes = 0, set()
    while True:
        turn += 1
        where = str(tmp_path / str(turn))
        prepare(where, "compatible")
        settings = Settings.of({"root": where, **MODES["compatible"]})
        store = Overtaken(open_store(where), turn, lambda where=where: lance.write_dataset(ROWS, f"{where}/t.lance"))
        try:
            create_table(Root(settings, store, ManifestTable(store, settings.retries), where), ["t"], ROWS)
            outcomes.add("made")
        except ln.TableAlreadyExistsError:
            outcomes.add("there already")
        assert {path.name for path in Path(where).iterdir()} == {"__manifest", "t.lance"}, turn
        assert tables(plain(where, "compatible")) == ["t"]
        if store.turn > 0:
            break
    assert outcomes == {"made", "there already"}


def plain(where: str, mode: str) -> DirectoryNamespace:
    return DirectoryNamespace(root=where, **MODES[mode])


CHANGES = {
    "create": lambda root: create_table(root, ["t"], ROWS),
    "create below": lambda root: create_table(root, ["n", "t"], ROWS),
    "declare": lambda root: declare_table(root, ["t"], None, None),
}
CASES = [
    ("compatible", "create"),
    ("compatible", "create below"),
    ("compatible", "declare"),
    ("manifest", "declare"),
    ("listing", "create"),
]


def prepare(where: str, mode: str) -> None:
    space = plain(where, mode)
    if mode != "listing":
        child(space, "n")


@pytest.mark.spread(0.3)
@pytest.mark.parametrize(("mode", "change"), CASES)
@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.ANSWER_LOST, Fault.KILLED_AFTER])
def test_a_create_that_fails_at_any_step(mode: str, change: str, fault: Fault) -> None:
    """After any failure the table is there as a whole or not at all, and the same again succeeds or says so."""
    name = f"memory://create/{mode}/{change}/{fault.name}".replace(" ", "-")
    parent = ["n"] if change == "create below" else []
    steps = 1000
    at = 0
    while at < steps:
        where = f"{name}/{at}"
        prepare(where, mode)
        root, store = failing_root(where, mode, at, fault)
        failed = True
        try:
            CHANGES[change](root)
            failed = False
        except (Killed, StorageError, ln.LanceNamespaceError):
            pass
        if at == 0:
            probe, counting = failing_root(f"{name}/count", mode)
            prepare(f"{name}/count", mode)
            CHANGES[change](probe)
            steps = len(counting.calls)
        space = plain(where, mode)
        seen = tables(space, *parent)
        assert seen in ([], ["t"]), store.calls
        if not failed:
            assert "t" in seen
        if "t" in seen and change != "declare":
            asked = ln.CountTableRowsRequest(id=[*parent, "t"])
            assert space.count_table_rows(asked).count == 3, store.calls
        if "t" not in seen:
            # Nothing stands in the way.
            assert create(space, *parent, "t").version == 1
        elif change != "declare":
            with pytest.raises(ln.TableAlreadyExistsError):
                create(space, *parent, "t")
        assert "t" in tables(space, *parent)
        if fault is Fault.REFUSED and failed and "t" not in seen:
            rest = {entry.path.split("/")[0] for entry in open_store(where).list_objects()}
            assert len([name for name in rest if name != "__manifest" and name.endswith(("t", "t.lance"))]) == 1
        at += 1


REMOVALS = {
    "drop": lambda root: drop_table(root, ["t"]),
    "rename": lambda root: rename_table(root, ["t"], "u", ["n"]),
}


@pytest.mark.parametrize(
    ("mode", "change", "fault"),
    [
        ("compatible", "drop", Fault.KILLED_AFTER),
        ("compatible", "drop", Fault.REFUSED),
        ("manifest", "drop", Fault.KILLED_AFTER),
        ("listing", "drop", Fault.KILLED_AFTER),
        ("compatible", "rename", Fault.KILLED_AFTER),
        ("manifest", "rename", Fault.REFUSED),
    ],
)
@pytest.mark.spread(0.5, each=False)
def test_a_removal_that_fails_at_any_step(mode: str, change: str, fault: Fault) -> None:
    """The table is found under one name and can be read, or it is found nowhere."""
    name = f"memory://remove/{mode}/{change}/{fault.name}"
    at, done = 0, False
    while not done:
        where = f"{name}/{at}"
        prepare(where, mode)
        create(plain(where, mode), "t")
        root, store = failing_root(where, mode, at, fault)
        try:
            REMOVALS[change](root)
            done = len(store.calls) <= at
        except (Killed, StorageError, ln.LanceNamespaceError):
            pass
        space = plain(where, mode)
        found = [[], ["n"]] if mode != "listing" else [[]]
        seen = [[*parent, table] for parent in found for table in tables(space, *parent)]
        assert len(seen) <= 1, store.calls
        for names in seen:
            assert space.count_table_rows(ln.CountTableRowsRequest(id=names)).count == 3, store.calls
        if ["t"] in seen or (mode == "listing" and not done):
            # Hidden, its files wait for another removal.
            with suppress(ln.TableNotFoundError):
                space.drop_table(ln.DropTableRequest(id=["t"]))
        elif change == "rename":
            assert ["n", "u"] in seen, store.calls
        assert create(space, "t").version == 1
        at += 1


def test_too_many_others(tmp_path: Path) -> None:
    """A change that is never fast enough says so, and leaves no table."""
    space = DirectoryNamespace(root=tmp_path, commit_retries=2, dir_listing_enabled="false")
    other = DirectoryNamespace(root=tmp_path)
    child(space, "n")
    manifest = space.root.manifest
    read, count = manifest.read, 0

    def overtaken() -> Any:
        nonlocal count
        found = read()
        count += 1
        child(other, f"x{count}")
        return found

    manifest.read = overtaken  # type: ignore[method-assign]
    with pytest.raises(ln.ThrottlingError, match="commit_retries"):
        space.create_table(ln.CreateTableRequest(id=["n", "t"]), BODY)
    manifest.read = read  # type: ignore[method-assign]
    assert tables(other, "n") == []
    assert folders(tmp_path) == ["__manifest"]
    assert len(list((tmp_path / "__manifest" / "data").iterdir())) == lance.dataset(tmp_path / "__manifest").version - 1
