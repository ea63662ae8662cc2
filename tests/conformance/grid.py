"""The grid of tables that lancelet must read exactly as pylance does.

One table holds a family of types; each type has a column for every pattern of
values and every share of nulls, named ``int32__runs__some``. A test then
stands for (family, size, file version), and its failure names the columns.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lancelet.testing import PATTERNS, NullShare, difference, random_array

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
NULLS: tuple[NullShare, ...] = ("none", "some", "all")


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows, and how they are cut into batches, pages and fragments."""

    name: str
    rows: int
    batch: int = 100_000
    file_rows: int = 1_000_000
    cache_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnCase:
    """A type as a column of the grid, and where pylance can write it."""

    name: str
    type: pa.DataType
    since: str = "0.1"
    nulls: tuple[NullShare, ...] = NULLS
    metadata: dict[str, str] = field(default_factory=dict)
    text_bytes: int = 12
    refused: tuple[str, ...] = ()
    """File versions from ``since`` on that nevertheless cannot hold it."""
    unwritten: tuple[str, ...] = ()
    """Sizes at which pylance fails to write it."""
    exact: bool = True
    """Whether pylance gives back, from 2.1 on, just what went in."""

    def fits(self, version: str, size: Size) -> bool:
        """Whether pylance writes and reads this kind at this version and size."""
        if version == "0.1" and size.rows == 0 and pa.types.is_dictionary(self.type):
            return False
        return self.since <= version and version not in self.refused and size.name not in self.unwritten


SIZES = (
    Size("empty", 0),
    Size("one", 1),
    Size("few", 20),
    Size("chunk", 1025),
    Size("pages", 3000, batch=500, cache_bytes=1),
    Size("fragments", 900, file_rows=400),
)

_point = pa.struct([("x", pa.int32()), ("y", pa.float64())])
_deep = pa.struct([("id", pa.int64()), ("in", pa.struct([("s", pa.string()), ("l", pa.list_(pa.int16()))]))])


def _kinds(*types: pa.DataType, **options: object) -> tuple[ColumnCase, ...]:
    return tuple(ColumnCase(str(kind).translate(_PLAIN).strip("_"), kind, **options) for kind in types)  # type: ignore[arg-type]


_PLAIN = str.maketrans(dict.fromkeys("<>[](),: +/=.'\"", "_"))

