"""File names inside a table, and the rules for names of tags and branches.

Spec table-format.md chapter 1::

    _versions/<20 digits of 2^64-1 - version>.manifest     naming scheme V2: the newest sorts first
    _versions/<version>.manifest                           naming scheme V1
    _versions/d<version>.manifest                          detached: bit 63 of the version is set
    _transactions/<read_version>-<uuid>.txn
    _deletions/<fragment>-<read_version>-<id>.{arrow|bin}
    _indices/<uuid>/...
    _refs/tags/<tag>.json, _refs/branches/<branch with / as %2F>.json
    tree/<branch>/...
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from lancelet.errors import InvalidRef, InvalidType

VERSIONS_DIR = "_versions"
TRANSACTIONS_DIR = "_transactions"
DELETIONS_DIR = "_deletions"
INDICES_DIR = "_indices"
DATA_DIR = "data"
BLOBS_DIR = "_blobs"
TAGS_DIR = "_refs/tags"
BRANCHES_DIR = "_refs/branches"
TREE_DIR = "tree"
FOLDERS = (VERSIONS_DIR, TRANSACTIONS_DIR, DELETIONS_DIR, INDICES_DIR, DATA_DIR, BLOBS_DIR, "_refs", TREE_DIR)
"""All that a table has in its folder, but for the hint among its manifests."""
MAIN_BRANCH = "main"

MAX_VERSION = 2**64 - 1
DETACHED_BIT = 1 << 63
SUFFIX = ".manifest"

_SEGMENT = re.compile(r"[\w.-]+\Z")


class NamingScheme(enum.Enum):
    """How manifest files are named; a table uses one of the two."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True, slots=True)
class ManifestName:
    """What the name of a manifest file says."""

    version: int
    scheme: NamingScheme

    @property
    def is_detached(self) -> bool:
        return is_detached(self.version)

    @property
    def path(self) -> str:
        """Path of the manifest, relative to the table."""
        return manifest_path(self.version, self.scheme)


def is_detached(version: int) -> bool:
    """Whether a version stands outside the table's history."""
    return bool(version & DETACHED_BIT)


def manifest_path(version: int, scheme: NamingScheme) -> str:
    """Path of a version's manifest, relative to the table."""
    if is_detached(version):
        return f"{VERSIONS_DIR}/d{version}{SUFFIX}"
    if scheme is NamingScheme.V1:
        return f"{VERSIONS_DIR}/{version}{SUFFIX}"
    return f"{VERSIONS_DIR}/{MAX_VERSION - version:020}{SUFFIX}"


def parse_manifest_name(name: str) -> ManifestName | None:
    """Read a file name in ``_versions/``; None for files that are no manifests."""
    if not name.endswith(SUFFIX):
        return None
    stem = name[: -len(SUFFIX)]
    detached = stem.startswith("d")
    digits = stem[1:] if detached else stem
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 20:
        return None
    number = int(digits)
    if number > MAX_VERSION:
        return None
    if detached:
        return ManifestName(number, NamingScheme.V2) if is_detached(number) else None
    if len(digits) == 20:
        return ManifestName(MAX_VERSION - number, NamingScheme.V2)
    return ManifestName(number, NamingScheme.V1)


def branch_folder(branch: str) -> str:
    """Where the table of a branch is, relative to the root table."""
    return f"{TREE_DIR}/{branch}"


def check_tag_name(name: str) -> str:
    """Refuse a name that no tag can have."""
    _check_text(name, "tag")
    reason = _flaw(name)
    if reason:
        raise InvalidRef(f"Ref is invalid: '{name}' cannot be the name of a tag: {reason}")
    return name


def check_branch_name(name: str) -> str:
    """Refuse a name that no branch can have."""
    _check_text(name, "branch")
    reason = None
    if name == MAIN_BRANCH:
        reason = "it is taken by the main line"
    elif name.startswith("/") or name.endswith("/"):
        reason = "it starts or ends with a slash"
    elif name.endswith(".lock"):
        reason = "it ends with '.lock'"
    elif ".." in name or "." in name.split("/"):
        reason = "dots may not be next to each other, nor a part of their own"
    else:
        reason = next((flaw for flaw in map(_characters, name.split("/")) if flaw), None)
    if reason:
        raise InvalidRef(f"Ref is invalid: '{name}' cannot be the name of a branch: {reason}")
    return name


def _check_text(name: object, what: str) -> None:
    if not isinstance(name, str):
        raise InvalidType(f"the name of a {what} is a text, not {name!r}")


def _characters(name: str) -> str | None:
    if not name:
        return "it is empty, or has an empty part"
    if not _SEGMENT.match(name):
        return "only letters, digits, '.', '-' and '_' are allowed"
    return None


def _flaw(name: str) -> str | None:
    wrong = _characters(name)
    if wrong:
        return wrong
    if name.startswith(".") or name.endswith(".") or ".." in name:
        return "dots may not be at its start or end, or next to each other"
    if name.endswith(".lock"):
        return "it ends with '.lock'"
    return None
