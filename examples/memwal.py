"""A writer of a MemWAL is killed in the middle of its work, another one takes over, and a third one is fenced.

Run it with ``python examples/memwal.py``; it writes to a temporary folder and removes it.
"""

from __future__ import annotations

import os
import signal
import tempfile

import pyarrow as pa

import lancelet
from lancelet.errors import WriterFenced

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("by", pa.string())])


def write_until_killed(uri: str, told: int) -> None:
    """A process that acknowledges puts to its parent, and never ends by itself."""
    writer = lancelet.dataset(uri).writer()
    for number in range(1_000_000):
        writer.put({"id": [number], "by": ["the one who was killed"]})
        os.write(told, number.to_bytes(8, "little"))


def main() -> None:
    with tempfile.TemporaryDirectory() as uri:
        dataset = lancelet.write_dataset(SCHEMA.empty_table(), uri)
        dataset.initialize_mem_wal(unsharded=True)
        heard, told = os.pipe()
        child = os.fork()
        if not child:
            write_until_killed(uri, told)
        acknowledged = [int.from_bytes(os.read(heard, 8), "little") for _ in range(20)]
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(f"A writer was killed after it had acknowledged {len(acknowledged)} puts, and perhaps some more.")

        second = dataset.writer()
        second.put({"id": [-1], "by": ["the second one"]})
        found = set(dataset.lsm_scanner(strong=True).to_table()["id"].to_pylist())
        print(
            f"The second writer took over {len(found) - 1} rows; of those acknowledged, {len(set(acknowledged) - found)} are missing."
        )

        third = dataset.writer()
        third.put({"id": [-2], "by": ["the third one"]})
        try:
            second.put({"id": [-3], "by": ["the second one"]})
        except WriterFenced as error:
            print(f"The second writer tried to go on: {error}")
        third.close()

        print("Compaction:", dataset.compact_mem_wal())
        print(f"The table has {dataset.count_rows()} rows now, and version {dataset.version}.")


if __name__ == "__main__":
    main()
