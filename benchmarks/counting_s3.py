"""A read-only S3 on the loopback that counts what it is asked for.

Every engine speaks to it over its own S3 client, so requests and bytes are
counted in the same place for all, whatever each does inside.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class Count:
    """Requests and bytes since the last reset."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = self.bytes = 0
        self.asked: list[str] = []
        """Each request in words, in the order of their answers."""

    def add(self, size: int, what: str) -> None:
        with self._lock:
            self.requests += 1
            self.bytes += size
            self.asked.append(f"{what} -> {size:,}")

    def reset(self) -> None:
        with self._lock:
            self.requests = self.bytes = 0
            self.asked = []


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, Count]]:
    """Serve ``folder`` as bucket ``bench``; gives the endpoint and the count."""
    count = Count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            parts = urlsplit(self.path)
            key = unquote(parts.path).removeprefix("/bench").lstrip("/")
            query = parse_qs(parts.query)
            if "list-type" in query or not key:
                self._send(
                    200, _listing(folder, query).encode(), body=body, headers={"Content-Type": "application/xml"}
                )
                return
            path = folder / key
            if not path.is_file():
                self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", body=body)
                return
            size = path.stat().st_size
            start, stop, status = 0, size, 200
            wanted = self.headers.get("Range")
            if wanted:
                first, last = wanted.removeprefix("bytes=").split("-")
                start = int(first) if first else max(size - int(last), 0)
                stop = min(int(last) + 1, size) if first and last else size
                status = 206
            with path.open("rb") as file:
                file.seek(start)
                content = file.read(stop - start) if body else b""
            headers = {"ETag": f'"{size}"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "Accept-Ranges": "bytes"}
            if status == 206:
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
            self._send(status, content, body=body, headers=headers, length=stop - start)

        def _send(
            self,
            status: int,
            content: bytes,
            *,
            body: bool,
            headers: dict[str, str] | None = None,
            length: int | None = None,
        ) -> None:
            what = f"{self.command} {unquote(self.path)} {self.headers.get('Range', '')}"
            count.add(len(content) if body else 0, what)
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) if length is None else length))
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", count
    finally:
        server.shutdown()
        server.server_close()


def _listing(folder: Path, query: dict[str, list[str]]) -> str:
    """ListObjectsV2: keys below a prefix, folders folded when a delimiter is given."""
    prefix = query.get("prefix", [""])[0]
    after = query.get("start-after", [""])[0]
    folded = "delimiter" in query
    limit = int(query.get("max-keys", ["1000"])[0])
    keys = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    entries, prefixes = [], set()
    for key in keys:
        if not key.startswith(prefix) or key <= after:
            continue
        rest = key[len(prefix) :]
        if folded and "/" in rest:
            prefixes.add(prefix + rest.split("/")[0] + "/")
        elif len(entries) < limit:
            size = (folder / key).stat().st_size
            entries.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
                f'<LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>"{size}"</ETag></Contents>'
            )
    common = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(prefixes))
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>bench</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries)}</KeyCount><MaxKeys>1000</MaxKeys>"
        f"<IsTruncated>false</IsTruncated>{''.join(entries)}{common}</ListBucketResult>"
    )
