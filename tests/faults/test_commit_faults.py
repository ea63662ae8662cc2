"""Create, append, overwrite and delete with a fault at every single operation of the store.

Afterwards the table is the old version or the new one, never anything between; the same commit made once more has its
effect once; and a write that failed leaves no file behind.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, Killed
from lancelet.errors import CommitConflict, CommitOutcomeUnknown, LanceletError, StorageError, UncertainPut
from lancelet.format.schema import schema_from_arrow
from lancelet.store import Store, open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.patience import Pace
from lancelet.table.commit.run import commit, create
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.fragment import DataFile, Fragment
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot

SCHEMA = pa.schema([("k", pa.int64())])
QUICK = Pace(sleep=lambda seconds: None)
RUN = uuids.UUID(int=1)


def fragment(uri: str, first: int, count: int) -> Fragment:
    """A fragment written by pylance, not committed."""
    made = lance.fragment.LanceFragment.create(uri, pa.table({"k": pa.array(range(first, first + count), pa.int64())}))
    (file,) = made.files
    stored = DataFile(file.path, tuple(file.fields), tuple(file.column_indices), 2, 2, file.file_size_bytes)
    return Fragment(0, (stored,), None, made.physical_rows)


Act = Callable[[Store, Fragment, str], Snapshot]


def committed_files(files: WrittenFiles, new: Fragment) -> WrittenFiles:
    files.add(f"data/{new.files[0].path}")
    return files


def creates(store: Store, new: Fragment, uuid: str) -> Snapshot:
    with WrittenFiles(store) as files:
        operation = ops.Overwrite(schema_from_arrow(SCHEMA), (new,))
        return create(store, operation, uuid=uuid, pace=QUICK, files=committed_files(files, new))


def appends(store: Store, new: Fragment, uuid: str) -> Snapshot:
    with WrittenFiles(store) as files:
        operation = ops.Append((new,))
        return commit(store, operation, read_version=2, uuid=uuid, pace=QUICK, files=committed_files(files, new))


def overwrites(store: Store, new: Fragment, uuid: str) -> Snapshot:
    with WrittenFiles(store) as files:
        operation = ops.Overwrite(schema_from_arrow(SCHEMA), (new,))
        return commit(store, operation, read_version=2, uuid=uuid, pace=QUICK, files=committed_files(files, new))


def deletes(store: Store, new: Fragment, uuid: str) -> Snapshot:
    with WrittenFiles(store) as files:
        deletion = delete_rows(open_snapshot(store, 2), {0: [1, 2], 1: [0]}, predicate="some", files=files)
        affected = deletion.affected_rows
        return commit(
            store, deletion.operation, read_version=2, affected_rows=affected, uuid=uuid, pace=QUICK, files=files
        )


OLD = list(range(8))
ACTS: dict[str, tuple[Act, list[int] | None, list[int]]] = {
    "create": (creates, None, [100, 101]),
    "append": (appends, OLD, [*OLD, 100, 101]),
    "overwrite": (overwrites, OLD, [100, 101]),
    "delete": (deletes, OLD, [0, 3, 5, 6, 7]),
    # Another deletion came first, so that this one is joined with it.
    "delete-rebased": (deletes, [0, 1, 2, 4, 5, 6, 7], [0, 5, 6, 7]),
}


def content(uri: str) -> list[int] | None:
    try:
        found: list[int] = lancelet.dataset(uri).to_table()["k"].to_pylist()
    except FileNotFoundError:
        return None
    assert lance.dataset(uri).to_table()["k"].to_pylist() == found
    lance.dataset(uri).validate()
    return found


def prepared(folder: Path, name: str) -> tuple[str, Fragment]:
    uri = str(folder)
    if name != "create":
        start = create(open_store(uri), ops.Overwrite(schema_from_arrow(SCHEMA), (fragment(uri, 0, 4),)))
        start = commit(start, ops.Append((fragment(uri, 4, 4),)))
        if name == "delete-rebased":
            first = delete_rows(start, {0: [3]})
            commit(start, first.operation, affected_rows=first.affected_rows)
    return uri, fragment(uri, 100, 2)


def files_of(uri: str) -> set[str]:
    return {path for path in (entry.path for entry in open_store(uri).list_objects()) if "hint" not in path}


def count_calls(folder: Path, name: str) -> list[str]:
    uri, new = prepared(folder, name)
    store = FaultyStore(open_store(uri))
    act, _, after = ACTS[name]
    act(store, new, str(RUN))
    assert content(uri) == after
    return store.calls


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("name", ACTS)
def test_fault_at_every_operation(tmp_path: Path, name: str, fault: Fault) -> None:
    calls = count_calls(tmp_path / "count", name)
    act, before, after = ACTS[name]
    uncertain = 0
    for at, call in enumerate(calls):
        uri, new = prepared(tmp_path / f"{at}", name)
        existing = files_of(uri)
        store = FaultyStore(open_store(uri), at, fault)
        label = f"{fault.name} at {at}: {call}"
        try:
            act(store, new, str(RUN))
        except Killed:
            assert content(uri) in (before, after), label
        except CommitOutcomeUnknown:
            uncertain += 1
            assert content(uri) in (before, after), label
        except (StorageError, CommitConflict):
            assert content(uri) == before, label
            assert files_of(uri) == existing - ({f"data/{new.files[0].path}"} if act is not deletes else set()), label
            continue
        else:
            assert content(uri) == after, label
        # Everything that a version may refer to is still there, so the same commit can be made again.
        healthy = open_store(uri)
        act(healthy, new, str(RUN))
        assert content(uri) == after, label
        versions = [entry["version"] for entry in lance.dataset(uri).versions()]
        uuids_found = [lance.dataset(uri, version=v).read_transaction(v).uuid for v in versions]
        assert uuids_found.count(str(RUN)) == 1, label
    assert uncertain == 0, "with a single fault the outcome can always be established"


@pytest.mark.parametrize("name", ["append", "create"])
def test_a_store_that_stays_silent(tmp_path: Path, name: str) -> None:
    """The manifest is written, but neither that nor anything later is answered."""
    act, before, after = ACTS[name]

    class Silent(FaultyStore):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            answer = super().put_if_absent(path, data)
            if path.endswith(".manifest"):
                self.at = -2
                raise UncertainPut(path, "silence")
            return answer

        def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
            if self.at == -2:
                raise StorageError(path, "silence")
            return super().read_tail(path, nbytes)

    uri, new = prepared(tmp_path / "t", name)
    with pytest.raises(CommitOutcomeUnknown, match="silence") as caught:
        act(Silent(open_store(uri)), new, str(RUN))
    assert caught.value.uuid == str(RUN)
    assert caught.value.version == (3 if name == "append" else 1)
    assert content(uri) == after, "the files of a version that may exist are not removed"
    act(open_store(uri), new, str(RUN))
    assert content(uri) == after
    assert before != after


def test_a_client_that_repeats_requests(tmp_path: Path) -> None:
    """The first request succeeds, its answer is lost inside the client, and the repeated one meets the first's object."""

    class Repeating(FaultyStore):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            return super().put_if_absent(path, data) and super().put_if_absent(path, data)

    for name, (act, _, after) in ACTS.items():
        uri, new = prepared(tmp_path / name, name)
        act(Repeating(open_store(uri)), new, str(RUN))
        assert content(uri) == after
    uri, new = prepared(tmp_path / "last", "append")
    last = commit(Repeating(open_store(uri)), ops.Append((new,)), read_version=2, uuid=str(RUN), pace=QUICK, retries=0)
    assert last.version == 3


def test_errors_are_ours() -> None:
    assert issubclass(CommitOutcomeUnknown, LanceletError)
    assert not issubclass(CommitOutcomeUnknown, CommitConflict)


def test_a_writer_that_reads_many_versions_looks_again(tmp_path: Path) -> None:
    """While it reads what others committed, somebody commits: it would come too late for the version that it saw."""
    uri, new = prepared(tmp_path / "t", "append")
    for _ in range(3):
        commit(open_snapshot(uri), ops.Append((new,)))

    class Overtaken(FaultyStore):
        def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
            if not self.dead:
                self.dead = True
                commit(open_snapshot(uri), ops.Append((new,)))
            return self.inner.read_tail(path, nbytes)

        def _do(self, what: str, path: str, act: Callable[[], object]) -> object:
            return act()

    done = commit(Overtaken(open_store(uri)), ops.Append((new,)), read_version=2, pace=QUICK, retries=0)
    assert done.version == 7
    assert content(uri) == [*OLD, *[100, 101] * 5]
