"""The threads of this process, of which no other module makes any.

``concurrent.futures`` waits for its threads at the end of the process and takes locks in Python code, which an interrupt can
leave locked: a thread that was just being started then never begins, and the process never ends. Here

- threads are such that a process does not wait for them; one that ends gives work that runs a moment to come to an end;
- all locks are taken by single calls into C, which an interrupt comes before or after;
- a consumer that leaves cancels what has not begun, and can wait for what has.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from lancelet.runtime.interrupts import check, deferred, wait_for

__all__ = ["Abandoned", "Pool", "Task", "checkpoint", "core_count", "outside"]

P = ParamSpec("P")
R = TypeVar("R")

_LAST = 1.0
"""How many seconds a process that ends waits for work that runs."""


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Abandoned(BaseException):
    """Raised in work of which nobody wants the result any more."""


def checkpoint() -> None:
    """Stop here if that is wanted: long work calls this where nothing is half done."""
    task = _RUNNING.get(get_ident())
    if task is None:
        check()
    elif task.abandoned:
        raise Abandoned


class Task(Generic[R]):
    """Work for a pool, and what comes of it."""

    __slots__ = ("_claim", "_done", "_error", "_value", "_work", "abandoned", "done")

    def __init__(self, work: Callable[[], R]) -> None:
        self._work: Callable[[], R] | None = work
        self._claim = allocate_lock()
        self._done = allocate_lock()
        self._done.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self.done = False
        """Whether it has run, or never will."""
        self.abandoned = False

    def run(self) -> None:
        """Do the work, unless it was cancelled; for threads of a pool."""
        if not self._claim.acquire(False):
            return
        work, self._work = self._work, None
        assert work is not None
        _RUNNING[get_ident()] = self
        try:
            self._value = work()
        except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
            self._error = error
        finally:
            # What the work refers to is let go before anybody who waits for it goes on.
            del work, _RUNNING[get_ident()]
            self.done = True
            self._done.release()

    def cancel(self) -> None:
        """Do not begin; if it has begun, end at the next :func:`checkpoint`."""
        self.abandoned = True
        if self._claim.acquire(False):
            self._work = None
            self.done = True
            self._done.release()

    def join(self, seconds: float = -1) -> None:
        """Wait for the end, for ever or for some seconds."""
        if not self.done and wait_for(self._done, seconds):
            self._done.release()

    def result(self) -> R:
        """Wait for the result, or raise what the work raised."""
        self.join()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # The traceback refers to this frame, and what it refers to would outlive the error.
                del error
        value: R = self._value
        return value


class Pool:
    """Threads that do work in the order in which it comes. Work must not wait for other work of the same pool.

    Examples
    --------
    >>> Pool("docs", 2).submit(len, "abc").result()
    3
    """

    __slots__ = ("_gone", "_name", "_queue", "_threads", "size")

    def __init__(self, name: str, size: int) -> None:
        self.size = size
        self._name = name
        self._begin()
        _POOLS.append(self)

    def _begin(self) -> None:
        """Without threads, as a forked child is too."""
        self._queue: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self._gone: SimpleQueue[int] = SimpleQueue()
        self._threads: set[int] = set()

    def submit(self, work: Callable[P, R], *args: P.args, **named: P.kwargs) -> Task[R]:
        """Have work done by one of the threads."""
        task: Task[R] = Task(partial(work, *args, **named))
        self._queue.put(task)
        if len(self._threads) < self.size:
            try:
                self._threads.add(start_new_thread(self._work, ()))
            except RuntimeError:
                # The system has no more threads for us; fewer do.
                if not self._threads:
                    task.run()
        return task

    def call(self, work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Do work that waits for others, so that an interrupt of the main thread is heard meanwhile.

        It goes on without us then: for work whose result is all that it has.
        """
        if get_ident() != threading.main_thread().ident:
            return work(*args, **named)
        return self.submit(work, *args, **named).result()

    def finish(self, work: Callable[[], R], seconds: float) -> R:
        """Do work that waits for others. An interrupt of the main thread is heard when it is done, or some seconds later."""
        if get_ident() != threading.main_thread().ident:
            return work()
        task = self.submit(work)
        try:
            return task.result()
        except BaseException:
            if not task.done:
                task.join(seconds)
            raise

    def all(self, works: Iterable[Callable[[], R]]) -> list[R]:
        """Results of several pieces of work. When one fails or the caller is interrupted, none goes on afterwards."""
        tasks: list[Task[R]] = []
        with deferred():
            try:
                for work in works:
                    tasks.append(self.submit(work))  # noqa: PERF401 - known when the next cannot be submitted
                return [task.result() for task in tasks]
            finally:
                for task in tasks:
                    task.cancel()
                for task in tasks:
                    task.join()

    def _work(self) -> None:
        threading.current_thread().name = self._name
        queue, gone = self._queue, self._gone
        while (task := queue.get()) is not None:
            task.run()
            del task
        gone.put(get_ident())

    def retire(self, until: float) -> None:
        """Have threads end with what they are at, and wait for them."""
        threads, self._threads = self._threads, set()
        try:
            while (task := self._queue.get_nowait()) is not None:
                task.cancel()
        except Empty:
            pass
        for _ in threads:
            self._queue.put(None)
        try:
            for _ in threads:
                self._gone.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            return


def outside(work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """Make a call into C that may last longer than a second on a thread apart, so that the main thread hears interrupts.

    The call goes on after an interrupt; nobody is given its result then. From other threads it is an ordinary call.

    Examples
    --------
    >>> outside(sorted, [3, 1, 2])
    [1, 2, 3]
    """
    return _CALLS.call(work, *args, **named)


_POOLS: list[Pool] = []
_RUNNING: dict[int, Task[Any]] = {}
"""The work of each thread."""
_CALLS = Pool("lancelet-call", 4)
"""For the main thread, which makes one call at a time; some that it has left may still run."""


def _retire_all() -> None:
    """Work that needs the interpreter when that is gone could bring the process down."""
    until = time.monotonic() + _LAST
    for pool in _POOLS:
        pool.retire(until)


def _begin_all() -> None:
    """A forked child has none of its parent's threads."""
    _RUNNING.clear()
    for pool in _POOLS:
        pool._begin()


atexit.register(_retire_all)
os.register_at_fork(after_in_child=_begin_all)
