"""A data set that another process reads ahead."""

from __future__ import annotations

import multiprocessing
import queue as queues
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.utils.data

__all__ = ["AsyncDataset", "async_dataset"]

_END = "end"
_ITEM = "item"
_ERROR = "error"
_PATIENCE = 1.0
"""Seconds between looks at whether the other side is still there."""


class AsyncDataset(torch.utils.data.IterableDataset[Any]):
    """What a data set gives, from a process of its own; see :func:`async_dataset`.

    Parameters
    ----------
    dataset_creator
        Makes the data set, over there: a function that can be pickled.
    queue_size
        How many things wait at most.
    """

    def __init__(
        self, dataset_creator: Callable[[], torch.utils.data.IterableDataset[Any]], *, queue_size: int = 4
    ) -> None:
        super().__init__()
        self._create = dataset_creator
        self._queue_size = queue_size
        self._process: Any = None
        self._queue: Any = None
        self._stop: Any = None

    def __iter__(self) -> Iterator[Any]:
        """Every loop reads the data set anew."""
        self.close()
        context = multiprocessing.get_context("spawn")
        self._queue = context.Queue(self._queue_size)
        self._stop = context.Event()
        self._process = context.Process(
            target=_read_ahead, args=(self._create, self._queue, self._stop), daemon=True, name="lancelet-read-ahead"
        )
        self._process.start()
        while True:
            kind, value = self._next()
            if kind == _END:
                self.close()
                return
            if kind == _ERROR:
                self.close()
                raise value
            yield value

    def _next(self) -> tuple[str, Any]:
        while True:
            try:
                found: tuple[str, Any] = self._queue.get(timeout=_PATIENCE)
            except queues.Empty:
                if not self._process.is_alive() and self._queue.empty():
                    code = self._process.exitcode
                    raise RuntimeError(f"the process that reads ahead ended with code {code}") from None
            else:
                return found

    def close(self) -> None:
        """End the other process."""
        if self._process is None:
            return
        self._stop.set()
        while self._process.is_alive():
            # It may be waiting for room.
            try:
                self._queue.get(timeout=_PATIENCE / 10)
            except queues.Empty:
                self._process.join(_PATIENCE / 10)
        self._process.join()
        self._queue.close()
        self._process = None


def _read_ahead(create: Callable[[], Any], queue: Any, stop: Any) -> None:
    try:
        for item in create():
            if stop.is_set():
                break
            queue.put((_ITEM, item))
        queue.put((_END, None))
    except Exception as error:  # noqa: BLE001 - the other process raises it
        queue.put((_ERROR, error))
    # Tensors that wait are in memory of this process until the other one has them.
    stop.wait()


@contextmanager
def async_dataset(
    dataset_creator: Callable[[], torch.utils.data.IterableDataset[Any]], *, queue_size: int = 4
) -> Iterator[AsyncDataset]:
    """A data set that another process reads ahead, which ends with the block."""
    found = AsyncDataset(dataset_creator, queue_size=queue_size)
    try:
        yield found
    finally:
        found.close()
