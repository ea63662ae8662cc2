"""What the processes of ``test_commit_processes.py`` do: commits, and nothing else. No pylance in here."""

from __future__ import annotations

from threading import Barrier

from lancelet.errors import RetryableCommitConflict
from lancelet.store import open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.run import commit
from lancelet.table.manifest.fragment import Fragment
from lancelet.table.manifest.snapshot import open_snapshot

PATIENT = 200


def append_all(uri: str, fragments: list[Fragment], barrier: Barrier) -> None:
    store = open_store(uri)
    barrier.wait()
    for new in fragments:
        commit(open_snapshot(store), ops.Append((new,)), retries=PATIENT)


def delete_all(uri: str, rows: list[int], barrier: Barrier) -> None:
    barrier.wait()
    for row in rows:
        snapshot = open_snapshot(uri)
        while True:
            deletion = delete_rows(snapshot, {0: [row]})
            try:
                commit(snapshot, deletion.operation, affected_rows=deletion.affected_rows, retries=PATIENT)
                break
            except RetryableCommitConflict:
                snapshot = snapshot.latest()


def append_for_ever(uri: str, fragments: list[Fragment], barrier: Barrier) -> None:
    barrier.wait()
    while True:
        append_all(uri, fragments, Barrier(1))
