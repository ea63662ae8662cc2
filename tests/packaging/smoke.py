"""What an installed lancelet must do at once: write, change, index, read back, and read with a filter. Needs nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa

import lancelet


def main() -> None:
    """Raises when something does not work."""
    rows = pa.table({"id": range(10_000), "text": [f"text {n % 97}" for n in range(10_000)]})
    with tempfile.TemporaryDirectory() as folder:
        dataset = lancelet.write_dataset(rows, Path(folder, "smoke.lance"))
        dataset.create_scalar_index("id", "BTREE")
        dataset.delete("id % 2 = 1")
        dataset.optimize.compact_files()
        found = lancelet.dataset(Path(folder, "smoke.lance")).to_table(
            filter="id between 10 and 15 and text like 'text%'"
        )
        assert found.column("id").to_pylist() == [10, 12, 14], found
        assert dataset.verify(deep=True).ok
    print(f"lancelet {lancelet.__version__} works")


main()
