"""Writing rows to all shards of a table through its log: what :meth:`lancelet.LanceDataset.writer` gives, plain or async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lancelet.errors import LanceletError, PartialPut
from lancelet.memwal.routing import Router
from lancelet.memwal.writer import Acknowledgement
from lancelet.runtime.threads import Pool

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from lancelet._api.lsm_scanner import LsmScanner
    from lancelet.memwal.view import ShardView

    Scan = Callable[[Sequence[ShardView]], LsmScanner]
    """Makes a scanner of the newest version with shards of which the writer knows best."""

T = TypeVar("T")
_CALLS = Pool("lancelet-memwal-call", 32)


class TableWriter:
    """Writes rows to the shards that they belong to. A context, plain or asynchronous, that closes it at the end.

    Examples
    --------
    >>> import lancelet, pyarrow as pa
    >>> key = {"lance-schema:unenforced-primary-key": "true"}
    >>> schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=key), pa.field("x", pa.string())])
    >>> dataset = lancelet.write_dataset(pa.table({"id": [1], "x": ["a"]}, schema), "memory://docs/table_writer")
    >>> dataset.initialize_mem_wal(bucket_column="id", num_buckets=2)
    >>> with dataset.writer() as writer:
    ...     done = writer.put({"id": [2, 3], "x": ["b", "c"]})
    ...     done = writer.delete({"id": [1]})
    ...     sorted(writer.lsm_scanner().to_table()["id"].to_pylist())
    [2, 3]
    >>> done.is_durable
    True
    >>> sorted(dataset.lsm_scanner().to_table()["id"].to_pylist())
    [2, 3]

    Puts of an asynchronous context are awaited; those that wait at the same time go to the log together:

    >>> import asyncio
    >>> async def write():
    ...     async with dataset.writer() as writer:
    ...         await asyncio.gather(*(writer.put({"id": [number], "x": ["new"]}) for number in range(10, 15)))
    >>> asyncio.run(write())
    >>> dataset.lsm_scanner().count_rows()
    7
    """

    def __init__(self, router: Router, scan: Scan) -> None:
        self._router = router
        self._scan = scan

    def put(self, data: Any, *, schema: pa.Schema | None = None) -> Acknowledgements:
        """Write rows. With ``durable_write``, the default, they are in the log when this returns."""
        return self._settled(self._router.put(data, schema))

    def delete(self, keys: Any, *, schema: pa.Schema | None = None) -> Acknowledgements:
        """Delete rows by their primary keys."""
        return self._settled(self._router.delete(keys, schema))

    def _settled(self, parts: Sequence[Acknowledgement]) -> Acknowledgements:
        done = Acknowledgements(parts)
        if self._router.waits or any(part.has_failed for part in parts):
            done.wait()
        return done

    def flush(self) -> None:
        """Have all rows of the shards that this writer has written to in runs: others see them then without reading logs."""
        self._router.flush()

    def close(self) -> None:
        """Have all rows in runs, and take no more."""
        self._router.close()

    def lsm_scanner(self) -> LsmScanner:
        """A scanner of the newest version with all that this writer has in its logs so far, and the runs of other shards."""
        return self._scan(self._router.views())

    def stats(self) -> dict[str, dict[str, int]]:
        """What was written to each shard."""
        return {writer.shard_id: writer.stats() for writer in self._router.writers}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncTableWriter:
        return AsyncTableWriter(self._router, self._scan)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await _outside(self._router.close)


class Acknowledgements:
    """What becomes of a put: its rows may go to several shards.

    Examples
    --------
    >>> Acknowledgements([]).is_durable
    True
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Acknowledgement]) -> None:
        self._parts = tuple(parts)

    @property
    def is_durable(self) -> bool:
        """Whether all rows are in the logs."""
        return all(part.is_durable for part in self._parts)

    def wait(self) -> None:
        """Wait until all rows are in the logs; raises what kept some out, and where some are in, :class:`PartialPut`."""
        errors: dict[str, LanceletError] = {}
        for part in self._parts:
            try:
                part.wait()
            except LanceletError as error:
                errors[part.shard_id] = error
        if errors:
            first = next(iter(errors.values()))
            durable = [part.shard_id for part in self._parts if part.is_durable]
            if not durable:
                raise first
            raise PartialPut(durable, list(errors), str(first)) from first


class AsyncTableWriter:
    """What ``async with dataset.writer()`` gives: the same as :class:`TableWriter`, to be awaited.

    Examples
    --------
    See :class:`TableWriter`.
    """

    def __init__(self, router: Router, scan: Scan) -> None:
        self._router = router
        self._scan = scan

    async def put(self, data: Any, *, schema: pa.Schema | None = None) -> Acknowledgements:
        """Write rows; awaited, they are in the log."""
        return await _outside(lambda: self._durable(self._router.put(data, schema)))

    async def delete(self, keys: Any, *, schema: pa.Schema | None = None) -> Acknowledgements:
        """Delete rows by their primary keys; awaited, that is in the log."""
        return await _outside(lambda: self._durable(self._router.delete(keys, schema)))

    async def flush(self) -> None:
        """Have all rows in runs."""
        await _outside(self._router.flush)

    def lsm_scanner(self) -> LsmScanner:
        """A scanner of the newest version with all that this writer has in its logs so far, and the runs of other shards."""
        return self._scan(self._router.views())

    def _durable(self, parts: Sequence[Acknowledgement]) -> Acknowledgements:
        done = Acknowledgements(parts)
        done.wait()
        return done


async def _outside(work: Callable[[], T]) -> T:
    """Do work that waits on a thread apart."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(value) if error is None else future.set_exception(error)

    def run() -> None:
        try:
            value, failure = work(), None
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            value, failure = None, error
        loop.call_soon_threadsafe(tell, value, failure)

    _CALLS.submit(run)
    return await future