FAMILIES: dict[str, tuple[ColumnCase, ...]] = {
    "integers": _kinds(
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
    ),
    "numbers": _kinds(
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.decimal128(38, 10),
        pa.decimal128(7, -2),
        pa.decimal256(60, 5),
        pa.null(),
    ),
    "times": _kinds(
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.time32("ms"),
        pa.time64("us"),
        pa.time64("ns"),
        pa.timestamp("s"),
        pa.timestamp("ms", "UTC"),
        pa.timestamp("us", "+05:30"),
        pa.timestamp("ns", "Europe/Paris"),
        pa.duration("s"),
        pa.duration("ms"),
        pa.duration("us"),
        pa.duration("ns"),
    ),
    "texts": (
        *_kinds(
            pa.string(),
            pa.large_string(),
            pa.binary(),
            pa.large_binary(),
            pa.string_view(),
            pa.binary_view(),
            pa.binary(1),
            pa.binary(3),
            pa.binary(16),
            pa.binary(300),
        ),
        ColumnCase("string_long", pa.string(), text_bytes=700),
        ColumnCase("binary_long", pa.binary(), text_bytes=700),
    ),
    "vectors": (
        *_kinds(
            pa.list_(pa.float32(), 4),
            pa.list_(pa.float32(), 80),
            pa.list_(pa.float16(), 8),
            pa.list_(pa.int8(), 3),
            pa.list_(pa.bool_(), 3),
            pa.list_(pa.bool_(), 9),
            pa.list_(pa.timestamp("us", "UTC"), 2),
            pa.list_(pa.decimal128(10, 2), 2),
            pa.list_(pa.binary(2), 2),
            pa.list_(pa.list_(pa.int16(), 2), 3),
        ),
    ),
    # A family of its own: pylance cannot read such a column together with others.
    "struct_vectors": (ColumnCase("points", pa.list_(_point, 2), since="2.2"),),
    "structs": (
        ColumnCase("flat", _point),
        ColumnCase("deep", _deep),
        ColumnCase("texts", pa.struct([("s", pa.string()), ("b", pa.large_binary()), ("d", pa.date32())])),
        ColumnCase(
            "vectors", pa.struct([("v", pa.list_(pa.float32(), 4)), ("f", pa.bool_())]), unwritten=("fragments",)
        ),
        ColumnCase("empty", pa.struct([]), since="2.0", nulls=("none", "all"), exact=False),
    ),
    "lists": (
        ColumnCase("ints", pa.list_(pa.int64())),
        ColumnCase("large_ints", pa.large_list(pa.int16())),
        ColumnCase("texts", pa.list_(pa.string())),
        ColumnCase("long_texts", pa.list_(pa.string()), text_bytes=500),
        ColumnCase("bools", pa.list_(pa.bool_())),
        ColumnCase("structs", pa.list_(_point)),
        ColumnCase("large_structs", pa.large_list(pa.struct([("a", pa.int32()), ("s", pa.string())]))),
        ColumnCase("lists", pa.list_(pa.list_(pa.int32()))),
        ColumnCase("lists_of_texts", pa.list_(pa.list_(pa.string()))),
        ColumnCase("three_deep", pa.list_(pa.large_list(pa.list_(pa.int8())))),
        ColumnCase("vectors", pa.list_(pa.list_(pa.float32(), 4))),
        ColumnCase("wide_vectors", pa.list_(pa.list_(pa.float32(), 70))),
        ColumnCase("structs_of_lists", pa.list_(pa.struct([("l", pa.list_(pa.int16())), ("n", pa.int64())]))),
        ColumnCase("in_struct", pa.struct([("l", pa.list_(pa.int32())), ("m", pa.list_(pa.string()))])),
    ),
    "maps": (
        ColumnCase("to_ints", pa.map_(pa.string(), pa.int32()), since="2.2"),
        ColumnCase("to_lists", pa.map_(pa.int64(), pa.list_(pa.string())), since="2.2"),
        ColumnCase("to_structs", pa.map_(pa.string(), _point), since="2.2"),
        ColumnCase("in_list", pa.list_(pa.map_(pa.string(), pa.int16())), since="2.2"),
        ColumnCase("in_struct", pa.struct([("m", pa.map_(pa.int8(), pa.string()))]), since="2.2"),
    ),
    "dictionaries": (
        *(
            ColumnCase(f"{key}_text", pa.dictionary(key, pa.string()))
            for key in (
                pa.int8(),
                pa.int16(),
                pa.int32(),
                pa.int64(),
                pa.uint8(),
                pa.uint16(),
                pa.uint32(),
                pa.uint64(),
            )
        ),
        ColumnCase("large_text", pa.dictionary(pa.int16(), pa.large_string())),
        ColumnCase("binary", pa.dictionary(pa.int32(), pa.binary())),
        ColumnCase("int64", pa.dictionary(pa.int8(), pa.int64())),
        ColumnCase("float64", pa.dictionary(pa.int8(), pa.float64()), since="2.0"),
        ColumnCase("in_struct", pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))]), since="2.1"),
        ColumnCase("in_list", pa.list_(pa.dictionary(pa.int16(), pa.string())), since="2.1"),
    ),
    "extensions": (
        ColumnCase("uuid", pa.uuid()),
        ColumnCase("bool8", pa.bool8()),
        ColumnCase("tensor", pa.fixed_shape_tensor(pa.float32(), (2, 3))),
        ColumnCase("opaque", pa.opaque(pa.binary(), "thing", "maker")),
        ColumnCase("json", pa.json_(), exact=False),
        ColumnCase("bfloat16", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"}),
        ColumnCase("own", pa.int32(), metadata={"ARROW:extension:name": "my.own", "ARROW:extension:metadata": "a=1"}),
    ),
    "packed": (
        ColumnCase("fixed", _point, since="2.0", nulls=("none",), metadata={"lance-encoding:packed": "true"}),
        ColumnCase("old_key", _point, since="2.0", nulls=("none",), metadata={"packed": "true"}),
        ColumnCase(
            "with_vector",
            pa.struct([("v", pa.list_(pa.float32(), 3)), ("i", pa.int16())]),
            since="2.0",
            refused=("2.1",),
            nulls=("none",),
            metadata={"lance-encoding:packed": "true"},
        ),
        ColumnCase(
            "with_text",
            pa.struct([("s", pa.string()), ("i", pa.int32()), ("b", pa.binary())]),
            since="2.2",
            nulls=("none",),
            metadata={"lance-encoding:packed": "true"},
        ),
    ),
}


