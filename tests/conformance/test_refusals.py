"""What pylance refuses, lancelet refuses with an error of its own tree and of the same built-in kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import lancelet
from conformance.states import create
from lancelet.errors import FilterSyntaxError, LanceletError, TableNotFound, UnknownColumn


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
