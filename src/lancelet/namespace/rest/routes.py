"""The operations of the REST specification: where each is asked for, and in which parts its request and answer travel.

================  =================================================================
request           ``{id}`` and ``{index_name}`` in the path, ``query`` fields in the
                  query, the others in the body
``JSON``          the request as an object; what the path has may be in it as well
``ROWS``          an Arrow IPC stream
``MAP``           the request's ``metadata``, and nothing around it
``NOTHING``       no body
----------------  -----------------------------------------------------------------
answer
``JSON``          the response as an object
``ROWS``          an Arrow IPC file
``MAP``           the response's ``metadata``
``NUMBER``        the response's ``count``
``TEXT``          a text, as JSON
``NOTHING``       no body: it exists
================  =================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lance_namespace as ln

JSON, ROWS, MAP, NUMBER, TEXT, NOTHING = "json", "rows", "map", "number", "text", "nothing"
FLAG, WHOLE, OBJECT, LIST = "flag", "whole", "object", "list"

QUERY_KINDS = {
    **dict.fromkeys(
        (
            "check_declared",
            "descending",
            "include_declared",
            "load_detailed_metadata",
            "use_index",
            "when_matched_update_all",
            "when_not_matched_by_source_delete",
            "when_not_matched_insert_all",
            "with_table_uri",
        ),
        FLAG,
    ),
    "limit": WHOLE,
    "on": LIST,
    "properties": OBJECT,
    "storage_options": OBJECT,
}
"""Fields of queries that are no texts."""


@dataclass(frozen=True, slots=True)
class Route:
    """One operation."""

    operation: str
    """The method of a namespace."""
    path: str
    request: Any
    """The model of its request."""
    response: Any
    """The model of its response; a text where that is all."""
    query: tuple[str, ...] = ()
    body: str = JSON
    answer: str = JSON
    reads: bool = False
    """Whether it changes nothing, so that it can be asked for again."""
    method: str = "POST"
    status: int = 200

    @property
    def parts(self) -> tuple[str, ...]:
        """The path, taken apart."""
        return tuple(self.path.strip("/").split("/"))

    @property
    def has_id(self) -> bool:
        """Whether it is about one namespace or table."""
        return "{id}" in self.parts

    @property
    def what(self) -> str:
        """What the id in the path is of."""
        return "namespace" if self.path.startswith("/v1/namespace/") else self.path.split("/")[2].replace("_", " ")


def _route(operation: str, path: str, *, request: str = "", response: str = "", **more: Any) -> Route:
    """A route whose models are named after the operation."""
    name = operation.title().replace("_", "")
    answer = str if more.get("answer") == TEXT else getattr(ln, f"{response or name}Response")
    return Route(operation, f"/v1/{path}", getattr(ln, f"{request or name}Request"), answer, **more)


_PAGE = ("page_token", "limit")
_LISTED: dict[str, Any] = {"body": NOTHING, "reads": True}
_GET: dict[str, Any] = {"method": "GET", **_LISTED}

ROUTES = (
    _route("create_namespace", "namespace/{id}/create"),
    _route("list_namespaces", "namespace/{id}/list", query=_PAGE, **_GET),
    _route("describe_namespace", "namespace/{id}/describe", reads=True),
    _route("namespace_exists", "namespace/{id}/exists", answer=NOTHING, reads=True),
    _route("drop_namespace", "namespace/{id}/drop"),
    _route("list_tables", "namespace/{id}/table/list", query=(*_PAGE, "include_declared"), **_GET),
    _route(
        "list_all_tables",
        "table",
        request="ListTables",
        response="ListTables",
        query=(*_PAGE, "include_declared"),
        **_GET,
    ),
    _route("create_table", "table/{id}/create", query=("mode", "properties", "storage_options"), body=ROWS),
    _route("declare_table", "table/{id}/declare"),
    _route("register_table", "table/{id}/register"),
    _route("deregister_table", "table/{id}/deregister"),
    _route(
        "describe_table",
        "table/{id}/describe",
        query=("with_table_uri", "load_detailed_metadata", "check_declared"),
        reads=True,
    ),
    _route("table_exists", "table/{id}/exists", answer=NOTHING, reads=True),
    _route("drop_table", "table/{id}/drop", body=NOTHING),
    _route("rename_table", "table/{id}/rename"),
    _route("restore_table", "table/{id}/restore"),
    _route("get_table_stats", "table/{id}/stats", reads=True),
    _route("count_table_rows", "table/{id}/count_rows", answer=NUMBER, reads=True),
    _route("insert_into_table", "table/{id}/insert", query=("branch", "mode"), body=ROWS),
    _route(
        "merge_insert_into_table",
        "table/{id}/merge_insert",
        query=(
            "branch",
            "on",
            "when_matched_update_all",
            "when_matched_update_all_filt",
            "when_not_matched_insert_all",
            "when_not_matched_by_source_delete",
            "when_not_matched_by_source_delete_filt",
            "timeout",
            "use_index",
        ),
        body=ROWS,
    ),
    _route("update_table", "table/{id}/update"),
    _route("delete_from_table", "table/{id}/delete"),
    _route("query_table", "table/{id}/query", answer=ROWS, reads=True),
    _route("explain_table_query_plan", "table/{id}/explain_plan", answer=TEXT, reads=True),
    _route("analyze_table_query_plan", "table/{id}/analyze_plan", answer=TEXT, reads=True),
    _route("alter_table_add_columns", "table/{id}/add_columns"),
    _route("alter_table_alter_columns", "table/{id}/alter_columns"),
    _route("alter_table_drop_columns", "table/{id}/drop_columns"),
    _route("alter_table_backfill_columns", "table/{id}/backfill_column", status=202),
    _route(
        "update_table_schema_metadata", "table/{id}/schema_metadata/update", query=("branch",), body=MAP, answer=MAP
    ),
    _route("update_field_metadata", "table/{id}/update_field_metadata"),
    _route("list_table_versions", "table/{id}/version/list", query=("branch", *_PAGE, "descending"), **_LISTED),
    _route("describe_table_version", "table/{id}/version/describe", reads=True),
    _route("create_table_version", "table/{id}/version/create"),
    _route("batch_delete_table_versions", "table/{id}/version/delete"),
    _route("batch_create_table_versions", "table/version/batch-create"),
    _route("batch_commit_tables", "table/batch-commit"),
    _route("list_table_tags", "table/{id}/tags/list", query=_PAGE, **_LISTED),
    _route("get_table_tag_version", "table/{id}/tags/version", reads=True),
    _route("create_table_tag", "table/{id}/tags/create"),
    _route("update_table_tag", "table/{id}/tags/update"),
    _route("delete_table_tag", "table/{id}/tags/delete"),
    _route("list_table_branches", "table/{id}/branches/list", query=_PAGE, **_LISTED),
    _route("create_table_branch", "table/{id}/branches/create"),
    _route("delete_table_branch", "table/{id}/branches/delete"),
    _route("create_table_index", "table/{id}/create_index"),
    _route("create_table_scalar_index", "table/{id}/create_scalar_index", request="CreateTableIndex"),
    _route("list_table_indices", "table/{id}/index/list", reads=True),
    _route("describe_table_index_stats", "table/{id}/index/{index_name}/stats", reads=True),
    _route("drop_table_index", "table/{id}/index/{index_name}/drop", query=("branch",), body=NOTHING),
    _route("describe_transaction", "transaction/{id}/describe", reads=True),
    _route("alter_transaction", "transaction/{id}/alter"),
    _route("create_materialized_view", "materialized_view/{id}/create", status=201),
    _route("refresh_materialized_view", "materialized_view/{id}/refresh", status=202),
)


def matching(parts: tuple[str, ...]) -> list[Route]:
    """The routes that a path may be of, one for each method."""
    return [
        route
        for route in ROUTES
        if len(route.parts) == len(parts)
        and all(mine.startswith("{") or mine == theirs for mine, theirs in zip(route.parts, parts, strict=True))
    ]
