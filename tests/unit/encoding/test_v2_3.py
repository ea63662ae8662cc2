"""File version 2.3: pylance writes, lancelet reads, what went in is the judge."""

from __future__ import annotations

import contextlib
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import Message

from lancelet.encoding.fetch import FileBytes, run
from lancelet.encoding.grammars import open_page
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, RowIndices, RowRange, Rows
from lancelet.encoding.v2_1.levels import ITEM, LIST
from lancelet.encoding.v2_1.pages import PageContext
from lancelet.encoding.v2_3.sparse import SparsePage
from lancelet.encoding.v2_3.structure import (
    EvenNumbers,
    ItemLayer,
    ListedNumbers,
    ListLayer,
    Slots,
    SparseLayers,
    Validity,
)
from lancelet.encoding.words import MAX_COMPACT, decode_words, no_pieces, one_piece
from lancelet.errors import CorruptFile, LanceletError, NotSupported
from lancelet.file.container import Container
from lancelet.file.reader import open_file
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.proto import encodings23_pb2 as planar_pb
from lancelet.format.schema import Field

lance_file = pytest.importorskip("lance.file")

PLACE = Place("test")
NOWHERE = PageContext(FileBytes("test", 0, None), PLACE, (), (), 1, pa.int32(), (ITEM,))
SPARSE = {"lance-encoding:structural-encoding": "sparse"}
SETTINGS: dict[str, dict[str, str] | None] = {
    "default": None,
    "sparse": SPARSE,
    "zstd": {"lance-encoding:compression": "zstd"},
    "lz4": {"lance-encoding:compression": "lz4"},
    "none": {"lance-encoding:compression": "none"},
    "fullzip": {"lance-encoding:structural-encoding": "fullzip"},
    "miniblock": {"lance-encoding:structural-encoding": "miniblock"},
}


@dataclass(frozen=True)
class Memory:
    """A file in memory, mapped or not."""

    raw: bytes
    is_mapped: bool = True
    path: str = "memory.lance"

    @property
    def size(self) -> int:
        return len(self.raw)

    @property
    def mapped(self) -> Bytes | None:
        return np.frombuffer(self.raw, np.uint8) if self.is_mapped else None

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Bytes]:
        data = np.frombuffer(self.raw, np.uint8)
        assert all(at >= 0 and size >= 0 and at + size <= len(data) for at, size in ranges)
        return [data[at : at + size] for at, size in ranges]

    def read_pieces(self, starts: object, sizes: object, out: object) -> bool:
        return False

    def reserve(self, ranges: int, nbytes: int) -> None:
        pass

    def release(self, start: int, stop: int) -> None:
        pass


def written(array: pa.Array, folder: Path, settings: dict[str, str] | None = None, batch: int | None = None) -> bytes:
    path = folder / "file.lance"
    schema = pa.schema([pa.field("c", array.type, metadata=settings)])
    with lance_file.LanceFileWriter(str(path), schema, version="2.3") as writer:
        for start in range(0, len(array), batch or len(array)):
            writer.write_batch(pa.record_batch([array.slice(start, batch)], schema=schema))
    return path.read_bytes()


def read(raw: bytes, rows: Rows, mapped: bool = True, field: Field | None = None) -> pa.Array:
    source = Memory(raw, mapped)
    file = open_file(source)
    found = run(file.read(field or file.schema().fields[0], rows), source)
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks)
    found.validate(full=True)
    return found


def layouts(raw: bytes) -> list[planar_pb.PlanarLayout]:
    """The layouts of all pages."""
    source = Memory(raw)
    container = Container.read(source, source.size, source.path)
    found = []
    for column in range(len(container.columns)):
        for page in container.column(source, column).pages:
            described = column_pb2.AnyMessage.FromString(page.encoding.direct.encoding)
            assert described.type_url == "/lance.encodings23.PlanarLayout"
            found.append(planar_pb.PlanarLayout.FromString(described.value))
    return found


