"""Many large blobs written to one file: each leaves memory soon after it was written.

The trap is in the small columns beside them. A batch that comes from a stream is one allocation, and an id that
waits for its page to be full would keep all blobs of its batch.
"""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

from conformance.measured import MIB, measured, needs_proc

CHILD = """
import os, sys
import pyarrow as pa
import lancelet
from lancelet.file import LanceFileReader, LanceFileWriter

where, kind, count, how = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
SIZE, PER_BATCH = 1 << 20, 4

if kind == "first kind":
    field, version = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), "2.1"
else:
    sizes = {"inline": (1 << 30, None), "packed": (0, 1 << 30), "dedicated": (0, 1)}[kind]
    field = lancelet.blob_field("blob", inline_size_threshold=sizes[0], dedicated_size_threshold=sizes[1])
    version = "2.2"
schema = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), field])

def batch(number):
    rows = range(number * PER_BATCH, (number + 1) * PER_BATCH)
    payloads = [os.urandom(SIZE) for _ in rows]
    blobs = pa.array(payloads, pa.large_binary()) if kind == "first kind" else lancelet.blob_array(payloads)
    made = pa.record_batch([pa.array(rows), pa.array([f"row {row}" for row in rows]), blobs], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(made)
    # All columns are views of one buffer, as those of a reader are.
    return pa.ipc.open_stream(pa.py_buffer(sink.getvalue().to_pybytes())).read_next_batch()

def write(where, count):
    batches = (batch(number) for number in range(count // PER_BATCH))
    if how == "file":
        with LanceFileWriter(where + "/x.lance", schema, version=version) as writer:
            for one in batches:
                writer.write_batch(one)
        return LanceFileReader(where + "/x.lance").num_rows()
    options = {"data_storage_version": version, "allow_external_blob_outside_bases": False}
    return lancelet.write_dataset(batches, where, schema=schema, **options).count_rows()

write(where + "-before", 8)
start()
done(write(where, count))
"""

pytestmark = needs_proc


def grown(where: Path, kind: str, count: int, how: str = "table") -> int:
    """Write so many blobs of a mebibyte; the most memory that it took."""
    rows, most = measured(CHILD, where, kind, count, how)
    assert rows == count
    return most


@pytest.mark.parametrize(
    "kind", ["first kind", "packed", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("inline", "dedicated"))]
)
def test_a_table_of_blobs(tmp_path: Path, kind: str) -> None:
    most = grown(tmp_path / "t", kind, 240)
    assert most < 160 * MIB, f"{most / MIB:.0f} MiB"
    dataset = lance.dataset(tmp_path / "t")
    assert len(dataset.get_fragments()) == 1
    (blob,) = dataset.take_blobs("blob", indices=[239])
    assert blob.size() == MIB


def test_a_single_file_of_blobs(tmp_path: Path) -> None:
    most = grown(tmp_path / "t", "first kind", 240, "file")
    assert most < 160 * MIB, f"{most / MIB:.0f} MiB"


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["first kind", "inline", "packed", "dedicated"])
def test_six_times_the_blobs_take_no_more_memory(tmp_path: Path, kind: str) -> None:
    few, many = grown(tmp_path / "few", kind, 320), grown(tmp_path / "many", kind, 1920)
    assert many < few + 96 * MIB, f"{few / MIB:.0f} MiB, then {many / MIB:.0f} MiB"
