"""A streaming write needs memory for the pages under construction, not for the rows."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

from conformance.measured import MIB, measured, needs_proc

CHILD = """
import sys
import numpy as np, pyarrow as pa
import lancelet

ROWS, DIMENSIONS = 20_000, 256

rng = np.random.default_rng(0)
noise = rng.random(ROWS * DIMENSIONS, np.float32)
words = pa.array([f"word {i} of a text that goes on for a while" for i in range(5000)])
offsets = np.zeros(ROWS + 1, np.int32)
np.cumsum(rng.integers(0, 9, ROWS), out=offsets[1:])

def batches(nbytes):
    made = 0
    while made < nbytes:
        # Every batch is memory of its own, as from a reader.
        batch = pa.record_batch({
            "id": np.arange(ROWS) + made,
            "text": words.take(pa.array(rng.integers(0, 5000, ROWS))),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.roll(noise, made % 1000)), DIMENSIONS),
            "numbers": pa.ListArray.from_arrays(pa.array(offsets), pa.array(rng.random(offsets[-1]))),
        })
        made += batch.nbytes
        yield batch

schema = next(batches(1)).schema
lancelet.write_dataset(batches(1), sys.argv[1] + "-before", schema=schema)
start()
written = lancelet.write_dataset(batches(int(sys.argv[2])), sys.argv[1], schema=schema)
done(written.count_rows())
"""

pytestmark = needs_proc


def _grown(where: Path, nbytes: int) -> int:
    """Write so many bytes from a generator; the most memory that it took."""
    rows, grown = measured(CHILD, where, nbytes)
    assert rows == lance.dataset(where).count_rows()
    return grown


def test_a_stream_of_400_megabytes(tmp_path: Path) -> None:
    assert _grown(tmp_path / "t", 400 * MIB) < 200 * MIB


@pytest.mark.soak
def test_a_stream_of_5_gigabytes(tmp_path: Path) -> None:
    grown = _grown(tmp_path / "t", 5000 * 10**6)
    assert grown < 300 * MIB, f"{grown / MIB:.0f} MiB"
