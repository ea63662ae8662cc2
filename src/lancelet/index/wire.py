"""Messages of index details, read field by field: of most of them only a few fields are of interest."""

from __future__ import annotations

from lancelet.errors import CorruptFile

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_fields(data: bytes, path: str) -> list[tuple[int, int | bytes]]:
    """Numbers and values of a protobuf message, in the order of the bytes."""
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value, at = _varint(data, at, path)
        return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == _VARINT:
            found.append((tag >> 3, varint()))
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind) if kind != _BYTES else varint()
        if size is None or at + size > len(data):
            raise CorruptFile(path, f"a value of kind {kind} does not fit", "index details")
        found.append((tag >> 3, data[at : at + size]))
        at += size
    return found


def read_varints(data: bytes, path: str) -> list[int]:
    """Packed numbers."""
    found: list[int] = []
    at = 0
    while at < len(data):
        value, at = _varint(data, at, path)
        found.append(value)
    return found


def _varint(data: bytes, at: int, path: str) -> tuple[int, int]:
    """A number, and where the next thing begins."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise CorruptFile(path, "a number does not end", "index details")
