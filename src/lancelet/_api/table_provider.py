"""A table for engines that ask datasets of pyarrow: columns and filters go down to the scan.

::

    DataFusion, DuckDB ── scanner(columns, filter) ──> LanceTableProvider ── scanner(...) ──> LanceDataset
                          get_fragments(filter)        one piece, read in parallel inside
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads

from lancelet.errors import NotSupported
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lancelet._api.protocols import Askable
    from lancelet._api.scanner import LanceScanner


class FFILanceTableProvider(pads.Dataset):  # type: ignore[misc]
    """A table to register with an engine, for example with a ``SessionContext`` of DataFusion.

    Parameters
    ----------
    dataset
        The table.
    with_row_id, with_row_addr
        Whether it has the columns ``_rowid`` and ``_rowaddr`` too.
    options
        Further options of its scans.

    Examples
    --------
    >>> import lancelet
    >>> from datafusion import SessionContext
    >>> context = SessionContext()
    >>> kelp = lancelet.write_dataset({"id": [1, 2, 3]}, "memory://docs/provider")
    >>> context.register_table("kelp", FFILanceTableProvider(kelp))
    >>> context.sql("SELECT sum(id) AS all FROM kelp WHERE id > 1").to_pydict()
    {'all': [5]}
    """

    def __init__(
        self, dataset: Askable, *, with_row_id: bool = False, with_row_addr: bool = False, **options: Any
    ) -> None:
        self._dataset = dataset
        self._options = {**options, "with_row_id": with_row_id, "with_row_address": with_row_addr}
        self._columns: pa.Schema = dataset.scanner(**self._options).projected_schema

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._columns

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **options: Any,
    ) -> LanceScanner:
        """Rows and columns that an engine asks for."""
        names = self._columns.names if columns is None else list(columns)
        rows = {option: column in names for option, column in _ROW_COLUMNS.items() if self._options[option]}
        plain = [name for name in names if name not in _ROW_COLUMNS.values()]
        size = {"batch_size": options["batch_size"]} if "batch_size" in options else {}
        options = {**size, **self._options, **rows, "columns": plain, "filter": filter}
        found: LanceScanner = self._dataset.scanner(**options)
        return found

    def get_fragments(self, filter: pc.Expression | None = None) -> list[_Whole]:  # noqa: A002
        """The table as one piece: its scan reads several fragments at a time already."""
        return [_Whole(self)]

    def count_rows(self, filter: pc.Expression | None = None, **_: Any) -> int:  # noqa: A002
        """The number of rows, all or those that a filter is true for."""
        return int(self._dataset.count_rows(filter))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Not for engines: the dataset itself has it."""
        raise NotSupported("a table provider is only scanned; the dataset itself has more")

    to_table = to_batches = take = head = filter = sort_by = join = join_asof = replace_schema = _refuse

    @property
    def partition_expression(self) -> None:
        """Nothing is known of all rows."""
        return

    def __reduce__(self) -> NoReturn:
        self._refuse()


_ROW_COLUMNS = {"with_row_id": ROW_ID, "with_row_address": ROW_ADDRESS}


class _Whole:
    """What engines take for a fragment of a dataset."""

    def __init__(self, provider: FFILanceTableProvider) -> None:
        self._provider = provider

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> LanceScanner:
        return self._provider.scanner(**options)
