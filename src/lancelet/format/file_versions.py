"""The versions of data files: their names, the names that users know them by, and their numbers.

Versions compare as their names do. A footer and a manifest number two of them differently
(spec file-format.md 1)::

    name     footer            manifest
    0.1      0.0, 0.1, 0.2     the same     "legacy"
    2.0      0.3               2.0
    2.1      2.1               2.1
    2.2      2.2               2.2          "stable", what new tables are written in
    2.3      2.3               2.3          "next", can be read only
"""

from __future__ import annotations

from lancelet.errors import InvalidInput, NotSupported

LEGACY = "0.1"
V2_0, V2_1, V2_2, V2_3 = "2.0", "2.1", "2.2", "2.3"
VERSIONS = (V2_0, V2_1, V2_2)
"""Those that can be chosen for new files. Legacy files are written for tables that have them already."""
DEFAULT_VERSION = V2_2

_KNOWN = (LEGACY, *VERSIONS, V2_3)
_ALIASES = {"legacy": LEGACY, "0.3": V2_0, "stable": DEFAULT_VERSION, "next": V2_3}
_BY_NUMBERS = {(0, 0): LEGACY, (0, 1): LEGACY, (0, 2): LEGACY, (0, 3): V2_0} | {
    (int(name[0]), int(name[2])): name for name in _KNOWN if name != LEGACY
}


def stable_version() -> str:
    """The file version that new tables are written in."""
    return DEFAULT_VERSION


def plain_name(name: str) -> str:
    """The version's own name, for any that it is known by; a name that no version has stays as it is."""
    return _ALIASES.get(name, name)


def writable_version(name: str) -> str:
    """The file version of this name, if files of it can be written."""
    version = plain_name(name)
    if version not in _KNOWN:
        raise InvalidInput(f"there is no file version {name}; choose one of {', '.join(VERSIONS)}")
    if not is_writable(version):
        raise NotSupported(
            f"files of version {version} can be read, but not written; choose data_storage_version from "
            f"{', '.join(VERSIONS)}"
        )
    return version


def is_writable(version: str) -> bool:
    return version in VERSIONS or version == LEGACY


def version_numbered(major: int, minor: int) -> str | None:
    """The version that a footer or a manifest numbers so; None for a number that no version has."""
    return _BY_NUMBERS.get((major, minor))


def footer_numbers(version: str) -> tuple[int, int]:
    """What a footer of 2.0 or later says."""
    return (0, 3) if version == V2_0 else manifest_numbers(version)


def manifest_numbers(version: str) -> tuple[int, int]:
    """What a manifest says of a file."""
    major, _, minor = version.partition(".")
    return int(major), int(minor)
