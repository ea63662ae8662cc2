"""Where in a file something is, for error texts."""

from __future__ import annotations

from dataclasses import dataclass

from lancelet.errors import CorruptFile, NotSupported


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which file we are, for error texts."""

    path: str
    where: str = ""

    def corrupt(self, reason: str) -> CorruptFile:
        return CorruptFile(self.path, reason, self.where)

    def unsupported(self, what: str) -> NotSupported:
        return NotSupported(f"{self.path}, {self.where}: {what}; a newer version of lancelet may read it")

    def too_large(self, what: str) -> NotSupported:
        return NotSupported(
            f"{self.path}, {self.where}: {what} does not fit into one Arrow array; read fewer rows at once"
        )
