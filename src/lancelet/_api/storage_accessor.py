"""The storage options of a dataset, under pylance's names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

_REFRESH_SECONDS = 60


@dataclass(frozen=True, slots=True)
class StorageOptionsAccessor:
    """Options that were given when a dataset was opened. They stay as they are: nothing provides new ones."""

    options: Mapping[str, str]

    @staticmethod
    def with_static_options(options: Mapping[str, str]) -> StorageOptionsAccessor:
        """Options that do not change."""
        return StorageOptionsAccessor(dict(options))

    def get_storage_options(self) -> dict[str, str]:
        """The options that hold now."""
        return dict(self.options)

    def initial_storage_options(self) -> dict[str, str]:
        """The options that were given."""
        return dict(self.options)

    def has_provider(self) -> bool:
        """Whether new options come when the old ones run out."""
        return False

    def refresh_offset_secs(self) -> int:
        """How long before they run out new options would be asked for."""
        return _REFRESH_SECONDS

    def accessor_id(self) -> str:
        """The same for the same options; does not tell them."""
        text = "\0".join(f"{key}\0{value}" for key, value in sorted(self.options.items()))
        return f"static_options_{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def __repr__(self) -> str:
        return f"StorageOptionsAccessor(id={self.accessor_id()}, has_provider=false)"
