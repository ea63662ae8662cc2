"""What stores are asked for is counted once somebody wants it, under pylance's names, and OpenTelemetry can read it.

Each test has a process of its own: counting, once begun, does not end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

STORY = """
import json, sys
import lancelet, pyarrow as pa
library, place = sys.argv[1], sys.argv[2]
if library == "lance":
    import lance
    from lance.lance import lance_metrics_catalog, register_lance_metrics_recorder, snapshot_lance_metrics
else:
    lance = lancelet
    from lancelet.otel import lance_metrics_catalog, register_lance_metrics_recorder, snapshot_lance_metrics
lance.write_dataset(pa.table({"a": [1]}), place)
before = len(snapshot_lance_metrics())
assert register_lance_metrics_recorder() and register_lance_metrics_recorder()
lance.write_dataset(pa.table({"a": range(1000)}), place, mode="append").to_table()
lance.dataset(place).delete("a < 3")
points = [
    {"name": one.name, **dict(one.attributes), "value": one.value, "count": one.count, "sum": one.sum, "buckets": one.buckets}
    for one in snapshot_lance_metrics()
]
catalog = [(one.name, one.kind, one.unit) for one in lance_metrics_catalog()]
print(json.dumps({"before": before, "points": points, "catalog": catalog}))
"""
ANSWERS_OF_SERVERS = {"lance_object_store_throttle_total", "lance_object_store_retryable_responses_total"}
"""What obstore keeps to itself."""


def _run(program: str, *words: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], check=True, timeout=120, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_metrics_are_pylances(tmp_path: Path) -> None:
    theirs, ours = (_run(STORY, library, tmp_path / library) for library in ("lance", "lancelet"))
    assert ours["before"] == 0
    wanted = {tuple(one) for one in theirs["catalog"]}
    assert {tuple(one) for one in ours["catalog"]} == {one for one in wanted if one[0] not in ANSWERS_OF_SERVERS}
    kinds = [{(one["name"], one["base"]) for one in told["points"]} for told in (theirs, ours)]
    # A missing object is an error to both, but what they look for differs.
    failed = ("lance_object_store_errors_total", "file")
    assert kinds[0] - {failed} == kinds[1] - {failed}
    written = {one["operation"]: one["value"] for one in ours["points"] if one["name"].endswith("request_bytes_total")}
    assert written["put"] > 1000
    assert written["get"] > 0


def test_histograms_add_up(tmp_path: Path) -> None:
    told = _run(STORY, "lancelet", tmp_path / "t")["points"]
    totals = {one["operation"]: one["value"] for one in told if one["name"].endswith("requests_total")}
    times = {one["operation"]: one for one in told if one["buckets"] is not None}
    assert times.keys() == totals.keys() >= {"get", "put", "list"}
    for operation, one in times.items():
        counts = [count for _, count in one["buckets"]]
        assert counts == sorted(counts)
        assert (one["buckets"][-1][0], counts[-1]) == ("+Inf", one["count"])
        assert one["count"] == totals[operation]
        assert one["value"] is None
    assert all(one["value"] == 0 for one in told if one["name"].endswith("in_flight_requests"))


def test_failures_are_counted() -> None:
    program = """
import json
from lancelet.errors import MissingFile
from lancelet.otel import register_lance_metrics_recorder, snapshot_lance_metrics
from lancelet.store import open_store
register_lance_metrics_recorder()
try:
    open_store("memory://metrics/t").read_all("nothing")
except MissingFile:
    print(json.dumps([(one.name, one.attributes, one.value) for one in snapshot_lance_metrics() if one.value is not None]))
"""
    about = {"operation": "get", "base": "memory"}
    told = _run(program)
    assert ["lance_object_store_errors_total", about, 1.0] in told
    assert ["lance_object_store_in_flight_requests", about, 0.0] in told


@pytest.mark.skipif(find_spec("opentelemetry") is None, reason="the extra otel is not installed")
def test_opentelemetry_reads_them(tmp_path: Path) -> None:
    program = """
import json, sys
import lancelet
from lancelet.otel import instrument_lance_metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
provider = MeterProvider(metric_readers=[reader])
assert instrument_lance_metrics(provider) and instrument_lance_metrics(provider)
lancelet.write_dataset({"a": [1, 2]}, sys.argv[1]).to_table()
found = {}
for resource in reader.get_metrics_data().resource_metrics:
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            found[metric.name] = [[dict(point.attributes), point.value] for point in metric.data.data_points]
print(json.dumps(found))
"""
    found = _run(program, tmp_path / "t")
    requests = {about["operation"]: value for about, value in found["lance_object_store_requests_total"]}
    counts = {about["operation"]: value for about, value in found["lance_object_store_request_duration_seconds_count"]}
    assert requests == counts
    assert requests["put"] >= 2
    buckets = found["lance_object_store_request_duration_seconds_bucket"]
    whole = {about["operation"]: value for about, value in buckets if about["le"] == "+Inf"}
    assert whole == counts
    assert set(found) >= {"lance_object_store_in_flight_requests", "lance_object_store_request_duration_seconds_sum"}


@pytest.mark.skipif(find_spec("opentelemetry") is not None, reason="the extra otel is installed")
def test_without_opentelemetry_it_is_said_how_to_get_it() -> None:
    from lancelet.otel import instrument_lance_metrics

    with pytest.raises(ImportError, match=r"pip install 'lancelet\[otel\]'"):
        instrument_lance_metrics()
