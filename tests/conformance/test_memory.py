"""A streaming scan and a take need memory for their answer, not for the table."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from conformance.measured import MIB, measured, needs_proc

CHILD = """
import sys
import lancelet, pyarrow as pa

dataset = lancelet.dataset(sys.argv[1])
dataset.take([0])
start()
rows = 0
if sys.argv[2] == "scan":
    for batch in dataset.to_batches():
        rows += batch.num_rows
else:
    step = dataset.count_rows() // 10_000
    rows = dataset.take(range(0, step * 10_000, step)).num_rows
done(rows)
"""

pytestmark = needs_proc


def _write(where: Path, pieces: int, rows: int = 50_000) -> None:
    """``pieces`` appends of about 52 MB each: vectors, noise, text."""
    rng = np.random.default_rng(1)
    for _ in range(pieces):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 192, np.float32)), 192)
        numbers = pa.array(rng.integers(0, 2**63, (rows, 25)).ravel())
        lists = pa.ListArray.from_arrays(pa.array(np.arange(0, rows * 25 + 1, 25), pa.int32()), numbers)
        text = pa.array([f"row {number} " * 4 for number in range(rows)])
        lance.write_dataset(
            pa.table({"v": vectors, "l": lists, "t": text}), where, mode="append", max_rows_per_file=rows
        )


def test_a_scan_streams(tmp_path: Path) -> None:
    _write(tmp_path / "t", 16)
    size = sum(path.stat().st_size for path in (tmp_path / "t" / "data").iterdir())
    assert size > 700 * MIB
    rows, grown = measured(CHILD, tmp_path / "t", "scan")
    assert rows == 800_000
    assert grown < 512 * MIB
    rows, grown = measured(CHILD, tmp_path / "t", "take")
    assert rows == 10_000
    assert grown < 512 * MIB


@pytest.mark.soak
def test_five_gigabytes_stream(tmp_path: Path) -> None:
    _write(tmp_path / "t", 100)
    for what in ("scan", "take"):
        _, grown = measured(CHILD, tmp_path / "t", what)
        assert grown < 512 * MIB
