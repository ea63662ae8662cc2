"""What the tests of kinds with zones share: columns whose values lie near each other, and what is true of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.indices import IndexConfig

from index.segments import Rows, Workbench
from lancelet.errors import CorruptFile, InvalidInput, NotSupported
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import Kind, Source
from lancelet.index.questions import Answer, Between, IsIn, Missing, Question, StartsWith
from lancelet.index.row_set import RowSet
from lancelet.query.comparing import compare, is_in
from lancelet.table.written import WrittenFiles

ROWS = 300
_NAN, _INF = math.nan, math.inf
_ODD_NAN = np.array([0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64).tolist()


class ZoneBench(Workbench):
    """A workbench whose index pylance made with options."""

    def __init__(
        self, where: Path, values: pa.Array, kind: Kind, parameters: Mapping[str, Any], **options: Any
    ) -> None:
        self.where = where
        self.kind = kind
        self.dtype = values.type
        lance.write_dataset(pa.table({"v": values}), where, **options)
        lance.dataset(where).create_scalar_index("v", IndexConfig(kind.name.lower(), dict(parameters)))
        self.dataset = lance.dataset(where)


def _near(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """Ascending values with some disorder; here and there a null."""
    rng = np.random.default_rng(len(values))
    picks = np.clip(np.arange(ROWS) * len(values) // ROWS + rng.integers(-1, 2, ROWS), 0, len(values) - 1)
    nulls = rng.random(ROWS) < 0.1
    return pa.array([None if null else values[pick] for pick, null in zip(picks, nulls, strict=True)], dtype)


VALUES: dict[str, pa.Array] = {
    "bool": _near([False, True], pa.bool_()),
    "int8": _near([-128, -1, 0, 5, 127], pa.int8()),
    "int64": _near([-(2**63), *range(-60, 60), 2**63 - 1], pa.int64()),
    "uint64": _near([0, 1, 2**63, 2**64 - 1], pa.uint64()),
    "float16": _near([np.float16(x) for x in (-_INF, -1.5, -0.0, 0.0, 1.5, _INF, _NAN)], pa.float16()),
    "float32": _near([-_INF, -1.5, -0.0, 0.0, 1.5, _INF, _NAN], pa.float32()),
    "float64": _near([*_ODD_NAN, -_INF, -1.5, -0.0, 0.0, 1e-300, 7.0, 8.0, _INF, _NAN], pa.float64()),
    "string": _near(["", "a", "ab", "abc", "b", "z" * 300, "ß", "日本語", "\U0001f600"], pa.string()),
    "large_string": _near(["", "a", "ab", "\uffff", "\U00010000"], pa.large_string()),
    "binary": _near([b"", b"\x00", b"a", b"ab", b"\xff", b"\xff\xff"], pa.binary()),
    "large_binary": _near([b"", b"x" * 100, b"\xff"], pa.large_binary()),
    "decimal128": _near([Decimal(x) for x in ("-99999.99", "-0.01", "0.00", "7.25")], pa.decimal128(9, 2)),
    "decimal256": _near([Decimal(-(10**50)), Decimal(0), Decimal(10**50)], pa.decimal256(60, 0)),
    "date32": _near([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)], pa.date32()),
    "date64": _near([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)], pa.date64()),
    "time32": _near([0, 5, 86_399_999], pa.time32("ms")),
    "time64": _near([0, 5, 86_399_999_999_999], pa.time64("ns")),
    "timestamp": _near([datetime(1900, 1, 1), datetime(1970, 1, 1), datetime(2100, 1, 1)], pa.timestamp("us")),
    "zoned": _near([-(2**60), -1, 0, 2**60], pa.timestamp("ns", "UTC")),
    "duration": _near([timedelta(-1), timedelta(0), timedelta(0, 1)], pa.duration("ms")),
    "all null": pa.nulls(ROWS, pa.int32()),
    "all NaN": pa.array([_NAN] * ROWS),
    "one row": pa.array([5]),
    "no rows": pa.array([], pa.string()),
}
UNORDERED: dict[str, pa.Array] = {
    "fixed": _near([b"abc", b"abd"], pa.binary(3)),
    "dictionary": _near(["a", "b"], pa.string()).dictionary_encode(),
    "list": _near([[1], [], [2, None]], pa.list_(pa.int32())),
    "struct": _near([{"a": 1}, {"a": None}], pa.struct([("a", pa.int32())])),
    "vector": _near([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
}


def made(
    bench: Workbench,
    file: str,
    columns: Mapping[str, pa.Array],
    metadata: Mapping[str, str],
    buffer: bytes | None = None,
) -> IndexFolder:
    """A segment of one file that some other writer could have left."""
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    batch = pa.record_batch(dict(columns))
    with out.create(file, batch.schema) as writer:
        writer.write(batch)
        if buffer is not None:
            writer.add_global_buffer(buffer)
        for key, value in metadata.items():
            writer.add_metadata(key, value)
    return IndexFolder(bench.snapshot, replace(bench.entry, uuid=out.uuid, files=tuple(out.written)))


def refused_flips(bench: Workbench, file: str, asked: Sequence[Question], count: int = 200) -> int:
    """Damage single bits of pylance's file; each time there is an answer, or an error that names the file. Counts these."""
    path = bench.folder(bench.entry) / file
    good = path.read_bytes()
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(count):
        data = bytearray(good)
        data[rng.integers(0, len(data))] ^= 1 << rng.integers(0, 8)
        path.write_bytes(data)
        try:
            segment = bench.theirs()
            for question in asked:
                segment.ask(question)
            bench.write(None, None, [Source(segment)])
        except (CorruptFile, NotSupported, InvalidInput) as error:
            assert file in str(error) or not isinstance(error, CorruptFile)
            refused += 1
    return refused


