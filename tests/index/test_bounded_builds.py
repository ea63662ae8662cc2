"""RTREE, MINHASHLSH and JSON builds in little memory: the same files, by way of temporary ones, which are gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from tests.conformance.measured import MIB, measured, needs_proc
from tests.index.segments import content

import lancelet
from lancelet.index.folder import BUILD_MEMORY, SegmentWriter
from lancelet.index.kind import Kind, NewRows
from lancelet.index.minhash import kind as minhash
from lancelet.index.minhash import segment
from lancelet.index.scalar import rtree
from lancelet.index.spilled_arrays import SpilledArrays
from lancelet.table.commit.written import WrittenFiles

ROWS, AT_ONCE = 6000, 500


def points() -> pa.Array:
    """Some are missing, and many are in one place."""
    numbers = np.random.default_rng(4).integers(0, 40, (2, ROWS)).astype(float)
    found = [None if row % 31 == 7 else {"x": x, "y": y} for row, (x, y) in enumerate(numbers.T.tolist())]
    return pa.array(found, pa.struct([("x", pa.float64()), ("y", pa.float64())]))


def texts() -> pa.Array:
    """Of few words, so that many have bands in common."""
    draw = np.random.default_rng(4)
    return pa.array([None if row % 37 == 3 else f"one w{draw.integers(0, 9)} two" for row in range(ROWS)])


def same_texts() -> pa.Array:
    """Nearly all the same."""
    return pa.array([f"w{row} reef" if row % 300 == 0 else "kelp and tide" for row in range(ROWS)])


@pytest.mark.parametrize(
    ("kind", "values", "options", "files"),
    [
        (rtree.KIND, points(), {"page_size": 100}, ("page_data.lance", "nulls.lance")),
        (rtree.KIND, points(), {"page_size": 5000}, ("page_data.lance", "nulls.lance")),
        (minhash.KIND, texts(), {}, ("signatures.lance", "bands.lance")),
        (minhash.KIND, same_texts(), {}, ("signatures.lance", "bands.lance")),
    ],
    ids=["RTREE", "RTREE of long pages", "MINHASHLSH", "MINHASHLSH of equal texts"],
)
def test_a_build_in_little_memory_writes_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    values: pa.Array,
    options: dict[str, Any],
    files: tuple[str, ...],
) -> None:
    store = lancelet.write_dataset(pa.table({"a": [1]}), tmp_path / "t")._snapshot.store
    spilled = []
    spill = SpilledArrays._spill
    monkeypatch.setattr(SpilledArrays, "_spill", lambda self: (spilled.append(1), spill(self)))
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))

    def coming() -> Iterator[pa.RecordBatch]:
        for start in range(0, ROWS, AT_ONCE):
            rows = pa.array(np.arange(start, start + AT_ONCE, dtype=np.uint64))
            yield pa.record_batch([values.slice(start, AT_ONCE), rows], ["value", "row"])

    found = []
    for limit in (BUILD_MEMORY, 1 << 17):
        spilled.clear()
        out = SegmentWriter(store, uuid4(), "2.1", WrittenFiles(store), memory_limit=limit)
        kind.write((), NewRows(values.type, coming(), ROWS, extension="geoarrow.point"), out, options)
        assert bool(spilled) == (limit < BUILD_MEMORY)
        written = [content(tmp_path / "t" / "_indices" / str(out.uuid) / name) for name in files]
        found.append([(table, dict(metadata)) for table, metadata in written])
    assert found[0] == found[1]
    assert not list(folder.iterdir())


def test_keys_that_most_texts_have_are_not_sorted_together() -> None:
    """What is held at once is bounded, whatever the keys are: all the same, a few, or all different."""
    draw = np.random.default_rng(8)
    high = np.uint64(2**40)
    for keys in (np.full(3000, 7), draw.integers(0, 3, 3000), draw.zipf(1.2, 3000) % 2**40, np.arange(3000)[::-1]):
        flat = keys.astype(np.uint64)
        with SpilledArrays(1 << 30) as held:
            for start in range(0, 3000, 100):
                held.add(flat[None, start : start + 100])
            parts = list(segment._keys_between(segment._Band(held, 0), np.uint64(0), high, 200))
        order = np.argsort(flat, kind="stable")
        assert np.concatenate([found for found, _ in parts]).tolist() == flat[order].tolist()
        assert np.concatenate([docs for _, docs in parts]).tolist() == order.tolist()
        assert max(len(found) for found, _ in parts) <= 200


def test_rows_before_the_first_json_value_are_in_the_index(tmp_path: Path) -> None:
    field = pa.field("j", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})
    documents = [*(['{"b": 1}', None] * 40), '{"a": 3}', "{}", '{"a": 4}']
    table = pa.table([pa.array(documents), pa.array(range(83))], schema=pa.schema([field, pa.field("i", pa.int64())]))
    dataset = lancelet.write_dataset(table, tmp_path / "t", max_rows_per_file=20)
    dataset.delete("i % 5 = 0")
    dataset.create_scalar_index("j", lancelet.indices.IndexConfig("json", {"target_index_type": "btree", "path": "a"}))
    dataset = lancelet.dataset(tmp_path / "t")
    assert dataset.to_table(filter="json_get_int(j, 'a') >= 3", columns=["i"])["i"].to_pylist() == [82]
    assert dataset.verify(deep=True).ok
    missing = "json_get_int(j, 'a') IS NULL"
    assert dataset.count_rows(missing) == dataset.scanner(filter=missing, use_scalar_index=False).count_rows()


PROGRAM = """
import sys
import numpy as np, pyarrow as pa, lancelet

where, kind, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
draw = np.random.default_rng(1)
if kind == "RTREE":
    field = pa.field("v", pa.struct([("x", pa.float64()), ("y", pa.float64())]), metadata={"ARROW:extension:name": "geoarrow.point"})
    values = lambda n: pa.StructArray.from_arrays([pa.array(draw.random(n)), pa.array(draw.random(n))], ["x", "y"])
else:
    field = pa.field("v", pa.string())
    values = lambda n: pa.array([" ".join(f"w{word}" for word in words) for words in draw.integers(0, 2000, (n, 6)).tolist()])
schema = pa.schema([field])

def batches(rows):
    for start in range(0, rows, 65536):
        yield pa.RecordBatch.from_arrays([values(min(65536, rows - start))], schema=schema)

lancelet.write_dataset(pa.RecordBatchReader.from_batches(schema, batches(1000)), where + "/small").create_scalar_index("v", kind)
dataset = lancelet.write_dataset(pa.RecordBatchReader.from_batches(schema, batches(rows)), where + "/large")
start()
dataset.create_scalar_index("v", kind)
done(rows)
"""


@pytest.mark.soak
@needs_proc
@pytest.mark.parametrize(("kind", "rows", "most"), [("RTREE", 8_000_000, 700), ("MINHASHLSH", 1_000_000, 320)])
def test_builds_do_not_grow_with_the_rows(tmp_path: Path, kind: str, rows: int, most: int) -> None:
    counted, grown = measured(PROGRAM, tmp_path, kind, rows)
    assert counted == rows
    assert grown < most * MIB
