"""Functions that compute new columns, and files that remember what they have computed.

A checkpoint is a SQLite database with two tables, which pylance reads and writes
too::

    batches    (fragment_id, batch_index, result)   pickled results of a fragment in progress
    fragments  (fragment_id, data)                  JSON of fragments whose new file is complete

A batch is numbered by its place in the fragment, in steps of the batch size and
counting deleted rows, so that a run that is taken up again must use the same batch size.
"""

from __future__ import annotations

import io
import os
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lancelet.errors import InvalidInput, StorageError

__all__ = ["BatchUDF", "BatchUDFCheckpoint", "batch_udf"]


class BatchUDF:
    """A function from batches of rows to batches of new columns, see :func:`batch_udf`."""

    def __init__(
        self,
        func: Callable[[pa.RecordBatch], Any],
        output_schema: pa.Schema | None = None,
        checkpoint_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.func = func
        self.output_schema = output_schema
        self.cache = None if checkpoint_file is None else BatchUDFCheckpoint(checkpoint_file)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """What the function returns, as it is."""
        return self.func(batch)


def batch_udf(
    output_schema: pa.Schema | None = None, checkpoint_file: str | os.PathLike[str] | None = None
) -> Callable[[Callable[[pa.RecordBatch], Any]], BatchUDF]:
    """Make a function usable by :meth:`lancelet.LanceDataset.add_columns`.

    Parameters
    ----------
    output_schema
        The columns that the function returns. Without it, the function is called for one row in advance.
    checkpoint_file
        Keeps results until they are committed. When ``add_columns`` failed, another call with the same file does not
        compute them again. The file is removed after success.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"a": [1, 2]}, "memory://docs/udf")
    >>> @batch_udf()
    ... def doubled(batch):
    ...     return pa.record_batch({"b": pa.compute.multiply(batch["a"], 2)})
    >>> dataset.add_columns(doubled)
    >>> dataset.to_table()["b"].to_pylist()
    [2, 4]
    """

    def decorate(func: Callable[[pa.RecordBatch], Any]) -> BatchUDF:
        return BatchUDF(func, output_schema, checkpoint_file)

    return decorate


class BatchUDFCheckpoint:
    """Results of a function that are not committed yet."""

    class BatchInfo(NamedTuple):
        """Which batch of which fragment."""

        fragment_id: int
        batch_index: int

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        with self._open() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS batches (fragment_id INT, batch_index INT, result BLOB)")
            connection.execute("CREATE TABLE IF NOT EXISTS fragments (fragment_id INT, data BLOB)")
            connection.commit()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for every call: connections do not go from thread to thread."""
        try:
            with closing(sqlite3.connect(self.path)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise StorageError(os.fspath(self.path), f"as a checkpoint file: {error}") from None

    def cleanup(self) -> None:
        """Remove the file."""
        Path(self.path).unlink()

    def get_batch(self, info: BatchInfo) -> pa.RecordBatch | None:
        """The result for a batch, if it is known."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT result FROM batches WHERE fragment_id = ? AND batch_index = ?", tuple(info)
            ).fetchone()
        return None if row is None else _unpickled(row[0], self.path)

    def insert_batch(self, info: BatchInfo, batch: pa.RecordBatch) -> None:
        """Remember the result for a batch."""
        with self._open() as connection:
            connection.execute("INSERT INTO batches VALUES (?, ?, ?)", (*info, pickle.dumps(batch)))
            connection.commit()

    def get_fragment(self, fragment_id: int) -> str | None:
        """The JSON of a fragment, if its new file is complete."""
        with self._open() as connection:
            row = connection.execute("SELECT data FROM fragments WHERE fragment_id = ?", (fragment_id,)).fetchone()
        return None if row is None else row[0]

    def insert_fragment(self, fragment_id: int, fragment: str) -> None:
        """Remember a fragment in place of its batches."""
        with self._open() as connection:
            connection.execute("DELETE FROM fragments WHERE fragment_id = ?", (fragment_id,))
            connection.execute("INSERT INTO fragments VALUES (?, ?)", (fragment_id, fragment))
            connection.execute("DELETE FROM batches WHERE fragment_id = ?", (fragment_id,))
            connection.commit()


class _BatchUnpickler(pickle.Unpickler):
    """Makes Arrow data and nothing else, whatever the file says."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "pyarrow" or (module, name) == ("builtins", "bytearray"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _unpickled(data: bytes, path: str | os.PathLike[str]) -> pa.RecordBatch:
    try:
        batch = _BatchUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, TypeError, ValueError) as error:
        raise InvalidInput(f"checkpoint file {os.fspath(path)} holds no batch: {error}; remove it") from error
    if not isinstance(batch, pa.RecordBatch):
        raise InvalidInput(f"checkpoint file {os.fspath(path)} holds {type(batch)} in place of a batch; remove it")
    return batch