def assert_reads(raw: bytes, expected: pa.Array, seed: int = 0) -> None:
    """Scan, ranges and scattered rows, from a mapped file and from one that is fetched."""
    rng = np.random.default_rng(seed)
    count = len(expected)
    assert same(read(raw, RowRange(0, count)), expected)
    for turn in range(4):
        mapped = turn % 2 == 0
        start = int(rng.integers(count))
        stop = int(rng.integers(start + 1, count + 1))
        assert same(read(raw, RowRange(start, stop), mapped), expected.slice(start, stop - start))
        rows = np.unique(rng.integers(0, count, (1, 3, 40, 900)[turn])).astype(np.int64)
        assert same(read(raw, RowIndices(rows), mapped), expected.take(pa.array(rows)))


def same(found: pa.Array, expected: pa.Array) -> bool:
    return found.type == expected.type and (found.equals(expected) or found.to_pylist() == expected.to_pylist())


RNG = np.random.default_rng(2)
N = 2500


def gaps(values: Sequence[Any], share: float = 0.2) -> list[Any]:
    return [None if x < share else value for x, value in zip(RNG.random(len(values)), values, strict=True)]


def lists(most: int, item: Callable[[int], Any], count: int = 300) -> list[list[Any]]:
    return [[item(int(x)) for x in RNG.integers(0, 100, size)] for size in RNG.integers(0, most + 1, count)]


