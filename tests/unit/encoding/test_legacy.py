"""Legacy files, version 0.1, as pylance writes and reads them."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancelet.encoding.fetch import run
from lancelet.encoding.legacy import LegacyReader
from lancelet.encoding.rows import RowIndices, RowRange
from lancelet.errors import CorruptFile, LanceletError, NotSupported
from lancelet.format.schema import Field
from unit.encoding.samples import DICTIONARIES, TYPES, Source, make, plain

ROWS = 500
FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures" / "historical"


def write(folder: Path, table: pa.Table, group: int = 64) -> Path:
    """A table of one legacy file; returns the file."""
    lance.write_dataset(table, folder, data_storage_version="legacy", max_rows_per_group=group)
    (path,) = (folder / "data").iterdir()
    return path


def open_file(path: Path, data: bytes | None = None) -> LegacyReader:
    return LegacyReader(Source(str(path), path.read_bytes() if data is None else data))


def read(file: LegacyReader, field: Field, rows=None) -> pa.Array:
    rows = RowRange(0, file.num_rows) if rows is None else rows
    array = run(file.read(field, rows), file._source)
    array.validate(full=True)
    assert len(array) == len(rows)
    return array


def column(array: pa.Array, name: str = "c") -> pa.Table:
    return pa.table({name: array})


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("group", [64, 7, 1024])
@pytest.mark.parametrize("nulls", [0, 0.3, 1])
@pytest.mark.parametrize("dtype", [t for t in TYPES if t not in DICTIONARIES], ids=str)
def test_every_type_over_many_batches(tmp_path, dtype, nulls, group):
    path = write(tmp_path / "t", column(make(dtype, ROWS, nulls)), group)
    file = open_file(path)
    assert file.num_rows == ROWS
    field = file.schema.fields[0]
    dataset = lance.dataset(tmp_path / "t")
    scan = read(file, field)
    assert scan.type == dtype
    assert plain(scan) == plain(dataset.to_table()["c"])
    whole = scan.to_pylist()
    for start, stop in [(0, 1), (5, 70), (63, 65), (64, 128), (100, 499), (500, 500)]:
        assert repr(read(file, field, RowRange(start, stop)).to_pylist()) == repr(whole[start:stop])
    for chosen in (1, 17, 300):
        rows = np.sort(np.random.default_rng(chosen).choice(ROWS, chosen, replace=False))
        assert repr(read(file, field, RowIndices(rows)).to_pylist()) == repr([whole[i] for i in rows])


@pytest.mark.parametrize("nulls", [0, 0.3])
@pytest.mark.parametrize("dtype", DICTIONARIES, ids=str)
def test_dictionaries(tmp_path, dtype, nulls):
    path = write(tmp_path / "t", column(make(dtype, ROWS, nulls)))
    file = open_file(path)
    scan = read(file, file.schema.fields[0])
    assert scan.type == dtype
    assert plain(scan) == plain(lance.dataset(tmp_path / "t").to_table()["c"])
    rows = RowIndices(np.arange(3, ROWS, 11))
    assert read(file, file.schema.fields[0], rows).to_pylist() == scan.take(pa.array(rows.values)).to_pylist()


def test_nulls_are_lost_but_for_strings(tmp_path):
    table = pa.table({
        "i": pa.array([1, None, 3]), "s": ["a", None, ""], "l": [[1], None, []], "b": [True, None, True],
        "n": pa.array(["x", "", "y"]),
    }, schema=pa.schema([("i", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64())), ("b", pa.bool_()),
                         pa.field("n", pa.string(), nullable=False)]))  # fmt: skip
    file = open_file(write(tmp_path / "t", table))
    found = {field.name: read(file, field).to_pylist() for field in file.schema.fields}
    assert found == {
        "i": [1, 0, 3], "s": ["a", None, None], "l": [[1], [], []], "b": [True, False, True], "n": ["x", "", "y"],
    }  # fmt: skip


def test_columns_added_later_have_files_and_tables_of_their_own(tmp_path):
    write(tmp_path / "t", pa.table({"a": range(200), "s": [{"x": i, "y": str(i)} for i in range(200)]}))
    dataset = lance.dataset(tmp_path / "t")
    dataset.add_columns({"b": "a + 1", "c": "a * 2"})
    files = {f.fields[0]: f.path for f in lance.dataset(tmp_path / "t").get_fragments()[0].data_files()}
    added = open_file(tmp_path / "t" / "data" / files[4])
    assert [(f.id, f.name) for f in added.schema.fields] == [(4, "b"), (5, "c")]
    assert read(added, added.schema.fields[1]).to_pylist() == list(range(0, 400, 2))


def test_children_by_id(tmp_path):
    values = [{"x": i, "y": [{"z": str(i)}] * (i % 3)} for i in range(200)]
    file = open_file(write(tmp_path / "t", pa.table({"s": values})))
    field = file.schema.fields[0]
    item = field.children[1].children[0]
    pruned = Field(0, "s", "struct", True, (
        Field(field.children[1].id, "y", "list.struct", True, (
            Field(item.id, "item", "struct", True, (*item.children, Field(98, "w", "string"))),)),
        Field(99, "new", "int64"),
    ))  # fmt: skip
    expected = [{"y": [{"z": v["z"], "w": None} for v in row["y"]], "new": None} for row in values]
    assert read(file, pruned).to_pylist() == expected


def test_files_that_do_not_describe_themselves(tmp_path):
    """Without an embedded manifest the ids come from the table's manifest."""
    path = write(tmp_path / "t", pa.table({"a": range(100), "d": pa.array(["x", "y"] * 50).dictionary_encode()}))
    file = open_file(path)
    fields = file.schema.fields
    raw = path.read_bytes()
    metadata = file._metadata
    metadata.ClearField("manifest_position")
    position = int.from_bytes(raw[-16:-8], "little")
    body = metadata.SerializeToString()
    bare = raw[:position] + len(body).to_bytes(4, "little") + body + raw[-16:]
    values = {fields[1].id: pa.array(["x", "y"])}
    again = LegacyReader(Source("bare", bare), field_ids=[0, 1], dictionaries=values)
    assert again.schema is None
    assert read(again, fields[0]).to_pylist() == list(range(100))
    assert read(again, fields[1]).to_pylist() == ["x", "y"] * 50
    with pytest.raises(CorruptFile, match="dictionary of field 'd'"):
        read(LegacyReader(Source("bare", bare), field_ids=[0, 1]), fields[1])


