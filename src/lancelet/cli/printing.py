"""Answers of commands: tables for people, or JSON for programs.

JSON goes to the standard output as one value a command; words about what happens go to the standard error.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_WIDEST: Final = 60
_ITEMS: Final = 6


class Printer:
    """Prints what a command found, in the form that the user wants."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = Console(soft_wrap=as_json, highlight=False)
        self.err = Console(stderr=True, highlight=False)

    def facts(self, title: str, facts: Mapping[str, Any], raw: Any = None) -> None:
        """Names and values of one thing. ``raw`` is what JSON shows, where that is more."""
        if self.as_json:
            self.json(facts if raw is None else raw)
            return
        grid = Table.grid(padding=(0, 2))
        for name, value in facts.items():
            grid.add_row(f"[dim]{escape(name)}[/]", escape(shown(value)))
        if title:
            self.out.print(f"[bold]{escape(title)}[/]")
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
            self.out.print(f"[dim]{escape(empty)}[/]")
            return
        numbers = [all(isinstance(row[at], (int, float, Size)) for row in listed) for at in range(len(heads))]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for head, is_number in zip(heads, numbers, strict=True):
            table.add_column(head, justify="right" if is_number else "left", overflow="fold")
        for row in listed:
            table.add_row(*(escape(shown(value)) for value in row))
        self.out.print(table)

    def batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Rows of a table; as JSON one object a line. Returns how many there were."""
        count = 0
        if self.as_json:
            for batch in batches:
                count += batch.num_rows
                for row in batch.to_pylist():
                    typer.echo(json.dumps(plain(row), ensure_ascii=False))
            return count
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in schema:
            kind = f"[dim]{escape(str(column.type))}[/]"
            table.add_column(f"{escape(column.name)}\n{kind}", overflow="fold")
        for batch in batches:
            count += batch.num_rows
            for row in batch.to_pylist():
                table.add_row(*(escape(_cell(value)) for value in row.values()))
        self.out.print(table if count else "[dim]no rows[/]")
        return count

    def json(self, value: Any) -> None:
        """One value."""
        typer.echo(json.dumps(plain(value), ensure_ascii=False, indent=2))

    def say(self, text: str) -> None:
        """A word about what was done; not part of the answer."""
        self.err.print(escape(text))


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


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes in base64, times in ISO's form, numbers that are none as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return int(value) if isinstance(value, Size) else value
    if isinstance(value, (Decimal, UUID)):
        return str(value)
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
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