def questions(values: pa.Array) -> list[Question]:
    """Questions about a column, with values that occur in it and some that may not."""
    dtype = values.type
    known = values.drop_null().unique()[:12]
    if pa.types.is_floating(dtype):
        known = pa.concat_arrays([known, pa.array(np.array([0.0, -0.0, _NAN, 6.0], dtype.to_pandas_dtype()))])
    elif pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        known = pa.concat_arrays([known, pa.array(["", "aa", "zzz"], dtype)])
    asked: list[Question] = [Missing(), IsIn(known[:0]), IsIn(known), IsIn(known[:3]), Between(None, None)]
    for at, value in enumerate(known):
        other = known[at - 1]
        asked += [IsIn(known[at : at + 1]), Between(value, None), Between(None, value, True, False)]
        asked += [Between(value, None, False), Between(None, value)]
        asked += [Between(value, other), Between(value, other, False, True), Between(other, value, True, False)]
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        asked += [StartsWith(prefix) for prefix in ("", "a", "ab", "abcd", "日", "\U0001f600", "z", "\U0010ffff")]
    elif pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        asked += [StartsWith(prefix) for prefix in (b"", b"a", b"\xff", b"\xff\xff\xff")]
    return asked


def truth(values: pa.Array, question: Question) -> npt.NDArray[np.bool_]:
    """For which values it is true; null ones are false, except where nulls are asked for."""
    match question:
        case Missing():
            found = values.is_null()
        case IsIn(wanted):
            found = is_in(values, wanted)
        case Between(low, high, with_low, with_high):
            found = values.is_valid()
            if low is not None:
                found = pc.and_(found, compare(">=" if with_low else ">", values, low))
            if high is not None:
                found = pc.and_(found, compare("<=" if with_high else "<", values, high))
        case StartsWith(prefix):
            found = pa.array([None if v is None else v.startswith(prefix) for v in values.to_pylist()], pa.bool_())
        case _:
            raise TypeError(question)
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def check(answer: Answer, question: Question, values: pa.Array, rows: Rows) -> int:
    """At least the true rows are in the answer, and exactly the null ones among its nulls; tells how many are too many."""
    want = rows[truth(values, question)]
    found = answer.rows.numbers()
    assert np.isin(want, found).all(), question
    nulls = rows[values.is_null().to_numpy(zero_copy_only=False)]
    if isinstance(question, Missing):
        assert answer.exact
        assert answer.nulls == RowSet()
        assert np.array_equal(found, np.sort(nulls))
    else:
        assert not answer.exact
        assert answer.nulls == RowSet.of(nulls)
    return len(found) - len(want)
