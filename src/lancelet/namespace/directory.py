"""The directory namespace under the interface that clients of ``lance-namespace`` know."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import lance_namespace as ln
import pyarrow as pa

from lancelet.inspect.versions import version_entry
from lancelet.namespace import indices, making, refs, removing, tables, versions
from lancelet.namespace.catalog import NAMESPACE, TABLE
from lancelet.namespace.errors import translated
from lancelet.namespace.json_types import json_schema
from lancelet.namespace.listing import look
from lancelet.namespace.migrate import migrate
from lancelet.namespace.names import identifier, object_id, shown
from lancelet.namespace.operations import Counts, operation
from lancelet.namespace.root import Found, Root
from lancelet.namespace.settings import Settings
from lancelet.namespace_client.tables import EXPIRY
from lancelet.runtime import compute as pc
from lancelet.store.limit import OPTION as LIMIT
from lancelet.store.limit import limit_options
from lancelet.table.manifest.snapshot import open_snapshot

if TYPE_CHECKING:
    from lancelet._api.session import Session

T = TypeVar("T")


class DirectoryNamespace(ln.LanceNamespace):
    """Tables and namespaces in one root folder.

    Errors are those of ``lance_namespace``, each with its ``code``.

    Parameters
    ----------
    session
        Caches that the tables share.
    context_provider
        Accepted for pylance's sake; a folder needs no context.
    properties
        ``root``, a URI or a path, is needed. ``manifest_enabled`` and ``dir_listing_enabled`` (both ``true``) say how
        tables are found, ``storage.*`` are options of the object store; docs/namespace.md has the others. Unknown
        ones are ignored.

    Examples
    --------
    >>> import lance_namespace
    >>> space = lance_namespace.connect("lancelet.namespace.DirectoryNamespace", {"root": "memory://docs/space"})
    >>> space.create_namespace(lance_namespace.CreateNamespaceRequest(id=["sales"], properties={"owner": "ann"})).properties
    {'owner': 'ann'}
    >>> space.list_namespaces(lance_namespace.ListNamespacesRequest(id=[])).namespaces
    ['sales']
    """

    def __init__(self, session: Session | None = None, context_provider: Any = None, **properties: Any) -> None:
        if isinstance(properties.get(LIMIT), (list, tuple)):
            properties[LIMIT] = json.dumps(list(map(str, properties[LIMIT])))
        self._properties = {str(key): str(value) for key, value in properties.items()}
        self._root = Root.of(Settings.of(self._properties))
        self._session = session
        self._counts = Counts(wanted=self._root.settings.counts)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._properties,)

    def __repr__(self) -> str:
        return f"DirectoryNamespace({self.namespace_id()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DirectoryNamespace) and self._properties == other._properties

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._properties.items())))

    def namespace_id(self) -> str:
        return f'DirectoryNamespace {{ root: "{self._root.settings.root}" }}'

    def limit_options(self) -> dict[str, str]:
        """The storage options that limit what tables may refer to, for those who open them by their locations."""
        return limit_options(self._root.store.options)

    @property
    def root(self) -> Root:
        """The engine's view of the folder."""
        return self._root

    def retrieve_ops_metrics(self) -> dict[str, int]:
        """How often each operation was asked for; nothing unless ``ops_metrics_enabled`` is ``true``."""
        return self._counts.told()

    def reset_ops_metrics(self) -> None:
        """Begin to count anew."""
        self._counts.clear()

    def note(self, operation: str) -> None:
        """Count an operation."""
        self._counts.note(operation)

    # Namespaces

    @operation(ln.CreateNamespaceRequest)
    def create_namespace(self, request: ln.CreateNamespaceRequest) -> ln.CreateNamespaceResponse:
        made = making.create_namespace(self._root, request.id, request.mode, request.properties or {})
        return ln.CreateNamespaceResponse(properties=dict(made) or None)

    @operation(ln.ListNamespacesRequest)
    def list_namespaces(self, request: ln.ListNamespacesRequest) -> ln.ListNamespacesResponse:
        names, token = _page(self._root.namespace_names(identifier(request.id, "namespace")), request)
        return ln.ListNamespacesResponse(namespaces=names, page_token=token)

    @operation(ln.DescribeNamespaceRequest)
    def describe_namespace(self, request: ln.DescribeNamespaceRequest) -> ln.DescribeNamespaceResponse:
        ident, catalog = identifier(request.id, "namespace"), self._root.catalog()
        self._root.check_namespace(ident, catalog)
        entry = catalog.of_kind(object_id(ident), NAMESPACE) if ident and catalog is not None else None
        return ln.DescribeNamespaceResponse(properties={} if entry is None else dict(entry.properties) or None)

    @operation(ln.NamespaceExistsRequest)
    def namespace_exists(self, request: ln.NamespaceExistsRequest) -> ln.NamespaceExistsResponse:
        self._root.check_namespace(identifier(request.id, "namespace"), self._root.catalog())
        return ln.NamespaceExistsResponse()

    @operation(ln.DropNamespaceRequest)
    def drop_namespace(self, request: ln.DropNamespaceRequest) -> ln.DropNamespaceResponse:
        properties = removing.drop_namespace(self._root, request.id, request.mode, request.behavior)
        return ln.DropNamespaceResponse(properties=dict(properties) or None)

    # Tables as entries

    @operation(ln.ListTablesRequest)
    def list_tables(self, request: ln.ListTablesRequest) -> ln.ListTablesResponse:
        found = self._root.table_names(
            identifier(request.id, "namespace"), declared=request.include_declared is not False
        )
        names, token = _page(found, request)
        return ln.ListTablesResponse(tables=names, page_token=token)

    @operation(ln.ListTablesRequest)
    def list_all_tables(self, request: ln.ListTablesRequest) -> ln.ListTablesResponse:
        """The ids of all tables of all namespaces, names joined with ``$``."""
        catalog = self._root.catalog()
        ids = set(self._root.table_names((), declared=request.include_declared is not False).to_pylist())
        if catalog is not None:
            below = catalog.ids(TABLE)
            ids.update(below.filter(pc.match_substring(below, "$")).to_pylist())
        names, token = _page(pa.array(sorted(ids, key=str.encode), pa.string()), request)
        return ln.ListTablesResponse(tables=names, page_token=token)

    @operation(ln.DescribeTableRequest)
    def describe_table(self, request: ln.DescribeTableRequest) -> ln.DescribeTableResponse:
        found = self._root.find(request.id)
        location = self._root.location(found)
        told = ln.DescribeTableResponse(
            table=found.id[-1],
            namespace=list(found.id[:-1]),
            location=location,
            table_uri=location,
            properties=dict(found.properties) or None,
            managed_versioning=True if self._root.settings.tracking else None,
            storage_options=self._vended(),
        )
        if request.check_declared or request.load_detailed_metadata:
            with translated(f"table {shown(found.id)}"):
                told.is_only_declared = not look(self._root.store, found.folder).written
        if request.load_detailed_metadata and not told.is_only_declared:
            self._describe_details(found, request, told)
        return told

    def _describe_details(self, found: Found, request: ln.DescribeTableRequest, told: ln.DescribeTableResponse) -> None:
        reference: Any = request.tag if request.tag is not None else request.version
        if request.branch is not None:
            reference = request.branch, request.version
        not_found = ln.TableTagNotFoundError if request.tag is not None else ln.TableBranchNotFoundError
        with translated(f"table {shown(found.id)}", not_found=not_found):
            snapshot = open_snapshot(self._root.store.child(found.folder), reference)
            told.version = snapshot.version
            told.var_schema = json_schema(snapshot.manifest.schema.to_arrow())
            told.metadata = version_entry(snapshot.manifest)["metadata"]

    @operation(ln.TableExistsRequest)
    def table_exists(self, request: ln.TableExistsRequest) -> ln.TableExistsResponse:
        found = self._root.find(request.id)
        if request.version is not None:
            with translated(f"table {shown(found.id)}"):
                open_snapshot(self._root.store.child(found.folder), request.version)
        return ln.TableExistsResponse()

    @operation(ln.CreateTableRequest)
    def create_table(self, request: ln.CreateTableRequest, request_data: bytes) -> ln.CreateTableResponse:
        rows = tables.read_stream(request_data, "create_table")
        found, snapshot = making.create_table(
            self._root,
            request.id,
            rows,
            mode=request.mode,
            properties=request.properties,
            storage_options=request.storage_options,
        )
        return ln.CreateTableResponse(
            location=self._made_at(found),
            version=None if snapshot is None else snapshot.version,
            properties=dict(found.properties) or None,
            storage_options=self._vended() or None,
        )

    @operation(ln.DeclareTableRequest)
    def declare_table(self, request: ln.DeclareTableRequest) -> ln.DeclareTableResponse:
        found = making.declare_table(self._root, request.id, request.properties, request.location)
        return ln.DeclareTableResponse(
            location=self._made_at(found),
            properties=dict(found.properties) or None,
            managed_versioning=True if self._root.settings.tracking else None,
            storage_options=self._vended(),
        )

    @operation(ln.CreateEmptyTableRequest)
    def create_empty_table(self, request: ln.CreateEmptyTableRequest) -> ln.CreateEmptyTableResponse:
        """Take the name of a table; the same as :meth:`declare_table`, under its old name."""
        found = making.declare_table(self._root, request.id, request.properties, None)
        return ln.CreateEmptyTableResponse(location=self._made_at(found), properties=dict(found.properties) or None)

    @operation(ln.RegisterTableRequest)
    def register_table(self, request: ln.RegisterTableRequest) -> ln.RegisterTableResponse:
        making.register_table(self._root, request.id, request.location, request.mode, request.properties or {})
        return ln.RegisterTableResponse(location=request.location, properties=request.properties or None)

    @operation(ln.DeregisterTableRequest)
    def deregister_table(self, request: ln.DeregisterTableRequest) -> ln.DeregisterTableResponse:
        found = removing.deregister_table(self._root, request.id)
        return ln.DeregisterTableResponse(
            id=list(found.id), location=self._made_at(found), properties=dict(found.properties) or None
        )

    @operation(ln.DropTableRequest)
    def drop_table(self, request: ln.DropTableRequest) -> ln.DropTableResponse:
        found = removing.drop_table(self._root, request.id)
        return ln.DropTableResponse(
            id=list(found.id), location=self._made_at(found), properties=dict(found.properties) or None
        )

    @operation(ln.RenameTableRequest)
    def rename_table(self, request: ln.RenameTableRequest) -> ln.RenameTableResponse:
        removing.rename_table(self._root, request.id, request.new_table_name, request.new_namespace_id)
        return ln.RenameTableResponse()

    def migrate(self) -> list[str]:
        """Add all tables that are found by listing only to the catalog; returns their names."""
        return migrate(self._root)

    def _made_at(self, found: Found) -> str:
        """Where a table is, as changes tell it: a URI where there is a catalog."""
        return self._root.plain(found.folder) if self._root.manifest is None else self._root.uri(found.folder)

    def _vended(self) -> dict[str, str] | None:
        """Storage options for a client, where it is to be told; as in pylance whether it asks for credentials or not."""
        settings = self._root.settings
        if not settings.vends:
            return None
        if settings.vended_millis is None:
            return dict(settings.storage)
        return {**settings.storage, EXPIRY: str(int(time.time() * 1000) + settings.vended_millis)}

    # Rows

    @operation(ln.CountTableRowsRequest)
    def count_table_rows(self, request: ln.CountTableRowsRequest) -> ln.CountTableRowsResponse:
        return ln.CountTableRowsResponse(count=tables.count_rows(self._root, request))

    @operation(ln.InsertIntoTableRequest)
    def insert_into_table(self, request: ln.InsertIntoTableRequest, request_data: bytes) -> ln.InsertIntoTableResponse:
        return tables.insert(self._root, request, request_data)

    @operation(ln.MergeInsertIntoTableRequest)
    def merge_insert_into_table(
        self, request: ln.MergeInsertIntoTableRequest, request_data: bytes
    ) -> ln.MergeInsertIntoTableResponse:
        return tables.merge_insert(self._root, request, request_data)

    @operation(ln.UpdateTableRequest)
    def update_table(self, request: ln.UpdateTableRequest) -> ln.UpdateTableResponse:
        return tables.update(self._root, request)

    @operation(ln.DeleteFromTableRequest)
    def delete_from_table(self, request: ln.DeleteFromTableRequest) -> ln.DeleteFromTableResponse:
        return ln.DeleteFromTableResponse(version=tables.delete(self._root, request))

    @operation(ln.QueryTableRequest)
    def query_table(self, request: ln.QueryTableRequest) -> ln.QueryTableResponse:
        return ln.QueryTableResponse(data=b"".join(tables.query(self._root, request, self._session)))

    def query_table_in_pieces(self, request: ln.QueryTableRequest) -> Generator[bytes, None, None]:
        """What ``query_table`` answers, piece by piece, so that it need not fit into memory."""
        self.note("query_table")
        return tables.query(self._root, request, self._session)

    @operation(ln.ExplainTableQueryPlanRequest)
    def explain_table_query_plan(self, request: ln.ExplainTableQueryPlanRequest) -> str:
        asked = request.query.model_copy(update={"id": request.id or request.query.id, "branch": request.branch})
        return tables.scan(self._root, asked).explain_plan(bool(request.verbose))

    @operation(ln.AnalyzeTableQueryPlanRequest)
    def analyze_table_query_plan(self, request: ln.AnalyzeTableQueryPlanRequest) -> str:
        scanner = tables.scan(self._root, request)
        with translated(f"table {shown(identifier(request.id))}"):
            return scanner.analyze_plan()

    @operation(ln.GetTableStatsRequest)
    def get_table_stats(self, request: ln.GetTableStatsRequest) -> ln.GetTableStatsResponse:
        return tables.stats(self._root, request)

    # Columns and metadata

    @operation(ln.AlterTableAddColumnsRequest)
    def alter_table_add_columns(self, request: ln.AlterTableAddColumnsRequest) -> ln.AlterTableAddColumnsResponse:
        return ln.AlterTableAddColumnsResponse(version=tables.add_columns(self._root, request))

    @operation(ln.AlterTableAlterColumnsRequest)
    def alter_table_alter_columns(self, request: ln.AlterTableAlterColumnsRequest) -> ln.AlterTableAlterColumnsResponse:
        return ln.AlterTableAlterColumnsResponse(version=tables.alter_columns(self._root, request))

    @operation(ln.AlterTableDropColumnsRequest)
    def alter_table_drop_columns(self, request: ln.AlterTableDropColumnsRequest) -> ln.AlterTableDropColumnsResponse:
        return ln.AlterTableDropColumnsResponse(version=tables.drop_columns(self._root, request))

    @operation(ln.UpdateTableSchemaMetadataRequest)
    def update_table_schema_metadata(
        self, request: ln.UpdateTableSchemaMetadataRequest
    ) -> ln.UpdateTableSchemaMetadataResponse:
        metadata, transaction = tables.update_schema_metadata(self._root, request)
        return ln.UpdateTableSchemaMetadataResponse(metadata=metadata, transaction_id=transaction)

    @operation(ln.UpdateFieldMetadataRequest)
    def update_field_metadata(self, request: ln.UpdateFieldMetadataRequest) -> ln.UpdateFieldMetadataResponse:
        version, fields = tables.update_field_metadata(self._root, request)
        return ln.UpdateFieldMetadataResponse(version=version, fields=fields)

    # Versions, tags and branches

    @operation(ln.ListTableVersionsRequest)
    def list_table_versions(self, request: ln.ListTableVersionsRequest) -> ln.ListTableVersionsResponse:
        found = versions.list_versions(self._root, request)
        numbers = [entry.version for entry in found]
        if request.page_token:
            if not request.page_token.isdecimal() or int(request.page_token) not in numbers:
                raise ln.InvalidInputError(f"page_token is a version of the last page, not {request.page_token!r}")
            found = found[numbers.index(int(request.page_token)) + 1 :]
        page, more = _first(found, request.limit)
        return ln.ListTableVersionsResponse(versions=page, page_token=str(page[-1].version) if more else None)

    @operation(ln.DescribeTableVersionRequest, answers_in_kind=True)
    def describe_table_version(self, request: ln.DescribeTableVersionRequest) -> ln.DescribeTableVersionResponse:
        return ln.DescribeTableVersionResponse(version=versions.describe_version(self._root, request))

    @operation(ln.CreateTableVersionRequest, answers_in_kind=True)
    def create_table_version(self, request: ln.CreateTableVersionRequest) -> ln.CreateTableVersionResponse:
        return ln.CreateTableVersionResponse(version=versions.create_version(self._root, request))

    @operation(ln.BatchDeleteTableVersionsRequest, answers_in_kind=True)
    def batch_delete_table_versions(
        self, request: ln.BatchDeleteTableVersionsRequest
    ) -> ln.BatchDeleteTableVersionsResponse:
        return ln.BatchDeleteTableVersionsResponse(deleted_count=versions.delete_versions(self._root, request))

    @operation(ln.RestoreTableRequest)
    def restore_table(self, request: ln.RestoreTableRequest) -> ln.RestoreTableResponse:
        return ln.RestoreTableResponse(transaction_id=tables.restore(self._root, request))

    @operation(ln.ListTableTagsRequest)
    def list_table_tags(self, request: ln.ListTableTagsRequest) -> ln.ListTableTagsResponse:
        page, token = _entries(refs.list_tags(self._root, request.id), request)
        return ln.ListTableTagsResponse(tags=page, page_token=token)

    @operation(ln.GetTableTagVersionRequest)
    def get_table_tag_version(self, request: ln.GetTableTagVersionRequest) -> ln.GetTableTagVersionResponse:
        version, branch = refs.tag_version(self._root, request.id, request.tag)
        return ln.GetTableTagVersionResponse(version=version, branch=branch)

    @operation(ln.CreateTableTagRequest)
    def create_table_tag(self, request: ln.CreateTableTagRequest) -> ln.CreateTableTagResponse:
        refs.create_tag(self._root, request)
        return ln.CreateTableTagResponse()

    @operation(ln.UpdateTableTagRequest)
    def update_table_tag(self, request: ln.UpdateTableTagRequest) -> ln.UpdateTableTagResponse:
        refs.update_tag(self._root, request)
        return ln.UpdateTableTagResponse()

    @operation(ln.DeleteTableTagRequest)
    def delete_table_tag(self, request: ln.DeleteTableTagRequest) -> ln.DeleteTableTagResponse:
        refs.delete_tag(self._root, request.id, request.tag)
        return ln.DeleteTableTagResponse()

    @operation(ln.ListTableBranchesRequest)
    def list_table_branches(self, request: ln.ListTableBranchesRequest) -> ln.ListTableBranchesResponse:
        page, token = _entries(refs.list_branches(self._root, request.id), request)
        return ln.ListTableBranchesResponse(branches=page, page_token=token)

    @operation(ln.CreateTableBranchRequest)
    def create_table_branch(self, request: ln.CreateTableBranchRequest) -> ln.CreateTableBranchResponse:
        refs.create_branch(self._root, request)
        return ln.CreateTableBranchResponse()

    @operation(ln.DeleteTableBranchRequest)
    def delete_table_branch(self, request: ln.DeleteTableBranchRequest) -> ln.DeleteTableBranchResponse:
        refs.delete_branch(self._root, request.id, request.name)
        return ln.DeleteTableBranchResponse()

    # Indices and transactions

    @operation(ln.CreateTableIndexRequest)
    def create_table_index(self, request: ln.CreateTableIndexRequest) -> ln.CreateTableIndexResponse:
        return ln.CreateTableIndexResponse(transaction_id=indices.create_index(self._root, request))

    @operation(ln.CreateTableIndexRequest)
    def create_table_scalar_index(self, request: ln.CreateTableIndexRequest) -> ln.CreateTableScalarIndexResponse:
        return ln.CreateTableScalarIndexResponse(transaction_id=indices.create_index(self._root, request))

    @operation(ln.ListTableIndicesRequest)
    def list_table_indices(self, request: ln.ListTableIndicesRequest) -> ln.ListTableIndicesResponse:
        by_name = {index.index_name: index for index in indices.list_indices(self._root, request)}
        page, token = _entries(by_name, request)
        return ln.ListTableIndicesResponse(indexes=list(page.values()), page_token=token)

    @operation(ln.DescribeTableIndexStatsRequest)
    def describe_table_index_stats(
        self, request: ln.DescribeTableIndexStatsRequest
    ) -> ln.DescribeTableIndexStatsResponse:
        return indices.index_stats(self._root, request)

    @operation(ln.DropTableIndexRequest)
    def drop_table_index(self, request: ln.DropTableIndexRequest) -> ln.DropTableIndexResponse:
        transaction = indices.drop_index(self._root, request.id, request.branch, request.index_name)
        return ln.DropTableIndexResponse(transaction_id=transaction)

    @operation(ln.DescribeTransactionRequest)
    def describe_transaction(self, request: ln.DescribeTransactionRequest) -> ln.DescribeTransactionResponse:
        return versions.describe_transaction(self._root, request.id)

    @operation(ln.AlterTransactionRequest)
    def alter_transaction(self, request: ln.AlterTransactionRequest) -> ln.AlterTransactionResponse:
        """A transaction that can be found is committed, so that nothing about it can change."""
        versions.describe_transaction(self._root, request.id)
        raise ln.UnsupportedOperationError(f"transaction {list(request.id or ())} is committed; it cannot be altered")


def _restored(properties: Mapping[str, str]) -> DirectoryNamespace:
    return DirectoryNamespace(None, None, **properties)


def _page(names: pa.Array, request: Any) -> tuple[list[str], str | None]:
    """The names after the request's token, as many as it wants, and the token of the next page if there is one."""
    if request.page_token:
        names = names.filter(pc.greater(names, request.page_token))
    page, more = _first(names, request.limit)
    chosen = page.to_pylist()
    return chosen, chosen[-1] if more else None


def _first(found: Any, limit: int | None) -> tuple[Any, bool]:
    """So many of them, and whether there are more; no limit, or less than none, is all."""
    if limit is None or limit < 0:
        return found, False
    return found[:limit], 0 < limit < len(found)


def _entries(found: Mapping[str, T], request: Any) -> tuple[dict[str, T], str | None]:
    names, token = _page(pa.array(sorted(found, key=str.encode), pa.string()), request)
    return {name: found[name] for name in names}, token
