"""Pages of file version 2.0, as pylance writes and reads them."""

from __future__ import annotations

import decimal
import random

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lancelet.encoding.fetch import run
from lancelet.encoding.rows import RowIndices, RowRange
from lancelet.errors import CorruptFile, LanceletError, NotSupported
from lancelet.format.schema import Field
from unit.encoding.samples import (
    DICTIONARIES,
    FIXED,
    NESTED,
    TYPES,
    VARIABLE,
    File20,
    low_cardinality,
    make,
    plain,
    write_pages,
)

ROWS = 700
BFLOAT16 = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}
CUTS = [1, 9, 130, 131, 131 + 256, 600]


def read(file: File20, rows=None, field: Field | None = None, gap: int = 4096) -> pa.Array:
    rows = RowRange(0, file.num_rows) if rows is None else rows
    array = run(file.make_reader(gap).read(field or file.schema.fields[0], rows), file.source)
    array.validate(full=True)
    assert len(array) == len(rows)
    return array


def some_rows(count: int, chosen: int, seed: int = 0) -> RowIndices:
    return RowIndices(np.sort(np.random.default_rng(seed).choice(count, min(chosen, count), replace=False)))


def check_everything(file: File20, expected: pa.ChunkedArray) -> None:
    """A scan is what pylance gives; ranges and takes are parts of the scan."""
    scan = read(file)
    values = expected.cast(expected.type.value_type) if pa.types.is_dictionary(expected.type) else expected
    assert plain(scan) == plain(values)
    assert scan.type == expected.type
    whole = scan.to_pylist()
    count = file.num_rows
    for start, stop in [(0, 1), (3, 11), (129, 132), (count // 3, count - 1), (count, count), (8, 8), (5, 5 + 64)]:
        start, stop = min(start, count), min(stop, count)
        assert repr(read(file, RowRange(start, stop)).to_pylist()) == repr(whole[start:stop])
    for chosen in (1, 13, count // 2):
        for gap in (0, 64, 2**62):
            rows = some_rows(count, chosen, chosen)
            assert repr(read(file, rows, gap=gap).to_pylist()) == repr([whole[i] for i in rows.values])


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("nulls", [0, 0.3, 1])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_over_many_pages(tmp_path, dtype, nulls):
    array = make(dtype, ROWS, nulls)
    write_pages(tmp_path / "f.lance", array, CUTS)
    expected = lance.file.LanceFileReader(str(tmp_path / "f.lance")).read_all(batch_size=ROWS).to_table()["c"]
    file = File20(tmp_path / "f.lance")
    check_everything(file, expected)


@pytest.mark.parametrize("dtype", [*NESTED, pa.string()], ids=str)
def test_pages_of_lists_and_items_need_not_match(tmp_path, dtype):
    array = make(dtype, 3000, 0.2)
    write_pages(tmp_path / "f.lance", array, list(range(50, 3000, 50)), cache=4000)
    expected = lance.file.LanceFileReader(str(tmp_path / "f.lance")).read_all(batch_size=3000).to_table()["c"]
    file = File20(tmp_path / "f.lance")
    check_everything(file, expected)


@pytest.mark.parametrize(
    ("dtype", "nulls", "compression"),
    [
        *((dtype, nulls, how) for dtype in VARIABLE for nulls in (0, 0.3, 1) for how in ("zstd", "lz4", "none")),
        *((dtype, nulls, "fsst") for dtype in (pa.string(), pa.binary()) for nulls in (0, 0.3)),
    ],
    ids=str,
)
def test_compressed_strings(tmp_path, dtype, nulls, compression):
    array = make(dtype, 4000, nulls)
    write_pages(tmp_path / "f.lance", array, [3000], metadata={"lance-encoding:compression": compression})
    expected = lance.file.LanceFileReader(str(tmp_path / "f.lance")).read_all(batch_size=4000).to_table()["c"]
    check_everything(File20(tmp_path / "f.lance"), expected)


@pytest.mark.parametrize("nulls", [0, 0.3, 1])
def test_strings_with_few_values_are_stored_by_dictionary(tmp_path, nulls):
    write_pages(tmp_path / "f.lance", low_cardinality(1200, nulls), [300, 300 + 256])
    file = File20(tmp_path / "f.lance")
    page = file.reader._column(file.schema.fields[0]).page(0)
    assert page.encoding.WhichOneof("array_encoding") == "dictionary"
    expected = lance.file.LanceFileReader(str(tmp_path / "f.lance")).read_all(batch_size=4000).to_table()["c"]
    check_everything(file, expected)


def test_dictionaries_of_pages_are_unified(tmp_path):
    dtype = pa.dictionary(pa.int8(), pa.string())
    array = pa.concat_arrays(
        [pa.array(part, dtype) for part in (["a", "b", None, "a"], ["c", "a", None], [None, None], ["b"])]
    )
    write_pages(tmp_path / "f.lance", array, [4, 7, 9])
    scan = read(File20(tmp_path / "f.lance"))
    assert scan.to_pylist() == ["a", "b", None, "a", "c", "a", None, None, None, "b"]
    assert scan.dictionary.to_pylist() == ["a", "b", "c"]


def test_packed_structs_and_some_of_their_children(tmp_path):
    dtype = pa.struct([("x", pa.int32()), ("v", pa.list_(pa.float32(), 3)), ("y", pa.int64()), ("z", pa.uint8())])
    array = make(dtype, 500, 0)
    write_pages(tmp_path / "f.lance", array, [100, 101], metadata={"packed": "true"})
    file = File20(tmp_path / "f.lance")
    expected = lance.file.LanceFileReader(str(tmp_path / "f.lance")).read_all(batch_size=500).to_table()["c"]
    check_everything(file, expected)
    field = file.schema.fields[0]
    pruned = Field(field.id, "c", "struct", True, (field.children[2], field.children[0]), field.metadata)
    part = read(file, some_rows(500, 50), pruned)
    assert [tuple(row) for row in part.to_pylist()] == [("y", "x")] * 50
    assert part.field("y").to_pylist() == [array[int(i)]["y"].as_py() for i in some_rows(500, 50).values]


def test_blobs_give_positions_and_sizes(tmp_path):
    array = pa.array([b"abc", None, b"", b"x" * 5000] * 20, pa.large_binary())
    table = pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata={"lance-encoding:blob": "true"})]))
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.0")
    (path,) = (tmp_path / "t" / "data").iterdir()
    file = File20(path)
    scan = read(file)
    assert plain(scan) == plain(lance.dataset(tmp_path / "t").to_table()["c"])
    first = scan[3].as_py()
    assert file.source.data[first["position"] :][: first["size"]].tobytes() == b"x" * 5000
    assert read(file, RowIndices(np.array([1, 5, 79]))).to_pylist() == [scan[i].as_py() for i in (1, 5, 79)]


