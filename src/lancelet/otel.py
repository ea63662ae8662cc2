"""What stores are asked for, as metrics of OpenTelemetry.

Metrics are counted from :func:`instrument_lance_metrics` on, under the names that pylance's have::

    lance_object_store_requests_total                            by operation (get, put, list ...) and base (s3, file ...)
    lance_object_store_errors_total                              of them
    lance_object_store_request_bytes_total
    lance_object_store_in_flight_requests
    lance_object_store_request_duration_seconds_bucket, _count, _sum

Local files are mapped: what decoders take from the mapping without asking is not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from lancelet._naming.extras import import_extra
from lancelet.runtime.metrics import (
    MetricDescription,
    MetricPoint,
    lance_metrics_catalog,
    register_lance_metrics_recorder,
    snapshot_lance_metrics,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    Measures: TypeAlias = Callable[[MetricPoint], Iterable[tuple[float, dict[str, str]]]]

__all__ = [
    "MetricDescription",
    "MetricPoint",
    "instrument_lance_metrics",
    "lance_metrics_catalog",
    "register_lance_metrics_recorder",
    "snapshot_lance_metrics",
]

_METER: Final = "lance"
_lock: Final = threading.Lock()
_instrumented: Final[list[str]] = []


def instrument_lance_metrics(meter_provider: Any = None) -> bool:
    """Have OpenTelemetry report what stores are asked for.

    Makes an observable instrument for each metric, which the readers of the provider ask on their own schedule. A histogram
    becomes counters: of its buckets (``_bucket``, with the attribute ``le``), ``_count`` and ``_sum``. A second call does
    nothing.

    Parameters
    ----------
    meter_provider
        Where to; by default the global one of ``opentelemetry.metrics``.

    Returns
    -------
    bool
        True.

    Raises
    ------
    MissingPackage
        OpenTelemetry is not installed: ``pip install 'lancelet[otel]'``.
    """
    metrics = import_extra("opentelemetry.metrics", "otel", "instrument_lance_metrics")
    with _lock:
        register_lance_metrics_recorder()
        if _instrumented:
            return True
        meter = (meter_provider or metrics.get_meter_provider()).get_meter(_METER)
        for one in lance_metrics_catalog():
            _instrument(meter, metrics.Observation, one)
            _instrumented.append(one.name)
    return True


def _instrument(meter: Any, observation: Any, metric: MetricDescription) -> None:
    def observed(measures: Measures) -> list[Callable[[object], list[Any]]]:
        def tell(_: object) -> list[Any]:
            points = (point for point in snapshot_lance_metrics() if point.name == metric.name)
            return [observation(value, about) for point in points for value, about in measures(point)]

        return [tell]

    if metric.kind == "histogram":
        about = metric.description
        # Counts have no unit; only the sum is in the histogram's own.
        meter.create_observable_counter(f"{metric.name}_bucket", observed(_buckets), description=f"{about} By buckets.")
        meter.create_observable_counter(f"{metric.name}_count", observed(_count), description=f"{about} How many.")
        meter.create_observable_counter(
            f"{metric.name}_sum", observed(_sum), unit=metric.unit, description=f"{about} All together."
        )
        return
    make = meter.create_observable_gauge if metric.kind == "gauge" else meter.create_observable_counter
    make(metric.name, observed(_value), unit=metric.unit, description=metric.description)


def _value(point: MetricPoint) -> Iterable[tuple[float, dict[str, str]]]:
    return () if point.value is None else ((point.value, point.attributes),)


def _count(point: MetricPoint) -> Iterable[tuple[float, dict[str, str]]]:
    return () if point.count is None else ((point.count, point.attributes),)


def _sum(point: MetricPoint) -> Iterable[tuple[float, dict[str, str]]]:
    return () if point.sum is None else ((point.sum, point.attributes),)


def _buckets(point: MetricPoint) -> Iterable[tuple[float, dict[str, str]]]:
    return ((count, {**point.attributes, "le": bound}) for bound, count in point.buckets or ())
