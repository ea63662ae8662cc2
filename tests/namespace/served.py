"""One history for any namespace: every operation of the REST specification, and what came of it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import lance_namespace as ln
import pyarrow as pa

from lancelet.namespace import DirectoryNamespace, RestAdapter
from namespace.spaces import stream

ROWS = pa.table(
    {
        "a": pa.array([1, 2, 3], pa.int64()),
        "s": ["x", "y", "z"],
        "v": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
    }
)
BODY = stream(ROWS)
T = ["t"]
QUERY: dict[str, Any] = {"id": T, "k": 2, "vector": {"single_vector": [1.0, 2.0]}, "vector_column": "v"}

Step = tuple[Any, ...]
"""An operation, its request, and rows for it."""

STEPS: list[Step] = [
    ("create_namespace", ln.CreateNamespaceRequest(id=["n"], properties={"o": "x"}, mode="Create")),
    ("create_namespace", ln.CreateNamespaceRequest(id=["n"])),
    ("create_namespace", ln.CreateNamespaceRequest(id=["n", "m"])),
    ("create_namespace", ln.CreateNamespaceRequest(id=["no", "m"])),
    ("list_namespaces", ln.ListNamespacesRequest(id=[])),
    ("list_namespaces", ln.ListNamespacesRequest(id=["n"], limit=1, page_token="a")),
    ("describe_namespace", ln.DescribeNamespaceRequest(id=["n"])),
    ("describe_namespace", ln.DescribeNamespaceRequest(id=[])),
    ("describe_namespace", ln.DescribeNamespaceRequest(id=["no"])),
    ("namespace_exists", ln.NamespaceExistsRequest(id=["n", "m"])),
    ("namespace_exists", ln.NamespaceExistsRequest(id=["no"])),
    ("drop_namespace", ln.DropNamespaceRequest(id=["n"])),
    ("drop_namespace", ln.DropNamespaceRequest(id=["n", "m"], mode="Fail", behavior="Restrict")),
    ("create_table", ln.CreateTableRequest(id=T, properties={"p": 'q"&ü'}, mode="create"), BODY),
    ("create_table", ln.CreateTableRequest(id=T), BODY),
    ("create_table", ln.CreateTableRequest(id=T, mode="exist_ok"), BODY),
    ("create_table", ln.CreateTableRequest(id=["n", "a b+c%25ü"]), BODY),
    ("list_tables", ln.ListTablesRequest(id=["n"])),
    ("describe_table", ln.DescribeTableRequest(id=["n", "a b+c%25ü"])),
    ("drop_table", ln.DropTableRequest(id=["n", "a b+c%25ü"])),
    ("list_tables", ln.ListTablesRequest(id=[], include_declared=False)),
    ("list_all_tables", ln.ListTablesRequest(id=[], limit=10)),
    ("describe_table", ln.DescribeTableRequest(id=T)),
    ("describe_table", ln.DescribeTableRequest(id=T, load_detailed_metadata=True, check_declared=True)),
    ("describe_table", ln.DescribeTableRequest(id=["no"])),
    ("table_exists", ln.TableExistsRequest(id=T)),
    ("table_exists", ln.TableExistsRequest(id=["no"])),
    ("declare_table", ln.DeclareTableRequest(id=["d"], properties={"k": "v"})),
    ("describe_table", ln.DescribeTableRequest(id=["d"], check_declared=True)),
    ("register_table", ln.RegisterTableRequest(id=["r"], location="t.lance")),
    ("register_table", ln.RegisterTableRequest(id=["q"], location="../t.lance")),
    ("deregister_table", ln.DeregisterTableRequest(id=["r"])),
    ("count_table_rows", ln.CountTableRowsRequest(id=T, predicate="a > 1", version=1)),
    ("count_table_rows", ln.CountTableRowsRequest(id=T, version=7)),
    ("insert_into_table", ln.InsertIntoTableRequest(id=T, mode="append"), BODY),
    (
        "merge_insert_into_table",
        ln.MergeInsertIntoTableRequest(
            id=T,
            on=["a", "s"],
            when_matched_update_all=True,
            when_matched_update_all_filt="source.a > 1",
            when_not_matched_insert_all=True,
            timeout="30s",
            use_index=True,
        ),
        stream(ROWS.slice(1)),
    ),
    ("update_table", ln.UpdateTableRequest(id=T, updates=[["s", "'q'"]], predicate="a = 1")),
    ("delete_from_table", ln.DeleteFromTableRequest(id=T, predicate="a = 2")),
    ("query_table", ln.QueryTableRequest(**QUERY)),
    ("query_table", ln.QueryTableRequest(id=T, k=0, vector={}, filter="a >= 2", columns={"column_names": ["s"]})),
    ("explain_table_query_plan", ln.ExplainTableQueryPlanRequest(id=T, query=ln.QueryTableRequest(**QUERY))),
    ("analyze_table_query_plan", ln.AnalyzeTableQueryPlanRequest(**QUERY)),
    ("get_table_stats", ln.GetTableStatsRequest(id=T)),
    (
        "alter_table_add_columns",
        ln.AlterTableAddColumnsRequest(id=T, new_columns=[{"name": "b", "expression": "a + 1"}]),
    ),
    ("alter_table_alter_columns", ln.AlterTableAlterColumnsRequest(id=T, alterations=[{"path": "b", "rename": "c"}])),
    ("alter_table_drop_columns", ln.AlterTableDropColumnsRequest(id=T, columns=["c"])),
    ("alter_table_backfill_columns", ln.AlterTableBackfillColumnsRequest(id=T, column="a")),
    ("update_table_schema_metadata", ln.UpdateTableSchemaMetadataRequest(id=T, metadata={"a": "b"})),
    ("list_table_versions", ln.ListTableVersionsRequest(id=T, limit=2, descending=True)),
    ("describe_table_version", {"id": T, "version": 1}),
    ("create_table_version", {"id": T, "version": 99, "manifest_path": "nowhere", "manifest_size": 3}),
    ("batch_delete_table_versions", {"id": T, "ranges": [{"start_version": 1, "end_version": 2}]}),
    (
        "batch_create_table_versions",
        ln.BatchCreateTableVersionsRequest(entries=[{"id": T, "version": 2, "manifest_path": "x"}]),
    ),
    ("batch_commit_tables", ln.BatchCommitTablesRequest(operations=[])),
    ("restore_table", ln.RestoreTableRequest(id=T, version=3)),
    ("create_table_tag", ln.CreateTableTagRequest(id=T, tag="v", version=2)),
    ("list_table_tags", ln.ListTableTagsRequest(id=T, limit=1)),
    ("get_table_tag_version", ln.GetTableTagVersionRequest(id=T, tag="v")),
    ("update_table_tag", ln.UpdateTableTagRequest(id=T, tag="v", version=3)),
    ("delete_table_tag", ln.DeleteTableTagRequest(id=T, tag="v")),
    ("delete_table_tag", ln.DeleteTableTagRequest(id=T, tag="v")),
    ("create_table_branch", ln.CreateTableBranchRequest(id=T, name="b")),
    ("list_table_branches", ln.ListTableBranchesRequest(id=T)),
    ("count_table_rows", ln.CountTableRowsRequest(id=T, branch="b")),
    ("delete_table_branch", ln.DeleteTableBranchRequest(id=T, name="b")),
    ("create_table_index", ln.CreateTableIndexRequest(id=T, column="a", index_type="BTREE", name="i x")),
    ("create_table_scalar_index", ln.CreateTableIndexRequest(id=T, column="s", index_type="BITMAP")),
    ("list_table_indices", ln.ListTableIndicesRequest(id=T)),
    ("describe_table_index_stats", ln.DescribeTableIndexStatsRequest(id=T, index_name="i x")),
    ("drop_table_index", ln.DropTableIndexRequest(id=T, index_name="i x")),
    ("drop_table_index", ln.DropTableIndexRequest(id=T, index_name="no")),
    ("describe_transaction", ln.DescribeTransactionRequest(id=["t", "nope"])),
    ("alter_transaction", ln.AlterTransactionRequest(id=["t", "nope"], actions=[{}])),
    ("refresh_materialized_view", ln.RefreshMaterializedViewRequest(id=["mv"])),
    # Not all clients have it, so that it comes when versions are no longer looked at.
    ("update_field_metadata", ln.UpdateFieldMetadataRequest(id=T, updates=[{"path": "a", "metadata": {"x": "y"}}])),
    ("rename_table", ln.RenameTableRequest(id=T, new_table_name="u", new_namespace_id=["n"])),
    ("list_all_tables", ln.ListTablesRequest(id=[])),
]


class Slow(DirectoryNamespace):
    """A namespace that says when it lists tables, and waits until it may go on."""

    begun, may_end = threading.Event(), threading.Event()

    def list_tables(self, request: Any) -> Any:
        self.begun.set()
        assert self.may_end.wait(30)
        return super().list_tables(request)


@contextmanager
def served(root: Path | str, **options: Any) -> Iterator[RestAdapter]:
    """Our server over a folder, while the context lasts."""
    properties = options.pop("properties", {})
    with RestAdapter("dir", {"root": root, **properties}, port=0, **options) as server:
        yield server


def history(space: Any, root: Path) -> list[Any]:
    """What a namespace answers, step by step: dicts, and names of errors with their texts."""
    found: list[Any] = []
    for name, *given in STEPS:
        try:
            found.append((name, _plain(getattr(space, name)(*given), root)))
        except ln.LanceNamespaceError as error:
            found.append((name, type(error).__name__, str(error).replace(str(root), "ROOT")))
    return found


def kinds(found: list[Any]) -> list[Any]:
    """Without the texts of errors, which clients word each in their own way."""
    return [entry[:2] for entry in found]


def _plain(answer: Any, root: Path) -> Any:
    """An answer without what differs every time: headers, times, random names."""
    if isinstance(answer, str):
        return re.sub(r"\d[\d.]*( [KM]?B\b|[µnm]?s\b)?", "N", _rootless(answer, root))
    if isinstance(answer, ln.QueryTableResponse):
        return pa.ipc.open_file(answer.data).read_all().to_pydict()
    told = dict(answer if isinstance(answer, Mapping) else answer.to_dict())
    told.pop("context", None)
    text = json.dumps(told, default=datetime.isoformat, sort_keys=True)
    text = _rootless(text, root)
    text = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID", text)
    text = re.sub(r"[0-9a-f]{8}_n\$", "HASH_n$", text)
    text = re.sub(
        r'"(timestamp_millis|createAt|e_tag|created_at|manifest_size|manifestSize)": ("(\\.|[^"\\])*"|\d+)',
        r'"\1": 0',
        text,
    )
    return json.loads(text)


def _rootless(text: str, root: Path) -> str:
    return text.replace(str(root), "ROOT").replace(str(root).lstrip("/"), "ROOT")
