"""What the Spark tests share, beside the session of `tests/conftest.py`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest


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
