"""A fact of the format stands in one module, and everybody else asks for it there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lancelet
from lancelet.format.system_columns import SYSTEM_FIELDS

ROOT = Path(lancelet.__file__).parent


def spelled(value: str) -> Iterator[str]:
    """Modules in which a text stands as a value of its own."""
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        if value in text and any(
            isinstance(node, ast.Constant) and node.value == value for node in ast.walk(ast.parse(text))
        ):
            yield path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("name", ["0.1", "2.0", "2.1", "2.2", "2.3", "legacy", "next"])
def test_names_of_file_versions_have_one_owner(name: str) -> None:
    assert list(spelled(name)) == ["format/file_versions.py"]


@pytest.mark.parametrize("name", sorted(SYSTEM_FIELDS))
def test_names_of_system_columns_have_one_owner(name: str) -> None:
    assert list(spelled(name)) == ["format/system_columns.py"]


def test_row_addresses_are_taken_apart_by_their_owner() -> None:
    """Nobody shifts anything but 1, a limit, by 32 bits."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.LShift | ast.RShift)
        and isinstance(node.right, ast.Constant)
        and node.right.value == 32
        and not isinstance(node.left, ast.Constant)
    ]
    assert not found


def test_every_room_has_its_layer() -> None:
    """What no layer names is held by nobody. (Inside of rooms, contracts that are exhaustive ask for it.)"""
    law = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    modules = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    rooms = {f"lancelet.{name}" for name in modules - {"__init__", "_api"}}
    rooms |= {f"lancelet._api.{path.stem}" for path in ROOT.glob("_api/*.py") if path.stem != "__init__"}
    assert not {name for name in rooms if not re.search(rf"\b{re.escape(name)}\b", law)}
