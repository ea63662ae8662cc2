"""Threads that begin at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lancelet.errors import LanceletError


def together(work: Callable[[int], object], count: int) -> list[object]:
    """What ``count`` threads got that began at the same moment: a result, or an error of ours."""
    barrier = threading.Barrier(count)
    outcome: list[object] = [None] * count

    def run(number: int) -> None:
        barrier.wait()
        try:
            outcome[number] = work(number)
        except LanceletError as error:
            outcome[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome
