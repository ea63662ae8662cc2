"""Words of languages that are written without spaces: ICU's dictionaries, which the package icu4py brings along.

ICU keeps its data in one library, as an archive::

    ┌ header ┬ count ┬ (name, item) * count ┬ names ... items ┐         a number of 4 bytes each, counted from `count`
    item of a dictionary:  ┌ header ┬ 8 numbers ┬ trie ┐                where the trie begins (0) and ends (3), its kind (4),
                                                                        what its bytes count from (5)

A header is its own size (2 bytes), ``DA 27``, and from byte 12 on four letters for what follows. A trie is a tree of
nodes, read from its first byte or 16-bit unit on: a value, a branch of several units each with a value or a way to
go, or a few units that follow each other. Values do not matter here, only where they are: at the ends of words.
"""

from __future__ import annotations

import mmap
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from lancelet.errors import CorruptFile, MissingPackage, NotSupported

PACKAGE: Final = "icu4py"
_LIBRARY: Final = "libicudata"
_ARCHIVE, _DICTIONARY = b"CmnD", b"Dict"
_MAGIC: Final = b"\xda\x27"
_FORMAT_AT: Final = 12
_INDEXES: Final = struct.Struct("<8i")
_ENTRY: Final = struct.Struct("<2I")
_UNITS: Final = 1
_KIND_MASK: Final = 7
_OFFSET_MASK: Final = 0x1FFFFF
_JOINERS: Final = {0xFF: "\u200d", 0xFE: "\u200c"}


