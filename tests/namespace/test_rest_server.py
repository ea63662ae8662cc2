"""The server among strangers: tokens, sizes, slow and many clients, names that lead elsewhere, damaged tables."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import lance
import lance.namespace
import lance_namespace as ln
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import InvalidInput
from lancelet.namespace import DirectoryNamespace, RestAdapter, RestNamespace
from lancelet.namespace.rest.http_server import Limits
from lancelet.namespace.rest.routes import NOTHING, ROUTES, ROWS
from lancelet.namespace.rest.service import Service
from namespace.served import BODY, Slow, served
from namespace.spaces import create, stream, tables

TOKEN = "a-token-of-ours"


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a table ``t``, beside a table that is none of its business."""
    outside = tmp_path_factory.mktemp("outside")
    lance.write_dataset(pa.table({"a": ["SECRET"]}), outside / "secret.lance")
    create(DirectoryNamespace(root=outside / "root"), "t")
    return outside / "root"


@pytest.fixture(scope="module")
def server(space: Path) -> Iterator[RestAdapter]:
    with served(space) as running:
        yield running


def ask(server: RestAdapter, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and answer of a request."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        told = answer.read()
        return answer.status, json.loads(told) if told else None
    finally:
        connection.close()


def converse(server: RestAdapter, *pieces: bytes) -> bytes:
    """All that the server says to these bytes, until it hangs up."""
    with socket.create_connection((server.host, server.port), timeout=30) as connection:
        for piece in pieces:
            connection.sendall(piece)
        said = b""
        try:
            while piece := connection.recv(65536):
                said += piece
        except ConnectionResetError:
            pass
        return said


def status(said: bytes) -> int:
    return int(said.split()[1])


# Who may ask


def test_only_those_who_know_the_token_are_answered(tmp_path: Path) -> None:
    create(DirectoryNamespace(root=tmp_path), "t")
    with served(tmp_path, token=TOKEN) as server:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": TOKEN},
            {"x-api-key": TOKEN[:-1]},
            {"Authorization": "Bearer \xff"},
        ):
            code, told = ask(server, "POST", "/v1/table/t/drop", **headers)
            assert (code, told["code"]) == (401, 16)
            assert ask(server, "GET", "/nowhere", **headers)[0] == 401
        for client in (RestNamespace, lance.namespace.RestNamespace):
            stranger = client(uri=server.uri, **{"header.Authorization": "Bearer wrong"})
            with pytest.raises(ln.UnauthenticatedError):
                tables(stranger)
            with pytest.raises(ln.UnauthenticatedError):
                create(stranger, "u")
            assert tables(client(uri=server.uri, **{"header.Authorization": f"Bearer {TOKEN}"})) == ["t"]
        assert tables(RestNamespace(uri=server.uri, token=TOKEN)) == ["t"]
        assert ask(server, "GET", "/v1/table", **{"x-api-key": TOKEN}) == (200, {"tables": ["t"]})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_other_addresses_need_a_token(tmp_path: Path, host: str) -> None:
    with pytest.raises(InvalidInput, match="give a token"):
        RestAdapter("dir", {"root": tmp_path}, host=host, port=0)


@pytest.mark.parametrize("token", ["", "short", "with spaces in it", "with\nlines in", "ümläute in it"])
def test_tokens_are_of_use(tmp_path: Path, token: str) -> None:
    with pytest.raises(InvalidInput, match="a token has"):
        RestAdapter("dir", {"root": tmp_path}, token=token)


def test_pages_of_the_web_are_not_answered(server: RestAdapter) -> None:
    """A browser asks for them with the names that they have, or says where they come from."""
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": f"evil.example:{server.port}"},
        {"Host": "[::1"},
    ):
        code, told = ask(server, "POST", "/v1/table/t/drop", **headers)
        assert (code, told["code"]) == (403, 15)
    assert ask(server, "GET", "/v1/table", Host=f"localhost:{server.port}") == (200, {"tables": ["t"]})


def test_an_address_that_is_taken_is_said(server: RestAdapter, space: Path) -> None:
    with pytest.raises(InvalidInput, match=f"cannot listen at 127.0.0.1, port {server.port}"):
        RestAdapter("dir", {"root": space}, port=server.port).start()
    with pytest.raises(InvalidInput, match="no namespace of the kind 'nope'"):
        RestAdapter("nope", {})
    with pytest.raises(InvalidInput, match="running already"):
        server.start()