FLOATS = pa.list_(pa.float32(), 4)
PAIR = pa.struct([("x", pa.int32()), ("y", pa.string())])
ARRAYS: dict[str, pa.Array] = {
    "one value": pa.array([7] * N),
    "one value and nulls": pa.array(gaps([7] * N)),
    "one value, mostly nulls": pa.array(gaps([7] * N, 0.97)),
    "one value, every second null": pa.array([None, 7] * 500),
    "one value, nulls in runs": pa.array([7 if i // 90 % 2 else None for i in range(N)]),
    "one value, a single null": pa.array([7] * 300 + [None] + [7] * 20),
    "all null": pa.nulls(N, pa.int32()),
    "all null text": pa.nulls(N, pa.string()),
    "null type": pa.nulls(N),
    "empty structs": pa.array([{}] * 50, pa.struct([])),
    "integers": pa.array(RNG.integers(-(2**62), 2**62, N)),
    "integers and few nulls": pa.array([None if i == 1900 else i for i in range(N)]),
    "integers in runs": pa.array(np.repeat(RNG.integers(0, 2**30, 300), RNG.integers(1, 15, 300)).astype(np.int32)),
    "short integers in runs": pa.array(
        np.repeat(RNG.integers(0, 2**13, 300), RNG.integers(1, 30, 300)).astype(np.uint16)
    ),
    "integers in long runs": pa.array(np.repeat(RNG.integers(0, 2**30, 5), 500).astype(np.int32)),
    "bytes, mostly equal": pa.array(np.where(RNG.random(N) < 0.02, 5, 0).astype(np.int8)),
    "floats": pa.array(gaps(RNG.random(N).astype(np.float32).tolist()), pa.float32()),
    "booleans": pa.array(gaps([bool(i % 3) for i in range(N)])),
    "decimals": pa.array(gaps([decimal.Decimal(i % 9) for i in range(N)]), pa.decimal128(20, 2)),
    "text": pa.array(gaps([f"s{i * 7919}" for i in range(N)])),
    "binary of one size": pa.array([b"%08d" % i for i in range(N)]),
    "binary of varying size": pa.array([RNG.bytes(int(k)) for k in RNG.integers(0, 16, N)]),
    "empty text": pa.array([""] * N),
    "one text": pa.array(["xyz"] * N),
    "text, mostly null": pa.array(gaps([f"s{i}" for i in range(N)], 0.98)),
    "text of one size, mostly null": pa.array(gaps([f"{i:05}" for i in range(N)], 0.98)),
    "few texts": pa.array(gaps([f"s{i % 4}" for i in range(N)])),
    "large text": pa.array(gaps([f"s{i}" for i in range(N)]), pa.large_string()),
    "long text": pa.array(gaps([f"s{i}" * 80 for i in range(300)])),
    "wide binary": pa.array(gaps([b"%05d" % i * 60 for i in range(200)]), pa.binary(300)),
    "dictionary": pa.array(gaps([f"s{i % 50}" for i in range(N)])).dictionary_encode(),
    "vectors": pa.array(gaps([[float(i), 1, 2, None] for i in range(500)]), FLOATS),
    "few vectors": pa.array(gaps([[i % 3, 2, None] for i in range(600)]), pa.list_(pa.int16(), 3)),
    "few vectors of vectors": pa.array(
        gaps([[[i % 3, 2], None] for i in range(600)]), pa.list_(pa.list_(pa.int16(), 2), 2)
    ),
    "vectors of nulls": pa.array([[None] * 4 if i % 20 == 7 else None for i in range(100)], FLOATS),
    "vectors of vectors of nulls": pa.array(
        [[[None] * 2, None, [None] * 2] if i % 20 == 7 else None for i in range(100)],
        pa.list_(pa.list_(pa.int16(), 2), 3),
    ),
    "lists of vectors of nulls": pa.array(
        [[[None] * 4, None] if i % 30 == 7 else None for i in range(100)], pa.list_(FLOATS)
    ),
    "wide vectors": pa.array(gaps([[float(i)] * 90 for i in range(120)]), pa.list_(pa.float32(), 90)),
    "lists": pa.array(gaps([gaps(each) for each in lists(5, lambda x: x)]), pa.list_(pa.int64())),
    "lists of one value": pa.array(gaps(lists(5, lambda _: 7)), pa.list_(pa.int64())),
    "lists of sizes far apart": pa.array([[7] * int(k) for k in RNG.choice([100, 7, 3], 300)], pa.list_(pa.int8())),
    "lists of ever more items": pa.array([[7] * k for k in range(40)], pa.list_(pa.int8())),
    "empty lists": pa.array(gaps([[]] * 300), pa.list_(pa.int32())),
    "lists of long text": pa.array(gaps([gaps(each) for each in lists(3, lambda x: f"s{x}" * 150, 80)])),
    "lists of wide vectors": pa.array(
        gaps(lists(3, lambda x: [float(x)] * 90, 80)), pa.list_(pa.list_(pa.float32(), 90))
    ),
    "long lists": pa.array(lists(900, lambda x: x, 60), pa.list_(pa.int32())),
    "lists of lists": pa.array(
        gaps([gaps([each, [], each]) for each in lists(3, lambda x: x % 2)]), pa.list_(pa.list_(pa.int8()))
    ),
    "structs": pa.array(gaps([{"x": i if i % 3 else None, "y": f"s{i}"} for i in range(N)]), PAIR),
    "structs of lists": pa.array(gaps([{"l": None if i % 7 == 0 else [7] * (i % 4)} for i in range(300)])),
    "lists of structs": pa.array(gaps([gaps([{"x": 7, "y": None}] * (i % 4)) for i in range(300)]), pa.list_(PAIR)),
    "maps": pa.array(
        gaps([[(f"k{j}", j if j % 2 else None) for j in range(i % 4)] for i in range(300)]),
        pa.map_(pa.string(), pa.int32()),
    ),
    "fixed-size lists of structs": pa.array(
        gaps([gaps([{"x": i, "y": "s"}, {"x": None, "y": f"t{i}" * 90}]) for i in range(150)]), pa.list_(PAIR, 2)
    ),
    "fixed-size lists of structs in structs": pa.array(
        gaps([{"f": gaps([[{"x": None, "y": f"t{i}" * 90}, None]], 0.5)[0]} for i in range(150)], 0.5),
        pa.struct([("f", pa.list_(PAIR, 2))]),
    ),
    "timestamps": pa.array(gaps(list(range(N))), pa.timestamp("us", "UTC")),
}
"""Chosen so that between them pylance uses every codec and layout of 2.3 that it has been seen to write."""
CANNOT_WRITE = {
    ("lists of vectors of nulls", "miniblock"),
    ("vectors of nulls", "miniblock"),
    ("vectors of vectors of nulls", "miniblock"),
}
"""pylance 14 panics or refuses."""


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", ARRAYS)
def test_reads_what_pylance_writes(name: str, settings: str, tmp_path: Path) -> None:
    if (name, settings) in CANNOT_WRITE:
        pytest.skip("pylance cannot write it")
    assert_reads(written(ARRAYS[name], tmp_path, SETTINGS[settings]), ARRAYS[name])


@pytest.mark.parametrize(
    "name", ["one value and nulls", "lists of one value", "lists", "text, mostly null", "structs of lists"]
)
@pytest.mark.parametrize("count", [1, 2, 63])
def test_reads_small_files(name: str, count: int, tmp_path: Path) -> None:
    array = pa.array(ARRAYS[name].slice(0, count).to_pylist(), ARRAYS[name].type)
    for settings in (None, SPARSE):
        assert_reads(written(array, tmp_path, settings), array)


def test_dense_and_sparse_pages_of_one_column_join(tmp_path: Path) -> None:
    array = pa.concat_arrays(
        [ARRAYS["lists"], ARRAYS["lists of one value"], ARRAYS["empty lists"].cast(pa.list_(pa.int64()))]
    )
    path = tmp_path / "pages.lance"
    schema = pa.schema([pa.field("c", array.type)])
    with lance_file.LanceFileWriter(str(path), schema, version="2.3", max_page_bytes=1) as writer:
        for start in range(0, len(array), 300):
            writer.write_batch(
                pa.record_batch([pa.array(array.slice(start, 300).to_pylist(), array.type)], schema=schema)
            )
    assert_reads(path.read_bytes(), array)


def test_values_hidden_by_nulls_stay_hidden(tmp_path: Path) -> None:
    hidden = pa.array([False, True, False, False] * 20)
    for child in (
        pa.array(["abc" * 100, "d" * 300, "e" * 300, None] * 20),
        pa.array([1, 2**40, 3, None] * 20),
        pa.array([[1], [2], [], None] * 20, pa.list_(pa.int64())),
    ):
        array = pa.StructArray.from_arrays([child], ["a"], mask=hidden)
        assert_reads(written(array, tmp_path, SPARSE), array)


def test_the_sample_covers_every_codec_seen(tmp_path: Path) -> None:
    found: set[str] = set()

    def walk(message: Message, path: str) -> None:
        for field, value in message.ListFields():
            for each in value if field.is_repeated else [value]:
                if not isinstance(each, Message):
                    continue
                if isinstance(each, pb.CompressiveEncoding):
                    found.add(f"{path}{field.name}={each.WhichOneof('compression')}")
                walk(each, f"{field.name}." if isinstance(message, pb.CompressiveEncoding) else path)

    for name in ("one value and nulls", "text, mostly null", "text of one size, mostly null", "lists of sizes far apart",
                 "binary of varying size", "binary of one size", "empty text", "integers in runs", "vectors of nulls",
                 "lists of lists", "lists of ever more items"):  # fmt: skip
        for layout in layouts(written(ARRAYS[name], tmp_path)):
            walk(layout, "")
    for name in ("positions=delta", "positions=range", "sizes=dictionary", "sizes=range", "variable.offsets=delta",
                 "variable.offsets=range", "variable.offsets=constant", "variable.offsets=rle", "rle.values=range",
                 "fixed_size_list.values=constant"):  # fmt: skip
        assert name in found, sorted(found)


def words(codec: pb.CompressiveEncoding, data: bytes, count: int) -> list[int]:
    pieces = one_piece(np.frombuffer(data, np.uint8)) if data else no_pieces(1)
    return [int(word) for word in decode_words(codec, pieces, np.array([count]), PLACE)]


def flat(bits: int) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))


