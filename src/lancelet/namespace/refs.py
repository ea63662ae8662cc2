"""Tags and branches of a namespace's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_namespace import (
    CreateTableBranchRequest,
    CreateTableTagRequest,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableTagAlreadyExistsError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    UpdateTableTagRequest,
)
from lance_namespace_urllib3_client.models.branch_contents import BranchContents
from lance_namespace_urllib3_client.models.tag_contents import TagContents

from lancelet.namespace.errors import translated
from lancelet.namespace.names import Names, identifier, shown
from lancelet.namespace.tables import open_table

if TYPE_CHECKING:
    from lancelet.namespace.root import Root


def list_tags(root: Root, names: Names) -> dict[str, TagContents]:
    return {
        name: TagContents(branch=tag["branch"], version=tag["version"], manifestSize=tag["manifest_size"])
        for name, tag in sorted(open_table(root, names).tags.list().items())
    }


def create_tag(root: Root, request: CreateTableTagRequest) -> None:
    table = open_table(root, request.id)
    with translated(
        f"table {shown(identifier(request.id))}", not_found=TableVersionNotFoundError, exists=TableTagAlreadyExistsError
    ):
        table.tags.create(request.tag, (request.branch, request.version))


def update_tag(root: Root, request: UpdateTableTagRequest) -> None:
    table = open_table(root, request.id)
    with translated(f"table {shown(identifier(request.id))}", not_found=TableTagNotFoundError):
        table.tags.update(request.tag, (request.branch, request.version))


def delete_tag(root: Root, names: Names, tag: str) -> None:
    table = open_table(root, names)
    with translated(f"table {shown(identifier(names))}", not_found=TableTagNotFoundError):
        table.tags.delete(tag)


def tag_version(root: Root, names: Names, tag: str) -> tuple[int, str | None]:
    """The version that a tag names, and its branch."""
    found = open_table(root, names).tags.list().get(tag)
    if found is None:
        raise TableTagNotFoundError(f"table {shown(identifier(names))} has no tag '{tag}'")
    return found["version"], found["branch"]


def list_branches(root: Root, names: Names) -> dict[str, BranchContents]:
    return {
        name: BranchContents(
            parentBranch=branch["parent_branch"],
            parentVersion=branch["parent_version"],
            createAt=branch["create_at"],
            manifestSize=branch["manifest_size"],
            metadata=branch.get("metadata") or None,
        )
        for name, branch in sorted(open_table(root, names).branches.list().items())
    }


def create_branch(root: Root, request: CreateTableBranchRequest) -> None:
    table = open_table(root, request.id)
    with translated(
        f"table {shown(identifier(request.id))}",
        not_found=TableBranchNotFoundError,
        exists=TableBranchAlreadyExistsError,
    ):
        table.create_branch(request.name, (request.from_branch, request.from_version))


def delete_branch(root: Root, names: Names, branch: str) -> None:
    table = open_table(root, names)
    with translated(f"table {shown(identifier(names))}", not_found=TableBranchNotFoundError):
        table.branches.delete(branch)
