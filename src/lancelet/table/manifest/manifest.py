"""The manifest: one file that says everything about a version.

::

    [u32 length, IndexSection]         only when the version has indices
    [u32 length, Transaction]          how the version came about
    u32 length, Manifest
    footer, 16 bytes: i64 position of the manifest's length, u16 major, u16 minor, "LANC"

Spec table-format.md chapter 2. The tail of the file usually holds all of it, so
that one read opens a version; the first two sections are parsed when asked for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from lancelet.errors import CorruptFile, MissingFile, NotSupported
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, V2_0, version_numbered
from lancelet.format.proto import table_pb2, transaction_pb2
from lancelet.format.schema import Schema
from lancelet.table.manifest.flags import Feature, check_readable
from lancelet.table.manifest.fragment import Fragments
from lancelet.table.manifest.mending import mend_field_ids, mend_storage_version
from lancelet.table.manifest.names import TRANSACTIONS_DIR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancelet.store import ByteSource, Store

TAIL = 64 << 10
FOOTER = struct.Struct("<qHH4s")
LENGTH = struct.Struct("<I")
MAGIC = b"LANC"
MAJOR = 0

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class BasePath:
    """A place outside the table's folder where some of its files are."""

    path: str
    """Absolute path or URI."""
    name: str | None = None
    is_dataset_root: bool = False
    """Whether files are in the sub-folders of a table (``data/``, ``_deletions/``, ``_indices/``), or directly in it."""
    id: int = 0
    """What files name it by; 0 asks for a free id when a base is added."""


