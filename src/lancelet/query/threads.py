"""Work on several cores, with results in order."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(work: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[R]:
    """Results in order, up to ``ahead`` items in progress; one item, or one at a time, needs no threads.

    ``work`` must not call this again: all calls share the threads."""
    queue = iter(items)
    first = list(itertools.islice(queue, 2))
    if len(first) < 2 or ahead == 1:
        for item in itertools.chain(first, queue):
            yield work(item)
        return
    queue = itertools.chain(first, queue)
    pool = _shared_pool()
    pending: deque[Future[R]] = deque()
    try:
        for item in itertools.islice(queue, ahead):
            pending.append(pool.submit(work, item))
        while pending:
            result = pending.popleft().result()
            for item in itertools.islice(queue, 1):
                pending.append(pool.submit(work, item))
            yield result
    finally:
        for future in pending:
            future.cancel()


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(core_count(), thread_name_prefix="lancelet")
        return _pool


def _after_fork() -> None:
    """A child has none of its parent's threads, and must not wait for its parent's locks."""
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
