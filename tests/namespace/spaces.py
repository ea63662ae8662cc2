"""One root, two libraries: pylance's namespace and ours side by side."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance.namespace
import lance_namespace as ln
import pyarrow as pa

from lancelet.namespace import DirectoryNamespace

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "s": ["x", "y", "z"]})
MODES: dict[str, dict[str, str]] = {
    "compatible": {},
    "manifest": {"dir_listing_enabled": "false"},
    "listing": {"manifest_enabled": "false"},
    "migrating": {"dir_listing_to_manifest_migration_enabled": "true"},
}
WITH_CATALOG = ("compatible", "manifest", "migrating")


def stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


BODY = stream(ROWS)


@dataclass(frozen=True)
class Spaces:
    root: Path
    ours: DirectoryNamespace
    theirs: Any


def both(root: Path, mode: str = "compatible", **properties: str) -> Spaces:
    """The same root in both libraries."""
    given = {**MODES[mode], **properties}
    return Spaces(
        root, DirectoryNamespace(root=root, **given), lance.namespace.DirectoryNamespace(root=str(root), **given)
    )


def create(space: Any, *names: str, rows: pa.Table = ROWS, **request: Any) -> ln.CreateTableResponse:
    return space.create_table(ln.CreateTableRequest(id=list(names), **request), stream(rows))


def child(space: Any, *names: str, **request: Any) -> ln.CreateNamespaceResponse:
    return space.create_namespace(ln.CreateNamespaceRequest(id=list(names), **request))


def tables(space: Any, *names: str, **request: Any) -> list[str]:
    return space.list_tables(ln.ListTablesRequest(id=list(names), **request)).tables


def children(space: Any, *names: str) -> list[str]:
    return space.list_namespaces(ln.ListNamespacesRequest(id=list(names))).namespaces


def location(space: Any, *names: str) -> str:
    return space.describe_table(ln.DescribeTableRequest(id=list(names))).location


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())
