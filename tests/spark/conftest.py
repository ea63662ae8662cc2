"""What the Spark tests share, beside the session of `tests/conftest.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

SOURCES = ("lance", "lance_plain")
T = TypeVar("T")
Shares = Callable[[Iterable[T]], Iterator[tuple[T, str]]]


def plain_source() -> type:
    """The data source under a name that the bridge does not know."""
    from lancelet.spark.source import LanceDataSource

    body = {"name": classmethod(lambda cls: "lance_plain"), "__module__": "__main__"}
    return type("PlainLance", (LanceDataSource,), body)


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    """The format, with the bridge and without it."""
    name: str = request.param
    return name


@pytest.fixture(params=["in-turn", pytest.param("both", marks=pytest.mark.soak)])
def sources(request: pytest.FixtureRequest) -> Shares:
    """Cases, each with a format: the two take turns, and in a soak each case meets both."""

    def shared_out(cases: Iterable[T]) -> Iterator[tuple[T, str]]:
        for number, case in enumerate(cases):
            for name in SOURCES if request.param == "both" else (SOURCES[number % 2],):
                yield case, name

    return shared_out


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


def data_files(uri: str) -> set[str]:
    """Names of all data files in a table's folder."""
    return {path.name for path in (Path(uri) / "data").glob("*")}


def sorted_rows(table: pa.Table, key: str = "id") -> pa.Table:
    return table.sort_by(key).combine_chunks()