def test_json_stays_binary(tmp_path):
    table = pa.table({"c": pa.array(['{"a": 1}', None, "[]"], pa.json_())})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.0")
    (path,) = (tmp_path / "t" / "data").iterdir()
    scan = read(File20(path))
    assert scan.type == pa.large_binary()
    assert scan[0].as_py() == bytes.fromhex("400000011000000120000002615001")
    assert scan[1].as_py() is None


@pytest.mark.parametrize("dtype", [pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.string())])))])])
def test_nested_children_by_id(tmp_path, dtype):
    """Children may be pruned; one that the file has never seen is null."""
    write_pages(tmp_path / "f.lance", make(dtype, 200, 0.2), [50])
    file = File20(tmp_path / "f.lance")
    whole = read(file)
    field = file.schema.fields[0]
    item = field.children[1].children[0]
    unknown = Field(99, "new", "struct", True, (Field(100, "n", "int64"),))
    pruned = Field(0, "c", "struct", True, (
        Field(field.children[1].id, "y", "list.struct", True, (
            Field(item.id, "item", "struct", True, (*item.children, Field(98, "w", "string"))),)),
        unknown,
    ))  # fmt: skip
    part = read(file, field=pruned)
    assert part.field("new").null_count == 200
    lists = part.field("y").to_pylist()
    assert [v and [e["z"] for e in v] for v in lists] == [
        v and [e["z"] for e in v] for v in whole.field("y").to_pylist()
    ]
    assert {e["w"] for v in lists if v for e in v} == {None}


@pytest.mark.parametrize("dtype", [pa.int32(), pa.string(), pa.list_(pa.int32()), pa.struct([("x", pa.int8())])])
def test_files_without_rows(tmp_path, dtype):
    with lance.file.LanceFileWriter(str(tmp_path / "f.lance"), pa.schema([("c", dtype)]), version="2.0"):
        pass
    file = File20(tmp_path / "f.lance")
    assert read(file).to_pylist() == []
    assert read(file, RowIndices(np.zeros(0, np.int64))).type == dtype


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", [pa.int64(), pa.bool_(), pa.list_(pa.float32(), 64), pa.string(), pa.list_(pa.int64())]
)
def test_only_the_bytes_of_the_rows_are_read(tmp_path, dtype):
    array = make(dtype, 20_000, 0)
    write_pages(tmp_path / "f.lance", array, [10_000])
    file = File20(tmp_path / "f.lance")
    width = 4 * 64 if pa.types.is_fixed_size_list(dtype) else 100
    for rows in (RowRange(9_990, 10_010), RowIndices(np.array([5, 7_000, 15_000]))):
        file.source.requests.clear()
        read(file, rows, gap=0)
        assert file.source.bytes_read <= len(rows) * width + 64
        assert len(file.source.requests) <= 2


