"""The namespace behind a server, for people: the same methods as a folder's, by requests alone.

Rows do not go through the server: it says where a table is, and they are written and read there, as for
:func:`lancelet.write_dataset` with a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import lance_namespace as ln

from lancelet._api.entry import dataset
from lancelet._api.row_writes import write_rows
from lancelet.dataset import LanceDataset
from lancelet.namespace.catalog import NAMESPACE, TABLE
from lancelet.namespace.connection import Connection, Name, name_parts
from lancelet.namespace.errors import translated
from lancelet.namespace.making import CREATE, EXIST_OK, OVERWRITE, chosen_mode
from lancelet.namespace.names import shown, table_identifier
from lancelet.namespace_client.tables import place_to_write
from lancelet.writing.options import write_options

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet._api.session import Session

_MISSING = (ln.TableNotFoundError, ln.NamespaceNotFoundError)


class RemoteConnection(Connection):
    """The namespace behind a server of the REST specification.

    It has the methods of :class:`Connection`; properties can be told when something is made, but not changed.

    Examples
    --------
    >>> import lancelet
    >>> from lancelet.namespace import RestAdapter
    >>> with RestAdapter("dir", {"root": "memory://docs/remote"}, port=0) as server:
    ...     space = lancelet.connect("rest", uri=server.uri)
    ...     space.create("fruit", {"name": ["apple", "pear"]}).count_rows()
    ...     list(space.tables())
    2
    ['fruit']
    """

    client: Any
    """Any ``LanceNamespace``."""

    def __init__(
        self,
        client: ln.LanceNamespace,
        *,
        storage_options: Mapping[str, str] | None = None,
        session: Session | None = None,
    ) -> None:
        self.client = client
        self._storage_options = dict(storage_options) if storage_options else None
        self._session = session

    def __repr__(self) -> str:
        return f"RemoteConnection({self.client.namespace_id()})"

    # Tables

    def tables(self, namespace: Name = ()) -> Iterator[str]:
        ident = list(name_parts(namespace))
        return _pages(lambda token: self.client.list_tables(ln.ListTablesRequest(id=ident, page_token=token)), "tables")

    def exists(self, name: Name) -> bool:
        try:
            self.client.table_exists(ln.TableExistsRequest(id=list(name_parts(name))))
        except _MISSING:
            return False
        return True

    def open(self, name: Name, version: int | None = None, *, branch: str | None = None) -> LanceDataset:
        ident = table_identifier(name_parts(name))
        with translated(f"table {shown(ident)}", not_found=ln.TableBranchNotFoundError):
            reference: Any = version if branch is None else (branch, version)
            found = dataset(
                namespace_client=self.client,
                table_id=list(ident),
                storage_options=self._storage_options,
                session=self._session,
            )
            return found if reference is None else found.checkout_version(reference)

    def create(
        self,
        name: Name,
        data: Any,
        schema: pa.Schema | None = None,
        mode: str = "create",
        *,
        properties: Mapping[str, str] | None = None,
        **options: Any,
    ) -> LanceDataset:
        ident = table_identifier(name_parts(name))
        chosen = chosen_mode(mode, CREATE, EXIST_OK, OVERWRITE)
        there = chosen != CREATE and self._is_written(ident)
        if there and chosen == EXIST_OK:
            return self.open(ident)
        if there and properties:
            raise ln.UnsupportedOperationError(
                f"table {shown(ident)} is there already: the specification has no way to change its properties"
            )
        verb = OVERWRITE if there else CREATE
        with translated(f"table {shown(ident)}"):
            how = write_options(verb, **options)
            with place_to_write(self.client, ident, verb, self._storage_options, properties) as place:
                made = write_rows(
                    data,
                    place.uri,
                    schema,
                    how,
                    storage_options=place.storage_options,
                    manager=place.manager,
                    is_shared=self._session is not None,
                )
                return LanceDataset._written(place.uri, made, self._session, place.storage_options)

    def _is_written(self, ident: tuple[str, ...]) -> bool:
        try:
            told = self.client.describe_table(ln.DescribeTableRequest(id=list(ident), check_declared=True))
        except ln.TableNotFoundError:
            return False
        return not told.is_only_declared

    def drop(self, name: Name) -> None:
        self.client.drop_table(ln.DropTableRequest(id=list(name_parts(name))))

    def rename(self, name: Name, new_name: Name) -> None:
        *parent, last = name_parts(new_name) or ("",)
        request = ln.RenameTableRequest(id=list(name_parts(name)), new_table_name=last, new_namespace_id=parent)
        self.client.rename_table(request)

    def register(self, name: Name, location: str, *, properties: Mapping[str, str] | None = None) -> None:
        told = dict(properties) if properties else None
        request = ln.RegisterTableRequest(id=list(name_parts(name)), location=location, properties=told)
        self.client.register_table(request)

    def deregister(self, name: Name) -> None:
        self.client.deregister_table(ln.DeregisterTableRequest(id=list(name_parts(name))))

    # Namespaces

    def namespaces(self, namespace: Name = ()) -> Iterator[str]:
        ident = list(name_parts(namespace))
        return _pages(
            lambda token: self.client.list_namespaces(ln.ListNamespacesRequest(id=ident, page_token=token)),
            "namespaces",
        )

    def create_namespace(
        self, name: Name, properties: Mapping[str, str] | None = None, *, exist_ok: bool = False
    ) -> None:
        told = dict(properties) if properties else None
        mode = "ExistOk" if exist_ok else None
        self.client.create_namespace(ln.CreateNamespaceRequest(id=list(name_parts(name)), properties=told, mode=mode))

    def drop_namespace(self, name: Name, *, cascade: bool = False) -> None:
        behavior = "Cascade" if cascade else None
        self.client.drop_namespace(ln.DropNamespaceRequest(id=list(name_parts(name)), behavior=behavior))

    # Properties

    def properties(self, name: Name) -> dict[str, str]:
        return dict(self._told(name)[1].properties or {})

    def set_properties(self, name: Name, values: Mapping[str, str | None]) -> dict[str, str]:
        raise ln.UnsupportedOperationError("the specification of REST namespaces has no way to change properties")

    def migrate(self) -> list[str]:
        raise ln.UnsupportedOperationError("a catalog is migrated where its folder is: use connect(root).migrate()")

    def describe(self, name: Name = ()) -> dict[str, Any]:
        kind, told = self._told(name)
        found = {"name": shown(name_parts(name)), "kind": kind, "properties": dict(told.properties or {})}
        return {**found, "location": told.location} if kind == TABLE else found

    def _told(self, name: Name) -> tuple[str, Any]:
        """What a name leads to."""
        ident = list(name_parts(name))
        if ident:
            try:
                return TABLE, self.client.describe_table(ln.DescribeTableRequest(id=ident))
            except _MISSING as error:
                try:
                    return NAMESPACE, self.client.describe_namespace(ln.DescribeNamespaceRequest(id=ident))
                except _MISSING:
                    raise error from None
        return NAMESPACE, self.client.describe_namespace(ln.DescribeNamespaceRequest(id=ident))


def _pages(ask: Callable[[str | None], Any], what: str) -> Iterator[str]:
    """Names, page after page; the first page is asked for at once, so that errors come where they belong."""
    first = ask(None)

    def names() -> Iterator[str]:
        told = first
        while True:
            yield from getattr(told, what)
            if not told.page_token:
                return
            told = ask(told.page_token)

    return names()
