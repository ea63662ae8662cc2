"""Checksums of whole files: our own, where they are asked for; other readers see a global buffer that nobody uses.

The format has none. A manifest is no place for them: pylance drops what it does not know of fragments with every commit.
So a file carries its own, as the last of its global buffers, right before the footer::

    ... | CMO table | GBO table | padding | trailer, 64 bytes | footer, 40 bytes

    trailer:  "lancelet xxh64 1" | u64 hash | u64 bytes of the file | 32 zero bytes

The hash is the XXH64 of all other bytes. Files beside it, with large blobs, have theirs in the metadata of its schema.
A file without a trailer has no checksum, which is no error.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lancelet.errors import CorruptFile
from lancelet.file.container import Container
from lancelet.store.checksum import Checksum

if TYPE_CHECKING:
    from lancelet.store import ByteSource, Sink

CONFIG: Final = "lancelet.checksums"
"""The entry of a table's config that has every writer of ours add checksums."""
ENVIRONMENT: Final = "LANCELET_VERIFY_CHECKSUMS"
SIDE_FILES: Final = "lancelet:side_file_checksums"
"""The key in a file's schema metadata: hashes of the files beside it, by number."""
TRAILER_BYTES: Final = 64
_MAGIC: Final = b"lancelet xxh64 1"
_TRAILER = struct.Struct("<16sQQ32s")
_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")
_STEP: Final = 8 << 20
_YES: Final = ("1", "true", "on", "yes")


def are_wanted(config: Mapping[str, str]) -> bool:
    """Whether writers of a table add checksums."""
    return config.get(CONFIG, "").lower() in _YES


def asked_by_environment() -> bool:
    """Whether files are to be checked when they are opened, unless a program says otherwise."""
    return os.environ.get(ENVIRONMENT, "").lower() in _YES


class HashedSink:
    """A sink that hashes what goes through it."""

    __slots__ = ("_checksum", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._checksum = Checksum()

    @property
    def path(self) -> str:
        return self._sink.path

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        self._checksum.update(view)
        self._sink.write(view)

    def tell(self) -> int:
        return self._sink.tell()

    def finish(self) -> None:
        self._sink.finish()

    def abort(self) -> None:
        self._sink.abort()

    def digest(self) -> int:
        """The hash of what was written so far."""
        return self._checksum.digest()

    def end(self, footer: bytes) -> None:
        """Write the trailer and the footer."""
        self._checksum.update(memoryview(footer))
        self._sink.write(_trailer(self.digest(), self.tell() + TRAILER_BYTES + len(footer)) + footer)


def check_file(source: ByteSource) -> bool:
    """Compare a file with its checksum; False when it has none. Reads the whole file, a few MiB at a time."""
    size = source.size
    found = _stored_trailer(source)
    if found is None:
        return False
    body = size - TRAILER_BYTES - _FOOTER.size
    checksum = Checksum()
    for start, stop in ((0, body), (size - _FOOTER.size, size)):
        _add(checksum, source, start, stop)
    if found != _trailer(checksum.digest(), size):
        raise CorruptFile(source.path, "its bytes are not those that were written: the checksum is another", "checksum")
    return True


def side_checksums(source: ByteSource) -> dict[int, int]:
    """Hashes of the files beside one that has them, by number."""
    container = Container.read(source, source.size, source.path)
    text = container.schema(source).metadata.get(SIDE_FILES, "{}")
    try:
        return {int(number): int(digest, 16) for number, digest in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        raise CorruptFile(source.path, f"{SIDE_FILES} is {text[:80]!r}", "checksum") from None


def check_side_file(source: ByteSource, digest: int) -> None:
    """Compare a file of blobs with what its data file says."""
    checksum = Checksum()
    _add(checksum, source, 0, source.size)
    if checksum.digest() != digest:
        raise CorruptFile(source.path, "its bytes are not those that were written: the checksum is another", "checksum")


def _add(checksum: Checksum, source: ByteSource, start: int, stop: int) -> None:
    for at in range(start, stop, _STEP):
        length = min(_STEP, stop - at)
        source.reserve(1, length)
        checksum.update(source.read([(at, length)])[0])
        source.release(at, at + length)


def _trailer(digest: int, size: int) -> bytes:
    return _TRAILER.pack(_MAGIC, digest, size, bytes(32))


def _stored_trailer(source: ByteSource) -> bytes | None:
    """The bytes where a trailer would be, if there is one; a damaged one is still known by its place among the buffers."""
    size = source.size
    end = TRAILER_BYTES + _FOOTER.size
    if size < end:
        return None
    tail = source.read([(size - end, end)])[0].tobytes()
    trailer, footer = tail[:TRAILER_BYTES], tail[TRAILER_BYTES:]
    if trailer.startswith(_MAGIC):
        return trailer
    _, _, globals_at, count, _, _, _, _ = _FOOTER.unpack(footer)
    last = globals_at + (count - 1) * _ENTRY.size
    if count < 2 or last + _ENTRY.size > size - end:
        return None
    entry = source.read([(last, _ENTRY.size)])[0].tobytes()
    return trailer if _ENTRY.unpack(entry) == (size - end, TRAILER_BYTES) else None
