"""Checks of what users ask for when they create an index."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidOption
from lancelet.format.logical_types import EXTENSION_NAME

DEFAULT_ROWS = 8192
"""Of a zone."""
ROWS_PER_ZONE, USE_SEEDS = "rows_per_zone", "use_seeds"
NUMBER_OF_ITEMS, PROBABILITY = "number_of_items", "probability"
DEFAULT_PROBABILITY = 0.00057
_JSON = (b"lance.json", b"arrow.json")


def positive(options: Mapping[str, object], name: str, default: int) -> int:
    """An option that counts rows."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"{name} is a number of rows, at least 1, not {value!r}")
    return value


def chosen_probability(options: Mapping[str, object], default: float) -> float:
    """How often a filter may be mistaken."""
    value = options.get(PROBABILITY, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InvalidInput(f"{PROBABILITY} is a number between 0 and 1, not {value!r}")
    return float(value)


def refuse_json(column: pa.Field, kind: str) -> None:
    """Raise for a column of JSON documents, whose bytes are in no useful order."""
    if (column.metadata or {}).get(EXTENSION_NAME.encode()) in _JSON:
        raise InvalidInput(f"column {column.name!r} holds JSON, of which there can be no {kind} index")


def refuse_unknown(options: Mapping[str, object], known: tuple[str, ...], kind: str) -> None:
    """Raise for an option that a kind does not have."""
    if unknown := sorted(set(options) - set(known)):
        has = f"has {', '.join(known)}" if known else "has none"
        raise InvalidInput(f"{', '.join(unknown)}: not an option of {kind} indices, which {has}")


def refuse_options(name: str, options: Mapping[str, object]) -> None:
    """There are none."""
    if options:
        raise InvalidOption(f"a {name} index has no options, not {', '.join(map(repr, options))}")
