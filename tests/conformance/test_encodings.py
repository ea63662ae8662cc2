"""Every ``lance-encoding:*`` setting that pylance honours, and proof that every encoding is really met."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lancelet
from conformance.agree import answers, rows_of
from conformance.grid import FAMILIES, NULLS, VERSIONS, ColumnCase, Size, cells, columns, write
from conformance.grid import SIZES as GRID_SIZES

COMPRESSIONS = ("none", "lz4", "zstd", "fsst")
SIZE = Size("encodings", 2500)
SIZES = (SIZE, Size("encodings_pages", 2600, batch=1300, cache_bytes=1))


def _setting(**settings: str) -> dict[str, str]:
    return {f"lance-encoding:{key.replace('_', '-')}": value for key, value in settings.items()}


def _compressed(kind: pa.DataType, name: str, since: str = "2.0") -> Iterator[ColumnCase]:
    for scheme in COMPRESSIONS:
        textual = kind in (pa.string(), pa.binary())
        if scheme == "fsst" and not textual:
            continue
        # pylance panics on a page of nulls alone with FSST in 2.0.
        nulls = NULLS[:2] if scheme == "fsst" else NULLS
        yield ColumnCase(f"{name}_{scheme}", kind, since, nulls, metadata=_setting(compression=scheme), text_bytes=40)
    yield ColumnCase(
        f"{name}_zstd9", kind, since, metadata=_setting(compression="zstd", compression_level="9"), text_bytes=40
    )


GROUPS: dict[str, tuple[ColumnCase, ...]] = {
    "compressed_numbers": (
        *_compressed(pa.int32(), "int32"),
        *_compressed(pa.int64(), "int64"),
        *_compressed(pa.float32(), "float32"),
        *_compressed(pa.float64(), "float64"),
        *_compressed(pa.list_(pa.float32(), 8), "vector"),
    ),
    "compressed_texts": (
        *_compressed(pa.string(), "string"),
        *_compressed(pa.binary(), "binary"),
        *_compressed(pa.large_string(), "large_string"),
        ColumnCase("long_zstd", pa.string(), "2.0", metadata=_setting(compression="zstd"), text_bytes=900),
        ColumnCase("long_lz4", pa.binary(), "2.0", metadata=_setting(compression="lz4"), text_bytes=900),
        ColumnCase("long_none", pa.string(), "2.0", metadata=_setting(compression="none"), text_bytes=900),
        ColumnCase("long_fsst", pa.string(), "2.0", NULLS[:2], metadata=_setting(compression="fsst"), text_bytes=900),
    ),
    "byte_split": tuple(
        ColumnCase(f"{kind}_{mode}_{scheme}", kind, "2.1", metadata=_setting(bss=mode, compression=scheme))
        for kind in (pa.float32(), pa.float64())
        for mode in ("on", "off", "auto")
        for scheme in ("lz4", "zstd")
    ),
    "runs": tuple(
        ColumnCase(f"{kind}_{percent}", kind, "2.1", metadata=_setting(rle_threshold=f"0.{percent}"))
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
        for percent in ("05", "50", "95")
    ),
    "layouts": tuple(
        ColumnCase(f"{name}_{layout}", kind, "2.1", metadata=_setting(structural_encoding=layout))
        for layout in ("miniblock", "fullzip")
        for name, kind in {
            "int32": pa.int32(),
            "bool": pa.bool_(),
            "string": pa.string(),
            "decimal": pa.decimal128(20, 3),
            "fixed": pa.binary(5),
            "vector": pa.list_(pa.float32(), 100),
            "ints": pa.list_(pa.int64()),
            "texts": pa.list_(pa.string()),
            "vectors": pa.list_(pa.list_(pa.int16(), 3)),
            "struct": pa.struct([("a", pa.int32()), ("s", pa.string()), ("l", pa.list_(pa.int8()))]),
        }.items()
    ),
    "dictionaries": (
        *(
            ColumnCase(
                f"{name}_{scheme}", kind, "2.1", metadata=_setting(dict_values_compression=scheme), text_bytes=30
            )
            for name, kind in {"string": pa.string(), "binary": pa.binary(), "int64": pa.int64()}.items()
            for scheme in ("lz4", "zstd", "none")
        ),
        ColumnCase("divisor", pa.string(), "2.1", metadata=_setting(dict_divisor="100"), text_bytes=30),
        ColumnCase("ratio", pa.string(), "2.1", metadata=_setting(dict_size_ratio="1.0"), text_bytes=30),
        ColumnCase("decimals", pa.decimal128(38, 4), "2.1"),
    ),
    "chunks": tuple(
        ColumnCase(f"{name}_{size}", kind, "2.1", metadata=_setting(minichunk_size=size), text_bytes=30)
        for name, kind in {"string": pa.string(), "binary": pa.binary(), "texts": pa.list_(pa.string())}.items()
        for size in ("64", "1024", "16384")
    ),
}

HUGE = (
    *(
        ColumnCase(f"{name}_{scheme}", kind, "2.0", metadata=_setting(compression=scheme), text_bytes=70_000)
        for name, kind in {"string": pa.string(), "binary": pa.binary(), "large": pa.large_binary()}.items()
        for scheme in ("none", "zstd", "lz4")
    ),
    ColumnCase("unset", pa.string(), "2.0", text_bytes=70_000),
    ColumnCase("list", pa.list_(pa.binary()), "2.0", text_bytes=50_000),
)


@pytest.mark.spread(0.3)
@pytest.mark.parametrize(("group", "size", "version"), cells(GROUPS, SIZES, VERSIONS[1:]))
def test_settings_read_as_pylance(tmp_path: Path, group: str, size: Size, version: str) -> None:
    theirs = write(columns(GROUPS[group], version, size), tmp_path / "t", version, size)
    ours = lancelet.dataset(tmp_path / "t")
    whole = theirs.to_table()
    answers(ours, lambda ds, names: ds.to_table(names), whole)
    answers(ours, lambda ds, names: ds.to_table(names, offset=1020, limit=300), whole.slice(1020, 300))
    rows = [0, 2499, 1024, 1023, 7, 1500, 7]
    answers(ours, lambda ds, names: ds.take(rows, names), rows_of(whole, rows))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_values_of_many_kilobytes(tmp_path: Path, version: str) -> None:
    theirs = write(columns(HUGE, version, Size("huge", 40)), tmp_path / "t", version, SIZE)
    ours = lancelet.dataset(tmp_path / "t")
    whole = theirs.to_table()
    answers(ours, lambda ds, names: ds.to_table(names), whole)
    rows = [39, 3, 3, 17]
    answers(ours, lambda ds, names: ds.take(rows, names), rows_of(whole, rows))


def _crafted(version: str) -> pa.Table:
    """Columns that provoke what the patterns do not."""
    rng = np.random.default_rng(5)
    n = 6000
    pool = rng.integers(2**50, 2**51, 1500)
    fields = {
        "int64_many_distinct": (pa.array(rng.choice(pool, n)), {}),
        "fractions_zstd": (pa.array(rng.random(n) // 0.001 / 1000, pa.float32()), _setting(compression="zstd")),
        "small_lz4": (pa.array(rng.integers(0, 3, n), pa.int32()), _setting(compression="lz4", bss="off")),
        "one_null": (pa.array([None, *range(1, n)], pa.int64()), {}),
        "late_null": (pa.array([*range(n - 1), None], pa.int64()), {}),
        "nulls_in_runs": (pa.array([None if i // 700 % 2 else i for i in range(n)], pa.int32()), {}),
        "long_lists": (pa.array([list(range(i % 900)) for i in range(n)][:400] * 15, pa.list_(pa.int16())), {}),
        "giant_list": (pa.array([[]] * (n - 1) + [list(range(70_000))], pa.list_(pa.int32())), {}),
        "empty_lists": (pa.array([[]] * n, pa.list_(pa.int32())), {}),
        "no_lists": (pa.array([None] * n, pa.list_(pa.string())), {}),
        "sparse_lists": (pa.array([[i] if i % 1000 == 0 else None for i in range(n)], pa.list_(pa.int64())), {}),
        "nan_payloads": (pa.array(rng.integers(0, 2**64, n, np.uint64)).view(pa.float64()), {}),
        "negative_zero": (pa.array([-0.0] * n), {}),
        "long_runs": (pa.array(np.repeat([2**30 + 7, 5, -9], n // 3), pa.int32()), {}),
        "empty_texts": (pa.array([""] * n), {}),
        "ends_empty": (pa.array(["x" * (i % 5) for i in range(n - 1)] + [""]), {}),
    }
    if version >= "2.1":
        struct = pa.StructArray.from_arrays(
            [pa.array(range(n)), pa.array([[1, 2]] * n)], ["a", "l"], mask=pa.array([i % 3 == 0 for i in range(n)])
        )
        fields["values_beneath_null_structs"] = (struct, {})
    ends = pa.array(np.arange(0, 2 * n + 1, 2), pa.int32())
    hidden = pa.ListArray.from_arrays(ends, pa.array(range(2 * n)), mask=pa.array([i % 4 == 1 for i in range(n)]))
    fields["items_beneath_null_lists"] = (hidden, {})
    schema = pa.schema([pa.field(name, array.type, metadata=meta or None) for name, (array, meta) in fields.items()])
    return pa.table([array for array, _ in fields.values()], schema=schema)


@pytest.mark.parametrize("batch", [100_000, 1700])
@pytest.mark.parametrize("version", VERSIONS)
def test_crafted_columns(tmp_path: Path, version: str, batch: int) -> None:
    theirs = write(_crafted(version), tmp_path / "t", version, Size("crafted", 6000, batch, cache_bytes=1))
    ours = lancelet.dataset(tmp_path / "t")
    whole = theirs.to_table()
    answers(ours, lambda ds, names: ds.to_table(names), whole)
    for offset, limit in [(1699, 2), (4090, 20), (5990, 10)]:
        part = whole.slice(offset, limit)
        answers(ours, lambda ds, names, o=offset, n=limit: ds.to_table(names, offset=o, limit=n), part)
    rows = [5999, 0, 1, 4096, 4095, 1024, 1700, 1699, 0]
    answers(ours, lambda ds, names: ds.take(rows, names), rows_of(whole, rows))


# What the tables of this directory must hold between them, so that a change of the generators (or of pylance)
# cannot silently leave a decoder untested. Paths through the encoding message of a page.
MET = {
    "2.0": """
        Nullable/NoNulls/values/Flat  Nullable/SomeNulls/values/Flat  Nullable/AllNulls
        Nullable/NoNulls/values/FixedSizeList  Nullable/SomeNulls/values/FixedSizeList
        Binary  Dictionary/items/Binary  Dictionary/items/Nullable  Fsst/binary/Binary  List  Struct  PackedStruct
    """,
    "2.1": """
        ConstantLayout
        FullZipLayout/value_compression/Flat  FullZipLayout/value_compression/FixedSizeList
        FullZipLayout/value_compression/Variable  FullZipLayout/value_compression/Fsst
        FullZipLayout/value_compression/General
        MiniBlockLayout/value_compression/Flat  MiniBlockLayout/value_compression/Variable
        MiniBlockLayout/value_compression/Fsst  MiniBlockLayout/value_compression/InlineBitpacking
        MiniBlockLayout/value_compression/Rle  MiniBlockLayout/value_compression/ByteStreamSplit
        MiniBlockLayout/value_compression/FixedSizeList/values/FixedSizeList
        MiniBlockLayout/value_compression/PackedStruct
        MiniBlockLayout/value_compression/General/values/ByteStreamSplit
        MiniBlockLayout/value_compression/General/values/Flat  MiniBlockLayout/value_compression/General/values/Rle
        MiniBlockLayout/value_compression/General/values/Variable
        MiniBlockLayout/value_compression/General/values/InlineBitpacking
        MiniBlockLayout/dictionary/Flat  MiniBlockLayout/dictionary/Variable
        MiniBlockLayout/rep_compression/Flat  MiniBlockLayout/rep_compression/InlineBitpacking
        MiniBlockLayout/rep_compression/OutOfLineBitpacking
        MiniBlockLayout/def_compression/Flat  MiniBlockLayout/def_compression/InlineBitpacking
        MiniBlockLayout/def_compression/OutOfLineBitpacking
    """,
}
MET["2.2"] = (
    MET["2.1"]
    + """
        ConstantLayout/rep_compression/Rle  ConstantLayout/def_compression/Rle
        ConstantLayout/def_compression/InlineBitpacking  ConstantLayout/def_compression/OutOfLineBitpacking
        FullZipLayout/value_compression/VariablePackedStruct
        MiniBlockLayout/rep_compression/Rle  MiniBlockLayout/def_compression/Rle
        MiniBlockLayout/dictionary/General/values/Flat  MiniBlockLayout/dictionary/General/values/Variable
        MiniBlockLayout/dictionary/InlineBitpacking  MiniBlockLayout/dictionary/OutOfLineBitpacking
    """
)


# What 2.1 must meet is a part of what 2.2 must.
@pytest.mark.parametrize("version", ["2.0", pytest.param("2.1", marks=pytest.mark.soak), "2.2"])
def test_every_encoding_is_met(tmp_path: Path, version: str) -> None:
    tables = [(kinds, SIZE) for kinds in GROUPS.values()]
    sizes = [size for size in GRID_SIZES if size.name in ("few", "pages")]
    tables += [(kinds, size) for size in sizes for kinds in reversed(FAMILIES.values())]
    write(_crafted(version), tmp_path / "crafted", version, SIZE)
    missing = set(MET[version].split()) - _encodings(tmp_path / "crafted")
    for number, (kinds, size) in enumerate(tables):
        table = columns(kinds, version, size)
        if missing and table.num_columns:
            write(table, tmp_path / str(number), version, size)
            missing -= _encodings(tmp_path / str(number))
    assert missing == set()


def _encodings(table: Path) -> set[str]:
    """The paths through the encoding messages of a table's pages, as pylance prints them."""
    found = set()
    for file in (table / "data").glob("*.lance"):
        for column in LanceFileReader(str(file)).metadata().columns:
            for page in column.pages:
                found |= _paths(page.encoding)
    return found


def _paths(text: str) -> set[str]:
    """Read the indented print of a message: lines ``name: ...`` name fields, lines ``Variant(`` name choices."""
    wrappers = {"compression", "layout", "array_encoding", "nullability"}
    found, stack = set(), []
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        stack = [(d, name) for d, name in stack if d < depth]
        field = re.match(r"\s*(\w+): ", line)
        choice = re.match(r"\s*(\w+)\($", line)
        if field and field[1] not in wrappers:
            stack.append((depth, field[1]))
        elif choice and choice[1] != "Some":
            stack.append((depth, choice[1]))
            found.add("/".join(name for _, name in stack))
    return found
