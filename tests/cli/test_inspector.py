"""The page of a table: what its server answers, whom it refuses, and what a browser makes of it."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pytest

import lancelet
from cli.browser import CHROMIUM, Browser
from lancelet.inspector.server import Inspector

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63606060f80f00010401005fe5c34b0000000049454e44ae426082"
)


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


def _path_of(page: Inspector, position: int) -> str:
    return page.table_at(None).get_fragments()[position].metadata.files[0].path


def test_facts(page: Inspector) -> None:
    assert facts(page, "overview")["rows"] == 39
    assert facts(page, "overview?version=1")["rows"] == 40
    history = facts(page, "history")
    assert [(one["version"], one["tags"], one["branches"]) for one in history][-1] == (1, ["first"], ["dev"])
    fragments = facts(page, "fragments")
    assert [one["rows"] for one in fragments["fragments"]] == [9, 10, 10, 10]
    assert {one["name"] for one in facts(page, "columns")["columns"]} == {
        "id",
        "caption",
        "picture",
        "v",
        "nested.x.item",
    }
    assert {one["column"] for one in facts(page, "pages?column=id")["pages"]} == {"id"}
    assert [one["path"] for one in facts(page, "fragment?position=1")] == [_path_of(page, 1)]
    assert facts(page, "indices")[0]["rows_indexed"] == 39
    assert "fragments" in facts(page, "upkeep")["compaction_text"]


def test_branches_are_lines_of_their_own(tmp_path: Path) -> None:
    main = lancelet.write_dataset({"id": [1]}, tmp_path / "lines.lance")
    main.insert(pa.table({"id": [2]}))
    dev = main.create_branch("dev", 1)
    dev.insert(pa.table({"id": [3, 4]}))
    dev.create_branch("dev/deep", ("dev", 2)).delete("id = 3")
    main.tags.create("good", ("dev", 2))
    with _served(lancelet.dataset(tmp_path / "lines.lance")) as page:
        found = facts(page, "lines")
        assert [[line[name] for name in ("branch", "from", "at")] for line in found["lines"]] == [
            ["main", None, None],
            ["dev", "main", 1],
            ["dev/deep", "dev", 2],
        ]
        assert [[one["version"] for one in line["versions"]] for line in found["lines"]] == [[2, 1], [2], [3]]
        assert [one["tags"] for one in found["lines"][1]["versions"]] == [["good"]]
        assert facts(page, "overview?version=dev:2")["rows"] == 3
        assert facts(page, "overview?version=dev/deep:3")["rows"] == 2
        assert facts(page, "overview?version=main:1")["rows"] == 1
        assert facts(page, "lines?version=dev:2")["here"] == "dev"


def test_a_damaged_file_hides_no_other(tmp_path: Path) -> None:
    table = lancelet.write_dataset({"id": range(40)}, tmp_path / "torn.lance", max_rows_per_file=10)
    table.create_scalar_index("id", "BTREE")
    table.insert(pa.table({"id": range(10)}))
    torn = tmp_path / "torn.lance" / "data" / table.get_fragments()[1].metadata.files[0].path
    torn.write_bytes(torn.read_bytes()[:-8])
    with _served(lancelet.dataset(tmp_path / "torn.lance")) as page:
        for name in ("columns", "pages?column=id"):
            found = facts(page, name)
            (problem,) = found["problems"]
            assert torn.name in problem
            assert found["read"] == found["files"] == 5
        assert facts(page, "columns")["columns"][0]["pages"] == 4
        # Ten rows cannot be read, and those behind them have the places that they had.
        found = facts(page, "rows?offset=5&limit=20")
        assert [row[0] for row in found["rows"]] == [*range(5, 10), *range(20, 25)]
        assert found["count"] == 50
        (problem,) = found["problems"]
        assert "fragment 1: " in problem
        assert torn.name in problem
        found = facts(page, "rows?where=id%20%25%202%20%3D%200&limit=100")
        assert [row[0] for row in found["rows"]] == [*range(0, 10, 2), *range(20, 40, 2), *range(0, 10, 2)]
        assert (found["count"], len(found["problems"])) == (20, 1)
        # The index knows all fragments but the last.
        assert facts(page, "indices")[0]["strip"] == [1, 1, 1, 1, 0]


def test_an_empty_table(tmp_path: Path) -> None:
    with _served(lancelet.write_dataset(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "empty.lance")) as page:
        for name in ("overview", "history", "lines", "fragments", "columns", "indices", "rows", "upkeep"):
            assert facts(page, name) is not None
        assert facts(page, "columns")["columns"] == []


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


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    window = Browser(tmp_path_factory.mktemp("browser"))
    yield window
    window.close()


VIEWS = {
    "overview": ("fixed_size_list", "39 rows", "and 1 deleted"),
    "history": ("CreateIndex", "⚑ first", "dev", "3 versions on 2 lines"),
    "fragments": ("fragment 0: 9 rows, 1 deleted, 1 file,",),
    "columns": ("nested.x.item", "percent of all bytes"),
    "indices": ("39 of 39",),
    "rows": ("data:image/png", "&lt;script&gt;", "8 numbers from"),
    "upkeep": ("What a compaction would do",),
}


@pytest.mark.parametrize("width", [1200, 320])
@pytest.mark.parametrize("view", VIEWS)
def test_in_a_browser(page: Inspector, browser: Browser, view: str, width: int) -> None:
    browser.resize(width, 700)
    browser.open(f"{page.address}#{view}")
    shown = browser.run("document.documentElement.outerHTML")
    for part in VIEWS[view]:
        assert part in shown
    assert browser.run("document.title") == "kelp.lance – Lancelet"
    assert 'class="error"' not in shown
    # What is wide scrolls in its own place; the page itself never does.
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


def test_by_keys_alone(page: Inspector, browser: Browser) -> None:
    browser.resize(900, 700)
    browser.open(page.address)
    browser.press("Tab")
    assert browser.focus == "Skip to the table"
    browser.press("Enter")
    assert browser.focus == "main"
    browser.press("Shift+Tab")
    assert browser.focus == "Overview"
    browser.press("ArrowRight")
    browser.wait()
    assert (browser.focus, browser.run("location.hash")) == ("History", "#history")
    browser.press("ArrowRight")
    browser.wait()
    # Into the map, along it, and into the files of a fragment.
    browser.press("Tab", "Tab")
    assert browser.focus.startswith("fragment 0:")
    browser.press("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight")
    assert browser.focus.startswith("fragment 3:")
    browser.press("Home", "ArrowRight", "Enter")
    browser.until("document.querySelector('#fragment table') !== null")
    assert "fragment 1:" in browser.run("document.getElementById('fragment').innerText")
    assert browser.focus.startswith("fragment 1:")
    browser.press("Shift+Tab", "Shift+Tab", "End")
    browser.wait()
    assert browser.focus == "Upkeep"
    # Back and forth as in any other page.
    browser.run("history.back()")
    browser.until("document.querySelector('[aria-selected=true]').textContent === 'Fragments'")
    browser.wait()
    assert browser.run("location.hash") == "#fragments"


def test_rows_are_filtered_and_turned_over_by_keys(page: Inspector, browser: Browser) -> None:
    browser.resize(900, 700)
    browser.open(f"{page.address}#rows")
    browser.run("document.getElementById('on').focus()")
    browser.press("Enter")
    browser.until("document.querySelector('.pager')?.innerText.includes('21 to 39 of 39')")
    # There is nothing after it: the cursor is not lost with the button.
    assert browser.focus == "main"
    browser.run("document.getElementById('back').focus()")
    browser.press("Space")
    browser.until("document.querySelector('.pager')?.innerText.includes('1 to 20 of 39')")
    browser.run("document.getElementById('where').focus()")
    browser.type("id > 36")
    browser.press("Enter")
    browser.until("document.querySelector('.pager')?.innerText.includes('of 3')")
    assert browser.focus == "Condition"
    browser.type(" AND nope")
    browser.press("Enter")
    browser.until("document.querySelector('.error') !== null")
    assert "nope" in browser.text


def test_versions_are_chosen_in_the_history(page: Inspector, browser: Browser) -> None:
    browser.resize(900, 700)
    browser.open(f"{page.address}#history")
    browser.run("[...document.querySelectorAll('td button')].at(-1).focus()")
    browser.press("Enter")
    browser.until("document.getElementById('numbers').textContent.startsWith('version 1, 40 rows')")
    assert browser.run("document.getElementById('version').value") == "main:1"
    browser.wait()
    # With a mouse, on the line itself.
    browser.run("document.querySelector('circle[cx=\"116\"]').dispatchEvent(new MouseEvent('click'))")
    browser.until("document.getElementById('numbers').textContent.startsWith('version 3, 39 rows')")


def test_pages_of_a_column_are_opened_by_keys(page: Inspector, browser: Browser) -> None:
    browser.resize(900, 700)
    browser.open(f"{page.address}#columns")
    browser.run("document.querySelector('td button').focus()")
    browser.press("Enter")
    browser.until("document.activeElement.tagName === 'H2'")
    assert browser.focus.startswith("Pages of ")


def test_long_and_hidden_texts_in_a_browser(tmp_path: Path, browser: Browser) -> None:
    """Many words open where they stand, also by keys; what nobody would see, or what turns a text around, is written out."""
    words, odd = "kelp " * 300, "a\x1b[2J\u202egpjexe\u200b"
    rows = {"words": [words] * 20, odd: [odd] * 20}
    with _served(lancelet.write_dataset(rows, tmp_path / "texts.lance")) as page:
        browser.resize(900, 700)
        browser.open(f"{page.address}#rows")
        assert browser.run(
            "Math.max(...[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight)) < 200"
        )
        assert browser.run("document.querySelectorAll('tbody td')[1].innerText") == "a\\u001b[2J\\u202egpjexe\\u200b"
        assert "\u202e" not in browser.text
        browser.run("document.querySelector('td summary').focus()")
        browser.press("Enter")
        browser.until("document.querySelector('td details').open")
        assert browser.run("document.querySelector('td .whole').textContent") == words
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")


# Many fragments


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspector]:
    """A table of 20,000 fragments, which share a few files."""
    path = tmp_path_factory.mktemp("large") / "large.lance"
    few = lancelet.write_dataset({"id": range(40), "s": ["x"] * 40}, path, max_rows_per_file=10)
    fragments = [fragment.metadata for fragment in few.get_fragments()]
    many = [replace(fragments[number % 4], id=0) for number in range(20_000)]
    with _served(lancelet.LanceDataset.commit(path, lancelet.LanceOperation.Overwrite(few.schema, many))) as inspector:
        yield inspector


def test_many_fragments_come_in_parts(large: Inspector) -> None:
    first = facts(large, "fragments")
    assert (len(first["fragments"]), first["all"]) == (5_000, 20_000)
    assert first["fragments"][0]["written"] is not None
    last = facts(large, "fragments?offset=15000&limit=100000")
    start = first["fragments"][0]["id"]
    assert [last["fragments"][at]["id"] - start for at in (0, -1)] == [15_000, 19_999]
    assert facts(large, "fragments?offset=20000")["fragments"] == []
    assert [one["fragment"] - start for one in facts(large, "fragment?position=19999")] == [19_999]
    columns = facts(large, "columns")
    assert (columns["read"], columns["files"]) == (256, 20_000)
    assert {one["name"]: one["pages"] for one in columns["columns"]} == {"id": 256, "s": 256}
    assert facts(large, "columns?offset=19990&limit=99999")["read"] == 20_000
    pages = facts(large, "pages?column=id&offset=19990")
    assert (len(pages["pages"]), pages["read"]) == (10, 20_000)
    assert facts(large, "pages?column=id")["read"] == 256


@pytest.mark.soak
def test_many_fragments_in_a_browser(large: Inspector, browser: Browser) -> None:
    browser.resize(900, 700)
    browser.open(f"{large.address}#fragments")
    # One stop for the tab key, not five thousand.
    assert browser.run("document.querySelectorAll('.map button').length") == 5_000
    assert browser.run("document.querySelectorAll('.map button[tabindex=\"0\"]').length") == 1
    browser.run("document.getElementById('on').focus()")
    browser.press("Enter")
    browser.until("document.querySelector('.pager')?.innerText.includes('5,001 to 10,000 of 20,000')")
    assert browser.focus == "on"
    browser.open(f"{large.address}#columns")
    assert "From 256 of 20,000 files" in browser.text
    browser.run("document.getElementById('read-on').focus()")
    browser.press("Enter")
    browser.until("document.body.innerText.includes('From 512 of 20,000 files')")
    assert browser.focus == "read-on"
    assert browser.run("[...document.querySelectorAll('td.number')].some((one) => one.textContent === '512')")
