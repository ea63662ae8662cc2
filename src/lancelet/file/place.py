"""How users name a single file."""

from __future__ import annotations

from collections.abc import Mapping

from lancelet.store import Store, open_store


def split_place(path: str, storage_options: Mapping[str, str] | None) -> tuple[Store, str]:
    """The folder of a file, and the file's name."""
    folder, slash, name = path.rpartition("/")
    return open_store(folder or ("/" if slash else "."), storage_options), name
