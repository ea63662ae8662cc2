"""Where tables of a catalog are: below its root, or where LOCATION says.

A directory namespace has tables below its root only. One that is elsewhere is declared there under a property that says
where: other readers of the namespace see a table that is declared and has no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lancelet.errors import CommitOutcomeUnknown
from lancelet.namespace_client.tables import place_to_write, withdraw
from lancelet.spark.options import TableRef
from lancelet.spark.sql.catalog import LOCATION

if TYPE_CHECKING:
    from lancelet.spark.sql.catalog import Table


@contextmanager
def new_place(table: Table, location: str | None) -> Iterator[TableRef]:
    """Take a name for a table that is written in this context; an error gives it back."""
    options = table.catalog.storage_options
    if location is None:
        with place_to_write(table.catalog.namespace(), table.id, "create", options) as found:
            yield TableRef(found.uri, found.storage_options or {})
        return
    register(table, location)
    try:
        yield TableRef(location, options)
    except CommitOutcomeUnknown:
        raise
    except BaseException:
        withdraw(table.catalog.namespace(), table.id)
        raise


def register(table: Table, location: str) -> None:
    """Give a table, which may not be there yet, a name."""
    from lance_namespace import DeclareTableRequest, RegisterTableRequest

    from lancelet.namespace import DirectoryNamespace

    client, ident = table.catalog.namespace(), list(table.id)
    if not isinstance(client, DirectoryNamespace):
        client.declare_table(DeclareTableRequest(id=ident, location=location))
        return
    below = _below(client, location)
    if below is None:
        client.declare_table(DeclareTableRequest(id=ident, properties={LOCATION: location}))
    else:
        client.register_table(RegisterTableRequest(id=ident, location=below))


def _below(client: Any, location: str) -> str | None:
    """The path from the root of a namespace to a place in it; None for one elsewhere."""
    plain = location.removeprefix("file://").rstrip("/")
    for root in (client.root.base, client.root.store.uri, client.root.store.join("")):
        begin = str(root).removeprefix("file://").rstrip("/") + "/"
        if plain.startswith(begin) and ".." not in plain.split("/"):
            return plain.removeprefix(begin)
    return None
