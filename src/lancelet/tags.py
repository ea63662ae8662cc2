"""Tags and branches as a dataset shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from lancelet.errors import InvalidInput, NotSupported
from lancelet.table.refs import Branch, Tag, list_branches, list_tags, read_tag

if TYPE_CHECKING:
    from lancelet.table.snapshot import Snapshot

Entry: TypeAlias = dict[str, Any]
Ordered: TypeAlias = list[tuple[str, Entry]]
T = TypeVar("T")


class Tags:
    """Names for versions of a table."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def list(self) -> dict[str, Entry]:
        """All tags by name: branch, version, times, size of the manifest and metadata of each."""
        return {tag.name: _tag(tag) for tag in list_tags(self._snapshot.root)}

    def list_ordered(self, order: str | None = None) -> Ordered:
        """Tags by version, the newest first unless ``order`` is ``"asc"``; equal versions by name."""
        return _ordered({tag.name: (tag.version, _tag(tag)) for tag in list_tags(self._snapshot.root)}, order)

    def get_version(self, tag: str) -> int:
        """The version that a tag names."""
        return read_tag(self._snapshot.root, tag).version

    def create(self, *_: Any, **__: Any) -> NoReturn:
        raise _not_written("tags")

    def update(self, *_: Any, **__: Any) -> NoReturn:
        raise _not_written("tags")

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        raise _not_written("tags")

    def replace_metadata(self, *_: Any, **__: Any) -> NoReturn:
        raise _not_written("tags")


class Branches:
    """Lines of versions next to the main one."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def list(self) -> dict[str, Entry]:
        """All branches by name."""
        return {branch.name: _branch(branch) for branch in list_branches(self._snapshot.root)}

    def list_ordered(self, order: str | None = None) -> Ordered:
        """Branches by the version they left their parent at, the newest first unless ``order`` is ``"asc"``."""
        found = {b.name: (b.parent_version, _branch(b)) for b in list_branches(self._snapshot.root)}
        return _ordered(found, order)

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        raise _not_written("branches")

    def replace_metadata(self, *_: Any, **__: Any) -> NoReturn:
        raise _not_written("branches")


def _tag(tag: Tag) -> Entry:
    return {
        "branch": tag.branch,
        "version": tag.version,
        "created_at": tag.created_at,
        "updated_at": tag.updated_at,
        "manifest_size": tag.manifest_size,
        "metadata": dict(tag.metadata),
    }


def _branch(branch: Branch) -> Entry:
    return {
        "parent_branch": branch.parent_branch,
        "branch_identifier": list(branch.identifier),
        "parent_version": branch.parent_version,
        "create_at": branch.created_at,
        "manifest_size": branch.manifest_size,
        "metadata": dict(branch.metadata),
    }


def _ordered(entries: Mapping[str, tuple[int, T]], order: str | None) -> list[tuple[str, T]]:
    if order not in (None, "asc", "desc"):
        raise InvalidInput(f"Invalid sort order {order!r}; it is 'asc' or 'desc'")
    sign = 1 if order == "asc" else -1
    names = sorted(entries, key=lambda name: (sign * entries[name][0], name))
    return [(name, entries[name][1]) for name in names]


def _not_written(what: str) -> NotSupported:
    return NotSupported(f"lancelet does not write {what} yet; use another writer of the format")
