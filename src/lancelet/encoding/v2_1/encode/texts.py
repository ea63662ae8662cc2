"""Byte strings: in chunks with their offsets, compressed by FSST or a general scheme (spec encodings.md 6.2, 6.7, 9.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lancelet.encoding.kernels import strings as kernel
from lancelet.encoding.v2_1.encode.chunks import LARGEST, Chunked, Part
from lancelet.encoding.v2_1.encode.general import compress_chunks, compress_values
from lancelet.encoding.v2_1.encode.messages import Codec, fsst, general, variable
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.symbols import SymbolTable, train
from lancelet.encoding.v2_1.encode.values import Strings

FSST_BYTES = 32 << 10
"""Less text than this does not pay for a symbol table."""
_FSST_LENGTH = 5
_LONG = 32 << 10
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TextSurvey:
    """What the strings of a page are like."""

    longest: int
    equal: bool

    @classmethod
    def of(cls, strings: Strings) -> TextSurvey:
        return cls(*kernel.survey(strings.offsets, strings.data))


def wants_symbols(strings: Strings, survey: TextSurvey, options: EncodeOptions) -> bool:
    """Whether FSST is tried: on text of some length, or where it is asked for."""
    if options.compression == "fsst":
        return strings.nbytes > 0
    return (
        options.compression is None and strings.text and survey.longest >= _FSST_LENGTH and strings.nbytes >= FSST_BYTES
    )


def encode_strings(
    strings: Strings, survey: TextSurvey, options: EncodeOptions, table: SymbolTable | None = None
) -> Chunked:
    """Values of a mini-block page."""
    codec = variable(strings.word * 8)
    if wants_symbols(strings, survey, options):
        table = table or train(strings)
        strings = table.encode(strings)
        codec = fsst(table.message, codec)
    counts = np.empty(strings.count // 2 + 1, np.int64)
    chunks = kernel.plan_chunks(strings.offsets, strings.word, options.chunk_bytes, LARGEST, counts)
    counts = counts[:chunks].copy() if chunks else np.zeros(1, np.int64)
    out = np.empty(strings.nbytes + (strings.count + 2 * len(counts)) * strings.word, np.uint8)
    sizes = np.empty(len(counts), np.int64)
    kernel.write_chunks(strings.offsets, strings.data, strings.word, counts, out, sizes)
    chunked = Chunked(codec, counts, (Part(out, sizes),))
    return compress_chunks(chunked, options) if options.general else chunked


def encode_each(strings: Strings, survey: TextSurvey, options: EncodeOptions) -> tuple[Codec, Strings]:
    """Values of a full-zip page, each by itself."""
    codec = variable(strings.word * 8)
    asked = options.general is not None or (options.compression is None and survey.longest > _LONG)
    if asked and strings.nbytes >= FSST_BYTES:
        return general("zstd", options.level or 0, codec), narrow(compress_values(strings, options.level))
    if wants_symbols(strings, survey, options):
        table = train(strings)
        return fsst(table.message, codec), table.encode(strings)
    return codec, strings


def narrow(strings: Strings) -> Strings:
    """Offsets of the type's own width again, where they fit."""
    if not strings.wide and int(strings.offsets[-1]) <= _INT32_MAX:
        return replace(strings, offsets=strings.offsets.astype(np.int32))
    return strings
