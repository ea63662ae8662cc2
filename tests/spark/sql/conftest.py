"""What the tests of Spark SQL share: a catalog of their own, and statements run to their end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pytest
from pyspark.errors import PySparkException

import lancelet
from lancelet.spark.session import CATALOG
from spark.sessions import MODE

Sql = Callable[[str], list[tuple[Any, ...]]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = "without the bridge there is no catalog"
    for item in items:
        if MODE.endswith("plain") and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Space:
    """A catalog over a folder of its own, and the namespace ``ns`` in it."""

    name: str
    root: Path

    def __str__(self) -> str:
        return f"{self.name}.ns"

    def location(self, table: str) -> str:
        """Where a table is, as the namespace tells it."""
        return lancelet.connect(self.root).open(f"ns.{table}").uri

    def pylance(self, table: str) -> lance.LanceDataset:
        """The same table as pylance opens it."""
        return lance.dataset(self.location(table))


def add_catalog(spark: Any, root: Path, kind: str = CATALOG, **settings: str) -> str:
    """A catalog with a name that no other has."""
    name = f"c{uuid4().hex[:12]}"
    for key, value in {"impl": "dir", "root": str(root), **settings}.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    spark.conf.set(f"spark.sql.catalog.{name}", kind)
    return name


@pytest.fixture
def space(spark: Any, tmp_path: Path) -> Space:
    root = tmp_path / "root"
    name = add_catalog(spark, root)
    lancelet.connect(root).create_namespace("ns")
    return Space(name, root)


@pytest.fixture
def sql(spark: Any, space: Space) -> Sql:
    """Runs a statement to its end; ``{ns}`` is the namespace of the test."""

    def run(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(text.replace("{ns}", str(space)).replace("{c}", space.name)).collect()]

    return run


@pytest.fixture
def refused(sql: Sql) -> Callable[[str], PySparkException]:
    """The error of a statement, which is one of Spark's own."""

    def run(text: str) -> PySparkException:
        with pytest.raises(PySparkException) as caught:
            sql(text)
        said = str(caught.value).partition("JVM stacktrace:")[0]
        assert "Traceback" not in said, said
        assert "Py4J" not in said, said
        return caught.value

    return run
