"""A register of versions: who took which, and where its manifest is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lancelet.table.manifest.names import SUFFIX


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """What a register knows of a version."""

    version: int
    path: str
    """Of the manifest, from the bucket's root; it ends with a uuid until the manifest has its final name."""
    size: int | None = None
    """Bytes of the manifest; old entries do not have it."""

    @property
    def is_staged(self) -> bool:
        return not self.path.endswith(SUFFIX)


class ManifestStore(Protocol):
    """A register with one entry for each version of each table. Picklable, and safe to use from several threads.

    Failures are ``StorageError``; ``UncertainPut`` when it is not known whether an entry was written.
    """

    @property
    def can_change(self) -> bool:
        """Whether entries can be added for versions that are there, and changed; without that they stay as they are."""

    def get(self, base: str, version: int) -> RegisteredVersion | None: ...

    def latest(self, base: str) -> RegisteredVersion | None:
        """The entry with the greatest version."""

    def put_if_absent(self, base: str, entry: RegisteredVersion) -> bool:
        """Add an entry; False when the version has one."""

    def put_if_present(self, base: str, entry: RegisteredVersion) -> None:
        """Replace the entry of a version that has one."""

    def delete(self, base: str, version: int) -> None:
        """Remove the entry of a version; no error when it has none."""


class TableRegister(ManifestStore, Protocol):
    """The register of one table, which the table is opened with."""

    def of_branch(self, name: str) -> TableRegister:
        """That of a branch of the table."""
