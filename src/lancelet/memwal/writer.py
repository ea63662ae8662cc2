"""Writing to a shard from any number of threads: puts that go to the log together, MemTables flushed beside them.

A put that waits for the log goes there at once if nobody is writing; while somebody is, puts gather, and the next of them to get
the log takes them all in one entry. Puts that do not wait gather up to a size and for a time. What waits for its turn to become
a run is bounded: above that, puts wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancelet.errors import LanceletError, MemWalEnded, ShardSealed, WriterClosed, WriterFenced
from lancelet.log import LOGGER
from lancelet.memwal.incoming import check_columns, check_place, rows_to_delete, rows_to_put, total_bytes
from lancelet.memwal.shard import Shard
from lancelet.runtime.interrupts import deferred
from lancelet.runtime.threads import Pool, Task

if TYPE_CHECKING:
    from types import TracebackType
    from uuid import UUID

    from typing_extensions import Self

    from lancelet.memwal.config import WriterConfig
    from lancelet.table.manifest.snapshot import Snapshot

_FLUSHES = Pool("lancelet-memwal-flush", 4)
_TIMERS = Pool("lancelet-memwal-timer", 64)


class Acknowledgement:
    """What becomes of a put: whether its rows are in the log.

    Examples
    --------
    >>> Acknowledgement().is_durable
    False
    """

    __slots__ = ("_batches", "_done", "_error", "_writer")

    def __init__(self, batches: Sequence[pa.RecordBatch] = (), writer: ShardWriter | None = None) -> None:
        self._batches = batches
        self._writer = writer
        self._done = False
        self._error: BaseException | None = None

    @property
    def is_durable(self) -> bool:
        """Whether the rows are in the log."""
        return self._done and self._error is None

    @property
    def has_failed(self) -> bool:
        """Whether the rows did not get into the log, or nobody knows."""
        return self._error is not None

    @property
    def shard_id(self) -> str:
        """The shard that the rows are for."""
        return "" if self._writer is None else self._writer.shard_id

    def wait(self) -> None:
        """Wait until the rows are in the log; raises what kept them out of it."""
        if not self._done and self._writer is not None:
            self._writer._write_until(self)
        if self._error is not None:
            raise self._error
        if not self._done:
            raise WriterClosed("a put was given up before its rows were in the log; put them again")

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        self._batches = ()
        self._done = True


class ShardWriter:
    """The writer of one shard. It can be used by several threads at once, and as a context that closes it."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._config = shard.config
        self._lock = threading.Lock()
        self._log_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._waiting: list[Acknowledgement] = []
        self._waiting_bytes = 0
        self._broken: BaseException | None = None
        self._closed = False
        self._ended = threading.Event()
        self._timer: Task[None] | None = None
        self._flush: Task[None] | None = None
        self._warned = 0.0
        self._told = time.monotonic()
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._times = dict.fromkeys(_TIMES, 0.0)

    @classmethod
    def open(
        cls,
        base: Snapshot,
        shard: UUID,
        config: WriterConfig,
        field_values: tuple[tuple[str, bytes], ...] = (),
    ) -> Self:
        """Claim a shard; its earlier writer is fenced."""
        base = base.latest()
        check_columns(base)
        return cls(Shard.claim(base, shard, config, field_values))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shard.states.store.uri!r}, epoch={self._shard.epoch})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def shard(self) -> Shard:
        return self._shard

    @property
    def shard_id(self) -> str:
        """The shard, as the text of a UUID."""
        return str(self._shard.id)

    # Puts

    def put(self, data: Any, *, schema: pa.Schema | None = None) -> None:
        """Write rows. With ``durable_write`` they are in the log afterwards.

        Parameters
        ----------
        data
            Whatever :func:`lancelet.write_dataset` takes. Columns are found by name, and those that can be null may be
            missing.
        schema
            The columns of an iterable of batches.
        """
        self._accept(rows_to_put(self._shard.base, self._shard.schema, data, schema))

    def delete(self, keys: Any, *, schema: pa.Schema | None = None) -> None:
        """Delete rows by their primary keys, whether they are there or not; other columns do not matter."""
        self._accept(rows_to_delete(self._shard.base, self._shard.key, self._shard.schema, keys, schema))

    def submit(self, batches: Sequence[pa.RecordBatch]) -> Acknowledgement:
        """Hand in rows in the columns of the log; does not wait for it."""
        began = time.perf_counter()
        self._hold_back()
        ticket = Acknowledgement(batches, self)
        with self._lock:
            self.check_open()
            self._counts["put_count"] += 1
            if not batches:
                ticket._end(None)
                return ticket
            self._waiting.append(ticket)
            self._waiting_bytes += total_bytes(batches)
            is_full = self._waiting_bytes >= self._config.max_wal_buffer_size
        if not self._config.durable_write:
            if is_full:
                self._write_until(ticket)
            else:
                self._start_timer()
        self._times["put_time_ms"] += time.perf_counter() - began
        return ticket

    def refused(self, error: LanceletError) -> Acknowledgement:
        """What becomes of rows that could not be handed in."""
        ticket = Acknowledgement((), self)
        ticket._end(error)
        return ticket

    def _accept(self, batches: Sequence[pa.RecordBatch]) -> None:
        shard = self._shard
        check_place(shard.details, shard.base.manifest.schema, shard.manifest.field_values, batches)
        ticket = self.submit(batches)
        if self._config.durable_write:
            ticket.wait()

    def check_open(self) -> None:
        """Raise when no more rows can be handed in."""
        if self._broken is not None:
            raise WriterClosed(
                f"the writer of {self._shard.states.store.uri} cannot go on after an error: {self._broken}"
            ) from self._broken
        if self._closed:
            raise WriterClosed(f"ShardWriter of {self._shard.states.store.uri} is already closed; open another")

    def _write_until(self, ticket: Acknowledgement | None) -> None:
        """Write what waits for the log, until a put is done; without one, all that waits now."""
        while ticket is None or not ticket._done:
            with self._log_lock:
                if ticket is not None and ticket._done:
                    return
                # An interrupt in between would leave puts that nobody writes.
                with deferred():
                    group = self._take_group()
                    if not group:
                        return
                    self._write_group(group)

    def _take_group(self) -> list[Acknowledgement]:
        """The puts that go into the next entry, as many as fit, and at least one."""
        with self._lock:
            group: list[Acknowledgement] = []
            size = 0
            while self._waiting:
                more = total_bytes(self._waiting[0]._batches)
                if group and size + more > self._config.max_wal_buffer_size:
                    break
                group.append(self._waiting.pop(0))
                size += more
            self._waiting_bytes -= size
        return group

    def _write_group(self, group: Sequence[Acknowledgement]) -> None:
        began = time.perf_counter()
        batches = [batch for ticket in group for batch in ticket._batches]
        try:
            if self._broken is not None:
                self.check_open()
            size = self._shard.append(batches)
        except BaseException as error:
            # Whatever it was, what the log has is not known well enough to go on.
            with self._lock:
                self._broken = self._broken or error
                left, self._waiting, self._waiting_bytes = self._waiting, [], 0
            for ticket in (*group, *left):
                ticket._end(error)
            if not isinstance(error, LanceletError):
                raise
            return
        for ticket in group:
            ticket._end(None)
        self._counts["wal_flush_count"] += 1
        self._counts["wal_flush_bytes"] += size
        self._times["wal_flush_time_ms"] += time.perf_counter() - began
        self._tell()
        if self._shard.is_full and self._shard.freeze():
            self._start_flush()

    def _tell(self) -> None:
        """Log what was done so far, at most as often as the settings say."""
        now = time.monotonic()
        if (now - self._told) * 1000 >= self._config.stats_log_interval_ms:
            self._told = now
            LOGGER.info("writer of %s: %s", self._shard.states.store.uri, self.stats())

    def _start_timer(self) -> None:
        """Have what waits written when its time has come."""
        with self._lock:
            if self._timer is None:
                self._timer = _TIMERS.submit(self._write_later)

    def _write_later(self) -> None:
        self._ended.wait(self._config.max_wal_flush_interval_ms / 1000)
        with self._lock:
            # Whoever comes from now on needs a timer of its own: this one may have looked already.
            self._timer = None
        self._write_until(None)

    # Runs

    def _hold_back(self) -> None:
        """Wait while more is in memory than the settings allow."""
        while self._shard.unflushed_bytes > self._config.max_unflushed_memtable_bytes:
            now = time.monotonic()
            if (now - self._warned) * 1000 > self._config.backpressure_log_interval_ms:
                self._warned = now
                LOGGER.warning("puts to %s wait for runs to be written", self._shard.states.store.uri)
            with self._log_lock:
                self._shard.freeze()
            self._flush_frozen()

    def _start_flush(self) -> None:
        with self._lock:
            if self._flush is None:
                self._flush = _FLUSHES.submit(self._flush_quietly)

    def _flush_quietly(self) -> None:
        """A run that could not be written is written with the next one, or told of when the writer is closed."""
        with self._lock:
            self._flush = None
        try:
            self._flush_frozen()
        except (WriterFenced, ShardSealed, MemWalEnded) as error:
            with self._lock:
                self._broken = self._broken or error
        except LanceletError as error:
            LOGGER.warning("a run of %s could not be written yet: %s", self._shard.states.store.uri, error)

    def _flush_frozen(self) -> None:
        with self._flush_lock, deferred():
            while self._shard.frozen:
                began = time.perf_counter()
                try:
                    run = self._shard.flush()
                except BaseException:
                    self._counts["memtable_flush_failures"] += 1
                    raise
                assert run is not None
                self._counts["memtable_flush_count"] += 1
                self._counts["memtable_flush_rows"] += run.physical_rows or 0
                self._times["memtable_flush_time_ms"] += time.perf_counter() - began

    def flush(self) -> None:
        """Have all rows in a run: others see them then without reading the log."""
        self.check_open()
        self._settle()

    def _settle(self) -> None:
        self._write_until(None)
        if self._broken is not None:
            raise self._broken
        with self._log_lock:
            self._shard.freeze()
        self._flush_frozen()

    def close(self) -> None:
        """Write what waits, make a run of what is in memory, and take no more rows. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._ended.set()
        self._settle()

    def abandon(self) -> None:
        """Take no more rows, and leave those in the log to whoever claims the shard next."""
        with self._lock:
            self._closed = True
        self._ended.set()

    # Statistics

    def stats(self) -> dict[str, int]:
        """What was done so far, and in how many milliseconds."""
        return {**self._counts, **{name: int(seconds * 1000) for name, seconds in self._times.items()}}

    def memtable_stats(self) -> dict[str, int]:
        """What is in memory."""
        shard = self._shard
        frozen = list(shard.frozen)
        return {
            "row_count": shard.active.num_rows,
            "batch_count": shard.active.num_batches,
            "estimated_size_bytes": shard.active.nbytes,
            "generation": shard.active.generation,
            "frozen_count": len(frozen),
            "frozen_bytes": sum(one.nbytes for one in frozen),
            "pending_wal_batch_count": len(self._waiting),
            "pending_wal_estimated_bytes": self._waiting_bytes,
        }


_COUNTS = (
    "put_count",
    "wal_flush_count",
    "wal_flush_bytes",
    "memtable_flush_count",
    "memtable_flush_rows",
    "memtable_flush_failures",
)
_TIMES = ("put_time_ms", "wal_flush_time_ms", "memtable_flush_time_ms")
