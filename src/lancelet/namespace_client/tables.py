"""Where a namespace says that a table is, for calls that take a namespace and an id instead of a uri."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from lancelet.errors import CommitOutcomeUnknown, InvalidInput
from lancelet.namespace_client.models import models_for
from lancelet.store.limit import KEYS as LIMIT_KEYS

EXPIRY = "expires_at_millis"
"""The storage option that tells when the others are no longer of use."""
_DIRECTORY = "DirectoryNamespace"
_WITHOUT_OPTIONS = ("file://", "memory://")


@dataclass(frozen=True, slots=True)
class Manager:
    """The namespace that makes the versions of a table."""

    client: Any
    table_id: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Located:
    """A table's place, and the storage options that lead there."""

    uri: str
    storage_options: dict[str, str] | None
    manager: Manager | None = None
    """Who makes its versions; None: whoever commits."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Those that the namespace has for it."""


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
    models = models_for(client)
    told = client.describe_table(models.DescribeTableRequest(id=list(table_id)))
    return _place(client, table_id, told, storage_options)


@contextmanager
def place_to_write(
    client: Any,
    table_id: Sequence[str],
    mode: str,
    storage_options: Mapping[str, str] | None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Located]:
    """Ask a namespace where rows go that are written in this context.

    A table that is to be created is declared, with its properties; an error takes the declaration back.
    """
    if mode != "create":
        yield located(client, table_id, storage_options)
        return
    models = models_for(client)
    given = dict(properties) if properties else None
    told = client.declare_table(models.DeclareTableRequest(id=list(table_id), properties=given))
    try:
        yield _place(client, table_id, told, storage_options)
    except CommitOutcomeUnknown:
        raise
    except BaseException:
        withdraw(client, table_id)
        raise


def withdraw(client: Any, table_id: Sequence[str]) -> None:
    """Take the declaration of a table back, as far as the namespace lets us; a table with rows stays."""
    models = models_for(client)
    with suppress(models.LanceNamespaceError):
        found = client.describe_table(models.DescribeTableRequest(id=list(table_id), check_declared=True))
        if found.is_only_declared:
            client.drop_table(models.DropTableRequest(id=list(table_id)))


def vended(
    uri: object, storage_options: Mapping[str, str] | None, client: Any, table_id: Sequence[str] | None
) -> Mapping[str, str] | None:
    """The storage options for files of a table that a namespace has.

    Those that are given; the namespace is asked for an object store of which none are known, or only such that have
    expired, and its options come first.
    """
    if client is None or table_id is None:
        return storage_options
    models = models_for(client)
    text = str(uri)
    if "://" not in text or text.startswith(_WITHOUT_OPTIONS):
        return storage_options
    expiry = (storage_options or {}).get(EXPIRY, "")
    if storage_options and not (expiry.isdecimal() and int(expiry) <= time.time() * 1000):
        return storage_options
    told = client.describe_table(models.DescribeTableRequest(id=list(table_id)))
    return _merged(storage_options, told.storage_options)


def manager_of(client: Any, table_id: Sequence[str] | None, *, managed: bool) -> Manager | None:
    """Who makes the versions of a table that a namespace says it manages.

    A directory namespace makes them just as a table's own commits do, and needs not to be asked.
    """
    if not managed or client is None or str(client.namespace_id()).startswith(_DIRECTORY):
        return None
    if table_id is None:
        raise InvalidInput("namespace_client and table_id only name a table together")
    models_for(client)
    return Manager(client, tuple(table_id))


def manager_told(client: Any, table_id: Sequence[str] | None) -> Manager | None:
    """Ask a namespace whether it makes the versions of a table; of one that it does not have, it makes none."""
    if client is None or table_id is None:
        return None
    models = models_for(client)
    try:
        told = client.describe_table(models.DescribeTableRequest(id=list(table_id)))
    except models.TableNotFoundError:
        return None
    return manager_of(client, table_id, managed=told.managed_versioning is True)


def _place(client: Any, table_id: Sequence[str], told: Any, storage_options: Mapping[str, str] | None) -> Located:
    if not told.location:
        raise InvalidInput(f"{client.namespace_id()} does not say where the table is")
    manager = manager_of(client, table_id, managed=told.managed_versioning is True)
    # A directory namespace that limits its tables does so wherever they are opened.
    limit: dict[str, str] = getattr(client, "limit_options", dict)()
    properties = dict(told.properties or {})
    if storage_options is None and told.storage_options is None and not limit:
        return Located(told.location, None, manager, properties)
    return Located(told.location, {**limit, **_merged(storage_options, told.storage_options)}, manager, properties)


def _merged(given: Mapping[str, str] | None, told: Mapping[str, str] | None) -> dict[str, str]:
    """Storage options of both; what a table may refer to is not for a namespace to say."""
    vended = {key: value for key, value in (told or {}).items() if key not in LIMIT_KEYS}
    return {**(given or {}), **vended}
