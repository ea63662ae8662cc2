"""Every operation that can take long, on a table that ``prepare`` makes; also a program that does one until it is interrupted.

``python -m faults.operations NAME URI ROWS`` says ``ready`` and repeats the operation.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lancelet
from lancelet.editing.merge.clauses import Clauses, Matched
from lancelet.editing.merge.run import merge_rows
from lancelet.editing.merge.source import MergeSource

Operation = Callable[[str, int], object]
"""Does something to the table at a URI, which has so many rows."""


def rows(first: int, count: int) -> pa.Table:
    numbers = pa.array(range(first, first + count), pa.int64())
    text = pc.cast(numbers, pa.string())
    words = pc.binary_join_element_wise("the row ", text, pc.utf8_reverse(text), "")
    return pa.table(
        {
            "k": pc.bit_wise_xor(numbers, 0x155),
            "c": pc.utf8_slice_codeunits(text, -2),
            "l": pa.FixedSizeListArray.from_arrays(pa.array([1, 2] * count), 2).cast(pa.list_(pa.int64())),
            "t": words,
            "x": pc.divide(pc.cast(numbers, pa.float64()), 7.0),
            "v": vectors(first, count),
        }
    )


def vectors(first: int, count: int) -> pa.Array:
    """Four numbers for each row."""
    numbers = np.arange(first, first + count, dtype=np.int64)[:, None] * (3, 5, 7, 11) % 101
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.astype(np.float32).ravel()), 4)


def prepare(uri: str, count: int, options: dict[str, str] | None = None) -> None:
    """Fragments, deletions, and indices that do not know all rows."""
    whole, more = rows(0, count), rows(count, count // 4)
    table = lancelet.write_dataset(whole, uri, max_rows_per_file=max(count // 4, 1), storage_options=options)
    table.create_scalar_index("k", "BTREE", "old_k")
    table.create_scalar_index("c", "BITMAP", "old_c")
    table.create_index("v", "IVF_SQ", "old_v", num_partitions=2)
    lancelet.write_dataset(more, uri, mode="append", storage_options=options)
    lancelet.dataset(uri, storage_options=options).delete("k % 7 = 3")


def problems(table: lancelet.LanceDataset) -> list[str]:
    """What is wrong with a table. The hint of its newest version may be old: nothing depends on it."""
    return [str(finding) for finding in table.verify(deep=True).findings if finding.kind != "hint"]


def check_table(where: Path) -> None:
    """Sound, and without files that no version refers to and empty folders."""
    table = lancelet.dataset(where)
    assert problems(table) == []
    before = set(where.rglob("*"))
    table.cleanup_old_versions(timedelta(days=36_500), delete_unverified=True)
    assert set(where.rglob("*")) == before
    assert [path for path in before if path.is_dir() and not any(path.iterdir())] == []


def stream(count: int, pause: float) -> pa.RecordBatchReader:
    """Rows that come slowly."""
    whole = rows(10 * count, count)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in whole.to_batches(max_chunksize=max(count // 16, 1)):
            time.sleep(pause)
            yield batch

    return pa.RecordBatchReader.from_batches(whole.schema, batches())


def merged(uri: str, count: int, *, spilled: bool) -> None:
    table = lancelet.dataset(uri)
    clauses = Clauses(("k",), Matched.UPDATE, insert=True)
    with MergeSource(stream(count, 0.0), in_memory=1 if spilled else 1 << 30) as source:
        assert source.is_spilled == spilled
        merge_rows(table.table, clauses, source, retries=3, timeout=60.0)


def with_udf(uri: str, count: int) -> None:
    checkpoint = Path(uri).parent / f"{Path(uri).name}.checkpoint"

    @lancelet.batch_udf(pa.schema([("u", pa.int64())]), checkpoint_file=str(checkpoint))
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"u": pc.multiply(batch["k"], 2)})

    lancelet.dataset(uri).add_columns(doubled, read_columns=["k"], batch_size=max(count // 8, 1))
    checkpoint.unlink(missing_ok=True)
    lancelet.dataset(uri).drop_columns(["u"])


def with_sql(uri: str, count: int) -> None:
    lancelet.dataset(uri).add_columns({"y": "k * 2 + 1"})
    lancelet.dataset(uri).drop_columns(["y"])


def joined(uri: str, count: int) -> None:
    more = pa.table({"k": rows(0, count)["k"], "z": rows(0, count)["x"]})
    lancelet.dataset(uri).merge(more, "k")
    lancelet.dataset(uri).drop_columns(["z"])


def cast(uri: str, count: int) -> None:
    for kind in (pa.float32(), pa.float64()):
        lancelet.dataset(uri).alter_columns({"path": "x", "data_type": kind})


def indexed(column: str, kind: str) -> Operation:
    return lambda uri, count: lancelet.dataset(uri).create_scalar_index(column, kind, f"new_{kind}")


def nearest(kind: str, **options: int) -> Operation:
    """A vector index, of few vectors."""
    return lambda uri, count: lancelet.dataset(uri).create_index(
        "v", kind, "new_v", num_partitions=2, sample_rate=2, max_iters=3, replace=True, **options
    )


def searched(uri: str, count: int) -> None:
    asked = {"column": "v", "q": [1.0, 2.0, 3.0, 4.0], "k": 5, "nprobes": 2, "refine_factor": 2}
    lancelet.dataset(uri).to_table(["k", "_distance"], nearest=asked)


def grown(uri: str, count: int) -> None:
    lancelet.write_dataset(rows(20 * count, 50), uri, mode="append")
    lancelet.dataset(uri).optimize.optimize_indices()


def compacted(uri: str, count: int) -> None:
    lancelet.write_dataset(rows(30 * count, 50), uri, mode="append")
    lancelet.dataset(uri).optimize.compact_files(target_rows_per_fragment=4 * count)


def cleaned(uri: str, count: int) -> None:
    lancelet.write_dataset(rows(0, count), uri, mode="overwrite", max_rows_per_file=max(count // 10, 1))
    lancelet.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=False)


def cloned(uri: str, count: int) -> None:
    target = f"{uri}.clone"
    lancelet.dataset(uri).deep_clone(target, None)
    # Half of it is nobody's mistake from here on.
    shutil.rmtree(Path(target).rename(f"{target}.gone"))


def abandoned(uri: str, count: int) -> None:
    batches = lancelet.dataset(uri).to_batches(batch_size=max(count // 50, 1))
    next(iter(batches))


def named(uri: str, count: int) -> None:
    space = lancelet.connect(f"{uri}.names")
    if "n.t" in space:
        space.drop("n.t")
    else:
        space.create_namespace("n", exist_ok=True)
        space.create("n.t", rows(0, count))
    list(space.tables("n"))


def take(uri: str, count: int) -> None:
    table = lancelet.dataset(uri)
    for step in (3, 5, 7, 11):
        table.take(list(range(0, table.count_rows(), step)))


OPERATIONS: dict[str, Operation] = {
    "create": lambda uri, count: lancelet.write_dataset(rows(0, count), f"{uri}.new", mode="overwrite"),
    "append": lambda uri, count: lancelet.write_dataset(rows(0, count), uri, mode="append"),
    "overwrite": lambda uri, count: lancelet.write_dataset(rows(0, count), uri, mode="overwrite"),
    "stream": lambda uri, count: lancelet.write_dataset(stream(count, 0.002), uri, mode="append"),
    "delete": lambda uri, count: lancelet.dataset(uri).delete("k % 13 = 5 and t like '%1%'"),
    "update": lambda uri, count: lancelet.dataset(uri).update({"x": "x + 1"}, where="k % 3 = 1"),
    "merge": lambda uri, count: merged(uri, count, spilled=False),
    "merge_spilled": lambda uri, count: merged(uri, count, spilled=True),
    "add_sql": with_sql,
    "add_udf": with_udf,
    "join_columns": joined,
    "cast": cast,
    "compact": compacted,
    "btree": indexed("t", "BTREE"),
    "bitmap": indexed("c", "BITMAP"),
    "label_list": indexed("l", "LABEL_LIST"),
    "zonemap": indexed("k", "ZONEMAP"),
    "bloomfilter": indexed("c", "BLOOMFILTER"),
    "ngram": indexed("t", "NGRAM"),
    "ivf_pq": nearest("IVF_PQ", num_sub_vectors=2, num_bits=4),
    "ivf_hnsw_flat": nearest("IVF_HNSW_FLAT"),
    "nearest": searched,
    "optimize": grown,
    "cleanup": cleaned,
    "verify": lambda uri, count: lancelet.dataset(uri).verify(deep=True),
    "clone": cloned,
    "scan": lambda uri, count: lancelet.dataset(uri).to_table(),
    "sort": lambda uri, count: lancelet.dataset(uri).scanner(order_by=["t"]).to_table(),
    "abandon": abandoned,
    "take": take,
    "namespace": named,
    "count": lambda uri, count: lancelet.dataset(uri).count_rows("x > 3 and t like '%1%'"),
}


if __name__ == "__main__":
    name, where, size = sys.argv[1:]
    # pyarrow imports pandas by itself, once, and an interrupt in the middle of that is gone.
    pa.array(np.arange(1))
    # A shell starts what goes to the background with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("ready", flush=True)
    while True:
        OPERATIONS[name](where, int(size))
