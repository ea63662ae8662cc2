"""BTREE and BITMAP over dictionary columns: built, asked, extended and moved by either engine, and read by both."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from lance.indices import IndexConfig

import lancelet
from lancelet.errors import InvalidInput

KINDS = ("BTREE", "BITMAP")
ENGINES = {"pylance": lance, "lancelet": lancelet}
WORDS = ["ä", "b", "a", "", "zz", "b\x00"]
TEXTS = ("d = 'b'", "d != 'b'", "d in ('a', 'zz', 'nothing')", "d > 'a'", "d <= 'b'", "d is null", "not (d = 'a')")
NUMBERS = ("d = 3", "d in (1, 5, 77)", "d between 2 and 4", "d < 3", "d is null", "d is not null")
TYPES = {
    "texts": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    "large texts": (pa.dictionary(pa.uint16(), pa.large_string()), TEXTS),
    "numbers": (pa.dictionary(pa.int32(), pa.int64()), NUMBERS),
}


def rows(name: str, first: int, count: int = 40) -> pa.Table:
    """Every call has a dictionary of its own."""
    dtype, _ = TYPES[name]
    plain: list[Any] = [None if key % 9 == 5 else key % 6 for key in range(first, first + count)]
    if name != "numbers":
        plain = [None if number is None else WORDS[number] for number in plain]
    encoded = pa.array(plain, dtype.value_type).dictionary_encode()
    values = pa.DictionaryArray.from_arrays(encoded.indices.cast(dtype.index_type), encoded.dictionary)
    return pa.table({"k": range(first, first + count), "d": values})


def create(engine: Any, where: Path, kind: str) -> None:
    # pylance refuses the column by the kind's name alone, but not so.
    config = IndexConfig if engine is lance else lancelet.indices.IndexConfig
    engine.dataset(where).create_scalar_index("d", config(kind.lower(), {}))


def agree(where: Path, name: str) -> None:
    for engine, text in itertools.product(ENGINES.values(), TYPES[name][1]):
        dataset = engine.dataset(where)
        truth = dataset.to_table(["k"], filter=text, use_scalar_index=False)["k"].to_pylist()
        assert sorted(dataset.to_table(["k"], filter=text)["k"].to_pylist()) == sorted(truth), (engine.__name__, text)
        assert "ScalarIndexQuery" in dataset.scanner(filter=text).explain_plan()
    assert not lancelet.dataset(where).verify(deep=True).errors


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("builder", ENGINES)
@pytest.mark.parametrize("keeper", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TYPES)
def test_a_life(tmp_path: Path, name: str, kind: str, builder: str, keeper: str) -> None:
    where = tmp_path / "t"
    lance.write_dataset(rows(name, 0), where, max_rows_per_file=20)
    create(ENGINES[builder], where, kind)
    agree(where, name)
    lance.write_dataset(rows(name, 43), where, mode="append")
    agree(where, name)
    ENGINES[keeper].dataset(where).optimize.optimize_indices()
    agree(where, name)
    lancelet.dataset(where).delete("k % 7 = 2")
    ENGINES[keeper].dataset(where).optimize.compact_files(target_rows_per_fragment=1000)
    assert lancelet.dataset(where).stats.index_stats("d_idx")["num_unindexed_rows"] == 0
    agree(where, name)


def content(file: Path) -> tuple[str, list[pa.DataType], list[Any]]:
    """What is in an index file, but for the rows of a value, which come in any order."""
    table = LanceFileReader(str(file)).read_all().to_table()
    return (
        file.name,
        table.schema.types,
        table.select([name for name in table.schema.names if name != "ids"]).to_pylist(),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_files_are_those_of_pylance(tmp_path: Path, kind: str, version: str) -> None:
    found = {}
    for name, engine in ENGINES.items():
        where = tmp_path / name
        lance.write_dataset(rows("texts", 0), where, data_storage_version=version)
        create(engine, where, kind)
        found[name] = [content(file) for file in sorted((where / "_indices").rglob("*.lance"))]
    assert found["lancelet"] == found["pylance"]


@pytest.mark.parametrize("kind", KINDS)
def test_more_values_than_the_index_type_can_number_are_refused_before_a_commit(tmp_path: Path, kind: str) -> None:
    dtype = pa.dictionary(pa.int8(), pa.string())
    for first in (0, 100):
        words = pa.array([f"{number:03}" for number in range(first, first + 100)]).dictionary_encode()
        values = pa.DictionaryArray.from_arrays(words.indices.cast(pa.int8()), words.dictionary)
        table = pa.table({"k": range(first, first + 100), "d": values})
        lancelet.write_dataset(table, tmp_path / "t", mode="append" if first else "create")
        assert table["d"].type == dtype
    dataset = lancelet.dataset(tmp_path / "t")
    with pytest.raises(InvalidInput, match="128 different values that int8 can number"):
        dataset.create_scalar_index("d", kind)
    assert not dataset.describe_indices()
    assert not list((tmp_path / "t").rglob("_indices/*/*"))
