"""BTREE: what it has of its own, beside :mod:`index.test_kinds`; segments written in parts."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap

import lancelet
from faults.damage import flips, patches, truncations
from index.segments import Rows, Workbench, batches, content
from index.truths import LARGE, SPREAD, check, check_pylance, numbered, questions
from lancelet.errors import CorruptFile, InvalidInput, LanceletError
from lancelet.format.proto import table_pb2
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import NewRows, Source
from lancelet.index.metadata import IndexFile, read_indices
from lancelet.index.questions import Between, HasItems, Holds, IsIn, Missing, StartsWith
from lancelet.index.scalar.btree import KIND
from lancelet.index.scalar.btree_files import DATA, LOOKUP, PARTS_KEY, finish_parts, write_part
from lancelet.index.scalar.btree_segment import BTreeSegment
from lancelet.index.segments import NewSegment, write_segment
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.snapshot import Snapshot

VALUES: dict[str, pa.Array] = SPREAD | LARGE


def write(bench: Workbench, values: pa.Array, rows: Rows, page_rows: int, sources: list[Source] | None = None) -> Any:
    """A segment with pages of some size."""
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    KIND.write(sources or [], NewRows(bench.dtype, batches(values, rows, 70)), out, {"zone_size": page_rows})
    return opened(bench, out)


def opened(bench: Workbench, out: SegmentWriter, **changes: Any) -> BTreeSegment:
    entry = replace(bench.entry, uuid=out.uuid, files=tuple(out.written), **changes)
    return KIND.open(IndexFolder(bench.snapshot, entry), bench.dtype)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-99999999, 2932896 + 5], pa.date32()),
        pa.array([-86400000 * 800000, 86400000 * 3000000], pa.date64()),
        pa.array([0.1, 65504], pa.float16()),
        pa.array([3.4e38, 1e-40], pa.float32()),
        pa.array([b"x" * 11, b"y" * 10], pa.binary()),
        pa.array([Decimal("-99999999999999999999999999999999999999999999.25")], pa.decimal256(50, 2)),
    ],
    ids=lambda values: str(values.type),
)
def test_statistics_print_as_pylance_does(tmp_path: Path, values: pa.Array) -> None:
    bench = Workbench(tmp_path / "t", values, KIND)
    assert dict(bench.theirs().statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]


def commit_segment(where: Path, page_rows: int = 16) -> None:
    """Build an index with small pages, and commit it."""
    snapshot = lancelet.dataset(where)._snapshot
    table = lance.dataset(where).to_table(["v"], with_row_address=True)
    fragments = snapshot.manifest.fragments.ids.tolist()
    new = NewSegment("v_idx", (0,), KIND, frozenset(fragments), {"zone_size": page_rows})
    values, rows = table["v"].combine_chunks(), table["_rowaddr"].to_numpy()
    with WrittenFiles(snapshot.store) as files:
        entry = write_segment(snapshot, new, (), NewRows(values.type, batches(values, rows, 50)), files)
        commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),)), files=files)


@pytest.mark.parametrize("name", ["int64", "string", "wide", "float64"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_pylance_asks_ours(tmp_path: Path, name: str, stable: bool) -> None:
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"v": VALUES[name]}), where, max_rows_per_file=70, enable_stable_row_ids=stable)
    lance.dataset(where).delete("_rowid % 11 = 3")
    commit_segment(where)
    values = VALUES[name].filter(
        pa.array([not math.isnan(v) if isinstance(v, float) else True for v in VALUES[name].to_pylist()])
    )
    check_pylance(where, values)
    (entry,) = read_indices(lancelet.dataset(where)._snapshot.manifest)
    assert entry.index_version == int(stable)
    assert KIND.names_addresses(entry) is stable
    lance.write_dataset(pa.table({"v": VALUES[name]}), where, mode="append")
    lance.dataset(where).optimize.optimize_indices()
    check_pylance(where, values)
    lance.dataset(where).optimize.compact_files()
    check_pylance(where, values)


def test_ids_become_addresses(tmp_path: Path) -> None:
    """Version 0 holds stable row ids where a table has them; what is written from it holds addresses."""
    where = tmp_path / "t"
    values = VALUES["int64"]
    lance.write_dataset(pa.table({"v": values}), where, max_rows_per_file=70, enable_stable_row_ids=True)
    lance.dataset(where).delete("v > 30")
    lance.dataset(where).optimize.compact_files()
    table = lance.dataset(where).to_table(with_row_id=True)
    snapshot = lancelet.dataset(where)._snapshot
    out = SegmentWriter(snapshot.store, uuid4(), "2.1", WrittenFiles(snapshot.store))
    rows = table["_rowid"].to_numpy()
    KIND.write([], NewRows(values.type, batches(table["v"].combine_chunks(), rows, 50)), out, {})
    commit_parts(snapshot, out)
    before = lancelet.dataset(where)
    wanted = [f"v {operator} 3" for operator in ("=", "<", "<>")] + ["v is null", "v in (1, 2, 3, 4, 5, 6, 7)"]
    truths = [
        sorted(before.to_table([], filter=text, with_row_id=True, use_scalar_index=False)["_rowid"].to_pylist())
        for text in wanted
    ]
    for text, truth in zip(wanted, truths, strict=True):
        assert sorted(before.to_table([], filter=text, with_row_id=True)["_rowid"].to_pylist()) == truth
    lance.write_dataset(pa.table({"v": pa.array([1000, 1001])}), where, mode="append")
    dataset = lancelet.dataset(where)
    dataset.optimize.optimize_indices()
    (entry,) = read_indices(lancelet.dataset(where)._snapshot.manifest)
    assert entry.index_version == 1
    for engine in (lancelet, lance):
        for text, truth in zip(wanted, truths, strict=True):
            if "<>" not in text:
                scanner = engine.dataset(str(where)).scanner([], filter=text, with_row_id=True)
                assert sorted(scanner.to_table()["_rowid"].to_pylist()) == truth


def test_a_nested_column(tmp_path: Path) -> None:
    inner = VALUES["string"]
    table = pa.table({"s": pa.StructArray.from_arrays([inner, VALUES["int64"]], ["a", "b"])})
    lance.write_dataset(table, tmp_path / "t", max_rows_per_file=90)
    for name, engine in (("ours", lancelet), ("theirs", lance)):
        engine.dataset(str(tmp_path / "t")).create_scalar_index("s.a", "BTREE", name=name)
    snapshot = lancelet.dataset(tmp_path / "t")._snapshot
    rows = lance.dataset(tmp_path / "t").to_table([], with_row_id=True)["_rowid"].to_numpy()
    for entry in read_indices(snapshot.manifest):
        segment = KIND.open(IndexFolder(snapshot, entry), pa.string())
        for question in questions(inner, KIND):
            check(segment.ask(question), question, inner, rows)


def test_what_it_takes() -> None:
    for dtype in (
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.null(),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
    ):
        with pytest.raises(TypeError, match="BTREE index is on"):
            KIND.check(pa.field("v", dtype), {})
        assert not KIND.takes(Missing(), dtype)
    with pytest.raises(TypeError, match="json"):
        KIND.check(pa.field("v", pa.json_()), {})
    with pytest.raises(InvalidInput, match="'bins'"):
        KIND.check(pa.field("v", pa.int8()), {"bins": 3})
    for rows in (0, -1, "7", 1 << 32):
        with pytest.raises(InvalidInput, match="zone_size"):
            KIND.check(pa.field("v", pa.int8()), {"zone_size": rows})
    assert not KIND.takes(StartsWith("a"), pa.int8())
    assert not KIND.takes(Holds(("a",), True), pa.string())
    assert not KIND.takes(HasItems(pa.array([1]), True), pa.int64())


@pytest.mark.parametrize("name", ["distinct", "string", "mostly null"])
def test_a_lookup_reads_few_pages(tmp_path: Path, name: str) -> None:
    """However many rows there are: values of two pages at most, ids of the rows found, and no nulls."""
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND)
    for value in values.drop_null().unique()[:20]:
        folder = IndexFolder(bench.snapshot, bench.entry)
        segment = KIND.open(folder, values.type)
        before = replace(folder.count)
        answer = segment.ask(IsIn(pa.repeat(value, 1)))
        assert folder.count.rows - before.rows <= 2 * 4096 + len(answer.rows)
        read = folder.count.parts
        segment.ask(IsIn(pa.repeat(value, 1)))
        assert folder.count.parts == read, "the page and the ids are kept"
        folder = IndexFolder(bench.snapshot, bench.entry)
        segment = KIND.open(folder, values.type)
        before = replace(folder.count)
        answer = segment.ask(Between(value, None))
        assert folder.count.rows - before.rows <= 2 * 4096 + len(answer.rows)


# Merging.


def test_many_segments_become_one(tmp_path: Path) -> None:
    """More than are merged at once, some without rows; pages stay as large as those of the first."""
    values = VALUES["string"]
    bench = Workbench(tmp_path / "t", values, KIND)
    pieces = [values.slice(at, 7) for at in range(0, len(values), 7)] + [values.slice(0, 0)]
    numbers = [numbered(len(piece)) + np.uint64(at << 32) for at, piece in enumerate(pieces)]
    sources = [Source(write(bench, *pair, 5)) for pair in zip(pieces, numbers, strict=True)]
    assert len(sources) > 40
    merged, _, folder = bench.write(None, None, sources)
    assert content(folder / LOOKUP)[1][b"batch_size"] == b"5"
    for question in questions(values, KIND):
        check(merged.ask(question), question, values, np.concatenate(numbers))


# Parts.


def _range_parts(bench: Workbench, values: pa.Array, rows: Rows, cuts: list[int], page_rows: int = 16) -> SegmentWriter:
    """Sort, cut, write the pieces as processes of their own would, and make a segment of them."""
    present, missing = (
        np.flatnonzero(one.to_numpy(zero_copy_only=False)) for one in (values.is_valid(), values.is_null())
    )
    ordered = present[pc.sort_indices(values.take(pa.array(present))).to_numpy()]
    order = np.concatenate([missing, ordered])
    values, rows = values.take(pa.array(order)), rows[order]
    uuid = uuid4()
    stable = bench.snapshot.manifest.has_stable_row_ids
    lookups = []
    for part, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(values)], strict=True)):
        out = SegmentWriter(bench.snapshot.store, uuid, "2.1", WrittenFiles(bench.snapshot.store), stable)
        shuffled = np.random.default_rng(part).permutation(np.arange(start, stop))
        piece = batches(values.take(pa.array(shuffled)), rows[shuffled], 40)
        lookups.append(
            pickle.loads(pickle.dumps(write_part(piece, values.type, out, part, page_rows, attempt=7 * part)))
        )
    out = SegmentWriter(bench.snapshot.store, uuid, "2.1", WrittenFiles(bench.snapshot.store), stable)
    assert finish_parts(reversed(lookups), values.type, out).index_version == int(stable)
    return out


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(
    "name", ["int64", "string", "distinct", "dense", "mostly null", "all null", "no rows", "decimal128"]
)
def test_parts(tmp_path: Path, name: str) -> None:
    """Ranges that several processes wrote answer like one file, and can be merged again."""
    values = VALUES[name]
    bench = Workbench(tmp_path / "t", values, KIND)
    rows = numbered(len(values))
    count = len(values)
    for cuts in ([], [0, count // 3, count // 3, count // 2], [1, count] if count else [0]):
        segment = opened(bench, _range_parts(bench, values, rows, cuts))
        for question in questions(values, KIND):
            check(segment.ask(question), question, values, rows)
        merged, _, _ = bench.write(None, None, [Source(segment)])
        for question in questions(values, KIND)[:12]:
            check(merged.ask(question), question, values, rows)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("gone", ["v = 5 or v is null", "v > 20", "v between -20 and 20"])
def test_pylance_reads_parts(tmp_path: Path, stable: bool, gone: str) -> None:
    """It asks them, adds to them and follows a compaction."""
    values = VALUES["int64"]
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"v": values}), where, max_rows_per_file=70, enable_stable_row_ids=stable)
    bench = object.__new__(Workbench)
    bench.where, bench.kind, bench.dtype = where, KIND, values.type
    rows = lance.dataset(where).to_table([], with_row_address=True)["_rowaddr"].to_numpy()
    commit_parts(bench.snapshot, _range_parts(bench, values, rows, [0, 100, 170, 170]))
    check_pylance(where, values)
    lance.write_dataset(pa.table({"v": values}), where, mode="append")
    lance.dataset(where).optimize.optimize_indices(num_indices_to_merge=0)
    check_pylance(where, values)
    lance.dataset(where).delete(gone)
    lance.dataset(where).optimize.compact_files()
    check_pylance(where, values)
    lance.dataset(where).optimize.optimize_indices(num_indices_to_merge=2)
    check_pylance(where, values)


def test_a_part_that_pylance_emptied(tmp_path: Path) -> None:
    """When a compaction of pylance's leaves a part without rows, pylance cannot open the index any more; we can."""
    values = VALUES["int64"]
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"v": values}), where, max_rows_per_file=70)
    bench = object.__new__(Workbench)
    bench.where, bench.kind, bench.dtype = where, KIND, values.type
    rows = lance.dataset(where).to_table([], with_row_address=True)["_rowaddr"].to_numpy()
    commit_parts(bench.snapshot, _range_parts(bench, values, rows, [100, 160]))
    lance.dataset(where).delete("v < 0")
    lance.dataset(where).optimize.compact_files()
    left = lance.dataset(where).to_table(with_row_address=True)
    segment = bench.theirs()
    assert json.loads(_metadata(bench)[PARTS_KEY.encode()])[1][1] == 0
    merged, _, _ = bench.write(None, None, [Source(segment)])
    for question in questions(values, KIND):
        for one in (segment, merged):
            check(one.ask(question), question, left["v"].combine_chunks(), left["_rowaddr"].to_numpy())


