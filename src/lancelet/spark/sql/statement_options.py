"""Options of statements: ``WITH (name = value, ...)``, whose names have no case and are known by both spellings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lancelet.errors import InvalidInput

_NUMBER = re.compile(r"[+-]?\d+")
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_options(pairs: Sequence[Sequence[str]] | None) -> dict[str, Any]:
    """Names in lower case with underscores, and values as what they look like.

    Examples
    --------
    >>> read_options([["numPartitions", "4"], ["STEM", "true"], ["probability", "0.5"], ["language", "English"]])
    {'num_partitions': 4, 'stem': True, 'probability': 0.5, 'language': 'English'}
    """
    found: dict[str, Any] = {}
    for name, text in pairs or ():
        key = _underscored(name)
        if key in found:
            raise InvalidInput(f"the option {key} is given twice")
        found[key] = value_of(text)
    return found


def _underscored(name: str) -> str:
    if name.isupper() or "_" in name:
        return name.lower()
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def value_of(text: str | None) -> Any:
    """A number, true or false, or the text itself."""
    if text is None:
        raise InvalidInput("an option has no value; leave it out")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text


def check_names(options: Mapping[str, Any], known: Sequence[str], statement: str) -> None:
    """Refuse options that the statement does not have."""
    for name in options:
        if name not in known:
            raise InvalidInput(f"{statement} has no option {name}; there are {', '.join(known)}")


def whole_number(options: Mapping[str, Any], name: str, least: int = 0) -> int | None:
    """A number that an option must be, if it is there."""
    value = options.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{name} is a number from {least}, not {value!r}")
    return value


def switch(options: Mapping[str, Any], name: str) -> bool:
    """Whether an option is true; without it, no."""
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is true or false, not {value!r}")
    return value
