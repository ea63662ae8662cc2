"""What an installed lancelet must do at once: write, change, index, read back, and read with a filter. Needs nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import lancelet


def main() -> None:
    """Raises when something does not work."""
    texts = [f"text {n % 97}" for n in range(10_000)]
    rows = pa.table({"id": range(10_000), "text": texts, "half": np.arange(10_000).astype(np.float16)})
    with tempfile.TemporaryDirectory() as folder:
        dataset = lancelet.write_dataset(rows, Path(folder, "smoke.lance"))
        dataset.create_scalar_index("id", "BTREE")
        dataset.delete("id % 2 = 1")
        dataset.optimize.compact_files()
        found = lancelet.dataset(Path(folder, "smoke.lance")).to_table(
            filter="id between 10 and 15 and half in (10, 12, 14) and regexp_match(text, '(te)xt') is not null"
        )
        assert found.column("id").to_pylist() == [10, 12, 14], found
        assert dataset.verify(deep=True).ok
    print(f"lancelet {lancelet.__version__} works")


main()
