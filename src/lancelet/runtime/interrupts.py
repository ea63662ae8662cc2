"""Ctrl-C, at a moment that suits.

Python raises ``KeyboardInterrupt`` between any two instructions of the main thread: also between a file that is made and the
note that it is to be removed. So a change is made in a :class:`deferred` block. There an interrupt is noted, and raised::

    at a wait or between two batches     where nothing is half done
    after GRACE seconds                  wherever the main thread is then
    at the second Ctrl-C                 at once

or when the block ends. Other threads are never interrupted, and have nothing to defer.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import math
import signal
import threading
import time
from _thread import LockType, allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["GRACE", "check", "critical", "deferred", "wait_for"]

GRACE = 0.5
"""For how many seconds an interrupt waits for a good moment."""
# The functions beneath those of the signal module, which turn numbers into members of an enumeration for 6 µs a call.
_SIGINT = int(signal.SIGINT)
_SEEN = 0.1
"""Within so many seconds a signal is looked for."""


class _State:
    """What the main thread knows; the others only read it, and set ``reminded``."""

    __slots__ = ("critical", "depth", "lock", "notice", "pending", "previous", "ready", "reminded")

    def __init__(self) -> None:
        self.depth = 0
        """How many blocks the main thread is in."""
        self.critical = 0
        """How many of them wait for an answer that matters more."""
        self.ready = False
        """Whether the main thread waits where it can be interrupted."""
        self.pending = False
        self.notice = 0
        """Tells interrupts apart."""
        self.reminded = False
        self.previous: Callable[[int, FrameType | None], Any] | None = None
        self.lock = allocate_lock()


_state = _State()


class deferred:  # noqa: N801 - read as a statement
    """A block in which interrupts wait.

    Examples
    --------
    >>> try:
    ...     with deferred():
    ...         signal.raise_signal(signal.SIGINT)
    ...         finished = True
    ... except KeyboardInterrupt:
    ...     print("interrupted, finished:", finished)
    interrupted, finished: True
    """

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered = False

    def __enter__(self) -> None:
        if get_ident() != threading.main_thread().ident:
            return
        handler = _signal.getsignal(_SIGINT)
        if handler is not _note:
            if not callable(handler):
                return
            _state.previous, _state.depth, _state.critical, _state.ready = handler, 0, 0, False
            # Nothing is raised from this call on.
            _signal.signal(_SIGINT, _note)
        _state.depth += 1
        self._entered = True

    def __exit__(self, *error: object) -> None:
        if not self._entered:
            return
        self._entered = False
        _state.depth -= 1
        if _state.depth > 0 or _signal.getsignal(_SIGINT) is not _note:
            return
        with _state.lock:
            pending, _state.pending = _state.pending, False
        # A reminder that was sent is on its way, and must not reach anybody else.
        until = time.monotonic() + _SEEN
        while _state.reminded and time.monotonic() < until:
            pass
        _state.reminded = False
        previous = _state.previous
        assert previous is not None
        _signal.signal(_SIGINT, previous)
        # One more may have come before the handler was back; its reminder is half a second away.
        late, _state.pending = _state.pending, False
        if pending or late:
            previous(signal.SIGINT, None)


class critical(deferred):  # noqa: N801 - read as a statement
    """A block in which interrupts wait although the thread may wait for others: its outcome decides what is kept."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        if self._entered:
            _state.critical += 1

    def __exit__(self, *error: object) -> None:
        if self._entered:
            _state.critical -= 1
        super().__exit__(*error)


def check() -> None:
    """Raise an interrupt that waits: nothing is half done."""
    if _state.pending and not _state.critical and get_ident() == threading.main_thread().ident:
        _deliver(None)


def wait_for(lock: LockType, timeout: float = -1) -> bool:
    """Acquire a lock; an interrupt ends the wait, in a :class:`deferred` block too."""
    if get_ident() != threading.main_thread().ident:
        return lock.acquire(True, timeout)
    if _state.critical:
        return _acquire(lock, timeout)
    _state.ready = True
    try:
        check()
        return _acquire(lock, timeout)
    finally:
        _state.ready = False


def _acquire(lock: LockType, timeout: float) -> bool:
    """Wait in pieces: a signal that comes after Python last looked for one, and before the system waits, ends no wait."""
    if lock.acquire(False):
        return True
    until = math.inf if timeout < 0 else time.monotonic() + timeout
    while (left := until - time.monotonic()) > 0:
        if lock.acquire(True, min(left, _SEEN)):
            return True
    return False


def _note(signum: int, frame: FrameType | None) -> None:
    """The handler in a block."""
    if _state.reminded:
        _state.reminded = False
        if not _state.pending:
            return
    elif not (_state.pending or _state.ready):
        _state.pending = True
        _state.notice += 1
        start_new_thread(_remind, (_state.notice,))
        return
    _deliver(frame)


def _deliver(frame: FrameType | None) -> None:
    _state.pending = _state.ready = False
    if _state.previous is not None:
        _state.previous(signal.SIGINT, frame)


def _remind(notice: int) -> None:
    time.sleep(GRACE)
    with _state.lock:
        if _state.pending and _state.notice == notice:
            _state.reminded = True
            # Unlike a flag, a signal ends what the main thread may be waiting for.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
