"""The page of a table: what its server answers, whom it refuses, and what a browser makes of it."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.inspector.server import Inspector

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63606060f80f00010401005fe5c34b0000000049454e44ae426082"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspector]:
    path = tmp_path_factory.mktemp("inspector") / "kelp.lance"
    table = pa.table(
        {
            "id": range(40),
            "caption": ["<script>document.title = 'taken'</script>"] * 40,
            "picture": [PICTURE] * 40,
            "v": pa.FixedSizeListArray.from_arrays(np.arange(320, dtype=np.float32), 8),
            "nested": [{"x": [1, 2]}] * 40,
        }
    )
    dataset = lancelet.write_dataset(table, path, max_rows_per_file=10)
    dataset.delete("id = 3")
    dataset.tags.create("first", 1)
    dataset.create_branch("dev", 1)
    dataset = lancelet.dataset(path)
    dataset.create_scalar_index("id", "BTREE")
    with _served(dataset) as inspector:
        yield inspector


@contextmanager
def _served(table: lancelet.LanceDataset, **options: Any) -> Iterator[Inspector]:
    inspector = Inspector(table, **options)
    thread = threading.Thread(target=inspector.serve)
    thread.start()
    try:
        yield inspector
    finally:
        inspector.close()
        thread.join()


def facts(page: Inspector, name: str) -> Any:
    with urlopen(f"{page.address}facts/{name}") as answer:
        return json.loads(answer.read())


def test_facts(page: Inspector) -> None:
    assert facts(page, "overview")["rows"] == 39
    assert facts(page, "overview?version=1")["rows"] == 40
    history = facts(page, "history")
    assert [(one["version"], one["tags"], one["branches"]) for one in history][-1] == (1, ["first"], ["dev"])
    fragments = facts(page, "fragments")
    assert [one["rows"] for one in fragments["fragments"]] == [9, 10, 10, 10]
    assert {one["name"] for one in facts(page, "columns")} == {"id", "caption", "picture", "v", "nested.x.item"}
    assert {one["column"] for one in facts(page, "pages?column=id")} == {"id"}
    assert facts(page, "indices")[0]["rows_indexed"] == 39
    assert "fragments" in facts(page, "upkeep")["compaction_text"]


def test_rows_are_shown_as_what_they_are(page: Inspector) -> None:
    found = facts(page, "rows?offset=2&limit=2")
    assert found["count"] == 39
    assert [row[0] for row in found["rows"]] == [2, 4]
    _, _, picture, vector, nested = found["rows"][0]
    assert picture["picture"].startswith("data:image/png;base64,")
    assert vector == {"vector": [float(number) for number in range(16, 24)], "length": 8}
    assert nested == {"text": "{'x': [1, 2]}"}
    assert facts(page, "rows?where=id%20%3E%2035")["count"] == 4
    assert len(facts(page, "rows?limit=100000")["rows"]) == 39


def _ask(page: Inspector, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    place = urlsplit(page.address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=30)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_only_who_has_the_address_is_answered(page: Inspector) -> None:
    token = urlsplit(page.address).path.strip("/")
    assert _ask(page, "/")[0] == 403
    assert _ask(page, "/wrong/facts/overview")[0] == 403
    with socket.create_connection((urlsplit(page.address).hostname, urlsplit(page.address).port)) as client:
        client.sendall(f"GET /wr\xf6ng/ HTTP/1.1\r\nHost: {urlsplit(page.address).netloc}\r\n\r\n".encode("latin-1"))
        assert client.recv(100).startswith(b"HTTP/1.1 403")
    assert _ask(page, f"/{token}/facts/overview", host="evil.example")[0] == 403
    assert _ask(page, f"/{token}/facts/overview")[0] == 200
    assert _ask(page, f"/{token}/facts/overview", method="POST")[0] == 501
    for path in ("../../etc/passwd", "static/index.html", "facts/nothing", "%2e%2e/%2e%2e/etc/passwd"):
        assert _ask(page, f"/{token}/{path}")[0] == 404
    assert page.address.startswith("http://127.0.0.1:")


def test_every_value_can_be_looked_at(tmp_path: Path) -> None:
    """JSON has no NaN, browsers round large numbers, and Python has no such times."""
    rows = pa.table(
        {
            "f": [float("nan")],
            "v": pa.array([[1.0, float("inf"), 2.0, 3.0]], pa.list_(pa.float32(), 4)),
            "big": [(1 << 53) + 1],
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "nested": [{"data": b"\x00"}],
            "time": pa.array([1 << 62], pa.timestamp("us")),
            "long": ["x" * 3000],
            "sound": [b"RIFF\x00\x00\x00\x00WAVE"],
        }
    )
    with _served(lancelet.write_dataset(rows, tmp_path / "odd.lance", data_storage_version="2.2")) as page:
        status, text = _ask(page, urlsplit(page.address).path + "facts/rows")
    assert status == 200
    (row,) = json.loads(text, parse_constant=pytest.fail)["rows"]
    number, vector, big, entries, nested, time, long, sound = row
    assert (number, big, nested) == ({"text": "nan"}, {"text": "9007199254740993"}, {"text": "{'data': b'\\x00'}"})
    assert vector == {"vector": [1.0, None, 2.0, 3.0], "length": 4}
    assert entries == {"text": "[('a', 1)]"}
    assert str(1 << 62) in time
    assert (len(long["text"]), long["length"]) == (2000, 3000)
    assert sound == {"bytes": 12}


def test_the_page_follows_the_table_unless_a_version_was_asked_for(tmp_path: Path) -> None:
    table = lancelet.write_dataset({"id": [1, 2]}, tmp_path / "moving.lance")
    with _served(table) as page, _served(table, follow=False) as fixed:
        lancelet.dataset(tmp_path / "moving.lance").insert(pa.table({"id": [3]}))
        assert [facts(one, "overview")["rows"] for one in (page, fixed)] == [3, 2]
        assert [facts(one, "overview")["follows"] for one in (page, fixed)] == [True, False]
        assert facts(fixed, "overview?version=2")["rows"] == 3


def test_a_page_that_was_never_served_can_be_closed() -> None:
    inspector = Inspector(lancelet.write_dataset({"id": [1]}, "memory://inspector/unserved"))
    inspector.close()
    inspector.serve()


def test_a_client_that_leaves_is_no_error(page: Inspector, capfd: pytest.CaptureFixture[str]) -> None:
    place = urlsplit(page.address)
    for _ in range(3):
        with socket.create_connection((place.hostname, place.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\n".encode())
    assert facts(page, "overview")["rows"] == 39
    assert capfd.readouterr().err == ""


def test_mistakes_are_sentences(page: Inspector) -> None:
    token = urlsplit(page.address).path.strip("/")
    for words, said in (
        ("rows?where=nope%20%3D%201", "nope"),
        ("rows?offset=x", "offset"),
        ("overview?version=99", "99"),
        ("overview?version=%C2%B2", "a version is a number"),
    ):
        status, text = _ask(page, f"/{token}/facts/{words}")
        assert status == 422
        assert said in json.loads(text)["error"]


def test_a_client_that_says_nothing_holds_nobody_up(page: Inspector) -> None:
    place = urlsplit(page.address)
    with socket.create_connection((place.hostname, place.port)):
        assert facts(page, "overview")["rows"] == 39


def test_the_page_asks_nobody_else(page: Inspector) -> None:
    with urlopen(page.address) as answer:
        text, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    for name in ("", "style.css", "inspector.js"):
        with urlopen(page.address + name) as answer:
            text = answer.read().decode()
        assert "https://" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize(
    ("view", "parts"),
    [
        ("overview", ("fixed_size_list", "39 rows")),
        pytest.param("history", ("CreateIndex", "⚑ first", "dev"), marks=pytest.mark.soak),
        pytest.param("fragments", ("fragment 0: 9 rows, 1 deleted",), marks=pytest.mark.soak),
        pytest.param("columns", ("nested.x.item", "percent of all bytes"), marks=pytest.mark.soak),
        pytest.param("indices", ("39 of 39",), marks=pytest.mark.soak),
        ("rows", ("data:image/png", "&lt;script&gt;", "8 numbers from")),
        pytest.param("upkeep", ("What a compaction would do",), marks=pytest.mark.soak),
    ],
)
def test_in_a_browser(page: Inspector, tmp_path: Path, view: str, parts: tuple[str, ...]) -> None:
    assert CHROMIUM is not None
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", *quiet, f"--user-data-dir={tmp_path}",
         "--window-size=380,700", "--virtual-time-budget=5000", "--dump-dom", f"{page.address}#{view}"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    for part in parts:
        assert part in done.stdout, done.stdout[-2000:]
    assert "taken" not in done.stdout.partition("</title>")[0]
    assert 'class="error"' not in done.stdout