def _metadata(bench: Workbench) -> dict[bytes, bytes]:
    return dict(content(bench.folder(bench.entry) / LOOKUP)[1])


def commit_parts(snapshot: Snapshot, out: SegmentWriter) -> None:
    entry = table_pb2.IndexMetadata(
        name="v_idx",
        fields=[0],
        dataset_version=snapshot.version,
        fragment_bitmap=BitMap(snapshot.manifest.fragments.ids.tolist()).serialize(),
        index_version=int(out.stable_row_ids),
        files=[table_pb2.IndexFile(path=file.path, size_bytes=file.size) for file in out.written],
    )
    entry.uuid.uuid = out.uuid.bytes
    entry.index_details.type_url = KIND.type_url
    commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),)))


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "t", pa.array([1, 2, 3, None]), KIND)

    def part(number: int, values: list[int | None], page_rows: int = 16) -> Any:
        out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
        return write_part(
            batches(pa.array(values, pa.int64()), numbered(len(values)), 9), pa.int64(), out, number, page_rows
        )

    for parts, text in (
        ([part(0, [1, 5]), part(1, [4])], "above the first value of part 1"),
        ([part(0, [1]), part(1, [None])], "above the first value"),
        ([part(0, [1]), part(0, [2])], "twice"),
        ([part(0, [1]), part(1, [2], 8)], "page_rows"),
    ):
        out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
        with pytest.raises(InvalidInput, match=text):
            finish_parts(parts, pa.int64(), out)


