"""Files of tasks that ran twice: what a job wrote in vain goes, what it committed stays, large blobs with it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancelet
from lancelet.format.schema import Schema
from lancelet.spark.attempts import data_paths, new_stem, sweep, written_paths
from lancelet.store import Store, open_store
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.fragment import Fragment
from lancelet.writing.fit import new_schema
from lancelet.writing.fragments import Limits, write_fragment_files

SIZES = (10, 100, 3000)
"""In the data file, in a file that blobs share, in a file of its own."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def columns() -> Schema:
    field = lancelet.blob_field("clip", inline_size_threshold=50, dedicated_size_threshold=1000)
    return new_schema(pa.schema([field]), "2.2")


def attempt(store: Store, stem: bytes) -> tuple[Fragment, ...]:
    batch = pa.record_batch([lancelet.blob_array([bytes(size) for size in SIZES])], names=["clip"])
    with WrittenFiles(store) as files:
        return write_fragment_files(store, columns(), [batch], version="2.2", limits=Limits(), files=files, stem=stem)


def files_of(store: Store) -> set[str]:
    return {entry.path for entry in store.list_objects()}


def test_blobs_stay_with_their_data_file(store: Store) -> None:
    stem = new_stem()
    kept = attempt(store, stem)
    before = files_of(store)
    assert sum(path.endswith(".blob") for path in before) == 2
    assert set(written_paths(store, stem, kept, columns())) == before
    attempt(store, stem)
    other = attempt(store, new_stem())
    elsewhere = files_of(store) - before
    sweep(store, stem, data_paths(kept))
    left = files_of(store)
    assert before <= left
    assert left - before == {path for path in elsewhere if path.startswith(data_paths(other)[0].removesuffix(".lance"))}


def test_nothing_stays_of_a_job_that_failed(store: Store) -> None:
    stem = new_stem()
    attempt(store, stem)
    attempt(store, stem)
    sweep(store, stem)
    assert files_of(store) == set()
