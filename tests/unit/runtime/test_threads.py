"""Threads that no process waits for, and interrupts that wait for a good moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from _thread import allocate_lock
from collections.abc import Iterator

import pytest

from lancelet.runtime.interrupts import check, critical, deferred, wait_for
from lancelet.runtime.threads import Abandoned, Pool, checkpoint, outside


@pytest.fixture(autouse=True)
def _python_handles_interrupts() -> Iterator[None]:
    """A Spark session of the same process leaves a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_results_and_errors_come_back() -> None:
    pool = Pool("test", 2)
    assert [task.result() for task in [pool.submit(pow, 2, n) for n in range(9)]] == [2**n for n in range(9)]
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result()
    assert len(pool.all([threading.get_ident] * 5)) == 5


def test_what_is_cancelled_does_not_begin_and_what_has_begun_stops() -> None:
    pool, gate, begun = Pool("test", 1), allocate_lock(), allocate_lock()
    gate.acquire()
    begun.acquire()
    done = []

    def work() -> None:
        begun.release()
        gate.acquire()
        checkpoint()
        done.append("whole")

    running, waiting = pool.submit(work), pool.submit(done.append, "begun")
    begun.acquire()
    running.cancel()
    waiting.cancel()
    gate.release()
    with pytest.raises(Abandoned):
        running.result()
    waiting.join()
    assert done == []


def test_an_interrupt_waits_for_a_good_moment() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), deferred():  # noqa: PT012 - the moment within the block matters
        signal.raise_signal(signal.SIGINT)
        steps.append("half")
        with critical():
            check()
            steps.append("whole")
        check()
        steps.append("never")
    assert steps == ["half", "whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_wait_and_a_second_interrupt_end_at_once() -> None:
    lock = allocate_lock()
    lock.acquire()
    with pytest.raises(KeyboardInterrupt), deferred():  # noqa: PT012 - the moment within the block matters
        threading.Timer(0.01, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
        wait_for(lock)
    with pytest.raises(KeyboardInterrupt), critical():  # noqa: PT012 - the moment within the block matters
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        lock.acquire()


def test_an_interrupt_does_not_wait_for_ever() -> None:
    lock = allocate_lock()
    lock.acquire()
    with pytest.raises(KeyboardInterrupt), deferred():  # noqa: PT012 - the moment within the block matters
        signal.raise_signal(signal.SIGINT)
        lock.acquire()
    # It was the only one.
    assert not lock.acquire(timeout=0.01)


def test_handlers_of_others_hear_of_it() -> None:
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            assert heard == []
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_process_ends_beside_work_that_does_not() -> None:
    program = (
        "from _thread import allocate_lock\nfrom lancelet.runtime.threads import Pool\n"
        "lock = allocate_lock()\nlock.acquire()\nPool('test', 2).submit(lock.acquire)\nraise KeyboardInterrupt\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, env=environment)
    assert done.returncode == -signal.SIGINT


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    pool = Pool("test", 2)
    assert pool.submit(len, "a").result() == 1
    child = os.fork()
    if not child:
        os._exit(pool.submit(len, "abc").result())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_a_long_call_is_left_by_an_interrupt() -> None:
    gate = allocate_lock()
    gate.acquire()

    def work() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        gate.acquire()

    with pytest.raises(KeyboardInterrupt):
        outside(work)
    gate.release()
    assert outside(threading.get_ident) != threading.get_ident()


def test_an_interrupt_right_before_a_wait_ends_it() -> None:
    """Python looks for signals between instructions; one that comes when the last of them has begun must not get lost."""

    class Late:
        """A lock that is never free. The signal is noticed, as it would be then, only after the call."""

        def acquire(self, blocking: bool, timeout: float = -1) -> bool:
            assert timeout >= 0 or not blocking, "nobody would wake it up"
            if blocking:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return False

    with pytest.raises(KeyboardInterrupt):
        wait_for(Late())  # type: ignore[arg-type]
