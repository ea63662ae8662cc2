"""The examples of the pages in docs/ give what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "count", "least"), [("indices.md", 3, 10), ("maintenance.md", 2, 6)])
def test_examples(name: str, count: int, least: int) -> None:
    page = DOCS / name
    blocks = re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == count
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted > least
