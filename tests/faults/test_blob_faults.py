"""Blobs in files of their own: a write that fails at any operation of the store leaves none of them behind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, Killed, attempt, attempts, files_below, without_hint
from lancelet.errors import CommitOutcomeUnknown
from lancelet.writing.options import write_options
from lancelet.writing.table import Target, write_table

SIZES = (10, 100, 150, 3000, 5000, 120)
"""In the data file, in files that blobs share, and in files of their own."""


def clips(first: int) -> pa.Table:
    field = lancelet.blob_field("clip", inline_size_threshold=50, dedicated_size_threshold=1000)
    data = [bytes([first + number]) * size for number, size in enumerate(SIZES)]
    keys = pa.array(range(first, first + len(SIZES)), pa.int64())
    return pa.table([keys, lancelet.blob_array(data)], schema=pa.schema([("k", pa.int64()), field]))


def content(where: Path) -> list[bytes]:
    """What both read."""
    numbers = range(lance.dataset(where).count_rows())
    theirs = [blob.readall() for blob in lance.dataset(where).take_blobs("clip", indices=list(numbers))]
    ours = [blob.readall() for blob in lancelet.dataset(where).take_blobs("clip", indices=numbers) if blob]
    assert ours == theirs
    return ours


def side_files(files: list[str]) -> int:
    return sum(file.endswith(".blob") for file in files)


def make(where: Path) -> None:
    lancelet.write_dataset(clips(0), where)


def append(store: FaultyStore) -> None:
    write_table(clips(100), None, Target.at(store), write_options("append", max_rows_per_file=4))


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
def test_a_fault_at_every_operation(tmp_path: Path, fault: Fault) -> None:
    whole = attempt(tmp_path / "whole", make, append)
    assert whole.error is None
    old, new = content(whole.where)[: len(SIZES)], content(whole.where)
    blobs = {len(old): side_files(whole.existing), len(new): side_files(files_below(whole.where))}
    assert blobs[len(new)] > blobs[len(old)]
    for tried in attempts(tmp_path, make, append, fault, whole.calls):
        where, error, label = tried.where, tried.error, tried.label
        found = content(where)
        if error is None:
            assert found == new, label
        elif isinstance(error, (Killed, CommitOutcomeUnknown)):
            assert found in (old, new), label
        else:
            assert found == old, label
            assert without_hint(files_below(where)) == without_hint(tried.existing), label
        if isinstance(error, Killed):
            lancelet.dataset(where).cleanup_old_versions(timedelta(0), delete_unverified=True)
            assert content(where) == found, label
            assert side_files(files_below(where)) == blobs[len(found)], label