def evenly(start: int, step: int, bits: int = 64) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(range=pb.Range(uncompressed_bits_per_value=bits, start=start, step=step))


def u64(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def u32(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)


class TestWords:
    def test_constant_and_range_take_no_bytes(self) -> None:
        assert words(pb.CompressiveEncoding(constant=pb.Constant(value=u64(9))), b"", 3) == [9, 9, 9]
        assert words(evenly(1, 3), b"", 4) == [1, 4, 7, 10]

    def test_delta_is_a_base_and_sums(self) -> None:
        delta = pb.Delta(uncompressed_bits_per_value=64, base=2, deltas=flat(64))
        assert words(pb.CompressiveEncoding(delta=delta), u64(5, 1), 3) == [2, 7, 8]

    def test_runs_begin_with_the_size_of_their_values(self) -> None:
        runs = pb.CompressiveEncoding(rle=pb.Rle(values=flat(32), run_lengths=flat(32)))
        assert words(runs, u64(8) + u32(5, 6) + u32(1, 3), 4) == [5, 6, 6, 6]

    def test_runs_of_even_numbers_keep_the_size(self) -> None:
        runs = pb.CompressiveEncoding(rle=pb.Rle(values=evenly(0, 2, 32), run_lengths=flat(32)))
        assert words(runs, u64(0) + u32(2, 1, 3), 6) == [0, 0, 2, 4, 4, 4]

    def test_runs_without_bytes_follow_from_the_count(self) -> None:
        threes = pb.CompressiveEncoding(constant=pb.Constant(value=u32(3)))
        assert (
            words(pb.CompressiveEncoding(rle=pb.Rle(values=evenly(0, 2), run_lengths=threes)), b"", 6)
            == [0] * 3 + [2] * 3
        )
        rising = pb.CompressiveEncoding(rle=pb.Rle(values=evenly(1, 1), run_lengths=evenly(1, 1, 32)))
        assert words(rising, b"", 6) == [1, 2, 2, 3, 3, 3]

    def test_dictionary_begins_with_both_sizes(self) -> None:
        codec = pb.Dictionary(indices=flat(32), items=flat(64), num_dictionary_items=2)
        data = u64(12, 16) + u32(1, 0, 1) + u64(40, 50)
        assert words(pb.CompressiveEncoding(dictionary=codec), data, 3) == [50, 40, 50]

    @pytest.mark.parametrize(
        ("codec", "data", "count"),
        [
            (flat(64), u64(1), 2),
            (pb.CompressiveEncoding(rle=pb.Rle(values=flat(32), run_lengths=flat(32))), u64(8) + u32(5, 6, 1, 2), 4),
            (pb.CompressiveEncoding(rle=pb.Rle(values=flat(32), run_lengths=flat(32))), u64(99) + u32(5, 6, 1, 3), 4),
            (pb.CompressiveEncoding(rle=pb.Rle(values=flat(32), run_lengths=flat(32))), u64(4) + u32(5, 2**31), 2**31),
            (pb.CompressiveEncoding(rle=pb.Rle(values=flat(32), run_lengths=flat(32))), b"\0\0", 4),
            (pb.CompressiveEncoding(rle=pb.Rle(values=evenly(0, 2), run_lengths=evenly(4, 1, 32))), b"", 6),
            (pb.CompressiveEncoding(constant=pb.Constant()), b"", 1),
            (evenly(0, 1), b"", MAX_COMPACT + 1),
            (evenly(0, 1, bits=7), b"", 1),
            (
                pb.CompressiveEncoding(
                    dictionary=pb.Dictionary(indices=flat(32), items=evenly(0, 1), num_dictionary_items=2)
                ),
                u64(4, 0) + u32(2),
                1,
            ),
        ],
    )
    def test_lies_are_refused(self, codec: pb.CompressiveEncoding, data: bytes, count: int) -> None:
        with pytest.raises(CorruptFile):
            words(codec, data, count)


class TestStructure:
    def layers(self) -> SparseLayers:
        """[a, null]  null  []  [b]"""
        nothing = EvenNumbers(0, 0, 0)
        lists = ListLayer(
            Validity(EvenNumbers(1, 0, 1), lists_nulls=True),
            EvenNumbers(0, 3, 2),
            ListedNumbers(np.array([2, 1]), np.zeros(1, np.int64)).summed(PLACE),
        )
        assert Validity(nothing, lists_nulls=True).nulls(Slots(np.array([0]), np.array([2]))) is None
        return SparseLayers((lists, ItemLayer(Validity(EvenNumbers(1, 0, 1), lists_nulls=True))))

    def test_levels_of_a_scan(self) -> None:
        found = self.layers().select(Slots(np.array([0]), np.array([4])), PLACE)
        assert found.entries.reps is not None
        assert found.entries.defs is not None
        assert found.entries.reps.tolist() == [1, 0, 1, 1, 1]
        assert found.entries.defs.tolist() == [0, 1, 2, 3, 0]
        assert found.slots.numbers().tolist() == [0, 1, 2]

    def test_levels_of_scattered_rows(self) -> None:
        found = self.layers().select(Slots(np.array([1, 3]), np.array([2, 4])), PLACE)
        assert found.entries.defs is not None
        assert found.entries.defs.tolist() == [2, 0]
        assert found.slots.numbers().tolist() == [2]

    def test_sets_that_lie_are_refused(self) -> None:
        for numbers in (
            EvenNumbers(3, 1, 2),
            EvenNumbers(0, 0, 2),
            ListedNumbers(np.array([2, 2]), np.zeros(1, np.int64)),
        ):
            with pytest.raises(CorruptFile):
                numbers.check_rising(4, PLACE)
        for numbers in (EvenNumbers(0, 1, 3), ListedNumbers(np.array([3, 0]), np.array([0, 3, 3]))):
            with pytest.raises(CorruptFile):
                numbers.check_sum(3, PLACE)


def sparse_page(*layers: planar_pb.SparseLayer, rows: int, kinds: tuple[int, ...] = (ITEM,)) -> SparsePage:
    """A page of the value 7 without any buffer."""
    structure = planar_pb.Structure(sparse=planar_pb.SparseStructure(layers=layers))
    values = planar_pb.Values(constant=planar_pb.ConstantValue(scalar=b"\7"))
    context = PageContext(FileBytes("test", 0, np.empty(0, np.uint8)), PLACE, (), (), rows, pa.int8(), kinds)
    return SparsePage(planar_pb.PlanarLayout(structure=structure, values=values), context)


def item(codec: pb.CompressiveEncoding, count: int) -> planar_pb.SparseLayer:
    return planar_pb.SparseLayer(item=planar_pb.Validity(meaning=planar_pb.MEANING_NULL, positions=codec, count=count))


class TestClaims:
    """What takes no bytes must not take memory either, beyond the rows that are asked for."""

    def test_a_few_rows_of_a_huge_page(self) -> None:
        page = sparse_page(item(evenly(1, 2), 2**39), rows=2**40)
        found = run(page.read(RowIndices(np.array([4, 5, 2**39]))), Memory(b""))
        assert found.entries.defs is not None
        assert found.entries.defs.tolist() == [0, 1, 0]
        assert found.values.to_pylist()[0] == 7

    def test_a_list_of_more_items_than_fit(self) -> None:
        size = pb.CompressiveEncoding(constant=pb.Constant(value=u64(2**39)))
        nulls = planar_pb.Validity(meaning=planar_pb.MEANING_NULL, positions=evenly(0, 0), count=0)
        layer = planar_pb.SparseList(child_slots=2**40, positions=evenly(0, 1), count=2, sizes=size, validity=nulls)
        page = sparse_page(planar_pb.SparseLayer(list=layer), item(evenly(0, 0), 0), rows=2, kinds=(ITEM, LIST))
        with pytest.raises(NotSupported, match="read fewer rows"):
            run(page.read(RowIndices(np.array([1]))), Memory(b""))

    def test_a_set_that_would_have_to_be_written_out(self) -> None:
        delta = pb.Delta(uncompressed_bits_per_value=64, deltas=evenly(1, 0))
        page = sparse_page(item(pb.CompressiveEncoding(delta=delta), 2**38), rows=2**40)
        with pytest.raises(CorruptFile, match="more evenly spaced words"):
            run(page.read(RowIndices(np.array([1]))), Memory(b""))

    @pytest.mark.parametrize(
        "layer",
        [
            item(evenly(0, 1), 5),
            item(evenly(3, 1), 2),
            item(evenly(2**63, 1), 1),
            item(pb.CompressiveEncoding(constant=pb.Constant(value=b"\1")), 1),
            planar_pb.SparseLayer(fixed_size_list=planar_pb.SparseFixedSizeList(size=3)),
        ],
    )
    def test_layers_that_lie_are_refused(self, layer: planar_pb.SparseLayer) -> None:
        with pytest.raises(CorruptFile):
            run(sparse_page(layer, rows=4).read(RowRange(0, 4)), Memory(b""))


def described(layout: Message, name: str) -> column_pb2.Encoding:
    message = column_pb2.AnyMessage(type_url=f"/lance.{name}", value=layout.SerializeToString())
    return column_pb2.Encoding(direct=column_pb2.DirectEncoding(encoding=message.SerializeToString()))


@pytest.mark.parametrize(
    "codec",
    [
        evenly(0, 1),
        pb.CompressiveEncoding(delta=pb.Delta(uncompressed_bits_per_value=32, deltas=flat(32))),
        pb.CompressiveEncoding(variable=pb.Variable(offsets=evenly(0, 1, 32))),
        pb.CompressiveEncoding(
            general=pb.General(values=pb.CompressiveEncoding(variable=pb.Variable(offsets=evenly(0, 1))))
        ),
        pb.CompressiveEncoding(rle=pb.Rle(values=flat(32), run_lengths=flat(16))),
        pb.CompressiveEncoding(rle=pb.Rle(values=evenly(0, 1), run_lengths=flat(8))),
    ],
)
def test_older_files_may_not_use_the_new_codecs(codec: pb.CompressiveEncoding) -> None:
    for layout in (
        pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(value_compression=codec)),
        pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(value_compression=flat(8), def_compression=codec)),
        pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(value_compression=flat(8), dictionary=codec)),
        pb.PageLayout(constant_layout=pb.ConstantLayout(rep_compression=codec)),
    ):
        with pytest.raises(NotSupported):
            open_page(described(layout, "encodings21.PageLayout"), NOWHERE)


