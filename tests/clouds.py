"""Google Cloud Storage and Azure Blob Storage in one small server on the loopback: the requests that object_store makes.

Objects are created only if absent when the request says so. A test can spoil chosen requests: refuse them, fail them,
or carry them out and hang up without an answer.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

ACCOUNT, CONTAINER = "account", "container"
MODIFIED = formatdate(1_700_000_000, usegmt=True)
PAGE = 7
"""Entries of one listing: few, so that listings have several pages."""


@dataclass
class Cloud:
    """The objects, and what goes wrong with requests for them."""

    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[tuple[str, str], bytes] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    spoil: Callable[[str, str], str | None] = lambda method, key: None
    """Given method and key of a request: ``"403"`` or ``"503"`` instead of carrying it out, ``"hang up"`` after it."""
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def put(self, key: str, data: bytes, *, only_if_absent: bool) -> bool:
        with self.lock:
            if only_if_absent and key in self.objects:
                return False
            self.objects[key] = data
            return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    cloud: Cloud

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def log_message(self, *args: object) -> None:
        """Be quiet."""

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        path = unquote(parts.path).lstrip("/")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.azure = path.startswith(f"{ACCOUNT}/")
        if self.azure:
            path = path.removeprefix(f"{ACCOUNT}/")
        key = path.partition("/")[2]
        self.cloud.requests.append(f"{self.command} {key} {parts.query}".strip())
        trouble = self.cloud.spoil(self.command, key)
        if trouble in ("403", "503"):
            self._answer(int(trouble), b"<Error><Code>Trouble</Code></Error>")
            return
        status, headers, body = self._carry_out(key)
        if trouble == "hang up":
            self.close_connection = True
            return
        self._answer(status, body, headers)

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        given = {"Content-Length": str(len(body)), **(headers or {})}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _carry_out(self, key: str) -> tuple[int, dict[str, str], bytes]:
        if self.command == "GET" and ("list-type" in self.query or self.query.get("comp") == "list"):
            return 200, {}, self._list()
        if self.command in ("GET", "HEAD"):
            return self._get(key)
        if self.command == "DELETE":
            return (202 if self.azure else 204) if self.cloud.objects.pop(key, None) is not None else 404, {}, b""
        if self.query.get("comp") == "batch":
            return self._delete_many()
        if self.command == "POST" and "uploads" in self.query:
            return 200, {}, b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
        if self.command == "POST" or self.query.get("comp") == "blocklist":
            names = re.findall(rb"<(?:PartNumber|Uncommitted|Latest)>([^<]+)<", self.body)
            data = b"".join(self.cloud.parts.pop((key, name.decode())) for name in names)
            self.cloud.put(key, data, only_if_absent=False)
            answer = b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
            return (201 if self.azure else 200), _described(data), answer
        part = self.query.get("partNumber") or self.query.get("blockid")
        if part is not None:
            self.cloud.parts[key, part] = self.body
            return (201 if self.azure else 200), {"ETag": '"part"'}, b""
        return self._put(key)

    def _delete_many(self) -> tuple[int, dict[str, str], bytes]:
        """Azure's batch: requests as the parts of one body, answered part by part."""
        answers = []
        for number, path in re.findall(rb"Content-ID: *(\d+).*?DELETE /([^ ?]+)", self.body, re.DOTALL | re.IGNORECASE):
            key = unquote(path.decode()).removeprefix(f"{ACCOUNT}/").partition("/")[2]
            status = "202 Accepted" if self.cloud.objects.pop(key, None) is not None else "404 Not Found"
            head = f"--b\r\nContent-Type: application/http\r\nContent-ID: {number.decode()}\r\n\r\n"
            answers.append(f"{head}HTTP/1.1 {status}\r\nx-ms-request-id: r\r\n\r\n")
        return 202, {"Content-Type": "multipart/mixed; boundary=b"}, ("".join(answers) + "--b--\r\n").encode()

    def _get(self, key: str) -> tuple[int, dict[str, str], bytes]:
        data = self.cloud.objects.get(key)
        if data is None:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or self.headers.get("x-ms-range") or "")
        headers = _described(data)
        if wanted is None:
            return 200, {**headers, "Content-Length": str(len(data))}, data
        first, last = wanted.groups()
        start = int(first) if first else max(len(data) - int(last), 0)
        stop = min(int(last) + 1, len(data)) if first and last else len(data)
        if start >= len(data):
            return 416, {}, b""
        return 206, {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}, data[start:stop]

    def _put(self, key: str) -> tuple[int, dict[str, str], bytes]:
        source = self.headers.get("x-goog-copy-source") or self.headers.get("x-ms-copy-source")
        data = self.body
        if source is not None:
            place = unquote(urlsplit(source).path).lstrip("/").removeprefix(f"{ACCOUNT}/").partition("/")[2]
            if place not in self.cloud.objects:
                return 404, {}, b""
            data = self.cloud.objects[place]
        absent = self.headers.get("x-goog-if-generation-match") == "0" or self.headers.get("If-None-Match") == "*"
        if not self.cloud.put(key, data, only_if_absent=absent):
            return (409 if self.azure else 412), {"x-ms-error-code": "BlobAlreadyExists"}, b""
        status = 200 if not self.azure else 202 if source is not None else 201
        return status, {**_described(data), "x-ms-copy-status": "success"}, b""

    def _list(self) -> bytes:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
        after = self.query.get("continuation-token") or self.query.get("marker") or ""
        entries: dict[str, str] = {}
        for key in sorted(self.cloud.objects.copy()):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix) or key <= after:
                continue
            if delimiter and delimiter in rest:
                folder = prefix + rest.partition(delimiter)[0] + delimiter
                entries[folder] = self._folder(folder)
            else:
                entries[key] = self._entry(key)
        names = sorted(entries)
        shown = "".join(entries[name] for name in names[:PAGE])
        # Past the last key of a folder, whatever it is.
        following = "" if len(names) <= PAGE else names[PAGE - 1].removesuffix("/") + ("0" if delimiter else "")
        if self.azure:
            text = f"<EnumerationResults><Blobs>{shown}</Blobs><NextMarker>{escape(following)}</NextMarker></EnumerationResults>"
        else:
            token = f"<NextContinuationToken>{escape(following)}</NextContinuationToken>" if following else ""
            more = "true" if following else "false"
            text = f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{shown}{token}</ListBucketResult>"
        return f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode()

    def _folder(self, folder: str) -> str:
        if self.azure:
            return f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>"
        return f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"

    def _entry(self, key: str) -> str:
        size = len(self.cloud.objects[key])
        if self.azure:
            facts = f"<Last-Modified>{MODIFIED}</Last-Modified><Content-Length>{size}</Content-Length>"
            kind = "<Content-Type>x</Content-Type><Etag>e</Etag>"
            return f"<Blob><Name>{escape(key)}</Name><Properties>{facts}{kind}</Properties></Blob>"
        when = "<LastModified>2023-11-14T22:13:20Z</LastModified>"
        return f"<Contents><Key>{escape(key)}</Key>{when}<ETag>e</ETag><Size>{size}</Size></Contents>"


def _described(data: bytes) -> dict[str, str]:
    return {"ETag": f'"{hash(data):x}"', "Last-Modified": MODIFIED, "x-goog-generation": "1"}


@contextmanager
def serve() -> Iterator[Cloud]:
    """A cloud of both kinds, on a port of its own."""
    cloud = Cloud()
    handler = type("Handler", (_Handler,), {"cloud": cloud})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    cloud.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
