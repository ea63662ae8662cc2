"""Names of file versions."""

from __future__ import annotations

from lancelet.errors import InvalidInput, NotSupported
from lancelet.file.writer import DEFAULT_VERSION, VERSIONS

_KNOWN = ("0.1", "2.0", "2.1", "2.2", "2.3")
_NAMES = {"legacy": "0.1", "0.3": "2.0", "stable": DEFAULT_VERSION, "next": "2.3"}


def stable_version() -> str:
    """The file version that new tables are written in."""
    return DEFAULT_VERSION


def writable_version(name: str) -> str:
    """The file version of this name, if files of it can be written."""
    version = _NAMES.get(name, name)
    if version not in _KNOWN:
        raise InvalidInput(f"there is no file version {name}; choose one of {', '.join(VERSIONS)}")
    if version not in (*VERSIONS, "0.1"):
        raise NotSupported(
            f"files of version {version} can be read, but not written; choose data_storage_version from "
            f"{', '.join(VERSIONS)}"
        )
    return version