@dataclass(frozen=True, slots=True)
class WriterVersion:
    """The library that wrote a version."""

    library: str
    version: str
    prerelease: str | None = None
    build_metadata: str | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The bytes of a manifest file, of which the tail has been read."""

    store: Store
    path: str
    size: int
    tail: bytes

    @property
    def full_path(self) -> str:
        return self.store.join(self.path)

    def read(self, start: int, stop: int, what: str) -> bytes:
        """Bytes of the file, from the tail when it has them."""
        if not 0 <= start <= stop <= self.size:
            raise CorruptFile(self.full_path, f"is at bytes {start} to {stop} of {self.size}", what)
        missing = self.size - len(self.tail)
        if start >= missing:
            return self.tail[start - missing : stop - missing]
        data: bytes = self.store.open(self.path, self.size).read([(start, min(stop, missing) - start)])[0].tobytes()
        return data + self.tail[: max(stop - missing, 0)]

    def message(self, position: int, kind: type[M], what: str) -> M:
        """The message behind a length at ``position``."""
        (length,) = LENGTH.unpack(self.read(position, position + LENGTH.size, what))
        start = position + LENGTH.size
        return self.parse(self.read(start, start + length, what), kind, what)

    def parse(self, data: bytes, kind: type[M], what: str) -> M:
        return parse_message(data, kind, self.full_path, what)


class Manifest:
    """One version of a table, as its manifest tells it. Parts are decoded when first asked for."""

    __slots__ = ("__dict__", "_body", "_file", "_message", "_whole", "mended")

    def __init__(
        self,
        file: ManifestFile,
        message: table_pb2.Manifest,
        mended: Sequence[str] = (),
        body: bytes | None = None,
        *,
        is_whole: bool = True,
    ) -> None:
        self._file = file
        self._message = message
        self._whole = message if is_whole else None
        self._body = body
        self.mended = tuple(mended)
        """Faults of old releases that the message has in the file, and has no more here."""

    def __getstate__(self) -> tuple[ManifestFile, bytes, tuple[str, ...]]:
        data = self.message.SerializeToString() if self._body is None else self._body
        return self._file, data, self.mended

    def __setstate__(self, state: tuple[ManifestFile, bytes, tuple[str, ...]]) -> None:
        self._file, self._body, self.mended = state
        self._message = self._whole = table_pb2.Manifest.FromString(self._body)

    def __repr__(self) -> str:
        return f"Manifest({self.path!r}, version={self.version})"

    @property
    def path(self) -> str:
        """Full path of the manifest file."""
        return self._file.full_path

    @property
    def size(self) -> int:
        """Bytes of the manifest file."""
        return self._file.size

    def open(self) -> ByteSource:
        """The manifest file as bytes; legacy tables keep the values of dictionary columns in it."""
        return self._file.store.open(self._file.path, self._file.size)

    @property
    def message(self) -> table_pb2.Manifest:
        """The message itself; what the next version is made from."""
        whole = self._whole
        if whole is None:
            assert self._body is not None, "a part of a message comes with the bytes of all"
            whole = self._message = self._whole = table_pb2.Manifest.FromString(self._body)
        return whole

    @property
    def head(self) -> table_pb2.Manifest:
        """The message, perhaps without its fragments: those of a version that was just committed are not parsed yet."""
        return self._message

    @property
    def is_parsed(self) -> bool:
        """Whether the fragments are at hand as messages."""
        return self._whole is not None

    @property
    def body(self) -> bytes | None:
        """The bytes of the message, where they are at hand and nothing in them had to be mended."""
        return self._body

    def with_message(self, message: table_pb2.Manifest) -> Manifest:
        """The same file, read as if it had another message: for views of a version under another schema."""
        return Manifest(self._file, message, self.mended)

    @property
    def version(self) -> int:
        return self._message.version

    @property
    def branch(self) -> str | None:
        """None on the main branch."""
        return self._message.branch if self._message.HasField("branch") else None

    @cached_property
    def timestamp(self) -> datetime:
        """When the version was committed, in UTC; the epoch when that was not recorded."""
        nanos = self.timestamp_ns
        try:
            # Rounded in floating point, as pylance does, so that both name the same microsecond.
            return _EPOCH + timedelta(seconds=nanos // 1e9, microseconds=(nanos % 1e9) // 1e3)
        except OverflowError:
            raise CorruptFile(self.path, f"was written at {nanos} nanoseconds", "timestamp") from None

    @property
    def timestamp_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return self._message.timestamp.seconds * 10**9 + self._message.timestamp.nanos

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_proto(self._message.fields, self._message.schema_metadata, path=self.path)

    @cached_property
    def fragments(self) -> Fragments:
        """Fragments in scan order."""
        # Writers that did not name themselves also recorded wrong row counts.
        named = self.writer_version is not None
        return Fragments(self.message.fragments, self.path, trust_counts=named, body=self._body)

    @property
    def reader_flags(self) -> Feature:
        return Feature(self._message.reader_feature_flags)

    @property
    def writer_flags(self) -> Feature:
        return Feature(self._message.writer_feature_flags)

    @property
    def has_stable_row_ids(self) -> bool:
        return bool(self._message.reader_feature_flags & _STABLE_ROW_IDS)

    @property
    def max_fragment_id(self) -> int | None:
        """Greatest fragment id ever used; None when there never was a fragment (or an old writer did not say)."""
        return self._message.max_fragment_id if self._message.HasField("max_fragment_id") else None

    @property
    def next_row_id(self) -> int:
        return self._message.next_row_id

    @property
    def max_allocated_field_id(self) -> int | None:
        message = self._message
        return message.max_allocated_field_id if message.HasField("max_allocated_field_id") else None

    @cached_property
    def config(self) -> Mapping[str, str]:
        return dict(self._message.config)

    @cached_property
    def table_metadata(self) -> Mapping[str, str]:
        return dict(self._message.table_metadata)

    @cached_property
    def base_paths(self) -> Mapping[int, BasePath]:
        """Base paths by id."""
        found: dict[int, BasePath] = {}
        for base in self._message.base_paths:
            if base.id in found:
                raise CorruptFile(self.path, f"has two base paths with the id {base.id}", "base paths")
            name = base.name if base.HasField("name") else None
            found[base.id] = BasePath(base.path, name, base.is_dataset_root, base.id)
        return found

    @cached_property
    def writer_version(self) -> WriterVersion | None:
        if not self._message.HasField("writer_version"):
            return None
        writer = self._message.writer_version
        return WriterVersion(
            writer.library,
            writer.version,
            writer.prerelease if writer.HasField("prerelease") else None,
            writer.build_metadata if writer.HasField("build_metadata") else None,
        )

    @property
    def data_storage_version(self) -> str:
        """File version that the table is written in.

        Old writers recorded none; then the first file tells, and the flag of their time. The flag alone, without a
        file, leaves the choice to whoever writes first.
        """
        if self._message.HasField("data_format"):
            return self._message.data_format.version
        flagged = (self._message.reader_feature_flags | self._message.writer_feature_flags) & Feature.V2_FORMAT
        for fragment in self.message.fragments:
            for file in fragment.files:
                version = version_numbered(file.file_major_version, file.file_minor_version) or LEGACY
                return V2_0 if flagged and version == LEGACY else version
        return DEFAULT_VERSION if flagged else LEGACY

    @property
    def transaction_file(self) -> str | None:
        """Name of the transaction's file in ``_transactions/``."""
        return self._message.transaction_file or None

    @property
    def has_indices(self) -> bool:
        return self._message.HasField("index_section")

    @cached_property
    def indices(self) -> Sequence[table_pb2.IndexMetadata]:
        """The index section: one message for each segment of an index."""
        if not self.has_indices:
            return ()
        return self._file.message(self._message.index_section, table_pb2.IndexSection, "index section").indices

    @cached_property
    def transaction(self) -> transaction_pb2.Transaction | None:
        """How this version came about: the inline copy, else its file, else None."""
        message = self._message
        for field in ("transaction_section", "transaction_section_deprecated"):
            if message.HasField(field):
                return self._file.message(getattr(message, field), transaction_pb2.Transaction, "transaction section")
        name = self.transaction_file
        if name is None:
            return None
        if "/" in name or "\0" in name or name in (".", ".."):
            raise CorruptFile(self.path, f"names the transaction file {name!r}", "transaction file")
        path = f"{TRANSACTIONS_DIR}/{name}"
        try:
            data = self._file.store.read_all(path)
        except MissingFile:
            return None
        return parse_message(data, transaction_pb2.Transaction, self._file.store.join(path), "transaction")


