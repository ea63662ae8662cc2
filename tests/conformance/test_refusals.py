"""What pylance refuses, lancelet refuses with an error of its own tree and of the same built-in kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from conformance.states import create
from lancelet.errors import FilterSyntaxError, LanceletError, TableNotFound, UnfitData, UnknownColumn


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refusals") / "t"
    create(path, {"data_storage_version": "2.2"})
    return path


REFUSED: dict[str, Callable[[Any], object]] = {
    "unknown column": lambda ds: ds.to_table(["kk"]),
    "unknown nested column": lambda ds: ds.to_table(["p.deep.q"]),
    "column twice": lambda ds: ds.to_table(["k", "k"]),
    "unknown column in an expression": lambda ds: ds.to_table({"a": "kk + 1"}),
    "column in capitals": lambda ds: ds.to_table(["K"]),
    "half a filter": lambda ds: ds.to_table(filter="k >"),
    "empty filter": lambda ds: ds.to_table(filter=""),
    "unbalanced filter": lambda ds: ds.to_table(filter="(k > 1"),
    "filter with an unknown column": lambda ds: ds.to_table(filter="kk > 1"),
    "filter that is not a condition": lambda ds: ds.to_table(filter="k + 1"),
    "filter with an unknown function": lambda ds: ds.to_table(filter="no_such_function(k) = 1"),
    "filter that compares a vector": lambda ds: ds.to_table(filter="v > 1"),
    "count with a malformed filter": lambda ds: ds.count_rows("k ="),
    "negative limit": lambda ds: ds.to_table(limit=-1),
    "negative offset": lambda ds: ds.to_table(offset=-1),
    "batches of nothing": lambda ds: ds.to_table(batch_size=0),
    "row past the end": lambda ds: ds.take([600]),
    "row far past the end": lambda ds: ds.take([0, 10**12]),
    "sample larger than the table": lambda ds: ds.sample(10_000),
    "unknown order column": lambda ds: ds.to_table(order_by=["zz"]),
    "unknown version": lambda ds: ds.checkout_version(99),
    "unknown tag": lambda ds: ds.checkout_version("nope"),
    "unknown branch": lambda ds: ds.checkout_version(("nope", None)),
    "tag without a version": lambda ds: ds.tags.get_version("nope"),
}


# pylance raises OSError for these, though ValueError for the same mistake in another call; lancelet always ValueError.
INCONSISTENT = {
    "count with a malformed filter",
    "unknown version",
    "unknown tag",
    "row past the end",
    "row far past the end",
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_alike(where: Path, what: str) -> None:
    with pytest.raises(Exception) as theirs:
        REFUSED[what](lance.dataset(where))
    with pytest.raises(LanceletError) as ours:
        REFUSED[what](lancelet.dataset(where))
    assert isinstance(ours.value, ValueError if what in INCONSISTENT else theirs.type)


@pytest.mark.parametrize("options", [{"version": 99}, {"version": 0}, {"version": "nope"}])
def test_opening_what_is_not_there(where: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        lance.dataset(where, **options)
    with pytest.raises(LanceletError) as caught:
        lancelet.dataset(where, **options)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, lambda path: path.write_bytes(b"x")])
def test_no_table_there(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "none")
    with pytest.raises(TableNotFound, match=re.escape("none")) as caught:
        lancelet.dataset(tmp_path / "none")
    assert isinstance(caught.value, ValueError)


def test_an_unknown_column_is_named_and_a_near_one_suggested(where: Path) -> None:
    with pytest.raises(UnknownColumn, match=r"'lowe'.*'low'"):
        lancelet.dataset(where).to_table(["lowe"])
    with pytest.raises(UnknownColumn, match=r"'lowe'.*'low'"):
        lancelet.dataset(where).to_table(filter="lowe = 'x'")
    with pytest.raises(UnknownColumn):
        lancelet.dataset(where).take([0], ["kk"])


def test_a_malformed_filter_is_located(where: Path) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        lancelet.dataset(where).to_table(filter="k > 1 and and i < 3")
    assert caught.value.position is not None
    assert 5 <= caught.value.position <= 14
    assert "k > 1 and and i < 3" in str(caught.value)


@pytest.mark.parametrize("indices", [[-1], [0, -5]])
def test_negative_rows_are_refused(where: Path, indices: list[int]) -> None:
    with pytest.raises((LanceletError, OverflowError)):
        lancelet.dataset(where).take(indices)


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    create(tmp_path / "t", {"data_storage_version": "2.2"})
    gone = min((tmp_path / "t" / "data").iterdir())
    gone.unlink()
    with pytest.raises(LanceletError, match=re.escape(gone.name)) as caught:
        lancelet.dataset(tmp_path / "t").to_table()
    assert isinstance(caught.value, OSError)


ROWS = pa.table({"a": pa.array([1, 2], pa.int64()), "b": ["x", "y"]})
STRICT = ROWS.cast(ROWS.schema.set(0, pa.field("a", pa.int64(), nullable=False)))
UNWRITABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "other type": (pa.table({"a": ["x"]}), {"mode": "append"}),
    "unknown column": (pa.table({"c": [1]}), {"mode": "append"}),
    "missing column": (pa.table({"b": ["x"]}), {"mode": "append"}),
    "nulls": (pa.table({"a": pa.array([None], pa.int64())}), {"mode": "append"}),
    "table there": (ROWS, {"mode": "create"}),
    "duplicate names": (pa.table([[1], [2]], names=["a", "a"]), {"mode": "overwrite"}),
    "dot in a name": (pa.table({"a.b": [1]}), {"mode": "overwrite"}),
    "union": (
        pa.table({"a": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])}),
        {"mode": "overwrite"},
    ),
    "interval": (pa.table({"a": pa.array([None], pa.month_day_nano_interval())}), {"mode": "overwrite"}),
    "run ends": (pa.table({"a": pa.RunEndEncodedArray.from_arrays([1], [1])}), {"mode": "overwrite"}),
    "unknown mode": (ROWS, {"mode": "upsert"}),
    "unknown file version": (ROWS, {"mode": "overwrite", "data_storage_version": "9.9"}),
    "batches without a schema": (ROWS.to_batches(), {"mode": "append"}),
    "batches of another schema": (
        [pa.record_batch({"a": ["x"], "b": ["y"]})],
        {"mode": "append", "schema": ROWS.schema},
    ),
    "no data at all": (3, {"mode": "append"}),
}


@pytest.mark.parametrize("what", UNWRITABLE)
def test_writes_refused_alike(tmp_path: Path, what: str) -> None:
    """The same built-in kind, no new version, no files left."""
    data, options = UNWRITABLE[what]
    kinds = []
    for engine in (lance, lancelet):
        at = tmp_path / engine.__name__
        engine.write_dataset(STRICT, at)
        before = sorted(path.name for path in at.rglob("*"))
        with pytest.raises(Exception) as caught:
            engine.write_dataset(data, at, **options)
        kinds.append(caught.type)
        assert engine.dataset(at).version == 1
    assert sorted(path.name for path in at.rglob("*")) == before
    assert issubclass(kinds[1], LanceletError)
    assert issubclass(kinds[1], kinds[0])


def test_both_schemas_are_shown_side_by_side(tmp_path: Path) -> None:
    lancelet.write_dataset(STRICT, tmp_path / "t")
    with pytest.raises(UnfitData) as caught:
        lancelet.write_dataset({"a": ["x"], "b": ["y"], "c": [1]}, tmp_path / "t", mode="append")
    text = str(caught.value)
    assert "`a` is int64 in the table, string in the data" in text
    assert "`c` is not in the table" in text
    table = [line.split("  ") for line in text.splitlines() if line.startswith(("! ", "  table", "  b"))]
    assert [[part.strip() for part in line if part.strip()] for line in table] == [
        ["table", "data"],
        ["! a: int64 not null", "a: string"],
        ["b: string", "b: string"],
        ["! -", "c: int64"],
    ]


@pytest.mark.parametrize(("change", "retryable"), [("overwrite", False), ("append", True)])
def test_conflicts_under_their_own_name(tmp_path: Path, change: str, retryable: bool) -> None:
    """``CommitConflictError`` of the module ``commit`` says whether it is worth trying again."""
    found = []
    for engine in (lance, lancelet):
        at = tmp_path / engine.__name__
        engine.write_dataset(ROWS, at)
        conflict = import_module(f"{engine.__name__}.commit").CommitConflictError
        fields = engine.dataset(at).lance_schema
        fragments = [fragment.metadata for fragment in engine.dataset(at).get_fragments()]
        engine.write_dataset(ROWS, at, mode=change)
        with pytest.raises(conflict) as caught:
            engine.LanceDataset.commit(at, engine.LanceOperation.Merge(fragments, fields), read_version=1)
        assert isinstance(caught.value, OSError)
        found.append(caught.value.retryable)
    assert found == [retryable, retryable]


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version"])
def test_reserved_names(tmp_path: Path, name: str) -> None:
    for module in (lance, lancelet):
        with pytest.raises(OSError, match="reserved name"):
            module.write_dataset(pa.table({name: [1]}), tmp_path / module.__name__)
    assert not (tmp_path / "lancelet").exists()
