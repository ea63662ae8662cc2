"""Writing single .lance files, without a table around them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancelet._naming.texts import check_text
from lancelet.errors import InvalidInput, InvalidType, NotSupported, UnfitData
from lancelet.file.place import split_place
from lancelet.file.writer import FileWriter, check_schema, page_size
from lancelet.format.extensions import storage_field
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, writable_version
from lancelet.format.json_fields import with_json
from lancelet.format.schema import schema_from_arrow
from lancelet.namespace_client.tables import vended

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from lancelet.store import Store


class LanceFileWriter:
    """Writes one data file.

    The file is of use after :meth:`close`. As a context it is closed at the end; an error removes it, and so does
    letting go of a writer that was not closed.

    Parameters
    ----------
    path
        A local path or a URI; what is there is replaced.
    schema
        The columns; those of the first batch by default.
    data_cache_bytes, max_page_bytes
        Bytes to collect before pages are written, over all columns and for each.
    version
        The file version, as for :func:`lancelet.write_dataset`.
    storage_options
        See :func:`lancelet.store.open_store`.
    namespace_client, table_id
        A ``LanceNamespace`` and the id of the table whose file it is, for storage options where none are given.

    Examples
    --------
    >>> with LanceFileWriter("memory://docs/single/x.lance") as writer:
    ...     writer.write_batch(pa.table({"x": [1, 2, 3]}))
    >>> writer.size_bytes > 0
    True
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
        max_page_bytes: int | None = None,
        **kwargs: Any,
    ) -> None:
        options = vended(path, storage_options, namespace_client, table_id)
        store, name = split_place(os.fspath(path), options)
        self._open(store, name, schema, data_cache_bytes, version, max_page_bytes, **kwargs)

    @classmethod
    def _at(cls, store: Store, name: str, *how: Any) -> LanceFileWriter:
        """A writer in a store that is open already."""
        made = cls.__new__(cls)
        made._open(store, name, *how)
        return made

    def _open(
        self,
        store: Store,
        name: str,
        schema: pa.Schema | None,
        data_cache_bytes: int | None,
        version: str | None,
        max_page_bytes: int | None,
        keep_original_array: bool | None = None,
    ) -> None:
        for title, number in (("data_cache_bytes", data_cache_bytes), ("max_page_bytes", max_page_bytes)):
            if number is not None and number < (1 if title == "max_page_bytes" else 0):
                raise InvalidInput(f"{title} is a positive number, not {number}")
        self._store = store
        self._name = name
        self._version = DEFAULT_VERSION if version is None else writable_version(version)
        if self._version == LEGACY:
            raise NotSupported("files of version 0.1 are written only within a table; choose a later version")
        self._data_cache_bytes = data_cache_bytes
        self._max_page_bytes = max_page_bytes
        self._schema: pa.Schema | None = None
        self._writer: FileWriter | None = None
        self._left: Any = None
        self._closed = False
        self._buffers: list[bytes] = []
        self._metadata: dict[str, str] = {}
        self.size_bytes: int | None = None
        if schema is not None:
            self._begin(schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._abort()

    @property
    def closed(self) -> bool:
        """Whether the file is complete, or was given up."""
        return self._closed

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows, with the columns of the schema in any order; others are left out."""
        self._check_open()
        if isinstance(batch, pa.Table):
            for part in batch.to_batches():
                self.write_batch(part)
            return
        if not isinstance(batch, pa.RecordBatch):
            raise InvalidType(f"rows come as a pyarrow.RecordBatch or Table, not as {type(batch)}")
        writer = self._writer or self._begin(batch.schema)
        assert self._schema is not None
        writer.write_batch(_fitted(batch, self._schema))

    def close(self) -> int | None:
        """Write what waits and the end of the file; how many rows it has. None when it was closed before."""
        if self._closed:
            return None
        if self._writer is None:
            self._closed = True
            raise InvalidInput(f"{self._store.join(self._name)}: there is neither a schema nor a row, and so no file")
        for key, value in self._metadata.items():
            self._writer.add_schema_metadata(key, value)
        try:
            written = self._writer.finish()
        except BaseException:
            self._abort()
            raise
        self._left.detach()
        self._store.settle([self._name])
        self._closed = True
        self.size_bytes = written.size
        return written.num_rows

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add to the metadata of the file's schema."""
        check_text(key, "a key of metadata")
        check_text(value, f"the metadata of {key!r}")
        self._check_open()
        self._metadata[key] = value

    def add_global_buffer(self, data: bytes) -> int:
        """Store bytes that belong to the whole file; returns their number, from 1 on."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise InvalidType(f"a global buffer is bytes, not {type(data)}")
        self._check_open()
        if self._writer is not None:
            return self._writer.add_global_buffer(bytes(data))
        self._buffers.append(bytes(data))
        return len(self._buffers)

    def _begin(self, schema: pa.Schema) -> FileWriter:
        fields = with_json(schema_from_arrow(schema))
        pages = page_size(len(fields.fields), self._data_cache_bytes, self._max_page_bytes)
        check_schema(fields, self._version)
        self._store.delete(self._name)
        sink = self._store.open_sink(self._name)
        writer = FileWriter(sink, fields, self._version, page_bytes=pages)
        for buffer in self._buffers:
            writer.add_global_buffer(buffer)
        self._schema, self._writer = schema, writer
        # One that is let go before it is closed leaves nothing; one that was finished stays.
        self._left = weakref.finalize(self, writer.abort)
        return writer

    def _abort(self) -> None:
        self._closed = True
        if self._writer is not None:
            self._writer.abort()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInput(f"{self._store.join(self._name)} is closed; open another writer")


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    missing = [name for name in schema.names if name not in batch.schema.names]
    if missing:
        raise UnfitData(f"a batch is missing the column `{missing[0]}`; the file has {schema.names}")
    if batch.schema.names != schema.names:
        batch = batch.select(schema.names)
    for mine, given in zip(schema, batch.schema, strict=True):
        if mine.type != given.type and storage_field(mine).type != storage_field(given).type:
            raise UnfitData(f"column `{mine.name}` is {given.type} in a batch, and {mine.type} in the file")
    return batch
