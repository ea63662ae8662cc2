"""Tables whose versions a namespace makes: their manifests are published by its requests.

The namespace is a manifest store (:mod:`lancelet.table.registers.external`): a commit writes its manifest under a name of its
own and asks ``create_table_version`` to make it the next version; the newest version is what
``list_table_versions`` says, and where one is, ``describe_table_version``. What a namespace was told cannot be
changed, so the manifest under its own name stays, beside the copy with the final name that readers make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from lancelet.errors import NotSupported, StorageError, UncertainPut
from lancelet.table.manifest.names import NamingScheme, parse_manifest_name
from lancelet.table.registers.external import Entry

if TYPE_CHECKING:
    from lancelet.store import Store

_TREE = "tree/"
_PYLANCE = "lance.namespace"


@dataclass(frozen=True, slots=True)
class NamespaceVersions:
    """The versions of one table, or of one branch of it, in a namespace."""

    can_change: ClassVar[bool] = False
    client: Any
    """Any ``lance_namespace.LanceNamespace``; it has to be picklable where the table is."""
    table_id: tuple[str, ...]
    branch: str | None = None

    def get(self, base: str, version: int) -> Entry | None:
        import lance_namespace as ln

        request = ln.DescribeTableVersionRequest(id=list(self.table_id), branch=self.branch, version=version)
        told = self._told("describe_table_version", request)
        return None if told is None else self._entry(_field(told, "version"))

    def latest(self, base: str) -> Entry | None:
        import lance_namespace as ln

        request = ln.ListTableVersionsRequest(id=list(self.table_id), branch=self.branch, limit=1, descending=True)
        told = self._told("list_table_versions", request)
        entries = [] if told is None else [self._entry(version) for version in _field(told, "versions") or ()]
        return max(entries, key=lambda entry: entry.version, default=None)

    def put_if_absent(self, base: str, entry: Entry) -> bool:
        import lance_namespace as ln

        request = ln.CreateTableVersionRequest(
            id=list(self.table_id),
            branch=self.branch,
            version=entry.version,
            manifest_path=entry.path,
            manifest_size=entry.size,
            naming_scheme=_scheme(entry.path),
        )
        refusals = (
            ln.InvalidInputError,
            ln.NamespaceNotFoundError,
            ln.TableNotFoundError,
            ln.TableBranchNotFoundError,
            ln.PermissionDeniedError,
            ln.UnauthenticatedError,
            ln.UnsupportedOperationError,
        )
        try:
            self._ask("create_table_version", request)
        except ln.ConcurrentModificationError:
            return False
        except refusals as error:
            raise self._failure(error) from error
        except Exception as error:
            # Whatever a client raises, a connection's error or its own: the version may have been made before that.
            raise UncertainPut(self._name, f"{type(error).__name__}: {error}") from error
        return True

    def put_if_present(self, base: str, entry: Entry) -> None:
        raise NotSupported(f"{self._name} makes the versions of its tables, whose manifests cannot get other names")

    def delete(self, base: str, version: int) -> None:
        """Have the namespace forget a version, if it ever does."""
        import lance_namespace as ln
        from lance_namespace_urllib3_client.models.version_range import VersionRange

        gone = VersionRange(start_version=version, end_version=version + 1)
        request = ln.BatchDeleteTableVersionsRequest(id=list(self.table_id), branch=self.branch, ranges=[gone])
        try:
            self._ask("batch_delete_table_versions", request)
        except ln.UnsupportedOperationError:
            return
        except ln.LanceNamespaceError as error:
            raise self._failure(error) from error

    @property
    def _name(self) -> str:
        return f"{self.client.namespace_id()}, table {'.'.join(self.table_id)}"

    def _told(self, method: str, request: Any) -> Any | None:
        """What a question about versions is answered with; None when there is no such version, or no table."""
        import lance_namespace as ln

        try:
            return self._ask(method, request)
        except (ln.TableVersionNotFoundError, ln.TableNotFoundError):
            return None
        except ln.LanceNamespaceError as error:
            raise self._failure(error) from error

    def _ask(self, method: str, request: Any) -> Any:
        # Pylance's own namespaces take these requests as dicts, and answer with dicts.
        takes_dict = type(self.client).__module__ == _PYLANCE and method != "list_table_versions"
        return getattr(self.client, method)(request.to_dict() if takes_dict else request)

    def _failure(self, error: Exception) -> StorageError:
        return StorageError(self._name, f"{type(error).__name__}: {error}")

    def _entry(self, told: Any) -> Entry:
        version, path, size = (_field(told, name) for name in ("version", "manifest_path", "manifest_size"))
        if not isinstance(version, int) or not isinstance(path, str):
            raise StorageError(self._name, f"tells a version without its number or its manifest: {told!r}")
        return Entry(version, path, size)


class ManagedStore:
    """A table's folder, and who makes the table's versions; all else is as in the folder's own store."""

    __slots__ = ("_store", "root", "versions")

    def __init__(self, store: Store, versions: NamespaceVersions, root: Store | None = None) -> None:
        self._store = store
        self.versions = versions
        self.root: Store = cast("Store", self) if root is None else root

    def __reduce__(self) -> tuple[object, ...]:
        root = None if self.root is self else self.root
        return ManagedStore, (self._store, self.versions, root)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def child(self, path: str) -> Store:
        """The store of a folder below this one; that of a branch has versions too."""
        below = self._store.child(path)
        if not path.startswith(_TREE):
            return below
        return cast("Store", ManagedStore(below, replace(self.versions, branch=path.removeprefix(_TREE)), self.root))


def managed_store(store: Store, client: Any, table_id: tuple[str, ...]) -> Store:
    """A table's folder, of whose versions a namespace is in charge."""
    return cast("Store", ManagedStore(store, NamespaceVersions(client, table_id)))


def managed_like(other: Store, store: Store) -> Store:
    """The store of the same folder as another one, in the charge of the same namespace if it is in any."""
    if not isinstance(other, ManagedStore):
        return store
    return cast("Store", ManagedStore(store, other.versions, None if other.root is other else other.root))


def _scheme(path: str) -> str:
    name = parse_manifest_name(path.rpartition("/")[2].partition("-")[0])
    return "V1" if name is not None and name.scheme is NamingScheme.V1 else "V2"


def _field(told: Any, name: str) -> Any:
    """A part of an answer: answers are models, or dicts where requests are."""
    return told.get(name) if isinstance(told, Mapping) else getattr(told, name, None)