def test_statistics_bound_every_page(tmp_path):
    dtypes = [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_binary(), pa.date32(),
              pa.decimal128(12, 2)]  # fmt: skip
    table = pa.table({str(t): make(t, ROWS, 0.3) for t in dtypes})
    table = table.append_column("long", pa.array(["\u00ff" * 40 + str(i) for i in range(ROWS)]))
    table = table.append_column("s", pa.array([{"x": i} for i in range(ROWS)]))
    file = open_file(write(tmp_path / "t", table))
    statistics = file.statistics()
    assert file.num_batches == 8
    names = {field.id: field.name for field in file.schema.walk()}
    assert {names[i] for i in statistics} == {*table.column_names[:-1], "x"}
    for field_id, found in statistics.items():
        source = table["s"].combine_chunks().field("x") if names[field_id] == "x" else table[names[field_id]]
        for batch in range(8):
            chunk = source.slice(batch * 64, 64)
            assert found.null_count[batch].as_py() == chunk.null_count
            values = [v for v in chunk.to_pylist() if v is not None and v == v]
            low, high = found.min_value[batch].as_py(), found.max_value[batch].as_py()
            assert low is None or low <= min(values)
            assert high is None or high >= max(values)
    integers = statistics[0]
    assert integers.min_value.type == pa.int8()
    assert integers.min_value[0].as_py() == min(v for v in table["int8"].slice(0, 64).to_pylist() if v is not None)


def test_a_file_without_covered_fields_has_no_statistics(tmp_path):
    assert open_file(write(tmp_path / "t", pa.table({"v": make(pa.list_(pa.float32(), 4), 10, 0)}))).statistics() == {}


def test_only_the_bytes_of_the_rows_are_read(tmp_path):
    file = open_file(write(tmp_path / "t", pa.table({"a": range(50_000), "s": [str(i) for i in range(50_000)]}), 1024))
    for field in file.schema.fields:
        read(file, field)
        file._source.requests.clear()
        assert len(read(file, field, RowIndices(np.array([3, 20_000, 20_001])))) == 3
        assert file._source.bytes_read < 100
        assert len(file._source.requests) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [pa.int32(), pa.bool_(), pa.string(), pa.list_(pa.string()), pa.list_(pa.list_(pa.int16())),
                                   pa.struct([("x", pa.list_(pa.binary()))]), pa.dictionary(pa.int8(), pa.string())], ids=str)  # fmt: skip
def test_flipped_bytes_give_our_errors_or_values(tmp_path, dtype):
    path = write(tmp_path / "t", column(make(dtype, 300, 0.2)))
    raw = path.read_bytes()
    field = open_file(path).schema.fields[0]
    r = random.Random(7)
    broken = 0
    for _ in range(400):
        data = bytearray(raw)
        for _ in range(r.choice([1, 1, 3])):
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
        for rows in (RowRange(0, 300), RowIndices(np.arange(3, 300, 7))):
            try:
                file = open_file(path, bytes(data))
                array = run(file.read(field, rows), file._source)
                array.validate(full=True)
                array.to_pylist()
                file.statistics()
            except LanceletError as error:
                broken += 1
                assert str(path) in str(error) or "statistics" in str(error) or "logical type" in str(error)
    assert broken


def test_other_versions_are_refused(tmp_path):
    raw = write(tmp_path / "t", pa.table({"a": [1]})).read_bytes()
    with pytest.raises(NotSupported, match=r"version 0\.3"):
        LegacyReader(Source("f", raw[:-6] + b"\x03\x00LANC"))
    with pytest.raises(CorruptFile, match="LANC"):
        LegacyReader(Source("f", raw[:-4] + b"PAR1"))
    with pytest.raises(CorruptFile, match="footer"):
        LegacyReader(Source("f", raw[-10:]))


def test_historical_files():
    if not FIXTURES.exists():
        pytest.skip("the historical tables are not beside the project")
    for path in [*FIXTURES.glob("v0.7.5/*/data/*.lance"), *FIXTURES.glob("v0.8.0/*/data/*.lance")]:
        file = open_file(path)
        assert read(file, file.schema.fields[0]).to_pylist() in (list(range(100)), [0, 1], [100, 101])
        assert file.statistics() == {}
