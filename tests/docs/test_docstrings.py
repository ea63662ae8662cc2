"""The examples in docstrings give what they say, and what users call has a docstring."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lancelet

SPARK = "lancelet.spark"
SKIPPED = {"lancelet.spark.session.add_bridge": "needs a server of Spark Connect that runs elsewhere"}
"""Docstrings with an example that is marked ``+SKIP``, and why."""


PUBLIC = (
    *("lancelet", "lancelet.bitmap", "lancelet.blob", "lancelet.commit", "lancelet.dataset", "lancelet.errors"),
    *("lancelet.file", "lancelet.fragment", "lancelet.indices", "lancelet.log", "lancelet.namespace"),
    *(
        "lancelet.optimize",
        "lancelet.progress",
        "lancelet.pydantic",
        "lancelet.sampler",
        "lancelet.schema",
        "lancelet.spark",
    ),
    *("lancelet.testing", "lancelet.types", "lancelet.udf", "lancelet.util", "lancelet.vector"),
)
"""What users import."""


SHOWN = (
    *(
        "LanceDataset",
        "LanceFragment",
        "LanceScanner",
        "ScannerBuilder",
        "MergeInsertBuilder",
        "LanceSchema",
        "LanceField",
    ),
    *("Branches", "Tags", "DatasetDelta", "LanceStats", "DatasetOptimizer", "FragmentMetadata", "LanceFileReader"),
    *("LanceFileWriter", "LanceFileSession", "Session", "Connection", "DirectoryNamespace", "LanceTable"),
    *("RemoteConnection", "RestAdapter", "RestNamespace"),
)
"""Classes with an example, of their own or of a method."""


def _modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(lancelet.__path__, "lancelet.")]
    if importlib.util.find_spec("torch") is None:
        # An extra that the tests do without.
        found.remove("lancelet.torch")
    return ["lancelet", *(name for name in found if not name.endswith("_pb2"))]


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


@pytest.fixture(autouse=True)
def _python_handles_interrupts() -> Iterator[None]:
    """A program that was started in the background ignores them, and a Spark session has a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def _public_things() -> dict[str, Any]:
    """Classes and functions that the public modules hand out."""
    found = {}
    for module in PUBLIC:
        library = importlib.import_module(module)
        for name in getattr(library, "__all__", None) or dir(library):
            thing = getattr(library, name)
            ours = str(getattr(thing, "__module__", "")).startswith("lancelet")
            if ours and not name.startswith("_") and (inspect.isclass(thing) or inspect.isfunction(thing)):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class of ours defines, or one that it is made of."""
    for home in kind.__mro__:
        if home.__module__.startswith("lancelet"):
            for name, member in vars(home).items():
                function = getattr(member, "fget", None) or getattr(member, "func", None)
                function = function or getattr(member, "__func__", member)
                if not name.startswith("_") and inspect.isfunction(function):
                    yield name, getattr(kind, name)


def _is_described(thing: Any) -> bool:
    text = inspect.getdoc(thing)
    # A dataclass without a docstring has its signature instead.
    return bool(text) and not text.startswith(f"{getattr(thing, '__name__', '')}(")


def test_what_users_call_is_described() -> None:
    things = _public_things()
    assert len(things) > 150
    bare = {name for name, thing in things.items() if not _is_described(thing)}
    for name, thing in things.items():
        if inspect.isclass(thing):
            bare |= {f"{name}.{method}" for method, member in _methods(thing) if not _is_described(member)}
    assert bare == set()


def test_main_classes_have_an_example() -> None:
    things = {thing.__name__: thing for thing in _public_things().values() if inspect.isclass(thing)}
    texts = {name: [things[name], *(member for _, member in _methods(things[name]))] for name in SHOWN}
    assert [name for name, some in texts.items() if not any(">>>" in (inspect.getdoc(one) or "") for one in some)] == []
