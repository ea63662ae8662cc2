"""Binary columns that are in memory, value by value as files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from lancelet.errors import InvalidInput

if TYPE_CHECKING:
    from typing_extensions import Self


class BlobIterator:
    """The values of a binary column as files; see :class:`BlobColumn`."""

    def __init__(self, binary_iter: Iterator[pa.Scalar]) -> None:
        self.binary_iter = binary_iter

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> IO[bytes]:
        return io.BytesIO(next(self.binary_iter).as_py())


class BlobColumn:
    """A binary column of Arrow whose values are wanted as files. A null is a file without bytes.

    Blobs that are in a table are better read with :meth:`lancelet.LanceDataset.take_blobs`, which does not need them
    in memory.

    Examples
    --------
    >>> [file.read() for file in BlobColumn(pa.array([b"a", b"bc"]))]
    [b'a', b'bc']
    """

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray) -> None:
        if not isinstance(blob_column, (pa.Array, pa.ChunkedArray)):
            raise InvalidInput(f"a column is an array of pyarrow, not {type(blob_column)}")
        if not (pa.types.is_binary(blob_column.type) or pa.types.is_large_binary(blob_column.type)):
            raise InvalidInput(f"a column of binary values is wanted, not of {blob_column.type}")
        self.blob_column = blob_column

    def __iter__(self) -> BlobIterator:
        return BlobIterator(iter(self.blob_column))