def test_a_row_range_is_a_view_of_the_file(tmp_path):
    write_pages(tmp_path / "f.lance", make(pa.list_(pa.float32(), 64), 1000, 0), [])
    file = File20(tmp_path / "f.lance")
    values = read(file, RowRange(10, 20)).values.buffers()[1]
    assert file.source.data.ctypes.data <= values.address < file.source.data.ctypes.data + file.source.size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "compression"),
    [
        *((dtype, None) for dtype in (*FIXED[:12:3], pa.string(), *NESTED[::3], DICTIONARIES[0])),
        *((pa.string(), compression) for compression in ("zstd", "lz4", "fsst")),
    ],
    ids=str,
)
def test_flipped_bytes_give_our_errors_or_values(tmp_path, dtype, compression):
    metadata = {"lance-encoding:compression": compression} if compression else None
    write_pages(tmp_path / "f.lance", make(dtype, 300, 0.2), [100, 250], metadata=metadata)
    good = File20(tmp_path / "f.lance")
    raw = good.source.data.tobytes()
    metadata_at = int.from_bytes(raw[-40:-32], "little")
    metadata_end = int.from_bytes(raw[-32:-24], "little")
    r = random.Random(5)
    broken = 0
    for turn in range(250):
        data = bytearray(raw)
        low, high = (metadata_at, metadata_end) if turn % 2 else (0, metadata_at)
        for _ in range(r.choice([1, 1, 1, 4])):
            data[r.randrange(low, high)] ^= 1 << r.randrange(8)
        try:
            file = File20(tmp_path / "f.lance", bytes(data))
        except Exception:  # the tests' own container parser checks nothing
            continue
        file.source.path = str(tmp_path / "f.lance")
        for rows in (RowRange(0, 300), RowIndices(np.arange(3, 300, 7))):
            try:
                array = run(file.make_reader().read(good.schema.fields[0], rows), file.source)
                array.validate(full=True)
                array.to_pylist()
            except LanceletError as error:
                broken += 1
                assert str(tmp_path) in str(error)
    assert broken


def test_columns_that_end_too_early(tmp_path):
    write_pages(tmp_path / "f.lance", make(pa.int32(), 100, 0), [])
    with pytest.raises(CorruptFile, match="has 100 values, but value 100 is needed"):
        read(File20(tmp_path / "f.lance"), RowRange(0, 101))


def test_an_unknown_encoding_is_refused_by_name(tmp_path):
    write_pages(tmp_path / "f.lance", make(pa.int32(), 100, 0), [])
    file = File20(tmp_path / "f.lance")
    page = file.columns[0].pages[0]
    page.encoding.direct.encoding = page.encoding.direct.encoding.replace(b"ArrayEncoding", b"OtherEncoding")
    with pytest.raises(NotSupported, match="OtherEncoding"):
        read(file)


@pytest.mark.parametrize(
    "dtype",
    [
        pa.list_(pa.field("item", pa.binary(2), metadata=BFLOAT16), 4),
        pa.struct([]),
        pa.list_(pa.field("element", pa.int32(), nullable=False)),
        pa.list_(pa.struct([("v", pa.list_(pa.list_(pa.bool_(), 3), 5))])),
    ],
    ids=str,
)
def test_odd_types(tmp_path, dtype):
    write_pages(tmp_path / "f.lance", make(dtype, 100, 0), [30])
    expected = lance.file.LanceFileReader(str(tmp_path / "f.lance")).read_all(batch_size=100).to_table()["c"]
    # Where somebody imported lance.arrow, pylance gives its own numbers of 16 bits.
    expected = expected.cast(dtype)
    scan = read(File20(tmp_path / "f.lance"))
    assert plain(scan) == plain(expected)
    assert scan.type == expected.type


def test_decimals_of_negative_scale(tmp_path):
    array = pa.array([decimal.Decimal(12300), None], pa.decimal128(10, -2))
    write_pages(tmp_path / "f.lance", array, [])
    assert read(File20(tmp_path / "f.lance")).equals(array)
