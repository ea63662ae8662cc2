"""One session for all tests of a process; those tests stay on one worker, since Spark starts slowly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark.sessions import MODE, started

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            item.add_marker(pytest.mark.filterwarnings("ignore:lance is not fork-safe"))
            # Sockets to the Java process, which Spark leaves to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with started(MODE, tmp_path_factory.mktemp("spark")) as session:
            session.dataSource.register(plain_source())
            yield session


def plain_source() -> type:
    """The data source under a name that the bridge does not know."""
    from lancelet.spark.source import LanceDataSource

    body = {"name": classmethod(lambda cls: "lance_plain"), "__module__": "__main__"}
    return type("PlainLance", (LanceDataSource,), body)


@pytest.fixture(params=["lance", "lance_plain"])
def source(request: pytest.FixtureRequest) -> str:
    """The format, with the bridge and without it."""
    name: str = request.param
    return name


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


def data_files(uri: str) -> set[str]:
    """Names of all data files in a table's folder."""
    return {path.name for path in (Path(uri) / "data").glob("*")}


def sorted_rows(table: pa.Table, key: str = "id") -> pa.Table:
    return table.sort_by(key).combine_chunks()
