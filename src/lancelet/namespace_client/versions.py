"""Tables whose versions a namespace makes: their manifests are published by its requests.

The namespace is a register (:mod:`lancelet.table.registers.protocol`): a commit writes its manifest under a name of its
own and asks ``create_table_version`` to make it the next version; the newest version is what
``list_table_versions`` says, and where one is, ``describe_table_version``. What a namespace was told cannot be
changed, so the manifest under its own name stays, beside the copy with the final name that readers make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from lancelet.errors import NotSupported, StorageError, UncertainPut
from lancelet.namespace_client.models import load_models
from lancelet.table.manifest.names import NamingScheme, parse_manifest_name
from lancelet.table.registers.protocol import RegisteredVersion
from lancelet.table.registers.registered import RegisteredStore

if TYPE_CHECKING:
    from lancelet.namespace_client.tables import Manager
    from lancelet.store import Store

_PYLANCE = "lance.namespace"


@dataclass(frozen=True, slots=True)
class NamespaceVersions:
    """The versions of one table, or of one branch of it, in a namespace."""

    can_change: ClassVar[bool] = False
    client: Any
    """Any ``lance_namespace.LanceNamespace``; it has to be picklable where the table is."""
    table_id: tuple[str, ...]
    branch: str | None = None

    def of_branch(self, name: str) -> NamespaceVersions:
        return replace(self, branch=name)

    def get(self, base: str, version: int) -> RegisteredVersion | None:
        ln = load_models()

        request = ln.DescribeTableVersionRequest(id=list(self.table_id), branch=self.branch, version=version)
        told = self._told("describe_table_version", request)
        return None if told is None else self._entry(_field(told, "version"))

    def latest(self, base: str) -> RegisteredVersion | None:
        ln = load_models()

        request = ln.ListTableVersionsRequest(id=list(self.table_id), branch=self.branch, limit=1, descending=True)
        told = self._told("list_table_versions", request)
        entries = [] if told is None else [self._entry(version) for version in _field(told, "versions") or ()]
        return max(entries, key=lambda entry: entry.version, default=None)

    def put_if_absent(self, base: str, entry: RegisteredVersion) -> bool:
        ln = load_models()

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

    def put_if_present(self, base: str, entry: RegisteredVersion) -> None:
        raise NotSupported(f"{self._name} makes the versions of its tables, whose manifests cannot get other names")

    def delete(self, base: str, version: int) -> None:
        """Have the namespace forget a version, if it ever does."""
        ln = load_models()
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

    def _told(self, method: str, request: object) -> Any | None:
        """What a question about versions is answered with; None when there is no such version, or no table."""
        ln = load_models()

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

    def _entry(self, told: object) -> RegisteredVersion:
        version, path, size = (_field(told, name) for name in ("version", "manifest_path", "manifest_size"))
        if not isinstance(version, int) or not isinstance(path, str):
            raise StorageError(self._name, f"tells a version without its number or its manifest: {told!r}")
        return RegisteredVersion(version, path, size)


def managed_store(store: Store, manager: Manager | None) -> Store:
    """A table's folder, of whose versions a namespace is in charge if there is one."""
    if manager is None:
        return store
    return RegisteredStore(store, NamespaceVersions(manager.client, manager.table_id))


def _scheme(path: str) -> str:
    name = parse_manifest_name(path.rpartition("/")[2].partition("-")[0])
    return "V1" if name is not None and name.scheme is NamingScheme.V1 else "V2"


def _field(told: object, name: str) -> Any:
    """A part of an answer: answers are models, or dicts where requests are."""
    return told.get(name) if isinstance(told, Mapping) else getattr(told, name, None)
