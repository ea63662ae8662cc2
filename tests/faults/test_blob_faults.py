"""Blobs in files of their own: a write that fails at any operation of the store leaves none of them behind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Fault, FaultyStore, Killed
from faults.test_writing import FaultySink, files_below, without_hint
from lancelet.errors import CommitOutcomeUnknown, LanceletError
from lancelet.store import open_store
from lancelet.store.writing import open_sink
from lancelet.writing import fragments
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


def side_files(where: Path) -> int:
    return sum(file.endswith(".blob") for file in files_below(where))


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
def test_a_fault_at_every_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    monkeypatch.setattr(
        fragments,
        "open_sink",
        lambda store, path: FaultySink(store, path) if isinstance(store, FaultyStore) else open_sink(store, path),
    )

    def attempt(at: int) -> tuple[Path, list[str], FaultyStore, BaseException | None]:
        where = tmp_path / str(at)
        lancelet.write_dataset(clips(0), where)
        existing = files_below(where)
        store = FaultyStore(open_store(where), at, fault)
        try:
            write_table(clips(100), None, Target.at(store), write_options("append", max_rows_per_file=4))
        except (Killed, LanceletError) as error:
            return where, existing, store, error
        return where, existing, store, None

    where, existing, counting, error = attempt(-1)
    assert error is None
    assert side_files(where) > sum(file.endswith(".blob") for file in existing)
    old, new = content(where)[: len(SIZES)], content(where)
    blobs = {len(old): sum(file.endswith(".blob") for file in existing), len(new): side_files(where)}
    for at, call in enumerate(counting.calls):
        where, existing, _, error = attempt(at)
        label = f"{fault.name} at {at}: {call}: {error!r}"
        found = content(where)
        if error is None:
            assert found == new, label
        elif isinstance(error, (Killed, CommitOutcomeUnknown)):
            assert found in (old, new), label
        else:
            assert found == old, label
            assert without_hint(files_below(where)) == without_hint(existing), label
        if isinstance(error, Killed):
            lancelet.dataset(where).cleanup_old_versions(timedelta(0), delete_unverified=True)
            assert content(where) == found, label
            assert side_files(where) == blobs[len(found)], label
