"""Shared by all tests: quiet oracles, an S3 of our own on the loopback, and one Spark session."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
import threading
import urllib.request
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import lancelet.log
from drawing import ANEW, CELLS, DRAWS, SEED, examples, sample, spread

# pylance prints a backtrace for every panic it turns into an exception; here panics are answers, not news.
os.environ["RUST_BACKTRACE"] = "0"
os.environ.setdefault("LANCE_LOG", "error")
# The variable is meant for pylance alone: tests look at all that our own logger says.
lancelet.log.LOGGER.setLevel(logging.NOTSET)
lancelet.log.LOGGER.handlers.clear()

# How long an example takes says more about the machine than about the code.
settings.register_profile(
    "lancelet",
    deadline=None,
    max_examples=examples(60),
    derandomize=not ANEW,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("lancelet")

# Every commit syncs what it wrote: where there is a file system in memory with much room, nobody waits for a disk.
MEMORY = Path("/dev/shm")
if (
    "TMPDIR" not in os.environ
    and os.access(MEMORY, os.W_OK)
    and shutil.disk_usage(MEMORY).free > 6 << 30
    and os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 12 << 30
):
    tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)

# Every Java that tests start lives for a minute or two: code is compiled quickly rather than well.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_report_header() -> str | None:
    if not {"LANCELET_DRAWS", "LANCELET_SEED", "LANCELET_CELLS"} & os.environ.keys():
        return None
    return f"{DRAWS:g} times the usual examples are drawn, at most {CELLS:g} cells of a test, LANCELET_SEED={SEED}"


SPARK_TESTS = Path(__file__).parent / "spark"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    for name, cells in _by_function(item for item in items if _is_spread(item)).items():
        mark = cells[0].get_closest_marker("spread")
        kept = spread([cell.callspec.params for cell in cells], *mark.args, name, **mark.kwargs)
        for cell in _others(cells, kept):
            cell.add_marker(pytest.mark.soak)
    for item in items:
        if item.path.is_relative_to(SPARK_TESTS) or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            item.add_marker(pytest.mark.filterwarnings("ignore:lance is not fork-safe"))
            # Sockets to the Java process, which Spark leaves to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    yield
    # Of those that the marks have left.
    dropped: set[pytest.Item] = set()
    for name, cells in _by_function(items).items():
        if len(cells) > CELLS:
            dropped.update(_others(cells, sample([cell.callspec.params for cell in cells], CELLS, (SEED, name))))
    if dropped:
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]


def _is_spread(item: pytest.Item) -> bool:
    return item.get_closest_marker("spread") is not None and item.get_closest_marker("soak") is None


def _by_function(items: Iterable[pytest.Item]) -> dict[str, list[Any]]:
    """The cells of each test that has parameters."""
    found: dict[str, list[Any]] = {}
    for item in items:
        if hasattr(item, "callspec"):
            found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return found


def _others(cells: list[Any], kept: set[int]) -> list[Any]:
    return [cell for place, cell in enumerate(cells) if place not in kept]


def pytest_collection_finish() -> None:
    """What there is now stays until the end: the collector need not look at thousands of tests again and again."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests with a Spark session stay on two workers, since it starts slowly; being many, they come first.

    So do those that count the requests to their own server, whose tables are made once.

    Marks of groups do not reach the scheduler with every pytest, so that names tell.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class TogetherOnSpark(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if "test_requests" in nodeid:
                return "requests"
            if "tests/spark/sql/" in nodeid or "_with_spark" in nodeid:
                return "sql"
            alone = "test_elsewhere" in nodeid or "test_types" in nodeid
            return "spark" if "tests/spark/" in nodeid and not alone else nodeid

    return TogetherOnSpark(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests of a process."""
    from spark.conftest import plain_source
    from spark.sessions import MODE, started

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with started(MODE, tmp_path_factory.mktemp("spark")) as session:
            session.dataSource.register(plain_source())
            yield session


@dataclass(frozen=True, slots=True)
class Bucket:
    """An empty bucket and the options that open it."""

    uri: str
    options: dict[str, str]


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    # A real store creates an object once; this one looks first and writes then, so that two of its threads may both win.
    one_at_a_time, plain = threading.Lock(), S3Response.put_object

    def put_object(response: S3Response) -> Any:
        with one_at_a_time:
            return plain(response)

    S3Response.put_object = put_object  # type: ignore[method-assign]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    S3Response.put_object = plain  # type: ignore[method-assign]


@pytest.fixture
def bucket(s3_endpoint: str, request: pytest.FixtureRequest) -> Bucket:
    name = f"b{abs(hash(request.node.nodeid))}"
    credential = "AWS4-HMAC-SHA256 Credential=key/20200101/us-east-1/s3/aws4_request"
    make = urllib.request.Request(f"{s3_endpoint}/{name}", method="PUT", headers={"Authorization": credential})
    with urllib.request.urlopen(make) as answer:
        assert answer.status == 200
    options = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_endpoint": s3_endpoint,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    return Bucket(f"s3://{name}", options)