def test_encrypted(tmp_path: Path) -> None:
    trusted, cert, key = _certificates(tmp_path)
    root = tmp_path / "root"
    with served(root, token=TOKEN, tls_cert=cert, tls_key=key) as server:
        assert server.uri.startswith("https://")
        client = RestNamespace(uri=server.uri, token=TOKEN, **{"tls.ssl_ca_cert": trusted})
        create(client, "t")
        assert tables(client) == ["t"]
        with pytest.raises(ln.ServiceUnavailableError, match="certificate"):
            tables(RestNamespace(uri=server.uri, token=TOKEN, retries=0))
        # Whoever does not speak the language is not answered, and takes nobody's place.
        assert b"HTTP" not in converse(server, b"GET /v1/table HTTP/1.1\r\n\r\n")
        theirs = lance.namespace.RestNamespace(
            uri=server.uri, **{"header.Authorization": f"Bearer {TOKEN}", "tls.ssl_ca_cert": str(trusted)}
        )
        assert tables(theirs) == ["t"]
    with pytest.raises(InvalidInput, match="together"):
        RestAdapter("dir", {"root": root}, tls_cert=cert)
    with pytest.raises(InvalidInput, match="cannot be used"):
        RestAdapter("dir", {"root": root}, tls_cert=cert, tls_key=cert)


def _certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Files with an authority's certificate, a server's that it has signed, and the server's key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def signed(name: str, issuer: str, own: Any, signer: Any, *, is_authority: bool) -> Any:
        named = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, issuer))
        now = datetime.now(timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(next(named))
            .issuer_name(next(named))
            .public_key(own.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .sign(signer, hashes.SHA256())
        )

    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    trusted = signed("authority", "authority", authority, authority, is_authority=True)
    cert = signed("server", "authority", own, authority, is_authority=False)
    pem = serialization.Encoding.PEM
    secret = own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files = folder / "trusted.pem", folder / "cert.pem", folder / "key.pem"
    for path, data in zip(files, (trusted.public_bytes(pem), cert.public_bytes(pem), secret), strict=True):
        path.write_bytes(data)
    return files


# How much, and how slowly


def test_bodies_have_a_limit(tmp_path: Path) -> None:
    with served(tmp_path, limits=Limits(json_bytes=1000, rows_bytes=len(BODY))) as server:
        for client in (RestNamespace, lance.namespace.RestNamespace):
            asked = client(uri=server.uri)
            with pytest.raises(ln.InvalidInputError, match="more than"):
                asked.create_table(ln.CreateTableRequest(id=["large"]), BODY + b"\0")
            with pytest.raises(ln.InvalidInputError, match="more than 1000 bytes"):
                asked.create_namespace(ln.CreateNamespaceRequest(id=["n"], properties={"x": "y" * 1000}))
            asked.create_table(ln.CreateTableRequest(id=[client.__module__.partition(".")[0]]), BODY)
            assert asked.list_namespaces(ln.ListNamespacesRequest(id=[])).namespaces == []
        head = b"POST /v1/table/x/create HTTP/1.1\r\nHost: localhost\r\n"
        # Neither what a client says of the size, nor how it sends it, makes the server take more.
        for said in (
            converse(server, head, b"Content-Length: 1000000000000\r\n\r\n"),
            converse(server, head, b"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"),
            converse(server, head, b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n"),
            converse(
                server, head, b"Transfer-Encoding: chunked\r\n\r\n", b"100\r\n" + bytes(256) + b"\r\n", b"400\r\n"
            ),
        ):
            assert status(said) == 413
            assert json.loads(said.partition(b"\r\n\r\n")[2])["code"] == 13
        assert tables(asked) == ["lance", "lancelet"]


def test_bodies_have_a_limit_all_together(tmp_path: Path) -> None:
    """Half a body takes the room of another, until its client is gone."""
    head = b"POST /v1/table/x/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"

    def is_room() -> bool:
        try:
            client.create_table(ln.CreateTableRequest(id=["t"], mode="overwrite"), BODY)
        except ln.ServiceUnavailableError as error:
            assert "no room" in str(error)
            return False
        return True

    def is_room_beside_another() -> bool:
        with socket.create_connection((server.host, server.port), timeout=30) as connection:
            connection.sendall(head + bytes(50))
            return is_room()

    with served(tmp_path, limits=Limits(kept_bytes=len(BODY) + 10)) as server:
        client = RestNamespace(uri=server.uri)
        # The server hears of the other in its own time, and has no room for it either while it works on a body.
        assert not all(is_room_beside_another() for _ in range(1000))
        assert any(is_room() for _ in range(1000))


def test_large_bodies_and_chunks_are_taken(tmp_path: Path) -> None:
    rows = pa.table({"a": range(600_000)})
    with served(tmp_path) as server:
        client = RestNamespace(uri=server.uri)
        create(client, "large", rows=rows)
        told = client.query_table(ln.QueryTableRequest(id=["large"], k=0, vector={}))
        assert pa.ipc.open_file(told.data).read_all().equals(rows)
        chunks = [BODY[start : start + 100] for start in range(0, len(BODY), 100)]
        assert ask(server, "POST", "/v1/table/pieces/create", iter(chunks))[0] == 200
        assert client.count_table_rows(ln.CountTableRowsRequest(id=["pieces"])).count == 3


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 0x2\r\n",
        b"Content-Length: two\r\n",
        b"X: " + b"x" * 70_000 + b"\r\n",
        b"X: y\r\n" * 200,
    ],
    ids=["both", "coding", "two", "negative", "hex", "word", "long", "many"],
)
def test_heads_that_can_be_read_in_two_ways_are_refused(server: RestAdapter, lines: bytes) -> None:
    said = converse(server, b"POST /v1/table/t/describe HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n{}")
    assert status(said) in (400, 431)
    assert said.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"PO",
        b"POST /v1/table/t/describe HTTP/1.1\r\nHost: local",
        b"POST /v1/table/t/describe HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{",
        b"POST /v1/table/x/create HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
    ids=["nothing", "a word", "half a head", "half a body", "half a chunk"],
)
def test_clients_that_stop_halfway_are_left(space: Path, begin: bytes) -> None:
    """The others do not wait for them."""
    with served(space, limits=Limits(idle_seconds=1.0, head_seconds=1.0, at_once=1)) as server:
        with socket.create_connection((server.host, server.port), timeout=30) as connection:
            connection.sendall(begin)
            assert ask(server, "GET", "/v1/table") == (200, {"tables": ["t"]})
            said = b""
            while piece := connection.recv(65536):
                said += piece
        assert said == b"" or status(said) == 408