def read_words(name: str) -> Sequence[str]:
    """The words of one of ICU's dictionaries: ``thai``, ``lao``, ``khmer``, ``burmese`` or ``cj``.

    Raises
    ------
    MissingPackage
        The package with the dictionaries is not installed.
    """
    path = _library()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            item = _find_item(data, f"{name}dict.dict")
            start = item + _header_size(data, item, _DICTIONARY)
            indexes = _INDEXES.unpack_from(data, start)
            trie = data[start + indexes[0] : start + indexes[3]]
            if indexes[4] & _KIND_MASK == _UNITS:
                units = struct.unpack(f"<{len(trie) // 2}H", trie[: len(trie) // 2 * 2])
                return [_of_units(word) for word in _walk(_UnitTrie(units))]
            base = indexes[5] & _OFFSET_MASK
            return ["".join(_JOINERS.get(byte) or chr(base + byte) for byte in word) for word in _walk(_ByteTrie(trie))]
        except (struct.error, IndexError, ValueError):
            raise CorruptFile(str(path), f"ICU's dictionary {name!r} cannot be read") from None


def _library() -> Path:
    try:
        files = metadata.files(PACKAGE) or ()
    except metadata.PackageNotFoundError:
        raise MissingPackage(
            "texts in Chinese, Japanese, Thai, Lao, Khmer or Burmese are cut into words by ICU's dictionaries, which the "
            f"package {PACKAGE} brings along: pip install 'lancelet[icu]', or use another base tokenizer"
        ) from None
    for file in files:
        if file.name.startswith(_LIBRARY):
            return Path(str(file.locate()))
    raise NotSupported(f"the installed package {PACKAGE} has no file {_LIBRARY}: ICU's dictionaries are not found")


def _header_size(data: mmap.mmap, at: int, letters: bytes) -> int:
    if data[at + 2 : at + 4] != _MAGIC or data[at + _FORMAT_AT : at + _FORMAT_AT + 4] != letters:
        raise ValueError(letters)
    return int.from_bytes(data[at : at + 2], sys.byteorder)


def _find_item(data: mmap.mmap, name: str) -> int:
    archive = data.find(_ARCHIVE) - _FORMAT_AT
    table = archive + _header_size(data, archive, _ARCHIVE)
    ending = b"/" + name.encode() + b"\0"
    for entry in range(int.from_bytes(data[table : table + 4], "little")):
        name_at, item = _ENTRY.unpack_from(data, table + 4 + entry * _ENTRY.size)
        if data[table + name_at : data.find(b"\0", table + name_at) + 1].endswith(ending):
            return int(table + item)
    raise ValueError(name)


def _of_units(units: tuple[int, ...]) -> str:
    return struct.pack(f"<{len(units)}H", *units).decode("utf-16-le")


@dataclass(frozen=True, slots=True)
class _UnitTrie:
    """A trie of units of 16 bits."""

    units: Sequence[int]
    linear: int = 0x30
    values: int = 0x40

    def value(self, at: int) -> tuple[bool, int, int]:
        """Whether a value in a branch ends a word; it, or the way to go; and what follows it."""
        lead = self.units[at]
        return lead >= 0x8000, *self._number(lead & 0x7FFF, at + 1, 0x4000, 0x7FFF)

    def node_value(self, at: int) -> tuple[bool, int, int]:
        """Whether nothing follows a value; where the node is that does, and its lead."""
        lead = self.units[at]
        if lead >= 0x8000:
            return True, at, 0
        _, after = self._number(lead, at + 1, 0x4040, 0x7FC0)
        return False, after, lead & 0x3F

    def delta(self, at: int) -> tuple[int, int]:
        return self._number(self.units[at], at + 1, 0xFC00, 0xFFFF)

    def _number(self, lead: int, at: int, two: int, three: int) -> tuple[int, int]:
        if lead < two:
            return lead, at
        if lead < three:
            return (lead - two) << 16 | self.units[at], at + 1
        return self.units[at] << 16 | self.units[at + 1], at + 2


@dataclass(frozen=True, slots=True)
class _ByteTrie:
    """A trie of bytes."""

    units: Sequence[int]
    linear: int = 0x10
    values: int = 0x20

    def value(self, at: int) -> tuple[bool, int, int]:
        lead = self.units[at]
        return bool(lead & 1), *self._number(lead >> 1, at + 1, (0x10, 0x51, 0x6C, 0x7E, 0x7F))

    def node_value(self, at: int) -> tuple[bool, int, int]:
        final, _, after = self.value(at)
        return final, after + 1, 0 if final else self.units[after]

    def delta(self, at: int) -> tuple[int, int]:
        return self._number(self.units[at], at + 1, (0, 0xC0, 0xF0, 0xFE, 0xFF))

    def _number(self, lead: int, at: int, leads: tuple[int, ...]) -> tuple[int, int]:
        one, two, three, four, five = leads
        more = (lead >= two) + (lead >= three) + (lead >= four) + (lead >= five)
        first = lead - (one, two, three, lead, lead)[more]
        return first << 8 * more | int.from_bytes(bytes(self.units[at : at + more]), "big"), at + more


_MOST_LINEAR: Final = 5
"""Units of a branch that are compared one after the other; more are halved first."""


def _walk(trie: _UnitTrie | _ByteTrie) -> Iterator[tuple[int, ...]]:
    """All words."""
    units = trie.units
    waiting: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    while waiting:
        at, word = waiting.pop()
        while True:
            node, at = units[at], at + 1
            if node >= trie.values:
                yield word
                final, at, node = trie.node_value(at - 1)
                if final:
                    break
            if node < trie.linear:
                count = node
                if count == 0:
                    count, at = units[at], at + 1
                yield from _branch(trie, at, count + 1, word, waiting)
                break
            count = node - trie.linear + 1
            word += tuple(units[at : at + count])
            at += count


def _branch(
    trie: _UnitTrie | _ByteTrie, at: int, count: int, word: tuple[int, ...], waiting: list[tuple[int, tuple[int, ...]]]
) -> Iterator[tuple[int, ...]]:
    """The words that end in a branch; where others go on is noted."""
    halves = [(at, count)]
    while halves:
        at, count = halves.pop()
        while count > _MOST_LINEAR:
            way, at = trie.delta(at + 1)
            halves.append((at + way, count >> 1))
            count -= count >> 1
        for _ in range(count - 1):
            unit = trie.units[at]
            final, way, at = trie.value(at + 1)
            if final:
                yield (*word, unit)
            else:
                waiting.append((at + way, (*word, unit)))
        waiting.append((at + 1, (*word, trie.units[at])))