def cells(groups: Mapping[str, tuple[ColumnCase, ...]], sizes: Sequence[Size], versions: Sequence[str]) -> list[Any]:
    """The parameters family, size and version of a grid.

    The small sizes are shared out, and so are the large ones: every family meets every version, and every other one with
    a large size; every version meets every size. `make soak` visits the other cells too.
    """
    small = [size for size in sizes if 0 < size.rows <= 100]
    large = [size for size in sizes if size.rows > 100]
    found = []
    for (row, (name, kinds)), size in itertools.product(enumerate(groups.items()), sizes):
        fitting = [version for version in versions if any(kind.fits(version, size) for kind in kinds)]
        sharing = small if size in small else large if size in large else [size]
        for version in fitting:
            turn = row + versions.index(version)
            is_left_out = size in large and turn % 2 == 1 and len(fitting) > 1
            marks = [] if sharing[turn % len(sharing)] is size and not is_left_out else [pytest.mark.soak]
            found.append(pytest.param(name, size, version, id=f"{name}-{size.name}-{version}", marks=marks))
    return found


def columns(kinds: tuple[ColumnCase, ...], version: str, size: Size, salt: str = "") -> pa.Table:
    """Every pattern and null share of every kind that this file version can hold; ``salt`` draws other values."""
    fields, arrays = [], []
    for kind, pattern, nulls in itertools.product(kinds, PATTERNS, NULLS):
        if not kind.fits(version, size) or nulls not in kind.nulls:
            continue
        if nulls == "all" and (pattern != "random" or (version == "0.1" and pa.types.is_dictionary(kind.type))):
            continue
        name = f"{kind.name}__{pattern}__{nulls}"
        arrays.append(
            random_array(
                kind.type,
                size.rows,
                zlib.crc32((name + salt).encode()),
                pattern=pattern,
                nulls=nulls,
                null_structs=version >= "2.1",
                text_bytes=kind.text_bytes,
            )
        )
        fields.append(pa.field(name, kind.type, metadata=kind.metadata or None))
    return pa.table(arrays, schema=pa.schema(fields))


def batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Batches that own their memory (a slice would count as large as what it was cut from), aligned as pylance wants."""
    options = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
    for start in range(0, len(table), rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(start, rows).combine_chunks())
        yield from pa.ipc.open_stream(sink.getvalue(), options=options)


def write(table: pa.Table, where: Path, version: str, size: Size, **options: object) -> lance.LanceDataset:
    """Let pylance write the table in the cut that ``size`` describes, and open it afresh."""
    reader = pa.RecordBatchReader.from_batches(table.schema, batches(table, size.batch))
    lance.write_dataset(
        reader,
        where,
        data_storage_version=version,
        max_rows_per_file=size.file_rows,
        max_rows_per_group=min(size.batch, 256),
        data_cache_bytes=size.cache_bytes,
        **options,
    )
    return lance.dataset(where)


def altered(kinds: tuple[ColumnCase, ...], written: pa.Table, read: pa.Table) -> list[str]:
    """Columns that pylance does not give back as they went in, though it should: then it cannot be the judge."""
    loose = {kind.name for kind in kinds if not kind.exact}
    names = [name for name in written.column_names if name.rsplit("__", 2)[0] not in loose]
    texts = (difference(_whole(read, name), _whole(written, name).cast(read.field(name).type), name) for name in names)
    return [text for text in texts if text]


def _whole(table: pa.Table, name: str) -> pa.Array:
    return table.select([name]).combine_chunks()[name].combine_chunks()
