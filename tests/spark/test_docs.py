"""The blocks of docs/spark.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancelet
from spark.sessions import MODE

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.mark.skipif(MODE != "local", reason="the page shows a session of its own, which takes over one that is there")
def test_blocks(spark: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block.replace("/data/", f"{tmp_path}/"), PAGE.name, "exec"), names)
    found = lancelet.dataset(tmp_path / "people.lance").to_table()
    assert found.to_pylist() == [{"id": 3, "name": "eve", "country": "FR", "age": 40}]
    assert found.schema.field("id").type == pa.int64()
