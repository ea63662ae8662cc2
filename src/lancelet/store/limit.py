"""Which places a table may refer to: prefixes that the caller allows, and always the table's own root.

The limit travels with the storage options of a table, so that whatever opens the table again (a branch, a worker, a
pickle) has it too::

    allowed_prefixes   paths and URIs with commas between them, or a JSON list; empty: the table's root alone
    allowed_root       the root, noted when the table was opened

Without the option the environment variable ``LANCELET_ALLOWED_PREFIXES`` holds; without both there is no limit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput, InvalidType
from lancelet.store.location import FILE, parse_location

if TYPE_CHECKING:
    from lancelet.store.location import Location

OPTION = "allowed_prefixes"
ROOT = "allowed_root"
KEYS = frozenset([OPTION, ROOT])
VARIABLE = "LANCELET_ALLOWED_PREFIXES"


@dataclass(frozen=True, slots=True)
class Limit:
    """The places that are allowed."""

    prefixes: tuple[Location, ...]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Limit | None:
        """The limit that storage options, or else the environment, set."""
        text = options.get(OPTION, os.environ.get(VARIABLE))
        if text is None:
            return None
        root = options.get(ROOT)
        return cls(tuple(map(parse_location, [*([root] if root else []), *_prefixes(text)])))

    def allows(self, location: Location) -> bool:
        """Whether something may be opened, its symbolic links followed."""
        if not any(location.is_below(prefix) for prefix in self.prefixes):
            return False
        return location.kind != FILE or self.allows_real(location.path)

    def allows_real(self, path: str) -> bool:
        """Whether a local path leads into an allowed place, wherever links on its way go."""
        real = os.path.realpath(path)
        return any(is_in(real, folder) for folder in self.folders())

    def folders(self) -> list[str]:
        """The allowed folders of the file system, without symbolic links."""
        return [os.path.realpath(prefix.path) for prefix in self.prefixes if prefix.kind == FILE]

    def __str__(self) -> str:
        return ", ".join(map(str, self.prefixes)) or "nothing"


def with_limit(options: Mapping[str, str] | None, prefixes: Sequence[str] | None) -> dict[str, str]:
    """Storage options with the limit that a caller gives, for a table whose root is to be noted; None: as they are.

    Examples
    --------
    >>> with_limit({"region": "a"}, ["s3://bucket/shared"])
    {'region': 'a', 'allowed_prefixes': '["s3://bucket/shared"]'}
    """
    if prefixes is None:
        return dict(options or {})
    merged = elsewhere(options or {})
    texts = _prefixes(prefixes) if isinstance(prefixes, str) else list(prefixes)
    if not all(isinstance(prefix, (str, os.PathLike)) for prefix in texts):
        raise InvalidType(f"allowed_prefixes is a list of paths and URIs, not {prefixes!r}")
    return {**merged, OPTION: json.dumps([str(parse_location(prefix)) for prefix in texts])}


def noted(options: Mapping[str, str], root: Location) -> dict[str, str]:
    """Storage options of a place that is opened: with the limit of the environment, and the root that it is measured by."""
    found = with_environment(options)
    if OPTION in found and ROOT not in found:
        found[ROOT] = str(root)
    return found


def with_environment(options: Mapping[str, str]) -> dict[str, str]:
    """Storage options with the limit of the environment, if they have none of their own."""
    if OPTION in options or VARIABLE not in os.environ:
        return dict(options)
    return {**options, OPTION: os.environ[VARIABLE]}


def limit_options(options: Mapping[str, str]) -> dict[str, str]:
    """The part of storage options that limits what a table refers to."""
    return {key: value for key, value in options.items() if key in KEYS}


def elsewhere(options: Mapping[str, str]) -> dict[str, str]:
    """Storage options for a table at another place: the same limit, measured by another root."""
    return {key: value for key, value in options.items() if key != ROOT}


def _prefixes(text: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        entries = json.loads(text)
    except ValueError:
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
        raise InvalidInput(f"{OPTION} is {text!r}, which is no JSON list of paths and URIs")
    return entries


def is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
