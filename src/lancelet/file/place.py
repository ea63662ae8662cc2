"""How users name a single file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lancelet.errors import NotSupported
from lancelet.store import Store, open_store


def split_place(path: str, storage_options: Mapping[str, str] | None) -> tuple[Store, str]:
    """The folder of a file, and the file's name."""
    folder, slash, name = path.rpartition("/")
    return open_store(folder or ("/" if slash else "."), storage_options), name


def refuse_namespaces(namespace_client: Any, table_id: Sequence[str] | None) -> None:
    """Refuse to look a file up by the name of its table."""
    if namespace_client is not None or table_id is not None:
        raise NotSupported("namespaces are not supported yet; name the file by its path, with its storage_options")
