"""What a check of a table found: data, and a table one can read."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lancelet._naming.html import text_html
from lancelet.errors import CorruptFile, LanceletError, MissingFile, NotSupported, PathNotAllowed, StorageError

SHOWN = 50
"""Findings that the text of a report has at most."""
_WIDTHS = (7, 16, 40, 60, 44)
_HEADS = ("level", "kind", "place", "problem", "what to do")


class Level(str, enum.Enum):
    """How bad it is."""

    ERROR = "error"
    """Rows of some version cannot be read, or are not what they were."""
    WARNING = "warning"
    """Rows can be read, but something that others rely on is wrong."""
    NOTE = "note"
    """Nothing is wrong; something could be tidier."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found."""

    level: Level
    kind: str
    """In a word or two, for example ``missing file``."""
    place: str
    """File, fragment, version, tag or branch."""
    problem: str
    advice: str
    repairable: bool = False
    """Whether ``repair()`` takes care of it."""

    def error(self, uri: str) -> LanceletError:
        """As an exception."""
        if self.kind == MISSING:
            return MissingFile(self.place, self.problem)
        return CorruptFile(uri, self.problem, self.place)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Everything that a check of a table found. Its ``findings`` can be iterated over; it prints as a table."""

    uri: str
    version: int
    findings: tuple[Finding, ...]
    """The worst first."""
    versions_checked: int
    files_checked: int
    rows_checked: int
    """Rows that were decoded; 0 unless the check was deep."""

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong: notes do not count."""
        return all(finding.level is Level.NOTE for finding in self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level is Level.ERROR)

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        checked = f"{self.versions_checked} version(s), {self.files_checked} file(s)"
        if self.rows_checked:
            checked += f", {self.rows_checked} row(s) decoded"
        state = "ok" if self.ok else f"{sum(f.level is not Level.NOTE for f in self.findings)} problem(s)"
        title = f"{self.uri}, version {self.version}: {state} ({checked})"
        rows = [(f.level.value, f.kind, f.place, f.problem, f.advice) for f in self.findings[:SHOWN]]
        lines = [title, *show_table(_HEADS, rows, _WIDTHS)]
        if len(self.findings) > SHOWN:
            lines.append(f"... and {len(self.findings) - SHOWN} more in .findings")
        return "\n".join(lines)


MISSING = "missing file"
UNREADABLE = "unreadable file"
CHECKSUM = "wrong checksum"
_RESTORE_FILE = "restore the file from a backup, or go back to a version that does not need it"


def trouble(error: LanceletError, place: str, level: Level = Level.ERROR) -> Finding:
    """What went wrong while something was read."""
    if isinstance(error, MissingFile):
        return Finding(level, MISSING, error.path, error.reason or f"{place} needs it", _RESTORE_FILE)
    if isinstance(error, NotSupported):
        return Finding(level, "unknown feature", place, str(error), "use a newer release")
    if isinstance(error, PathNotAllowed):
        return Finding(level, "not allowed", place, str(error), "allow or name the place, or read without it")
    if isinstance(error, StorageError):
        return Finding(level, "no access", place, str(error), "check the store and the credentials, then try again")
    if isinstance(error, CorruptFile):
        return Finding(level, UNREADABLE, place, str(error), _RESTORE_FILE)
    return Finding(level, "invalid", place, str(error), "see the message")


def checksum_finding(error: LanceletError, place: str) -> Finding:
    """What went wrong while a file was compared with its checksum."""
    if isinstance(error, CorruptFile):
        return Finding(Level.ERROR, CHECKSUM, error.path, f"{place}: {error.reason}", _RESTORE_FILE)
    return trouble(error, place)


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, otherwise as they came."""
    ranks = list(Level)
    return tuple(sorted(findings, key=lambda finding: ranks.index(finding.level)))


def show_table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], limits: tuple[int, ...]) -> list[str]:
    """Lines of a table: columns as wide as they need to be, up to a limit, long cells on several lines."""
    if not rows:
        return []
    widths = [
        min(limit, max(len(head), *(len(row[at]) for row in rows)))
        for at, (head, limit) in enumerate(zip(heads, limits, strict=True))
    ]
    lines = []
    for row in [heads, tuple("-" * width for width in widths), *rows]:
        cells = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            parts = (cell[number] if number < len(cell) else "" for cell in cells)
            lines.append("  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip())
    return lines
