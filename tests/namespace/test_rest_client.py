"""The client: tables by their names over HTTP, headers, attempts, and answers that are not of a namespace."""

from __future__ import annotations

import pickle
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import lance.namespace
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput
from lancelet.namespace import DirectoryNamespace, DynamicContextProvider, RestNamespace
from namespace.served import BODY, served
from namespace.spaces import ROWS, child, children, create, tables

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n" + b'{"tables":[]}'


class Scripted(socketserver.ThreadingTCPServer):
    """A server that has its answers ready, whatever it is asked; None is a connection that ends."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *answers: bytes | None) -> None:
        super().__init__(("127.0.0.1", 0), _Scripted)
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.uri = f"http://127.0.0.1:{self.server_address[1]}"


class _Scripted(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        lines = []
        while (line := self.rfile.readline().strip()) != b"":
            lines.append(line)
        size = sum(int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length"))
        self.rfile.read(size)
        server: Any = self.server
        server.asked.append(b"\n".join(lines))
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        if answer is not None:
            self.wfile.write(answer)


@contextmanager
def scripted(*answers: bytes | None) -> Iterator[Scripted]:
    with Scripted(*answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def answer(status: int, body: bytes, *headers: bytes) -> bytes:
    lines = (b"HTTP/1.1 %d X" % status, b"Content-Length: %d" % len(body), *headers)
    return b"\r\n".join(lines) + b"\r\nConnection: close\r\n\r\n" + body


# Tables


@pytest.mark.parametrize("module", [lancelet, lance])
@pytest.mark.parametrize("client", [RestNamespace, lance.namespace.RestNamespace])
@pytest.mark.parametrize("tracking", ["false", "true"])
def test_tables_are_written_and_read_by_their_names(tmp_path: Path, module: Any, client: Any, tracking: str) -> None:
    """By either library with either client; ours also where the server says that it makes the versions."""
    properties = {"table_version_tracking_enabled": tracking}
    with served(tmp_path, properties=properties) as server:
        space = client(uri=server.uri)
        child(space, "n")
        named = {"namespace_client": space, "table_id": ["n", "t u"]}
        if client is not RestNamespace:
            # Its spaces would arrive as plus signs where there is no body that says it right.
            named["table_id"] = ["n", "t"]
        module.write_dataset(ROWS, **named)
        module.write_dataset(ROWS, **named, mode="append")
        table = module.dataset(**named)
        table.delete("a = 1")
        assert module.dataset(**named).to_table().to_pydict() == {"a": [2, 3] * 2, "s": ["y", "z"] * 2}
        assert module.dataset(**named).version == 3
        assert tables(DirectoryNamespace(root=tmp_path), "n") == [named["table_id"][1]]
        with pytest.raises(ln.TableNotFoundError):
            lancelet.dataset(namespace_client=space, table_id=["n", "no"])
        with pytest.raises(ln.TableAlreadyExistsError):
            lancelet.write_dataset(ROWS, **named, mode="create")
        space.drop_table(ln.DropTableRequest(id=named["table_id"]))
        assert tables(space, "n") == []


def test_servers_behind_servers(tmp_path: Path) -> None:
    """A server can pass on what it is asked."""
    from lancelet.namespace import RestAdapter

    with served(tmp_path) as behind, RestAdapter("rest", {"uri": behind.uri}, port=0) as server:
        space = RestNamespace(uri=server.uri)
        create(space, "t")
        assert tables(space) == tables(DirectoryNamespace(root=tmp_path)) == ["t"]
        with pytest.raises(ln.TableNotFoundError, match="there is no table no"):
            space.describe_table(ln.DescribeTableRequest(id=["no"]))


NAMES = ["a b", "a+b", "a%20b", "ü", "日本", "a.b", "a&b=c", "a?b#c", "~", "'", "a;b", "x" * 100]


@pytest.mark.parametrize("delimiter", ["$", "::"])
def test_names_arrive_as_they_are(tmp_path: Path, delimiter: str) -> None:
    direct = DirectoryNamespace(root=tmp_path)
    with served(tmp_path) as server:
        for client in (RestNamespace, lance.namespace.RestNamespace):
            space = client(uri=server.uri, delimiter=delimiter)
            for name in NAMES:
                child(space, name)
                space.declare_table(ln.DeclareTableRequest(id=[name, name[::-1]]))
                assert tables(space, name) == [name[::-1]]
            assert children(direct) == children(space) == sorted(NAMES, key=str.encode)
            for name in NAMES:
                space.drop_table(ln.DropTableRequest(id=[name, name[::-1]]))
                space.drop_namespace(ln.DropNamespaceRequest(id=[name]))
        space = RestNamespace(uri=server.uri, delimiter=delimiter)
        for names in ([f"a{delimiter}b"], [""], None):
            with pytest.raises(ln.InvalidInputError):
                tables(space, *names) if names else space.list_tables(ln.ListTablesRequest())
        dotted = RestNamespace(uri=server.uri, delimiter=".")
        assert tables(dotted) == children(dotted) == []


def test_rows_that_are_no_stream_are_refused(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for data in (b"", b"junk", BODY[:100]):
            with pytest.raises(ln.InvalidInputError):
                RestNamespace(uri=server.uri).create_table(ln.CreateTableRequest(id=["t"]), data)
        assert tables(RestNamespace(uri=server.uri)) == []


# Headers


class Provider(DynamicContextProvider):
    """Tells what it was asked."""

    def __init__(self, word: str = "said") -> None:
        self.word = word

    def provide_context(self, info: dict[str, str]) -> dict[str, str]:
        return {"headers.X-Asked": f"{self.word} {info['operation']} {info['object_id']}", "other": "not sent"}


def test_headers_are_sent() -> None:
    with scripted(OK) as server:
        given = {"header.X-One": "1", "headers.X-Two": "2", "token": "a-token"}
        space = RestNamespace(Provider(), uri=server.uri + "/", **given)
        space.list_tables(ln.ListTablesRequest(id=["n", "m"], context={"header.X-Three": "3", "four": "4"}))
        named = {"dynamic_context_provider.impl": f"{__name__}.Provider", "dynamic_context_provider.word": "named"}
        tables(RestNamespace(uri=server.uri, **named))
        first, second = (asked.decode() for asked in server.asked)
    assert first.startswith("GET /v1/namespace/n%24m/table/list?delimiter=%24&include_declared=true HTTP/1.1")
    for line in (
        "Authorization: Bearer a-token",
        "X-One: 1",
        "X-Two: 2",
        "X-Three: 3",
        "X-Asked: said list_tables n$m",
    ):
        assert line in first.split("\n")
    assert "4" not in first.partition("\n")[2].replace("3.14", "").replace(server.uri[-5:], "")
    assert "X-Asked: named list_tables $" in second.split("\n")


def test_headers_of_answers_are_their_context() -> None:
    with scripted(answer(200, b'{"tables":["t"]}', b"X-Request-Id: 7")) as server:
        told = RestNamespace(uri=server.uri).list_tables(ln.ListTablesRequest(id=[]))
    assert told.tables == ["t"]
    assert told.context["header.x-request-id"] == "7"


@pytest.mark.parametrize(
    ("properties", "match"),
    [
        ({}, "'uri'"),
        ({"uri": "ftp://host"}, "'uri'"),
        ({"uri": "http://host", "delimiter": ""}, "delimiter"),
        ({"uri": "http://host", "timeout": "soon"}, "timeout"),
        ({"uri": "http://host", "retries": "-1"}, "retries"),
        ({"uri": "http://host", "header.A": "two\nlines"}, "header"),
        ({"uri": "http://host", "token": "ü"}, "header"),
        ({"uri": "http://host", "dynamic_context_provider.impl": "nowhere.Provider"}, "context provider"),
        ({"uri": "http://host", "dynamic_context_provider.impl": "nowhere"}, "context provider"),
    ],
)
def test_properties_that_cannot_be(properties: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        RestNamespace(**properties)


def test_pickles() -> None:
    space = RestNamespace(uri="http://localhost:1", token="a-token")
    assert pickle.loads(pickle.dumps(space)) == space
    assert hash(pickle.loads(pickle.dumps(space))) == hash(space)
    assert space != RestNamespace(uri="http://localhost:2", token="a-token")
    assert "a-token" not in repr(space)
    theirs = lance.namespace.RestNamespace(uri="http://localhost:1")
    assert repr(space) == repr(theirs)


def test_operations_are_counted() -> None:
    with scripted(OK) as server:
        space = RestNamespace(uri=server.uri, ops_metrics_enabled="true")
        for _ in range(2):
            tables(space)
        assert space.retrieve_ops_metrics() == {"list_tables": 2}
        space.reset_ops_metrics()
        assert space.retrieve_ops_metrics() == {}


def test_names_come_page_by_page() -> None:
    """A server chooses how long its pages are."""
    from lancelet.namespace import RemoteConnection

    pages = answer(200, b'{"tables":["a","b"],"page_token":"b"}'), answer(200, b'{"tables":["c"]}')
    with scripted(*pages) as server:
        assert list(RemoteConnection(RestNamespace(uri=server.uri))) == ["a", "b", "c"]
        assert b"page_token=b" in server.asked[1]


# When things go wrong


def test_what_changes_nothing_is_asked_again() -> None:
    for first in (None, answer(503, b"busy"), answer(429, b'{"error":"slowly","code":21}')):
        with scripted(first, first, OK) as server:
            assert tables(RestNamespace(uri=server.uri)) == []
            assert len(server.asked) == 3


def test_changes_are_not_asked_for_twice() -> None:
    for first in (None, answer(503, b'{"error":"busy","code":17}')):
        with scripted(first, answer(200, b"{}")) as server:
            with pytest.raises(ln.ServiceUnavailableError):
                child(RestNamespace(uri=server.uri), "n")
            assert len(server.asked) == 1


def test_servers_that_cannot_be_reached() -> None:
    with scripted(None) as server:
        uri = server.uri
        with pytest.raises(ln.ServiceUnavailableError, match="nobody can say whether"):
            child(RestNamespace(uri=uri, retries=1), "n")
        with pytest.raises(ln.ServiceUnavailableError, match="cannot be reached"):
            tables(RestNamespace(uri=uri, retries=1))
    with pytest.raises(ln.ServiceUnavailableError, match=f"{uri} cannot be reached.*refused"):
        child(RestNamespace(uri=uri, retries=0), "n")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b'{"error":"gone","code":4}', ln.TableNotFoundError),
        (500, b'{"error":"gone","code":4}', ln.TableNotFoundError),
        (404, b"<html>", ln.UnsupportedOperationError),
        (404, b'{"code":4711}', ln.UnsupportedOperationError),
        (404, b'{"code":"4"}', ln.UnsupportedOperationError),
        (400, b"[1]", ln.InvalidInputError),
        (401, b"", ln.UnauthenticatedError),
        (403, b"", ln.PermissionDeniedError),
        (409, b"", ln.ConcurrentModificationError),
        (413, b"too large", ln.InvalidInputError),
        (502, b"<html>\x1b[31m", ln.ServiceUnavailableError),
        (500, b"\xff\xfe", ln.InternalError),
        (302, b"", ln.InternalError),
        (200, b"<html>", ln.InternalError),
        (200, b'{"tables":7}', ln.InternalError),
        (200, b"[" * 100_000, ln.InternalError),
    ],
)
def test_answers_become_errors(status: int, body: bytes, kind: type[Exception]) -> None:
    """A redirection is not followed: the token is for one server."""
    with scripted(answer(status, body, b"Location: http://127.0.0.1:1/")) as server:
        with pytest.raises(kind) as caught:
            tables(RestNamespace(uri=server.uri, token="a-token", retries=0))
        assert type(caught.value) is kind
        assert str(caught.value).isprintable()


def test_limits_of_what_tables_refer_to_are_the_clients_own(tmp_path: Path) -> None:
    """Tables are opened by whoever asked for their place."""
    secret = tmp_path / "secret.lance"
    lancelet.write_dataset(pa.table({"a": [1]}), secret)
    (tmp_path / "root").mkdir()
    lancelet.dataset(secret).shallow_clone(tmp_path / "root" / "clone.lance", 1)
    with served(tmp_path / "root") as server:
        named = {"table_id": ["clone"]}
        free = lancelet.dataset(namespace_client=RestNamespace(uri=server.uri), **named)
        assert free.to_table().to_pydict() == {"a": [1]}
        limited = RestNamespace(uri=server.uri, allowed_prefixes="")
        with pytest.raises(lancelet.errors.PathNotAllowed):
            lancelet.dataset(namespace_client=limited, **named).to_table()
