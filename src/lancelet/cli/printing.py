"""Answers of commands: tables for people, or JSON for programs.

JSON goes to the standard output as one value a command; words about what happens go to the standard error. Names and
values of a table are shown, never obeyed: neither rich's markup in them nor what steers a terminal. Tables that are too
wide for the terminal become a list, one row below the other; what is no terminal has room for everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lancelet._naming.plain_values import json_rows, json_text, rows_of
from lancelet.errors import printable

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_WIDEST: Final = 60
_WIDEST_TYPE: Final = 24
_ITEMS: Final = 6
_NARROWEST: Final = 12
"""What a column of texts may be folded to."""
_GAP: Final = 2
_UNBOUNDED: Final = 1_000_000


class Printer:
    """Prints what a command found, in the form that the user wants."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = Console(soft_wrap=as_json, highlight=False)
        if not self.out.is_terminal and "COLUMNS" not in os.environ:
            self.out.width = _UNBOUNDED
        # A path that is broken into lines cannot be copied.
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)

    def facts(self, title: str, facts: Mapping[str, Any], raw: Any = None) -> None:
        """Names and values of one thing. ``raw`` is what JSON shows, where that is more."""
        if self.as_json:
            self.json(facts if raw is None else raw)
            return
        grid = Table.grid(padding=(0, 2))
        for name, value in facts.items():
            grid.add_row(safe(name, "dim"), safe(shown(value)))
        if title:
            self.out.print(safe(title, "bold"))
        self.out.print(grid)

    def rows(
        self, heads: Sequence[str], rows: Iterable[Sequence[Any]], raw: Any = None, empty: str = "nothing"
    ) -> None:
        """A list of like things."""
        listed = [list(row) for row in rows]
        if self.as_json:
            names = [head.replace(" ", "_") for head in heads]
            self.json([dict(zip(names, row, strict=True)) for row in listed] if raw is None else raw)
            return
        if not listed:
            self.out.print(safe(empty, "dim"))
            return
        # A column in which nothing is says nothing, and takes the room of the others.
        columns = [at for at in range(len(heads)) if any(shown(row[at]) not in ("-", "") for row in listed)]
        kinds = [{type(row[at]) for row in listed if row[at] is not None} for at in columns]
        are_numbers = [all(issubclass(kind, (int, float)) for kind in found) for found in kinds]
        # Half a number or half a time is none.
        whole = [number or found == {datetime} for number, found in zip(are_numbers, kinds, strict=True)]
        cells = [[printable(shown(row[at])) for at in columns] for row in listed]
        self._table([Text(heads[at]) for at in columns], cells, are_numbers, whole)

    def batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Rows of a table; as JSON one object a line. Returns how many there were."""
        count = 0
        if self.as_json:
            for batch in batches:
                count += batch.num_rows
                for row in json_rows(batch):
                    typer.echo(self._json_text(row))
            return count
        cells = []
        for batch in batches:
            count += batch.num_rows
            cells += [[printable(_cell(value)) for value in row.values()] for row in rows_of(batch)]
        heads = [
            Text("\n").join([safe(column.name), safe(_cut(str(column.type), _WIDEST_TYPE), "dim")]) for column in schema
        ]
        if not count:
            self.out.print(safe("no rows", "dim"))
            return count
        whole = [pa.types.is_integer(kind) or pa.types.is_temporal(kind) for kind in schema.types]
        self._table(heads, cells, [False] * len(heads), whole)
        return count

    def _table(
        self, heads: Sequence[Text], cells: Sequence[Sequence[str]], are_numbers: Sequence[bool], whole: Sequence[bool]
    ) -> None:
        """Cells below their heads, or beside them if that is too wide: one row below the other."""
        least = []
        for at, head in enumerate(heads):
            longest = max(*(cell_len(line) for line in head.plain.split("\n")), *(cell_len(row[at]) for row in cells))
            least.append(longest if whole[at] else min(longest, _NARROWEST))
        if sum(least) + _GAP * (len(least) - 1) > self.out.width:
            self._records(heads, cells)
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for head, is_number, is_whole in zip(heads, are_numbers, whole, strict=True):
            table.add_column(head, justify="right" if is_number else "left", overflow="fold", no_wrap=is_whole)
        for row in cells:
            table.add_row(*map(Text, row))
        self.out.print(table)

    def _records(self, heads: Sequence[Text], cells: Sequence[Sequence[str]]) -> None:
        names = [Text(head.plain.partition("\n")[0], "dim", overflow="fold") for head in heads]
        for number, row in enumerate(cells):
            grid = Table.grid(padding=(0, _GAP))
            for name, cell in zip(names, row, strict=True):
                grid.add_row(name, Text(cell, overflow="fold"))
            if number:
                self.out.print()
            self.out.print(grid)

    def json(self, value: Any) -> None:
        """One value."""
        typer.echo(self._json_text(value, indent=2))

    def _json_text(self, value: Any, indent: int | None = None) -> str:
        """JSON in letters that the standard output has: those that it has not are written out as JSON does."""
        return json_text(value, indent, only_ascii=not self.out.encoding.startswith("utf"))

    def address(self, address: str) -> None:
        """Where something can be reached, on one line."""
        typer.echo(self._json_text({"address": address}) if self.as_json else address)

    def text(self, value: object) -> None:
        """Lines that are laid out already."""
        typer.echo(safe_lines(value))

    def say(self, text: str) -> None:
        """A word about what was done; not part of the answer."""
        self.err.print(safe(text))


def safe(text: str, style: str = "") -> Text:
    """A text for rich as it is, with what a terminal would obey written out."""
    return Text(printable(text), style)


def safe_lines(value: object) -> str:
    """The same for several lines.

    Examples
    --------
    >>> safe_lines("kelp\\x1b[2J\\nforest")
    'kelp\\\\x1b[2J\\nforest'
    """
    return "\n".join(map(printable, str(value).split("\n")))


class Size(int):
    """A number of bytes."""

    def __str__(self) -> str:
        """In the unit that suits.

        Examples
        --------
        >>> print(Size(1536))
        1.5 KiB
        """
        amount, unit = float(self), 0
        while amount >= 1024 and unit < len(_UNITS) - 1:
            amount, unit = amount / 1024, unit + 1
        return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{int(self)} B"


def shown(value: Any) -> str:
    """A value for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Size):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(shown, value)) or "-"
    return str(value)


def _cell(value: Any) -> str:
    """A value in a table of rows: long ones cut, vectors by their first numbers."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list) and len(value) > _ITEMS and all(isinstance(item, (int, float)) for item in value):
        first = ", ".join(_cell(item) for item in value[:_ITEMS])
        return f"[{first}, … {len(value)}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "null" if value is None else str(value).replace("\n", "⏎")
    return _cut(text, _WIDEST)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
