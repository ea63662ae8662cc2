"""A namespace for people: tables by their names, rows from anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from lance_namespace import (
    DropTableRequest,
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
)

from lancelet.dataset import LanceDataset
from lancelet.namespace import making, removing
from lancelet.namespace.catalog import NAMESPACE, TABLE, Catalog, CatalogEntry
from lancelet.namespace.directory import DirectoryNamespace
from lancelet.namespace.errors import translated
from lancelet.namespace.names import Identifier, object_id, shown
from lancelet.namespace.root import only_root
from lancelet.namespace.tables import open_table
from lancelet.writing.options import write_options
from lancelet.writing.source import open_source

Name = str | Sequence[str]
"""Names with dots between them, or a list of names, which may have dots in them."""


class Connection:
    """The namespace in a folder.

    Names are texts with dots between their parts (``"sales.orders"``), or lists of names. Errors are those of
    ``lance_namespace``.

    Examples
    --------
    >>> import lancelet
    >>> space = lancelet.connect("memory://docs/connection")
    >>> space.create_namespace("sales")
    >>> space.create("sales.orders", {"id": [1, 2, 3]}).count_rows()
    3
    >>> list(space.tables("sales"))
    ['orders']
    """

    def __init__(self, client: DirectoryNamespace) -> None:
        self.client = client
        """The same namespace, as other libraries use it."""

    def __repr__(self) -> str:
        return f"Connection({self.client.root.settings.root!r})"

    def __contains__(self, name: Name) -> bool:
        return self.exists(name)

    def __iter__(self) -> Iterator[str]:
        return self.tables()

    # Tables

    def tables(self, namespace: Name = ()) -> Iterator[str]:
        """Names of the tables directly in a namespace, sorted."""
        return iter(self.client.root.table_names(name_parts(namespace)).to_pylist())

    def exists(self, name: Name) -> bool:
        """Whether there is such a table."""
        try:
            self.client.root.find(name_parts(name))
        except (TableNotFoundError, NamespaceNotFoundError):
            return False
        return True

    def open(self, name: Name, version: int | None = None, *, branch: str | None = None) -> LanceDataset:
        """Open a table, at its newest version by default."""
        return open_table(
            self.client.root, name_parts(name), version=version, branch=branch, session=self.client._session
        )

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
        """Make a table; two that make the same one do not both succeed.

        Parameters
        ----------
        name
            In a namespace that is there.
        data, schema
            See :func:`lancelet.write_dataset`.
        mode
            ``create``, ``exist_ok`` (keep a table that is there) or ``overwrite`` (write a new version of it).
        properties
            Texts that the catalog keeps with the table.
        options
            Further arguments of :func:`lancelet.write_dataset`, about files and the new table.
        """
        ident, root = name_parts(name), self.client.root
        with translated(f"table {shown(ident)}"):
            rows = data if schema is None else _with_schema(data, schema)
            chosen = write_options("create", **options)
        found, snapshot = making.create_table(root, ident, rows, mode=mode, properties=properties, options=chosen)
        if snapshot is None:
            return self.open(name)
        return LanceDataset._of(root.location(found), snapshot, self.client._session, root.settings.storage or None)

    def drop(self, name: Name) -> None:
        """Remove a table and its files."""
        self.client.drop_table(DropTableRequest(id=list(name_parts(name))))

    def rename(self, name: Name, new_name: Name) -> None:
        """Give a table another name, also in another namespace; no file is moved."""
        *parent, last = name_parts(new_name) or ("",)
        removing.rename_table(self.client.root, name_parts(name), last, parent)

    def register(self, name: Name, location: str, *, properties: Mapping[str, str] | None = None) -> None:
        """Give the table in a folder below the root a name."""
        making.register_table(self.client.root, name_parts(name), location, None, properties or {})

    def deregister(self, name: Name) -> None:
        """Forget a table; its files stay, and :meth:`register` brings it back."""
        removing.deregister_table(self.client.root, name_parts(name))

    # Namespaces

    def namespaces(self, namespace: Name = ()) -> Iterator[str]:
        """Names of the namespaces directly in one, sorted."""
        return iter(self.client.root.namespace_names(name_parts(namespace)).to_pylist())

    def create_namespace(
        self, name: Name, properties: Mapping[str, str] | None = None, *, exist_ok: bool = False
    ) -> None:
        """Make a namespace, in one that is there."""
        making.create_namespace(self.client.root, name_parts(name), "exist_ok" if exist_ok else None, properties or {})

    def drop_namespace(self, name: Name, *, cascade: bool = False) -> None:
        """Remove a namespace; with ``cascade``, everything that is in it as well."""
        removing.drop_namespace(self.client.root, name_parts(name), None, "cascade" if cascade else None)

    # Properties

    def properties(self, name: Name) -> dict[str, str]:
        """The properties of a table or namespace."""
        catalog = self.client.root.catalog()
        entry = None if catalog is None else catalog.find(object_id(name_parts(name)))
        if entry is None and name_parts(name):
            # A table without an entry has no properties.
            self.client.root.find(name_parts(name))
        return {} if entry is None else dict(entry.properties)

    def set_properties(self, name: Name, values: Mapping[str, str | None]) -> dict[str, str]:
        """Change properties of a table or namespace; None removes one. Returns all that there are then."""
        ident, root = name_parts(name), self.client.root
        if root.manifest is None:
            raise only_root(ident)
        if not ident:
            raise InvalidInputError("the root namespace has no properties")
        after: dict[str, str] = {}

        def edit(catalog: Catalog) -> pa.Table:
            nonlocal after
            entry = catalog.find(object_id(ident))
            found = None if entry is not None else root.find(ident)
            before = {} if entry is None else entry.properties
            after = {key: value for key, value in {**before, **values}.items() if value is not None}
            if entry is not None:
                return catalog.with_changed(
                    entry.object_id, CatalogEntry(entry.object_id, entry.kind, entry.location, after)
                )
            assert found is not None
            return catalog.with_entries([CatalogEntry(object_id(ident), TABLE, found.folder, after)])

        root.manifest.change(edit)
        return after

    def migrate(self) -> list[str]:
        """Add all tables that are found by listing only to the catalog; returns their names."""
        return self.client.migrate()

    def describe(self, name: Name = ()) -> dict[str, Any]:
        """What a name leads to: a table with its location, or a namespace; and its properties."""
        ident, root = name_parts(name), self.client.root
        catalog = root.catalog()
        if not ident or (catalog is not None and catalog.of_kind(object_id(ident), NAMESPACE) is not None):
            return {"name": shown(ident), "kind": NAMESPACE, "properties": self.properties(name)}
        found = root.find(ident)
        properties = dict(found.properties)
        return {"name": shown(ident), "kind": TABLE, "location": root.location(found), "properties": properties}


def name_parts(name: Name) -> Identifier:
    """A name taken apart."""
    if isinstance(name, str):
        return tuple(name.split(".")) if name else ()
    if not all(isinstance(part, str) for part in name):
        raise InvalidInputError(f"a name is a text, or a list of texts, not {name!r}")
    return tuple(name)


def _with_schema(data: Any, schema: pa.Schema) -> pa.RecordBatchReader:
    source = open_source(data, schema)
    return pa.RecordBatchReader.from_batches(source.schema, source.batches)