def test_clients_that_send_a_byte_now_and_then_are_left_too(space: Path) -> None:
    with served(space, limits=Limits(idle_seconds=1.0, head_seconds=1.0)) as server:
        with socket.create_connection((server.host, server.port), timeout=30) as connection:
            connection.settimeout(0.05)
            sent, goes_on = 0, True
            while goes_on:
                try:
                    connection.sendall(b"G")
                    sent += 1
                    goes_on = connection.recv(100) != b""
                except TimeoutError:
                    pass
                except ConnectionError:
                    goes_on = False
        # Each byte would have been soon enough.
        assert sent > 1


def test_two_hundred_clients_at_once(tmp_path: Path) -> None:
    """All are connected before the first one asks; each reads, and some write."""
    direct = DirectoryNamespace(root=tmp_path)
    create(direct, "t")
    everybody = threading.Barrier(200)

    def client(number: int) -> Any:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        try:
            connection.connect()
            everybody.wait(60)
            found = []
            for method, path, body in (
                ("GET", "/v1/namespace/%24/table/list", None),
                ("POST", "/v1/table/t/count_rows", b"{}"),
                ("POST", f"/v1/table/t{number}/declare" if number % 20 == 0 else "/v1/table/no/exists", b"{}"),
            ):
                connection.request(method, path, body)
                answer = connection.getresponse()
                found.append((answer.status, answer.read()))
            return found
        finally:
            connection.close()

    with served(tmp_path) as server, ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(client, range(200)))
    for number, (listed, counted, last) in enumerate(answers):
        assert listed[0] == 200
        assert "t" in json.loads(listed[1])["tables"]
        assert counted == (200, b"3")
        assert last[0] == (200 if number % 20 == 0 else 404)
    assert sorted(tables(direct)) == sorted(["t", *(f"t{number}" for number in range(0, 200, 20))])


