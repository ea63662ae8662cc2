"""Run decoders side by side, so that the byte ranges of all of them go out together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lancelet.encoding.rows import Bytes, Ranges, Step


def together(steps: Sequence[Step]) -> Step:
    """One step made of several: each round asks for what all of them want. Returns their results in order."""
    results: list[Any] = [None] * len(steps)
    waiting: list[tuple[int, Step, Ranges]] = []
    for number, step in enumerate(steps):
        try:
            waiting.append((number, step, next(step)))
        except StopIteration as done:
            results[number] = done.value
    while waiting:
        buffers = yield [extent for _, _, wanted in waiting for extent in wanted]
        still: list[tuple[int, Step, Ranges]] = []
        first = 0
        for number, step, wanted in waiting:
            own = buffers[first : first + len(wanted)]
            first += len(wanted)
            try:
                still.append((number, step, step.send(own)))
            except StopIteration as done:
                results[number] = done.value
        waiting = still
    return results


def drive(step: Step, read: Callable[[Ranges], list[Bytes]]) -> Any:
    """Run one step to its end, fetching what it asks for."""
    try:
        wanted = next(step)
        while True:
            wanted = step.send(read(wanted))
    except StopIteration as done:
        return done.value