def test_a_part_alone(tmp_path: Path) -> None:
    """A part with a lookup of its own, which nobody merged, is a segment too."""
    values = VALUES["int64"]
    bench = Workbench(tmp_path / "t", values, KIND)
    _, _, folder = bench.write(values)
    for name in (DATA, LOOKUP):
        (folder / name).rename(folder / f"part_4294967296_{name}")
    files = tuple(IndexFile(path.name, path.stat().st_size) for path in folder.iterdir())
    entry = replace(bench.entry, uuid=type(bench.entry.uuid)(folder.name), files=files)
    segment = KIND.open(IndexFolder(bench.snapshot, entry), values.type)
    for question in questions(values, KIND):
        check(segment.ask(question), question, values, numbered(len(values)))


# Damage.


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("bench") / "t", pa.array([1, 2, None]), KIND)


GOOD = {"min": [None, 3], "max": [2, 4], "null_count": [1, 0], "page_idx": [0, 1]}
ROWS = {"values": [None, 1, 2, 3, 4], "ids": [0, 1, 2, 3, 4]}
META = {"batch_size": "3", "range_partitioned": "false"}


def forged(bench: Workbench, lookup: dict[str, Any], rows: dict[str, Any], metadata: dict[str, str]) -> BTreeSegment:
    """A segment with files of our making."""
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    types = {"ids": pa.uint64(), "null_count": pa.uint32(), "page_idx": pa.uint32()}
    for name, columns, extra in ((DATA, rows, {}), (LOOKUP, lookup, metadata)):
        arrays = {
            key: value if isinstance(value, pa.Array) else pa.array(value, types.get(key, pa.int64()))
            for key, value in columns.items()
        }
        batch = pa.record_batch(arrays).replace_schema_metadata(extra)
        with out.create(name, batch.schema) as writer:
            writer.write(batch)
    return opened(bench, out)


def test_the_forged_one_is_good(bench: Workbench) -> None:
    segment = forged(bench, GOOD, ROWS, META)
    assert segment.ask(Between(pa.scalar(2), None)).rows.numbers().tolist() == [2, 3, 4]
    backwards = {name: column[::-1] for name, column in GOOD.items()}
    assert forged(bench, backwards, ROWS, META).ask(Missing()).rows.numbers().tolist() == [0]


@pytest.mark.parametrize(
    ("lookup", "rows", "metadata", "text"),
    [
        ({"page_idx": [0, 2]}, {}, {}, "name every page once"),
        ({"page_idx": [1, 1]}, {}, {}, "name every page once"),
        ({"min": [None, 1]}, {}, {}, "not in order"),
        ({"max": [4, 4]}, {}, {}, "not in order"),
        ({"min": [None, 5]}, {}, {}, "not in order"),
        ({"null_count": [0, 0]}, {}, {}, "counts of nulls"),
        ({"null_count": [1, 1]}, {}, {}, "counts of nulls"),
        ({"null_count": [3, 0]}, {}, {}, "counts of nulls"),
        ({"max": [2, None]}, {}, {}, "nulls after"),
        ({"min": pa.array([None, "3"])}, {}, {}, "is string"),
        ({}, {}, {"batch_size": "0"}, "batch_size"),
        ({}, {}, {"batch_size": "many"}, "batch_size"),
        ({}, {}, {"batch_size": "2"}, "3 pages|not 2 pages"),
        ({}, {}, {"range_partitioned": "true"}, PARTS_KEY),
        ({}, {}, {"range_partitioned": "true", PARTS_KEY: "[[0, 1]]"}, "2 pages"),
        ({}, {}, {"range_partitioned": "true", PARTS_KEY: "[7]"}, PARTS_KEY),
        ({}, {"values": [None, 1, 2, 4, 3]}, {}, "does not have the values"),
        ({}, {"values": [None, 2, 2, 3, 5]}, {}, "does not have the values"),
        ({}, {"values": [1, None, 2, 3, 4]}, {}, "does not have the values"),
        ({}, {"values": [1, 1, 2, 3, 4]}, {}, "does not have the values"),
        ({}, {"values": pa.array(["a"] * 5)}, {}, "values and ids"),
        ({}, {"values": [None, 1, 2, 3], "ids": [0, 1, 2, 3]}, {}, "does not have the values"),
        ({}, {"values": [None, 1], "ids": [0, 1]}, {}, "2 pages"),
        ({}, {"ids": pa.array([0, 1, None, 3, 4], pa.uint64())}, {}, "without an id"),
    ],
)
def test_lies(bench: Workbench, lookup: Any, rows: Any, metadata: Any, text: str) -> None:
    with pytest.raises(CorruptFile, match=text):
        asked_of(forged(bench, GOOD | lookup, ROWS | rows, META | metadata))


