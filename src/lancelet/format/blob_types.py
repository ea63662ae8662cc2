"""Blobs of the second kind as Arrow data (spec encodings.md 7.5).

Three structs stand for one column, all under the extension name ``lance.blob.v2``::

    logical     data, uri [, position, size]                    what users write, and what schemas show
    prepared    kind, data, uri, blob_id, blob_size, position   payloads that were written beside a file to come
    stored      kind, position, size, blob_id, blob_uri         what a data file holds, and what a scan shows

Only the logical form is the extension type; the other two are plain structs.

How large a payload has to be to leave the data file is told by the field's metadata:
up to ``inline`` bytes stay, more than ``dedicated`` get a file of their own, all others
share files of at most ``pack`` bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidOption, InvalidType, UnfitData

if TYPE_CHECKING:
    from typing_extensions import Self

BLOB_V2_NAME = "lance.blob.v2"
LOGICAL = pa.struct(
    [("data", pa.large_binary()), ("uri", pa.string()), ("position", pa.uint64()), ("size", pa.uint64())]
)
LOGICAL_WITHOUT_RANGES = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
PREPARED = pa.struct(
    [
        ("kind", pa.uint8()),
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("blob_id", pa.uint32()),
        ("blob_size", pa.uint64()),
        ("position", pa.uint64()),
    ]
)
INLINE, PACKED, DEDICATED, EXTERNAL, MANAGED, MANAGED_IN_BASE = range(6)
"""Kinds of blobs. The last one is in prepared data only: a managed blob below a base path, stored as ``MANAGED``."""

INLINE_KEY = "lance-encoding:blob-inline-size-threshold"
DEDICATED_KEY = "lance-encoding:blob-dedicated-size-threshold"
PACK_KEY = "lance-encoding:blob-pack-file-size-threshold"
_LEAST = {INLINE_KEY: 0, DEDICATED_KEY: 1, PACK_KEY: 1}
_MOST = 2**64 - 1


@dataclass(frozen=True)
class Blob:
    """A value of a blob column that is to be written: bytes, or a URI of an object somewhere, or of a part of it.

    A null is ``None``; a blob of no bytes is :meth:`empty`.

    Examples
    --------
    >>> Blob.from_uri("s3://bucket/video.mp4", position=100, size=50).size
    50
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.uri is None):
            raise InvalidInput(
                "a Blob has data or a uri, one of them; None is the null blob, Blob.empty() the empty one"
            )
        if self.uri == "":
            raise InvalidInput("the uri of a Blob is empty")
        if (self.position is None) != (self.size is None):
            raise InvalidInput("a Blob has both position and size, or neither")
        if self.position is None or self.size is None:
            return
        if self.uri is None:
            raise InvalidInput("position and size of a Blob are a part of what its uri names; it has none")
        if self.position < 0 or self.size <= 0:
            raise InvalidInput(
                f"a Blob has {self.size} bytes at {self.position}; it needs some, at no negative position"
            )

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """Bytes to be stored with the table."""
        return Blob(data=bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """What a URI names, or ``size`` bytes of it."""
        return Blob(uri=uri, position=position, size=size)

    @staticmethod
    def empty() -> Blob:
        """A blob of no bytes."""
        return Blob(data=b"")


class BlobType(pa.ExtensionType):  # type: ignore[misc]
    """The Arrow type of blob columns, as users write them. Scans give descriptions of the blobs instead."""

    def __init__(self) -> None:
        pa.ExtensionType.__init__(self, LOGICAL, BLOB_V2_NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Self:
        if not is_logical(storage_type):
            raise InvalidType(f"blobs are {LOGICAL_WITHOUT_RANGES} or {LOGICAL}, not {storage_type}")
        made = cls.__new__(cls)
        pa.ExtensionType.__init__(made, storage_type, BLOB_V2_NAME)
        return made

    def __arrow_ext_class__(self) -> type[BlobArray]:
        return BlobArray

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).__arrow_ext_deserialize__, (self.storage_type, b"")


class BlobArray(pa.ExtensionArray):  # type: ignore[misc]
    """Blobs that are to be written, see :func:`blob_array`."""

    @classmethod
    def from_pylist(cls, values: Iterable[object]) -> BlobArray:
        """Blobs of Python values, see :func:`blob_array`."""
        rows = [_parts(value) for value in values]
        columns = zip(*rows, strict=True) if rows else ((),) * LOGICAL.num_fields
        parts = [pa.array(column, field.type) for column, field in zip(columns, LOGICAL, strict=True)]
        mask = pa.array([row is _NULL for row in rows], pa.bool_())
        storage = pa.StructArray.from_arrays(parts, fields=list(LOGICAL), mask=mask)
        array: BlobArray = pa.ExtensionArray.from_storage(BlobType(), storage)
        return array


_NULL = (None, None, None, None)


def _parts(value: object) -> tuple[bytes | None, str | None, int | None, int | None]:
    if value is None:
        return _NULL
    if isinstance(value, bytes):
        return value, None, None, None
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value), None, None, None
    if isinstance(value, str):
        value = Blob(uri=value)
    if not isinstance(value, Blob):
        raise InvalidType(f"a blob is bytes, a URI, a Blob or None, not {type(value)}")
    return value.data, value.uri, value.position, value.size


