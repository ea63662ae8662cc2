"""How texts become signatures: the options of a MINHASHLSH index (spec indices.md 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lancelet.errors import InvalidInput
from lancelet.format.proto.minhash_index_pb2 import MinHashLshIndexDetails
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.params import Params
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    import pyarrow as pa

PARAMS: Final = "params"
NAMES: Final = ("num_hashes", "num_bands", "shingle_size")
_PLACE: Final = "index details"
_SEED: Final = 42
_WORD: Final = (1 << 64) - 1
_MOST_BANDS: Final = 256
"""The number of a band is a byte of its key."""
_MOST_HASHES: Final = 1 << 14
_KEY_BITS: Final = 56

Signatures = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint64]
_TOKENIZER: Final = Params(stem=False, remove_stop_words=False)


@dataclass(frozen=True)
class MinHashParams:
    """All that decides which signature a text has, and which of its parts are looked up."""

    num_hashes: int = 128
    num_bands: int = 16
    shingle_size: int = 3
    tokenizer: Params = _TOKENIZER

    def check(self) -> None:
        """Raise when options make no sense."""
        for name in NAMES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(f"{name} is a number, at least 1, not {value!r}")
        if self.num_hashes % self.num_bands or self.num_bands > _MOST_BANDS or self.num_hashes > _MOST_HASHES:
            raise InvalidInput(
                f"{self.num_hashes} hashes cannot be put into {self.num_bands} bands of one size; at most {_MOST_BANDS} bands "
                f"and {_MOST_HASHES} hashes can be"
            )

    def to_details(self) -> bytes:
        """The message in the manifest."""
        return MinHashLshIndexDetails(
            num_hashes=self.num_hashes,
            num_bands=self.num_bands,
            shingle_size=self.shingle_size,
            tokenizer=self.tokenizer.to_details(),
        ).SerializeToString()

    @classmethod
    def from_details(cls, data: bytes, path: str) -> MinHashParams:
        """What the manifest says."""
        details = parse_message(data, MinHashLshIndexDetails, path, _PLACE)
        return cls(
            details.num_hashes,
            details.num_bands,
            details.shingle_size,
            Params.from_details(details.tokenizer, path),
        )

    def shown(self) -> dict[str, Any]:
        """As descriptions show them."""
        numbers = {name: getattr(self, name) for name in NAMES}
        tokenizer = self.tokenizer.to_dict() | {"lance_tokenizer": None, "custom_stop_words": None}
        return {**numbers, "tokenizer": tokenizer, "signature_version": 0}

    @cached_property
    def _functions(self) -> tuple[Words, Words, Words]:
        """The numbers of all hash functions, drawn by SplitMix64."""
        state, drawn = _SEED, []
        for _ in range(3 * self.num_hashes):
            state = (state + 0x9E3779B97F4A7C15) & _WORD
            mixed = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & _WORD
            mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _WORD
            drawn.append(mixed ^ mixed >> 31)
        numbers = np.array(drawn, np.uint64)
        pairs = numbers[: 2 * self.num_hashes].reshape(-1, 2)
        odd = np.uint64(1)
        return pairs[:, 0] | odd, np.ascontiguousarray(pairs[:, 1]), numbers[2 * self.num_hashes :] | odd

    def sign(self, analyzer: Analyzer, texts: pa.Array) -> tuple[npt.NDArray[np.int64], Signatures]:
        """The places of texts that have tokens, and their signatures."""
        from lancelet.index.minhash.signing import sign

        tokens = analyzer.analyze(texts)
        places, starts = np.unique(tokens.document, return_index=True)
        bounds = np.append(starts, len(tokens)).astype(np.int64)
        found = np.empty((len(places), self.num_hashes), np.uint16)
        data, offsets = analyzer.terms.arrays()
        terms = np.ascontiguousarray(tokens.term)
        a, b, c = self._functions
        sign(np.ascontiguousarray(data), offsets, terms, bounds, self.shingle_size, a, b, c, found)
        return places.astype(np.int64), found

    def keys(self, signatures: Signatures) -> npt.NDArray[np.uint64]:
        """What the bands of signatures are looked up by: one row for each signature."""
        from lancelet.index.scalar.bloom import hash_fixed

        width = self.num_hashes // self.num_bands
        data = np.ascontiguousarray(signatures.astype("<u2")).view(np.uint8).reshape(-1)
        hashes = hash_fixed(data, 2 * width, _SEED).reshape(-1, self.num_bands) & np.uint64((1 << _KEY_BITS) - 1)
        bands = np.arange(self.num_bands, dtype=np.uint64) << np.uint64(_KEY_BITS)
        keys: npt.NDArray[np.uint64] = hashes | bands
        return keys

    def range_of_keys(self, band: int, share: int, shares: int) -> tuple[np.uint64, np.uint64]:
        """The first and the last key of one of so many equal shares of those of a band."""
        first, size = band << _KEY_BITS, 1 << _KEY_BITS
        low, high = first + share * size // shares, first + (share + 1) * size // shares - 1
        return np.uint64(low), np.uint64(high)

    def distances(self, signatures: Signatures, wanted: Signatures) -> npt.NDArray[np.float32]:
        """1 less the share of places in which signatures are equal to another one."""
        share = (signatures == wanted).sum(axis=1) / self.num_hashes
        distances: npt.NDArray[np.float32] = (1 - share).astype(np.float32)
        return distances


def read_options(options: Mapping[str, Any]) -> MinHashParams:
    """What users ask for: numbers, and options of tokens."""
    if PARAMS in options:
        kept: MinHashParams = options[PARAMS]
        return kept
    known = {
        "base_tokenizer",
        "language",
        "max_token_length",
        "lower_case",
        "stem",
        "remove_stop_words",
        "ascii_folding",
    }
    if unknown := sorted(set(options) - known - set(NAMES)):
        raise InvalidInput(
            f"{', '.join(unknown)}: not an option of MINHASHLSH indices, which have {', '.join((*NAMES, *sorted(known)))}"
        )
    tokenizer = replace(_TOKENIZER, **{name: options[name] for name in known & set(options)})
    tokenizer.check()
    params = MinHashParams(**{name: options[name] for name in NAMES if name in options}, tokenizer=tokenizer)
    params.check()
    return params