def test_older_files_may_not_be_planar() -> None:
    layout = pb.PageLayout.FromString(b"\x2a\x00")  # field 5, of which they know nothing
    with pytest.raises(NotSupported):
        open_page(described(layout, "encodings21.PageLayout"), NOWHERE)


def test_unknown_values_are_refused_by_name() -> None:
    layout = planar_pb.PlanarLayout(structure=planar_pb.Structure(dense=planar_pb.DenseStructure(layers=[1])))
    with pytest.raises(NotSupported, match=r"unstable file version 2\.3"):
        open_page(described(layout, "encodings23.PlanarLayout"), NOWHERE)


@pytest.mark.parametrize(
    "name",
    ["one value and nulls", "lists of one value", "lists of lists", "text, mostly null", "integers in runs", "vectors of nulls",
     "fixed-size lists of structs", "binary of varying size", "few vectors"],
)  # fmt: skip
def test_damaged_files_give_errors_of_our_own(name: str, tmp_path: Path) -> None:
    array = ARRAYS[name]
    for settings in (None, SPARSE):
        raw = written(array, tmp_path, settings)
        (field,) = open_file(Memory(raw)).schema().fields
        rng = np.random.default_rng(5)
        for _ in range(150):
            damaged = bytearray(raw)
            for _ in range(int(rng.integers(1, 4))):
                damaged[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
            rows = RowRange(0, len(array)) if rng.random() < 0.5 else RowIndices(np.array([1, 50, 99]))
            with contextlib.suppress(LanceletError):
                assert len(read(bytes(damaged), rows, field=field)) == len(rows)
