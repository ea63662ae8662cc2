"""Ctrl-C while an object store is asked: the answer is not waited for, and nothing is left there."""

from __future__ import annotations

import random
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

import lancelet
from clouds import Cloud, serve
from conftest import Bucket
from drawing import SEED, examples
from faults.operations import prepare, problems, rows
from faults.test_clouds import place
from faults.test_interrupts import Interrupter

# A file that is opened for reading when the interrupt comes is closed as soon as it is collected, and Python says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning"
)

COUNT = 40
Act = Callable[[str, dict[str, str]], object]


def compact(uri: str, options: dict[str, str]) -> None:
    lancelet.dataset(uri, storage_options=options).optimize.compact_files(target_rows_per_fragment=4 * COUNT)


ACTS: dict[str, Act] = {
    "create": lambda uri, options: lancelet.write_dataset(rows(0, COUNT), f"{uri}.new", storage_options=options),
    "append": lambda uri, options: lancelet.write_dataset(rows(0, COUNT), uri, mode="append", storage_options=options),
    "update": lambda uri, options: lancelet.dataset(uri, storage_options=options).update({"x": "x + 1"}, "k % 3 = 1"),
    "scan": lambda uri, options: lancelet.dataset(uri, storage_options=options).to_table(),
    "compact": compact,
    "index": lambda uri, options: lancelet.dataset(uri, storage_options=options).create_scalar_index("t", "BTREE"),
}


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """A shell starts what goes to the background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def check(uri: str, options: dict[str, str]) -> None:
    """Sound, and without an object that no version names."""
    table = lancelet.dataset(uri, storage_options=options)
    assert problems(table) == []
    assert table.cleanup_old_versions(timedelta(days=36_500), delete_unverified=True).bytes_removed == 0
    assert table.to_table().num_rows == table.count_rows()


class Silence:
    """Interrupts the main thread at the n-th request. One that reads is not answered before the operation has ended."""

    def __init__(self, cloud: Cloud, at: int) -> None:
        self.cloud, self.at, self.count = cloud, at, 0
        self.over = threading.Event()
        self.unanswered = 0
        cloud.spoil = self._meet

    def _meet(self, method: str, key: str) -> None:
        self.count += 1
        if self.count == self.at:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if method in ("GET", "HEAD"):
                self.unanswered += 1
                self.over.wait()


def interrupt_request(name: str, at: int, kind: str = "gs") -> int:
    """Interrupt an operation at a request, and say how many it has."""
    with serve() as cloud:
        uri, options = place(kind, cloud)
        prepare(uri, COUNT, options)
        silence = Silence(cloud, at)
        try:
            ACTS[name](uri, options)
        except KeyboardInterrupt:
            assert silence.count >= at > 0
        else:
            # The last answer, that a version is there or a hint is written, may be known before the interrupt is.
            assert silence.count < at or at == 0
        finally:
            silence.over.set()
            cloud.spoil = lambda method, key: None
        check(uri, options)
        if any(key.startswith("t.lance.new/_versions/") for key in cloud.objects):
            check(f"{uri}.new", options)
        else:
            assert not any(key.startswith("t.lance.new/") for key in cloud.objects)
        assert not cloud.parts
        return silence.count


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.spread(0.5, each=False)
def test_an_unanswered_request_is_left(name: str) -> None:
    count = interrupt_request(name, 0)
    drawn = random.Random(name)
    for at in {1, count // 2, drawn.randrange(1, count + 1)}:
        interrupt_request(name, at)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["gs", "az"])
@pytest.mark.parametrize("name", ACTS)
def test_any_unanswered_request_is_left(name: str, kind: str) -> None:
    for at in range(1, interrupt_request(name, 0, kind) + 1):
        interrupt_request(name, at, kind)


def uploads(bucket: Bucket) -> bytes:
    """What was begun in several parts and neither finished nor given up."""
    endpoint, name = bucket.options["aws_endpoint"], bucket.uri.removeprefix("s3://")
    credential = "AWS4-HMAC-SHA256 Credential=key/20200101/us-east-1/s3/aws4_request"
    request = urllib.request.Request(f"{endpoint}/{name}?uploads", headers={"Authorization": credential})
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


def interrupt_moments(bucket: Bucket, names: list[str], tries: int) -> None:
    for name in names:
        drawn = random.Random(f"{name} {SEED}")
        count = 0
        for number in range(tries + 1):
            uri = f"{bucket.uri}/{name}{number}"
            prepare(uri, COUNT, bucket.options)
            interrupter = Interrupter(drawn.randrange(1, count) if number else None)
            try:
                with interrupter:
                    ACTS[name](uri, bucket.options)
            except KeyboardInterrupt:
                assert number
            else:
                assert not number or interrupter.count < (interrupter.at or 0), "the interrupt got lost"
            count = count or interrupter.count
            check(uri, bucket.options)
    assert b"<Upload>" not in uploads(bucket)


def test_an_interrupt_at_some_moments_on_s3(bucket: Bucket) -> None:
    interrupt_moments(bucket, ["append", "compact"], 1)


@pytest.mark.soak
@pytest.mark.parametrize("name", ACTS)
def test_an_interrupt_at_many_moments_on_s3(bucket: Bucket, name: str) -> None:
    interrupt_moments(bucket, [name], examples(3))
