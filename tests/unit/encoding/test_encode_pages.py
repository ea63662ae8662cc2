"""What the encoders choose, and the exact bytes of small pages (spec encodings.md 2, 9, 11 and 13)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.encoding.v2_1.encode.messages import EncodedPage
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.page import encode_column
from lancelet.encoding.v2_1.encode.shred import Shredded, leaves_of, shred
from lancelet.errors import InvalidInput, NotSupported
from lancelet.format.schema import schema_from_arrow
from lancelet.testing.strategies import tables
from unit.encoding.made21 import hexed
from unit.file.written import layout, layouts, round_trip, theirs, write

VERSIONS = ("2.1", "2.2")
ROWS = 5000
RNG = np.random.default_rng(7)


def encoded(array: pa.Array, version: str = "2.2", leaf: int = 0) -> list[EncodedPage]:
    field = schema_from_arrow(pa.schema([("c", array.type)])).fields[0]
    return encode_column([array], leaves_of(field)[leaf], EncodeOptions(version))


def shredded(array: pa.Array, leaf: int = 0) -> Shredded:
    return shred(array, leaves_of(schema_from_arrow(pa.schema([("c", array.type)])).fields[0])[leaf])


def buffers(page: EncodedPage) -> list[bytes]:
    return [b"".join(piece.tobytes() for piece in buffer) for buffer in page.buffers]


# Levels, as the spec works them out


@pytest.mark.parametrize(
    ("array", "leaf", "layers", "reps", "defs", "values"),
    [
        (pa.array([[1, None], [], None, [3]]), 0, [3, 6], [1, 0, 1, 1, 1], [0, 1, 3, 2, 0], [1, None, 3]),
        (
            pa.array([[[1, 2], []], [], None, [None, [3]], [[None, 4]]]), 0,
            [3, 6, 6], [2, 0, 1, 2, 2, 2, 1, 2, 0], [0, 0, 3, 5, 4, 2, 0, 1, 0], [1, 2, 3, None, 4],
        ),
        (
            pa.array([{"l": [1, 2]}, None, {"l": None}, {"l": []}, {"l": [None, 7]}]), 0,
            [3, 6, 3], [1, 0, 1, 1, 1, 1, 0], [0, 0, 4, 2, 3, 1, 0], [1, 2, None, 7],
        ),
        (
            pa.array([[{"a": 1}, {"a": None}], [], None, [None, {"a": 5}]]), 0,
            [3, 3, 6], [1, 0, 1, 1, 1, 0], [0, 1, 4, 3, 2, 0], [1, None, None, 5],
        ),
        (pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 4}]), 1, [3, 3], None, [0, 2, 0, 1], ["x", None, "y", None]),
        (
            pa.array([[("a", 1), ("b", None)], [], None, [("c", 3)]], pa.map_(pa.string(), pa.int32())), 1,
            [3, 1, 6], [1, 0, 1, 1, 1], [0, 1, 3, 2, 0], [1, None, 3],
        ),
        (
            pa.array([[{"x": 1}, {"x": 3}], None, [{"x": None}, None]], pa.list_(pa.struct([("x", pa.int8())]), 2)), 0,
            [3, 3, 3], None, [0, 0, 3, 3, 1, 2], [1, 3, None, None, None, None],
        ),
    ],
)  # fmt: skip
def test_levels(array, leaf, layers, reps, defs, values) -> None:
    page = shredded(array, leaf)
    assert list(page.layers) == layers
    assert (None if page.reps is None else page.reps.tolist()) == reps
    assert page.defs.tolist() == defs
    valid = page.validity
    found = page.values.to_pylist()
    assert [value if valid is None or valid[slot] else None for slot, value in enumerate(found)] == values


def test_lists_under_null_structs_count_as_null() -> None:
    """pylance reads them so; the lists themselves have no nulls here."""
    lists = pa.array([[1], [2, 3], [4]])
    page = shredded(pa.StructArray.from_arrays([lists], ["l"], mask=pa.array([False, True, False])))
    assert list(page.layers) == [1, 4, 3]
    assert page.values.to_pylist() == [1, 4]


# Whole pages, as pylance writes them


def test_page_of_lists() -> None:
    (page,) = encoded(pa.array([[1, None], [], None, [3]], pa.list_(pa.int32())))
    words = "0a1e 0a040a020810 12040a020810 1a040a020820 32020306 3801 4001 4803 5001"
    assert page.layout.SerializeToString() == hexed(words)
    assert buffers(page) == [
        hexed("70000000"),
        hexed(
            "05000a000a000c000000fefefefefefe 01000000010001000100fefefefefefe"
            "00000100030002000000fefefefefefe 010000000000000003000000fefefefe"
        ),
        hexed("04000000000000000000000000000000"),
    ]


def test_page_of_strings_in_a_struct() -> None:
    array = pa.array([{"a": 1, "b": "x"}, None, {"a": 2, "b": "y"}, {"a": 3, "b": None}])
    (page,) = encoded(array, leaf=1)
    assert page.layout.SerializeToString() == hexed("0a1a 12040a020810 1a0812060a040a020820 32020303 3801 4804 5001")
    assert buffers(page) == [
        hexed("40000000"),
        hexed("0400080018000000 0000020000000100 1400000015000000150000001600000016000000 7879 4848"),
    ]


def test_page_of_one_value() -> None:
    (page,) = encoded(pa.array([7, 7, 7], pa.int32()))
    assert page.layout.SerializeToString() == hexed("1209 2a0101 320407000000")
    assert page.buffers == ()


def test_page_of_nested_vectors() -> None:
    kind = pa.list_(pa.list_(pa.int16(), 2), 3)
    (page,) = encoded(pa.array([[[1, 2], [3, 4], [5, 6]], [[7, 8], None, [9, None]]], kind))
    words = "0a1f 1a145a120803120c5a0a080212040a02081018011801 320101 3803 4802 5001"
    assert page.layout.SerializeToString() == hexed(words)


# What is chosen


def _codec(message: object) -> str:
    """A codec tree in one line."""
    kind = message.WhichOneof("compression")
    inner = getattr(message, kind)
    match kind:
        case "flat":
            return f"flat{inner.bits_per_value}"
        case "inline_bitpacking":
            return f"inline{inner.uncompressed_bits_per_value}"
        case "variable":
            return "variable"
        case "general":
            return f"{['', 'lz4', 'zstd'][inner.compression.scheme]}({_codec(inner.values)})"
        case "fsst" | "byte_stream_split" | "fixed_size_list":
            return f"{kind}({_codec(inner.values)})"
    return kind


def chosen(folder: Path) -> str:
    kind, message = layout(folder)
    text = kind.removesuffix("_layout")
    if hasattr(message, "value_compression"):
        text += f" {_codec(message.value_compression)}"
    if getattr(message, "num_dictionary_items", 0):
        text += f" of {_codec(message.dictionary)}"
    return text


def metadata(**settings: str) -> dict[str, str]:
    return {f"lance-encoding:{key.replace('_', '-')}": value for key, value in settings.items()}


WORDS = [f"some words and the number {n}" for n in range(ROWS)]
CASES = {
    "small integers": (pa.array(RNG.integers(0, 1000, ROWS)), {}, "mini_block inline64"),
    "any integers": (pa.array(RNG.integers(-(2**62), 2**62, ROWS)), {}, "mini_block flat64"),
    "runs": (pa.array(np.repeat(RNG.integers(0, 2**31, 100), 50).astype(np.int32)), {}, "mini_block rle"),
    "few large integers": (pa.array(RNG.integers(0, 2**62, 5)[RNG.integers(0, 5, ROWS)]), {}, "mini_block inline32 of"),
    "booleans": (pa.array(RNG.random(ROWS) < 0.5), {}, "mini_block flat1"),
    "distinct text": (pa.array(WORDS), {}, r"mini_block fsst\(variable\)"),
    "short text": (pa.array([str(n % 997) for n in range(200)]), {}, "mini_block variable"),
    "few texts": (pa.array(WORDS[:9]).take(pa.array(RNG.integers(0, 9, ROWS))), {}, "mini_block inline32 of"),
    "binary": (pa.array([RNG.bytes(20) for _ in range(ROWS)]), {}, "mini_block variable"),
    "long text": (pa.array([word * 20 for word in WORDS[:300]]), {}, r"full_zip fsst\(variable\)"),
    "huge values": (pa.array([RNG.bytes(40_000) for _ in range(3)]), {}, r"full_zip zstd\(variable\)"),
    "narrow vectors": (pa.array(RNG.random((ROWS, 8), np.float32).tolist(), pa.list_(pa.float32(), 8)), {}, r"mini_block fixed_size_list\(flat32\)"),
    "wide vectors": (pa.array(RNG.random((50, 64), np.float32).tolist(), pa.list_(pa.float32(), 64)), {}, r"full_zip fixed_size_list\(flat32\)"),
    "nulls": (pa.nulls(10, pa.int32()), {}, "constant"),
    "zstd text": (pa.array(WORDS), metadata(compression="zstd"), r"mini_block zstd\(variable\)"),
    "lz4 text": (pa.array(WORDS), metadata(compression="lz4"), r"mini_block lz4\(variable\)"),
    "plain text": (pa.array(WORDS), metadata(compression="none"), "mini_block variable"),
    "fsst binary": (pa.array([word.encode() for word in WORDS]), metadata(compression="fsst"), r"mini_block fsst"),
    "plain integers": (pa.array(RNG.integers(0, 1000, ROWS)), metadata(compression="none"), "mini_block flat64"),
    "split floats": (pa.array(np.arange(ROWS, dtype=np.float32)), metadata(compression="lz4", bss="on"), r"mini_block lz4\(byte_stream_split\(flat32\)\)"),
    "unsplit floats": (pa.array(np.arange(ROWS, dtype=np.float32)), metadata(compression="lz4", bss="off"), r"mini_block lz4\((?!byte)"),
    "zipped integers": (pa.array(RNG.integers(0, 1000, ROWS)), metadata(structural_encoding="fullzip"), "full_zip flat64"),
    "zipped booleans": (pa.array([True, None, False] * 9), metadata(structural_encoding="fullzip"), "full_zip flat8"),
    "vectors in chunks": (pa.array(RNG.random((50, 64), np.float32).tolist(), pa.list_(pa.float32(), 64)), metadata(structural_encoding="miniblock"), "mini_block"),
    "few runs allowed": (pa.array(np.repeat(RNG.integers(0, 2**31, 100), 50).astype(np.int32)), metadata(rle_threshold="0.001"), "mini_block (inline|flat)"),
    "hard zstd": (pa.array(WORDS), metadata(compression="zstd", compression_level="9"), r"mini_block zstd\(variable\)"),
    "large chunks": (pa.array([RNG.bytes(50) for _ in range(ROWS)]), metadata(minichunk_size="16000"), "mini_block variable"),
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_choices(tmp_path: Path, case: str, version: str) -> None:
    array, settings, expected = CASES[case]
    table = pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=settings)]))
    round_trip(tmp_path, table, version)
    if version == "2.1" and case == "few large integers":
        expected = "mini_block (inline|flat|rle)"
    assert re.match(expected, chosen(tmp_path)), chosen(tmp_path)


def test_dictionary_items(tmp_path: Path) -> None:
    """2.1 keeps them plain; 2.2 compresses them as asked, LZ4 unless told."""
    array = CASES["few texts"][0]
    for version, asked, expected in (
        ("2.1", {}, "variable"),
        ("2.2", {}, "lz4(variable)"),
        ("2.2", metadata(dict_values_compression="zstd"), "zstd(variable)"),
        ("2.2", metadata(dict_values_compression="none"), "variable"),
    ):
        table = pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=asked)]))
        round_trip(tmp_path, table, version)
        assert chosen(tmp_path).endswith(f" of {expected}")


def test_constants(tmp_path: Path) -> None:
    """One value over and over: in the layout up to 32 bytes, in a buffer beyond, with a few levels or none."""
    values = (1, True, 2.5, "text", b"\0", b"x" * 40, "")
    kinds = (pa.int8(), pa.bool_(), pa.float64(), pa.large_string(), pa.binary(1), pa.binary(40), pa.string())
    for value, kind in zip(values, kinds, strict=True):
        for array in (
            pa.array([value] * 2000, kind),
            pa.array([value, None] * 20, kind),
            pa.array([[value], [], None, [value, value]], pa.list_(kind)),
        ):
            round_trip(tmp_path, pa.table({"c": array}))
            assert chosen(tmp_path) == "constant"
            round_trip(tmp_path, pa.table({"c": array}), "2.1")
            assert chosen(tmp_path) != "constant"


@pytest.mark.parametrize("version", VERSIONS)
def test_long_stretches_of_empty_lists(tmp_path: Path, version: str) -> None:
    """More levels than a chunk can hold: pages are cut at rows, and a row that is too long is zipped."""
    empty: list[object] = []
    for kind in (pa.int32(), pa.string()):
        one = pa.scalar(5, pa.int32()).cast(kind).as_py()
        flat = [empty] * 200_000 + [[one]] + [empty] * 70_000 + [[one, one]]
        round_trip(tmp_path, pa.table({"c": pa.array(flat, pa.list_(kind))}), version)
        assert len(layouts(tmp_path)[0]) > 4
        deep = [[[one]], [*[empty] * 100_000, [one]], [[one, one]]]
        round_trip(tmp_path, pa.table({"c": pa.array(deep, pa.list_(pa.list_(kind)))}), version)
        assert "full_zip_layout" in {page.WhichOneof("layout") for page in layouts(tmp_path)[0]}
    round_trip(tmp_path, pa.table({"c": pa.array([empty] * 100_000, pa.list_(pa.int8()))}), version)


def test_chunks_of_many_items_and_few_empties_stay_one_page(tmp_path: Path) -> None:
    rows = [[row] * (row % 7) for row in range(60_000)]
    round_trip(tmp_path, pa.table({"c": pa.array(rows, pa.list_(pa.int32()))}))
    assert len(layouts(tmp_path)[0]) == 1


# Refusals


@pytest.mark.parametrize(
    "settings",
    [
        {"compression": "brotli"}, {"bss": "maybe"}, {"dict_divisor": "1"}, {"rle_threshold": "x"},
        {"structural_encoding": "sparse"}, {"minichunk_size": "0"}, {"compression_level": "ninety"},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(tmp_path: Path, settings: dict[str, str]) -> None:
    schema = pa.schema([pa.field("c", pa.int8(), metadata=metadata(**settings))])
    with pytest.raises(InvalidInput, match="field 'c': metadata lance-encoding:"):
        write(tmp_path, pa.table([pa.array([1], pa.int8())], schema=schema))


def test_packed_structs_that_cannot_be(tmp_path: Path) -> None:
    def packed(array: pa.Array) -> pa.Table:
        return pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=metadata(packed="true"))]))

    with pytest.raises(InvalidInput, match="nulls in its field 'x'"):
        write(tmp_path, packed(pa.array([{"x": None}, {"x": 1}])))
    with pytest.raises(NotSupported, match="bool"):
        write(tmp_path, packed(pa.array([{"x": True}])))
    with pytest.raises(NotSupported, match="2.2"):
        write(tmp_path, packed(pa.array([{"x": "text"}])), "2.1")
    nulls = pa.array([{"x": 1, "s": "a"}, None, {"x": 2, "s": "b"}])
    round_trip(tmp_path, packed(nulls))


# Sizes beside pylance


def _sizes() -> dict[str, pa.Array]:
    count = 60_000
    lengths = RNG.integers(0, 8, count)
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    numbers = pa.array(RNG.integers(0, 10**6, int(ends[-1])))
    words = np.array(["".join(RNG.choice(list("etaoinshrdlu"), 6)) for _ in range(800)])
    texts = [" ".join(row) for row in words[RNG.integers(0, 800, (count // 4, 6))].tolist()]
    return {
        "integers": pa.array(RNG.integers(0, 10**6, count), mask=RNG.random(count) < 0.1),
        "floats": pa.array(RNG.random(count)),
        "times": pa.array(np.sort(RNG.integers(10**15, 2 * 10**15, count)), pa.timestamp("us")),
        "texts": pa.array(texts),
        "sorted texts": pa.array(sorted(texts)),
        "long texts": pa.array([" ".join(texts[n : n + 12]) for n in range(0, len(texts), 12)]),
        "categories": pa.array(texts[:300]).take(pa.array(RNG.integers(0, 300, count))),
        "many categories": pa.array(texts).take(pa.array(RNG.integers(0, len(texts), count))),
        "vectors": pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(count // 10 * 128, np.float32)), 128),
        "lists": pa.ListArray.from_arrays(pa.array(ends), numbers, mask=pa.array(RNG.random(count) < 0.1)),
        "structs": pa.StructArray.from_arrays([numbers, numbers], ["a", "b"], mask=pa.array(RNG.random(len(numbers)) < 0.2)),
        "lists of structs": pa.ListArray.from_arrays(pa.array(ends), pa.StructArray.from_arrays([numbers], ["a"])),
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_sizes(tmp_path: Path, version: str) -> None:
    """Within a twentieth of what pylance makes of the same data."""
    found = {}
    for name, array in _sizes().items():
        table = pa.table({"c": array})
        found[name] = write(tmp_path, table, version).size / theirs(tmp_path, table, version)
    assert {name: ratio for name, ratio in found.items() if ratio > 1.05} == {}


# Anything


@pytest.mark.slow
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(table=tables(max_columns=2, max_rows=1500), data=st.data())
def test_drawn_tables(tmp_path: Path, table: pa.Table, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(VERSIONS)) if "map<" not in str(table.schema) else "2.2"
    small = data.draw(st.booleans())
    start = data.draw(st.integers(0, min(len(table) - 1, 5)))
    options = {"batch": max(len(table) // 3, 1), "page_bytes": 3000} if small else {}
    try:
        round_trip(tmp_path, table.slice(start), version, **options)
    except pa.ArrowInvalid as error:
        # So pylance fails on files of its own, too: a list in a struct with nulls whose pages end elsewhere than its neighbours'.
        assume("Incorrect number of nulls for StructArray" not in str(error))
        raise
