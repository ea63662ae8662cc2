"""Full-zip pages: levels and value of each entry side by side (spec encodings.md 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lancelet.encoding.kernels import zip as kernel
from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.encode.messages import Codec, EncodedPage
from lancelet.encoding.v2_1.encode.shred import Shredded
from lancelet.encoding.v2_1.encode.values import Strings
from lancelet.encoding.v2_1.levels import Levels
from lancelet.format.proto import encodings21_pb2 as pb

_NO_LEVELS = np.empty(0, np.uint16)
_NO_INDEX = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Control:
    """How levels share a control word."""

    bits_rep: int
    bits_def: int

    @classmethod
    def of(cls, page: Shredded) -> _Control:
        return cls(_bits(page.reps), _bits(page.defs))

    @property
    def word(self) -> int:
        bits = self.bits_rep + self.bits_def
        return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4


def zip_records(page: Shredded, codec: Codec, records: tuple[Bytes, ...], size: int) -> EncodedPage:
    """Values of ``size`` bytes each; without levels they are the page, as they lie."""
    control = _Control.of(page)
    layout = _layout(page, control, codec)
    layout.bits_per_value = size * 8
    if control.word == 0 and page.reps is None:
        return _page(page, layout, records, None)
    data = records[0] if len(records) == 1 else np.concatenate(records)
    out = np.empty(page.entries * control.word + len(data), np.uint8)
    index = np.empty(page.length + 1, np.int64) if page.reps is not None else _NO_INDEX
    used = kernel.zip_fixed(
        _or_none(page.reps), _or_none(page.defs), page.entries, control.word, control.bits_def, page.leaf.lists,
        page.max_visible, data, size, out, index,
    )  # fmt: skip
    return _page(page, layout, (out[:used],), index if len(index) else None)


def zip_strings(page: Shredded, codec: Codec, strings: Strings) -> EncodedPage:
    """Values with their lengths before them."""
    control = _Control.of(page)
    layout = _layout(page, control, codec)
    layout.bits_per_offset = strings.word * 8
    defs = _or_none(page.defs)
    size = kernel.zipped_strings_size(defs, page.entries, control.word, strings.word, page.max_visible, strings.offsets)
    out = np.empty(size, np.uint8)
    index = np.empty(page.length + 1, np.int64)
    used = kernel.zip_strings(
        _or_none(page.reps), defs, page.entries, control.word, control.bits_def, page.leaf.lists, page.max_visible,
        strings.offsets, strings.data, strings.word, out, index,
    )  # fmt: skip
    return _page(page, layout, (out[:used],), index)


def _layout(page: Shredded, control: _Control, codec: Codec) -> pb.FullZipLayout:
    return pb.FullZipLayout(
        bits_rep=control.bits_rep,
        bits_def=control.bits_def,
        num_items=page.entries,
        num_visible_items=len(page.values),
        value_compression=codec,
        layers=page.layers,
    )


def _page(page: Shredded, layout: pb.FullZipLayout, data: tuple[Bytes, ...], index: Indices | None) -> EncodedPage:
    buffers: tuple[tuple[Bytes, ...], ...] = (data,)
    if index is not None:
        end = int(index[-1])
        word = next(word for word in (1, 2, 4, 8) if end < 1 << (8 * word))
        buffers = (data, (index.astype(f"<u{word}").view(np.uint8),))
    return EncodedPage(page.length, page.rows, pb.PageLayout(full_zip_layout=layout), buffers)


def _bits(levels: Levels | None) -> int:
    return int(levels.max()).bit_length() if levels is not None and len(levels) else 0


def _or_none(levels: Levels | None) -> Levels:
    return _NO_LEVELS if levels is None else levels
