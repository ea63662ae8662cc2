"""Object stores, through obstore.

obstore runs its requests on threads of its own, which do not survive a fork:
a forked child that used the parent's would wait for ever, and disturb the
parent. So a child refuses, unless the parent had not used a store before.
"""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from lancelet.errors import InvalidInput, LanceletError, MissingFile, StorageError, UncertainPut
from lancelet.log import debug
from lancelet.runtime.metrics import answered, fetched, given, measured
from lancelet.runtime.threads import Pool
from lancelet.store.base import ObjectInfo
from lancelet.store.objects import delete_each, put_own, remove_listed
from lancelet.store.options import own_options, sort_options
from lancelet.store.ranged_source import RangedSource
from lancelet.store.remote_sink import RemoteSink
from lancelet.store.source import ByteSource, Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lancelet.store.base import Store

R = TypeVar("R")
Client: TypeAlias = S3Store | GCSStore | AzureStore

# Answers of a store that did not carry out a request.
_REFUSALS = (
    FileNotFoundError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
LIST_CHUNK = 1000
_ONE_COPY = 5 << 30
"""Object stores copy no more than this in one request."""


@dataclass(frozen=True, slots=True)
class Address:
    """Which client serves a URI: the scheme and bucket, without the path."""

    kind: str
    """``s3``, ``gs`` or ``az``."""
    root: str
    """URI of the bucket or container, for example ``s3://bucket``."""


class RemoteStore:
    """A folder of an object store."""

    __slots__ = ("_address", "_client", "_lock", "_prefix", "counters", "options")

    is_local = False

    def __init__(self, address: Address, prefix: str, options: Mapping[str, str]) -> None:
        self._address = address
        self._prefix = prefix.strip("/")
        self.options: Mapping[str, str] = dict(options)
        self.counters = Counters()
        self._lock = threading.Lock()
        self._client: Client | None = None

    def __getstate__(self) -> tuple[Address, str, Mapping[str, str]]:
        return self._address, self._prefix, self.options

    def __setstate__(self, state: tuple[Address, str, Mapping[str, str]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"RemoteStore({self.uri!r})"

    @property
    def scheme(self) -> str:
        return self._address.kind

    @property
    def lists_in_order(self) -> bool:
        # Directory buckets (S3 Express) are the one kind that does not; their names end like this.
        return not self._address.root.endswith("--x-s3")

    @property
    def uri(self) -> str:
        return f"{self._address.root}/{self._prefix}" if self._prefix else self._address.root

    def join(self, path: str) -> str:
        return f"{self.uri}/{path}" if path else self.uri

    def child(self, path: str) -> RemoteStore:
        store = RemoteStore(self._address, self.key(path), self.options)
        store.counters, store._client, store._lock = self.counters, self._client, self._lock
        return store

    def open(self, path: str, size: int | None = None) -> ByteSource:
        if not size:
            return RangedSource(self, path, self.size_of(path), known=True)
        return RangedSource(self, path, size, known=False)

    @measured("get", answered)
    def read_all(self, path: str) -> bytes:
        with self.failures(path) as client:
            data = self.ask(lambda: bytes(obstore.get(client, self.key(path)).bytes()))
        self.count(1, len(data))
        return data

    @measured("get", answered)
    def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
        with self.failures(path) as client:
            if self._address.kind == "az":
                # Azure has no ranges counted from the end.
                size = self.ask(lambda: int(obstore.head(client, self.key(path))["size"]))
                start = max(size - nbytes, 0)
                data = self.ask(lambda: bytes(obstore.get_range(client, self.key(path), start=start, end=size)))
                self.count(1, 0)
            else:
                data, size = self.ask(lambda: _tail(client, self.key(path), nbytes))
        self.count(1, len(data))
        return data, size

    @measured("head")
    def size_of(self, path: str) -> int:
        with self.failures(path) as client:
            size = self.ask(lambda: int(obstore.head(client, self.key(path))["size"]))
        self.count(1, 0)
        return size

    def exists(self, path: str) -> bool:
        try:
            self.size_of(path)
        except MissingFile:
            return False
        return True

    def list_objects(self, prefix: str = "") -> Iterator[ObjectInfo]:
        found = self._listed(prefix)
        return found if self.lists_in_order else iter(sorted(found, key=lambda entry: entry.path))

    def _listed(self, prefix: str) -> Iterator[ObjectInfo]:
        cut = len(self._prefix) + 1 if self._prefix else 0
        with self.failures(prefix) as client:
            self.count(0, 0, 1)
            chunks = iter(obstore.list(client, self.key(prefix), chunk_size=LIST_CHUNK))
            while chunk := self._listed_page(chunks):
                for entry in chunk:
                    yield ObjectInfo(entry["path"][cut:], entry["size"], entry["last_modified"])

    @measured("list")
    def _listed_page(self, chunks: Iterator[Any]) -> Any:
        return self.ask(lambda: next(chunks, None))

    def list_names(self, prefix: str) -> Iterator[str]:
        """Names of the objects directly in a folder, in order, fetched as they are consumed."""
        cut = len(prefix) + 1 if prefix else 0
        for entry in self.list_objects(prefix):
            name = entry.path[cut:]
            if "/" not in name:
                yield name

    @measured("list")
    def list_folders(self, prefix: str = "") -> list[str]:
        with self.failures(prefix) as client:
            self.count(0, 0, 1)
            found = self.ask(lambda: obstore.list_with_delimiter(client, self.key(prefix))["common_prefixes"])
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    @measured("put", given)
    def put(self, path: str, data: bytes) -> None:
        with self.failures(path) as client:
            self.change(lambda: obstore.put(client, self.key(path), data))
        self.count(1, 0)
        self.count_write(len(data))

    @measured("put", given)
    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self.failures(path) as client:
            try:
                self.change(lambda: obstore.put(client, self.key(path), data, mode="create", use_multipart=False))
            except (AlreadyExistsError, PreconditionError):
                return False
            except _REFUSALS:
                raise
            except (BaseError, OSError) as error:
                # A time-out, a broken connection, a server error: the request may have been carried out all the same.
                raise UncertainPut(self.join(path), _first_lines(error)) from None
            finally:
                self.count(1, 0)
        self.count_write(len(data))
        return True

    def put_new(self, path: str, data: bytes) -> None:
        put_own(self, path, data)

    def put_hint(self, path: str, data: bytes) -> None:
        self.put(path, data)

    def open_sink(self, path: str) -> RemoteSink:
        return RemoteSink(self, path)

    def settle(self, paths: Sequence[str]) -> None:
        """Object stores see to that by themselves."""

    @measured("copy")
    def copy(self, source: str, target: str) -> None:
        with self.failures(source) as client:
            self.change(lambda: obstore.copy(client, self.key(source), self.key(target)))
        self.count(1, 0)

    @measured("copy")
    def copy_from(self, source: Store, path: str, target: str, size: int | None = None) -> bool:
        if not isinstance(source, RemoteStore):
            return False
        if (source._address, own_options(source.options)) != (self._address, own_options(self.options)):
            return False
        if (source.size_of(path) if size is None else size) > _ONE_COPY:
            return False
        with source.failures(path) as client:
            self.change(lambda: obstore.copy(client, source.key(path), self.key(target)))
        self.count(1, 0)
        return True

    @measured("delete")
    def delete(self, path: str) -> None:
        try:
            with self.failures(path) as client:
                self.change(lambda: obstore.delete(client, self.key(path)))
        except MissingFile:
            return
        finally:
            self.count(1, 0)

    @measured("delete")
    def delete_many(self, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
        if len(paths) > 1:
            try:
                with self.failures(paths[0]) as client:
                    self.change(lambda: obstore.delete(client, [self.key(path) for path in paths]))
            except (StorageError, MissingFile):
                # One of them was refused or missing, and what became of the others is not said.
                return delete_each(self, paths)
            self.count(1, 0)
            return []
        return delete_each(self, paths)

    def remove_folder(self, folder: str, spared: Collection[str] = ()) -> None:
        remove_listed(self, folder, spared)

    @measured("get", fetched)
    def fetch(self, path: str, parts: list[tuple[int, int]]) -> list[Any]:
        """The bytes of each (start, stop), with requests side by side. No two parts overlap."""
        key = self.key(path)

        def get(chosen: list[tuple[int, int]]) -> list[Any]:
            with self.failures(path) as client:
                starts, stops = [start for start, _ in chosen], [stop for _, stop in chosen]
                return obstore.get_ranges(client, key, starts=starts, ends=stops, coalesce=0)

        self.count(len(parts), sum(stop - start for start, stop in parts))
        if all(left[1] < right[0] for left, right in itertools.pairwise(parts)):
            return self.ask(lambda: get(parts))
        # obstore joins parts that touch into one long request; every other part never touches.
        odd = _HALVES.submit(get, parts[1::2])
        parts_read: list[Any] = [None] * len(parts)
        parts_read[::2] = self.ask(lambda: get(parts[::2]))
        parts_read[1::2] = odd.result()
        return parts_read

    def ask(self, request: Callable[[], R]) -> R:
        """Make a request that changes nothing. obstore hears no interrupts, so the main thread has another one wait for it."""
        return _REQUESTS.call(request)

    def change(self, request: Callable[[], R]) -> R:
        """Make a request that changes something, and do not leave a moment before it is done."""
        return _REQUESTS.finish(request, _LEAVE)

    @contextmanager
    def failures(self, path: str) -> Iterator[Client]:
        """The client, with everything it raises turned into our errors."""
        try:
            yield self._connect()
        except LanceletError:
            raise
        except FileNotFoundError:
            raise MissingFile(self.join(path)) from None
        except (BaseError, OSError, ValueError) as error:
            raise StorageError(self.join(path), _first_lines(error)) from None

    def count(self, requests: int, nbytes: int, lists: int = 0) -> None:
        debug("%s: %d requests, %d listings, %d bytes read", self.uri, requests, lists, nbytes)
        with self._lock:
            self.counters.count_reads(requests, nbytes)
            self.counters.lists += lists

    def count_write(self, nbytes: int) -> None:
        with self._lock:
            self.counters.writes += 1
            self.counters.written += nbytes

    def _connect(self) -> Client:
        _FORK.check(self.uri)
        if self._client is None:
            self._client = _client(self._address, self.options)
        return self._client

    def key(self, path: str) -> str:
        """An object's name within its bucket."""
        return "/".join(part for part in (self._prefix, path) if part)


_CLIENTS: dict[tuple[Address, tuple[tuple[str, str], ...]], Client] = {}
_REQUESTS = Pool("lancelet-request", 4)
"""For the main thread, which makes one request at a time; some that it has left may still run."""
_HALVES = Pool("lancelet-fetch", 4)
_LEAVE = 1.0
"""How many seconds an interrupt waits for the end of a request that changes something."""


def _client(address: Address, options: Mapping[str, str]) -> Client:
    """The client for an address; equal addresses and options share one, with its connections."""
    key = (address, tuple(sorted((name, str(value)) for name, value in own_options(options).items())))
    if key not in _CLIENTS:
        settings = sort_options(address.kind, options)
        kinds: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
        extra: dict[str, Any] = {"retry_config": settings.retry} if settings.retry else {}
        try:
            _CLIENTS[key] = kinds[address.kind].from_url(
                address.root, config=settings.config, client_options=settings.client or None, **extra
            )
        except (BaseError, ValueError, TypeError) as error:
            raise InvalidInput(f"cannot open {address.root}: {_first_lines(error)}") from None
    return _CLIENTS[key]


def _tail(client: Client, key: str, nbytes: int) -> tuple[bytes, int]:
    result = obstore.get(client, key, options={"range": {"suffix": nbytes}})
    return bytes(result.bytes()), int(result.meta["size"])


class _ForkGuard:
    """Knows whether this process was forked from one that had already used obstore."""

    __slots__ = ("inherited", "used")

    def __init__(self) -> None:
        self.used = False
        self.inherited = False
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        self.inherited = self.inherited or self.used

    def check(self, uri: str) -> None:
        if self.inherited:
            raise StorageError(
                uri,
                "this process was forked from one that had already read from an object store, whose connections "
                "do not survive a fork; start workers with the 'spawn' or 'forkserver' method instead",
            )
        self.used = True


_FORK = _ForkGuard()


def _first_lines(error: BaseException) -> str:
    """The message without the dump of Rust structures that follows it."""
    return str(error).partition("\n\nDebug source:")[0].strip() or type(error).__name__
