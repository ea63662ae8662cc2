"""Real processes on one table: nobody's rows are lost or doubled, on local disk and on S3."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping
from multiprocessing.synchronize import Barrier
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from conftest import Bucket
from lancelet.errors import RetryableCommitConflict
from lancelet.format.schema import schema_from_arrow
from lancelet.store import open_store
from lancelet.table import operations as ops
from lancelet.table.commit import commit, create
from lancelet.table.deletion_write import delete_rows
from lancelet.table.fragment import DataFile, Fragment
from lancelet.table.snapshot import open_snapshot

SPAWN = multiprocessing.get_context("spawn")
SCHEMA = pa.schema([("k", pa.int64())])
PATIENT = 200


def fragment(uri: str, options: Mapping[str, str] | None, keys: list[int]) -> Fragment:
    made = lance.fragment.LanceFragment.create(
        uri, pa.table({"k": pa.array(keys, pa.int64())}), storage_options=options
    )
    (file,) = made.files
    stored = DataFile(file.path, tuple(file.fields), tuple(file.column_indices), 2, 2, file.file_size_bytes)
    return Fragment(0, (stored,), None, made.physical_rows)


def append_all(uri: str, options: dict[str, str] | None, fragments: list[Fragment], barrier: Barrier) -> None:
    store = open_store(uri, options)
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
        append_all(uri, None, fragments, SPAWN.Barrier(1))


def together(target: object, arguments: list[tuple[object, ...]]) -> None:
    barrier = SPAWN.Barrier(len(arguments))
    children = [SPAWN.Process(target=target, args=(*given, barrier)) for given in arguments]  # type: ignore[arg-type]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * len(children)


def appended(uri: str, options: dict[str, str] | None, writers: int, each: int) -> None:
    keys = iter(range(10**6))
    first = fragment(uri, options, [next(keys)])
    create(open_store(uri, options), ops.Overwrite(schema_from_arrow(SCHEMA), (first,)))
    work = [[fragment(uri, options, [next(keys), next(keys)]) for _ in range(each)] for _ in range(writers)]
    together(append_all, [(uri, options, fragments) for fragments in work])
    dataset = lancelet.dataset(uri, storage_options=options)
    assert dataset.version == 1 + writers * each
    assert sorted(dataset.to_table()["k"].to_pylist()) == list(range(1 + 2 * writers * each))
    ids = [entry.fragment_id for entry in dataset.get_fragments()]
    assert ids == list(range(1 + writers * each))
    theirs = lance.dataset(uri, storage_options=options)
    assert sorted(theirs.to_table()["k"].to_pylist()) == list(range(1 + 2 * writers * each))
    theirs.validate()


def test_appends_on_local_disk(tmp_path: Path) -> None:
    appended(str(tmp_path / "t"), None, writers=6, each=5)


def test_appends_on_s3(bucket: Bucket) -> None:
    appended(f"{bucket.uri}/t", bucket.options, writers=3, each=4)


@pytest.mark.soak
@pytest.mark.parametrize("place", ["local", "s3"])
def test_sixteen_writers(place: str, tmp_path: Path, bucket: Bucket) -> None:
    uri, options = (str(tmp_path / "t"), None) if place == "local" else (f"{bucket.uri}/t", bucket.options)
    appended(uri, options, writers=16, each=25)


def test_disjoint_deletions_in_one_fragment(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create(open_store(uri), ops.Overwrite(schema_from_arrow(SCHEMA), (fragment(uri, None, list(range(60))),)))
    together(delete_all, [(uri, list(range(number, 48, 6))) for number in range(6)])
    assert lancelet.dataset(uri).version == 49
    assert lancelet.dataset(uri).to_table()["k"].to_pylist() == list(range(48, 60))
    assert lance.dataset(uri).to_table()["k"].to_pylist() == list(range(48, 60))
    lance.dataset(uri).validate()


def test_overlapping_deletions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create(open_store(uri), ops.Overwrite(schema_from_arrow(SCHEMA), (fragment(uri, None, list(range(20))),)))
    together(delete_all, [(uri, list(range(12))) for _ in range(3)])
    assert lancelet.dataset(uri).to_table()["k"].to_pylist() == list(range(12, 20))
    lance.dataset(uri).validate()


def test_killed_writers(tmp_path: Path) -> None:
    """``kill -9`` at any moment: every version that is there is whole, and the next writer goes on."""
    uri = str(tmp_path / "t")
    new = fragment(uri, None, [7])
    create(open_store(uri), ops.Overwrite(schema_from_arrow(SCHEMA), (new,)))
    for _ in range(5):
        barrier = SPAWN.Barrier(2)
        child = SPAWN.Process(target=append_for_ever, args=(uri, [new], barrier))
        child.start()
        barrier.wait()
        reached = open_snapshot(uri).version
        while open_snapshot(uri).version < reached + 3:
            assert child.is_alive()
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        latest = open_snapshot(uri).version
        assert lancelet.dataset(uri).count_rows() == latest
        assert lance.dataset(uri).to_table()["k"].to_pylist() == [7] * latest
        assert commit(open_snapshot(uri), ops.Append((new,))).version == latest + 1
