"""What stores are asked for, counted and timed for those who watch a process; without them nothing is counted.

A request has an operation (``get``, ``head``, ``list``, ``put``, ``copy``, ``delete``) and a base, the scheme of the
store (``file``, ``memory``, ``s3`` ...). Metrics have the names that pylance's have::

    lance_object_store_requests_total              requests that ended
    lance_object_store_errors_total                those that failed, of them; a missing object too
    lance_object_store_request_bytes_total         bytes read or written by them
    lance_object_store_in_flight_requests          requests that have begun and not ended
    lance_object_store_request_duration_seconds    how long they took

Answers of servers that a client tries again by itself are not seen here, so that there are no metrics of them.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, TypeVar

_PREFIX: Final = "lance_object_store_"
_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0),
    *(120.0, 150.0, 180.0, 240.0, 300.0),
)
"""Seconds at which the buckets of durations end; the last one has no end."""


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """A metric: what it is called and what it counts."""

    name: str
    kind: str
    """``counter``, ``gauge`` or ``histogram``."""
    unit: str
    description: str


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """A metric of one operation on one base, at a moment. Histograms have no value, and others nothing else."""

    name: str
    attributes: dict[str, str]
    value: float | None = None
    count: int | None = None
    sum: float | None = None
    buckets: list[tuple[str, int]] | None = None
    """Requests that took up to so many seconds, by these as text."""


_CATALOG: Final = (
    MetricDescription(f"{_PREFIX}in_flight_requests", "gauge", "", "Requests to stores that have not ended."),
    MetricDescription(f"{_PREFIX}requests_total", "counter", "", "Requests to stores, by operation and base."),
    MetricDescription(f"{_PREFIX}errors_total", "counter", "", "Requests to stores that failed."),
    MetricDescription(f"{_PREFIX}request_bytes_total", "counter", "B", "Bytes read from stores or written to them."),
    MetricDescription(f"{_PREFIX}request_duration_seconds", "histogram", "s", "How long requests to stores took."),
)


@dataclass(slots=True)
class _Series:
    """What is known of one operation on one base."""

    in_flight: int = 0
    requests: int = 0
    errors: int = 0
    bytes: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))


class _Recorder:
    """All that is counted in this process; a fork of it goes on from there."""

    __slots__ = ("is_on", "lock", "series")

    def __init__(self) -> None:
        self.is_on = False
        self.lock = threading.Lock()
        self.series: dict[tuple[str, str], _Series] = {}
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        # Another thread of the parent may have had it.
        self.lock = threading.Lock()

    def of(self, operation: str, base: str) -> _Series:
        """What is known of an operation; whoever asks has the lock."""
        return self.series.setdefault((operation, base), _Series())


_RECORDER: Final = _Recorder()


def register_lance_metrics_recorder() -> bool:
    """Begin to count. Always True: there is one recorder in a process, which is this one."""
    _RECORDER.is_on = True
    return True


def lance_metrics_catalog() -> list[MetricDescription]:
    """The metrics that there are."""
    return list(_CATALOG)


def snapshot_lance_metrics() -> list[MetricPoint]:
    """The metrics as they are now, one point for each that has been seen."""
    found = []
    with _RECORDER.lock:
        for (operation, base), one in sorted(_RECORDER.series.items()):
            about = {"operation": operation, "base": base}
            found.append(MetricPoint(f"{_PREFIX}in_flight_requests", dict(about), float(one.in_flight)))
            for name, value in (("requests", one.requests), ("errors", one.errors), ("request_bytes", one.bytes)):
                if value:
                    found.append(MetricPoint(f"{_PREFIX}{name}_total", dict(about), float(value)))
            if one.requests:
                found.append(_duration(one, about))
    return found


def _duration(one: _Series, about: dict[str, str]) -> MetricPoint:
    buckets, seen = [], 0
    for bound, count in zip((*_BOUNDS, None), one.buckets, strict=True):
        seen += count
        buckets.append(("+Inf" if bound is None else f"{bound:g}", seen))
    name = f"{_PREFIX}request_duration_seconds"
    return MetricPoint(name, dict(about), count=one.requests, sum=one.seconds, buckets=buckets)


def count_request(operation: str, base: str, requests: int, nbytes: int) -> None:
    """Note requests that took no time worth the name: ranges of mapped files."""
    if _RECORDER.is_on:
        with _RECORDER.lock:
            one = _RECORDER.of(operation, base)
            one.requests += requests
            one.bytes += nbytes
            one.buckets[0] += requests


Method = TypeVar("Method", bound=Callable[..., Any])


def measured(
    operation: str, size: Callable[[Any, tuple[Any, ...], Any], int] | None = None
) -> Callable[[Method], Method]:
    """Have calls of a store's method counted and timed. ``size`` tells the bytes, of the store, its arguments and its
    answer."""

    def wrap(method: Method) -> Method:
        @wraps(method)
        def call(self: Any, *args: Any, **named: Any) -> Any:
            if not _RECORDER.is_on:
                return method(self, *args, **named)
            with _RECORDER.lock:
                one = _RECORDER.of(operation, self.scheme)
                one.in_flight += 1
            begun, failed, nbytes = time.perf_counter(), True, 0
            try:
                answer = method(self, *args, **named)
                failed = False
                if size is not None:
                    nbytes = size(self, args, answer)
                return answer
            finally:
                took = time.perf_counter() - begun
                with _RECORDER.lock:
                    one.in_flight -= 1
                    one.requests += 1
                    one.errors += failed
                    one.bytes += nbytes
                    one.seconds += took
                    one.buckets[bisect_left(_BOUNDS, took)] += 1

        return call  # type: ignore[return-value]

    return wrap


def answered(_: object, args: tuple[Any, ...], answer: Any) -> int:
    """The bytes of an answer: of one object, or of a part of it and what is known of the rest."""
    return len(answer[0] if isinstance(answer, tuple) else answer)


def fetched(_: object, args: tuple[Any, ...], answer: Any) -> int:
    """The bytes of parts of an object."""
    return sum(stop - start for start, stop in args[1])


def given(_: object, args: tuple[Any, ...], answer: Any) -> int:
    """The bytes that a method was given to write, unless it did not."""
    return 0 if answer is False else len(args[1])


def finished(sink: Any, args: tuple[Any, ...], answer: Any) -> int:
    """The bytes of an object that was written in pieces."""
    return int(sink.tell())
