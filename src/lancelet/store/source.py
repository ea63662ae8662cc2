"""One immutable object as bytes: mapped when it is a local file, fetched by range otherwise."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile
from lancelet.runtime.metrics import count_request

if TYPE_CHECKING:
    from lancelet.store.mapped import MappedFile

Ranges: TypeAlias = Sequence[tuple[int, int]]
"""(offset, length) pairs."""
Bytes: TypeAlias = npt.NDArray[np.uint8]
Views: TypeAlias = Sequence[tuple[int, int]]
"""(address, length) pairs."""

# Pages of mapped files count as resident memory until they are dropped. A fault maps its neighbours too
# (16 pages on Linux, more where the page cache holds larger pieces), so a scattered read is charged that much
# more than it asked for; measured, not promised by any system.
RESIDENT_LIMIT = 320 << 20
FAULT_AROUND = 160 << 10
_MOST_HELD = 256
_MEMORY_STATUS = Path("/proc/self/statm")


def held_limit() -> int:
    """How much of files may stay in memory beyond that limit, as who looks at all of it again and again wishes: a sixteenth of
    what the machine has, between 240 MiB and 1 GiB. They are pages of files, which the system takes back when it needs room."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        memory = 0
    return min(max(memory // 16, 240 << 20), 1 << 30)


HELD_LIMIT = held_limit()


class Counters:
    """What a store was asked for so far; benchmarks and tests read it."""

    __slots__ = ("bytes", "lists", "requests", "writes", "written")

    def __init__(self) -> None:
        self.requests = 0
        """Reads that went to the store. For mapped files: ranges asked for."""
        self.bytes = 0
        """Bytes fetched, gaps between merged ranges included."""
        self.lists = 0
        """Listings started."""
        self.writes = 0
        """Files or objects written, whether requests count them or not."""
        self.written = 0
        """Bytes in these."""

    def count_reads(self, requests: int, nbytes: int) -> None:
        self.requests += requests
        self.bytes += nbytes
        # Here too, since the numbers of stores that are gone belong to those of the process. Nothing is to happen when
        # a store goes: an interrupt that is raised while an object is collected gets lost.
        _TOTALS.requests += requests
        _TOTALS.bytes += nbytes

    def reset(self) -> None:
        self.requests = self.bytes = self.lists = 0


class _Totals:
    """Reads and bytes of all stores of the process."""

    __slots__ = ("bytes", "requests")

    def __init__(self) -> None:
        self.requests = self.bytes = 0


_TOTALS = _Totals()


def bytes_read_counter() -> int:
    """Bytes that this process has read so far, from all stores.

    Local files are mapped: what decoders take from the mapping without asking is not counted.
    """
    return _TOTALS.bytes


def iops_counter() -> int:
    """Reads that this process has asked stores for so far; of local files as in :func:`bytes_read_counter`."""
    return _TOTALS.requests


class ByteSource(Protocol):
    """One immutable object of a store."""

    @property
    def path(self) -> str:
        """Full path or URI, for error texts."""

    @property
    def size(self) -> int: ...

    @property
    def mapped(self) -> Bytes | None:
        """The whole object as a read-only array: of a local file, and of a small object once it was read."""

    def read(self, ranges: Ranges) -> list[Bytes]:
        """The bytes of each (offset, length) pair, read-only, in the order asked for."""

    def read_pieces(self, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], out: Bytes) -> bool:
        """Copy scattered pieces of a mapped file end to end into ``out``; False when that cannot be done."""

    def reserve(self, ranges: int, nbytes: int) -> None:
        """Announce direct reads of ``mapped``: how many places, and bytes in all. Keeps resident memory bounded."""

    def hold(self, start: int, stop: int) -> bool:
        """Whether ``[start, stop)`` of ``mapped`` has room in memory, and is looked at there again and again until all is dropped."""

    def release(self, start: int, stop: int) -> None:
        """Say that ``[start, stop)`` is not needed for now, so that memory does not grow with the file."""


class MappedSource:
    """A local file. Views stay valid for as long as somebody holds them."""

    __slots__ = ("__weakref__", "_address", "_counters", "_file", "_held", "_touched", "mapped", "path", "size")

    def __init__(self, path: str, file: MappedFile, counters: Counters) -> None:
        self.path = path
        self.size = file.size
        self.mapped: Bytes = np.frombuffer(_buffer(file), np.uint8)
        self._address = int(self.mapped.__array_interface__["data"][0])
        self._file = file
        self._counters = counters
        self._touched = 0
        self._held: set[tuple[int, int]] = set()
        _RESIDENCY.add(self)

    def read(self, ranges: Ranges) -> list[Bytes]:
        mapped, size = self.mapped, self.size
        views = []
        total = 0
        for offset, length in ranges:
            stop = offset + length
            if offset < 0 or length < 0 or stop > size:
                raise out_of_range(self.path, offset, length, size)
            views.append(mapped[offset:stop])
            total += length
        self._counters.count_reads(len(views), total)
        count_request("get", "file", len(views), total)
        self.reserve(len(views), total)
        return views

    def reserve(self, ranges: int, nbytes: int) -> None:
        self._touched += 1
        _RESIDENCY.reserve(nbytes + ranges * FAULT_AROUND)

    def hold(self, start: int, stop: int) -> bool:
        if (start, stop) in self._held:
            return True
        if not _RESIDENCY.admits(stop - start):
            return False
        if len(self._held) >= _MOST_HELD:
            self._held.clear()
        self._held.add((start, stop))
        self._touched += 1
        return True

    def release(self, start: int, stop: int) -> None:
        self._file.release(start, stop)

    def read_pieces(self, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], out: Bytes) -> bool:
        """Copy scattered pieces end to end without making the file resident; False when that cannot be done."""
        try:
            return self._file.read_pieces(starts, sizes, out) < 0
        except OSError:
            # A file that was removed meanwhile is still mapped.
            return False

    def prefetch(self, start: int, stop: int) -> None:
        self._file.prefetch(start, stop)

    def release_views(self, views: Views) -> None:
        """Release those of some views that are of this file."""
        for address, size in views:
            start = address - self._address
            if 0 <= start < self.size:
                self._file.release(start, start + size)

    def drop(self) -> None:
        """Release every page touched so far."""
        if self._touched:
            self._touched = 0
            self._held.clear()
            self._file.release(0, self.size)