# Answers that are sent while they are made


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a table ``t`` of some megabytes in several files."""
    root = tmp_path_factory.mktemp("long")
    # More than what the system keeps of a connection that nobody reads from.
    rows = pa.table({"a": range(80_000), "s": [f"{number:0150}" for number in range(80_000)]})
    lancelet.connect(root).create("t", rows, max_rows_per_file=10_000)
    return root


def _everything(client: Any) -> pa.Table:
    asked = ln.QueryTableRequest(id=["t"], k=0, vector={})
    return pa.ipc.open_file(client.query_table(asked).data).read_all()


def test_long_answers_are_sent_as_they_are_read(long: Path) -> None:
    expected = _everything(DirectoryNamespace(root=long))
    assert expected.num_rows == 80_000
    with served(long, limits=Limits(at_once=1)) as server:
        for client in (RestNamespace, lance.namespace.RestNamespace):
            assert _everything(client(uri=server.uri)).equals(expected)
        connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
        # Twice: the connection goes on where the answer ended.
        for _ in range(2):
            connection.request("POST", "/v1/table/t/query", b'{"k": 0, "vector": {}}')
            answer = connection.getresponse()
            assert (answer.getheader("Transfer-Encoding"), answer.getheader("Content-Length")) == ("chunked", None)
            assert pa.ipc.open_file(answer.read()).read_all().equals(expected)
        connection.close()
        old = converse(
            server, b"POST /v1/table/t/query HTTP/1.0\r\nContent-Length: 22\r\n\r\n", b'{"k": 0, "vector": {}}'
        )
        assert pa.ipc.open_file(old.partition(b"\r\n\r\n")[2]).read_all().equals(expected)


def test_long_answers_pass_through_servers(long: Path, tmp_path: Path) -> None:
    expected = _everything(DirectoryNamespace(root=long))
    with served(long) as server, RestAdapter("rest", {"uri": server.uri}, port=0) as front:
        assert _everything(RestNamespace(uri=front.uri)).equals(expected)
        with pytest.raises(ln.TableNotFoundError):
            RestNamespace(uri=front.uri).query_table(ln.QueryTableRequest(id=["no"], k=0, vector={}))
        connection = http.client.HTTPConnection(front.host, front.port, timeout=30)
        connection.request("POST", "/v1/table/t/query", b'{"k": 0, "vector": {}}')
        answer = connection.getresponse()
        assert answer.getheader("Transfer-Encoding") == "chunked"
        assert len(answer.read()) > 1 << 20
        connection.close()
    root = shutil.copytree(long, tmp_path / "root")
    folder = next(path for path in root.rglob("data"))
    last = lancelet.dataset(folder.parent).get_fragments()[-1].metadata.files[0].path
    (folder / last).write_bytes(b"damaged")
    with served(root) as server, RestAdapter("rest", {"uri": server.uri}, port=0) as front:
        with pytest.raises(ln.LanceNamespaceError):
            _everything(RestNamespace(uri=front.uri, retries=0))


def test_clients_that_do_not_take_their_answer_hold_nobody_up(long: Path) -> None:
    with served(long, limits=Limits(at_once=1, streams=1, head_seconds=1.0)) as server:
        with socket.socket() as connection:
            connection.settimeout(30)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((server.host, server.port))
            connection.sendall(b"POST /v1/table/t/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 22\r\n\r\n")
            connection.sendall(b'{"k": 0, "vector": {}}')
            assert connection.recv(20).startswith(b"HTTP/1.1 200")
            assert ask(server, "GET", "/v1/table") == (200, {"tables": ["t"]})
            assert ask(server, "POST", "/v1/table/t/query", b'{"k": 0, "vector": {}}')[0] == 503
        # Once the one is gone there is room again.
        again = RestNamespace(uri=server.uri, retries=10)
        assert _everything(again).num_rows == 80_000


def test_answers_that_fail_halfway_are_not_taken_for_whole(long: Path, tmp_path: Path) -> None:
    root = shutil.copytree(long, tmp_path / "root")
    folder = next(path for path in root.rglob("data"))
    names = [fragment.files[0].path for fragment in lancelet.dataset(folder.parent)._snapshot.manifest.fragments]
    (folder / names[-1]).write_bytes(b"damaged")
    with served(root) as server:
        for client in (RestNamespace(uri=server.uri, retries=0), lance.namespace.RestNamespace(uri=server.uri)):
            with pytest.raises((ln.LanceNamespaceError, RuntimeError, OSError)):
                _everything(client)
        (folder / names[0]).write_bytes(b"damaged")
        # What fails before anything is sent is told in words.
        code, told = ask(server, "POST", "/v1/table/t/query", b'{"k": 0, "vector": {}}')
        assert (code, "damaged" in told["error"] or names[0] in told["error"]) == (500, True), told


def test_more_connections_than_there_may_be_are_told_to_come_again(space: Path) -> None:
    with served(space, limits=Limits(connections=2)) as server:
        kept = [http.client.HTTPConnection(server.host, server.port, timeout=30) for _ in range(2)]
        for connection in kept:
            connection.request("GET", "/v1/table")
            assert connection.getresponse().read() == b'{"tables": ["t"]}'
        said = converse(server)
        assert status(said) == 503
        assert json.loads(said.partition(b"\r\n\r\n")[2])["code"] == 17
        for connection in kept:
            connection.close()
        # A client of ours comes again by itself.
        assert tables(RestNamespace(uri=server.uri, retries=10)) == ["t"]


def test_a_server_that_stops_answers_what_it_works_on(tmp_path: Path) -> None:
    """Idle connections end at once, and nothing of the server stays."""
    Slow.begun.clear()
    Slow.may_end.clear()
    server = RestAdapter("namespace.served.Slow", {"root": tmp_path}, port=0)
    server.start()
    idle = socket.create_connection((server.host, server.port), timeout=30)
    port = server.port
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(tables, RestNamespace(uri=server.uri))
        assert Slow.begun.wait(30)
        stopped = pool.submit(server.stop)
        assert idle.recv(1) == b""
        Slow.may_end.set()
        assert asked.result() == []
        stopped.result()
    idle.close()
    assert server.port == 0
    assert f"lancelet-rest-{port}" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


# Where names lead

NAMES = (
    "..",
    ".",
    "%2e%2e",
    "../secret",
    "..%2Fsecret",
    "%2e%2e%2fsecret.lance",
    "..%5Csecret",
    "%2Fetc%2Fpasswd",
    "t%2F..%2F..%2Fsecret",
    "t%00",
    "%00",
    "%ff",
    "",
    "a%24..%24t",
    "a$$t",
    "file:%2F%2F%2Fetc",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_do_not_lead_out_of_the_root(server: RestAdapter, space: Path, name: str) -> None:
    before = sorted(space.parent.rglob("*"))
    for route in ROUTES:
        if "{id}" not in route.path:
            continue
        path = route.path.replace("{id}", name).replace("{index_name}", "i")
        if "on" in route.query:
            path += "?on=a"
        body = (
            BODY if route.body == ROWS else None if route.body == NOTHING else b'{"location": "x", "predicate": "true"}'
        )
        code, told = ask(server, route.method, path, body)
        assert 400 <= code < 500, (route.operation, told)
        assert "SECRET" not in str(told)
    assert sorted(space.parent.rglob("*")) == before


def test_nothing_else_in_a_request_leads_out_of_the_root(server: RestAdapter, space: Path) -> None:
    before = sorted(space.parent.rglob("*"))
    secret = str(space.parent / "secret.lance")
    for place in ("../secret.lance", secret, f"file://{secret}", "x/../../secret.lance", "..", "\0"):
        text = json.dumps(place)
        for path, body in (
            ("register", f'{{"location": {text}}}'),
            ("declare", f'{{"location": {text}}}'),
            ("version/create", f'{{"version": 2, "manifest_path": {text}}}'),
            ("tags/create", f'{{"version": 1, "tag": {text}}}'),
            ("tags/delete", f'{{"tag": {text}}}'),
            ("branches/create", f'{{"name": {text}}}'),
            ("branches/delete", f'{{"name": {text}}}'),
            ("count_rows", f'{{"branch": {text}}}'),
            ("query", f'{{"k": 5, "vector": {{}}, "branch": {text}}}'),
            ("rename", f'{{"new_table_name": {text}}}'),
        ):
            name = "led" if "location" in body else "t"
            code, told = ask(server, "POST", f"/v1/table/{name}/{path}", body.encode())
            assert 400 <= code < 500, (path, place, told)
            assert "SECRET" not in str(told)
    assert sorted(space.parent.rglob("*")) == before


def test_tables_that_refer_to_other_places_are_not_read(tmp_path: Path) -> None:
    """Neither by a clone's base path nor by a symbolic link, unless the server is told that they may."""
    secret = tmp_path / "secret.lance"
    lancelet.write_dataset(pa.table({"a": ["SECRET"]}), secret)
    root = tmp_path / "root"
    root.mkdir()
    lancelet.dataset(secret).shallow_clone(root / "clone.lance", 1)
    (root / "linked.lance").symlink_to(secret)
    query = b'{"k": 5, "vector": {}}'
    with served(root) as server:
        for name in ("clone", "linked"):
            connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
            connection.request("POST", f"/v1/table/{name}/query", query)
            answer = connection.getresponse()
            told = answer.read()
            connection.close()
            assert answer.status >= 400, name
            assert b"SECRET" not in told
    with served(root, properties={"allowed_prefixes": str(secret)}) as server:
        told = RestNamespace(uri=server.uri).query_table(ln.QueryTableRequest(id=["clone"], k=5, vector={}))
        assert pa.ipc.open_file(told.data).read_all().to_pydict() == {"a": ["SECRET"]}


