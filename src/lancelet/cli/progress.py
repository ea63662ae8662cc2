"""Progress bars on the standard error; without a terminal there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from lancelet.progress import IndexProgress


class _Count(ProgressColumn):
    """How far it is: nothing where nobody counts, a number where the end is not known."""

    def render(self, task: Task) -> Text:
        done = f"{int(task.completed):,}"
        if task.total is not None:
            return Text(f"{done} of {int(task.total):,}")
        return Text(done if task.completed else "")


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), _Count(), TimeElapsedColumn()
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