class HeldSource:
    """An object that was read as a whole, and is in memory from then on."""

    __slots__ = ("mapped", "path", "size")

    def __init__(self, source: ByteSource) -> None:
        self.path = source.path
        self.size = source.size
        # A copy: what a mapped file has in memory may be dropped at any time.
        self.mapped: Bytes = source.read([(0, source.size)])[0].copy()
        self.mapped.flags.writeable = False

    def read(self, ranges: Ranges) -> list[Bytes]:
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > self.size:
                raise out_of_range(self.path, offset, length, self.size)
        return [self.mapped[offset : offset + length] for offset, length in ranges]

    def read_pieces(self, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], out: Bytes) -> bool:
        return False

    def reserve(self, ranges: int, nbytes: int) -> None:
        """All of it is in memory already."""

    def hold(self, start: int, stop: int) -> bool:
        return True

    def release(self, start: int, stop: int) -> None:
        """It stays."""


class _Residency:
    """Keeps what is resident of all mapped files together below a limit, by dropping everything when it is reached.

    What is held does not count, and has a limit of its own: it goes with the rest when all is dropped.

    Reads announce what they may touch. The sum only says when to look at what really is resident: pages that are
    touched again cost nothing. Threads may lose an update of the sum, which only moves the next look.
    """

    __slots__ = ("expected", "held", "others", "sources")

    def __init__(self) -> None:
        self.expected = 0
        self.held = 0
        self.others = 0
        """Resident bytes of files that are not ours, such as libraries, as they were when all of ours was dropped."""
        self.sources: set[weakref.ref[MappedSource]] = set()

    def add(self, source: MappedSource) -> None:
        # Not a function in Python: an interrupt that is raised in a callback of a collected object gets lost.
        self.sources.add(weakref.ref(source, self.sources.discard))

    def reserve(self, nbytes: int) -> None:
        self.expected += nbytes
        most = self.most
        if self.expected <= most:
            return
        resident = resident_file_bytes()
        if resident is None or resident - self.others + nbytes > most:
            resident = self.drop()
        self.expected = max(resident - self.others, 0) + nbytes

    @property
    def most(self) -> int:
        """How much of our files may be resident."""
        # Large libraries leave us half of the limit: with less, what was just read would be dropped again and again.
        return max(RESIDENT_LIMIT - self.others, RESIDENT_LIMIT // 2) + self.held

    def admits(self, nbytes: int) -> bool:
        """Whether so much more may be held; it counts from now on."""
        if self.held + nbytes > HELD_LIMIT:
            # Files that were closed since hold nothing any more.
            resident = resident_file_bytes()
            if resident is not None:
                self.held = min(self.held, max(resident - self.others, 0))
            if self.held + nbytes > HELD_LIMIT:
                return False
        self.held += nbytes
        self.expected += nbytes
        return True

    def drop(self) -> int:
        """Let go of what is resident of all files; tells what is left, which is not ours."""
        # A copy, since other threads open and forget files meanwhile.
        for reference in self.sources.copy():
            source = reference()
            if source is not None:
                source.drop()
        self.expected = self.held = 0
        self.others = resident_file_bytes() or 0
        return self.others


def resident_file_bytes() -> int | None:
    """Bytes of mapped files in this process's memory; None where the system does not tell."""
    try:
        return int(_MEMORY_STATUS.read_bytes().split()[2]) * mmap.PAGESIZE
    except FileNotFoundError:
        return None


_RESIDENCY = _Residency()


def drop_resident_files() -> None:
    """Let go of what is in memory of mapped files, before work that needs memory and not them; what is read again comes back."""
    _RESIDENCY.drop()


def release_views(views: Views) -> None:
    """Let go of what is in memory of mapped files below some views, for those who go through more than memory is to hold.

    Views stay as they are: who looks at one again reads it again. What is no view of a mapped file stays.
    """
    for reference in _RESIDENCY.sources.copy():
        source = reference()
        if source is not None:
            source.release_views(views)


def out_of_range(path: str, offset: int, length: int, size: int) -> CorruptFile:
    """The error for a range that the object does not have; its numbers came from the object itself."""
    return CorruptFile(path, f"asks for {length} bytes at {offset}, but the file has {size} bytes")


def _buffer(file: MappedFile) -> Any:
    return file
