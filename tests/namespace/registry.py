"""A namespace of another maker: it knows its tables' versions itself, in a dict."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance_namespace as ln
from lance_namespace_urllib3_client.models.create_table_version_response import CreateTableVersionResponse
from lance_namespace_urllib3_client.models.describe_table_version_response import DescribeTableVersionResponse
from lance_namespace_urllib3_client.models.list_table_versions_response import ListTableVersionsResponse

_VERSIONS: dict[str, dict[str, dict[int, ln.TableVersion]]] = defaultdict(lambda: defaultdict(dict))
_LOCK = threading.Lock()


class Registry(ln.LanceNamespace):
    """Tables are folders of ``root``; a version is there once :meth:`create_table_version` has been told of it.

    What it knows belongs to the root, so that copies and unpickled ones know it too.
    """

    def __init__(self, root: Path, *, finishes: bool = False, storage_options: dict[str, str] | None = None) -> None:
        self.root = root
        self.finishes = finishes
        self.storage_options = storage_options
        self.asked: list[str] = []
        self.before: Callable[[Any], None] | None = None
        self.after: Callable[[Any], None] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Registry, (self.root,)

    def namespace_id(self) -> str:
        return f"Registry({self.root})"

    def versions(self, *table: str, branch: str | None = None) -> dict[int, ln.TableVersion]:
        return _VERSIONS[str(self.root)]["$".join(table) + (f"@{branch}" if branch else "")]

    def declare_table(self, request: ln.DeclareTableRequest) -> ln.DeclareTableResponse:
        self.asked.append("declare_table")
        return ln.DeclareTableResponse(
            location=self._place(request), managed_versioning=True, storage_options=self.storage_options
        )

    def describe_table(self, request: ln.DescribeTableRequest) -> ln.DescribeTableResponse:
        self.asked.append("describe_table")
        if not Path(self._place(request)).exists():
            raise ln.TableNotFoundError(f"there is no table {request.id}")
        return ln.DescribeTableResponse(
            location=self._place(request), managed_versioning=True, storage_options=self.storage_options
        )

    def create_table_version(self, request: Any) -> Any:
        """Lance's own clients ask with dicts that have ``model_dump``, and want dicts."""
        self.asked.append("create_table_version")
        asked = _dict(request)
        if self.before is not None:
            self.before(asked)
        made = ln.TableVersion(
            version=asked["version"], manifest_path=asked["manifest_path"], manifest_size=asked["manifest_size"]
        )
        with _LOCK:
            known = self.versions(*asked["id"], branch=asked.get("branch"))
            if made.version in known:
                raise ln.ConcurrentModificationError(f"version {made.version} is taken")
            if made.version != max(known, default=0) + 1 and known:
                raise ln.ConcurrentModificationError(f"version {made.version} does not follow {max(known)}")
            if self.finishes:
                made.manifest_path = self._finished(made.manifest_path)
            known[made.version] = made
        if self.after is not None:
            self.after(asked)
        return _answer(request, CreateTableVersionResponse(version=made))

    def list_table_versions(self, request: Any) -> Any:
        self.asked.append("list_table_versions")
        asked = _dict(request)
        known = self.versions(*asked["id"], branch=asked.get("branch"))
        chosen = [known[n] for n in sorted(known, reverse=bool(asked.get("descending")))][: asked.get("limit")]
        return _answer(request, ListTableVersionsResponse(versions=chosen))

    def describe_table_version(self, request: Any) -> Any:
        self.asked.append("describe_table_version")
        asked = _dict(request)
        known = self.versions(*asked["id"], branch=asked.get("branch"))
        if asked["version"] not in known:
            raise ln.TableVersionNotFoundError(f"there is no version {asked['version']}")
        return _answer(request, DescribeTableVersionResponse(version=known[asked["version"]]))

    def batch_delete_table_versions(self, request: Any) -> Any:
        self.asked.append("batch_delete_table_versions")
        asked = _dict(request)
        known = self.versions(*asked["id"], branch=asked.get("branch"))
        gone = [n for n in known for span in asked["ranges"] if span["start_version"] <= n < span["end_version"]]
        for number in gone:
            del known[number]
        return ln.BatchDeleteTableVersionsResponse(deleted_count=len(gone))

    def _place(self, request: Any) -> str:
        return str(self.root / "$".join(request.id))

    def _finished(self, manifest: str) -> str:
        staged = Path("/" + manifest)
        final = staged.with_name(staged.name.partition("-")[0])
        staged.rename(final)
        return str(final).lstrip("/")


def _dict(request: Any) -> dict[str, Any]:
    return dict(request) if isinstance(request, dict) else request.to_dict()


def _answer(request: Any, response: Any) -> Any:
    return response.to_dict() if isinstance(request, dict) else response