_STABLE_ROW_IDS = Feature.STABLE_ROW_IDS.value
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def read_manifest(store: Store, path: str) -> Manifest:
    """Read the manifest at ``path`` in a table's folder; one request when it is smaller than 64 KiB."""
    tail, size = store.read_tail(path, TAIL)
    return parse_manifest(ManifestFile(store, path, size, tail))


def parse_manifest(file: ManifestFile) -> Manifest:
    """Check and parse a manifest file."""
    body = manifest_body(file)
    message = file.parse(body, table_pb2.Manifest, "manifest")
    check_manifest(file.full_path, message)
    mended = _mend(message)
    return Manifest(file, message, mended, None if mended else body)


def _mend(message: table_pb2.Manifest) -> list[str]:
    """Mend what can be told from the manifest alone; returns what it was."""
    found = []
    if message.data_format.version == LEGACY:
        version = mend_storage_version(message)
        if version is not None:
            found.append(f"it is said to be a table of file version 0.1, but its files are of version {version}")
    doubled = (f"an old release gave the id {number} to two columns" for number in mend_field_ids(message))
    return [*found, *doubled]


def manifest_body(file: ManifestFile) -> bytes:
    """The bytes of the Manifest message in a manifest file, whose frame is checked."""
    path = file.full_path
    if file.size < FOOTER.size + LENGTH.size:
        raise CorruptFile(path, f"has {file.size} bytes, too few for a manifest")
    position, major, minor, magic = FOOTER.unpack(file.tail[-FOOTER.size :])
    if magic != MAGIC:
        raise CorruptFile(path, f"ends with {magic!r} instead of {MAGIC!r}", "footer")
    if major != MAJOR:
        raise NotSupported(f"{path} has the manifest version {major}.{minor}, which is not known")
    end = file.size - FOOTER.size
    if not 0 <= position <= end - LENGTH.size:
        raise CorruptFile(path, f"puts the manifest at byte {position} of {file.size}", "footer")
    body = file.read(position, end, "manifest")
    (length,) = LENGTH.unpack_from(body)
    if position + LENGTH.size + length != end:
        raise CorruptFile(path, f"manifest of {length} bytes at {position} does not end at the footer", "footer")
    return body[LENGTH.size :]


def check_manifest(path: str, message: table_pb2.Manifest) -> None:
    """Refuse a version that needs what this release does not know."""
    if message.HasField("fragment_tree"):
        raise NotSupported(f"{path} keeps its fragments in a tree, which this version of lancelet does not know")
    check_readable(
        path,
        message.reader_feature_flags,
        message.writer_feature_flags,
        has_field_id_mark=message.HasField("max_allocated_field_id"),
    )


def parse_message(data: bytes, kind: type[M], path: str, what: str) -> M:
    """Parse a protobuf message."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise CorruptFile(path, f"not a {kind.DESCRIPTOR.name} message: {error}", what) from None
