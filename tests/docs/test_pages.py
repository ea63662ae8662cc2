"""Every block of Python in README.md, CONTRIBUTING.md and docs/ runs: a page from its first block to its last, in an empty folder.

``python`` blocks are programs, ``pycon`` blocks also give what they say; all blocks of a page share their names. The ``sql`` of
the page on SQL is run too, by its session.
"""

from __future__ import annotations

import doctest
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_SPARK = {"spark.md", "sql.md"}
RUN = ("python", "pycon")
NOT_PYTHON = ("", "sql", "text")


def _fences(page: Path) -> list[tuple[int, str, str]]:
    """Line, language and text of each block between fences."""
    text = page.read_text()
    return [
        (text.count("\n", 0, block.start()) + 1, block[1].strip(), block[2])
        for block in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)
    ]


def _run(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for line, language, block in _fences(page):
        if language == "python":
            exec(compile("\n" * line + block, page.name, "exec"), names)
        elif language == "pycon":
            told: list[str] = []
            test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), line)
            # The parser copies the names.
            test.globs = names
            result = doctest.DocTestRunner(verbose=False).run(test, out=told.append, clear_globs=False)
            assert result.failed == 0, "".join(told)
            assert result.attempted, f"{page.name}:{line} has no example"
        elif language == "sql" and page.name == "sql.md":
            for statement in filter(str.strip, re.split(r";\s*(?:--.*)?$", block, flags=re.MULTILINE)):
                names["spark"].sql(statement).collect()


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def _named(pages: list[Path]) -> list[Any]:
    return [pytest.param(page, id=page.name) for page in pages]


@pytest.mark.parametrize("page", _named(PAGES))
def test_languages(page: Path) -> None:
    """No block escapes by another name of Python, or by a fence that does not end."""
    assert page.read_text().count("```") % 2 == 0
    for line, language, block in _fences(page):
        assert language in RUN + NOT_PYTHON, f"{page.name}:{line} is {language!r}: Python is one of {RUN}"
        if language not in RUN:
            assert not re.search(r"^(>>> |import |from \w+ import )", block, re.MULTILINE), f"{page.name}:{line}"


@pytest.mark.parametrize("page", _named([page for page in PAGES if page.name not in WITH_SPARK]))
def test_blocks(page: Path) -> None:
    _run(page)


@pytest.mark.parametrize("page", _named([page for page in PAGES if page.name in WITH_SPARK]))
@pytest.mark.usefixtures("spark")
def test_blocks_with_spark(page: Path) -> None:
    _run(page)


@pytest.mark.parametrize("page", _named(PAGES))
def test_links(page: Path) -> None:
    """What a page links to is there, with the heading that it names."""
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), f"{page.name} links to {target}"
        if heading:
            titles = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, target


def test_every_page_is_found_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES[1:] if f"{page.relative_to(ROOT)})" not in readme] == []


def test_modules_that_are_named_are_there() -> None:
    """A page or a docstring that says ``room/module.py`` names a file of today."""
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    ends = {"/".join(parts[start:]) for parts in (file.split("/") for file in files) for start in range(len(parts))}
    texts = [*PAGES, *(ROOT / "src").rglob("*.py")]
    lost = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in texts
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text())
        if name not in ends
    }
    assert lost == set()
