"""Bare 2.1 and 2.2 files written by pylance, read whole, in ranges and row by row, and compared with what went in."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import cache
from pathlib import Path
from threading import Barrier

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from lance.file import LanceFileWriter

from drawing import examples
from lancelet.encoding.rows import RowRange
from lancelet.testing import difference, random_array
from lancelet.testing.arrays import PATTERNS
from lancelet.testing.strategies import nested_types
from unit.encoding.made21 import File

N = 6000
VERSIONS = ("2.1", "2.2")
PACKED = {"lance-encoding:packed": "true"}


def _setting(**settings: str) -> dict[str, str]:
    return {f"lance-encoding:{key.replace('_', '-')}": value for key, value in settings.items()}


def write(array: pa.Array, version: str, metadata: dict[str, str] | None = None, batch: int | None = None) -> bytes:
    """A file of one column ``c``; with ``batch``, in pieces that become pages of their own."""
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.lance"
        cached = {"data_cache_bytes": 1} if batch else {}
        with LanceFileWriter(str(path), schema, version=version, **cached) as writer:
            for start in range(0, len(array), batch or len(array)):
                # Copied, because the reference writer trips over slices of nested arrays.
                piece = array.take(pa.array(range(start, min(start + (batch or len(array)), len(array)))))
                writer.write_batch(pa.record_batch([piece], schema=schema))
        return path.read_bytes()


def agree(found: pa.Array, expected: pa.Array, what: object) -> None:
    text = difference(found, expected)
    assert text is None, f"{what}: {text}"


def check(data: bytes, array: pa.Array, seed: int = 0) -> None:
    """Scan, ranges and scattered takes, first and later ones, of the mapped and of the fetched file."""
    rng = random.Random(seed)
    rows = len(array)
    for mapped in (True, False):
        file = File(data, mapped=mapped)
        for _ in range(4):
            picks = sorted({rng.randrange(rows) for _ in range(rng.choice((1, 3, 50, 1000)))})
            agree(file.take(picks), array.take(pa.array(picks)), f"take {picks[:9]}")
        for _ in range(4):
            start = rng.randrange(rows)
            stop = rng.randint(start + 1, min(rows, start + rng.choice((1, 30, 5000))))
            agree(file.read(RowRange(start, stop)), array.slice(start, stop - start), f"rows {start} to {stop}")
        agree(file.scan(), array, "scan")
        agree(File(data, mapped=mapped).scan(), array, "first scan")


@cache
def columns() -> dict[str, tuple[pa.Array, dict[str, str] | None, str]]:
    """Name -> values, field metadata, first version."""
    rng = np.random.default_rng(0)

    def nulls(values, share: float = 0.2) -> list[object]:
        return [None if rng.random() < share else value for value in values]

    def words(kinds: int, count: int = N) -> list[str]:
        return [f"s{number}" for number in rng.integers(0, kinds, count)]

    def ints(low: int, high: int) -> list[int]:
        return rng.integers(0, 99, rng.integers(low, high)).tolist()

    floats = rng.random(N * 8).astype(np.float32)
    pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
    plain = {
        "int64 random": pa.array(rng.integers(-(2**62), 2**62, N)),
        "int64 sequence": pa.array(np.arange(N)),
        "int64 nulls": pa.array(nulls(range(N)), pa.int64()),
        "int64 constant": pa.array([7] * N),
        "int64 constant nulls": pa.array(nulls([7] * N)),
        "int64 few": pa.array(rng.choice([2**60, 2**61, 5], N)),
        "int64 runs": pa.array(np.repeat(rng.integers(0, 2**60, N // 50), 50)),
        "int32 small": pa.array(rng.integers(0, 999, N).astype(np.int32)),
        "uint8": pa.array(rng.integers(0, 16, N).astype(np.uint8)),
        "int16 nulls": pa.array(nulls(rng.integers(0, 99, N).tolist()), pa.int16()),
        "nulls in runs": pa.array([None if i // 700 % 2 else i for i in range(N)], pa.int32()),
        "float32": pa.array(floats[:N]),
        "float64": pa.array(rng.random(N)),
        "float16": pa.array(rng.random(N).astype(np.float16)),
        "bool": pa.array(rng.random(N) < 0.5),
        "bool nulls": pa.array(nulls([bool(x) for x in rng.random(N) < 0.5])),
        "bool constant": pa.array([True] * N),
        "null": pa.nulls(N),
        "all null": pa.nulls(N, pa.int32()),
        "all null text": pa.nulls(N, pa.string()),
        "text": pa.array(words(10**6)),
        "text nulls": pa.array(nulls(words(10**6))),
        "text few": pa.array(words(3)),
        "text few nulls": pa.array(nulls(words(3))),
        "text constant": pa.array(["x"] * N),
        "text constant nulls": pa.array(nulls(["x"] * N)),
        "large text": pa.array(words(10**6), pa.large_string()),
        "long text": pa.array([word * 100 for word in words(10**6, 900)]),
        "long text nulls": pa.array(nulls([word * 100 for word in words(10**6, 900)])),
        "text that compresses": pa.array([f"hello world number {i} of the long strings" for i in range(N)]),
        "huge text": pa.array([f"a{i}" * 20000 for i in range(20)]),
        "binary": pa.array([rng.bytes(rng.integers(0, 20)) for _ in range(N)]),
        "fixed binary": pa.array([b"%016d" % i for i in range(N)], pa.binary(16)),
        "wide fixed binary": pa.array([b"%016d" % i * 20 for i in range(700)], pa.binary(320)),
        "decimal": pa.array([Decimal(i) for i in range(N)], pa.decimal128(20, 2)),
        "timestamp": pa.array(rng.integers(0, 2**50, N), pa.timestamp("us", "UTC")),
        "vector 8": pa.FixedSizeListArray.from_arrays(pa.array(floats), 8),
        "vector 8 nulls": pa.array(nulls([nulls(floats[:8].tolist()) for _ in range(2500)]), pa.list_(pa.float32(), 8)),
        "vector 128": pa.FixedSizeListArray.from_arrays(pa.array(floats[: 128 * 300]), 128),
        "vector 128 nulls": pa.array(nulls([floats[:128].tolist()] * 500), pa.list_(pa.float32(), 128)),
        "bits 3": pa.array(nulls([nulls([True, False, True]) for _ in range(2500)]), pa.list_(pa.bool_(), 3)),
        "grid": pa.array(nulls([nulls([nulls([1, 2]) for _ in range(3)]) for _ in range(2500)]),
                         pa.list_(pa.list_(pa.int16(), 2), 3)),
        "wide grid": pa.array(nulls([nulls([nulls(range(50)) for _ in range(3)]) for _ in range(100)]),
                              pa.list_(pa.list_(pa.int32(), 50), 3)),
        "list": pa.array(nulls([nulls(ints(0, 5)) for _ in range(N)]), pa.list_(pa.int64())),
        "full lists": pa.array([ints(1, 5) for _ in range(N)], pa.list_(pa.int32())),
        "long lists": pa.array([ints(0, 3000) for _ in range(200)], pa.list_(pa.int32())),
        "empty lists": pa.array(nulls([[]] * N), pa.list_(pa.int32())),
        "sparse lists": pa.array([[i] if i % 1000 == 0 else None for i in range(N)], pa.list_(pa.int64())),
        "one giant list": pa.array([[]] * 99 + [list(range(70_000))] + [None], pa.list_(pa.int32())),
        "large lists": pa.array(nulls([[1, 2], [3]] * 1000), pa.large_list(pa.int8())),
        "lists of text": pa.array(nulls([nulls(words(5, rng.integers(0, 5))) for _ in range(N)]), pa.list_(pa.string())),
        "lists of long text": pa.array(nulls([nulls([word * 200 for word in words(5000, rng.integers(0, 5))])
                                              for _ in range(300)]), pa.list_(pa.string())),
        "lists of lists": pa.array(nulls([nulls([nulls(ints(0, 5)) for _ in range(rng.integers(0, 4))])
                                          for _ in range(3000)]), pa.list_(pa.list_(pa.int64()))),
        "lists of vectors": pa.array(nulls([nulls([[float(x)] * 100 for x in range(i % 3)]) for i in range(300)]),
                                     pa.list_(pa.list_(pa.float32(), 100))),
        "struct": pa.array(nulls([{"a": i if i % 3 else None, "b": f"s{i}" if i % 5 else None} for i in range(N)]), pair),
        "struct of list": pa.array(nulls([{"l": nulls(range(i % 4)) if i % 11 else None} for i in range(N)]),
                                   pa.struct([("l", pa.list_(pa.int32()))])),
        "lists of structs": pa.array(nulls([nulls([{"x": j, "y": nulls(words(9, 2))} for j in range(i % 4)])
                                            for i in range(3000)]),
                                     pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]))),
        "empty struct": pa.array([{}] * N, pa.struct([])),
        "dictionary": pa.array(nulls(words(50))).dictionary_encode(),
        "small dictionary": pa.array(nulls(words(50))).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    }  # fmt: skip
    later = {
        "map": pa.array(nulls([[(f"k{j}", j if j % 2 else None) for j in range(i % 4)] for i in range(N)]),
                        pa.map_(pa.string(), pa.int32())),
        "vectors of structs": pa.array(nulls([nulls([{"a": i, "b": "s"}, {"a": None, "b": f"t{i}"}])
                                              for i in range(2000)]), pa.list_(pair, 2)),
    }  # fmt: skip
    found: dict[str, tuple[pa.Array, dict[str, str] | None, str]] = {
        name: (array, None, "2.1") for name, array in plain.items()
    }
    found |= {name: (array, None, "2.2") for name, array in later.items()}
    fixed = pa.struct([("x", pa.int32()), ("y", pa.int64())])
    mixed = pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.list_(pa.float32(), 4))])
    rows = [{"x": i, "y": -i} for i in range(N)]
    found["packed"] = pa.array(rows, fixed), PACKED, "2.1"
    rows = nulls([{"x": i, "y": f"s{i}", "z": [1, 2, 3, float(i)]} for i in range(N)])
    found["packed with text"] = pa.array(rows, mixed), PACKED, "2.2"
    forced = {
        "zstd": _setting(compression="zstd"),
        "lz4": _setting(compression="lz4"),
        "lz4 split": _setting(compression="lz4", bss="on"),
        "zipped": _setting(structural_encoding="fullzip"),
        "chunked": _setting(structural_encoding="miniblock"),
        "fsst": _setting(compression="fsst"),
        "uncompressed": _setting(compression="none"),
    }
    for how, metadata in forced.items():
        for name in ("int64 random", "int64 nulls", "float32", "bool", "text", "text nulls", "long text", "binary",
                     "huge text", "vector 8", "vector 128", "list", "lists of text"):  # fmt: skip
            # Chunks of 2.1 are too small for them.
            since = "2.2" if (name, how) == ("huge text", "chunked") else "2.1"
            found[f"{name}, {how}"] = plain[name], metadata, since
    return found


def cases() -> Iterator[object]:
    for name, (_, _, since) in columns().items():
        for version in VERSIONS:
            if version >= since:
                yield pytest.param(name, version, id=f"{name}-{version}")


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(("name", "version"), [*cases()])
def test_what_pylance_wrote(name: str, version: str) -> None:
    array, metadata, _ = columns()[name]
    check(write(array, version, metadata), array)


PAGED = (
    "int64 nulls", "int64 few", "int64 constant nulls", "nulls in runs", "bool nulls", "text nulls", "text few nulls",
    "text that compresses", "long text nulls", "vector 8 nulls", "vector 128 nulls", "list", "sparse lists",
    "one giant list", "lists of text", "lists of lists", "lists of structs", "struct", "dictionary", "small dictionary",
)  # fmt: skip


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("batch", [17, 1000])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", PAGED)
def test_columns_of_many_pages(name: str, version: str, batch: int) -> None:
    array = columns()[name][0].slice(0, 1500 if batch == 17 else 6000)
    check(write(array, version, batch=batch), array)


def test_nulls_that_hide_bytes_which_are_no_text() -> None:
    """Arrow allows anything under a null; whatever pylance makes of it must read."""
    offsets, data = pa.py_buffer(np.arange(0, 303, 3, dtype=np.int32)), pa.py_buffer(b"ab\xff" * 100)
    valid = pa.py_buffer(np.zeros(13, np.uint8))
    array = pa.concat_arrays([pa.StringArray.from_buffers(100, offsets, data, valid), pa.array(["ok", None])])
    for version in VERSIONS:
        check(write(array, version), array)


@st.composite
def drawn(draw, maps: bool) -> pa.Array:
    rows = draw(st.one_of(st.integers(1, 40), st.integers(1, 3000)))
    return random_array(
        draw(nested_types(maps=maps)),
        rows,
        draw(st.integers(0, 2**32 - 1)),
        pattern=draw(st.sampled_from(PATTERNS)),
        nulls=draw(st.sampled_from(["none", "some", "some", "all"])),
        text_bytes=draw(st.sampled_from([4, 12, 60, 400])),
    )


QUICK = settings(max_examples=examples(60), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def _drawn(version: str, limits: settings) -> None:
    @limits
    @given(drawn(version >= "2.2"), st.sampled_from([None, None, 700, 33]), st.integers(0, 10**6))
    def prove(array: pa.Array, batch: int | None, seed: int) -> None:
        try:
            data = write(array, version, batch=batch)
        except (OSError, ValueError):
            reject()
        except BaseException as panic:
            if type(panic).__name__ != "PanicException":
                raise
            reject()
        check(data, array, seed)

    prove()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_drawn_columns(version: str) -> None:
    _drawn(version, QUICK)


@pytest.mark.soak
@pytest.mark.parametrize("version", VERSIONS)
def test_thousands_of_drawn_columns(version: str) -> None:
    _drawn(version, settings(QUICK, max_examples=examples(150), derandomize=False))


SHARED = ("int64 nulls", "text few nulls", "text that compresses", "lists of text", "lists of structs", "struct",
          "long text nulls", "int64 constant nulls", "vector 128 nulls", "dictionary")  # fmt: skip


@pytest.mark.spread(0.4)
@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("mapped", [True, False])
def test_first_reads_by_many_threads_at_once(name: str, mapped: bool) -> None:
    """A freshly opened file fills its tables while all of them read; none may see half of it."""
    array = columns()[name][0].slice(0, 3000)
    data = write(array, "2.2", batch=170)
    rows, threads = len(array), 8

    def read(file: File, start: Barrier, number: int) -> str | None:
        rng = random.Random(number)
        start.wait()
        for _ in range(4):
            if (number + rng.randrange(2)) % 3 == 0:
                found, expected = file.scan(), array
            elif number % 3 == 1:
                picks = sorted({rng.randrange(rows) for _ in range(rng.choice((1, 2, 60)))})
                found, expected = file.take(picks), array.take(pa.array(picks))
            else:
                first = rng.randrange(rows)
                last = rng.randint(first + 1, rows)
                found, expected = file.read(RowRange(first, last)), array.slice(first, last - first)
            if text := difference(found, expected):
                return text
        return None

    with ThreadPoolExecutor(threads) as pool:
        for attempt in range(12):
            file, start = File(data, mapped=mapped), Barrier(threads)
            jobs = [pool.submit(read, file, start, attempt * threads + number) for number in range(threads)]
            assert [job.result() for job in jobs] == [None] * threads
