"""Arrow arrays into pages of legacy files; ``pages.py`` has their layouts (spec file-format.md 4.3 to 4.6).

The format has no place for nulls but in strings, where a null is an empty value. What
could not be read back as it was given is refused: nulls of all other types, and
empty strings where nulls are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import bit_width, is_variable
from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.encode.values import plain_storage
from lancelet.errors import NotSupported, UnfitData
from lancelet.format.file_versions import DEFAULT_VERSION
from lancelet.format.schema import Field
from lancelet.runtime import compute as pc

_ADVICE = f"write the table anew with mode='overwrite' and data_storage_version='{DEFAULT_VERSION}'"


@dataclass(frozen=True, slots=True)
class LegacyPage:
    """One page of a field."""

    field_id: int
    length: int
    """What the page table says: items, and one more for lists."""
    data: Bytes
    ends: Indices | None = None
    """Of variable values: where each ends in ``data``, after a leading 0."""


def check_legacy_field(field: Field) -> None:
    """Refuse types that a legacy file cannot hold."""
    for node in field.walk():
        dtype = node.arrow_type
        if node.id < 0:
            raise NotSupported(f"legacy files (version 0.1) hold no hidden columns such as '{node.name}'")
        refused = (
            node.logical_type.startswith("dict:")
            or node.logical_type == "map"
            or node.is_blob
            or node.is_blob_v2
            or (node.logical_type == "struct" and not node.children)
            or (pa.types.is_fixed_size_list(dtype) and bit_width(dtype) == 0)
        )
        if refused:
            raise NotSupported(
                f"field '{node.name}': legacy files (version 0.1) of lancelet hold no {node.logical_type}"
                f"{' of blobs' if node.is_blob else ''}; {_ADVICE}"
            )


def encode_rows(array: pa.Array, field: Field, path: str) -> Iterator[LegacyPage]:
    """The pages of one batch of a field, parents before children."""
    array = plain_storage(array, field, path)
    dtype, count = array.type, len(array)
    if pa.types.is_null(dtype):
        yield LegacyPage(field.id, count, np.empty(0, np.uint8))
        return
    if array.null_count and not (is_variable(dtype) and field.nullable):
        raise UnfitData(
            f"column '{path}' has {array.null_count} null(s), but files of version 0.1 have no place for nulls of type "
            f"{dtype}: they would read as zero; fill them, or {_ADVICE}"
        )
    if pa.types.is_struct(dtype):
        for place, child in enumerate(field.children):
            yield from encode_rows(array.field(place), child, f"{path}.{child.name}")
    elif pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        width = np.dtype("<i4") if pa.types.is_list(dtype) else np.dtype("<i8")
        offsets = array.offsets.to_numpy()
        yield LegacyPage(field.id, count + 1, (offsets - offsets[0]).astype(width).view(np.uint8))
        items = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        yield from encode_rows(items, field.children[0], f"{path}.{field.children[0].name}")
    elif is_variable(dtype):
        yield _variable(array, field, path)
    else:
        yield LegacyPage(field.id, count, _plain(array, path))


def _variable(array: pa.Array, field: Field, path: str) -> LegacyPage:
    lengths = pc.binary_length(array)
    if field.nullable and pc.any(pc.equal(lengths, 0)).as_py():
        raise UnfitData(
            f"column '{path}' has empty values, which files of version 0.1 cannot tell from nulls; make them null, declare "
            f"the column as not nullable, or {_ADVICE}"
        )
    ends = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths.fill_null(0).to_numpy(), out=ends[1:])
    # Nulls may lie over bytes; here they have none.
    texts = array.drop_null() if array.null_count else array
    _, buffer, data = texts.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if len(texts) == 0 or data is None:
        return LegacyPage(field.id, len(array), np.empty(0, np.uint8), ends)
    offsets = np.frombuffer(buffer, np.int64 if wide else np.int32)[texts.offset : texts.offset + len(texts) + 1]
    values = np.frombuffer(data, np.uint8)[int(offsets[0]) : int(offsets[-1])]
    return LegacyPage(field.id, len(array), values, ends)


def _plain(array: pa.Array, path: str) -> Bytes:
    """The bytes of fixed-width values, bits for booleans."""
    while pa.types.is_fixed_size_list(array.type):
        array = array.flatten()
        if array.null_count:
            raise UnfitData(
                f"column '{path}' has lists with nulls, for which files of version 0.1 have no place; fill them, or {_ADVICE}"
            )
    if pa.types.is_boolean(array.type):
        return np.packbits(array.to_numpy(zero_copy_only=False), bitorder="little")
    width = bit_width(array.type) // 8
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.empty(0, np.uint8)
    return np.frombuffer(data, np.uint8)[array.offset * width : (array.offset + len(array)) * width]
