"""Tables by their names in a directory namespace: ``option("namespace", root).load("sales.orders")``.

A table that a write is to make is declared before the write is planned, so that it has a
folder; when the write fails, the declaration is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancelet.errors import MissingPackage, TableNotFound
from lancelet.format.schema import split_path
from lancelet.namespace_client.models import PACKAGE
from lancelet.namespace_client.tables import located, place_to_write, withdraw

if TYPE_CHECKING:
    from lancelet.namespace import DirectoryNamespace

OPTION = "namespace"


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A name in the namespace of a folder; sent to the tasks of a write."""

    root: str
    name: tuple[str, ...]
    storage_options: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str], text: str, storage_options: Mapping[str, str]) -> NamedTable | None:
        """The table that options name; None when they do not use a namespace. Dots part the names."""
        root = options.get(OPTION)
        return None if root is None else cls(root, tuple(split_path(text)), storage_options)

    def uri(self) -> str:
        """Where the table is."""
        from lance_namespace import NamespaceNotFoundError, TableNotFoundError

        try:
            return located(self._client(), self.name, self.storage_options).uri
        except (TableNotFoundError, NamespaceNotFoundError) as error:
            raise TableNotFound(f"{self.root}: {'.'.join(self.name)}", str(error)) from None

    @contextmanager
    def writing(self) -> Iterator[str]:
        """Where rows go that are planned in this context; a table that is not there is declared."""
        from lance_namespace import TableExistsRequest, TableNotFoundError

        client = self._client()
        try:
            client.table_exists(TableExistsRequest(id=list(self.name)))
            mode = "append"
        except TableNotFoundError:
            mode = "create"
        with place_to_write(client, self.name, mode, self.storage_options) as place:
            yield place.uri

    def withdraw(self) -> None:
        """Take the declaration back, unless the table has rows by now."""
        withdraw(self._client(), self.name)

    def _client(self) -> DirectoryNamespace:
        try:
            from lancelet.namespace import DirectoryNamespace
        except ImportError as error:
            raise MissingPackage(PACKAGE) from error
        properties: dict[str, Any] = {f"storage.{key}": value for key, value in self.storage_options.items()}
        return DirectoryNamespace(root=self.root, **properties)