def asked_of(segment: BTreeSegment) -> None:
    for value in (1, 2, 3, 4):
        segment.ask(IsIn(pa.array([value])))
        segment.ask(Between(pa.scalar(0), pa.scalar(value), False, True))


@pytest.mark.parametrize("values", [[None, 1, 0, 3, 4], [None, 1, 2, 1, 4], [1, None, 2, 3, 4], [None, 1, 2, 3, 0]])
def test_merging_what_is_not_in_order(bench: Workbench, values: list[int | None]) -> None:
    segment = forged(bench, GOOD, ROWS | {"values": values}, META)
    with pytest.raises(CorruptFile):
        bench.write(None, None, [Source(segment)])


@pytest.mark.parametrize("name", [DATA, LOOKUP])
@pytest.mark.parametrize("column", ["int64", "string"])
def test_damaged_bytes(tmp_path: Path, name: str, column: str) -> None:
    """An error that names the file, or an answer; never anything else."""
    values = VALUES[column]
    bench = Workbench(tmp_path / "t", values, KIND)
    source = write(bench, values, numbered(len(values)), 64).path
    victim = Path(source).parent / name
    good = victim.read_bytes()
    wanted = questions(values, KIND)[:6]
    for damage in flips(good, 60, 1) + patches(good, 60, 2) + truncations(good, 10, 3):
        victim.unlink()  # What is mapped stays as it is.
        victim.write_bytes(damage.apply(good))
        entry = replace(bench.entry, uuid=type(bench.entry.uuid)(victim.parent.name), files=())
        try:
            segment = KIND.open(IndexFolder(bench.snapshot, entry), values.type)
            for question in wanted:
                segment.ask(question)
        except LanceletError as error:
            assert name in str(error) or LOOKUP in str(error)
