"""Shared by all tests: quiet oracles, an S3 of our own on the loopback."""

from __future__ import annotations

import logging
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import settings

import lancelet.log

# pylance prints a backtrace for every panic it turns into an exception; here panics are answers, not news.
os.environ["RUST_BACKTRACE"] = "0"
os.environ.setdefault("LANCE_LOG", "error")
# The variable is meant for pylance alone: tests look at all that our own logger says.
lancelet.log.LOGGER.setLevel(logging.NOTSET)
lancelet.log.LOGGER.handlers.clear()

# How long an example takes says more about the machine than about the code.
settings.register_profile("lancelet", deadline=None)
settings.load_profile("lancelet")


@dataclass(frozen=True, slots=True)
class Bucket:
    """An empty bucket and the options that open it."""

    uri: str
    options: dict[str, str]


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


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
