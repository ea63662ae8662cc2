"""Progress bars on the standard error; without a terminal there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from lancelet.progress import IndexProgress


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def counted(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar that a function moves on; ``total`` None: the end is not known."""
    with _progress() as progress:
        task = progress.add_task(what, total=total)

        def step(amount: int) -> None:
            progress.advance(task, amount)

        yield step


@contextmanager
def staged() -> Iterator[Callable[[IndexProgress], None]]:
    """A bar for the build of an index, stage by stage."""
    with _progress() as progress:
        task = progress.add_task("starting", total=None)

        def tell(event: IndexProgress) -> None:
            progress.update(task, description=event.stage, total=event.total, completed=event.completed or 0)

        yield tell
