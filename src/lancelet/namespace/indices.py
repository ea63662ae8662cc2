"""Indices of a namespace's tables: made, listed, described and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_namespace import (
    CreateTableIndexRequest,
    DescribeTableIndexStatsRequest,
    DescribeTableIndexStatsResponse,
    InvalidInputError,
    ListTableIndicesRequest,
    TableIndexAlreadyExistsError,
)
from lance_namespace_urllib3_client.models.index_content import IndexContent

from lancelet.format.schema import join_path
from lancelet.index.registry import known_named, known_names
from lancelet.namespace.errors import translated
from lancelet.namespace.names import Names, shown_table
from lancelet.namespace.tables import open_table, transaction_id

if TYPE_CHECKING:
    from lancelet.indices import IndexDescription
    from lancelet.namespace.root import Root


def create_index(root: Root, request: CreateTableIndexRequest) -> str | None:
    """Returns the transaction."""
    table = open_table(root, request.id, branch=request.branch)
    kind = known_named(request.index_type)
    if kind is None:
        known = ", ".join(known_names())
        raise InvalidInputError(f"there is no index of type {request.index_type!r}; known are {known}")
    with translated(shown_table(request.id)):
        fields = table._snapshot.manifest.schema.resolve(request.column, any_case=True)
    name = request.name or f"{join_path([field.name for field in fields])}_idx"
    if any(index.name == name for index in table.describe_indices()):
        raise TableIndexAlreadyExistsError(f"{shown_table(request.id)} has an index '{name}' already")
    with translated(shown_table(request.id)):
        if kind.has_metric:
            table.create_index(request.column, request.index_type, name, metric=request.distance_type or "l2")
        else:
            table.create_scalar_index(request.column, request.index_type, name, replace=False)
        return transaction_id(table)


def list_indices(root: Root, request: ListTableIndicesRequest) -> list[IndexContent]:
    table = open_table(root, request.id, version=request.version, branch=request.branch)
    with translated(shown_table(request.id)):
        total = table.count_rows()
        return [_index(index, total) for index in table.describe_indices()]


def _index(index: IndexDescription, total: int) -> IndexContent:
    newest = index.segments[-1]
    return IndexContent(
        index_name=index.name,
        index_uuid=str(newest.uuid),
        columns=index.field_names,
        status="SUCCEEDED",
        index_type=index.index_type,
        type_url=index.type_url,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=max(0, total - index.num_rows_indexed),
        size_bytes=index.total_size_bytes,
        num_segments=len(index.segments),
        created_at=newest.created_at,
        index_version=newest.index_version,
    )


def index_stats(root: Root, request: DescribeTableIndexStatsRequest) -> DescribeTableIndexStatsResponse:
    table = open_table(root, request.id, version=request.version, branch=request.branch)
    with translated(shown_table(request.id)):
        told = table.stats.index_stats(request.index_name or "")
    return DescribeTableIndexStatsResponse(
        index_type=told["index_type"],
        num_indexed_rows=told["num_indexed_rows"],
        num_unindexed_rows=told["num_unindexed_rows"],
        num_indices=told["num_indices"],
    )


def drop_index(root: Root, names: Names, branch: str | None, name: str | None) -> str | None:
    """Returns the transaction."""
    table = open_table(root, names, branch=branch)
    with translated(shown_table(names)):
        table.drop_index(name or "")
        return transaction_id(table)
