"""What classes of the interface need of a dataset, which they do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.execution.table_reader import TableReader
    from lancelet.table.manifest.snapshot import Snapshot


class Scanned(Protocol):
    """To read its rows."""

    @property
    def table(self) -> TableReader: ...

    @property
    def schema(self) -> pa.Schema: ...


class Movable(Protocol):
    """To change it, and to move it to its new version."""

    @property
    def table(self) -> TableReader: ...

    def _move(self, snapshot: Snapshot) -> None: ...


class Askable(Protocol):
    """To scan it with the options that users give."""

    @property
    def scanner(self) -> Any: ...

    @property
    def count_rows(self) -> Any: ...
