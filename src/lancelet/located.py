"""Where a namespace says that a table is, for calls that take a namespace and an id instead of a uri."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lancelet.errors import CommitOutcomeUnknown, InvalidInput, InvalidType, MissingPackage, NotSupported

PACKAGE = "namespaces need the package lance-namespace; install lancelet[namespace]"
_DIRECTORY = "DirectoryNamespace"


@dataclass(frozen=True, slots=True)
class Located:
    """A table's place, and the storage options that lead there."""

    uri: str
    storage_options: dict[str, str] | None


def is_named(uri: object, namespace_client: object, table_id: Sequence[str] | None) -> bool:
    """Whether a table is given by a namespace and its id; raises unless it is given in exactly one way."""
    if namespace_client is None and table_id is None:
        if uri is None:
            raise InvalidInput("the table is missing: give its uri, or namespace_client and table_id")
        return False
    if uri is not None:
        raise InvalidInput("the table is given twice: by its uri, and by namespace_client or table_id")
    if namespace_client is None or table_id is None:
        raise InvalidInput("namespace_client and table_id only name a table together")
    return True


def located(client: Any, table_id: Sequence[str], storage_options: Mapping[str, str] | None) -> Located:
    """Ask a namespace where a table is."""
    models = _models(client)
    return _place(client, client.describe_table(models.DescribeTableRequest(id=list(table_id))), storage_options)


@contextmanager
def place_to_write(
    client: Any, table_id: Sequence[str], mode: str, storage_options: Mapping[str, str] | None
) -> Iterator[Located]:
    """Ask a namespace where rows go that are written in this context.

    A table that is to be created is declared; an error takes the declaration back.
    """
    if mode != "create":
        yield located(client, table_id, storage_options)
        return
    models = _models(client)
    told = client.declare_table(models.DeclareTableRequest(id=list(table_id)))
    try:
        yield _place(client, told, storage_options)
    except CommitOutcomeUnknown:
        raise
    except BaseException:
        withdraw(client, table_id)
        raise


def withdraw(client: Any, table_id: Sequence[str]) -> None:
    """Take the declaration of a table back, as far as the namespace lets us; a table with rows stays."""
    models = _models(client)
    with suppress(models.LanceNamespaceError):
        found = client.describe_table(models.DescribeTableRequest(id=list(table_id), check_declared=True))
        if found.is_only_declared:
            client.drop_table(models.DropTableRequest(id=list(table_id)))


def check_versions(client: Any, *, managed: bool) -> None:
    """Refuse namespaces that keep versions somewhere else than in the table's folder."""
    if managed and not str(client.namespace_id()).startswith(_DIRECTORY):
        raise NotSupported(
            f"{client.namespace_id()} makes the versions of its tables itself, which is not supported; a directory "
            "namespace makes them where a table's own commits do"
        )


def _place(client: Any, told: Any, storage_options: Mapping[str, str] | None) -> Located:
    if not told.location:
        raise InvalidInput(f"{client.namespace_id()} does not say where the table is")
    check_versions(client, managed=told.managed_versioning is True)
    if storage_options is None and told.storage_options is None:
        return Located(told.location, None)
    return Located(told.location, {**(storage_options or {}), **(told.storage_options or {})})


def _models(client: Any) -> Any:
    try:
        import lance_namespace
    except ImportError as error:
        raise MissingPackage(PACKAGE) from error
    if not isinstance(client, lance_namespace.LanceNamespace):
        raise InvalidType(f"namespace_client is a LanceNamespace, not {type(client)}")
    return lance_namespace
