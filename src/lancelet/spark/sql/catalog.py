"""A catalog of Spark's: the settings ``spark.sql.catalog.NAME.*``, and the namespace that they lead to.

==========================  ==============================================================================
``impl``                    ``dir``, ``rest``, or the class of a namespace; without it and ``root``, tables are
                            known by their paths only
``root``                    the folder of a directory namespace
``storage.*``               options of the object store
``single_level_ns``         ``true``: the tables of the root are in the namespace ``default``, the only one
``parent``                  a namespace of the store in which all names are; ``parent_delimiter`` parts its names
``enable_stable_row_ids``   for new tables, as ``file_format_version``
``batch_size`` and others   options of all reads and writes
==========================  ==============================================================================

Others go to the namespace, as ``manifest_enabled`` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lancelet.errors import InvalidInput, NotSupported, TableNotFound
from lancelet.namespace_client.tables import located
from lancelet.spark.option_names import KNOWN
from lancelet.spark.options import TableRef
from lancelet.spark.sql.definition import WIDE_OFFSETS
from lancelet.store.limit import with_environment

SINGLE = "default"
"""The only namespace of a catalog with one level."""
LOCATION = "lancelet.location"
"""The property, in a namespace, of a table that is elsewhere."""
_STORAGE = "storage."
_DEFAULTS = ("enable_stable_row_ids", "file_format_version")
_OWN = ("impl", "single_level_ns", "parent", "parent_delimiter", *_DEFAULTS)
_MOST_CATALOGS = 64

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalog, opened."""

    name: str
    client: Any
    """The namespace; None where tables are known by their paths only."""
    storage_options: Mapping[str, str]
    single_level: bool = False
    parent: Names = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Properties of new tables."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of all reads and writes."""

    def namespace(self) -> Any:
        """The namespace, for names."""
        if self.client is None:
            raise NotSupported(
                f"the catalog {self.name} knows tables by their paths only: set spark.sql.catalog.{self.name}.root to a "
                "folder, and its tables have names"
            )
        return self.client

    def namespace_id(self, names: Sequence[str]) -> Names:
        """How the store calls a namespace."""
        if self.single_level:
            if list(names) not in ([], [SINGLE]):
                raise _no_namespace(names, f"the catalog {self.name} has one level: its namespace is '{SINGLE}'")
            return self.parent
        return (*self.parent, *names)

    def table_id(self, namespace: Sequence[str], name: str) -> Names:
        """How the store calls a table."""
        return (*self.namespace_id(namespace), name)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a catalog: by its name, or by its path."""

    catalog: Catalog
    namespace: Names
    name: str

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> Table:
        """The table that a question is about."""
        return cls(open_catalog(details), tuple(details["namespace"]), details["name"])

    @property
    def path(self) -> str | None:
        """Where it is, if that is how it is called."""
        if (self.namespace and "/" in self.namespace[0]) or self.name.startswith("/") or "://" in self.name:
            return "/".join((*self.namespace, self.name))
        return None

    @property
    def id(self) -> Names:
        """Its names in the namespace."""
        return self.catalog.table_id(self.namespace, self.name)

    @property
    def shown(self) -> str:
        """Its name in the text of an error."""
        return self.path or ".".join((self.catalog.name, *self.namespace, self.name))

    def place(self) -> TableRef:
        """Where the table is; raises ``TableNotFound``."""
        return self.find()[0]

    def find(self) -> tuple[TableRef, bool]:
        """Where the table is, and whether that is outside of the catalog's own folder."""
        options = self.catalog.storage_options
        if self.path is not None:
            return TableRef(self.path, options), True
        from lance_namespace import NamespaceNotFoundError, TableNotFoundError

        try:
            found = located(self.catalog.namespace(), self.id, options)
        except (TableNotFoundError, NamespaceNotFoundError) as error:
            raise TableNotFound(self.shown, str(error)) from None
        elsewhere = found.properties.get(LOCATION)
        return TableRef(elsewhere or found.uri, found.storage_options or {}), elsewhere is not None


def open_catalog(details: Mapping[str, Any]) -> Catalog:
    """The catalog that a question is about; opened once."""
    return _opened(details["catalog_name"], json.dumps(details["catalog"], sort_keys=True))


@lru_cache(_MOST_CATALOGS)
def _opened(name: str, text: str) -> Catalog:
    settings: dict[str, str] = json.loads(text)
    storage = {key.removeprefix(_STORAGE): value for key, value in settings.items() if key.startswith(_STORAGE)}
    options = with_environment(storage)
    impl = settings.get("impl", "dir" if "root" in settings else None)
    if impl is None:
        return Catalog(name, None, options)
    rest = {key: value for key, value in settings.items() if key not in _OWN and key.lower() not in KNOWN}
    parent = settings.get("parent")
    return Catalog(
        name,
        _client(impl, rest),
        options,
        _flag(settings, "single_level_ns", name),
        () if not parent else tuple(parent.split(settings.get("parent_delimiter", "."))),
        {key: settings[key] for key in (*_DEFAULTS, WIDE_OFFSETS) if key in settings},
        {key: value for key, value in settings.items() if key.lower() in KNOWN and key not in _DEFAULTS},
    )


def _client(impl: str, settings: Mapping[str, str]) -> Any:
    if impl == "dir":
        from lancelet.namespace import DirectoryNamespace

        return DirectoryNamespace(**{"root": ".", **settings})  # type: ignore[arg-type]
    if impl == "rest":
        from lancelet.namespace import RestNamespace

        return RestNamespace(**settings)  # type: ignore[arg-type]
    from lance_namespace import connect

    try:
        return connect(impl, dict(settings))
    except ValueError as error:
        raise InvalidInput(f"there is no namespace of the kind {impl!r}: {error}") from None


def _flag(settings: Mapping[str, str], key: str, name: str) -> bool:
    text = settings.get(key, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"spark.sql.catalog.{name}.{key} is true or false, not {text!r}")
    return text == "true"


def _no_namespace(names: Sequence[str], reason: str) -> Exception:
    from lance_namespace import NamespaceNotFoundError

    return NamespaceNotFoundError(f"there is no namespace {'.'.join(names)}: {reason}")
