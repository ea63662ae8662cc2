"""The examples in docstrings give what they say, and what users call has a docstring."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import lancelet

SPARK = "lancelet.spark"
SKIPPED = {"lancelet.spark.session.add_bridge": "needs a server of Spark Connect that runs elsewhere"}
"""Docstrings with an example that is marked ``+SKIP``, and why."""


def _modules() -> list[str]:
    found = pkgutil.walk_packages(lancelet.__path__, "lancelet.")
    return ["lancelet", *(module.name for module in found if not module.name.endswith("_pb2"))]


def _has_examples(module: str) -> bool:
    source = importlib.util.find_spec(module)
    assert source is not None
    assert source.origin is not None
    return source.origin.endswith(".py") and ">>>" in Path(source.origin).read_text()


def _examples(module: str) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(importlib.import_module(module), module) if test.examples]


MODULES = [module for module in _modules() if _has_examples(module)]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def _run(module: str, names: dict[str, Any]) -> None:
    for test in _examples(module):
        told: list[str] = []
        test.globs.update(names)
        result = doctest.DocTestRunner(verbose=False).run(test, out=told.append)
        assert result.failed == 0, "".join(told)


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith(SPARK)])
def test_examples(module: str) -> None:
    _run(module, {})


def test_examples_with_spark(spark: Any) -> None:
    """All in one session, which they know as ``spark``."""
    for module in MODULES:
        if module.startswith(SPARK):
            _run(module, {"spark": spark})


def test_skipped_examples_have_a_reason() -> None:
    skipped = {
        test.name
        for module in MODULES
        for test in _examples(module)
        if any(doctest.SKIP in example.options for example in test.examples)
    }
    assert skipped == SKIPPED.keys()
