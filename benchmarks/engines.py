"""Three ways to read the same rows, behind one small interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

Columns = Sequence[str] | None


class Engine(Protocol):
    """What is measured."""

    name: str

    def stream(self, columns: Columns) -> Iterator[pa.RecordBatch]: ...

    def table(self, columns: Columns) -> pa.Table: ...

    def below(self, limit: int, columns: Columns) -> pa.Table:
        """Rows with ``a < limit``."""

    def count_below(self, limit: int) -> int: ...

    def take(self, rows: list[int], columns: Columns) -> pa.Table: ...


class Lance:
    """lancelet or pylance: both have the same interface."""

    def __init__(self, name: str, module: Any, uri: str, options: dict[str, str] | None = None) -> None:
        self.name = name
        self._dataset = module.dataset(uri, storage_options=options)

    def stream(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        return iter(self._dataset.to_batches(columns))

    def table(self, columns: Columns) -> pa.Table:
        return self._dataset.to_table(columns)

    def below(self, limit: int, columns: Columns) -> pa.Table:
        return self._dataset.to_table(columns, filter=f"a < {limit}")

    def count_below(self, limit: int) -> int:
        return self._dataset.count_rows(f"a < {limit}")

    def take(self, rows: list[int], columns: Columns) -> pa.Table:
        return self._dataset.take(rows, columns)


class Parquet:
    """The same table as one Parquet file, through pyarrow.dataset."""

    def __init__(self, path: str, filesystem: Any = None) -> None:
        self.name = "Parquet"
        self._dataset = pads.dataset(path, format="parquet", filesystem=filesystem)

    def stream(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        return iter(self._dataset.to_batches(columns=columns))

    def table(self, columns: Columns) -> pa.Table:
        return self._dataset.to_table(columns=columns)

    def below(self, limit: int, columns: Columns) -> pa.Table:
        return self._dataset.to_table(columns=columns, filter=pc.field("a") < limit)

    def count_below(self, limit: int) -> int:
        return self._dataset.count_rows(filter=pc.field("a") < limit)

    def take(self, rows: list[int], columns: Columns) -> pa.Table:
        return self._dataset.take(pa.array(rows), columns=columns)
