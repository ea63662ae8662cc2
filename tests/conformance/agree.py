"""Ask lancelet and pylance the same thing and compare the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lancelet.testing import assert_identical

Ask = Callable[[Any, list[str]], pa.Table]


def answers(dataset: Any, ask: Ask, expected: pa.Table, columns: Sequence[str] | None = None) -> None:
    """``ask(dataset, columns)`` gives exactly ``expected``.

    When lancelet fails outright, every column is asked for alone, so that the
    failure names the columns at fault.
    """
    names = expected.column_names if columns is None else list(columns)
    try:
        actual = ask(dataset, names)
    except Exception as error:
        at_fault = []
        for name in names:
            try:
                ask(dataset, [name])
            except Exception as alone:
                at_fault.append(f"{name}: {type(alone).__name__}: {alone}")
        if not at_fault or len(names) == 1:
            raise
        raise AssertionError(f"{len(at_fault)} of {len(names)} columns fail:\n" + "\n".join(at_fault)) from error
    assert_identical(actual, expected)


def agree(ours: Any, theirs: Any, ask: Callable[[Any], pa.Table]) -> None:
    """Both datasets give identical answers to ``ask(dataset)``."""
    assert_identical(ask(ours), ask(theirs))


def same_schema(actual: pa.Schema, expected: pa.Schema) -> None:
    """Fields, nullability and metadata are equal; otherwise the fields that differ are named."""
    assert actual.names == expected.names
    pairs = zip(actual, expected, strict=True)
    differing = [
        f"{mine} {mine.metadata} instead of {other} {other.metadata}"
        for mine, other in pairs
        if not mine.equals(other, check_metadata=True)
    ]
    assert differing == []
    assert actual.metadata == expected.metadata


def rows_of(table: pa.Table, rows: list[int]) -> pa.Table:
    """``table.take(rows)``, also where the chunks of a dictionary column hold null values, which Arrow cannot unify."""
    columns = [
        column.cast(column.type.value_type).take(rows).dictionary_encode().cast(column.type)
        if pa.types.is_dictionary(column.type)
        else column.take(rows)
        for column in table.columns
    ]
    return pa.table(columns, schema=table.schema)
