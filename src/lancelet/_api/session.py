"""What datasets share: caches of what locates bytes, bounded in bytes."""

from __future__ import annotations

import warnings

from lancelet.errors import InvalidInput, NotSupported
from lancelet.file import FileCache
from lancelet.file.cache import DEFAULT_BYTES, DEFAULT_INDEX_BYTES

BYTES_AN_ENTRY = 20 << 20
"""What an entry of ``index_cache_size`` counts for."""


def index_cache_bytes(entries: int | None, size_bytes: int | None) -> int | None:
    """The bound of the index cache, which ``index_cache_size`` once told in entries."""
    if entries is None:
        return size_bytes
    warnings.warn(
        "index_cache_size is deprecated, use index_cache_size_bytes; an entry counts for 20 MiB",
        DeprecationWarning,
        stacklevel=3,
    )
    return size_bytes or entries * BYTES_AN_ENTRY


class Session:
    """Caches that several datasets may use together.

    Parameters
    ----------
    index_cache_size_bytes
        Bound of what is kept of open indices.
    metadata_cache_size_bytes
        Bound of what is kept of open files: footers, column metadata, chunk tables, dictionaries.
    verify_checksums
        Whether files are compared with their checksums, those that have some, when they are first opened; by default
        the environment variable ``LANCELET_VERIFY_CHECKSUMS`` tells.

    Examples
    --------
    >>> session = Session(metadata_cache_size_bytes=64 << 20)
    >>> session.size_bytes()
    0
    """

    def __init__(
        self,
        index_cache_size_bytes: int | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_backend: object = None,
        metadata_cache_backend: object = None,
        store_registry: object = None,
        *,
        verify_checksums: bool | None = None,
    ) -> None:
        if index_cache_backend is not None or metadata_cache_backend is not None:
            raise NotSupported("cache backends are not supported; bound the built-in caches by their sizes")
        if store_registry is not None:
            raise NotSupported("a store registry is not supported; pass storage_options to each dataset")
        index_limit = DEFAULT_INDEX_BYTES if index_cache_size_bytes is None else index_cache_size_bytes
        limit = DEFAULT_BYTES if metadata_cache_size_bytes is None else metadata_cache_size_bytes
        self.files = FileCache(limit, index_limit, verify_checksums)

    def __reduce__(self) -> tuple[object, ...]:
        return _session, (self.files.indices.max_bytes, self.files.max_bytes, self.files.checked)

    def __repr__(self) -> str:
        sizes = f"index_cache_size_bytes={self.files.indices.nbytes}, metadata_cache_size_bytes={self.files.nbytes}"
        return f"Session({sizes})"

    def size_bytes(self) -> int:
        """Bytes in the caches now."""
        return self.files.nbytes + self.files.indices.nbytes

    def index_cache_size_bytes(self) -> int:
        """Bytes in the index cache now."""
        return self.files.indices.nbytes

    def is_same_as(self, other: Session) -> bool:
        """Whether both share their caches."""
        return self.files is other.files


def choose_session(
    session: Session | None,
    index_cache_size_bytes: int | None,
    metadata_cache_size_bytes: int | None,
    verify_checksums: bool | None,
) -> Session:
    """The caches of a dataset: those that are given, which have to be as it wants them, or new ones."""
    if session is None:
        return Session(index_cache_size_bytes, metadata_cache_size_bytes, verify_checksums=verify_checksums)
    if verify_checksums is not None and session.files.checked != verify_checksums:
        raise InvalidInput(
            f"verify_checksums is {verify_checksums}, but not that of the session; make it with Session(verify_checksums=...)"
        )
    return session


def _session(index_bytes: int, metadata_bytes: int, checked: bool) -> Session:
    return Session(index_bytes, metadata_bytes, verify_checksums=checked)