def test_rows_that_refer_to_other_places_are_not_taken(tmp_path: Path) -> None:
    """A blob may be the URI of a file, which a server would read for its client."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"SECRET")
    schema = pa.schema([lancelet.blob_field("b")])
    rows = pa.table([lancelet.blob_array([lancelet.Blob.from_uri(secret.as_uri())])], schema=schema)
    with served(tmp_path / "root") as server:
        client = RestNamespace(uri=server.uri)
        create(client, "t", rows=pa.table([lancelet.blob_array([b"mine"])], schema=schema))
        for ask_for in (
            lambda: create(client, "u", rows=rows),
            lambda: client.insert_into_table(ln.InsertIntoTableRequest(id=["t"]), stream(rows)),
        ):
            with pytest.raises(ln.LanceNamespaceError, match="secret"):
                ask_for()
        assert tables(client) == ["t"]


def test_the_catalog_is_no_table(server: RestAdapter) -> None:
    for client in (RestNamespace, lance.namespace.RestNamespace):
        with pytest.raises(ln.InvalidInputError, match="is where the catalog"):
            client(uri=server.uri).register_table(ln.RegisterTableRequest(id=["mine"], location="__manifest"))


def test_clients_do_not_choose_how_the_store_is_reached(server: RestAdapter) -> None:
    """Options such as an endpoint would have the server send its secrets there."""
    for client in (RestNamespace, lance.namespace.RestNamespace):
        request = ln.CreateTableRequest(id=["mine"], storage_options={"endpoint": "http://evil.example"})
        with pytest.raises(ln.PermissionDeniedError, match="its own"):
            client(uri=server.uri).create_table(request, BODY)


# Whatever comes


def test_damaged_tables_are_errors_of_theirs_alone(tmp_path: Path) -> None:
    direct = DirectoryNamespace(root=tmp_path, allowed_prefixes="")
    for name in ("sound", "manifest", "data", "empty"):
        create(direct, name)
    for path in (tmp_path / "manifest.lance" / "_versions").iterdir():
        path.write_bytes(path.read_bytes()[:40])
    for path in (tmp_path / "data.lance" / "data").iterdir():
        path.write_bytes(b"not a file of Lance")
    shutil.rmtree(tmp_path / "empty.lance" / "data")
    with served(tmp_path) as server:
        for client in (RestNamespace(uri=server.uri), lance.namespace.RestNamespace(uri=server.uri)):
            for name in ("sound", "manifest", "data", "empty"):
                for operation, request in (
                    ("query_table", ln.QueryTableRequest(id=[name], k=9, vector={})),
                    ("describe_table", ln.DescribeTableRequest(id=[name], load_detailed_metadata=True)),
                    ("count_table_rows", ln.CountTableRowsRequest(id=[name], predicate="a > 1")),
                ):
                    found = []
                    for asked in (direct, client):
                        try:
                            told = getattr(asked, operation)(request)
                            found.append({**told.model_dump(), "context": None})
                        except ln.LanceNamespaceError as error:
                            found.append(type(error))
                    assert found[0] == found[1], (name, operation)
                    assert (name == "sound") == isinstance(found[0], dict) or operation == "describe_table"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({name for route in ROUTES for name in route.request.model_fields} | {"schema", "new_columns"})


KEPT = [route for route in ROUTES if route.operation not in ("drop_table", "deregister_table", "rename_table")]


@settings(max_examples=examples(40))
@given(
    st.sampled_from(KEPT),
    st.sampled_from(["t", "no", "%24", "t%24u"]),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4) | VALUES,
    st.dictionaries(st.sampled_from([*FIELDS, "delimiter"]), st.text(max_size=5), max_size=2),
)
def test_no_body_is_too_odd(fuzzed: Service, route: Any, name: str, body: Any, query: dict[str, str]) -> None:
    """Whatever a body says, the answer is one of the specification, and never that the server failed."""
    from urllib.parse import urlencode

    target = f"{route.path.format(id=name, index_name='i')}?{urlencode(query, errors='replace')}"
    question = fuzzed.question(route.method, target, {})
    answer = fuzzed.answer(question, json.dumps(body).encode())
    told = json.loads(answer.body) if answer.body and answer.content_type == "application/json" else None
    assert answer.status < 500, told
    if answer.status >= 400:
        assert set(told) == {"error", "code"}


@pytest.fixture(scope="module")
def fuzzed() -> Service:
    namespace = DirectoryNamespace(root="memory://rest/fuzzed", allowed_prefixes="")
    create(namespace, "t")
    return Service(namespace)


@pytest.mark.parametrize("seed", range(examples(3)))
def test_no_bytes_are_too_odd(server: RestAdapter, seed: int) -> None:
    """Bytes that are no request are refused or left; the server goes on."""
    import random

    draw = random.Random(seed)
    good = b"POST /v1/table/t/describe HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    for _ in range(20):
        bad = bytearray(good)
        for _ in range(draw.randint(1, 6)):
            bad[draw.randrange(len(bad) - 6)] = draw.choice(b"\0\r\n :/%?\xff{A9")
        connection = socket.create_connection((server.host, server.port), timeout=30)
        connection.sendall(bytes(bad))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
        connection.close()
    assert converse(server, good).startswith(b"HTTP/1.1 200 OK")


def test_methods_and_paths_that_are_not_there(server: RestAdapter) -> None:
    assert ask(server, "GET", "/")[1]["code"] == 0
    assert ask(server, "GET", "/v1/nothing")[0] == 404
    assert ask(server, "GET", "/v1/table/t/drop")[0] == 405
    assert ask(server, "DELETE", "/v1/table/t")[1]["code"] == 0
    assert ask(server, "POST", "/v1/table/t/describe", b"[]")[1]["code"] == 13
    assert ask(server, "POST", "/v1/table/t/describe", b'{"id": ["other"]}')[1]["code"] == 13
    assert ask(server, "POST", "/v1/table/t/describe", b"{" * 100_000)[1]["code"] == 13
    assert ask(server, "GET", "/v1/table?limit=many")[1]["code"] == 13
    assert ask(server, "POST", "/v1/table/t/describe?delimiter=", b"{}")[1]["code"] == 13
    assert ask(server, "POST", "/v1/table/a.b/describe?delimiter=.", b"{}")[1] == {
        "code": 4,
        "error": "there is no table a.b",
    }


def test_a_process_serves_until_it_is_told_to_end(space: Path) -> None:
    code = (
        "import signal, sys\n"
        "from lancelet.namespace import serve\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "for _ in range(2):\n"
        "    serve(sys.argv[1], port=0, ready=lambda uri: print(uri, flush=True))\n"
        "print('ended')\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(space)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for sent in (signal.SIGTERM, signal.SIGINT):
            assert tables(RestNamespace(uri=process.stdout.readline().strip())) == ["t"]
            process.send_signal(sent)
        assert process.stdout.read() == "ended\n"
        assert process.wait(30) == 0
