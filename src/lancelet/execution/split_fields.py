"""Columns whose leaves lie in several files, put together again.

Fields that were added to a struct, or cast inside one, are in files of their
own. Each file gives the part of the column that it has::

    file 0   s: struct<x>            list<struct<p>>
    file 1   s: struct<y>            list<struct<q>>
    result   s: struct<x, y>         list<struct<p, q>>

A struct is null where all its parts are. The lists of all parts are as long as
those of the first, except in deleted rows: nobody knew their lengths when a later
part was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.errors import CorruptFile
from lancelet.execution.shown import stored_type
from lancelet.format.schema import Field
from lancelet.runtime import compute as pc

Mask = npt.NDArray[np.bool_]


def pruned(field: Field, columns: Mapping[int, int]) -> Field | None:
    """The part of a field that a file has."""
    if field.owns_column or not field.children:
        return field if field.id in columns else None
    children = tuple(child for c in field.children if (child := pruned(c, columns)) is not None)
    return replace(field, children=children) if children else None


def merged(field: Field, parts: Sequence[pa.Array], count: int, deleted: Mask | None, path: str) -> pa.Array:
    """The whole column. ``deleted`` marks rows whose values do not matter, ``path`` is named in errors."""
    if not parts:
        return pa.nulls(count, stored_type(field))
    if len(parts) == 1 and parts[0].type == stored_type(field):
        return parts[0]
    kind = parts[0].type
    if pa.types.is_struct(kind):
        return _merged_structs(field, parts, count, deleted, path)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _merged_lists(field, parts, deleted, path)
    return parts[0]


def _merged_structs(
    field: Field, parts: Sequence[pa.Array], count: int, deleted: Mask | None, path: str
) -> pa.StructArray:
    nulls: pa.Array | None = None
    if all(part.null_count for part in parts):
        nulls = parts[0].is_null()
        for part in parts[1:]:
            nulls = pc.and_(nulls, part.is_null())
    # Below a null struct nothing counts, even where another part has a value.
    below = [dict(zip((f.name for f in part.type), part.flatten(), strict=True)) for part in parts]
    children = [
        merged(child, [found[child.name] for found in below if child.name in found], count, deleted, path)
        for child in field.children
    ]
    fields = [
        pa.field(child.name, array.type, child.nullable, child.arrow_field.metadata)
        for child, array in zip(field.children, children, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=nulls)


def _merged_lists(field: Field, parts: Sequence[pa.Array], deleted: Mask | None, path: str) -> pa.Array:
    lengths = _lengths(parts[0])
    total = int(lengths.sum())
    values = [parts[0].flatten()]
    values.extend(_aligned(part, lengths, deleted, field, path) for part in parts[1:])
    inner = None if deleted is None else np.repeat(deleted, lengths)
    item = field.children[0]
    items = merged(item, values, total, inner, path)
    large = pa.types.is_large_list(parts[0].type)
    offsets = np.zeros(len(lengths) + 1, np.int64 if large else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = parts[0].is_null() if parts[0].null_count else None
    make, wrap = (pa.LargeListArray, pa.large_list) if large else (pa.ListArray, pa.list_)
    dtype = wrap(pa.field(item.name, items.type, item.nullable, item.arrow_field.metadata))
    return make.from_arrays(pa.array(offsets), items, type=dtype, mask=mask)


def _aligned(part: pa.Array, wanted: npt.NDArray[np.int64], deleted: Mask | None, field: Field, path: str) -> pa.Array:
    """The items of a part, as many for each row as the first part has."""
    lengths = _lengths(part)
    items = part.flatten()
    wrong = lengths != wanted
    if not wrong.any():
        return items
    if deleted is None or (wrong & ~deleted).any():
        raise CorruptFile(path, f"the files of column '{field.name}' have lists of different lengths")
    starts = np.cumsum(lengths) - lengths
    ends = np.cumsum(wanted)
    source = np.repeat(starts - (ends - wanted), wanted) + np.arange(int(wanted.sum()))
    return pick_rows(items, pa.array(source, mask=np.repeat(wrong, wanted)))


def _lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    """Items of each row; a null has none."""
    found = pc.list_value_length(lists)
    counts = found.fill_null(0) if found.null_count else found
    numbers: npt.NDArray[np.int64] = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
