"""Tags and branches: small JSON files next to the root table.

Spec table-format.md 1.4 and 1.5. A tag names a version; a branch is a table of
its own under ``tree/``, whose first version is a shallow clone of its parent.
``write.py`` writes these files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, unquote

from lancelet.errors import CorruptFile, InvalidInput, MissingFile, RefNotFound, RowNotFound
from lancelet.store import Store
from lancelet.store.limit import Limit
from lancelet.store.location import parse_location
from lancelet.store.uri import open_like
from lancelet.table.manifest.names import (
    BRANCHES_DIR,
    MAIN_BRANCH,
    TAGS_DIR,
    branch_folder,
    check_branch_name,
    check_tag_name,
)
from lancelet.table.registers.registered import RegisteredStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

JSON = ".json"

Reference: TypeAlias = int | str | tuple[str | None, int | None]
"""A version: its number on the branch at hand, a tag, or a pair of branch and version, each of which may be None."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a version."""

    name: str
    version: int
    branch: str | None
    """None: the main branch."""
    manifest_size: int
    created_at: datetime | None
    updated_at: datetime | None
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of versions that left its parent at ``parent_version``."""

    name: str
    parent_branch: str | None
    """None: the main branch."""
    parent_version: int
    created_at: int
    """Seconds since the epoch."""
    manifest_size: int
    identifier: tuple[tuple[int, str], ...]
    """Lineage: (parent version, unique id) for each branch from the root down to this one."""
    metadata: Mapping[str, str]


def check_reference(reference: Any) -> Reference:
    """Refuse what names no version."""
    match reference:
        case bool():
            pass
        case int() | (str() | None, int()) if (reference if isinstance(reference, int) else reference[1]) < 0:
            raise RowNotFound(f"versions are not negative, got {reference!r}")
        case int() | str() | (str() | None, int() | None):
            return reference
    raise InvalidInput(f"a version is a number, a tag or a pair of branch and version, not {reference!r}")


def tag_path(name: str) -> str:
    """The file of a tag."""
    return f"{TAGS_DIR}/{quote(check_tag_name(name), safe='')}{JSON}"


def branch_path(name: str) -> str:
    """The file of a branch."""
    return f"{BRANCHES_DIR}/{quote(check_branch_name(name), safe='')}{JSON}"


def read_tag(root: Store, name: str) -> Tag:
    """One tag of the table at ``root``."""
    return _tag(name, tag_record(root, name))


def tag_record(root: Store, name: str) -> JsonRecord:
    """The content of a tag's file."""
    return _record(root, tag_path(name), f"tag {name}")


def branch_record(root: Store, name: str) -> JsonRecord:
    """The content of a branch's file."""
    return _record(root, branch_path(name), f"branch {name}")


def list_tags(root: Store) -> list[Tag]:
    """All tags, by name."""
    return [_tag(name, record) for name, record in _records(root, TAGS_DIR)]


def read_branch(root: Store, name: str) -> Branch:
    """One branch of the table at ``root``."""
    return _branch(name, branch_record(root, name))


def list_branches(root: Store) -> list[Branch]:
    """All branches, by name."""
    return [_branch(name, record) for name, record in _records(root, BRANCHES_DIR)]


def branch_store(root: Store, branch: str | None) -> Store:
    """The folder of a branch's table; ``None`` and ``main`` are the root table itself."""
    if branch is None or branch == MAIN_BRANCH:
        return root
    return root.child(branch_folder(check_branch_name(branch)))


def root_store(store: Store, branch: str | None) -> Store:
    """The root table's folder, for a table that says it is ``branch``.

    A copy of a branch's folder somewhere else is its own root, and so is a branch that was opened by its folder when
    the folder above is not among those that are allowed.
    """
    if branch is None:
        return store
    if isinstance(store, RegisteredStore):
        return store.root
    suffix = f"/{branch_folder(branch)}"
    uri = store.uri.rstrip("/")
    if not uri.endswith(suffix):
        return store
    above = uri[: -len(suffix)]
    limit = Limit.of(store.options)
    if limit is not None and not limit.allows(parse_location(above)):
        return store
    return open_like(store, store.options, above)


class JsonRecord:
    """A JSON object whose entries are checked as they are taken out."""

    def __init__(self, data: bytes, path: str) -> None:
        self.path = path
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CorruptFile(path, f"is not JSON: {error}") from None
        if not isinstance(content, dict):
            raise CorruptFile(path, "is not a JSON object")
        self.content: dict[str, Any] = content

    def number(self, key: str) -> int:
        value = self.content.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(key, "a number")
        return value

    def text(self, key: str) -> str | None:
        value = self.content.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def time(self, key: str) -> datetime | None:
        value = self.text(key)
        if value is None:
            return None
        # Nanoseconds and a final Z are more than fromisoformat takes before Python 3.11.
        head, dot, fraction = value.removesuffix("Z").partition(".")
        try:
            return datetime.fromisoformat(f"{head}{dot}{fraction[:6].ljust(6, '0') if dot else ''}+00:00")
        except ValueError:
            raise self.wrong(key, "a time in UTC") from None

    def texts(self, key: str) -> dict[str, str]:
        value = self.content.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(entry, str) for entry in value.values()):
            raise self.wrong(key, "an object of texts")
        return value

    def lineage(self, key: str) -> tuple[tuple[int, str], ...]:
        value = self.content.get(key)
        pairs = value.get("version_mapping", []) if isinstance(value, dict) else []
        try:
            return tuple((int(version), str(unique)) for version, unique in pairs)
        except (TypeError, ValueError):
            raise self.wrong(key, "a list of pairs") from None

    def wrong(self, key: str, kind: str) -> CorruptFile:
        return CorruptFile(self.path, f"'{key}' is {self.content.get(key)!r}, not {kind}")


def _record(root: Store, path: str, what: str) -> JsonRecord:
    try:
        data = root.read_all(path)
    except MissingFile:
        raise RefNotFound(f"Ref not found error: {what} does not exist in {root.uri}") from None
    return JsonRecord(data, root.join(path))


def _tag(name: str, record: JsonRecord) -> Tag:
    return Tag(
        name,
        record.number("version"),
        record.text("branch"),
        record.number("manifestSize"),
        record.time("createdAt"),
        record.time("updatedAt"),
        record.texts("metadata"),
    )


def _branch(name: str, record: JsonRecord) -> Branch:
    return Branch(
        name,
        record.text("parentBranch"),
        record.number("parentVersion"),
        record.number("createAt"),
        record.number("manifestSize"),
        record.lineage("identifier"),
        record.texts("metadata"),
    )


def _records(root: Store, folder: str) -> Iterator[tuple[str, JsonRecord]]:
    for file in sorted(root.list_names(folder)):
        if not file.endswith(JSON):
            continue
        path = f"{folder}/{file}"
        try:
            data = root.read_all(path)
        except MissingFile:
            # Deleted since it was listed.
            continue
        yield unquote(file.removesuffix(JSON)), JsonRecord(data, root.join(path))
