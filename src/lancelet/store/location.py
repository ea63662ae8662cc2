"""What a path or URI names: the kind of store, the bucket, the path in it.

Opening a store and asking whether it may be opened read a text in the same way, by :func:`parse_location`, so that no
spelling (capitals, escapes, dots, control characters) means one thing to the one and another to the other.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote

from lancelet.errors import InvalidInput

SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?#]*)(.*)\Z", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DOTS = re.compile(r"(?:\.|%2e){1,2}\Z", re.IGNORECASE)
FILE = "file"
MEMORY = "memory"
KINDS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "adl": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "memory": MEMORY,
}
_WITH_TABLE = "s3+ddb"


@dataclass(frozen=True, slots=True)
class Location:
    """A folder or an object."""

    kind: str
    """``file``, ``memory``, ``s3``, ``gs`` or ``az``."""
    root: str
    """URI of the bucket or container, for example ``s3://bucket``; empty for files."""
    path: str
    """An absolute path of the file system without ``..``, or a key, without a slash at its ends."""
    dynamodb: str | None = None
    """The DynamoDB table of an ``s3+ddb://`` URI."""

    @property
    def authority(self) -> str:
        """The bucket; for Azure with the account, if the URI names it."""
        return self.root.partition("://")[2]

    @property
    def has_dots(self) -> bool:
        """Whether a part of a key is ``.`` or ``..``, which some would follow and others take for a name."""
        return self.kind != FILE and any(_DOTS.match(part) for part in self.path.split("/"))

    def same_store(self, other: Location) -> bool:
        """Whether both are in one bucket, or both in the file system."""
        return self.kind == other.kind and self.authority == other.authority

    def is_below(self, other: Location) -> bool:
        """Whether this is the other one or in it.

        Examples
        --------
        >>> inside = parse_location("s3://bucket/a/b")
        >>> [inside.is_below(parse_location(uri)) for uri in ("s3://bucket/a/", "S3a://bucket", "s3://bucket/a/bc")]
        [True, True, False]
        """
        if not self.same_store(other) or self.has_dots:
            return False
        above = other.path.rstrip("/")
        return not above or self.path == above or self.path.startswith(f"{above}/")

    def split(self) -> tuple[Location, str]:
        """The folder that it is in, and its name there."""
        folder, _, name = self.path.rpartition("/")
        if self.kind == FILE:
            folder = folder or "/"
        return Location(self.kind, self.root, folder), name

    def __str__(self) -> str:
        if self.kind == FILE:
            return self.path
        return f"{self.root}/{self.path}" if self.path else self.root


def parse_location(uri: str | os.PathLike[str]) -> Location:
    """Read a path or URI; see :func:`lancelet.store.open_store` for those that there are."""
    text = os.fspath(uri)
    if not text:
        raise InvalidInput("the URI of a table is empty")
    match = _PARTS.match(text)
    if match is None:
        return _local(text)
    scheme, authority, path = match[1].lower(), match[2], match[3]
    if scheme == FILE:
        if authority not in ("", "localhost"):
            raise InvalidInput(f"{text} names the host '{authority}'; local files are file:///path")
        return _local(unquote(re.split(r"[?#]", path, maxsplit=1)[0]) or "/")
    if _CONTROL.search(authority):
        raise InvalidInput(f"{text!r} has control characters in the name of its bucket")
    if scheme == _WITH_TABLE:
        place, _, query = path.partition("?")
        names = parse_qs(query).get("ddbTableName", [])
        if len(names) != 1 or not names[0]:
            raise InvalidInput(f"{text} does not name its DynamoDB table; write s3+ddb://bucket/path?ddbTableName=name")
        return Location("s3", f"s3://{authority}", place.strip("/"), names[0])
    if scheme not in KINDS:
        raise InvalidInput(f"{text} has the unknown scheme '{scheme}'; known are file, {', '.join(KINDS)}")
    if scheme != MEMORY and not authority:
        raise InvalidInput(f"{text} names no bucket")
    # Keys may hold '?' and '#', so the path is everything after the bucket.
    return Location(KINDS[scheme], f"{scheme}://{authority}", path.strip("/"))


def _local(path: str) -> Location:
    if "\0" in path:
        raise InvalidInput(f"the path {path!r} has a null character")
    # abspath, not resolve: a table that is reached through a symbolic link keeps the name the user gave.
    full = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
    # POSIX lets two slashes at the beginning mean something else; nothing does.
    return Location(FILE, "", f"/{full.lstrip('/')}")
