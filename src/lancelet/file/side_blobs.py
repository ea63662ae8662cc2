"""Payloads of blobs beside their data file (spec encodings.md 7.5).

Next to ``data/x.lance`` there is the folder ``data/x`` with the files of its large
blobs, numbered from 1 on. All blob columns of a data file share these numbers, and
the file that is being filled with payloads of medium size::

    data/x.lance
    data/x/10000000000000000000000000000000.blob    number 1: its 32 bits, the lowest first
    data/x/01000000000000000000000000000000.blob    number 2
"""

from __future__ import annotations

from collections.abc import Callable

from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_1.encode.blobs import BlobPlace
from lancelet.format.blob_types import DEDICATED, INLINE, PACKED, BlobSizes
from lancelet.store import Sink


class SideBlobs:
    """Decides where payloads go, and writes those that do not go into the data file.

    Parameters
    ----------
    begin
        Begins the file of a number; None keeps all payloads in the data file.
    inline
        Writes a payload into the data file and says where.
    pack_bytes
        How large shared files become, whatever the columns say.
    """

    __slots__ = ("_begin", "_last", "_pack", "_pack_bytes", "_pack_number", "inline")

    def __init__(
        self, begin: Callable[[int], Sink] | None, inline: Callable[[Bytes], int], pack_bytes: int | None = None
    ) -> None:
        self.inline = inline
        self._begin = begin
        self._pack_bytes = pack_bytes
        self._last = 0
        self._pack: Sink | None = None
        self._pack_number = 0

    def store(self, data: Bytes, sizes: BlobSizes) -> BlobPlace:
        """Write a payload where one of its size goes."""
        if self._begin is None or len(data) <= min(sizes.inline, sizes.dedicated):
            return BlobPlace(INLINE, self.inline(data))
        if len(data) > sizes.dedicated:
            number, sink = self._next(self._begin)
            try:
                sink.write(data)
                sink.finish()
            except BaseException:
                sink.abort()
                raise
            return BlobPlace(DEDICATED, 0, number)
        pack = self._pack
        if pack is not None and pack.tell() + len(data) > (self._pack_bytes or sizes.pack):
            self.finish()
            pack = None
        if pack is None:
            self._pack_number, pack = self._next(self._begin)
            self._pack = pack
        position = pack.tell()
        pack.write(data)
        return BlobPlace(PACKED, position, self._pack_number)

    def _next(self, begin: Callable[[int], Sink]) -> tuple[int, Sink]:
        self._last += 1
        return self._last, begin(self._last)

    def finish(self) -> None:
        """Complete the file that is being filled."""
        if self._pack is not None:
            self._pack.finish()
            self._pack = None

    def abort(self) -> None:
        """Give that file up."""
        if self._pack is not None:
            self._pack.abort()
            self._pack = None
