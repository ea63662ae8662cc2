"""What a field's metadata asks of its encoder (spec encodings.md 9.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from lancelet.errors import UnfitData
from lancelet.format.file_versions import DEFAULT_VERSION, V2_1

PREFIX = "lance-encoding:"
_COMPRESSIONS = ("none", "lz4", "zstd", "fsst")
_LAYOUTS = ("miniblock", "fullzip")
_BSS = ("off", "on", "auto")
_DICTIONARY_COMPRESSIONS = ("lz4", "zstd", "none")
_LEVELS = (-(2**17), 22)


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """How one leaf wants to be encoded; the defaults are the reference's."""

    version: str = DEFAULT_VERSION
    compression: str | None = None
    level: int | None = None
    rle_threshold: float | None = None
    bss: str = "auto"
    dict_divisor: int = 2
    dict_size_ratio: float = 0.8
    dict_compression: str = "lz4"
    dict_level: int | None = None
    chunk_bytes: int = 4096
    layout: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing was asked for."""
        return self is _plain(self.version)

    @property
    def large(self) -> bool:
        """Words of 32 bits for chunk sizes: always in 2.2, never in 2.1."""
        return self.version != V2_1

    @property
    def general(self) -> str | None:
        """A general compression scheme that was asked for."""
        return self.compression if self.compression in ("lz4", "zstd") else None

    @classmethod
    def of(cls, version: str, name: str, leaf: Mapping[str, str], top: Mapping[str, str]) -> EncodeOptions:
        """Read the leaf's metadata; the layout is asked for at the top-level field."""
        if not leaf and not top:
            return _plain(version)
        own, outer = _Words(name, leaf), _Words(name, top)
        return cls(
            version,
            compression=own.choice("compression", _COMPRESSIONS, None),
            level=own.integer("compression-level", *_LEVELS, None),
            rle_threshold=own.number("rle-threshold", None),
            bss=own.choice("bss", _BSS, "auto") or "auto",
            dict_divisor=own.integer("dict-divisor", 2, 2**31, 2) or 2,
            dict_size_ratio=own.number("dict-size-ratio", 0.8) or 0.8,
            dict_compression=own.choice("dict-values-compression", _DICTIONARY_COMPRESSIONS, "lz4") or "lz4",
            dict_level=own.integer("dict-values-compression-level", *_LEVELS, None),
            chunk_bytes=own.integer("minichunk-size", 16, 32767 if version == V2_1 else 2**24, 4096) or 4096,
            layout=outer.choice("structural-encoding", _LAYOUTS, None),
        )


@cache
def _plain(version: str) -> EncodeOptions:
    """What a field without metadata asks for."""
    return EncodeOptions(version)


@dataclass(frozen=True, slots=True)
class _Words:
    field: str
    metadata: Mapping[str, str]

    def choice(self, key: str, known: tuple[str, ...], default: str | None) -> str | None:
        text = self.metadata.get(PREFIX + key)
        if text is None:
            return default
        if text.lower() not in known:
            raise self._wrong(key, text, f"one of {', '.join(known)}")
        return text.lower()

    def integer(self, key: str, low: int, high: int, default: int | None) -> int | None:
        text = self.metadata.get(PREFIX + key)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise self._wrong(key, text, f"a whole number from {low} to {high}")
        return number

    def number(self, key: str, default: float | None) -> float | None:
        text = self.metadata.get(PREFIX + key)
        if text is None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0.0 <= number <= 1.0:
            raise self._wrong(key, text, "a number from 0 to 1")
        return number

    def _wrong(self, key: str, text: str, wanted: str) -> UnfitData:
        return UnfitData(f"field '{self.field}': metadata {PREFIX}{key} is {text!r}; it must be {wanted}")
