"""Work on several cores, with results in order."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from lancelet.runtime.threads import Pool, Task, checkpoint, core_count

__all__ = ["checkpoint", "core_count", "ordered_map"]

T = TypeVar("T")
R = TypeVar("R")

_POOL = Pool("lancelet", core_count())


def ordered_map(work: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[R]:
    """Results in order, up to ``ahead`` items in progress; one item, or one at a time, needs no threads.

    ``work`` must not call this again: all calls share the threads. It may go on for an item after the consumer left."""
    queue = iter(items)
    first = list(itertools.islice(queue, 2))
    if len(first) < 2 or ahead == 1:
        for item in itertools.chain(first, queue):
            checkpoint()
            yield work(item)
        return
    queue = itertools.chain(first, queue)
    pending: deque[Task[R]] = deque()
    try:
        for item in itertools.islice(queue, ahead):
            pending.append(_POOL.submit(work, item))
        while pending:
            result = pending.popleft().result()
            for item in itertools.islice(queue, 1):
                pending.append(_POOL.submit(work, item))
            yield result
    finally:
        for task in pending:
            task.cancel()