def blob_array(values: Iterable[object]) -> BlobArray:
    """Blobs to be written.

    Parameters
    ----------
    values
        Bytes, texts (which are URIs), :class:`Blob` values, and None for nulls.

    Examples
    --------
    >>> blob_array([b"bytes", "s3://bucket/object", None]).null_count
    1
    """
    return BlobArray.from_pylist(values)


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """A column of blobs.

    Parameters
    ----------
    name
        The column's name.
    nullable
        Whether there may be nulls.
    inline_size_threshold
        Blobs of up to so many bytes are stored in the data file; 64 KiB by default.
    dedicated_size_threshold
        Larger blobs have a file of their own; 4 MiB by default. The others share files.
    pack_file_size_threshold
        How large such a shared file becomes; 1 GiB by default.

    Examples
    --------
    >>> import lancelet
    >>> schema = pa.schema([blob_field("clip", inline_size_threshold=1024)])
    >>> table = pa.table([blob_array([b"small", b"large" * 1000])], schema=schema)
    >>> dataset = lancelet.write_dataset(table, "memory://docs/clips")
    >>> [blob["kind"] for blob in dataset.to_table()["clip"].to_pylist()]
    [0, 1]
    """
    given = {
        INLINE_KEY: ("inline_size_threshold", inline_size_threshold),
        DEDICATED_KEY: ("dedicated_size_threshold", dedicated_size_threshold),
        PACK_KEY: ("pack_file_size_threshold", pack_file_size_threshold),
    }
    metadata = {
        key: _checked(title, number, _LEAST[key]) for key, (title, number) in given.items() if number is not None
    }
    return pa.field(name, BlobType(), nullable, metadata or None)


def _checked(title: str, number: object, least: int) -> str:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidType(f"{title} is a number of bytes, not {number!r}")
    if number < least:
        raise InvalidInput(f"{title} is {number}; it is at least {least}")
    if number > _MOST:
        raise InvalidOption(f"{title} is {number}, more than 64 bits hold")
    return str(number)


@dataclass(frozen=True, slots=True)
class BlobSizes:
    """Where the payloads of a column go, by their size in bytes."""

    inline: int = 64 << 10
    """Up to this size they are in the data file."""
    dedicated: int = 4 << 20
    """Above this size they have a file of their own."""
    pack: int = 1 << 30
    """The others share files that become no larger than this."""

    @classmethod
    def of(cls, name: str, metadata: Mapping[str, str]) -> BlobSizes:
        """As the metadata of a field tells them."""
        known = cls()
        return cls(
            _size(name, metadata, INLINE_KEY, known.inline),
            _size(name, metadata, DEDICATED_KEY, known.dedicated),
            _size(name, metadata, PACK_KEY, known.pack),
        )

    def effective(self) -> dict[str, int]:
        """The numbers by their keys in the metadata."""
        return {INLINE_KEY: self.inline, DEDICATED_KEY: self.dedicated, PACK_KEY: self.pack}


def _size(name: str, metadata: Mapping[str, str], key: str, default: int) -> int:
    text = metadata.get(key)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not _LEAST[key] <= number <= _MOST:
        raise UnfitData(
            f"field '{name}' has {key}={text!r} in its metadata; it is a number of bytes from {_LEAST[key]} on"
        )
    return number


def side_file(data_file: str, number: int) -> str:
    """Path of a file of blobs, beside the data file that they belong to.

    Examples
    --------
    >>> side_file("data/x.lance", 2)
    'data/x/01000000000000000000000000000000.blob'
    """
    return f"{data_file.removesuffix('.lance')}/{f'{number:032b}'[::-1]}.blob"


def is_logical(dtype: pa.DataType) -> bool:
    """Whether a struct is what users write, with or without ranges."""
    if not pa.types.is_struct(dtype) or dtype.num_fields not in (2, 4):
        return False
    pairs = zip(dtype, LOGICAL, strict=False)
    return all(mine.name == known.name and mine.type == known.type for mine, known in pairs) and all(
        dtype.field(at).nullable for at in range(2)
    )


def _register() -> None:
    try:
        pa.register_extension_type(BlobType())
    except pa.ArrowKeyError:
        # pylance is in the same process and was first: its type is made of the same structs.
        return


_register()
