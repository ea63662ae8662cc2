"""Packed structs: all children of a row in one record (spec encodings.md 7.3 and 7.4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lancelet.encoding.kernels import zip as kernel
from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_1.encode.chunks import Chunked, Part, even_counts
from lancelet.encoding.v2_1.encode.messages import Codec, fixed_list, flat, packed_struct
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.texts import TextSurvey, encode_each
from lancelet.encoding.v2_1.encode.values import Lists, Record, Strings, Values, Words
from lancelet.encoding.v2_1.encode.words import items_per_chunk, unnest
from lancelet.errors import NotSupported
from lancelet.format.proto import encodings21_pb2 as pb

WIDEST = 256
"""Records of this many bytes and more are too wide for chunks."""


def plain_widths(record: Record) -> list[int] | None:
    """Bits of each child when all are plain values and fit into chunks together."""
    if not all(isinstance(child, Words) for child in record.children):
        return None
    widths = [child.bits for child in record.children if isinstance(child, Words)]
    return widths if sum(widths) < WIDEST * 8 else None


def encode_records(record: Record, widths: list[int]) -> Chunked:
    """Fixed-width children side by side, in chunks."""
    columns = [child.data.reshape(record.count, -1) for child in record.children if isinstance(child, Words)]
    data = np.concatenate(columns, axis=1).reshape(-1)
    counts = even_counts(record.count, items_per_chunk(sum(widths)))
    return Chunked(packed_struct(widths), counts, (Part(data, counts * (sum(widths) // 8)),))


def variable_records(record: Record, options: EncodeOptions) -> tuple[Codec, Strings]:
    """Each row's record as a byte string: fixed-width fields as they are, others after their length."""
    codec = pb.VariablePackedStruct()
    fields: list[tuple[Bytes, int] | Strings] = []
    sizes = np.zeros(record.count, np.int64)
    for child in record.children:
        if isinstance(child, Strings):
            described, strings = encode_each(child, TextSurvey.of(child), replace(options, compression=_mild(options)))
            codec.fields.add(value=described, bits_per_length=strings.word * 8)
            sizes += np.diff(strings.offsets) + strings.word
            fields.append(strings)
        else:
            described, data, size = fixed_records(child)
            codec.fields.add(value=described, bits_per_value=size * 8)
            sizes += size
            fields.append((data, size))
    offsets = np.zeros(record.count + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    cursors = offsets[:-1].copy()
    for field in fields:
        if isinstance(field, Strings):
            kernel.append_strings(field.offsets, field.data, field.word, cursors, out)
        else:
            kernel.append_fixed(*field, cursors, out)
    wide = bool(offsets[-1] >= 1 << 32)
    return Codec(variable_packed_struct=codec), Strings(offsets, out, wide, text=False)


def fixed_records(values: Values) -> tuple[Codec, Bytes, int]:
    """Values of one size as records of whole bytes: codec, bytes, bytes a record."""
    if isinstance(values, Words):
        if values.bits == 1:
            # One byte a boolean where values stand alone.
            bits = np.unpackbits(values.data, count=values.count, bitorder="little")
            return flat(8), bits, 1
        return flat(values.bits), values.data, values.bits // 8
    if not isinstance(values, Lists):
        raise NotSupported("a packed struct can hold plain values, fixed-size lists and strings")
    levels, items = unnest(values)
    if items.bits == 1:
        per_record = int(np.prod([size for size, _ in levels]))
        rows = np.unpackbits(items.data, count=items.count, bitorder="little").reshape(-1, per_record)
        parts = [np.packbits(rows, axis=1, bitorder="little")]
    else:
        parts = [items.data.reshape(values.count, -1)]
    codec, masks, below = flat(items.bits), [], 1
    for size, validity in levels:
        below *= size
        if validity is not None:
            masks.append(np.packbits(validity.reshape(-1, below), axis=1, bitorder="little"))
    for size, validity in reversed(levels):
        codec = fixed_list(size, codec, validity is not None)
    if masks:
        joined = np.concatenate((*masks, *parts), axis=1)
        return codec, joined.reshape(-1), joined.shape[1]
    return codec, parts[0].reshape(-1), parts[0].shape[1]


def _mild(options: EncodeOptions) -> str | None:
    """Fields of a record are never compressed one by one: only FSST or nothing."""
    return options.compression if options.compression == "fsst" else None if options.general is None else "none"
