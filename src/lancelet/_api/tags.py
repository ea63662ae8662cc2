"""Tags and branches as a dataset shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from lancelet.errors import InvalidInput
from lancelet.table.refs.read import Branch, Reference, Tag, check_reference, list_branches, list_tags, read_tag

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot

Entry: TypeAlias = dict[str, Any]
Ordered: TypeAlias = list[tuple[str, Entry]]
T = TypeVar("T")


class Tags:
    """Names for versions of a table."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __repr__(self) -> str:
        names = ", ".join(f"{tag.name} at {_at(tag.branch, tag.version)}" for tag in list_tags(self._snapshot.root))
        return f"<Tags of {self._snapshot.root.uri!r}: {names or 'none'}>"

    def list(self) -> dict[str, Entry]:
        """All tags by name: branch, version, times, size of the manifest and metadata of each."""
        return {tag.name: _tag(tag) for tag in list_tags(self._snapshot.root)}

    def list_ordered(self, order: str | None = None) -> Ordered:
        """Tags by version, the newest first unless ``order`` is ``"asc"``; equal versions by name."""
        return _ordered({tag.name: (tag.version, _tag(tag)) for tag in list_tags(self._snapshot.root)}, order)

    def get_version(self, tag: str) -> int:
        """The version that a tag names."""
        return read_tag(self._snapshot.root, tag).version

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Give a version a name that no other tag has.

        Parameters
        ----------
        tag
            Letters, digits, ``.``, ``-`` and ``_``.
        reference
            A version number on the dataset's branch, another tag, or a pair of branch and version; the dataset's own
            version by default.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"x": [1]}, "memory://docs/tagged")
        >>> dataset.tags.create("first")
        >>> dataset.tags.get_version("first")
        1
        """
        from lancelet.table.refs.write import create_tag

        create_tag(self._snapshot, tag, _checked(reference))

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Let a tag name another version; see :meth:`create` for ``reference``."""
        from lancelet.table.refs.write import update_tag

        update_tag(self._snapshot, tag, _checked(reference))

    def delete(self, tag: str) -> None:
        """Remove a tag; its version stays."""
        from lancelet.table.refs.write import delete_tag

        delete_tag(self._snapshot.root, tag)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Exchange all metadata of a tag; the time of its update stays as it is."""
        from lancelet.table.refs.write import replace_tag_metadata

        replace_tag_metadata(self._snapshot.root, tag, metadata)


class Branches:
    """Lines of versions next to the main one.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": [1, 2]}, "memory://docs/branches")
    >>> branch = dataset.create_branch("try")
    >>> branch.insert({"id": [3]})
    >>> list(dataset.branches.list()), branch.count_rows(), dataset.count_rows()
    (['try'], 3, 2)
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __repr__(self) -> str:
        branches = list_branches(self._snapshot.root)
        names = ", ".join(f"{one.name} from {_at(one.parent_branch, one.parent_version)}" for one in branches)
        return f"<Branches of {self._snapshot.root.uri!r}: {names or 'none'}>"

    def list(self) -> dict[str, Entry]:
        """All branches by name."""
        return {branch.name: _branch(branch) for branch in list_branches(self._snapshot.root)}

    def list_ordered(self, order: str | None = None) -> Ordered:
        """Branches by the version they left their parent at, the newest first unless ``order`` is ``"asc"``."""
        found = {b.name: (b.parent_version, _branch(b)) for b in list_branches(self._snapshot.root)}
        return _ordered(found, order)

    def delete(self, branch: str) -> None:
        """Remove a branch with all versions of its own; refused while other branches or tags depend on it."""
        from lancelet.table.refs.write import delete_branch

        delete_branch(self._snapshot.root, branch)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Exchange all metadata of a branch."""
        from lancelet.table.refs.write import replace_branch_metadata

        replace_branch_metadata(self._snapshot.root, branch, metadata)


def _checked(reference: object) -> Reference | None:
    return None if reference is None else check_reference(reference)


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


def _at(branch: str | None, version: int) -> str:
    return str(version) if branch is None else f"{branch}:{version}"
